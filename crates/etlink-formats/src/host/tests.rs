//! Tests of whole documents: layouts, damage, and invariants of every trace.

mod builder;

pub(crate) use builder::{Node, document, read, text};

use crate::Error;
use crate::host::HostReadOptions;
use etlink_model::{AnomalyKind, HostTrace, KeptNodes, RfId};
use proptest::prelude::*;
use std::io::Read;

const FLAT: &str = r#"{"name": "aten::add", "id": 5, "rf_id": 3, "parent": 2, "fw_parent": 4,
  "seq_id": 7, "scope": 1, "tid": 1, "fw_tid": 2, "op_schema": "add(\"x\")",
  "inputs": [[8,9,0,64,4,"cuda:0"],[1,2]], "input_shapes": [[8,8],[[],[]]],
    "input_types": ["Tensor(float)","GenericList[Int,Int]"],
  "outputs": [[10,11,0,64,4,"cuda:0"]], "output_shapes": [[8,8]],
    "output_types": ["Tensor(float)"]}"#;

fn attr_node(strides: &str, more: &str) -> String {
    let attrs: String = [
        ("rf_id", 3),
        ("fw_parent", 4),
        ("seq_id", 7),
        ("scope", 1),
        ("tid", 1),
        ("fw_tid", 2),
    ]
    .map(|(name, value)| format!(r#"{{"name": "{name}", "type": "uint64", "value": {value}}}, "#))
    .concat();
    format!(
        r#"{{"id": 5, "name": "aten::add", "ctrl_deps": 2,
  "inputs": {{"values": [[8,9,0,64,4,"cuda:0"],[1,2]], "shapes": [[8,8],[[],[]]],
    "types": ["Tensor(float)","GenericList[Int,Int]"]{strides}}},
  "outputs": {{"values": [[10,11,0,64,4,"cuda:0"]], "shapes": [[8,8]],
    "types": ["Tensor(float)"]{strides}}},
  "attrs": [{attrs}{{"name": "op_schema", "type": "string", "value": "add(\"x\")"}}{more}]}}"#
    )
}

#[test]
fn every_schema_gives_the_same_columns() {
    let kernel = concat!(
        r#",{"name": "kernel_backend", "type": "string", "#,
        r#""value": "triton"},{"name": "kernel_file", "type": "string", "value": "a.py"}"#,
    );
    let range = r#",{"name": "tensor_range", "type": "string", "value": "{}"}"#;
    let strides = r#", "strides": [[8,1]]"#;
    for (schema, node, texts) in [
        ("1.0.1", FLAT.to_owned(), ["", "", "", ""]),
        ("1.0.2-chakra.0.0.4", attr_node("", ""), ["", "", "", ""]),
        ("1.0.3-chakra.0.0.4", attr_node("", ""), ["", "", "", ""]),
        (
            "1.0.4-chakra.0.0.4",
            attr_node("", kernel),
            ["triton", "a.py", "", ""],
        ),
        (
            "1.1.0-chakra.0.0.4",
            attr_node("", kernel),
            ["triton", "a.py", "", ""],
        ),
        (
            "1.1.1-chakra.0.0.4",
            attr_node(strides, &format!("{kernel}{range}")),
            ["triton", "a.py", "{}", "[[8,1]]"],
        ),
        (
            "1.1.1-chakra.1.0.0",
            attr_node(strides, ""),
            ["", "", "", "[[8,1]]"],
        ),
    ] {
        let trace = read(&format!(
            concat!(
                r#"{{"schema": "{schema}", "nodes": [{{"id": 2, "name": "x"}}, {node}], "#,
                r#""finish_ts": 1}}"#,
            ),
            schema = schema,
            node = node
        ));
        assert_eq!(
            trace.anomalies.iter().count(),
            0,
            "{schema} {:?}",
            trace.anomalies
        );
        let row = trace.nodes.row(1);
        assert_eq!(
            (row.id, row.parent, row.rf_id, row.fw_parent, row.seq_id),
            (5, 2, RfId(3), 4, 7),
            "{schema}"
        );
        assert_eq!(
            (row.scope, row.tid, row.fw_tid, row.collective),
            (1, 1, 2, u32::MAX),
            "{schema}"
        );
        let names = [
            row.name,
            row.op_schema,
            row.inputs.shapes,
            row.inputs.types,
            row.outputs.shapes,
        ];
        let want = [
            "aten::add",
            r#"add("x")"#,
            "[[8,8],[[],[]]]",
            r#"["Tensor(float)","GenericList[Int,Int]"]"#,
            "[[8,8]]",
        ];
        assert_eq!(names.map(|name| trace.names.get(name)), want, "{schema}");
        assert_eq!(
            [
                row.kernel_backend,
                row.kernel_file,
                row.tensor_range,
                row.inputs.strides
            ]
            .map(|name| trace.names.get(name)),
            texts,
            "{schema}"
        );
        assert_eq!(
            text(&trace, row.inputs.values),
            r#"[[8,9,0,64,4,"cuda:0"],[1,2]]"#,
            "{schema}"
        );
        let uses = crate::host::tensor_uses(&trace);
        let output = uses.refs.row(uses.outputs(1).start);
        assert_eq!(
            (output.storage, output.start, output.end),
            (11, 0, 4 * 64),
            "{schema}"
        );
        assert_eq!(
            (uses.inputs(1).len(), uses.outputs(1).len()),
            (1, 1),
            "{schema}"
        );
    }
}

