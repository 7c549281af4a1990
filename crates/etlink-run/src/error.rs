//! Errors of opening, linking, joining or writing a run.
//!
//! An error contains the failure, its place, and a remedy. The printed message is the error and its
//! sources, separated by `: `, see [`text::error_chain`](crate::text::error_chain).

use crate::cancel::Cancelled;
use crate::file_error::FileError;
use crate::input::{InputError, InputKind};
use crate::memory::limit::{MemoryLimit, OversizedRank, enough_size};
use crate::output::OutputError;
use crate::prepared::{PrepareError, PreparedShard};
use crate::slice::TraceSlice;
use crate::text;
use etlink_model::{AdvisedError, Anomalies, Setting, advice};
use std::error::Error;
use std::path::{Path, PathBuf};

/// Reason that a rank with a host trace has no device trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDevice {
    /// Several device traces claim the rank. A note of the run names them.
    Unsure,
    /// The host trace's rank is unknown.
    UnknownRank,
    /// The source has no device trace of the rank.
    Missing,
}

/// Error of work on a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A file cannot be opened, or is of the wrong kind.
    // transparent: these errors name file and reason themselves, and a chain is printed as one line
    #[error(transparent)]
    Input(#[from] InputError),
    /// A result cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Results of ranks cannot be prepared.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// Results were only to be prepared, and are now in the cache.
    #[error(transparent)]
    Prepared(Box<PreparedShard>),
    /// A file or folder cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A caller's job on a rank failed.
    #[error(transparent)]
    // no type parameter, because every function that returns an error would need it too
    Job(Box<dyn Error + Send + Sync>),

    /// A source that must be a folder is not one.
    #[error("{} is not a folder{}", path.display(), advice(self.remedy()))]
    NotAFolder {
        /// Path of the source.
        path: PathBuf,
    },
    /// A folder has neither traces nor written graphs.
    #[error(
        "{}: the folder has no host or device traces (names such as torch_et_0.json.gz and \
         kineto_trace_0.json.gz)",
        folder.display()
    )]
    NoTraces {
        /// Path of the folder.
        folder: PathBuf,
    },
    /// A source has written graphs, but traces are needed.
    #[error(
        "{source_name} has no host or device traces, only graphs that etlink wrote; {}",
        self.remedy().unwrap_or_default()
    )]
    OnlyWrittenGraphs {
        /// Name of the source, as given.
        source_name: String,
    },
    /// None of the given files is a trace.
    #[error("none of the {files} files is a host or device trace")]
    NoTraceFiles {
        /// Number of given files.
        files: usize,
    },
    /// A folder has several runs, but one is needed.
    #[error(
        "{source_name} has {count} runs, each in its own folder; {}",
        self.remedy().unwrap_or_default()
    )]
    SeveralRuns {
        /// Name of the source, as given.
        source_name: String,
        /// Number of runs in the source.
        count: usize,
        /// Folder of the first run.
        one: PathBuf,
        /// Folder of the second run.
        other: PathBuf,
        /// True if the second folder is inside the first, so that the first cannot be given alone.
        is_nested: bool,
    },
    /// No trace of a run has a certain rank, because several traces claim one: the run may be
    /// several.
    #[error(
        "{source_name}: no trace can be used because no rank is certain: {count} device traces claim \
         rank {rank} ({one}, {other}{}){}",
        if *count > 2 { ", …" } else { "" },
        advice(self.remedy())
    )]
    UnsureRanks {
        /// Folder of the run.
        source_name: String,
        /// First rank that several traces claim.
        rank: i64,
        /// Number of traces that claim the rank.
        count: usize,
        /// Name of the first of these traces.
        one: String,
        /// Name of the second of these traces.
        other: String,
    },
    /// A folder has written graphs of several runs, but one run is needed.
    #[error(
        "{source_name} has written graphs of {count} runs; {}",
        self.remedy().unwrap_or_default()
    )]
    SeveralWrittenRuns {
        /// Name of the source, as given.
        source_name: String,
        /// Number of runs in the source.
        count: usize,
        /// Folder of the first run.
        folder: PathBuf,
    },
    /// A source has several ranks, but one is needed.
    #[error("{source_name} has {count} ranks{}", advice(self.remedy()))]
    SeveralRanks {
        /// Name of the source, as given.
        source_name: String,
        /// Number of ranks in the source.
        count: usize,
    },
    /// An option for a single trace is given for a folder.
    #[error(
        "--host, --metrics and --rank apply to a single trace; in a folder, file names tell which \
         files belong together"
    )]
    OneTraceOption,
    /// Ranks are selected from a source that is a file.
    #[error(
        "{} selects traces in a folder, but {source_name} is a file",
        Setting::Ranks
    )]
    RanksOfFile {
        /// Name of the source, as given.
        source_name: String,
    },
    /// Two traces would be read from standard input.
    #[error("only one of --host, the device trace and --capture can be standard input")]
    SeveralFromStdin,
    /// A rank has no device trace.
    #[error(
        "{}: a host trace has no times, so it cannot be linked alone; {}",
        host.display(),
        match why {
            NoDevice::Unsure => "which device trace belongs to it is unclear, see the notes",
            NoDevice::UnknownRank => "its rank is unknown: name it such as `torch_et_0`",
            NoDevice::Missing => "no device trace of the same rank is next to it",
        }
    )]
    NoDeviceTrace {
        /// Path of the rank's host trace.
        host: PathBuf,
        /// Reason that the device trace is missing.
        why: NoDevice,
    },
    /// The requested slice contains nothing of a trace.
    #[error("{name}: {slice} selects nothing: {why}")]
    EmptySlice {
        /// Name of the trace.
        name: String,
        /// The requested slice.
        slice: TraceSlice,
        /// Content of the trace, or the reason why the slice is empty.
        why: String,
    },
    /// A slice of a written graph is requested.
    #[error("{name}: {slice} applies to recordings, but this is a written graph{}", advice(Some("give the traces it was made from".to_owned())))]
    SliceOfGraph {
        /// Name of the graph.
        name: String,
        /// The requested slice.
        slice: TraceSlice,
    },
    /// The source has no trace of a requested rank.
    #[error("no traces for the ranks requested with {}", Setting::Ranks)]
    NoRankAsked,
    /// All traces were read, and each was excluded from its run.
    #[error("no rank can be used: {first}")]
    AllExcluded {
        /// Reason why the first trace was excluded.
        first: String,
    },
    /// None of several traces could be used.
    #[error("none of {traces} traces can be used")]
    NoTraceTaken {
        /// Number of traces.
        traces: usize,
        /// Error of the first refused trace, or of the first trace if none was refused.
        #[source]
        first: Box<RunError>,
    },

    /// A trace is damaged, or its host trace is of another run, and such traces were to be refused.
    #[error("{file}: refused under {}: {what}", Setting::Strict)]
    Refused {
        /// Name of the file.
        file: String,
        /// Damage, or the mismatch of the two traces.
        what: String,
    },
    /// Both traces of a rank are the same file.
    #[error(
        "--host and --device are the same file, {}{}",
        path.display(),
        advice(self.remedy())
    )]
    SameFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// A host trace cannot be read.
    #[error("{name}")]
    HostTrace {
        /// Name of the file.
        name: String,
        /// Error and its position.
        source: etlink_host::Error,
    },
    /// A device trace cannot be read.
    #[error("{name}")]
    DeviceTrace {
        /// Name of the file.
        name: String,
        /// Error and its position.
        source: etlink_kineto::Error,
    },
    /// An XLA profile cannot be read.
    #[error("{name}")]
    XlaProfile {
        /// Name of the file.
        name: String,
        /// Error and its position.
        source: etlink_xla::Error,
    },
    /// A flight recorder dump cannot be read.
    #[error("{name}")]
    FlightDump {
        /// Name of the file.
        name: String,
        /// Error and its position.
        source: etlink_flight_recorder::Error,
    },
    /// A flight recorder dump is empty.
    #[error("{name} is empty: its rank exited before it wrote the dump{}", advice(self.remedy()))]
    EmptyDump {
        /// Name of the file.
        name: String,
    },
    /// A flight recorder dump is truncated before the end of its first collective.
    #[error(
        "{name}: the dump has no complete collective ({bytes} bytes read){}",
        advice(self.remedy())
    )]
    LostDump {
        /// Name of the file.
        name: String,
        /// Number of bytes read.
        bytes: u64,
    },
    /// A log of NCCL's inspector cannot be read.
    #[error("{name}")]
    InspectorLog {
        /// Name of the file.
        name: String,
        /// Error and its position.
        source: etlink_nccl_inspector::Error,
    },
    /// A source has logs of NCCL's inspector, but traces are needed.
    #[error(
        "{}: the folder has no host or device traces, only NCCL inspector logs; {}",
        folder.display(),
        self.remedy().unwrap_or_default()
    )]
    OnlyInspectorLogs {
        /// Path of the folder.
        folder: PathBuf,
    },
    /// A source has flight recorder dumps, but traces are needed.
    #[error(
        "{}: the folder has no host or device traces, only flight recorder dumps; {}",
        folder.display(),
        self.remedy().unwrap_or_default()
    )]
    OnlyFlightDumps {
        /// Path of the folder.
        folder: PathBuf,
    },
    /// A Nsight Systems export cannot be read.
    #[cfg(feature = "nsys")]
    #[error("{name}")]
    NsysTrace {
        /// Name of the file.
        name: String,
        /// Error of the reader.
        source: etlink_nsys::Error,
    },
    /// A database with several recorded processes is compressed, or comes from standard input.
    #[cfg(feature = "sqlite")]
    #[error(
        "{name} has {count} processes with device work, which can be separated only in an \
         uncompressed file{}",
        advice(self.remedy())
    )]
    PackedProcesses {
        /// Name of the file.
        name: String,
        /// Number of processes with work on devices.
        count: usize,
    },
    /// No process of a report is the requested rank.
    #[error(
        "{name}: no process is rank {rank}; the processes are ranks {}{}",
        listed_ranks(ranks),
        advice(self.remedy())
    )]
    NoProcessOfRank {
        /// Name of the file.
        name: String,
        /// Requested rank.
        rank: i64,
        /// Ranks of the report's processes.
        ranks: Vec<i64>,
    },
    /// A database cannot be opened.
    #[cfg(feature = "sqlite")]
    #[error("{name}")]
    Database {
        /// Name of the file.
        name: String,
        /// Error of the database.
        source: etlink_sqlite::Error,
    },
    /// A measurement file cannot be read.
    #[error("{name}")]
    Measurement {
        /// Name of the file.
        name: String,
        /// Error of the reader.
        source: etlink_metrics::Error,
    },
    /// A file given as a measurement is not one.
    #[error(
        "{} is {}, not a measurement{}",
        path.display(),
        kind.describe(),
        advice(self.remedy())
    )]
    NoMeasurement {
        /// Path of the file.
        path: PathBuf,
        /// Detected kind of the file.
        kind: InputKind,
    },
    /// Two files with metrics are given for one rank.
    #[error(
        "{} is a second file with kernel metrics{}",
        path.display(),
        advice(self.remedy())
    )]
    SeveralMetricFiles {
        /// Path of the second file.
        path: PathBuf,
    },
    /// A ROCm recording cannot be read.
    #[cfg(feature = "rocm")]
    #[error("{name}")]
    RocmTrace {
        /// Name of the file.
        name: String,
        /// Error and its position.
        source: etlink_rocm::Error,
    },
    /// A written graph cannot be read.
    #[error("{name}")]
    WrittenGraph {
        /// Name of the file.
        name: String,
        /// Error and its position.
        source: etlink_chakra::read::ChakraReadError,
    },
    /// A merged trace (ET+) does not contain the recording of its source traces.
    #[error(
        "{name} is a merged trace (ET+) that does not contain the traces it was made \
         from{}",
        advice(self.remedy())
    )]
    NoRecording {
        /// Name of the file.
        name: String,
    },
    /// Traces were modified while they were read.
    #[error("{inputs} changed while they were read{}", advice(self.remedy()))]
    ChangedInputs {
        /// Names of the files.
        inputs: String,
    },
    /// A merged trace (ET+) is truncated or damaged, so that its recording is missing.
    #[error(
        "{name} is a merged trace (ET+) that does not contain the traces it was made from: {damage}{}",
        advice(self.remedy())
    )]
    DamagedMerged {
        /// Name of the file.
        name: String,
        /// Description of the damage.
        damage: String,
    },
    /// The recording in a merged trace (ET+) is unusable.
    #[error("{name}")]
    Recording {
        /// Name of the file.
        name: String,
        /// Error of the recording.
        source: etlink_chakra::etplus::RecordingError,
    },
    /// A written graph has no nodes.
    #[error(
        "{name}: the graph has no nodes{}{}",
        damage.as_ref().map_or(String::new(), |damage| format!(", {damage}")),
        advice(self.remedy())
    )]
    NoNodes {
        /// Name of the file.
        name: String,
        /// Damage of the file, such as truncation; `None` if it is intact.
        damage: Option<String>,
    },
    /// The list of process groups next to written graphs cannot be read.
    #[error("{}: not a list of ranks per group, such as {{\"1\": [0, 1]}}", path.display())]
    GroupList {
        /// Path of the file.
        path: PathBuf,
        /// Error and its position.
        source: serde_json::Error,
    },
    /// The thread that reads the host trace ended early.
    #[error("reading the host trace failed")]
    HostReader,
    /// Traces cannot be linked.
    #[error("{inputs}")]
    Link {
        /// Names of the files.
        inputs: String,
        /// Error of the linker.
        source: etlink_link::Error,
    },
    /// A graph cannot be replayed.
    #[error("{}", path.display())]
    Replay {
        /// Path of the result that was to be written.
        path: PathBuf,
        /// Error of the replay.
        source: etlink_replay::Error,
    },

    /// A single rank needs more memory than available.
    #[error("{0}")]
    // boxed, because every result of the library would otherwise be as large
    OversizedRank(Box<OversizedRank>),
    /// The kept results of all ranks need more memory than available.
    #[error(
        "{source_name}: the results of all {ranks} ranks need about {}, but {limit}{}",
        enough_size(*needed),
        advice(self.remedy())
    )]
    RanksTooLarge {
        /// Name of the source, as given.
        source_name: String,
        /// Number of ranks in the source.
        ranks: usize,
        /// Memory that the process would hold with all ranks, bytes.
        needed: u64,
        /// Available memory.
        limit: MemoryLimit,
    },

    /// The requested format or compression cannot be read by any simulator.
    #[error("simulators read only plain .et files; {}", self.remedy().unwrap_or_default())]
    SimulatorFormat,
    /// A simulator needs a file per rank, and too many ranks of the run have no trace.
    #[error(
        "{}: only {traces} of {ranks} ranks have traces: more than {most} ranks are missing, and \
         ASTRA-sim needs a file per rank{}",
        folder.display(),
        advice(self.remedy())
    )]
    TooManyAbsent {
        /// Folder of the run's results.
        folder: PathBuf,
        /// Number of ranks in the run.
        ranks: u64,
        /// Number of ranks with traces.
        traces: usize,
        /// Maximum number of absent ranks.
        most: usize,
    },
}

