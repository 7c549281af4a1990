//! Launches of a thread.

use etlink_model::CallIdx;

/// A row and the call that launched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaunchedRow {
    /// Start of the call, in ns.
    pub(crate) called: i64,
    pub(crate) call: CallIdx,
    pub(crate) row: usize,
}
