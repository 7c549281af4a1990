//! Ranks of the processes in a report.

use crate::Error;
use crate::nsys::names::mpi_rank_name;
use crate::nsys::payload::NcclPayload;
use crate::nsys::{GlobalPid, nvtx};
use crate::sqlite::{RowFilter, SqliteTables, scan_query, scan_rows};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// Source of a process's rank, most reliable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RankSource {
    /// The table `MPI_RANKS`.
    MpiTable,
    /// A thread that Nsight Systems names `MPI Rank 3`.
    ThreadName,
    /// Arguments with which NCCL created its largest communicator.
    Nccl,
    /// `RANK`, or a variable set by an MPI launcher, in the environment of the only process.
    Environment,
    /// Place among the report's processes by process id: no other source states a rank.
    Order,
}

impl RankSource {
    /// Returns the name of the source in messages.
    pub fn describe(self) -> &'static str {
        match self {
            RankSource::MpiTable => "the table MPI_RANKS",
            RankSource::ThreadName => "thread names (MPI Rank N)",
            RankSource::Nccl => "the ranks in NCCL's initialisation",
            RankSource::Environment => "the environment of the recorded program",
            RankSource::Order => "the order of process ids",
        }
    }
}

/// Rank of a process and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessRank {
    /// Rank number.
    pub rank: i64,
    /// Number of ranks, if the source states it.
    pub world_size: Option<i64>,
    /// Source of the rank.
    pub source: RankSource,
}

/// Returns the ranks of processes. A source counts only if it names exactly one rank per process
/// and no rank twice.
pub(crate) fn process_ranks(
    connection: &Connection,
    tables: &SqliteTables,
    processes: &BTreeSet<GlobalPid>,
) -> Result<BTreeMap<GlobalPid, ProcessRank>, Error> {
    let sources = [mpi_table, thread_names, nccl_ranks, environment];
    for source in sources {
        let mut ranks = source(connection, tables, processes)?;
        ranks.retain(|process, _| processes.contains(process));
        let distinct: BTreeSet<i64> = ranks.values().map(|rank| rank.rank).collect();
        // A source that leaves out processes would mix with the order of the others.
        if distinct.len() == processes.len() && !ranks.is_empty() {
            return Ok(ranks);
        }
    }
    // The order of a single process says nothing.
    if processes.len() < 2 {
        return Ok(BTreeMap::new());
    }
    let mut by_order = BTreeMap::new();
    for (rank, process) in (0..).zip(processes) {
        let rank = ProcessRank {
            rank,
            world_size: None,
            source: RankSource::Order,
        };
        by_order.insert(*process, rank);
    }
    Ok(by_order)
}

type FoundRanks = BTreeMap<GlobalPid, ProcessRank>;

fn mpi_table(
    connection: &Connection,
    tables: &SqliteTables,
    _: &BTreeSet<GlobalPid>,
) -> Result<FoundRanks, Error> {
    let mut found = FoundRanks::new();
    let Some(table) = tables.table("MPI_RANKS") else {
        return Ok(found);
    };
    let columns = ["globalTid", "rank"];
    scan_rows(connection, table, &columns, RowFilter::All, |cells| {
        if let (Some(thread), Some(rank)) = (cells.int(0), cells.int(1)) {
            note_rank(&mut found, thread, rank, RankSource::MpiTable);
        }
    })?;
    Ok(found)
}

fn note_rank(found: &mut FoundRanks, thread: i64, rank: i64, source: RankSource) {
    let rank = ProcessRank {
        rank,
        world_size: None,
        source,
    };
    found.insert(GlobalPid::of_thread(thread), rank);
}

