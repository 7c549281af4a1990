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
    /// Number of dependencies per node.
    waits: Vec<u32>,
    /// End of each node's list in `after`.
    ends: Vec<u32>,
    /// Dependents of each node, list after list.
    after: Vec<u32>,
    /// Communications by id.
    comms: Vec<CommNode>,
}

#[derive(Clone, Debug)]
struct CommNode {
    node: u32,
    id: u64,
    name: String,
    what: RankComm,
}

/// `pg_name` of a group; empty for all ranks.
type Group = String;
/// Sender, receiver, tag, size.
type MessageKey = (i64, i64, i64, i64);

#[derive(Clone, Debug, PartialEq, Eq)]
enum RankComm {
    Collective { group: Group, kind: i64, bytes: i64 },
    Send(MessageKey),
    Recv(MessageKey),
}

impl RankNodes {
    /// Extracts the needed data from a rank's file.
    pub fn from_graph(rank: i64, graph: &ChakraGraph) -> RankNodes {
        let index: FxHashMap<u64, u32> = graph.id.iter().copied().zip(0..).collect();
        let mut edges: Vec<(u32, u32)> = vec![];
        let mut waits = vec![0; graph.len()];
        for (node, waits) in (0u32..).zip(&mut waits) {
            let at = node as usize;
            let mut deps: Vec<u32> = [graph.ctrl_deps.list(at), graph.data_deps.list(at)]
                .concat()
                .iter()
                .filter_map(|id| index.get(id).copied())
                .collect();
            deps.sort_unstable();
            // A node can be in both lists, but its end is awaited only once.
            deps.dedup();
            *waits = deps.len() as u32;
            edges.extend(deps.into_iter().map(|dep| (dep, node)));
        }
        edges.sort_unstable();
        let mut ends = vec![0; graph.len()];
        edges.iter().for_each(|(from, _)| ends[*from as usize] += 1);
        let mut sum = 0;
        ends.iter_mut().for_each(|end| {
            sum += *end;
            *end = sum;
        });
        let mut comms: Vec<CommNode> = (0u32..)
            .zip(&graph.node_type)
            .filter_map(|(node, kind)| comm_node(rank, graph, node, *kind))
            .collect();
        // ASTRA-sim starts ready nodes by id, so the ids give the order of a group's collectives.
        comms.sort_by_key(|comm| comm.id);
        RankNodes {
            rank,
            waits,
            ends,
            after: edges.into_iter().map(|(_, to)| to).collect(),
            comms,
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

    fn after(&self, node: u32) -> &[u32] {
        let start = node
            .checked_sub(1)
            .map_or(0, |before| self.ends[before as usize]);
        &self.after[start as usize..self.ends[node as usize] as usize]
    }

    fn example(&self, comm: &CommNode, detail: impl Into<String>) -> FindingExample {
        FindingExample {
            id: Some(comm.id),
            name: comm.name.clone(),
            offset: None,
            detail: format!("rank {}: {}", self.rank, detail.into()),
            ..FindingExample::default()
        }
    }
}

fn comm_node(rank: i64, graph: &ChakraGraph, node: u32, kind: NodeType) -> Option<CommNode> {
    let comm = graph.comm_of(node as usize);
    let (tag, size) = (comm.tag.unwrap_or(0), comm.size.unwrap_or(0));
    let what = match kind {
        NodeType::CommCollNode => {
            let group = comm.group.map_or("", |group| graph.names.get(group));
            // `chakra_converter` writes PyTorch's default group as `0`; a file without `pg_name`
            // means all ranks too.
            let group = if group == "0" {
                String::new()
            } else {
                group.to_owned()
            };
            RankComm::Collective {
                group,
                kind: comm.comm_type.unwrap_or(-1),
                bytes: size,
            }
        }
        // ASTRA-sim uses the node's own rank if `comm_src` or `comm_dst` is absent.
        NodeType::CommSendNode => RankComm::Send((comm.src.unwrap_or(rank), comm.dst?, tag, size)),
        NodeType::CommRecvNode => RankComm::Recv((comm.src?, comm.dst.unwrap_or(rank), tag, size)),
        _ => return None,
    };
    Some(CommNode {
        node,
        id: graph.id[node as usize],
        name: graph.name_of(node as usize).to_owned(),
        what,
    })
}

/// Key that identifies a communication across ranks: a group and the collective's position in it,
/// or a message and its position among equal messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CommKey {
    Collective(Group, u32),
    Message(MessageKey, u32),
}

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
    for (key, sides) in &table.matches {
        match key {
            CommKey::Collective(group, place) => {
                let members = members(group, groups, &present);
                check_collective(ranks, &members, *place, sides, &mut findings);
            }
            CommKey::Message(..) => check_message(ranks, sides, &present, &mut findings),
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
            let others = match &comm.what {
                RankComm::Collective { group, .. } if group.is_empty() => {
                    if present.len() == 1 {
                        findings.note(FindingKind::OneRankGroup, || {
                            rank.example(comm, "the run has one rank")
                        });
                    }
                    continue;
                }
                RankComm::Collective { group, .. } => {
                    match groups.and_then(|groups| groups.get(group)) {
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
                    }
                }
                RankComm::Send((src, dst, ..)) | RankComm::Recv((src, dst, ..)) => vec![*src, *dst],
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
        let mut seen: BTreeMap<(bool, Group, MessageKey), u32> = BTreeMap::new();
        let mut own = vec![];
        for (entry, comm) in (0..).zip(&rank.comms) {
            let (sends, group, message) = match &comm.what {
                RankComm::Collective { group, .. } => (false, group.clone(), (0, 0, 0, 0)),
                RankComm::Send(message) => (true, "message".to_owned(), *message),
                RankComm::Recv(message) => (false, "message".to_owned(), *message),
            };
            // Sends and receives with the same key are counted separately: a rank's send never
            // meets its own receive.
            let place = seen.entry((sends, group.clone(), message)).or_default();
            let key = match &comm.what {
                RankComm::Collective { .. } => CommKey::Collective(group, *place),
                RankComm::Send(_) | RankComm::Recv(_) => CommKey::Message(message, *place),
            };
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
    for (key, sides) in &matches {
        needs.push(match key {
            // Ranks that are not in the group wait for nobody else.
            CommKey::Collective(group, _) => members(group).max(sides.len()),
            CommKey::Message(..) => 2,
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
    let RankComm::Collective { kind, bytes, .. } = &reference.what else {
        return;
    };
    for (rank, other) in sides.iter().skip(1).map(|side| comm(ranks, *side)) {
        let RankComm::Collective {
            kind: its_kind,
            bytes: its_bytes,
            ..
        } = &other.what
        else {
            continue;
        };
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

fn check_message(
    ranks: &[RankNodes],
    sides: &[Side],
    present: &BTreeSet<i64>,
    findings: &mut Findings,
) {
    // Two sides are a send and its receive. There cannot be more, because each side's position is
    // part of the key.
    let [only] = sides else { return };
    let (rank, node) = comm(ranks, *only);
    let (kind, (src, dst, tag, bytes)) = match &node.what {
        RankComm::Send(message) => (FindingKind::SendWithoutRecv, *message),
        RankComm::Recv(message) => (FindingKind::RecvWithoutSend, *message),
        RankComm::Collective { .. } => return,
    };
    // A peer without a file is reported once as `RankMissing`.
    if present.contains(&src) && present.contains(&dst) {
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
    let mut entry = vec![u32::MAX; waits.len()];
    (0u32..)
        .zip(&rank.comms)
        .for_each(|(at, comm)| entry[comm.node as usize] = at);
    // As in the feeder, whose queue of ready nodes is ordered by id.
    let ready = (0u32..)
        .zip(&waits)
        .filter(|(_, waits)| **waits == 0)
        .map(|(node, _)| Reverse(node));
    let mut ready: BinaryHeap<Reverse<u32>> = ready.collect();
    let mut order = vec![];
    while let Some(Reverse(node)) = ready.pop() {
        order.extend(Some(entry[node as usize]).filter(|at| *at != u32::MAX));
        for &next in rank.after(node) {
            waits[next as usize] = waits[next as usize].saturating_sub(1);
            if waits[next as usize] == 0 {
                ready.push(Reverse(next));
            }
        }
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
            let role = match comm.what {
                RankComm::Collective { .. } => CommRole::Meets,
                RankComm::Recv(_) if !alone => CommRole::Receives,
                RankComm::Send(_) | RankComm::Recv(_) => CommRole::Sends,
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
