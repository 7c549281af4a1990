//! When the ranks of a run arrive at communications, and when they begin.

use etlink_link::ranks::{CollectiveMatch, Communication, MatchMember, RankClock, RankSummary};
use etlink_model::{CollectiveKind, CommonNs, DurationNs, RankIdx, UnixNs};

/// The ranks of a run by one clock.
pub(crate) struct AlignedRanks<'r> {
    facts: &'r [RankSummary],
    /// By rank; empty: times are not aligned.
    clocks: &'r [RankClock],
}

/// Times of a rank as a simulation counts them: from when the first rank begins, and where clocks
/// are not known from when this rank begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimulationTimes {
    /// When the rank begins.
    start: CommonNs,
    /// How much later than the first that is.
    offset: DurationNs,
}

impl SimulationTimes {
    /// A time of the rank, ns.
    pub(crate) fn of(self, time: CommonNs) -> i64 {
        time.since(self.start).saturating_add(self.offset.0)
    }
}

impl<'r> AlignedRanks<'r> {
    pub(crate) fn new(facts: &'r [RankSummary], clocks: &'r [RankClock]) -> AlignedRanks<'r> {
        AlignedRanks { facts, clocks }
    }

    pub(crate) fn common(&self, rank: RankIdx, own: UnixNs) -> CommonNs {
        let clock = self.clocks.get(rank.index()).copied().unwrap_or_default();
        clock.aligned(own)
    }

    pub(crate) fn communication(&self, member: MatchMember) -> &'r Communication {
        &self.facts[member.rank.index()].communications[member.communication.index()]
    }

    fn arrival(&self, member: MatchMember) -> CommonNs {
        let extent = self.communication(member).extent;
        self.common(member.rank, extent.arrival_ns)
    }

    /// From a rank's arrival to that of the last it needs.
    pub(crate) fn until_last(&self, joint: &CollectiveMatch, member: MatchMember) -> DurationNs {
        // A sender needs nobody.
        if self.communication(member).kind == CollectiveKind::Send {
            return DurationNs::ZERO;
        }
        let arrivals = joint.members.iter().map(|other| self.arrival(*other));
        let last = arrivals.max().unwrap_or_default();
        DurationNs(last.since(self.arrival(member)).max(0))
    }

    /// What a communication took from the last arrival to the end, ns. `None` where no rank was
    /// blocked already when the last came: then nothing tells when the transfer ended.
    ///
    /// Devices end when the transfer does, so that the last of them tells. A host thread that the
    /// operating system held up ends later: there the rank tells that was done first.
    pub(crate) fn transfer_ns(&self, joint: &CollectiveMatch) -> Option<f64> {
        let last = joint
            .members
            .iter()
            .map(|member| self.arrival(*member))
            .max()?;
        let (mut on_devices, mut times) = (true, vec![]);
        for member in &joint.members {
            let communication = self.communication(*member);
            let extent = communication.extent;
            on_devices &= communication.on_device;
            // A sender is done when its buffer is free, not when the message has come.
            if communication.kind == CollectiveKind::Send || !extent.is_transfer {
                continue;
            }
            let blocked = self.common(member.rank, extent.start_ns);
            let ns = self.common(member.rank, extent.end_ns).since(last);
            if blocked <= last && ns > 0 {
                times.push(ns);
            }
        }
        let times = times.into_iter();
        let told = if on_devices { times.max() } else { times.min() };
        told.map(|ns| ns as f64)
    }

    /// How the times of each rank are counted in a simulation.
    pub(crate) fn simulation_times(&self) -> Vec<SimulationTimes> {
        let offsets = self.begin_offsets().into_iter();
        let times = offsets.zip(self.facts).enumerate();
        times
            .map(|(at, (offset, facts))| SimulationTimes {
                start: self.common(RankIdx::new(at), facts.window_ns.0),
                offset,
            })
            .collect()
    }

    /// How much later than the first each rank begins. Nothing where clocks are not known.
    pub(crate) fn begin_offsets(&self) -> Vec<DurationNs> {
        let none = vec![DurationNs::ZERO; self.facts.len()];
        let is_known = |clock: &RankClock| clock.uncertainty_ns.is_some() || clock.by_machine;
        if self.clocks.len() != self.facts.len() || !self.clocks.iter().all(is_known) {
            return none;
        }
        let window = |(at, facts): (usize, &RankSummary)| {
            let (start, end) = facts.window_ns;
            let rank = RankIdx::new(at);
            (self.common(rank, start), self.common(rank, end))
        };
        let windows: Vec<(CommonNs, CommonNs)> =
            self.facts.iter().enumerate().map(window).collect();
        let Some(first) = windows.iter().map(|(start, _)| *start).min() else {
            return none;
        };
        // Ranks that were not recorded at the same time did not wait for each other.
        let is_apart = |end: CommonNs| windows.iter().any(|(start, _)| *start > end);
        if windows.iter().any(|(_, end)| is_apart(*end)) {
            return none;
        }
        let offsets = windows
            .iter()
            .map(|(start, _)| DurationNs(start.since(first)));
        offsets.collect()
    }
}
