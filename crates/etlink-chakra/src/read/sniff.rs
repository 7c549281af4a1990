//! Determines the kind of a file from its first bytes.

use super::FileKind;
use crate::etplus::MARK;
use crate::wire::read::{Field, attr, next_field};
use crate::wire::schema::{metadata, node};
use memchr::memmem::find;
use prost::encoding::decode_varint;

/// Number of bytes that [`sniff`] should see.
pub const SNIFF_BYTES: usize = 64 << 10;

/// Returns the kind of a file. `head` is its beginning, decompressed; [`SNIFF_BYTES`] are enough.
///
/// A linked trace (ET+) is distinguished from a host trace by the times of nodes, by the position
/// of the process root, which PyTorch writes last and linkers write first, or by ids that count
/// from 0.
pub fn sniff(head: &[u8]) -> FileKind {
    let text = head
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(head)
        .trim_ascii_start();
    // The length of a first message of 91 or 123 bytes is the code of a bracket, and names in it
    // can be JSON text: the text after the bracket decides.
    if is_metadata_first(head) {
        FileKind::ChakraEt
    } else if begins_like_json(text) {
        sniff_json(text)
    } else if is_chakra(head) {
        FileKind::ChakraEt
    } else {
        FileKind::Unknown
    }
}

/// Returns true if a bracket is followed by text that JSON allows there.
fn begins_like_json(text: &[u8]) -> bool {
    let Some((bracket, rest)) = text.split_first() else {
        return false;
    };
    let next = rest.trim_ascii_start().first();
    match bracket {
        // A head that ends with the bracket can be either.
        b'{' => next.is_none_or(|byte| b"\"}".contains(byte)),
        b'[' => next.is_none_or(|byte| b"{[\"]-0123456789tfn".contains(byte)),
        _ => false,
    }
}

/// Returns true if the first message is complete and is metadata with attributes. JSON text never
/// is: keys of attributes are control characters, which JSON allows neither between nor in strings.
fn is_metadata_first(head: &[u8]) -> bool {
    let mut rest = head;
    let Ok(length) = decode_varint(&mut rest) else {
        return false;
    };
    let length = usize::try_from(length).ok();
    let Some(mut message) = length.and_then(|length| rest.get(..length)) else {
        return false;
    };
    let mut attributes = 0;
    while !message.is_empty() {
        match next_field(&mut message) {
            Ok((metadata::VERSION, Field::Block(_))) => {}
            Ok((metadata::ATTR, Field::Block(block))) if attr(block).is_ok() => attributes += 1,
            _ => return false,
        }
    }
    attributes > 0
}

fn sniff_json(text: &[u8]) -> FileKind {
    let is_host_trace =
        has_any_key(text, &["nodes"]) && has_any_key(text, &["schema", "ctrl_deps", "rf_id"]);
    let is_events = has_any_key(text, &["ph"]) && has_any_key(text, &["ts", "cat", "pid"]);
    if has_any_key(text, &KINETO_KEYS) {
        FileKind::KinetoTrace
    } else if is_host_trace {
        let is_linked = has_any_key(text, &[MARK, "exclusive_dur", "inter_thread_dep"]);
        if is_linked || process_root_first(text) || has_node_0_first(text) {
            FileKind::EtPlus
        } else {
            FileKind::HostTrace
        }
    // Checked after host traces, whose names and arguments can contain any word.
    } else if has_any_key(text, &PROTOBUF_JSON_KEYS) {
        FileKind::ChakraJson
    } else if is_events {
        FileKind::KinetoTrace
    } else {
        FileKind::Unknown
    }
}

/// Keys of Kineto's document (`output_json.cpp` of libkineto).
const KINETO_KEYS: [&str; 5] = [
    "traceEvents",
    "deviceProperties",
    "baseTimeNanoseconds",
    "schemaVersion",
    "distributedInfo",
];

