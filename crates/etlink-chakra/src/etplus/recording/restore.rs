//! Restores the two traces of an ET+.

use super::column::{Coding, ColumnCell, in_time};
use super::document::{AnomalyEntry, HostPart, Label, RecordingDocument, RecordingVersion};
use super::tables::{ReadTable, RecordedTable};
use super::traces::{RecordedTraces, RecordingError, number_records};
use super::{KEY, ListPart, OF_NODE, VERSION, rebuilt};
use crate::messages::{LossKind, Losses};
use crate::read::ChakraGraph;
use etlink_json::{JsonValue, scan_fields};
use etlink_model::{
    Correlation, CpuOps, DeviceQueue, DeviceRows, DeviceTrace, DurationNs, HostThread, HostTrace,
    NameId, Names, TextSpan, TimeNs, TrackLabel,
};

fn damaged(what: impl Into<String>) -> RecordingError {
    RecordingError::Damaged { what: what.into() }
}

fn changed(what: impl Into<String>) -> RecordingError {
    RecordingError::Changed { what: what.into() }
}

/// Returns true if a recording follows the nodes of an ET+, even a damaged one.
pub fn has_recording(behind: &[u8]) -> bool {
    let key = format!("\"{KEY}\":");
    memchr::memmem::find(behind, key.as_bytes()).is_some()
}

/// Restores the traces. `lines` are all nodes of the file, read as a host trace; `graph` are the
/// same nodes with their times; `behind` is the text after the nodes in the document. Without a
/// recording in it, the traces are rebuilt from the nodes alone. O(n log n).
///
/// # Errors
/// Fails if the recording is damaged or belongs to other nodes, or if nodes have no times.
pub fn recorded_traces(
    lines: HostTrace,
    graph: &ChakraGraph,
    behind: &[u8],
) -> Result<RecordedTraces, RecordingError> {
    let mut member = None;
    scan_fields(behind, |key, value| {
        if key == KEY.as_bytes()
            && let JsonValue::Nested(text) = value
        {
            member = Some(text);
        }
    });
    let Some(member) = member else {
        return if has_recording(behind) {
            Err(damaged("truncated, or not JSON"))
        } else {
            rebuilt::rebuilt_traces(lines, graph)
        };
    };
    let not_read = |error: serde_json::Error| damaged(error.to_string());
    let RecordingVersion { version } = etlink_json::from_slice(member).map_err(not_read)?;
    if version != u64::from(VERSION) {
        return Err(RecordingError::UnknownVersion { version });
    }
    let document = etlink_json::from_slice(member).map_err(not_read)?;
    RecordingReader::new(document, graph, &lines)?.traces(lines)
}

struct RecordingReader<'g> {
    document: RecordingDocument,
    graph: &'g ChakraGraph,
    /// Names of the device trace: the recording's names, followed by names of nodes.
    names: Names,
}

impl<'g> RecordingReader<'g> {
    fn new(
        mut document: RecordingDocument,
        graph: &'g ChakraGraph,
        lines: &HostTrace,
    ) -> Result<Self, RecordingError> {
        let in_turn = (1u64..).zip(&graph.id).all(|(want, id)| want == *id);
        let is_whole = lines.nodes.len() == graph.len() && in_turn;
        if !is_whole || graph.is_empty() {
            return Err(changed("ids do not count from 1"));
        }
        let names = std::mem::take(&mut document.names);
        Ok(RecordingReader {
            document,
            graph,
            names,
        })
    }

    fn traces(mut self, lines: HostTrace) -> Result<RecordedTraces, RecordingError> {
        let mut device = DeviceTrace {
            threads: self.threads(),
            queues: self.queues(),
            ops: self.ops(&lines)?,
            calls: self.table("calls")?,
            rows: self.rows()?,
            syncs: self.table("syncs")?,
            waits: self.table("waits")?,
            graph_dependencies: self.table("graph_dependencies")?,
            op_producers: self.table("op_producers")?,
            collectives: self.table("collectives")?,
            ..DeviceTrace::default()
        };
        self.add_annotations(&mut device)?;
        let host = self.document.host.take();
        let host = host.map(|part| self.host(part, lines)).transpose()?;
        let document = self.document;
        device.header = document.header;
        device
            .anomalies
            .merge(AnomalyEntry::anomalies(document.anomalies));
        device.names = self.names;
        device.has_rf_ids = device.ops.rf_id.iter().any(|id| id.get().is_some());
        check_numbers(&device)?;
        device
            .sort_by_time()
            .ok_or_else(|| damaged("a table has too many rows"))?;
        let mut losses = Losses::default();
        let beside = [document.has_captured_ops, document.has_kernel_metrics];
        let beside = beside.into_iter().map(u64::from).sum();
        losses.add(LossKind::BesideTraces, beside);
        Ok(RecordedTraces {
            host,
            device,
            is_interleaved: document.is_interleaved,
            losses,
        })
    }

