//! A finding as shown in the page, with its place in the timeline.

use serde::Serialize;

/// Text of a finding and its longest occurrence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FindingLink {
    /// Gain of the run and its cause.
    pub text: String,
    /// Label of the rank whose trace shows the finding.
    pub rank: String,
    /// Start of the longest occurrence in ns since the trace's origin; `None` if the finding has no
    /// place.
    pub begin_ns: Option<i64>,
    /// End of the longest occurrence, like `begin_ns`.
    pub end_ns: Option<i64>,
}

impl FindingLink {
    /// Creates a finding about the whole run.
    pub fn without_place(text: String) -> FindingLink {
        FindingLink {
            text,
            ..FindingLink::default()
        }
    }
}
