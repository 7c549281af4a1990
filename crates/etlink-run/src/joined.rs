//! Joined ranks of a run: matched collectives, and differences of clocks.

mod coverage;

pub use coverage::JoinCoverage;

use crate::text::{self, first_ranks};
use etlink_link::ranks::{
    CollectiveSkew, MatchMember, RankClock, RankSummary, RunJoin, StartSkewWait, StepStragglers,
    StragglerStats, align_clocks, align_step_numbers, collective_skews, infer_collectives,
    join_ranks, start_skew_waits, step_stragglers, straggler_stats,
};
use etlink_model::{Diagnostic, GlobalRank, diagnostic};
use std::collections::BTreeMap;

/// Joined ranks of a run. All lists by rank are in the order of [`JoinedRun::summaries`].
#[derive(Clone, Debug)]
pub struct JoinedRun {
    /// Summary of each rank.
    pub summaries: Vec<RankSummary>,
    /// Matched collectives and messages of the ranks, and process groups.
    pub matches: RunJoin,
    /// Clocks of the ranks relative to the first rank; empty if times are not aligned.
    pub clocks: Vec<RankClock>,
    /// Ranks whose step numbers exceed the first rank's, with the difference. In
    /// [`JoinedRun::summaries`], they have the first rank's numbers.
    pub shifted_steps: Vec<(GlobalRank, i64)>,
}

impl JoinedRun {
    /// Joins the ranks of one run; with `align`, also compares their clocks.
    pub fn new(mut summaries: Vec<RankSummary>, align: bool) -> JoinedRun {
        infer_collectives(&mut summaries);
        let mut joined = JoinedRun::as_recorded(summaries, align);
        joined.shifted_steps = align_step_numbers(&mut joined.summaries, &joined.matches);
        joined
    }

    /// Like `new`, but only with recorded collectives, and with each rank's own step numbers.
    pub(crate) fn as_recorded(summaries: Vec<RankSummary>, align: bool) -> JoinedRun {
        let matches = join_ranks(&summaries);
        // clocks are aligned by matched collectives
        let clocks = if align {
            align_clocks(&summaries, &matches)
        } else {
            vec![]
        };
        JoinedRun {
            summaries,
            matches,
            clocks,
            shifted_steps: vec![],
        }
    }

    /// Returns notes on ranks that state the same run, but do not match each other.
    pub fn match_notes(&self) -> Vec<Diagnostic> {
        let mut notes = self.stranger_notes();
        notes.extend(JoinCoverage::of_run(self).note(self));
        for (rank, shift) in &self.shifted_steps {
            notes.push(diagnostic!(
                StepsShifted,
                "rank {rank} numbers its steps {shift:+} relative to rank {}: steps are matched by their \
                 collectives and numbered as on rank {}",
                self.summaries[0].rank, self.summaries[0].rank
            ));
        }
        notes
    }

    /// Returns [`clock_notes`] if times of ranks are compared.
    pub fn clock_notes(&self) -> Vec<Diagnostic> {
        let mut matches = self.matches.matches.iter();
        if matches.any(|matched| matched.is_whole() && matched.members.len() > 1) {
            clock_notes(&self.clocks, false)
        } else {
            vec![]
        }
    }

    /// Returns for each rank, by place: true if its device trace is truncated, and it lacks a
    /// collective or message that others have with it, or its device row, or has only the call
    /// while others have the transfer. False for all if every rank is one of these.
    ///
    /// Rows lost from the middle would pair calls with later calls of others. Work that a rank did
    /// not record cannot become shorter, and would hold up all others.
    pub fn cut_ranks(&self) -> Vec<bool> {
        let mut lacks = vec![false; self.summaries.len()];
        // few runs have such a rank, and finding it scans all members of all matches
        if !self.summaries.iter().any(|summary| summary.is_cut) {
            return lacks;
        }
        let ranks = self.summaries.iter().map(|summary| summary.rank);
        let places: BTreeMap<GlobalRank, usize> = ranks.zip(0..).collect();
        for matched in &self.matches.matches {
            for rank in matched
                .missing
                .iter()
                .chain(&matched.lost)
                .chain(&matched.outside)
            {
                if let Some(place) = places.get(rank) {
                    lacks[*place] = true;
                }
            }
            let is_on_device = |member: &MatchMember| {
                let summary = &self.summaries[member.rank.index()];
                summary.communications[member.communication.index()].on_device
            };
            if matched.members.iter().any(is_on_device) {
                let calls = matched.members.iter().filter(|one| !is_on_device(one));
                calls.for_each(|member| lacks[member.rank.index()] = true);
            }
        }
        for (lacks, summary) in lacks.iter_mut().zip(&self.summaries) {
            *lacks &= summary.is_cut;
        }
        if lacks.iter().all(|is_cut| *is_cut) {
            lacks.fill(false);
        }
        lacks
    }

