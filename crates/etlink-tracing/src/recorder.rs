//! Interface of a recorder.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// Any error of a recorder.
pub type RecorderError = Box<dyn std::error::Error + Send + Sync>;

/// Writes one kind of trace for the windows of a session.
///
/// `prepare` precedes the first `start`, and the `start` of each cycle of a PyTorch schedule.
/// `stop` follows only a successful `start`, `save` only a successful `stop`. A recorder whose
/// `start` or `stop` fails counts as not running.
pub trait Recorder: Send {
    /// Returns the recorder's name for error messages.
    fn name(&self) -> &str;

    /// Prepares for recording and discards unsaved data. May be called again without a `start`.
    ///
    /// # Errors
    /// Recording is impossible. The cycle is abandoned for all recorders.
    fn prepare(&mut self) -> Result<(), RecorderError>;

    /// Starts recording.
    ///
    /// # Errors
    /// The recorder did not start. The cycle is abandoned for all recorders.
    fn start(&mut self) -> Result<(), RecorderError>;

    /// Stops recording.
    ///
    /// # Errors
    /// The recording is lost. The other recorders are stopped and saved.
    fn stop(&mut self) -> Result<(), RecorderError>;

    /// Saves the recording since `start`.
    ///
    /// # Errors
    /// The recording is lost. The other recorders are saved.
    fn save(&mut self, cycle: &RecordedCycle) -> Result<(), RecorderError>;

    /// Excludes an activity from the recording, or includes it again, until `stop`. The default
    /// does nothing: the recorder has no such activity.
    ///
    /// # Errors
    /// The change failed; recording continues as before.
    fn toggle(&mut self, _activity: ProfilerActivity, _on: bool) -> Result<(), RecorderError> {
        Ok(())
    }

    /// Opens the range of a step on this thread while recording: PyTorch's `ProfilerStep#<step>`.
    /// The default does nothing.
    fn enter_step(&mut self, _step: u64) {}

    /// Closes the range opened by [`enter_step`](Recorder::enter_step). The default does nothing.
    fn exit_step(&mut self) {}

    /// Ends the session; no other call follows. A file that spans all cycles is completed here.
    ///
    /// # Errors
    /// The file could not be completed.
    fn finish(&mut self) -> Result<(), RecorderError> {
        Ok(())
    }
}

/// Activity to record (`torch.profiler.ProfilerActivity`).
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
    /// Number of the cycle among the saved ones, from 0.
    pub number: u64,
    /// Recorded steps, half-open.
    pub steps: Range<u64>,
    /// True if the session ended inside the last of these steps, which may be partial or empty.
    pub cut: bool,
}

impl RecordedCycle {
    /// Returns the path of a file of this cycle: `cycle_2/kineto_trace_0.json` for
    /// `kineto_trace_0.json`. Each folder is a separate run for `etlink merge`.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        Path::new(&format!("cycle_{}", self.number)).join(file)
    }
}
