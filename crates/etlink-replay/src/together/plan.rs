//! Which joints fit, and when and where their ranks meet.

use super::{CollectiveNodes, JoinOutcome, MemberNodes, RankGraph};
use crate::figures::CLOCK_TOLERANCE_NS;
use crate::graph::Error;
use crate::labels::NoLabels;
use crate::run::{ReplayRun, ReplaySettings, run_graph};
use etlink_model::TimeNs;
use std::ops::Range;

/// Where joints go. Nodes have the numbers of the common graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Ranks and their first nodes.
    pub(super) ranks: Vec<(i64, u32)>,
    /// How many nodes all ranks have.
    pub(super) nodes: u32,
    /// Nodes with which ranks arrive, ascending: their arrivals are the nodes after the ranks' own.
    pub(super) arrivals: Vec<u32>,
    /// Meetings, by time: the nodes after the arrivals.
    pub(super) meetings: Vec<Meeting>,
    /// What waits for which meeting, ascending.
    pub(super) waits: Vec<(u32, u32)>,
    /// Nodes that end with a transfer, ascending.
    pub(super) transfers: Vec<u32>,
}

/// All ranks of a joint have come.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    /// Which joint.
    pub(super) joint: u32,
    /// When the last came.
    pub(super) time: TimeNs,
    /// Its parts' arrivals, as entries of [`Plan::arrivals`].
    pub(super) arrivals: Vec<u32>,
}

/// When nodes of the ranks begin and end by the common clock: as measured, else as each rank runs by itself.
struct Times<'r> {
    ranks: &'r [RankGraph],
    runs: Vec<Option<ReplayRun>>,
    /// All have measured times.
    measured: bool,
}

impl<'r> Times<'r> {
    fn new(ranks: &'r [RankGraph]) -> Times<'r> {
        let alone = |rank: &RankGraph| {
            (!rank.graph.measured)
                .then(|| run_graph(&rank.graph, &NoLabels, &ReplaySettings::default()))
        };
        Times {
            ranks,
            runs: ranks.iter().map(alone).collect(),
            measured: ranks.iter().all(|rank| rank.graph.measured),
        }
    }

    fn start(&self, rank: u32, node: u32) -> TimeNs {
        let (own, at) = (&self.ranks[rank as usize], node as usize);
        self.runs[rank as usize]
            .as_ref()
            .map_or_else(|| own.graph.start[at], |run| run.start[at])
    }

    fn end(&self, rank: u32, node: u32) -> TimeNs {
        self.start(rank, node) + self.ranks[rank as usize].graph.duration[node as usize]
    }

    /// When the last part of a joint came, and the uncertainty of its clock.
    fn last(&self, joint: &CollectiveNodes) -> Option<(TimeNs, i64)> {
        let arrival = |part: &MemberNodes| {
            (
                self.start(part.rank, part.arrives),
                self.ranks[part.rank as usize].uncertainty_ns,
            )
        };
        joint.parts.iter().map(arrival).max()
    }

    /// Whether a part waits for the last: it was done after that had come, as far as clocks tell.
    fn waits(&self, part: &MemberNodes, (time, uncertainty): (TimeNs, i64)) -> bool {
        if !self.measured {
            return part.needs_all;
        }
        let tolerance = CLOCK_TOLERANCE_NS
            .saturating_add(uncertainty)
            .saturating_add(self.ranks[part.rank as usize].uncertainty_ns);
        (time - self.end(part.rank, part.transfer)).0 <= tolerance
    }
}

impl Plan {
    /// Numbers the ranks' nodes.
    pub(super) fn new(ranks: &[RankGraph]) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        for rank in ranks {
            plan.ranks.push((rank.rank, plan.nodes));
            let nodes = u32::try_from(rank.graph.len()).map_err(|_| Error::TooLarge)?;
            plan.nodes = plan.nodes.checked_add(nodes).ok_or(Error::TooLarge)?;
        }
        Ok(plan)
    }

