//! The ranks of one run, joined: which collectives are the same, and how their clocks differ.

mod coverage;

pub use coverage::JoinCoverage;

use crate::text::{self, first_ranks};
use etlink_link::ranks::{
    CollectiveSkew, MatchMember, RankClock, RankSummary, RunJoin, StepStragglers, StragglerStats,
    align_clocks, align_step_numbers, collective_skews, infer_collectives, join_ranks,
    step_stragglers, straggler_stats,
};
use etlink_model::GlobalRank;
use std::collections::BTreeMap;

/// The ranks of one run, joined. All lists by rank are in the order of [`JoinedRun::summaries`].
#[derive(Clone, Debug)]
pub struct JoinedRun {
    /// What each rank has in common with others.
    pub summaries: Vec<RankSummary>,
    /// Collectives and messages that were matched over the ranks, and process groups.
    pub matches: RunJoin,
    /// The ranks' clocks against the first rank's; empty where times are not aligned.
    pub clocks: Vec<RankClock>,
    /// Ranks that number their steps higher than the first rank, by so much; in
    /// [`JoinedRun::summaries`] they have the first rank's numbers.
    pub shifted_steps: Vec<(GlobalRank, i64)>,
}

impl JoinedRun {
    /// Joins the ranks of one run; with `align` their clocks are compared too.
    pub fn new(mut summaries: Vec<RankSummary>, align: bool) -> JoinedRun {
        infer_collectives(&mut summaries);
        let mut joined = JoinedRun::as_recorded(summaries, align);
        joined.shifted_steps = align_step_numbers(&mut joined.summaries, &joined.matches);
        joined
    }

    /// The same by what is recorded of collectives alone, and with each rank's own numbers of steps.
    pub(crate) fn as_recorded(summaries: Vec<RankSummary>, align: bool) -> JoinedRun {
        let matches = join_ranks(&summaries);
        // by collectives, so only after these were matched
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

    /// Notes on ranks whose traces are of one run by what they state, but not by what they have in
    /// common.
    pub fn match_notes(&self) -> Vec<String> {
        let mut notes = self.stranger_notes();
        notes.extend(JoinCoverage::of_run(self).note(self));
        for (rank, shift) in &self.shifted_steps {
            notes.push(format!(
                "rank {rank} numbers its steps by {shift:+} against rank {}: its collectives tell which \
                 steps are one, and steps have the numbers of rank {}",
                self.summaries[0].rank, self.summaries[0].rank
            ));
        }
        notes
    }

    /// Whether each rank, by place, lacks a collective or message that others have with it, or its
    /// device row, or has only its call where others have the transfer.
    pub fn lacks_matches(&self) -> Vec<bool> {
        let ranks = self.summaries.iter().map(|summary| summary.rank);
        let places: BTreeMap<GlobalRank, usize> = ranks.zip(0..).collect();
        let mut lacks = vec![false; self.summaries.len()];
        for matched in &self.matches.matches {
            for rank in matched.missing.iter().chain(&matched.lost) {
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
        lacks
    }

    /// Notes on ranks of which nothing fits the others.
    fn stranger_notes(&self) -> Vec<String> {
        let strangers = self.matches.ranks_without_match(self.summaries.len());
        let ranks = strangers.into_iter().map(|at| &self.summaries[at.index()]);
        ranks.map(|summary| stranger_note(summary.rank)).collect()
    }

    /// A rank's clock against the first rank's, by the rank's place.
    pub fn clock(&self, place: usize) -> RankClock {
        // times are not aligned: each rank has its own clock
        self.clocks.get(place).copied().unwrap_or_default()
    }

    /// Who came late to collectives, a record per rank.
    pub fn straggler_stats(&self) -> Vec<StragglerStats> {
        straggler_stats(&self.summaries, &self.matches, &self.clocks)
    }

    /// Who came late in each step.
    pub fn step_stragglers(&self) -> Vec<StepStragglers> {
        step_stragglers(&self.summaries, &self.matches, &self.clocks)
    }

    /// Each collective and message, by time.
    pub fn collective_skews(&self) -> Vec<CollectiveSkew> {
        collective_skews(&self.summaries, &self.matches, &self.clocks)
    }
}

/// What is said of a rank whose communication is none of the others'.
pub fn stranger_note(rank: GlobalRank) -> String {
    format!(
        "nothing that rank {rank} communicates fits the others: its trace is probably of another run"
    )
}

/// Why figures of who came late may be wrong: clocks of which nothing is known, and those for
/// which no offset fits.
///
/// `is_written`: times are those of written graphs, which may have been aligned before.
pub fn clock_notes(clocks: &[RankClock], is_written: bool) -> Vec<String> {
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
        notes.push(if is_written { format!(
                "nothing in the graphs tells how far times of rank {ranks} are from the clock of rank \
                 {first}: who came late is by the times as they were written, which `etlink merge` \
                 has by one clock where the traces tell it"
            ) } else { format!(
                "nothing tells how the clock of rank {ranks} lies to that of rank {first}: who came \
                 late is by their own clocks"
            ) });
    }
    let unchecked = clocks.iter().skip(1);
    let unchecked = unchecked.filter(|clock| clock.by_machine && clock.support == 0);
    let unchecked: Vec<GlobalRank> = unchecked.map(|clock| clock.rank).collect();
    if !unchecked.is_empty() {
        notes.push(format!(
            "clocks not checked: rank {} names the machine of another rank, and no collective or \
             message bounds its clock. Machines of one name have different clocks: who came late is \
             as true as these agree",
            first_ranks(&unchecked)
        ));
    }
    // each by itself: how far the nearest offset misses differs
    for clock in clocks.iter().filter(|clock| clock.contradicted) {
        let missed = match clock.uncertainty_ns {
            Some(missed) => format!(" (the nearest misses one by {})", text::time(missed)),
            None => String::new(),
        };
        notes.push(format!(
            "no offset of the clock of rank {} fits all its collectives and messages{missed}: who \
            came late may be wrong",
            clock.rank
        ));
    }
    notes
}
