//! Why a run could not be opened, linked, joined or written.
//!
//! An error carries what failed, where, and what the user can do. The printed message is the error
//! and its sources with `: ` between them, see [`text::error_chain`](crate::text::error_chain).

use crate::cancel::Cancelled;
use crate::file_error::FileError;
use crate::input::{InputError, InputKind};
use crate::memory::limit::{MemoryLimit, OversizedRank, enough_size};
use crate::output::OutputError;
use crate::phases::{PhaseError, StoredError};
use crate::slice::TraceSlice;
use crate::text;
use etlink_model::{AdvisedError, Anomalies, Setting, advice};
use std::error::Error;
use std::path::{Path, PathBuf};

/// Why a rank with a host trace has no device trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDevice {
    /// Several device traces claim the rank, which a note of the run names.
    Unsure,
    /// Nothing tells its rank.
    UnknownRank,
    /// There is none.
    Missing,
}

/// Why work on a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A file cannot be opened, or is not what is wanted.
    // transparent: these errors name file and reason themselves, and a chain is printed as one line
    #[error(transparent)]
    Input(#[from] InputError),
    /// A result cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A phase cannot go on.
    #[error(transparent)]
    Phase(#[from] PhaseError),
    /// A file or folder cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// What a shard failed with on a rank.
    #[error(transparent)]
    Shard(#[from] StoredError),
    /// Work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// What a caller's job on a rank failed with.
    #[error(transparent)]
    // no type parameter: every function that returns an error would have to carry it
    Job(Box<dyn Error + Send + Sync>),

    /// A source that has to be a folder is none.
    #[error("{} is not a folder{}", path.display(), advice(self.remedy()))]
    NotAFolder {
        /// The source.
        path: PathBuf,
    },
    /// A folder has neither traces nor written graphs.
    #[error(
        "{}: no host or device traces in it (names such as torch_et_0.json.gz and \
         kineto_trace_0.json.gz)",
        folder.display()
    )]
    NoTraces {
        /// The folder.
        folder: PathBuf,
    },
    /// A source has written graphs where traces are wanted.
    #[error(
        "{source_name}: no host or device traces in it, but graphs that etlink wrote of some: {}",
        self.remedy().unwrap_or_default()
    )]
    OnlyWrittenGraphs {
        /// The source, as it was named.
        source_name: String,
    },
    /// None of the files that were named is a trace.
    #[error("none of the {files} files is a host or device trace")]
    NoTraceFiles {
        /// How many were named.
        files: usize,
    },
    /// A folder has several runs where one is wanted.
    #[error(
        "{source_name} has {count} runs, each in its folder: {}",
        self.remedy().unwrap_or_default()
    )]
    SeveralRuns {
        /// The source, as it was named.
        source_name: String,
        /// How many runs it has.
        count: usize,
        /// The folder of the first.
        one: PathBuf,
        /// The folder of the second.
        other: PathBuf,
        /// The second lies in the first, which so cannot be given.
        is_nested: bool,
    },
    /// Of no trace of a run its rank is sure, as several claim one: they may be of several runs.
    #[error(
        "{source_name}: no trace is taken, as of each its rank is not sure: {count} device traces are \
         of rank {rank} ({one}, {other}{}){}",
        if *count > 2 { ", …" } else { "" },
        advice(self.remedy())
    )]
    UnsureRanks {
        /// The folder of the run.
        source_name: String,
        /// The first rank that is claimed by several.
        rank: i64,
        /// By how many.
        count: usize,
        /// The name of the first of their files.
        one: String,
        /// And of the second.
        other: String,
    },
    /// A folder has written graphs of several runs where one is wanted.
    #[error(
        "{source_name} has written graphs of {count} runs: {}",
        self.remedy().unwrap_or_default()
    )]
    SeveralWrittenRuns {
        /// The source, as it was named.
        source_name: String,
        /// How many runs it has.
        count: usize,
        /// The folder of the first.
        folder: PathBuf,
    },
    /// A source has several ranks where one is wanted.
    #[error("{source_name} has {count} ranks{}", advice(self.remedy()))]
    SeveralRanks {
        /// The source, as it was named.
        source_name: String,
        /// How many ranks it has.
        count: usize,
    },
    /// A host trace or a rank is given for a folder, whose traces are many.
    #[error(
        "--host, --metrics and --rank are for one trace; in a folder the files' names tell which \
         belong together"
    )]
    OneTraceOption,
    /// Ranks are chosen of a source that is one.
    #[error(
        "{} chooses traces of a folder; {source_name} is a file",
        Setting::Ranks
    )]
    RanksOfFile {
        /// The source, as it was named.
        source_name: String,
    },
    /// Two traces are to be read from standard input.
    #[error("only one of --host, the device trace and --capture can be standard input")]
    SeveralFromStdin,
    /// A rank has no device trace.
    #[error(
        "{}: a host trace {} has no times: there is nothing to link",
        host.display(),
        match why {
            NoDevice::Unsure => "whose device trace is not sure, see the notes,",
            NoDevice::UnknownRank => "whose rank nothing tells, as `torch_et_0` in its name would,",
            NoDevice::Missing => "without a device trace of the same rank beside it",
        }
    )]
    NoDeviceTrace {
        /// The host trace that it has.
        host: PathBuf,
        /// Why it has none.
        why: NoDevice,
    },
    /// The slice that was asked for has nothing of a trace.
    #[error("{name}: {slice} has nothing of it: {why}")]
    EmptySlice {
        /// The trace.
        name: String,
        /// The slice.
        slice: TraceSlice,
        /// What the trace has instead.
        why: String,
    },
    /// A slice of a written graph is asked for.
    #[error("{name}: {slice} takes a part of a recording, and this is a written graph{}", advice(Some("give the traces that it was made of".to_owned())))]
    SliceOfGraph {
        /// The graph.
        name: String,
        /// The slice.
        slice: TraceSlice,
    },
    /// No trace of the source is of a rank that was asked for.
    #[error("there is no trace of the ranks that {} names", Setting::Ranks)]
    NoRankAsked,
    /// All traces were read, and each was excluded from its run.
    #[error("no rank could be taken: {first}")]
    AllExcluded {
        /// Why the first one was.
        first: String,
    },
    /// Nothing could be made of any of several traces.
    #[error("none of {traces} traces could be taken")]
    NoTraceTaken {
        /// How many there are.
        traces: usize,
        /// Why the first that was refused was, or else why the first failed.
        #[source]
        first: Box<RunError>,
    },

    /// A trace is damaged, or of another run than its host trace, and that was to be refused.
    #[error("{file}: refused under {}: {what}", Setting::Strict)]
    Refused {
        /// The file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// The two traces of a rank are one file.
    #[error(
        "--host and --device are the same file, {}{}",
        path.display(),
        advice(self.remedy())
    )]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// A host trace cannot be read.
    #[error("{name}")]
    HostTrace {
        /// The file.
        name: String,
        /// What is wrong, and where.
        source: etlink_host::Error,
    },
    /// A device trace cannot be read.
    #[error("{name}")]
    DeviceTrace {
        /// The file.
        name: String,
        /// What is wrong, and where.
        source: etlink_kineto::Error,
    },
    /// A profile of XLA cannot be read.
    #[error("{name}")]
    XlaProfile {
        /// The file.
        name: String,
        /// What is wrong, and where.
        source: etlink_xla::Error,
    },
    /// A dump of the flight recorder cannot be read.
    #[error("{name}")]
    FlightDump {
        /// The file.
        name: String,
        /// What is wrong, and where.
        source: etlink_flight_recorder::Error,
    },
    /// A dump of the flight recorder has no content.
    #[error("{name} is empty: its rank ended before it wrote its dump{}", advice(self.remedy()))]
    EmptyDump {
        /// The file.
        name: String,
    },
    /// A dump of the flight recorder is cut before its first collective.
    #[error(
        "{name}: no whole collective is left in it ({bytes} bytes read){}",
        advice(self.remedy())
    )]
    LostDump {
        /// The file.
        name: String,
        /// Its length.
        bytes: u64,
    },
    /// A log of NCCL's inspector cannot be read.
    #[error("{name}")]
    InspectorLog {
        /// The file.
        name: String,
        /// What is wrong, and where.
        source: etlink_nccl_inspector::Error,
    },
    /// A source has logs of NCCL's inspector where traces are wanted.
    #[error(
        "{}: no host or device traces in it, but logs of NCCL's inspector: {}",
        folder.display(),
        self.remedy().unwrap_or_default()
    )]
    OnlyInspectorLogs {
        /// The folder.
        folder: PathBuf,
    },
    /// A source has dumps of the flight recorder where traces are wanted.
    #[error(
        "{}: no host or device traces in it, but dumps of the flight recorder: {}",
        folder.display(),
        self.remedy().unwrap_or_default()
    )]
    OnlyFlightDumps {
        /// The folder.
        folder: PathBuf,
    },
    /// An export of Nsight Systems cannot be read.
    #[cfg(feature = "nsys")]
    #[error("{name}")]
    NsysTrace {
        /// The file.
        name: String,
        /// What is wrong.
        source: etlink_nsys::Error,
    },
    /// Several processes were recorded in a database that is packed, or comes from standard input.
    #[cfg(feature = "sqlite")]
    #[error(
        "{name} has {count} processes with work on devices, which can only be told apart in an \
         unpacked file{}",
        advice(self.remedy())
    )]
    PackedProcesses {
        /// The file.
        name: String,
        /// How many processes it has.
        count: usize,
    },
    /// No process of a report is the rank that was asked for.
    #[error(
        "{name}: none of its processes is rank {rank}, they are {}{}",
        listed_ranks(ranks),
        advice(self.remedy())
    )]
    NoProcessOfRank {
        /// The file.
        name: String,
        /// What was asked for.
        rank: i64,
        /// The ranks that its processes are.
        ranks: Vec<i64>,
    },
    /// A database cannot be opened.
    #[cfg(feature = "sqlite")]
    #[error("{name}")]
    Database {
        /// The file.
        name: String,
        /// What is wrong.
        source: etlink_sqlite::Error,
    },
    /// A file that was measured beside the traces cannot be read.
    #[error("{name}")]
    Measurement {
        /// The file.
        name: String,
        /// What is wrong with it.
        source: etlink_metrics::Error,
    },
    /// A file that was named as a measurement is none.
    #[error(
        "{} is {}, and no measurement{}",
        path.display(),
        kind.describe(),
        advice(self.remedy())
    )]
    NoMeasurement {
        /// The file.
        path: PathBuf,
        /// What it is.
        kind: InputKind,
    },
    /// Two files of metrics are named for one rank.
    #[error(
        "{} is a second file with metrics of kernels{}",
        path.display(),
        advice(self.remedy())
    )]
    SeveralMetricFiles {
        /// The second.
        path: PathBuf,
    },
    /// A recording of ROCm cannot be read.
    #[cfg(feature = "rocm")]
    #[error("{name}")]
    RocmTrace {
        /// The file.
        name: String,
        /// What is wrong, and where.
        source: etlink_rocm::Error,
    },
    /// A written graph cannot be read.
    #[error("{name}")]
    WrittenGraph {
        /// The file.
        name: String,
        /// What is wrong, and where.
        source: etlink_chakra::read::ChakraReadError,
    },
    /// A merged trace (ET+) has no recording of the traces that it was made from.
    #[error(
        "{name} is a merged trace (ET+) without a recording of the traces that it was made \
         from{}",
        advice(self.remedy())
    )]
    NoRecording {
        /// The file.
        name: String,
    },
    /// Traces were written while they were read.
    #[error("{inputs} changed while they were read{}", advice(self.remedy()))]
    ChangedInputs {
        /// The files.
        inputs: String,
    },
    /// A merged trace (ET+) is cut or damaged, so that the recording behind its nodes is missing.
    #[error(
        "{name} is a merged trace (ET+) without the recording that it was made from: {damage}{}",
        advice(self.remedy())
    )]
    DamagedMerged {
        /// The file.
        name: String,
        /// What is lost of it.
        damage: String,
    },
    /// The recording in a merged trace (ET+) is of no use.
    #[error("{name}")]
    Recording {
        /// The file.
        name: String,
        /// Why.
        source: etlink_chakra::etplus::RecordingError,
    },
    /// A written graph has no nodes.
    #[error(
        "{name}: no nodes in it{}{}",
        damage.as_ref().map_or(String::new(), |damage| format!(", {damage}")),
        advice(self.remedy())
    )]
    NoNodes {
        /// The file.
        name: String,
        /// What is wrong with it, such as that it is cut.
        damage: Option<String>,
    },
    /// The list of process groups beside written graphs cannot be read.
    #[error("{}: no list of ranks per group, such as {{\"1\": [0, 1]}}", path.display())]
    GroupList {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// The thread that read the host trace ended early.
    #[error("reading the host trace failed")]
    HostReader,
    /// Traces cannot be linked.
    #[error("{inputs}")]
    Link {
        /// The files.
        inputs: String,
        /// Why.
        source: etlink_link::Error,
    },
    /// A graph cannot be replayed.
    #[error("{}", path.display())]
    Replay {
        /// The result that was to be written.
        path: PathBuf,
        /// Why.
        source: etlink_replay::Error,
    },

    /// A rank alone takes more memory than there is.
    #[error("{0}")]
    // boxed: all results of the library would be as large as this one
    OversizedRank(Box<OversizedRank>),
    /// What stays of all ranks takes more memory than there is.
    #[error(
        "{source_name}: what is kept of all {ranks} ranks takes about {}, and {limit}{}",
        enough_size(*needed),
        advice(self.remedy())
    )]
    RanksTooLarge {
        /// The source, as it was named.
        source_name: String,
        /// How many ranks it has.
        ranks: usize,
        /// What the process would hold with all of them, bytes.
        needed: u64,
        /// How much memory there is.
        limit: MemoryLimit,
    },

    /// A format or packing is asked for that no simulator reads.
    #[error("a simulator reads plain .et files: {}", self.remedy().unwrap_or_default())]
    SimulatorFormat,
    /// A simulator wants a file of each rank, and most ranks of the run have no trace.
    #[error(
        "{}: {ranks} ranks and only {traces} traces: more than {most} ranks are absent, and \
         ASTRA-sim wants a file of each{}",
        folder.display(),
        advice(self.remedy())
    )]
    TooManyAbsent {
        /// Folder of the run's results.
        folder: PathBuf,
        /// How many ranks the run has.
        ranks: u64,
        /// How many have traces.
        traces: usize,
        /// How many may be absent.
        most: usize,
    },
}

