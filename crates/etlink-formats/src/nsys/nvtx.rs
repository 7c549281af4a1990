//! NVTX ranges and names.

use crate::Error;
use crate::nsys::comms::{
    CommFacts, Communicators, input_and_output, is_immediate, mpi_kind, nccl_kind,
};
use crate::nsys::emitted::EmittedRange;
use crate::nsys::global_pid::thread_id;
use crate::nsys::payload::NcclPayload;
use crate::nsys::times::{row_times, time_in_range};
use crate::nsys::{ExportReader, GlobalPid};
use crate::sqlite::{RowCells, RowFilter, SqliteTable, scan_rows};
use etlink_model::{
    Anomalies, AnomalyKind, CpuOp, DeviceTrace, DurationNs, HostThread, NameId, OpProducer,
    OpProducers, RfId, ThreadIdx, TimeNs, TrackLabel,
};
use rustc_hash::FxHashMap;

/// Table of ranges, marks, thread names and domains.
pub(crate) const RANGES: &str = "NVTX_EVENTS";

// `ENUM_NSYS_EVENT_TYPE`; schema 2 has the same numbers but no such table.
const PUSH_POP: i64 = 59;
const START_END: i64 = 60;
const DOMAIN: i64 = 75;
/// Event type `NvtxThreadName`.
pub(crate) const THREAD_NAME: i64 = 39;

/// Owner of a domain's ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RangeDomain {
    /// The program, PyTorch or any other library.
    #[default]
    Program,
    Nccl,
    Mpi,
}

impl RangeDomain {
    fn from_name(name: &str) -> RangeDomain {
        match name {
            "NCCL" => RangeDomain::Nccl,
            "MPI" => RangeDomain::Mpi,
            _ => RangeDomain::Program,
        }
    }
}

/// Parts of a range's text.
#[derive(Clone, Copy, Debug)]
struct RangeText {
    name: NameId,
    sequence: i64,
    rf_id: RfId,
    shapes: NameId,
    is_op: bool,
}

/// State kept while ranges are read.
#[derive(Default)]
pub(crate) struct RangeReading {
    domains: FxHashMap<i64, RangeDomain>,
    /// Parsed texts by their number in `StringIds`.
    texts: FxHashMap<i64, RangeText>,
    pub(crate) communicators: Communicators,
    ops: u64,
    annotations: u64,
    others: u64,
}

/// Columns of a range.
const COLUMNS: [&str; 9] = [
    "start",
    "end",
    "eventType",
    "text",
    "textId",
    "globalTid",
    "endGlobalTid",
    "domainId",
    "jsonText",
];

