//! Drives recorders by a schedule.

use crate::failure::FailureLog;
use crate::recorder_group::RecorderGroup;
use crate::{ProfilerActivity, RecordedCycle, Recorder, RecorderFailures};
use etlink_schedule::{Action, RecorderCall, Schedule, Transition, Warning};

/// Drives recorders by a schedule, as `torch.profiler.profile` does. Dropping a session calls
/// [`finish`](RecordingSession::finish) and ignores its errors.
///
/// If a recorder fails to `prepare` or `start`, PyTorch leaves a half-started profiler behind. A
/// session stops the running recorders, saves nothing of the cycle, and tries the next cycle again.
pub struct RecordingSession {
    actions: Box<dyn FnMut(u64) -> Action + Send>,
    group: RecorderGroup,
    action: Action,
    step: u64,
    on: bool,
    /// True if steps have ranges in the traces.
    stepped: bool,
    first: u64,
    saved: u64,
    warnings: Vec<Warning>,
}

impl RecordingSession {
    /// Creates a session that gets the action of each step from `actions`. The closure is called
    /// once per step, in order, and immediately for step 0.
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

    /// Creates a session with a schedule.
    pub fn scheduled(recorders: Vec<Box<dyn Recorder>>, schedule: Schedule) -> RecordingSession {
        let mut session = RecordingSession::new(recorders, move |step| schedule.action(step));
        session.warnings.extend(schedule.warning());
        session
    }

    /// Creates a session that records from start to stop, without step ranges, like `profile`
    /// without a schedule.
    pub fn always(recorders: Vec<Box<dyn Recorder>>) -> RecordingSession {
        let mut session = RecordingSession::new(recorders, |_| Action::Record);
        session.stepped = false;
        session
    }

    /// Returns the number of the open step, from 0.
    pub fn step_number(&self) -> u64 {
        self.step
    }

    /// Returns the action of the open step.
    pub fn action(&self) -> Action {
        self.action
    }

    /// Returns the warnings that PyTorch would have raised so far, each once.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Starts in the open step, initially step 0. May be called again after
    /// [`stop`](RecordingSession::stop). Does nothing if already started.
    ///
    /// # Errors
    /// Failures of recorders.
    pub fn start(&mut self) -> Result<(), RecorderFailures> {
        if std::mem::replace(&mut self.on, true) {
            return Ok(());
        }
        let result = self.carry_out(Action::None.then(self.action), false);
        self.enter_step();
        result
    }

    /// Ends the open step and begins the next. Before `start` and after `stop`, steps are only
    /// counted.
    ///
    /// # Errors
    /// Failures of recorders.
    pub fn step(&mut self) -> Result<(), RecorderFailures> {
        let next = (self.actions)(self.step.saturating_add(1));
        self.step_as(next)
    }

    /// Ends the open step and begins the next with this action instead of the schedule's: for a
    /// [`PhaseSchedule`](etlink_schedule::PhaseSchedule).
    ///
    /// # Errors
    /// Failures of recorders.
    pub fn step_as(&mut self, next: Action) -> Result<(), RecorderFailures> {
        self.step = self.step.saturating_add(1);
        let last = std::mem::replace(&mut self.action, next);
        // Steps are counted even without recorders, so that a later start knows its step.
        if !self.on {
            return Ok(());
        }
        // The range ends before the recorders stop; otherwise it would be truncated at the window's
        // end.
        self.group.exit_step();
        let result = self.carry_out(last.then(next), false);
        self.enter_step();
        result
    }

    /// Stops in the open step: everything recorded so far is saved, a warmup leaves nothing. Does
    /// nothing if not started.
    ///
    /// # Errors
    /// Failures of recorders.
    pub fn stop(&mut self) -> Result<(), RecorderFailures> {
        if !std::mem::replace(&mut self.on, false) {
            return Ok(());
        }
        self.group.exit_step();
        self.carry_out(self.action.exit(), true)
    }

    /// Excludes an activity from all traces being recorded, or includes it again, until their cycle
    /// ends. Does nothing while nothing is recorded. PyTorch's `toggle_collection_dynamic` silences
    /// only the device trace, and the two traces no longer match.
    ///
    /// # Errors
    /// Failures of recorders.
    pub fn toggle(&mut self, activity: ProfilerActivity, on: bool) -> Result<(), RecorderFailures> {
        let mut log = FailureLog::new(self.step);
        self.group.toggle(activity, on, &mut log);
        log.result()
    }

    /// Calls [`stop`](RecordingSession::stop), then lets all recorders complete their files, even
    /// if stopping failed.
    ///
    /// # Errors
    /// Failures of recorders.
    pub fn finish(mut self) -> Result<(), RecorderFailures> {
        self.end()
    }

    fn end(&mut self) -> Result<(), RecorderFailures> {
        // Files are completed even if stopping failed: cycles saved earlier are whole.
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
                    // If stopped early, the open step is part of the trace; otherwise its end is
                    // already counted.
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
        // A destructor cannot report failures; callers that want them use `finish`.
        let _ = self.end();
    }
}
