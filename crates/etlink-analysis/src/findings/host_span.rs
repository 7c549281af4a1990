//! A time span on a thread.

use etlink_model::ThreadIdx;

/// A time span on a thread, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostSpan {
    pub(crate) thread: ThreadIdx,
    pub(crate) start: i64,
    pub(crate) end: i64,
}
