//! `etlink.json`: the manifest of a recording, with its settings and everything that is missing.

use crate::apart::{ApartCycles, apart_cycles};
use crate::{
    ArmedSettings, AskedRecording, Options, OwnProfiler, Process, Rank, RankSelection, StepTimes,
};
use etlink_schedule::{Arguments, Schedule};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Contents of `etlink.json`: the recording, its settings and everything that is missing.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Manifest {
    /// Version of etlink that wrote the manifest.
    pub etlink: String,
    /// Recorded command, with secrets masked.
    pub command: Vec<String>,
    /// Exit status of the program.
    pub ended: Ended,
    /// Job whose launchers share the folder, such as `slurm 4711.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Launchers of the job that have ended, ordered by task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// Schedule of the recording; `None` if a profiler of the program's own decides.
    pub schedule: Option<Arguments>,
    /// Triggers of recordings while the program runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub armed: Option<ArmedSettings>,
    /// Schedules per Lightning phase.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<String, Arguments>,
    /// Handling of a profiler that the program creates itself.
    pub own_profiler: OwnProfiler,
    /// Event that counts as a step.
    pub step_on: String,
    /// Requested ranks; `None` for all.
    pub asked_ranks: Option<RankSelection>,
    /// Data to record besides times.
    pub options: Options,
    /// Processes that are ranks, ordered by rank.
    pub ranks: Vec<Rank>,
    /// Expected ranks that no process reported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<u32>,
    /// Remarks for people on what is missing or odd.
    pub notes: Vec<String>,
}

/// Prefix of notes that concern all processes of a launcher.
pub const NOTHING: &str = "nothing was recorded";
/// Text in the notes of processes that became another program or tried to. Such notes cover the
/// truncated cycle too.
const EXEC: &str = "another program (exec)";

fn is_same_process(a: &Rank, b: &Rank) -> bool {
    // Machines of one job number their processes independently.
    a.process.pid == b.process.pid && a.process.launcher == b.process.launcher
}

/// Returns true if every recording requested at run time exists.
fn has_all_asked(process: &Process) -> bool {
    process.asked.iter().all(|asked| asked.why.is_none())
}

/// Formats numbers as a list for a sentence.
fn number_list(numbers: &[u32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    numbers.join(", ")
}

/// Exit status of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Ended with this exit code.
    ExitCode(i32),
    /// Ended by this signal.
    Signal(i32),
}

/// Returns the name of a signal, such as `SIGHUP`.
fn signal_name(signal: i32) -> String {
    // signals with the same number on all Unix systems
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        number => return format!("signal {number}"),
    };
    name.to_owned()
}

/// A launcher of a job in which several launchers record into one folder.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Task {
    /// Task number in the job.
    pub task: u32,
    /// Number of earlier starts of the job.
    #[serde(default)]
    pub attempt: u32,
    /// Exit status of the launcher's program.
    pub ended: Ended,
    /// Reasons why none of the launcher's processes was recorded.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Returns the step times of the rank with the median slowdown of recorded steps.
fn median_step_times(ranks: &[Rank]) -> Option<StepTimes> {
    let times = ranks.iter().filter_map(|rank| rank.process.step_times);
    let mut times: Vec<StepTimes> = times.filter(|times| times.plain_ns > 0).collect();
    // The median over ranks, not the mean: a single rank that swaps or pages would dominate the
    // mean.
    times.sort_by(|a, b| {
        // a/b < c/d as a*d < c*b: without division, rounding cannot pick another median
        let products = (
            u128::from(a.recorded_ns) * u128::from(b.plain_ns),
            u128::from(b.recorded_ns) * u128::from(a.plain_ns),
        );
        products.0.cmp(&products.1)
    });
    times.get(times.len() / 2).copied()
}

/// Parts of a manifest that are read back, written by any version of etlink.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ManifestContents {
    /// Processes that are ranks, ordered by rank.
    pub ranks: Vec<Rank>,
    /// Job of several launchers.
    #[serde(default)]
    pub job: Option<String>,
    /// Launchers of the job that had ended.
    #[serde(default)]
    pub tasks: Vec<Task>,
}

/// Note on steps of a forked process that were not recorded, with remedies.
const FORKED: &str = "nothing was recorded: the steps ran in a forked process without a rank, \
                      which may be a helper; set RANK=0 in it, start it by spawn, or name its steps: \
                      --step-on __main__:FUNCTION";

