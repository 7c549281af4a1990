//! Reads the output of `chakra_jsonizer`: the messages of a file as concatenated objects of
//! protobuf JSON, in which 64-bit integers are strings and enums are names.

use super::attributes::{NS, joined_times};
use super::json_objects::{JsonObjects, StreamPlace};
use super::read::FileContext;
use crate::finding::{FindingExample, FindingKind};
use crate::proto::NodeType;
use crate::read::error::ChakraReadError;
use crate::read::graph::{ChakraGraph, DepLatencies, FileKind, GraphNode, NodePlacement};
use etlink_model::TrackLabel;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::io::{BufReader, Read};

/// A number, quoted or not.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum JsonNumber {
    Int(i64),
    Text(String),
    Other(IgnoredAny),
    #[default]
    Absent,
}

impl JsonNumber {
    fn int(&self) -> Option<i64> {
        match self {
            JsonNumber::Int(number) => Some(*number),
            JsonNumber::Text(text) => text
                .parse()
                .ok()
                // Ids are unsigned: an id above 2^63 keeps its 64 bits.
                .or_else(|| Some(text.parse::<u64>().ok()?.cast_signed())),
            JsonNumber::Other(_) | JsonNumber::Absent => None,
        }
    }

    /// Converts microseconds to nanoseconds; `None` if they exceed 64 bits.
    fn micros_as_ns(&self) -> Option<i64> {
        self.int()?.checked_mul(1000)
    }

    fn id(&self) -> u64 {
        self.int().unwrap_or_default().cast_unsigned()
    }
}

/// Metadata or a node; metadata has only attributes and a version.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JsonMessage {
    version: Option<String>,
    id: JsonNumber,
    name: String,
    r#type: Option<String>,
    ctrl_deps: Vec<JsonNumber>,
    data_deps: Vec<JsonNumber>,
    start_time_micros: JsonNumber,
    duration_micros: JsonNumber,
    attr: Vec<JsonAttr>,
}

impl JsonMessage {
    fn attr(&self, name: &str) -> Option<&JsonAttr> {
        self.attr.iter().find(|attr| attr.name == name)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.attr(name)?.int64_val.int()
    }

    fn numbers(&self, name: &str) -> Vec<i64> {
        let list = self.attr(name).and_then(|attr| attr.int64_list.as_ref());
        let numbers = list.map_or(&[][..], |list| &list.values);
        numbers.iter().filter_map(JsonNumber::int).collect()
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.attr(name)?.string_val.as_deref()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JsonAttr {
    name: String,
    #[serde(
        alias = "int32Val",
        alias = "uint32Val",
        alias = "uint64Val",
        alias = "sint64Val",
        alias = "sint32Val"
    )]
    int64_val: JsonNumber,
    int64_list: Option<JsonNumbers>,
    bool_val: Option<bool>,
    string_val: Option<String>,
}

/// A list of numbers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JsonNumbers {
    values: Vec<JsonNumber>,
}

/// Parses each object with `simd-json`. An object that it rejects is parsed again with
/// `serde_json`, together with everything after it, because `serde_json`'s errors report line and
/// column.
pub(crate) fn read_jsonizer(source: impl Read) -> Result<ChakraGraph, ChakraReadError> {
    let mut messages = MessageSink::default();
    let mut objects = JsonObjects::new(source);
    while let Some(object) = objects.next_object() {
        let Ok(message) = etlink_json::from_slice(object) else {
            break;
        };
        let length = object.len();
        messages.add(message);
        objects.advance(length);
    }
    let place = objects.place();
    messages.add_strictly(objects.into_rest(), place);
    Ok(messages.graph)
}

/// The graph of the messages read so far.
struct MessageSink {
    graph: ChakraGraph,
    context: FileContext,
    /// True if no message was read yet.
    is_empty: bool,
}

impl Default for MessageSink {
    fn default() -> Self {
        MessageSink {
            graph: ChakraGraph {
                format: FileKind::ChakraJson,
                ..ChakraGraph::default()
            },
            context: FileContext::default(),
            is_empty: true,
        }
    }
}

