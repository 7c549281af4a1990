//! What the ranks of one run have to agree on.
//!
//! ASTRA-sim matches collectives of a group by order, type and size, and messages by sender,
//! receiver and size; a rank whose counterpart does not come is stuck, and the simulator still
//! returns 0. Traces of one run differ: a window begins one collective later, and each rank of
//! an uneven all-to-all (experts) says its own size. So collectives are paired by their number
//! in the group (`Seq`), messages by order; what has no counterpart becomes computation, and
//! where sizes differ the largest is taken. O(n log n) in the communications.

use crate::et::comm::{Comm, comm_of};
use crate::proto::CollectiveCommType;
use crate::{GroupKeys, Groups, WriteOptions};
use etlink_link::LinkedTrace;
use etlink_model::CollectiveKind;
use std::collections::{BTreeMap, BTreeSet};

/// Between whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// The ranks of a group, by its key in [`GroupKeys`].
    Group(String),
    /// From one global rank to another.
    Message {
        /// The sender.
        src: i64,
        /// The receiver.
        dst: i64,
    },
}

/// One communication of one rank, as it would be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communication {
    /// The node.
    pub node: u32,
    /// Between whom.
    pub channel: Channel,
    /// Type of the collective; a send or receive by what it is.
    pub kind: CollectiveKind,
    /// Size, bytes.
    pub bytes: i64,
    /// `Seq`, the number of the collective in its group.
    pub seq: Option<i64>,
}

/// What a rank is written with: [`WriteOptions::as_compute`] and [`WriteOptions::comm_bytes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Nodes without a counterpart, ascending.
    pub as_compute: Vec<u32>,
    /// Nodes whose size is raised to that of another rank, ascending.
    pub comm_bytes: Vec<(u32, i64)>,
}

/// The communications of `rank`, in order of time. `options.groups` is needed: without it
/// the groups have no common names.
pub fn communications(trace: &LinkedTrace, rank: i64, options: &WriteOptions<'_>) -> Vec<Communication> {
    let groups = Groups::new(trace);
    let mut all = vec![];
    for index in 0..trace.nodes.len() {
        let Some(Ok(comm)) = comm_of(trace, &groups, options, index) else { continue };
        let record = trace.collective(&trace.nodes.get(index));
        let seq = record.map(|record| record.record.seq).filter(|seq| *seq >= 0);
        let node = u32::try_from(index).unwrap_or(u32::MAX);
        all.push(match comm {
            Comm::Collective { kind, bytes, group } => {
                let channel = Channel::Group(group.unwrap_or_default().to_owned());
                Communication { node, channel, kind: collective_kind(kind), bytes, seq }
            }
            Comm::PointToPoint { send: true, peer, bytes, .. } => {
                Communication { node, channel: Channel::Message { src: rank, dst: peer }, kind: CollectiveKind::Send, bytes, seq }
            }
            Comm::PointToPoint { peer, bytes, .. } => {
                Communication { node, channel: Channel::Message { src: peer, dst: rank }, kind: CollectiveKind::Recv, bytes, seq }
            }
        });
    }
    all
}

fn collective_kind(kind: CollectiveCommType) -> CollectiveKind {
    match kind {
        CollectiveCommType::AllReduce => CollectiveKind::AllReduce,
        CollectiveCommType::Reduce => CollectiveKind::Reduce,
        CollectiveCommType::AllGather => CollectiveKind::AllGather,
        CollectiveCommType::Gather => CollectiveKind::Gather,
        CollectiveCommType::Scatter => CollectiveKind::Scatter,
        CollectiveCommType::Broadcast => CollectiveKind::Broadcast,
        CollectiveCommType::AllToAll => CollectiveKind::AllToAll,
        CollectiveCommType::ReduceScatter | CollectiveCommType::ReduceScatterBlock => CollectiveKind::ReduceScatter,
        CollectiveCommType::Barrier => CollectiveKind::Barrier,
    }
}

/// Pairs the communications of all ranks of a run, given as (rank, its communications).
/// Ranks whose traces are not given are taken to take part in everything.
pub fn agree(keys: &GroupKeys, ranks: &[(i64, Vec<Communication>)]) -> Vec<Agreement> {
    let mut channels: BTreeMap<&Channel, BTreeMap<i64, Vec<&Communication>>> = BTreeMap::new();
    for (rank, all) in ranks {
        for comm in all {
            channels.entry(&comm.channel).or_default().entry(*rank).or_default().push(comm);
        }
    }
    let given: BTreeSet<i64> = ranks.iter().map(|(rank, _)| *rank).collect();
    let mut agreed: BTreeMap<i64, Agreement> = given.iter().map(|rank| (*rank, Agreement::default())).collect();
    for (channel, lists) in &channels {
        let members = members(keys, channel).filter(|rank| given.contains(rank)).count();
        let numbered = matches!(channel, Channel::Group(_)) && numbered(lists);
        let mut matches: BTreeMap<i64, Vec<(i64, &Communication)>> = BTreeMap::new();
        for (&rank, list) in lists {
            for (place, &comm) in (0..).zip(list) {
                matches.entry(comm.seq.filter(|_| numbered).unwrap_or(place)).or_default().push((rank, comm));
            }
        }
        matches.values().for_each(|found| settle(found, members, &mut agreed));
    }
    agreed.values_mut().for_each(|agreement| {
        agreement.as_compute.sort_unstable();
        agreement.comm_bytes.sort_unstable();
    });
    ranks.iter().map(|(rank, _)| agreed.get(rank).cloned().unwrap_or_default()).collect()
}

