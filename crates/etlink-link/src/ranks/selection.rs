//! Selects the traces of one run.
//!
//! Folders contain leftovers: two traces of one rank, traces of another day, or of a run of another
//! size. The majority defines the run; the others are named and left out.
//!
//! A trace copied under another rank's name has the machine, the process and, to the nanosecond,
//! the times of the original. Its true rank is unknown, so neither copy is used.

use super::RankSummary;
use crate::limits::{PROCESSES_APART, RUNS_APART};
use etlink_model::{DurationNs, GlobalRank, UnixNs};
use serde::Serialize;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Reason a trace is not joined with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExcludeReason {
    /// An earlier trace has the same rank.
    SameRank,
    /// Another rank's trace has the same process and time.
    SameTrace {
        /// Other rank; the first of several.
        rank: GlobalRank,
    },
    /// Most traces state a different number of ranks.
    WorldSize {
        /// Number of ranks stated by this trace.
        own: i64,
        /// Number of ranks stated by most traces.
        most: i64,
    },
    /// A trace has another version of PyTorch's format than most.
    HostSchema,
    /// Recorded at a different time than most traces.
    Time {
        /// Distance to the nearest other trace, ns; negative if earlier.
        apart_ns: i64,
    },
    /// The file is truncated before its time base, so its times cannot be compared.
    NoTimeBase,
    /// The rank exceeds the run's number of ranks.
    BeyondWorld {
        /// Number of ranks.
        world_size: i64,
    },
}

impl ExcludeReason {
    /// Describes the reason, to follow the rank's name.
    pub fn describe(self) -> String {
        match self {
            ExcludeReason::SameRank => "another trace has the same rank".to_owned(),
            ExcludeReason::SameTrace { rank } => format!(
                "its trace and the trace of rank {rank} are from one process, with the same start and \
                end: one is a copy of the other. Keep the trace whose rank is correct"
            ),
            ExcludeReason::WorldSize { own, most } => {
                format!("it is from a run of {own} ranks; most others are from a run of {most}")
            }
            ExcludeReason::HostSchema => {
                "its traces have another format than those of other ranks, so another version of \
                 PyTorch recorded it"
                    .to_owned()
            }
            ExcludeReason::Time { apart_ns } => {
                let word = if apart_ns < 0 { "before" } else { "after" };
                let apart = apart_ns.unsigned_abs();
                let apart = match apart / 1_000_000_000 {
                    0 => format!("{} ms", apart / 1_000_000),
                    seconds => format!("{seconds} s"),
                };
                format!("it was recorded {apart} {word} the others, so it is from another run")
            }
            ExcludeReason::NoTimeBase => {
                "its file is truncated before its time base: its times cannot be \
                                          compared with other ranks"
                    .to_owned()
            }
            ExcludeReason::BeyondWorld { world_size } => {
                format!("the run has only {world_size} ranks")
            }
        }
    }
}

/// Selection of the traces of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSelection {
    /// Reason each trace is left out; `None` if it is joined.
    pub excluded: Vec<Option<ExcludeReason>>,
    /// Number of ranks of the run, if any trace states it.
    pub world_size: Option<i64>,
    /// Ranks of the run without a trace, ascending; at most 1024.
    pub absent: Vec<GlobalRank>,
}

/// Selects the traces of one run from a folder. With `all`, only duplicates are left out: a second
/// trace of a rank, and one trace under several ranks.
pub fn select_run<S: Borrow<RankSummary>>(ranks: &[S], all: bool) -> RunSelection {
    let ranks: Vec<&RankSummary> = ranks.iter().map(Borrow::borrow).collect();
    let mut selection = RunSelection {
        excluded: vec![None; ranks.len()],
        ..RunSelection::default()
    };
    selection.world_size = most(ranks.iter().copied().filter_map(stated_size));
    if !all {
        // Sizes first: a leftover of another size must not bridge two clusters of time.
        selection.by_world(&ranks);
        selection.by_version(&ranks, |summary| summary.host_schema.as_deref());
        selection.by_version(&ranks, |summary| summary.device_schema);
        selection.by_clock(&ranks);
        selection.by_time(&ranks);
    }
    selection.by_process(&ranks);
    let mut seen = BTreeSet::new();
    for (summary, excluded) in ranks.iter().zip(&mut selection.excluded) {
        if excluded.is_none() && !seen.insert(summary.rank) {
            *excluded = Some(ExcludeReason::SameRank);
        }
    }
    let world = selection
        .world_size
        .or(seen.last().map(|last| last.0.saturating_add(1)))
        .unwrap_or(0);
    selection.absent = (0..world)
        .map(GlobalRank)
        .filter(|rank| !seen.contains(rank))
        .take(1024)
        .collect();
    selection
}

