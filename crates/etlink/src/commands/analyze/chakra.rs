//! Support in `analyze` for written graphs (`.et`, its JSON, ET+).

use anyhow::{Result, bail};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_chakra::convert::{self, GroupList};
use etlink_chakra::read;
use etlink_link::LinkedTrace;
use etlink_model::{Diagnostic, Failure, diagnostic};
use etlink_run::text;

/// Note above the tables of a written graph.
const NOTE: &str = "a written graph lacks steps (except ET+), copy sizes, grids, allocations, \
barriers and start times of Gloo; \
thread activity of less than 1 us counts to the call before it; without steps, late starts count from \
the first nodes, unlike in the traces";

/// Note above the tables of merged JSON whose original traces are missing.
const TREE_NOTE: &str = "nodes of merged JSON (ET+) lack calls, launches, communication, copy sizes, grids and \
allocations";

/// Source of a rank's data.
#[derive(Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(super) enum RankForm {
    /// Traces of the rank.
    Traces,
    /// Written graph.
    Graph,
    /// Nodes of merged JSON.
    Tree,
}

impl RankForm {
    /// Returns the form of a file that is not a trace.
    pub(super) fn of_written(file: &read::ChakraGraph) -> RankForm {
        if file.format.is_tree() {
            RankForm::Tree
        } else {
            RankForm::Graph
        }
    }
}

/// Returns notes about a run whose ranks, given with their labels, have these forms.
pub(super) fn notes(ranks: &[(&str, RankForm)]) -> Vec<Diagnostic> {
    let forms = [(RankForm::Graph, NOTE), (RankForm::Tree, TREE_NOTE)];
    let of_form = |form| {
        let labels = ranks.iter().filter(move |(_, own)| *own == form);
        labels.map(|(label, _)| *label).collect::<Vec<_>>()
    };
    let mut notes = vec![];
    for (form, note) in forms {
        let labels = of_form(form);
        match labels.len() {
            0 => {}
            count if count == ranks.len() => notes.push(diagnostic!(GraphLacks, "{note}")),
            1 => {
                let rank = text::rank(labels[0]);
                notes.push(diagnostic!(GraphLacks, "{rank}: {note}"));
            }
            _ => {
                let ranks = text::first_ranks(&labels);
                notes.push(diagnostic!(GraphLacks, "ranks {ranks}: {note}"));
            }
        }
    }
    notes
}

/// Links the rows of `file` into a graph.
pub(super) fn linked_graph(
    file: &read::ChakraGraph,
    name: &str,
    rank: Option<i64>,
    groups: &GroupList,
) -> Result<LinkedTrace> {
    let damage = file.damage();
    let damage = damage.map_or(String::new(), |damage| format!("; {damage}"));
    let remedy = format!("use the original traces, or `etlink replay`{damage}");
    // graphs that were made for simulators have only durations
    if file.start_ns.iter().all(Option::is_none) {
        let why = file.unsaid().map(|unsaid| format!(", {unsaid}"));
        let why = why.unwrap_or_default();
        let problem = format!("{name} has no start times to analyze{why}");
        bail!(Failure::new(problem).advise(remedy));
    }
    match convert::linked_trace(file, rank, groups)? {
        Some(trace) => Ok(trace),
        None => {
            let problem = "neither device nodes nor communications to analyze";
            bail!(Failure::new(format!("{name} has {problem}")).advise(remedy));
        }
    }
}
