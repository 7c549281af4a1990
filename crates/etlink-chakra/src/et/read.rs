//! Reads varint-delimited Chakra messages.
//!
//! Damage affects only its own message: a node that cannot be decoded is skipped, a string that is
//! not UTF-8 is repaired, a truncated tail ends the file. A length is trusted only as far as bytes
//! follow.

use super::attributes::{NS, THREAD_PID, default_kind, joined_times};
use crate::AttributeSet;
use crate::finding::{FindingExample, FindingKind};
use crate::proto::NodeType;
use crate::read::error::ChakraReadError;
use crate::read::graph::{ChakraGraph, DepLatencies, FileKind, GraphNode};
use crate::wire::read::{Attr, AttrValue, Field, attr, next_field, numbers};
use crate::wire::schema::{io_info, list, metadata, node as field};
use etlink_model::TrackLabel;
use prost::DecodeError;
use std::borrow::Cow;
use std::io::{BufRead, BufReader, ErrorKind, Read};

const CTRL_LATENCIES: &[u8] = b"ctrl_latency_ns";
const DATA_LATENCIES: &[u8] = b"data_latency_ns";

/// Maximum size of a message; Chakra nodes have kilobytes.
const MAX_MESSAGE_BYTES: u64 = 64 << 20;

pub(crate) fn read_et(source: impl Read) -> Result<ChakraGraph, ChakraReadError> {
    let mut graph = ChakraGraph {
        format: FileKind::ChakraEt,
        ..ChakraGraph::default()
    };
    let mut messages = MessageReader::new(source);
    let (mut message, mut scratch) = (vec![], DepBuffers::default());
    let mut context = FileContext::default();
    let mut first = true;
    loop {
        let offset = messages.offset;
        match messages.next(&mut message)? {
            NextMessage::End => break,
            NextMessage::Cut(detail) => {
                note_finding(&mut graph, FindingKind::Truncated, offset, detail);
                break;
            }
            NextMessage::Message => {}
        }
        let metadata = std::mem::take(&mut first) && is_metadata(&message);
        if metadata {
            read_metadata(&mut graph, &message, offset);
            context = FileContext::of(&graph);
        } else {
            if offset == 0 {
                note_finding(&mut graph, FindingKind::NoMetadata, offset, String::new());
            }
            if let Err(error) = read_node(&mut graph, &message, offset, context, &mut scratch) {
                note_finding(
                    &mut graph,
                    FindingKind::Undecodable,
                    offset,
                    error.to_string(),
                );
            }
        }
    }
    graph.bytes = messages.offset;
    Ok(graph)
}

