//! Tests that written files read back unchanged, that damage is reported, and that nothing panics.

use super::graph::DepLatencies;
use super::*;
use crate::check::check;
use crate::et::write_et;
use crate::etplus::write_etplus;
use crate::proto::attribute_proto::Value;
use crate::proto::{AttributeProto, GlobalMetadata, Node, NodeType};
use crate::tests::sample;
use crate::{WriteOptions, finding::Findings};
use etlink_model::{NodeIdx, TrackLabel};
use proptest::prelude::*;
use prost::Message;

fn et_bytes() -> Vec<u8> {
    let mut bytes = vec![];
    write_et(&sample(true), &WriteOptions::default(), &mut bytes).expect("writes");
    bytes
}

fn etplus_bytes() -> Vec<u8> {
    let mut bytes = vec![];
    write_etplus(&sample(true), &mut bytes).expect("writes");
    bytes
}

fn count(findings: &Findings, kind: FindingKind) -> u64 {
    findings.count(kind)
}

#[test]
fn an_et_comes_back() {
    let trace = sample(true);
    let bytes = et_bytes();
    let graph = read(bytes.as_slice()).expect("reads");
    assert_eq!(
        (graph.format, graph.len(), graph.bytes),
        (FileKind::ChakraEt, 10, bytes.len() as u64)
    );
    assert_eq!(
        graph.metadata[0],
        ("version".to_owned(), "0.0.4".to_owned())
    );
    assert_eq!(check(&graph), []);
    for index in 0..graph.len() {
        let node = trace.nodes.get(NodeIdx::new(index));
        assert_eq!(
            (graph.id[index], graph.name_of(index)),
            (index as u64, trace.name(&node))
        );
        assert_eq!(
            (graph.start_ns[index], graph.duration_ns[index]),
            (Some(node.start.0), node.duration.0)
        );
        assert_eq!(graph.is_cpu_op[index], Some(!node.on_device));
        let place = graph.place_of(index);
        assert_eq!(
            (place.stream.is_some(), place.tid.is_some()),
            (node.on_device, !node.on_device)
        );
    }
    assert_eq!(
        (graph.ctrl_deps.list(2), graph.data_deps.list(9)),
        (&[1][..], &[6, 8][..])
    );
    let comm = graph.comm_of(9);
    assert_eq!(
        (graph.node_type[9], comm.comm_type, comm.size),
        (NodeType::CommCollNode, Some(0), Some(4096))
    );
    assert_eq!(comm.group.map(|group| graph.names.get(group)), Some("0"));
    let summary = graph.summary();
    assert_eq!(
        (
            summary.types["COMP_NODE"],
            summary.kinds["device_op"],
            summary.cpu_nodes
        ),
        (9, 2, 7)
    );
    assert_eq!(
        (summary.ctrl_deps, summary.data_deps, summary.window_ns),
        (6, 4, Some((0, 90_300)))
    );
}

#[test]
fn latencies_of_one_kind_of_deps_are_kept() {
    let mut graph = ChakraGraph::default();
    let of = |ctrl: &[i64], data: &[i64]| DepLatencies {
        ctrl: ctrl.to_vec(),
        data: data.to_vec(),
    };
    for latencies in [of(&[], &[]), of(&[5], &[]), of(&[], &[7])] {
        graph.push_latencies(&latencies);
        graph.push(&GraphNode::default(), &[], &[]);
    }
    let mut kept = Vec::from_iter(graph.dep_latencies.keys().copied());
    kept.sort_unstable();
    assert_eq!(kept, [1, 2]);
}

