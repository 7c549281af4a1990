//! Work without Python's lock: other threads of the program go on, and Ctrl-C ends it.

use crate::errors::{advised_exception, to_exception};
use crate::progress::{BytesRead, ShownProgress};
use anyhow::Result;
use crossbeam_channel::{RecvTimeoutError, bounded};
use etlink_run::{Cancellation, Progress, RunOptions};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How often Python's signals are looked at: nobody notices a Ctrl-C that takes so long.
const POLL: Duration = Duration::from_millis(50);

/// For how many polls cancelled work is waited for. What links a rank looks at the flag when it is done; until
/// then it goes on by itself, and its result is dropped.
const PATIENCE: u32 = 10;

/// The process that did work first; 0: none yet.
static WORKED_IN: AtomicU32 = AtomicU32::new(0);

/// A call of Python: whether it is to end, and what it has read.
#[derive(Clone, Default)]
pub(crate) struct Call {
    cancellation: Cancellation,
    progress: Progress,
}

impl Call {
    /// How this call reads: one that is cancelled leaves the next one alone.
    pub(crate) fn options(self, options: RunOptions) -> RunOptions {
        RunOptions {
            cancellation: self.cancellation,
            progress: self.progress,
            ..options
        }
    }
}

/// Does `work` on a thread of its own. It is cancelled when a signal handler of the program raises,
/// as that of Ctrl-C does; the exception is raised when the work has ended, or soon after.
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
        // nobody waits for the result where Python ends the process
        let _ = sender.send(work(call));
    });
    spawned.map_err(|error| to_exception(py, &error.into()))?;
    let mut raised: Option<(PyErr, u32)> = None;
    loop {
        let received = py.detach(|| receiver.recv_timeout(POLL));
        match received {
            // the cause is the signal, whatever the work made of its end
            Ok(result) => {
                return match raised {
                    Some((exception, _)) => Err(exception),
                    None => result.map_err(|error| to_exception(py, &error)),
                };
            }
            Err(RecvTimeoutError::Disconnected) => {
                let problem = "etlink failed: this is a defect of it";
                let failed = || advised_exception(py, problem, "report it with the trace");
                return Err(raised.map_or_else(failed, |(exception, _)| exception));
            }
            Err(RecvTimeoutError::Timeout) => {
                // what a signal handler raises may come out of either
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
        // the pool of threads was not forked with the process: the child would wait forever
        Err(_) => Err(advised_exception(
            py,
            "this process was forked after etlink had read a trace, and has none of its threads",
            "start it with multiprocessing's \"spawn\" or \"forkserver\"",
        )),
    }
}
