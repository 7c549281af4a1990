//! Early end of work, requested by the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that ends work early. Any clone can set it, from any thread. It is checked before each
/// rank, and while files are read.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

/// Error of work that was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

impl Cancellation {
    /// Requests the work to end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if the work was requested to end.
    pub fn is_cancelled(&self) -> bool {
        // relaxed: no other data depends on the flag, and one more rank does not matter
        self.0.load(Ordering::Relaxed)
    }

    /// Checks that the work was not cancelled.
    ///
    /// # Errors
    /// Fails if the work was requested to end.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() {
            Err(Cancelled)
        } else {
            Ok(())
        }
    }
}
