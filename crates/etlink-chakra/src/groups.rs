//! Process groups: which global ranks they have, and one key per group for all ranks.
//!
//! PyTorch's group names differ between ranks for groups of a part of them, so the keys that
//! ASTRA-sim's `--comm-group-configuration` wants are numbers from 1 over the sorted rank
//! tuples. As soon as one group is a part of the ranks, all collectives need an explicit group.

use etlink_link::{CollectiveRef, LinkedTrace, NodeKind};
use etlink_model::{Collective, NameId, ProcessGroup};
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Groups larger than this are taken for damage.
const MAX_RANKS: u64 = 1 << 20;

/// The process groups of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'t> {
    trace: &'t LinkedTrace,
    /// Number of ranks, if the trace has no more than one group and says the number.
    only_group: Option<u64>,
}

impl<'t> Groups<'t> {
    /// Looks through the communication records of a trace. O(n).
    pub fn new(trace: &'t LinkedTrace) -> Self {
        let device = (&trace.device.collectives, &trace.device.names);
        let host = trace.host.as_ref().map(|host| (&host.collectives, &host.names));
        let used = [Some(device), host].into_iter().flatten().flat_map(|(table, names)| {
            let used: FxHashSet<NameId> = table.group_name.iter().copied().collect();
            used.into_iter().map(|name| names.get(name))
        });
        let used: BTreeSet<&str> = used.filter(|name| !name.is_empty()).collect();
        let world = trace.report.world_size.or(trace.device.header.world_size);
        let world = world.and_then(|size| u64::try_from(size).ok()).filter(|size| *size <= MAX_RANKS);
        Groups { trace, only_group: world.filter(|_| used.len() <= 1) }
    }

    /// The global ranks of a record's group: the list that the record has, its start and
    /// stride, or the group of its name. PyTorch before 2.2 says none of it: the only group
    /// of such a trace is the default group, in which all ranks are. `None` when nothing tells.
    pub fn ranks(&self, record: &CollectiveRef<'_>) -> Option<Vec<u64>> {
        let Collective { group_ranks, group_name, group_size, .. } = record.record;
        parse_ranks(record.names.get(group_ranks))
            .or_else(|| strided(&record.record))
            .or_else(|| named(self.trace, record.names.get(group_name)))
            .or_else(|| self.only_group.filter(|world| [0, *world].contains(&group_size)).map(|world| (0..world).collect()))
    }

    /// The ranks in order, if they are more than one.
    fn sorted(&self, record: &CollectiveRef<'_>) -> Option<Vec<u64>> {
        let mut ranks = self.ranks(record)?;
        ranks.sort_unstable();
        ranks.dedup();
        (ranks.len() > 1).then_some(ranks)
    }
}

/// `[0, 1, 2]`; `None` for an empty list and for one that was cut (`[0, 1, ...]`).
fn parse_ranks(text: &str) -> Option<Vec<u64>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    inner.split(',').map(|rank| rank.trim().parse().ok()).collect()
}

/// `Global rank start`, `Global rank stride` and `Group size`.
fn strided(record: &Collective) -> Option<Vec<u64>> {
    let start = u64::try_from(record.rank_start).ok()?;
    let size = Some(record.group_size).filter(|size| (1..=MAX_RANKS).contains(size))?;
    let stride = match u64::try_from(record.rank_stride).unwrap_or(0) {
        0 if size > 1 => return None,
        stride => stride,
    };
    (0..size).map(|i| start.checked_add(i.checked_mul(stride)?)).collect()
}

fn named(trace: &LinkedTrace, name: &str) -> Option<Vec<u64>> {
    let host = trace.host.iter().flat_map(|host| &host.groups);
    let mut groups = trace.device.header.groups.iter().chain(host);
    let group: &ProcessGroup = groups.find(|group| !name.is_empty() && group.name == name)?;
    match group.size {
        _ if !group.ranks.is_empty() => Some(group.ranks.clone()),
        0 => None,
        size => Some((0..size.min(MAX_RANKS)).collect()),
    }
}

/// A key for each group of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupKeys {
    keys: BTreeMap<Vec<u64>, String>,
}

impl GroupKeys {
    /// Adds the groups that a rank's collectives use to `groups`; those of one rank are not groups.
    pub fn collect(trace: &LinkedTrace, groups: &mut BTreeSet<Vec<u64>>) {
        let own = Groups::new(trace);
        for index in 0..trace.nodes.len() {
            if trace.nodes.kind[index] != NodeKind::Collective {
                continue;
            }
            let record = trace.collective(&trace.nodes.get(index));
            if let Some(ranks) = record.and_then(|record| own.sorted(&record)) {
                groups.insert(ranks);
            }
        }
    }

    /// Numbers all ranks' groups from 1.
    pub fn number(groups: BTreeSet<Vec<u64>>) -> Self {
        let keys = groups.into_iter().zip(1u64..).map(|(ranks, key)| (ranks, key.to_string())).collect();
        GroupKeys { keys }
    }

    /// The key of a record's group.
    pub fn key(&self, groups: &Groups<'_>, record: &CollectiveRef<'_>) -> Option<&str> {
        self.keys.get(&groups.sorted(record)?).map(String::as_str)
    }

    /// Groups by key, in order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u64])> {
        self.keys.iter().map(|(ranks, key)| (key.as_str(), ranks.as_slice()))
    }

    /// Writes ASTRA-sim's group configuration: `{"1": [0, 1], "2": [2, 3]}`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, out: &mut impl io::Write) -> io::Result<()> {
        let groups: indexmap::IndexMap<&str, &[u64]> = self.iter().collect();
        serde_json::to_writer(&mut *out, &groups)?;
        out.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::comm;

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
        let record = |rank_start, rank_stride, group_size| Collective { rank_start, rank_stride, group_size, ..Collective::absent() };
        assert_eq!(strided(&record(1, 4, 3)), Some(vec![1, 5, 9]));
        assert_eq!(strided(&record(2, -1, 1)), Some(vec![2]));
        assert_eq!(strided(&record(2, -1, 2)), None);
        assert_eq!(strided(&record(-1, 1, 2)), None);
        assert_eq!(strided(&record(0, 1, 0)), None);
        assert_eq!(strided(&record(0, i64::MAX, 1 << 19)), None);
    }

    #[test]
    fn the_only_group_of_an_old_trace_has_all_ranks() {
        let (mut trace, mut record) = comm("allreduce", "Float", 1);
        (record.rank_start, record.group_size) = (-1, 0);
        let ranks = |trace: &LinkedTrace| Groups::new(trace).ranks(&CollectiveRef { record, names: &trace.device.names });
        assert_eq!(ranks(&trace), None);
        trace.device.header.world_size = Some(3);
        assert_eq!(ranks(&trace), Some(vec![0, 1, 2]));
        let other = Collective { group_name: trace.device.names.intern("7"), ..record };
        trace.device.collectives.push(other);
        assert_eq!(ranks(&trace), None, "one of two groups");
    }

    #[test]
    fn keys_number_sorted_groups() {
        let groups = BTreeSet::from([vec![2, 3], vec![0, 1, 2, 3], vec![0, 1]]);
        let mut text = vec![];
        GroupKeys::number(groups).write_json(&mut text).expect("writes");
        assert_eq!(String::from_utf8_lossy(&text), "{\"1\":[0,1],\"2\":[0,1,2,3],\"3\":[2,3]}\n");
    }
}