    fn threads(&mut self) -> Vec<HostThread> {
        let threads = std::mem::take(&mut self.document.threads);
        let mut named = |label| match label {
            Label::Int(number) => TrackLabel::Int(number),
            Label::Text(text) => TrackLabel::Text(self.names.intern(&text)),
        };
        let threads = threads.into_iter();
        threads
            .map(|[pid, tid]| HostThread {
                pid: named(pid),
                tid: named(tid),
            })
            .collect()
    }

    fn queues(&self) -> Vec<DeviceQueue> {
        let queues = self.document.queues.iter();
        let queue = |&[device, context, stream]: &[i64; 3]| DeviceQueue {
            device,
            context,
            stream,
        };
        queues.map(queue).collect()
    }

    fn read_table(&self, name: &str) -> Result<&ReadTable, RecordingError> {
        let table = self.document.tables.get(name);
        table.ok_or_else(|| damaged(format!("table {name} is missing")))
    }

    fn table<T: RecordedTable>(&self, name: &str) -> Result<T, RecordingError> {
        T::read(self.read_table(name)?).ok_or_else(|| no_column(name))
    }

    fn column<T: ColumnCell>(
        &self,
        table: &str,
        column: &str,
        coding: Coding,
    ) -> Result<Vec<T>, RecordingError> {
        let cells = self.read_table(table)?.column(column, coding);
        cells.ok_or_else(|| no_column(table))
    }

    /// Returns the position of the node with this id.
    fn place(&self, node: i64) -> Result<usize, RecordingError> {
        let place = usize::try_from(node).unwrap_or(0).checked_sub(1);
        place
            .filter(|place| *place < self.graph.len())
            .ok_or_else(|| changed(format!("node {node} is missing")))
    }

    /// Returns start and duration of a node.
    fn times(&self, place: usize) -> Result<(TimeNs, DurationNs), RecordingError> {
        let start = self.graph.start_ns[place].and_then(in_time);
        let duration = in_time(self.graph.inclusive_ns[place]);
        start
            .zip(duration)
            .map(|(start, duration)| (TimeNs(start), DurationNs(duration)))
            .ok_or_else(|| changed(format!("node {} has no time", place + 1)))
    }

    fn node_name(&mut self, place: usize) -> NameId {
        self.names.intern(self.graph.name_of(place))
    }

    fn ops(&mut self, lines: &HostTrace) -> Result<CpuOps, RecordingError> {
        let mut ops: CpuOps = self.table("ops")?;
        let nodes: Vec<i64> = self.column("ops", "node", Coding::Delta)?;
        let names: Vec<i64> = self.column("ops", "name", Coding::Plain)?;
        let starts: Vec<i64> = self.column("ops", "start", Coding::Plain)?;
        let durations: Vec<i64> = self.column("ops", "duration", Coding::Plain)?;
        for (op, node) in nodes.into_iter().enumerate() {
            let node = match node {
                0 => None,
                node => Some(self.place(node)?),
            };
            let own = in_time(starts[op]).zip(in_time(durations[op]));
            let (start, duration) = match (node, own) {
                (Some(place), _) => self.times(place)?,
                (None, Some((start, duration))) => (TimeNs(start), DurationNs(duration)),
                (None, None) => return Err(damaged("an op has no time")),
            };
            let name = match (names[op], node) {
                (OF_NODE, Some(place)) => {
                    self.names.intern(lines.names.get(lines.nodes.name[place]))
                }
                (number, _) => u32::try_from(number)
                    .map(NameId)
                    .map_err(|_| damaged("an op has no name"))?,
            };
            ops.name.push(name);
            ops.start.push(start);
            ops.duration.push(duration);
        }
        Ok(ops)
    }

    fn rows(&mut self) -> Result<DeviceRows, RecordingError> {
        let mut rows: DeviceRows = self.table("rows")?;
        let nodes: Vec<i64> = self.column("rows", "node", Coding::Delta)?;
        let categories = self.categories();
        for node in nodes {
            let place = self.place(node)?;
            let (start, duration) = self.times(place)?;
            rows.name.push(self.node_name(place));
            rows.start.push(start);
            rows.duration.push(duration);
            let correlation = self.graph.correlation[place];
            rows.correlation
                .push(correlation.map_or(Correlation::NONE, Correlation));
            rows.gb_per_s.push(-1.0);
        }
        rows.category = rows
            .kind
            .iter()
            .map(|kind| categories[*kind as usize])
            .collect();
        rows.grid = self.sizes("grid")?;
        rows.block = self.sizes("block")?;
        Ok(rows)
    }

    /// Returns Kineto's categories of rows of each kind; graphs need no finer distinction.
    fn categories(&mut self) -> [NameId; 4] {
        ["kernel", "gpu_memcpy", "gpu_memset", "graph_event_node"]
            .map(|name| self.names.intern(name))
    }

    fn sizes(&self, name: &str) -> Result<Vec<[u32; 3]>, RecordingError> {
        let axis = |axis| self.column("rows", &format!("{name}_{axis}"), Coding::Plain);
        let (x, y, z) = (axis("x")?, axis("y")?, axis("z")?);
        let sizes = x.into_iter().zip(y).zip(z);
        Ok(sizes.map(|((x, y), z)| [x, y, z]).collect())
    }

