//! What one process of the program reported.

use serde::{Deserialize, Serialize};

/// A process that imported torch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Name of the machine.
    pub host: String,
    /// Version of Python.
    pub python: String,
    /// Version of PyTorch.
    pub torch: String,
    /// Version of CUDA or HIP that PyTorch was built for.
    pub device: Option<String>,
    /// Rank; known once a cycle begins.
    pub rank: Option<u32>,
    /// Number of ranks, where the program says.
    pub world: Option<u32>,
    /// Not one of the ranks that were asked for.
    pub excluded: bool,
    /// Steps that the program made.
    pub steps: u64,
    /// What made them: the class of the model or of the optimizer, or the function.
    pub counted: Option<String>,
    /// What was recorded.
    pub cycles: Vec<Cycle>,
    /// Features of the profiler that were asked for and that this PyTorch lacks.
    pub lacks: Vec<String>,
    /// What kept the process from being recorded.
    pub notes: Vec<String>,
}

/// The traces of one cycle of the schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Cycle {
    /// First step recorded, from 0.
    pub first_step: u64,
    /// Last step recorded.
    pub last_step: u64,
    /// Whether the last step came to its end before the program did.
    pub whole: bool,
    /// Host trace, relative to the manifest.
    pub host_trace: String,
    /// Device trace, relative to the manifest.
    pub device_trace: String,
    /// The machine's clocks when the files were written.
    pub clock: Clock,
}

/// Two clocks read at one moment, in ns: tells how the clocks of several machines and boots lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Clock {
    /// Since 1970.
    pub unix_ns: i64,
    /// Since the machine's own origin, mostly its start.
    pub monotonic_ns: i64,
}

impl Process {
    /// Reads the report of a process, and the number of steps that it wrote beside it.
    ///
    /// # Errors
    /// The report is no JSON of this form.
    pub fn read(report: &[u8], steps: &[u8]) -> Result<Process, serde_json::Error> {
        let mut process: Process = etlink_json::from_slice(report)?;
        process.steps = std::str::from_utf8(steps)
            .ok()
            .and_then(|steps| steps.trim().parse().ok())
            .unwrap_or(0);
        Ok(process)
    }
}
