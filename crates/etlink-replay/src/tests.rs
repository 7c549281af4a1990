//! Small graphs drawn by hand, and random ones.

mod by_hand;
mod edits;
mod joined;
mod latency;
mod random;

use crate::{
    EdgeKind, Error, GraphBuilder, LabelSource, ReplayDep, ReplayGraph, ReplayKind, ReplayNode,
    ReplayRun, ReplaySettings, Resource, run_graph, stream_resource, thread_resource,
};
use etlink_model::{Correlation, DurationNs, NodeIdx, ResourceIdx, TimeNs};

/// Nodes with names; thread 1 is resource 0, stream 7 resource 1, stream 8 resource 2.
#[derive(Default)]
struct Drawing {
    nodes: Vec<(ReplayNode, Vec<ReplayDep>)>,
    names: Vec<&'static str>,
}

impl Drawing {
    /// Adds a node with a known or unknown start; returns its number.
    fn node(
        &mut self,
        name: &'static str,
        kind: ReplayKind,
        resource: u32,
        start: Option<i64>,
        duration: i64,
    ) -> NodeIdx {
        self.nodes.push((
            ReplayNode {
                kind,
                resource: ResourceIdx(resource),
                start: start.map(TimeNs),
                duration: DurationNs(duration),
            },
            vec![],
        ));
        self.names.push(name);
        NodeIdx(self.nodes.len() as u32 - 1)
    }

    fn edge(&mut self, from: NodeIdx, kind: EdgeKind, to: NodeIdx) {
        self.nodes[to.index()].1.push(ReplayDep {
            from,
            kind,
            inferred: false,
            latency: None,
        });
    }

    fn try_graph(&self) -> Result<ReplayGraph, Error> {
        let resources: Vec<Resource> = vec![
            thread_resource("1"),
            stream_resource(7, Some(0)),
            stream_resource(8, Some(0)),
        ];
        let mut builder = GraphBuilder::new(resources);
        self.nodes
            .iter()
            .for_each(|(node, deps)| builder.push(*node, deps.iter().copied()));
        builder.finish()
    }

    fn graph(&self) -> ReplayGraph {
        self.try_graph().expect("no cycle")
    }

    fn run(&self, settings: &ReplaySettings) -> ReplayRun {
        run_graph(&self.graph(), self, settings)
    }
}

impl LabelSource for Drawing {
    fn name(&self, node: NodeIdx) -> &str {
        self.names[node.index()]
    }

    fn correlation(&self, node: NodeIdx) -> Option<Correlation> {
        Some(Correlation(i64::from(node.0) + 100))
    }
}

fn starts(run: &ReplayRun) -> Vec<i64> {
    run.start.iter().map(|start| start.0).collect()
}
