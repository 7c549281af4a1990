//! Kinds of files that etlink reads or recognises.

use borsh::{BorshDeserialize, BorshSerialize};
use etlink_chakra::read::FileKind;
use serde::{Deserialize, Serialize};

/// Kind of a file, detected from its content.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// Varint-delimited Chakra messages.
    ChakraEt,
    /// Chakra messages as `chakra_jsonizer` prints them.
    ChakraJson,
    /// Merged trace: a PyTorch execution trace with times and device rows.
    EtPlus,
    /// A PyTorch execution trace.
    HostTrace,
    /// A Kineto trace.
    KinetoTrace,
    /// A profile of XLA in protobuf (`*.xplane.pb`).
    XlaSpace,
    /// A trace for viewers: a timeline that etlink wrote, or another file in Perfetto's format.
    Timeline,
    /// Trace JSON made from an XLA profile.
    XlaJson,
    /// JSON of ROCm's rocprofv3.
    RocprofJson,
    /// A rocpd database, the default output of rocprofv3.
    RocpdSqlite,
    /// A dump of PyTorch's flight recorder, pickle or JSON.
    FlightRecorder,
    /// A log of NCCL's inspector.
    NcclInspector,
    /// An export of Nsight Systems.
    NsysSqlite,
    /// A Nsight Systems report that was not exported.
    NsysReport,
    /// A table in a folder written by `nsys export --type parquetdir`, or another Parquet file.
    ParquetTable,
    /// An SQLite database of another program.
    OtherSqlite,
    /// Nsight Compute's CSV: metrics of kernels.
    KernelMetrics,
    /// A result of vLLM's or SGLang's benchmark: latencies of requests.
    RequestLatencies,
    /// A workload card of ccl-bench.
    WorkloadCard,
    /// Log or printed output of ASTRA-sim.
    AstraLog,
    /// A packed folder.
    Archive,
    /// A file packed with xz, bzip2, 7z or LZ4.
    OtherPacking,
    /// A web page.
    Html,
    /// A snapshot of PyTorch's allocator.
    MemorySnapshot,
    /// A recording of a browser's developer tools.
    DevTools,
    /// CSV or JSON of rocprof, before rocprofv3.
    Rocprof,
    /// A trace of an Ascend device.
    Ascend,
    /// A profile of Triton's Proton.
    Proton,
    /// Anything else.
    #[default]
    Unknown,
}

