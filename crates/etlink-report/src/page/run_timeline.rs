//! A step of all ranks on one clock: when each rank began the step, and arrived at and completed
//! each collective or message.
//!
//! Times are by the first rank's clock (`etlink_link::ranks::align_clocks`), from the first start
//! on. A rank's own timeline is shifted to that clock as a whole, by its start: within a window of
//! a second, a clock that drifts by 10 ppm is off by 10 us. Arrival times are exact.

use super::drawn_collective::DrawnCollective;
use super::ranges::{DrawnRange, NONE, nest_ranges};
use super::strings::StringTable;
use super::summary::time_text;
use super::timeline::{Timeline, TimelineSource, Tooltip};
use super::tracks::TimelineTrack;
use super::wait_columns::WaitColumns;
use super::window::TimelineWindow;
use etlink_link::EdgeKind;
use etlink_link::ranks::{
    CollectiveArrival, CommExtent, Communication, RankClock, RankSummary, RunJoin,
    collective_arrivals, collective_skews,
};
use etlink_model::{CommIdx, CommonNs, DurationNs, GlobalRank, NodeIdx, TimeNs, UnixNs};
use std::collections::BTreeMap;

/// Rank, clock and collectives of one rank in a run.
#[derive(Clone, Copy, Debug)]
pub struct RankPlace<'t> {
    rank: GlobalRank,
    clock: RankClock,
    /// Zero of the common clock.
    origin_ns: CommonNs,
    /// Nodes and the joints they take part in, ascending.
    joints: &'t [(NodeIdx, u32)],
}

/// Ranks of a run, and the step to draw.
#[derive(Clone, Debug)]
pub struct RunTimeline<'t> {
    ranks: &'t [RankSummary],
    clocks: &'t [RankClock],
    step: Option<&'t str>,
    /// Drawn interval, beginning with the first start.
    window: (CommonNs, CommonNs),
    /// Collectives and messages, largest skew first.
    joints: Vec<DrawnCollective>,
    /// Nodes and their joints, per rank.
    sides: Vec<Vec<(NodeIdx, u32)>>,
}

