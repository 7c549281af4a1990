//! Reads Chakra messages into columns: varint-delimited, or as JSON.
//!
//! Damage affects only its own message: a node that cannot be decoded is skipped, a string that is
//! not UTF-8 is repaired, a truncated tail ends the file. A length is trusted only as far as bytes
//! follow.

use super::attributes::{NS, PAIR_BYTES, THREAD_PID, default_kind, joined_times};
use crate::AttributeSet;
use crate::finding::{FindingExample, FindingKind};
use crate::proto::NodeType;
use crate::read::error::stopped;
use crate::read::graph::{ChakraGraph, DepLatencies, FileKind, GraphNode};
use crate::wire::json::{ChakraMessage, decode_known_fields, decode_object, json_objects};
use crate::wire::read::{Attr, AttrValue, Field, attr, next_field, numbers};
use crate::wire::schema::{io_info, list, metadata, node as field};
use etlink_model::{Failure, TrackLabel};
use prost::{DecodeError, Message};
use std::borrow::Cow;
use std::io::{BufRead, BufReader, ErrorKind, Read};

const CTRL_LATENCIES: &[u8] = b"ctrl_latency_ns";
const DATA_LATENCIES: &[u8] = b"data_latency_ns";

/// Maximum size of a message; Chakra nodes have kilobytes.
const MAX_MESSAGE_BYTES: u64 = 64 << 20;

pub(crate) fn read_et(source: impl Read) -> Result<ChakraGraph, Failure> {
    let mut reader = GraphReader::new(FileKind::ChakraEt);
    let mut messages = MessageReader::new(source);
    let mut message = vec![];
    let mut first = true;
    loop {
        reader.offset = messages.offset;
        match messages.next(&mut message)? {
            NextMessage::End => break,
            NextMessage::Cut(detail) => {
                reader.note(FindingKind::Truncated, detail);
                break;
            }
            NextMessage::Message => {}
        }
        if std::mem::take(&mut first) && is_metadata(&message) {
            reader.read_metadata(&message);
            continue;
        }
        if reader.offset == 0 {
            reader.note(FindingKind::NoMetadata, String::new());
        }
        if let Err(error) = reader.read_node(&message) {
            reader.note(FindingKind::Undecodable, error.to_string());
        }
    }
    reader.graph.bytes = messages.offset;
    Ok(reader.graph)
}

/// Reads the output of `chakra_jsonizer`: the same messages as concatenated JSON objects.
pub(crate) fn read_jsonizer(source: impl Read) -> ChakraGraph {
    let mut reader = GraphReader::new(FileKind::ChakraJson);
    let mut objects = json_objects(source);
    let mut first = true;
    while let Some(object) = objects.next() {
        let is_first = std::mem::take(&mut first);
        let message = object.and_then(|object| {
            let text = object.get();
            decode_object(text, is_first).or_else(|_| decode_known_fields(text, is_first))
        });
        let read = message.map(|message| match message {
            ChakraMessage::Metadata(metadata) => {
                reader.read_metadata(&metadata.encode_to_vec());
                Ok(())
            }
            ChakraMessage::Node(node) => reader.read_node(&node.encode_to_vec()),
        });
        match read {
            Err(error) if error.is_eof() => {
                reader.note(FindingKind::Truncated, error.to_string());
            }
            Err(error) => reader.note(FindingKind::Undecodable, error.to_string()),
            Ok(Err(error)) => reader.note(FindingKind::Undecodable, error.to_string()),
            Ok(Ok(())) => {}
        }
        reader.offset = objects.byte_offset() as u64;
    }
    reader.graph.bytes = objects.byte_offset() as u64;
    reader.graph
}

pub(crate) enum NextMessage {
    Message,
    End,
    Cut(String),
}

/// Reader of length-delimited messages.
pub(crate) struct MessageReader<R> {
    source: R,
    /// Offset of the next message.
    pub(crate) offset: u64,
}

impl<R: Read> MessageReader<BufReader<R>> {
    pub(crate) fn new(source: R) -> Self {
        MessageReader {
            source: BufReader::with_capacity(1 << 18, source),
            offset: 0,
        }
    }
}