impl InputKind {
    /// Returns the kind's description in messages, with an article.
    pub fn describe(self) -> &'static str {
        match self {
            InputKind::HostTrace => "a PyTorch execution trace (host trace)",
            InputKind::KinetoTrace => "a Kineto trace (device trace)",
            InputKind::EtPlus => "a merged trace (ET+)",
            InputKind::ChakraJson => "a Chakra execution trace (JSON)",
            InputKind::ChakraEt => "a Chakra execution trace (protobuf)",
            InputKind::XlaSpace => "a profile of JAX or XLA (device trace)",
            InputKind::XlaJson => "trace JSON of JAX or XLA (device trace)",
            InputKind::RocprofJson => "a recording of ROCm's rocprofv3 (device trace)",
            InputKind::RocpdSqlite => "a rocpd database of ROCm's rocprofv3 (device trace)",
            InputKind::FlightRecorder => "a PyTorch flight recorder dump",
            InputKind::NcclInspector => "an NCCL inspector log",
            InputKind::NsysSqlite => "an export of Nsight Systems (device trace)",
            InputKind::NsysReport => "a Nsight Systems report that was not exported",
            InputKind::ParquetTable => "a Parquet table, which etlink does not read",
            InputKind::OtherSqlite => "an unknown SQLite database",
            InputKind::KernelMetrics => "kernel metrics (CSV of Nsight Compute)",
            InputKind::RequestLatencies => "request latencies (a vLLM or SGLang benchmark result)",
            InputKind::WorkloadCard => "a workload card (ccl-bench)",
            InputKind::AstraLog => "an ASTRA-sim log",
            InputKind::Archive => "an archive (a packed folder)",
            InputKind::OtherPacking => "packed with xz, bzip2, 7z or LZ4",
            InputKind::Html => "a web page",
            InputKind::MemorySnapshot => "a snapshot of PyTorch's allocator",
            InputKind::DevTools => "a recording of a browser's developer tools",
            InputKind::Rocprof => "a recording of rocprof before rocprofv3",
            InputKind::Ascend => "a trace of an Ascend device",
            InputKind::Proton => "a profile of Triton's Proton",
            InputKind::Timeline => "a timeline for Perfetto, not a recording",
            InputKind::Unknown => "an unknown kind of file",
        }
    }

    /// Returns the commands and options that take this kind, for messages.
    pub fn taken_by(self) -> &'static str {
        match self {
            InputKind::HostTrace => {
                "--host of link, analyze, findings, replay, report, top and ops, with the device trace \
                 of the rank; merge and ranks take a folder with both"
            }
            InputKind::KinetoTrace
            | InputKind::XlaSpace
            | InputKind::XlaJson
            | InputKind::RocprofJson
            | InputKind::RocpdSqlite
            | InputKind::NsysSqlite => {
                "link --device, analyze, findings, replay, report, top, ops, diff; merge and ranks take a \
                 folder of all ranks"
            }
            InputKind::EtPlus => {
                "analyze, replay, report, check, convert, and chakra_converter; --host of link"
            }
            InputKind::ChakraEt => {
                "analyze, replay, report, check, convert; scale and simulators take a folder of all \
                 ranks"
            }
            InputKind::ChakraJson => "analyze, replay, report, check, convert",
            InputKind::FlightRecorder => {
                "ranks takes a folder of dumps and reports which rank hangs; commands that take traces \
                 read sizes and groups of collectives from a dump next to them"
            }
            InputKind::NcclInspector => "ranks takes a folder of logs",
            InputKind::KernelMetrics => {
                "--metrics of link, analyze, findings and report; found in a folder of traces by the \
                 rank in its name"
            }
            InputKind::RequestLatencies => "--metrics of analyze; found in a folder of traces",
            InputKind::WorkloadCard => {
                "--metrics of analyze; found in a folder of traces; analyze \
                 --workload-card writes one"
            }
            InputKind::AstraLog => "simulated, with the graphs next to it or --graphs",
            InputKind::NsysReport => "nsys export --type sqlite; etlink reads the export",
            InputKind::Archive => "all commands that take a folder",
            InputKind::MemorySnapshot => "analyze, report, inspect",
            InputKind::Timeline => "ui.perfetto.dev and other viewers, but no command",
            _ => "nothing",
        }
    }

    /// Returns true if this kind is read as a device trace.
    pub fn is_device_trace(self) -> bool {
        matches!(
            self,
            InputKind::KinetoTrace
                | InputKind::XlaSpace
                | InputKind::XlaJson
                | InputKind::NsysSqlite
                | InputKind::RocprofJson
                | InputKind::RocpdSqlite
        )
    }

    /// Returns true for measurements, which have no meaning without a trace.
    pub fn is_measurement(self) -> bool {
        matches!(
            self,
            InputKind::KernelMetrics | InputKind::RequestLatencies | InputKind::WorkloadCard
        )
    }

    /// Returns true if the file may contain several recorded processes.
    pub fn has_processes(self) -> bool {
        matches!(self, InputKind::NsysSqlite | InputKind::RocpdSqlite)
    }

    /// Returns true for files of other tools, which etlink only recognises.
    pub(super) fn is_foreign(self) -> bool {
        matches!(
            self,
            InputKind::Archive
                | InputKind::OtherPacking
                | InputKind::Html
                | InputKind::MemorySnapshot
                | InputKind::DevTools
                | InputKind::Rocprof
                | InputKind::Ascend
                | InputKind::Proton
        )
    }

    /// Returns true if the file is a written graph.
    pub fn is_written_graph(self) -> bool {
        matches!(
            self,
            InputKind::ChakraEt | InputKind::ChakraJson | InputKind::EtPlus
        )
    }
}

impl From<FileKind> for InputKind {
    fn from(kind: FileKind) -> Self {
        match kind {
            FileKind::ChakraEt => InputKind::ChakraEt,
            FileKind::ChakraJson => InputKind::ChakraJson,
            FileKind::EtPlus => InputKind::EtPlus,
            FileKind::HostTrace => InputKind::HostTrace,
            FileKind::KinetoTrace => InputKind::KinetoTrace,
            FileKind::Unknown => InputKind::Unknown,
        }
    }
}
