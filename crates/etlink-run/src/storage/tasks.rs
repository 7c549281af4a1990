//! Runs requests on two separate threads, while callers wait for the responses.

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, sync_channel};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

/// Number of threads. Requests mostly wait, and TLS takes a fraction of the time of parsing.
const THREADS: usize = 2;

static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();

fn runtime() -> io::Result<&'static Runtime> {
    let made = RUNTIME.get_or_init(|| {
        let built = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("requests")
            .enable_all()
            .build();
        built.map_err(|error| error.to_string())
    });
    made.as_ref()
        .map_err(|error| io::Error::other(format!("cannot start a thread for requests: {error}")))
}

/// A response in progress. Dropping it cancels the request.
pub(crate) struct Pending<T> {
    answer: Receiver<io::Result<T>>,
    task: AbortHandle,
}

impl<T> Pending<T> {
    pub(crate) fn wait(&self) -> io::Result<T> {
        match self.answer.recv() {
            Ok(answer) => answer,
            // the task ended without a response
            Err(_) => Err(io::Error::other("the request ended without a response")),
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts a request.
pub(super) fn begin<T: Send + 'static>(
    request: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<Pending<T>> {
    let (sender, answer) = sync_channel(1);
    let task = runtime()?.spawn(async move {
        // fails if the caller no longer waits for the response
        drop(sender.send(request.await));
    });
    Ok(Pending {
        answer,
        task: task.abort_handle(),
    })
}

/// Waits for a request. The calling thread may belong to another runtime.
pub(super) fn wait_for<T: Send + 'static>(
    request: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<T> {
    begin(request)?.wait()
}
