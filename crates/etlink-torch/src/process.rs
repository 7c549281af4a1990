//! Reports of single processes of the recorded program.

use crate::AskedRecording;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process that imported torch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Name of the machine.
    pub host: String,
    /// Name of the launcher that started the process; unique in a job together with the process id.
    pub launcher: String,
    /// Version of Python.
    pub python: String,
    /// Version of PyTorch.
    pub torch: String,
    /// Version of CUDA or HIP that PyTorch was built for.
    pub device: Option<String>,
    /// Version of NCCL, if PyTorch has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl: Option<String>,
    /// Environment variables that affect PyTorch, and the ids of the job.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Offset between the machine's clock and the one of the output folder's file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<HostClock>,
    /// Rank of the process; known once a cycle begins.
    pub rank: Option<u32>,
    /// Number of ranks, if the program states it.
    pub world: Option<u32>,
    /// Number of ranks on this machine, if the program's launcher states it.
    pub local_world: Option<u32>,
    /// True if the rank is not among the requested ones.
    pub excluded: bool,
    /// True if another process of the same rank records at the same time.
    pub duplicate: bool,
    /// Number of steps that the program made.
    pub steps: u64,
    /// True if a forked child made steps that were not recorded; the child may have been a helper.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub trained_in_fork: bool,
    /// Class of the model or optimizer, or function, whose calls were counted as steps.
    pub counted: Option<String>,
    /// Recorded cycles.
    pub cycles: Vec<Cycle>,
    /// Requested profiler features that this version of PyTorch lacks.
    pub lacks: Vec<String>,
    /// Reasons why the process was not recorded.
    pub notes: Vec<String>,
    /// Recordings requested at run time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<AskedRecording>,
    /// Step durations with and without recording.
    pub step_times: Option<StepTimes>,
}

/// A process that was recorded, or would have been.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rank {
    /// Report of the process.
    #[serde(flatten)]
    pub process: Process,
    /// True if a trace was begun but is missing, because the process died during the recording.
    #[serde(default)]
    pub lost: bool,
}

/// Median step durations in ns, without the first step of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StepTimes {
    /// Median of steps outside the cycles.
    pub plain_ns: u64,
    /// Number of steps outside the cycles.
    pub plain_steps: u64,
    /// Median of recorded steps.
    pub recorded_ns: u64,
    /// Number of recorded steps.
    pub recorded_steps: u64,
}

impl StepTimes {
    /// Returns the ratio of recorded to plain step time; `None` if plain steps took no time.
    pub fn slowdown(&self) -> Option<f64> {
        // Without plain step time there is no ratio, rather than an infinite one.
        (self.plain_ns > 0).then(|| self.recorded_ns as f64 / self.plain_ns as f64)
    }
}

/// Traces of one cycle of the schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Cycle {
    /// First step of the device trace, from 0.
    pub first_step: u64,
    /// Last step of the device trace.
    pub last_step: u64,
    /// First and last step of the host trace if they differ from the device trace's: with
    /// `--interleave`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_steps: Option<(u64, u64)>,
    /// True if the cycle and its step numbers are from a profiler that the program created itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_profiler: bool,
    /// Phase of Lightning that contains the steps: `train`, `validate`, `test` or `predict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// True if the last step finished before the program ended.
    pub whole: bool,
    /// Options with recordings that could not be written, such as `thread_waits`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Host trace, relative to the manifest.
    pub host_trace: String,
    /// Device trace, relative to the manifest.
    pub device_trace: String,
    /// Dump of PyTorch's flight recorder, relative to the manifest; `None` if the program called no
    /// collective, or PyTorch recorded none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flight_recorder: Option<String>,
    /// Snapshot of the memory of CUDA devices, relative to the manifest; `None` if it was not
    /// requested, or the program did not use CUDA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_snapshot: Option<String>,
    /// The machine's clocks before the first recorded step.
    pub begin: Option<Clock>,
    /// The machine's clocks after the last recorded step.
    pub end: Option<Clock>,
    /// The machine's clocks when the files were written.
    pub clock: Clock,
}

/// Two clocks read at the same moment, in ns; relates the clocks of several machines and boots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Clock {
    /// Time since 1970.
    pub unix_ns: i64,
    /// Time since the machine's own origin, usually boot.
    pub monotonic_ns: i64,
}

/// Offset between a machine's clock and one that all machines of a job see: the times that the file
/// system of the output folder gives to new files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostClock {
    /// Lead of the shared clock over the machine's, ns.
    pub offset_ns: i64,
    /// Upper bound of the offset's error, ns.
    pub uncertainty_ns: i64,
    /// Name of the shared clock.
    pub against: String,
}

/// Reference clock of [`HostClock`].
pub const FILE_SYSTEM: &str = "file system of the output folder";

impl Cycle {
    /// Returns the first step that is in one of the traces.
    pub fn first_recorded(&self) -> u64 {
        self.host_steps.map_or(self.first_step, |(first, _)| first)
    }
}

impl Process {
    /// Reads the report of a process, and the step count from its separate file.
    ///
    /// # Errors
    /// The report is not JSON of this form.
    pub fn read(report: &[u8], steps: &[u8]) -> Result<Process, serde_json::Error> {
        // Reports of other versions may lack keys; each key has a default.
        let mut process: Process = etlink_json::from_slice(report)?;
        // The hook creates the file empty before it counts, so a process that died early left no
        // number.
        let steps = std::str::from_utf8(steps).unwrap_or("");
        process.steps = steps.trim().parse().unwrap_or(0);
        Ok(process)
    }
}
