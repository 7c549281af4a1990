//! Reads rocpd: the SQLite database that rocprofv3 of ROCm 7 writes.
//!
//! Table names contain an id of their process (`rocpd_region_0197…`); views without the id unite
//! the tables of a merged database. Dispatches, copies and regions each have an event. Its
//! `stack_id` is the internal correlation id, its `correlation_id` the program's own
//! (`source/lib/output/generateRocpd.cpp`).

use crate::Error;
use crate::rocm::assemble::{assemble, only_process};
use crate::rocm::record::{
    CallFamily, RecordName, RecordSpan, RocmAgent, RocmCall, RocmCopy, RocmDispatch, RocmProcess,
    record_times,
};
use crate::sqlite::{RowCells, RowFilter, SqliteTable, SqliteTables, scan_rows};
use etlink_json::{JsonValue, object_fields};
use etlink_model::{Anomalies, Correlation, DeviceTrace, Failure, NameId, Names};
use rusqlite::Connection;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Prefix of table names, before the id of their process.
const PROCESSES: &str = "rocpd_info_process";
const DISPATCHES: &str = "rocpd_kernel_dispatch";
const COPIES: &str = "rocpd_memory_copy";
const REGIONS: &str = "rocpd_region";

/// Returns true if the tables are those that rocpd defines.
pub fn is_rocpd(tables: &SqliteTables) -> bool {
    !suffixes(tables).is_empty()
}

/// A process of a database that has work on devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RocpdProcess {
    /// Index of the process in the database. Process ids may be ambiguous: a merged database can
    /// combine several machines.
    pub place: i64,
    /// Process id.
    pub pid: i64,
    /// Rank, from the process's environment.
    pub rank: Option<i64>,
    /// Number of ranks, from the process's environment.
    pub world_size: Option<i64>,
}

/// Lists the processes that have work on devices. O(rows · log processes).
///
/// # Errors
/// The database is not rocpd, or it is locked.
pub fn rocpd_processes(connection: &Connection) -> Result<Vec<RocpdProcess>, Error> {
    let tables = rocpd_tables(connection)?;
    let mut found = vec![];
    let mut working = WorkingProcesses::default();
    for (place, listed) in (0..).zip(listed_processes(connection, &tables)?) {
        if working.has(&listed, connection, &tables)? {
            found.push(RocpdProcess {
                place,
                pid: listed.process.pid,
                rank: listed.process.rank,
                world_size: listed.process.world_size,
            });
        }
    }
    Ok(found)
}

/// Returns the number of rows in the tables that a trace is read from, to estimate its memory.
/// O(tables · log rows).
///
/// # Errors
/// The database is not rocpd, or it is locked.
pub fn rocpd_row_count(connection: &Connection) -> Result<u64, Error> {
    let tables = rocpd_tables(connection)?;
    let mut rows = 0u64;
    for suffix in suffixes(&tables) {
        for name in [DISPATCHES, COPIES, REGIONS] {
            let table = tables.table(&format!("{name}{suffix}"));
            let last = table.map(|table| table.last_row(connection));
            rows = rows.saturating_add(last.transpose()?.flatten().unwrap_or(0));
        }
    }
    Ok(rows)
}

/// Reads one process of a rocpd database. O(rows); memory of the records, plus two numbers per
/// event.
///
/// `process` is the [place](RocpdProcess::place) of the process to read; `None` for the only one with
/// work on devices.
///
/// # Errors
/// The database is not rocpd, it is locked, or several processes have work on devices and none was
/// selected. Damage inside tables is not an error: see [`DeviceTrace::anomalies`].
pub fn read_rocpd(connection: &Connection, process: Option<i64>) -> Result<DeviceTrace, Error> {
    let tables = rocpd_tables(connection)?;
    let mut reader = RocpdReader {
        connection,
        tables: &tables,
        names: Names::default(),
        anomalies: tables.anomalies.clone(),
    };
    let process = match process {
        Some(place) => {
            let mut listed = listed_processes(connection, &tables)?.into_iter();
            let no_process = || Failure::new("the database has no tables of the requested process");
            let place = usize::try_from(place).map_err(|_| no_process())?;
            let wanted = listed.nth(place).ok_or_else(no_process)?;
            let mut part = reader.read_part(&wanted.suffix)?;
            part.remove(&wanted.id).ok_or_else(no_process)?
        }
        None => {
            let mut processes = vec![];
            for suffix in suffixes(&tables) {
                processes.extend(reader.read_part(&suffix)?.into_values());
            }
            only_process(processes)?
        }
    };
    assemble(process, reader.names, reader.anomalies, tables.bytes)
}

