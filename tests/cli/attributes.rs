//! Attributes of nodes in a `.et`: all of them, or only those that simulators read.

use crate::tool::Tool;
use etlink_chakra::messages::ChakraMessages;
use std::collections::BTreeSet;

/// Recorded runs of several ranks, with DDP, pipelines, tensor parallelism and FSDP.
const RUNS: [(&str, usize); 4] = [
    ("ddp2-2.15.0", 2),
    ("pipeline4-2.15.0", 4),
    ("tpdp4-2.15.0", 4),
    ("fsdp2-2.15.0", 2),
];

fn messages(tool: &Tool, name: &str) -> ChakraMessages {
    let (messages, losses) = ChakraMessages::read(&tool.read(name)[..]).expect("reads");
    assert!(losses.is_empty(), "{losses:?}");
    messages
}

/// Compares the two sets of graphs, their sizes, and the attributes of the smaller ones.
#[test]
fn minimal_ranks_run_as_full_ones() {
    let tool = Tool::new();
    let mut attributes = BTreeSet::new();
    for (run, ranks) in RUNS {
        for (options, name) in [("--for astra-sim", "sim"), ("", "plain")] {
            let merge = format!("merge {{pairs}}/{run} {options} -o {name}");
            tool.run(&format!("{merge}/full/{run}")).exits(0);
            tool.run(&format!("{merge}/minimal/{run} --attrs minimal"))
                .exits(0);
            tool.run(&format!("check {name}/minimal/{run}")).exits(0);
            for rank in 0..ranks {
                let file = format!("{run}/{run}.{rank}.et");
                let full = messages(&tool, &format!("{name}/full/{file}"));
                let minimal = messages(&tool, &format!("{name}/minimal/{file}"));
                assert_eq!(full.nodes.len(), minimal.nodes.len(), "{file}");
                for (full, minimal) in full.nodes.iter().zip(&minimal.nodes) {
                    assert_eq!(full.name, minimal.name);
                    assert_eq!((full.id, full.r#type), (minimal.id, minimal.r#type));
                    assert_eq!(full.ctrl_deps, minimal.ctrl_deps);
                    assert_eq!(full.data_deps, minimal.data_deps);
                    assert_eq!(full.duration_micros, minimal.duration_micros);
                    let mut common = full.attr.iter();
                    for attribute in &minimal.attr {
                        assert!(common.any(|attr| attr == attribute), "{attribute:?}");
                        attributes.insert(attribute.name.clone());
                    }
                }
                let bytes_a_node = |bytes: Vec<u8>, nodes: usize| bytes.len() / nodes;
                let full_bytes = tool.read(&format!("{name}/full/{file}"));
                let minimal_bytes = tool.read(&format!("{name}/minimal/{file}"));
                assert!(bytes_a_node(full_bytes, full.nodes.len()) <= 200, "{file}");
                assert!(
                    bytes_a_node(minimal_bytes, full.nodes.len()) <= 120,
                    "{file}"
                );
            }
        }
    }
    // in alphabetical order
    let read = [
        "comm_dst",
        "comm_size",
        "comm_src",
        "comm_tag",
        "comm_type",
        "is_cpu_op",
        "num_ops",
        "pg_name",
        "tensor_size",
    ];
    assert!(attributes.iter().eq(read), "{attributes:?}");
}

#[test]
fn what_a_minimal_file_does_not_say_is_said() {
    let tool = Tool::new();
    let link = "link --host {pairs}/ddp2-2.15.0/torch_et_0.json.gz --device {pairs}/ddp2-2.15.0/kineto_trace_0.json.gz";
    tool.run(&format!("{link} -o full.et")).exits(0);
    tool.run(&format!("{link} -o minimal.et --attrs minimal"))
        .exits(0);
    tool.run("check minimal.et").exits(0);
    let unsaid = "written with --attrs minimal";
    tool.run("analyze minimal.et")
        .exits(2)
        .complains(&["no start times", unsaid]);
    let full = tool.run("replay full.et --json").exits(0).only_run();
    let replay = tool.run("replay minimal.et --json").exits(0).only_run();
    assert_eq!(
        replay["figures"]["replayed_ns"], full["stock_replay"]["makespan_ns"],
        "what readers of durations alone get"
    );
    let notes = replay["diagnostics"].to_string();
    assert!(notes.contains(unsaid), "{notes}");
    assert!(replay["figures"]["measured_ns"].is_null(), "{replay}");
    tool.run("report minimal.et -o page.html")
        .exits(0)
        .notes(unsaid);
    tool.run("inspect minimal.et").exits(0).says("minimal");
}

#[test]
fn attributes_are_of_et_files() {
    let tool = Tool::new();
    let link = "link --device {pairs}/ddp2-2.15.0/kineto_trace_0.json.gz";
    tool.run(&format!("{link} -o x.json --attrs minimal"))
        .exits(2)
        .complains(&["--attrs", ".et"]);
    tool.run(&format!("{link} -o x.et --attrs minimal --dep-latencies"))
        .exits(2)
        .complains(&["--attrs", "--dep-latencies"]);
}
