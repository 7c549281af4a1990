//! Names that PyTorch, its users and vendors give to ranges and calls.

use etlink_analyze::StepTime;
use etlink_model::{DeviceTrace, NameId};
use rustc_hash::FxHashSet;

/// Parts of the names that loaders of data give their ranges, in lower case. PyTorch's is
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

/// Calls that allocate or free memory of a device or of the host, in lower case without what the
/// vendor puts before them.
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

/// Whether a runtime call gets or gives back memory of the driver.
pub(crate) fn is_allocator_call(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let vendors = ["cuda", "hip", "cu"];
    let bare = vendors.iter().find_map(|vendor| name.strip_prefix(vendor));
    bare.is_some_and(|bare| ALLOCATOR_CALLS.contains(&bare))
}

/// Whether a runtime call stands still until a device, a stream or an event is done:
/// `cudaStreamSynchronize`, `hipDeviceSynchronize`, `synchronizeStream` of MTIA.
pub(crate) fn is_synchronisation(name: &str) -> bool {
    name.to_ascii_lowercase().contains("synchronize")
}

/// Returns whether a copy of this name stays on devices: `Memcpy DtoD (…)`, `CopyDeviceToDevice`,
/// `MEMORY_COPY_DEVICE_TO_DEVICE`.
pub(crate) fn stays_on_devices(copy: &str) -> bool {
    let name = copy.to_ascii_lowercase().replace('_', "");
    let stays = ["dtod", "ptop", "devicetodevice", "peer"];
    stays.iter().any(|part| name.contains(part))
}

/// What `torch._dynamo.utils.dynamo_timed` puts behind the names of the compiler's ranges.
const COMPILE_END: &str = " (dynamo_timed)";

/// Whether `torch.compile` works in a range.
pub(crate) fn is_compile_range(name: &str) -> bool {
    name.ends_with(COMPILE_END)
}

/// Whether a range of this name fetches input.
pub(crate) fn is_input_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    INPUT_NAMES.iter().any(|part| lower.contains(part))
}

/// Beginnings of the names of ranges of collectives: of the call, of its record, and of what a
/// backend carries out.
const COMMUNICATION_NAMES: [&str; 6] = [
    "c10d::",
    "record_param_comms",
    "gloo:",
    "nccl:",
    "mpi:",
    "ucc:",
];

/// Whether a range is that of a collective.
pub(crate) fn is_communication_op(name: &str) -> bool {
    COMMUNICATION_NAMES
        .iter()
        .any(|begin| name.starts_with(begin))
}

/// What `torch.profiler` puts before the numbers of its steps (`torch/profiler/profiler.py`).
pub(crate) const PROFILER_STEP: &str = "ProfilerStep#";

/// The names that steps of a trace have.
pub(crate) struct StepNames<'t>(FxHashSet<&'t str>);

impl<'t> StepNames<'t> {
    pub(crate) fn new(steps: &'t [StepTime]) -> StepNames<'t> {
        // Of several with one name the first has the name itself, the others a number behind it.
        StepNames(steps.iter().map(|step| &step.name[..]).collect())
    }

    /// Whether a range of this name is a step.
    pub(crate) fn contains(&self, name: &str) -> bool {
        // Steps of the profiler that are none of the analysis are still no work of their own.
        name.starts_with(PROFILER_STEP) || self.0.contains(name)
    }
}

/// What the names of a trace's ops say. A trace has millions of ops of some hundred names, and
/// detectors ask about each op and those around it.
pub(crate) struct OpNameKinds {
    /// Per name; `None` where no op has it.
    kinds: Vec<Option<OpNameKind>>,
}

#[derive(Clone, Copy)]
struct OpNameKind {
    is_input: bool,
    is_step: bool,
}

impl OpNameKinds {
    /// O(ops + names).
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

    /// Whether ops of this name fetch input.
    pub(crate) fn is_input(&self, name: NameId) -> bool {
        self.kinds[name.index()].is_some_and(|kind| kind.is_input)
    }

    /// Whether ops of this name are steps.
    pub(crate) fn is_step(&self, name: NameId) -> bool {
        self.kinds[name.index()].is_some_and(|kind| kind.is_step)
    }
}

/// What a step does outside of its ops and annotations: the gaps of a step bear its name.
pub(crate) const BETWEEN_OPS: &str = "between ops";

/// Work of a thread that the program gave it and waits for, of which no op tells.
pub(crate) const ANOTHER_THREAD: &str = "another thread";