/// Lists the tables of a rocpd database; an error if it is not one.
fn rocpd_tables(connection: &Connection) -> Result<SqliteTables, Error> {
    let tables = SqliteTables::probe(connection)?;
    if is_rocpd(&tables) {
        return Ok(tables);
    }
    Err(Error::Sqlite(crate::sqlite::Error::NoTable {
        table: DISPATCHES.to_owned(),
        meaning: "not a rocpd database of rocprofv3".to_owned(),
        remedy: "see `etlink inspect`".to_owned(),
    }))
}

/// A process that a database lists, without its records.
struct ListedProcess {
    suffix: String,
    /// Row number.
    id: i64,
    process: RocmProcess,
}

/// Processes with work in the tables of one suffix, cached: a separate search per process would
/// read all rows each time.
#[derive(Default)]
struct WorkingProcesses {
    suffix: Option<String>,
    ids: BTreeSet<i64>,
    /// True if a table does not name the processes of its rows, which then may be any.
    is_any: bool,
}

impl WorkingProcesses {
    /// Returns true if a process has work on devices. The cache is rebuilt whenever the suffix
    /// changes.
    fn has(
        &mut self,
        listed: &ListedProcess,
        connection: &Connection,
        tables: &SqliteTables,
    ) -> Result<bool, Error> {
        if self.suffix.as_ref() != Some(&listed.suffix) {
            self.suffix = Some(listed.suffix.clone());
            self.ids.clear();
            self.is_any = false;
            for name in [DISPATCHES, COPIES] {
                let Some(table) = tables.table(&format!("{name}{}", listed.suffix)) else {
                    continue;
                };
                if table.has_column("pid") {
                    self.ids.extend(table.distinct_ints(connection, "pid")?);
                } else {
                    self.is_any |= table.last_row(connection)?.is_some();
                }
            }
        }
        Ok(self.is_any || self.ids.contains(&listed.id))
    }
}

/// Lists all processes, in the order of their table names.
fn listed_processes(
    connection: &Connection,
    tables: &SqliteTables,
) -> Result<Vec<ListedProcess>, Error> {
    let mut reader = RocpdReader {
        connection,
        tables,
        names: Names::default(),
        anomalies: Anomalies::default(),
    };
    let mut all = vec![];
    for suffix in suffixes(tables) {
        for (id, process) in reader.read_processes(&suffix)? {
            let suffix = suffix.clone();
            all.push(ListedProcess {
                suffix,
                id,
                process,
            });
        }
    }
    Ok(all)
}

/// Returns the suffixes of process-specific table names, one per process that has work.
fn suffixes(tables: &SqliteTables) -> Vec<String> {
    let mut found = vec![];
    for table in tables.iter() {
        let name = table.name.to_ascii_lowercase();
        let suffix = [DISPATCHES, COPIES, REGIONS]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
            // `rocpd_region_0197…`, or plain `rocpd_region` if a tool merged the tables
            .filter(|suffix| suffix.is_empty() || suffix.starts_with('_'));
        found.extend(suffix.map(str::to_owned));
    }
    found.sort();
    found.dedup();
    found
}

struct RocpdReader<'c> {
    connection: &'c Connection,
    tables: &'c SqliteTables,
    names: Names,
    anomalies: Anomalies,
}

