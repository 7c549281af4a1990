//! Communication attributes of `record_param_comms` (`RECORD_PARAM_COMMS` in
//! `ParamCommsUtils.hpp`).
//!
//! ```text
//! inputs  [tensors,] seq | [seq, isP2P], group id | [pg_name, pg_desc], rank, "allreduce",
//!         in_split, out_split, [, start, stride] [, size] [, async]
//! attrs   collective_name, dtype, in_msg_nelems, …                     (1.1.0 on)
//! ```
//! Attributes take precedence; missing ones are taken from the inputs, identified by their position
//! around the name of the collective. Before 1.1.0 there are only inputs. A barrier and a wait have
//! no leading tensors.

use crate::host::node::{ArgumentLists, CommNodeAttrs, NodeFields};
use crate::host::values::{first_dtype, tensors};
use etlink_json::{JsonScanner, JsonValue, unescape};
use etlink_model::{Collective, CollectiveKind, NameId, Names};

/// Name of the nodes that record communication.
const NODE: &[u8] = b"record_param_comms";

/// Returns true if a node records a communication: by its name, or by its attributes, which device
/// nodes of an ET+ inherit from their parent.
pub(crate) fn is_record(node: &NodeFields<'_>) -> bool {
    node.name == NODE || node.comm.is_some()
}

/// Builds the communication record of a node.
pub(crate) fn record(node: &NodeFields<'_>, names: &mut Names) -> Collective {
    let attrs = node.comm.unwrap_or_default();
    let mut record = from_inputs(&node.inputs, attrs.collective_name, names);
    record.in_elements = count_elements(&node.inputs);
    record.out_elements = count_elements(&node.outputs);
    // Attributes come second because they are exact; inputs of 1.0.x may lack sizes and group.
    apply_attributes(&attrs, &mut record, names);
    if record.kind(names) == CollectiveKind::Send {
        // `ProcessGroupNCCL::send` and `recv` pass the peer in place of their own rank.
        (record.dst, record.rank) = (record.rank, -1);
    } else if record.kind(names) == CollectiveKind::Recv {
        (record.src, record.rank) = (record.rank, -1);
    }
    record
}

/// Counts the elements of all tensors in a list.
fn count_elements(lists: &ArgumentLists<'_>) -> u64 {
    let mut sum = 0u64;
    tensors(lists.values, lists.types, |tensor| {
        sum = sum.saturating_add(tensor.elements())
    });
    sum
}

/// Overwrites the record with the attributes that are present.
fn apply_attributes(attrs: &CommNodeAttrs<'_>, record: &mut Collective, names: &mut Names) {
    let texts = [
        (attrs.collective_name, &mut record.name),
        (attrs.dtype, &mut record.dtype),
        (attrs.in_split, &mut record.in_split),
        (attrs.out_split, &mut record.out_split),
        (attrs.pg_name, &mut record.group_name),
        (attrs.pg_desc, &mut record.group_desc),
    ];
    for (value, field) in texts {
        *field = value.map_or(*field, |value| intern_name(value, names));
    }
    let counts = [
        (attrs.in_elements, &mut record.in_elements),
        (attrs.out_elements, &mut record.out_elements),
        (attrs.pg_size, &mut record.group_size),
    ];
    for (value, field) in counts {
        *field = value.and_then(JsonValue::uint).unwrap_or(*field);
    }
    for (value, field) in [
        (attrs.rank_start, &mut record.rank_start),
        (attrs.rank_stride, &mut record.rank_stride),
    ] {
        *field = value.and_then(JsonValue::int).unwrap_or(*field);
    }
    record.asynchronous = attrs
        .asynchronous
        .and_then(JsonValue::boolean)
        .unwrap_or(record.asynchronous);
}

/// Number of inputs to examine; the longest form has 11.
const MAX_INPUTS: usize = 16;