    /// Returns the fact that communications took longer because recordings began apart.
    pub fn start_skew_note(&self) -> Option<Diagnostic> {
        let skews = self.collective_skews();
        let (apart, others): (Vec<_>, Vec<_>) = skews.iter().partition(|skew| skew.started_apart());
        let most = apart.iter().max_by_key(|skew| skew.skew_ns)?;
        let is_most_of_all = others.iter().all(|skew| skew.skew_ns < most.skew_ns);
        let note = diagnostic!(
            StartSkew,
            "start skew: {} of {} waited for a rank whose recording began later (longest{}: {} {}, {}, for \
             rank {}): means and bandwidths leave these waits out",
            apart.len(),
            text::count(skews.len() as u64, "communication"),
            if is_most_of_all { "" } else { " of these" },
            most.kind,
            most.number,
            text::time(most.skew_ns),
            most.last
        );
        let mut late: Vec<GlobalRank> = apart.iter().map(|skew| skew.last).collect();
        late.sort_unstable();
        late.dedup();
        Some(late.into_iter().fold(note, Diagnostic::of_rank))
    }

    /// Returns the waits of ranks for others whose recordings began later.
    pub fn start_skew_waits(&self) -> Vec<StartSkewWait> {
        start_skew_waits(&self.summaries, &self.matches, &self.clocks)
    }

    /// Returns notes on ranks that match none of the others.
    fn stranger_notes(&self) -> Vec<Diagnostic> {
        let strangers = self.matches.strangers(&self.summaries);
        strangers.iter().map(|ranks| stranger_note(ranks)).collect()
    }

    /// Returns the clock of a rank relative to the first rank, by the rank's place.
    pub fn clock(&self, place: usize) -> RankClock {
        // without alignment, each rank has its own clock
        self.clocks.get(place).copied().unwrap_or_default()
    }

    /// Returns late arrivals at collectives, one record per rank.
    pub fn straggler_stats(&self) -> Vec<StragglerStats> {
        straggler_stats(&self.summaries, &self.matches, &self.clocks)
    }

    /// Returns late arrivals per step.
    pub fn step_stragglers(&self) -> Vec<StepStragglers> {
        step_stragglers(&self.summaries, &self.matches, &self.clocks)
    }

    /// Returns each collective and message, by time.
    pub fn collective_skews(&self) -> Vec<CollectiveSkew> {
        collective_skews(&self.summaries, &self.matches, &self.clocks)
    }
}

/// Returns the note on one of [`RunJoin::strangers`].
pub fn stranger_note(ranks: &[GlobalRank]) -> Diagnostic {
    let (others, whose) = match ranks {
        [_] => ("another rank", "its trace is"),
        _ => ("the other ranks", "their traces are"),
    };
    let note = diagnostic!(
        RankStranger,
        "no communication of rank {} matches {others}: {whose} probably from another run",
        first_ranks(ranks)
    );
    let note = note.advise("put the traces of each run in a folder of their own");
    ranks.iter().copied().fold(note, Diagnostic::of_rank)
}

