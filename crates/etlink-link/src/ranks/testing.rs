//! Ranks drawn by tests.

use super::{CommExtent, Communication, GroupIdentity, Peers, RankSummary};
use etlink_model::{CollectiveKind, GlobalRank, GroupIdx, NodeIdx, UnixNs};

/// Draws a rank with these groups in a world of `world` ranks.
pub(super) fn rank(rank: i64, world: i64, groups: &[&[u64]]) -> RankSummary {
    let groups = groups
        .iter()
        .map(|ranks| GroupIdentity::Ranks(ranks.iter().copied().collect()))
        .collect();
    RankSummary {
        rank: GlobalRank(rank),
        world_size: Some(world),
        groups,
        ..RankSummary::default()
    }
}

/// Adds a kernel of a group's collective: 1024 bytes of `Float`.
pub(super) fn collective(
    summary: &mut RankSummary,
    kind: CollectiveKind,
    group: u32,
    seq: i64,
    (start_ns, end_ns): (i64, i64),
) {
    let (start_ns, end_ns) = (UnixNs(start_ns), UnixNs(end_ns));
    let dtype = summary.names.intern("Float");
    let node = NodeIdx(10 + summary.communications.len() as u32);
    summary.communications.push(Communication {
        node,
        peers: Peers::Group(GroupIdx(group)),
        name: Default::default(),
        kind,
        dtype,
        in_split: Default::default(),
        in_bytes: 1024,
        bytes: 1024,
        is_sized: true,
        seq: Some(seq).filter(|seq| *seq >= 0),
        start_ns,
        end_ns,
        on_device: true,
        extent: CommExtent::from_node(node, (start_ns, end_ns)),
    });
}

/// Adds a send or receive.
pub(super) fn message(
    summary: &mut RankSummary,
    kind: CollectiveKind,
    peer: Option<i64>,
    start_ns: i64,
) {
    collective(
        summary,
        kind,
        0,
        summary.communications.len() as i64,
        (start_ns, start_ns + 5),
    );
    if let Some(last) = summary.communications.last_mut() {
        last.peers = Peers::Peer(peer.map(GlobalRank));
    }
}
