//! Steps that some ranks of a run lack.

use crate::analysis::RankAnalysis;
use etlink_link::ranks::RunSteps;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::fmt;

/// A step that some ranks of a run lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IncompleteStep {
    /// Name of the step.
    pub step: String,
    /// Ranks on which the step is missing, truncated or empty
    /// ([`StepExclusion`](etlink_link::ranks::StepExclusion)); `None` for a trace of unknown rank.
    pub ranks: Vec<Option<i64>>,
}

/// Returns the steps of a run that do not count, with the ranks that lack them. `ranks` are in the
/// order of the steps' ranks.
pub(super) fn incomplete_steps(steps: &RunSteps, ranks: &[&RankAnalysis]) -> Vec<IncompleteStep> {
    let incomplete = steps.all.iter().filter(|step| {
        let lacking = step.lacking.len();
        // a step that no rank has whole is truncated by the recording
        lacking > 0 && lacking < ranks.len()
    });
    let named = incomplete.map(|step| {
        let lacking = step.lacking.iter();
        let lacking = lacking.filter_map(|rank| ranks.get(rank.index()));
        IncompleteStep {
            step: step.name.clone(),
            ranks: lacking.map(|rank| rank.rank).collect(),
        }
    });
    named.collect()
}

/// `ProfilerStep#3 is missing, truncated or empty on rank 2`.
impl fmt::Display for IncompleteStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&lacking_text(&self.step, "is", &self.ranks))
    }
}

/// Describes the steps that ranks lack, one text per set of ranks.
pub(super) fn lacking_texts(steps: &[IncompleteStep]) -> Vec<String> {
    let mut by_ranks: IndexMap<&[Option<i64>], Vec<&str>, FxBuildHasher> = IndexMap::default();
    for one in steps {
        by_ranks.entry(&one.ranks).or_default().push(&one.step);
    }
    let texts = by_ranks.into_iter().map(|(ranks, steps)| match &steps[..] {
        [one] => lacking_text(one, "is", ranks),
        several => {
            let names = first_few(several, SHOWN_STEPS);
            let steps = format!("{} steps ({names})", several.len());
            lacking_text(&steps, "are", ranks)
        }
    });
    texts.collect()
}

/// Maximum number of step names in a line.
const SHOWN_STEPS: usize = 3;

/// Maximum number of ranks in a line.
const SHOWN_RANKS: usize = 8;

fn lacking_text(steps: &str, verb: &str, ranks: &[Option<i64>]) -> String {
    let known: Vec<i64> = ranks.iter().copied().flatten().collect();
    let unknown = ranks.len() - known.len();
    let mut names = vec![];
    if !known.is_empty() {
        let word = if known.len() == 1 { "rank" } else { "ranks" };
        names.push(format!("{word} {}", first_few(&known, SHOWN_RANKS)));
    }
    match unknown {
        0 => {}
        1 => names.push("a trace of unknown rank".to_owned()),
        several => names.push(format!("{several} traces of unknown ranks")),
    }
    format!(
        "{steps} {verb} missing, truncated or empty on {}",
        names.join(" and ")
    )
}

fn first_few<T: ToString>(list: &[T], most: usize) -> String {
    let first: Vec<String> = list.iter().take(most).map(T::to_string).collect();
    let more = if list.len() > most { ", …" } else { "" };
    first.join(", ") + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_the_same_ranks_are_named_together() {
        let steps = ["a", "b", "c", "d"].map(|step| IncompleteStep {
            step: step.to_owned(),
            ranks: vec![Some(3)],
        });
        assert_eq!(
            lacking_texts(&steps),
            ["4 steps (a, b, c, …) are missing, truncated or empty on rank 3"]
        );
        let unknown = IncompleteStep {
            step: "b".to_owned(),
            ranks: vec![Some(1), None],
        };
        assert_eq!(
            unknown.to_string(),
            "b is missing, truncated or empty on rank 1 and a trace of unknown rank"
        );
    }
}
