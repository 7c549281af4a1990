//! The ranks from `.et` files, `<prefix>.<rank>.et`, and the `comm_group.json` beside them.

use super::{Fleet, Member, Stray};
use crate::commands::check::{GroupList, collect, groups_beside, prefix_and_rank, print_notes};
use crate::commands::replay::chakra;
use anyhow::{Context, Result, bail};
use etlink_chakra::proto::NodeType;
use etlink_chakra::read::{self, CommAttrs, FileKind};
use etlink_link::ranks::{CommExtent, Communication, GroupIdentity, Peers, RankSummary};
use etlink_model::{CollectiveKind, NameId};
use etlink_replay::{RankNames, ReplayGraph};
use etlink_run::discover::discover;
use etlink_run::input;
use etlink_run::memory::MemoryBudget;
use etlink_run::run::too_many;
use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of one run.
pub(in crate::commands) struct Set {
    pub(in crate::commands) prefix: PathBuf,
    pub(in crate::commands) ranks: BTreeMap<i64, PathBuf>,
}

impl Set {
    /// What communicates in the file of `rank`.
    pub(in crate::commands) fn facts(
        &self,
        rank: i64,
        file: &read::Graph,
        graph: &ReplayGraph,
        base_ns: i64,
    ) -> Result<RankSummary> {
        let groups = groups_beside(&self.prefix)?.unwrap_or_default();
        let all: Vec<u64> = self
            .ranks
            .keys()
            .filter_map(|rank| u64::try_from(*rank).ok())
            .collect();
        Ok(facts(
            rank,
            file,
            graph,
            |name| group_of(name, &groups, &all),
            base_ns,
        ))
    }
}

/// Whether it is the file of a rank without a trace.
pub(in crate::commands) fn does_nothing(file: &read::Graph) -> bool {
    file.len() == 1
        && file.duration_ns[0] == 0
        && file.start_ns[0].is_none()
        && file.node_type[0] == NodeType::CompNode
}

/// The runs whose `.et` files are in a folder or its subfolders; none where traces are there too, which say more.
pub(in crate::commands) fn find(dir: &Path) -> Result<Vec<Set>> {
    let mut files = vec![];
    let notes = collect(dir, &mut files)?;
    let mut sets: BTreeMap<PathBuf, BTreeMap<i64, PathBuf>> = BTreeMap::new();
    for file in files {
        if let Some((prefix, rank)) = prefix_and_rank(&file) {
            sets.entry(prefix).or_default().insert(rank, file);
        }
    }
    if sets.is_empty() || !discover(dir)?.is_empty() {
        return Ok(vec![]);
    }
    print_notes(&notes);
    Ok(sets
        .into_iter()
        .map(|(prefix, ranks)| Set { prefix, ranks })
        .collect())
}

/// Reads them; refuses what does not fit into memory.
pub(super) fn read(sets: &[Set], dir: &Path, budget: MemoryBudget) -> Result<Vec<Fleet>> {
    let (mut fleets, mut bytes): (Vec<Fleet>, u64) = (vec![], 0);
    for set in sets {
        let fleet = of_set(set)?;
        bytes = fleet
            .members
            .iter()
            .map(Member::bytes)
            .fold(bytes, u64::saturating_add);
        fleets.push(fleet);
        if bytes > budget.for_ranks() {
            return Err(too_many(
                dir,
                sets.iter().map(|set| set.ranks.len()).sum(),
                budget,
            ));
        }
    }
    Ok(fleets)
}

fn of_set(set: &Set) -> Result<Fleet> {
    let groups = groups_beside(&set.prefix)?.unwrap_or_default();
    let all: Vec<u64> = set
        .ranks
        .keys()
        .filter_map(|rank| u64::try_from(*rank).ok())
        .collect();
    let read: Vec<_> = set
        .ranks
        .par_iter()
        .map(|(rank, path)| (rank, member(*rank, path, &groups, &all)))
        .collect();
    let mut fleet = Fleet {
        name: format!("{}.*.et", set.prefix.display()),
        notes: vec![],
        members: vec![],
        left_out: vec![],
    };
    for (rank, read) in read {
        match read {
            Ok(None) => fleet.notes.push(format!(
                "rank {rank}: its file does nothing, as that of a rank without a trace"
            )),
            Ok(Some((member, notes))) => {
                fleet
                    .notes
                    .extend(notes.into_iter().map(|note| format!("rank {rank}: {note}")));
                fleet.members.push(member);
            }
            Err(error) => fleet.left_out.push(Stray {
                label: rank.to_string(),
                error: Some(format!("{error:#}")),
                why: None,
            }),
        }
    }
    Ok(fleet)
}

fn member(
    rank: i64,
    path: &Path,
    groups: &GroupList,
    all: &[u64],
) -> Result<Option<(Member, Vec<String>)>> {
    let name = || path.display().to_string();
    let file = read::read(input::open_any(path)?).with_context(name)?;
    if !matches!(file.format, FileKind::ChakraEt | FileKind::ChakraJson) || file.is_empty() {
        bail!(
            "{}: no Chakra nodes in it to run; see `etlink check`",
            path.display()
        );
    }
    if does_nothing(&file) {
        return Ok(None);
    }
    let (graph, notes) = chakra::graph_of(&file).with_context(name)?;
    let names = RankNames::from_labels(&chakra::Named(&file), graph.len());
    let base = file
        .metadata
        .iter()
        .find(|(key, _)| key == "base_time_ns")
        .and_then(|(_, base)| base.parse().ok());
    let facts = facts(
        rank,
        &file,
        &graph,
        |name| group_of(name, groups, all),
        base.unwrap_or(0),
    );
    Ok(Some((
        Member {
            label: rank.to_string(),
            facts,
            graph,
            names,
            base_ns: base.unwrap_or(0),
        },
        notes,
    )))
}

