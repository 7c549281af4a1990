//! Joins the graphs of all ranks into one, connected by collectives and messages.
//!
//! ```text
//! rank 0   ==== arrives  . . . . . .  transfer =====
//!                      \             / waits for all
//!                       >  meeting  <
//!                      /             \
//! rank 1   =============== arrives    transfer ======
//! ```
//! A communicating node is split in two: the arrival of the rank, which takes no time, and the
//! transfer, which begins when the last rank has arrived. The time between them is a wait. All
//! parts of a collective arrive at one meeting, a node of no length that belongs to no rank, and
//! each transfer waits for the meeting. With two edges per part, everything is linear in ranks and
//! nodes. If different nodes begin and end the communication (an op and its wait), only the ending
//! node is shortened.
//!
//! A collective is not joined if the measured times contradict it because a rank was done before
//! the last had come. The same holds for a collective that would close a cycle because ranks run
//! two collectives in opposite order. Both cases are counted.

mod build;
mod collectives;
mod labels;
mod plan;
mod ranks;

pub use collectives::{JoinedCollectives, collective_nodes};
pub use labels::{RankLabels, RankNames};
pub use ranks::{CollectiveTimes, RankFigures};

use crate::graph::{Error, ReplayGraph};
use build::joined_nodes;
use etlink_model::{DurationNs, GlobalRank, NodeIdx, RankIdx};
use plan::Plan;
use serde::Serialize;

/// Graph of one rank.
#[derive(Clone, Debug, Default)]
pub struct RankGraph {
    /// Global rank.
    pub rank: GlobalRank,
    /// Graph of the rank, with times by the common clock.
    pub graph: ReplayGraph,
    /// Largest error of the rank's times, in ns.
    pub uncertainty_ns: DurationNs,
}

/// A collective or message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectiveNodes {
    /// Description for people: kind and participants.
    pub name: String,
    /// Parts, at most one per rank.
    pub members: Vec<MemberNodes>,
}

/// One rank's part of a collective. Nodes are numbered as in the rank's graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberNodes {
    /// Rank, by place.
    pub rank: RankIdx,
    /// Node at whose begin the rank has arrived.
    pub arrives: NodeIdx,
    /// Node at whose end the transfer is done; can equal `arrives`.
    pub transfer: NodeIdx,
    /// True if the part needs data from all others. Otherwise it waits for them only if it ended
    /// after all had come: a sender can be done early.
    pub needs_all: bool,
}

/// Result of joining a collective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinOutcome {
    /// The collective connects its ranks.
    #[default]
    Joined,
    /// A rank that needs all others was done before the last had come, by more than the clocks'
    /// uncertainty.
    Contradicted,
    /// Ranks run this collective and another in opposite order.
    OutOfOrder,
}

/// Graph of all ranks.
#[derive(Clone, Debug, Default)]
pub struct JoinedGraph {
    /// Joined graph, which runs like any other. The ranks' nodes come first, rank by rank, then
    /// arrivals, then meetings.
    pub graph: ReplayGraph,
    /// Results by collective.
    pub outcomes: Vec<JoinOutcome>,
    plan: Plan,
}

impl JoinedGraph {
    /// Returns the number of a rank's first node; the others follow in order.
    pub fn first_node(&self, rank: RankIdx) -> Option<NodeIdx> {
        let rank = self.plan.ranks.get(rank.index())?;
        Some(rank.first)
    }
}

/// Returns true if ranks wait for each other forever when all collectives connect their ranks,
/// regardless of recorded times. Collectives that `join_graphs` left out then have a cause.
///
/// # Errors
/// The same errors as [`join_graphs`].
pub fn is_deadlocked(ranks: &[RankGraph], collectives: &[CollectiveNodes]) -> Result<bool, Error> {
    let mut plan = Plan::new(ranks)?;
    plan.place_all(ranks, collectives)?;
    match joined_nodes(ranks, &plan).finish() {
        Ok(_) => Ok(false),
        Err(Error::Cycle(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Joins the graphs of several ranks. O(nodes + edges + parts log parts).
///
/// # Errors
/// There are more nodes or edges than can be numbered, or a part names a missing node or rank.
pub fn join_graphs(
    ranks: &[RankGraph],
    collectives: &[CollectiveNodes],
) -> Result<JoinedGraph, Error> {
    let mut plan = Plan::new(ranks)?;
    let mut outcomes = plan.place_collectives(ranks, collectives)?;
    let graph = match joined_nodes(ranks, &plan).finish() {
        // Most runs have no cycle, so the search for collectives to leave out runs only if there is
        // one.
        Err(Error::Cycle(_)) => {
            let jammed = joined_nodes(ranks, &plan).jammed_gates(plan.meeting_nodes());
            plan.take_out(ranks, collectives, &jammed, &mut outcomes);
            joined_nodes(ranks, &plan).finish()?
        }
        graph => graph?,
    };
    Ok(JoinedGraph {
        graph,
        outcomes,
        plan,
    })
}
