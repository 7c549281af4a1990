//! Names that PyTorch, its users, and vendors give to ranges and calls.

use crate::StepTime;
use etlink_model::{DeviceTrace, NameId, PROFILER_STEP};
use rustc_hash::FxHashSet;

/// Parts of the range names of data loaders, in lower case. PyTorch's range is
/// `enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__`
/// (`torch/utils/data/dataloader.py`).
const INPUT_NAMES: [&str; 9] = [
    "dataloader",
    "data_loader",
    "data loading",
    "load_batch",
    "get_batch",
    "next_batch",
    "fetch_batch",
    "load batch",
    "next batch",
];

/// Calls that allocate or free device or host memory, in lower case without the vendor's prefix.
const ALLOCATOR_CALLS: [&str; 8] = [
    "malloc",
    "free",
    "hostalloc",
    "hostmalloc",
    "mallochost",
    "memcreate",
    "memalloc",
    "memrelease",
];

/// Returns true if a runtime call allocates or frees memory through the driver.
pub(crate) fn is_allocator_call(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let vendors = ["cuda", "hip", "cu"];
    let bare = vendors.iter().find_map(|vendor| name.strip_prefix(vendor));
    bare.is_some_and(|bare| ALLOCATOR_CALLS.contains(&bare))
}

/// Returns true if a runtime call blocks until a device, a stream, or an event is done:
/// `cudaStreamSynchronize`, `hipDeviceSynchronize`, `synchronizeStream` of MTIA.
pub(crate) fn is_synchronisation(name: &str) -> bool {
    name.to_ascii_lowercase().contains("synchronize")
}

/// Returns true if a copy of this name stays on devices: `Memcpy DtoD (…)`, `CopyDeviceToDevice`,
/// `MEMORY_COPY_DEVICE_TO_DEVICE`.
pub(crate) fn stays_on_devices(copy: &str) -> bool {
    let name = copy.to_ascii_lowercase().replace('_', "");
    let stays = ["dtod", "ptop", "devicetodevice", "peer"];
    stays.iter().any(|part| name.contains(part))
}

/// Suffix that `torch._dynamo.utils.dynamo_timed` appends to the names of the compiler's ranges.
const COMPILE_END: &str = " (dynamo_timed)";

/// Returns true for a range in which `torch.compile` works.
pub(crate) fn is_compile_range(name: &str) -> bool {
    name.ends_with(COMPILE_END)
}

/// Returns true if a range of this name fetches input.
pub(crate) fn is_input_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    INPUT_NAMES.iter().any(|part| lower.contains(part))
}

/// Prefixes of the range names of collectives: of the call, of its record, and of the backend's
/// work.
const COMMUNICATION_NAMES: [&str; 6] = [
    "c10d::",
    "record_param_comms",
    "gloo:",
    "nccl:",
    "mpi:",
    "ucc:",
];

/// Returns true if a range belongs to a collective.
pub(crate) fn is_communication_op(name: &str) -> bool {
    COMMUNICATION_NAMES
        .iter()
        .any(|begin| name.starts_with(begin))
}

/// Names of a trace's steps.
pub(crate) struct StepNames<'t>(FxHashSet<&'t str>);

impl<'t> StepNames<'t> {
    pub(crate) fn new(steps: &'t [StepTime]) -> StepNames<'t> {
        // If several steps share a name, the first keeps it and the others get a number appended.
        StepNames(steps.iter().map(|step| &step.name[..]).collect())
    }

    /// Returns true if a range of this name is a step.
    pub(crate) fn contains(&self, name: &str) -> bool {
        // Steps of the profiler that the analysis ignores are still not work of their own.
        name.starts_with(PROFILER_STEP) || self.0.contains(name)
    }
}

/// Classes of a trace's op names. A trace has millions of ops with some hundred names, and
/// detectors ask about each op and its parents.
pub(crate) struct OpNameKinds {
    /// Class per name; `None` if no op has the name.
    kinds: Vec<Option<OpNameKind>>,
}

#[derive(Clone, Copy)]
struct OpNameKind {
    is_input: bool,
    is_step: bool,
}

impl OpNameKinds {
    /// Classifies the names. O(ops + names).
    pub(crate) fn new(device: &DeviceTrace, steps: &StepNames<'_>) -> OpNameKinds {
        let mut kinds = vec![None; device.names.count()];
        for name in &device.ops.name {
            kinds[name.index()].get_or_insert_with(|| {
                let text = device.names.get(*name);
                OpNameKind {
                    is_input: is_input_name(text),
                    is_step: steps.contains(text),
                }
            });
        }
        OpNameKinds { kinds }
    }

    /// Returns true if ops of this name fetch input.
    pub(crate) fn is_input(&self, name: NameId) -> bool {
        self.kinds[name.index()].is_some_and(|kind| kind.is_input)
    }

    /// Returns true if ops of this name are steps.
    pub(crate) fn is_step(&self, name: NameId) -> bool {
        self.kinds[name.index()].is_some_and(|kind| kind.is_step)
    }
}

/// Name for a step's time outside of its ops and annotations; the gaps of a step bear the step's
/// name.
pub(crate) const BETWEEN_OPS: &str = "between ops";

/// Name for work of a thread that the program waits for, but that no op covers.
pub(crate) const ANOTHER_THREAD: &str = "another thread";