/// Keys of nodes and attributes in protobuf's JSON.
const PROTOBUF_JSON_KEYS: [&str; 7] = [
    "int64Val",
    "stringVal",
    "uint64Val",
    "boolVal",
    "dataDeps",
    "ctrlDeps",
    "durationMicros",
];

/// Returns true if any of these words appears in quotes in the text.
fn has_any_key(text: &[u8], keys: &[&str]) -> bool {
    keys.iter()
        .any(|key| find(text, format!("\"{key}\"").as_bytes()).is_some())
}

/// Returns true if the first node has id 0. `chakra_trace_link` counts from 0; PyTorch gives it to
/// no node.
fn has_node_0_first(text: &[u8]) -> bool {
    let first = find(text, b"\"id\"").map(|at| &text[at + b"\"id\"".len()..]);
    let number = first.and_then(|rest| rest.trim_ascii_start().strip_prefix(b":"));
    let digits = number.and_then(|rest| rest.trim_ascii_start().strip_prefix(b"0"));
    digits.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_digit))
}

fn process_root_first(text: &[u8]) -> bool {
    let process = find(text, b"[pytorch|profiler|execution_trace|process]");
    let Some(process) = process else { return false };
    find(text, b"|thread]").is_some_and(|thread| process < thread)
}

/// Returns true if the head is a length followed by fields of Chakra's metadata or node.
fn is_chakra(head: &[u8]) -> bool {
    let mut rest = head;
    let length = loop {
        match decode_varint(&mut rest) {
            // An empty message has length 0: a node or metadata without fields.
            Ok(0) if !rest.is_empty() => {}
            Ok(length) => break length,
            Err(_) => return false,
        }
    };
    let Some(mut message) = usize::try_from(length)
        .ok()
        .map(|length| &rest[..length.min(rest.len())])
    else {
        return false;
    };
    let cut = (message.len() as u64) < length;
    let mut fields = 0;
    while !message.is_empty() {
        let known = match next_field(&mut message) {
            Ok((tag, Field::Block(_))) => is_block(tag),
            Ok((tag, Field::Number(_))) => is_number(tag),
            Ok(_) => false,
            // The head ends within a message, so its last field can be incomplete.
            Err(_) => return cut && fields > 0,
        };
        if !known {
            return false;
        }
        fields += 1;
    }
    fields > 0
}

/// Returns true if metadata or a node has a string, message or packed list with this field number.
fn is_block(tag: u32) -> bool {
    let in_metadata = matches!(tag, metadata::VERSION | metadata::ATTR);
    let in_node = matches!(
        tag,
        node::NAME | node::CTRL_DEPS | node::DATA_DEPS | node::INPUTS | node::OUTPUTS | node::ATTR
    );
    in_metadata || in_node
}

