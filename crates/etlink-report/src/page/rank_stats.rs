//! Arrival times of ranks at each collective, for a heat map.

use etlink_link::ranks::{
    CollectiveArrival, CollectiveSkew, PairBytes, RankClock, RankSummary, RunJoin, RunSteps,
    StragglerStats, collective_arrivals, collective_skews, pair_bytes, select_run, straggler_stats,
};
use etlink_model::GlobalRank;
use serde::Serialize;

/// Largest number of heat-map columns; more collectives share columns.
const COLUMNS: usize = 400;
/// Largest number of heat-map cells, for any number of ranks.
const CELLS: usize = 100_000;
/// Largest number of ranks of a group whose pairs are listed.
const PAIRED: usize = 64;
/// Number of listed collectives; beyond it, only those with the largest skew and the first of each
/// column are listed.
const LISTED: usize = 2_000;

/// Comparison of ranks. `skews` and `ranks` match the output of `etlink ranks`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankStats {
    /// Clocks of the ranks relative to the first rank's.
    pub clocks: Vec<RankClock>,
    /// Sums per rank.
    pub ranks: Vec<StragglerStats>,
    /// True if ranks of the run have no trace here, so their arrivals are unknown.
    pub(super) absent: bool,
    /// Collectives and messages, by time.
    pub skews: Vec<CollectiveSkew>,
    /// Total number of collectives and messages; may exceed the listed ones.
    pub(super) count: usize,
    /// Delays for the heat map.
    pub(super) late: ArrivalDelays,
    /// Bytes of all-to-alls between ranks, of groups of at most [`PAIRED`] ranks.
    pub(super) pairs: Vec<PairBytes>,
    /// Steps of the run.
    #[serde(skip)]
    pub(super) steps: RunSteps,
}

/// Delay of each rank after the first arrival, by rank and column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ArrivalDelays {
    /// First entry of [`RankStats::skews`], per column.
    pub(super) first: Vec<u32>,
    /// Delay in ns, per rank and column: the mean if several collectives share a column; `None` if
    /// the rank does not take part.
    pub(super) ns: Vec<Vec<Option<i64>>>,
}

impl RankStats {
    /// Compares the ranks of a run. O(n log n) in the communications.
    pub fn new(ranks: &[RankSummary], join: &RunJoin, clocks: Vec<RankClock>) -> RankStats {
        let skews = collective_skews(ranks, join, &clocks);
        let arrivals: Vec<Vec<CollectiveArrival>> = join
            .matches
            .iter()
            .filter_map(|joint| collective_arrivals(ranks, &clocks, joint))
            .collect();
        // one arrival list per skew: both leave out collectives that not all ranks have
        let mut late = if arrivals.len() == skews.len() {
            arrival_delays(ranks.len(), &arrivals)
        } else {
            ArrivalDelays::default()
        };
        let count = skews.len();
        let skews = listed_skews(skews, &mut late.first);
        let absent = !select_run(ranks, true).absent.is_empty();
        let mut pairs = pair_bytes(ranks, join);
        let is_small = |group| join.groups.get(&group).is_some_and(|of| of.len() <= PAIRED);
        pairs.retain(|pair| is_small(pair.group));
        RankStats {
            steps: RunSteps::of_ranks(ranks, &clocks),
            ranks: straggler_stats(ranks, join, &clocks),
            absent,
            late,
            pairs,
            clocks,
            skews,
            count,
        }
    }

    /// Returns the gaps of the comparison as the end of a sentence; empty if there are none.
    pub(super) fn clock_caveat(&self) -> String {
        // Ranks of one machine share its clock, so they need no comparison to be trusted.
        let lost: Vec<GlobalRank> = self
            .clocks
            .iter()
            .filter(|clock| clock.uncertainty_ns.is_none() && !clock.by_machine)
            .map(|clock| clock.rank)
            .collect();
        let here = if self.absent {
            ", among these ranks"
        } else {
            ""
        };
        match &lost[..] {
            [] => here.to_owned(),
            [one] => format!("{here}; the clock of rank {one} is unknown"),
            _ => {
                // Hundreds of ranks may have no clock, and this is part of a sentence.
                let first: Vec<String> = lost.iter().take(8).map(GlobalRank::to_string).collect();
                format!(
                    "{here}; the clocks of ranks {}{} are unknown",
                    first.join(", "),
                    if lost.len() > 8 { ", …" } else { "" }
                )
            }
        }
    }
}

