//! Lists the processes of a report.

use crate::Error;
use crate::nsys::global_pid::{GlobalPid, TID_BITS};
use crate::nsys::ranks::{ProcessRank, process_ranks};
use crate::nsys::{calls, nvtx, rows};
use crate::sqlite::{RowFilter, SqliteTable, SqliteTables, scan_query, scan_rows};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of processes listed; a report with more is damaged.
const MOST_PROCESSES: i64 = 4096;

/// A process with device work, or, if none has any, a process with calls or ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NsysProcess {
    /// Id of the process in table rows.
    pub global_pid: GlobalPid,
    /// System process id.
    pub pid: i64,
    /// Process name; empty if the report has none.
    pub name: String,
    /// Rank of the process, if any source states it.
    pub rank: Option<ProcessRank>,
}

/// Lists the processes whose traces can be read, by process id. O(rows of devices).
///
/// # Errors
/// The database is locked or is not an export of Nsight Systems.
pub fn processes(connection: &Connection) -> Result<Vec<NsysProcess>, Error> {
    list_processes(connection, &crate::nsys::export_tables(connection)?)
}

/// Like [`processes`], for a database whose tables are known.
pub(crate) fn list_processes(
    connection: &Connection,
    tables: &SqliteTables,
) -> Result<Vec<NsysProcess>, Error> {
    // Uses the rows themselves: lists of streams (`TARGET_INFO_CUDA_STREAM`) can lack a process,
    // and older exports have none.
    let mut found = BTreeSet::new();
    for name in rows::DEVICE_TABLES {
        found.extend(distinct(connection, tables.table(name), "globalPid", 0)?);
    }
    if found.is_empty() {
        for name in [calls::CALLS, nvtx::RANGES] {
            found.extend(distinct(
                connection,
                tables.table(name),
                "globalTid",
                TID_BITS,
            )?);
        }
    }
    let ranks = process_ranks(connection, tables, &found)?;
    let names = process_names(connection, tables)?;
    let mut all = vec![];
    for global_pid in found {
        all.push(NsysProcess {
            global_pid,
            pid: global_pid.pid(),
            name: names.get(&global_pid).cloned().unwrap_or_default(),
            rank: ranks.get(&global_pid).copied(),
        });
    }
    Ok(all)
}

/// Returns the distinct processes in a column. O(rows).
fn distinct(
    connection: &Connection,
    table: Option<&SqliteTable>,
    column: &str,
    ignored_bits: u32,
) -> Result<Vec<GlobalPid>, Error> {
    let Some(table) = table.filter(|table| table.has_column(column)) else {
        return Ok(vec![]);
    };
    let query = format!(
        "SELECT DISTINCT {column} >> {ignored_bits} FROM \"{}\" WHERE typeof({column}) = 'integer' \
         LIMIT {MOST_PROCESSES}",
        table.name
    );
    let mut found = vec![];
    // Table damage is reported when the rows are read.
    scan_query(&table.name, connection, &query, |row| {
        let number = row.get::<_, i64>(0);
        found.extend(number.map(|number| GlobalPid(number << ignored_bits)));
    })?;
    Ok(found)
}

/// Reads process names from the report.
fn process_names(
    connection: &Connection,
    tables: &SqliteTables,
) -> Result<BTreeMap<GlobalPid, String>, Error> {
    let mut names = BTreeMap::new();
    let Some(table) = tables.table("PROCESSES") else {
        return Ok(names);
    };
    let columns = ["globalPid", "name"];
    scan_rows(connection, table, &columns, RowFilter::All, |cells| {
        if let (Some(process), Some(name)) = (cells.int(0), cells.text(1)) {
            let name = || name.into_owned();
            names.entry(GlobalPid(process)).or_insert_with(name);
        }
    })?;
    Ok(names)
}
