//! Why two traces were not linked.

use crate::recorder_advice::{give_one_run, record_same_steps};
use etlink_model::{DeviceTrace, GlobalRank, TraceRecorder, advice, command_only};

/// See the variants. Each says what was seen and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Few names align.
    #[error(
        "the host trace and the device trace are of different programs: {aligned} of {ops} ops \
         align ({percent:.1} %){}",
        advice(self.remedy())
    )]
    DifferentPrograms {
        /// Ops that align.
        aligned: u64,
        /// Ops of the smaller trace.
        ops: u64,
        /// Their share.
        percent: f64,
        /// Who recorded the device trace.
        recorder: TraceRecorder,
    },
    /// The recorded steps have nothing in common.
    #[error(
        "the host trace has {host} and the device trace has {device}: they were not recorded over \
         the same steps{}",
        advice(self.remedy())
    )]
    DifferentSteps {
        /// Steps of the host trace.
        host: String,
        /// Steps of the device trace.
        device: String,
        /// Who recorded the device trace.
        recorder: TraceRecorder,
    },
    /// Both traces say which rank they are of.
    #[error(
        "the host trace is of rank {host} and the device trace of rank {device}{}",
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
        "the host trace has no ops, only {nodes} root nodes: its observer did not run while the \
         program did, or it is of the parent of the process that works{}",
        advice(self.remedy())
    )]
    EmptyHost {
        /// How many nodes it has.
        nodes: usize,
    },
    /// The device trace has no timed events.
    #[error(
        "the device trace has no timed events that etlink knows ({found}): there is nothing to \
         link{}",
        advice(self.remedy())
    )]
    EmptyDevice {
        /// What it has instead.
        found: String,
    },
    /// The ranks differ.
    #[error(
        "--rank {asked} was given but the device trace is of rank {found}{}",
        advice(self.remedy())
    )]
    WrongRank {
        /// What the user said.
        asked: GlobalRank,
        /// What the trace says.
        found: GlobalRank,
    },
    /// The capture-time trace has no capture.
    #[error(
        "no graph is captured in it: of its {calls} runtime calls none begins a stream \
         capture{}{}",
        replay_hint(*replays),
        advice(self.remedy())
    )]
    NoCapture {
        /// Runtime calls that it has.
        calls: usize,
        /// Graph launches among them.
        replays: usize,
    },
    /// No capture of the capture-time trace is there from begin to end.
    #[error(
        "no capture is in it from begin to end: {captures} are cut (first: {first}){}",
        advice(self.remedy())
    )]
    CutCapture {
        /// Captures that are cut.
        captures: u64,
        /// The first call that begins or ends one.
        first: String,
    },
    /// The captures of the capture-time trace have no launches.
    #[error(
        "nothing is launched in its captures (first: {first}){}",
        advice(self.remedy())
    )]
    EmptyCapture {
        /// The first call that begins one.
        first: String,
    },
    /// The launches of the capture-time trace do not say what they launch.
    #[error(
        "launches of its {captures} captures do not name their kernels (first: {first}), so \
         nothing tells which kernel of a replay came from which op: ROCm traces name \
         them, CUDA traces do not{}",
        advice(self.remedy())
    )]
    UnnamedCapture {
        /// How many captures have launches without names.
        captures: u64,
        /// The first launch without a name.
        first: String,
    },
    /// More rows than row numbers.
    #[error(
        "the trace has {rows} events, more than the {limit} that one link can hold",
        limit = u32::MAX - 1
    )]
    TooManyEvents {
        /// Ops, calls and device rows of the trace.
        rows: usize,
    },
}

/// What a trace with graph launches and no capture probably is.
fn replay_hint(replays: usize) -> String {
    if replays == 0 {
        return String::new();
    }
    format!(" ({replays} launch graphs: is it the trace of the replay?)")
}

impl Error {
    /// What the user can do.
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
                "record the process that works: `etlink record` around the whole command does",
                "leave --host out",
            ),
            Error::EmptyDevice { .. } => return Some("record it again".to_owned()),
            // the Python module has no such options: who meets this has typed one
            Error::WrongRank { .. } => ("leave --rank out", "--allow-mismatch"),
            Error::NoCapture { .. } => (
                "record while the graphs are captured, with the profiler's CUDA activity and \
                 record_shapes=True",
                "leave --capture out",
            ),
            Error::CutCapture { .. } => (
                "record from before a capture until after it",
                "leave --capture out",
            ),
            Error::EmptyCapture { .. } => (
                "give the trace of the capture of a graph with kernels",
                "leave --capture out",
            ),
            Error::UnnamedCapture { .. } => return Some("leave --capture out".to_owned()),
            Error::TooManyEvents { .. } => return None,
        };
        let option = command_only(format!(", or {option}"));
        Some(format!("{remedy}{option}"))
    }

    /// [`Error::EmptyDevice`] with what the trace has.
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
                "its list is empty".into()
            } else {
                found.join(", ")
            },
        }
    }
}
