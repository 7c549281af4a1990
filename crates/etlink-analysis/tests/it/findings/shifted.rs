//! Moves the device rows of recordings against the host: gains and answers stay.
//!
//! `TRACES=FILE:FILE cargo test -p etlink-analysis shifted:: -- --nocapture` prints the table of
//! further device traces.

use crate::findings::recorded::{Linked, read_device, recordings};
use etlink_analysis::findings::{CauseKind, RunFindings};
use etlink_model::{DeviceTrace, DurationNs};
use etlink_replay::{ReplaySettings, graph_from_trace, run_graph, work_makespan};

const SHIFTS_US: [i64; 16] = [-20, -15, -10, -8, -5, -3, -2, -1, 1, 2, 3, 5, 8, 10, 15, 20];

/// What a recording answers.
struct Answers {
    found: RunFindings,
    /// Changes of the makespan with all device work or all host work of half the length, in ns.
    changes: [i64; 2],
}

impl Answers {
    fn new(mut device: DeviceTrace, shift: DurationNs) -> Answers {
        for start in &mut device.rows.start {
            *start = *start + shift;
        }
        let linked = Linked::new(device);
        let graph = graph_from_trace(&linked.trace).expect("a graph");
        let makespan = |scales| {
            let settings = ReplaySettings {
                scales,
                ..ReplaySettings::default()
            };
            work_makespan(&graph, &run_graph(&graph, &linked.trace, &settings)).0
        };
        let plain = makespan(vec![]);
        let rules = ["kind=device 0.5", "kind=host_op 0.5"];
        Answers {
            changes: rules.map(|rule| makespan(vec![rule.parse().expect("a rule")]) - plain),
            found: linked.findings(),
        }
    }

    /// Returns the greatest difference of a gain or an answer, as a share of the window, and what differs.
    fn difference(&self, other: &Answers) -> (f64, String) {
        let named = |one: &Answers| -> Vec<((CauseKind, String), i64)> {
            let findings = one.found.findings.iter();
            findings
                .map(|one| ((one.kind, one.subject.clone()), one.gain_ns))
                .collect()
        };
        let (mine, others) = (named(self), named(other));
        let gain = |all: &[((CauseKind, String), i64)], key: &(CauseKind, String)| {
            all.iter()
                .filter(|(one, _)| one == key)
                .map(|(_, gain)| *gain)
                .sum::<i64>()
        };
        let keys = mine.iter().chain(&others).map(|(key, _)| key);
        let of_gains = keys.map(|key| {
            let (one, two) = (gain(&mine, key), gain(&others, key));
            ((one - two).abs(), format!("{key:?} {one} {two}"))
        });
        let changes = self.changes.into_iter().zip(other.changes);
        let of_changes =
            changes.map(|(one, two)| ((one - two).abs(), format!("scale {one} {two}")));
        let (ns, text) = of_gains.chain(of_changes).max().unwrap_or_default();
        (ns as f64 / self.found.window_ns.max(1) as f64, text)
    }
}

#[test]
fn gains_do_not_depend_on_the_clock_of_the_device() {
    let (mut runs, mut within) = (0, 0);
    for (name, path, _) in recordings("gemm-base,compile-base,loader-base,nccl") {
        let device = read_device(&path);
        let plain = Answers::new(device.clone(), DurationNs(0));
        for us in SHIFTS_US {
            let shifted = Answers::new(device.clone(), DurationNs(us * 1_000));
            let (share, text) = plain.difference(&shifted);
            let first = |one: &Answers| one.found.findings.first().map(|one| one.kind);
            let same = first(&plain) == first(&shifted);
            runs += 1;
            within += u32::from(share <= 0.01 && same);
            println!("{name} {us:+} us: {:.2} % {same} {text}", share * 100.0);
        }
    }
    println!("{within} of {runs} within 1 %");
    assert_eq!(within, runs);
}
