//! Where a thread is.

use etlink_model::ThreadIdx;

/// A stretch of a thread, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostSpan {
    pub(crate) thread: ThreadIdx,
    pub(crate) start: i64,
    pub(crate) end: i64,
}
