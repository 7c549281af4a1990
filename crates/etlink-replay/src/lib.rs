//! Runs a dependency graph with nothing but its edges, durations and latencies.
//!
//! ```text
//! LinkedTrace ─ graph_of ─┐
//! any other ─── Builder ──┴> Graph ─ run ─> Run ─┬─ figures        how true is the graph
//!                                                ├─ critical_path  why did it take so long
//!                                                └─ explain        why did this node start then
//! ```
//! A graph that is true gives the measured times back. What-if questions are settings of the run:
//! factors on durations, kinds of edges left out, one thing at a time per thread and stream.
//! Pure, without recursion; O(nodes + edges), with resources O(nodes log nodes + edges).

mod explain;
mod figures;
mod followers;
mod graph;
mod labels;
mod linked;
mod order;
mod path;
mod resources;
mod run;
mod scale;
mod stats;
mod together;

#[cfg(test)]
mod tests;

pub use explain::{ExplainedDep, Explanation, explain};
pub use figures::{
    CLOCK_TOLERANCE_NS, Contradictions, Delays, EdgeFigures, EndError, Figures, Named, Unexplained,
    figures,
};
pub use graph::{Builder, Dep, EdgeKind, Error, Graph, Kind, Node, Resource};
pub use labels::{Labels, NodeLabel, find};
pub use linked::{graph_of, stream_resource, thread_resource};
pub use path::{Cause, CauseTime, Crossing, PathReport, Step, StepReport, Via, critical_path};
pub use run::{NONE, Run, Settings, run};
pub use scale::{Scale, ScaleError};
pub use stats::Spread;
pub use together::{
    Collectives, Fate, Joined, Joint, Part, Rank, RankFigures, RankLabels, RankNames, Together,
    joints, together,
};