impl MessageSink {
    fn add(&mut self, message: JsonMessage) {
        // Protobuf JSON has no type names: a first message without `type` is the metadata.
        if std::mem::take(&mut self.is_empty) && message.r#type.is_none() {
            read_metadata(&mut self.graph, message);
            self.context = FileContext::of(&self.graph);
        } else {
            push_node(&mut self.graph, &message, self.context);
        }
    }

    /// Reads the rest of a file, which begins at `place`, up to its end or to text that is not a
    /// message.
    fn add_strictly(&mut self, rest: impl Read, place: StreamPlace) {
        let mut messages =
            serde_json::Deserializer::from_reader(BufReader::new(rest)).into_iter::<JsonMessage>();
        while let Some(message) = messages.next() {
            match message {
                Ok(message) => self.add(message),
                Err(error) => {
                    let kind = if error.is_eof() {
                        FindingKind::Truncated
                    } else {
                        FindingKind::Undecodable
                    };
                    let offset = place.offset + messages.byte_offset() as u64;
                    self.graph.findings.note(kind, || FindingExample {
                        offset: Some(offset),
                        detail: error_in_file(&error, place),
                        ..FindingExample::default()
                    });
                    // After broken JSON, the start of the next object is unknown.
                    break;
                }
            }
        }
        self.graph.bytes = place.offset + messages.byte_offset() as u64;
    }
}

/// Formats an error in text that begins at `place`, with line and column in the file.
fn error_in_file(error: &serde_json::Error, place: StreamPlace) -> String {
    let text = error.to_string();
    let (line, column) = (error.line(), error.column());
    // Errors of the file system have no line.
    let Some(what) = text.strip_suffix(&format!(" at line {line} column {column}")) else {
        return text;
    };
    let before = if line == 1 { place.column } else { 0 };
    format!(
        "{what} at line {} column {}",
        place.lines + line,
        before + column
    )
}

fn read_metadata(graph: &mut ChakraGraph, message: JsonMessage) {
    graph.metadata.extend(
        message
            .version
            .map(|version| ("version".to_owned(), version)),
    );
    for attr in message.attr {
        let number = attr.int64_val.int().map(|number| number.to_string());
        let flag = attr.bool_val.map(|flag| flag.to_string());
        // Lists and floats are not used here.
        let value = attr.string_val.or(number).or(flag).unwrap_or_default();
        graph.metadata.push((attr.name, value));
    }
}

fn push_node(graph: &mut ChakraGraph, message: &JsonMessage, context: FileContext) {
    // An unknown type belongs to a later schema: `check` reports the node.
    let node_type = message.r#type.as_deref().and_then(NodeType::from_str_name);
    let exact = joined_times(message.start_time_micros.id(), &message.numbers(NS));
    let exact = if context.is_stated() { exact } else { None };
    let mut node = GraphNode {
        id: message.id.id(),
        node_type: node_type.unwrap_or(NodeType::InvalidNode),
        name: &message.name,
        kind: message.text("kind").unwrap_or_default(),
        start_ns: message
            .number("start_ns")
            .or(exact.map(|(start, _)| start))
            .or_else(|| message.start_time_micros.micros_as_ns()),
        duration_ns: message
            .number("duration_ns")
            .or(exact.map(|(_, duration)| duration))
            .or_else(|| message.duration_micros.micros_as_ns())
            .unwrap_or_default(),
        stock_duration_ns: message.duration_micros.micros_as_ns(),
        inclusive_ns: None,
        latency_ns: message.number("latency_ns"),
        correlation: message.number("correlation"),
        place: NodePlacement {
            pid: None,
            tid: None,
            device: message.number("device"),
            stream: message.number("stream"),
        },
        is_cpu_op: message.attr("is_cpu_op").and_then(|attr| attr.bool_val),
        comm: crate::read::graph::CommAttrs {
            comm_type: message.number("comm_type"),
            size: message.number("comm_size"),
            src: message.number("comm_src"),
            dst: message.number("comm_dst"),
            tag: message.number("comm_tag"),
            group: None,
            seq: message.number("seq"),
        },
        transfer_of: message.number("transfer_of"),
    };
    // A process or thread is a number or a text, as in the original Kineto file.
    for (label, name) in [(&mut node.place.pid, "pid"), (&mut node.place.tid, "tid")] {
        *label = message
            .number(name)
            .map(TrackLabel::Int)
            .or_else(|| Some(TrackLabel::Text(graph.names.intern(message.text(name)?))));
    }
    node.comm.group = message
        .text("pg_name")
        .map(|group| graph.names.intern(group));
    let [ctrl_deps, data_deps] = [&message.ctrl_deps, &message.data_deps]
        .map(|list| list.iter().map(JsonNumber::id).collect::<Vec<u64>>());
    context.complete(&mut node);
    graph.push_latencies(&DepLatencies {
        ctrl: message.numbers("ctrl_latency_ns"),
        data: message.numbers("data_latency_ns"),
    });
    graph.push(&node, &ctrl_deps, &data_deps);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"{
  "version": "0.0.4", "attr": [{"name": "pid", "uint64Val": "7"}]
}
{"id": "3", "name": "a \"}{\\", "type": "COMP_NODE", "ctrlDeps": ["0", 1.5, 18446744073709551615],
 "durationMicros": 12, "attr": [{"name": "x", "doubleVal": 1.5}, {"name": "pid", "stringVal": "é"}]
}{"id": 4, "type": "COMM_COLL_NODE",
  "attr": [{"name": "comm_size", "int32Val": -8}]}
