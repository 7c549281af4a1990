//! What the two traces say and no node of an ET+ does, so that the traces come back out of it.
//!
//! ```text
//! …], "recording": {"version": 1, "header": {…}, "host": {…}, "tables": {
//!   "calls": {"rows": 3, "columns": {"name": [4,4,9], "start": [120,31,7], …}},
//!   …}, "names": ["", "cudaLaunchKernel", …]}, "finish_ts": …}
//! ```
//! A member of the document, behind the nodes. `chakra_converter`, `et_replay` and `chakra_trace_link`
//! take the members that they know by name. Runtime calls, rows of waits and ops that the host trace
//! lacks have no node; of nodes it has what chakra's format has no place for: threads, queues, ids.
//! What a node says is not said again: names, times and streams are taken from there.
//!
//! A column is a list of whole numbers, one per row. `[value, count]` in it stands for so many equal
//! ones. Columns of times and ids have differences from the row before.

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

/// The member of the document.
pub(crate) const KEY: &str = "recording";

/// How it is laid out. Whoever changes a column raises it.
const VERSION: u32 = 1;

/// Stands for a name, start or duration that a node says.
const OF_NODE: i64 = -1;

/// Which list of a node is meant by [`UnmendedList`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ListPart {
    /// `values`.
    Values,
    /// `shapes`.
    Shapes,
    /// `types`.
    Types,
    /// `strides`.
    Strides,
}

/// A list as the host trace has it, where that is no JSON and its node has a mended one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) struct UnmendedList {
    /// Id of the node.
    pub(crate) node: u64,
    /// Of its outputs, not its inputs.
    pub(crate) is_output: bool,
    /// Which list.
    pub(crate) part: ListPart,
    /// As the host trace has it.
    pub(crate) text: String,
}
