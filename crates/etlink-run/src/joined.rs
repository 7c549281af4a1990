//! The ranks of one run, joined: which collectives are the same, and how their clocks differ.

mod coverage;

pub use coverage::JoinCoverage;

use crate::text::{self, first_ranks};
use etlink_link::ranks::{
    CollectiveSkew, MatchMember, RankClock, RankSummary, RunJoin, StepStragglers, StragglerStats,
    align_clocks, align_step_numbers, collective_skews, infer_collectives, join_ranks,
    needs_all_ranks, step_stragglers, straggler_stats,
};
use etlink_model::{CommonNs, GlobalRank};
use std::collections::{BTreeMap, BTreeSet};

/// The ranks of one run, joined. All lists by rank are in the order of [`JoinedRun::summaries`].
#[derive(Clone, Debug)]
pub struct JoinedRun {
    /// What each rank has in common with others.
    pub summaries: Vec<RankSummary>,
    /// Collectives and messages that were matched over the ranks, and process groups.
    pub matches: RunJoin,
    /// The ranks' clocks against the first rank's; empty where times are not aligned.
    pub clocks: Vec<RankClock>,
    /// Ranks of one machine that have the same collectives and were recorded one after the other.
    pub apart: Option<RanksApart>,
    /// Ranks that number their steps higher than the first rank, by so much; in
    /// [`JoinedRun::summaries`] they have the first rank's numbers.
    pub shifted_steps: Vec<(GlobalRank, i64)>,
}

impl JoinedRun {
    /// Joins the ranks of one run; with `align` their clocks are compared too. Collectives of ranks that
    /// were recorded one after the other are not compared.
    pub fn new(mut summaries: Vec<RankSummary>, align: bool) -> JoinedRun {
        infer_collectives(&mut summaries);
        let mut joined = JoinedRun::with_all_matches(summaries, align);
        joined.apart = joined.find_apart(true);
        joined.shifted_steps = align_step_numbers(&mut joined.summaries, &joined.matches);
        joined
    }

    /// The same with the collectives of such ranks.
    pub(crate) fn with_all_matches(summaries: Vec<RankSummary>, align: bool) -> JoinedRun {
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
            apart: None,
            shifted_steps: vec![],
        }
    }

    /// Notes on ranks whose traces are of one run by what they state, but not by what they have in
    /// common.
    pub fn match_notes(&self) -> Vec<String> {
        let mut notes = self.stranger_notes();
        notes.extend(self.apart.as_ref().map(RanksApart::not_compared));
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

    /// Which two ranks of one machine were matched though one was recorded after the other, and how many
    /// more pairs are like that; with `remove` these matches go.
    pub(crate) fn find_apart(&mut self, remove: bool) -> Option<RanksApart> {
        let machines = self.machines();
        if !has_ranks_apart(&machines) {
            return None;
        }
        let mut apart: BTreeSet<(usize, usize)> = BTreeSet::new();
        self.matches.matches.retain(|matched| {
            // a sender, and the root of a broadcast, may be done before others begin
            if !matched.is_whole() || !needs_all_ranks(matched.kind) {
                return true;
            }
            let places = matched.members.iter().map(|member| member.rank.index());
            let of_match: Vec<_> = farthest_apart(&machines, places).collect();
            let is_apart = !of_match.is_empty();
            apart.extend(of_match);
            !(is_apart && remove)
        });
        let (one, other) = *apart.first()?;
        let both = machines[one].as_ref().zip(machines[other].as_ref());
        Some(RanksApart {
            ranks: [one, other].map(|place| self.summaries[place].rank),
            gap_ns: both.map_or(0, |(first, last)| first.gap_ns(last)),
            more: apart.len() - 1,
        })
    }

    /// On which machine and when each rank was recorded; `None` where the trace does not tell.
    fn machines(&self) -> Vec<Option<MachineWindow>> {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut windows = vec![];
        for (place, summary) in self.summaries.iter().enumerate() {
            let machine = if !summary.has_no_clock {
                summary.machine.as_deref()
            } else {
                None
            };
            windows.push(machine.map(|name| {
                let next = numbers.len();
                let clock = self.clock(place);
                MachineWindow {
                    machine: *numbers.entry(name).or_insert(next),
                    // containers of several machines can have one name: then the clocks are apart
                    start: clock.aligned(summary.window_ns.0),
                    end: clock.aligned(summary.window_ns.1),
                }
            }));
        }
        windows
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

/// Ranks of one machine that have the same collectives by number and were recorded one after the other.
#[derive(Clone, Debug)]
pub struct RanksApart {
    /// Two of them: the one that ended first, and the one that began last.
    ranks: [GlobalRank; 2],
    /// From the end of the first to the start of the last, ns.
    gap_ns: i64,
    /// How many pairs of ranks beside these are like that.
    more: usize,
}

impl RanksApart {
    /// Where these collectives are not compared.
    fn not_compared(&self) -> String {
        format!(
            "{}: collectives of both have the same numbers and are not compared; give traces of one \
             recording",
            self.describe()
        )
    }

    /// Where they are written as one.
    pub(crate) fn are_joined(&self) -> String {
        format!(
            "{}: collectives of both are taken for the same by their numbers alone; give traces of one \
             recording",
            self.describe()
        )
    }

    fn describe(&self) -> String {
        let ([one, other], gap) = (self.ranks, text::time(self.gap_ns));
        let more = match self.more {
            0 => String::new(),
            pairs => format!(" ({pairs} more pairs of ranks alike)"),
        };
        format!(
            "rank {one} and rank {other} are of one machine and were recorded {gap} apart{more}"
        )
    }
}

/// When a rank was recorded on its machine.
struct MachineWindow {
    /// A number for the machine's name.
    machine: usize,
    start: CommonNs,
    end: CommonNs,
}

impl MachineWindow {
    /// From the end of the earlier to the start of the later, ns; not positive where they overlap.
    fn gap_ns(&self, other: &MachineWindow) -> i64 {
        let after = other.start.since(self.end);
        after.max(self.start.since(other.end))
    }
}

/// Windows of one machine that are closer than this are not said to be apart: the clocks of its
/// processes differ by less.
const APART_NS: i64 = 1_000_000;

/// Whether any two ranks of one machine were recorded one after the other. O(ranks log ranks).
fn has_ranks_apart(windows: &[Option<MachineWindow>]) -> bool {
    farthest_apart(windows, 0..windows.len()).next().is_some()
}

/// Of those of the places that are of one machine, the two that are farthest apart in time, where they
/// are apart: which one ended first, and which began last. A pair for each machine.
fn farthest_apart(
    windows: &[Option<MachineWindow>],
    places: impl Iterator<Item = usize>,
) -> impl Iterator<Item = (usize, usize)> {
    let mut extremes: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for place in places {
        let Some(window) = &windows[place] else {
            continue;
        };
        let (ended, began) = extremes.entry(window.machine).or_insert((place, place));
        if windows[*ended]
            .as_ref()
            .is_some_and(|first| window.end < first.end)
        {
            *ended = place;
        }
        if windows[*began]
            .as_ref()
            .is_some_and(|last| window.start > last.start)
        {
            *began = place;
        }
    }
    extremes.into_values().filter(|(ended, began)| {
        let both = windows[*ended].as_ref().zip(windows[*began].as_ref());
        both.is_some_and(|(first, last)| first.gap_ns(last) > APART_NS)
    })
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
