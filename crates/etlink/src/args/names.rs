//! Values with a fixed set of names.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use etlink_analysis::top::TopOrder;
use etlink_chakra::proto::CollectiveCommType;
use etlink_chakra::{AttributeSet, LatencyMode};
use etlink_link::TensorEdges;
use etlink_run::convert::GraphFormat;
use etlink_run::output::{OutputFormat, Packing};
use etlink_torch::OwnProfiler;
use etlink_workload::generate::PipelineSchedule;
use etlink_workload::goal::CollectiveAlgorithm;

/// Values with their names and help.
type Names<T> = &'static [(&'static str, &'static str, T)];

/// Returns the parser of an option that takes one of these names.
pub fn one_of<T>(names: Names<T>) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let values = names.iter();
    let values = values.map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(values).try_map(|typed| {
        let mut known = names.iter();
        let found = known.find(|(name, ..)| *name == typed);
        found.map(|(.., value)| *value).ok_or("unknown name")
    })
}

/// Tensor dependencies that become edges.
pub const TENSOR_DEPS: Names<TensorEdges> = &[
    ("raw", "Read after write", TensorEdges::Raw),
    ("all", "All", TensorEdges::All),
    ("none", "None", TensorEdges::None),
];

/// Compressions of each `.et`.
pub const PACKINGS: Names<Packing> = &[
    ("zstd", "`.et.zst`", Packing::Zstd),
    ("gzip", "`.et.gz`", Packing::Gzip),
];

/// Attributes of nodes.
pub const ATTRIBUTES: Names<AttributeSet> = &[
    ("full", "All", AttributeSet::Full),
    (
        "minimal",
        "Those that simulators read",
        AttributeSet::Minimal,
    ),
];

/// Places of latency in a `.et`.
pub const LATENCIES: Names<LatencyMode> = &[
    ("fold", "Into durations", LatencyMode::Fold),
    ("node", "Into nodes", LatencyMode::Node),
    ("drop", "Nowhere", LatencyMode::Drop),
];

/// Output formats of linked traces.
pub const OUTPUT_FORMATS: Names<OutputFormat> = &[
    (
        "chakra",
        "Chakra protobuf (`.et`), for simulators",
        OutputFormat::Chakra,
    ),
    (
        "etplus",
        "Merged JSON (ET+, `.json`), for chakra_converter and et_replay",
        OutputFormat::EtPlus,
    ),
    (
        "chrome",
        "Chrome JSON with flow arrows and the critical path (`.trace.json`), for ui.perfetto.dev",
        OutputFormat::Chrome,
    ),
    (
        "perfetto",
        "As `chrome`, in Perfetto's own, much smaller format (`.pftrace`)",
        OutputFormat::Perfetto,
    ),
];

/// Formats of graphs.
pub const GRAPH_FORMATS: Names<GraphFormat> = &[
    ("chakra", "Chakra protobuf", GraphFormat::Chakra),
    ("jsonizer", "JSON of Chakra protobuf", GraphFormat::Jsonizer),
    ("etplus", "Merged JSON", GraphFormat::EtPlus),
    ("parquet", "Tables of nodes and edges", GraphFormat::Parquet),
    ("dot", "Graphviz", GraphFormat::Dot),
    ("graphml", "GraphML", GraphFormat::GraphMl),
    (
        "goal",
        "Schedules of LogGOPSim and ATLAHS",
        GraphFormat::Goal,
    ),
];

/// Orders of the micro-batches of a pipeline.
pub const SCHEDULES: Names<PipelineSchedule> = &[
    ("gpipe", "All forward first", PipelineSchedule::GPipe),
    ("1f1b", "Forward and back", PipelineSchedule::OneFOneB),
    ("zero-bubble", "No idle time", PipelineSchedule::ZeroBubble),
];

/// Algorithms that turn collectives into messages.
pub const ALGORITHMS: Names<CollectiveAlgorithm> = &[
    ("ring", "Along a ring", CollectiveAlgorithm::Ring),
    ("tree", "Along trees", CollectiveAlgorithm::Tree),
    ("pairwise", "Each with each", CollectiveAlgorithm::Pairwise),
];

/// Collectives that simulators run.
pub const COLLECTIVES: Names<CollectiveCommType> = &[
    ("all-to-all", "All-to-all", CollectiveCommType::AllToAll),
    ("all-gather", "All-gather", CollectiveCommType::AllGather),
    (
        "reduce-scatter",
        "Reduce-scatter",
        CollectiveCommType::ReduceScatter,
    ),
    ("broadcast", "Broadcast", CollectiveCommType::Broadcast),
    ("all-reduce", "All-reduce", CollectiveCommType::AllReduce),
];

/// Treatments of a profiler that the recorded program makes itself.
pub const OWN_PROFILER: Names<OwnProfiler> = &[
    (
        "adopt",
        "Keep its schedule and files, and also write both traces of its steps to DIR",
        OwnProfiler::Adopt,
    ),
    (
        "leave",
        "Stop recording when it first warms up or records",
        OwnProfiler::Leave,
    ),
];

/// Activities that the profiler records, with the names in torch's module.
pub const ACTIVITIES: Names<&str> = &[
    ("cpu", "Operators and calls of the host", "cpu"),
    ("cuda", "Kernels and copies of CUDA and ROCm", "cuda"),
    ("xpu", "Intel GPUs", "xpu"),
    ("mtia", "Meta's accelerators", "mtia"),
];

/// Signals that request a recording, with their names in Python; empty for none.
pub const TRIGGER_SIGNALS: Names<&str> = &[
    ("usr1", "SIGUSR1", "SIGUSR1"),
    ("usr2", "SIGUSR2", "SIGUSR2"),
    ("none", "No signal", ""),
];

/// Sort keys of tables of ops.
pub const TOP_ORDERS: Names<TopOrder> = &[
    (
        "self-device",
        "Time on the device, without children",
        TopOrder::SelfDevice,
    ),
    ("device", "Time on the device", TopOrder::Device),
    (
        "self-host",
        "Time on the host, without children",
        TopOrder::SelfHost,
    ),
    ("host", "Time on the host", TopOrder::Host),
    ("count", "Number of calls", TopOrder::Count),
];
