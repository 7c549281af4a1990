//! Writes one line: a node of the tree, or a device row.

use super::attrs::AttrWriter;
use super::plan::{EtPlusPlan, NONE, NodeSource};
use super::threads::ThreadTimes;
use super::{json, schema};
use crate::WriteSummary;
use crate::captured::captured;
use etlink_link::{CollectiveRef, LinkedTrace};
use etlink_model::{HostTrace, NameId, OpIdx, RowIdx};
use std::io::{self, Write};
use std::ops::Range;

const PROCESS: &str = "[pytorch|profiler|execution_trace|process]";
const THREAD: &str = "[pytorch|profiler|execution_trace|thread]";
/// `RecordScope::USER_SCOPE`, the scope of annotations and roots.
const USER_SCOPE: u64 = 7;

/// Writer of nodes. Device rows repeat arguments and attributes of their owner, as
/// `chakra_trace_link` writes them and `chakra_converter` requires.
pub(crate) struct NodeWriter<'t> {
    trace: &'t LinkedTrace,
    plan: &'t EtPlusPlan,
    threads: &'t ThreadTimes,
    strides: bool,
    /// Arguments and attributes of the last entry.
    body: Vec<u8>,
    pub(crate) summary: WriteSummary,
}

impl<'t> NodeWriter<'t> {
    pub(crate) fn new(
        trace: &'t LinkedTrace,
        plan: &'t EtPlusPlan,
        threads: &'t ThreadTimes,
    ) -> Self {
        NodeWriter {
            trace,
            plan,
            threads,
            strides: schema::of(trace).has_strides,
            body: vec![],
            summary: WriteSummary::default(),
        }
    }

    /// Writes lines of the file, counted from 0: one node each, with ids counted from 1.
    pub(crate) fn lines(&mut self, lines: Range<u64>, out: &mut Vec<u8>) -> io::Result<()> {
        let mut entry = self.plan.entry_at(lines.start);
        // A block can begin among the device rows of an entry whose own line is in the previous
        // block: these rows repeat the entry's body.
        if self.plan.ids[entry] <= lines.start {
            self.write_body(entry)?;
            // The block with the entry's own line counts the entry.
            self.summary = WriteSummary::default();
        }
        for line in lines {
            if line > 0 {
                out.extend_from_slice(b",\n");
            }
            let id = line + 1;
            entry += usize::from(self.plan.ids.get(entry + 1) == Some(&id));
            if self.plan.ids[entry] == id {
                self.write_entry(entry, out)?;
            } else {
                self.write_row(entry, id, out)?;
            }
            self.summary.nodes += 1;
        }
        Ok(())
    }

    /// Writes the node of an entry.
    fn write_entry(&mut self, entry: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let of = self.plan.entries[entry];
        let parent = self.plan.ids[of.parent as usize];
        head(
            out,
            self.plan.ids[entry],
            self.source_name(of.source),
            parent,
        )?;
        self.write_body(entry)?;
        out.extend_from_slice(&self.body);
        if let Some(op) = self.plan.op_at(entry).get() {
            // Only nodes with an op have times; nodes that only the host trace has do not.
            let (ops, op) = (&self.trace.device.ops, op.index());
            let exclusive_ns = self.threads.exclusive_ns[entry];
            times(out, ops.duration[op].0, exclusive_ns, ops.start[op].0)?;
            match self.threads.dep(self.plan, entry) {
                Some(id) => json::number(out, id)?,
                None => out.extend_from_slice(b"null"),
            }
            self.summary.timed += 1;
        } else if self.threads.exclusive_ns[entry] > 0 {
            out.extend_from_slice(b", \"exclusive_dur\": ");
            json::micros(out, self.threads.exclusive_ns[entry])?;
        }
        out.push(b'}');
        Ok(())
    }

