//! Checks that the files of all ranks fit together, and that all ranks reach their end.
//!
//! Collectives of a group are matched by position, in the order of ids, as in ASTRA-sim; messages
//! by sender, receiver, tag and size. Then every rank runs: a node once all its dependencies have
//! run, a collective once all its ranks are ready, a receive once its send has run. Nodes that
//! remain are stuck. Deps on missing nodes are ignored here, because the check of the single file
//! reports them. O(nodes + deps + n log n in the communications); no recursion.

mod run;

#[cfg(test)]
mod tests;

use crate::finding::{Finding, FindingExample, FindingKind, Findings};
use crate::proto::NodeType;
use crate::read::ChakraGraph;
use etlink_link::ranks::{CommRole, DeadlockCheck};
use etlink_model::{MatchIdx, RankIdx};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Data kept of a rank's file: dependencies and communications.
#[derive(Clone, Debug, Default)]
pub struct RankNodes {
    rank: i64,
    /// Number of ranks of the run, by the file; 0 if it states none.
    world_size: i64,
    /// Number of dependencies per node.
    waits: Vec<u32>,
    /// Pairs of a node and one that depends on it, in order.
    edges: Vec<(u32, u32)>,
    /// Communications by id.
    comms: Vec<CommNode>,
    /// Entry in `comms` of each node; `u32::MAX` for computation.
    entries: Vec<u32>,
}

#[derive(Clone, Debug)]
struct CommNode {
    node: u32,
    id: u64,
    name: String,
    channel: Channel,
    role: CommRole,
    /// Type of a collective; -1 for none.
    kind: i64,
    bytes: i64,
}

/// Key that communications of several ranks share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Channel {
    /// `pg_name` of a group; empty for all ranks.
    Group(String),
    /// Sender, receiver, tag, size.
    Message(i64, i64, i64, i64),
}

impl RankNodes {
    /// Extracts the needed data from a rank's file.
    pub fn from_graph(rank: i64, graph: &ChakraGraph) -> RankNodes {
        let index: FxHashMap<u64, u32> = graph.id.iter().copied().zip(0..).collect();
        let mut edges: Vec<(u32, u32)> = vec![];
        let mut waits = vec![0; graph.len()];
        for (node, waits) in (0u32..).zip(&mut waits) {
            let deps = graph.deps(node as usize).map(|(_, id)| id);
            let mut deps: Vec<u32> = deps.filter_map(|id| index.get(&id).copied()).collect();
            deps.sort_unstable();
            // A node can be in both lists, but its end is awaited only once.
            deps.dedup();
            *waits = deps.len() as u32;
            edges.extend(deps.into_iter().map(|dep| (dep, node)));
        }
        edges.sort_unstable();
        let mut comms: Vec<CommNode> = (0u32..)
            .zip(&graph.node_type)
            .filter_map(|(node, kind)| comm_node(rank, graph, node, *kind))
            .collect();
        // ASTRA-sim starts ready nodes by id, so the ids give the order of a group's collectives.
        comms.sort_by_key(|comm| comm.id);
        let mut entries = vec![u32::MAX; graph.len()];
        for (entry, comm) in (0..).zip(&comms) {
            entries[comm.node as usize] = entry;
        }
        RankNodes {
            rank,
            world_size: graph.metadata_int("world_size").unwrap_or(0),
            waits,
            edges,
            comms,
            entries,
        }
    }

    /// Returns the rank whose file this is.
    pub fn rank(&self) -> i64 {
        self.rank
    }

    /// Returns true if the rank has collectives or messages, which other ranks have to match.
    pub fn communicates(&self) -> bool {
        !self.comms.is_empty()
    }

    /// Calls `ready` with the dependents of a node that wait for no other one of `waits`.
    fn finish(&self, node: u32, waits: &mut [u32], mut ready: impl FnMut(u32)) {
        let begin = self.edges.partition_point(|(from, _)| *from < node);
        let own = self.edges[begin..].iter();
        for (_, next) in own.take_while(|(from, _)| *from == node) {
            let waits = &mut waits[*next as usize];
            *waits = waits.saturating_sub(1);
            if *waits == 0 {
                ready(*next);
            }
        }
    }

