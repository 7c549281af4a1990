//! Which processes a report has.

use crate::global_pid::{GlobalPid, TID_BITS};
use crate::ranks::{ProcessRank, process_ranks};
use crate::{Error, calls, nvtx, rows};
use etlink_model::Anomalies;
use etlink_sqlite::{RowFilter, SqliteTable, SqliteTables, scan_rows};
use rusqlite::Connection;
use std::collections::BTreeSet;

/// More processes than this are not listed: damage, not a machine.
const MOST_PROCESSES: i64 = 4096;

/// A process that has work on a device; where none has, one that has calls or ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NsysProcess {
    /// What rows call it.
    pub global_pid: GlobalPid,
    /// Its process id.
    pub pid: i64,
    /// Its name, empty where the report has none.
    pub name: String,
    /// Its rank, if anything tells.
    pub rank: Option<ProcessRank>,
}

/// The processes whose traces can be read, by process id. O(rows) at worst, where the report does not
/// list the streams of its processes.
///
/// # Errors
/// It is no export of Nsight Systems, or it is locked.
pub fn processes(connection: &Connection) -> Result<Vec<NsysProcess>, Error> {
    list_processes(connection, &crate::export_tables(connection)?)
}

/// The same of a database whose tables are known.
pub(crate) fn list_processes(
    connection: &Connection,
    tables: &SqliteTables,
) -> Result<Vec<NsysProcess>, Error> {
    let mut found = listed_processes(connection, tables)?;
    found.retain(|process| has_device_rows(connection, tables, *process));
    if found.is_empty() {
        // Older exports, and those of other tools, do not list streams.
        for name in rows::DEVICE_TABLES {
            found.extend(distinct(connection, tables.table(name), "globalPid", 0));
        }
    }
    if found.is_empty() {
        for name in [calls::CALLS, nvtx::RANGES] {
            found.extend(distinct(
                connection,
                tables.table(name),
                "globalTid",
                TID_BITS,
            ));
        }
    }
    let ranks = process_ranks(connection, tables, &found)?;
    let names = process_names(connection, tables)?;
    let mut all = vec![];
    for global_pid in found {
        let name = names.iter().find(|(process, _)| *process == global_pid);
        all.push(NsysProcess {
            global_pid,
            pid: global_pid.pid(),
            name: name.map(|(_, name)| name.clone()).unwrap_or_default(),
            rank: ranks.get(&global_pid).copied(),
        });
    }
    Ok(all)
}

/// Processes that have streams of CUDA, by the lists of these.
fn listed_processes(
    connection: &Connection,
    tables: &SqliteTables,
) -> Result<BTreeSet<GlobalPid>, Error> {
    let lists = [
        "TARGET_INFO_CUDA_STREAM",
        "TARGET_INFO_CUDA_CONTEXT_INFO",
        "TARGET_INFO_CUDA_NULL_STREAM",
    ];
    let mut found = BTreeSet::new();
    for table in lists.into_iter().filter_map(|name| tables.table(name)) {
        let columns = ["hwId", "vmId", "processId"];
        let mut ignored = Anomalies::default();
        scan_rows(
            connection,
            table,
            &columns,
            RowFilter::All,
            &mut ignored,
            |cells| {
                let number = |column: usize| cells.int(column).unwrap_or(0);
                let machine = ((number(0) & 0xff) << 56) | ((number(1) & 0xff) << 48);
                found.insert(GlobalPid(machine | ((number(2) & 0xff_ffff) << TID_BITS)));
            },
        )?;
    }
    Ok(found)
}

/// Whether any row of a device is of a process. O(1) where the first is, O(rows) where none is.
fn has_device_rows(connection: &Connection, tables: &SqliteTables, process: GlobalPid) -> bool {
    let device_tables = rows::DEVICE_TABLES.into_iter();
    let mut tables = device_tables.filter_map(|name| tables.table(name));
    tables.any(|table| {
        let query = format!(
            "SELECT 1 FROM \"{}\" WHERE globalPid = ?1 LIMIT 1",
            table.name
        );
        // A table without the column has no process to tell.
        connection
            .query_row(&query, [process.0], |_| Ok(()))
            .is_ok()
    })
}

/// The processes that a column names. O(rows).
fn distinct(
    connection: &Connection,
    table: Option<&SqliteTable>,
    column: &str,
    ignored_bits: u32,
) -> Vec<GlobalPid> {
    let Some(table) = table.filter(|table| table.has_column(column)) else {
        return vec![];
    };
    let query = format!(
        "SELECT DISTINCT {column} >> {ignored_bits} FROM \"{}\" WHERE typeof({column}) = 'integer' \
         LIMIT {MOST_PROCESSES}",
        table.name
    );
    let mut found = vec![];
    // A damaged table is told of when its rows are read.
    if let Ok(mut query) = connection.prepare(&query)
        && let Ok(mut rows) = query.query([])
    {
        while let Ok(Some(row)) = rows.next() {
            let number = row.get::<_, i64>(0);
            found.extend(number.map(|number| GlobalPid(number << ignored_bits)));
        }
    }
    found
}

/// What the report calls its processes.
fn process_names(
    connection: &Connection,
    tables: &SqliteTables,
) -> Result<Vec<(GlobalPid, String)>, Error> {
    let mut names = vec![];
    let Some(table) = tables.table("PROCESSES") else {
        return Ok(names);
    };
    let columns = ["globalPid", "name"];
    let mut ignored = Anomalies::default();
    scan_rows(
        connection,
        table,
        &columns,
        RowFilter::All,
        &mut ignored,
        |cells| {
            if let (Some(process), Some(name)) = (cells.int(0), cells.text(1)) {
                names.push((GlobalPid(process), name.into_owned()));
            }
        },
    )?;
    Ok(names)
}