impl RunSelection {
    fn by_world(&mut self, ranks: &[&RankSummary]) {
        let Some(most) = self.world_size else { return };
        for (summary, excluded) in ranks.iter().zip(&mut self.excluded) {
            *excluded = match stated_size(summary) {
                Some(own) if own != most => Some(ExcludeReason::WorldSize { own, most }),
                _ if summary.rank.0 >= most => {
                    Some(ExcludeReason::BeyondWorld { world_size: most })
                }
                _ => None,
            };
        }
    }

    /// Excludes traces that another version of PyTorch recorded.
    fn by_version<'r, T: Ord + Copy>(
        &mut self,
        ranks: &[&'r RankSummary],
        version: impl Fn(&'r RankSummary) -> Option<T>,
    ) {
        let members = ranks.iter().zip(&self.excluded);
        let left = members.filter(|(_, excluded)| excluded.is_none());
        let Some(most) = most(left.filter_map(|(summary, _)| version(summary))) else {
            return;
        };
        for (summary, excluded) in ranks.iter().zip(&mut self.excluded) {
            if excluded.is_none() && version(summary).is_some_and(|own| own != most) {
                *excluded = Some(ExcludeReason::HostSchema);
            }
        }
    }

    /// Excludes traces without a time base: their times would be on another day.
    fn by_clock(&mut self, ranks: &[&RankSummary]) {
        let is_known = |(summary, excluded): (&&RankSummary, &Option<ExcludeReason>)| {
            excluded.is_none() && !summary.has_no_clock
        };
        if !ranks.iter().zip(&self.excluded).any(is_known) {
            return;
        }
        for (summary, excluded) in ranks.iter().zip(&mut self.excluded) {
            if excluded.is_none() && summary.has_no_clock {
                *excluded = Some(ExcludeReason::NoTimeBase);
            }
        }
    }

    /// Excludes traces of one process and time that claim to be of several ranks, except the only
    /// one that is not excluded yet. Traces without a machine name, such as simulators', may be
    /// alike.
    fn by_process(&mut self, ranks: &[&RankSummary]) {
        let mut same: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, summary) in ranks.iter().enumerate() {
            let machine = summary.machine.as_deref();
            let known = if !summary.has_no_clock {
                machine.zip(summary.process)
            } else {
                None
            };
            if let Some((machine, process)) = known {
                let times = (summary.window_ns, summary.first_ns);
                same.entry((machine, process, times)).or_default().push(at);
            }
        }
        let was_out: Vec<bool> = self.excluded.iter().map(Option::is_some).collect();
        for members in same.values() {
            for at in members {
                let own = ranks[*at];
                let mut others = members
                    .iter()
                    .filter(|other| was_out[*at] || !was_out[**other]);
                if let Some(copy) = others.find(|other| is_copy(own, ranks[**other])) {
                    let rank = ranks[*copy].rank;
                    self.excluded[*at] = Some(ExcludeReason::SameTrace { rank });
                }
            }
        }
    }

