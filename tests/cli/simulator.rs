//! Files for simulators: contents of each mode, and the simulated time.

use crate::tool::{Tool, pairs, unpacked};
use etlink_chakra::messages::exact_times;
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{GlobalMetadata, Node, NodeType};
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, TraceBuilder};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// Options, and the kinds of nodes that they exclude.
const MODES: [(&str, &[&str]); 3] = [
    ("", &["host", "compute"]),
    (
        "--device-only",
        &["host_op", "runtime", "host_gap", "compute"],
    ),
    (
        "--comm-only",
        &["host_op", "runtime", "host_gap", "host", "device_op"],
    ),
];
const RUNS: [(&str, usize); 13] = [
    ("conv-2.15.0", 1),
    ("ddp2-2.15.0", 2),
    ("ddp2_gloo-2.15.0", 2),
    ("experts2-2.15.0", 2),
    ("fsdp2-2.15.0", 2),
    ("inference-2.15.0", 1),
    ("loader-2.15.0", 1),
    ("mlp-2.1.2", 1),
    ("mlp-2.15.0", 1),
    ("pipeline4-2.15.0", 4),
    ("threads-2.15.0", 1),
    ("tpdp4-2.15.0", 4),
    ("transformer-2.15.0", 1),
];

fn nodes(tool: &Tool, name: &str) -> Vec<Node> {
    let bytes = tool.read(name);
    let mut rest = bytes.as_slice();
    GlobalMetadata::decode_length_delimited(&mut rest).expect("metadata");
    let mut nodes = vec![];
    while !rest.is_empty() {
        nodes.push(Node::decode_length_delimited(&mut rest).expect("node"));
    }
    nodes
}

fn attr<'n>(node: &'n Node, name: &str) -> Option<&'n Value> {
    node.attr
        .iter()
        .find(|attr| attr.name == name)?
        .value
        .as_ref()
}

fn text<'n>(node: &'n Node, name: &str) -> &'n str {
    match attr(node, name) {
        Some(Value::StringVal(text)) => text,
        other => panic!("{name} is {other:?}"),
    }
}

/// Returns the kind of each node, according to the file's reader.
fn kinds(tool: &Tool, name: &str) -> Vec<String> {
    let graph = etlink_chakra::read::read(&tool.read(name)[..]).expect("reads");
    let kinds = (0..graph.len()).map(|node| graph.kind_of(node).to_owned());
    kinds.collect()
}

fn is_communication(node: &Node) -> bool {
    node.r#type() != NodeType::CompNode
}

fn deps(node: &Node) -> impl Iterator<Item = u64> {
    node.ctrl_deps.iter().chain(&node.data_deps).copied()
}

/// Simulates a rank like ASTRA-sim: one host node, one device node and one communication at a time,
/// lowest id first; a communication takes its measured time. Returns the end of the last node, us.
fn simulated_us(nodes: &[Node]) -> u64 {
    let by_id: BTreeMap<u64, &Node> = nodes.iter().map(|node| (node.id, node)).collect();
    let mut open: BTreeMap<u64, usize> = nodes
        .iter()
        .map(|node| (node.id, deps(node).count()))
        .collect();
    let mut followers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    nodes.iter().for_each(|node| {
        deps(node).for_each(|dep| followers.entry(dep).or_default().push(node.id))
    });
    let mut ready: BTreeSet<u64> = open
        .iter()
        .filter(|(_, open)| **open == 0)
        .map(|(id, _)| *id)
        .collect();
    let place = |id: u64| match by_id[&id] {
        node if is_communication(node) => 0,
        node if attr(node, "is_cpu_op") == Some(&Value::BoolVal(true)) => 1,
        _ => 2,
    };
    let (mut running, mut busy, mut now, mut done) = (BTreeSet::new(), [false; 3], 0, 0);
    loop {
        let start: Vec<u64> = ready
            .iter()
            .copied()
            .filter(|id| !std::mem::replace(&mut busy[place(*id)], true))
            .collect();
        for id in start {
            ready.remove(&id);
            running.insert((now + by_id[&id].duration_micros, id));
        }
        let Some((end, id)) = running.pop_first() else {
            break;
        };
        (now, done, busy[place(id)]) = (end, done + 1, false);
        for follower in followers.remove(&id).unwrap_or_default() {
            let left = open.get_mut(&follower).expect("a node");
            *left -= 1;
            if *left == 0 {
                ready.insert(follower);
            }
        }
    }
    assert_eq!(done, nodes.len(), "some wait for ever");
    now
}