#[test]
fn an_etplus_comes_back() {
    let graph = read(etplus_bytes().as_slice()).expect("reads");
    assert_eq!((graph.format, graph.len()), (FileKind::EtPlus, 10));
    assert_eq!(check(&graph), []);
    for index in 0..graph.len() {
        let (place, on_device) = (graph.place_of(index), graph.is_cpu_op[index] == Some(false));
        assert_eq!(
            (place.stream.is_some(), place.tid.is_some()),
            (on_device, !on_device),
            "{index}"
        );
    }
    assert_eq!(
        (graph.name_of(4), graph.start_ns[4], graph.duration_ns[4]),
        ("gemm<float>", Some(9_000), 700)
    );
    assert_eq!(
        (graph.ctrl_deps.list(4), graph.is_cpu_op[4]),
        (&[4][..], Some(false))
    );
    assert_eq!(
        graph.metadata.first(),
        Some(&("schema".to_owned(), "1.1.1-chakra.0.0.4".to_owned()))
    );
}

#[test]
fn a_host_trace_without_times_is_told_apart() {
    let text = r#"{"schema": "1.0.1", "pid": 1, "time": "t", "start_ts": 2, "nodes": [
        {"name": "a", "id": 2, "rf_id": 0, "parent": 1, "fw_parent": 0, "seq_id": -1, "scope": 7,
          "tid": 1, "fw_tid": 0,
         "op_schema": "", "inputs": [], "outputs": []}]}"#;
    let graph = read(text.as_bytes()).expect("reads");
    assert_eq!(
        (graph.format, graph.ctrl_deps.list(0)),
        (FileKind::HostTrace, &[1][..])
    );
    assert_eq!(count(&graph.findings, FindingKind::MissingAttr), 0);
    assert_eq!(
        count(&graph.findings, FindingKind::MissingKey),
        1,
        "finish_ts"
    );
    assert_eq!(count(&graph.findings, FindingKind::UnknownSchema), 1);
}

/// Of a later schema, what this one has is read.
#[test]
fn unknown_fields_and_types_of_json_lose_no_node() {
    let text = br#"{"version": "9", "later": 1}
{"id": "1", "name": "a", "type": "COMP_NODE"}
{"id": "2", "name": "b", "type": "LATER_NODE", "dataDeps": ["1"]}
{"id": "3", "name": "c", "type": "COMP_NODE", "later": {"x": 1}, "dataDeps": ["2"]}"#;
    let graph = read(&text[..]).expect("reads");
    assert_eq!((graph.format, graph.len()), (FileKind::ChakraJson, 3));
    let deps: usize = (0..graph.len()).map(|node| graph.deps(node).count()).sum();
    assert_eq!(deps, 2);
}

#[test]
fn the_jsonizers_output_is_read() {
    let text = r#"{
  "version": "0.0.4",
  "attr": [{"name": "pid", "uint64Val": "7"}]
}{
  "id": "3", "name": "k", "type": "COMP_NODE", "ctrlDeps": ["0"], "dataDeps": ["1", "2"],
    "durationMicros": "12",
  "attr": [{"name": "is_cpu_op", "boolVal": true}, {"name": "x", "doubleVal": 1.5},
    {"name": "tid", "int64Val": "21"},
           {"name": "pid", "stringVal": "main"}, {"name": "latency_ns", "int64Val": "6500"},
             {"name": "correlation", "int64Val": "5"}]
}{
  "id": "4", "type": "COMM_COLL_NODE", "attr": [{"name": "comm_type", "int64Val": "2"},
    {"name": "comm_size", "int32Val": 8}]
}"#;
    let graph = read(text.as_bytes()).expect("reads");
    assert_eq!((graph.format, graph.len()), (FileKind::ChakraJson, 2));
    assert_eq!(graph.metadata[1], ("pid".to_owned(), "7".to_owned()));
    assert_eq!(
        (graph.id[0], graph.duration_ns[0], graph.is_cpu_op[0]),
        (3, 12_000, Some(true))
    );
    assert_eq!(
        (graph.latency_ns[0], graph.correlation[0]),
        (Some(6_500), Some(5))
    );
    let main = graph.names.find("main").map(TrackLabel::Text);
    assert_eq!(
        graph.place_of(0),
        NodePlacement {
            pid: main,
            tid: Some(TrackLabel::Int(21)),
            ..NodePlacement::default()
        }
    );
    assert_eq!(
        (graph.data_deps.list(0), graph.comm_of(1).size),
        (&[1, 2][..], Some(8))
    );
}

