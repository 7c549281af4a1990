//! Plans the joined graph: selects the collectives to join, and the times and places of meetings.

use super::{CollectiveNodes, JoinOutcome, MemberNodes, RankGraph};
use crate::graph::Error;
use crate::labels::NoLabels;
use crate::run::{ReplayRun, ReplaySettings, run_graph};
use etlink_link::limits::CLOCK_TOLERANCE;
use etlink_model::{DurationNs, GlobalRank, NodeIdx, RankIdx, TimeNs};
use std::ops::Range;

/// A collective, by its index in the list to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CollectiveIdx(pub(super) u32);

impl CollectiveIdx {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A rank's arrival at a collective, by its place among [`Plan::arrivals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ArrivalIdx(u32);

/// A meeting, by its place among [`Plan::meetings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MeetingIdx(u32);

/// A rank and its first node in the joined graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankNodes {
    /// Number of the rank in the job.
    pub(super) rank: GlobalRank,
    /// First node of the rank in the joined graph; the others follow in order.
    pub(super) first: NodeIdx,
}

impl RankNodes {
    /// Returns the joined graph's number of one of the rank's nodes.
    pub(super) fn common_node(self, own: NodeIdx) -> NodeIdx {
        NodeIdx(self.first.0 + own.0)
    }
}

/// Positions of collectives. Nodes have the numbers of the joined graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Ranks, in order.
    pub(super) ranks: Vec<RankNodes>,
    /// Number of nodes of all ranks.
    nodes: u32,
    /// Nodes with which ranks arrive, ascending; the arrival nodes follow the ranks' own nodes.
    arrivals: Vec<NodeIdx>,
    /// Meetings, by time; their nodes follow the arrivals.
    pub(super) meetings: Vec<Meeting>,
    /// Nodes and the meetings they wait for, ascending.
    waits: Vec<(NodeIdx, MeetingIdx)>,
    /// Nodes that end with a transfer, ascending.
    pub(super) transfers: Vec<NodeIdx>,
}

/// Meeting of all ranks of a collective.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    /// Collective that meets.
    pub(super) collective: CollectiveIdx,
    /// Time of the last arrival.
    pub(super) time: TimeNs,
    /// Arrivals of the parts.
    pub(super) arrivals: Vec<ArrivalIdx>,
}

/// Last arrival at a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LastArrival {
    time: TimeNs,
    /// Largest error of the rank's clock.
    uncertainty: DurationNs,
}

/// Begin and end of the ranks' nodes by the common clock: measured, or from each rank's own run.
struct RankTimes<'r> {
    ranks: &'r [RankGraph],
    runs: Vec<Option<ReplayRun>>,
    /// True if all ranks have measured times.
    measured: bool,
}