impl ManifestContents {
    /// Reads an `etlink.json`.
    ///
    /// # Errors
    /// The text is not JSON of this form.
    pub fn read(manifest: &[u8]) -> Result<ManifestContents, serde_json::Error> {
        etlink_json::from_slice(manifest)
    }

    /// Returns the median, over the ranks, of how much longer recorded steps took than others.
    pub fn slowdown(&self) -> Option<StepTimes> {
        median_step_times(&self.ranks)
    }
}

impl Manifest {
    /// Adds the processes that made steps or were recorded as ranks. `hooked`: a Python process
    /// found the hook; `lost`: process ids of unfinished traces.
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
        self.note_ranks();
        self
    }

    /// Merges the manifest already in the folder, written by other launchers of the job and by
    /// processes that outlived this launcher, so that nothing is lost whoever ends last.
    #[must_use]
    pub fn joined(mut self, earlier: ManifestContents, own: Option<Task>) -> Manifest {
        // Existing entries stay unchanged: they were complete when their launcher wrote them.
        let others: Vec<Rank> = earlier
            .ranks
            .into_iter()
            // A process that outlived its launcher has already added itself to the manifest.
            .filter(|rank| !self.ranks.iter().any(|known| is_same_process(known, rank)))
            .collect();
        self.ranks.extend(others);
        if let Some(mut own) = own {
            // notes on single ranks are made anew below
            own.notes = std::mem::take(&mut self.notes);
            own.notes.retain(|note| note.starts_with(NOTHING));
            self.tasks = earlier.tasks;
            // A restarted job has its earlier attempt under the same task number.
            self.tasks.retain(|task| task.task != own.task);
            self.tasks.push(own);
            self.tasks.sort_by_key(|task| task.task);
            self.ended = self.first_failure();
        }
        // Readers of the combined notes need to know the task of each one.
        let notes_of_tasks = self.tasks.iter().flat_map(|task| {
            let notes = task.notes.iter();
            notes.map(move |note| format!("task {}: {note}", task.task))
        });
        self.notes.extend(notes_of_tasks);
        self.note_ranks();
        self
    }

    /// Returns the exit status of the first task that failed, or success if none did.
    fn first_failure(&self) -> Ended {
        // A job has failed if one of its tasks did, whichever launcher ends last.
        let mut ends = self.tasks.iter().map(|task| task.ended);
        ends.find(|ended| *ended != Ended::ExitCode(0))
            .unwrap_or(Ended::ExitCode(0))
    }

    /// Names the expected ranks that no process reported, if the number of ranks is known.
    /// `is_last`: all other launchers of the job have ended.
    #[must_use]
    pub fn with_missing(mut self, is_last: bool) -> Manifest {
        let reported: BTreeSet<u32> = self
            .ranks
            .iter()
            .filter_map(|rank| rank.process.rank)
            .collect();
        let expected = self.expected_ranks(is_last);
        let asked = self.asked_ranks.as_ref();
        // Only requested ranks can be missing.
        self.missing = expected
            .difference(&reported)
            .copied()
            .filter(|rank| asked.is_none_or(|ranks| ranks.has(*rank)))
            .collect();
        if !self.missing.is_empty() {
            let world = self.world().unwrap_or_default();
            self.notes.push(format!(
                "rank {} of {world} is missing: none of its processes reported a step",
                number_list(&self.missing)
            ));
        }
        self
    }

    fn world(&self) -> Option<u32> {
        self.ranks
            .iter()
            .filter_map(|rank| rank.process.world)
            .max()
    }

    /// Returns the ranks that this folder should contain. Ranks that torchrun started on other
    /// machines are recorded there.
    fn expected_ranks(&self, is_last: bool) -> BTreeSet<u32> {
        let Some(world) = self.world() else {
            return BTreeSet::new();
        };
        // The launchers of a job share the folder, so only the last one can tell which ranks are
        // missing.
        if self.job.is_some() {
            return if is_last {
                (0..world).collect()
            } else {
                BTreeSet::new()
            };
        }
        let mut expected = BTreeSet::new();
        for process in self.ranks.iter().map(|rank| &rank.process) {
            let (Some(rank), Some(_)) = (process.rank, process.world) else {
                continue;
            };
            // torchrun numbers the ranks of a machine consecutively.
            let on_machine = process.local_world.unwrap_or(world).clamp(1, world);
            let first = rank / on_machine * on_machine;
            expected.extend(first..world.min(first + on_machine));
        }
        expected
    }

    /// Sorts the ranks and notes their oddities, each once.
    fn note_ranks(&mut self) {
        // Reports arrive in the order in which processes ended, which is arbitrary.
        self.ranks
            .sort_by_key(|rank| (rank.process.rank.unwrap_or(u32::MAX), rank.process.pid));
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.ranks.iter().flat_map(|rank| self.notes_of(rank)));
        notes.extend(apart_cycles(&self.ranks).iter().map(ApartCycles::note));
        // Ranks often have the same note, and each launcher of a job notes all ranks anew.
        let mut seen = BTreeSet::new();
        notes.retain(|note| seen.insert(note.clone()));
        self.notes = notes;
    }

    /// Returns true if there are traces and nothing that was recorded is lost.
    pub fn is_complete(&self) -> bool {
        let is_accounted_for = |rank: &Rank| {
            rank.process.excluded
                || self.is_whole(rank)
                || self.is_recorded_elsewhere(rank)
                || self.is_left_to_itself(rank)
        };
        let is_recorded = self.recorded() > 0 || self.is_idle();
        is_recorded && self.missing.is_empty() && self.ranks.iter().all(is_accounted_for)
    }

    /// Returns the number of processes that left at least one pair of traces.
    pub fn recorded(&self) -> usize {
        self.ranks
            .iter()
            .filter(|rank| !rank.process.cycles.is_empty())
            .count()
    }

    /// Returns true if nothing was recorded because nobody requested it.
    pub fn is_idle(&self) -> bool {
        let is_unasked =
            |rank: &Rank| rank.process.cycles.is_empty() && rank.process.asked.is_empty();
        self.armed.is_some() && !self.ranks.is_empty() && self.ranks.iter().all(is_unasked)
    }

    /// Returns true if nothing was requested of this rank: programs profile only some of their
    /// ranks.
    fn is_left_to_itself(&self, rank: &Rank) -> bool {
        let process = &rank.process;
        self.schedule.is_none() && !rank.lost && process.notes.is_empty() && has_all_asked(process)
    }

    fn is_whole(&self, rank: &Rank) -> bool {
        let cycles = &rank.process.cycles;
        let has_cycle_of = |phase: &String| {
            let mut phases = cycles.iter().filter_map(|cycle| cycle.phase.as_ref());
            phases.any(|recorded| recorded == phase)
        };
        // A profiler of the program's own decides what is recorded.
        let is_own = cycles.iter().any(|cycle| cycle.own_profiler);
        let has_all_phases = is_own || self.phases.keys().all(has_cycle_of);
        let has_all_parts = cycles.iter().all(|cycle| cycle.lost.is_empty());
        !rank.lost
            && !cycles.is_empty()
            && has_all_phases
            && has_all_parts
            && has_all_asked(&rank.process)
    }

    /// Returns true if another process of the rank was recorded before or after this one: launchers
    /// restart ranks, and scripts run several programs in sequence.
    fn is_recorded_elsewhere(&self, rank: &Rank) -> bool {
        let process = &rank.process;
        process.rank.is_some()
            && !process.duplicate
            && process.cycles.is_empty()
            && self
                .ranks
                .iter()
                .filter(|other| other.process.rank == process.rank && !is_same_process(other, rank))
                .any(|other| self.is_whole(other))
    }

    /// Returns the median, over the ranks, of how much longer recorded steps took than others.
    pub fn slowdown(&self) -> Option<StepTimes> {
        median_step_times(&self.ranks)
    }

    fn notes_of_all(&self, processes: &[Process], hooked: bool) -> Vec<String> {
        let nothing = if !hooked {
            "nothing was recorded: the program started no Python that reads PYTHONPATH \
             (it is not a Python program, runs with -I, -E or -S, or overwrites PYTHONPATH)"
        } else if processes.is_empty() {
            return vec![match self.ended {
                Ended::ExitCode(0) => {
                    "nothing was recorded: the program did not import torch".to_owned()
                }
                Ended::ExitCode(code) => format!(
                    "nothing was recorded: the program ended with exit code {code} before it \
                     imported torch"
                ),
                Ended::Signal(signal) => format!(
                    "nothing was recorded: {} ended the program before it imported torch",
                    signal_name(signal)
                ),
            }];
        } else if processes
            .iter()
            .all(|process| process.steps == 0 && process.notes.is_empty() && process.rank.is_none())
        {
            if !self.phases.is_empty() {
                let why = "nothing was recorded: the program ran no Lightning batch, but --phase \
                           needs one; choose steps with --wait, --warmup and --active";
                return vec![why.to_owned()];
            }
            if self.schedule.is_none() && self.armed.is_none() {
                let why = "nothing was recorded: the program created no profiler; choose \
                           the steps with --wait, --warmup and --active";
                return vec![why.to_owned()];
            }
            if processes.iter().any(|process| process.trained_in_fork) {
                return vec![FORKED.to_owned()];
            }
            return vec![format!(
                "nothing was recorded: the program imported torch but made no step; steps are {}",
                self.steps_are()
            )];
        } else {
            return vec![];
        };
        vec![nothing.to_owned()]
    }

    fn steps_are(&self) -> String {
        match self.step_on.as_str() {
            "optimizer" => {
                "calls of optimizer.step(); choose others with --step-on, such as --step-on forward"
                    .to_owned()
            }
            "forward" => {
                "calls of a model that has parameters; in a forked process they count only with a \
                          process group or a rank in its environment"
                    .to_owned()
            }
            chosen if chosen.starts_with("annotation:") => {
                let name = chosen.trim_start_matches("annotation:");
                format!("ranges of record_function({name:?}); check the name in --step-on")
            }
            chosen => {
                let called = chosen.strip_prefix("forward:").unwrap_or(chosen);
                format!("calls of {called}; check the name in --step-on")
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
                "PyTorch {} lacks {feature}: recorded without it",
                process.torch
            ));
        }
        // The command line's schedule is ignored if the program's own profiler decides what is
        // recorded.
        let mut cycles = process.cycles.iter();
        let is_own = !process.cycles.is_empty() && cycles.all(|cycle| cycle.own_profiler);
        if self.schedule.is_some() && is_own {
            notes.push(format!(
                "{name}: the program's own profiler decides which steps are recorded: --wait, \
                 --warmup and --active are not used; --own-profiler leave ignores the program's profiler"
            ));
        }
        // The traces of such a cycle are whole files, but their last step is incomplete.
        let is_said = process.notes.iter().any(|note| note.contains(EXEC));
        let cut = process.cycles.iter().filter(|cycle| !cycle.whole);
        for cycle in cut {
            if is_said {
                break;
            }
            notes.push(format!(
                "{name}: the program ended in step {}, which is recorded up to its end",
                cycle.last_step
            ));
        }
        for asked in &process.asked {
            // the note of a failed recording already exists
            if let Some(why) = &asked.why
                && !process.notes.contains(why)
            {
                let AskedRecording { by, first_step, .. } = asked;
                notes.push(format!(
                    "{name}: nothing was recorded from step {first_step} on, as requested by {by}: {why}"
                ));
            }
        }
        if rank.lost {
            notes.push(format!(
                "{name}: died in or after step {} during recording: \
                 the traces of this cycle are lost",
                process.steps
            ));
        } else if self.armed.is_none()
            && process.cycles.is_empty()
            && process.notes.is_empty()
            && !process.excluded
        {
            notes.push(format!("{name}: {}", self.never_reached(process)));
        }
        notes
    }

    fn never_reached(&self, process: &Process) -> String {
        let steps = process.steps;
        let plural = if steps == 1 { "" } else { "s" };
        let Some(schedule) = self.schedule else {
            return format!(
                "nothing was recorded: the program made {steps} step{plural} and created no profiler; \
                 choose the steps with --wait, --warmup and --active"
            );
        };
        let counted = match &process.counted {
            Some(name) => format!(" ({})", steps_counted(&self.step_on, name)),
            None => String::new(),
        };
        let schedule = Schedule::new(schedule).ok();
        let first = schedule.and_then(|schedule| schedule.first_recorded());
        let first = first.map_or_else(
            || "is never due".to_owned(),
            |first| format!("starts at step {first}"),
        );
        format!(
            "nothing was recorded: the program made {steps} step{plural}{counted}, but recording {first} \
             (steps count from 0); choose a smaller --wait, --warmup or --skip-first"
        )
    }
}

/// Describes the steps of a process; `name` is the class or function that was counted.
#[must_use]
pub fn steps_counted(step_on: &str, name: &str) -> String {
    if step_on.starts_with("annotation:") {
        return format!("ranges of {name}");
    }
    let method = if step_on == "optimizer" { ".step" } else { "" };
    format!("calls of {name}{method}")
}

#[cfg(test)]
mod tests;
