//! What `analyze` says of a written graph (`.et`, its JSON, ET+).

use anyhow::{Result, bail};
use etlink_chakra::convert::{self, GroupList};
use etlink_chakra::read;
use etlink_link::LinkedTrace;
use etlink_model::AdvisedError;

/// What is said above the tables.
pub(super) const NOTE: &str = "a written graph says nothing of steps (ET+ does), sizes of copies, \
grids, allocations, barriers and when Gloo began; \
what a thread did for less than 1 us counts to the call before it";

/// The graph of the rows of `file`.
pub(super) fn linked_graph(
    file: &read::ChakraGraph,
    name: &str,
    rank: Option<i64>,
    groups: &GroupList,
) -> Result<LinkedTrace> {
    let damage = file.damage();
    let damage = damage.map_or(String::new(), |damage| format!("; {damage}"));
    let remedy = format!("give the traces that it was made from, or use `etlink replay`{damage}");
    // graphs that were made for simulators have durations alone
    if file.start_ns.iter().all(Option::is_none) {
        let why = file.unsaid().map(|unsaid| format!(", {unsaid}"));
        let why = why.unwrap_or_default();
        let problem = format!("{name} has no start times: there is nothing to analyze{why}");
        bail!(AdvisedError::new(problem, remedy));
    }
    match convert::linked_trace(file, rank, groups)? {
        Some(trace) => Ok(trace),
        None => {
            let problem = "neither device nodes nor communications: there is nothing to analyze";
            bail!(AdvisedError::new(format!("{name} has {problem}"), remedy));
        }
    }
}
