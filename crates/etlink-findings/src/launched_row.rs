//! What a thread launched.

use etlink_model::CallIdx;

/// A row and the call that launched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaunchedRow {
    /// When the call began, ns.
    pub(crate) called: i64,
    pub(crate) call: CallIdx,
    pub(crate) row: usize,
}
