//! Progress of a call, for the bar that `etlink._progress` draws.

use etlink_run::ProgressListener;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Counters of the reading threads; Python reads them from time to time.
#[derive(Default)]
pub(crate) struct BytesRead {
    phase: Mutex<String>,
    read: AtomicU64,
    expected: AtomicU64,
}

impl ProgressListener for BytesRead {
    fn phase(&self, name: &str) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        name.clone_into(&mut phase);
    }

    fn expect_bytes(&self, bytes: u64) {
        self.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    fn finish(&self) {}
}

/// Progress bar of a call, removed when this is dropped.
pub(crate) struct ShownProgress {
    read: Arc<BytesRead>,
    /// `None` if nobody would see the bar, or if it has failed.
    bar: Option<Py<PyAny>>,
}

impl ShownProgress {
    pub(crate) fn new(py: Python<'_>, read: Arc<BytesRead>) -> ShownProgress {
        let module = py.import("etlink._progress");
        let bar = module.and_then(|module| module.call_method0("progress"));
        // reading continues if the bar cannot be drawn
        let bar = bar.ok().filter(|bar| !bar.is_none()).map(Bound::unbind);
        ShownProgress { read, bar }
    }

    /// Redraws the bar.
    ///
    /// # Errors
    /// A signal handler raises an exception meanwhile.
    pub(crate) fn update(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(bar) = &self.bar else { return Ok(()) };
        let phase = self.read.phase.lock();
        let phase = phase.unwrap_or_else(PoisonError::into_inner).clone();
        let counts = [&self.read.read, &self.read.expected];
        let [read, expected] = counts.map(|count| count.load(Ordering::Relaxed));
        match bar.call_method1(py, "update", (phase, read, expected)) {
            Err(error) if error.is_instance_of::<PyException>(py) => {
                self.bar = None;
                Ok(())
            }
            done => done.map(|_| ()),
        }
    }
}

impl Drop for ShownProgress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            // as above
            Python::attach(|py| drop(bar.call_method0(py, "close")));
        }
    }
}
