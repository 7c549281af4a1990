//! Writes what ASTRA-sim needs in addition to the traces: one file per rank, and configurations.
//!
//! The values come from ASTRA-sim's own example of eight H100
//! (`inputs/system/analytical/hgx_h100_8gpu.json`), except for those that the traces determine: the
//! network, and the device for a roofline.

mod analytical;
mod htsim;
pub(crate) mod limits;
mod ns3;

use analytical::example_network;
use analytical::network;
pub use analytical::{network_note, scaled_network};
pub use htsim::rounded_speeds;
use htsim::{HTSIM_TOPOLOGY, htsim_topology};
use ns3::{NS3_FILES, ns3_file, ns3_files};

use crate::et::metadata::{NODE_COUNT, SCHEMA_VERSION, WRITER};
use crate::proto::{AttributeProto, GlobalMetadata, Node, NodeType, attribute_proto::Value};
use crate::roofline_device::{KernelTimes, RooflineDevice, RooflinePeaks};
use crate::{CollectiveImplementation, CollectiveImplementations, NetworkFit, RooflineCover};
use limits::DATASET_SPLITS;
use prost::Message;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Names of the files.
pub mod file {
    /// Ranks of each `pg_name`.
    pub const GROUPS: &str = "comm_group.json";
    /// Collective algorithms, scheduling.
    pub const SYSTEM: &str = "system.json";
    /// Topology, bandwidth, latency.
    pub const NETWORK: &str = "network.yml";
    /// Remote memory.
    pub const MEMORY: &str = "memory.json";
    /// Instructions for running.
    pub const README: &str = "README.md";
}

/// A workload to run.
#[derive(Clone, Debug, Default)]
pub struct Workload<'a> {
    /// Name of the traces, `<name>.<rank>.et`.
    pub name: &'a str,
    /// Number of ranks, which are numbered from 0.
    pub ranks: u64,
    /// True if there is a [`file::GROUPS`].
    pub groups: bool,
    /// Ranks that have no trace and do nothing.
    pub idle: &'a [i64],
    /// True for a run of one rank, which has an idle neighbour.
    pub single: bool,
    /// True if the files can have host nodes.
    pub host_nodes: bool,
    /// True if a group of two or more ranks is a subset of all ranks.
    pub subgroups: bool,
    /// Network fitted to the measured communications; `None` if there is none.
    pub network: Option<&'a NetworkFit>,
    /// Origin of the network.
    pub network_origin: NetworkOrigin,
    /// Content of the network's file; `None` to write the fitted network, or ASTRA-sim's example.
    pub network_text: Option<String>,
    /// Content of the system's file; `None` to write one for the network and the device.
    pub system_text: Option<String>,
    /// True if a roofline determines the time of device nodes.
    pub roofline: bool,
    /// True if no file has a communication.
    pub silent: bool,
    /// Simulator of the network.
    pub backend: NetworkBackend,
    /// Origin of the graphs.
    pub source: WorkloadSource,
    /// Device that determines roofline times.
    pub device: RooflineDevice,
}

/// Origin of a run's graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkloadSource {
    /// The graphs come from a recording.
    #[default]
    Recorded,
    /// The graphs are copies of other graphs.
    Scaled,
    /// The graphs are generated from a few numbers.
    Generated,
}

/// Origin of a run's network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetworkOrigin {
    /// The run was recorded: the network is fitted to it, or is ASTRA-sim's example.
    #[default]
    Recording,
    /// The network of the run that was scaled, with more ranks, and its description from
    /// [`network_line`].
    Scaled(Option<String>),
    /// ASTRA-sim's example: the network of the run that was scaled cannot be enlarged.
    NotScaled,
    /// ASTRA-sim's example: there was nothing to measure.
    Example,
}

/// Simulators of ASTRA-sim's network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkBackend {
    /// Formulas of latency and bandwidth.
    #[default]
    Analytical,
    /// ns-3, packet by packet.
    Ns3,
    /// htsim, packet by packet.
    Htsim,
}

