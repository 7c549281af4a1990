//! Host threads: which range runs when, and what one thread does for another.

pub(crate) mod comms;
pub(crate) mod handoffs;
pub(crate) mod nest;
pub(crate) mod pending;
pub(crate) mod recorded_waits;
pub(crate) mod reducer;
pub(crate) mod scope;
pub(crate) mod tensors;

use crate::limits::USUAL_WAKE;
use etlink_model::{ThreadIdx, TimeNs};

/// One time that a consumer worked for another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handoff {
    /// The thread whose work it is.
    pub(crate) producer: ThreadIdx,
    /// The thread that did it.
    pub(crate) consumer: ThreadIdx,
    /// When the consumer began, and ended.
    pub(crate) start: TimeNs,
    pub(crate) end: TimeNs,
    /// Its last range goes on after that: it ended late.
    pub(crate) ended_late: bool,
    /// The end of what the consumer did before, if it did anything.
    pub(crate) idle: Option<TimeNs>,
    /// When the producer gave it, which may go on then.
    pub(crate) given: TimeNs,
    /// When the producer began to wait for its end, if it does: that may be past then.
    pub(crate) wait: Option<TimeNs>,
    /// When the producer had woken, at or after the end.
    pub(crate) woken: TimeNs,
    /// By the names of the ops only.
    pub(crate) inferred: bool,
}

impl Handoff {
    /// The producer slept from `from` on until this ended: it takes a usual time to wake, or what
    /// it has until it goes on at `until`.
    pub(crate) fn set_sleep(&mut self, from: TimeNs, until: TimeNs) {
        self.wait = Some(from);
        self.woken = (self.end + USUAL_WAKE).min(until).max(self.end);
    }

    /// The consumer was done by `time`, whatever its range says.
    pub(crate) fn end_early(&mut self, time: TimeNs) {
        let end = time.max(self.start);
        if end < self.end {
            self.end = end;
            self.ended_late = true;
        }
    }

    /// Whether this time of the consumer's covers the one from `start` to `end`.
    pub(crate) fn holds(&self, consumer: ThreadIdx, start: TimeNs, end: TimeNs) -> bool {
        self.consumer == consumer && self.start <= start && end <= self.end
    }

    /// When the producer goes on.
    pub(crate) fn back(&self) -> Option<TimeNs> {
        self.wait
            .map(|from| if from < self.end { self.woken } else { from })
    }
}