    /// Returns the nodes without dependencies.
    fn roots(&self) -> impl Iterator<Item = u32> {
        let nodes = (0u32..).zip(&self.waits);
        nodes
            .filter(|(_, waits)| **waits == 0)
            .map(|(node, _)| node)
    }

    /// Returns the communication of a node, with its entry in `comms`.
    fn comm_of(&self, node: u32) -> Option<(u32, &CommNode)> {
        let entry = self.entries[node as usize];
        Some((entry, self.comms.get(entry as usize)?))
    }

    fn example(&self, comm: &CommNode, detail: impl Into<String>) -> FindingExample {
        FindingExample {
            id: Some(comm.id),
            name: comm.name.clone(),
            detail: format!("rank {}: {}", self.rank, detail.into()),
            ..FindingExample::default()
        }
    }
}

fn comm_node(rank: i64, graph: &ChakraGraph, node: u32, kind: NodeType) -> Option<CommNode> {
    let comm = graph.comm_of(node as usize);
    let (tag, bytes) = (comm.tag.unwrap_or(0), comm.size.unwrap_or(0));
    let message = |src, dst| Channel::Message(src, dst, tag, bytes);
    let (role, channel) = match kind {
        NodeType::CommCollNode => {
            let group = comm.group.map_or("", |group| graph.names.get(group));
            // `chakra_converter` writes PyTorch's default group as `0`; a file without `pg_name`
            // means all ranks too.
            let group = if group == "0" { "" } else { group };
            (CommRole::Meets, Channel::Group(group.to_owned()))
        }
        // ASTRA-sim uses the node's own rank if `comm_src` or `comm_dst` is absent.
        NodeType::CommSendNode => {
            let channel = message(comm.src.unwrap_or(rank), comm.dst?);
            (CommRole::Sends, channel)
        }
        NodeType::CommRecvNode => {
            let channel = message(comm.src?, comm.dst.unwrap_or(rank));
            (CommRole::Receives, channel)
        }
        _ => return None,
    };
    Some(CommNode {
        node,
        id: graph.id[node as usize],
        name: graph.name_of(node as usize).to_owned(),
        channel,
        role,
        kind: comm.comm_type.unwrap_or(-1),
        bytes,
    })
}

/// Key that identifies a communication across ranks: its channel, and its position among the
/// communications of that channel.
type CommKey = (Channel, u32);

/// One rank's side: index of the rank, and the entry of its `comms`.
type Side = (u32, u32);

/// Communications of all ranks, matched by key.
struct MatchTable {
    matches: BTreeMap<CommKey, Vec<Side>>,
    /// Index in `matches` of each entry of `comms`, per rank.
    of: Vec<Vec<u32>>,
    /// Number of ranks with files that each match needs.
    needs: Vec<usize>,
}

/// Returns faults between the files. `groups` is the content of `comm_group.json`; `None` if there
/// is no such file.
pub fn check_ranks(
    ranks: &[RankNodes],
    groups: Option<&BTreeMap<String, Vec<i64>>>,
) -> Vec<Finding> {
    let mut findings = Findings::default();
    let present: BTreeSet<i64> = ranks.iter().map(|rank| rank.rank).collect();
    group_keys(groups, &mut findings);
    membership(ranks, groups, &present, &mut findings);
    let table = table(ranks, |group| members(group, groups, &present).len());
    for ((channel, place), sides) in &table.matches {
        match channel {
            Channel::Group(group) => {
                let members = members(group, groups, &present);
                check_collective(ranks, &members, *place, sides, &mut findings);
            }
            Channel::Message(src, dst, ..) => {
                // A peer without a file is reported once as `RankMissing`.
                if present.contains(src) && present.contains(dst) {
                    check_message(ranks, sides, &mut findings);
                }
            }
        }
    }
    run::run(ranks, &table, &mut findings);
    order(ranks, &table, &mut findings);
    findings.into_sorted()
}

/// Returns the ranks of a group that have files; none for an unlisted group.
fn members(
    group: &str,
    groups: Option<&BTreeMap<String, Vec<i64>>>,
    present: &BTreeSet<i64>,
) -> BTreeSet<i64> {
    if group.is_empty() {
        return present.clone();
    }
    let listed = groups
        .and_then(|groups| groups.get(group))
        .into_iter()
        .flatten();
    listed
        .copied()
        .filter(|rank| present.contains(rank))
        .collect()
}

