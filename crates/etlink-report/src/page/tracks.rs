//! What threads and streams are called.

use etlink_model::{DeviceQueue, DeviceTrace, HostThread, TrackLabel};
use serde::Serialize;

/// A thread or stream with ranges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct TimelineTrack {
    /// `thread 4711 (python)`, `stream 7`.
    pub(super) name: String,
    /// Its process or device.
    pub(super) group: String,
    /// Whether it is a stream.
    pub(super) stream: bool,
    /// How many ranges are drawn on it: the ranges stand in the order of tracks.
    pub(super) ranges: u32,
}

/// The track of a number: threads, then queues.
pub(super) fn trace_track(device: &DeviceTrace, number: u32) -> TimelineTrack {
    let (at, threads) = (number as usize, device.threads.len());
    match (
        device.threads.get(at),
        at.checked_sub(threads)
            .and_then(|queue| device.queues.get(queue)),
    ) {
        (Some(thread), _) => TimelineTrack {
            name: thread_name(device, *thread),
            group: process_name(device, thread.pid),
            stream: false,
            ranges: 0,
        },
        (None, Some(queue)) => TimelineTrack {
            name: queue_name(device, queue),
            group: device_name(device, queue),
            stream: true,
            ranges: 0,
        },
        (None, None) => TimelineTrack {
            name: String::new(),
            group: String::new(),
            stream: false,
            ranges: 0,
        },
    }
}

fn process_name(device: &DeviceTrace, pid: TrackLabel) -> String {
    let said = device.process_names.iter().find(|(of, _)| *of == pid);
    let id = device.label(pid);
    said.map_or_else(
        || format!("process {id}"),
        |(_, name)| format!("{} {id}", device.names.get(*name).trim()),
    )
}

fn thread_name(device: &DeviceTrace, thread: HostThread) -> String {
    let said = device.thread_names.iter().find(|(of, _)| *of == thread);
    let id = device.label(thread.tid);
    let name = said.map_or("", |(_, name)| device.names.get(*name).trim());
    // Kineto writes "thread 4711 (python)" or the bare name
    if name.contains(&id) {
        name.to_owned()
    } else {
        format!("thread {id} {name}").trim_end().to_owned()
    }
}

fn device_name(device: &DeviceTrace, queue: &DeviceQueue) -> String {
    let model = usize::try_from(queue.device)
        .ok()
        .and_then(|at| device.header.devices.get(at))
        .filter(|model| !model.is_empty());
    format!(
        "device {}{}",
        queue.device,
        model.map_or(String::new(), |model| format!(" ({model})"))
    )
}

/// A stream's name; where a device has several contexts with that stream, also the context's.
fn queue_name(device: &DeviceTrace, queue: &DeviceQueue) -> String {
    let same = |other: &&DeviceQueue| other.device == queue.device && other.stream == queue.stream;
    let context = if device.queues.iter().filter(same).count() > 1 {
        format!(" of context {}", queue.context)
    } else {
        String::new()
    };
    format!("stream {}{context}", queue.stream)
}
