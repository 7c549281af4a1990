//! Causes that several ranks show together: one late rank, or different ranks in turn.

use crate::findings::candidate::{CauseCandidate, CauseEvidence, RankWork};
use crate::findings::finding::RankPart;
use crate::findings::kind::CauseKind;
use crate::findings::text::{mean_ns, short_name};
use etlink_model::NodeIdx;
use etlink_replay::{GraphEdits, ReplayGraph};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Smallest excess work that can make a rank late, as a share of the window.
const LEAST_EXCESS: f64 = 0.003;

/// Minimum ratio to the other ranks' time at which work is longer than noise explains.
const LONGER: f64 = 1.05;

/// Maximum number of late ranks replayed: each replay covers the graph of all ranks.
const MOST_LATE: usize = 4;

/// Finds causes by comparing the ranks. `whole_ns`: reference time of the gains.
pub(crate) fn rank_candidates(
    graph: &ReplayGraph,
    parts: &[RankPart],
    whole_ns: i64,
) -> Vec<CauseCandidate> {
    // A rank whose rows were lost would make all others look late.
    let lacks_rows = parts.iter().any(|part| part.causes.window.unknown_ns > 0);
    if parts.len() < 2 || lacks_rows {
        return vec![];
    }
    let least_ns = (LEAST_EXCESS * whole_ns as f64) as i64;
    let all = parts.iter().flat_map(|part| part.causes.work.keys());
    let names: BTreeSet<&(bool, String)> = all.collect();
    let mut candidates: Vec<CauseCandidate> = late_ranks(parts, &names, least_ns)
        .into_iter()
        .filter_map(|late| late.into_candidate(parts))
        .collect();
    candidates.extend(imbalance(graph, parts, &names, least_ns));
    candidates
}

fn work_of<'p>(part: &'p RankPart, name: &(bool, String)) -> Option<&'p RankWork> {
    part.causes.work.get(name)
}

/// Time of work on a rank on which it takes longer than usual on the others.
#[derive(Clone, Copy)]
pub(super) struct LongerTime {
    pub(super) own_ns: i64,
    pub(super) usual_ns: i64,
}

impl LongerTime {
    /// Compares the time on a rank with the ascending times on all ranks; `None` if it is not
    /// longer by at least `least_ns`.
    pub(super) fn of(sorted: &[i64], own_ns: i64, least_ns: i64) -> Option<LongerTime> {
        let usual_ns = median_without(sorted, own_ns);
        let time = LongerTime { own_ns, usual_ns };
        let is_longer = own_ns as f64 >= LONGER * usual_ns as f64;
        (is_longer && time.excess_ns() >= least_ns).then_some(time)
    }

    pub(super) fn excess_ns(self) -> i64 {
        self.own_ns.saturating_sub(self.usual_ns)
    }
}

/// A rank whose work takes longer than on the others.
struct LateRank<'p> {
    /// Index of the rank.
    place: usize,
    excess_ns: i64,
    work: Vec<(&'p (bool, String), LongerTime)>,
}

/// Returns the ranks with the most excess work, the worst first. O(names · ranks).
fn late_ranks<'p>(
    parts: &'p [RankPart],
    names: &BTreeSet<&'p (bool, String)>,
    least_ns: i64,
) -> Vec<LateRank<'p>> {
    let places = 0..parts.len();
    let mut late: Vec<LateRank<'p>> = places
        .map(|place| LateRank {
            place,
            excess_ns: 0,
            work: vec![],
        })
        .collect();
    for name in names {
        let times = parts.iter();
        let times: Vec<i64> = times
            .map(|part| work_of(part, name).map_or(0, |work| work.time_ns))
            .collect();
        let mut sorted = times.clone();
        sorted.sort_unstable();
        for (rank, own_ns) in late.iter_mut().zip(times) {
            if let Some(time) = LongerTime::of(&sorted, own_ns, least_ns) {
                rank.excess_ns = time.excess_ns().saturating_add(rank.excess_ns);
                rank.work.push((name, time));
            }
        }
    }
    late.retain(|rank| !rank.work.is_empty());
    late.sort_by_key(|rank| Reverse(rank.excess_ns));
    late.truncate(MOST_LATE);
    late
}

/// Returns the median of ascending values without one of them.
fn median_without(sorted: &[i64], own: i64) -> i64 {
    let place = sorted.partition_point(|value| *value < own);
    let middle = sorted.len().saturating_sub(2) / 2;
    // Values after the removed one have moved up.
    let middle = middle + usize::from(place <= middle);
    sorted.get(middle).copied().unwrap_or(0)
}