impl ExportReader<'_> {
    /// Reads the ranges of the process: ops, annotations, communications.
    pub(crate) fn read_ranges(&mut self) -> Result<(), Error> {
        let Some(table) = self.tables.table(RANGES) else {
            return Ok(());
        };
        let mut reading = RangeReading {
            domains: self.domains(table)?,
            ..RangeReading::default()
        };
        let mut anomalies = Anomalies::default();
        let (connection, filter) = (self.connection, self.of_threads());
        let scanned = scan_rows(connection, table, &COLUMNS, filter, |cells| {
            match cells.int(2) {
                Some(PUSH_POP | START_END) => self.push_range(cells, &mut reading, &mut anomalies),
                Some(THREAD_NAME) => self.name_thread(cells),
                Some(DOMAIN) => {}
                _ => reading.others += 1,
            }
        })?;
        self.note_anomalies([anomalies, scanned.anomalies]);
        self.count_rows("X cpu_op", reading.ops);
        self.count_rows("X user_annotation", reading.annotations);
        self.count_rows("i nvtx", reading.others);
        let named = self.names_group(&reading.communicators)?;
        let trace = &mut self.assembler.trace;
        reading.communicators.finish(trace, named);
        keep_producers_of_other_threads(trace);
        Ok(())
    }

    /// Reads domains by number. Numbers are per process, so other processes' domains are skipped.
    fn domains(&mut self, table: &SqliteTable) -> Result<FxHashMap<i64, RangeDomain>, Error> {
        let mut domains = FxHashMap::default();
        let filter = RowFilter::Equal {
            column: "eventType",
            ignored_bits: 0,
            value: DOMAIN,
        };
        let columns = ["globalTid", "domainId", "text", "textId"];
        let process = self.global_pid();
        let strings = &mut self.strings;
        scan_rows(self.connection, table, &columns, filter, |cells| {
            let of = cells.int(0).map(GlobalPid::of_thread);
            if of.is_some() && process.is_some() && of != process {
                return;
            }
            let name = cells.text(2).map(|name| name.into_owned());
            let name = name.or_else(|| strings.text(cells.int(3)?));
            if let (Some(domain), Some(name)) = (cells.int(1), name) {
                domains.insert(domain, RangeDomain::from_name(&name));
            }
        })?;
        Ok(domains)
    }

    /// Records a thread name from a row.
    fn name_thread(&mut self, cells: &RowCells<'_, '_>) {
        let (Some(thread), Some(name)) = (cells.int(5), cells.text(3)) else {
            return;
        };
        self.insert_thread_name(thread, &name);
    }

    /// Records a thread name; the last one wins.
    pub(crate) fn insert_thread_name(&mut self, global_tid: i64, name: &str) {
        let thread = HostThread {
            pid: TrackLabel::Int(GlobalPid::of_thread(global_tid).pid()),
            tid: TrackLabel::Int(thread_id(global_tid)),
        };
        let name = self.assembler.intern(name);
        self.assembler.trace.thread_names.insert(thread, name);
    }

    fn push_range(
        &mut self,
        cells: &RowCells<'_, '_>,
        reading: &mut RangeReading,
        anomalies: &mut Anomalies,
    ) {
        let thread = cells.int(5).unwrap_or(0);
        // A range ended by another thread says nothing about either thread in between.
        let is_of_two = cells.int(6).is_some_and(|end| end != thread);
        if cells.int(2) == Some(START_END) && is_of_two {
            reading.others += 1;
            return;
        }
        let Some((start, duration, unfinished)) = range_times(cells, anomalies) else {
            return;
        };
        let domain = cells
            .int(7)
            .and_then(|id| reading.domains.get(&id).copied());
        let domain = domain.unwrap_or_default();
        let text = self.range_text(cells, reading);
        let pid = GlobalPid::of_thread(thread).pid();
        let thread = self.assembler.thread_index(pid, thread_id(thread));
        let collective = match domain {
            RangeDomain::Program => u32::MAX,
            RangeDomain::Nccl => self.nccl_record(cells, reading, text.name),
            RangeDomain::Mpi => self.mpi_record(reading, text.name),
        };
        let is_op = text.is_op || domain != RangeDomain::Program;
        if unfinished {
            anomalies.note(AnomalyKind::Unfinished, || {
                format!("{:?}", self.assembler.trace.names.get(text.name))
            });
        }
        self.assembler.trace.has_rf_ids |= text.rf_id.get().is_some();
        let op = CpuOp {
            name: text.name,
            thread,
            start,
            duration,
            rf_id: text.rf_id,
            external_id: -1,
            seq_id: text.sequence,
            fwd_thread: 0,
            annotation: !is_op,
            unfinished,
            shapes: text.shapes,
            types: NameId::EMPTY,
            strides: NameId::EMPTY,
            values: NameId::EMPTY,
            collective,
        };
        self.assembler.trace.ops.push(op);
        if is_op {
            reading.ops += 1
        } else {
            reading.annotations += 1
        }
    }

    /// Returns the name of a range and the parts that PyTorch appends. Nsight Systems stores the
    /// text in the row, or in `StringIds` if the program registered it or, in newer versions, if it
    /// repeats.
    fn range_text(&mut self, cells: &RowCells<'_, '_>, reading: &mut RangeReading) -> RangeText {
        if let Some(text) = cells.text(3) {
            return self.text_parts(&text);
        }
        let Some(id) = cells.int(4) else {
            return self.text_parts("");
        };
        if let Some(known) = reading.texts.get(&id) {
            return *known;
        }
        let text = self.strings.text(id).unwrap_or_default();
        let parts = self.text_parts(&text);
        reading.texts.insert(id, parts);
        parts
    }

    fn text_parts(&mut self, text: &str) -> RangeText {
        let range = EmittedRange::from_text(text);
        let reader = RfId(range.op_id.unwrap_or(0));
        if reader.get().is_some() {
            for producer in range.producers() {
                let producer = RfId(producer);
                let input = OpProducer { reader, producer };
                self.assembler.trace.op_producers.push(input);
            }
        }
        RangeText {
            name: self.assembler.intern(range.name),
            sequence: range.sequence.unwrap_or(-1),
            rf_id: reader,
            shapes: self.assembler.intern(range.sizes),
            is_op: range.is_op(),
        }
    }

    /// Appends the communication of an NCCL range.
    fn nccl_record(
        &mut self,
        cells: &RowCells<'_, '_>,
        reading: &mut RangeReading,
        name: NameId,
    ) -> u32 {
        let payload = cells.text(8).map(|text| NcclPayload::from_text(&text));
        let payload = payload.unwrap_or_default();
        let communicators = &mut reading.communicators;
        if let (Some(communicator), Some(ranks)) = (payload.communicator, payload.ranks) {
            let ranks = u64::try_from(ranks).unwrap_or(0);
            communicators.sizes.insert(communicator, ranks);
        }
        let trace = &mut self.assembler.trace;
        let kind = nccl_kind(trace.names.get(name));
        let known = payload
            .communicator
            .and_then(|of| communicators.sizes.get(&of));
        let ranks = known.copied().unwrap_or(0);
        let (input, output) = input_and_output(kind, payload.bytes.unwrap_or(0), ranks);
        let facts = CommFacts {
            input,
            output,
            is_sized: payload.bytes.is_some(),
            peer: payload.peer.or(payload.root),
            communicator: payload.communicator,
            // The kernel communicates; the function only enqueues it.
            asynchronous: true,
        };
        communicators.push_record(trace, kind, facts)
    }

    /// Appends the communication of an MPI range, for which NVTX has only the name.
    fn mpi_record(&mut self, reading: &mut RangeReading, name: NameId) -> u32 {
        let trace = &mut self.assembler.trace;
        let name = trace.names.get(name);
        let (kind, asynchronous) = (mpi_kind(name), is_immediate(name));
        let facts = CommFacts {
            asynchronous,
            ..CommFacts::default()
        };
        reading.communicators.push_record(trace, kind, facts)
    }

    /// Appends an op on a thread of the process, from a row of any table.
    pub(crate) fn push_op(
        &mut self,
        name: NameId,
        global_tid: i64,
        (start, duration): (TimeNs, DurationNs),
        collective: u32,
    ) -> ThreadIdx {
        let pid = GlobalPid::of_thread(global_tid).pid();
        let thread = self.assembler.thread_index(pid, thread_id(global_tid));
        let op = CpuOp {
            name,
            thread,
            start,
            duration,
            external_id: -1,
            seq_id: -1,
            collective,
            ..CpuOp::default()
        };
        self.assembler.trace.ops.push(op);
        thread
    }
}

