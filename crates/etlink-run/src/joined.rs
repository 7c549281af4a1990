//! The ranks of one run, joined: which collectives are the same, and how their clocks differ.

use crate::text::{self, first_ranks};
use etlink_link::ranks::{
    CollectiveSkew, RankClock, RankSummary, RunJoin, StepStragglers, StragglerStats, align_clocks,
    collective_skews, join_ranks, step_stragglers, straggler_stats,
};
use etlink_model::{CommonNs, GlobalRank};
use std::collections::BTreeSet;

/// The ranks of one run, joined. All lists by rank are in the order of [`JoinedRun::summaries`].
#[derive(Clone, Debug)]
pub struct JoinedRun {
    /// What each rank has in common with others.
    pub summaries: Vec<RankSummary>,
    /// Collectives and messages that were matched over the ranks, and process groups.
    pub matches: RunJoin,
    /// The ranks' clocks against the first rank's; empty where times are not aligned.
    pub clocks: Vec<RankClock>,
}

impl JoinedRun {
    /// Joins the ranks of one run; with `align` their clocks are compared too.
    pub fn new(summaries: Vec<RankSummary>, align: bool) -> JoinedRun {
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
        }
    }

    /// Notes on ranks whose traces are of one run by what they state, but not by what they have in
    /// common.
    pub fn match_notes(&self) -> Vec<String> {
        let mut notes = self.stranger_notes();
        notes.extend(self.apart_note());
        notes
    }

    /// A note where ranks were matched that have one clock and were recorded one after the other.
    pub(crate) fn apart_note(&self) -> Option<String> {
        let windows: Vec<_> = (0..self.summaries.len())
            .map(|place| self.known_window(place))
            .collect();
        let mut apart: BTreeSet<(usize, usize)> = BTreeSet::new();
        for matched in &self.matches.matches {
            let mut places = matched.members.iter().map(|member| member.rank.index());
            let Some(first) = places.next() else { continue };
            apart.extend(
                places
                    .filter(|other| gap_ns(windows[first], windows[*other]) > 0)
                    .map(|other| (first, other)),
            );
        }
        let (one, other) = *apart.first()?;
        let gap = text::time(gap_ns(windows[one], windows[other]));
        let [one, other] = [one, other].map(|place| self.summaries[place].rank);
        let more = match apart.len() - 1 {
            0 => String::new(),
            pairs => format!(" ({pairs} more pairs of ranks alike)"),
        };
        Some(format!(
            "rank {one} and rank {other} have one clock and were recorded {gap} apart{more}: their \
             collectives and messages are matched by their numbers alone, and who waited for whom is \
             wrong; give traces of one recording"
        ))
    }

    /// From when to when a rank was recorded, by the first rank's clock; `None` where nothing tells how
    /// its clock lies to that.
    fn known_window(&self, place: usize) -> Option<(CommonNs, CommonNs)> {
        let clock = self.clock(place);
        // as the traces have it: a rank of another machine may be seconds off
        let is_known = place == 0 || clock.by_machine;
        let (start, end) = self.summaries[place].window_ns;
        is_known.then(|| (clock.aligned(start), clock.aligned(end)))
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

/// From the end of the earlier to the start of the later of two windows, ns; not positive where they
/// overlap, or where one is not known.
fn gap_ns(one: Option<(CommonNs, CommonNs)>, other: Option<(CommonNs, CommonNs)>) -> i64 {
    let (Some(one), Some(other)) = (one, other) else {
        return 0;
    };
    other.0.since(one.1).max(one.0.since(other.1))
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
    if let Some(first) = clocks.first().filter(|_| !unknown.is_empty()) {
        let (ranks, first) = (first_ranks(&unknown), first.rank);
        notes.push(match is_written {
            false => format!(
                "nothing tells how the clock of rank {ranks} lies to that of rank {first}: who came \
                 late is by their own clocks"
            ),
            true => format!(
                "nothing in the graphs tells how far times of rank {ranks} are from the clock of rank \
                 {first}: who came late is by the times as they were written, which `etlink merge` \
                 has by one clock where the traces tell it"
            ),
        });
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