impl<R: BufRead> MessageReader<R> {
    pub(crate) fn next(&mut self, message: &mut Vec<u8>) -> Result<NextMessage, Failure> {
        match self.try_next(message) {
            // A truncated gzip or zstd stream ends like this: everything before is still valid.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput
                ) =>
            {
                Ok(NextMessage::Cut(format!("the source ends: {error}")))
            }
            other => other.map_err(|source| stopped(self.offset, source)),
        }
    }

    fn try_next(&mut self, message: &mut Vec<u8>) -> std::io::Result<NextMessage> {
        let Some(length) = self.read_length()? else {
            return Ok(NextMessage::End);
        };
        // After damage, any bytes look like a length: a bound keeps a wrong one from exhausting
        // memory.
        let Some(length) = length.filter(|length| *length <= MAX_MESSAGE_BYTES) else {
            return Ok(NextMessage::Cut("no message starts here".to_owned()));
        };
        message.clear();
        // Memory grows with the bytes received, not with the claimed length.
        let got = self.source.by_ref().take(length).read_to_end(message)? as u64;
        self.offset += got;
        Ok(if got == length {
            NextMessage::Message
        } else {
            NextMessage::Cut(format!("the message has {got} of {length} bytes"))
        })
    }

    /// Reads a varint; returns `Some(None)` if it is invalid.
    fn read_length(&mut self) -> std::io::Result<Option<Option<u64>>> {
        let mut value = 0u64;
        for place in 0..10 {
            let Some(&byte) = self.source.fill_buf()?.first() else {
                return Ok(if place == 0 { None } else { Some(None) });
            };
            self.source.consume(1);
            self.offset += 1;
            value |= u64::from(byte & 0x7F).checked_shl(7 * place).unwrap_or(0);
            if byte < 0x80 {
                return Ok(Some(Some(value)));
            }
        }
        Ok(Some(None))
    }
}

/// Returns true if a message is metadata, which has a version and attributes, whereas a node almost
/// always has an id or a type. A node with id 0 begins with its name under the field number of
/// metadata's attributes, so these have to look like attributes.
pub(crate) fn is_metadata(mut message: &[u8]) -> bool {
    while !message.is_empty() {
        match next_field(&mut message) {
            Ok((metadata::VERSION, Field::Block(_))) => {}
            Ok((metadata::ATTR, Field::Block(block)))
                if attr(block).is_ok_and(|attr| !attr.name.is_empty()) => {}
            _ => return false,
        }
    }
    true
}

/// Reader of messages into columns.
#[derive(Default)]
struct GraphReader {
    graph: ChakraGraph,
    /// Offset of the message in the file.
    offset: u64,
    /// Attributes that nodes have, if the first message states them.
    set: Option<AttributeSet>,
    /// Process of threads that name none.
    pid: Option<i64>,
    // Lists of the node being read.
    ctrl_deps: Vec<u64>,
    data_deps: Vec<u64>,
    latencies: DepLatencies,
    pair_bytes: [Vec<u64>; 2],
    list: Vec<u64>,
}

impl GraphReader {
    fn new(format: FileKind) -> GraphReader {
        let mut reader = GraphReader::default();
        reader.graph.format = format;
        reader
    }

    fn note(&mut self, kind: FindingKind, detail: String) {
        let offset = Some(self.offset);
        self.graph.findings.note(kind, || FindingExample {
            offset,
            detail,
            ..FindingExample::default()
        });
    }

    fn note_node(&mut self, kind: FindingKind, (id, name): (u64, &str), detail: String) {
        let offset = Some(self.offset);
        self.graph.findings.note(kind, || FindingExample {
            id: Some(id),
            name: name.to_owned(),
            offset,
            detail,
            ..FindingExample::default()
        });
    }

    fn read_metadata(&mut self, mut message: &[u8]) {
        while let Ok((tag, Field::Block(block))) = next_field(&mut message) {
            let pair = match (tag, attr(block)) {
                (metadata::VERSION, _) => Some(("version".to_owned(), self.text(block))),
                (_, Ok(attr)) => Some((self.text(attr.name), self.value_text(attr.value))),
                _ => None,
            };
            self.graph.metadata.extend(pair);
        }
        self.set = self.graph.attribute_set();
        let pid = self.graph.metadata_int(THREAD_PID);
        self.pid = pid.or_else(|| self.graph.metadata_int("pid"));
    }

    fn value_text(&mut self, value: AttrValue<'_>) -> String {
        match value {
            AttrValue::Absent => String::new(),
            AttrValue::Int(number) => number.to_string(),
            AttrValue::Float(number) => number.to_string(),
            AttrValue::Text(bytes) => self.text(bytes),
            AttrValue::List | AttrValue::IntList(_) => "[…]".to_owned(),
        }
    }

    fn text(&mut self, bytes: &[u8]) -> String {
        if std::str::from_utf8(bytes).is_err() {
            self.note(FindingKind::InvalidUtf8, String::new());
        }
        String::from_utf8_lossy(bytes).into_owned()
    }