/// What communicates in a file, by id as simulators take it.
fn facts(
    rank: i64,
    file: &read::Graph,
    graph: &ReplayGraph,
    group_of: impl Fn(&str) -> GroupIdentity,
    base_ns: i64,
) -> RankSummary {
    let (first, last) = file.summary().window_ns.unwrap_or_default();
    let window_ns = (base_ns.saturating_add(first), base_ns.saturating_add(last));
    let mut facts = RankSummary {
        rank,
        window_ns,
        ..RankSummary::default()
    };
    let mut groups: IndexSet<&str> = IndexSet::new();
    let carriers: IndexMap<u64, u32> = file
        .transfers
        .iter()
        .map(|(node, of)| (*of, *node))
        .collect();
    for node in 0..file.len() {
        let comm = file.comm_of(node);
        let group = comm.group.map_or("", |group| file.names.get(group));
        let Some((kind, party)) =
            kind_and_party(file.node_type[node], &comm, || groups.insert_full(group).0)
        else {
            continue;
        };
        let bytes = comm
            .size
            .and_then(|size| u64::try_from(size).ok())
            .unwrap_or(0);
        let (in_bytes, dtype, on_device) = (bytes, NameId::default(), graph.on_device(node));
        let node = node as u32;
        let of_node = |node: u32| {
            let start_ns = base_ns.saturating_add(file.start_ns[node as usize].unwrap_or(0));
            CommExtent::from_node(
                node,
                (
                    start_ns,
                    start_ns.saturating_add(file.duration_ns[node as usize]),
                ),
            )
        };
        let (own, carrier) = (
            of_node(node),
            carriers
                .get(&file.id[node as usize])
                .map(|carrier| of_node(*carrier)),
        );
        let (start_ns, end_ns, runs) = (own.start_ns, own.end_ns, runs(file, graph, own, carrier));
        facts.communications.push(Communication {
            node,
            peers: party,
            kind,
            dtype,
            in_bytes,
            bytes,
            seq: None,
            start_ns,
            end_ns,
            on_device,
            extent: runs,
        });
    }
    facts.groups = groups.into_iter().map(group_of).collect();
    facts
        .communications
        .sort_by_key(|communication| file.id[communication.node as usize]);
    facts
}

/// The ranks of a group of this name; a collective without one is of all ranks.
fn group_of(name: &str, listed: &GroupList, all: &[u64]) -> GroupIdentity {
    match listed.get(name) {
        Some(ranks) => GroupIdentity::Ranks(
            ranks
                .iter()
                .filter_map(|rank| u64::try_from(*rank).ok())
                .collect(),
        ),
        None if name.is_empty() || name == "0" => GroupIdentity::Ranks(all.to_vec()),
        None => GroupIdentity::Named(name.to_owned()),
    }
}

fn kind_and_party(
    node_type: NodeType,
    comm: &CommAttrs,
    group: impl FnOnce() -> usize,
) -> Option<(CollectiveKind, Peers)> {
    use CollectiveKind as Kind;
    let kind = match node_type {
        NodeType::CommSendNode => return Some((Kind::Send, Peers::Peer(comm.dst))),
        NodeType::CommRecvNode => return Some((Kind::Recv, Peers::Peer(comm.src))),
        NodeType::CommCollNode => match comm.comm_type {
            Some(0) => Kind::AllReduce,
            Some(1) => Kind::Reduce,
            Some(2) => Kind::AllGather,
            Some(3) => Kind::Gather,
            Some(4) => Kind::Scatter,
            Some(5) => Kind::Broadcast,
            Some(6) => Kind::AllToAll,
            Some(7 | 8) => Kind::ReduceScatter,
            Some(9) => Kind::Barrier,
            _ => Kind::Other,
        },
        _ => return None,
    };
    Some((kind, Peers::Group(u32::try_from(group()).ok()?)))
}

/// A device's node is the transfer, and so is one of a file that does not tell hosts' work apart. A host's is carried out by the
/// node that says so: if that runs elsewhere, the rank arrives with it.
fn runs(
    file: &read::Graph,
    graph: &ReplayGraph,
    own: CommExtent,
    carrier: Option<CommExtent>,
) -> CommExtent {
    let at = own.waits as usize;
    if graph.on_device(at) || file.names.get(file.kind[at]).is_empty() {
        return own;
    }
    match carrier {
        None => CommExtent {
            is_transfer: false,
            ..own
        },
        Some(carrier) if graph.resource[carrier.waits as usize] == graph.resource[at] => {
            CommExtent {
                arrives: own.arrives,
                arrival_ns: own.arrival_ns,
                ..carrier
            }
        }
        Some(carrier) => carrier,
    }
}
