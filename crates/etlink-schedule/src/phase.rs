//! One schedule over the steps of several phases, as Lightning's `ScheduleWrapper` has it.
//!
//! Each phase has a counter of its own, so validation may still wait while training records. They
//! share one profiler, so where phases alternate its actions can follow each other in ways that
//! PyTorch warns of ([`Action::then`]).

use crate::{Action, Schedule};

/// What kind of step it is: which of Lightning's hooks ended.
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

/// What the program was started to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loop {
    /// `trainer.fit`: validation steps before the first training step are a sanity check and do not
    /// count.
    Fit,
    /// `trainer.validate`, `test` or `predict`.
    Other,
}

/// A schedule that every phase goes through once: after its first `RECORD_AND_SAVE` a phase is
/// `NONE` for good, whatever `repeat` says.
///
/// [`step`](PhaseSchedule::step) is called when a step has ended and gives the action of the next
/// one. Before the first call the action is `NONE`, so the first step of the program is never
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
    /// All phases at their start.
    pub fn new(schedule: Schedule, runs: Loop) -> PhaseSchedule {
        PhaseSchedule {
            schedule,
            runs,
            steps: [0; 4],
            saved: [false; 4],
            previous: Action::None,
        }
    }

    /// Steps of a phase that have been counted: none are after the phase was saved. Lightning's
    /// `num_step`.
    pub fn steps(&self, phase: Phase) -> u64 {
        self.steps[phase as usize]
    }

    /// A step of `phase` has ended: the action from here to the end of the next step, of whatever
    /// phase.
    pub fn step(&mut self, phase: Phase) -> Action {
        let at = phase as usize;
        // `ScheduleWrapper.has_finished`: its steps do not even count any more.
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
        // The phases share one profiler: where it records, another phase's warmup would stop it and
        // drop what it has. `ScheduleWrapper` goes on recording instead.
        if self.previous == Action::Record && action == Action::Warmup {
            action = Action::Record;
        }
        // The first trace of a phase ends it, whatever `repeat` says.
        self.saved[at] = action == Action::RecordAndSave;
        self.previous = action;
        action
    }
}