    fn read_node(&mut self, mut message: &[u8]) -> Result<(), DecodeError> {
        self.ctrl_deps.clear();
        self.data_deps.clear();
        self.latencies.clear();
        self.pair_bytes.iter_mut().for_each(Vec::clear);
        let (mut node, mut seen) = (GraphNode::default(), SeenFields::default());
        while !message.is_empty() {
            match next_field(&mut message)? {
                (field::ID, Field::Number(id)) => node.id = id,
                (field::NAME, Field::Block(name)) => seen.name = name,
                (field::TYPE, Field::Number(number)) => {
                    let known = i32::try_from(number)
                        .ok()
                        .and_then(|number| NodeType::try_from(number).ok());
                    node.node_type = known.unwrap_or(NodeType::InvalidNode);
                }
                // Packed or one by one: protobuf readers must accept both.
                (field::CTRL_DEPS, list) => numbers(list, &mut self.ctrl_deps)?,
                (field::DATA_DEPS, list) => numbers(list, &mut self.data_deps)?,
                (field::START_TIME_MICROS, Field::Number(start)) => seen.start_us = start,
                (field::DURATION_MICROS, Field::Number(duration)) => seen.duration_us = duration,
                (field::INPUTS | field::OUTPUTS, Field::Block(texts)) => {
                    seen.bad_text |= !all_utf8(texts)?;
                }
                (field::ATTR, Field::Block(block)) => {
                    let attr = attr(block)?;
                    if !self.read_list(&mut seen, attr)? {
                        read_attribute(&mut node, &mut seen, attr);
                    }
                }
                _ => {}
            }
        }
        self.finish(node, &seen);
        Ok(())
    }

    /// Appends a node after all its fields have been read.
    fn finish(&mut self, mut node: GraphNode<'_>, seen: &SeenFields<'_>) {
        let [name, kind] = [seen.name, seen.kind].map(String::from_utf8_lossy);
        if seen.bad_text || matches!(name, Cow::Owned(_)) {
            self.note_node(FindingKind::InvalidUtf8, (node.id, &name), String::new());
        }
        if let Some(attr) = seen.wrong_type {
            let detail = String::from_utf8_lossy(attr).into_owned();
            self.note_node(FindingKind::WrongAttrType, (node.id, &name), detail);
        }
        let names = &mut self.graph.names;
        let mut intern = |text| names.intern(&String::from_utf8_lossy(text));
        node.place.pid = seen
            .pid
            .map(&mut intern)
            .map(TrackLabel::Text)
            .or(node.place.pid);
        node.place.tid = seen
            .tid
            .map(&mut intern)
            .map(TrackLabel::Text)
            .or(node.place.tid);
        node.comm.group = seen.group.map(intern);
        let exact = self
            .set
            .and(seen.ns)
            .and_then(|ns| joined_times(seen.start_us, &ns));
        let (exact_start, exact_duration) = exact.unzip();
        // Chakra's own converter never sets the start, so 0 means unknown.
        let start_ns = i64::try_from(seen.start_us)
            .ok()
            .and_then(|us| us.checked_mul(1000))
            // Proto3 omits a 0, so 0 and absent are the same.
            .filter(|start| *start > 0);
        node.start_ns = node.start_ns.or(exact_start).or(start_ns);
        let duration_us = i64::try_from(seen.duration_us).unwrap_or(i64::MAX);
        let stock_duration_ns = duration_us.saturating_mul(1000);
        node.stock_duration_ns = Some(stock_duration_ns);
        let stated = seen.duration_ns.or(exact_duration);
        node.duration_ns = stated.unwrap_or(stock_duration_ns);
        node.is_cpu_op = seen.is_cpu_op.map(|flag| flag != 0);
        let mut node = GraphNode {
            name: &name,
            kind: &kind,
            ..node
        };
        self.complete(&mut node);
        self.graph.push_latencies(&self.latencies);
        self.graph.push_pair_bytes(&self.pair_bytes);
        self.graph.push(&node, &self.ctrl_deps, &self.data_deps);
    }

    /// Adds attributes that a node omits because the first message implies them.
    fn complete(&self, node: &mut GraphNode<'_>) {
        let Some(set) = self.set else { return };
        let is_cpu_op = *node.is_cpu_op.get_or_insert(false);
        if set == AttributeSet::Minimal {
            return;
        }
        if node.kind.is_empty() {
            node.kind = default_kind(node.node_type, is_cpu_op, node.correlation.is_some());
        }
        if node.place.tid.is_some() && node.place.pid.is_none() {
            node.place.pid = self.pid.map(TrackLabel::Int);
        }
    }

