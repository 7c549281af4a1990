//! Exports of Nsight Systems.

use super::DatabaseProcess;
use super::connection::DatabaseFile;
use super::tables::DatabaseRecorder;
use crate::error::RunError;
use crate::input::{InputFile, InputKind};
use etlink_kineto::KinetoReadOptions;
use etlink_model::DeviceTrace;
use etlink_nsys::{GlobalPid, NsysProcess, NsysReadOptions};
use rusqlite::Connection;

pub(super) const RECORDER: DatabaseRecorder = DatabaseRecorder {
    kind: InputKind::NsysSqlite,
    is_own: etlink_nsys::is_export,
    event_rows: |connection| etlink_nsys::row_count(connection).ok(),
    processes: list_processes,
};

fn list_processes(
    connection: &Connection,
) -> Result<Option<Vec<DatabaseProcess>>, etlink_sqlite::Error> {
    match etlink_nsys::processes(connection) {
        Ok(processes) => Ok(Some(nsys_processes(processes))),
        Err(etlink_nsys::Error::Sqlite(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Those of an export of Nsight Systems.
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
            by_order: rank.is_some_and(|rank| rank.source == etlink_nsys::RankSource::Order),
        });
    }
    all
}

/// Reads an export of Nsight Systems: the process that is wanted, or the only one.
pub(crate) fn read_nsys(
    input: InputFile,
    options: KinetoReadOptions,
) -> Result<DeviceTrace, RunError> {
    let (name, process) = (input.name.clone(), input.process.map(GlobalPid));
    let is_plain = input.plain_path.is_some();
    let file = DatabaseFile::from_input(input)?;
    let failed = |source| RunError::Database {
        name: name.clone(),
        source,
    };
    let connection = file.connect().map_err(failed)?;
    // SQLite reads with one thread per connection
    let second = match options.threads {
        0 | 1 => None,
        _ => Some(file.connect().map_err(failed)?),
    };
    let options = NsysReadOptions {
        process,
        keep: options.keep,
    };
    let trace = etlink_nsys::read_with(&connection, second, options);
    trace.map_err(|source| match source {
        // ranks are told before a trace is read, and a packed file is not unpacked for that
        etlink_nsys::Error::SeveralProcesses { pids } if !is_plain => {
            let count = pids.len();
            RunError::PackedProcesses { name, count }
        }
        source => RunError::NsysTrace { name, source },
    })
}
