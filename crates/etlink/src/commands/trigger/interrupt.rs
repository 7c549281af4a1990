//! Handles Ctrl-C while waiting for a recording.

use anyhow::Result;

/// Signals that end the wait. A second signal ends the command at once.
pub struct Interrupt {
    #[cfg(unix)]
    arrived: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

#[cfg(unix)]
impl Interrupt {
    /// Starts catching the signals instead of letting them end the command.
    pub fn new() -> Result<Interrupt> {
        use anyhow::Context;
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        use signal_hook::flag::{register, register_conditional_default};
        use std::sync::Arc;
        let arrived = Arc::default();
        for signal in crate::signals::heeded(&[SIGHUP, SIGINT, SIGTERM]) {
            // order matters: the first action must find the flag unset
            register_conditional_default(signal, Arc::clone(&arrived))
                .and_then(|_| register(signal, Arc::clone(&arrived)))
                .context("cannot listen for signals")?;
        }
        Ok(Interrupt { arrived })
    }

    pub fn has_arrived(&self) -> bool {
        self.arrived.load(std::sync::atomic::Ordering::SeqCst)
    }
}

#[cfg(not(unix))]
impl Interrupt {
    pub fn new() -> Result<Interrupt> {
        Ok(Interrupt {})
    }

    pub fn has_arrived(&self) -> bool {
        false
    }
}
