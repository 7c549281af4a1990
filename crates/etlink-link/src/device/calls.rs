//! Effect of runtime and driver calls on order, by name: CUDA, HIP, XPU (Unified Runtime, Level
//! Zero) and MTIA.

use etlink_model::{DeviceTrace, NameId};

/// Effect of a call on the order of streams and threads. Blocking effects come last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Does {
    /// No effect on order.
    #[default]
    Other,
    /// Asks if a place in a stream was reached, and returns at once: `cudaEventQuery`.
    Query,
    /// Marks a place in a stream: `cudaEventRecord`.
    Record,
    /// Makes a stream wait for a marked place: `cudaStreamWaitEvent`.
    StreamWait,
    /// Starts recording the thread's calls instead of running them: `cudaStreamBeginCapture`.
    BeginCapture,
    /// Ends the recording of the thread's calls.
    EndCapture,
    /// Blocks its thread until a stream has ended.
    StreamSync,
    /// Blocks its thread until all streams of a device have ended.
    DeviceSync,
    /// Blocks its thread until a marked place was reached.
    EventSync,
    /// Blocks its thread until the copy that it launches has ended: `cudaMemcpy`,
    /// `hipMemcpyWithStream`.
    BlockingCopy,
    /// Blocks for all streams before freeing memory: `cudaFree`.
    Free,
}

fn has_part(name: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| name.contains(part))
}

impl Does {
    /// Returns the effect of a call with this name.
    pub(crate) fn of(name: &str) -> Does {
        // CUDA, HIP and Level Zero write one word in different cases: `cudaEventRecord`,
        // `zeCommandListAppendWaitOnEvents`.
        let name = name.to_ascii_lowercase();
        // Creating or destroying an event orders nothing, and must not reach the parts of names
        // below; neither must a query.
        if has_part(&name, &["eventquery", "streamquery"]) {
            Does::Query
        } else if has_part(&name, &["query", "elapsedtime", "destroy", "create"]) {
            Does::Other
        } else if has_part(
            &name,
            &[
                "streamwaitevent",
                "waitonevent",
                "enqueueeventswait",
                "appendwaitonevents",
            ],
        ) {
            Does::StreamWait
        } else if has_part(&name, &["streambegincapture"]) {
            Does::BeginCapture
        } else if has_part(&name, &["streamendcapture"]) {
            Does::EndCapture
        } else if has_part(&name, &["eventrecord", "recordevent"]) {
            Does::Record
        } else if has_part(
            &name,
            &[
                "streamsynchronize",
                "synchronizestream",
                "queuefinish",
                "queuesynchronize",
            ],
        ) {
            Does::StreamSync
        } else if has_part(
            &name,
            &["devicesynchronize", "ctxsynchronize", "threadsynchronize"],
        ) {
            Does::DeviceSync
        } else if has_part(
            &name,
            &["eventsynchronize", "hostsynchronize", "ureventwait"],
        ) {
            Does::EventSync
        // `cudaMemcpy` without `Async` blocks by contract. An async copy of pageable memory blocks
        // too, but only its row shows it: see `is_pageable_copy`.
        } else if has_part(&name, &["memcpy"]) && !has_part(&name, &["async", "enqueue", "batch"]) {
            Does::BlockingCopy
        // Whole names: `cudaFreeAsync` is ordered within a stream, and `cudaFreeHost` frees no
        // device memory.
        } else if ["cudafree", "hipfree", "cumemfree", "cumemfree_v2"].contains(&name.as_str()) {
            Does::Free
        } else {
            Does::Other
        }
    }

    /// True if the call may block its thread.
    pub(crate) fn blocks(self) -> bool {
        self >= Does::StreamSync
    }
}

/// Returns the effect of each call. O(calls); each name is classified once.
pub(crate) fn all(device: &DeviceTrace) -> Vec<Does> {
    let mut known = vec![None; device.names.count()];
    let mut does =
        |name: NameId| *known[name.index()].get_or_insert_with(|| Does::of(device.names.get(name)));
    device.calls.name.iter().map(|name| does(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_vendors() {
        for (does, names) in [
            (
                Does::Record,
                &[
                    "cudaEventRecord",
                    "cudaEventRecordWithFlags",
                    "hipEventRecord",
                    "recordEvent",
                    "cuEventRecord",
                ][..],
            ),
            (
                Does::StreamWait,
                &[
                    "cudaStreamWaitEvent",
                    "hipStreamWaitEvent",
                    "enqueueCommand waitOnEvent",
                    "urEnqueueEventsWait",
                ],
            ),
            (
                Does::StreamSync,
                &[
                    "cudaStreamSynchronize",
                    "hipStreamSynchronize",
                    "synchronizeStream",
                    "urQueueFinish",
                ],
            ),
            (
                Does::DeviceSync,
                &[
                    "cudaDeviceSynchronize",
                    "hipDeviceSynchronize",
                    "cuCtxSynchronize",
                ],
            ),
            (
                Does::EventSync,
                &[
                    "cudaEventSynchronize",
                    "hipEventSynchronize",
                    "zeEventHostSynchronize",
                    "zeFenceHostSynchronize",
                    "urEventWait",
                ],
            ),
            (
                Does::BlockingCopy,
                &["cudaMemcpy", "hipMemcpyWithStream", "cuMemcpyDtoH_v2"],
            ),
            (Does::Free, &["cudaFree", "hipFree"]),
            (
                Does::BeginCapture,
                &[
                    "cudaStreamBeginCapture",
                    "hipStreamBeginCapture",
                    "cudaStreamBeginCaptureToGraph",
                ],
            ),
            (
                Does::EndCapture,
                &["cudaStreamEndCapture", "hipStreamEndCapture"],
            ),
            (
                Does::Other,
                &[
                    "cudaMemcpyAsync",
                    "hipMemcpyAsync",
                    "cudaLaunchKernel",
                    "cudaFreeAsync",
                    "cudaEventElapsedTime",
                ],
            ),
            (Does::Query, &["cudaEventQuery", "hipStreamQuery"]),
            (
                Does::Other,
                &[
                    "cudaFreeHost",
                    "enqueueCommand memcpyDtoHAsync",
                    "urEnqueueUSMMemcpy",
                ],
            ),
        ] {
            for name in names {
                assert_eq!(Does::of(name), does, "{name}");
            }
        }
    }
}
