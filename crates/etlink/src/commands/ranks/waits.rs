//! How busy the devices of each rank are, and how much of that is waiting for other ranks.

use etlink_analyze::{CommunicationWait, DeviceUse, Utilization};
use etlink_link::ranks::{CollectiveArrival, CollectiveMatch, collective_arrivals};
use etlink_model::GlobalRank;
use etlink_run::JoinedRun;
use serde::Serialize;

/// How busy the devices of a rank are, by the definition of `analyze`.
#[derive(Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct RankUtilization {
    pub(super) rank: GlobalRank,
    /// Time in which they run something, summed over its devices, ns.
    pub(super) busy_ns: i64,
    /// Of that, time in which they do nothing but wait in collectives for other ranks, ns.
    pub(super) waiting_ns: i64,
    /// Of its steps, or of its recording where it has none; without work from before it, ns.
    pub(super) whole_ns: i64,
    /// `busy_ns / whole_ns`; none without device work.
    pub(super) busy_share: Option<f64>,
    /// `waiting_ns / whole_ns`.
    pub(super) waiting_share: Option<f64>,
    /// The one less the other: they compute, copy or transfer.
    pub(super) working_share: Option<f64>,
}

/// Of each rank, in the order of the join.
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

/// When each rank waits for others in communications, by its own clock; by the rank's place.
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
    // Clocks that are off can have the last come after the end: nobody waits longer than that.
    let longest = extent.end_ns.since(start_ns).max(0);
    Some(CommunicationWait {
        node: communication.node,
        start_ns,
        waits_ns: arrival.waits_ns.min(longest),
    })
}
