//! What ASTRA-sim wants besides the traces: one file per rank, and configurations.
//!
//! The values are those of ASTRA-sim's own example of eight H100
//! (`inputs/system/analytical/hgx_h100_8gpu.json`): with its roofline, where that is asked for, 700
//! TFLOP/s and 3350 GB/s. With other analytical or ns-3 configurations the traces run as well.

use crate::et::metadata::{NODE_COUNT, SCHEMA_VERSION, WRITER};
use crate::network::{DEFAULT_BANDWIDTH, DEFAULT_LATENCY_NS};
use crate::proto::{AttributeProto, GlobalMetadata, Node, NodeType, attribute_proto::Value};
use crate::{NetworkFit, RooflineCover};
use prost::Message;

/// Names of the files.
pub mod file {
    /// Which ranks a `pg_name` has.
    pub const GROUPS: &str = "comm_group.json";
    /// Collective algorithms, scheduling.
    pub const SYSTEM: &str = "system.json";
    /// Topology, bandwidth, latency.
    pub const NETWORK: &str = "network.yml";
    /// Remote memory.
    pub const MEMORY: &str = "memory.json";
    /// How to run it.
    pub const README: &str = "README.md";
}

/// GB/s of the memory of the device in [`system`]: with its roofline a node without a formula takes
/// the bytes that it moves in the node's time.
pub(crate) const LOCAL_MEM_GBPS: u64 = 3350;

/// What there is to run.
#[derive(Clone, Debug, Default)]
pub struct Workload<'a> {
    /// The traces are `<name>.<rank>.et`.
    pub name: &'a str,
    /// Ranks, from 0.
    pub ranks: u64,
    /// Whether there is a [`file::GROUPS`].
    pub groups: bool,
    /// Ranks that have no trace and do nothing.
    pub idle: &'a [i64],
    /// A run of one rank, which has an idle neighbour.
    pub single: bool,
    /// Whether the files can have nodes of the host.
    pub host_nodes: bool,
    /// A group of two or more ranks that is a part of all.
    pub subgroups: bool,
    /// What was fitted to the measured communications.
    pub network: Option<&'a NetworkFit>,
    /// The network is that of the run that was scaled.
    pub scaled_network: bool,
    /// No file has a communication.
    pub silent: bool,
}

/// The network of ASTRA-sim has two ranks at least.
pub const MIN_RANKS: u64 = 2;

/// A rank that does nothing: the simulator wants a node of each.
pub fn idle_rank() -> Vec<u8> {
    let writer = attribute("writer", Value::StringVal(WRITER.into()));
    let node_count = attribute(NODE_COUNT, Value::Uint64Val(1));
    let metadata = GlobalMetadata {
        version: SCHEMA_VERSION.into(),
        attr: vec![writer, node_count],
    };
    let node = Node {
        name: "idle".into(),
        r#type: NodeType::CompNode.into(),
        // On the host and without a duration: it runs at once and needs no roofline.
        attr: vec![attribute("is_cpu_op", Value::BoolVal(true))],
        ..Node::default()
    };
    [
        metadata.encode_length_delimited_to_vec(),
        node.encode_length_delimited_to_vec(),
    ]
    .concat()
}

fn attribute(name: &str, value: Value) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        value: Some(value),
        ..AttributeProto::default()
    }
}

/// Collectives over rings, in four pieces. Device nodes take the time that a roofline gives them,
/// or that they took.
pub fn system(roofline: bool) -> String {
    // The file has 0 and 1, as ASTRA-sim's own examples do.
    let enabled = u8::from(roofline);
    format!(
        r#"{{
  "scheduling-policy": "LIFO",
  "endpoint-delay": 1,
  "active-chunks-per-dimension": 2,
  "preferred-dataset-splits": 4,
  "all-reduce-implementation": ["ring"],
  "all-gather-implementation": ["ring"],
  "reduce-scatter-implementation": ["ring"],
  "all-to-all-implementation": ["ring"],
  "collective-optimization": "localBWAware",
  "local-mem-bw": {LOCAL_MEM_GBPS},
  "boost-mode": 0,
  "peak-perf": 700,
  "roofline-enabled": {enabled},
  "track-local-mem": 0,
  "trace-enabled": 0
}}
"#
    )
}