    /// Keeps traces recorded at about the same time. Clocks of machines differ, and profilers are
    /// started by hand; recordings of one machine must overlap, unless a manifest lists them.
    fn by_time(&mut self, ranks: &[&RankSummary]) {
        let left: Vec<usize> = (0..ranks.len())
            .filter(|at| self.excluded[*at].is_none())
            .collect();
        self.keep_largest(ranks, left, RUNS_APART);
        let mut machines: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, summary) in ranks.iter().enumerate() {
            let machine = summary.machine.as_deref();
            if self.excluded[at].is_none()
                && !summary.is_listed
                && let Some(machine) = machine
            {
                machines.entry(machine).or_default().push(at);
            }
        }
        for own in machines.into_values() {
            self.keep_largest(ranks, own, PROCESSES_APART);
        }
    }

    /// Clusters windows that follow each other within `apart`, and keeps the largest cluster; of
    /// equals, the earliest.
    fn keep_largest(&mut self, ranks: &[&RankSummary], mut order: Vec<usize>, apart: DurationNs) {
        order.sort_by_key(|at| ranks[*at].window_ns);
        let mut clusters: Vec<(UnixNs, UnixNs, Vec<usize>)> = vec![];
        for at in order {
            let (start, end) = ranks[at].window_ns;
            match clusters.last_mut() {
                Some((_, last, members)) if start.since(*last) <= apart.0 => {
                    *last = end.max(*last);
                    members.push(at);
                }
                _ => clusters.push((start, end, vec![at])),
            }
        }
        let sizes = clusters.iter().map(|(.., members)| members.len());
        let Some(run) = sizes
            .enumerate()
            .max_by_key(|(at, size)| (*size, std::cmp::Reverse(*at)))
            .map(|(at, _)| at)
        else {
            return;
        };
        let (start, end) = (clusters[run].0, clusters[run].1);
        for (at, (from, to, members)) in clusters.iter().enumerate() {
            let apart_ns = match at.cmp(&run) {
                Ordering::Less => to.since(start),
                Ordering::Equal => continue,
                Ordering::Greater => from.since(end),
            };
            for member in members {
                self.excluded[*member] = Some(ExcludeReason::Time { apart_ns });
            }
        }
    }
}

/// Returns true if traces of two ranks, with one process and window, have all communications in
/// common.
fn is_copy(one: &RankSummary, other: &RankSummary) -> bool {
    let times = |summary: &RankSummary| {
        let communications = summary.communications.iter();
        communications
            .map(|own| (own.start_ns, own.end_ns))
            .collect::<Vec<_>>()
    };
    one.rank != other.rank
        && one.communications.len() == other.communications.len()
        && times(one) == times(other)
}

/// Returns the number of ranks that a trace states; a damaged one may state -1.
fn stated_size(summary: &RankSummary) -> Option<i64> {
    summary.world_size.filter(|size| *size > 0)
}