impl From<PreparedShard> for RunError {
    fn from(prepared: PreparedShard) -> RunError {
        RunError::Prepared(Box::new(prepared))
    }
}

impl RunError {
    /// Creates the error for a trace that is refused for damage or for a host trace of another run.
    pub fn refused_trace(trace: &Path, anomalies: &Anomalies) -> RunError {
        let damage = text::damage(anomalies);
        RunError::Refused {
            file: trace.display().to_string(),
            what: damage.unwrap_or_else(|| "the two traces are from two runs".to_owned()),
        }
    }

    /// Returns the remedy of this error alone. For errors with a source, see [`remedy_of`].
    pub fn remedy(&self) -> Option<String> {
        let remedy = match self {
            RunError::Input(error) => return error.remedy(),
            RunError::Output(error) => return error.remedy(),
            RunError::Job(error) => return remedy_of(&**error),
            RunError::OversizedRank(rank) => return Some(rank.remedy()),
            RunError::NotAFolder { .. } => "give the folder with the traces of all ranks",
            RunError::OnlyWrittenGraphs { .. } => {
                "give the folder of the traces. `etlink replay`, `analyze`, `report` and \
                 `check` take graphs"
            }
            RunError::ChangedInputs { .. } => "link them when they are complete",
            RunError::EmptyDump { .. } => {
                "the other ranks' dumps still show which ranks wait for it. Give ranks more time to \
                 write with TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"
            }
            RunError::LostDump { .. } => "copy it again from its origin",
            RunError::OnlyFlightDumps { .. } => {
                "give them to `etlink ranks`, which reports where each rank hangs"
            }
            RunError::OnlyInspectorLogs { .. } => {
                "give them to `etlink ranks`, which reports sizes and times per communicator"
            }
            RunError::SeveralRuns {
                one,
                other,
                is_nested,
                ..
            } => {
                let (one, other) = (one.display(), other.display());
                if *is_nested {
                    return Some(format!(
                        "give {other}. For the traces in {one} itself, move the folders of other runs \
                         elsewhere"
                    ));
                }
                return Some(format!("give one of them, such as {one} or {other}"));
            }
            RunError::SeveralWrittenRuns { folder, .. } => {
                let folder = folder.display();
                return Some(format!("give the folder of one of them, such as {folder}"));
            }
            RunError::UnsureRanks { .. } => {
                "move the files of one recording into a separate folder outside this one"
            }
            RunError::SeveralRanks { .. } => "give the traces of one of them",
            RunError::SameFile { .. } => "give the two traces of one rank",
            RunError::NoNodes { .. } => "see `etlink check`",
            RunError::NoRecording { .. } | RunError::DamagedMerged { .. } => {
                "give those traces. `etlink analyze`, `report`, `check` and `convert` also read its \
                 nodes"
            }
            RunError::NoMeasurement { .. } => {
                "give a CSV file of Nsight Compute, a vLLM or SGLang benchmark result, or a \
                 workload card"
            }
            RunError::SeveralMetricFiles { .. } | RunError::NoProcessOfRank { .. } => {
                "give one of them"
            }
            #[cfg(feature = "sqlite")]
            RunError::PackedProcesses { .. } => {
                "decompress it first (gunzip), or save standard input to a file"
            }
            RunError::RanksTooLarge { .. } => {
                let (memory, ranks) = (Setting::Memory, Setting::Ranks);
                return Some(format!(
                    "allow more with {memory}, or select fewer ranks with {ranks}"
                ));
            }
            RunError::SimulatorFormat => "leave out the format and the compression",
            RunError::TooManyAbsent { .. } => {
                let simulator = Setting::ForAstraSim;
                return Some(format!("add their traces, or leave {simulator} out"));
            }
            _ => return None,
        };
        Some(remedy.to_owned())
    }

