//! The ranks of one run as one system.
//!
//! ```text
//! LinkedTrace of a rank ──> Facts::of    its communications, a hundred bytes each, and in which nodes they go on
//! Facts of all ranks ─────> company     which of them are of one run
//!                      └──> join ──> Join { groups, joints }   which communications are one
//!                             ├────> clocks   how far each rank's clock is off
//!                             ├────> skews    who came late, how long the transfer took
//!                             ├────> stragglers   for whom the others waited, per step
//!                             ├────> releases who made whom wait, node by node
//!                             └────> Turns    do all ranks get to the end
//! ```
//! The facts are all that is kept of a rank, so a run of any size is joined in little memory.
//! Everything is O(n log n) in the communications.

mod clocks;
mod company;
mod facts;
mod groups;
mod join;
mod lateness;
mod releases;
mod skew;
mod steps;
mod turns;

#[cfg(test)]
mod testing;

pub use clocks::{Clock, Drift, clocks, needs_all};
pub use company::{Company, LeftOut, company};
pub use facts::{Communication, Facts, GroupOf, Party, Runs};
pub use groups::Groups;
pub use join::{
    Channel, Differs, Example, Join, Joint, Part, Problem, ProblemKind, join, list, opposite,
    out_of_turn,
};
pub use lateness::{Arrival, Lateness, StepLateness, arrivals, lateness, stragglers};
pub use releases::{Release, Releases, releases};
pub use skew::{Skew, bus_factor, skews};
pub use steps::{NO_STEP, Step, Steps};
pub use turns::{Role, Turns};