fn members(keys: &GroupKeys, channel: &Channel) -> impl Iterator<Item = i64> {
    let members = match channel {
        Channel::Message { src, dst } => vec![*src, *dst],
        Channel::Group(key) => {
            let group = keys.iter().find(|(known, _)| known == key);
            group.map_or_else(Vec::new, |(_, ranks)| ranks.iter().filter_map(|rank| i64::try_from(*rank).ok()).collect())
        }
    };
    members.into_iter()
}

/// Whether `Seq` tells which collectives are one. Coalesced ones can share theirs, and gloo
/// counts sends and receives with it, so that it can differ between ranks: then order tells.
fn numbered(lists: &BTreeMap<i64, Vec<&Communication>>) -> bool {
    let numbers = |list: &Vec<&Communication>| list.iter().filter_map(|comm| comm.seq).collect::<BTreeSet<i64>>();
    let longest = lists.values().map(Vec::len).max().unwrap_or(0);
    let unique = lists.values().all(|list| numbers(list).len() == list.len());
    let shared = lists.values().map(numbers).reduce(|all, other| &all & &other);
    unique && shared.is_some_and(|shared| 2 * shared.len() >= longest)
}

/// Decides about the communications that should be one.
fn settle(found: &[(i64, &Communication)], members: usize, agreed: &mut BTreeMap<i64, Agreement>) {
    let message = |kind| matches!(kind, CollectiveKind::Send | CollectiveKind::Recv);
    let same = found.windows(2).all(|pair| match (pair[0].1.kind, pair[1].1.kind) {
        (one, other) if message(one) && message(other) => one != other,
        (one, other) => one == other,
    });
    let bytes = found.iter().map(|(_, comm)| comm.bytes).max().unwrap_or(0);
    for (rank, comm) in found {
        let Some(agreement) = agreed.get_mut(rank) else { continue };
        if !same || found.len() != members {
            agreement.as_compute.push(comm.node);
        } else if comm.bytes != bytes {
            agreement.comm_bytes.push((comm.node, bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> GroupKeys {
        GroupKeys::number([vec![0, 1]].into())
    }

    fn in_group(list: &[(CollectiveKind, i64, i64)]) -> Vec<Communication> {
        let comm = |(node, &(kind, bytes, seq)): (u32, &(CollectiveKind, i64, i64))| Communication {
            node,
            channel: Channel::Group("1".to_owned()),
            kind,
            bytes,
            seq: Some(seq).filter(|seq| *seq >= 0),
        };
        (10u32..).zip(list).map(comm).collect()
    }

    fn message(node: u32, kind: CollectiveKind, bytes: i64) -> Communication {
        Communication { node, channel: Channel::Message { src: 0, dst: 1 }, kind, bytes, seq: Some(node.into()) }
    }

    const REDUCE: CollectiveKind = CollectiveKind::AllReduce;

    #[test]
    fn equal_ranks_need_nothing() {
        let ranks = [(0, in_group(&[(REDUCE, 8, 1), (REDUCE, 4, 2)])), (1, in_group(&[(REDUCE, 8, 1), (REDUCE, 4, 2)]))];
        assert_eq!(agree(&keys(), &ranks), [Agreement::default(), Agreement::default()]);
    }

    #[test]
    fn the_largest_size_wins() {
        let ranks = [(0, in_group(&[(CollectiveKind::AllToAll, 320, 1)])), (1, in_group(&[(CollectiveKind::AllToAll, 704, 1)]))];
        let agreed = agree(&keys(), &ranks);
        assert_eq!((&agreed[0].comm_bytes[..], &agreed[1].comm_bytes[..]), (&[(10, 704)][..], &[][..]));
    }

    #[test]
    fn what_is_missing_on_a_rank_is_computation() {
        let ranks = [(0, in_group(&[(REDUCE, 8, 1), (REDUCE, 4, 2)])), (1, in_group(&[(REDUCE, 4, 2), (REDUCE, 2, 3)]))];
        let agreed = agree(&keys(), &ranks);
        assert_eq!((&agreed[0].as_compute[..], &agreed[1].as_compute[..]), (&[10][..], &[11][..]));
        let silent = [(0, in_group(&[(REDUCE, 8, 1)])), (1, vec![])];
        assert_eq!(agree(&keys(), &silent)[0].as_compute, [10]);
        let alone = [(0, in_group(&[(REDUCE, 8, 1)]))];
        assert_eq!(agree(&keys(), &alone)[0], Agreement::default(), "the other trace is not here to tell");
    }

    #[test]
    fn without_numbers_the_order_counts() {
        let ranks = [(0, in_group(&[(REDUCE, 8, -1), (REDUCE, 4, -1)])), (1, in_group(&[(REDUCE, 8, -1), (CollectiveKind::Broadcast, 4, -1)]))];
        let agreed = agree(&keys(), &ranks);
        assert_eq!((&agreed[0].as_compute[..], &agreed[1].as_compute[..]), (&[11][..], &[11][..]), "types differ");
    }

    #[test]
    fn numbers_that_only_one_rank_knows_do_not_count() {
        let ranks = [(0, in_group(&[(REDUCE, 8, 1), (REDUCE, 4, 2)])), (1, in_group(&[(REDUCE, 8, 9), (REDUCE, 4, 11)]))];
        assert_eq!(agree(&keys(), &ranks), [Agreement::default(), Agreement::default()]);
    }

    #[test]
    fn messages_are_paired_in_order() {
        let (send, recv) = (CollectiveKind::Send, CollectiveKind::Recv);
        let ranks = [(0, vec![message(3, send, 64), message(5, send, 64)]), (1, vec![message(8, recv, 32)])];
        let agreed = agree(&keys(), &ranks);
        assert_eq!(agreed[0], Agreement { as_compute: vec![5], comm_bytes: vec![] });
        assert_eq!(agreed[1], Agreement { as_compute: vec![], comm_bytes: vec![(8, 64)] });
    }
}
