//! What belongs to the start of a process, as found.

use crate::host_span::HostSpan;
use etlink_model::OpIdx;

/// A stretch of a thread in which the process does something for the first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstCall<'t> {
    pub(crate) name: &'t str,
    pub(crate) span: HostSpan,
    /// How many calls of the name came before it.
    pub(crate) place: usize,
    /// The median of later calls of the name, ns; none where there are none.
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

/// What belongs to the start of a process.
pub(crate) struct StartUp<'t> {
    pub(crate) calls: Vec<FirstCall<'t>>,
    /// Per op, whether it lies in one of these.
    pub(crate) ops: Vec<bool>,
    /// Allocator calls before this time are part of the start, ns.
    pub(crate) repeats_ns: i64,
}

impl StartUp<'_> {
    /// Whether an op is part of the start.
    pub(crate) fn has_op(&self, op: OpIdx) -> bool {
        self.ops.get(op.index()).copied().unwrap_or(false)
    }

    /// Whether a call of the allocator is one that later steps do not repeat.
    pub(crate) fn has_allocation(&self, start: i64) -> bool {
        start < self.repeats_ns
    }
}
