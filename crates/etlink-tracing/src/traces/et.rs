//! Writes the host trace: PyTorch's execution trace, schema 1.1.1, as printed by
//! `execution_trace_observer.cpp` (PyTorch 2.15).
//!
//! Ids ascend in time. Nodes come in the order in which they ended, so parents follow their
//! children and the process is last. A range that still runs is a node too, so both traces have the
//! same ranges.

use super::details::SpanDetails;
use super::tensors::TensorFields;
use super::window::{SpanRun, SpanWindow};
use crate::spans::local_time;
use etlink_formats::host::{ArgumentText, HostWriteOptions, HostWriter, NodeText};
use etlink_json::write::{number, text};
use etlink_model::HostHeader;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::io::{self, Write};

/// Writes the trace. O(n log n); needs memory for one node, the order and the storages.
pub(crate) fn write(window: &SpanWindow, out: &mut dyn Write) -> io::Result<()> {
    let header = HostHeader {
        schema: String::new(),
        pid: Some(i64::from(std::process::id())),
        time: local_time(window.start),
        start_ms: Some(whole_milliseconds(window.start)),
        // `finish` writes it after the nodes.
        finish_ms: None,
    };
    let writer = HostWriter::new(out, &header, HostWriteOptions::default())?;
    let mut encoder = HostEncoder {
        ids: node_ids(window),
        // PyTorch uses one counter for nodes and tensors; here tensor ids follow all node ids.
        next: 2 + window.threads.len() as u64 + window.ran.len() as u64,
        storages: FxHashMap::default(),
        writer,
    };
    // 1 is the process root, so threads begin at 2, as in PyTorch's files.
    for (thread, id) in window.threads.iter().zip(2..) {
        encoder.writer.node(&NodeText::thread(id, thread.tid))?;
    }
    let mut order: Vec<usize> = (0..window.ran.len())
        .filter(|row| window.ran[*row].rf_id > 0)
        .collect();
    // If two nodes end together, the later one is inside the other and comes first.
    order.sort_unstable_by_key(|row| (window.ran[*row].end, Reverse(*row)));
    for row in order {
        encoder.write_op(window, row)?;
    }
    // The observer writes the process when it is removed; its absence marks a truncated file.
    encoder.writer.node(&NodeText::process())?;
    encoder
        .writer
        .finish(Some(whole_milliseconds(window.end)))?;
    Ok(())
}

fn whole_milliseconds(ns: i64) -> i64 {
    ns.div_euclid(1_000_000)
}

/// Returns node ids by start, after the process and the threads; 0 for runs without a node.
fn node_ids(window: &SpanWindow) -> Vec<u64> {
    let mut next = 2 + window.threads.len() as u64;
    let mut id = |ran: &SpanRun| {
        let here = ran.rf_id > 0;
        next += u64::from(here);
        if here { next - 1 } else { 0 }
    };
    window.ran.iter().map(&mut id).collect()
}

struct HostEncoder<W> {
    ids: Vec<u64>,
    /// Next id of a tensor or storage.
    next: u64,
    /// Tensor and storage ids by the program's identity of a storage.
    storages: FxHashMap<u64, (u64, u64)>,
    writer: HostWriter<W>,
}

impl<W: Write> HostEncoder<W> {
    fn write_op(&mut self, window: &SpanWindow, row: usize) -> io::Result<()> {
        let run = &window.ran[row];
        let facts = window.facts(run);
        let details = SpanDetails::of(window, run);
        let forward = run.forward.map(|forward| &window.ran[forward]);
        let inputs = self.tensor_lists(&details.inputs, &details.tensor_device)?;
        let outputs = self.tensor_lists(&details.outputs, &details.tensor_device)?;
        let tid = window.threads[run.thread].tid;
        let node = NodeText {
            rf_id: run.rf_id,
            // 0 means no forward op; node ids begin at 1.
            fw_parent: forward.map_or(0, |forward| self.parent_id(forward)),
            seq_id: facts.seq.unwrap_or(-1),
            scope: record_scope(window, run),
            fw_tid: forward.map_or(0, |forward| window.threads[forward.thread].tid),
            op_schema: &details.schema,
            inputs: inputs.as_text(),
            outputs: outputs.as_text(),
            ..NodeText::range(self.ids[row], self.parent_id(run), &facts.name, tid)
        };
        self.writer.node(&node)
    }

    /// Returns the node of the enclosing op, else of the thread.
    fn parent_id(&self, run: &SpanRun) -> u64 {
        let thread = 2 + run.thread as u64;
        run.parent.map_or(thread, |parent| self.ids[parent])
    }

    /// Encodes tensors; a tensor without a storage in its fields shares it with no other tensor.
    fn tensor_lists(&mut self, tensors: &TensorFields, device: &str) -> io::Result<TensorLists> {
        let mut lists = TensorLists::default();
        // The observer also writes empty lists for an op without tensors.
        if tensors.shapes.is_empty() {
            return Ok(lists);
        }
        lists.values.push(b'[');
        for at in 0..tensors.shapes.len() {
            let (tensor, storage) = self.storage_ids(tensors.storage(at));
            let (elements, bytes) = (tensors.elements(at), tensors.dtype(at).1);
            let separator = if at > 0 { "," } else { "" };
            write!(
                lists.values,
                "{separator}[{tensor},{storage},0,{elements},{bytes},"
            )?;
            text(&mut lists.values, device)?;
            lists.values.push(b']');
        }
        lists.values.push(b']');
        let types: Vec<String> = (0..tensors.shapes.len())
            .map(|at| format!("Tensor({})", tensors.dtype(at).0))
            .collect();
        number(&mut lists.shapes, &tensors.shapes)?;
        number(&mut lists.types, types)?;
        number(&mut lists.strides, tensors.strides())?;
        Ok(lists)
    }

    fn storage_ids(&mut self, told: Option<u64>) -> (u64, u64) {
        let fresh = (self.next, self.next + 1);
        // An unknown storage also uses up ids, so nothing else can be mistaken for its tensor.
        let ids = told.map_or(fresh, |told| *self.storages.entry(told).or_insert(fresh));
        self.next += if ids == fresh { 2 } else { 0 };
        ids
    }
}

/// JSON lists of an op's input or output tensors; empty if there are none.
#[derive(Default)]
struct TensorLists {
    values: Vec<u8>,
    shapes: Vec<u8>,
    types: Vec<u8>,
    strides: Vec<u8>,
}

impl TensorLists {
    fn as_text(&self) -> ArgumentText<'_> {
        ArgumentText {
            values: &self.values,
            shapes: &self.shapes,
            types: &self.types,
            strides: &self.strides,
        }
    }
}

/// Returns the op's `at::RecordScope`.
fn record_scope(window: &SpanWindow, run: &SpanRun) -> u8 {
    let facts = window.facts(run);
    match (facts.role, facts.backward) {
        (super::facts::SpanRole::Annotation, _) => 7,
        (_, backward) => u8::from(backward),
    }
}