/// Returns the names of files that only one simulator of the network reads.
pub fn backend_files(backend: NetworkBackend) -> &'static [&'static str] {
    match backend {
        NetworkBackend::Analytical => &[],
        NetworkBackend::Ns3 => &NS3_FILES,
        NetworkBackend::Htsim => &[HTSIM_TOPOLOGY],
    }
}

/// Returns the name and content of each file that ASTRA-sim needs in addition to the graphs and
/// their groups, and of a README.
pub fn configurations(workload: &Workload<'_>) -> Vec<(&'static str, String)> {
    let (ranks, fit) = (workload.ranks, workload.network);
    let system_text = workload.system_text.clone();
    let network_text = workload.network_text.clone();
    let mut files = vec![
        (
            file::SYSTEM,
            system_text.unwrap_or_else(|| system(workload.roofline, &workload.device, fit)),
        ),
        (
            file::NETWORK,
            network_text.unwrap_or_else(|| network(ranks, fit)),
        ),
        (file::MEMORY, MEMORY.to_owned()),
        (file::README, readme(workload)),
    ];
    match workload.backend {
        NetworkBackend::Analytical => {}
        NetworkBackend::Ns3 => files.extend(ns3_files(ranks, fit)),
        NetworkBackend::Htsim => files.push((HTSIM_TOPOLOGY, htsim_topology(ranks, fit))),
    }
    files
}

/// Minimum number of ranks in a network of ASTRA-sim.
pub const MIN_RANKS: u64 = 2;

/// Name of the node of an idle rank.
const IDLE: &str = "idle";

/// Returns the file of an idle rank: the simulator requires at least one node per rank.
pub fn idle_rank() -> Vec<u8> {
    let writer = AttributeProto::new("writer", Value::StringVal(WRITER.into()));
    let node_count = AttributeProto::new(NODE_COUNT, Value::Uint64Val(1));
    let metadata = GlobalMetadata {
        version: SCHEMA_VERSION.into(),
        attr: vec![writer, node_count],
    };
    let node = Node {
        name: IDLE.into(),
        r#type: NodeType::CompNode.into(),
        // On the host and without a duration, the node runs at once and needs no roofline.
        attr: vec![AttributeProto::new("is_cpu_op", Value::BoolVal(true))],
        ..Node::default()
    };
    [
        metadata.encode_length_delimited_to_vec(),
        node.encode_length_delimited_to_vec(),
    ]
    .concat()
}

/// Returns true if these are the nodes of [`idle_rank`].
pub fn is_idle_rank(nodes: &[Node]) -> bool {
    match nodes {
        [node] => {
            node.name == IDLE && node.r#type() == NodeType::CompNode && node.duration_micros == 0
        }
        _ => false,
    }
}

/// Returns a system configuration. Collectives use the algorithms of the fitted network on each of
/// its levels. Their pieces run one at a time: pieces in flight at the same time would each have the
/// full bandwidth in the congestion-unaware network. Device nodes take the time of a roofline, or
/// their measured time.
fn system(roofline: bool, device: &RooflineDevice, fit: Option<&NetworkFit>) -> String {
    let RooflinePeaks { tflops, gb_per_s } = device.peaks();
    // The file uses 0 and 1, like ASTRA-sim's own examples.
    let enabled = u8::from(roofline);
    let algorithms = fit.map_or_else(CollectiveImplementations::default, |fit| fit.algorithms);
    let levels = fit.map_or(1, |fit| fit.levels.len());
    let per_level = |algorithm: CollectiveImplementation| {
        let name = format!("\"{}\"", algorithm.name());
        vec![name; levels].join(", ")
    };
    let [all_reduce, all_gather, reduce_scatter, all_to_all] = [
        algorithms.all_reduce,
        algorithms.all_gather,
        algorithms.reduce_scatter,
        algorithms.all_to_all,
    ]
    .map(per_level);
    format!(
        r#"{{
  "scheduling-policy": "LIFO",
  "endpoint-delay": 1,
  "active-chunks-per-dimension": 1,
  "preferred-dataset-splits": {DATASET_SPLITS},
  "all-reduce-implementation": [{all_reduce}],
  "all-gather-implementation": [{all_gather}],
  "reduce-scatter-implementation": [{reduce_scatter}],
  "all-to-all-implementation": [{all_to_all}],
  "collective-optimization": "localBWAware",
  "local-mem-bw": {gb_per_s},
  "boost-mode": 0,
  "peak-perf": {tflops},
  "roofline-enabled": {enabled},
  "track-local-mem": 0,
  "trace-enabled": 0
}}
"#
    )
}

