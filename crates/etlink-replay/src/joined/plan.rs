//! Which collectives fit, and when and where their ranks meet.

use super::{CollectiveNodes, JoinOutcome, MemberNodes, RankGraph};
use crate::graph::Error;
use crate::labels::NoLabels;
use crate::run::{ReplayRun, ReplaySettings, run_graph};
use etlink_link::limits::CLOCK_TOLERANCE;
use etlink_model::{NodeIdx, TimeNs};
use std::ops::Range;

/// Where collectives go. Nodes have the numbers of the common graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Ranks and their first nodes.
    pub(super) ranks: Vec<(i64, u32)>,
    /// How many nodes all ranks have.
    pub(super) nodes: u32,
    /// Nodes with which ranks arrive, ascending: their arrivals are the nodes after the ranks' own.
    pub(super) arrivals: Vec<NodeIdx>,
    /// Meetings, by time: the nodes after the arrivals.
    pub(super) meetings: Vec<Meeting>,
    /// What waits for which meeting, ascending.
    pub(super) waits: Vec<(NodeIdx, u32)>,
    /// Nodes that end with a transfer, ascending.
    pub(super) transfers: Vec<NodeIdx>,
}

/// All ranks of a collective have come.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    /// Which collective.
    pub(super) collective: u32,
    /// When the last came.
    pub(super) time: TimeNs,
    /// Its parts' arrivals, as entries of [`Plan::arrivals`].
    pub(super) arrivals: Vec<u32>,
}

/// When nodes of the ranks begin and end by the common clock: as measured, else as each rank runs
/// by itself.
struct Times<'r> {
    ranks: &'r [RankGraph],
    runs: Vec<Option<ReplayRun>>,
    /// All have measured times.
    measured: bool,
}