#[test]
fn every_mode_takes_as_long_as_measured() {
    let tool = Tool::new();
    for (at, (mode, absent)) in MODES.into_iter().enumerate() {
        for (run, ranks) in RUNS {
            let ran = tool
                .run(&format!(
                    "merge {{pairs}}/{run} -o {at}/{run} --for astra-sim {mode} --json"
                ))
                .exits(0)
                .json();
            for rank in 0..ranks {
                let file = format!("{at}/{run}/{run}.{rank}.et");
                let nodes = nodes(&tool, &file);
                let kinds: BTreeSet<String> = kinds(&tool, &file).into_iter().collect();
                assert!(
                    absent.iter().all(|kind| !kinds.contains(*kind)),
                    "{run} {mode}: {kinds:?}"
                );
                let window = &ran["ranks"][rank]["report"]["window"];
                // A rank that begins later than others has a node for the time before.
                let starts = nodes
                    .iter()
                    .map(|node| exact_times(node).expect("exact times").0);
                let begin = starts
                    .min()
                    .expect("nodes")
                    .min(window["start_ns"].as_i64().expect("a time"));
                let measured_us = (window["end_ns"].as_i64().expect("a time") - begin) as f64 / 1e3;
                let simulated_us = simulated_us(&nodes) as f64;
                // One host node runs at a time: a worker that arrives at its collective waits for
                // the current op of the program's thread, which took 0.6 ms in one run.
                assert!(
                    (simulated_us / measured_us - 1.0).abs() < 0.04,
                    "{run} {rank} {mode}: {simulated_us} us simulated, {measured_us} us measured"
                );
            }
        }
        tool.run(&format!("check {at}")).exits(0);
    }
}

#[test]
fn what_is_left_to_do_is_said_at_the_end() {
    let tool = Tool::new();
    tool.run("merge {pairs}/ddp2-2.15.0 -o out --for astra-sim")
        .exits(0)
        .notes("out/network.yml has 400 GiB/s and 936.25 ns from ASTRA-sim's example")
        .notes("and the bound is 50 %")
        .notes("; replace it with your topology, then run the command in out/README.md");
    let quiet = tool
        .run("merge {pairs}/ddp2-2.15.0 -o plain")
        .exits(0)
        .stderr;
    assert!(!quiet.contains("network.yml"), "{quiet}");
}

/// Returns the message on the network of a run.
fn network_note(run: &serde_json::Value) -> &str {
    let told = run["diagnostics"].as_array().expect("a list");
    let mut of_network = told.iter().filter(|one| one["code"] == "network_assumed");
    of_network
        .next()
        .and_then(|one| one["message"].as_str())
        .expect("a note")
}

#[test]
fn the_network_is_that_of_the_run() {
    let tool = Tool::new();
    let merged = tool
        .run("merge {pairs}/fsdp2-2.15.0 -o out --for astra-sim --json")
        .exits(0)
        .runs();
    let note = network_note(&merged[0]);
    assert!(note.contains("fitted to 18 transfers"), "{note}");
    let network = &merged[0]["network"];
    assert_eq!(network["used"], 18);
    let kinds = network["kinds"].as_array().expect("kinds");
    let count: u64 = kinds.iter().filter_map(|kind| kind["count"].as_u64()).sum();
    assert_eq!(count, 18);
    for kind in kinds {
        // The quickest tenth of the host threads' waits: no kind is faster than measured.
        let [measured, fitted] =
            ["measured_ns", "network_ns"].map(|key| kind[key].as_f64().expect("a time"));
        assert!(0.0 < fitted && fitted < measured, "{kind}");
    }
    let written = String::from_utf8(tool.read("out/network.yml")).expect("text");
    let levels = network["levels"].as_array().expect("levels");
    assert_eq!(levels.len(), 1);
    for value in [&levels[0]["bandwidth"], &levels[0]["latency_ns"]] {
        assert!(
            written.contains(&format!("[ {value} ]")),
            "{value}: {written}"
        );
    }
    let readme = String::from_utf8(tool.read("out/README.md")).expect("text");
    assert!(readme.contains("fitted to 18 transfers"), "{readme}");
    // plain Gloo records no collectives, so there is no data
    tool.run("merge {pairs}/ddp2_gloo-2.15.0 -o gloo --for astra-sim")
        .exits(0)
        .notes("400 GiB/s and 936.25 ns from ASTRA-sim's example");
}

