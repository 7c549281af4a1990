//! Reasons two traces could not be linked.

use crate::recorder_advice::{give_one_run, record_same_steps};
use etlink_model::{DeviceTrace, GlobalRank, TraceRecorder, advice, command_only};

/// Reason two traces could not be linked. Each message states what was found and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Only a few op names align.
    #[error(
        "the host trace and the device trace are from different programs: {aligned} of {ops} ops \
         match ({percent:.1} %){}",
        advice(self.remedy())
    )]
    DifferentPrograms {
        /// Number of ops that align.
        aligned: u64,
        /// Number of ops in the smaller trace.
        ops: u64,
        /// Percentage of ops that align.
        percent: f64,
        /// Recorder of the device trace.
        recorder: TraceRecorder,
    },
    /// The traces have no recorded step in common.
    #[error(
        "the host trace has {host} and the device trace has {device}: they were not recorded over \
         the same steps{}",
        advice(self.remedy())
    )]
    DifferentSteps {
        /// Steps of the host trace, as text.
        host: String,
        /// Steps of the device trace, as text.
        device: String,
        /// Recorder of the device trace.
        recorder: TraceRecorder,
    },
    /// The traces state different ranks.
    #[error(
        "the host trace is from rank {host}, but the device trace is from rank {device}{}",
        advice(self.remedy())
    )]
    DifferentRanks {
        /// Rank of the host trace.
        host: GlobalRank,
        /// Rank of the device trace.
        device: GlobalRank,
    },
    /// The host trace has no ops.
    #[error(
        "the host trace has no ops, only {nodes} root nodes: its observer was not running during \
         the work, or it recorded the parent of the working process{}",
        advice(self.remedy())
    )]
    EmptyHost {
        /// Number of nodes it has instead.
        nodes: usize,
    },
    /// The device trace has no timed events.
    #[error(
        "the device trace has no timed events that etlink recognizes ({found}): there is nothing \
         to link{}",
        advice(self.remedy())
    )]
    EmptyDevice {
        /// Description of the events it has instead.
        found: String,
    },
    /// The requested rank differs from the trace's.
    #[error(
        "--rank {asked} was given, but the device trace is from rank {found}{}",
        advice(self.remedy())
    )]
    WrongRank {
        /// Rank given by the user.
        asked: GlobalRank,
        /// Rank stated by the trace.
        found: GlobalRank,
    },
    /// The capture-time trace has no stream capture.
    #[error(
        "the trace contains no graph capture: none of its {calls} runtime calls begins a stream \
         capture{}{}",
        replay_hint(*replays),
        advice(self.remedy())
    )]
    NoCapture {
        /// Number of runtime calls in the trace.
        calls: usize,
        /// Number of graph launches among them.
        replays: usize,
    },
    /// The capture-time trace has no complete capture.
    #[error(
        "the trace contains no complete capture; incomplete captures: {captures} (first: {first}){}",
        advice(self.remedy())
    )]
    CutCapture {
        /// Number of truncated captures.
        captures: u64,
        /// First call that begins or ends a capture.
        first: String,
    },
    /// Nothing is launched in the captures of the capture-time trace.
    #[error(
        "the trace's captures contain no launches (first: {first}){}",
        advice(self.remedy())
    )]
    EmptyCapture {
        /// First call that begins a capture.
        first: String,
    },
    /// The launches of the capture-time trace do not name their kernels.
    #[error(
        "launches in captures do not name their kernels (captures: {captures}, first: {first}), so \
         kernels of a replay cannot be assigned to ops: ROCm traces name the kernels, CUDA traces \
         do not{}",
        advice(self.remedy())
    )]
    UnnamedCapture {
        /// Number of captures with unnamed launches.
        captures: u64,
        /// First unnamed launch.
        first: String,
    },
    /// The trace has more events than event numbers exist.
    #[error(
        "the trace has {rows} events; the limit per link is {limit}",
        limit = u32::MAX - 1
    )]
    TooManyEvents {
        /// Number of ops, calls and device rows in the trace.
        rows: usize,
    },
}

/// Explains a trace that has graph launches but no capture.
fn replay_hint(replays: usize) -> String {
    if replays == 0 {
        return String::new();
    }
    format!(" ({replays} of them launch graphs: is this the trace of the replay?)")
}

impl Error {
    /// Returns advice for the user; `None` if nothing helps.
    pub fn remedy(&self) -> Option<String> {
        let (remedy, option) = match self {
            Error::DifferentPrograms { recorder, .. } => {
                (give_one_run(*recorder), "--allow-mismatch")
            }
            Error::DifferentSteps { recorder, .. } => {
                (record_same_steps(*recorder), "--allow-mismatch")
            }
            Error::DifferentRanks { .. } => ("give the two traces of one rank", "--allow-mismatch"),
            Error::EmptyHost { .. } => (
                "record the working process, for example by running the whole command under `etlink record`",
                "leave --host out",
            ),
            Error::EmptyDevice { .. } => return Some("record it again".to_owned()),
            // the Python module has no such options: a user who sees this has typed one
            Error::WrongRank { .. } => ("leave --rank out", "--allow-mismatch"),
            Error::NoCapture { .. } => (
                "record while the graphs are captured, with ProfilerActivity.CUDA and \
                 record_shapes=True",
                "leave --capture out",
            ),
            Error::CutCapture { .. } => (
                "record from before a capture begins until after it ends",
                "leave --capture out",
            ),
            Error::EmptyCapture { .. } => (
                "give a trace that captures a graph with kernels",
                "leave --capture out",
            ),
            Error::UnnamedCapture { .. } => return Some("leave --capture out".to_owned()),
            Error::TooManyEvents { .. } => return None,
        };
        let option = command_only(format!(", or {option}"));
        Some(format!("{remedy}{option}"))
    }

    /// Returns [`Error::EmptyDevice`] with a description of the trace's events.
    pub fn empty_device(device: &DeviceTrace) -> Error {
        let events = device
            .events
            .iter()
            .map(|(kind, count)| format!("{count} of kind {:?}", kind.trim()));
        let anomalies = device
            .anomalies
            .iter()
            .map(|(kind, anomaly)| format!("{} {}", anomaly.count, kind.describe()));
        let found: Vec<String> = events.chain(anomalies).collect();
        Error::EmptyDevice {
            found: if found.is_empty() {
                "its event list is empty".into()
            } else {
                found.join(", ")
            },
        }
    }
}
