//! What a file says of its events beside the columns, for an export that leaves nothing out.
//!
//! The columns have what figures need. A person who looks at a trace wants the rest as well: the
//! registers of a kernel, the call stack of an op, ranges of categories that no figure knows.

use crate::columns::columns;
use crate::{DurationNs, HostThread, NameId, TextSpan, TimeNs};

columns! {
    /// What the events of a table say beside its columns, in the table's order.
    table EventDetails;
    /// What an event says beside its columns.
    row EventDetail {
        /// `cat`, as written.
        category: NameId,
        /// Its `pid` and `tid`: a place in [`RecordedDetails::tracks`].
        track: u32,
        /// `args` with its braces, as written, in [`RecordedDetails::text`]; empty = none.
        args: TextSpan,
    }
}

columns! {
    /// Events that no other table keeps.
    table OtherEvents;
    /// A range, instant or counter that no other table keeps.
    row OtherEvent {
        /// `ph`: `X`, `i` or `C`.
        phase: NameId,
        /// `name`.
        name: NameId,
        /// `ts`.
        start: TimeNs,
        /// `dur`; 0 of what is no range.
        duration: DurationNs,
    }
}

/// All that tables leave out, but arrows and what sorts tracks.
#[derive(Clone, Debug, Default)]
pub struct RecordedDetails {
    /// Of [`DeviceTrace::ops`](crate::DeviceTrace::ops).
    pub ops: EventDetails,
    /// Of [`DeviceTrace::calls`](crate::DeviceTrace::calls).
    pub calls: EventDetails,
    /// Of [`DeviceTrace::rows`](crate::DeviceTrace::rows).
    pub rows: EventDetails,
    /// Of [`DeviceTrace::syncs`](crate::DeviceTrace::syncs).
    pub syncs: EventDetails,
    /// Of [`DeviceTrace::auxiliary`](crate::DeviceTrace::auxiliary).
    pub auxiliary: EventDetails,
    /// Of [`DeviceTrace::memory`](crate::DeviceTrace::memory).
    pub memory: EventDetails,
    /// Events that no other table keeps, by start.
    pub others: OtherEvents,
    /// Of [`RecordedDetails::others`].
    pub other_details: EventDetails,
    /// Processes and threads as events name them, those of devices too, in order of first use.
    pub tracks: Vec<HostThread>,
    /// What [`EventDetail::args`] points into.
    pub text: Vec<u8>,
    /// Keys around the events with their values, as written.
    pub header: Vec<(String, String)>,
}

impl RecordedDetails {
    /// The text of a span. O(1).
    pub fn args(&self, span: TextSpan) -> &[u8] {
        let start = usize::try_from(span.start).unwrap_or(usize::MAX);
        let end = start.saturating_add(span.bytes as usize);
        // A span of another trace has no text here, and must not end the program.
        self.text.get(start..end).unwrap_or_default()
    }
}