impl<'r> RankTimes<'r> {
    fn new(ranks: &'r [RankGraph]) -> RankTimes<'r> {
        RankTimes {
            ranks,
            runs: ranks.iter().map(run_alone).collect(),
            measured: ranks.iter().all(|rank| rank.graph.measured),
        }
    }

    /// Creates times by which no rank is done before the last has come.
    fn unmeasured(ranks: &'r [RankGraph]) -> RankTimes<'r> {
        RankTimes {
            ranks,
            runs: vec![None; ranks.len()],
            measured: false,
        }
    }

    fn start(&self, rank: RankIdx, node: NodeIdx) -> TimeNs {
        let (graph, at) = (&self.ranks[rank.index()].graph, node.index());
        match &self.runs[rank.index()] {
            Some(run) => run.start[at],
            None => graph.start[at],
        }
    }

    fn end(&self, rank: RankIdx, node: NodeIdx) -> TimeNs {
        self.start(rank, node) + self.ranks[rank.index()].graph.duration[node.index()]
    }

    /// Returns the last arrival of a collective; `None` for a collective without parts.
    fn last_arrival(&self, collective: &CollectiveNodes) -> Option<LastArrival> {
        let arrivals = collective.members.iter().map(|member| LastArrival {
            time: self.start(member.rank, member.arrives),
            uncertainty: self.ranks[member.rank.index()].uncertainty_ns,
        });
        // Of several simultaneous arrivals the least certain, which contradicts the least.
        arrivals.max()
    }

    /// Returns true if a part waits for the last arrival: it was done afterwards, as far as clocks
    /// tell.
    fn waits_for(&self, member: &MemberNodes, last: LastArrival) -> bool {
        // Each rank ran by itself, so nothing shows that a sender waited: only parts that must wait
        // do.
        if !self.measured {
            return member.needs_all;
        }
        // Both the last rank's clock and the waiting rank's clock can be off.
        let own_uncertainty = self.ranks[member.rank.index()].uncertainty_ns;
        let tolerance = CLOCK_TOLERANCE + last.uncertainty + own_uncertainty;
        last.time - self.end(member.rank, member.transfer) <= tolerance
    }

    /// Returns true if a part that needs all others was done before the last arrival.
    fn is_contradicted(&self, collective: &CollectiveNodes) -> bool {
        let Some(last) = self.last_arrival(collective) else {
            return false;
        };
        let mut members = collective.members.iter();
        members.any(|member| member.needs_all && !self.waits_for(member, last))
    }
}

/// Runs a rank by itself if it has no measured times.
fn run_alone(rank: &RankGraph) -> Option<ReplayRun> {
    let settings = ReplaySettings::default();
    (!rank.graph.measured).then(|| run_graph(&rank.graph, &NoLabels, &settings))
}

/// Returns the collectives that are joined, by place.
fn joined_collectives<'c>(
    collectives: &'c [CollectiveNodes],
    outcomes: &'c [JoinOutcome],
) -> impl Iterator<Item = (CollectiveIdx, &'c CollectiveNodes)> {
    let numbered = (0..).map(CollectiveIdx).zip(collectives).zip(outcomes);
    numbered
        .filter(|(_, outcome)| **outcome == JoinOutcome::Joined)
        .map(|(collective, _)| collective)
}

/// Refuses parts of missing ranks and nodes.
fn check_members(ranks: &[RankGraph], collectives: &[CollectiveNodes]) -> Result<(), Error> {
    let all = collectives.iter();
    for member in all.flat_map(|collective| &collective.members) {
        let Some(rank) = ranks.get(member.rank.index()) else {
            return Err(Error::NoSuchRank { rank: member.rank });
        };
        for node in [member.arrives, member.transfer] {
            if node.index() >= rank.graph.len() {
                let rank = rank.rank;
                return Err(Error::NoSuchPart { rank, node });
            }
        }
    }
    Ok(())
}

impl Plan {
    /// Assigns numbers to the ranks' nodes.
    pub(super) fn new(ranks: &[RankGraph]) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        for rank in ranks {
            plan.ranks.push(RankNodes {
                rank: rank.rank,
                first: NodeIdx(plan.nodes),
            });
            let nodes = u32::try_from(rank.graph.len()).map_err(|_| Error::TooLarge)?;
            plan.nodes = plan.nodes.checked_add(nodes).ok_or(Error::TooLarge)?;
        }
        Ok(plan)
    }

    /// Places the collectives that can be joined.
    pub(super) fn place_collectives(
        &mut self,
        ranks: &[RankGraph],
        collectives: &[CollectiveNodes],
    ) -> Result<Vec<JoinOutcome>, Error> {
        check_members(ranks, collectives)?;
        let times = RankTimes::new(ranks);
        let mut outcomes = vec![];
        for collective in collectives {
            outcomes.push(if times.is_contradicted(collective) {
                JoinOutcome::Contradicted
            } else {
                JoinOutcome::Joined
            });
        }
        self.fill_columns(&times, collectives, &outcomes);
        Ok(outcomes)
    }

    /// Places all collectives, as if nothing was measured.
    pub(super) fn place_all(
        &mut self,
        ranks: &[RankGraph],
        collectives: &[CollectiveNodes],
    ) -> Result<(), Error> {
        check_members(ranks, collectives)?;
        let times = RankTimes::unmeasured(ranks);
        let outcomes = vec![JoinOutcome::Joined; collectives.len()];
        self.fill_columns(&times, collectives, &outcomes);
        Ok(())
    }

    /// Places the collectives again, except the ones whose meeting nodes are `jammed`.
    pub(super) fn take_out(
        &mut self,
        ranks: &[RankGraph],
        collectives: &[CollectiveNodes],
        jammed: &[NodeIdx],
        outcomes: &mut [JoinOutcome],
    ) {
        for node in jammed {
            if let Some(meeting) = self.meeting_at(*node) {
                outcomes[meeting.collective.index()] = JoinOutcome::OutOfOrder;
            }
        }
        self.fill_columns(&RankTimes::new(ranks), collectives, outcomes);
    }

    fn fill_columns(
        &mut self,
        times: &RankTimes<'_>,
        collectives: &[CollectiveNodes],
        outcomes: &[JoinOutcome],
    ) {
        let (mut arrivals, mut lasts) = (vec![], vec![]);
        for (at, collective) in joined_collectives(collectives, outcomes) {
            let members = collective.members.iter();
            arrivals.extend(members.map(|member| self.common_node(member.rank, member.arrives)));
            lasts.extend(times.last_arrival(collective).map(|last| (last, at)));
        }
        // Two collectives can begin with one node; its rank then arrives only once.
        sort_unique(&mut arrivals);
        self.arrivals = arrivals;
        // By time: `jammed_gates` then removes the earliest that is stuck, as a reader of the trace
        // would.
        lasts.sort_unstable_by_key(|(last, at)| (last.time, *at));
        (self.meetings, self.waits, self.transfers) = (vec![], vec![], vec![]);
        for ((last, collective), meeting) in lasts.into_iter().zip((0..).map(MeetingIdx)) {
            let mut arrivals = vec![];
            for member in &collectives[collective.index()].members {
                let arrives = self.common_node(member.rank, member.arrives);
                arrivals.extend(self.arrival_at(arrives));
                let transfer = self.common_node(member.rank, member.transfer);
                self.transfers.push(transfer);
                if times.waits_for(member, last) {
                    self.waits.push((transfer, meeting));
                }
            }
            self.meetings.push(Meeting {
                collective,
                time: last.time,
                arrivals,
            });
        }
        // Two collectives can end with one node (a wait for both), which must be listed once.
        sort_unique(&mut self.transfers);
        sort_unique(&mut self.waits);
    }

