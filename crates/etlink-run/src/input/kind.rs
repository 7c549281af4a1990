//! What a file is: the kinds of files that etlink reads or knows.

use borsh::{BorshDeserialize, BorshSerialize};
use etlink_chakra::read::FileKind;
use serde::{Deserialize, Serialize};

/// What a file is, by its content.
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
    /// The same as `chakra_jsonizer` prints it.
    ChakraJson,
    /// A PyTorch execution trace with times and device rows.
    EtPlus,
    /// A PyTorch execution trace.
    HostTrace,
    /// A Kineto trace.
    KinetoTrace,
    /// A profile of XLA in protobuf (`*.xplane.pb`).
    XlaSpace,
    /// The trace JSON that is made of one.
    XlaJson,
    /// What rocprofv3 of ROCm writes as JSON.
    RocprofJson,
    /// A rocpd database, which it writes by default.
    RocpdSqlite,
    /// A dump of PyTorch's flight recorder, pickle or JSON.
    FlightRecorder,
    /// A log of NCCL's inspector.
    NcclInspector,
    /// An export of Nsight Systems.
    NsysSqlite,
    /// A report of Nsight Systems that was not exported.
    NsysReport,
    /// A table of the folder that `nsys export --type parquetdir` writes, or another Parquet file.
    ParquetTable,
    /// An SQLite database of another program.
    OtherSqlite,
    /// Nsight Compute's CSV: metrics of kernels.
    KernelMetrics,
    /// A result of vLLM's or SGLang's benchmark: latencies of requests.
    RequestLatencies,
    /// A workload card of ccl-bench.
    WorkloadCard,
    /// What ASTRA-sim logged or printed.
    AstraLog,
    /// A workload of ASTRA-sim 1.0.
    TextWorkload,
    /// Anything else.
    #[default]
    Unknown,
}

impl InputKind {
    /// What it is called.
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
            InputKind::FlightRecorder => "a dump of PyTorch's flight recorder",
            InputKind::NcclInspector => "a log of NCCL's inspector",
            InputKind::NsysSqlite => "an export of Nsight Systems (device trace)",
            InputKind::NsysReport => "a report of Nsight Systems that was not exported",
            InputKind::ParquetTable => "a Parquet table, which is not read",
            InputKind::OtherSqlite => "an SQLite database that etlink does not know",
            InputKind::KernelMetrics => "metrics of kernels (CSV of Nsight Compute)",
            InputKind::RequestLatencies => "latencies of requests (a result of vLLM or SGLang)",
            InputKind::WorkloadCard => "a workload card (ccl-bench)",
            InputKind::AstraLog => "a log of ASTRA-sim",
            InputKind::TextWorkload => "a text workload of ASTRA-sim 1.0",
            InputKind::Unknown => "no trace that etlink knows",
        }
    }

    /// Which commands and options take it.
    pub fn taken_by(self) -> &'static str {
        match self {
            InputKind::HostTrace => {
                "--host of link, analyze, findings, replay, report and top, beside the device trace \
                 of the rank; merge and ranks take a folder with both"
            }
            InputKind::KinetoTrace
            | InputKind::XlaSpace
            | InputKind::XlaJson
            | InputKind::RocprofJson
            | InputKind::RocpdSqlite
            | InputKind::NsysSqlite => {
                "link --device, analyze, findings, replay, report, top, diff; merge and ranks take a \
                 folder of all ranks"
            }
            InputKind::EtPlus => {
                "analyze, findings, replay, report, check, convert, link --device, and chakra_converter; merge \
                 and ranks take a folder of all ranks; --host of link"
            }
            InputKind::ChakraEt => {
                "analyze, replay, report, check, convert; scale and simulators take a folder of all \
                 ranks"
            }
            InputKind::ChakraJson => "analyze, replay, report, check, convert",
            InputKind::FlightRecorder => {
                "ranks takes a folder of dumps, and says which rank hangs; commands that take traces \
                 take sizes and groups of collectives from a dump beside them"
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
            InputKind::AstraLog => "simulated, with the graphs beside it or --graphs",
            InputKind::TextWorkload => "convert, with --ranks",
            InputKind::NsysReport => "nsys export --type sqlite, whose result etlink reads",
            InputKind::ParquetTable | InputKind::OtherSqlite | InputKind::Unknown => "nothing",
        }
    }

    /// Whether it is read as a device trace.
    pub fn is_device_trace(self) -> bool {
        match self {
            InputKind::KinetoTrace
            | InputKind::XlaSpace
            | InputKind::XlaJson
            | InputKind::NsysSqlite
            | InputKind::RocprofJson
            | InputKind::RocpdSqlite => true,
            InputKind::ChakraEt
            | InputKind::ChakraJson
            | InputKind::EtPlus
            | InputKind::HostTrace
            | InputKind::FlightRecorder
            | InputKind::NcclInspector
            | InputKind::NsysReport
            | InputKind::ParquetTable
            | InputKind::OtherSqlite
            | InputKind::KernelMetrics
            | InputKind::RequestLatencies
            | InputKind::WorkloadCard
            | InputKind::AstraLog
            | InputKind::TextWorkload
            | InputKind::Unknown => false,
        }
    }

    /// Whether it was measured beside a trace, and says nothing without one.
    pub fn is_measurement(self) -> bool {
        matches!(
            self,
            InputKind::KernelMetrics | InputKind::RequestLatencies | InputKind::WorkloadCard
        )
    }

    /// Whether several processes may have been recorded in it.
    pub fn has_processes(self) -> bool {
        matches!(self, InputKind::NsysSqlite | InputKind::RocpdSqlite)
    }

    /// Whether it is a graph that was linked already.
    pub fn is_linked(self) -> bool {
        matches!(self, InputKind::ChakraEt | InputKind::ChakraJson)
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