/// Parses the device of a system configuration; `None` if its peaks are absent or fractional.
pub fn device_of_system(text: &str) -> Option<RooflineDevice> {
    let system: serde_json::Value = serde_json::from_str(text).ok()?;
    let peaks = RooflinePeaks {
        tflops: system.get("peak-perf")?.as_u64()?,
        gb_per_s: system.get("local-mem-bw")?.as_u64()?,
    };
    Some(RooflineDevice {
        name: String::new(),
        sheet: Some(peaks),
    })
}

/// Content of the memory's file.
const MEMORY: &str = "{\"memory-type\": \"NO_MEMORY_EXPANSION\"}\n";

/// Returns a README that describes the folder and the command that runs it.
fn readme(workload: &Workload<'_>) -> String {
    let Workload {
        name,
        ranks,
        groups,
        ..
    } = workload;
    // Runs without subgroups have no such file.
    let groups_line = if *groups {
        format!(
            " \\\n  --comm-group-configuration=\"$PWD/{}\"",
            file::GROUPS
        )
    } else {
        String::new()
    };
    let groups_file = if *groups {
        format!("- `{}`: the ranks of each `pg_name`\n", file::GROUPS)
    } else {
        String::new()
    };
    let Backend {
        is_called,
        program,
        configuration,
        further_options,
        files,
    } = Backend::new(workload.backend, workload.network);
    let fit_tables = match workload.network {
        Some(fit) if workload.network_origin == NetworkOrigin::Recording => {
            format!("\n{}", analytical::fit_tables(fit))
        }
        _ => String::new(),
    };
    format!(
        r#"# {name}: {ranks} ranks for ASTRA-sim

Written by {WRITER}. Run in this folder, with ASTRA-sim's {is_called} backend on the `PATH`:

```
{program} \
  --workload-configuration="$PWD"/{path} \
  --system-configuration="$PWD/{system}" \
  --network-configuration="$PWD/{configuration}" \
  --remote-memory-configuration="$PWD/{memory}"{groups_line}{further_options}
```

The simulation is complete when every rank logs `finished`; the exit code is 0 even if ranks are stuck. With `trace-enabled` 1 in
`{system}`, `log/log.log` has all nodes, and {simulated}.

- `{name}.<rank>.et`: {graphs}
{groups_file}- `{system}`: collective algorithms, and whether a roofline determines the time of device nodes
- `{network}`: {network_note}
{files}- `{memory}`: no remote memory

{notes}{fit_tables}"#,
        path = quoted(name),
        system = file::SYSTEM,
        network = file::NETWORK,
        memory = file::MEMORY,
        simulated = simulated_clause(workload.source),
        graphs = graphs_clause(workload.source),
        network_note = network_clause(workload),
        notes = notes(workload).join("\n\n") + "\n",
    )
}

/// Describes the uses of the simulator's log in a clause.
fn simulated_clause(source: WorkloadSource) -> &'static str {
    match source {
        WorkloadSource::Recorded => {
            "`etlink simulated . --against TRACES` compares them with the recording"
        }
        // Either the recording has other ranks, or there is none.
        _ => "`etlink simulated .` adds them up",
    }
}

/// Describes the files of ranks in a clause.
fn graphs_clause(source: WorkloadSource) -> &'static str {
    match source {
        WorkloadSource::Recorded => {
            "the work of each rank; communications run one at a time, in the same order on all ranks"
        }
        WorkloadSource::Scaled => "the work of each rank: a copy of a rank of the scaled run",
        WorkloadSource::Generated => "the work of each rank, as requested",
    }
}

