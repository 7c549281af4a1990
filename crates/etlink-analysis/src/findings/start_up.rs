//! One-time work at the start of a process.

use crate::findings::host_span::HostSpan;
use etlink_model::OpIdx;

/// A span of a thread in which the process does something for the first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstCall<'t> {
    pub(crate) name: &'t str,
    pub(crate) span: HostSpan,
    /// Number of earlier calls of the name.
    pub(crate) place: usize,
    /// Median of later calls of the name, in ns; `None` if there are none.
    pub(crate) usual_ns: Option<i64>,
}

impl FirstCall<'_> {
    pub(crate) fn took_ns(&self) -> i64 {
        self.span.end.saturating_sub(self.span.start)
    }

    pub(crate) fn excess_ns(&self) -> i64 {
        let usual = self.usual_ns.unwrap_or(0);
        self.took_ns().saturating_sub(usual)
    }
}

/// One-time work at the start of a process.
pub(crate) struct StartUp<'t> {
    pub(crate) calls: Vec<FirstCall<'t>>,
    /// For each op: true if it is within one of the calls.
    pub(crate) ops: Vec<bool>,
    /// Time before which allocator calls belong to the start, in ns.
    pub(crate) repeats_ns: i64,
}

impl StartUp<'_> {
    /// Returns true if an op belongs to the start.
    pub(crate) fn has_op(&self, op: OpIdx) -> bool {
        self.ops.get(op.index()).copied().unwrap_or(false)
    }

    /// Returns true if an allocator call at this time belongs to the start, and is not repeated by
    /// later steps.
    pub(crate) fn has_allocation(&self, start: i64) -> bool {
        start < self.repeats_ns
    }
}
