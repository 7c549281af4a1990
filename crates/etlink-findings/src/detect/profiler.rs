//! What recording itself took.

use crate::candidate::{CauseCandidate, CauseEvidence};
use crate::kind::CauseKind;
use crate::text::{median_ns, sum_ns};
use crate::view::{HostSpan, RankView};
use etlink_link::NodeKind;
use etlink_model::{AuxiliaryKind, NodeIdx, ThreadIdx};
use etlink_replay::GraphEdits;
use std::collections::BTreeMap;

/// `overhead` rows of the profiler, inside of the calls that they ran in.
pub(crate) fn profiler_overhead(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let events = &view.trace.device.auxiliary;
    let mut taken: BTreeMap<NodeIdx, i64> = BTreeMap::new();
    let mut times = vec![];
    let mut by_name: BTreeMap<&str, i64> = BTreeMap::new();
    let mut begin = None;
    for event in 0..events.kind.len() {
        let start = events.start[event].0;
        if events.kind[event] != AuxiliaryKind::Overhead
            || start < view.span.0
            || start >= view.span.1
        {
            continue;
        }
        let took = events.duration[event].0;
        times.push(took);
        let name = view.trace.device_name(events.name[event]);
        let sum = by_name.entry(name).or_default();
        *sum = sum.saturating_add(took);
        begin = begin.or(Some(start));
        take_from_calls(view, (start, start.saturating_add(took)), &mut taken);
    }
    let mut edits = GraphEdits::default();
    for (node, ns) in taken {
        let length = view.trace.nodes.duration[node.index()].0.max(1);
        // Rows of the profiler can overlap each other.
        let rest = length.saturating_sub(ns).max(0);
        edits.scaled.push((node, rest as f64 / length as f64));
    }
    let longest = by_name.iter().max_by_key(|(_, ns)| **ns);
    let subject = longest.map_or("", |(name, _)| name);
    let evidence = CauseEvidence {
        count: times.len() as u64,
        time_ns: sum_ns(times.iter().copied()),
        typical_ns: median_ns(&mut times),
        start_ns: begin,
        ..CauseEvidence::default()
    };
    vec![view.candidate(CauseKind::ProfilerOverhead, subject, edits, evidence)]
}

/// The rows do not say on which thread the profiler worked: CUPTI does so inside of the calls of
/// the program, so it is the thread that is in one.
fn take_from_calls(view: &RankView<'_>, span: (i64, i64), taken: &mut BTreeMap<NodeIdx, i64>) {
    for thread in (0..view.of_thread.len()).map(ThreadIdx::new) {
        if view.launched[thread.index()].is_empty() {
            continue;
        }
        // The call can have begun before the profiler's work in it.
        let nodes = &view.of_thread[thread.index()];
        let starts = |node: &NodeIdx| view.trace.nodes.start[node.index()].0 <= span.0;
        let first = nodes.partition_point(starts).checked_sub(1);
        let later = view.nodes_in(HostSpan {
            thread,
            start: span.0 + 1,
            end: span.1,
        });
        let around = first.map(|first| nodes[first]);
        for node in around.into_iter().chain(later.iter().copied()) {
            let is_call = view.trace.nodes.kind[node.index()] == NodeKind::Runtime;
            let (start, end) = view.node_span(node);
            let common = end.min(span.1).saturating_sub(start.max(span.0));
            if is_call && common > 0 {
                let sum = taken.entry(node).or_default();
                *sum = common.saturating_add(*sum);
            }
        }
    }
}
