//! The host trace: PyTorch's execution trace, schema 1.1.1, as `execution_trace_observer.cpp` (PyTorch 2.15) prints it.
//!
//! Ids ascend in time and parents stand behind their children: nodes come in the order in which they ended, the process last. A range that
//! still ran is a node all the same, so that what is in one trace is in both.

use super::details::SpanDetails;
use super::tensors::TensorFields;
use super::window::{SpanRun, SpanWindow};
use crate::spans::local_time;
use etlink_json::write::{number, text};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::io::{self, Write};

const SCHEMA: &str = "1.1.1-chakra.0.0.4";
const PROCESS: &str = "[pytorch|profiler|execution_trace|process]";
const THREAD: &str = "[pytorch|profiler|execution_trace|thread]";
const NOTHING: &str = r#"{"values": [], "shapes": [], "types": [], "strides": []}"#;

/// Writes the trace. O(n log n); memory of one node beside the order and the storages.
pub(crate) fn write(window: &SpanWindow, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = TraceWriter {
        ids: ids(window),
        next: 0,
        storages: FxHashMap::default(),
        node: vec![],
        first: true,
    };
    writer.next = 2 + window.threads.len() as u64 + window.ran.len() as u64;
    let (time, pid) = (local_time(window.start), std::process::id());
    let millis = |ns: i64| ns.div_euclid(1_000_000);
    write!(
        out,
        "{{\n  \"schema\": \"{SCHEMA}\", \"pid\": {pid}, \"time\": \"{time}\", \"start_ts\": {},\n  \"nodes\": [",
        millis(window.start)
    )?;
    for (thread, id) in window.threads.iter().zip(2..) {
        writer.node(
            out,
            &Node {
                tid: thread.tid,
                ..Node::root(THREAD, id)
            },
        )?;
    }
    let mut order: Vec<usize> = (0..window.ran.len())
        .filter(|row| window.ran[*row].rf_id > 0)
        .collect();
    order.sort_unstable_by_key(|row| (window.ran[*row].end, Reverse(*row)));
    for row in order {
        writer.op(out, window, row)?;
    }
    writer.node(out, &Node::root(PROCESS, 1))?;
    write!(out, "\n  ],\n  \"finish_ts\": {}\n}}", millis(window.end))
}

/// Node ids in the order of start, behind the process and the threads; 0 for what is no node.
fn ids(window: &SpanWindow) -> Vec<u64> {
    let mut next = 2 + window.threads.len() as u64;
    let mut id = |ran: &SpanRun| {
        let here = ran.rf_id > 0;
        next += u64::from(here);
        if here { next - 1 } else { 0 }
    };
    window.ran.iter().map(&mut id).collect()
}

struct Node<'a> {
    id: u64,
    parent: u64,
    name: &'a str,
    rf_id: u64,
    fw_parent: u64,
    seq: i64,
    scope: u64,
    tid: u64,
    fw_tid: u64,
    details: SpanDetails,
}

impl Node<'_> {
    fn root(name: &str, id: u64) -> Node<'_> {
        Node {
            id,
            parent: 1,
            name,
            rf_id: 0,
            fw_parent: 0,
            seq: -1,
            scope: 7,
            tid: 0,
            fw_tid: 0,
            details: SpanDetails::default(),
        }
    }
}

struct TraceWriter {
    ids: Vec<u64>,
    /// The next id of a tensor or storage.
    next: u64,
    /// Tensor and storage ids by what the program told.
    storages: FxHashMap<u64, (u64, u64)>,
    node: Vec<u8>,
    first: bool,
}

impl TraceWriter {
    fn op(&mut self, out: &mut dyn Write, window: &SpanWindow, row: usize) -> io::Result<()> {
        let ran = &window.ran[row];
        let facts = window.facts(ran);
        // the thread's node, unless an op is around it
        let parent_of = |ran: &SpanRun| {
            ran.parent
                .map_or(2 + ran.thread as u64, |parent| self.ids[parent])
        };
        let forward = ran.forward.map(|forward| &window.ran[forward]);
        let node = Node {
            id: self.ids[row],
            parent: parent_of(ran),
            name: &facts.name,
            rf_id: ran.rf_id,
            fw_parent: forward.map_or(0, parent_of),
            seq: facts.seq.unwrap_or(-1),
            scope: scope(window, ran),
            tid: window.threads[ran.thread].tid,
            fw_tid: forward.map_or(0, |forward| window.threads[forward.thread].tid),
            details: SpanDetails::of(window, ran),
        };
        self.node(out, &node)
    }

