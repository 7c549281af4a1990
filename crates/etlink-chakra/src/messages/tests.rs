//! Tests files that are read and written again.

use super::*;
use crate::WriteOptions;
use crate::proto::attribute_proto::Value;
use crate::proto::{AttributeProto, BoolList, DoubleList, Int64List, IoInfo, NodeType};
use crate::tests::sample;

fn convert(source: &[u8], to_json: bool) -> (Vec<u8>, Losses) {
    let mut out = vec![];
    let mut own = Losses::default();
    let losses = for_each_message(source, &mut |message| {
        if to_json {
            write_json(message, &mut out, &mut own)
        } else {
            write_et(&message, &mut out)
        }
    });
    let mut losses = losses.expect("reads");
    losses.extend(&own);
    (out, losses)
}

fn attribute(name: &str, value: Value) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        doc_string: String::new(),
        value: Some(value),
    }
}

/// Creates a node with data that etlink's own files do not have.
fn odd_node() -> Node {
    Node {
        id: u64::MAX,
        name: "é \"x\"".to_owned(),
        r#type: NodeType::MemLoadNode as i32,
        data_deps: vec![1, u64::MAX - 1],
        inputs: Some(IoInfo {
            values: "[1]".to_owned(),
            ..IoInfo::default()
        }),
        attr: vec![
            attribute("double", Value::DoubleVal(1e300)),
            attribute("zero", Value::Int64Val(0)),
            attribute("float", Value::FloatVal(0.1)),
            attribute("least", Value::Sint64Val(i64::MIN)),
            attribute("bytes", Value::BytesVal(vec![0, 255, 128])),
            attribute(
                "flags",
                Value::BoolList(BoolList {
                    values: vec![true, false],
                }),
            ),
            attribute("none", Value::Int64List(Int64List::default())),
            AttributeProto {
                name: "documented".to_owned(),
                doc_string: "what it is".to_owned(),
                value: None,
            },
        ],
        ..Node::default()
    }
}

#[test]
fn what_etlink_writes_comes_back_from_json_byte_by_byte() {
    for host in [true, false] {
        let mut written = vec![];
        crate::et::write_et(&sample(host), &WriteOptions::default(), &mut written).expect("writes");
        let (json, losses) = convert(&written, true);
        assert!(losses.is_empty(), "{losses:?}");
        let (back, losses) = convert(&json, false);
        assert!(losses.is_empty(), "{losses:?}");
        assert_eq!(back, written);
    }
}

#[test]
fn attributes_of_all_kinds_come_back() {
    let file = ChakraMessages {
        metadata: GlobalMetadata {
            version: "0.0.4".to_owned(),
            attr: vec![],
        },
        nodes: vec![odd_node()],
    };
    let written = file.to_et();
    let (json, _) = convert(&written, true);
    let (back, losses) = convert(&json, false);
    assert!(losses.is_empty(), "{losses:?}");
    assert_eq!(back, written);
    let text = String::from_utf8(json).expect("is text");
    assert!(text.contains("\"id\": \"18446744073709551615\""), "{text}");
    assert!(text.contains("\"type\": \"MEM_LOAD_NODE\""), "{text}");
}

#[test]
fn what_is_lost_is_counted() {
    let mut file = ChakraMessages {
        nodes: vec![odd_node(), odd_node()],
        ..ChakraMessages::default()
    };
    file.metadata.version = "1".to_owned();
    file.nodes[1].r#type = 99;
    file.nodes[0].attr = vec![
        attribute("nan", Value::DoubleVal(f64::NAN)),
        attribute(
            "list",
            Value::DoubleList(DoubleList {
                values: vec![1.0, f64::INFINITY],
            }),
        ),
    ];
    let written = file.to_et();
    let (_, losses) = convert(&written, true);
    assert_eq!(losses.count(LossKind::NotFinite), 2);
    assert_eq!(losses.count(LossKind::UnknownType), 1);
    let (_, losses) = convert(&written[..written.len() - 3], false);
    assert_eq!(losses.count(LossKind::CutTail), 1);

    // A field of another schema, after a node.
    let mut strange = written.clone();
    strange.extend([6, 0x08, 3, 0xA2, 0x06, 1, b'x']);
    let (_, losses) = convert(&strange, false);
    assert_eq!(losses.count(LossKind::UnknownField), 1);
    // A name that is not UTF-8.
    strange.extend([3, 0x12, 1, 0xFF]);
    let (_, losses) = convert(&strange, false);
    assert_eq!(losses.count(LossKind::Undecodable), 1);

    let (mut json, _) = convert(&written[..written.len() - 3], true);
    json.extend(b"{\"id\": \"1\", \"nme\": 1}\n{\"id\": ");
    let (_, losses) = convert(&json, false);
    assert_eq!(losses.count(LossKind::Undecodable), 1);
    assert_eq!(losses.count(LossKind::CutTail), 1);
}

#[test]
fn other_files_are_refused() {
    for text in ["{\"traceEvents\": []}", "hello"] {
        let read = ChakraMessages::read(text.as_bytes());
        assert!(read.is_err(), "{text}");
    }
}
