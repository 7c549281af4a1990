//! A device driven by the program itself: streams that run their work in order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::trace_span;

/// Duration of kernels and copies.
const KERNEL: Duration = Duration::from_micros(50);

type Work = Box<dyn FnOnce() + Send>;

/// Stream of the device.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Compute,
    Copy,
}

impl Stream {
    fn number(self) -> i64 {
        [7, 20][self as usize]
    }
}

/// Event in a stream, set once reached.
type Event = Arc<(Mutex<bool>, Condvar)>;

pub(crate) struct Device {
    streams: [Sender<Work>; 2],
    threads: Vec<JoinHandle<()>>,
    correlations: AtomicU64,
}

impl Device {
    pub(crate) fn new() -> Device {
        let (streams, threads) = ["compute", "copy"]
            .map(stream)
            .into_iter()
            .unzip::<_, _, Vec<_>, Vec<_>>();
        let streams = streams
            .try_into()
            .unwrap_or_else(|_| unreachable!("two streams"));
        Device {
            streams,
            threads,
            correlations: AtomicU64::new(1),
        }
    }

    /// Launches a kernel or a copy: a call on this thread, later a row on the stream.
    pub(crate) fn launch(&self, stream: Stream, call: &str, kernel: &'static str) {
        let correlation = self.correlation();
        let _call = trace_span!("launch", name = call, correlation).entered();
        let number = stream.number();
        self.give(stream, move || {
            let _row = trace_span!(
                "row",
                name = kernel,
                device = 0,
                stream = number,
                correlation
            )
            .entered();
            std::thread::sleep(KERNEL);
        });
    }

    /// Makes later work of `stream` wait for all earlier work of `other`.
    pub(crate) fn wait_for(&self, stream: Stream, other: Stream) {
        let (event, record) = self.record(other);
        let (sync_stream, wait_on_stream) = (stream.number(), other.number());
        let _call = trace_span!(
            "deviceStreamWaitEvent",
            correlation = self.correlation(),
            sync_stream,
            wait_on_stream,
            wait_on_record = record
        )
        .entered();
        self.give(stream, move || wait(&event));
    }

    /// Blocks this thread until the stream is done.
    pub(crate) fn synchronize(&self, stream: Stream) {
        let event = Event::default();
        let _call = trace_span!(
            "deviceStreamSynchronize",
            correlation = self.correlation(),
            sync_stream = stream.number()
        )
        .entered();
        let reached = Arc::clone(&event);
        self.give(stream, move || reach(&reached));
        wait(&event);
    }

    /// Records an event in the stream; also returns the correlation of the call.
    fn record(&self, stream: Stream) -> (Event, u64) {
        let (event, correlation) = (Event::default(), self.correlation());
        let _call = trace_span!("deviceEventRecord", correlation).entered();
        let reached = Arc::clone(&event);
        self.give(stream, move || reach(&reached));
        (event, correlation)
    }

    fn give(&self, stream: Stream, work: impl FnOnce() + Send + 'static) {
        let _ = self.streams[stream as usize].send(Box::new(work));
    }

    fn correlation(&self) -> u64 {
        self.correlations.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.streams = std::array::from_fn(|_| channel().0);
        self.threads
            .drain(..)
            .for_each(|thread| drop(thread.join()));
    }
}

fn stream(name: &str) -> (Sender<Work>, JoinHandle<()>) {
    let (sender, receiver) = channel::<Work>();
    let run = move || receiver.iter().for_each(|work| work());
    let thread = std::thread::Builder::new()
        .name(format!("{name} stream"))
        .spawn(run);
    (
        sender,
        thread.unwrap_or_else(|error| panic!("no thread: {error}")),
    )
}

fn reach(event: &Event) {
    *event.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    event.1.notify_all();
}

fn wait(event: &Event) {
    let reached = event.0.lock().unwrap_or_else(PoisonError::into_inner);
    drop(event.1.wait_while(reached, |reached| !*reached));
}
