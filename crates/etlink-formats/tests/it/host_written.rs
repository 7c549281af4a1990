//! Checks that written traces equal the ones read, and that their text is PyTorch's own.

use etlink_formats::host::{HostReadOptions, HostSchema, HostWriteOptions};
use etlink_model::{HostNode, HostTrace, NameId, RfId, TextSpan, ValueList};
use flate2::read::MultiGzDecoder;
use proptest::prelude::*;
use std::io::Read;

/// Recordings of each layout, some with communication, one with several threads.
const RECORDED: [(&str, usize, HostSchema); 8] = [
    ("mlp-2.1.2", 0, HostSchema::V1_0_1),
    ("mlp-2.3.1", 0, HostSchema::V1_0_2),
    ("ddp2_gloo-2.3.1", 1, HostSchema::V1_0_2),
    ("mlp-2.4.1", 0, HostSchema::V1_1_0),
    ("ddp2-2.4.1", 0, HostSchema::V1_1_0),
    ("mlp-2.15.0", 0, HostSchema::V1_1_1),
    ("tpdp4-2.15.0", 2, HostSchema::V1_1_1),
    ("threads-2.15.0", 0, HostSchema::V1_1_1),
];

#[expect(clippy::disallowed_methods, reason = "test data are files")]
fn recorded(case: &str, rank: usize) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    let path = format!("{folder}/../../testdata/pairs/{case}/torch_et_{rank}.json.gz");
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut text = String::new();
    MultiGzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("utf8");
    text
}

fn read(text: &str) -> HostTrace {
    etlink_formats::host::read(text.as_bytes(), HostReadOptions::default()).expect("reads")
}

fn written(trace: &HostTrace, schema: HostSchema) -> String {
    let options = HostWriteOptions {
        schema,
        verbatim: false,
    };
    let text = crate::host_whole_trace::write(trace, vec![], options).expect("writes");
    String::from_utf8(text).expect("utf8")
}

/// Describes everything in a trace, without the internal numbers of names and rows.
fn meaning(trace: &HostTrace) -> Vec<String> {
    let mut all: Vec<String> = (0..trace.nodes.len())
        .map(|row| node_meaning(trace, row))
        .collect();
    all.push(format!("{:?} {:?}", trace.header, trace.groups));
    all
}

fn node_meaning(trace: &HostTrace, row: usize) -> String {
    let node = trace.nodes.row(row);
    let numbers = (
        (node.id, node.parent, node.rf_id, node.fw_parent),
        (node.seq_id, node.scope, node.tid, node.fw_tid),
    );
    let names = [
        node.name,
        node.op_schema,
        node.kernel_backend,
        node.kernel_file,
        node.tensor_range,
    ]
    .map(|id| trace.names.get(id));
    let more = String::from_utf8_lossy(trace.span(node.extra_attrs));
    let (inputs, outputs) = (lists(trace, node.inputs), lists(trace, node.outputs));
    let record = collective(trace, node.collective);
    format!("{numbers:?} {names:?} {more} {inputs:?} {outputs:?} {record}")
}

fn lists(trace: &HostTrace, lists: ValueList) -> [String; 4] {
    let values = String::from_utf8_lossy(trace.span(lists.values)).into_owned();
    let [shapes, types, strides] =
        [lists.shapes, lists.types, lists.strides].map(|id| trace.names.get(id).to_owned());
    [values, shapes, types, strides]
}

fn collective(trace: &HostTrace, row: u32) -> String {
    if row == u32::MAX {
        return String::new();
    }
    let record = trace.collectives.row(row as usize);
    let names = [
        record.name,
        record.dtype,
        record.in_split,
        record.out_split,
        record.group_name,
        record.group_desc,
    ]
    .map(|id| trace.names.get(id));
    let numbers = (record.in_elements, record.out_elements, record.group_size);
    let ranks = [
        record.rank_start,
        record.rank_stride,
        record.rank,
        record.src,
        record.dst,
        record.seq,
    ];
    let flags = (record.p2p, record.asynchronous);
    format!("{names:?} {numbers:?} {ranks:?} {flags:?}")
}

/// Returns the text around the nodes, and the text of each node, sorted.
fn parts(text: &str, schema: HostSchema) -> (String, Vec<String>) {
    let indent = match schema {
        HostSchema::V1_1_1 => "      ",
        _ => "    ",
    };
    let list = text.find("\"nodes\": [\n").expect("a list") + "\"nodes\": [\n".len();
    let end = text.rfind("\n  ]").expect("an end");
    let separator = format!("{indent}}},\n");
    let nodes = format!("{},\n", &text[list..end]);
    let mut nodes: Vec<String> = nodes.split(&separator).map(str::to_owned).collect();
    nodes.sort_unstable();
    (format!("{}{}", &text[..list], &text[end..]), nodes)
}

