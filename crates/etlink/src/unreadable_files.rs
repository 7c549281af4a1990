//! Whether something was left out because it cannot be read: then a command ends with 1.

use etlink_run::run::RunSet;
use std::sync::atomic::{AtomicBool, Ordering};

// a global, as the exit code is: folders are searched deep inside of commands
static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Remembers what could not be read where these runs were found; notes of the runs name it.
pub fn record(runs: &RunSet) {
    if runs.runs.iter().any(|run| run.has_unreadable) {
        IS_ANY.store(true, Ordering::Relaxed);
    }
}

/// Whether anything could not be read.
pub fn are_any() -> bool {
    IS_ANY.load(Ordering::Relaxed)
}
