//! Spans of the `tracing` crate, from the program's threads to the recorders.
//!
//! ```text
//! thread ─ span ─> SpanLayer ─ words ─> Tape ──┐
//! thread ─ span ─> SpanLayer ─ words ─> Tape ──┼─ window ends ─> Cut ─> Window ─> ExecutionTraceRecorder, KinetoRecorder
//! device ─ row ──> SpanLayer ─ words ─> Tape ──┘
//! ```

mod clock;
mod desk;
mod entry;
mod layer;
mod tap;
mod tape;

pub use layer::{SpanFilter, SpanLayer};

pub(crate) use clock::{local_time, process_name};
pub(crate) use entry::{Kind, Value, entries, fields};
pub(crate) use tap::{Cuts, Tap};
pub(crate) use tape::{Thread, lock};