    fn node(&mut self, out: &mut dyn Write, node: &Node<'_>) -> io::Result<()> {
        let mut line = std::mem::take(&mut self.node);
        line.clear();
        let separator = if std::mem::replace(&mut self.first, false) {
            ""
        } else {
            ","
        };
        write!(
            line,
            "{separator}\n      {{\n        \"id\": {}, \"name\": ",
            node.id
        )?;
        text(&mut line, node.name)?;
        write!(
            line,
            ", \"ctrl_deps\": {},\n        \"inputs\": ",
            node.parent
        )?;
        self.tensors(&mut line, &node.details.inputs, &node.details.tensor_device)?;
        line.extend_from_slice(b",\n        \"outputs\": ");
        self.tensors(
            &mut line,
            &node.details.outputs,
            &node.details.tensor_device,
        )?;
        attributes(&mut line, node)?;
        line.extend_from_slice(b"\n      }");
        out.write_all(&line)?;
        self.node = line;
        Ok(())
    }

    /// A tensor whose storage the program did not tell is one that nobody else uses.
    fn tensors(
        &mut self,
        line: &mut Vec<u8>,
        tensors: &TensorFields,
        device: &str,
    ) -> io::Result<()> {
        if tensors.shapes.is_empty() {
            line.extend_from_slice(NOTHING.as_bytes());
            return Ok(());
        }
        let count = tensors.shapes.len();
        line.extend_from_slice(b"{\"values\": [");
        for at in 0..count {
            let (tensor, storage) = self.storage(tensors.storage(at));
            let (elements, bytes) = (tensors.elements(at), tensors.dtype(at).1);
            write!(
                line,
                "{}[{tensor},{storage},0,{elements},{bytes},",
                if at > 0 { "," } else { "" }
            )?;
            text(line, device)?;
            line.push(b']');
        }
        line.extend_from_slice(b"], \"shapes\": ");
        number(line, &tensors.shapes)?;
        line.extend_from_slice(b", \"types\": ");
        number(
            line,
            (0..count)
                .map(|at| format!("Tensor({})", tensors.dtype(at).0))
                .collect::<Vec<_>>(),
        )?;
        line.extend_from_slice(b", \"strides\": ");
        number(line, tensors.strides())?;
        line.push(b'}');
        Ok(())
    }

    fn storage(&mut self, told: Option<u64>) -> (u64, u64) {
        let fresh = (self.next, self.next + 1);
        let ids = told.map_or(fresh, |told| *self.storages.entry(told).or_insert(fresh));
        self.next += if ids == fresh { 2 } else { 0 };
        ids
    }
}

/// `at::RecordScope`.
fn scope(window: &SpanWindow, ran: &SpanRun) -> u64 {
    let facts = window.facts(ran);
    match (facts.role, facts.backward) {
        (super::facts::SpanRole::Annotation, _) => 7,
        (_, backward) => u64::from(backward),
    }
}

fn attributes(line: &mut Vec<u8>, node: &Node<'_>) -> io::Result<()> {
    line.extend_from_slice(b",\n        \"attrs\": [");
    for (name, kind, value) in [
        ("rf_id", "uint64", node.rf_id.to_string()),
        ("fw_parent", "uint64", node.fw_parent.to_string()),
        ("seq_id", "int64", node.seq.to_string()),
        ("scope", "uint64", node.scope.to_string()),
        ("tid", "uint64", node.tid.to_string()),
        ("fw_tid", "uint64", node.fw_tid.to_string()),
    ] {
        write!(
            line,
            "{{\"name\": \"{name}\", \"type\": \"{kind}\", \"value\": {value}}},"
        )?;
    }
    line.extend_from_slice(br#"{"name": "op_schema", "type": "string", "value": "#);
    text(line, &node.details.schema)?;
    for name in ["kernel_backend", "kernel_file", "tensor_range"] {
        write!(
            line,
            "}},{{\"name\": \"{name}\", \"type\": \"string\", \"value\": \"\""
        )?;
    }
    line.extend_from_slice(b"}]");
    Ok(())
}