impl<'r> Times<'r> {
    fn new(ranks: &'r [RankGraph]) -> Times<'r> {
        let alone = |rank: &RankGraph| {
            // Without measured times each rank's own run says when it would come.
            (!rank.graph.measured)
                .then(|| run_graph(&rank.graph, &NoLabels, &ReplaySettings::default()))
        };
        Times {
            ranks,
            runs: ranks.iter().map(alone).collect(),
            measured: ranks.iter().all(|rank| rank.graph.measured),
        }
    }

    fn start(&self, rank: u32, node: NodeIdx) -> TimeNs {
        let (own, at) = (&self.ranks[rank as usize], node.index());
        self.runs[rank as usize]
            .as_ref()
            .map_or_else(|| own.graph.start[at], |run| run.start[at])
    }

    fn end(&self, rank: u32, node: NodeIdx) -> TimeNs {
        self.start(rank, node) + self.ranks[rank as usize].graph.duration[node.index()]
    }

    /// When the last part of a collective came, and the uncertainty of its clock.
    fn last(&self, collective: &CollectiveNodes) -> Option<(TimeNs, i64)> {
        let arrival = |member: &MemberNodes| {
            (
                self.start(member.rank, member.arrives),
                self.ranks[member.rank as usize].uncertainty_ns,
            )
        };
        collective.members.iter().map(arrival).max()
    }

    /// Whether a part waits for the last: it was done after that had come, as far as clocks tell.
    fn waits(&self, member: &MemberNodes, (time, uncertainty): (TimeNs, i64)) -> bool {
        // Each rank ran by itself, so nothing says that a sender has waited: only what must wait
        // does.
        if !self.measured {
            return member.needs_all;
        }
        // Both clocks can be off, that of the rank that came last and that of the one that waits.
        let tolerance = CLOCK_TOLERANCE
            .0
            .saturating_add(uncertainty)
            .saturating_add(self.ranks[member.rank as usize].uncertainty_ns);
        (time - self.end(member.rank, member.transfer)).0 <= tolerance
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

    /// Places the collectives that fit.
    pub(super) fn place(
        &mut self,
        ranks: &[RankGraph],
        collectives: &[CollectiveNodes],
    ) -> Result<Vec<JoinOutcome>, Error> {
        for member in collectives
            .iter()
            .flat_map(|collective| &collective.members)
        {
            let nodes = ranks
                .get(member.rank as usize)
                .map_or(0, |rank| rank.graph.len());
            if let Some(from) = [member.arrives, member.transfer]
                .into_iter()
                .find(|node| node.index() >= nodes)
            {
                return Err(Error::NoSuchNode {
                    node: NodeIdx(member.rank),
                    from,
                });
            }
        }
        let times = Times::new(ranks);
        let outcome = |collective: &CollectiveNodes| match times.last(collective) {
            Some(last)
                if collective
                    .members
                    .iter()
                    .any(|member| member.needs_all && !times.waits(member, last)) =>
            {
                JoinOutcome::Contradicted
            }
            _ => JoinOutcome::Joined,
        };
        let outcomes: Vec<JoinOutcome> = collectives.iter().map(outcome).collect();
        self.fill(&times, collectives, &outcomes);
        Ok(outcomes)
    }

    /// Places the collectives again that `jammed`, by meeting, leaves.
    pub(super) fn take_out(
        &mut self,
        ranks: &[RankGraph],
        collectives: &[CollectiveNodes],
        jammed: &[u32],
        outcomes: &mut [JoinOutcome],
    ) {
        jammed.iter().for_each(|meeting| {
            outcomes[self.meetings[*meeting as usize].collective as usize] = JoinOutcome::OutOfOrder
        });
        self.fill(&Times::new(ranks), collectives, outcomes);
    }

    fn fill(
        &mut self,
        times: &Times<'_>,
        collectives: &[CollectiveNodes],
        outcomes: &[JoinOutcome],
    ) {
        let joined = || {
            (0u32..)
                .zip(collectives)
                .zip(outcomes)
                .filter(|(_, outcome)| **outcome == JoinOutcome::Joined)
                .map(|(collective, _)| collective)
        };
        let number = |rank: u32, node: NodeIdx, ranks: &[(i64, u32)]| {
            NodeIdx(ranks[rank as usize].1 + node.0)
        };
        self.arrivals = joined()
            .flat_map(|(_, collective)| &collective.members)
            .map(|member| number(member.rank, member.arrives, &self.ranks))
            .collect();
        sort(&mut self.arrivals);
        let mut meetings: Vec<(TimeNs, i64, u32)> = joined()
            .filter_map(|(at, collective)| {
                times
                    .last(collective)
                    .map(|(time, uncertainty)| (time, uncertainty, at))
            })
            .collect();
        // By time: `jammed` then takes out the earliest that is stuck, as a reader of the trace
        // would.
        meetings.sort_unstable_by_key(|(time, _, at)| (*time, *at));
        (self.meetings, self.waits, self.transfers) = (vec![], vec![], vec![]);
        for ((time, uncertainty, collective), meeting) in meetings.into_iter().zip(0u32..) {
            let mut arrivals = vec![];
            for member in &collectives[collective as usize].members {
                let (arrives, transfer) = (
                    number(member.rank, member.arrives, &self.ranks),
                    number(member.rank, member.transfer, &self.ranks),
                );
                arrivals.extend(self.arrivals.binary_search(&arrives).map(|at| at as u32));
                self.transfers.push(transfer);
                if times.waits(member, (time, uncertainty)) {
                    self.waits.push((transfer, meeting));
                }
            }
            self.meetings.push(Meeting {
                collective,
                time,
                arrivals,
            });
        }
        // Two collectives can end with one node (a wait for both), which must be there once.
        sort(&mut self.transfers);
        sort(&mut self.waits);
    }

    /// The node of an arrival.
    pub(super) fn arrival_node(&self, arrival: u32) -> NodeIdx {
        NodeIdx(self.nodes + arrival)
    }

    /// The meetings as nodes.
    pub(super) fn meeting_nodes(&self) -> Range<u32> {
        let first = self.nodes + self.arrivals.len() as u32;
        first..first + self.meetings.len() as u32
    }

    /// The meetings that a node waits for.
    pub(super) fn meetings_of(&self, node: NodeIdx) -> impl Iterator<Item = u32> {
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
