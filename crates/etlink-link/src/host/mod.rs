//! Host threads: their ranges over time, and work between threads.

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

/// A period in which a consumer worked for another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handoff {
    /// Thread that the work belongs to.
    pub(crate) producer: ThreadIdx,
    /// Thread that did the work.
    pub(crate) consumer: ThreadIdx,
    /// Start and end of the consumer's work.
    pub(crate) start: TimeNs,
    pub(crate) end: TimeNs,
    /// True if the consumer's last range continues after `end`: it ended late.
    pub(crate) ended_late: bool,
    /// End of the consumer's work before; `None` if there was none.
    pub(crate) idle: Option<TimeNs>,
    /// Time at which the producer handed over the work; it may continue then.
    pub(crate) given: TimeNs,
    /// Start of the producer's wait for the end, possibly after the end; `None` if it does not
    /// wait.
    pub(crate) wait: Option<TimeNs>,
    /// Time at which the producer had woken, at or after the end.
    pub(crate) woken: TimeNs,
    /// True if only the names of the ops are evidence.
    pub(crate) inferred: bool,
}

impl Handoff {
    /// Records that the producer slept from `from` until the work ended. Waking takes the usual
    /// time, limited by the time until it continues at `until`.
    pub(crate) fn set_sleep(&mut self, from: TimeNs, until: TimeNs) {
        self.wait = Some(from);
        self.woken = (self.end + USUAL_WAKE).min(until).max(self.end);
    }

    /// Ends the consumer's work by `time`, even if its range is longer.
    pub(crate) fn end_early(&mut self, time: TimeNs) {
        let end = time.max(self.start);
        if end < self.end {
            self.end = end;
            self.ended_late = true;
        }
    }

    /// True if this period contains `consumer`'s time from `start` to `end`.
    pub(crate) fn holds(&self, consumer: ThreadIdx, start: TimeNs, end: TimeNs) -> bool {
        self.consumer == consumer && self.start <= start && end <= self.end
    }

    /// Returns the time at which the producer continues; `None` if it does not wait.
    pub(crate) fn back(&self) -> Option<TimeNs> {
        self.wait
            .map(|from| if from < self.end { self.woken } else { from })
    }
}