"#;

    /// Reads with `serde_json` alone, as before the second parser existed.
    fn read_by_serde(text: &[u8]) -> String {
        let mut messages = MessageSink::default();
        messages.add_strictly(text, StreamPlace::default());
        format!("{:?}", messages.graph)
    }

    fn read_by_both(text: &[u8]) -> String {
        format!("{:?}", read_jsonizer(text).expect("reads"))
    }

    #[test]
    fn the_parsers_agree_on_whole_cut_and_changed_files() {
        let whole = MESSAGES.as_bytes();
        assert_eq!(read_jsonizer(whole).expect("reads").len(), 2);
        for cut in 0..=whole.len() {
            let text = &whole[..cut];
            assert_eq!(read_by_both(text), read_by_serde(text), "cut at {cut}");
        }
        for at in 0..whole.len() {
            for byte in *b"{}[]\"\\,: 0\n\xff" {
                let mut text = whole.to_vec();
                text[at] = byte;
                let shown = String::from_utf8_lossy(&text);
                // `-0` is an integer for simd-json, a float for serde_json.
                if !shown.contains("-0") {
                    assert_eq!(read_by_both(&text), read_by_serde(&text), "{shown}");
                }
            }
        }
    }

    #[test]
    fn a_file_of_several_chunks_is_read_as_one() {
        let name = "n\\\"".repeat(30_000);
        let node = format!(r#"{{"id": "1", "name": "{name}", "type": "COMP_NODE"}}"#);
        let broken = r#"{"id": "2", "name": oops}"#;
        let text = [r#"{"version": "1"}"#, &node, &node, "", broken].join("\n");
        let graph = read_jsonizer(text.as_bytes()).expect("reads");
        assert_eq!(graph.len(), 2);
        assert_eq!(
            read_by_both(text.as_bytes()),
            read_by_serde(text.as_bytes())
        );
        let finding = format!("{:?}", graph.findings);
        assert!(finding.contains("at line 5 column 21"), "{finding}");
    }

    /// Source that fails at the end of its truncated text.
    struct CutSource<'t>(&'t [u8]);

    impl Read for CutSource<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buffer) {
                Ok(0) => Err(std::io::ErrorKind::InvalidData.into()),
                read => read,
            }
        }
    }

    #[test]
    fn a_source_that_fails_is_reported_once() {
        // Trailing blanks may or may not count as read; both positions are correct.
        for text in [MESSAGES.trim_end(), &MESSAGES[..MESSAGES.len() - 9], "{"] {
            let source = || CutSource(text.as_bytes());
            let mut strict = MessageSink::default();
            strict.add_strictly(source(), StreamPlace::default());
            let graph = read_jsonizer(source()).expect("reads");
            assert_eq!(
                format!("{graph:?}"),
                format!("{:?}", strict.graph),
                "{text}"
            );
        }
    }
}