    /// Writes a device row of the entry whose body was built last.
    fn write_row(&mut self, entry: usize, id: u64, out: &mut Vec<u8>) -> io::Result<()> {
        let (device, rows) = (&self.trace.device, &self.trace.device.rows);
        let owner = self.plan.ids[entry];
        let row = self.plan.rows_of(entry)[(id - owner - 1) as usize] as usize;
        head(out, id, device.names.get(rows.name[row]), owner)?;
        out.extend_from_slice(&self.body);
        let duration = rows.duration[row].0;
        // Nothing nests in a device row, so both durations are the same.
        times(out, duration, duration, rows.start[row].0)?;
        out.extend_from_slice(b"null, \"cat\": ");
        json::text(out, device.names.get(rows.category[row]))?;
        // `chakra_trace_link` copies category and phase of the Kineto event.
        out.extend_from_slice(b", \"ph\": \"X\"");
        if let Some(queue) = device.queues.get(rows.queue[row].index()) {
            write!(
                out,
                ", \"stream\": {}, \"device\": {}",
                queue.stream, queue.device
            )?;
        }
        if let Some(correlation) = rows.correlation[row].get() {
            write!(out, ", \"correlation\": {}", correlation.0)?;
        }
        let record = self.trace.row_collective(RowIdx::new(row));
        if let Some(group) = record
            .map(|of| of.names.get(of.record.group_name))
            .filter(|name| !name.is_empty())
        {
            out.extend_from_slice(b", \"pg_name\": ");
            json::text(out, group)?;
        }
        for (name, text) in captured(self.trace, RowIdx::new(row)) {
            write!(out, ", \"{name}\": ")?;
            json::text(out, text)?;
        }
        out.push(b'}');
        self.summary.device_rows += 1;
        Ok(())
    }