/// Describes the network in a clause.
fn network_clause(workload: &Workload<'_>) -> String {
    match &workload.network_origin {
        NetworkOrigin::Recording => network_note(workload.network),
        NetworkOrigin::Scaled(Some(text)) => format!("{ENLARGED}{SAYS}{text}"),
        NetworkOrigin::Scaled(None) => {
            format!("{ENLARGED}; see the README of that run for the origin of its speeds")
        }
        NetworkOrigin::NotScaled => format!("{}: {REPLACE}; {NOT_SCALED}", example_network()),
        NetworkOrigin::Example => format!("{}: {REPLACE}", example_network()),
    }
}

const ENLARGED: &str = "the network of the scaled run, with more ranks";
const SAYS: &str = "; the README of that run says: ";

/// Returns the description of the network in a README; that of the first run if this one was scaled,
/// too.
pub fn network_line(readme: &str) -> Option<&str> {
    let begin = format!("- `{}`: ", file::NETWORK);
    let text = readme.lines().find_map(|line| line.strip_prefix(&begin))?;
    match text.strip_prefix(ENLARGED) {
        Some(copied) => copied.strip_prefix(SAYS),
        None => Some(text),
    }
}

const REPLACE: &str = "replace it with your topology";

/// Explains in a clause why the network next to the scaled graphs is omitted.
pub const NOT_SCALED: &str = "the network of the scaled run is left out, because its `npus_count` is not a \
    list whose last number can grow to this number of ranks";

/// Parts of a README that depend on the network's simulator.
struct Backend {
    is_called: &'static str,
    program: &'static str,
    configuration: &'static str,
    further_options: String,
    files: String,
}

impl Backend {
    fn new(backend: NetworkBackend, network: Option<&NetworkFit>) -> Backend {
        match backend {
            NetworkBackend::Analytical => Backend {
                is_called: "analytical",
                program: "AstraSim_Analytical_Congestion_Unaware",
                configuration: file::NETWORK,
                further_options: String::new(),
                files: String::new(),
            },
            NetworkBackend::Ns3 => Backend {
                is_called: "ns-3",
                program: "ns3.42-AstraSimNetwork-default",
                configuration: ns3_file::CONFIG,
                further_options: format!(
                    " \\\n  --logical-topology-configuration=\"$PWD/{}\"",
                    ns3_file::LOGICAL
                ),
                files: format!(
                    "- `{}`: the same for ns-3; it refers to `{}` (one switch per block of ranks, links \
                     with these bandwidths and half of the latency), and to `{}` and `{}`, which are empty lists\n\
                     - `{}`: ranks per dimension\n",
                    ns3_file::CONFIG,
                    ns3_file::TOPOLOGY,
                    ns3_file::FLOWS,
                    ns3_file::TRACED,
                    ns3_file::LOGICAL
                ),
            },
            NetworkBackend::Htsim => Backend {
                is_called: "htsim",
                program: "AstraSim_HTSim",
                configuration: file::NETWORK,
                further_options: format!(" \\\n  --htsim_opts -topo \"$PWD/{HTSIM_TOPOLOGY}\""),
                files: format!(
                    "- `{HTSIM_TOPOLOGY}`: the same as a fat tree, in whole Gb/s, at least 1{}. htsim's \
                     TCP ends after 4 simulated seconds\n",
                    network
                        .and_then(htsim::rounded_speeds)
                        .map_or(String::new(), |speeds| format!(": {speeds}"))
                ),
            },
        }
    }
}