impl<'t> RunTimeline<'t> {
    /// Collects the step with this name, or everything without a name. O(n log n) in the
    /// communications.
    pub fn new(
        ranks: &'t [RankSummary],
        join: &RunJoin,
        clocks: &'t [RankClock],
        step: Option<&'t str>,
    ) -> RunTimeline<'t> {
        let window = step_window(ranks, clocks, step);
        let mut together = RunTimeline {
            ranks,
            clocks,
            step,
            window,
            joints: vec![],
            sides: vec![vec![]; ranks.len()],
        };
        // Both functions leave out collectives that not all ranks have, in the same order.
        let met = join
            .matches
            .iter()
            .filter_map(|joint| Some((joint, collective_arrivals(ranks, clocks, joint)?)));
        let mut all: Vec<_> = met
            .zip(collective_skews(ranks, join, clocks))
            .filter(|((_, at), skew)| together.is_in_window(skew.start_ns, last_arrival(at)))
            .collect();
        // The largest skews come first, because only the first ones fit into a page.
        all.sort_by_key(|(_, skew)| (std::cmp::Reverse(skew.skew_ns), skew.start_ns));
        for (number, ((joint, arrivals), skew)) in (0u32..).zip(all) {
            for part in &joint.members {
                let Some(facts) = ranks.get(part.rank.index()) else {
                    continue;
                };
                let node = facts
                    .communications
                    .get(part.communication.index())
                    .map(|communication| communication.extent.waits);
                together
                    .sides
                    .get_mut(part.rank.index())
                    .into_iter()
                    .for_each(|sides| sides.extend(node.map(|node| (node, number))));
            }
            // Arrivals ascend in time, so the first entry is the first arrival.
            let first = arrivals
                .first()
                .and_then(|came| ranks.get(came.rank.index()))
                .map_or(GlobalRank(-1), |facts| facts.rank);
            together
                .joints
                .push(DrawnCollective::new(skew, first, window.0));
        }
        together
            .sides
            .iter_mut()
            .for_each(|sides| sides.sort_unstable());
        together
    }

    /// Returns the facts of the rank at a place.
    pub fn member(&self, place: usize) -> Option<RankPlace<'_>> {
        let (facts, joints) = (self.ranks.get(place)?, self.sides.get(place)?);
        Some(RankPlace {
            rank: facts.rank,
            clock: self.clocks.get(place).copied()?,
            origin_ns: self.window.0,
            joints,
        })
    }

    fn is_in_window(&self, start: CommonNs, end: CommonNs) -> bool {
        start < self.window.1 && end >= self.window.0
    }

    /// Draws all ranks with at most `most` ranges: one track per rank.
    pub fn timeline(&self, most: usize) -> Timeline {
        let window = TimelineWindow {
            start: TimeNs(0),
            end: TimeNs(self.window.1.since(self.window.0)),
            step: self.step.map(|name| (name.to_owned(), DurationNs(0))),
            note: String::new(),
        };
        let (items, drawn) = self.drawn_items();
        // A page has a budget: collectives get a quarter of it, the ranges the rest.
        let joints = &self.joints[..self.joints.len().min(most / 4)];
        let source = RunTimelineSource {
            of: self,
            items: &items,
        };
        // Most names repeat, so 40 characters per range truncate none except in odd traces.
        let mut strings = StringTable::new(most.saturating_mul(40));
        let (mut timeline, place) = Timeline::draw_ranges(
            window,
            drawn,
            (items.len(), most),
            &|_| false,
            &source,
            &mut strings,
        );
        let mut sides: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for (item, at) in items.iter().zip(&place).filter(|(_, at)| **at != NONE) {
            // A range that stands for several communications belongs to no single collective.
            let drawn_alone = timeline.count.get(*at as usize) == Some(&1);
            if let Some(joint) = item
                .joint
                .filter(|joint| drawn_alone && (*joint as usize) < joints.len())
            {
                timeline.met.range.push(*at);
                timeline.met.joint.push(joint);
                sides.entry(joint).or_default().push((*at, item.rank));
            }
        }
        timeline.set_ops(|_| None);
        timeline.deps = self.waits_for_last(joints, &sides, &items, &place);
        timeline.strings = strings.into_all();
        Timeline {
            joints: Some(joints.to_vec()),
            step_ns: None,
            common_ns: Some(0),
            ..timeline
        }
    }

    /// Returns steps and communications in the window with their positions: steps above the work
    /// in them.
    fn drawn_items(&self) -> (Vec<RunItem>, Vec<DrawnRange>) {
        let (mut items, mut steps, mut drawn) = (vec![], vec![], vec![]);
        for (rank, facts) in (0u32..).zip(self.ranks) {
            let mut put =
                |what: RunItemKind, joint: Option<u32>, (start, end): (UnixNs, UnixNs)| {
                    let (start, end) = (self.drawn_time(rank, start), self.drawn_time(rank, end));
                    let place = DrawnRange {
                        track: rank,
                        depth: 0,
                        start,
                        end: end.max(start),
                        id: items.len(),
                        count: 1,
                    };
                    let inside = start.0 < self.window.1.since(self.window.0) && end.0 >= 0;
                    if inside {
                        items.push(RunItem {
                            rank,
                            what,
                            joint,
                            end,
                        });
                        if matches!(what, RunItemKind::Step(_)) {
                            steps.push(place)
                        } else {
                            drawn.push(place)
                        }
                    }
                };
            for (at, step) in facts
                .steps
                .all
                .iter()
                .enumerate()
                .filter(|(_, step)| self.step == Some(&step.name))
            {
                put(RunItemKind::Step(at), None, (step.start_ns, step.end_ns));
            }
            let sides = self.sides.get(rank as usize).map_or(&[][..], |sides| sides);
            for (at, Communication { extent: runs, .. }) in facts.communications.iter().enumerate()
            {
                let joint = sides
                    .binary_search_by_key(&runs.waits, |(node, _)| *node)
                    .ok()
                    .map(|at| sides[at].1);
                put(
                    RunItemKind::Communication(at),
                    joint,
                    wait_and_transfer(runs),
                );
            }
        }
        // Steps take the top row of each track; everything else moves down by one.
        let below = u32::from(!steps.is_empty());
        let mut drawn = nest_ranges(drawn);
        drawn.iter_mut().for_each(|drawn| drawn.depth += below);
        drawn.extend(steps);
        drawn.sort_by_key(|drawn| (drawn.track, drawn.start, drawn.depth));
        (items, drawn)
    }

    /// Converts a rank's own time to ns from the start of the window.
    fn drawn_time(&self, rank: u32, own: UnixNs) -> TimeNs {
        let clock = self.clocks.get(rank as usize).copied();
        let common = clock.unwrap_or_default().aligned(own);
        TimeNs(common.since(self.window.0))
    }

    /// Returns waits from the last rank to each rank that stalled for it.
    fn waits_for_last(
        &self,
        joints: &[DrawnCollective],
        sides: &BTreeMap<u32, Vec<(u32, u32)>>,
        items: &[RunItem],
        place: &[u32],
    ) -> WaitColumns {
        let mut deps = WaitColumns::default();
        let ends: BTreeMap<u32, TimeNs> = items
            .iter()
            .zip(place)
            .map(|(item, at)| (*at, item.end))
            .collect();
        for (joint, sides) in sides {
            let Some(of) = joints.get(*joint as usize) else {
                continue;
            };
            let came = of.start_ns.saturating_add(of.skew_ns);
            let is_last = |rank: u32| {
                self.ranks
                    .get(rank as usize)
                    .is_some_and(|facts| facts.rank == of.last)
            };
            let Some((from, _)) = sides.iter().find(|(_, rank)| is_last(*rank)) else {
                continue;
            };
            for (to, rank) in sides.iter().filter(|(_, rank)| !is_last(*rank)) {
                // A rank that was done before the last one came did not wait for it.
                if of.skew_ns > 0
                    && ends.get(to).is_some_and(|end| end.0 > came)
                    && self.ranks.len() > *rank as usize
                {
                    deps.to.push(*to);
                    deps.from.push(i64::from(*from));
                    deps.kind.push(EdgeKind::Collective as u8);
                    deps.at.push(came);
                    // The wait ended when the last rank came, so the gap is 0.
                    deps.gap.push(0);
                    deps.flags.push(0);
                }
            }
        }
        deps
    }
}