fn note_finding(graph: &mut ChakraGraph, kind: FindingKind, offset: u64, detail: String) {
    graph.findings.note(kind, || FindingExample {
        offset: Some(offset),
        detail,
        ..FindingExample::default()
    });
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
    pub(crate) fn next(&mut self, message: &mut Vec<u8>) -> Result<NextMessage, ChakraReadError> {
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
            other => other.map_err(|source| ChakraReadError::Io {
                offset: self.offset,
                source,
            }),
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

fn read_metadata(graph: &mut ChakraGraph, mut message: &[u8], offset: u64) {
    while let Ok((tag, Field::Block(block))) = next_field(&mut message) {
        let pair = match (tag, attr(block)) {
            (metadata::VERSION, _) => {
                Some(("version".to_owned(), text(block, graph, None, offset)))
            }
            (_, Ok(attr)) => Some((
                text(attr.name, graph, None, offset),
                value_text(attr.value, graph, offset),
            )),
            _ => None,
        };
        graph.metadata.extend(pair);
    }
}

fn value_text(value: AttrValue<'_>, graph: &mut ChakraGraph, offset: u64) -> String {
    match value {
        AttrValue::Absent => String::new(),
        AttrValue::Int(number) => number.to_string(),
        AttrValue::Float(number) => number.to_string(),
        AttrValue::Text(bytes) => text(bytes, graph, None, offset),
        AttrValue::List | AttrValue::IntList(_) => "[…]".to_owned(),
    }
}

fn text(bytes: &[u8], graph: &mut ChakraGraph, id: Option<u64>, offset: u64) -> String {
    if std::str::from_utf8(bytes).is_err() {
        invalid_utf8(graph, id, "", offset);
    }
    String::from_utf8_lossy(bytes).into_owned()
}

fn invalid_utf8(graph: &mut ChakraGraph, id: Option<u64>, name: &str, offset: u64) {
    graph
        .findings
        .note(FindingKind::InvalidUtf8, || FindingExample {
            id,
            name: name.to_owned(),
            offset: Some(offset),
            detail: String::new(),
            ..FindingExample::default()
        });
}

/// Information in the first message that applies to all nodes.
#[derive(Clone, Copy, Default)]
pub(crate) struct FileContext {
    set: Option<AttributeSet>,
    /// Process of threads that name none.
    pid: Option<i64>,
}

impl FileContext {
    pub(crate) fn of(graph: &ChakraGraph) -> FileContext {
        FileContext {
            set: graph.attribute_set(),
            pid: graph
                .metadata_int(THREAD_PID)
                .or_else(|| graph.metadata_int("pid")),
        }
    }

    /// Returns true if the first message states which attributes nodes have.
    pub(crate) fn is_stated(self) -> bool {
        self.set.is_some()
    }

    /// Adds attributes that a node omits because the first message implies them.
    pub(crate) fn complete(self, node: &mut GraphNode<'_>) {
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
}

/// Reusable buffers.
#[derive(Default)]
struct DepBuffers {
    ctrl_deps: Vec<u64>,
    data_deps: Vec<u64>,
    latencies: DepLatencies,
    /// List being read.
    list: Vec<u64>,
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

fn read_node(
    graph: &mut ChakraGraph,
    mut message: &[u8],
    offset: u64,
    context: FileContext,
    scratch: &mut DepBuffers,
) -> Result<(), DecodeError> {
    scratch.ctrl_deps.clear();
    scratch.data_deps.clear();
    scratch.latencies.clear();
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
            (field::CTRL_DEPS, list) => numbers(list, &mut scratch.ctrl_deps)?,
            (field::DATA_DEPS, list) => numbers(list, &mut scratch.data_deps)?,
            (field::START_TIME_MICROS, Field::Number(start)) => seen.start_us = start,
            (field::DURATION_MICROS, Field::Number(duration)) => seen.duration_us = duration,
            (field::INPUTS | field::OUTPUTS, Field::Block(texts)) => {
                seen.bad_text |= !all_utf8(texts)?;
            }
            (field::ATTR, Field::Block(block)) => {
                let attr = attr(block)?;
                if !read_list(scratch, &mut seen, attr)? {
                    read_attribute(&mut node, &mut seen, attr);
                }
            }
            _ => {}
        }
    }
    finish(graph, node, &seen, offset, context, scratch);
    Ok(())
}

/// Appends a node after all its fields have been read.
fn finish(
    graph: &mut ChakraGraph,
    mut node: GraphNode<'_>,
    seen: &SeenFields<'_>,
    offset: u64,
    context: FileContext,
    scratch: &DepBuffers,
) {
    let (name, kind) = (
        String::from_utf8_lossy(seen.name),
        String::from_utf8_lossy(seen.kind),
    );
    if seen.bad_text || matches!(name, Cow::Owned(_)) {
        invalid_utf8(graph, Some(node.id), &name, offset);
    }
    if let Some(attr) = seen.wrong_type {
        let detail = String::from_utf8_lossy(attr).into_owned();
        graph
            .findings
            .note(FindingKind::WrongAttrType, || FindingExample {
                id: Some(node.id),
                name: name.clone().into_owned(),
                offset: Some(offset),
                detail,
                ..FindingExample::default()
            });
    }
    for (label, text) in [
        (&mut node.place.pid, seen.pid),
        (&mut node.place.tid, seen.tid),
    ] {
        *label = text
            .map(|text| TrackLabel::Text(graph.names.intern(&String::from_utf8_lossy(text))))
            .or(*label);
    }
    node.comm.group = seen
        .group
        .map(|group| graph.names.intern(&String::from_utf8_lossy(group)));
    node.is_cpu_op = seen.is_cpu_op.map(|flag| flag != 0);
    let exact = if context.is_stated() { seen.ns } else { None };
    let exact = exact.and_then(|ns| joined_times(seen.start_us, &ns));
    // Chakra's own converter never sets the start, so 0 means unknown.
    let start_ns = i64::try_from(seen.start_us)
        .ok()
        .and_then(|us| us.checked_mul(1000))
        // Proto3 omits a 0, so 0 and absent are the same.
        .filter(|start| *start > 0);
    let exact_start = exact.map(|(start, _)| start);
    node.start_ns = node.start_ns.or(exact_start).or(start_ns);
    let duration_us = i64::try_from(seen.duration_us).unwrap_or(i64::MAX);
    let exact_duration = exact.map(|(_, duration)| duration);
    node.duration_ns = seen
        .duration_ns
        .or(exact_duration)
        .unwrap_or_else(|| duration_us.saturating_mul(1000));
    node.stock_duration_ns = Some(duration_us.saturating_mul(1000));
    let mut node = GraphNode {
        name: &name,
        kind: &kind,
        ..node
    };
    context.complete(&mut node);
    graph.push_latencies(&scratch.latencies);
    graph.push(&node, &scratch.ctrl_deps, &scratch.data_deps);
}

/// Keeps a list of numbers that is used here. Returns true if it is one.
fn read_list(
    scratch: &mut DepBuffers,
    seen: &mut SeenFields<'_>,
    attr: Attr<'_>,
) -> Result<bool, DecodeError> {
    let AttrValue::IntList(mut block) = attr.value else {
        return Ok(false);
    };
    if ![CTRL_LATENCIES, DATA_LATENCIES, NS.as_bytes()].contains(&attr.name) {
        return Ok(false);
    }
    scratch.list.clear();
    while !block.is_empty() {
        if let (list::VALUES, values) = next_field(&mut block)? {
            numbers(values, &mut scratch.list)?;
        }
    }
    let values = scratch.list.iter().map(|bits| bits.cast_signed());
    match attr.name {
        CTRL_LATENCIES => scratch.latencies.ctrl.extend(values),
        DATA_LATENCIES => scratch.latencies.data.extend(values),
        // A list of a different length was not written by etlink.
        _ => {
            let pair = <[u64; 2]>::try_from(&scratch.list[..]).ok();
            seen.ns = pair.map(|pair| pair.map(u64::cast_signed));
        }
    }
    Ok(true)
}

/// Keeps the attributes that are used here.
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
