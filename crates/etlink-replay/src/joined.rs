//! The graphs of all ranks as one: collectives and messages are what holds them together.
//!
//! ```text
//! rank 0   ==== arrives  . . . . . .  transfer =====
//!                      \             / waits for all
//!                       >  meeting  <
//!                      /             \
//! rank 1   =============== arrives    transfer ======
//! ```
//! A node that communicates is cut in two: the rank arrives, which takes no time, and what it does
//! when the last has arrived, the transfer. The time between is a wait, a hole. All parts of a
//! collective arrive at one meeting, a node without length that belongs to no rank, and a transfer
//! waits for the meeting: two edges per part, so all is linear in ranks and nodes. Where the node
//! that ends with the transfer is another than the one that begins it (an op and its wait), only
//! the latter is cut short.
//!
//! A collective that the measured times contradict, by a rank that was done before the last had
//! come, holds nothing together. Neither does one that would close a circle: ranks do two
//! collectives in opposite order. Both are counted.

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

/// One rank's graph.
#[derive(Clone, Debug, Default)]
pub struct RankGraph {
    /// Global rank.
    pub rank: GlobalRank,
    /// Its graph, with times by the clock that all share.
    pub graph: ReplayGraph,
    /// They are not further off than this, ns.
    pub uncertainty_ns: DurationNs,
}

/// A collective or message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectiveNodes {
    /// For people: what and between whom.
    pub name: String,
    /// At most one per rank.
    pub members: Vec<MemberNodes>,
}

/// One rank's part of a collective. Nodes are numbered as in the rank's graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberNodes {
    /// Which rank, by place.
    pub rank: RankIdx,
    /// The rank has arrived when this begins.
    pub arrives: NodeIdx,
    /// The transfer is done when this ends; can be the same.
    pub transfer: NodeIdx,
    /// It needs something of all others. Else it waits for them only if it ended after all had
    /// come: a sender can be done early.
    pub needs_all: bool,
}

/// What became of a collective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinOutcome {
    /// It holds its ranks together.
    #[default]
    Joined,
    /// A rank that needs all others was done before the last had come, by more than clocks are
    /// uncertain.
    Contradicted,
    /// Ranks do it and another in opposite order.
    OutOfOrder,
}

/// The graphs of all ranks as one.
#[derive(Clone, Debug, Default)]
pub struct JoinedGraph {
    /// To be run as any other. The ranks' nodes come first, rank by rank, then arrivals, then
    /// meetings.
    pub graph: ReplayGraph,
    /// By collective.
    pub outcomes: Vec<JoinOutcome>,
    plan: Plan,
}

impl JoinedGraph {
    /// The number of a rank's first node: its others follow in their order.
    pub fn first_node(&self, rank: RankIdx) -> Option<NodeIdx> {
        let rank = self.plan.ranks.get(rank.index())?;
        Some(rank.first)
    }
}

/// Returns whether ranks wait for each other for ever if each collective holds its ranks together,
/// whatever times are recorded: what `join_graphs` leaves out of the graph then has a cause.
///
/// # Errors
/// Those of [`join_graphs`].
pub fn is_deadlocked(ranks: &[RankGraph], collectives: &[CollectiveNodes]) -> Result<bool, Error> {
    let mut plan = Plan::new(ranks)?;
    plan.place_all(ranks, collectives)?;
    match joined_nodes(ranks, &plan).finish() {
        Ok(_) => Ok(false),
        Err(Error::Cycle(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Makes one graph of many. O(nodes + edges + parts log parts).
///
/// # Errors
/// More nodes or edges than can be numbered; a part that names no node.
pub fn join_graphs(
    ranks: &[RankGraph],
    collectives: &[CollectiveNodes],
) -> Result<JoinedGraph, Error> {
    let mut plan = Plan::new(ranks)?;
    let mut outcomes = plan.place_collectives(ranks, collectives)?;
    let graph = match joined_nodes(ranks, &plan).finish() {
        // Most runs have no circle, so that the search for what to take out is paid for only where
        // there is one.
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