impl LateRank<'_> {
    fn into_candidate(self, parts: &[RankPart]) -> Option<CauseCandidate> {
        let part = &parts[self.place];
        let rank = part.causes.rank?;
        let mut own_edits = GraphEdits::default();
        for (name, time) in &self.work {
            let factor = time.usual_ns as f64 / time.own_ns.max(1) as f64;
            let nodes = work_of(part, name).map_or(&[][..], |work| &work.nodes);
            let scaled = nodes.iter().map(|node| (*node, factor));
            own_edits.scaled.extend(scaled);
        }
        let mut edits = GraphEdits::default();
        edits.extend_shifted(&own_edits, part.first);
        let worst = self.work.iter().max_by_key(|(_, time)| time.excess_ns());
        let (name, time) = worst?;
        let mut evidence = CauseEvidence {
            count: self.work.len() as u64,
            time_ns: self.excess_ns,
            typical_ns: time.own_ns,
            compared: Some(time.usual_ns as f64),
            within: Some(short_name(&name.1)),
            ..CauseEvidence::default()
        };
        if let Some(work) = work_of(part, name) {
            let (start_ns, end_ns) = work.longest_span();
            evidence.set_span(start_ns, end_ns);
            evidence.set_rank(part.causes.rank, part.causes.first_ns);
        }
        Some(CauseCandidate {
            kind: CauseKind::LateRank,
            subject: format!("rank {rank}"),
            edits,
            other_edits: None,
            evidence,
        })
    }
}

/// Evens out work that all ranks do equally often: each occurrence takes the mean over ranks.
fn imbalance(
    graph: &ReplayGraph,
    parts: &[RankPart],
    names: &BTreeSet<&(bool, String)>,
    least_ns: i64,
) -> Option<CauseCandidate> {
    let mut edits = GraphEdits::default();
    let mut evidence = CauseEvidence::default();
    let mut worst = 0;
    for name in names {
        let of_ranks: Option<Vec<&RankWork>> =
            parts.iter().map(|part| work_of(part, name)).collect();
        let Some(works) = of_ranks else { continue };
        let count = works[0].nodes.len();
        // Only if all ranks do the same in the same order do their n-th occurrences correspond.
        if works.iter().any(|work| work.nodes.len() != count) {
            continue;
        }
        let mut scaled = vec![];
        let mut excess = 0i64;
        for turn in 0..count {
            let nodes = parts.iter().zip(&works);
            let nodes: Vec<NodeIdx> = nodes
                .map(|(part, work)| NodeIdx(part.first.0 + work.nodes[turn].0))
                .collect();
            let times = nodes.iter().map(|node| graph.duration[node.index()].0);
            let times: Vec<i64> = times.collect();
            let mean = mean_ns(&times);
            let most = times.iter().max().copied().unwrap_or(mean);
            excess = most.saturating_sub(mean).saturating_add(excess);
            for (node, time) in nodes.iter().zip(&times) {
                scaled.push((*node, mean as f64 / (*time).max(1) as f64));
            }
        }
        if excess < least_ns {
            continue;
        }
        evidence.count += count as u64;
        evidence.time_ns = excess.saturating_add(evidence.time_ns);
        if excess > worst {
            worst = excess;
            evidence.within = Some(short_name(&name.1));
            let ranks = parts.iter().zip(&works);
            if let Some((part, work)) = ranks.max_by_key(|(_, work)| work.longest_ns) {
                let (start_ns, end_ns) = work.longest_span();
                evidence.set_span(start_ns, end_ns);
                evidence.set_rank(part.causes.rank, part.causes.first_ns);
            }
        }
        edits.scaled.append(&mut scaled);
    }
    (!edits.is_empty()).then(|| CauseCandidate {
        kind: CauseKind::RankImbalance,
        subject: String::new(),
        edits,
        other_edits: None,
        evidence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_without_one_are_those_of_the_others() {
        for values in [
            vec![3, 1],
            vec![5, 1, 9],
            vec![4, 4, 8, 1],
            vec![7, 2, 2, 5, 9],
        ] {
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for (place, own) in values.iter().enumerate() {
                let mut others = values.clone();
                others.remove(place);
                others.sort_unstable();
                let want = others[(others.len() - 1) / 2];
                assert_eq!(
                    median_without(&sorted, *own),
                    want,
                    "{values:?} without {own}"
                );
            }
        }
    }
}
