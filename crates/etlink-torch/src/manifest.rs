//! `etlink.json`: what was recorded, how, and what is missing.

use crate::{Options, Process, Ranks, ScheduleSettings};
use etlink_schedule::Schedule;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// `etlink.json`: what was recorded, how, and what is missing.
#[derive(Clone, Debug, Serialize)]
pub struct Manifest {
    /// Version of etlink.
    pub etlink: String,
    /// The recorded command.
    pub command: Vec<String>,
    /// How it ended.
    pub ended: Ended,
    /// When to record.
    pub schedule: ScheduleSettings,
    /// What counts as a step.
    pub step_on: String,
    /// The ranks that were asked for; none: all.
    pub asked_ranks: Option<Ranks>,
    /// What was to be recorded besides times.
    pub options: Options,
    /// Processes that are ranks, by rank.
    pub ranks: Vec<Rank>,
    /// What is missing or odd, for people.
    pub notes: Vec<String>,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// With this exit code.
    ExitCode(i32),
    /// By this signal.
    Signal(i32),
}

/// A process that was recorded, or would have been.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Rank {
    /// What it reported.
    #[serde(flatten)]
    pub process: Process,
    /// Whether a trace was begun and is not there: the process died while it was recorded.
    #[serde(default)]
    pub lost: bool,
}

/// What is read of a manifest, of this version of etlink or another.
#[derive(Clone, Debug, Deserialize)]
pub struct Recorded {
    /// Processes that are ranks, by rank.
    pub ranks: Vec<Rank>,
}

impl Recorded {
    /// Reads an `etlink.json`.
    ///
    /// # Errors
    /// It is no JSON of this form.
    pub fn read(manifest: &[u8]) -> Result<Recorded, serde_json::Error> {
        etlink_json::from_slice(manifest)
    }
}

impl Manifest {
    /// Sorts out the processes: those that made steps or were recorded are ranks. `hooked`: some Python process found the hook;
    /// `lost`: process ids of unfinished traces.
    #[must_use]
    pub fn with(mut self, processes: Vec<Process>, hooked: bool, lost: &BTreeSet<u32>) -> Manifest {
        self.notes = self.notes_of_all(&processes, hooked);
        let ranks = processes.into_iter().filter(|process| {
            process.steps > 0 || process.rank.is_some() || !process.notes.is_empty()
        });
        self.ranks = ranks
            .map(|process| Rank {
                lost: lost.contains(&process.pid),
                process,
            })
            .collect();
        self.ranks
            .sort_by_key(|rank| (rank.process.rank.unwrap_or(u32::MAX), rank.process.pid));
        let notes: Vec<String> = self
            .ranks
            .iter()
            .flat_map(|rank| self.notes_of(rank))
            .collect();
        let mut seen = BTreeSet::new();
        self.notes
            .extend(notes.into_iter().filter(|note| seen.insert(note.clone())));
        self
    }

    /// Whether there are traces, and none that was begun is lost.
    pub fn is_complete(&self) -> bool {
        self.recorded() > 0
            && self
                .ranks
                .iter()
                .all(|rank| rank.process.excluded || self.is_whole(rank) || self.came_again(rank))
    }

    /// How many processes left at least one pair of traces.
    pub fn recorded(&self) -> usize {
        self.ranks
            .iter()
            .filter(|rank| !rank.process.cycles.is_empty())
            .count()
    }

    fn is_whole(&self, rank: &Rank) -> bool {
        !rank.lost && !rank.process.cycles.is_empty()
    }

    /// Launchers start ranks again: whether another process of the rank was recorded.
    fn came_again(&self, rank: &Rank) -> bool {
        let process = &rank.process;
        let another =
            |other: &&Rank| other.process.pid != process.pid && other.process.rank == process.rank;
        process.rank.is_some()
            && process.cycles.is_empty()
            && self
                .ranks
                .iter()
                .filter(another)
                .any(|other| self.is_whole(other))
    }

    fn notes_of_all(&self, processes: &[Process], hooked: bool) -> Vec<String> {
        let nothing = if !hooked {
            "nothing is recorded: the program started no Python that reads PYTHONPATH (it is no Python program, or runs with -I, -E or -S)"
        } else if processes.is_empty() {
            "nothing is recorded: the program did not import torch"
        } else if processes
            .iter()
            .all(|process| process.steps == 0 && process.notes.is_empty() && process.rank.is_none())
        {
            return vec![format!(
                "nothing is recorded: the program imported torch and made no step; steps are {}",
                self.steps_are()
            )];
        } else {
            return vec![];
        };
        vec![nothing.to_owned()]
    }

    fn steps_are(&self) -> String {
        match self.step_on.as_str() {
            "optimizer" => "calls of optimizer.step(), for others see --step-on".to_owned(),
            "forward" => "calls of the model".to_owned(),
            chosen => {
                let called = chosen.strip_prefix("forward:").unwrap_or(chosen);
                format!("calls of {called}")
            }
        }
    }

    fn notes_of(&self, rank: &Rank) -> Vec<String> {
        let process = &rank.process;
        let name = process.rank.map_or_else(
            || format!("process {}", process.pid),
            |rank| format!("rank {rank}"),
        );
        let mut notes: Vec<String> = process
            .notes
            .iter()
            .map(|note| format!("{name}: {note}"))
            .collect();
        for feature in &process.lacks {
            notes.push(format!(
                "PyTorch {} lacks {feature}: recorded without",
                process.torch
            ));
        }
        for cycle in process.cycles.iter().filter(|cycle| !cycle.whole) {
            notes.push(format!(
                "{name}: the program ended in step {}, which is recorded as far as it went",
                cycle.last_step
            ));
        }
        if rank.lost {
            notes.push(format!("{name}: died in or after step {} while it was recorded: the traces of that cycle are lost", process.steps));
        } else if process.cycles.is_empty() && process.notes.is_empty() && !process.excluded {
            notes.push(format!("{name}: {}", self.never_reached(process.steps)));
        }
        notes
    }

    fn never_reached(&self, steps: u64) -> String {
        let ScheduleSettings {
            skip_first,
            wait,
            warmup,
            active,
            repeat,
            skip_first_wait,
        } = self.schedule;
        let arguments = etlink_schedule::Arguments {
            skip_first,
            wait,
            warmup,
            active,
            repeat,
            skip_first_wait,
        };
        let first = Schedule::new(arguments)
            .ok()
            .and_then(|schedule| schedule.first_recorded());
        let first = first.map_or_else(
            || "is never due".to_owned(),
            |first| format!("starts at step {first}"),
        );
        let plural = if steps == 1 { "" } else { "s" };
        format!(
            "nothing is recorded: the program made {steps} step{plural}, recording {first} (they count from 0)"
        )
    }
}

#[cfg(test)]
mod tests;
