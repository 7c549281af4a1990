//! Which run a document is about.

use etlink_run::{RunOptions, RunSource};

/// Which run is read, and how.
#[derive(Clone)]
pub struct RunQuery {
    /// Where its traces are.
    pub source: RunSource,
    /// Which ranks are taken, in how much memory, and what is done with damage. What events are
    /// kept and which edges are made is settled by the document.
    pub options: RunOptions,
}
