//! The wish that work ends before it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that ends work early: whoever has a clone can set it from any thread. It is checked
/// before each rank, and while files are read.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

/// Work was cancelled before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

impl Cancellation {
    /// Asks the work to end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work was asked to end.
    pub fn is_cancelled(&self) -> bool {
        // nothing else is handed over by it: a rank more or less does not matter
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// The work was asked to end.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() {
            Err(Cancelled)
        } else {
            Ok(())
        }
    }
}
