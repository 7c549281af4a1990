//! Plants faults into recordings of PyTorch by moving event times; the truth is the growth of the
//! run's window.

use etlink_analysis::findings::{CauseKind, RankPart, RunFindings, rank_causes, run_findings};
use etlink_analysis::{KernelRules, Options, analyze};
use etlink_link::LinkOptions;
use etlink_link::ranks::RunSteps;
use etlink_model::{DeviceTrace, DurationNs, NodeIdx, TimeNs};
use etlink_replay::graph_from_trace;
use flate2::read::MultiGzDecoder;

fn read_recording(case: &str) -> DeviceTrace {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("{root}/../../testdata/pairs/{case}/kineto_trace_0.json.gz");
    let file = std::fs::File::open(&path).expect("a recording");
    let options = etlink_formats::kineto::KinetoReadOptions::default();
    etlink_formats::kineto::read(MultiGzDecoder::new(file), options).expect("a device trace")
}

fn find(device: DeviceTrace) -> RunFindings {
    let rules = KernelRules::built_in().expect("rules");
    let trace = etlink_link::link(None, device, LinkOptions::default()).expect("links");
    let analysis = analyze(&trace, &rules, &Options::default());
    let part = RankPart {
        first: NodeIdx(0),
        causes: rank_causes(&trace, &rules, &analysis),
    };
    run_findings(
        &graph_from_trace(&trace).expect("a graph"),
        vec![part],
        &RunSteps::default(),
    )
}

/// Delays all events from `at` on by `by`, and extends those running at that time.
fn hold_up(device: &mut DeviceTrace, at: TimeNs, by: DurationNs) {
    let DeviceTrace {
        ops,
        calls,
        rows,
        syncs,
        waits,
        ..
    } = device;
    let tables = [
        (&mut ops.start, &mut ops.duration),
        (&mut calls.start, &mut calls.duration),
        (&mut rows.start, &mut rows.duration),
        (&mut syncs.start, &mut syncs.duration),
        (&mut waits.start, &mut waits.duration),
    ];
    for (starts, durations) in tables {
        for (start, duration) in starts.iter_mut().zip(durations) {
            match *start + *duration > at {
                _ if *start >= at => *start = *start + by,
                true => *duration += by,
                false => {}
            }
        }
    }
}

fn input_gain(found: &RunFindings) -> i64 {
    let findings = found.findings.iter();
    let of_input = findings.filter(|one| one.kind == CauseKind::InputPipeline);
    of_input.map(|one| one.gain_ns).sum()
}

#[test]
fn longer_waits_for_input_are_named_with_what_they_cost() {
    for case in ["loader-2.15.0", "loader-2.3.1"] {
        let recorded = read_recording(case);
        let plain = find(recorded.clone());
        let mut inputs = vec![];
        for op in 0..recorded.ops.len() {
            let name = recorded.names.get(recorded.ops.name[op]);
            if name.contains("DataLoader") && name.contains("__next__") {
                let half = DurationNs(recorded.ops.duration[op].0 / 2);
                inputs.push(recorded.ops.start[op] + half);
            }
        }
        for us in [400, 2_000, 20_000] {
            let mut device = recorded.clone();
            // The last first, so that the earlier ones stay in place.
            for at in inputs.iter().rev() {
                hold_up(&mut device, *at, DurationNs(us * 1_000));
            }
            let found = find(device);
            let truth = found.window_ns - plain.window_ns + input_gain(&plain);
            let line = format!("{case}, {us} us: {} of {truth}", input_gain(&found));
            assert!((input_gain(&found) - truth).abs() * 10 <= truth, "{line}");
            assert_eq!(found.findings[0].kind, CauseKind::InputPipeline, "{line}");
        }
    }
}