/// Drops inputs produced by an op of the same thread: program order already implies them. O(n log
/// n).
fn keep_producers_of_other_threads(trace: &mut DeviceTrace) {
    let all = std::mem::take(&mut trace.op_producers);
    let ops = &trace.ops;
    let is_threaded = ops.thread.windows(2).any(|pair| pair[0] != pair[1]);
    if all.is_empty() || !is_threaded {
        return;
    }
    let mut threads: Vec<(RfId, ThreadIdx)> = vec![];
    for (handle, thread) in ops.rf_id.iter().zip(&ops.thread) {
        if handle.get().is_some() {
            threads.push((*handle, *thread));
        }
    }
    threads.sort_unstable();
    let thread_of = |handle: RfId| {
        let at = threads.binary_search_by_key(&handle, |(handle, _)| *handle);
        at.ok().map(|at| threads[at].1)
    };
    let mut kept = OpProducers::default();
    for index in 0..all.len() {
        let input = all.row(index);
        let (reader, producer) = (thread_of(input.reader), thread_of(input.producer));
        if reader.is_some() && producer.is_some() && reader != producer {
            kept.push(input);
        }
    }
    trace.op_producers = kept;
}

/// Returns start and duration of a range, and true if it has no end.
fn range_times(
    cells: &RowCells<'_, '_>,
    anomalies: &mut Anomalies,
) -> Option<(TimeNs, DurationNs, bool)> {
    // A range that was open when recording stopped has no end; this is not damage.
    if cells.int(0).is_some() && cells.int(1).is_none() {
        let start = time_in_range(cells, anomalies)?;
        return Some((start, DurationNs::ZERO, true));
    }
    let (start, duration) = row_times(cells, RANGES, anomalies)?;
    Some((start, duration, false))
}