    fn add_annotations(&self, device: &mut DeviceTrace) -> Result<(), RecordingError> {
        let launches: Vec<Correlation> = self.column("annotations", "launch", Coding::Delta)?;
        let nodes: Vec<u64> = self.column("annotations", "graph_node", Coding::Delta)?;
        let names: Vec<NameId> = self.column("annotations", "name", Coding::Plain)?;
        let keys = launches.into_iter().zip(nodes);
        device.node_annotations.extend(keys.zip(names));
        Ok(())
    }

    /// Restores the host trace with its original ids, without the device rows and roots that the
    /// file adds.
    fn host(&self, part: HostPart, mut host: HostTrace) -> Result<HostTrace, RecordingError> {
        let nodes: Vec<i64> = self.column("host", "node", Coding::Delta)?;
        let ids: Vec<u64> = self.column("host", "id", Coding::Delta)?;
        let communicates: Vec<bool> = self.column("host", "communicates", Coding::Plain)?;
        if !ids.is_sorted_by(|before, after| before < after) {
            return Err(damaged("ids of the host trace do not ascend"));
        }
        // Original id of each node of the file; 0 for none.
        let mut former = vec![0u64; self.graph.len()];
        let mut order = Vec::with_capacity(nodes.len());
        for (node, id) in nodes.into_iter().zip(&ids) {
            let place = self.place(node)?;
            if former[place] != 0 {
                return Err(damaged(
                    "two nodes of the host trace are the same node of the file",
                ));
            }
            former[place] = *id;
            order.push(u32::try_from(place).map_err(|_| damaged("too many nodes"))?);
        }
        // The host trace's anomalies apply to the restored nodes.
        host.anomalies = AnomalyEntry::anomalies(part.anomalies);
        for list in part.unmended {
            let place = self.place(list.node.cast_signed())?;
            let nodes = &mut host.nodes;
            let lists = if list.is_output {
                &mut nodes.outputs[place]
            } else {
                &mut nodes.inputs[place]
            };
            match list.part {
                ListPart::Values => {
                    lists.values = TextSpan {
                        start: host.text.len() as u64,
                        bytes: u32::try_from(list.text.len()).unwrap_or(0),
                    };
                    host.text.extend_from_slice(list.text.as_bytes());
                }
                ListPart::Shapes => lists.shapes = host.names.intern(&list.text),
                ListPart::Types => lists.types = host.names.intern(&list.text),
                ListPart::Strides => lists.strides = host.names.intern(&list.text),
            }
        }
        host.nodes.reorder(&order);
        let nodes = &mut host.nodes;
        // Device rows repeat the records of their ops; some records belong to the device trace.
        for (record, communicates) in nodes.collective.iter_mut().zip(communicates) {
            if !communicates {
                *record = u32::MAX;
            }
        }
        number_records(nodes, &mut host.collectives);
        let former_of = |node: u64| {
            let place = usize::try_from(node).ok()?.checked_sub(1)?;
            former.get(place).copied()
        };
        for parents in [&mut nodes.parent, &mut nodes.fw_parent] {
            parents
                .iter_mut()
                .for_each(|parent| *parent = former_of(*parent).unwrap_or(0));
        }
        nodes.id = ids;
        host.header = part.header;
        Ok(host)
    }
}

fn no_column(table: &str) -> RecordingError {
    damaged(format!(
        "columns of table {table} are missing or have a different length"
    ))
}

/// Checks that all numbers refer to existing rows, because a damaged file may contain any number.
fn check_numbers(device: &DeviceTrace) -> Result<(), RecordingError> {
    let (ops, calls, rows) = (&device.ops, &device.calls, &device.rows);
    let (syncs, waits, records) = (&device.syncs, &device.waits, &device.collectives);
    let threads = [&ops.thread, &calls.thread, &waits.thread];
    let in_threads = threads
        .into_iter()
        .flatten()
        .all(|thread| thread.index() < device.threads.len());
    let queues = [&rows.queue, &syncs.queue].into_iter().flatten();
    let in_queues = { queues }.all(|queue| queue.index() < device.queues.len());
    let names = [
        &ops.name,
        &ops.shapes,
        &ops.types,
        &ops.strides,
        &ops.values,
        &calls.name,
        &calls.kernel,
        &syncs.name,
        &waits.name,
        &records.name,
        &records.dtype,
        &records.in_split,
        &records.out_split,
        &records.group_name,
        &records.group_desc,
        &records.group_ranks,
        &records.comms_id,
    ];
    let notes = device.node_annotations.values();
    let mut names = names.into_iter().flatten().chain(notes);
    let in_names = names.all(|name| name.index() < device.names.count());
    let is_record = |record: &u32| *record == u32::MAX || (*record as usize) < records.len();
    let in_records = ops.collective.iter().chain(&rows.collective).all(is_record);
    let dependencies = &device.graph_dependencies;
    let mut linked = dependencies.effect.iter().chain(&dependencies.cause);
    let in_rows = linked.all(|row| row.index() < rows.len());
    if in_threads && in_queues && in_names && in_records && in_rows {
        Ok(())
    } else {
        Err(damaged("a number refers to a missing row"))
    }
}
