//! Computes when the ranks of a run begin, and when they arrive at communications.

use etlink_link::ranks::{CollectiveMatch, Communication, MatchMember, RankClock, RankSummary};
use etlink_model::{CollectiveKind, CommonNs, DurationNs, RankIdx, UnixNs};

/// Ranks of a run, aligned to one clock.
pub(crate) struct AlignedRanks<'r> {
    facts: &'r [RankSummary],
    /// Clock per rank; empty if times are not aligned.
    clocks: &'r [RankClock],
}

/// Conversion of a rank's times to simulated times, which count from the start of the first rank,
/// or from the start of this rank if clocks are unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimulationTimes {
    /// Start of the rank.
    start: CommonNs,
    /// Delay of this start after the first rank's.
    offset: DurationNs,
}

impl SimulationTimes {
    /// Converts a time of the rank to simulated time, in nanoseconds.
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

    /// Returns the time from a rank's arrival to the arrival of the last rank it needs.
    pub(crate) fn until_last(&self, joint: &CollectiveMatch, member: MatchMember) -> DurationNs {
        // A sender needs no other rank.
        if self.communication(member).kind == CollectiveKind::Send {
            return DurationNs::ZERO;
        }
        let arrivals = joint.members.iter().map(|other| self.arrival(*other));
        let last = arrivals.max().unwrap_or_default();
        DurationNs(last.since(self.arrival(member)).max(0))
    }

    /// Returns the time of a communication from the last arrival to the end, in nanoseconds; `None`
    /// if no rank was already blocked at the last arrival, because the end of the transfer is then
    /// unknown.
    ///
    /// Devices end together with the transfer, so the last device determines the end. A host thread
    /// may end later if the operating system delays it, so the first host determines the end.
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
            // A sender is done once its buffer is free, not once the message has arrived.
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

    /// Returns the conversion to simulated time for each rank.
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

    /// Returns each rank's start relative to the first rank; all zero if clocks are unknown.
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
