//! What the trace calls its processes, threads and streams.

use etlink_model::{DeviceQueue, DeviceTrace, HostThread, TrackLabel};
use rustc_hash::FxHashMap;

/// Looks names up without a search: a trace can have a thread for every few events.
pub(crate) struct TrackNames<'d> {
    pub(crate) device: &'d DeviceTrace,
    /// How many queues have a device's stream number: one for each context.
    contexts: FxHashMap<(i64, i64), u32>,
}

impl<'d> TrackNames<'d> {
    pub(crate) fn new(device: &'d DeviceTrace) -> TrackNames<'d> {
        let mut contexts: FxHashMap<(i64, i64), u32> = FxHashMap::default();
        for queue in &device.queues {
            *contexts.entry((queue.device, queue.stream)).or_default() += 1;
        }
        TrackNames { device, contexts }
    }

    /// `process_name`, where the trace has one.
    pub(crate) fn process_name(&self, pid: TrackLabel) -> Option<&'d str> {
        let name = self.device.process_names.get(&pid)?;
        Some(self.device.names.get(*name))
    }

    /// `thread_name`, where the trace has one.
    pub(crate) fn thread_name(&self, thread: HostThread) -> Option<&'d str> {
        let name = self.device.thread_names.get(&thread)?;
        Some(self.device.names.get(*name).trim())
    }

    /// A stream's name; where a device has several contexts with that stream, also the context's.
    pub(crate) fn queue_name(&self, queue: &DeviceQueue) -> String {
        match self.contexts.get(&(queue.device, queue.stream)) {
            // A stream is numbered by its context: two contexts of a device can both have stream 7.
            Some(2..) => format!("stream {} of context {}", queue.stream, queue.context),
            _ => format!("stream {}", queue.stream),
        }
    }

    /// The model of a device, where the trace says it.
    pub(crate) fn device_model(&self, device: i64) -> Option<&'d str> {
        let place = usize::try_from(device).ok()?;
        let model = self.device.header.devices.get(place)?;
        (!model.is_empty()).then_some(model)
    }
}