/// Returns notes on clocks that may distort figures of late arrivals: unknown clocks, and clocks
/// for which no offset fits.
///
/// `is_written`: times are from written graphs, which may already be aligned.
pub fn clock_notes(clocks: &[RankClock], is_written: bool) -> Vec<Diagnostic> {
    let mut notes = vec![];
    let unknown: Vec<GlobalRank> = clocks
        .iter()
        .filter(|clock| clock.uncertainty_ns.is_none() && !clock.by_machine)
        .map(|clock| clock.rank)
        .collect();
    if !unknown.is_empty()
        && let Some(first) = clocks.first()
    {
        let (ranks, first) = (first_ranks(&unknown), first.rank);
        notes.push(if is_written { diagnostic!(
                ClockUncertain,
                "the graphs do not show the clock offset of rank {ranks} to rank {first}: late arrivals \
                 use the times as written, which `etlink merge` aligns to one clock if the traces \
                 show the offset"
            ) } else { diagnostic!(
                ClockUncertain,
                "the clock offset of rank {ranks} to rank {first} is unknown: late arrivals use each \
                 rank's own clock"
            ) });
    }
    let unchecked = clocks.iter().skip(1);
    let unchecked = unchecked.filter(|clock| clock.by_machine && clock.support == 0);
    let unchecked: Vec<GlobalRank> = unchecked.map(|clock| clock.rank).collect();
    if !unchecked.is_empty() {
        notes.push(diagnostic!(
            ClockUncertain,
            "clocks not checked: rank {} has the host name of another rank, and no collective or \
             message bounds its clock. Different machines with one name have different clocks, so \
             late arrivals may be wrong",
            first_ranks(&unchecked)
        ));
    }
    // one note each, because the distance of the nearest offset differs
    for clock in clocks.iter().filter(|clock| clock.contradicted) {
        let missed = match clock.uncertainty_ns {
            Some(missed) => format!(" (the best offset misses one by {})", text::time(missed)),
            None => String::new(),
        };
        notes.push(diagnostic!(
            ClockUncertain,
            "no clock offset of rank {} fits all its collectives and messages{missed}: late \
            arrivals may be wrong",
            clock.rank
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_link::ranks::{CommExtent, Communication, GroupIdentity, Peers};
    use etlink_model::{CollectiveKind, DiagnosticCode, GroupIdx, NodeIdx, UnixNs};

    /// Rank 1's recording begins 50 ns later, and rank 1 is 500 ns late later on.
    #[test]
    fn start_skew_is_said_wherever_it_is_left_out() {
        let ranks = [0, 50].map(|late| {
            let calls = [(10 + late, 300), (1_000 + 10 * late, 2_000)];
            let communications = (0..).zip(calls).map(|(number, (start_ns, end_ns))| {
                let (node, times) = (NodeIdx(number), (UnixNs(start_ns), UnixNs(end_ns)));
                Communication {
                    node,
                    peers: Peers::Group(GroupIdx(0)),
                    name: Default::default(),
                    kind: CollectiveKind::AllReduce,
                    dtype: Default::default(),
                    in_split: Default::default(),
                    in_bytes: 8,
                    bytes: 8,
                    is_sized: true,
                    seq: Some(i64::from(number)),
                    start_ns: times.0,
                    end_ns: times.1,
                    on_device: true,
                    extent: CommExtent::from_node(node, times),
                }
            });
            RankSummary {
                rank: GlobalRank(late / 50),
                world_size: Some(2),
                groups: vec![GroupIdentity::Only],
                window_ns: (UnixNs(late), UnixNs(3_000)),
                communications: communications.collect(),
                ..RankSummary::default()
            }
        });
        for (calls, is_longest) in [(2, false), (1, true)] {
            let mut ranks = ranks.to_vec();
            let all = ranks.iter_mut();
            all.for_each(|rank| rank.communications.truncate(calls));
            let joined = JoinedRun::as_recorded(ranks, false);
            assert_eq!(joined.start_skew_waits().len(), 1);
            let note = joined.start_skew_note().expect("a note");
            assert_eq!(note.code, DiagnosticCode::StartSkew);
            assert_eq!(
                note.message.contains("(longest: "),
                is_longest,
                "{}",
                note.message
            );
        }
    }
}
