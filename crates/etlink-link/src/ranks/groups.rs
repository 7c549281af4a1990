//! Resolves process groups to their global ranks.
//!
//! PyTorch's group names differ between ranks for partial groups, and are addresses before 2.2:
//! only the ranks identify a group.

use crate::limits::MAX_RANKS;
use crate::{CollectiveRef, LinkedTrace};
use etlink_model::{
    Collective, CollectiveKind, DeviceTrace, GlobalRank, HostTrace, NameId, ProcessGroup,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// Process groups of a trace.
#[derive(Clone, Debug)]
pub struct GroupResolver<'t> {
    /// Groups listed in the traces, the first of each name.
    // A linear search in the list would take groups times communications.
    listed: FxHashMap<&'t str, &'t ProcessGroup>,
    /// True if the trace names at most one group, and none of another size.
    one_group: bool,
    /// Number of ranks, if the trace states it.
    world: Option<u64>,
    /// Rank of the trace, if it states it.
    own: Option<GlobalRank>,
}

impl<'t> GroupResolver<'t> {
    /// Scans the communication records of a trace. O(n).
    pub fn new(trace: &'t LinkedTrace) -> Self {
        let one_group = has_one_group(&trace.device, trace.host.as_ref());
        let world = trace.report.world_size.or(trace.device.header.world_size);
        let world = world
            .and_then(|size| u64::try_from(size).ok())
            .filter(|size| *size <= MAX_RANKS);
        let mut listed = FxHashMap::default();
        let host_groups = trace.host.iter().flat_map(|host| &host.groups);
        for group in trace.device.header.groups.iter().chain(host_groups) {
            listed.entry(group.name.as_str()).or_insert(group);
        }
        GroupResolver {
            listed,
            one_group,
            world,
            own: trace.report.rank.or(trace.device.header.rank),
        }
    }

    /// Returns the global ranks of a record's group: from its list, its start and stride, or the
    /// group with its name. PyTorch before 2.2 records none of these: the only group of such a
    /// trace is the default group, which contains all ranks. `None` if unknown.
    pub fn ranks(&self, record: &CollectiveRef<'_>) -> Option<Vec<u64>> {
        let Collective {
            group_ranks,
            group_name,
            group_size,
            ..
        } = record.record;
        // From most to least reliable: the list, start and stride, a list that PyTorch truncated at
        // 30 ranks, the name in `pg_config`.
        parse_ranks(record.names.get(group_ranks))
            .or_else(|| strided(&record.record))
            .or_else(|| expanded(record.names.get(group_ranks), group_size))
            .or_else(|| self.named(record.names.get(group_name)))
            .or_else(|| match self.world {
                Some(world) if self.is_only(record) => Some((0..world).collect()),
                _ => None,
            })
    }

    fn named(&self, name: &str) -> Option<Vec<u64>> {
        if name.is_empty() {
            return None;
        }
        let group = self.listed.get(name)?;
        match group.size {
            _ if !group.ranks.is_empty() => Some(group.ranks.clone()),
            0 => None,
            // An empty list means the default group, which contains all ranks (`pg_config` and
            // `process_group:init`).
            size => Some((0..size.min(MAX_RANKS)).collect()),
        }
    }

    /// True if the trace has no other group than this record's, which then must be the group of all
    /// ranks.
    pub fn is_only(&self, record: &CollectiveRef<'_>) -> bool {
        let size = record.record.group_size;
        self.one_group
            && record.names.get(record.record.group_ranks).is_empty()
            && self.world.is_none_or(|world| size == 0 || size == world)
    }

    /// True if the record's group contains all ranks, as far as the trace shows.
    pub fn is_world(&self, record: &CollectiveRef<'_>) -> bool {
        let ranks = self.ranks(record).map(|ranks| ranks.len() as u64);
        self.world.is_some() && ranks == self.world
    }

    /// Returns the global rank that a send goes to or a receive comes from: `Dst Rank` or `Src
    /// Rank`, which are global or indexes in the group; otherwise `Rank`, which in both is the
    /// peer's index.
    pub fn peer(&self, record: &CollectiveRef<'_>) -> Option<GlobalRank> {
        let (own, said) = if record.kind() == CollectiveKind::Send {
            (record.record.src, record.record.dst)
        } else {
            (record.record.dst, record.record.src)
        };
        let ranks = self.ranks(record);
        let at = |place: i64| -> Option<GlobalRank> {
            let rank = *ranks.as_ref()?.get(usize::try_from(place).ok()?)?;
            i64::try_from(rank).ok().map(GlobalRank)
        };
        // Older traces have no `Src Rank` and `Dst Rank`: only `Rank` names the peer.
        if said < 0 {
            return at(record.record.rank);
        }
        // Some writers record the index in the group: then it is no rank of the group, or equals
        // `Rank`, or the other side is the own index instead of the own rank, or it would be the
        // rank itself.
        let is_member = |rank: i64| {
            let ranks = ranks.iter().flatten();
            ranks.copied().any(|own| u64::try_from(rank) == Ok(own))
        };
        let is_index = self.own.is_some_and(|rank| {
            let is_own_index = rank != GlobalRank(own) && at(own) == Some(rank);
            is_own_index || rank == GlobalRank(said)
        });
        match at(said) {
            Some(peer) if record.record.rank == said || !is_member(said) || is_index => Some(peer),
            _ => Some(GlobalRank(said)),
        }
    }
}

