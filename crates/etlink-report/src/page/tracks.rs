//! Names of threads and streams.

use crate::track_names::TrackNames;
use etlink_model::{DeviceQueue, HostThread, TrackLabel};
use serde::Serialize;

/// A thread or stream with ranges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct TimelineTrack {
    /// Track name: `thread 4711 (python)`, `stream 7`.
    pub(super) name: String,
    /// Process or device of the track.
    pub(super) group: String,
    /// True if the track is a stream.
    pub(super) stream: bool,
    /// Number of ranges drawn on the track; ranges are stored in track order.
    pub(super) ranges: u32,
}

/// Returns the track with this number: threads, then queues.
pub(super) fn trace_track(names: &TrackNames<'_>, number: u32) -> TimelineTrack {
    let (place, device) = (number as usize, names.device);
    if let Some(thread) = device.threads.get(place) {
        return TimelineTrack {
            name: thread_name(names, *thread),
            group: process_name(names, thread.pid),
            stream: false,
            ranges: 0,
        };
    }
    let queue = device.queues.get(place - device.threads.len());
    debug_assert!(queue.is_some(), "a track is a thread or a queue");
    TimelineTrack {
        name: queue.map_or_else(String::new, |queue| names.queue_name(queue)),
        group: queue.map_or_else(String::new, |queue| device_name(names, queue)),
        stream: queue.is_some(),
        ranges: 0,
    }
}

fn process_name(names: &TrackNames<'_>, pid: TrackLabel) -> String {
    let id = names.device.label(pid);
    match names.process_name(pid) {
        Some(name) => format!("{} {id}", name.trim()),
        None => format!("process {id}"),
    }
}

fn thread_name(names: &TrackNames<'_>, thread: HostThread) -> String {
    let id = names.device.label(thread.tid);
    match names.thread_name(thread) {
        // Kineto writes "thread 4711 (python)" or the bare name
        Some(name) if name.contains(&id) => name.to_owned(),
        Some(name) => format!("thread {id} {name}").trim_end().to_owned(),
        None => format!("thread {id}"),
    }
}

fn device_name(names: &TrackNames<'_>, queue: &DeviceQueue) -> String {
    match names.device_model(queue.device) {
        Some(model) => format!("device {} ({model})", queue.device),
        None => format!("device {}", queue.device),
    }
}