#[test]
fn a_cut_file_keeps_what_is_whole() {
    let bytes = et_bytes();
    let whole = read(bytes.as_slice()).expect("reads").len();
    for cut in 12..bytes.len() {
        let graph = read(&bytes[..cut]).expect("reads");
        let truncated = count(&graph.findings, FindingKind::Truncated);
        assert!(truncated <= 1 && graph.len() < whole, "cut at {cut}");
    }
    let graph = read(&bytes[..bytes.len() - 3]).expect("reads");
    assert_eq!(
        (graph.len(), count(&graph.findings, FindingKind::Truncated)),
        (9, 1)
    );
    let text = etplus_bytes();
    let nodes = text
        .windows(3)
        .rposition(|three| three == b"\n],")
        .expect("an end");
    let graph = read(&text[..nodes - 200]).expect("reads");
    assert_eq!(
        (graph.len(), count(&graph.findings, FindingKind::Truncated)),
        (9, 1)
    );
}

/// Every file that lacks a byte is damaged: a truncated message shows it, or, between two messages,
/// the number of nodes.
#[test]
fn every_cut_is_damage() {
    for bytes in [et_bytes(), etplus_bytes(), crate::astra::idle_rank()] {
        assert_eq!(read(bytes.as_slice()).expect("reads").damage(), None);
        for cut in 1..bytes.len() {
            match read(&bytes[..cut]) {
                // ET+ ends with `finish_ts`, which no node needs.
                Ok(graph) if graph.format.is_tree() && graph.len() == 10 => {}
                Ok(graph) => assert!(graph.damage().is_some(), "cut at {cut}"),
                // A rejected file is not taken for complete.
                Err(_) => {}
            }
        }
    }
}

#[test]
fn a_file_without_its_last_node_says_how_many_there_are() {
    let bytes = et_bytes();
    let cuts = (1..bytes.len()).rev();
    let graph = cuts
        .filter_map(|cut| read(&bytes[..cut]).ok())
        .find(|graph| count(&graph.findings, FindingKind::Truncated) == 0)
        .expect("cut between two messages");
    assert_eq!(count(&graph.findings, FindingKind::NodeCountDiffers), 1);
    let damage = graph.damage().expect("told");
    assert!(damage.contains("9 of 10 nodes are present"), "{damage}");
}

#[test]
fn two_files_in_one_are_damage() {
    let twice = [et_bytes(), et_bytes()].concat();
    let graph = read(twice.as_slice()).expect("reads");
    assert!(count(&graph.findings, FindingKind::NodeCountDiffers) >= 10);
}

#[test]
fn a_file_that_states_no_number_is_whole() {
    let metadata = GlobalMetadata {
        version: "0.0.4".into(),
        attr: vec![],
    };
    let whole = et_bytes();
    let mut nodes = whole.as_slice();
    GlobalMetadata::decode_length_delimited(&mut nodes).expect("metadata");
    let bytes = [metadata.encode_length_delimited_to_vec(), nodes.to_vec()].concat();
    let graph = read(bytes.as_slice()).expect("reads");
    assert_eq!((graph.len(), graph.damage()), (10, None));
}