    /// Places the joints that fit.
    pub(super) fn place(
        &mut self,
        ranks: &[RankGraph],
        joints: &[CollectiveNodes],
    ) -> Result<Vec<JoinOutcome>, Error> {
        for part in joints.iter().flat_map(|joint| &joint.parts) {
            let nodes = ranks
                .get(part.rank as usize)
                .map_or(0, |rank| rank.graph.len());
            if let Some(from) = [part.arrives, part.transfer]
                .into_iter()
                .find(|node| *node as usize >= nodes)
            {
                return Err(Error::NoSuchNode {
                    node: part.rank,
                    from,
                });
            }
        }
        let times = Times::new(ranks);
        let fate = |joint: &CollectiveNodes| match times.last(joint) {
            Some(last)
                if joint
                    .parts
                    .iter()
                    .any(|part| part.needs_all && !times.waits(part, last)) =>
            {
                JoinOutcome::Contradicted
            }
            _ => JoinOutcome::Joined,
        };
        let fates: Vec<JoinOutcome> = joints.iter().map(fate).collect();
        self.fill(&times, joints, &fates);
        Ok(fates)
    }

    /// Places the joints again that `jammed`, by meeting, leaves.
    pub(super) fn take_out(
        &mut self,
        ranks: &[RankGraph],
        joints: &[CollectiveNodes],
        jammed: &[u32],
        fates: &mut [JoinOutcome],
    ) {
        jammed.iter().for_each(|meeting| {
            fates[self.meetings[*meeting as usize].joint as usize] = JoinOutcome::OutOfOrder
        });
        self.fill(&Times::new(ranks), joints, fates);
    }

    fn fill(&mut self, times: &Times<'_>, joints: &[CollectiveNodes], fates: &[JoinOutcome]) {
        let joined = || {
            (0u32..)
                .zip(joints)
                .zip(fates)
                .filter(|(_, fate)| **fate == JoinOutcome::Joined)
                .map(|(joint, _)| joint)
        };
        let number = |rank: u32, node: u32, ranks: &[(i64, u32)]| ranks[rank as usize].1 + node;
        self.arrivals = joined()
            .flat_map(|(_, joint)| &joint.parts)
            .map(|part| number(part.rank, part.arrives, &self.ranks))
            .collect();
        sort(&mut self.arrivals);
        let mut meetings: Vec<(TimeNs, i64, u32)> = joined()
            .filter_map(|(at, joint)| {
                times
                    .last(joint)
                    .map(|(time, uncertainty)| (time, uncertainty, at))
            })
            .collect();
        meetings.sort_unstable_by_key(|(time, _, at)| (*time, *at));
        (self.meetings, self.waits, self.transfers) = (vec![], vec![], vec![]);
        for ((time, uncertainty, joint), meeting) in meetings.into_iter().zip(0u32..) {
            let mut arrivals = vec![];
            for part in &joints[joint as usize].parts {
                let (arrives, transfer) = (
                    number(part.rank, part.arrives, &self.ranks),
                    number(part.rank, part.transfer, &self.ranks),
                );
                arrivals.extend(self.arrivals.binary_search(&arrives).map(|at| at as u32));
                self.transfers.push(transfer);
                if times.waits(part, (time, uncertainty)) {
                    self.waits.push((transfer, meeting));
                }
            }
            self.meetings.push(Meeting {
                joint,
                time,
                arrivals,
            });
        }
        sort(&mut self.transfers);
        sort(&mut self.waits);
    }

    /// The meetings as nodes.
    pub(super) fn meeting_nodes(&self) -> Range<u32> {
        let first = self.nodes + self.arrivals.len() as u32;
        first..first + self.meetings.len() as u32
    }

    /// The meetings that a node waits for.
    pub(super) fn meetings_of(&self, node: u32) -> impl Iterator<Item = u32> {
        let first = self.waits.partition_point(|(waits, _)| *waits < node);
        self.waits[first..]
            .iter()
            .take_while(move |(waits, _)| *waits == node)
            .map(|(_, meeting)| *meeting)
    }
}

fn sort<T: Ord>(all: &mut Vec<T>) {
    all.sort_unstable();
    all.dedup();
}