#[test]
fn what_a_node_does_not_say() {
    let trace = read(concat!(
        r#"{"schema": "1.0.1", "nodes": [{"id": 3}, {"name": "no id"}, {"id": "x"}], "#,
        r#""finish_ts": 1}"#,
    ));
    let row = trace.nodes.row(0);
    assert_eq!(
        (row.parent, row.rf_id, row.seq_id, row.tid),
        (0, RfId(0), -1, 0)
    );
    assert_eq!(
        (
            text(&trace, row.inputs.values),
            trace.names.get(row.inputs.shapes),
            trace.names.get(row.inputs.strides)
        ),
        ("[]", "[]", "")
    );
    assert_eq!(
        (
            trace.nodes.len(),
            trace.anomalies.count(AnomalyKind::NoNodeId)
        ),
        (1, 2)
    );
}

#[test]
fn unknown_attributes_are_kept_as_they_are() {
    let more = concat!(
        r#", {"name": "a\"b", "type": "string", "value": "c\\d"}, {"value": [1, {"x": 2}], "#,
        r#""name": "list"}, {"name": "none"}"#,
    );
    let trace = read(&document(&[attr_node("", more)]));
    let kept = concat!(
        r#"{"name": "a\"b", "type": "string", "value": "c\\d"},{"name": "list", "#,
        r#""value": [1, {"x": 2}]},{"name": "none"}"#,
    );
    assert_eq!(text(&trace, trace.nodes.extra_attrs[0]), kept);
}