/// Lookup tables of one suffix.
#[derive(Default)]
struct PartTables {
    strings: FxHashMap<i64, NameId>,
    events: FxHashMap<i64, PartEvent>,
    /// Thread ids by row number, which `tid` columns contain.
    threads: FxHashMap<i64, i64>,
    /// Processes by row number, in order.
    processes: BTreeMap<i64, RocmProcess>,
    agents: FxHashMap<i64, RocmAgent>,
    kernels: FxHashMap<i64, NameId>,
}

/// An event, without the parts specific to markers.
#[derive(Clone, Copy, Debug)]
struct PartEvent {
    correlation: Correlation,
    category: NameId,
    message: NameId,
}

impl RocpdReader<'_> {
    fn table(&self, name: &str, suffix: &str) -> Option<&SqliteTable> {
        self.tables.table(&format!("{name}{suffix}"))
    }

    fn scan(
        &mut self,
        (name, suffix): (&str, &str),
        columns: &[&str],
        mut take: impl FnMut(&RowCells<'_, '_>, &mut Names, &mut Anomalies),
    ) -> Result<(), Error> {
        let Some(table) = self.table(name, suffix).cloned() else {
            return Ok(());
        };
        let (names, mut anomalies) = (&mut self.names, Anomalies::default());
        let scanned = scan_rows(self.connection, &table, columns, RowFilter::All, |cells| {
            take(cells, names, &mut anomalies);
        })?;
        self.anomalies.merge(scanned.anomalies);
        self.anomalies.merge(anomalies);
        Ok(())
    }

    /// Reads the tables of one suffix; returns processes by row number.
    fn read_part(&mut self, suffix: &str) -> Result<BTreeMap<i64, RocmProcess>, Error> {
        let mut part = PartTables {
            processes: self.read_processes(suffix)?,
            ..PartTables::default()
        };
        self.read_references(suffix, &mut part)?;
        self.read_events(suffix, &mut part)?;
        self.read_dispatches(suffix, &mut part)?;
        self.read_copies(suffix, &mut part)?;
        self.read_regions(suffix, &mut part)?;
        let mut processes = part.processes;
        let (agents, kernels) = (Arc::new(part.agents), Arc::new(part.kernels));
        for process in processes.values_mut() {
            process.agents = Arc::clone(&agents);
            process.kernels = Arc::clone(&kernels);
        }
        Ok(processes)
    }

    /// Reads the processes of one suffix, without their records.
    fn read_processes(&mut self, suffix: &str) -> Result<BTreeMap<i64, RocmProcess>, Error> {
        let mut hosts: FxHashMap<i64, String> = FxHashMap::default();
        let mut processes: BTreeMap<i64, RocmProcess> = BTreeMap::new();
        self.scan(
            ("rocpd_info_node", suffix),
            &["id", "hostname"],
            |cells, _, _| {
                if let (Some(id), Some(host)) = (cells.int(0), cells.text(1)) {
                    hosts.insert(id, host.into_owned());
                }
            },
        )?;
        let columns = ["id", "pid", "nid", "environment"];
        self.scan((PROCESSES, suffix), &columns, |cells, _, _| {
            let Some(id) = cells.int(0) else { return };
            let process = processes.entry(id).or_default();
            process.pid = cells.int(1).unwrap_or(id);
            let host = cells.int(2).and_then(|node| hosts.get(&node));
            process.host_name = host.cloned().unwrap_or_default();
            let environment = cells.bytes(3).unwrap_or_default();
            process.rank = variable(environment, &RANKS);
            process.world_size = variable(environment, &WORLD_SIZES);
        })?;
        Ok(processes)
    }

    fn read_references(&mut self, suffix: &str, part: &mut PartTables) -> Result<(), Error> {
        self.scan(
            ("rocpd_string", suffix),
            &["id", "string"],
            |cells, names, _| {
                if let (Some(id), Some(text)) = (cells.int(0), cells.text(1)) {
                    part.strings.insert(id, names.intern(&text));
                }
            },
        )?;
        let columns = ["id", "pid", "tid", "name"];
        self.scan(
            ("rocpd_info_thread", suffix),
            &columns,
            |cells, names, _| {
                let Some(id) = cells.int(0) else { return };
                let tid = cells.int(2).unwrap_or(id);
                part.threads.insert(id, tid);
                let process = cells.int(1).and_then(|pid| part.processes.get_mut(&pid));
                if let (Some(process), Some(name)) = (process, cells.text(3)) {
                    process.thread_names.push((tid, names.intern(&name)));
                }
            },
        )?;
        let columns = [
            "id",
            "type",
            "type_index",
            "product_name",
            "name",
            "extdata",
        ];
        self.scan(("rocpd_info_agent", suffix), &columns, |cells, _, _| {
            let Some(id) = cells.int(0) else { return };
            let product = cells.text(3).filter(|name| !name.is_empty());
            let agent = RocmAgent {
                is_device: cells.text(1).as_deref() == Some("GPU"),
                number: cells.int(2).unwrap_or(0),
                name: product.or(cells.text(4)).unwrap_or_default().into_owned(),
                compute_units: cells.bytes(5).map_or(0, compute_units),
            };
            part.agents.insert(id, agent);
        })?;
        let columns = ["id", "display_name", "kernel_name"];
        self.scan(
            ("rocpd_info_kernel_symbol", suffix),
            &columns,
            |cells, names, _| {
                let Some(id) = cells.int(0) else { return };
                let shown = cells.text(1).filter(|name| !name.is_empty());
                let name = shown.or(cells.text(2)).unwrap_or_default();
                part.kernels.insert(id, names.intern(&name));
            },
        )
    }

    fn read_events(&mut self, suffix: &str, part: &mut PartTables) -> Result<(), Error> {
        let columns = ["id", "category_id", "stack_id", "extdata"];
        let strings = &part.strings;
        let events = &mut part.events;
        self.scan(("rocpd_event", suffix), &columns, |cells, names, _| {
            let Some(id) = cells.int(0) else { return };
            let category = cells.int(1).and_then(|category| strings.get(&category));
            let category = category.copied().unwrap_or_default();
            let is_marker = CallFamily::of(names.get(category)) == CallFamily::Marker;
            // Only ROCTx ranges have a message besides their name.
            let text = if is_marker { cells.bytes(3) } else { None };
            let message = text.and_then(marker_message);
            let event = PartEvent {
                correlation: cells.int(2).map_or(Correlation::NONE, Correlation),
                category,
                message: message.map_or(NameId::EMPTY, |text| names.intern(&text)),
            };
            events.insert(id, event);
        })
    }

    fn read_dispatches(&mut self, suffix: &str, part: &mut PartTables) -> Result<(), Error> {
        let columns = [
            "start",
            "end",
            "pid",
            "tid",
            "event_id",
            "agent_id",
            "queue_id",
            "stream_id",
            "kernel_id",
            "grid_size_x",
            "grid_size_y",
            "grid_size_z",
            "workgroup_size_x",
            "workgroup_size_y",
            "workgroup_size_z",
        ];
        self.scan((DISPATCHES, suffix), &columns, |cells, _, anomalies| {
            let Some((span, _)) = part.span(cells, anomalies) else {
                return;
            };
            let number = |column| cells.int(column).unwrap_or(0);
            let size = |column| cells.small_uint(column).unwrap_or(0);
            let dispatch = RocmDispatch {
                span,
                agent: number(5),
                queue: number(6),
                stream: number(7),
                kernel: number(8),
                grid: [9, 10, 11].map(size),
                workgroup: [12, 13, 14].map(size),
            };
            part.process(cells).dispatches.push(dispatch);
        })
    }

    fn read_copies(&mut self, suffix: &str, part: &mut PartTables) -> Result<(), Error> {
        let columns = [
            "start",
            "end",
            "pid",
            "tid",
            "event_id",
            "name_id",
            "src_agent_id",
            "dst_agent_id",
            "stream_id",
            "size",
        ];
        self.scan((COPIES, suffix), &columns, |cells, _, anomalies| {
            let Some((span, _)) = part.span(cells, anomalies) else {
                return;
            };
            let name = cells.int(5).and_then(|id| part.strings.get(&id));
            let copy = RocmCopy {
                span,
                name: RecordName::Known(name.copied().unwrap_or_default()),
                from: cells.int(6).unwrap_or(-1),
                to: cells.int(7).unwrap_or(-1),
                stream: cells.int(8).unwrap_or(0),
                bytes: cells.uint(9).unwrap_or(0),
            };
            part.process(cells).copies.push(copy);
        })
    }

    fn read_regions(&mut self, suffix: &str, part: &mut PartTables) -> Result<(), Error> {
        let columns = ["start", "end", "pid", "tid", "event_id", "name_id"];
        self.scan((REGIONS, suffix), &columns, |cells, names, anomalies| {
            let Some((span, event)) = part.span(cells, anomalies) else {
                return;
            };
            let category = event.map_or(NameId::EMPTY, |event| event.category);
            let name = cells.int(5).and_then(|id| part.strings.get(&id));
            let message = event.map(|event| event.message);
            let call = RocmCall {
                span,
                family: CallFamily::of(names.get(category)),
                name: RecordName::Known(name.copied().unwrap_or_default()),
                message: message.filter(|message| *message != NameId::EMPTY),
            };
            part.process(cells).calls.push(call);
        })
    }
}