/// Checks the keys of groups. ASTRA-sim parses them with `std::stoi`, which throws at anything but
/// numbers, and asserts that they are above 0.
fn group_keys(groups: Option<&BTreeMap<String, Vec<i64>>>, findings: &mut Findings) {
    for key in groups.iter().flat_map(|groups| groups.keys()) {
        let number = key.parse::<i32>().ok();
        if number.is_none_or(|number| number <= 0) {
            findings.note(FindingKind::GroupKey, || {
                FindingExample::described(format!("group {key:?}"))
            });
        }
    }
}

/// Ranks of the default group that are looked for.
const MOST_RANKS: i64 = 1 << 20;

/// Checks that groups are listed, contain this rank and others, and that their ranks have files.
fn membership(
    ranks: &[RankNodes],
    groups: Option<&BTreeMap<String, Vec<i64>>>,
    present: &BTreeSet<i64>,
    findings: &mut Findings,
) {
    let mut missed = BTreeSet::new();
    for rank in ranks {
        for comm in &rank.comms {
            let others = match &comm.channel {
                Channel::Group(group) if group.is_empty() => {
                    if present.len() == 1 && rank.world_size <= 1 {
                        findings.note(FindingKind::OneRankGroup, || {
                            rank.example(comm, "the run has one rank")
                        });
                    }
                    // a damaged number does not cause a count up to it
                    (0..rank.world_size.min(MOST_RANKS)).collect()
                }
                Channel::Group(group) => match groups.and_then(|groups| groups.get(group)) {
                    None => {
                        findings.note(FindingKind::GroupNotListed, || {
                            rank.example(comm, format!("group {group:?}"))
                        });
                        continue;
                    }
                    Some(list) if !list.contains(&rank.rank) => {
                        findings.note(FindingKind::NotInGroup, || {
                            rank.example(comm, format!("group {group:?} has ranks {list:?}"))
                        });
                        continue;
                    }
                    Some(list) => {
                        if list.iter().all(|other| *other == rank.rank) {
                            findings.note(FindingKind::OneRankGroup, || {
                                rank.example(comm, format!("group {group:?}"))
                            });
                        }
                        list.clone()
                    }
                },
                Channel::Message(src, dst, ..) => vec![*src, *dst],
            };
            for other in others.into_iter().filter(|other| !present.contains(other)) {
                if missed.insert(other) {
                    findings.note(FindingKind::RankMissing, || {
                        rank.example(comm, format!("rank {other} has no file"))
                    });
                }
            }
        }
    }
}

fn table(ranks: &[RankNodes], members: impl Fn(&str) -> usize) -> MatchTable {
    let mut matches: BTreeMap<CommKey, Vec<Side>> = BTreeMap::new();
    let mut keys: Vec<Vec<CommKey>> = vec![];
    for (at, rank) in (0..).zip(ranks) {
        let mut seen: BTreeMap<(bool, &Channel), u32> = BTreeMap::new();
        let mut own = vec![];
        for (entry, comm) in (0..).zip(&rank.comms) {
            // Sends and receives with the same key are counted separately: a rank's send never
            // meets its own receive.
            let sends = comm.role == CommRole::Sends;
            let place = seen.entry((sends, &comm.channel)).or_default();
            let key = (comm.channel.clone(), *place);
            *place += 1;
            matches.entry(key.clone()).or_default().push((at, entry));
            own.push(key);
        }
        keys.push(own);
    }
    let numbers: BTreeMap<&CommKey, u32> = matches.keys().zip(0..).collect();
    let of = keys
        .iter()
        .map(|own| {
            own.iter()
                .map(|key| numbers.get(key).copied().unwrap_or(u32::MAX))
                .collect()
        })
        .collect();
    let mut needs = vec![];
    for ((channel, _), sides) in &matches {
        needs.push(match channel {
            // Ranks that are not in the group wait for nobody else.
            Channel::Group(group) => members(group).max(sides.len()),
            Channel::Message(..) => 2,
        });
    }
    MatchTable { matches, of, needs }
}