    /// Returns the file or folder of the error, if there is a single one.
    pub fn file(&self) -> Option<String> {
        let path = match self {
            RunError::Input(error) => return error.file(),
            RunError::File(error) => &error.path,
            RunError::NoTraceTaken { first, .. } => return first.file(),
            RunError::Job(error) => return error.downcast_ref::<RunError>()?.file(),
            #[cfg(feature = "rocm")]
            RunError::RocmTrace { name, .. } => return Some(name.clone()),
            #[cfg(feature = "nsys")]
            RunError::NsysTrace { name, .. } => return Some(name.clone()),
            #[cfg(feature = "sqlite")]
            RunError::Database { name, .. } | RunError::PackedProcesses { name, .. } => {
                return Some(name.clone());
            }
            RunError::OnlyWrittenGraphs { source_name: name }
            | RunError::SeveralRuns {
                source_name: name, ..
            }
            | RunError::SeveralWrittenRuns {
                source_name: name, ..
            }
            | RunError::UnsureRanks {
                source_name: name, ..
            }
            | RunError::SeveralRanks {
                source_name: name, ..
            }
            | RunError::RanksOfFile { source_name: name }
            | RunError::RanksTooLarge {
                source_name: name, ..
            }
            | RunError::Refused { file: name, .. }
            | RunError::HostTrace { name, .. }
            | RunError::DeviceTrace { name, .. }
            | RunError::XlaProfile { name, .. }
            | RunError::FlightDump { name, .. }
            | RunError::EmptyDump { name }
            | RunError::LostDump { name, .. }
            | RunError::InspectorLog { name, .. }
            | RunError::NoProcessOfRank { name, .. }
            | RunError::WrittenGraph { name, .. }
            | RunError::NoRecording { name }
            | RunError::DamagedMerged { name, .. }
            | RunError::Recording { name, .. }
            | RunError::Measurement { name, .. }
            | RunError::NoNodes { name, .. } => return Some(name.clone()),
            RunError::NotAFolder { path }
            | RunError::NoTraces { folder: path }
            | RunError::OnlyFlightDumps { folder: path }
            | RunError::OnlyInspectorLogs { folder: path }
            | RunError::NoDeviceTrace { host: path, .. }
            | RunError::SameFile { path }
            | RunError::NoMeasurement { path, .. }
            | RunError::SeveralMetricFiles { path }
            | RunError::GroupList { path, .. }
            | RunError::Replay { path, .. }
            | RunError::TooManyAbsent { folder: path, .. } => path,
            // not about one file; errors of outputs name the file in the message
            _ => return None,
        };
        Some(path.display().to_string())
    }