impl Timeline {
    /// Sets the rank's number, common time and joints. `start_ns` is the window's start by the
    /// rank's own clock; `place` returns the position of a node.
    pub(super) fn set_member(
        &mut self,
        member: &RankPlace<'_>,
        start_ns: UnixNs,
        place: impl Fn(NodeIdx) -> Option<u32>,
    ) {
        self.rank = Some(member.rank.0);
        let start = member.clock.aligned(start_ns);
        self.common_ns = Some(start.since(member.origin_ns));
        for (node, joint) in member.joints {
            // A bar of several ranges is not one side of one collective, so it has no link to the
            // others.
            if let Some(at) = place(*node).filter(|at| self.count.get(*at as usize) == Some(&1)) {
                self.met.range.push(at);
                self.met.joint.push(*joint);
            }
        }
    }
}

/// One drawn item of a rank.
#[derive(Clone, Copy, Debug)]
struct RunItem {
    rank: u32,
    what: RunItemKind,
    joint: Option<u32>,
    end: TimeNs,
}

#[derive(Clone, Copy, Debug)]
enum RunItemKind {
    Step(usize),
    Communication(usize),
}

struct RunTimelineSource<'t> {
    of: &'t RunTimeline<'t>,
    items: &'t [RunItem],
}

impl RunTimelineSource<'_> {
    fn item_name(&self, item: &RunItem) -> Option<String> {
        let facts = self.of.ranks.get(item.rank as usize)?;
        Some(match item.what {
            RunItemKind::Step(at) => facts.steps.all.get(at)?.name.clone(),
            RunItemKind::Communication(at) => {
                let kind = facts.communications.get(at)?.kind.name();
                let joint = item
                    .joint
                    .and_then(|joint| self.of.joints.get(joint as usize));
                joint.map_or_else(
                    || kind.to_owned(),
                    |joint| format!("{} {}", joint.kind, joint.number),
                )
            }
        })
    }
}

