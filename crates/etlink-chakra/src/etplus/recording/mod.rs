//! Stores everything in the two traces that no node of an ET+ contains, so that the traces can be
//! restored.
//!
//! ```text
//! …], "recording": {"version": 1, "header": {…}, "host": {…}, "tables": {
//!   "calls": {"rows": 3, "columns": {"name": [4,4,9], "start": [120,31,7], …}},
//!   …}, "names": ["", "cudaLaunchKernel", …]}, "finish_ts": …}
//! ```
//! The recording is a member of the document, after the nodes. `chakra_converter`, `et_replay` and
//! `chakra_trace_link` only read members they know by name. Runtime calls, rows of waits, and ops
//! missing in the host trace have no node. For nodes, the recording holds what chakra's format has
//! no place for: threads, queues, ids. Contents of nodes are not repeated: names, times and streams
//! come from the nodes.
//!
//! A column is a list of integers, one per row. `[value, count]` in it stands for `count` equal
//! values. Columns of times and ids hold differences from the previous row.

mod column;
mod document;
mod names;
mod rebuilt;
mod restore;
mod tables;
mod traces;
mod write;

#[cfg(test)]
mod tests;

pub use restore::{has_recording, recorded_traces};
pub use traces::{RecordedTraces, RecordingError};
pub(crate) use write::write_recording;

/// Key of the recording in the document.
pub(crate) const KEY: &str = "recording";

/// Version of the layout. Any change of a column increments it.
const VERSION: u32 = 2;

/// Placeholder for a name, start or duration that is taken from the node.
const OF_NODE: i64 = -1;

/// List of a node that [`UnmendedList`] refers to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ListPart {
    /// The list `values`.
    Values,
    /// The list `shapes`.
    Shapes,
    /// The list `types`.
    Types,
    /// The list `strides`.
    Strides,
}

/// A list of the host trace in its original form, which is not JSON; its node has a repaired list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) struct UnmendedList {
    /// Id of the node.
    pub(crate) node: u64,
    /// True for a list of outputs, false for inputs.
    pub(crate) is_output: bool,
    /// Kind of the list.
    pub(crate) part: ListPart,
    /// Text in the host trace.
    pub(crate) text: String,
}
