//! Recorder of Nsight Systems exports.

use super::DatabaseProcess;
use super::recorder::DatabaseRecorder;
use crate::input::InputKind;
use etlink_formats::nsys::NsysProcess;
use rusqlite::Connection;

pub(super) const RECORDER: DatabaseRecorder = DatabaseRecorder {
    kind: InputKind::NsysSqlite,
    is_own: etlink_formats::nsys::is_export,
    event_rows: |connection| etlink_formats::nsys::row_count(connection).ok(),
    processes: list_processes,
};

fn list_processes(
    connection: &Connection,
) -> Result<Option<Vec<DatabaseProcess>>, etlink_formats::sqlite::Error> {
    match etlink_formats::nsys::processes(connection) {
        Ok(processes) => Ok(Some(nsys_processes(processes))),
        Err(etlink_formats::Error::Sqlite(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Converts the processes of a Nsight Systems export.
fn nsys_processes(processes: Vec<NsysProcess>) -> Vec<DatabaseProcess> {
    let mut all = vec![];
    for process in processes {
        let rank = process.rank;
        all.push(DatabaseProcess {
            pid: process.pid,
            process: process.global_pid.0,
            rank: rank.map(|rank| rank.rank),
            world_size: rank.and_then(|rank| rank.world_size),
            told_by: rank.map(|rank| rank.source.describe()),
            by_order: rank
                .is_some_and(|rank| rank.source == etlink_formats::nsys::RankSource::Order),
        });
    }
    all
}
