//! Recognizes calls that launch device work, by name.

use crate::device::call_end;
use crate::device::calls::{self, Does};
use etlink_model::{CallIdx, Correlation, DeviceTrace, ThreadIdx, TrackLabel};
use rustc_hash::FxHashMap;

/// Kind of work that a call launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchKind {
    /// A single kernel.
    Kernel,
    /// A graph: any number of rows.
    Graph,
    /// A copy.
    Copy,
    /// A memset; it has no row if there is nothing to set.
    Set,
}

/// A launching call; launching calls inside it are the same launch.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) call: CallIdx,
    pub(super) kind: LaunchKind,
    /// Ids of the call and of the launching calls inside it.
    pub(super) ids: Vec<Correlation>,
    /// True if a stream of its process is being captured: the call may only have been recorded into
    /// a graph.
    pub(super) may_be_captured: bool,
}

/// Launching calls of a trace.
pub(super) struct LaunchCalls {
    /// Launches, sorted by start.
    pub(super) launches: Vec<Launch>,
    /// Ids with a single call, and that call.
    by_id: FxHashMap<Correlation, CallIdx>,
    kinds: Vec<Option<LaunchKind>>,
}

impl LaunchKind {
    /// Returns the kind for a CUDA or HIP call with this name; `None` for other calls.
    pub(super) fn of(name: &str) -> Option<LaunchKind> {
        // Other vendors' calls launch in their own ways, and no healthy trace of them is known.
        let is_known = ["cuda", "cu", "hip"]
            .iter()
            .any(|api| name.starts_with(api));
        let has = |part: &str| name.contains(part);
        if !is_known || has("MultiDevice") {
            return None;
        }
        match name {
            _ if has("GraphLaunch") => Some(LaunchKind::Graph),
            _ if has("Graph") => None,
            _ if has("Launch") && has("Kernel") || name == "cuLaunch" || name == "cudaLaunch" => {
                Some(LaunchKind::Kernel)
            }
            _ if has("Memcpy") => Some(LaunchKind::Copy),
            _ if has("Memset") => Some(LaunchKind::Set),
            _ => None,
        }
    }
}

impl LaunchCalls {
    /// Finds the launching calls of a trace. O(calls).
    pub(super) fn new(device: &DeviceTrace) -> LaunchCalls {
        let mut of_name = vec![None; device.names.count()];
        let kinds = device.calls.name.iter().map(|name| {
            *of_name[name.index()].get_or_insert_with(|| LaunchKind::of(device.names.get(*name)))
        });
        let kinds: Vec<Option<LaunchKind>> = kinds.collect();
        LaunchCalls {
            launches: launches(device, &kinds),
            by_id: calls_by_id(device),
            kinds,
        }
    }

    /// Returns the call of a row if only one is possible.
    pub(super) fn call_of(&self, id: Correlation) -> Option<CallIdx> {
        self.by_id.get(&id.get()?).copied()
    }

    /// Returns the kind of work that a call launches; `None` if it launches nothing.
    pub(super) fn kind(&self, call: CallIdx) -> Option<LaunchKind> {
        self.kinds[call.index()]
    }
}

fn calls_by_id(device: &DeviceTrace) -> FxHashMap<Correlation, CallIdx> {
    let mut by_id: FxHashMap<Correlation, CallIdx> = FxHashMap::default();
    for (call, id) in (0..).map(CallIdx).zip(&device.calls.correlation) {
        if let Some(id) = id.get() {
            let known = by_id.entry(id).or_insert(call);
            // several processes, and restarted profilers, use the same ids
            if *known != call {
                *known = CallIdx::NONE;
            }
        }
    }
    by_id.retain(|_, call| *call != CallIdx::NONE);
    by_id
}

fn launches(device: &DeviceTrace, kinds: &[Option<LaunchKind>]) -> Vec<Launch> {
    let does = calls::all(device);
    let process = |thread: ThreadIdx| device.threads[thread.index()].pid;
    let mut capturing: FxHashMap<ThreadIdx, TrackLabel> = FxHashMap::default();
    let mut last_of: Vec<Option<usize>> = vec![None; device.threads.len()];
    let mut found: Vec<Launch> = vec![];
    for (call, does) in (0..).map(CallIdx).zip(does) {
        let thread = device.calls.thread[call.index()];
        match does {
            Does::BeginCapture => {
                capturing.insert(thread, process(thread));
            }
            Does::EndCapture => {
                capturing.remove(&thread);
            }
            _ => {}
        }
        let Some(kind) = kinds[call.index()] else {
            continue;
        };
        let id = device.calls.correlation[call.index()];
        let last = &mut last_of[thread.index()];
        // The runtime's call calls the driver's: both are recorded, and one of them has the row.
        if let Some(outer) = last.map(|last| &mut found[last])
            && call_end(device, call) <= call_end(device, outer.call)
        {
            outer.ids.extend(id.get());
            continue;
        }
        *last = Some(found.len());
        found.push(Launch {
            call,
            kind,
            ids: id.get().into_iter().collect(),
            may_be_captured: !capturing.is_empty()
                && capturing.values().any(|label| *label == process(thread)),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cuda_and_hip() {
        for (kind, names) in [
            (
                Some(LaunchKind::Kernel),
                &[
                    "cudaLaunchKernel",
                    "cudaLaunchKernelExC",
                    "cuLaunchKernelEx",
                    "cudaLaunchCooperativeKernel",
                    "hipLaunchKernel",
                    "hipExtModuleLaunchKernel",
                    "hipModuleLaunchKernel",
                ][..],
            ),
            (
                Some(LaunchKind::Graph),
                &["cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch"],
            ),
            (
                Some(LaunchKind::Copy),
                &["cudaMemcpyAsync", "hipMemcpyWithStream", "cuMemcpyDtoH_v2"],
            ),
            (
                Some(LaunchKind::Set),
                &["cudaMemsetAsync", "hipMemsetAsync"],
            ),
            (
                None,
                &[
                    "cudaLaunchHostFunc",
                    "cudaGraphAddMemcpyNode",
                    "cudaEventRecord",
                    "enqueueCommand memcpyDtoHAsync",
                    "cudaLaunchCooperativeKernelMultiDevice",
                    "cudaGraphKernelNodeSetParams",
                ],
            ),
        ] {
            for name in names {
                assert_eq!(LaunchKind::of(name), kind, "{name}");
            }
        }
    }
}
