//! Writes the recording.

use super::column::Coding;
use super::document::{AnomalyEntry, HostPart, Label};
use super::names::NameNumbers;
use super::tables::{RecordedTable, TableWriter};
use super::{OF_NODE, UnmendedList, VERSION};
use crate::etplus::plan::{EtPlusPlan, NONE, NodeSource};
use etlink_link::LinkedTrace;
use etlink_model::{HostTrace, TrackLabel};
use serde::Serialize;
use std::io::{self, Write};

/// Maximum size of a recording; a larger one is omitted, because readers keep at most 64 MiB of the
/// text after the nodes. This corresponds to some million ops.
const MOST_BYTES: usize = 60 << 20;

/// Returns the recording with its key and a trailing comma; empty if it is too large.
pub(crate) fn write_recording(
    trace: &LinkedTrace,
    plan: &EtPlusPlan,
    unmended: &[UnmendedList],
) -> io::Result<Vec<u8>> {
    let mut writer = RecordingWriter {
        trace,
        plan,
        names: NameNumbers::new(&trace.device.names),
        bytes: vec![],
    };
    writer.write_head(unmended)?;
    let is_whole = writer.write_tables()?;
    writer.write_tail()?;
    if is_whole && writer.bytes.len() <= MOST_BYTES {
        Ok(writer.bytes)
    } else {
        Ok(vec![])
    }
}

struct RecordingWriter<'t> {
    trace: &'t LinkedTrace,
    plan: &'t EtPlusPlan,
    names: NameNumbers<'t>,
    bytes: Vec<u8>,
}

