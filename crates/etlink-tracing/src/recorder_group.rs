//! Calls all recorders of a session together, and cleans up the others if one fails.

use crate::failure::FailureLog;
use crate::{ProfilerActivity, RecordedCycle, Recorder, RecorderRequest};

/// All recorders of a session, in session order.
pub(crate) struct RecorderGroup {
    slots: Vec<GroupMember>,
    given_up: bool,
}

struct GroupMember {
    recorder: Box<dyn Recorder>,
    state: MemberState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberState {
    Idle,
    Recording,
    /// Stopped, with data to save until the next stop.
    Recorded,
}

impl RecorderGroup {
    pub(crate) fn new(recorders: Vec<Box<dyn Recorder>>) -> RecorderGroup {
        let slots = recorders
            .into_iter()
            .map(|recorder| GroupMember {
                recorder,
                state: MemberState::Idle,
            })
            .collect();
        RecorderGroup {
            slots,
            given_up: false,
        }
    }

    /// Prepares a new cycle. If one recorder fails, none is started in the cycle.
    pub(crate) fn prepare(&mut self, log: &mut FailureLog) {
        self.given_up = false;
        for slot in &mut self.slots {
            let result = slot.recorder.prepare();
            // The others are prepared anyway, so one report names all failures.
            self.given_up |= !log.note(&*slot.recorder, RecorderRequest::Prepare, result);
        }
    }

    /// Starts all recorders. If one fails, those before it are stopped, those after it are not
    /// started, and nothing is saved.
    pub(crate) fn start(&mut self, log: &mut FailureLog) {
        // Half a pair of traces cannot be linked, so no recorder continues alone.
        if self.given_up {
            return;
        }
        for slot in &mut self.slots {
            let result = slot.recorder.start();
            if !log.note(&*slot.recorder, RecorderRequest::Start, result) {
                self.given_up = true;
                break;
            }
            slot.state = MemberState::Recording;
        }
        // Recorders already started would record a trace without its other half.
        if self.given_up {
            self.stop(log);
        }
    }

    pub(crate) fn stop(&mut self, log: &mut FailureLog) {
        for slot in &mut self.slots {
            // before the call, so that a recorder that panics is not stopped again while the
            // session is dropped
            if std::mem::replace(&mut slot.state, MemberState::Idle) != MemberState::Recording {
                continue;
            }
            let result = slot.recorder.stop();
            if log.note(&*slot.recorder, RecorderRequest::Stop, result) {
                slot.state = MemberState::Recorded;
            }
        }
    }

    /// Saves all stopped recorders; returns true if there were any.
    pub(crate) fn save(&mut self, cycle: &RecordedCycle, log: &mut FailureLog) -> bool {
        let mut any = false;
        for slot in self
            .slots
            .iter_mut()
            .filter(|slot| slot.state == MemberState::Recorded)
        {
            // A cycle counts once any recorder has something to save: its number appears in file
            // names.
            any = true;
            let result = slot.recorder.save(cycle);
            log.note(&*slot.recorder, RecorderRequest::Save, result);
        }
        any
    }

    pub(crate) fn toggle(&mut self, activity: ProfilerActivity, on: bool, log: &mut FailureLog) {
        // A recorder that is not recording has nothing to toggle, and begins each cycle with
        // everything on.
        for slot in self.recording() {
            let result = slot.recorder.toggle(activity, on);
            log.note(&*slot.recorder, RecorderRequest::Toggle, result);
        }
    }

    pub(crate) fn enter_step(&mut self, step: u64) {
        self.recording()
            .for_each(|slot| slot.recorder.enter_step(step));
    }

    pub(crate) fn exit_step(&mut self) {
        self.recording().for_each(|slot| slot.recorder.exit_step());
    }

    /// Finishes all recorders. Those still running because another recorder panicked are stopped
    /// first.
    pub(crate) fn finish(&mut self, log: &mut FailureLog) {
        self.stop(log);
        for mut slot in std::mem::take(&mut self.slots) {
            let result = slot.recorder.finish();
            log.note(&*slot.recorder, RecorderRequest::Finish, result);
        }
    }

    fn recording(&mut self) -> impl Iterator<Item = &mut GroupMember> {
        self.slots
            .iter_mut()
            .filter(|slot| slot.state == MemberState::Recording)
    }
}
