//! Questions about collectives: their time, their groups, their ranks.

use etlink_link::ranks::bus_factor;
use etlink_link::{CollectiveRef, LinkedTrace, NodeKind};
use etlink_model::NodeIdx;
use etlink_replay::GraphEdits;
use std::collections::BTreeSet;

fn communications(trace: &LinkedTrace) -> impl Iterator<Item = NodeIdx> {
    let nodes = trace.nodes.indices();
    nodes.filter(|index| {
        let node = trace.nodes.get(*index);
        // A wait in which a thread was blocked for a communication is the rest of that.
        let waits = || {
            trace
                .host_comm(&node)
                .is_some_and(|comm| comm.node == *index)
        };
        node.kind == NodeKind::Collective || waits()
    })
}

/// What the traces say of each.
fn records(trace: &LinkedTrace) -> impl Iterator<Item = (NodeIdx, CollectiveRef<'_>)> {
    communications(trace).filter_map(|index| {
        let node = trace.nodes.get(index);
        let given = || trace.op_collective(trace.host_comm(&node)?.given.get()?);
        Some((index, trace.collective(&node).or_else(given)?))
    })
}

/// Communication takes no time. Ranks still meet.
pub(super) fn hide_all(trace: &LinkedTrace) -> Result<GraphEdits, String> {
    let scaled: Vec<(NodeIdx, f64)> = communications(trace).map(|node| (node, 0.0)).collect();
    if scaled.is_empty() {
        return Err("it has no communication".to_owned());
    }
    Ok(GraphEdits {
        scaled,
        ..GraphEdits::default()
    })
}

/// Collectives of all ranks take what a ring of another size takes for the same bytes.
pub(super) fn change_ranks(trace: &LinkedTrace, ranks: u64) -> Result<GraphEdits, String> {
    let world = trace
        .report
        .world_size
        .and_then(|size| u64::try_from(size).ok());
    let Some(world) = world.filter(|size| *size > 0) else {
        return Err("it does not say how many ranks the run has".to_owned());
    };
    if world == 1 {
        return Err("a run of one rank has no collectives to go by".to_owned());
    }
    let mut edits = GraphEdits::default();
    for (node, collective) in records(trace) {
        // Other groups, of tensor or pipeline parallel ranks, keep their size.
        if collective.record.group_size == world {
            let factor = |size: u64| bus_factor(collective.kind(), size as f64);
            edits.scaled.push((node, factor(ranks) / factor(world)));
        }
    }
    if edits.is_empty() {
        return Err(format!("no collective is known to be of all {world} ranks"));
    }
    Ok(edits)
}

/// Communication of a group is so many times as quick.
pub(super) fn change_bandwidth(
    trace: &LinkedTrace,
    group: &str,
    factor: f64,
) -> Result<GraphEdits, String> {
    let mut edits = GraphEdits::default();
    let mut groups: BTreeSet<&str> = BTreeSet::new();
    for (node, collective) in records(trace) {
        let record = &collective.record;
        let names = [record.group_desc, record.group_name].map(|name| collective.names.get(name));
        if names.contains(&group) {
            edits.scaled.push((node, 1.0 / factor));
        }
        groups.extend(names.into_iter().filter(|name| !name.is_empty()));
    }
    if !edits.is_empty() {
        return Ok(edits);
    }
    if groups.is_empty() {
        return Err("it names no process groups".to_owned());
    }
    let list: Vec<&str> = groups.into_iter().collect();
    Err(format!(
        "no communication is of group {group:?}; groups are {}",
        list.join(", ")
    ))
}