/// Finds ranks in thread names set by the system or through NVTX.
fn thread_names(
    connection: &Connection,
    tables: &SqliteTables,
    _: &BTreeSet<GlobalPid>,
) -> Result<FoundRanks, Error> {
    let mut found = FoundRanks::new();
    let mut note = |thread: Option<i64>, name: Option<&str>| {
        if let (Some(thread), Some(rank)) = (thread, name.and_then(mpi_rank_name)) {
            note_rank(&mut found, thread, rank, RankSource::ThreadName);
        }
    };
    let names = "SELECT globalTid, value FROM ThreadNames JOIN StringIds ON id = nameId \
                 WHERE value LIKE 'MPI Rank %'";
    if tables.table("ThreadNames").is_some() {
        scan_query("ThreadNames", connection, names, |row| {
            let name: Option<String> = row.get(1).ok();
            note(row.get(0).ok(), name.as_deref());
        })?;
    }
    if let Some(table) = tables.table(nvtx::RANGES) {
        let of_kind = RowFilter::Equal {
            column: "eventType",
            ignored_bits: 0,
            value: nvtx::THREAD_NAME,
        };
        let columns = ["globalTid", "text"];
        scan_rows(connection, table, &columns, of_kind, |cells| {
            note(cells.int(0), cells.text(1).as_deref());
        })?;
    }
    Ok(found)
}

/// Finds ranks in `ncclCommInitRank` ranges. The rank in the largest communicator is the job's.
fn nccl_ranks(
    connection: &Connection,
    tables: &SqliteTables,
    _: &BTreeSet<GlobalPid>,
) -> Result<FoundRanks, Error> {
    let mut found = FoundRanks::new();
    let has_payloads = tables
        .table(nvtx::RANGES)
        .is_some_and(|table| table.has_column("jsonText"));
    if !has_payloads {
        return Ok(found);
    }
    let payloads = "SELECT globalTid, jsonText FROM NVTX_EVENTS WHERE jsonText LIKE '%\"Rank\"%'";
    scan_query(nvtx::RANGES, connection, payloads, |row| {
        let (Ok(thread), Ok(text)) = (row.get::<_, i64>(0), row.get::<_, String>(1)) else {
            return;
        };
        let payload = NcclPayload::from_text(&text);
        let (Some(rank), Some(size)) = (payload.rank, payload.ranks) else {
            return;
        };
        let process = GlobalPid::of_thread(thread);
        let known = found.get(&process).and_then(|rank| rank.world_size);
        if known.is_none_or(|known| known < size) {
            let rank = ProcessRank {
                rank,
                world_size: Some(size),
                source: RankSource::Nccl,
            };
            found.insert(process, rank);
        }
    })?;
    Ok(found)
}

/// Variables with the rank and the number of ranks, most reliable first: `torchrun`, Open MPI,
/// MPICH, Slurm.
const VARIABLES: [(&str, &str); 4] = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

/// Finds the rank in the environment of `nsys profile`, which is the rank's own if each rank has a
/// report.
fn environment(
    connection: &Connection,
    tables: &SqliteTables,
    processes: &BTreeSet<GlobalPid>,
) -> Result<FoundRanks, Error> {
    let mut found = FoundRanks::new();
    let (Some(process), Some(table)) = (processes.first(), tables.table("META_DATA_CAPTURE"))
    else {
        return Ok(found);
    };
    // Children that share an environment cannot be told apart by it.
    if processes.len() > 1 {
        return Ok(found);
    }
    let mut values: BTreeMap<String, i64> = BTreeMap::new();
    let columns = ["name", "value"];
    scan_rows(connection, table, &columns, RowFilter::All, |cells| {
        let is_variable = cells
            .text(0)
            .is_some_and(|name| name.ends_with(":ENVIRONMENT_VARIABLE"));
        let text = if is_variable { cells.text(1) } else { None };
        let variable = text.as_deref().and_then(|text| text.split_once('='));
        if let Some((name, value)) = variable
            && let Ok(value) = value.trim_matches('"').parse()
        {
            values.insert(name.to_owned(), value);
        }
    })?;
    for (rank, size) in VARIABLES {
        let Some(rank) = values.get(rank).copied() else {
            continue;
        };
        let world_size = values.get(size).copied();
        // A launcher's own process has rank 0 of 1 and starts ranks with other numbers.
        if world_size.is_some_and(|size| size > 1) {
            let rank = ProcessRank {
                rank,
                world_size,
                source: RankSource::Environment,
            };
            found.insert(*process, rank);
            return Ok(found);
        }
    }
    Ok(found)
}