/// Builds a record from the inputs. `known` is the name in the attributes.
fn from_inputs(
    inputs: &ArgumentLists<'_>,
    known: Option<JsonValue<'_>>,
    names: &mut Names,
) -> Collective {
    let mut record = Collective::absent();
    let mut items = [None; MAX_INPUTS];
    let mut scanner = JsonScanner::new(inputs.values);
    if scanner.eat(b'[') {
        for slot in &mut items {
            let Ok(Some(item)) = scanner.item() else {
                break;
            };
            *slot = Some(item);
        }
    }
    let is_name = |item: &Option<JsonValue<'_>>| match (item, known) {
        (Some(JsonValue::Text(text)), Some(name)) => name.raw() == *text,
        // `<None>` and `<Object>` stand for values that the observer cannot print.
        (Some(JsonValue::Text(text)), None) => !text.starts_with(b"<"),
        _ => false,
    };
    // The first elements are optional (barriers have no tensors), so positions count from the name.
    let Some(at) = items.iter().position(is_name) else {
        return record;
    };
    let before = |back: usize| at.checked_sub(back).and_then(|at| items[at]);
    let after = |on: usize| items.get(at + on).copied().flatten();
    record.name = items[at].map_or(NameId::EMPTY, |value| intern_name(value, names));
    record.dtype = names.intern(scalar_type(&unescape(first_dtype(inputs.types))));
    record.rank = before(1).and_then(JsonValue::int).unwrap_or(-1);
    (record.group_name, record.group_desc) = group_names(before(2), names);
    // Older observers write a bare number, newer ones `[seq, isP2P]`.
    let [seq, p2p] = pair_items(before(3));
    record.seq = seq.and_then(JsonValue::int).unwrap_or(-1);
    record.p2p = p2p.is_some_and(|value| value.boolean().unwrap_or(value.int() == Some(1)));
    record.in_split = after(1).map_or(NameId::EMPTY, |value| intern_name(value, names));
    record.out_split = after(2).map_or(NameId::EMPTY, |value| intern_name(value, names));
    // In 1.0.3, start and stride are between the splits and the size: five inputs instead of three.
    let (place, size) = if after(5).is_some() {
        ([after(3), after(4)], 5)
    } else {
        ([None; 2], 3)
    };
    [record.rank_start, record.rank_stride] =
        place.map(|value| value.and_then(JsonValue::int).unwrap_or(-1));
    record.group_size = after(size).and_then(JsonValue::uint).unwrap_or(0);
    record.asynchronous = after(size + 1)
        .and_then(JsonValue::boolean)
        .unwrap_or(false);
    record
}

/// Returns name and description of `[pg_name, pg_desc]`, or before 1.0.3 an id of the process
/// group, 0 for none.
fn group_names(value: Option<JsonValue<'_>>, names: &mut Names) -> (NameId, NameId) {
    let [group, desc] =
        pair_items(value).map(|part| part.map_or(NameId::EMPTY, |value| intern_name(value, names)));
    // An id of 0 is no group, but a group named "0" is the default one: they differ only by quotes.
    if names.get(group) == "0" && matches!(value, Some(JsonValue::Word(_))) {
        (NameId::EMPTY, desc)
    } else {
        (group, desc)
    }
}

/// Returns the two entries of a list, or the value itself.
fn pair_items(value: Option<JsonValue<'_>>) -> [Option<JsonValue<'_>>; 2] {
    let Some(JsonValue::Nested(list)) = value else {
        return [value, None];
    };
    let mut scanner = JsonScanner::new(list);
    scanner.eat(b'[');
    [0, 1].map(|_| scanner.item().ok().flatten())
}

fn intern_name(value: JsonValue<'_>, names: &mut Names) -> NameId {
    names.intern(&value.text())
}

