//! Schedule and recorders put together.

use crate::failure::FailureLog;
use crate::recorder_group::RecorderGroup;
use crate::{ProfilerActivity, RecordedCycle, Recorder, RecorderFailures};
use etlink_schedule::{Action, RecorderCall, Schedule, Transition, Warning};

/// Drives recorders by a schedule, as `torch.profiler.profile` does. Dropping it is
/// [`finish`](RecordingSession::finish) without its errors.
///
/// Where PyTorch would leave a half-switched profiler behind, a session cleans up: if a recorder
/// fails to `prepare` or `start`, those that run are stopped, nothing of the cycle is saved, and
/// the next cycle is tried anew.
pub struct RecordingSession {
    actions: Box<dyn FnMut(u64) -> Action + Send>,
    group: RecorderGroup,
    action: Action,
    step: u64,
    on: bool,
    /// Whether steps have ranges in the traces.
    stepped: bool,
    first: u64,
    saved: u64,
    warnings: Vec<Warning>,
}

impl RecordingSession {
    /// A session whose steps have the actions that `actions` gives, which is asked for each step
    /// once, in order, for step 0 at once.
    pub fn new(
        recorders: Vec<Box<dyn Recorder>>,
        mut actions: impl FnMut(u64) -> Action + Send + 'static,
    ) -> RecordingSession {
        let action = actions(0);
        let (actions, group) = (Box::new(actions), RecorderGroup::new(recorders));
        RecordingSession {
            actions,
            group,
            action,
            step: 0,
            on: false,
            stepped: true,
            first: 0,
            saved: 0,
            warnings: vec![],
        }
    }

    /// A session under a schedule.
    pub fn scheduled(recorders: Vec<Box<dyn Recorder>>, schedule: Schedule) -> RecordingSession {
        let mut session = RecordingSession::new(recorders, move |step| schedule.action(step));
        session.warnings.extend(schedule.warning());
        session
    }

    /// A session that records from start to stop, as `profile` does without a schedule: without
    /// ranges of steps.
    pub fn always(recorders: Vec<Box<dyn Recorder>>) -> RecordingSession {
        let mut session = RecordingSession::new(recorders, |_| Action::Record);
        session.stepped = false;
        session
    }

    /// The number of the step that is open, from 0.
    pub fn step_number(&self) -> u64 {
        self.step
    }

    /// The action of the step that is open.
    pub fn action(&self) -> Action {
        self.action
    }

    /// What PyTorch would have warned of so far, each warning once.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Begins with the step that is open, at first step 0. After [`stop`](RecordingSession::stop)
    /// it begins again. Nothing happens if it has begun.
    ///
    /// # Errors
    /// Recorders that failed.
    pub fn start(&mut self) -> Result<(), RecorderFailures> {
        if std::mem::replace(&mut self.on, true) {
            return Ok(());
        }
        let result = self.carry_out(Action::None.then(self.action), false);
        self.enter_step();
        result
    }

    /// The open step has ended, the next begins. Before `start` and after `stop` steps are only
    /// counted.
    ///
    /// # Errors
    /// Recorders that failed.
    pub fn step(&mut self) -> Result<(), RecorderFailures> {
        let next = (self.actions)(self.step.saturating_add(1));
        self.step_as(next)
    }

    /// The open step has ended, and the next has this action, whatever the session's own schedule
    /// would say: for a [`PhaseSchedule`](etlink_schedule::PhaseSchedule).
    ///
    /// # Errors
    /// Recorders that failed.
    pub fn step_as(&mut self, next: Action) -> Result<(), RecorderFailures> {
        self.step = self.step.saturating_add(1);
        let last = std::mem::replace(&mut self.action, next);
        // The number goes on without recorders, so that a later start knows its step.
        if !self.on {
            return Ok(());
        }
        // The range ends before the recorders stop: it would be cut at the window's end otherwise.
        self.group.exit_step();
        let result = self.carry_out(last.then(next), false);
        self.enter_step();
        result
    }

    /// Ends in the open step: what was recorded so far is saved, a warmup leaves nothing. Nothing
    /// happens if it has not begun.
    ///
    /// # Errors
    /// Recorders that failed.
    pub fn stop(&mut self) -> Result<(), RecorderFailures> {
        if !std::mem::replace(&mut self.on, false) {
            return Ok(());
        }
        self.group.exit_step();
        self.carry_out(self.action.exit(), true)
    }

    /// Leaves an activity out of all traces that are being recorded, or takes it in again, until
    /// their cycle ends. Nothing happens while nothing is recorded. PyTorch's
    /// `toggle_collection_dynamic` silences the device trace only, and the two traces no longer
    /// match.
    ///
    /// # Errors
    /// Recorders that failed.
    pub fn toggle(&mut self, activity: ProfilerActivity, on: bool) -> Result<(), RecorderFailures> {
        let mut log = FailureLog::new(self.step);
        self.group.toggle(activity, on, &mut log);
        log.result()
    }

    /// [`stop`](RecordingSession::stop), after which all recorders complete their files, also where
    /// stopping failed.
    ///
    /// # Errors
    /// Recorders that failed.
    pub fn finish(mut self) -> Result<(), RecorderFailures> {
        self.end()
    }

    fn end(&mut self) -> Result<(), RecorderFailures> {
        // Files are completed even where stopping failed: what was saved earlier is whole.
        let mut log = FailureLog::new(self.step);
        log.take(self.stop());
        self.group.finish(&mut log);
        log.result()
    }

    fn enter_step(&mut self) {
        if self.stepped {
            self.group.enter_step(self.step);
        }
    }

    fn carry_out(&mut self, transition: Transition, cut: bool) -> Result<(), RecorderFailures> {
        if let Some(warning) = transition
            .warning
            .filter(|warning| !self.warnings.contains(warning))
        {
            self.warnings.push(warning);
        }
        let mut log = FailureLog::new(self.step);
        for call in transition.calls {
            match call {
                RecorderCall::Prepare => self.group.prepare(&mut log),
                RecorderCall::Start => {
                    // Transitions happen between two steps: the number is that of the step that
                    // begins.
                    self.first = self.step;
                    self.group.start(&mut log);
                }
                RecorderCall::Stop => self.group.stop(&mut log),
                RecorderCall::Save => {
                    // Cut short, the step that is open is part of the trace; at its end it is
                    // counted already.
                    let steps = self.first..self.step.saturating_add(u64::from(cut));
                    let cycle = RecordedCycle {
                        number: self.saved,
                        steps,
                        cut,
                    };
                    self.saved += u64::from(self.group.save(&cycle, &mut log));
                }
            }
        }
        log.result()
    }
}

impl Drop for RecordingSession {
    fn drop(&mut self) {
        // A destructor has nobody to report to; `finish` is there for whoever wants the failures.
        let _ = self.end();
    }
}
