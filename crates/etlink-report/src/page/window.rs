//! Part of a trace that a timeline shows.

use etlink_model::{DurationNs, TimeNs};

/// Part of a trace that is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineWindow {
    /// First instant of the window.
    pub start: TimeNs,
    /// End of the window.
    pub end: TimeNs,
    /// Name of the step and its duration on the host; `None` for a trace without steps.
    pub step: Option<(String, DurationNs)>,
    /// Reason for showing only a part, if the window is not a step.
    pub note: String,
}