/// Returns the listed skews; updates `first` to places among them.
fn listed_skews(skews: Vec<CollectiveSkew>, first: &mut [u32]) -> Vec<CollectiveSkew> {
    if skews.len() <= LISTED {
        return skews;
    }
    let mut worst: Vec<usize> = (0..skews.len()).collect();
    worst.sort_by_key(|at| (std::cmp::Reverse(skews[*at].skew_ns), *at));
    worst.truncate(LISTED);
    // Each column refers to its first collective by place, so that one must be listed.
    worst.extend(first.iter().map(|at| *at as usize));
    worst.sort_unstable();
    worst.dedup();
    first
        .iter_mut()
        .for_each(|at| *at = worst.partition_point(|listed| *listed < *at as usize) as u32);
    worst.into_iter().map(|at| skews[at].clone()).collect()
}

/// Computes the delays; `arrivals` holds the arrivals at each collective, the earliest first.
fn arrival_delays(ranks: usize, arrivals: &[Vec<CollectiveArrival>]) -> ArrivalDelays {
    // Many ranks get fewer columns, so the size of the page stays constant.
    let columns = (CELLS / ranks.max(1)).clamp(1, COLUMNS);
    let each = arrivals.len().div_ceil(columns).max(1);
    let mut late = ArrivalDelays {
        first: vec![],
        ns: vec![vec![]; ranks],
    };
    for (column, together) in arrivals.chunks(each).enumerate() {
        late.first.push((column * each) as u32);
        let mut sums = vec![(0i64, 0i64); ranks];
        for arrivals in together {
            let first = arrivals.first().map(|arrival| arrival.at_ns);
            let first = first.unwrap_or_default();
            for CollectiveArrival { at_ns, rank, .. } in arrivals {
                if let Some((sum, count)) = sums.get_mut(rank.index()) {
                    (*sum, *count) = (sum.saturating_add(at_ns.since(first)), *count + 1);
                }
            }
        }
        for (cells, (sum, count)) in late.ns.iter_mut().zip(sums) {
            cells.push((count > 0).then(|| sum / count));
        }
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_model::{CommonNs, RankIdx};

    #[test]
    fn of_very_many_the_worst_are_listed() {
        let skew = |at: i64| CollectiveSkew {
            number: at,
            start_ns: CommonNs(at),
            skew_ns: at,
            ..CollectiveSkew::default()
        };
        let mut first = vec![0, 5_000];
        let listed = listed_skews((0..10_000).map(skew).collect(), &mut first);
        assert_eq!(
            (listed.len(), first, listed[1].number, listed[2].number),
            (2_002, vec![0, 1], 5_000, 8_000)
        );
    }

    #[test]
    fn what_is_not_known_is_said() {
        let clock = |rank, uncertainty_ns, by_machine| RankClock {
            rank: GlobalRank(rank),
            uncertainty_ns,
            by_machine,
            ..RankClock::default()
        };
        let known = vec![
            clock(0, Some(0), false),
            clock(1, Some(5), false),
            clock(2, None, true),
        ];
        assert_eq!(
            RankStats {
                clocks: known.clone(),
                ..RankStats::default()
            }
            .clock_caveat(),
            ""
        );
        let lost = [known, vec![clock(3, None, false)]].concat();
        assert_eq!(
            RankStats {
                clocks: lost.clone(),
                absent: true,
                ..RankStats::default()
            }
            .clock_caveat(),
            ", among these ranks; the clock of rank 3 is unknown"
        );
        let lost = [lost, vec![clock(4, None, false)]].concat();
        assert_eq!(
            RankStats {
                clocks: lost,
                ..RankStats::default()
            }
            .clock_caveat(),
            "; the clocks of ranks 3, 4 are unknown"
        );
    }

    #[test]
    fn collectives_share_columns_when_there_are_many() {
        let came = |at_ns, rank| CollectiveArrival {
            at_ns: CommonNs(at_ns),
            rank: RankIdx(rank),
            waits_ns: 0,
        };
        let few = arrival_delays(2, &[vec![came(10, 0), came(40, 1)], vec![came(50, 1)]]);
        assert_eq!(
            few,
            ArrivalDelays {
                first: vec![0, 1],
                ns: vec![vec![Some(0), None], vec![Some(30), Some(0)]]
            }
        );
        let many: Vec<Vec<CollectiveArrival>> =
            (0..801).map(|n| vec![came(0, 1), came(n, 0)]).collect();
        let many = arrival_delays(2, &many);
        assert_eq!(
            (
                many.first.len(),
                many.first[1],
                many.ns[0][0],
                many.ns[0][266]
            ),
            (267, 3, Some(1), Some(799))
        );
    }
}