/// The lengths are the codes of `[` and `{`, and the text is from a Kineto trace.
#[test]
fn a_first_message_of_91_or_123_bytes_is_no_json() {
    for length in [b'[', b'{'] {
        let mut metadata = GlobalMetadata {
            version: "0.0.4".into(),
            attr: vec![AttributeProto {
                name: "note".into(),
                value: Some(Value::StringVal("\"traceEvents\": [{\"ph\": \"X\"".into())),
                ..AttributeProto::default()
            }],
        };
        let missing = usize::from(length) - metadata.encoded_len();
        metadata.attr[0].name += &"x".repeat(missing);
        let node = Node {
            name: "{\"schemaVersion\": 1, \"traceEvents\": []}".into(),
            r#type: NodeType::CompNode.into(),
            ..Node::default()
        };
        let bytes = [
            metadata.encode_length_delimited_to_vec(),
            node.encode_length_delimited_to_vec(),
        ]
        .concat();
        assert_eq!(bytes[0], length);
        assert_eq!(sniff(&bytes), FileKind::ChakraEt);
        assert_eq!(read(bytes.as_slice()).expect("reads").len(), 1);
    }
}

#[test]
fn a_claimed_length_is_not_believed() {
    for claim in [1u64 << 60, 1 << 26, u64::MAX] {
        let mut bytes = et_bytes();
        prost::encoding::encode_varint(claim, &mut bytes);
        bytes.extend_from_slice(b"\x08\x01");
        let graph = read(bytes.as_slice()).expect("reads");
        assert_eq!(
            (graph.len(), count(&graph.findings, FindingKind::Truncated)),
            (10, 1)
        );
    }
    let endless = [et_bytes(), vec![0xFF; 30]].concat();
    assert_eq!(
        count(
            &read(endless.as_slice()).expect("reads").findings,
            FindingKind::Truncated
        ),
        1
    );
}

#[test]
fn a_source_that_breaks_is_damage_or_an_error() {
    struct Breaks(std::io::ErrorKind);
    impl Read for Breaks {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }
    }
    let bytes = et_bytes();
    let cut = read(
        bytes
            .as_slice()
            .chain(Breaks(std::io::ErrorKind::UnexpectedEof)),
    )
    .expect("reads");
    assert_eq!(
        (cut.len(), count(&cut.findings, FindingKind::Truncated)),
        (10, 1)
    );
    let broken = read(
        bytes
            .as_slice()
            .chain(Breaks(std::io::ErrorKind::PermissionDenied)),
    );
    let stopped = format!("stopped at byte {}", bytes.len());
    let error = broken.expect_err("the source fails").to_string();
    assert!(error.contains(&stopped), "{error}");
    let error = read(Breaks(std::io::ErrorKind::PermissionDenied));
    let error = error.expect_err("the source fails").to_string();
    assert!(error.contains("stopped at byte 0"), "{error}");
}

#[test]
fn what_is_not_a_chakra_trace_is_refused_by_name() {
    let kineto = read(&b"{\"schemaVersion\": 1, \"traceEvents\": []}"[..]).expect_err("refused");
    assert!(kineto.to_string().contains("Kineto"), "{kineto}");
    for text in ["hello", "{\"schema\": \"1.0.1\", \"nodes\""] {
        let error = read(text.as_bytes()).expect_err("refused");
        assert!(error.remedy().is_some(), "{error}");
    }
}

/// Draws bytes that begin like one of the formats and continue at random.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let base = prop::sample::select(vec![
        et_bytes(),
        etplus_bytes(),
        b"{\"attr\": []}{\"id\": \"3\", \"type\": \"COMP_NODE\"}".to_vec(),
        vec![],
    ]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12);
    (base, edits, prop::collection::vec(any::<u8>(), 0..60)).prop_map(|(mut bytes, edits, tail)| {
        for (at, value) in edits {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        bytes.extend(tail);
        bytes
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in mutated()) {
        sniff(&bytes);
        if let Ok(graph) = read(bytes.as_slice()) {
            check(&graph);
            graph.summary();
        }
    }

    #[test]
    fn no_message_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let head = [&[2u8, 0x0A, 0][..], &bytes].concat();
        if let Ok(graph) = read(head.as_slice()) {
            check(&graph);
        }
    }
}
