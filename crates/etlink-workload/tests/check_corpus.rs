//! Source of `testdata/check`: files that break each rule of `etlink check`, and valid ones.
//!
//! With `INSTA_UPDATE=always` the test writes the files. `expected.txt` lists the findings of `check`: a folder or file, and the ids of rules.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a test that reads and writes committed files"
)]

use etlink_chakra::messages::ChakraMessages;
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{AttributeProto, CollectiveCommType, Node, NodeType};
use etlink_workload::{Message, WorkloadBuilder};
use std::collections::BTreeMap;
use std::path::Path;

/// Files by name, and the expected findings of each case.
#[derive(Default)]
struct Corpus {
    files: BTreeMap<String, Vec<u8>>,
    expected: Vec<String>,
}

#[test]
fn the_committed_files_are_what_their_source_makes() {
    let mut corpus = Corpus::default();
    corpus.add_good();
    corpus.add_files();
    corpus.add_graphs();
    corpus.add_communications();
    corpus.add_trees();
    corpus.add_ranks();
    corpus.expected.sort();
    let expected = corpus.expected.join("\n") + "\n";
    let list = "expected.txt".to_owned();
    corpus.files.insert(list, expected.into_bytes());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/check");
    let is_update = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    for (name, bytes) in &corpus.files {
        let path = folder.join(name);
        if is_update {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("makes a folder");
            std::fs::write(&path, bytes).expect("writes");
        }
        let committed = std::fs::read(&path).unwrap_or_default();
        assert!(committed == *bytes, "{name} differs");
    }
}

/// Builds two nodes, one after the other. The node count is not stated, so that a fault breaks only
/// its own rule.
fn two_nodes() -> ChakraMessages {
    let mut graph = WorkloadBuilder::default();
    let first = graph.add_computation("first", 5, &[]);
    graph.add_computation("second", 5, &[first]);
    without_count(graph)
}

fn without_count(graph: WorkloadBuilder) -> ChakraMessages {
    let mut file = graph.finish(&[]);
    file.metadata
        .attr
        .retain(|attribute| attribute.name != "node_count");
    file
}

fn attribute(name: &str, value: Value) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        doc_string: String::new(),
        value: Some(value),
    }
}

fn remove(node: &mut Node, name: &str) {
    node.attr.retain(|attribute| attribute.name != name);
}

fn replace(node: &mut Node, name: &str, value: Value) {
    remove(node, name);
    node.attr.push(attribute(name, value));
}

/// Builds a collective of all ranks.
fn collective() -> ChakraMessages {
    let mut graph = WorkloadBuilder::default();
    graph.add_collective("reduce", CollectiveCommType::AllReduce, 4096, None, &[]);
    without_count(graph)
}

fn message(source: u32, destination: u32) -> Message {
    Message {
        source,
        destination,
        tag: 0,
        bytes: 64,
    }
}

const PROCESS: &str = "[pytorch|profiler|execution_trace|process]";
const ATTRS: [&str; 7] = [
    "rf_id",
    "fw_parent",
    "seq_id",
    "scope",
    "tid",
    "fw_tid",
    "op_schema",
];