    /// Returns the position in the file, if known.
    pub fn place(&self) -> Option<String> {
        let bytes = match self {
            RunError::NoTraceTaken { first, .. } => return first.place(),
            RunError::Job(error) => return error.downcast_ref::<RunError>()?.place(),
            RunError::HostTrace {
                source: etlink_host::Error::NoNodes { bytes },
                ..
            } => bytes,
            RunError::DeviceTrace {
                source: etlink_kineto::Error::NoEvents { bytes },
                ..
            } => bytes,
            RunError::XlaProfile {
                source: etlink_xla::Error::NoPlanes { bytes },
                ..
            } => bytes,
            _ => return None,
        };
        Some(format!("byte {bytes}"))
    }

    /// Returns true if a trace was refused because of damage.
    pub fn is_refused(&self) -> bool {
        match self {
            RunError::Refused { .. } => true,
            RunError::NoTraceTaken { first, .. } => first.is_refused(),
            // a caller may have wrapped a `RunError`
            RunError::Job(error) => error
                .downcast_ref::<RunError>()
                .is_some_and(RunError::is_refused),
            _ => false,
        }
    }

    /// Returns true if the reader of standard output has closed it.
    pub fn is_closed_pipe(&self) -> bool {
        match self {
            RunError::Output(error) => error.is_closed_pipe(),
            _ => false,
        }
    }

