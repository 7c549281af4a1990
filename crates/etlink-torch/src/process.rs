//! What one process of the program reported.

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
    /// Name of the launcher that started it: with the process id, unique in a job.
    pub launcher: String,
    /// Version of Python.
    pub python: String,
    /// Version of PyTorch.
    pub torch: String,
    /// Version of CUDA or HIP that PyTorch was built for.
    pub device: Option<String>,
    /// Version of NCCL, where PyTorch has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl: Option<String>,
    /// Variables of the environment that change how PyTorch runs, and the ids of the job.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// How the clock of its machine lies to that of the output folder's file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<HostClock>,
    /// Rank; known once a cycle begins.
    pub rank: Option<u32>,
    /// Number of ranks, where the program says.
    pub world: Option<u32>,
    /// Number of ranks on its machine, where the program's launcher says.
    pub local_world: Option<u32>,
    /// Not one of the ranks that were asked for.
    pub excluded: bool,
    /// Another process of its rank records at the same time.
    pub duplicate: bool,
    /// Steps that the program made.
    pub steps: u64,
    /// A child that it has forked made steps, and was not recorded: it may have been a helper.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub trained_in_fork: bool,
    /// What made them: the class of the model or of the optimizer, or the function.
    pub counted: Option<String>,
    /// What was recorded.
    pub cycles: Vec<Cycle>,
    /// Features of the profiler that were asked for and that this PyTorch lacks.
    pub lacks: Vec<String>,
    /// What kept the process from being recorded.
    pub notes: Vec<String>,
    /// What was asked for while it ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<AskedRecording>,
    /// How long its steps took.
    pub step_times: Option<StepTimes>,
}

/// A process that was recorded, or would have been.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rank {
    /// What it reported.
    #[serde(flatten)]
    pub process: Process,
    /// Whether a trace was begun and is not there: the process died while it was recorded.
    #[serde(default)]
    pub lost: bool,
}

/// How long steps took, without the first step of the process: medians in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StepTimes {
    /// Steps outside of the cycles.
    pub plain_ns: u64,
    /// Number of these steps.
    pub plain_steps: u64,
    /// Recorded steps.
    pub recorded_ns: u64,
    /// Number of these steps.
    pub recorded_steps: u64,
}

impl StepTimes {
    /// How many times as long a recorded step took; none if plain steps took no time.
    pub fn slowdown(&self) -> Option<f64> {
        // A program whose plain steps took no time has no ratio, rather than an infinite one.
        (self.plain_ns > 0).then(|| self.recorded_ns as f64 / self.plain_ns as f64)
    }
}

/// The traces of one cycle of the schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Cycle {
    /// First step of the device trace, from 0.
    pub first_step: u64,
    /// Last step of the device trace.
    pub last_step: u64,
    /// First and last step of the host trace, where these are others: with `--interleave`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_steps: Option<(u64, u64)>,
    /// Whether it is of a profiler that the program made itself, whose own steps these are.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_profiler: bool,
    /// The phase of Lightning that these steps are of: `train`, `validate`, `test` or `predict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Whether the last step came to its end before the program did.
    pub whole: bool,
    /// Options whose recordings could not be written, such as `thread_waits`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Host trace, relative to the manifest.
    pub host_trace: String,
    /// Device trace, relative to the manifest.
    pub device_trace: String,
    /// Dump of PyTorch's flight recorder beside them, relative to the manifest; none where the
    /// program called no collective, or PyTorch recorded none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flight_recorder: Option<String>,
    /// Snapshot of the memory of CUDA devices beside them, relative to the manifest; none where
    /// none was asked for, or the program used no CUDA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_snapshot: Option<String>,
    /// The machine's clocks before the first recorded step.
    pub begin: Option<Clock>,
    /// The machine's clocks after the last recorded step.
    pub end: Option<Clock>,
    /// The machine's clocks when the files were written.
    pub clock: Clock,
}

/// Two clocks read at one moment, in ns: tells how the clocks of several machines and boots lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Clock {
    /// Since 1970.
    pub unix_ns: i64,
    /// Since the machine's own origin, mostly its start.
    pub monotonic_ns: i64,
}

/// How the clock of a machine lies to one that all machines of a job see: the times that the file
/// system of the output folder gives to new files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostClock {
    /// How much the other clock is ahead, ns.
    pub offset_ns: i64,
    /// The offset is no further from the true one than this, ns.
    pub uncertainty_ns: i64,
    /// The other clock.
    pub against: String,
}

/// What [`HostClock`] is measured against.
pub const FILE_SYSTEM: &str = "file system of the output folder";

impl Cycle {
    /// First step that is in one of the traces.
    pub fn first_recorded(&self) -> u64 {
        self.host_steps.map_or(self.first_step, |(first, _)| first)
    }
}

impl Process {
    /// Reads the report of a process, and the number of steps that it wrote beside it.
    ///
    /// # Errors
    /// The report is no JSON of this form.
    pub fn read(report: &[u8], steps: &[u8]) -> Result<Process, serde_json::Error> {
        // A report of another version may lack keys, each of which has a default.
        let mut process: Process = etlink_json::from_slice(report)?;
        // The hook makes the file empty before it counts: a process that died early left no number.
        let steps = std::str::from_utf8(steps).unwrap_or("");
        process.steps = steps.trim().parse().unwrap_or(0);
        Ok(process)
    }
}
