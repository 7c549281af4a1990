//! Recorder of rocpd databases, written by ROCm's rocprofv3.

use super::DatabaseProcess;
use super::recorder::DatabaseRecorder;
use crate::input::InputKind;
use etlink_formats::rocm::RocpdProcess;
use rusqlite::Connection;
use std::collections::BTreeSet;

pub(super) const RECORDER: DatabaseRecorder = DatabaseRecorder {
    kind: InputKind::RocpdSqlite,
    is_own: etlink_formats::rocm::is_rocpd,
    event_rows: |connection| etlink_formats::rocm::rocpd_row_count(connection).ok(),
    processes: list_processes,
};

fn list_processes(
    connection: &Connection,
) -> Result<Option<Vec<DatabaseProcess>>, etlink_formats::sqlite::Error> {
    match etlink_formats::rocm::rocpd_processes(connection) {
        Ok(processes) => Ok(Some(rocpd_processes(processes))),
        Err(etlink_formats::Error::Sqlite(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Converts the processes of a rocpd database. Ranks that the environment does not state are
/// assigned by the order of its tables: from the free ranks, or for all processes if the
/// environment states a rank twice.
fn rocpd_processes(processes: Vec<RocpdProcess>) -> Vec<DatabaseProcess> {
    let known = processes.iter().filter_map(|process| process.rank);
    let ranks: BTreeSet<i64> = known.clone().collect();
    let is_distinct = known.count() == ranks.len();
    // A single process is not the first of several.
    let is_alone = processes.len() == 1;
    let told_by = match (is_distinct, ranks.len()) {
        (true, all) if all == processes.len() => "the environment of the recorded program",
        (true, 1..) => {
            "the environment of the recorded program if it has a rank, else by the order \
             of its tables"
        }
        (true, 0) => "the order of its tables",
        // The environment was inherited from a process that started both.
        (false, _) => {
            "the order of its tables (the environment of the recorded program has one rank twice)"
        }
    };
    let mut free = (0..).filter(|rank| !is_distinct || !ranks.contains(rank));
    let mut all = vec![];
    for process in processes {
        let told = if is_distinct { process.rank } else { None };
        let by_order = told.is_none() && !is_alone;
        all.push(DatabaseProcess {
            pid: process.pid,
            process: process.place,
            rank: if by_order { free.next() } else { told },
            world_size: process.world_size,
            told_by: Some(told_by),
            by_order,
        });
    }
    all
}
