//! Questions about collectives: their time, their groups, their ranks.

use super::transfer_cost::{RankAnswer, TransferClass};
use crate::findings::detect::communication::without_waits;
use etlink_link::ranks::{GroupResolver, bus_factor};
use etlink_link::{CollectiveRef, LinkedTrace, NodeKind};
use etlink_model::{CollectiveKind, NodeIdx, dtype_bytes};
use etlink_replay::GraphEdits;
use std::collections::BTreeSet;

fn communications(trace: &LinkedTrace) -> impl Iterator<Item = NodeIdx> {
    let nodes = trace.nodes.indices();
    nodes.filter(|index| {
        let node = trace.nodes.get(*index);
        // A wait in which a thread blocked for a communication is the rest of that communication.
        let waits = || {
            trace
                .host_comm(&node)
                .is_some_and(|comm| comm.node == *index)
        };
        node.kind == NodeKind::Collective || waits()
    })
}

/// Returns the record of each communication.
fn records(trace: &LinkedTrace) -> impl Iterator<Item = (NodeIdx, CollectiveRef<'_>)> {
    communications(trace).filter_map(|index| {
        let node = trace.nodes.get(index);
        let given = || trace.op_collective(trace.host_comm(&node)?.given.get()?);
        Some((index, trace.collective(&node).or_else(given)?))
    })
}

/// Hides communication: it takes no time, or nothing waits for it, whichever gains less. Ranks
/// still meet, and transfers still take turns on the network.
pub(super) fn hide_all(trace: &LinkedTrace) -> Result<RankAnswer, String> {
    let mut communicates = vec![false; trace.nodes.len()];
    let mut edits = GraphEdits::default();
    for node in communications(trace) {
        communicates[node.index()] = true;
        edits.scaled.push((node, 0.0));
    }
    if edits.is_empty() {
        return Err("it has no communication".to_owned());
    }
    let mut answer = RankAnswer::from(edits);
    for edits in without_waits(trace, &communicates).values() {
        answer.other_edits.extend(edits);
    }
    Ok(answer)
}

/// PyTorch's name of the group of all ranks.
const WORLD_GROUP: &str = "default_pg";

/// Least number that a group's name takes for an address, as it is in PyTorch before 2.2: other
/// names that are numbers count the groups.
const LEAST_ADDRESS: u64 = 1 << 32;

/// Groups of a trace, by their members and names.
struct TraceGroups<'t>(GroupResolver<'t>);

impl TraceGroups<'_> {
    /// Returns the class of a transfer: its kind and group.
    fn class(&self, collective: &CollectiveRef<'_>) -> TransferClass {
        let names = self.names(collective);
        let [desc, name] = record_names(collective);
        // Groups of a mesh dimension share a description, but have individual names.
        let group = match [name, desc].into_iter().find(|name| names.contains(name)) {
            Some(name) => name,
            None => names.first().copied().unwrap_or_default(),
        };
        TransferClass {
            kind: collective.kind(),
            group: group.to_owned(),
        }
    }

    /// Returns the names of a communication's group. An address names the group of all ranks on its
    /// own rank only, so that the group has PyTorch's name instead.
    fn names<'c>(&self, collective: &CollectiveRef<'c>) -> Vec<&'c str> {
        let mut names = record_names(collective).to_vec();
        if self.0.is_world(collective) {
            names.retain(|name| !is_address(name));
            names.push(WORLD_GROUP);
        }
        names.retain(|name| !name.is_empty());
        names
    }

    /// Returns true if a communication is in the group of this name, or of this address on any rank.
    fn is_in(&self, collective: &CollectiveRef<'_>, group: &str) -> bool {
        let by_address = is_address(group)
            && record_names(collective).into_iter().any(is_address)
            && self.0.is_world(collective);
        by_address || self.names(collective).contains(&group)
    }
}

/// Returns the description and the name of a communication's group.
fn record_names<'c>(collective: &CollectiveRef<'c>) -> [&'c str; 2] {
    let record = &collective.record;
    [record.group_desc, record.group_name].map(|name| collective.names.get(name))
}

fn is_address(name: &str) -> bool {
    name.parse()
        .is_ok_and(|number: u64| number >= LEAST_ADDRESS)
}

/// Returns the larger of input and output, in bytes; 0 if unknown.
fn message_bytes(collective: &CollectiveRef<'_>) -> u64 {
    let record = &collective.record;
    let element = dtype_bytes(collective.names.get(record.dtype)).unwrap_or(0);
    let elements = record.in_elements.max(record.out_elements);
    elements.saturating_mul(element)
}

/// Changes the number of ranks in collectives of all ranks: the size-dependent time scales as in a
/// ring, the latency with the depth of a tree, as NCCL sends small messages.
pub(super) fn change_ranks(trace: &LinkedTrace, ranks: u64) -> Result<RankAnswer, String> {
    let world = trace
        .report
        .world_size
        .and_then(|size| u64::try_from(size).ok());
    let Some(world) = world.filter(|size| *size > 0) else {
        return Err("it does not record how many ranks the run has".to_owned());
    };
    if world == 1 {
        return Err("a run with one rank has no collectives to scale".to_owned());
    }
    let groups = TraceGroups(GroupResolver::new(trace));
    let mut answer = RankAnswer::default();
    let by_latency = (ranks as f64).log2() / (world as f64).log2();
    for (node, collective) in records(trace) {
        // A message is between two ranks, whatever the size of its group.
        let is_message = matches!(
            collective.kind(),
            CollectiveKind::Send | CollectiveKind::Recv
        );
        // Other groups, of tensor or pipeline parallel ranks, keep their size.
        let is_of_all = collective.record.group_size == world || groups.0.is_world(&collective);
        if is_of_all && !is_message {
            let factor = |size: u64| bus_factor(collective.kind(), size as f64);
            let factors = (factor(ranks) / factor(world), by_latency);
            let bytes = message_bytes(&collective);
            answer.change_transfer(node, groups.class(&collective), bytes, factors);
        }
    }
    if answer.changes_nothing() {
        return Err(format!(
            "no collective is known to include all {world} ranks"
        ));
    }
    Ok(answer)
}

/// Divides the size-dependent time of a group's communication by `factor`.
pub(super) fn change_bandwidth(
    trace: &LinkedTrace,
    group: &str,
    factor: f64,
) -> Result<RankAnswer, String> {
    let groups = TraceGroups(GroupResolver::new(trace));
    let mut answer = RankAnswer::default();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (node, collective) in records(trace) {
        if groups.is_in(&collective, group) {
            let bytes = message_bytes(&collective);
            let factors = (1.0 / factor, 1.0);
            answer.change_transfer(node, groups.class(&collective), bytes, factors);
        }
        names.extend(groups.names(&collective));
    }
    if !answer.changes_nothing() {
        return Ok(answer);
    }
    if names.is_empty() {
        return Err("it names no process groups".to_owned());
    }
    let list: Vec<&str> = names.into_iter().collect();
    Err(format!(
        "no communication in group {group:?}; groups: {}",
        list.join(", ")
    ))
}
