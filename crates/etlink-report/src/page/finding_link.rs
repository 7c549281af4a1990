//! A finding as the page shows it, with the place in the timeline that it is about.

use serde::Serialize;

/// A sentence, and where its longest occurrence is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FindingLink {
    /// What the run would gain, from what.
    pub text: String,
    /// The label of the rank whose trace shows it.
    pub rank: String,
    /// Begin of the longest occurrence, ns since the origin of the trace; none where the finding is
    /// about no place.
    pub begin_ns: Option<i64>,
    /// Its end.
    pub end_ns: Option<i64>,
}

impl FindingLink {
    /// A sentence about the whole run.
    pub fn without_place(text: String) -> FindingLink {
        FindingLink {
            text,
            ..FindingLink::default()
        }
    }
}
