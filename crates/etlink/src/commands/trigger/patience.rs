//! Limits of waiting for a recording: the timeout, and Ctrl-C.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time that a command waits, and the signals that end the wait. A second signal ends the command
/// at once.
pub struct Patience {
    end: Instant,
    interrupted: Arc<AtomicBool>,
}

impl Patience {
    /// Begins the time, and catches the signals instead of letting them end the command.
    pub fn new(timeout: Duration) -> Result<Patience> {
        let interrupted = Arc::default();
        for signal in crate::signals::heeded(&[SIGHUP, SIGINT, SIGTERM]) {
            // order matters: the first action must find the flag unset
            register_conditional_default(signal, Arc::clone(&interrupted))
                .and_then(|_| register(signal, Arc::clone(&interrupted)))
                .context("cannot listen for signals")?;
        }
        // a time that no clock reaches is as good as none
        let now = Instant::now();
        let end = now.checked_add(timeout).unwrap_or(now + LONGEST);
        Ok(Patience { end, interrupted })
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.end || self.interrupted.load(Ordering::SeqCst)
    }
}

const LONGEST: Duration = Duration::from_secs(1 << 32);
