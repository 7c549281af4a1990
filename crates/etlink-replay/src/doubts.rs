//! Open questions about the waits of a recording.
//!
//! ```text
//! thread      launch A      wait   launch B
//! stream 7    ==A==           .
//! stream 20                   .         ==B==     does B wait for A? A had ended long before
//! ```
//! A wait that held something up shows in the times. A wait that held nothing up leaves only its
//! call, and decides once its cause takes longer. Without `cuda_sync` rows the linker infers the
//! most likely cause of such a wait. This module has the two extremes: such waits have no cause, or
//! each is for all work launched before, as far as the times allow.

use crate::assumed::PossibleWait;
use crate::graph::{EdgeKind, ReplayGraph, ReplayKind};
use crate::labels::LabelSource;
use crate::run::ReplayRun;
use etlink_model::{DurationNs, EdgeIdx, GlobalRank, NodeIdx, TimeNs};
use std::collections::BTreeSet;

/// Inferred waits that may be wrong, and waits that may be missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubts {
    /// Inferred edges that held nothing up, ascending.
    pub(crate) doubtful: Vec<EdgeIdx>,
    /// Waits that would have held nothing up, by the node that waits.
    pub(crate) possible: Vec<PossibleWait>,
}

impl Doubts {
    /// Collects the open questions of a graph; `plain` is the run without changes. O(n log n +
    /// waits x streams).
    pub(crate) fn new(graph: &ReplayGraph, labels: &dyn LabelSource, plain: &ReplayRun) -> Doubts {
        let mut doubts = Doubts::default();
        let mut stated = BTreeSet::new();
        for node in graph.indices() {
            for edge in graph.edges_to(node) {
                let dep = graph.dep(edge);
                let is_wait = matches!(dep.kind, EdgeKind::EventWait | EdgeKind::HostWait);
                if is_wait && !dep.inferred {
                    stated.insert(graph.rank(node));
                }
                let held_up = plain.deciding_edge(node) == Some(edge);
                if is_wait && dep.inferred && !held_up && !is_certain(labels.name(node)) {
                    doubts.doubtful.push(edge);
                }
            }
        }
        if graph.measured {
            let mut launched = Launched::new(graph);
            launched.add_possible_waits(labels, &stated, &mut doubts.possible);
        }
        doubts.possible.sort_unstable();
        doubts
    }
}

/// Returns true if the name of a call determines what it waits for: all work launched to a device,
/// or room in a launch queue that was observed to be full.
fn is_certain(name: &str) -> bool {
    name.contains("DeviceSynchronize") || name.contains("Launch")
}

/// Launch or wait of a call.
enum Event {
    Launch(NodeIdx),
    StreamWait,
    HostWait(NodeIdx),
}

/// Latest device op of each stream at a point of the program.
struct Launched<'g> {
    graph: &'g ReplayGraph,
    /// Latest device op per resource; empty for threads.
    last: Vec<Option<NodeIdx>>,
    /// Number of waits called before the last launch, per stream.
    waits_seen: Vec<usize>,
    /// Latest device ops at the call of each wait.
    at_waits: Vec<Vec<NodeIdx>>,
}

impl<'g> Launched<'g> {
    fn new(graph: &'g ReplayGraph) -> Launched<'g> {
        Launched {
            graph,
            last: vec![None; graph.resources.len()],
            waits_seen: vec![0; graph.resources.len()],
            at_waits: vec![],
        }
    }

    /// Adds waits that calls can have made and that no edge shows, except on ranks with stated
    /// waits.
    fn add_possible_waits(
        &mut self,
        labels: &dyn LabelSource,
        stated: &BTreeSet<Option<GlobalRank>>,
        possible: &mut Vec<PossibleWait>,
    ) {
        for (_, event) in self.events(labels, stated) {
            match event {
                Event::StreamWait => {
                    let all = self.last.iter().flatten();
                    self.at_waits.push(all.copied().collect());
                }
                Event::HostWait(call) => {
                    for from in self.last.iter().flatten() {
                        self.add(call, *from, EdgeKind::HostWait, possible);
                    }
                }
                Event::Launch(op) => {
                    let stream = self.graph.resource[op.index()].index();
                    if self.waits_seen[stream] < self.at_waits.len() {
                        self.waits_seen[stream] = self.at_waits.len();
                        for from in self.at_waits.last().into_iter().flatten() {
                            self.add(op, *from, EdgeKind::EventWait, possible);
                        }
                    }
                    self.last[stream] = Some(op);
                }
            }
        }
    }

    fn add(&self, to: NodeIdx, from: NodeIdx, kind: EdgeKind, possible: &mut Vec<PossibleWait>) {
        let graph = self.graph;
        let slack = graph.start[to.index()].since(graph.end(from));
        let same_stream = graph.resource[to.index()] == graph.resource[from.index()];
        if slack < 0 || from >= to || same_stream || graph.rank(to) != graph.rank(from) {
            return;
        }
        possible.push(PossibleWait {
            to,
            from,
            kind,
            latency: DurationNs(slack.min(EVENT_LATENCY.0)),
        });
    }

    /// Returns launches and waits, by time.
    fn events(
        &self,
        labels: &dyn LabelSource,
        stated: &BTreeSet<Option<GlobalRank>>,
    ) -> Vec<(TimeNs, Event)> {
        let graph = self.graph;
        let mut events = vec![];
        for node in graph.indices() {
            let mut deps = graph.deps(node);
            if graph.is_device_op(node) {
                let launch = deps.find(|dep| dep.kind == EdgeKind::Launch);
                events.extend(launch.map(|dep| (graph.end(dep.from), Event::Launch(node))));
                continue;
            }
            let is_open = graph.kind[node.index()] == ReplayKind::Runtime
                && !stated.contains(&graph.rank(node));
            if !is_open {
                continue;
            }
            let name = labels.name(node);
            if name.contains("StreamWaitEvent") {
                events.push((graph.start[node.index()], Event::StreamWait));
            }
            let waits = deps.any(|dep| dep.kind == EdgeKind::HostWait);
            if !waits && name.contains("Synchronize") {
                events.push((graph.start[node.index()], Event::HostWait(node)));
            }
        }
        events.sort_by_key(|(time, _)| *time);
        events
    }
}

/// Default latency from an event to the stream that waits for it, if no edge in the recording
/// decided.
const EVENT_LATENCY: DurationNs = DurationNs(2_000);
