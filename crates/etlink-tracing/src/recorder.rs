//! What a recorder has to do.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// Whatever went wrong in a recorder.
pub type RecorderError = Box<dyn std::error::Error + Send + Sync>;

/// Writes one kind of trace, of the windows that a session gives it.
///
/// `prepare` comes before the first `start`, and before `start` of each cycle of a PyTorch
/// schedule. `stop` comes only after a `start` that succeeded, `save` only after a `stop` that did.
/// A recorder whose `start` or `stop` fails counts as not running.
pub trait Recorder: Send {
    /// What it is called where it fails.
    fn name(&self) -> &str;

    /// Gets ready to record, and forgets what it recorded and was not told to save. May come again
    /// without a `start`.
    ///
    /// # Errors
    /// It cannot record. The cycle is given up for all recorders.
    fn prepare(&mut self) -> Result<(), RecorderError>;

    /// Records from now on.
    ///
    /// # Errors
    /// It does not record. The cycle is given up for all recorders.
    fn start(&mut self) -> Result<(), RecorderError>;

    /// Records no longer.
    ///
    /// # Errors
    /// What it recorded is lost. The other recorders are stopped and saved.
    fn stop(&mut self) -> Result<(), RecorderError>;

    /// Keeps what it recorded since `start`.
    ///
    /// # Errors
    /// What it recorded is lost. The other recorders are saved.
    fn save(&mut self, cycle: &RecordedCycle) -> Result<(), RecorderError>;

    /// Leaves an activity out, or takes it in again, while it records. Holds until `stop`. By
    /// default nothing happens: the recorder has no such activity.
    ///
    /// # Errors
    /// It could not; it goes on as before.
    fn toggle(&mut self, _activity: ProfilerActivity, _on: bool) -> Result<(), RecorderError> {
        Ok(())
    }

    /// While it records, the range of a step begins on this thread: PyTorch's
    /// `ProfilerStep#<step>`. By default nothing happens.
    fn enter_step(&mut self, _step: u64) {}

    /// And ends.
    fn exit_step(&mut self) {}

    /// The session is over; nothing else is called after this. A file that spans all cycles is
    /// completed here.
    ///
    /// # Errors
    /// The file could not be completed.
    fn finish(&mut self) -> Result<(), RecorderError> {
        Ok(())
    }
}

/// What can be recorded (`torch.profiler.ProfilerActivity`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProfilerActivity {
    /// Operators and runtime calls of host threads.
    Cpu,
    /// CUDA and ROCm devices.
    Cuda,
    /// Intel GPUs.
    Xpu,
    /// Meta's accelerators.
    Mtia,
    /// Habana accelerators.
    Hpu,
    /// Devices of out-of-tree backends.
    PrivateUse1,
}

/// A recorded window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCycle {
    /// Number of the cycle among those that are saved, from 0.
    pub number: u64,
    /// The recorded steps, half-open.
    pub steps: Range<u64>,
    /// The session ended inside the last of these steps, of which there may be only a part, or
    /// nothing.
    pub cut: bool,
}

impl RecordedCycle {
    /// Where a file of this cycle belongs: `cycle_2/kineto_trace_0.json` for `kineto_trace_0.json`.
    /// Each folder is a run of its own for `etlink merge`.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        Path::new(&format!("cycle_{}", self.number)).join(file)
    }
}
