//! Which nodes of a graph are drawn.

use crate::convert::NodeNumbers;
use crate::read::ChakraGraph;
use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// What the names of steps begin with (`torch/profiler/profiler.py`).
const STEP: &str = "ProfilerStep#";
/// An error names no more steps than these.
const SHOWN_STEPS: usize = 10;

/// What is to be drawn; all of it by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeChoice {
    /// Nodes of these ids.
    pub ids: Option<RangeInclusive<u64>>,
    /// Nodes that begin while the annotation `ProfilerStep#N` is open.
    pub step: Option<u64>,
    /// Nodes at most so many deps away: with `ids` from those, either way, else from nodes that
    /// wait for nothing. In a tree these are levels.
    pub depth: Option<u32>,
}

/// Why there is nothing to draw.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// No annotation of this step.
    #[error(
        "no node is named ProfilerStep#{step}; {}; choose by --range instead",
        steps_note(steps)
    )]
    NoStep {
        /// Its number.
        step: u64,
        /// Those that have one, in their order.
        steps: Vec<u64>,
    },
    /// No node is left.
    #[error("no node is chosen; give another --range, --step or --depth")]
    Nothing,
}

impl NodeChoice {
    /// Per node whether it is chosen.
    pub(super) fn find_nodes(
        &self,
        file: &ChakraGraph,
        numbers: &NodeNumbers,
    ) -> Result<Vec<bool>, ChoiceError> {
        let mut chosen: Vec<bool> = file.id.iter().map(|id| self.has_id(*id)).collect();
        if let Some(depth) = self.depth {
            chosen = self.find_near(file, numbers, chosen, depth);
        }
        if let Some(step) = self.step {
            let window = step_window(file, step);
            let (start, end) = window.ok_or_else(|| ChoiceError::NoStep {
                step,
                steps: list_steps(file),
            })?;
            for (chosen, begins) in chosen.iter_mut().zip(&file.start_ns) {
                *chosen &= begins.is_some_and(|begins| start <= begins && begins < end);
            }
        }
        if !chosen.contains(&true) {
            return Err(ChoiceError::Nothing);
        }
        Ok(chosen)
    }

    fn has_id(&self, id: u64) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(&id))
    }

    /// Goes over the deps from where it begins, level by level.
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
            // the process root of a tree is its own parent
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

/// The steps that nodes are named for, in their order.
fn list_steps(file: &ChakraGraph) -> Vec<u64> {
    let names = (0..file.len()).map(|node| file.name_of(node));
    let numbers = names.filter_map(|name| name.strip_prefix(STEP)?.parse().ok());
    let steps: BTreeSet<u64> = numbers.collect();
    steps.into_iter().collect()
}

/// Which steps there are, a clause.
fn steps_note(steps: &[u64]) -> String {
    let shown: Vec<String> = steps.iter().take(SHOWN_STEPS).map(u64::to_string).collect();
    match steps.len() - shown.len() {
        _ if steps.is_empty() => "no node is named for a step".to_owned(),
        0 => format!("there are the steps {}", shown.join(", ")),
        more => format!("there are the steps {} and {more} more", shown.join(", ")),
    }
}

/// From the first start to the last end of what is named `ProfilerStep#N`: in a graph of slices
/// those are several nodes.
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
