//! Steps identified by a user's pattern.

use etlink_link::ranks::SeparateRanges;
use etlink_model::{DeviceTrace, MarkedStep, NameId, OpIdx, StepWork};
use indexmap::IndexMap;
use regex::{Captures, Regex};
use std::str::FromStr;

/// Pattern for the names of steps among annotations and ops of the host. Its groups `phase`,
/// `batch` and `tokens` capture the work of a step.
#[derive(Clone, Debug)]
pub struct StepPattern(Regex);

impl FromStr for StepPattern {
    type Err = regex::Error;

    fn from_str(text: &str) -> Result<StepPattern, regex::Error> {
        Ok(StepPattern(Regex::new(text)?))
    }
}

impl StepPattern {
    /// Returns true if a step may have this name.
    pub(crate) fn is_match(&self, name: &str) -> bool {
        self.0.is_match(name)
    }

    /// Marks the matching ranges as steps of a trace: the outermost of nested ones, and one
    /// thread's if threads overlap. Returns a note if none match or some are excluded. O(ops +
    /// length of the names).
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
                "no annotation or op matches --steps-by {}, so there are no steps",
                self.0
            ))
        } else {
            chosen.note(device, &format!("ranges that match --steps-by {}", self.0))
        };
        device.marked_steps = Some(steps);
        note
    }

    /// Returns the work in a step's name; `None` if the name does not match.
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