#[test]
fn a_node_whose_last_list_is_broken_is_left_out() {
    for broken in [r#", "strides": }"#, r#", "strides": [[1}"#] {
        let whole = attr_node(r#", "strides": [[8,1]]"#, "");
        let node = whole.replacen(r#", "strides": [[8,1]]}"#, broken, 1);
        assert_ne!(node, whole);
        let trace = read(&document(&[
            Node::new(2, 1, "a").text(),
            node,
            Node::new(9, 2, "b").text(),
        ]));
        assert_eq!(
            (
                &trace.nodes.id[..],
                trace.anomalies.count(AnomalyKind::Skipped)
            ),
            (&[2, 9][..], 1),
            "{broken}"
        );
    }
}

/// Foreign files have keys that PyTorch does not write, also after the usual ones.
#[test]
fn keys_behind_the_usual_ones_are_stepped_over() {
    // on one line, like PyTorch's arguments
    let usual = attr_node(r#", "strides": [[8,1]]"#, "").replace("\n    ", " ");
    let lists = usual.replace(
        r#""strides": [[8,1]]}"#,
        r#""strides": [[8,1]], "more": [7]}"#,
    );
    let attribute = usual.replace(r#""value": 3}"#, r#""value": 3, "more": 7}"#);
    let want = read(&document(std::slice::from_ref(&usual)));
    for other in [lists, attribute] {
        assert_ne!(other, usual);
        let trace = read(&document(&[other]));
        assert_eq!(trace.nodes, want.nodes);
        assert_eq!(trace.text, want.text);
    }
}

#[test]
fn arguments_that_are_no_lists_are_none() {
    let lists = r#"{"values": {"a": [1]}, "shapes": 7, "types": "x"}"#;
    let node = format!(r#"{{"id": 5, "name": "a", "ctrl_deps": 1, "inputs": {lists}}}"#);
    let trace = read(&document(&[node]));
    let inputs = trace.nodes.inputs[0];
    assert_eq!(text(&trace, inputs.values), "[]");
    let names = [inputs.shapes, inputs.types];
    assert_eq!(names.map(|name| trace.names.get(name)), ["[]", "[]"]);
}

#[test]
fn linked_traces_can_be_read() {
    let nodes = [
        concat!(
            r#"{"id": 0, "name": "[pytorch|profiler|execution_trace|process]", "#,
            r#""ctrl_deps": 0, "ts": null, "attrs": []}"#,
        ),
        concat!(
            r#"{"id": 3, "name": "aten::mm", "ctrl_deps": null, "inclusive_dur": 1.5, "#,
            r#""exclusive_dur": 1, "ts": 17.25, "inter_thread_dep": null, "attrs": []}"#,
        ),
        concat!(
            r#"{"id": 4, "name": "gemm", "ctrl_deps": [3, 2], "cat": "kernel", "stream": 7, "#,
            r#""pg_name": "0", "inputs": null, "attrs": []}"#,
        ),
        concat!(
            r#"{"id": 5, "name": "gemm", "ctrl_deps": [], "sync_dep": [4], "attrs": [7, "#,
            r#"null, {"name": "rf_id", "type": "uint64", "value": 9}]}"#,
        ),
    ];
    let trace = read(&document(&nodes.map(str::to_owned)));
    assert_eq!(trace.nodes.parent, [0, 0, 3, 0]);
    assert_eq!(trace.nodes.rf_id[3], RfId(9));
    assert_eq!(trace.collectives.len(), 0);
}

#[test]
fn header_wherever_it_stands() {
    let around = [
        (
            r#""schema": "1.0.1", "pid": 12, "time": "2023-01-02 03:04:05", "start_ts": 70, "#,
            r#", "finish_ts": 90"#,
        ),
        (
            "",
            concat!(
                r#", "finish_ts": 90, "schema": "1.0.1", "pid": 12, "#,
                r#""time": "2023-01-02 03:04:05", "start_ts": 70"#,
            ),
        ),
    ];
    for (before, after) in around {
        let trace = read(&format!("{{{before}\"nodes\": []{after}}}"));
        let header = trace.header;
        assert_eq!(
            (header.schema.as_str(), header.pid, header.time.as_str()),
            ("1.0.1", Some(12), "2023-01-02 03:04:05")
        );
        assert_eq!(
            (header.start_ms, header.finish_ms, trace.nodes.len()),
            (Some(70), Some(90), 0)
        );
        assert_eq!(trace.anomalies.iter().count(), 0);
    }
}

#[test]
fn an_unknown_schema_is_read_by_shape() {
    let trace = read(&format!(r#"{{"schema": "9.9", "nodes": [{FLAT}]}}"#));
    let found: Vec<_> = trace
        .anomalies
        .iter()
        .map(|(kind, anomaly)| (kind, anomaly.count, anomaly.first.clone()))
        .collect();
    let orphan = (
        AnomalyKind::OrphanNode,
        1,
        Some("id 5, parent 2".to_owned()),
    );
    assert_eq!(
        found,
        [
            orphan,
            (AnomalyKind::NoFinish, 1, None),
            (AnomalyKind::UnknownSchema, 1, Some("9.9".to_owned()))
        ]
    );
    assert_eq!(crate::host::tensor_uses(&trace).refs.len(), 2);
}

#[test]
fn names_that_are_not_json() {
    let names = [
        "say \"hi\"",
        "quote \"x\"",
        "a \"b\", \"c\" d",
        "back\\slash",
        "new\nline",
        "tab\t",
        "brace {} [0}",
        "\u{1}",
        "é😀",
    ];
    let nodes: Vec<_> = (2..)
        .zip(names)
        .map(|(id, name)| Node::new(id, 1, name).text())
        .collect();
    let trace = read(&document(&nodes));
    let found: Vec<_> = trace
        .nodes
        .name
        .iter()
        .map(|name| trace.names.get(*name))
        .collect();
    assert_eq!(found, names);
    assert_eq!(trace.anomalies.count(AnomalyKind::Repaired), 3);
}

#[test]
fn bare_numbers_that_are_none_stay_in_the_text() {
    let trace = read(&document(&[Node::new(2, 1, "aten::fill_")
        .inputs(
            r#"[nan,-inf,[8,9,0,1,4,"cpu"]]"#,
            r#"["Double","Double","Tensor(float)"]"#,
        )
        .text()]));
    assert_eq!(
        text(&trace, trace.nodes.inputs[0].values),
        r#"[nan,-inf,[8,9,0,1,4,"cpu"]]"#
    );
    assert_eq!(crate::host::tensor_uses(&trace).refs.storage, [9]);
}

#[test]
fn every_cut_gives_the_whole_nodes_before_it() {
    let attrs = |id| attr_node("", "").replace("\"id\": 5", &format!("\"id\": {id}"));
    for nodes in [
        [
            Node::new(2, 1, "a").text(),
            FLAT.to_owned(),
            Node::new(9, 2, "b").text(),
        ],
        [attrs(5), attrs(6), attrs(7)],
    ] {
        let document = document(&nodes);
        let list = document.find('[').expect("list") + 1;
        let ends = nodes
            .iter()
            .map(|node| document.find(node.as_str()).expect("node") + node.len())
            .collect::<Vec<_>>();
        let close = document.rfind(']').expect("list");
        for cut in list..document.len() {
            let trace = read(&document[..cut]);
            assert_eq!(
                trace.nodes.len(),
                ends.iter().filter(|end| **end <= cut).count(),
                "cut at {cut}"
            );
            assert_eq!(
                trace.anomalies.count(AnomalyKind::Truncated),
                u64::from(cut <= close),
                "cut at {cut}"
            );
        }
    }
}

#[test]
fn a_forked_child_ends_the_file_before_its_parent() {
    let (a, b, c) = (
        Node::new(2, 1, "a").text(),
        Node::new(3, 2, "b").text(),
        Node::new(4, 2, "c").text(),
    );
    let trace = read(&format!(
        "{{\"schema\": \"1.0.1\", \"pid\": 7,\n \"nodes\": [\n{a},\n{b}\n  ],\n  \"finish_ts\": \
            5\n}},\n{b},\n{c}\n  ],\n  \"finish_ts\": 9\n}}"
    ));
    assert_eq!(trace.nodes.id, [2, 3, 4]);
    assert_eq!(
        (
            trace.header.finish_ms,
            trace.anomalies.count(AnomalyKind::DuplicateNodeId)
        ),
        (Some(9), 1)
    );
}

/// Like the previous test, but nodes begin with their ids, and damage is before and after all
/// lists.
#[test]
fn damage_around_the_lists_of_a_forked_child_is_counted() {
    let node = |id: u64| attr_node("", "").replace("\"id\": 5", &format!("\"id\": {id}"));
    let damage = r#""w": [2, "x" y]"#;
    let text = format!(
        "{{\"schema\": \"1.1.1\",\n{damage},\n\"nodes\": [{}], \"finish_ts\": 5}}, {}],\n{damage},\n\
         \"finish_ts\": 9}}",
        node(2),
        node(3)
    );
    let trace = read(&text);
    assert_eq!(trace.nodes.id, [2, 3]);
    assert_eq!(trace.header.finish_ms, Some(9));
    assert_eq!(trace.anomalies.count(AnomalyKind::HeaderDamaged), 2);
}

/// Damage after the end of the first list, which a child wrote, is reported at its offset in the
/// file.
#[test]
fn damage_of_a_list_behind_the_end_is_counted_at_its_place_in_the_file() {
    let node = |id, name: &str| Node::new(id, 1, name).text();
    let broken = r#"{"name": "b", "id": }"#;
    let text = format!(
        "{{\"schema\": \"1.0.1\",\n \"nodes\": [\n{}\n  ],\n  \"finish_ts\": 5\n}},\n{},\n{broken},\n{}\n  \
         ],\n  \"finish_ts\": 9\n}}",
        node(2, "a"),
        node(3, "b"),
        node(4, "c"),
    );
    let trace = read(&text);
    assert_eq!(trace.nodes.id, [2, 3, 4]);
    let skipped = trace.anomalies.iter();
    let mut skipped = skipped.filter(|(kind, _)| *kind == AnomalyKind::Skipped);
    let (_, damage) = skipped.next().expect("a node is skipped");
    let place = text.find(broken).expect("it is there");
    assert_eq!(damage.count, 1);
    assert_eq!(damage.first, Some(format!("byte {place}")));
}

#[test]
fn what_is_no_json_before_and_behind_the_nodes_is_counted() {
    let nodes = Node::new(2, 1, "a").text();
    let text = format!(
        "{{\"schema\": \"1.0.1\",\n\"q\": [1, \"x\" y],\n\"nodes\": [{nodes}],\n\"w\": [2, \"x\" \
         y],\n\"finish_ts\": 9}} and more"
    );
    let trace = read(&text);
    assert_eq!(trace.header.finish_ms, Some(9));
    assert_eq!(trace.anomalies.count(AnomalyKind::HeaderDamaged), 2);
    assert_eq!(trace.anomalies.count(AnomalyKind::TextBehind), 1);
    let whole = read(&document(&[nodes]));
    assert_eq!(whole.anomalies.count(AnomalyKind::HeaderDamaged), 0);
    assert_eq!(whole.anomalies.count(AnomalyKind::TextBehind), 0);
}

/// A file of many children must not be read forever.
#[test]
fn so_many_lists_are_read_and_no_more() {
    let mut text = String::from("{\"schema\": \"1.0.1\", \"nodes\": [");
    let lists = 20;
    for id in 2..2 + lists {
        text += &Node::new(id, 1, "a").text();
        text += "], \"finish_ts\": 5},";
    }
    let trace = read(text.trim_end_matches(','));
    assert_eq!(trace.nodes.len(), crate::host::MAX_ENDS);
}

/// A parent before a slice is not damage.
#[test]
fn nodes_of_a_slice_are_kept() {
    let nodes = [
        Node::new(2, 1, crate::host::THREAD_NODE).text(),
        Node::new(4, 2, "a").rf_id(7).text(),
        Node::new(5, 4, "b").rf_id(8).text(),
        Node::new(6, 5, "c").rf_id(9).text(),
    ];
    let text = document(&nodes);
    let kept = KeptNodes {
        rf_ids: 8..10,
        earlier: vec![],
    };
    let options = HostReadOptions::default();
    let part = crate::host::read_part(text.as_bytes(), options, Some(&kept)).expect("reads");
    assert_eq!(
        (part.nodes.id, part.nodes.parent),
        (vec![2, 5, 6], vec![1, 2, 5])
    );
    assert_eq!(part.anomalies.count(AnomalyKind::OrphanNode), 0);
}

#[test]
fn record_functions_that_two_nodes_claim_are_counted() {
    let text = document(&[
        Node::new(2, 1, "a").rf_id(7).text(),
        Node::new(3, 1, "b").rf_id(7).text(),
        Node::new(4, 1, "c").rf_id(8).text(),
        Node::new(5, 1, "d").text(),
        Node::new(6, 1, "e").text(),
    ]);
    let trace = read(&text);
    assert_eq!(trace.anomalies.count(AnomalyKind::DuplicateRfId), 1);
}

#[test]
fn text_after_the_document_is_not_touched() {
    let trace = read(&format!(
        "{}}}\nfrom torch import tensor, {{\"id\": 5}}",
        document(&[Node::new(2, 1, "a").text()])
    ));
    assert_eq!(trace.nodes.id, [2]);
}

#[test]
fn a_damaged_stream_gives_what_came_before() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                "corrupt deflate stream",
            ))
        }
    }
    let document = document(&[Node::new(2, 1, "a").text(), Node::new(3, 2, "b").text()]);
    let trace = crate::host::read(
        document.as_bytes()[..document.len() - 40].chain(Broken),
        HostReadOptions::default(),
    )
    .expect("reads");
    assert_eq!(trace.nodes.id, [2]);
    let (kind, anomaly) = trace.anomalies.iter().nth(1).expect("noted");
    assert_eq!(
        (kind, anomaly.first.as_deref()),
        (AnomalyKind::SourceEnded, Some("corrupt deflate stream"))
    );
}

#[test]
fn other_files_are_refused() {
    let error = crate::host::read(&br#"{"traceEvents": []}"#[..], HostReadOptions::default())
        .expect_err("no trace");
    assert!(matches!(error, Error::NotFound { bytes: 19, .. }));
    assert_eq!(
        error.to_string(),
        "no \"nodes\" list found (19 bytes read): not a PyTorch execution trace, or truncated before its nodes; record it again"
    );
    assert!(crate::host::read(&b""[..], HostReadOptions::default()).is_err());
}

/// Builds enough nodes for several chunks, of all kinds, in file order.
fn large() -> String {
    let node = |id: u64| {
        let tensor = format!(r#"[{},{},0,{id},4,"cuda:{}"]"#, id % 97, id % 13, id % 3);
        let parent = if id % 50 == 1 {
            999_999
        } else {
            (id - id % 7).max(2) - 1
        };
        match id % 5 {
            0 => Node::new(id, parent, "record_param_comms")
                .inputs(
                    &format!(
                        r#"[[{tensor}],[{id},false],["{}","d"],0,"allreduce",[],[],0,1,8]"#,
                        id % 4
                    ),
                    r#"["GenericList[Tensor(float)]"]"#,
                )
                .text(),
            1 => Node::new(id, parent, "## process_group:init ##")
                .inputs(
                    &format!(r#"["[{{\"pg_name\": \"{}\"}}]"]"#, id % 4),
                    r#"["String"]"#,
                )
                .text(),
            _ => Node::new(id, parent, &format!("op{}", id % 31))
                .inputs(&format!("[{tensor},{id}]"), r#"["Tensor(float)","Int"]"#)
                .rf_id(id)
                .text(),
        }
    };
    let nodes: Vec<_> = (2..4_000).rev().map(node).collect();
    document(&nodes)
}

#[test]
fn a_list_that_stands_twice_is_said() {
    let node = |id| Node::new(id, 1, "op").text();
    let text = format!(
        "{{\"schema\": \"1.0.1\", \"nodes\": [{}], \"nodes\": [{}], \"finish_ts\": 9}}",
        node(2),
        node(3)
    );
    let trace = read(&text);
    assert_eq!(trace.nodes.id, [2]);
    assert_eq!(trace.anomalies.count(AnomalyKind::RepeatedKey), 1);
    assert_eq!(
        read(&document(&[node(2)]))
            .anomalies
            .count(AnomalyKind::RepeatedKey),
        0
    );
}

#[test]
fn the_result_does_not_depend_on_threads() {
    let document = large();
    assert!(document.len() > 4 * crate::host::LAYOUT.chunk_bytes);
    let all = |trace: &HostTrace| format!("{trace:?}");
    let one = read(&document);
    assert_eq!(
        (one.nodes.len(), one.collectives.len(), one.groups.len()),
        (3_998, 799, 4)
    );
    let three =
        crate::host::read(document.as_bytes(), HostReadOptions { threads: 3 }).expect("reads");
    assert!(all(&one) == all(&three));
    let first = one.find(7).expect("node");
    let uses = crate::host::tensor_uses(&one);
    assert_eq!(uses.refs.end[uses.inputs(first).start], 4 * 7);
}

proptest! {
    #[test]
    fn no_bytes_are_too_odd(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        wrap in any::<bool>(),
    ) {
        let text = if wrap {
            [&b"{\"nodes\": [{"[..], &bytes].concat()
        } else {
            bytes
        };
        if let Ok(trace) = crate::host::read(&text[..], HostReadOptions::default()) {
            builder::check(&trace);
        }
    }

    #[test]
    fn no_mutation_is_too_odd(
        edits in prop::collection::vec(
            (
                any::<prop::sample::Index>(),
                0usize..9,
                prop::sample::select(&b"\"\\{}[],:0n5 "[..]),
            ),
            1..12,
        ),
    ) {
        let mut text = document(&[
            FLAT.to_owned(),
            attr_node("", r#", {"name": "pg_name", "value": "0"}"#),
            Node::new(9, 5, "x").text(),
        ])
        .into_bytes();
        for (at, remove, insert) in edits {
            let at = at.index(text.len());
            let end = (at + remove).min(text.len());
            text.splice(at..end, [insert]);
        }
        if let Ok(trace) = crate::host::read(&text[..], HostReadOptions::default()) {
            builder::check(&trace);
        }
    }

    #[test]
    fn any_parents_become_a_forest(
        parents in prop::collection::vec((0u64..12, 0u32..3, any::<bool>()), 1..12),
    ) {
        let name = |root| {
            if root {
                "[pytorch|profiler|execution_trace|thread]"
            } else {
                "op"
            }
        };
        let nodes: Vec<_> = (0..)
            .zip(parents)
            .map(|(id, (parent, tid, root))| Node::new(id, parent, name(root)).tid(tid).text())
            .collect();
        builder::check(&read(&document(&nodes)));
    }
}
