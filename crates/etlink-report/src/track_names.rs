//! Names of processes, threads and streams in the trace.

use etlink_model::{DeviceQueue, DeviceTrace, HostThread, TrackLabel};
use rustc_hash::FxHashMap;

/// Constant-time lookup of names: a trace can have a thread for every few events.
pub(crate) struct TrackNames<'d> {
    pub(crate) device: &'d DeviceTrace,
    /// Number of queues per device and stream number: one per context.
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

    /// Returns the trace's `process_name`, if there is one.
    pub(crate) fn process_name(&self, pid: TrackLabel) -> Option<&'d str> {
        let name = self.device.process_names.get(&pid)?;
        Some(self.device.names.get(*name))
    }

    /// Returns the trace's `thread_name`, if there is one.
    pub(crate) fn thread_name(&self, thread: HostThread) -> Option<&'d str> {
        let name = self.device.thread_names.get(&thread)?;
        Some(self.device.names.get(*name).trim())
    }

    /// Returns the name of a stream, including its context if several contexts of the device have
    /// that stream.
    pub(crate) fn queue_name(&self, queue: &DeviceQueue) -> String {
        match self.contexts.get(&(queue.device, queue.stream)) {
            // Streams are numbered per context: two contexts of a device can both have stream 7.
            Some(2..) => format!("stream {} of context {}", queue.stream, queue.context),
            _ => format!("stream {}", queue.stream),
        }
    }

    /// Returns the model of a device, if the trace states it.
    pub(crate) fn device_model(&self, device: i64) -> Option<&'d str> {
        let place = usize::try_from(device).ok()?;
        let model = self.device.header.devices.get(place)?;
        (!model.is_empty()).then_some(model)
    }
}