/// Returns the caveats that a reader should know before trusting a figure, one paragraph each.
fn notes(workload: &Workload<'_>) -> Vec<String> {
    let mut notes = vec![times_note(workload).to_owned(), roofline_note(workload)];
    let is_scaled = matches!(workload.network_origin, NetworkOrigin::Scaled(_));
    if !workload.silent && !is_scaled {
        notes.push(format!(
            "`{}` and `{}` belong together. Each two ranks have a link, but a rank sends one message at \
             a time: `ring`, `halvingDoubling`, `direct1`. So no collective is quicker than \
             its bytes over the bandwidth, at any number of ranks, and ASTRA-sim's congestion-aware \
             backend, which supports one dimension, takes the same time. With `direct`, or with more \
             `active-chunks-per-dimension`, every message would have the full bandwidth.",
            file::SYSTEM,
            file::NETWORK
        ));
    }
    // The reader should not mistake an idle rank for a measured one.
    match workload.idle {
        [] => {}
        [neighbour] if workload.single => notes.push(format!(
            "The run has one rank. ASTRA-sim's network needs at least two, so rank {neighbour} is an \
             idle neighbour."
        )),
        idle => {
            let list: Vec<String> = idle.iter().map(i64::to_string).collect();
            notes.push(format!(
                "These ranks have no usable trace: {}. Each of their files has one empty \
                 node. Communication of other ranks with them is computation with the measured time.",
                list.join(", ")
            ));
        }
    }
    if workload.host_nodes {
        notes.push(
            "ASTRA-sim's statistics reject host nodes (`is_cpu_op`): it logs `a callable is removed` and \
             `Only GPU and COMM types are supported` for each rank, and reports all time \
             as exposed. This does not change when each rank finishes. To get its statistics, "
                .to_owned()
                + match workload.source {
                    WorkloadSource::Recorded => "merge with `--comm-only`.",
                    _ => "scale a run that was merged with `--comm-only`.",
                },
        );
    }
    if workload.subgroups {
        notes.push(
            "If a rank is in several groups, ASTRA-sim can abort at exit, after it has logged all \
             times. The abort does not change the times."
                .to_owned(),
        );
    }
    notes
}