/// Translates the name of a C++ element type to the spelling of the attributes and Kineto
/// (`ScalarType.h`).
fn scalar_type(element: &str) -> &str {
    match element {
        "unsigned char" => "Byte",
        "signed char" => "Char",
        "short" | "short int" => "Short",
        "int" => "Int",
        "long" | "long int" | "long long" => "Long",
        "float" => "Float",
        "double" => "Double",
        "bool" => "Bool",
        "c10::complex<float>" => "ComplexFloat",
        "c10::complex<double>" => "ComplexDouble",
        other => other.strip_prefix("c10::").unwrap_or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::{Node, document, read};
    use etlink_model::HostTrace;

    /// Returns the only record of a trace, with its texts: name, dtype, splits, group name and
    /// description.
    fn only(trace: &HostTrace) -> (Collective, [&str; 6]) {
        assert_eq!((trace.collectives.len(), trace.nodes.collective[0]), (1, 0));
        let row = trace.collectives.row(0);
        (
            row,
            [
                row.name,
                row.dtype,
                row.in_split,
                row.out_split,
                row.group_name,
                row.group_desc,
            ]
            .map(|name| trace.names.get(name)),
        )
    }

    fn old(inputs: &str, types: &str, outputs: &str, output_types: &str) -> HostTrace {
        read(&document(&[Node::new(2, 1, "record_param_comms")
            .inputs(inputs, types)
            .outputs(outputs, output_types)
            .text()]))
    }

    #[test]
    fn attributes_win_over_inputs() {
        let attrs: String = [
            ("collective_name", "\"allreduce\""),
            ("dtype", "\"BFloat16\""),
            ("in_msg_nelems", "64"),
            ("out_msg_nelems", "65"),
            ("in_split_size", "\"[1, 2]\""),
            ("out_split_size", "\"[]\""),
            ("global_rank_start", "2"),
            ("global_rank_stride", "3"),
            ("pg_name", "\"1\""),
            ("pg_desc", "\"mesh_tp\""),
            ("pg_size", "4"),
            ("is_asynchronized_op", "true"),
        ]
        .map(|(name, value)| {
            format!(r#"{{"name": "{name}", "type": "string", "value": {value}}},"#)
        })
        .concat();
        let node = format!(
            r#"{{"id": 2, "name": "record_param_comms", "ctrl_deps": 1,
              "inputs": {{"values":
              [[[8,9,0,7,4,"cuda:0"]],[33,false],["0","default_pg"],5,
              "allreduce",[],[],0,1,8,false],
            "types": ["GenericList[Tensor(float)]"]}}, "attrs": [{attrs}]}}"#
        );
        let trace = read(&document(&[node]));
        let (row, texts) = only(&trace);
        assert_eq!(
            texts,
            ["allreduce", "BFloat16", "[1, 2]", "[]", "1", "mesh_tp"]
        );
        assert_eq!(
            (
                row.in_elements,
                row.out_elements,
                row.rank_start,
                row.rank_stride,
                row.group_size
            ),
            (64, 65, 2, 3, 4)
        );
        assert_eq!(
            (row.rank, row.seq, row.p2p, row.asynchronous),
            (5, 33, false, true)
        );
        assert_eq!(trace.nodes.extra_attrs[0].bytes, 0);
    }

    #[test]
    fn inputs_of_every_version() {
        let tensor = r#"[8,9,0,6,4,"cuda:0"]"#;
        let rest = r#""Int","Int","Int","String","GenericList[]","GenericList[]"]"#;
        for (inputs, group, desc, place) in [
            (
                format!(r#"[{tensor},147,9459,3,"all_to_allv",[2,4],[3,3]]"#),
                "9459",
                "",
                (-1, -1, 0),
            ),
            (
                format!(r#"[{tensor},147,9459,3,"all_to_allv",[2,4],[3,3],2]"#),
                "9459",
                "",
                (-1, -1, 2),
            ),
            (
                format!(r#"[{tensor},147,["0","default_pg"],3,"all_to_allv",[2,4],[3,3],0,1,2]"#),
                "0",
                "default_pg",
                (0, 1, 2),
            ),
            (
                format!(
                    r#"[{tensor},[147,false],["0",""],3,"all_to_allv",[2,4],[3,3],0,1,2,true]"#
                ),
                "0",
                "",
                (0, 1, 2),
            ),
        ] {
            let trace = old(
                &inputs,
                &format!(r#"["Tensor(long int)",{rest}"#),
                &format!("[{tensor},{tensor}]"),
                r#"["Tensor(long int)","Tensor(long int)"]"#,
            );
            let (row, texts) = only(&trace);
            assert_eq!(
                texts,
                ["all_to_allv", "Long", "[2,4]", "[3,3]", group, desc],
                "{inputs}"
            );
            assert_eq!(
                (row.rank_start, row.rank_stride, row.group_size),
                place,
                "{inputs}"
            );
            assert_eq!(
                (
                    row.seq,
                    row.p2p,
                    row.rank,
                    row.in_elements,
                    row.out_elements
                ),
                (147, false, 3, 6, 12),
                "{inputs}"
            );
            assert_eq!(row.asynchronous, inputs.ends_with("true]"), "{inputs}");
        }
    }

    #[test]
    fn no_tensors_first() {
        let trace = old(
            r#"[33,["",""],0,"wait",[],[],-1,-1,1]"#,
            r#"["Int","Tuple[String,String]"]"#,
            "[]",
            "[]",
        );
        let (row, texts) = only(&trace);
        assert_eq!(texts, ["wait", "", "[]", "[]", "", ""]);
        assert_eq!(
            (
                row.seq,
                row.rank,
                row.rank_start,
                row.group_size,
                row.in_elements
            ),
            (33, 0, -1, 1, 0)
        );
        assert_eq!(row.kind(&trace.names), CollectiveKind::Other);
    }

    #[test]
    fn rank_of_a_send_is_its_destination() {
        for (name, want) in [
            ("send", (-1, -1, 3)),
            ("recv", (-1, 3, -1)),
            ("broadcast", (3, -1, -1)),
        ] {
            let trace = old(
                &format!(r#"[[[8,9,0,6,4,"cpu"]],[1,true],["0",""],3,"{name}",[],[],0,1,4]"#),
                r#"["GenericList[Tensor(float)]"]"#,
                "[]",
                "[]",
            );
            let (row, _) = only(&trace);
            assert_eq!((row.rank, row.src, row.dst), want, "{name}");
            assert!(row.p2p);
        }
    }

    /// The message flag may be a boolean or a number.
    #[test]
    fn a_number_says_that_it_is_a_message() {
        for (said, p2p) in [("true", true), ("1", true), ("false", false), ("0", false)] {
            let inputs = format!(r#"[[9,{said}],["0",""],3,"send",[],[],0,1,4]"#);
            let trace = old(&inputs, "[]", "[]", "[]");
            let (row, _) = only(&trace);
            assert_eq!((row.seq, row.p2p), (9, p2p), "{said}");
        }
    }

    #[test]
    fn a_record_without_anything() {
        for inputs in ["[]", "[1,2]", r#"["<None>"]"#, r#"["allreduce"]"#] {
            let trace = old(inputs, "[]", "[]", "[]");
            let (row, _) = only(&trace);
            assert_eq!(
                Collective {
                    name: NameId::EMPTY,
                    ..row
                },
                Collective::absent(),
                "{inputs}"
            );
        }
    }
}
