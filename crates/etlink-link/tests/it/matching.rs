//! Tests the matching of ops and host nodes.

use crate::support::{both, checked, device, host, pair};
use etlink_link::{LinkOptions, LinkedTrace, MatchRule};
use etlink_model::{AnomalyKind, DiagnosticCode, TrackLabel};
use etlink_testing::{DeviceQueue, HostSchema, RecordIds, TraceBuilder};

/// Draws two steps of `step_ops` ops with a launch each, on one thread of process 1000.
pub(crate) fn training(pid: i64, first_step: i64, names: [&str; 3]) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.process(pid).thread();
    for step in 0..2 {
        let at = step * 1_000_000;
        draw.annotation(
            main,
            &format!("ProfilerStep#{}", first_step + step),
            at,
            at + 900_000,
        );
        for (name, start) in names.iter().cycle().take(24).zip(0..) {
            let start = at + 10_000 + start * 30_000;
            draw.op(main, name, start, start + 20_000);
            draw.launch(
                main,
                (start + 5_000, start + 8_000),
                DeviceQueue::stream(7),
                "k",
                (start + 12_000, start + 25_000),
            );
        }
    }
    draw
}

pub(crate) const NAMES: [&str; 3] = ["aten::mm", "aten::relu", "aten::add_"];

fn matched(trace: &LinkedTrace, rule: MatchRule) -> u64 {
    trace.report.matched.get(&rule).copied().unwrap_or(0)
}

/// True if every matched op has a host node with the same name.
fn names_agree(trace: &LinkedTrace) -> bool {
    let host = trace.host.as_ref().expect("a host trace");
    let agrees = |op: usize| {
        let node = trace.op_host[op].get();
        node.is_none_or(|node| {
            host.names.get(host.nodes.name[node.index()])
                == trace.device.names.get(trace.device.ops.name[op])
        })
    };
    (0..trace.device.ops.len()).all(agrees)
}

#[test]
fn by_id_in_every_schema() {
    let draw = training(1000, 2, NAMES);
    for schema in HostSchema::ALL {
        let host = etlink_formats::host::read(
            &draw.host(schema)[..],
            etlink_formats::host::HostReadOptions::default(),
        )
        .expect("reads");
        let trace = checked(
            etlink_link::link(Some(host), device(&draw), LinkOptions::default()).expect("links"),
        );
        assert_eq!(
            (
                matched(&trace, MatchRule::Id),
                trace.report.host_ops,
                trace.report.cpu_ops
            ),
            (50, 50, 50),
            "{schema:?}"
        );
        assert!(
            names_agree(&trace) && trace.report.diagnostics.is_empty(),
            "{schema:?}: {:?}",
            trace.report.diagnostics
        );
    }
}

#[test]
fn an_id_under_another_name_is_no_match() {
    let mut draw = training(1000, 2, NAMES);
    let main = draw.thread();
    let odd = draw.op(main, "range", 0, 10_000);
    draw.device_name(odd, "other");
    let trace = both(&draw);
    assert_eq!(
        (
            matched(&trace, MatchRule::Id),
            trace.report.unmatched.same_id_other_name
        ),
        (50, 1)
    );
    assert_eq!(trace.report.unmatched.device_not_in_host, 1);
}

#[test]
fn a_name_that_kineto_rewrote_is_the_same_name() {
    for (name, rewritten) in [
        ("say 'hi'", "say 'hi'"),
        (r"C:\Users", "C:/Users"),
        ("r\u{e4}nge", "unknown"),
        (r"two\nlines", "twolines"),
    ] {
        let mut draw = training(1000, 2, NAMES);
        let main = draw.thread();
        let odd = draw.annotation(main, name, 0, 10_000);
        draw.device_name(odd, rewritten);
        assert_eq!(matched(&both(&draw), MatchRule::Id), 51, "{name}");
    }
}

#[test]
fn without_ids_by_order() {
    for ids in [RecordIds::Absent, RecordIds::Zero] {
        let mut draw = training(1000, 2, NAMES);
        let trace = both(draw.record_ids(ids));
        assert_eq!(
            (
                matched(&trace, MatchRule::Order),
                matched(&trace, MatchRule::Id)
            ),
            (50, 0),
            "{ids:?}"
        );
        assert!(names_agree(&trace));
        let said = trace
            .report
            .diagnostics
            .iter()
            .any(|one| one.code == DiagnosticCode::MatchedByOrder);
        assert_eq!(said, ids == RecordIds::Zero);
    }
}

#[test]
fn by_order_threads_are_paired_by_what_they_run() {
    // the host trace counts threads by first use, the device trace has the OS's ids
    let mut draw = TraceBuilder::default();
    let (main, backward) = (draw.thread(), draw.thread());
    for at in 0..40 {
        draw.op(
            backward,
            ["MmBackward0", "ReluBackward0"][at % 2],
            at as i64 * 10_000,
            at as i64 * 10_000 + 5_000,
        );
        draw.op(
            main,
            ["aten::mm", "aten::relu", "aten::mm"][at % 3],
            at as i64 * 10_000,
            at as i64 * 10_000 + 5_000,
        );
    }
    let trace = both(draw.record_ids(RecordIds::Absent));
    assert_eq!(matched(&trace, MatchRule::Order), 80);
    assert!(names_agree(&trace));
}