/// One switch between all ranks: GB/s and ns, those of ASTRA-sim's example where nothing was
/// measured.
pub fn network(ranks: u64, fit: Option<&NetworkFit>) -> String {
    // A single rank gets an idle neighbour, as a network needs two.
    let ranks = ranks.max(MIN_RANKS);
    let (bandwidth, latency) = link_speed(fit);
    format!(
        "topology: [ Switch ]\nnpus_count: [ {ranks} ]\nbandwidth: [ {bandwidth} ]\nlatency: [ \
         {latency} ]\n"
    )
}

/// The network of another run, for so many ranks; `None` where it has several levels, or none that
/// is known.
pub fn scaled_network(text: &str, ranks: u64) -> Option<String> {
    let mut is_one_level = false;
    let mut lines: Vec<String> = vec![];
    for line in text.lines() {
        match line.split_once(':') {
            Some(("npus_count", list)) => {
                is_one_level = !list.contains(',');
                lines.push(format!("npus_count: [ {ranks} ]"));
            }
            _ => lines.push(line.to_owned()),
        }
    }
    is_one_level.then(|| lines.join("\n") + "\n")
}

fn link_speed(fit: Option<&NetworkFit>) -> (f64, f64) {
    fit.map_or((DEFAULT_BANDWIDTH, DEFAULT_LATENCY_NS), |fit| {
        (fit.bandwidth, fit.latency_ns)
    })
}

/// Where latency and bandwidth come from, a sentence.
pub fn network_note(fit: Option<&NetworkFit>) -> String {
    let (bandwidth, latency) = link_speed(fit);
    let Some(fit) = fit else {
        return format!(
            "too few communications tell how long their transfer took: {bandwidth} GB/s and {latency} \
             ns are of ASTRA-sim's example"
        );
    };
    let size = if fit.bandwidth_is_fitted {
        "latency and bandwidth are"
    } else {
        "sizes do not tell the bandwidth, which is of ASTRA-sim's example; the latency is"
    };
    format!(
        "{bandwidth} GB/s and {latency} ns: {size} fitted to {} transfers, with a median error of \
         {:.0} %; {} communications tell nothing",
        fit.used,
        100.0 * fit.median_error,
        fit.unused
    )
}

/// No remote memory.
pub fn memory() -> &'static str {
    "{\"memory-type\": \"NO_MEMORY_EXPANSION\"}\n"
}

/// What the folder holds and the command that runs it.
pub fn readme(workload: &Workload<'_>) -> String {
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
    format!(
        r#"# {name}: {ranks} ranks for ASTRA-sim

Written by {WRITER}. Run in this folder, with ASTRA-sim's analytical backend on the path:

```
AstraSim_Analytical_Congestion_Unaware \
  --workload-configuration="$PWD"/{path} \
  --system-configuration="$PWD/{system}" \
  --network-configuration="$PWD/{network}" \
  --remote-memory-configuration="$PWD/{memory}"{groups_line}
```

All went well when every rank logs `finished`; the exit code is 0 also when ranks are stuck. With `trace-enabled` 1 in `{system}`
`log/log.log` has all nodes, and `etlink simulated . --against TRACES` compares them with the recording.

- `{name}.<rank>.et`: what each rank did; communications go in turn, in one order on all ranks
{groups_file}- `{system}`: collective algorithms (rings), and whether device nodes take a roofline's time
- `{network}`: {network_note}
- `{memory}`: no remote memory

{notes}"#,
        path = quoted(name),
        system = file::SYSTEM,
        network = file::NETWORK,
        memory = file::MEMORY,
        network_note = if workload.scaled_network {
            "as it was beside the graphs that were scaled, with more ranks".to_owned()
        } else {
            format!("one switch, {}", network_note(workload.network))
        },
        notes = notes(workload).join("\n\n") + "\n",
    )
}

