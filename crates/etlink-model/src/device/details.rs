//! Event data that has no column, for an export that leaves nothing out.
//!
//! The columns hold what figures need. A person who looks at a trace also wants the rest: the
//! registers of a kernel, the call stack of an op, ranges of categories that no figure uses.

use crate::columns::columns;
use crate::{DurationNs, HostThread, NameId, TextSpan, TimeNs};

columns! {
    /// Event data without a column, in the order of the table it belongs to.
    table EventDetails;
    /// Data of one event without a column.
    row EventDetail {
        /// Category (`cat`), as written.
        category: NameId,
        /// Track of the event (`pid` and `tid`), as an index into [`RecordedDetails::tracks`].
        track: u32,
        /// Arguments (`args`) with braces, as written, in [`RecordedDetails::text`]; empty = none.
        args: TextSpan,
    }
}

columns! {
    /// Events that no other table keeps.
    table OtherEvents;
    /// A range, instant or counter that no other table keeps.
    row OtherEvent {
        /// Phase (`ph`): `X`, `i` or `C`.
        phase: NameId,
        /// Event name (`name`).
        name: NameId,
        /// Start (`ts`).
        start: TimeNs,
        /// Duration (`dur`); 0 unless the event is a range.
        duration: DurationNs,
    }
}

/// All data that the tables leave out, except arrows and the sort order of tracks.
#[derive(Clone, Debug, Default)]
pub struct RecordedDetails {
    /// Details of [`DeviceTrace::ops`](crate::DeviceTrace::ops).
    pub ops: EventDetails,
    /// Details of [`DeviceTrace::calls`](crate::DeviceTrace::calls).
    pub calls: EventDetails,
    /// Details of [`DeviceTrace::rows`](crate::DeviceTrace::rows).
    pub rows: EventDetails,
    /// Details of [`DeviceTrace::syncs`](crate::DeviceTrace::syncs).
    pub syncs: EventDetails,
    /// Details of [`DeviceTrace::auxiliary`](crate::DeviceTrace::auxiliary).
    pub auxiliary: EventDetails,
    /// Details of [`DeviceTrace::memory`](crate::DeviceTrace::memory).
    pub memory: EventDetails,
    /// Events that no other table keeps, by start.
    pub others: OtherEvents,
    /// Details of [`RecordedDetails::others`].
    pub other_details: EventDetails,
    /// Processes and threads as events name them, including those of devices, in order of first
    /// use.
    pub tracks: Vec<HostThread>,
    /// Text that [`EventDetail::args`] points into.
    pub text: Vec<u8>,
    /// Document keys around the events with their values, as written.
    pub header: Vec<(String, String)>,
}

impl RecordedDetails {
    /// Returns the text of a span; empty if the span is out of range. O(1).
    pub fn args(&self, span: TextSpan) -> &[u8] {
        let start = usize::try_from(span.start).unwrap_or(usize::MAX);
        let end = start.saturating_add(span.bytes as usize);
        // A span from another trace may be out of range here and must not cause a panic.
        self.text.get(start..end).unwrap_or_default()
    }
}
