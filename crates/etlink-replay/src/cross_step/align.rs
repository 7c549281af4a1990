//! Aligns the nodes of two steps.
//!
//! Threads and streams are aligned one by one. Ops, launches and rows must be the same in the same
//! order. Between two of them, slices, gaps and calls that launch nothing may differ: a thread has
//! a gap only if time passed, and an allocator queries events any number of times.

use super::split::{SplitSteps, StepNodes};
use etlink_link::{LinkedTrace, NodeKind};
use etlink_model::{DurationNs, NodeIdx, ResourceIdx};
use std::collections::BTreeMap;

/// A step with the durations of another step.
pub(super) struct AlignedStep {
    /// Matching node of the other step, per node of the step; [`NodeIdx::NONE`] without a match.
    pub(super) partner: Vec<NodeIdx>,
    /// Duration, per node of the step.
    pub(super) duration: Vec<DurationNs>,
}

/// Properties that two matching nodes share.
type NodeKey<'t> = (NodeKind, &'t str);

/// A node other than a delay, by its place in its step.
#[derive(Clone, Copy)]
struct Placed<'t> {
    place: usize,
    node: NodeIdx,
    key: NodeKey<'t>,
    /// True if both steps must have the node.
    anchor: bool,
}

/// Aligns two steps; returns `None` if the steps do different work.
pub(super) fn align_steps(
    trace: &LinkedTrace,
    split: &SplitSteps,
    own: &StepNodes,
    other: &StepNodes,
) -> Option<AlignedStep> {
    let durations = own.nodes.iter();
    let mut aligned = AlignedStep {
        partner: vec![NodeIdx::NONE; own.nodes.len()],
        duration: durations
            .map(|node| trace.nodes.duration[node.index()])
            .collect(),
    };
    let (ours, mut others) = (
        by_resource(trace, split, own),
        by_resource(trace, split, other),
    );
    for (resource, nodes) in &ours {
        let theirs = others.remove(resource).unwrap_or_default();
        // Threads that load data do any due work, whatever the step: their times are kept.
        let is_free = resource.on_thread && resource.place != split.main;
        if !anchors(nodes).eq(anchors(&theirs)) {
            if is_free {
                continue;
            }
            return None;
        }
        align_place(trace, nodes, &theirs, &mut aligned);
    }
    let is_missing = |(resource, nodes): (&Place, &Vec<Placed<'_>>)| {
        !resource.on_thread && nodes.iter().any(|node| node.anchor)
    };
    // The other step uses an additional stream.
    (!others.iter().any(is_missing)).then_some(aligned)
}

fn anchors<'a, 't>(nodes: &'a [Placed<'t>]) -> impl Iterator<Item = NodeKey<'t>> + use<'a, 't> {
    nodes.iter().filter(|node| node.anchor).map(|node| node.key)
}

/// A thread or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    on_thread: bool,
    place: ResourceIdx,
}

/// Returns the nodes of each thread and stream, in order, without delays.
fn by_resource<'t>(
    trace: &'t LinkedTrace,
    split: &SplitSteps,
    step: &StepNodes,
) -> BTreeMap<Place, Vec<Placed<'t>>> {
    let mut places: BTreeMap<Place, Vec<Placed<'t>>> = BTreeMap::new();
    for (place, &index) in step.nodes.iter().enumerate() {
        let node = trace.nodes.get(index);
        if node.kind.is_delay() {
            continue;
        }
        let anchor = match node.kind {
            NodeKind::HostOp => node.first,
            NodeKind::Runtime => node.first && split.is_launch(node.source),
            NodeKind::HostGap => false,
            _ => true,
        };
        // A gap has the name of the range around it, which includes the step number.
        let name = match node.kind {
            NodeKind::HostGap => "",
            _ => trace.name(&node),
        };
        let resource = Place {
            on_thread: !node.on_device,
            place: ResourceIdx(node.track.0),
        };
        places.entry(resource).or_default().push(Placed {
            place,
            node: index,
            key: (node.kind, name),
            anchor,
        });
    }
    places
}

/// Copies the durations of the other step to the nodes of a thread or stream. Both must have the
/// same anchors.
fn align_place(
    trace: &LinkedTrace,
    ours: &[Placed<'_>],
    theirs: &[Placed<'_>],
    aligned: &mut AlignedStep,
) {
    let mut rest = theirs;
    // Our last node before the current one: time that only the other step has is added to it.
    let mut before: Option<usize> = None;
    for own in ours {
        let anchor = rest.iter().position(|other| other.anchor);
        let until = anchor.map_or(rest.len(), |at| at + usize::from(own.anchor));
        let mut open = rest[..until].iter();
        let found = if own.anchor {
            anchor
        } else {
            open.position(|other| other.key == own.key)
        };
        let Some(found) = found else {
            aligned.duration[own.place] = DurationNs::ZERO;
            continue;
        };
        let skipped: DurationNs = rest[..found].iter().map(|node| duration(trace, node)).sum();
        aligned.duration[own.place] = duration(trace, &rest[found]);
        aligned.partner[own.place] = rest[found].node;
        aligned.duration[before.unwrap_or(own.place)] += skipped;
        rest = &rest[found + 1..];
        before = Some(own.place);
    }
    let left: DurationNs = rest.iter().map(|node| duration(trace, node)).sum();
    if let Some(last) = before {
        aligned.duration[last] += left;
    }
}

fn duration(trace: &LinkedTrace, placed: &Placed<'_>) -> DurationNs {
    trace.nodes.duration[placed.node.index()]
}
