//! What happens in a generated run, in true time, and what each rank's clock makes of it.

use anyhow::{Result, bail};
use serde::Serialize;

/// From a collective's launch call to the start of its kernel, ns.
const LAUNCH_NS: i64 = 6_000;
/// How long a transfer takes once all ranks are there, ns.
const TRANSFER_NS: i64 = 60_000;
/// Ends differ by less than this between ranks, ns.
const HOP_NS: i64 = 1_000;
/// Between the end of a collective and what comes next on each rank, at least, ns.
const REST_NS: i64 = 50_000;

/// A rank that comes late to all collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LateRank {
    /// Which.
    pub rank: usize,
    /// By how much, ns.
    pub by_ns: i64,
}

/// What the run shall be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ScenarioSettings {
    /// Number of ranks.
    pub ranks: usize,
    /// Clocks are up to so far from rank 0's, ns.
    pub skew_ns: i64,
    /// Clocks are up to so much faster or slower than rank 0's, ns per second.
    pub drift_ppb: i64,
    /// All ranks come to a collective within this, ns, but for the late one.
    pub jitter_ns: i64,
    /// The late rank.
    pub late: Option<LateRank>,
    /// All that is random comes from it.
    pub seed: u64,
}

/// The recorded op of a collective, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CollectiveSpan {
    pub(super) start: i64,
    pub(super) end: i64,
}

/// Everything that is known of a run.
#[derive(Debug)]
pub struct RunScenario {
    /// Number of ranks.
    pub ranks: usize,
    /// Number of ranks that the traces state: more, where several ranks have one text.
    pub(super) world: usize,
    /// Per rank, what its clock is ahead of true time when the window begins, ns.
    pub offset_ns: Vec<i64>,
    /// Per rank, by how much its clock is fast, ns per second.
    pub drift_ppb: Vec<i64>,
    begin: i64,
    collectives: Vec<CollectiveSpan>,
    /// Per rank, per collective, how much later than in the recording, and than the first could,
    /// the rank comes to it.
    delays: Vec<Vec<i64>>,
    /// Per rank, per collective, how much later than the transfer the rank's kernel ends.
    hops: Vec<Vec<i64>>,
    /// What each collective takes of everybody's time.
    slot: i64,
}

/// A launch call and the kernel of a rank's collective, by the rank's clock.
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
                    // Rank 0 has true time: readers take the first rank's clock for that of all.
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
        // What is drawn, in which order, is what a seed means: new draws come after these.
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
        // The longest that any rank can take, so that the next collective begins after this one is
        // over on all.
        let slot = jitter_ns + late.map_or(0, |late| late.by_ns) + TRANSFER_NS + HOP_NS + REST_NS;
        Ok(RunScenario {
            ranks,
            world: ranks,
            offset_ns,
            drift_ppb,
            begin: window.0,
            collectives: collectives.to_vec(),
            delays,
            hops,
            slot,
        })
    }

    /// The same, where traces state so many ranks.
    #[must_use]
    pub fn of_world(self, world: usize) -> RunScenario {
        RunScenario { world, ..self }
    }

    /// How many collectives each rank takes part in.
    pub fn collectives(&self) -> usize {
        self.collectives.len()
    }

    /// The rank that comes last to a collective.
    pub fn last(&self, collective: usize) -> usize {
        (0..self.ranks)
            .max_by_key(|rank| (self.delays[*rank][collective], *rank))
            .unwrap_or(0)
    }

    /// A rank's time for something that begins at a recorded time.
    pub(super) fn start(&self, rank: usize, recorded: i64) -> i64 {
        let over = self.collectives.partition_point(|one| one.end <= recorded);
        let inside = self
            .collectives
            .get(over)
            .filter(|one| one.start <= recorded)
            .map_or(0, |_| self.delays[rank][over]);
        self.own(rank, recorded + over as i64 * self.slot + inside)
    }

    /// The same for something that ends then: it does not wait for what begins at the same time.
    pub(super) fn end(&self, rank: usize, recorded: i64) -> i64 {
        let over = self.collectives.partition_point(|one| one.end < recorded);
        let inside = self
            .collectives
            .get(over)
            .filter(|one| one.start < recorded)
            .map_or(0, |_| self.delays[rank][over]);
        self.own(rank, recorded + over as i64 * self.slot + inside)
    }

    /// The device side of a rank's collective.
    pub(super) fn rows(&self, rank: usize, collective: usize) -> CollectiveRows {
        let one = self.collectives[collective];
        let length = one.end - one.start;
        let earliest = one.start + collective as i64 * self.slot;
        // A quarter of the op at most, so that the call lies inside of it.
        let call = |rank: usize| earliest + self.delays[rank][collective] + (length / 4).min(4_000);
        let arrival = |rank: usize| call(rank) + LAUNCH_NS;
        let end = arrival(self.last(collective)) + TRANSFER_NS + self.hops[rank][collective];
        let own = |times: (i64, i64)| (self.own(rank, times.0), self.own(rank, times.1));
        CollectiveRows {
            call: own((call(rank), call(rank) + (length / 4).min(3_000))),
            kernel: own((arrival(rank), end)),
        }
    }

    /// A true time by a rank's clock.
    fn own(&self, rank: usize, true_ns: i64) -> i64 {
        // In 128 bits: a day in ns times a million ppb does not fit into 64.
        let drift =
            i128::from(self.drift_ppb[rank]) * i128::from(true_ns - self.begin) / 1_000_000_000;
        true_ns + self.offset_ns[rank] + drift as i64
    }
}
