//! Applies one schedule to the steps of several phases, like Lightning's `ScheduleWrapper`.
//!
//! Each phase has its own counter, so validation may still wait while training records. The phases
//! share one profiler, so if they alternate, its actions can follow each other in ways that PyTorch
//! warns about ([`Action::then`]).

use crate::{Action, Schedule};

/// Phase of a step, named after the Lightning hook that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// `training_step`.
    Train,
    /// `validation_step`.
    Validation,
    /// `test_step`.
    Test,
    /// `predict_step`.
    Predict,
}

/// Purpose of the program run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loop {
    /// `trainer.fit`: validation steps before the first training step are a sanity check and are
    /// not counted.
    Fit,
    /// `trainer.validate`, `test` or `predict`.
    Other,
}

/// A schedule that every phase goes through once: after its first `RECORD_AND_SAVE` a phase stays
/// `NONE`, whatever `repeat` says.
///
/// [`step`](PhaseSchedule::step) is called when a step has ended, and returns the action of the
/// next one. Before the first call the action is `NONE`, so the first step of the program is never
/// recorded: with `wait=0` a step of the schedule is lost.
///
/// ```
/// use etlink_schedule::{Action, Arguments, Loop, Phase, PhaseSchedule, Schedule};
///
/// let schedule = Schedule::new(Arguments { wait: 2, active: 2, ..Arguments::default() })?;
/// let mut phases = PhaseSchedule::new(schedule, Loop::Fit);
/// let steps = [Phase::Train, Phase::Train, Phase::Validation, Phase::Train];
/// let actions = steps.map(|phase| phases.step(phase));
/// assert_eq!(
///     actions,
///     [Action::None, Action::Record, Action::None, Action::RecordAndSave]
/// );
/// # Ok::<(), etlink_schedule::InvalidArguments>(())
/// ```
#[derive(Clone, Debug)]
pub struct PhaseSchedule {
    schedule: Schedule,
    runs: Loop,
    steps: [u64; 4],
    saved: [bool; 4],
    previous: Action,
}

impl PhaseSchedule {
    /// Creates the schedule with all phases at their start.
    pub fn new(schedule: Schedule, runs: Loop) -> PhaseSchedule {
        PhaseSchedule {
            schedule,
            runs,
            steps: [0; 4],
            saved: [false; 4],
            previous: Action::None,
        }
    }

    /// Returns the number of counted steps of a phase, which stops once the phase is saved.
    /// Lightning's `num_step`.
    pub fn steps(&self, phase: Phase) -> u64 {
        self.steps[phase as usize]
    }

    /// Ends a step of `phase`, and returns the action until the end of the next step, whatever its
    /// phase.
    pub fn step(&mut self, phase: Phase) -> Action {
        let at = phase as usize;
        // `ScheduleWrapper.has_finished`: steps of a finished phase are not even counted.
        if self.saved[at] {
            return Action::None;
        }
        // Lightning runs its sanity check before the loop of `fit` and keeps the counter at 0.
        let sanity_check =
            phase == Phase::Validation && self.runs == Loop::Fit && self.steps(Phase::Train) == 0;
        if !sanity_check {
            self.steps[at] = self.steps[at].saturating_add(1);
        }
        let mut action = self.schedule.action(self.steps[at]);
        // The phases share one profiler. If it records, another phase's warmup would stop it and
        // drop the recording. `ScheduleWrapper` continues to record instead.
        if self.previous == Action::Record && action == Action::Warmup {
            action = Action::Record;
        }
        // The first trace of a phase finishes it, whatever `repeat` says.
        self.saved[at] = action == Action::RecordAndSave;
        self.previous = action;
        action
    }
}