/// True if the records of two traces name at most one group, and none of another size.
fn has_one_group(device: &DeviceTrace, host: Option<&HostTrace>) -> bool {
    let device = (&device.collectives, &device.names);
    let host = host.map(|host| (&host.collectives, &host.names));
    let tables = || [Some(device), host].into_iter().flatten();
    let used = tables().flat_map(|(table, names)| {
        let used: FxHashSet<NameId> = table.group_name.iter().copied().collect();
        used.into_iter().map(|name| names.get(name))
    });
    let used: BTreeSet<&str> = used.filter(|name| !name.is_empty()).collect();
    let sizes = tables().flat_map(|(table, _)| &table.group_size);
    let mut sizes = sizes.copied().filter(|size| *size > 0);
    let one_size = sizes
        .next()
        .is_none_or(|first| sizes.all(|size| size == first));
    used.len() <= 1 && one_size
}

/// Parses `[0, 1, 2]`; `None` for an empty or truncated list (`[0, 1, ...]`).
fn parse_ranks(text: &str) -> Option<Vec<u64>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    inner
        .split(',')
        .map(|rank| rank.trim().parse().ok())
        .collect()
}

/// Ranks from `Global rank start`, `Global rank stride` and `Group size`.
fn strided(record: &Collective) -> Option<Vec<u64>> {
    let start = u64::try_from(record.rank_start).ok()?;
    let size = Some(record.group_size).filter(|size| (1..=MAX_RANKS).contains(size))?;
    // PyTorch writes stride 0 for a group of one rank, and -1 or nothing if ranks are not evenly
    // spaced.
    let stride = match u64::try_from(record.rank_stride).unwrap_or(0) {
        0 if size > 1 => return None,
        stride => stride,
    };
    from_to(start, stride, size)
}

/// Returns `start`, `start + stride`, …, with `size` entries; `None` if they are no valid ranks.
fn from_to(start: u64, stride: u64, size: u64) -> Option<Vec<u64>> {
    (0..size)
        .map(|i| start.checked_add(i.checked_mul(stride)?))
        .collect()
}

/// Expands `[0, 8, 16, ...]` or `[0, 8, ..., 56]`: continues the initial stride up to the size or
/// the last rank.
fn expanded(text: &str, size: u64) -> Option<Vec<u64>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let (head, tail) = inner.split_once("...").or_else(|| inner.split_once('…'))?;
    let (head, tail) = (rank_numbers(head)?, rank_numbers(tail)?);
    let (first, second) = (*head.first()?, *head.get(1)?);
    let stride = second.checked_sub(first).filter(|stride| *stride > 0)?;
    let size = match tail.last() {
        Some(last) => (last.checked_sub(first)? / stride).checked_add(1)?,
        None => size,
    };
    let all = from_to(first, stride, Some(size).filter(|size| *size <= MAX_RANKS)?)?;
    // An uneven list (`[0, 1, 4, ...]`) must not be continued.
    (all.starts_with(&head) && all.ends_with(&tail)).then_some(all)
}