/// Builds a node of ET+; `skip` names the missing part.
fn tree_node(id: u64, name: &str, parent: u64, skip: &str) -> String {
    let attrs: Vec<String> = ATTRS
        .iter()
        .filter(|attr| **attr != skip)
        .map(|attr| match *attr {
            "op_schema" => r#"{"name": "op_schema", "type": "string", "value": ""}"#.to_owned(),
            other => format!(r#"{{"name": "{other}", "type": "uint64", "value": 0}}"#),
        })
        .collect();
    let lists = r#"{"values": [], "shapes": [], "types": []}"#;
    let inputs = if skip == "inputs" {
        String::new()
    } else {
        format!("\"inputs\": {lists}, ")
    };
    format!(
        "{{\"id\": {id}, \"name\": \"{name}\", \"ctrl_deps\": {parent}, {inputs}\"outputs\": {lists}, \
        \"attrs\": [{}], \"ts\": 1.000, \"inclusive_dur\": 1.000, \"exclusive_dur\": 1.000}}",
        attrs.join(", ")
    )
}

fn tree(schema: &str, nodes: &[String]) -> Vec<u8> {
    let nodes = nodes.join(",\n");
    format!(
        "{{\"schema\": \"{schema}\", \"pid\": 1, \"time\": \"\", \"start_ts\": 1, \"nodes\": [\n\
        {nodes}\n], \"finish_ts\": 2}}\n"
    )
    .into_bytes()
}

const SCHEMA: &str = "1.0.2-chakra.0.0.4";

impl Corpus {
    /// Adds a single file.
    fn add(&mut self, name: &str, bytes: Vec<u8>, rules: &str) {
        self.files.insert(name.to_owned(), bytes);
        self.expected
            .push(format!("{name}: {rules}").trim_end().to_owned());
    }

    /// Adds the files of several ranks, with the list of groups.
    fn add_run(&mut self, name: &str, ranks: Vec<ChakraMessages>, groups: &str, rules: &str) {
        for (rank, file) in ranks.iter().enumerate() {
            self.files
                .insert(format!("{name}/run.{rank}.et"), file.to_et());
        }
        if !groups.is_empty() {
            let path = format!("{name}/comm_group.json");
            self.files.insert(path, format!("{groups}\n").into_bytes());
        }
        self.expected
            .push(format!("{name}: {rules}").trim_end().to_owned());
    }

    fn add_good(&mut self) {
        let rank = |rank: u32| {
            let mut graph = WorkloadBuilder::default();
            let work = graph.add_computation("work", 7, &[]);
            let kind = CollectiveCommType::AllReduce;
            let all = graph.add_collective("all", kind, 4096, None, &[work]);
            let some = graph.add_collective("some", kind, 4096, Some(1), &[all]);
            match rank {
                0 => graph.add_send("give", message(0, 1), &[some]),
                _ => graph.add_receive("take", message(0, 1), &[some]),
            };
            graph.finish(&[])
        };
        self.add_run("good", vec![rank(0), rank(1)], r#"{"1": [0, 1]}"#, "");
        let nodes = [
            tree_node(1, PROCESS, 1, ""),
            tree_node(2, "aten::mm", 1, ""),
        ];
        self.add("good-tree.json", tree(SCHEMA, &nodes), "");
    }

    fn add_files(&mut self) {
        self.add_run("ET001-unreadable", vec![two_nodes()], "", "ET001");
        let other = b"this is no trace\n".to_vec();
        self.files
            .insert("ET001-unreadable/run.1.et".to_owned(), other);
        self.add("ET002-empty.et", vec![], "ET002");
        let mut none = two_nodes();
        none.nodes.clear();
        self.add("ET003-no-nodes.et", none.to_et(), "ET003");
        let whole = two_nodes().to_et();
        let metadata = ChakraMessages {
            nodes: vec![],
            ..two_nodes()
        };
        let nodes = whole[metadata.to_et().len()..].to_vec();
        self.add("ET004-no-metadata.et", nodes, "ET004");
        let cut = whole[..whole.len() - 2].to_vec();
        self.add("ET005-truncated.et", cut, "ET005");
        let mut counted = two_nodes();
        let count = attribute("node_count", Value::Uint64Val(3));
        counted.metadata.attr.push(count);
        self.add("ET006-node-count.et", counted.to_et(), "ET006");
        let mut garbage = whole.clone();
        garbage.extend([2, 0xFF, 0xFF]);
        self.add("ET007-undecodable.et", garbage, "ET007");
        let mut latin = whole;
        // a node with id 9 and the name 0xE9
        latin.extend([7, 0x08, 9, 0x12, 1, 0xE9, 0x18, 4]);
        self.add("ET008-not-utf8.et", latin, "ET008");
    }

    fn add_changed(&mut self, name: &str, rules: &str, change: impl FnOnce(&mut Vec<Node>)) {
        let mut file = two_nodes();
        change(&mut file.nodes);
        self.add(name, file.to_et(), rules);
    }

    fn add_graphs(&mut self) {
        self.add_changed("ET101-duplicate-id.et", "ET101", |nodes| {
            nodes.push(Node {
                name: "again".to_owned(),
                ..nodes[1].clone()
            });
        });
        self.add_changed("ET102-dangling.et", "ET102", |nodes| {
            nodes[1].data_deps.push(77)
        });
        self.add_changed("ET104-self.et", "ET104", |nodes| nodes[1].data_deps.push(1));
        self.add_changed("ET105-cycle.et", "ET105", |nodes| {
            nodes[0].data_deps.push(1)
        });
        self.add_changed("ET106-order.et", "ET106", |nodes| {
            nodes[1].data_deps.clear();
            for (node, start) in nodes.iter_mut().zip([2_000, 1_000]) {
                node.start_time_micros = start;
            }
        });
        self.add_changed("ET201-metadata-node.et", "ET201", |nodes| {
            nodes[1].r#type = NodeType::MetadataNode as i32;
        });
        self.add_changed("ET202-invalid-node.et", "ET202", |nodes| {
            nodes[0].r#type = NodeType::InvalidNode as i32;
        });
        self.add_changed("ET203-attribute-type.et", "ET203", |nodes| {
            replace(
                &mut nodes[0],
                "is_cpu_op",
                Value::StringVal("no".to_owned()),
            );
        });
        self.add_changed("ET308-gloo.et", "ET308", |nodes| {
            nodes[1].name = "gloo:all_reduce".to_owned();
        });
        self.add_changed("ET310-absent-rank.et", "ET310", |nodes| {
            replace(
                &mut nodes[1],
                "kind",
                Value::StringVal("collective".to_owned()),
            );
        });
    }

    fn add_collective(&mut self, name: &str, rules: &str, change: impl FnOnce(&mut Node)) {
        let mut file = collective();
        change(&mut file.nodes[0]);
        self.add(name, file.to_et(), rules);
    }

    fn add_communications(&mut self) {
        let number = Value::Int64Val;
        self.add_collective("ET301-no-type.et", "ET301", |node| {
            remove(node, "comm_type")
        });
        let broadcast = CollectiveCommType::Broadcast as i64;
        self.add_collective("ET309-broadcast.et", "ET309", |node| {
            replace(node, "comm_type", number(broadcast));
            node.duration_micros = 0;
        });
        let barrier = CollectiveCommType::Barrier as i64;
        self.add_collective("ET302-barrier.et", "ET302", |node| {
            replace(node, "comm_type", number(barrier));
        });
        self.add_collective("ET303-no-size.et", "ET303", |node| {
            remove(node, "comm_size")
        });
        self.add_collective("ET304-size-0.et", "ET304", |node| {
            replace(node, "comm_size", number(0));
        });
        self.add_collective("ET305-empty-all-gather.et", "ET305", |node| {
            let kind = CollectiveCommType::AllGather as i64;
            replace(node, "comm_type", number(kind));
            replace(node, "comm_size", number(0));
        });
        self.add_collective("ET305-small-all-gather.et", "ET305", |node| {
            let kind = CollectiveCommType::AllGather as i64;
            replace(node, "comm_type", number(kind));
            replace(node, "comm_size", number(3));
        });
        let mut send = WorkloadBuilder::default();
        send.add_send("give", message(0, 1), &[]);
        let mut send = without_count(send);
        remove(&mut send.nodes[0], "comm_dst");
        self.add("ET306-no-peer.et", send.to_et(), "ET306");
        self.add_collective("ET307-on-cpu.et", "ET307", |node| {
            replace(node, "is_cpu_op", Value::BoolVal(true));
        });
    }

    fn add_trees(&mut self) {
        let root = || tree_node(1, PROCESS, 1, "");
        let of = |node: String| tree(SCHEMA, &[root(), node]);
        self.add(
            "ET103-no-parent.json",
            of(tree_node(2, "aten::mm", 9, "")),
            "ET103",
        );
        let nodes = [root(), tree_node(2, "aten::mm", 1, "")];
        self.add("ET401-schema.json", tree("9.9", &nodes), "ET401");
        let no_inputs = tree_node(2, "aten::mm", 1, "inputs");
        self.add("ET402-no-inputs.json", of(no_inputs), "ET402");
        let no_thread = tree_node(2, "aten::mm", 1, "tid");
        self.add("ET403-no-tid.json", of(no_thread), "ET403");
        let quoted = tree_node(2, "say \"hi\" twice", 1, "");
        self.add("ET404-quotes.json", of(quoted), "ET404");
    }

    fn add_ranks(&mut self) {
        let reduce = |bytes, group, kind| {
            let mut graph = WorkloadBuilder::default();
            graph.add_collective("c", kind, bytes, group, &[]);
            without_count(graph)
        };
        let all = CollectiveCommType::AllReduce;
        let of_group = || reduce(64, Some(1), all);
        let two = r#"{"1": [0, 1]}"#;
        let three = r#"{"1": [0, 1, 2]}"#;
        self.add_run(
            "ET501-no-rank",
            vec![of_group(), of_group()],
            three,
            "ET501",
        );
        self.add_run(
            "ET502-not-listed",
            vec![of_group(), of_group()],
            r#"{"2": [0, 1]}"#,
            "ET502",
        );
        let ranks = vec![of_group(), of_group(), of_group()];
        self.add_run("ET503-not-in-group", ranks, r#"{"1": [0, 2]}"#, "ET503");
        let ranks = vec![of_group(), two_nodes()];
        self.add_run("ET504-missing", ranks, two, "ET504 ET509");
        let kinds = vec![
            of_group(),
            reduce(64, Some(1), CollectiveCommType::AllToAll),
        ];
        self.add_run("ET505-type", kinds, two, "ET505");
        let sizes = vec![of_group(), reduce(128, Some(1), all)];
        self.add_run("ET506-size", sizes, two, "ET506");
        let mut send = WorkloadBuilder::default();
        send.add_send("give", message(0, 1), &[]);
        let ranks = vec![without_count(send), two_nodes()];
        self.add_run("ET507-no-receive", ranks, "", "ET507");
        let mut take = WorkloadBuilder::default();
        take.add_receive("take", message(0, 1), &[]);
        let ranks = vec![two_nodes(), without_count(take)];
        self.add_run("ET508-no-send", ranks, "", "ET508 ET509");
        let crossed = |rank: u32| {
            let mut graph = WorkloadBuilder::default();
            let other = 1 - rank;
            let taken = graph.add_receive("take", message(other, rank), &[]);
            graph.add_send("give", message(rank, other), &[taken]);
            without_count(graph)
        };
        let ranks = vec![crossed(0), crossed(1)];
        self.add_run("ET509-crossed", ranks, "", "ET509 ET510");
        let ordered = |groups: [u32; 2]| {
            let mut graph = WorkloadBuilder::default();
            for group in groups {
                graph.add_collective("c", all, 64, Some(group), &[]);
            }
            without_count(graph)
        };
        let ranks = vec![ordered([1, 2]), ordered([2, 1])];
        self.add_run(
            "ET510-order",
            ranks,
            r#"{"1": [0, 1], "2": [0, 1]}"#,
            "ET510",
        );
        let ranks = vec![of_group(), reduce(64, Some(2), all)];
        self.add_run("ET511-one-rank", ranks, r#"{"1": [0], "2": [1]}"#, "ET511");
        let named = || {
            let mut file = of_group();
            let name = Value::StringVal("dp".to_owned());
            replace(&mut file.nodes[0], "pg_name", name);
            file
        };
        self.add_run(
            "ET512-group-key",
            vec![named(), named()],
            r#"{"dp": [0, 1]}"#,
            "ET512",
        );
    }
}