/// Explains the origin of the simulated times.
fn times_note(workload: &Workload<'_>) -> &'static str {
    match (workload.source, workload.silent) {
        (WorkloadSource::Recorded, true) => {
            "No file has a communication, so the network has no effect. Waits between ranks are \
             computation, as measured."
        }
        (WorkloadSource::Recorded, false) => {
            "The network alone determines the time of a communication. Broadcasts, which ASTRA-sim does \
             not simulate, take the measured time. The files do not contain a rank's wait for other \
             ranks: the simulation recreates it. If a host thread was blocked for longer \
             than the network takes, the rest is computation after the communication. Ranks whose \
             traces begin later have a node `begins later`."
        }
        (_, true) => {
            "No file has a communication, so the network has no effect. Computation takes the time \
             in its nodes (`duration_micros`)."
        }
        (_, false) => {
            "The network alone determines the time of a communication. Broadcasts, which ASTRA-sim does \
             not simulate, and computation take the time in their nodes (`duration_micros`)."
        }
    }
}

/// Explains the effect of `roofline-enabled`.
fn roofline_note(workload: &Workload<'_>) -> String {
    if workload.source == WorkloadSource::Generated {
        return format!(
            "Leave `roofline-enabled` at 0 in `{}`: nodes state their durations, but not their \
             operations.",
            file::SYSTEM
        );
    }
    let device = &workload.device;
    let RooflinePeaks { tflops, gb_per_s } = device.peaks();
    let origin = match (workload.source, &device.sheet, device.assumed()) {
        (WorkloadSource::Scaled, Some(_), _) => "as in the system of the scaled run".to_owned(),
        (_, Some(_), _) => format!(
            "from the data sheet of the traced device, {}, for 16-bit matrix products",
            device.name
        ),
        (_, None, Some(why)) => why,
        (_, None, None) => "of ASTRA-sim's example, an NVIDIA H100".to_owned(),
    };
    format!(
        "With `roofline-enabled` 1 in `{}`, device nodes take the time that `num_ops` and `tensor_size` \
         need at `peak-perf`, {tflops} TFLOP/s, and `local-mem-bw`, {gb_per_s} GB/s: {origin}. Some \
         nodes keep the measured time (`roofline_source` `duration`): nodes without shapes, and nodes \
         whose shapes are implausible. By their shapes they would take more than twice the \
         measured time or, for copies and ops without a formula, less than a tenth of it. Their \
         `tensor_size` is the amount that {gb_per_s} GB/s move in the measured time, so another \
         `local-mem-bw` changes their times too. `etlink merge --compute roofline` reports their share.",
        file::SYSTEM
    )
}

/// Describes the share of device work without a formula in a clause; `None` if everything has one.
pub fn uncovered(cover: &RooflineCover) -> Option<String> {
    let percent = |part: u64| 100.0 * part as f64 / cover.time_ns.max(1) as f64;
    let nodes = cover.nodes;
    let without = format!(
        "{} of {nodes} nodes ({:.0} % of their time) have no shapes",
        cover.kept,
        percent(cover.kept_ns)
    );
    let implausible = format!(
        "{} of {nodes} nodes ({:.0} %) would by their shapes take more than twice the measured time \
         or, for copies and ops without a formula, less than a tenth of it",
        cover.implausible,
        percent(cover.implausible_ns)
    );
    match (cover.kept, cover.implausible) {
        (0, 0) => None,
        (_, 0) => Some(format!("{without} and keep the measured time")),
        (0, _) => Some(format!("{implausible}, and keep the measured time")),
        _ => Some(format!(
            "{without}, and {implausible}: both keep the measured time"
        )),
    }
}

/// Maximum number of kernels named in a note.
const NAMED_KERNELS: usize = 3;

/// Describes the measured and the roofline time of devices and the kernels that differ most, in a
/// clause. `shorten` truncates the names of kernels.
pub fn roofline_times(
    cover: &RooflineCover,
    kernels: &BTreeMap<String, KernelTimes>,
    shorten: impl Fn(&str) -> String,
) -> String {
    let millis = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
    let mut text = format!(
        "device nodes took {}, and take {} by the roofline",
        millis(cover.time_ns),
        millis(cover.roofline_ns)
    );
    let mut differ: Vec<(&String, &KernelTimes)> = kernels.iter().collect();
    differ.retain(|(_, times)| times.measured_ns != times.roofline_ns);
    differ.sort_by_key(|(_, times)| Reverse(times.measured_ns.abs_diff(times.roofline_ns)));
    let named = differ.iter().take(NAMED_KERNELS);
    let named = named.map(|(name, times)| {
        format!(
            "{} ({} instead of {})",
            shorten(name),
            millis(times.roofline_ns),
            millis(times.measured_ns)
        )
    });
    let named: Vec<String> = named.collect();
    if !named.is_empty() {
        text += &format!("; largest differences: {}", named.join(", "));
    }
    text
}

fn needs_no_quotes(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

/// Quotes a word for a shell, whatever it contains.
fn quoted(name: &str) -> String {
    if name.bytes().all(needs_no_quotes) {
        name.to_owned()
    } else {
        // A quote ends the word, so an escaped quote goes between two words.
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, read};

    #[test]
    fn an_idle_rank_passes_the_check() {
        let graph = read::read(&idle_rank()[..]).expect("reads");
        assert_eq!(
            (graph.len(), graph.name_of(0), graph.is_cpu_op[0]),
            (1, "idle", Some(true))
        );
        assert_eq!(check::check(&graph), []);
    }

    #[test]
    fn configurations_are_what_their_readers_parse() {
        let device = RooflineDevice::default();
        for text in [
            &system(false, &device, None),
            &system(true, &device, None),
            MEMORY,
        ] {
            serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        }
        assert!(
            system(true, &device, None).contains("\"roofline-enabled\": 1")
                && system(false, &device, None).contains("\"roofline-enabled\": 0")
        );
    }

    #[test]
    fn each_level_has_its_algorithm() {
        let device = RooflineDevice::default();
        let text = system(false, &device, Some(&crate::tests::two_level_fit(4, 2)));
        let system: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let kinds = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"];
        for kind in kinds {
            let key = format!("{kind}-implementation");
            let algorithm = if kind == "all-to-all" {
                "direct1"
            } else {
                "ring"
            };
            assert_eq!(system[&key], serde_json::json!([algorithm, algorithm]));
        }
    }

    #[test]
    fn the_device_is_read_back_from_its_system() {
        let device = RooflineDevice {
            name: "Tesla V100-SXM2-32GB".to_owned(),
            sheet: Some(RooflinePeaks {
                tflops: 125,
                gb_per_s: 900,
            }),
        };
        let read = device_of_system(&system(true, &device, None)).expect("a device");
        assert_eq!(read.sheet, device.sheet);
        assert_eq!(device_of_system("{}"), None);
        let text = readme(&Workload {
            name: "step",
            ranks: 2,
            device: device.clone(),
            ..Workload::default()
        });
        let wanted = [
            "125 TFLOP/s",
            "900 GB/s",
            "traced device, Tesla V100-SXM2-32GB",
        ];
        assert!(wanted.iter().all(|part| text.contains(part)), "{text}");
        // Two kinds of devices have no common peaks.
        let other = RooflineDevice {
            name: "NVIDIA A10".to_owned(),
            ..device.clone()
        };
        let both = RooflineDevice::of_run([&device, &other, &device]);
        assert_eq!(both.name, "NVIDIA A10 and Tesla V100-SXM2-32GB");
        assert_eq!(both.peaks(), RooflinePeaks::default());
        assert!(both.assumed().is_some_and(|why| why.contains(&both.name)));
        assert_eq!(device.assumed(), None);
    }

    /// Without a recording, there is nothing to compare with, and nothing was measured.
    #[test]
    fn the_readme_of_a_run_that_was_made_speaks_of_no_recording() {
        for source in [WorkloadSource::Generated, WorkloadSource::Scaled] {
            let text = readme(&Workload {
                name: "step",
                ranks: 4,
                source,
                host_nodes: source == WorkloadSource::Scaled,
                network_origin: NetworkOrigin::Example,
                ..Workload::default()
            });
            let odd = [
                "recording",
                "begins later",
                "communications run one at a time",
                "merge with",
            ];
            assert!(odd.iter().all(|part| !text.contains(part)), "{text}");
            assert_eq!(
                text.contains("measured"),
                source == WorkloadSource::Scaled,
                "{text}"
            );
        }
    }

    /// A run that is scaled twice names the origin of its network once.
    #[test]
    fn a_scaled_readme_repeats_the_origin_of_the_network() {
        let fit = crate::tests::two_level_fit(4, 2);
        let recorded = readme(&Workload {
            network: Some(&fit),
            ..Workload::default()
        });
        let line = network_line(&recorded).expect("a line");
        assert_eq!(line, network_note(Some(&fit)));
        let scaled = readme(&Workload {
            network_origin: NetworkOrigin::Scaled(Some(line.to_owned())),
            ..Workload::default()
        });
        assert!(scaled.contains(line), "{scaled}");
        assert_eq!(network_line(&scaled), Some(line));
        let unknown = readme(&Workload {
            network_origin: NetworkOrigin::Scaled(None),
            ..Workload::default()
        });
        assert_eq!(network_line(&unknown), None);
    }

    #[test]
    fn the_readme_says_where_nothing_communicates() {
        let silent = readme(&Workload {
            name: "step",
            ranks: 2,
            silent: true,
            ..Workload::default()
        });
        assert!(
            silent.contains("the network has no effect")
                && !silent.contains("The network alone determines"),
            "{silent}"
        );
    }

    #[test]
    fn the_readme_names_what_there_is() {
        let text = readme(&Workload {
            name: "step",
            ranks: 4,
            groups: true,
            idle: &[2],
            ..Workload::default()
        });
        assert!(
            text.contains("workload-configuration=\"$PWD\"/step \\")
                && text.contains("comm_group.json")
                && text.contains("no usable trace: 2."),
            "{text}"
        );
        let odd = readme(&Workload {
            name: "it's $(odd)",
            ranks: 4,
            groups: false,
            idle: &[],
            ..Workload::default()
        });
        assert!(odd.contains(r#""$PWD"/'it'\''s $(odd)' \"#), "{odd}");
        let text = readme(&Workload {
            name: "step",
            ranks: 4,
            groups: false,
            idle: &[],
            ..Workload::default()
        });
        assert!(
            !text.contains("comm_group")
                && !text.contains("have no usable trace")
                && !text.contains("statistics reject")
                && !text.contains("abort"),
            "{text}"
        );
        let text = readme(&Workload {
            name: "step",
            ranks: 2,
            idle: &[1],
            single: true,
            host_nodes: true,
            subgroups: true,
            ..Workload::default()
        });
        assert!(
            text.contains("rank 1 is an idle neighbour")
                && !text.contains("have no usable trace")
                && text.contains("statistics reject")
                && text.contains("abort"),
            "{text}"
        );
    }
}