#[test]
fn by_order_threads_that_run_the_same_are_told_apart_by_first_use() {
    // the later thread comes first in the file
    let mut draw = TraceBuilder::default();
    let threads = [draw.thread(), draw.thread(), draw.thread()];
    for (thread, late) in [(2, 200), (1, 100), (0, 0)] {
        for at in 0..40 {
            let start = (late + at * 1_000) * 1_000;
            draw.op(
                threads[thread],
                ["aten::mm", "aten::relu"][at as usize % 2],
                start,
                start + 50_000,
            );
        }
    }
    let truth = both(&draw).op_host;
    assert_eq!(both(draw.record_ids(RecordIds::Absent)).op_host, truth);
}

#[test]
fn by_order_a_range_that_a_worker_ended_is_matched_on_its_launcher_s_thread() {
    // host   main  mm  gloo:all_reduce  mm …      device   main  mm  mm …   worker  gloo:all_reduce
    // …
    let (mut of_host, mut of_device) = (TraceBuilder::default(), TraceBuilder::default());
    let (main, on_main, worker) = (of_host.thread(), of_device.thread(), of_device.thread());
    for at in 0..10 {
        let start = at * 100_000;
        for draw in [&mut of_host, &mut of_device] {
            draw.op(main, "aten::mm", start, start + 30_000);
        }
        of_host.annotation(main, "gloo:all_reduce", start + 40_000, start + 60_000);
        of_device.annotation(worker, "gloo:all_reduce", start + 40_000, start + 60_000);
    }
    assert_eq!(main, on_main);
    let trace = checked(pair(&of_host, of_device.record_ids(RecordIds::Absent)).expect("links"));
    assert_eq!(matched(&trace, MatchRule::Order), 20);
    assert!(names_agree(&trace));
}

#[test]
fn by_order_a_range_of_a_worker_leaves_those_that_are_matched() {
    // host   main  mm  gloo:all_reduce  gloo:all_reduce      device   main  mm  gloo:all_reduce
    // device worker                     gloo:all_reduce
    let (mut of_host, mut of_device) = (TraceBuilder::default(), TraceBuilder::default());
    let (main, _, worker) = (of_host.thread(), of_device.thread(), of_device.thread());
    for at in 0..10 {
        let start = at * 100_000;
        for draw in [&mut of_host, &mut of_device] {
            draw.op(main, "aten::mm", start, start + 30_000);
            draw.annotation(main, "gloo:all_reduce", start + 32_000, start + 38_000);
        }
        of_host.annotation(main, "gloo:all_reduce", start + 40_000, start + 60_000);
        of_device.annotation(worker, "gloo:all_reduce", start + 40_000, start + 60_000);
    }
    let trace = checked(pair(&of_host, of_device.record_ids(RecordIds::Absent)).expect("links"));
    assert_eq!(matched(&trace, MatchRule::Order), 30);
    let mut nodes: Vec<_> = trace.op_host.iter().filter_map(|node| node.get()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 30, "two ops have one node");
    assert!(names_agree(&trace));
}

/// Draws a loop whose ops have the sequence numbers of autograd that `number` returns.
fn numbered(number: impl Fn(i64) -> Option<i64>) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for at in 0..20 {
        let op = draw.op(main, "aten::mm", at * 1_000, at * 1_000 + 500);
        if let Some(number) = number(at) {
            draw.sequence(op, number, 0);
        }
    }
    draw
}

#[test]
fn by_order_a_number_that_one_trace_lacks_contradicts_nothing() {
    let contradicting = |of_device: &dyn Fn(i64) -> Option<i64>| {
        let host = numbered(|at| Some(at + 1));
        let mut device = numbered(of_device);
        let trace = checked(pair(&host, device.record_ids(RecordIds::Absent)).expect("links"));
        assert_eq!(matched(&trace, MatchRule::Order), 20);
        trace.report.anomalies.count(AnomalyKind::SequenceDiffers)
    };
    assert_eq!(contradicting(&|_| None), 0);
    assert_eq!(contradicting(&|at| Some(at + 1)), 0);
    // 0 is a number too
    assert_eq!(contradicting(&|_| Some(0)), 20);
}

#[test]
fn by_order_with_ops_missing_on_either_side() {
    let mut draw = training(1000, 2, ["aten::mm", "aten::relu", "aten::t"]);
    let main = draw.thread();
    for at in 0..40 {
        let op = draw.op(main, &format!("op{at}"), at * 1_000, at * 1_000 + 500);
        match at {
            7 | 20 => draw.not_in_host(op),
            12 | 30 => draw.not_in_device(op),
            _ => {}
        }
    }
    assert_eq!(both(&draw).report.anomalies.count(AnomalyKind::OpLost), 2);
    let trace = both(draw.record_ids(RecordIds::Absent));
    assert_eq!(trace.report.anomalies.count(AnomalyKind::OpLost), 0);
    assert_eq!(matched(&trace, MatchRule::Order), 86);
    assert_eq!(
        (
            trace.report.unmatched.device_not_in_host,
            trace.report.unmatched.host_not_in_device
        ),
        (2, 2)
    );
    assert!(names_agree(&trace));
}

