//! Evidence that is deleted from a trace shows in the printed figures.
//!
//! A replay of the unchanged trace reproduces the measured times regardless.

use super::cross_step::{link, program};
use super::{handoffs, read_trace};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{Correlation, SyncRows};
use etlink_replay::{
    ReplaySettings, cross_step_figures, graph_from_trace, replay_figures, run_graph, trust_figures,
};

/// Printed figures; smaller is better for all of them.
#[derive(Clone, Copy, Debug)]
struct Printed {
    /// True if no three steps do the same work.
    lacks_steps: bool,
    cross_step: f64,
    unexplained_ns: i64,
    unexplained_calls_ns: i64,
    inferred: u64,
}

impl Printed {
    fn new(trace: &LinkedTrace) -> Printed {
        let graph = graph_from_trace(trace).expect("no circle");
        let run = run_graph(&graph, trace, &ReplaySettings::default());
        let figures = replay_figures(&graph, trace, &run);
        let trust = trust_figures(&graph, trace, &run);
        let steps = cross_step_figures(trace, &graph, 5);
        Printed {
            lacks_steps: steps.is_none(),
            cross_step: steps.map_or(0.0, |steps| steps.error.max),
            unexplained_ns: figures.unexplained.waiting_ns.0,
            unexplained_calls_ns: trust.unexplained_calls_ns.0,
            inferred: figures.by_edge.values().map(|edges| edges.inferred).sum(),
        }
    }

    fn is_worse_than(self, other: Printed) -> bool {
        self.lacks_steps && !other.lacks_steps
            || self.cross_step > other.cross_step + 0.01
            || self.unexplained_ns > other.unexplained_ns
            || self.unexplained_calls_ns > other.unexplained_calls_ns
            || self.inferred > other.inferred
    }
}

/// Links the trace without the meaning of calls with this name, and without `cuda_sync` rows.
fn without_calls(name: &str) -> LinkedTrace {
    let mut device = link(&program(), true).device;
    let calls = device.names.find(name).expect("it has such calls");
    let other = device.names.intern("cudaGetDevice");
    for own in &mut device.calls.name {
        if *own == calls {
            *own = other;
        }
    }
    device.syncs = SyncRows::default();
    etlink_link::link(None, device, LinkOptions::default()).expect("links")
}

fn without_correlations() -> LinkedTrace {
    let mut device = link(&program(), true).device;
    device.calls.correlation.fill(Correlation::NONE);
    etlink_link::link(None, device, LinkOptions::default()).expect("links")
}

#[test]
fn deleted_evidence_shows() {
    let whole = Printed::new(&link(&program(), true));
    assert!(whole.cross_step < 0.02 && !whole.lacks_steps, "{whole:?}");
    assert_eq!(whole.unexplained_calls_ns, 0, "{whole:?}");
    for name in [
        "cudaStreamWaitEvent",
        "cudaEventRecord",
        "cudaStreamSynchronize",
    ] {
        let printed = Printed::new(&without_calls(name));
        assert!(
            printed.is_worse_than(whole),
            "{name}: {printed:?}, {whole:?}"
        );
    }
    let printed = Printed::new(&without_correlations());
    assert!(printed.is_worse_than(whole), "{printed:?}, {whole:?}");
}

#[test]
fn deleted_autograd_ids_show() {
    let (draw, _) = handoffs::steps(1);
    let whole = read_trace(&draw);
    let mut device = whole.device.clone();
    // The engine's own ranges are removed, so the handoffs can only be inferred.
    device.ops.seq_id.fill(-1);
    device.ops.fwd_thread.fill(0);
    let deleted = etlink_link::link(None, device, LinkOptions::default()).expect("links");
    let [whole, deleted] = [whole, deleted].map(|trace| Printed::new(&trace));
    assert!(deleted.is_worse_than(whole), "{deleted:?}, {whole:?}");
}
