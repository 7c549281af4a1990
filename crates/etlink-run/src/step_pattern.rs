//! Steps by a pattern of the user's.

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
    /// Marks the ranges that match as the steps of a trace, of nested ones the outermost, and
    /// returns a note where there are none. O(ops + length of the names).
    pub fn mark_steps(&self, device: &mut DeviceTrace) -> Option<String> {
        let mut works: IndexMap<NameId, Option<StepWork>> = IndexMap::new();
        let mut steps = vec![];
        let mut last_end = None;
        let ops = &device.ops;
        // ops are in order of time, at equal starts the longer first: the outermost comes first
        for op in 0..ops.len() {
            let name = ops.name[op];
            let work = works
                .entry(name)
                .or_insert_with(|| self.name_work(device.names.get(name)));
            let Some(work) = work else { continue };
            if last_end.is_some_and(|end| ops.start[op] < end) {
                continue;
            }
            last_end = Some(ops.start[op] + ops.duration[op]);
            steps.push(MarkedStep {
                op: OpIdx(op as u32),
                work: work.clone(),
            });
        }
        let note = steps.is_empty().then(|| {
            format!(
                "no annotation or op matches --steps-by {}: there are no steps",
                self.0
            )
        });
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