fn comm(ranks: &[RankNodes], (at, entry): Side) -> (&RankNodes, &CommNode) {
    let rank = &ranks[at as usize];
    (rank, &rank.comms[entry as usize])
}

fn check_collective(
    ranks: &[RankNodes],
    members: &BTreeSet<i64>,
    place: u32,
    sides: &[Side],
    findings: &mut Findings,
) {
    let Some((first, reference)) = sides.first().map(|side| comm(ranks, *side)) else {
        return;
    };
    let have: BTreeSet<i64> = sides.iter().map(|side| comm(ranks, *side).0.rank).collect();
    for lacking in members.difference(&have) {
        let detail = || format!("collective {place} of its group, missing on rank {lacking}");
        findings.note(FindingKind::CollectiveMissing, || {
            first.example(reference, detail())
        });
    }
    let CommNode { kind, bytes, .. } = reference;
    for (rank, other) in sides.iter().skip(1).map(|side| comm(ranks, *side)) {
        let (its_kind, its_bytes) = (&other.kind, &other.bytes);
        if its_kind != kind {
            findings.note(FindingKind::CollectiveTypeDiffers, || {
                let detail = format!(
                    "type {its_kind}, but on rank {} type {kind} (node {})",
                    first.rank, reference.id
                );
                rank.example(other, detail)
            });
        } else if its_bytes != bytes {
            findings.note(FindingKind::CollectiveSizeDiffers, || {
                let detail = format!(
                    "{its_bytes} bytes, but on rank {} {bytes} bytes (node {})",
                    first.rank, reference.id
                );
                rank.example(other, detail)
            });
        }
    }
}

fn check_message(ranks: &[RankNodes], sides: &[Side], findings: &mut Findings) {
    // Two sides are a send and its receive. There cannot be more, because each side's position is
    // part of the key.
    let [only] = sides else { return };
    let (rank, node) = comm(ranks, *only);
    let kind = match node.role {
        CommRole::Sends => FindingKind::SendWithoutRecv,
        CommRole::Receives | CommRole::Meets => FindingKind::RecvWithoutSend,
    };
    if let Channel::Message(src, dst, tag, bytes) = node.channel {
        findings.note(kind, || {
            rank.example(
                node,
                format!("from rank {src} to rank {dst}, tag {tag}, {bytes} bytes"),
            )
        });
    }
}

/// Returns a rank's communications in the order in which the rank reaches them if the first ready
/// node of the file always goes first.
fn come_to(rank: &RankNodes) -> Vec<u32> {
    let mut waits = rank.waits.clone();
    // As in the feeder, whose queue of ready nodes is ordered by id.
    let mut ready: BinaryHeap<Reverse<u32>> = rank.roots().map(Reverse).collect();
    let mut order = vec![];
    while let Some(Reverse(node)) = ready.pop() {
        order.extend(rank.comm_of(node).map(|(entry, _)| entry));
        rank.finish(node, &mut waits, |next| ready.push(Reverse(next)));
    }
    order
}

/// Checks that all ranks finish if each does its communications one after the other.
fn order(ranks: &[RankNodes], table: &MatchTable, findings: &mut Findings) {
    let mut turns = DeadlockCheck::new(ranks.len(), table.matches.len());
    let matches: Vec<&Vec<Side>> = table.matches.values().collect();
    for (at, rank) in (0u32..).zip(ranks) {
        for entry in come_to(rank) {
            let (comm, matched) = (
                &rank.comms[entry as usize],
                table.of[at as usize][entry as usize],
            );
            let alone = matches
                .get(matched as usize)
                .is_none_or(|sides| sides.len() == 1);
            let role = match comm.role {
                CommRole::Receives if alone => CommRole::Sends,
                role => role,
            };
            turns.push(RankIdx(at), MatchIdx(matched), role);
        }
    }
    for matched in turns.into_removed() {
        let sides = matches.get(matched.index());
        if let Some(side) = sides.and_then(|sides| sides.first()) {
            let (rank, comm) = comm(ranks, *side);
            findings.note(FindingKind::OrderDiffers, || {
                rank.example(comm, "other ranks reach it in a different order")
            });
        }
    }
}
