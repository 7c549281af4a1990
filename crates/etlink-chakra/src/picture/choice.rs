//! Selects the nodes of a graph to draw.

use crate::convert::NodeNumbers;
use crate::read::ChakraGraph;
use etlink_model::Failure;
use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// Prefix of step names (`torch/profiler/profiler.py`).
const STEP: &str = "ProfilerStep#";
/// Maximum number of steps named in an error.
const SHOWN_STEPS: usize = 10;

/// Nodes to draw; everything by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeChoice {
    /// Ids of the nodes; `None` for all.
    pub ids: Option<RangeInclusive<u64>>,
    /// Number of a step: nodes that begin during the annotation `ProfilerStep#N`; `None` for all.
    pub step: Option<u64>,
    /// Maximum distance in deps; `None` for all. Counts from nodes chosen by `ids`, in both
    /// directions, or else from nodes without deps. In a tree, these are levels.
    pub depth: Option<u32>,
}

impl NodeChoice {
    /// Returns, for each node, true if it is chosen.
    pub(super) fn find_nodes(
        &self,
        file: &ChakraGraph,
        numbers: &NodeNumbers,
    ) -> Result<Vec<bool>, Failure> {
        let mut chosen: Vec<bool> = file.id.iter().map(|id| self.has_id(*id)).collect();
        if let Some(depth) = self.depth {
            chosen = self.find_near(file, numbers, chosen, depth);
        }
        if let Some(step) = self.step {
            let window = step_window(file, step);
            let (start, end) = window.ok_or_else(|| {
                let steps = steps_note(&list_steps(file));
                Failure::new(format!("no node is named {STEP}{step}; {steps}"))
                    .advise("use --range instead")
            })?;
            for (chosen, begins) in chosen.iter_mut().zip(&file.start_ns) {
                *chosen &= begins.is_some_and(|begins| start <= begins && begins < end);
            }
        }
        if !chosen.contains(&true) {
            let nothing = Failure::new("no node is selected");
            return Err(nothing.advise("give another --range, --step or --depth"));
        }
        Ok(chosen)
    }

    fn has_id(&self, id: u64) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(&id))
    }

    /// Follows the deps from the start nodes, level by level.
    fn find_near(
        &self,
        file: &ChakraGraph,
        numbers: &NodeNumbers,
        chosen: Vec<bool>,
        depth: u32,
    ) -> Vec<bool> {
        let both_ways = self.ids.is_some();
        let mut next: Vec<Vec<usize>> = vec![vec![]; file.len()];
        let mut waits = vec![false; file.len()];
        for to in 0..file.len() {
            // The process root of a tree is its own parent.
            for from in numbers.deps(file, to).filter(|from| *from != to) {
                waits[to] = true;
                next[from].push(to);
                if both_ways {
                    next[to].push(from);
                }
            }
        }
        let begin = |node: &usize| {
            if both_ways {
                chosen[*node]
            } else {
                !waits[*node]
            }
        };
        let mut levels: Vec<Option<u32>> = vec![None; file.len()];
        let mut queue: VecDeque<usize> = (0..file.len()).filter(begin).collect();
        queue.iter().for_each(|node| levels[*node] = Some(0));
        while let Some(node) = queue.pop_front() {
            let level = levels[node].unwrap_or_default();
            if level == depth {
                continue;
            }
            for &other in &next[node] {
                if levels[other].is_none() {
                    levels[other] = Some(level + 1);
                    queue.push_back(other);
                }
            }
        }
        levels.iter().map(Option::is_some).collect()
    }
}

/// Returns the steps that nodes are named after, in ascending order.
fn list_steps(file: &ChakraGraph) -> Vec<u64> {
    let names = (0..file.len()).map(|node| file.name_of(node));
    let numbers = names.filter_map(|name| name.strip_prefix(STEP)?.parse().ok());
    let steps: BTreeSet<u64> = numbers.collect();
    steps.into_iter().collect()
}

/// Lists the existing steps in a clause.
fn steps_note(steps: &[u64]) -> String {
    let shown: Vec<String> = steps.iter().take(SHOWN_STEPS).map(u64::to_string).collect();
    match steps.len() - shown.len() {
        _ if steps.is_empty() => "no node is named after a step".to_owned(),
        0 => format!("existing steps: {}", shown.join(", ")),
        more => format!("existing steps: {} and {more} more", shown.join(", ")),
    }
}

/// Returns first start and last end of nodes named `ProfilerStep#N`, which are several in a graph
/// of slices.
fn step_window(file: &ChakraGraph, step: u64) -> Option<(i64, i64)> {
    let wanted = format!("{STEP}{step}");
    let mut window: Option<(i64, i64)> = None;
    for node in (0..file.len()).filter(|node| file.name_of(*node) == wanted) {
        let Some(start) = file.start_ns[node] else {
            continue;
        };
        let end = start.saturating_add(file.inclusive_ns[node]);
        let (first, last) = window.unwrap_or((start, end));
        window = Some((first.min(start), last.max(end)));
    }
    window
}