/// Ranks 0 and 1 ran on one host, 2 and 3 on another, over a link of 3 ms.
#[test]
fn groups_of_two_speeds_are_two_levels() {
    let tool = Tool::new();
    let traces = pairs().join("../two-hosts");
    let merge = format!("merge {} --json -o out --for astra-sim", traces.display());
    let run = &tool.run(&merge).exits(0).runs()[0];
    assert!(network_note(run).contains("has two levels"), "{run}");
    let network = &run["network"];
    let levels = network["levels"].as_array().expect("levels");
    assert_eq!(levels.len(), 2);
    let figure = |level: usize, key: &str| levels[level][key].as_f64().expect("a figure");
    assert_eq!((figure(0, "size"), figure(1, "size")), (2.0, 2.0));
    // Four messages in sequence, none of them faster than the link.
    assert!(
        figure(1, "latency_ns") > 5.0 * figure(0, "latency_ns"),
        "{levels:?}"
    );
    assert!(
        (3e6 / 4.0..3e6).contains(&figure(1, "latency_ns")),
        "{levels:?}"
    );
    assert!(
        figure(1, "bandwidth") < figure(0, "bandwidth"),
        "{levels:?}"
    );
    let groups = network["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 4);
    for group in groups {
        let own = group["latency_ns"].as_f64().expect("enough transfers");
        let is_near = group["ranks"] == serde_json::json!([0, 1])
            || group["ranks"] == serde_json::json!([2, 3]);
        assert_eq!(own < 3e5, is_near, "{group}");
    }
    // Each half of the crossing all-reduces predicts the other.
    let kinds = network["kinds"].as_array().expect("kinds");
    let crossing = kinds.iter().find(|kind| kind["kind"] == "all_reduce");
    let halves = crossing.expect("all-reduces")["held_out"].as_array();
    for half in halves.expect("halves") {
        let [measured, fitted] =
            ["measured_ns", "network_ns"].map(|key| half[key].as_f64().expect("a time"));
        assert!((fitted / measured - 1.0).abs() < 0.15, "{half}");
    }
    let written = String::from_utf8(tool.read("out/network.yml")).expect("text");
    assert!(written.contains("npus_count: [ 2, 2 ]"), "{written}");
    let system = String::from_utf8(tool.read("out/system.json")).expect("text");
    assert!(system.contains("\"all-reduce-implementation\": [\"ring\", \"ring\"]"));
}

#[test]
fn packet_networks_have_their_configurations() {
    let tool = Tool::new();
    let traces = pairs().join("../two-hosts");
    let merge = |simulator: &str| {
        format!(
            "merge {} -o out --overwrite --for {simulator}",
            traces.display()
        )
    };
    let text = |name: &str| String::from_utf8(tool.read(&format!("out/{name}"))).expect("text");
    tool.run(&merge("astra-sim-ns3")).exits(0);
    // Four ranks, a switch per host, and two between them.
    assert!(text("ns3_topology.txt").starts_with("8 4 8\n4 5 6 7\n"));
    assert!(text("ns3_config.txt").contains("TOPOLOGY_FILE ns3_topology.txt"));
    assert!(text("ns3_logical.json").contains("[\"2\", \"2\"]"));
    assert!(
        text("README.md").contains("--logical-topology-configuration=\"$PWD/ns3_logical.json\"")
    );
    tool.run(&merge("astra-sim-htsim")).exits(0);
    assert!(text("htsim.topo").starts_with("Nodes 4\nTiers 2\nPodsize 4\n"));
    assert!(text("README.md").contains("-topo \"$PWD/htsim.topo\""));
    // 0.2 Gb/s across hosts are not a whole number
    tool.run(&merge("astra-sim-htsim"))
        .exits(0)
        .notes("1 Gb/s instead of 0.201 (5.0 times as fast)");
    assert!(text("README.md").contains("1 Gb/s instead of 0.201"));
    // The other network's files are removed together with its run.
    assert!(!tool.path("out/ns3_config.txt").exists());
}

#[test]
fn what_a_simulator_adds_to_a_plain_file_of_several_threads_is_said() {
    let tool = Tool::new();
    tool.run(
        "link --host {pairs}/threads-2.15.0/torch_et_0.json.gz \
         --device {pairs}/threads-2.15.0/kineto_trace_0.json.gz -o threads.et",
    )
    .exits(0)
    // ASTRA-sim takes 28.77 ms
    .notes("28.767 ms")
    .notes("(+197 %)");
    for run in [
        "merge {pairs}/threads-2.15.0 -o folded --for astra-sim",
        "merge {pairs}/mlp-2.15.0 -o one",
    ] {
        let notes = tool.run(run).exits(0).stderr;
        assert!(!notes.contains("one host node at a time"), "{notes}");
    }
}

/// If the truncated trace lacks dependencies, threads take no time before their first event.
#[test]
fn threads_of_a_cut_trace_do_not_wait_for_what_was_not_read() {
    let tool = Tool::new();
    let mut device = unpacked("tpdp4-2.15.0/kineto_trace_2.json.gz");
    device.truncate(device.len() / 2);
    tool.file("cut.json", device);
    tool.run("link --host {pairs}/tpdp4-2.15.0/torch_et_2.json.gz --device cut.json -o cut.et")
        .exits(0)
        // 236.6 ms including the time without data
        .notes("needs at least 66.571 ms")
        .notes("in parallel, or waited for work missing from the truncated trace");
    let kinds = kinds(&tool, "cut.et");
    let nodes = nodes(&tool, "cut.et");
    let boundaries = nodes
        .iter()
        .zip(&kinds)
        .filter(|(_, kind)| *kind == "boundary");
    let durations: Vec<u64> = boundaries.map(|(node, _)| node.duration_micros).collect();
    assert_eq!(durations, [0; 5]);
}

/// Returns communications with the attributes that a simulator reads, and their start; without ids
/// and deps.
fn communications(tool: &Tool, name: &str) -> Vec<Node> {
    let read = [
        "comm_type",
        "comm_size",
        "pg_name",
        "comm_src",
        "comm_dst",
        "comm_tag",
        "ns",
        "is_cpu_op",
        "seq",
    ];
    let told = |node: Node| {
        let attr = node
            .attr
            .into_iter()
            .filter(|attr| read.contains(&attr.name.as_str()))
            .collect();
        Node {
            name: node.name,
            r#type: node.r#type,
            start_time_micros: node.start_time_micros,
            attr,
            ..Node::default()
        }
    };
    nodes(tool, name)
        .into_iter()
        .filter(is_communication)
        .map(told)
        .collect()
}

#[test]
fn communications_are_the_same_in_every_mode() {
    let tool = Tool::new();
    for (run, ranks) in RUNS.into_iter().filter(|(_, ranks)| *ranks > 1) {
        for (at, (mode, _)) in MODES.into_iter().enumerate() {
            tool.run(&format!(
                "merge {{pairs}}/{run} -o {at}/{run} --for astra-sim {mode}"
            ))
            .exits(0);
        }
        for rank in 0..ranks {
            let of = |mode: usize| communications(&tool, &format!("{mode}/{run}/{run}.{rank}.et"));
            assert_eq!(of(0), of(1), "{run} {rank}");
            assert_eq!(of(0), of(2), "{run} {rank}");
        }
        let groups =
            |mode: usize| std::fs::read(tool.path(&format!("{mode}/{run}/comm_group.json"))).ok();
        assert_eq!(groups(0), groups(2), "{run}");
    }
}

#[test]
fn modes_are_of_a_simulator_and_exclude_each_other() {
    let tool = Tool::new();
    for words in ["--device-only", "--comm-only", "--compute measured"] {
        let ran = tool
            .run(&format!("merge {{pairs}}/ddp2-2.15.0 -o out {words}"))
            .exits(2);
        assert!(ran.stderr.contains("--for"), "{}", ran.stderr);
    }
    for words in [
        "--device-only --comm-only",
        "--device-only --no-gaps",
        "--comm-only --no-gaps",
    ] {
        let ran = tool
            .run(&format!(
                "merge {{pairs}}/ddp2-2.15.0 -o out --for astra-sim {words}"
            ))
            .exits(2);
        assert!(ran.stderr.contains("cannot be used with"), "{}", ran.stderr);
    }
}

const US: i64 = 1_000;

/// Generates a rank of two, with collectives that are partly exposed:
/// ```text
/// stream 7    mm mm   mm mm   mm mm        four of 5 us, then two that wait for the last
/// stream 20      all_reduce =|  all_reduce =|      all-reduce, 35 us of it exposed
/// ```
fn draw(rank: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    draw.distributed(rank, 2);
    let main = draw.thread();
    let mm = |draw: &mut TraceBuilder, at: i64, kernel: i64| {
        let op = draw.op(main, "aten::mm", at * US, (at + 4) * US);
        draw.arg(op, "Input Dims", "[[64, 32], [32, 16]]");
        draw.arg(op, "Input type", r#"["c10::BFloat16", "c10::BFloat16"]"#);
        draw.launch(
            main,
            ((at + 1) * US, (at + 3) * US),
            DeviceQueue::stream(7),
            "gemm",
            (kernel * US, (kernel + 5) * US),
        );
    };
    mm(&mut draw, 0, 10);
    for (seq, at, end) in [(1, 5, 40), (2, 15, 90)] {
        let comms = ParamComms::new("allreduce", 0..2, rank, seq);
        draw.collective(main, &comms, at * US, (at + 4) * US);
        let correlation = draw.next_correlation();
        draw.call(
            main,
            "cudaLaunchKernelExC",
            ((at + 1) * US, (at + 3) * US),
            correlation,
        );
        let start = if seq == 1 { 15 } else { 45 };
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_AllReduce_Sum_bf16",
            (start * US, end * US),
            correlation,
            &comms,
        );
    }
    for (at, kernel) in [(10, 20), (20, 45), (25, 50), (80, 91), (84, 96)] {
        mm(&mut draw, at, kernel);
    }
    draw.kineto()
}

fn number(node: &Node, name: &str) -> u64 {
    match attr(node, name) {
        Some(Value::Uint64Val(number)) => *number,
        other => panic!("{name} of {} is {other:?}", node.name),
    }
}

#[test]
fn device_nodes_have_a_roofline() {
    let tool = Tool::new();
    (0..2).for_each(|rank| drop(tool.file(&format!("run/kineto_trace_{rank}.json"), draw(rank))));
    for (compute, enabled) in [("measured", 0), ("roofline", 1)] {
        tool.run(&format!(
            "merge run -o {compute} --for astra-sim --compute {compute}"
        ))
        .exits(0)
        .says("2 collectives and 0 messages matched, 0 not");
        let system: serde_json::Value =
            serde_json::from_slice(&tool.read(&format!("{compute}/system.json"))).expect("JSON");
        assert_eq!(system["roofline-enabled"], enabled);
        let nodes = nodes(&tool, &format!("{compute}/run.1.et"));
        let on_device = nodes
            .iter()
            .filter(|node| !is_communication(node) && attr(node, "is_cpu_op").is_none());
        let told: Vec<_> = on_device
            .map(|node| {
                (
                    text(node, "roofline_source"),
                    number(node, "num_ops"),
                    number(node, "tensor_size"),
                )
            })
            .collect();
        assert_eq!(
            told.iter()
                .filter(|told| **told == ("matmul", 2 * 64 * 32 * 16, 16_384))
                .count(),
            6,
            "{told:?}"
        );
        assert!(
            told.iter()
                .all(|(_, operations, bytes)| *operations > 0 && *bytes > 0)
        );
    }
}

#[test]
fn every_mode_of_a_device_run_takes_as_long_as_measured() {
    let tool = Tool::new();
    (0..2).for_each(|rank| drop(tool.file(&format!("run/kineto_trace_{rank}.json"), draw(rank))));
    let mut kinds = vec![];
    for (at, (mode, _)) in MODES.into_iter().enumerate() {
        tool.run(&format!("merge run -o {at} --for astra-sim {mode}"))
            .exits(0);
        tool.run(&format!("check {at}")).exits(0);
        let nodes = nodes(&tool, &format!("{at}/run.0.et"));
        let simulated_us = simulated_us(&nodes);
        assert!(
            (100..=102).contains(&simulated_us),
            "{mode}: {simulated_us} us, measured 101"
        );
        let own = self::kinds(&tool, &format!("{at}/run.0.et"));
        kinds.push(own.iter().filter(|kind| *kind == "device_op").count());
        assert_eq!(
            nodes.iter().filter(|node| is_communication(node)).count(),
            2
        );
    }
    assert_eq!(kinds, [6, 6, 0]);
    assert_eq!(
        communications(&tool, "0/run.0.et"),
        communications(&tool, "2/run.0.et")
    );
}

/// Returns 2 m n k, summed over every product in a host trace.
fn products(host: &serde_json::Value) -> u64 {
    let shape = |node: &serde_json::Value, at: usize| -> Vec<u64> {
        node["inputs"]["shapes"][at]
            .as_array()
            .expect("a shape")
            .iter()
            .filter_map(serde_json::Value::as_u64)
            .collect()
    };
    let product = |node: &serde_json::Value| {
        let first = match node["name"].as_str()? {
            "aten::mm" | "aten::bmm" => 0,
            "aten::addmm" => 1,
            _ => return None,
        };
        Some(2 * shape(node, first).iter().product::<u64>() * shape(node, first + 1).last()?)
    };
    host["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .filter_map(product)
        .sum()
}

#[test]
fn operations_on_the_host_are_those_of_the_host_trace() {
    let tool = Tool::new();
    for (run, expected) in [("transformer-2.15.0", 19_494_912), ("conv-2.15.0", 15_360)] {
        tool.run(&format!("merge {{pairs}}/{run} -o {run} --for astra-sim"))
            .exits(0);
        let nodes = nodes(&tool, &format!("{run}/{run}.0.et"));
        let products_of = nodes.iter().filter(|node| {
            attr(node, "num_ops").is_some() && text(node, "roofline_source") == "matmul"
        });
        let found: u64 = products_of.map(|node| number(node, "num_ops")).sum();
        let host =
            serde_json::from_slice(&unpacked(&format!("{run}/torch_et_0.json.gz"))).expect("JSON");
        assert_eq!((found, products(&host)), (expected, expected), "{run}");
    }
}

#[test]
fn what_a_simulator_adds_or_does_not_time_is_said() {
    let tool = Tool::new();
    tool.run("merge {pairs}/mlp-2.15.0 --for astra-sim -o one")
        .exits(0)
        .notes("the run has one rank, but ASTRA-sim's network needs at least two");
    tool.run("merge {pairs}/ddp2_gloo-2.15.0 --for astra-sim -o silent")
        .exits(0);
    tool.run("merge {pairs}/ddp2-2.15.0 --for astra-sim -o sum")
        .exits(0);
    let readme = |folder: &str| {
        String::from_utf8(tool.read(&format!("{folder}/README.md"))).expect("is text")
    };
    for (folder, is_silent) in [("one", true), ("silent", true), ("sum", false)] {
        let text = readme(folder);
        assert_eq!(
            text.contains("the network has no effect"),
            is_silent,
            "{text}"
        );
        assert!(text.contains("NVIDIA H100"), "{text}");
    }
}
