//! A run in which each thread or stream does one thing at a time.

use super::{ReplayRun, Rules};
use crate::graph::followers::Followers;
use etlink_model::{DurationNs, EdgeIdx, NodeIdx, ResourceIdx, TimeNs};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Event of a node. Ordered by time; simultaneous ends precede starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ResourceEvent {
    Ended,
    Ready,
}

/// State of a thread or stream.
#[derive(Clone, Default)]
struct ResourceState {
    /// Nodes ready to run, by measured start.
    waiting: BinaryHeap<Reverse<(TimeNs, NodeIdx)>>,
    running: Option<NodeIdx>,
    last: Option<NodeIdx>,
}

struct Machine<'r> {
    rules: &'r Rules<'r>,
    run: ReplayRun,
    ready: Vec<TimeNs>,
    events: BinaryHeap<Reverse<(TimeNs, ResourceEvent, NodeIdx)>>,
    resources: Vec<ResourceState>,
    /// Resources at which a node may start now.
    touched: Vec<ResourceIdx>,
}

pub(crate) fn run_graph(rules: &Rules<'_>, duration: Vec<DurationNs>) -> ReplayRun {
    let graph = rules.graph;
    let nodes = graph.len();
    let run = ReplayRun {
        start: vec![TimeNs(0); nodes],
        duration,
        decided: vec![EdgeIdx::NONE; nodes],
        held: vec![NodeIdx::NONE; nodes],
    };
    // Counted from the nodes, because a builder may have been given too few resources.
    let last = graph.resource.iter().max();
    let count = last.map_or(0, |last| last.index() + 1);
    let mut machine = Machine {
        rules,
        run,
        ready: vec![TimeNs(0); nodes],
        events: BinaryHeap::new(),
        resources: vec![ResourceState::default(); count],
        touched: vec![],
    };
    let followers = Followers::new(graph, |dep| rules.counts(dep.kind));
    let mut waits = vec![0u32; nodes];
    for node in graph.indices() {
        let deps = graph.deps(node).filter(|dep| rules.counts(dep.kind));
        waits[node.index()] = deps.count() as u32;
        if waits[node.index()] == 0 {
            machine.becomes_ready(node);
        }
    }
    while let Some(Reverse((now, what, node))) = machine.events.pop() {
        match what {
            ResourceEvent::Ready => machine.enqueue_node(node, now),
            ResourceEvent::Ended => {
                machine.free_resource(node);
                for &follower in followers.of_node(node) {
                    waits[follower.index()] -= 1;
                    if waits[follower.index()] == 0 {
                        machine.becomes_ready(follower);
                    }
                }
            }
        }
        // All nodes that end or become ready at this instant must be known before a resource
        // chooses.
        if machine.events.peek().is_none_or(|next| next.0.0 > now) {
            machine.start_touched(now);
        }
    }
    machine.run
}

impl Machine<'_> {
    fn becomes_ready(&mut self, node: NodeIdx) {
        let (ready, decided) = self.rules.earliest_start(node, &self.run);
        (self.ready[node.index()], self.run.decided[node.index()]) = (ready, decided);
        self.events
            .push(Reverse((ready, ResourceEvent::Ready, node)));
    }

    fn enqueue_node(&mut self, node: NodeIdx, now: TimeNs) {
        let graph = self.rules.graph;
        // A delay is time that passes for one node: it must not keep others from the thread or
        // stream.
        if graph.kind[node.index()].is_delay() {
            return self.start_node(node, now);
        }
        let resource = graph.resource[node.index()];
        // Nodes run in the order of their measured starts; the number breaks ties.
        let turn = (graph.start[node.index()], node);
        let state = &mut self.resources[resource.index()];
        state.waiting.push(Reverse(turn));
        self.touched.push(resource);
    }

    fn free_resource(&mut self, node: NodeIdx) {
        let number = self.rules.graph.resource[node.index()];
        let resource = &mut self.resources[number.index()];
        // a delay ends too, but never held the resource
        if resource.running == Some(node) {
            (resource.running, resource.last) = (None, Some(node));
            self.touched.push(number);
        }
    }

    fn start_node(&mut self, node: NodeIdx, now: TimeNs) {
        self.run.start[node.index()] = now;
        self.events
            .push(Reverse((self.run.end(node), ResourceEvent::Ended, node)));
    }

    /// Starts nodes once all events at this instant are known.
    fn start_touched(&mut self, now: TimeNs) {
        while let Some(number) = self.touched.pop() {
            let resource = &mut self.resources[number.index()];
            if resource.running.is_some() {
                continue;
            }
            let Some(Reverse((_, node))) = resource.waiting.pop() else {
                continue;
            };
            // The node could have started earlier: the last one to run held it up. A delay never
            // holds up others, because it does not run on the resource.
            if now > self.ready[node.index()] {
                self.run.held[node.index()] = resource.last.unwrap_or(NodeIdx::NONE);
            }
            resource.running = Some(node);
            self.start_node(node, now);
        }
    }
}
