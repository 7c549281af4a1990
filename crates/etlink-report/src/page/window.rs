//! The part of a trace that a timeline shows.

use etlink_model::{DurationNs, TimeNs};

/// What is shown of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineWindow {
    /// Its first instant.
    pub start: TimeNs,
    /// Its end.
    pub end: TimeNs,
    /// The step's name and how long it took on the host; none of a trace without steps.
    pub step: Option<(String, DurationNs)>,
    /// Why it is not all, if it is not a step.
    pub note: String,
}
