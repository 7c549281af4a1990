//! Tables and columns of exports, and the numbers that encode names in them.

use super::{NsysSchema, calls, nvtx, rows, syncs};
use crate::nsys::names::{copy_direction, memory_kind, sync_name};
use rusqlite::Connection;

/// Columns of a table.
pub(super) struct TableLayout {
    pub(super) name: &'static str,
    /// Names separated by blanks.
    columns: &'static str,
}

/// Columns that schema 2 lacks.
const NEW_COLUMNS: [&str; 2] = ["greenContextId", "eventSyncId"];

impl TableLayout {
    pub(super) fn columns(&self, schema: NsysSchema) -> impl Iterator<Item = &'static str> {
        let columns = self.columns.split_whitespace();
        columns.filter(move |column| schema > NsysSchema::V2_9 || !NEW_COLUMNS.contains(column))
    }
}

pub(super) const CALLS: TableLayout = TableLayout {
    name: calls::CALLS,
    columns: "start end eventClass globalTid correlationId nameId returnValue callchainId",
};

pub(super) const KERNELS: TableLayout = TableLayout {
    name: rows::KERNELS,
    columns: "start end deviceId contextId greenContextId streamId correlationId globalPid \
              demangledName shortName mangledName launchType cacheConfig registersPerThread \
              gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory \
              localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId \
              sharedMemoryLimitConfig",
};

pub(super) const COPIES: TableLayout = TableLayout {
    name: rows::COPIES,
    columns: "start end deviceId contextId greenContextId streamId correlationId globalPid \
              bytes copyKind deprecatedSrcId srcKind dstKind srcDeviceId srcContextId \
              dstDeviceId dstContextId migrationCause graphNodeId virtualAddress",
};

pub(super) const SETS: TableLayout = TableLayout {
    name: rows::SETS,
    columns: "start end deviceId contextId greenContextId streamId correlationId globalPid \
              value bytes graphNodeId memKind",
};

pub(super) const SYNCS: TableLayout = TableLayout {
    name: syncs::SYNCS,
    columns: "start end deviceId contextId greenContextId streamId correlationId globalPid \
              syncType eventId eventSyncId",
};

pub(super) const EVENTS: TableLayout = TableLayout {
    name: syncs::EVENTS,
    columns: "deviceId contextId greenContextId streamId correlationId globalPid eventId \
              eventSyncId",
};

pub(super) const RANGES: TableLayout = TableLayout {
    name: nvtx::RANGES,
    columns: "start end eventType rangeId category color text globalTid endGlobalTid textId \
              domainId jsonTextId jsonText",
};

/// Returns the name of the table of facts about the export.
pub(super) fn meta_table(schema: NsysSchema) -> &'static str {
    match schema {
        NsysSchema::V2_9 => "EXPORT_META_DATA",
        NsysSchema::V3_13 => "META_DATA_EXPORT",
    }
}

/// Creates the tables that do not exist yet.
pub(super) fn create_tables(connection: &Connection, schema: NsysSchema) -> rusqlite::Result<()> {
    let around = [
        (meta_table(schema), "name TEXT, value TEXT"),
        (
            "StringIds",
            "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
        ),
        (
            "ThreadNames",
            "nameId INTEGER, priority INTEGER, globalTid INTEGER",
        ),
        ("PROCESSES", "globalPid INTEGER, pid INTEGER, name TEXT"),
        (
            "TARGET_INFO_SESSION_START_TIME",
            "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
        ),
        (
            "TARGET_INFO_SYSTEM_ENV",
            "globalVid INTEGER, name TEXT, value TEXT",
        ),
        (
            "TARGET_INFO_GPU",
            "id INTEGER, name TEXT, smCount INTEGER, cuDevice INTEGER",
        ),
        (
            "TARGET_INFO_CUDA_STREAM",
            "streamId INTEGER, hwId INTEGER, vmId INTEGER, processId INTEGER, contextId INTEGER, \
             priority INTEGER, flag INTEGER",
        ),
    ];
    for (name, columns) in around {
        let create = format!("CREATE TABLE IF NOT EXISTS {name} ({columns})");
        connection.execute(&create, [])?;
    }
    for table in [&CALLS, &KERNELS, &COPIES, &SETS, &SYNCS, &EVENTS, &RANGES] {
        let columns = table.columns(schema).map(|column| match column {
            "text" | "jsonText" => format!("{column} TEXT"),
            _ => format!("{column} INTEGER"),
        });
        let columns: Vec<String> = columns.collect();
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {} ({})",
            table.name,
            columns.join(", ")
        );
        connection.execute(&create, [])?;
    }
    Ok(())
}

/// Returns the lowest number in 0 to 10 that encodes `name`.
fn number_of(name: &str, names: impl Fn(i64) -> &'static str) -> Option<i64> {
    (0..=10).find(|number| names(*number) == name)
}

/// Returns the numbers of direction and memory kinds in `Memcpy HtoD (Pageable -> Device)`.
pub(super) fn copy_kinds(name: &str) -> [Option<i64>; 3] {
    let rest = name.strip_prefix("Memcpy ").unwrap_or(name);
    let (direction, memory) = rest.split_once(" (").unwrap_or((rest, ""));
    let (from, to) = memory
        .trim_end_matches(')')
        .split_once(" -> ")
        .unwrap_or_default();
    let kind = |name: &str| number_of(name, |number| memory_kind(Some(number)));
    [number_of(direction, copy_direction), kind(from), kind(to)]
}

/// Returns the number of the memory kind in `Memset (Device)`.
pub(super) fn set_kind(name: &str) -> Option<i64> {
    let kind = name.strip_prefix("Memset (")?.strip_suffix(')')?;
    number_of(kind, |number| memory_kind(Some(number)))
}

/// Returns the number of a synchronisation such as `Stream Wait Event`.
pub(super) fn sync_kind(name: &str) -> Option<i64> {
    number_of(name, |number| sync_name(Some(number)))
}
