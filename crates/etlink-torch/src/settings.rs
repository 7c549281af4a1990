//! What the launcher tells the hook.

use crate::{ArmedSettings, HostClock, RankSelection};
use etlink_schedule::Arguments;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The environment variable that has [`Settings`] as JSON.
pub const SETTINGS_VARIABLE: &str = "ETLINK_RECORD";

/// What the launcher tells the hook.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Folder for what processes report; absolute.
    pub work: PathBuf,
    /// Folder for the traces; absolute.
    pub output: PathBuf,
    /// Folder of the hook's files; absolute. Perhaps on another disk than the traces.
    pub hook: PathBuf,
    /// A name that no other launcher has: launchers of one job, on several machines, share the
    /// folders.
    pub launcher: String,
    /// How the clock of this machine lies to that of the output folder's file system.
    pub clock: Option<HostClock>,
    /// Folder that gets the device traces under names that TensorBoard's plugin knows, too;
    /// absolute.
    pub tensorboard: Option<PathBuf>,
    /// When to record; none: when a profiler of the program's own does.
    pub schedule: Option<ScheduleSettings>,
    /// What asks for recordings; none: the schedule or a profiler of the program's own says.
    pub armed: Option<ArmedSettings>,
    /// Schedules of phases of Lightning, such as `validate`; with one of these there is no other
    /// schedule.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<String, ScheduleSettings>,
    /// What is done about a profiler that the program makes itself.
    pub own_profiler: OwnProfiler,
    /// What counts as a step: `optimizer`, `forward` or `module:function`.
    pub step_on: String,
    /// Which ranks to record; none: all.
    pub ranks: Option<RankSelection>,
    /// Bytes that all traces in the output folder may take; none: any number.
    pub max_size: Option<u64>,
    /// Activities to record, such as `cpu` and `cuda`; none: all that the machine has.
    pub activities: Option<Vec<String>>,
    /// What to record.
    pub options: Options,
}

/// What is done about a profiler that the program makes itself: PyTorch has one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OwnProfiler {
    /// Its traces are taken, and the host trace is recorded beside it.
    #[default]
    Adopt,
    /// It is left alone, and nothing is recorded from there on.
    Leave,
}

/// The arguments of `torch.profiler.schedule`, in steps but for `repeat` (cycles) and
/// `skip_first_wait` (anything but 0 is yes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "see `etlink_schedule::Arguments`")]
pub struct ScheduleSettings {
    pub skip_first: i64,
    pub wait: i64,
    pub warmup: i64,
    pub active: i64,
    pub repeat: i64,
    pub skip_first_wait: i64,
}

impl From<Arguments> for ScheduleSettings {
    fn from(arguments: Arguments) -> Self {
        // Taken apart by name, so that an argument that is added cannot be forgotten here.
        let Arguments {
            skip_first,
            wait,
            warmup,
            active,
            repeat,
            skip_first_wait,
        } = arguments;
        ScheduleSettings {
            skip_first,
            wait,
            warmup,
            active,
            repeat,
            skip_first_wait,
        }
    }
}

/// What the profiler records besides times, by its own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Options {
    /// Shapes of inputs in the device trace; the host trace always has them.
    pub record_shapes: bool,
    /// Python stacks.
    pub with_stack: bool,
    /// Allocations.
    pub profile_memory: bool,
    /// Estimated floating point operations.
    pub with_flops: bool,
    /// Rows that say which event a stream or the host waited for; CUDA, where PyTorch has it.
    pub cuda_sync_events: bool,
    /// Where threads wait for each other, and what for.
    #[serde(default)]
    pub thread_waits: bool,
    /// Beside the traces, who allocated what on CUDA devices.
    #[serde(default)]
    pub memory_snapshot: bool,
    /// Dependencies, annotations and events of the nodes of CUDA graphs.
    #[serde(default)]
    pub cuda_graph_nodes: bool,
    /// Whether the files are packed.
    pub gzip: bool,
    /// Whether the host trace is of other steps than the device trace.
    #[serde(default)]
    pub interleave: bool,
}
