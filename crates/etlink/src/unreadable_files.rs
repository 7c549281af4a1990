//! Remembers if any input was unreadable and left out: the command then ends with 1.

use etlink_model::DiagnosticCode;
use etlink_run::run::RunSet;
use std::sync::atomic::{AtomicBool, Ordering};

// a global, like the exit code: folders are searched deep inside commands
static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Remembers if any input of these runs was unreadable; notes of the runs name it.
pub fn record(runs: &RunSet) {
    let mut runs = runs.runs.iter();
    if runs.any(|run| DiagnosticCode::FileUnreadable.is_in(&run.diagnostics)) {
        IS_ANY.store(true, Ordering::Relaxed);
    }
}

/// Returns true if any input was unreadable.
pub fn are_any() -> bool {
    IS_ANY.load(Ordering::Relaxed)
}
