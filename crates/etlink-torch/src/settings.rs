//! Settings that the launcher passes to the hook.

use crate::{ArmedSettings, HostClock, RankSelection};
use etlink_schedule::Arguments;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Environment variable that holds [`Settings`] as JSON.
pub const SETTINGS_VARIABLE: &str = "ETLINK_RECORD";

/// Settings that the launcher passes to the hook.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Folder for the reports of processes; absolute.
    pub work: PathBuf,
    /// Folder for the traces; absolute.
    pub output: PathBuf,
    /// Folder of the hook's files; absolute. May be on another disk than the traces.
    pub hook: PathBuf,
    /// Unique name of the launcher: launchers of one job, on several machines, share the folders.
    pub launcher: String,
    /// Offset between this machine's clock and the one of the output folder's file system.
    pub clock: Option<HostClock>,
    /// Folder that also receives the device traces, under names that TensorBoard's plugin
    /// recognizes; absolute.
    pub tensorboard: Option<PathBuf>,
    /// Schedule of the recording; `None` if a profiler of the program's own decides.
    pub schedule: Option<Arguments>,
    /// Triggers of recordings; `None` if the schedule or a profiler of the program's own decides.
    pub armed: Option<ArmedSettings>,
    /// Schedules of Lightning phases, such as `validate`; if there are any, there is no other
    /// schedule.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<String, Arguments>,
    /// Handling of a profiler that the program creates itself.
    pub own_profiler: OwnProfiler,
    /// Event that counts as a step: `optimizer`, `forward` or `module:function`.
    pub step_on: String,
    /// Ranks to record; `None` for all.
    pub ranks: Option<RankSelection>,
    /// Upper limit for all traces in the output folder, bytes; `None` for no limit.
    pub max_size: Option<u64>,
    /// Activities to record, such as `cpu` and `cuda`; `None` for all that the machine has.
    pub activities: Option<Vec<String>>,
    /// Data to record.
    pub options: Options,
}

/// Handling of a profiler that the program creates itself: PyTorch runs only one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OwnProfiler {
    /// Keeps the program's profiler traces, and records the host trace along with them.
    #[default]
    Adopt,
    /// Leaves the program's profiler alone, and records nothing from there on.
    Leave,
}

/// Data that the profiler records besides times, by the profiler's own names.
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
    /// Rows that name the event a stream or the host waited for; CUDA only, if PyTorch supports it.
    pub cuda_sync_events: bool,
    /// Waits between threads, with their reasons.
    #[serde(default)]
    pub thread_waits: bool,
    /// A separate snapshot of allocations on CUDA devices and their origins.
    #[serde(default)]
    pub memory_snapshot: bool,
    /// Dependencies, annotations and events of the nodes of CUDA graphs.
    #[serde(default)]
    pub cuda_graph_nodes: bool,
    /// True if the files are compressed.
    pub gzip: bool,
    /// True if the host trace covers other steps than the device trace.
    #[serde(default)]
    pub interleave: bool,
}
