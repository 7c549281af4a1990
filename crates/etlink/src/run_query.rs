//! The run that a document is about.

use etlink_run::{RunOptions, RunSource};

/// A run, and options for reading it.
#[derive(Clone)]
pub struct RunQuery {
    /// Location of the traces.
    pub source: RunSource,
    /// Options such as the ranks to read, the memory limit, and the handling of damage. The
    /// document itself decides which events are kept and which edges are made.
    pub options: RunOptions,
}