    /// Creates the error for a source without any readable trace. Contains the first refusal, or
    /// the first error if there is no refusal.
    pub fn no_trace_taken(mut errors: Vec<RunError>) -> RunError {
        let traces = errors.len();
        if traces == 0 {
            return RunError::NoRankAsked;
        }
        // prefers a refusal, because it determines the command's exit code
        let first = errors.iter().position(RunError::is_refused).unwrap_or(0);
        let first = errors.swap_remove(first);
        // "none of 1 traces" would add nothing to the reason
        if traces == 1 {
            return first;
        }
        RunError::NoTraceTaken {
            traces,
            first: Box::new(first),
        }
    }
}

/// Returns ranks separated by commas, at most the first 32.
fn listed_ranks(ranks: &[i64]) -> String {
    const MOST: usize = 32;
    let mut listed: Vec<String> = vec![];
    for rank in ranks.iter().take(MOST) {
        listed.push(rank.to_string());
    }
    if ranks.len() > MOST {
        listed.push(format!("and {} more", ranks.len() - MOST));
    }
    listed.join(", ")
}

/// Returns the remedy of the innermost source that has one, because nothing follows it in the
/// message.
pub fn remedy_of(error: &(dyn Error + 'static)) -> Option<String> {
    let mut found = None;
    let mut next = Some(error);
    while let Some(error) = next {
        found = own_remedy(error).or(found);
        next = error.source();
    }
    found
}

fn own_remedy(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<AdvisedError>() {
        return Some(error.remedy.clone());
    }
    let known = [
        error.downcast_ref().map(RunError::remedy),
        error.downcast_ref().map(InputError::remedy),
        error.downcast_ref().map(OutputError::remedy),
        error.downcast_ref().map(etlink_link::Error::remedy),
        error.downcast_ref().map(etlink_host::Error::remedy),
        error.downcast_ref().map(etlink_kineto::Error::remedy),
        error.downcast_ref().map(etlink_xla::Error::remedy),
        #[cfg(feature = "rocm")]
        error.downcast_ref().map(etlink_rocm::Error::remedy),
        error
            .downcast_ref()
            .map(etlink_flight_recorder::Error::remedy),
        #[cfg(feature = "nsys")]
        error.downcast_ref().map(etlink_nsys::Error::remedy),
        #[cfg(feature = "sqlite")]
        error.downcast_ref().map(etlink_sqlite::Error::remedy),
        error
            .downcast_ref()
            .map(etlink_nccl_inspector::Error::remedy),
        error
            .downcast_ref()
            .map(etlink_chakra::read::ChakraReadError::remedy),
    ];
    known.into_iter().flatten().flatten().next()
}