impl RunError {
    /// A trace that is refused because it is damaged, or its host trace is of another run.
    pub fn refused_trace(trace: &Path, anomalies: &Anomalies) -> RunError {
        let damage = text::damage(anomalies);
        RunError::Refused {
            file: trace.display().to_string(),
            what: damage.unwrap_or_else(|| "the two traces are of two runs".to_owned()),
        }
    }

    /// What the user can do; of an error that has another as its source, see [`remedy_of`].
    pub fn remedy(&self) -> Option<String> {
        let remedy = match self {
            RunError::Input(error) => return error.remedy(),
            RunError::Output(error) => return error.remedy(),
            RunError::Job(error) => return remedy_of(&**error),
            RunError::Shard(error) => return error.remedy.clone(),
            RunError::OversizedRank(rank) => return Some(rank.remedy()),
            RunError::NotAFolder { .. } => "give the folder with the traces of all ranks",
            RunError::OnlyWrittenGraphs { .. } => {
                "give the folder of those traces; `etlink replay`, `analyze`, `report` and \
                 `check` take graphs"
            }
            RunError::ChangedInputs { .. } => "link them when they are whole",
            RunError::EmptyDump { .. } => {
                "the other ranks' dumps still say which ranks wait for it. Give ranks more time to \
                 write with TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"
            }
            RunError::LostDump { .. } => "copy it again from where it was written",
            RunError::OnlyFlightDumps { .. } => {
                "give them to `etlink ranks`, which says which rank hangs where"
            }
            RunError::OnlyInspectorLogs { .. } => {
                "give them to `etlink ranks`, which has sizes and times per communicator"
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
                        "give {other}; for the traces of {one} itself, move the folders of other runs out \
                         of it"
                    ));
                }
                return Some(format!("give one of them, such as {one} or {other}"));
            }
            RunError::SeveralWrittenRuns { folder, .. } => {
                let folder = folder.display();
                return Some(format!("give the folder of one of them, such as {folder}"));
            }
            RunError::UnsureRanks { .. } => {
                "move the files of one recording into a folder of their own, which is not in this one"
            }
            RunError::SeveralRanks { .. } => "give the traces of one of them",
            RunError::SameFile { .. } => "give the two traces of one rank",
            RunError::NoNodes { .. } => "see `etlink check`",
            RunError::NoRecording { .. } | RunError::DamagedMerged { .. } => {
                "give those; `etlink analyze`, `report`, `check` and `convert` take what its nodes \
                 say"
            }
            RunError::NoMeasurement { .. } => {
                "give the CSV of Nsight Compute, the result of a benchmark of vLLM or SGLang, or a \
                 workload card"
            }
            RunError::SeveralMetricFiles { .. } | RunError::NoProcessOfRank { .. } => {
                "give one of them"
            }
            #[cfg(feature = "sqlite")]
            RunError::PackedProcesses { .. } => {
                "unpack it first (gunzip), or save standard input to a file"
            }
            RunError::RanksTooLarge { .. } => {
                let (memory, ranks) = (Setting::Memory, Setting::Ranks);
                return Some(format!(
                    "allow more with {memory}, or name fewer ranks with {ranks}"
                ));
            }
            RunError::SimulatorFormat => "leave the format and the packing out",
            RunError::TooManyAbsent { .. } => {
                let simulator = Setting::ForAstraSim;
                return Some(format!("add their traces, or leave {simulator} out"));
            }
            _ => return None,
        };
        Some(remedy.to_owned())
    }

    /// The file or folder that it is about, where it is about one.
    pub fn file(&self) -> Option<String> {
        let path = match self {
            RunError::Input(error) => return error.file(),
            RunError::File(error) => &error.path,
            RunError::NoTraceTaken { first, .. } => return first.file(),
            RunError::Job(error) => return error.downcast_ref::<RunError>()?.file(),
            RunError::Shard(error) => return error.file.clone(),
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
            // not about one file; what is said of an output names it in the message
            _ => return None,
        };
        Some(path.display().to_string())
    }

    /// Where in the file, where that is known.
    pub fn place(&self) -> Option<String> {
        let bytes = match self {
            RunError::NoTraceTaken { first, .. } => return first.place(),
            RunError::Job(error) => return error.downcast_ref::<RunError>()?.place(),
            RunError::Shard(error) => return error.place.clone(),
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

    /// Whether a trace was refused because it is damaged.
    pub fn is_refused(&self) -> bool {
        match self {
            RunError::Refused { .. } => true,
            RunError::NoTraceTaken { first, .. } => first.is_refused(),
            RunError::Shard(error) => error.is_refused,
            // a caller may have wrapped one of ours
            RunError::Job(error) => error
                .downcast_ref::<RunError>()
                .is_some_and(RunError::is_refused),
            _ => false,
        }
    }

    /// Whether nobody reads standard output any more.
    pub fn is_closed_pipe(&self) -> bool {
        match self {
            RunError::Output(error) => error.is_closed_pipe(),
            _ => false,
        }
    }

    /// Why nothing can be reported of a source of which no trace could be read: the first that
    /// was refused, else the first error.
    pub fn no_trace_taken(mut errors: Vec<RunError>) -> RunError {
        let traces = errors.len();
        if traces == 0 {
            return RunError::NoRankAsked;
        }
        // a refusal first: the exit code of the command depends on there being one
        let first = errors.iter().position(RunError::is_refused).unwrap_or(0);
        let first = errors.swap_remove(first);
        // "none of 1 traces" would only stand before the reason
        if traces == 1 {
            return first;
        }
        RunError::NoTraceTaken {
            traces,
            first: Box::new(first),
        }
    }
}

/// Ranks with commas between them; of very many the first.
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

/// What the user can do about an error: the remedy of the innermost cause that has one, behind which
/// nothing else is said.
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
