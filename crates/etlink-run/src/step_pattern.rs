//! Steps by a pattern of the user's.

use etlink_link::ranks::SeparateRanges;
use etlink_model::{DeviceTrace, MarkedStep, NameId, OpIdx, StepWork};
use indexmap::IndexMap;
use regex::{Captures, Regex};
use std::str::FromStr;

/// What the names of steps match: annotations and ops of the host. What groups named `phase`,
/// `batch` and `tokens` catch is what a step says of its work.
#[derive(Clone, Debug)]
pub struct StepPattern(Regex);

impl FromStr for StepPattern {
    type Err = regex::Error;

    fn from_str(text: &str) -> Result<StepPattern, regex::Error> {
        Ok(StepPattern(Regex::new(text)?))
    }
}

impl StepPattern {
    /// Returns whether a name is that of a step.
    pub(crate) fn is_match(&self, name: &str) -> bool {
        self.0.is_match(name)
    }

    /// Marks the ranges that match as the steps of a trace, of nested ones the outermost, where
    /// those of threads overlap of one thread. Returns a note where there are none, or some are left
    /// out. O(ops + length of the names).
    pub fn mark_steps(&self, device: &mut DeviceTrace) -> Option<String> {
        let mut works: IndexMap<NameId, Option<StepWork>> = IndexMap::new();
        let ops = &device.ops;
        let mut matching = vec![];
        for op in 0..ops.len() {
            let name = ops.name[op];
            let work = works
                .entry(name)
                .or_insert_with(|| self.name_work(device.names.get(name)));
            if work.is_some() {
                matching.push(OpIdx(op as u32));
            }
        }
        let chosen = SeparateRanges::choose(device, matching.into_iter());
        let mut steps = vec![];
        for op in &chosen.ops {
            let work = works.get(&ops.name[op.index()]);
            steps.push(MarkedStep {
                op: *op,
                work: work.cloned().flatten().unwrap_or_default(),
            });
        }
        let note = if steps.is_empty() {
            Some(format!(
                "no annotation or op matches --steps-by {}: there are no steps",
                self.0
            ))
        } else {
            chosen.note(device, &format!("ranges that match --steps-by {}", self.0))
        };
        device.marked_steps = Some(steps);
        note
    }

    /// What a name says; `None` where it does not match.
    fn name_work(&self, name: &str) -> Option<StepWork> {
        let caught = self.0.captures(name)?;
        Some(StepWork {
            phase: caught.name("phase").map(|text| text.as_str().to_owned()),
            batch: caught_number(&caught, "batch"),
            tokens: caught_number(&caught, "tokens"),
        })
    }
}

fn caught_number(caught: &Captures<'_>, group: &str) -> Option<u64> {
    caught.name(group)?.as_str().parse().ok()
}
