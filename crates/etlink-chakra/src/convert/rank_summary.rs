//! Summarizes the communications in a rank's file, to join it with the files of other ranks.

use super::collective::collective_kind;
use super::groups::GroupRanks;
use crate::proto::NodeType;
use crate::read::{ChakraGraph, CommAttrs};
use etlink_link::ranks::{CommExtent, Communication, Peers, RankSummary};
use etlink_model::{CollectiveKind, GlobalRank, GroupIdx, NameId, NodeIdx, UnixNs};
use etlink_replay::ReplayGraph;
use indexmap::{IndexMap, IndexSet};

/// Returns true for the file that `merge` writes for a rank without a trace: one node without time.
pub fn is_idle_rank(file: &ChakraGraph) -> bool {
    file.len() == 1
        && file.duration_ns[0] == 0
        && file.start_ns[0].is_none()
        && file.node_type[0] == NodeType::CompNode
}

/// Returns the communications in a file, in the order of ids, as ASTRA-sim matches them. `graph` is
/// the [`replay_graph`](super::replay_graph) of the file. O(n log n).
pub fn summarize_rank(
    rank: GlobalRank,
    file: &ChakraGraph,
    graph: &ReplayGraph,
    groups: &GroupRanks,
) -> RankSummary {
    let base_ns = UnixNs(file.base_time_ns().unwrap_or(0));
    // A file without times has an empty window at its base.
    let (first, last) = file.summary().window_ns.unwrap_or((0, 0));
    let mut summary = RankSummary {
        rank,
        // Otherwise ranks after the last present one are unknown.
        world_size: file.metadata_int("world_size"),
        window_ns: (base_ns.shifted(first), base_ns.shifted(last)),
        ..RankSummary::default()
    };
    let mut group_names: IndexSet<&str> = IndexSet::new();
    let carriers: IndexMap<u64, u32> = file
        .transfers
        .iter()
        .map(|(node, communication)| (*communication, *node))
        .collect();
    for node in 0..file.len() {
        let comm = file.comm_of(node);
        let Some(kind) = communication_kind(file.node_type[node], &comm) else {
            continue;
        };
        let peers = match kind {
            CollectiveKind::Send => Peers::Peer(comm.dst.map(GlobalRank)),
            CollectiveKind::Recv => Peers::Peer(comm.src.map(GlobalRank)),
            _ => {
                let name = comm.group.map_or("", |group| file.names.get(group));
                let (group, _) = group_names.insert_full(name);
                Peers::Group(GroupIdx::new(group))
            }
        };
        // A size below 0 is damage that `check` reports.
        let bytes = comm.size.map_or(0, |size| size.max(0).cast_unsigned());
        // By the clock of the file, which for files of `merge` is already the clock of the first
        // rank.
        let own = node_extent(file, base_ns, NodeIdx::new(node));
        let carrier = carriers
            .get(&file.id[node])
            .map(|carrier| node_extent(file, base_ns, NodeIdx(*carrier)));
        summary.communications.push(Communication {
            node: NodeIdx::new(node),
            peers,
            name: NameId::default(),
            kind,
            dtype: NameId::default(),
            in_split: NameId::default(),
            in_bytes: bytes,
            bytes,
            is_sized: comm.size.is_some() || kind == CollectiveKind::Barrier,
            // A written graph has no sequence numbers: communications match by their order.
            seq: None,
            start_ns: own.start_ns,
            end_ns: own.end_ns,
            on_device: graph.on_device(NodeIdx::new(node)),
            extent: comm_extent(file, graph, own, carrier),
        });
    }
    let groups = group_names.into_iter().map(|name| groups.group(name));
    summary.groups = groups.collect();
    summary
        .communications
        // Ids give the order in which ASTRA-sim runs communications; other writers' files need not
        // be in that order.
        .sort_by_key(|communication| file.id[communication.node.index()]);
    summary
}

/// Returns the kind of a node's communication; `None` if the node does not communicate.
pub(crate) fn communication_kind(node_type: NodeType, comm: &CommAttrs) -> Option<CollectiveKind> {
    match node_type {
        NodeType::CommSendNode => Some(CollectiveKind::Send),
        NodeType::CommRecvNode => Some(CollectiveKind::Recv),
        NodeType::CommCollNode => {
            // A number unknown to the schema is still a collective, of unknown kind.
            let known = comm.collective_type().map(collective_kind);
            Some(known.unwrap_or(CollectiveKind::Other))
        }
        _ => None,
    }
}

/// Returns the extent of a communication that is this node from start to end.
fn node_extent(file: &ChakraGraph, base_ns: UnixNs, node: NodeIdx) -> CommExtent {
    let index = node.index();
    let start_ns = base_ns.shifted(file.start_ns[index].unwrap_or(0));
    let end_ns = start_ns.shifted(file.duration_ns[index]);
    CommExtent::from_node(node, (start_ns, end_ns))
}

/// Returns the extent of a communication. A device node is the transfer itself, and so is a node of
/// a file that does not separate host work. A host node is carried out by the node that names it in
/// `transfer_of`; if that node runs elsewhere, it determines the rank's arrival.
fn comm_extent(
    file: &ChakraGraph,
    graph: &ReplayGraph,
    own: CommExtent,
    carrier: Option<CommExtent>,
) -> CommExtent {
    let node = own.waits.index();
    if graph.on_device(own.waits) || file.kind_of(node).is_empty() {
        return own;
    }
    match carrier {
        None => CommExtent {
            is_transfer: false,
            ..own
        },
        // The same thread waits for the transfer that its call began: it arrived with the call, not
        // with the wait.
        Some(carrier) if graph.resource[carrier.waits.index()] == graph.resource[node] => {
            CommExtent {
                arrives: own.arrives,
                arrival_ns: own.arrival_ns,
                ..carrier
            }
        }
        Some(carrier) => carrier,
    }
}