/// Returns true if a node has a number, or an unpacked list of numbers, with this field number.
fn is_number(tag: u32) -> bool {
    matches!(tag, node::ID | node::TYPE..=node::DURATION_MICROS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::attribute_proto::Value;
    use crate::proto::{AttributeProto, GlobalMetadata};
    use prost::Message;

    #[test]
    fn by_content() {
        for (head, kind) in [
            (
                &b"{\"schemaVersion\": 1, \"traceEvents\": ["[..],
                FileKind::KinetoTrace,
            ),
            (b"[{\"ph\": \"X\", \"ts\": 1}", FileKind::KinetoTrace),
            (
                b"\xEF\xBB\xBF\n {\"schema\": \"1.0.1\", \"nodes\": \
                    [{\"name\": \"[pytorch|profiler|execution_trace|thread]\"",
                FileKind::HostTrace,
            ),
            (
                b"{\"schema\": \"1.1.1\", \"nodes\": [{\"exclusive_dur\": 1",
                FileKind::EtPlus,
            ),
            (
                b"{\"schema\": \"1.1.1\", \"nodes\": \
                    [{\"id\": 0, \"name\": \"[pytorch|profiler|execution_trace|process]\"}, \
                    {\"name\": \"[pytorch|profiler|execution_trace|thread]\"",
                FileKind::EtPlus,
            ),
            (
                b"{\n    \"schema\": \"1.1.1\", \"nodes\": [\n        {\n            \"id\": 0,\n\
                    \"name\": \"aten::add\", \"ctrl_deps\": 3",
                FileKind::EtPlus,
            ),
            (
                b"{\"schema\": \"1.1.1\", \"nodes\": [{\"id\": 02, \"name\": \"aten::add\"",
                FileKind::HostTrace,
            ),
            (
                b"{\"schema\": \"1.1.1\", \"linked_by\": \"x\", \"nodes\": [",
                FileKind::EtPlus,
            ),
            (
                b"{\n  \"attr\": [{\"name\": \"pid\", \"uint64Val\": \"7\"",
                FileKind::ChakraJson,
            ),
            (
                b"{\"schema\": \"1.1.1\", \"nodes\": \
                    [{\"id\": 1, \"name\": \"[pytorch|profiler|execution_trace|process]\"}, \
                    {\"name\": \"[pytorch|profiler|execution_trace|thread]\"",
                FileKind::EtPlus,
            ),
            (
                b"{\"schema\": \"1.1.1\", \"nodes\": \
                    [{\"id\": 2, \"name\": \"[pytorch|profiler|execution_trace|thread]\"}, \
                    {\"name\": \"[pytorch|profiler|execution_trace|process]\"",
                FileKind::HostTrace,
            ),
            (b"{\"ph\": 7, \"acid\": true}", FileKind::Unknown),
            // The last field is longer than the message.
            (b"\x04\x08\x01\x12\x09abcdefghi", FileKind::Unknown),
            (b"[\x0a\x050.0.4\x12\x54", FileKind::ChakraEt),
            (b"\x07\x0a\x050.0.4\x02\x08\x01", FileKind::ChakraEt),
            (b"\x00\x04\x08\x01\x18\x04", FileKind::ChakraEt),
            (b"\xff\xff\x03\x0a\x050.0.4\x12\x90\x4e", FileKind::ChakraEt),
            (b"\x1f\x8b\x08\x00\x00", FileKind::Unknown),
            (b"a\nb\n", FileKind::Unknown),
            (b"plain text", FileKind::Unknown),
            (b"", FileKind::Unknown),
            (b"\x00", FileKind::Unknown),
        ] {
            assert_eq!(sniff(head), kind, "{}", String::from_utf8_lossy(head));
        }
    }

    /// Some recorders do not escape control characters, and some of these are keys of metadata.
    #[test]
    fn json_that_begins_like_a_message_of_metadata() {
        let version = r#"ph", "ts", a name with 34 bytes..."#;
        let attribute = r#"a text that no reader of attributes takes as one, "X""#;
        let head = format!("[\n\"{version}\x12\x35{attribute}");
        assert_eq!((version.len(), attribute.len()), (34, 53));
        assert_eq!(
            (head.len(), sniff(head.as_bytes())),
            (92, FileKind::KinetoTrace)
        );
    }

    /// A message of 91 or 123 bytes has a length that is the code of a bracket.
    #[test]
    fn a_first_message_that_begins_like_json() {
        for (length, bracket) in [(91, b'['), (123, b'{')] {
            for text in ["{\"a\": [1], \"nodes\": [", "[{\"ph\": \"X\", \"ts\": 1}"] {
                let mut metadata = GlobalMetadata {
                    version: "0.0.4".to_owned(),
                    ..GlobalMetadata::default()
                };
                let mut name = text.to_owned();
                while metadata.encoded_len() < length {
                    name.push(' ');
                    metadata.attr = vec![AttributeProto {
                        name: name.clone(),
                        value: Some(Value::BoolVal(true)),
                        ..AttributeProto::default()
                    }];
                }
                let head = metadata.encode_length_delimited_to_vec();
                assert_eq!((head.len(), head[0]), (length + 1, bracket));
                assert_eq!(sniff(&head), FileKind::ChakraEt, "{text} in {length} bytes");
            }
        }
    }
}