impl PartTables {
    /// Reads the parts that all records share, in the first columns: start, end, process, thread,
    /// event.
    fn span(
        &self,
        cells: &RowCells<'_, '_>,
        anomalies: &mut Anomalies,
    ) -> Option<(RecordSpan, Option<PartEvent>)> {
        let event = cells.int(4);
        let place = || format!("event {}", event.unwrap_or(-1));
        let (start, duration) = record_times(cells.uint(0), cells.uint(1), anomalies, place)?;
        let event = event.and_then(|event| self.events.get(&event)).copied();
        let thread = cells.int(3).unwrap_or(0);
        let span = RecordSpan {
            thread: self.threads.get(&thread).copied().unwrap_or(thread),
            correlation: event.map_or(Correlation::NONE, |event| event.correlation),
            start,
            duration,
        };
        Some((span, event))
    }

    /// Returns the process of a record.
    fn process(&mut self, cells: &RowCells<'_, '_>) -> &mut RocmProcess {
        let id = cells.int(2).unwrap_or(0);
        let new = || RocmProcess {
            pid: id,
            ..RocmProcess::default()
        };
        self.processes.entry(id).or_insert_with(new)
    }
}

/// Environment variables with the rank, most reliable first: torchrun, Open MPI, MPICH, Slurm.
const RANKS: [&str; 4] = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
const WORLD_SIZES: [&str; 4] = [
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_NTASKS",
];

/// Returns the number in the first of these variables that is set. Nothing else of the environment
/// is kept.
fn variable(environment: &[u8], names: &[&str]) -> Option<i64> {
    let fields = object_fields(environment);
    let mut numbers = names.iter().filter_map(|name| {
        let mut fields = fields.iter();
        let (_, value) = fields.find(|(key, _)| *key == name.as_bytes())?;
        value.int()
    });
    numbers.next()
}

/// Extracts the message of a range: `{"message": "forward"}`.
fn marker_message(text: &[u8]) -> Option<String> {
    let value = field(text, b"message")?;
    Some(value.text().into_owned())
}

/// Extracts `cu_count` from the stored properties of an agent.
fn compute_units(text: &[u8]) -> u32 {
    let units = field(text, b"cu_count").and_then(JsonValue::uint);
    units
        .and_then(|units| u32::try_from(units).ok())
        .unwrap_or(0)
}

fn field<'a>(text: &'a [u8], wanted: &[u8]) -> Option<JsonValue<'a>> {
    let mut fields = object_fields(text).into_iter();
    fields
        .find(|(key, _)| *key == wanted)
        .map(|(_, value)| value)
}
