//! A Kineto trace and the export of the same run give the same device graph.

use crate::nsys::support::{self, read_export, read_kineto, recorded, recorded_host};
use etlink_formats::kineto::KinetoWriteOptions;
use etlink_formats::nsys::NsysReadOptions;
use etlink_link::{EdgeKind, LinkOptions, LinkedTrace, MatchRule, NodeKind};
use etlink_model::{DeviceTrace, NodeIdx};
use std::collections::BTreeMap;

/// Facts about the device side of a graph, one line each, with their number of occurrences.
type Facts = BTreeMap<String, usize>;

fn node_text(trace: &LinkedTrace, node: NodeIdx) -> String {
    let node = trace.nodes.get(node);
    let name = trace.name(&node);
    format!("{:?} {name:?} {} {}", node.kind, node.start, node.duration)
}

/// Lists rows with their streams, starts and launches, and edges between rows or between a row and
/// a call: launches, stream order, waits.
fn device_facts(trace: &LinkedTrace) -> Facts {
    let mut facts = Facts::new();
    let mut add = |fact: String| *facts.entry(fact).or_default() += 1;
    let (device, rows) = (&trace.device, &trace.device.rows);
    for row in 0..rows.len() {
        let queue = device.queues[rows.queue[row].index()];
        let name = device.names.get(rows.name[row]);
        let call = trace.row_call[row].get().map(|call| {
            let call = device.calls.row(call.index());
            (device.names.get(call.name), call.start, call.duration)
        });
        let span = (rows.start[row], rows.duration[row]);
        let why = trace.row_no_launch[row];
        add(format!(
            "row {name:?} {queue:?} {span:?} by {call:?} {why:?}"
        ));
    }
    for edge in trace.edges.iter() {
        let kinds = [edge.from, edge.to].map(|node| trace.nodes.get(node));
        let is_device = kinds.iter().any(|node| node.on_device);
        let is_call = kinds
            .iter()
            .all(|node| node.on_device || node.kind == NodeKind::Runtime);
        if is_device && is_call {
            let ends = [edge.from, edge.to].map(|node| node_text(trace, node));
            let kind: EdgeKind = edge.kind;
            add(format!("edge {kind:?} {ends:?}"));
        }
    }
    facts
}

/// Asserts that a Kineto trace and an export have the same facts, and returns their number.
fn assert_same(kineto: DeviceTrace, export: &str) -> usize {
    let again = read_export(&support::export(export));
    let [one, two] = [kineto, again].map(|trace| {
        let linked = etlink_link::link(None, trace, LinkOptions::default());
        device_facts(&linked.expect("links"))
    });
    assert_eq!(one, two, "{export}");
    one.values().sum()
}

#[test]
fn a_recording_gives_the_same_graph() {
    assert_same(recorded("threads-2.15.0", 0), "threads-2.15.0");
}

/// In `waits`, as in Kineto of 2023, events are named by ids that are reused. `copies` has copies,
/// sets and a kernel that the driver launched; `program` kernels on streams that wait for each other.
#[test]
fn drawn_programs_give_the_same_graph() {
    for (name, least) in [("waits", 5), ("copies", 12), ("program", 50)] {
        let text = support::unpacked(&format!("../nsys/{name}.json.gz"));
        assert!(assert_same(read_kineto(&text), name) > least, "{name}");
    }
}

#[test]
fn ops_pair_with_the_host_trace_by_their_ids() {
    let host = recorded_host("threads-2.15.0", 0);
    let export = read_export(&support::export("threads-2.15.0"));
    let trace = etlink_link::link(Some(host), export, LinkOptions::default());
    let trace = trace.expect("links");
    let by_id = trace.op_rule.iter().filter(|rule| **rule == MatchRule::Id);
    assert!(
        by_id.count() > trace.device.ops.len() / 2,
        "{:?}",
        trace.report.matched
    );
}

#[test]
fn two_connections_give_the_same_trace_as_one() {
    let options = NsysReadOptions::default();
    let text = |trace: &DeviceTrace| {
        crate::kineto::whole_trace::write(trace, vec![], KinetoWriteOptions::default())
            .expect("memory")
    };
    let [one, two] = ["program"; 2].map(support::export);
    let alone = etlink_formats::nsys::read(&one, options).expect("reads");
    let both = etlink_formats::nsys::read_with(&one, Some(two), options).expect("reads");
    assert_eq!(alone.rows.len(), 78);
    assert_eq!(text(&alone), text(&both));
    assert_eq!(alone.events, both.events);
}