    /// Returns the joined graph's number of a rank's node.
    fn common_node(&self, rank: RankIdx, own: NodeIdx) -> NodeIdx {
        self.ranks[rank.index()].common_node(own)
    }

    /// Returns the rank of a joined-graph node, and the node's number in that rank. The node must
    /// belong to a rank and not be an arrival or meeting.
    pub(super) fn own_node(&self, node: NodeIdx) -> Option<(RankIdx, NodeIdx)> {
        let begun = self.ranks.partition_point(|rank| rank.first <= node);
        // A rank without nodes begins where the next one does; the last of these ranks has the
        // node.
        let place = begun.checked_sub(1)?;
        let own = NodeIdx(node.0 - self.ranks[place].first.0);
        Some((RankIdx::new(place), own))
    }

    /// Returns the nodes of a rank, given by place, in the joined graph.
    pub(super) fn rank_nodes(&self, place: usize) -> Range<u32> {
        let next = self.ranks.get(place + 1);
        self.ranks[place].first.0..next.map_or(self.nodes, |next| next.first.0)
    }

    /// Returns the number of nodes and edges of the joined graph.
    pub(super) fn size(&self, ranks: &[RankGraph]) -> (usize, usize) {
        let nodes = self.nodes as usize + self.arrivals.len() + self.meetings.len();
        let own: usize = ranks.iter().map(|rank| rank.graph.edges()).sum();
        // an arrival has one edge to its node and another to its meeting
        (nodes, own + 2 * self.arrivals.len() + self.waits.len())
    }

    /// Returns the arrival before a rank's node, if there is one.
    pub(super) fn arrival_at(&self, node: NodeIdx) -> Option<ArrivalIdx> {
        let place = self.arrivals.binary_search(&node).ok()?;
        Some(ArrivalIdx(place as u32))
    }

    /// Returns the node of the arrival before a rank's node, if there is one.
    pub(super) fn arrival_of(&self, node: NodeIdx) -> Option<NodeIdx> {
        self.arrival_at(node)
            .map(|arrival| self.arrival_node(arrival))
    }

    /// Returns the node of an arrival.
    pub(super) fn arrival_node(&self, arrival: ArrivalIdx) -> NodeIdx {
        NodeIdx(self.nodes + arrival.0)
    }

    /// Returns the rank's node that follows the arrival node `node`; `None` if it is not an
    /// arrival.
    pub(super) fn node_of_arrival(&self, node: NodeIdx) -> Option<NodeIdx> {
        let place = node.0.checked_sub(self.nodes)?;
        self.arrivals.get(place as usize).copied()
    }

    fn first_meeting(&self) -> u32 {
        self.nodes + self.arrivals.len() as u32
    }

    /// Returns the nodes of all meetings.
    pub(super) fn meeting_nodes(&self) -> impl Iterator<Item = NodeIdx> + use<> {
        let first = self.first_meeting();
        (first..first + self.meetings.len() as u32).map(NodeIdx)
    }

    /// Returns the node of a meeting.
    pub(super) fn meeting_node(&self, meeting: MeetingIdx) -> NodeIdx {
        NodeIdx(self.first_meeting() + meeting.0)
    }

    /// Returns the meeting of a node, if it is one.
    pub(super) fn meeting_at(&self, node: NodeIdx) -> Option<&Meeting> {
        let place = node.0.checked_sub(self.first_meeting())?;
        self.meetings.get(place as usize)
    }

    /// Returns the meetings that a node waits for.
    pub(super) fn meetings_before(&self, node: NodeIdx) -> impl Iterator<Item = MeetingIdx> {
        let first = self.waits.partition_point(|(waits, _)| *waits < node);
        self.waits[first..]
            .iter()
            .take_while(move |(waits, _)| *waits == node)
            .map(|(_, meeting)| *meeting)
    }

    /// Returns the time of the last of these meetings.
    pub(super) fn last_meeting(&self, meetings: &[MeetingIdx]) -> Option<TimeNs> {
        let times = meetings.iter();
        times
            .map(|meeting| self.meetings[meeting.0 as usize].time)
            .max()
    }
}

fn sort_unique<T: Ord>(all: &mut Vec<T>) {
    all.sort_unstable();
    all.dedup();
}
