//! Spans of the `tracing` crate, from the program's threads to the recorders.
//!
//! ```text
//! thread ─ span ─> SpanLayer ─ words ─> EntryBuffer ┐
//! thread ─ span ─> SpanLayer ─ words ─> EntryBuffer ┼ window ends ─> BufferSnapshot ─> SpanWindow
//! device ─ row ──> SpanLayer ─ words ─> EntryBuffer ┘
//! ```
//! `ExecutionTraceRecorder` and `KinetoRecorder` write traces from the window.

mod buffer;
mod clock;
mod collector;
mod entry;
mod layer;
mod thread_writer;

pub use layer::{SpanFilter, SpanLayer};

pub(crate) use buffer::{RecordedThread, lock};
pub(crate) use clock::{local_time, process_name};
pub(crate) use collector::{Collector, WindowSnapshot};
pub(crate) use entry::{EntryKind, FieldValue, entries, fields};
