//! Which collectives fit, and when and where their ranks meet.

use super::{CollectiveNodes, JoinOutcome, MemberNodes, RankGraph};
use crate::graph::Error;
use crate::labels::NoLabels;
use crate::run::{ReplayRun, ReplaySettings, run_graph};
use etlink_link::limits::CLOCK_TOLERANCE;
use etlink_model::{DurationNs, GlobalRank, NodeIdx, RankIdx, TimeNs};
use std::ops::Range;

/// A collective by its place in the list that is joined.
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

/// A rank, and where its nodes begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankNodes {
    /// Its number in the job.
    pub(super) rank: GlobalRank,
    /// Its first node in the common graph: the others follow in their order.
    pub(super) first: NodeIdx,
}

impl RankNodes {
    /// The number in the common graph of one of the rank's nodes.
    pub(super) fn common_node(self, own: NodeIdx) -> NodeIdx {
        NodeIdx(self.first.0 + own.0)
    }
}

/// Where collectives go. Nodes have the numbers of the common graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// The ranks, in their order.
    pub(super) ranks: Vec<RankNodes>,
    /// How many nodes all ranks have.
    nodes: u32,
    /// Nodes with which ranks arrive, ascending: their arrivals are the nodes after the ranks' own.
    arrivals: Vec<NodeIdx>,
    /// Meetings, by time: the nodes after the arrivals.
    pub(super) meetings: Vec<Meeting>,
    /// What waits for which meeting, ascending.
    waits: Vec<(NodeIdx, MeetingIdx)>,
    /// Nodes that end with a transfer, ascending.
    pub(super) transfers: Vec<NodeIdx>,
}

/// All ranks of a collective have come.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    /// Which collective.
    pub(super) collective: CollectiveIdx,
    /// When the last came.
    pub(super) time: TimeNs,
    /// Its parts' arrivals.
    pub(super) arrivals: Vec<ArrivalIdx>,
}

/// The last of a collective's ranks to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LastArrival {
    time: TimeNs,
    /// How far its clock can be off.
    uncertainty: DurationNs,
}

/// When nodes of the ranks begin and end by the common clock: as measured, else as each rank runs
/// by itself.
struct RankTimes<'r> {
    ranks: &'r [RankGraph],
    runs: Vec<Option<ReplayRun>>,
    /// All have measured times.
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

    /// Times by which nobody is done before the last has come.
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

    /// The last part of a collective to come; none of a collective without parts.
    fn last_arrival(&self, collective: &CollectiveNodes) -> Option<LastArrival> {
        let arrivals = collective.members.iter().map(|member| LastArrival {
            time: self.start(member.rank, member.arrives),
            uncertainty: self.ranks[member.rank.index()].uncertainty_ns,
        });
        // Of several that come at one instant the least certain, which contradicts the least.
        arrivals.max()
    }

    /// Whether a part waits for the last: it was done after that had come, as far as clocks tell.
    fn waits_for(&self, member: &MemberNodes, last: LastArrival) -> bool {
        // Each rank ran by itself, so nothing says that a sender has waited: only what must wait
        // does.
        if !self.measured {
            return member.needs_all;
        }
        // Both clocks can be off, that of the rank that came last and that of the one that waits.
        let own_uncertainty = self.ranks[member.rank.index()].uncertainty_ns;
        let tolerance = CLOCK_TOLERANCE + last.uncertainty + own_uncertainty;
        last.time - self.end(member.rank, member.transfer) <= tolerance
    }

    /// Whether a part that needs all others was done before the last had come.
    fn is_contradicted(&self, collective: &CollectiveNodes) -> bool {
        let Some(last) = self.last_arrival(collective) else {
            return false;
        };
        let mut members = collective.members.iter();
        members.any(|member| member.needs_all && !self.waits_for(member, last))
    }
}

/// Without measured times a rank's own run says when it would come.
fn run_alone(rank: &RankGraph) -> Option<ReplayRun> {
    let settings = ReplaySettings::default();
    (!rank.graph.measured).then(|| run_graph(&rank.graph, &NoLabels, &settings))
}

/// The collectives that hold their ranks together, by place.
fn joined_collectives<'c>(
    collectives: &'c [CollectiveNodes],
    outcomes: &'c [JoinOutcome],
) -> impl Iterator<Item = (CollectiveIdx, &'c CollectiveNodes)> {
    let numbered = (0..).map(CollectiveIdx).zip(collectives).zip(outcomes);
    numbered
        .filter(|(_, outcome)| **outcome == JoinOutcome::Joined)
        .map(|(collective, _)| collective)
}

