//! Utilization of each rank's devices, and the part of it that is waiting for other ranks.

use etlink_analysis::{CommunicationWait, DeviceUse, Utilization};
use etlink_link::ranks::{CollectiveArrival, CollectiveMatch, collective_arrivals};
use etlink_model::GlobalRank;
use etlink_run::JoinedRun;
use serde::Serialize;

/// Utilization of a rank's devices, as defined in `analyze`.
#[derive(Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct RankUtilization {
    pub(super) rank: GlobalRank,
    /// Busy time, summed over the devices, in ns.
    pub(super) busy_ns: i64,
    /// Part of the busy time in which devices only wait in collectives for other ranks, in ns.
    pub(super) waiting_ns: i64,
    /// Length of the steps, or of the recording if there are none, without work from before it, in
    /// ns.
    pub(super) whole_ns: i64,
    /// `busy_ns / whole_ns`; `None` without device work.
    pub(super) busy_share: Option<f64>,
    /// `waiting_ns / whole_ns`.
    pub(super) waiting_share: Option<f64>,
    /// `busy_share - waiting_share`: the share of computation, copies, and transfers.
    pub(super) working_share: Option<f64>,
}

/// Returns the utilization of each rank, in the order of the join.
pub(super) fn rank_utilizations(joined: &JoinedRun, uses: &[&DeviceUse]) -> Vec<RankUtilization> {
    let waits = device_waits(joined);
    let ranks = joined.summaries.iter().zip(uses).zip(&waits);
    ranks
        .map(|((summary, devices), waits)| {
            RankUtilization::new(summary.rank, devices, devices.exposed.waiting_ns(waits))
        })
        .collect()
}

impl RankUtilization {
    fn new(rank: GlobalRank, devices: &DeviceUse, waiting_ns: i64) -> RankUtilization {
        let sum = |part: fn(&Utilization) -> i64| {
            let each = devices.utilization.iter().map(part);
            each.fold(0, i64::saturating_add)
        };
        let (busy_ns, whole_ns) = (sum(|one| one.busy_ns), sum(Utilization::whole_ns));
        let share = |ns: i64| (whole_ns > 0).then(|| ns as f64 / whole_ns as f64);
        RankUtilization {
            rank,
            busy_ns,
            waiting_ns,
            whole_ns,
            busy_share: share(busy_ns),
            waiting_share: share(waiting_ns),
            working_share: share(busy_ns.saturating_sub(waiting_ns)),
        }
    }
}

/// Returns the waits of each rank for others in communications, by its own clock, indexed by rank.
fn device_waits(joined: &JoinedRun) -> Vec<Vec<CommunicationWait>> {
    let mut waits = vec![vec![]; joined.summaries.len()];
    for matched in &joined.matches.matches {
        let arrivals = collective_arrivals(&joined.summaries, &joined.clocks, matched);
        for arrival in arrivals.iter().flatten() {
            let wait = wait_of(joined, matched, arrival);
            if let Some((wait, of_rank)) = wait.zip(waits.get_mut(arrival.rank.index())) {
                of_rank.push(wait);
            }
        }
    }
    waits
}

fn wait_of(
    joined: &JoinedRun,
    matched: &CollectiveMatch,
    arrival: &CollectiveArrival,
) -> Option<CommunicationWait> {
    let mut members = matched.members.iter();
    let member = members.find(|member| member.rank == arrival.rank)?;
    let summary = joined.summaries.get(member.rank.index())?;
    let communication = summary.communications.get(member.communication.index())?;
    let extent = communication.extent;
    let start_ns = extent.start_ns.max(extent.arrival_ns);
    // Clock errors can put the last arrival after the end: nobody waits longer than that.
    let longest = extent.end_ns.since(start_ns).max(0);
    Some(CommunicationWait {
        node: communication.node,
        start_ns,
        waits_ns: arrival.waits_ns.min(longest),
    })
}
