//! A finding as shown in the page, with its place in the timeline.

use serde::Serialize;

/// Texts of a finding and its longest occurrence.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FindingLink {
    /// Name of the cause, without its gain; empty for a remark on the whole run.
    pub cause: String,
    /// Name of the cause and its gain, or the remark.
    pub title: String,
    /// Gain as a share of the time that the findings refer to; 0 for a remark.
    pub gain_share: f64,
    /// Description of the cause; empty for a remark.
    pub evidence: String,
    /// Advice on removing the cause; empty for a remark.
    pub remedy: String,
    /// Label of the rank whose trace shows the finding.
    pub rank: String,
    /// Start of the longest occurrence in ns since the trace's origin; `None` if the finding has no
    /// place.
    pub begin_ns: Option<i64>,
    /// End of the longest occurrence, like `begin_ns`.
    pub end_ns: Option<i64>,
}

impl FindingLink {
    /// Creates a remark on the whole run.
    pub fn remark(title: String) -> FindingLink {
        FindingLink {
            title,
            ..FindingLink::default()
        }
    }
}