/// Refuses parts of ranks and nodes that are not there.
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
    /// Numbers the ranks' nodes.
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

    /// Places the collectives that fit.
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

    /// Places the collectives again that `jammed`, the nodes of meetings, leaves.
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
        // Two collectives can begin with one node, before which its rank arrives once.
        sort_unique(&mut arrivals);
        self.arrivals = arrivals;
        // By time: `jammed_gates` then takes out the earliest that is stuck, as a reader of the
        // trace would.
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
        // Two collectives can end with one node (a wait for both), which must be there once.
        sort_unique(&mut self.transfers);
        sort_unique(&mut self.waits);
    }

    /// The number in the common graph of a node of a rank.
    fn common_node(&self, rank: RankIdx, own: NodeIdx) -> NodeIdx {
        self.ranks[rank.index()].common_node(own)
    }

    /// The rank that a node of the common graph belongs to, and its number there. The node is of a
    /// rank, and no arrival or meeting.
    pub(super) fn own_node(&self, node: NodeIdx) -> Option<(RankIdx, NodeIdx)> {
        let begun = self.ranks.partition_point(|rank| rank.first <= node);
        // A rank without nodes begins where the next one does. The last to begin has the node.
        let place = begun.checked_sub(1)?;
        let own = NodeIdx(node.0 - self.ranks[place].first.0);
        Some((RankIdx::new(place), own))
    }

    /// The nodes of a rank, by place, in the common graph.
    pub(super) fn rank_nodes(&self, place: usize) -> Range<u32> {
        let next = self.ranks.get(place + 1);
        self.ranks[place].first.0..next.map_or(self.nodes, |next| next.first.0)
    }

    /// How many nodes and edges the common graph has.
    pub(super) fn size(&self, ranks: &[RankGraph]) -> (usize, usize) {
        let nodes = self.nodes as usize + self.arrivals.len() + self.meetings.len();
        let own: usize = ranks.iter().map(|rank| rank.graph.edges()).sum();
        // from an arrival one edge leads to its node, another to its meeting
        (nodes, own + 2 * self.arrivals.len() + self.waits.len())
    }

    /// The arrival that stands before a node of a rank, if one does.
    pub(super) fn arrival_at(&self, node: NodeIdx) -> Option<ArrivalIdx> {
        let place = self.arrivals.binary_search(&node).ok()?;
        Some(ArrivalIdx(place as u32))
    }

    /// The same as a node.
    pub(super) fn arrival_of(&self, node: NodeIdx) -> Option<NodeIdx> {
        self.arrival_at(node)
            .map(|arrival| self.arrival_node(arrival))
    }

    /// The node of an arrival.
    pub(super) fn arrival_node(&self, arrival: ArrivalIdx) -> NodeIdx {
        NodeIdx(self.nodes + arrival.0)
    }

    /// The node of a rank before which arrival `node` stands; `None` for other nodes.
    pub(super) fn node_of_arrival(&self, node: NodeIdx) -> Option<NodeIdx> {
        let place = node.0.checked_sub(self.nodes)?;
        self.arrivals.get(place as usize).copied()
    }

    fn first_meeting(&self) -> u32 {
        self.nodes + self.arrivals.len() as u32
    }

    /// The meetings as nodes.
    pub(super) fn meeting_nodes(&self) -> impl Iterator<Item = NodeIdx> + use<> {
        let first = self.first_meeting();
        (first..first + self.meetings.len() as u32).map(NodeIdx)
    }

    /// The node of a meeting.
    pub(super) fn meeting_node(&self, meeting: MeetingIdx) -> NodeIdx {
        NodeIdx(self.first_meeting() + meeting.0)
    }

    /// The meeting that a node is, if it is one.
    pub(super) fn meeting_at(&self, node: NodeIdx) -> Option<&Meeting> {
        let place = node.0.checked_sub(self.first_meeting())?;
        self.meetings.get(place as usize)
    }

    /// The meetings that a node waits for.
    pub(super) fn meetings_before(&self, node: NodeIdx) -> impl Iterator<Item = MeetingIdx> {
        let first = self.waits.partition_point(|(waits, _)| *waits < node);
        self.waits[first..]
            .iter()
            .take_while(move |(waits, _)| *waits == node)
            .map(|(_, meeting)| *meeting)
    }

    /// When the last of these meetings is.
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