/// Parses the ranks on one side of a truncated list, which may end or begin with a comma.
fn rank_numbers(text: &str) -> Option<Vec<u64>> {
    let ranks = text.split(',').map(str::trim);
    let stated = ranks.filter(|rank| !rank.is_empty());
    stated.map(|rank| rank.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_lists() {
        assert_eq!(parse_ranks("[0, 1, 5]"), Some(vec![0, 1, 5]));
        assert_eq!(parse_ranks("[3]"), Some(vec![3]));
        for text in ["", "[]", "[0, 1, ..., 7]", "[0, 1, ...]", "0, 1", "[-1]"] {
            assert_eq!(parse_ranks(text), None, "{text}");
        }
    }

    #[test]
    fn start_and_stride() {
        let record = |rank_start, rank_stride, group_size| Collective {
            rank_start,
            rank_stride,
            group_size,
            ..Collective::absent()
        };
        assert_eq!(strided(&record(1, 4, 3)), Some(vec![1, 5, 9]));
        assert_eq!(strided(&record(2, -1, 1)), Some(vec![2]));
        assert_eq!(strided(&record(2, -1, 2)), None);
        assert_eq!(strided(&record(-1, 1, 2)), None);
        assert_eq!(strided(&record(0, 1, 0)), None);
        assert_eq!(strided(&record(0, i64::MAX, 1 << 19)), None);
    }

    #[test]
    fn cut_lists_go_on_at_their_distance() {
        assert_eq!(expanded("[0, 8, 16, ...]", 5), Some(vec![0, 8, 16, 24, 32]));
        assert_eq!(expanded("[1, 3, ..., 9]", 0), Some(vec![1, 3, 5, 7, 9]));
        assert_eq!(
            expanded("[0, 1, 2, ..., 30, 31]", 32).map(|all| all.len()),
            Some(32)
        );
        for (text, size) in [
            ("[0, 1, 5, ...]", 8),
            ("[0, ...]", 8),
            ("[3, 2, ...]", 8),
            ("[3, 3, ...]", 8),
            ("[3, 3, ..., 9]", 8),
            ("[0, 1, ..., 4, 9]", 8),
            ("[0, 1, ...]", u64::MAX),
            ("[0, 1]", 2),
        ] {
            assert_eq!(expanded(text, size), None, "{text}");
        }
        for (text, size) in [
            ("[0, 9223372036854775808, ...]", 3),
            ("[0, 1, ..., 18446744073709551615]", 0),
            ("[18446744073709551614, 18446744073709551615, ...]", 4),
        ] {
            assert_eq!(
                expanded(text, size),
                None,
                "{text}: beyond what ranks can be"
            );
        }
    }

    #[test]
    fn the_only_group_of_an_old_trace_has_all_ranks() {
        let mut trace = LinkedTrace::default();
        let name = trace.device.names.intern("0");
        let record = Collective {
            group_name: name,
            ..Collective::absent()
        };
        trace.device.collectives.push(record);
        let ranks = |trace: &LinkedTrace| {
            GroupResolver::new(trace).ranks(&CollectiveRef {
                record,
                names: &trace.device.names,
            })
        };
        assert_eq!(ranks(&trace), None);
        trace.device.header.world_size = Some(3);
        assert_eq!(ranks(&trace), Some(vec![0, 1, 2]));
        let other = Collective {
            group_name: trace.device.names.intern("7"),
            ..record
        };
        trace.device.collectives.push(other);
        assert_eq!(ranks(&trace), None, "one of two groups");
    }

    #[test]
    fn a_peer_may_be_stated_by_its_place_in_the_group() {
        let mut trace = LinkedTrace::default();
        let names = &mut trace.device.names;
        let (name, group) = (names.intern("send"), names.intern("[2, 3]"));
        for (dst, rank, peer) in [(3, -1, 3), (1, -1, 3), (3, 1, 3), (0, 0, 2), (-1, 1, 3)] {
            let record = Collective {
                name,
                dst,
                rank,
                group_ranks: group,
                ..Collective::absent()
            };
            let found = GroupResolver::new(&trace).peer(&CollectiveRef {
                record,
                names: &trace.device.names,
            });
            assert_eq!(found, Some(GlobalRank(peer)), "{dst} {rank}");
        }
        // the own side shows that both are indexes
        trace.device.header.rank = Some(GlobalRank(1));
        let group = trace.device.names.intern("[1, 2, 3]");
        for (src, dst, peer) in [(0, 2, 3), (0, 1, 2), (1, 2, 2), (-1, 1, 2), (-1, 3, 3)] {
            let record = Collective {
                name,
                src,
                dst,
                group_ranks: group,
                ..Collective::absent()
            };
            let found = GroupResolver::new(&trace).peer(&CollectiveRef {
                record,
                names: &trace.device.names,
            });
            assert_eq!(found, Some(GlobalRank(peer)), "{src} {dst}");
        }
    }

    #[test]
    fn groups_of_two_sizes_are_two() {
        let mut trace = LinkedTrace::default();
        let record = |group_size| Collective {
            group_size,
            ..Collective::absent()
        };
        let is_only = |trace: &LinkedTrace, size| {
            GroupResolver::new(trace).is_only(&CollectiveRef {
                record: record(size),
                names: &trace.device.names,
            })
        };
        trace.device.collectives.push(record(4));
        assert!(is_only(&trace, 4));
        trace.device.header.world_size = Some(8);
        assert!(!is_only(&trace, 4), "half of the ranks");
        trace.device.header.world_size = None;
        trace.device.collectives.push(record(2));
        assert!(!is_only(&trace, 4) && !is_only(&trace, 2));
    }
}
