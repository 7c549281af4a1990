//! Work without Python's lock: other threads of the program continue, and Ctrl-C ends the work.

use crate::errors::{advised_exception, to_exception};
use crate::progress::{BytesRead, ShownProgress};
use anyhow::Result;
use crossbeam_channel::{RecvTimeoutError, bounded};
use etlink_run::{Cancellation, Progress, RunOptions};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Interval of checks for Python's signals, too short for a person to notice.
const POLL: Duration = Duration::from_millis(50);

/// Number of polls to wait for cancelled work. A rank being linked checks the flag only at its end;
/// until then it continues in the background, and its result is dropped.
const PATIENCE: u32 = 10;

/// Id of the process that worked first; 0 before any work.
static WORKED_IN: AtomicU32 = AtomicU32::new(0);

/// A call from Python, with its cancellation and its progress.
#[derive(Clone, Default)]
pub(crate) struct Call {
    cancellation: Cancellation,
    progress: Progress,
}

impl Call {
    /// Returns the options for this call's reading; cancelling one call does not affect the next.
    pub(crate) fn options(self, options: RunOptions) -> RunOptions {
        RunOptions {
            cancellation: self.cancellation,
            progress: self.progress,
            ..options
        }
    }
}

/// Runs `work` on its own thread. The work is cancelled if a signal handler of the program raises,
/// such as that of Ctrl-C. The exception is raised when the work has ended, or soon after.
pub(crate) fn run_cancellable<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(Call) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    check_process(py)?;
    let read = Arc::new(BytesRead::default());
    let call = Call {
        progress: Progress::to(Arc::clone(&read) as _),
        ..Call::default()
    };
    let cancellation = call.cancellation.clone();
    let mut shown = ShownProgress::new(py, read);
    let (sender, receiver) = bounded(1);
    let thread = std::thread::Builder::new().name("etlink".to_owned());
    let spawned = thread.spawn(move || {
        // nobody waits for the result if Python ends the process
        let _ = sender.send(work(call));
    });
    spawned.map_err(|error| to_exception(py, &error.into()))?;
    let mut raised: Option<(PyErr, u32)> = None;
    loop {
        let received = py.detach(|| receiver.recv_timeout(POLL));
        match received {
            // the cause is the signal, whatever the work returned
            Ok(result) => {
                return match raised {
                    Some((exception, _)) => Err(exception),
                    None => result.map_err(|error| to_exception(py, &error)),
                };
            }
            Err(RecvTimeoutError::Disconnected) => {
                let problem = "etlink failed because of a bug";
                let failed = || advised_exception(py, problem, "report it with the trace");
                return Err(raised.map_or_else(failed, |(exception, _)| exception));
            }
            Err(RecvTimeoutError::Timeout) => {
                // either may return the exception of a signal handler
                let seen = py.check_signals().and_then(|()| shown.update(py));
                if let Err(exception) = seen {
                    cancellation.cancel();
                    raised = Some((exception, 0));
                }
                if let Some((exception, polls)) = raised.take() {
                    if polls == PATIENCE {
                        return Err(exception);
                    }
                    raised = Some((exception, polls + 1));
                }
            }
        }
    }
}

/// Refuses work in the child of a fork.
fn check_process(py: Python<'_>) -> PyResult<()> {
    let this = std::process::id();
    let first = WORKED_IN.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed);
    match first {
        Ok(_) => Ok(()),
        Err(first) if first == this => Ok(()),
        // the thread pool was not forked with the process, so the child would wait forever
        Err(_) => Err(advised_exception(
            py,
            "this process was forked after etlink read a trace, so it lacks etlink's threads",
            "start it with multiprocessing's \"spawn\" or \"forkserver\"",
        )),
    }
}