    /// Keeps a list of numbers that is used here. Returns true if it is one.
    fn read_list(
        &mut self,
        seen: &mut SeenFields<'_>,
        attr: Attr<'_>,
    ) -> Result<bool, DecodeError> {
        let AttrValue::IntList(mut block) = attr.value else {
            return Ok(false);
        };
        let pair_bytes = PAIR_BYTES
            .iter()
            .position(|name| name.as_bytes() == attr.name);
        if pair_bytes.is_none()
            && ![CTRL_LATENCIES, DATA_LATENCIES, NS.as_bytes()].contains(&attr.name)
        {
            return Ok(false);
        }
        self.list.clear();
        while !block.is_empty() {
            if let (list::VALUES, values) = next_field(&mut block)? {
                numbers(values, &mut self.list)?;
            }
        }
        if let Some(way) = pair_bytes {
            self.pair_bytes[way].extend(&self.list);
            return Ok(true);
        }
        let values = self.list.iter().map(|bits| bits.cast_signed());
        match attr.name {
            CTRL_LATENCIES => self.latencies.ctrl.extend(values),
            DATA_LATENCIES => self.latencies.data.extend(values),
            // A list of a different length was not written by etlink.
            _ => {
                let pair = <[u64; 2]>::try_from(&self.list[..]).ok();
                seen.ns = pair.map(|pair| pair.map(u64::cast_signed));
            }
        }
        Ok(true)
    }
}

/// Strings and attributes of a node collected while its fields are read.
#[derive(Default)]
struct SeenFields<'a> {
    name: &'a [u8],
    kind: &'a [u8],
    group: Option<&'a [u8]>,
    pid: Option<&'a [u8]>,
    tid: Option<&'a [u8]>,
    start_us: u64,
    duration_us: u64,
    duration_ns: Option<i64>,
    /// The list `ns`.
    ns: Option<[i64; 2]>,
    is_cpu_op: Option<i64>,
    bad_text: bool,
    wrong_type: Option<&'a [u8]>,
}

fn read_attribute<'a>(node: &mut GraphNode<'_>, seen: &mut SeenFields<'a>, attr: Attr<'a>) {
    seen.bad_text |= std::str::from_utf8(attr.name).is_err();
    if let AttrValue::Text(text) = attr.value {
        seen.bad_text |= std::str::from_utf8(text).is_err();
    }
    let wanted = match attr.name {
        b"is_cpu_op" => &mut seen.is_cpu_op,
        b"comm_type" => &mut node.comm.comm_type,
        b"comm_size" => &mut node.comm.size,
        b"comm_src" => &mut node.comm.src,
        b"comm_dst" => &mut node.comm.dst,
        b"comm_tag" => &mut node.comm.tag,
        b"transfer_of" => &mut node.transfer_of,
        b"start_ns" => &mut node.start_ns,
        b"duration_ns" => &mut seen.duration_ns,
        _ => return free_attribute(node, seen, attr),
    };
    match attr.value {
        AttrValue::Int(number) => *wanted = Some(number),
        _ => seen.wrong_type = Some(attr.name),
    }
}

/// Keeps attributes that are texts, or that no simulator reads.
fn free_attribute<'a>(node: &mut GraphNode<'_>, seen: &mut SeenFields<'a>, attr: Attr<'a>) {
    match (attr.name, attr.value) {
        (b"kind", AttrValue::Text(kind)) => seen.kind = kind,
        (b"pg_name", AttrValue::Text(group)) => seen.group = Some(group),
        (b"pid", AttrValue::Text(pid)) => seen.pid = Some(pid),
        (b"tid", AttrValue::Text(tid)) => seen.tid = Some(tid),
        (b"seq", AttrValue::Int(seq)) => node.comm.seq = Some(seq),
        (b"latency_ns", AttrValue::Int(latency)) => node.latency_ns = Some(latency),
        (b"correlation", AttrValue::Int(correlation)) => node.correlation = Some(correlation),
        (b"device", AttrValue::Int(device)) => node.place.device = Some(device),
        (b"stream", AttrValue::Int(stream)) => node.place.stream = Some(stream),
        (b"pid", AttrValue::Int(pid)) => node.place.pid = Some(TrackLabel::Int(pid)),
        (b"tid", AttrValue::Int(tid)) => node.place.tid = Some(TrackLabel::Int(tid)),
        (b"pg_name", _) => seen.wrong_type = Some(attr.name),
        _ => {}
    }
}

fn all_utf8(mut message: &[u8]) -> Result<bool, DecodeError> {
    let mut all = true;
    while !message.is_empty() {
        if let (io_info::VALUES..=io_info::TYPES, Field::Block(text)) = next_field(&mut message)? {
            all &= std::str::from_utf8(text).is_ok();
        }
    }
    Ok(all)
}