/// What a reader should know before believing a figure, a paragraph each.
fn notes(workload: &Workload<'_>) -> Vec<String> {
    let times = if workload.silent {
        "No file has a communication, so the network times nothing. What ranks waited for each other \
         is computation, as measured."
    } else {
        "The network alone times a communication. What a rank waited for others before it is not in \
         the files: the simulator makes it anew. Where a host thread was blocked for longer than the \
         network takes, the rest is computation after the communication. Ranks whose traces begin later have a node \
         `begins later`."
    };
    let mut notes = vec![times.to_owned(), roofline_note()];
    // The reader should not take an idle rank for one that was measured.
    match workload.idle {
        [] => {}
        [neighbour] if workload.single => notes.push(format!(
            "The run has one rank. ASTRA-sim's network has two at least, so rank {neighbour} is a \
             neighbour that does nothing."
        )),
        idle => {
            let list: Vec<String> = idle.iter().map(i64::to_string).collect();
            notes.push(format!(
                "These ranks have no trace here: {}. Their files have one empty node each. What \
                 others did with them is computation with the measured time.",
                list.join(", ")
            ));
        }
    }
    if workload.host_nodes {
        notes.push(
            "ASTRA-sim's statistics refuse nodes of the host (`is_cpu_op`): it logs `a callable is removed` and \
             `Only GPU and COMM types are supported` for each rank, and calls all of the time \
             exposed. This does not change when each rank finishes. For its statistics merge with \
             `--comm-only`."
                .to_owned(),
        );
    }
    if workload.subgroups {
        notes.push(
            "Where a rank is in several groups ASTRA-sim can abort at exit, after it has logged all \
             times. The abort does not change them."
                .to_owned(),
        );
    }
    notes
}

/// What `roofline-enabled` would do.
fn roofline_note() -> String {
    format!(
        "With `roofline-enabled` 1 in `{}`, nodes of devices take what `num_ops` and `tensor_size` \
         need at `peak-perf` (TFLOP/s) and `local-mem-bw` (GB/s). These are of ASTRA-sim's example, an \
         NVIDIA H100: put those of your device there. Nodes without shapes (`roofline_source` \
         `duration`) keep the measured time: their `tensor_size` is what {LOCAL_MEM_GBPS} GB/s move \
         in it. `etlink merge --compute roofline` says which share that is.",
        file::SYSTEM
    )
}

/// Which share of what devices do has no formula, a clause; `None` where all has one.
pub fn uncovered(cover: &RooflineCover) -> Option<String> {
    if cover.kept == 0 {
        return None;
    }
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    Some(format!(
        "{} of {} nodes ({:.0} % of their time) have no shapes, and keep the measured time",
        cover.kept,
        cover.nodes,
        percent(cover.kept_ns, cover.time_ns)
    ))
}

fn needs_no_quotes(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

/// A word of a shell, whatever is in it.
fn quoted(name: &str) -> String {
    if name.bytes().all(needs_no_quotes) {
        name.to_owned()
    } else {
        // A quote ends the word, and an escaped one stands between two words.
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
        for text in [&system(false), &system(true), memory()] {
            serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        }
        assert!(
            system(true).contains("\"roofline-enabled\": 1")
                && system(false).contains("\"roofline-enabled\": 0")
        );
        assert!(
            network(1, None).contains("npus_count: [ 2 ]")
                && network(512, None).contains("npus_count: [ 512 ]")
        );
    }

    #[test]
    fn a_network_of_one_level_is_scaled() {
        let of = |list: &str| format!("topology: [ Switch ]\nnpus_count: {list}\nlatency: [ 5 ]\n");
        assert_eq!(scaled_network(&of("[ 8 ]"), 64), Some(of("[ 64 ]")));
        assert_eq!(scaled_network(&of("[ 8, 2 ]"), 64), None);
        assert_eq!(scaled_network("of somebody else", 64), None);
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
            silent.contains("the network times nothing")
                && !silent.contains("The network alone times"),
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
                && text.contains("no trace here: 2."),
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
                && !text.contains("have no trace here")
                && !text.contains("refuse")
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
            text.contains("rank 1 is a neighbour")
                && !text.contains("have no trace here")
                && text.contains("refuse")
                && text.contains("abort"),
            "{text}"
        );
    }
}