#[test]
fn nodes_have_the_text_that_pytorch_gave_them() {
    for (case, rank, schema) in RECORDED {
        let text = recorded(case, rank);
        let trace = read(&text);
        assert_eq!(trace.header.schema, schema.text(), "{case}");
        let (around, nodes) = parts(&text, schema);
        let (around_again, nodes_again) = parts(&written(&trace, schema), schema);
        assert_eq!(around_again, around, "{case}");
        assert_eq!(nodes_again.len(), nodes.len(), "{case}");
        let differing = nodes.iter().zip(&nodes_again).find(|(one, two)| one != two);
        assert_eq!(differing, None, "{case}");
    }
}

#[test]
fn a_program_of_one_thread_gives_the_same_file() {
    for (case, schema) in [
        ("mlp-2.1.2", HostSchema::V1_0_1),
        ("mlp-2.3.1", HostSchema::V1_0_2),
        ("mlp-2.4.1", HostSchema::V1_1_0),
        ("mlp-2.15.0", HostSchema::V1_1_1),
    ] {
        let text = recorded(case, 0);
        assert!(written(&read(&text), schema) == text, "{case}");
    }
}

#[test]
fn every_later_layout_says_the_same() {
    for (case, rank, schema) in RECORDED {
        let trace = read(&recorded(case, rank));
        for later in HostSchema::ALL.into_iter().filter(|later| *later >= schema) {
            let mut again = read(&written(&trace, later));
            assert_eq!(again.header.schema, later.text());
            again.header.schema.clone_from(&trace.header.schema);
            // strides are empty lists if the layout has them and the trace does not
            if schema < HostSchema::V1_1_1Early && later >= HostSchema::V1_1_1Early {
                let nodes = &mut again.nodes;
                for lists in nodes.inputs.iter_mut().chain(&mut nodes.outputs) {
                    assert_eq!(again.names.get(lists.strides), "[]");
                    lists.strides = NameId::EMPTY;
                }
            }
            let (one, two) = (meaning(&again), meaning(&trace));
            let differing = one.iter().zip(&two).find(|(one, two)| one != two);
            assert_eq!(differing, None, "{case} as {later:?}");
        }
    }
}

/// Generates names and texts with characters that need escapes.
fn odd_text() -> impl Strategy<Value = String> {
    let parts = [
        "aten::mm",
        "\"",
        "\\",
        "\n",
        "\t",
        "\u{1}",
        "é",
        "日",
        "/",
        ", {\"id\": 1}",
    ];
    let parts = prop::sample::select(parts.to_vec());
    prop::collection::vec(parts, 0..6).prop_map(|all| all.concat())
}

/// Builds a trace of nodes with these names, schemas, ids, numbers and threads.
fn drawn(nodes: &[(String, String, u32, i64, u32)], layout: HostSchema) -> HostTrace {
    let mut trace = HostTrace {
        text: b"[]".to_vec(),
        ..HostTrace::default()
    };
    trace.header.schema = layout.text().to_owned();
    trace.header.finish_ms = Some(9);
    let list = trace.names.intern("[]");
    let lists = ValueList {
        values: TextSpan { start: 0, bytes: 2 },
        shapes: list,
        types: list,
        strides: if layout >= HostSchema::V1_1_1Early {
            list
        } else {
            NameId::EMPTY
        },
    };
    for (id, (name, schema, rf_id, seq_id, tid)) in (2u64..).zip(nodes) {
        // some nodes are inside the previous one, whatever its thread
        let parent = if id % 3 == 0 { id - 1 } else { 1 };
        let node = HostNode {
            id,
            parent,
            name: trace.names.intern(name),
            rf_id: RfId(u64::from(*rf_id)),
            seq_id: *seq_id,
            tid: *tid,
            op_schema: trace.names.intern(schema),
            inputs: lists,
            outputs: lists,
            collective: u32::MAX,
            ..HostNode::default()
        };
        trace.nodes.push(node);
    }
    trace
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    })]

    #[test]
    fn any_names_and_numbers_come_back(
        nodes in prop::collection::vec(
            (odd_text(), odd_text(), any::<u32>(), any::<i64>(), 1u32..4),
            1..20,
        ),
        layout in prop::sample::select(HostSchema::ALL.to_vec()),
    ) {
        let trace = drawn(&nodes, layout);
        let again = read(&written(&trace, layout));
        prop_assert_eq!(meaning(&again), meaning(&trace));
    }
}