impl TimelineSource for RunTimelineSource<'_> {
    fn track_at(&self, number: u32) -> TimelineTrack {
        let clock = self
            .of
            .clocks
            .get(number as usize)
            .copied()
            .unwrap_or_default();
        let group = match clock.uncertainty_ns {
            // All clocks are compared with the first rank's.
            _ if number == 0 => "reference clock".to_owned(),
            Some(off) if clock.contradicted => format!("clock off by at least {}", time_text(off)),
            Some(off) => format!("clock ± {}", time_text(off)),
            None if clock.by_machine => "clock of its machine".to_owned(),
            None => "clock unknown".to_owned(),
        };
        let rank = self
            .of
            .ranks
            .get(number as usize)
            .map_or(GlobalRank(-1), |facts| facts.rank);
        TimelineTrack {
            name: format!("rank {rank}"),
            group,
            stream: true,
            ranges: 0,
        }
    }

    fn range_kind(&self, id: usize) -> u8 {
        match self.items.get(id).map(|item| item.what) {
            // Places in `KINDS`: an annotation, and communication.
            Some(RunItemKind::Step(_)) => 5,
            _ => 1,
        }
    }

    fn range_tooltip(&self, id: usize, strings: &mut StringTable) -> Tooltip {
        let name = self
            .items
            .get(id)
            .and_then(|item| self.item_name(item))
            .unwrap_or_default();
        Tooltip {
            name: strings.number_of(&name),
            ..Tooltip::default()
        }
    }
}

fn last_arrival(arrivals: &[CollectiveArrival]) -> CommonNs {
    let last = arrivals.last();
    last.map_or(CommonNs(i64::MIN), |last| last.at_ns)
}

/// Returns the interval from arrival to end.
fn wait_and_transfer(runs: &CommExtent) -> (UnixNs, UnixNs) {
    (runs.arrival_ns.min(runs.end_ns), runs.end_ns)
}

/// Returns the interval of the step on any rank and of the work launched in it, at most twice the
/// step's length. Without a step, returns the whole interval.
fn step_window(
    ranks: &[RankSummary],
    clocks: &[RankClock],
    step: Option<&str>,
) -> (CommonNs, CommonNs) {
    let places = || {
        (0usize..)
            .zip(ranks)
            .map(|(at, facts)| (clocks.get(at).copied().unwrap_or_default(), facts))
    };
    let spans = |all: &mut dyn Iterator<Item = (CommonNs, CommonNs)>| {
        let none = (CommonNs(i64::MAX), CommonNs(i64::MIN));
        all.fold(none, |(first, end), (a, b)| (first.min(a), end.max(b)))
    };
    let of_step = |facts: &RankSummary, at: usize| {
        facts.steps.get(CommIdx::new(at)).map(|of| of.name.as_str()) == step
    };
    let launched = spans(&mut places().flat_map(|(clock, facts)| {
        let of = facts
            .communications
            .iter()
            .enumerate()
            .filter(move |(at, _)| step.is_none() || of_step(facts, *at));
        of.map(move |(_, one)| wait_and_transfer(&one.extent))
            .map(move |(start, end)| (clock.aligned(start), clock.aligned(end)))
    }));
    let steps = spans(&mut places().flat_map(|(clock, facts)| {
        let of = facts
            .steps
            .all
            .iter()
            .filter(move |of| Some(of.name.as_str()) == step);
        of.map(move |of| (clock.aligned(of.start_ns), clock.aligned(of.end_ns)))
    }));
    let (start, end) = match steps {
        (first, end) if first < end => {
            // A wrong clock can put work far behind its step. Twice the length covers the work of
            // devices after the host is done.
            (first, launched.1.clamp(end, end.shifted(end.since(first))))
        }
        _ => launched,
    };
    if start > end {
        Default::default()
    } else {
        // The end of a window is exclusive, and an instant event at the end still belongs to it.
        (start, end.shifted(1))
    }
}