/// Returns the most frequent value; of equals, the smallest.
fn most<T: Ord + Copy>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    all.for_each(|value| *counts.entry(value).or_default() += 1);
    counts
        .into_iter()
        .max_by_key(|(value, count)| (*count, std::cmp::Reverse(*value)))
        .map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn summary(rank: i64, world_size: Option<i64>, start_s: i64) -> RankSummary {
        RankSummary {
            rank: GlobalRank(rank),
            world_size,
            window_ns: (UnixNs(start_s * S), UnixNs((start_s + 2) * S)),
            ..RankSummary::default()
        }
    }

    #[test]
    fn gaps_are_named() {
        let selection = select_run(&[0, 1, 3].map(|rank| summary(rank, Some(4), 100)), false);
        assert_eq!(
            (selection.absent, selection.world_size, selection.excluded),
            (vec![GlobalRank(2)], Some(4), vec![None; 3])
        );
        assert_eq!(
            super::select_run(&[0, 1, 3].map(|rank| summary(rank, None, 100)), false).absent,
            [GlobalRank(2)]
        );
    }

    #[test]
    fn the_second_trace_of_a_rank_is_left_out() {
        let selection = select_run(
            &[
                summary(0, None, 100),
                summary(1, None, 100),
                summary(1, None, 101),
            ],
            false,
        );
        assert_eq!(
            selection.excluded,
            [None, None, Some(ExcludeReason::SameRank)]
        );
    }

    #[test]
    fn a_trace_of_another_version_is_left_out() {
        let of = |rank, schema: Option<&str>| RankSummary {
            host_schema: schema.map(str::to_owned),
            ..summary(rank, Some(4), 100)
        };
        let ranks = [
            of(0, Some("1.0.2")),
            of(1, Some("1.1.1")),
            of(2, Some("1.1.1")),
            of(3, None),
        ];
        let other = Some(ExcludeReason::HostSchema);
        assert_eq!(
            select_run(&ranks, false).excluded,
            [other, None, None, None]
        );
        assert_eq!(select_run(&ranks, true).excluded, [None; 4]);
        let device = |rank, device_schema| RankSummary {
            device_schema,
            ..summary(rank, Some(4), 100)
        };
        let ranks = [
            device(0, Some((true, true))),
            device(1, Some((true, false))),
            device(2, Some((true, false))),
            device(3, None),
        ];
        assert_eq!(
            select_run(&ranks, false).excluded,
            [other, None, None, None]
        );
    }

    #[test]
    fn of_one_trace_under_two_ranks_neither_is_taken() {
        let on = |machine: &str, process: i64, rank: i64| RankSummary {
            machine: Some(machine.to_owned()),
            process: Some(process),
            ..summary(rank, Some(4), 100)
        };
        let ranks = [on("a", 7, 0), on("a", 7, 1), on("b", 7, 2), on("a", 8, 3)];
        let same = |rank| {
            Some(ExcludeReason::SameTrace {
                rank: GlobalRank(rank),
            })
        };
        for all in [false, true] {
            let selection = select_run(&ranks, all);
            assert_eq!(selection.excluded, [same(1), same(0), None, None]);
            assert_eq!(selection.absent, [GlobalRank(0), GlobalRank(1)]);
        }
        // without a machine name, as in simulated traces, ranks may be alike
        let ranks = [0, 1].map(|rank| summary(rank, Some(2), 100));
        assert_eq!(select_run(&ranks, false).excluded, [None; 2]);
    }

    #[test]
    fn ranks_of_a_run_of_another_size_are_left_out() {
        let ranks = [
            summary(0, Some(2), 100),
            summary(1, Some(2), 100),
            summary(2, Some(8), 100),
            summary(3, None, 100),
        ];
        let found = select_run(&ranks, false);
        let beyond = Some(ExcludeReason::BeyondWorld { world_size: 2 });
        assert_eq!(
            found.excluded,
            [
                None,
                None,
                Some(ExcludeReason::WorldSize { own: 8, most: 2 }),
                beyond
            ]
        );
        assert_eq!(
            select_run(&ranks, true).excluded,
            [None; 4],
            "when all shall be joined"
        );
    }

    #[test]
    fn a_number_of_ranks_that_cannot_be_is_none() {
        let ranks = [
            summary(0, Some(-1), 100),
            summary(1, Some(-1), 100),
            summary(2, Some(0), 100),
        ];
        let found = select_run(&ranks, false);
        assert_eq!(
            (found.excluded, found.world_size, found.absent),
            (vec![None; 3], None, vec![])
        );
    }

    /// Tasks of a job that record one after the other share a manifest.
    #[test]
    fn ranks_that_a_manifest_lists_need_not_overlap() {
        let listed = |rank, start_s| RankSummary {
            machine: Some("a".to_owned()),
            is_listed: true,
            ..summary(rank, Some(2), start_s)
        };
        let ranks = [listed(0, 100), listed(1, 105)];
        assert_eq!(select_run(&ranks, false).excluded, [None; 2]);
    }

    #[test]
    fn times_without_a_base_are_compared_with_none() {
        let cut = |rank| RankSummary {
            has_no_clock: true,
            ..summary(rank, Some(3), 0)
        };
        let ranks = [cut(0), cut(1), summary(2, Some(3), 1_700_000_000)];
        let left_out = Some(ExcludeReason::NoTimeBase);
        let found = select_run(&ranks, false).excluded;
        assert_eq!(found, [left_out, left_out, None], "the whole one stays");
        // if no file has one, they contradict nothing
        assert_eq!(select_run(&ranks[..2], false).excluded, [None; 2]);
    }

    #[test]
    fn ranks_of_another_day_are_left_out() {
        let ranks = [
            summary(0, Some(3), 86_400),
            summary(1, Some(3), 100),
            summary(2, Some(3), 150),
        ];
        assert_eq!(
            select_run(&ranks, false).excluded,
            [
                Some(ExcludeReason::Time {
                    apart_ns: (86_400 - 152) * S
                }),
                None,
                None
            ]
        );
        assert_eq!(select_run(&ranks, false).absent, [GlobalRank(0)]);
        // processes of one machine share a clock, so their windows must overlap
        let on = |rank, machine: &str, start_s| RankSummary {
            machine: Some(machine.to_owned()),
            ..summary(rank, Some(4), start_s)
        };
        let ranks = [
            on(0, "a", 100),
            on(1, "a", 101),
            on(2, "a", 105),
            on(3, "b", 105),
        ];
        let apart = Some(ExcludeReason::Time { apart_ns: 2 * S });
        assert_eq!(
            select_run(&ranks, false).excluded,
            [None, None, apart, None]
        );
        assert!(
            ExcludeReason::Time { apart_ns: -90 * S }
                .describe()
                .contains("90 s before")
        );
    }
}
