//! Events of a generated run in true time, and their times on each rank's clock.

use anyhow::{Result, bail};
use serde::Serialize;

/// Delay from a collective's launch call to the start of its kernel, ns.
const LAUNCH_NS: i64 = 6_000;
/// Duration of a transfer once all ranks have arrived, ns.
const TRANSFER_NS: i64 = 60_000;
/// Upper bound of the difference between ranks' ends, ns.
const HOP_NS: i64 = 1_000;
/// Minimum time between the end of a collective and the next event of each rank, ns.
const REST_NS: i64 = 50_000;

/// A rank that arrives late at all collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LateRank {
    /// Index of the late rank.
    pub rank: usize,
    /// Delay of the late rank, ns.
    pub by_ns: i64,
}

/// Settings of a generated run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ScenarioSettings {
    /// Number of ranks.
    pub ranks: usize,
    /// Maximum offset of clocks from rank 0's, ns.
    pub skew_ns: i64,
    /// Maximum drift of clocks against rank 0's, ns per second.
    pub drift_ppb: i64,
    /// Maximum random delay of a rank's arrival at a collective, ns; the late rank adds its own.
    pub jitter_ns: i64,
    /// Late rank; `None` if there is none.
    pub late: Option<LateRank>,
    /// Seed of all random values.
    pub seed: u64,
}

/// Recorded op of a collective, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CollectiveSpan {
    pub(super) start: i64,
    pub(super) end: i64,
}

/// Complete description of a generated run.
#[derive(Debug)]
pub struct RunScenario {
    /// Number of ranks.
    pub ranks: usize,
    /// Per rank, the lead of its clock over true time at the begin of the window, ns.
    pub offset_ns: Vec<i64>,
    /// Per rank, the drift of its clock, ns per second; positive if it is fast.
    pub drift_ppb: Vec<i64>,
    begin: i64,
    collectives: Vec<CollectiveSpan>,
    /// Per rank and collective, the delay of the arrival against the earliest possible one, ns.
    delays: Vec<Vec<i64>>,
    /// Per rank and collective, the delay of the kernel's end after the transfer's end, ns.
    hops: Vec<Vec<i64>>,
    /// Time inserted per collective on every rank, ns.
    slot: i64,
}

/// Launch call and kernel of a rank's collective, by the rank's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CollectiveRows {
    pub(super) call: (i64, i64),
    pub(super) kernel: (i64, i64),
}

impl RunScenario {
    pub(super) fn new(
        wishes: &ScenarioSettings,
        collectives: &[CollectiveSpan],
        window: (i64, i64),
    ) -> Result<RunScenario> {
        let ScenarioSettings {
            ranks,
            skew_ns,
            drift_ppb,
            jitter_ns,
            late,
            seed,
        } = *wishes;
        if ranks < 2 || late.is_some_and(|late| late.rank >= ranks) {
            bail!("a run has at least two ranks, and the late one is one of them");
        }
        let mut random = fastrand::Rng::with_seed(seed);
        let mut apart = |most: i64| -> Vec<i64> {
            (0..ranks)
                .map(|rank| {
                    // Rank 0 has true time, because readers take the first rank's clock as the
                    // reference.
                    if rank == 0 {
                        0
                    } else {
                        random.i64(-most..=most)
                    }
                })
                .collect()
        };
        let (offset_ns, drift_ppb) = (apart(skew_ns), apart(drift_ppb));
        let delay = |rank: usize, random: &mut fastrand::Rng| {
            random.i64(0..=jitter_ns)
                + late
                    .filter(|late| late.rank == rank)
                    .map_or(0, |late| late.by_ns)
        };
        // The order of random draws defines the meaning of a seed: add new draws after these.
        let delays = (0..ranks)
            .map(|rank| {
                collectives
                    .iter()
                    .map(|_| delay(rank, &mut random))
                    .collect()
            })
            .collect();
        let hops = (0..ranks)
            .map(|_| collectives.iter().map(|_| random.i64(0..HOP_NS)).collect())
            .collect();
        // The longest time any rank can take, so that the next collective begins after this one has
        // ended everywhere.
        let slot = jitter_ns + late.map_or(0, |late| late.by_ns) + TRANSFER_NS + HOP_NS + REST_NS;
        Ok(RunScenario {
            ranks,
            offset_ns,
            drift_ppb,
            begin: window.0,
            collectives: collectives.to_vec(),
            delays,
            hops,
            slot,
        })
    }

    /// Returns the number of collectives per rank.
    pub fn collectives(&self) -> usize {
        self.collectives.len()
    }

    /// Returns the rank that arrives last at a collective.
    pub fn last(&self, collective: usize) -> usize {
        (0..self.ranks)
            .max_by_key(|rank| (self.delays[*rank][collective], *rank))
            .unwrap_or(0)
    }

    /// Converts the recorded begin of something to a rank's time.
    pub(super) fn start(&self, rank: usize, recorded: i64) -> i64 {
        let over = self.collectives.partition_point(|one| one.end <= recorded);
        let inside = self
            .collectives
            .get(over)
            .filter(|one| one.start <= recorded)
            .map_or(0, |_| self.delays[rank][over]);
        self.own(rank, recorded + over as i64 * self.slot + inside)
    }

    /// Converts the recorded end of something to a rank's time. Unlike a begin, it is not delayed
    /// by a collective that begins at the same time.
    pub(super) fn end(&self, rank: usize, recorded: i64) -> i64 {
        let over = self.collectives.partition_point(|one| one.end < recorded);
        let inside = self
            .collectives
            .get(over)
            .filter(|one| one.start < recorded)
            .map_or(0, |_| self.delays[rank][over]);
        self.own(rank, recorded + over as i64 * self.slot + inside)
    }

    /// Returns the device side of a rank's collective.
    pub(super) fn rows(&self, rank: usize, collective: usize) -> CollectiveRows {
        let one = self.collectives[collective];
        let length = one.end - one.start;
        let earliest = one.start + collective as i64 * self.slot;
        // At most a quarter of the op, so that the call is inside it.
        let call = |rank: usize| earliest + self.delays[rank][collective] + (length / 4).min(4_000);
        let arrival = |rank: usize| call(rank) + LAUNCH_NS;
        let end = arrival(self.last(collective)) + TRANSFER_NS + self.hops[rank][collective];
        let own = |times: (i64, i64)| (self.own(rank, times.0), self.own(rank, times.1));
        CollectiveRows {
            call: own((call(rank), call(rank) + (length / 4).min(3_000))),
            kernel: own((arrival(rank), end)),
        }
    }

    /// Converts a true time to a rank's clock.
    fn own(&self, rank: usize, true_ns: i64) -> i64 {
        // In 128 bits, because a day in ns times a million ppb exceeds 64 bits.
        let drift =
            i128::from(self.drift_ppb[rank]) * i128::from(true_ns - self.begin) / 1_000_000_000;
        true_ns + self.offset_ns[rank] + drift as i64
    }
}