#[test]
fn host_nodes_outside_the_device_window_keep_no_times() {
    let mut draw = training(1000, 2, NAMES);
    let main = draw.thread();
    for at in 0..3 {
        let early = draw.op(main, "early", at * 10 - 1_000, at * 10 - 995);
        draw.not_in_device(early);
    }
    assert_eq!(both(&draw).report.unmatched.host_outside_window, 3);
}

#[test]
fn two_runs_of_one_program_are_linked_and_noted_first() {
    let (mut of_host, mut of_device) = (training(1000, 2, NAMES), training(4711, 2, NAMES));
    of_host.distributed(0, 2);
    of_device.distributed(0, 2);
    let trace = checked(pair(&of_host, &of_device).expect("links"));
    let first = &trace.report.diagnostics[0];
    assert_eq!(first.code, DiagnosticCode::TwoRuns);
    assert!(
        first.message.contains("(process 1000 and 4711)"),
        "{first:?}"
    );
    assert_eq!(matched(&trace, MatchRule::Id), 50);
    assert!(!DiagnosticCode::TwoRuns.is_in(&both(&of_host).report.diagnostics));
}

#[test]
fn interleaved_steps_are_matched_by_order_and_their_labels_by_place() {
    let (mut of_host, mut of_device) = (training(1000, 2, NAMES), training(1000, 4, NAMES));
    // the profiler ran without the observer, which assigns the ids
    of_host.record_ids(RecordIds::Absent);
    of_device.record_ids(RecordIds::Absent);
    let options = LinkOptions {
        is_interleaved: true,
        ..LinkOptions::default()
    };
    let linked = etlink_link::link(Some(host(&of_host)), device(&of_device), options);
    let trace = checked(linked.expect("links"));
    assert_eq!(matched(&trace, MatchRule::Order), 50);
    assert_eq!(
        trace.report.anomalies.count(AnomalyKind::SequenceDiffers),
        0
    );
    let [told] = &trace.report.diagnostics[..] else {
        panic!("{:?}", trace.report.diagnostics);
    };
    assert_eq!(told.code, DiagnosticCode::Interleaved);
    let steps = "the host trace is of ProfilerStep#2, ProfilerStep#3, the device trace of \
        ProfilerStep#4, ProfilerStep#5.";
    assert!(told.message.contains(steps), "{told:?}");
    assert!(pair(&of_host, &of_device).is_err());
}

#[test]
fn ids_used_twice_match_once() {
    let draw = training(1000, 2, NAMES);
    let mut twice = device(&draw);
    twice.ops.rf_id[30] = twice.ops.rf_id[27];
    let trace = checked(
        etlink_link::link(Some(host(&draw)), twice, LinkOptions::default()).expect("links"),
    );
    assert_eq!(matched(&trace, MatchRule::Id), 49);
    assert_eq!(trace.report.anomalies.count(AnomalyKind::DuplicateRfId), 1);
}

/// Processes of a merged device trace all count their ids from 1.
#[test]
fn ids_of_another_process_match_nothing() {
    let mut draw = training(1000, 2, NAMES);
    let own = host(&draw);
    let other = draw.thread();
    // after the others, so that they have the ids of the host trace
    draw.op(other, NAMES[0], 3_000_000, 3_005_000);
    let mut merged = device(&draw);
    let threads = &merged.ops.thread;
    let of_main = threads[0];
    let stranger = (0..threads.len()).find(|op| threads[*op] != of_main);
    let stranger = stranger.expect("an op of another thread");
    merged.threads[merged.ops.thread[stranger].index()].pid = TrackLabel::Int(2000);
    let is_twin = |op: &usize| *op != stranger && merged.ops.name[*op] == merged.ops.name[stranger];
    let twin = (0..merged.ops.len()).find(is_twin);
    let twin = twin.expect("an op of that name");
    merged.ops.rf_id[stranger] = merged.ops.rf_id[twin];
    let linked = etlink_link::link(Some(own), merged, LinkOptions::default());
    let trace = checked(linked.expect("links"));
    assert_eq!(matched(&trace, MatchRule::Id), 50);
    assert_eq!(trace.report.anomalies.count(AnomalyKind::DuplicateRfId), 0);
    assert!(trace.op_host[stranger].get().is_none() && trace.op_host[twin].get().is_some());
}

#[test]
fn a_host_trace_of_ranges_that_both_have_counts_other_parents() {
    let draw = training(1000, 2, NAMES);
    let mut stale = host(&draw);
    let node = stale.nodes.len() - 1;
    stale.nodes.parent[node] = stale.nodes.id[5];
    let trace = checked(
        etlink_link::link(Some(stale), device(&draw), LinkOptions::default()).expect("links"),
    );
    assert_eq!(trace.report.anomalies.count(AnomalyKind::ParentDiffers), 1);
}