    fn source_name(&self, source: NodeSource) -> &'t str {
        match (source, &self.trace.host) {
            (NodeSource::Host(node), Some(host)) => host.names.get(host.nodes.name[node as usize]),
            (NodeSource::Op(op), _) => self
                .trace
                .device_name(self.trace.device.ops.name[op as usize]),
            (NodeSource::Process, _) => PROCESS,
            (NodeSource::Thread { .. } | NodeSource::Host(_), _) => THREAD,
        }
    }

    /// Writes arguments and attributes of an entry to `body`.
    fn write_body(&mut self, entry: usize) -> io::Result<()> {
        // The body is kept, because each device row of the entry repeats it.
        self.body.clear();
        let source = self.plan.entries[entry].source;
        match (source, &self.trace.host, self.plan.op_at(entry).get()) {
            (NodeSource::Host(node), Some(host), op) => self.host_body(host, node as usize, op),
            (NodeSource::Op(_), _, Some(op)) => self.op_body(op),
            (NodeSource::Thread { tid }, ..) => self.root_body(u64::from(tid)),
            _ => self.root_body(0),
        }
    }

    fn host_body(&mut self, host: &HostTrace, node: usize, op: Option<OpIdx>) -> io::Result<()> {
        let nodes = &host.nodes;
        for (key, list) in [
            ("inputs", &nodes.inputs[node]),
            ("outputs", &nodes.outputs[node]),
        ] {
            let name = |id: NameId| host.names.get(id).as_bytes();
            let names = [list.shapes, list.types, list.strides].map(name);
            let [shapes, types, strides] = names;
            self.write_lists(key, [host.span(list.values), shapes, types, strides]);
        }
        // Ids are new, so references to nodes are translated; PyTorch writes 0 for none.
        let fw_parent = if nodes.fw_parent[node] != 0 {
            host.find(nodes.fw_parent[node])
        } else {
            None
        };
        let fw_parent =
            fw_parent.map(|parent| self.plan.ids[self.plan.host_entry[parent] as usize]);
        let record = match nodes.collective[node] {
            NONE => op.and_then(|op| self.trace.op_collective(op)),
            at => Some(CollectiveRef {
                record: host.collectives.row(at as usize),
                names: &host.names,
            }),
        };
        let mut attrs = AttrWriter::begin(&mut self.body);
        attrs.uint("rf_id", nodes.rf_id[node].0)?;
        attrs.uint("fw_parent", fw_parent.unwrap_or(0))?;
        attrs.int("seq_id", nodes.seq_id[node])?;
        attrs.uint("scope", u64::from(nodes.scope[node]))?;
        attrs.uint("tid", u64::from(nodes.tid[node]))?;
        attrs.uint("fw_tid", u64::from(nodes.fw_tid[node]))?;
        attrs.text("op_schema", host.names.get(nodes.op_schema[node]))?;
        attrs.some_text("kernel_backend", host.names.get(nodes.kernel_backend[node]))?;
        attrs.some_text("kernel_file", host.names.get(nodes.kernel_file[node]))?;
        attrs.some_text("tensor_range", host.names.get(nodes.tensor_range[node]))?;
        if let Some(record) = record {
            attrs.collective(&record)?;
        }
        match json::elements(host.span(nodes.extra_attrs[node])) {
            Some(objects) => attrs.raw(&objects),
            None => self.summary.unreadable_values += 1,
        }
        attrs.end();
        Ok(())
    }

    /// Writes the body of a CPU op. Kineto has no tensor ids, so `values` stays empty.
    fn op_body(&mut self, op: OpIdx) -> io::Result<()> {
        let (trace, ops, at) = (self.trace, &self.trace.device.ops, op.index());
        let name = |id: NameId| trace.device_name(id).as_bytes();
        let (shapes, types) = (name(ops.shapes[at]), name(ops.types[at]));
        self.write_lists("inputs", [b"", shapes, types, b""]);
        self.write_lists("outputs", NO_ARGUMENTS);
        let scope = if ops.annotation[at] { USER_SCOPE } else { 0 };
        // Counted like PyTorch's observer: from 1, in order of first use. 0 is the process root.
        let tid = ops.thread[at].index() as u64 + 1;
        let mut attrs = AttrWriter::begin(&mut self.body);
        attrs.uint("rf_id", ops.rf_id[at].0)?;
        attrs.uint("fw_parent", 0)?;
        attrs.int("seq_id", ops.seq_id[at])?;
        attrs.uint("scope", scope)?;
        attrs.uint("tid", tid)?;
        attrs.uint("fw_tid", u64::from(ops.fwd_thread[at]))?;
        attrs.text("op_schema", "")?;
        if let Some(record) = trace.op_collective(op) {
            attrs.collective(&record)?;
        }
        attrs.end();
        Ok(())
    }

    fn root_body(&mut self, tid: u64) -> io::Result<()> {
        self.write_lists("inputs", NO_ARGUMENTS);
        self.write_lists("outputs", NO_ARGUMENTS);
        let mut attrs = AttrWriter::begin(&mut self.body);
        attrs.uint("rf_id", 0)?;
        attrs.uint("fw_parent", 0)?;
        attrs.int("seq_id", -1)?;
        attrs.uint("scope", USER_SCOPE)?;
        attrs.uint("tid", tid)?;
        attrs.uint("fw_tid", 0)?;
        attrs.text("op_schema", "")?;
        attrs.end();
        Ok(())
    }

    /// Writes lists of values, shapes, types and strides, one element per argument, as JSON text.
    fn write_lists(&mut self, key: &str, lists: [&[u8]; 4]) {
        self.body.push(b'"');
        self.body.extend_from_slice(key.as_bytes());
        let mut separator = "\": {\"";
        // PyTorch 2.5 introduced strides; older schemas must not have the key.
        let written = if self.strides { 4 } else { 3 };
        for (name, raw) in LISTS.into_iter().zip(lists).take(written) {
            for text in [separator, name, "\": "] {
                self.body.extend_from_slice(text.as_bytes());
            }
            separator = ", \"";
            if !json::list(&mut self.body, raw) {
                self.summary.unreadable_values += 1;
            }
        }
        self.body.extend_from_slice(b"}, ");
    }
}

const LISTS: [&str; 4] = ["values", "shapes", "types", "strides"];
const NO_ARGUMENTS: [&[u8]; 4] = [b""; 4];

fn head(out: &mut Vec<u8>, id: u64, name: &str, parent: u64) -> io::Result<()> {
    out.extend_from_slice(b"{\"id\": ");
    json::number(out, id)?;
    out.extend_from_slice(b", \"name\": ");
    json::text(out, name)?;
    out.extend_from_slice(b", \"ctrl_deps\": ");
    json::number(out, parent)?;
    out.extend_from_slice(b", ");
    Ok(())
}

/// Writes the times of a node, and the key of the value that follows them.
fn times(out: &mut Vec<u8>, inclusive_ns: i64, exclusive_ns: i64, start_ns: i64) -> io::Result<()> {
    out.extend_from_slice(b", \"inclusive_dur\": ");
    json::micros(out, inclusive_ns)?;
    out.extend_from_slice(b", \"exclusive_dur\": ");
    json::micros(out, exclusive_ns)?;
    out.extend_from_slice(b", \"ts\": ");
    json::micros(out, start_ns)?;
    out.extend_from_slice(b", \"inter_thread_dep\": ");
    Ok(())
}