impl RecordingWriter<'_> {
    fn write_head(&mut self, unmended: &[UnmendedList]) -> io::Result<()> {
        let (trace, device) = (self.trace, &self.trace.device);
        write!(self.bytes, "\"{}\": {{\"version\": {VERSION}, ", super::KEY)?;
        let mut header = device.header.clone();
        // The rank known to the caller takes precedence over the trace's.
        header.rank = trace.report.rank.or(header.rank);
        header.world_size = trace.report.world_size.or(header.world_size);
        self.member("header", &header)?;
        let host = trace.host.as_ref().map(|host| HostPart {
            header: host.header.clone(),
            unmended: unmended.to_vec(),
            anomalies: AnomalyEntry::list(&host.anomalies),
        });
        self.member("host", &host)?;
        self.member("anomalies", AnomalyEntry::list(&device.anomalies))?;
        self.member("is_interleaved", trace.is_interleaved)?;
        let captured = trace.captured.is_some();
        self.member("has_captured_ops", captured)?;
        self.member("has_kernel_metrics", !trace.kernel_metrics.is_empty())?;
        let threads = device.threads.iter();
        let threads: Vec<[Label<'_>; 2]> = threads
            .map(|thread| [thread.pid, thread.tid].map(|id| label(trace, id)))
            .collect();
        let queues = device.queues.iter();
        let queues: Vec<[i64; 3]> = queues
            .map(|queue| [queue.device, queue.context, queue.stream])
            .collect();
        self.member("threads", &threads)?;
        self.member("queues", &queues)
    }

    fn member(&mut self, name: &str, value: impl Serialize) -> io::Result<()> {
        etlink_json::write::text(&mut self.bytes, name)?;
        self.bytes.extend_from_slice(b": ");
        serde_json::to_writer(&mut self.bytes, &value)?;
        self.bytes.extend_from_slice(b", ");
        Ok(())
    }

    /// Writes the tables. Returns false if they become too large, without writing the rest.
    fn write_tables(&mut self) -> io::Result<bool> {
        let device = &self.trace.device;
        self.bytes.extend_from_slice(b"\"tables\": {");
        self.write_ops()?;
        self.table("calls", &device.calls, device.calls.len())?;
        if self.bytes.len() > MOST_BYTES {
            return Ok(false);
        }
        self.write_rows()?;
        self.table("syncs", &device.syncs, device.syncs.len())?;
        self.table("waits", &device.waits, device.waits.len())?;
        let dependencies = &device.graph_dependencies;
        self.table("graph_dependencies", dependencies, dependencies.len())?;
        let producers = &device.op_producers;
        self.table("op_producers", producers, producers.len())?;
        let records = &device.collectives;
        self.table("collectives", records, records.len())?;
        self.write_annotations()?;
        if let Some(host) = &self.trace.host {
            self.write_host(host)?;
        }
        self.bytes.extend_from_slice(b"},\n");
        Ok(true)
    }

    fn table(&mut self, name: &str, table: &impl RecordedTable, rows: usize) -> io::Result<()> {
        let mut writer = TableWriter::begin(name, (rows, false), &mut self.bytes, &mut self.names)?;
        table.write(&mut writer)?;
        writer.end();
        Ok(())
    }

    fn write_ops(&mut self) -> io::Result<()> {
        let ops = &self.trace.device.ops;
        let nodes = self.nodes_of_ops();
        let names = self.own_names(&nodes);
        let is_first = true;
        let bytes = &mut self.bytes;
        let mut writer = TableWriter::begin("ops", (ops.len(), is_first), bytes, &mut self.names)?;
        writer.column("node", Coding::Delta, nodes.iter().copied())?;
        writer.column("name", Coding::Plain, names.into_iter())?;
        let of_node = |column: fn(&etlink_model::CpuOps, usize) -> i64| {
            let nodes = nodes.iter().enumerate();
            nodes.map(move |(op, node)| match node {
                0 => column(ops, op),
                _ => OF_NODE,
            })
        };
        writer.column("start", Coding::Plain, of_node(|ops, op| ops.start[op].0))?;
        let durations = of_node(|ops, op| ops.duration[op].0);
        writer.column("duration", Coding::Plain, durations)?;
        ops.write(&mut writer)?;
        writer.end();
        Ok(())
    }

    /// Returns, for each op, the id of the node with its times; 0 for none.
    fn nodes_of_ops(&self) -> Vec<u64> {
        let mut nodes = vec![0; self.trace.device.ops.len()];
        for (entry, id) in self.plan.entries.iter().zip(&self.plan.ids) {
            let op = match entry.source {
                NodeSource::Op(op) => op,
                NodeSource::Host(node) => self.plan.host_op[node as usize],
                NodeSource::Process | NodeSource::Thread { .. } => NONE,
            };
            if let Some(node) = nodes.get_mut(op as usize) {
                *node = *id;
            }
        }
        nodes
    }

    /// Returns, for each op, the number of its name if no node has the name.
    fn own_names(&mut self, nodes: &[u64]) -> Vec<i64> {
        let (trace, ops) = (self.trace, &self.trace.device.ops);
        let mut own = Vec::with_capacity(ops.len());
        for (op, node) in nodes.iter().enumerate() {
            let host = trace.host.as_ref().zip(trace.op_host[op].get());
            let name = trace.device.names.get(ops.name[op]);
            let is_of_node = *node != 0
                && host.is_none_or(|(host, node)| {
                    host.names.get(host.nodes.name[node.index()]) == name
                });
            own.push(if is_of_node {
                OF_NODE
            } else {
                self.names.number(ops.name[op])
            });
        }
        own
    }

    fn write_rows(&mut self) -> io::Result<()> {
        let rows = &self.trace.device.rows;
        let mut nodes = vec![0u64; rows.len()];
        for (entry, id) in self.plan.ids.iter().enumerate() {
            for (place, row) in (1..).zip(self.plan.rows_of(entry)) {
                nodes[*row as usize] = id + place;
            }
        }
        let bytes = &mut self.bytes;
        let mut writer = TableWriter::begin("rows", (rows.len(), false), bytes, &mut self.names)?;
        writer.column("node", Coding::Delta, nodes.into_iter())?;
        rows.write(&mut writer)?;
        for (name, sizes) in [("grid", &rows.grid), ("block", &rows.block)] {
            for (axis, at) in ["x", "y", "z"].into_iter().zip(0..) {
                let sizes = sizes.iter().map(|size| size[at]);
                writer.column(&format!("{name}_{axis}"), Coding::Plain, sizes)?;
            }
        }
        writer.end();
        Ok(())
    }

    fn write_annotations(&mut self) -> io::Result<()> {
        let notes = &self.trace.device.node_annotations;
        let bytes = &mut self.bytes;
        let mut writer =
            TableWriter::begin("annotations", (notes.len(), false), bytes, &mut self.names)?;
        let launches = notes.keys().map(|(launch, _)| *launch);
        writer.column("launch", Coding::Delta, launches)?;
        writer.column(
            "graph_node",
            Coding::Delta,
            notes.keys().map(|(_, node)| *node),
        )?;
        writer.column("name", Coding::Plain, notes.values().copied())?;
        writer.end();
        Ok(())
    }

    /// Writes the host trace's nodes: their ids in the file, and data that the file's nodes lack.
    fn write_host(&mut self, host: &HostTrace) -> io::Result<()> {
        let nodes = &host.nodes;
        let bytes = &mut self.bytes;
        let mut writer = TableWriter::begin("host", (nodes.len(), false), bytes, &mut self.names)?;
        let ids = self.plan.host_entry.iter();
        let ids = ids.map(|entry| self.plan.ids[*entry as usize]);
        writer.column("node", Coding::Delta, ids)?;
        writer.column("id", Coding::Delta, nodes.id.iter().copied())?;
        let collectives = nodes.collective.iter();
        let communicates = collectives.map(|record| *record != NONE);
        writer.column("communicates", Coding::Plain, communicates)?;
        writer.end();
        Ok(())
    }

    fn write_tail(&mut self) -> io::Result<()> {
        self.bytes.extend_from_slice(b"\"names\": ");
        serde_json::to_writer(&mut self.bytes, &self.names.texts())?;
        self.bytes.extend_from_slice(b"}, ");
        Ok(())
    }
}

fn label(trace: &LinkedTrace, label: TrackLabel) -> Label<'_> {
    match label {
        TrackLabel::Int(number) => Label::Int(number),
        TrackLabel::Text(name) => Label::Text(trace.device.names.get(name).into()),
    }
}
