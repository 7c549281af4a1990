//! Simulations of written graphs: the log, the graphs, and the recording from which they were made.

use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::file_kind::may_be_file;
use crate::graphs::{GraphSet, find_graph_sets, graph_sets, groups_beside, is_graph_name};
use crate::input;
use crate::joined::JoinedRun;
use crate::membership::Excluded;
use crate::storage::{self, StoredKind};
use etlink_chakra::convert::GroupRanks;
use etlink_chakra::read::{self, ChakraGraph};
use etlink_chakra::simulated::{
    AstraLog, AstraLogReader, GraphComms, MeasuredRun, SimulatedRun, SimulationReport,
    compare_simulation,
};
use etlink_link::ranks::rank_list;
use etlink_model::{Diagnostic, Failure, diagnostic};
use serde::Serialize;
use std::fmt::Display;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// File name of ASTRA-sim's log.
const LOG: &str = "log.log";
/// Folder into which ASTRA-sim writes the log.
const LOG_FOLDER: &str = "log";
/// Number of earlier log files that ASTRA-sim keeps.
// `Logging.cc`: `rotating_file_sink_mt(…, 1024 * 1024 * 10, 10)`
const LOG_PARTS: usize = 10;

/// Result of reading a simulation.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulationResult {
    /// Path of the log.
    pub log: PathBuf,
    /// Prefix of the graphs' names.
    pub graphs: PathBuf,
    /// Notes for the reader of the figures.
    pub diagnostics: Vec<Diagnostic>,
    /// Excluded traces of the recording; the recording's reader already knows them.
    pub excluded: Vec<Excluded>,
    /// Figures of the simulation.
    #[serde(flatten)]
    pub report: SimulationReport,
    /// All nodes, if a timeline is requested.
    #[serde(skip)]
    pub run: SimulatedRun,
    /// The recorded run, if the simulation is compared with it.
    #[serde(skip)]
    pub measured: Option<MeasuredRun>,
}

/// The log of a simulation, and the simulated graphs.
#[derive(Clone, Debug)]
pub struct SimulationFiles {
    log: PathBuf,
    graphs: GraphSet,
}

impl SimulationFiles {
    /// Finds the log, and the graphs next to it or in the given folder.
    ///
    /// # Errors
    /// Fails if the log or the graphs cannot be found.
    pub fn find(source: &Path, graphs: Option<&Path>) -> Result<SimulationFiles, RunError> {
        let log = find_log(source)?;
        let graphs = match graphs {
            Some(folder) => only_run(folder, find_graph_sets(folder)?)?,
            None => graphs_near(&log)?,
        };
        Ok(SimulationFiles { log, graphs })
    }

    /// Reads the files and compares the simulation with a recording. With `timeline`, all nodes are
    /// kept.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or the files are of different runs.
    pub fn read(
        self,
        recording: Option<(&Path, &JoinedRun)>,
        timeline: bool,
    ) -> Result<SimulationResult, RunError> {
        let log = read_log(&self.log)?;
        self.check_ranks(&log)?;
        let measured = match recording {
            None => None,
            Some((against, joined)) => Some(self.measured_run(against, joined)?),
        };
        let groups = groups_beside(&self.graphs.prefix)?.unwrap_or_default();
        let groups = GroupRanks::new(groups, self.graphs.ranks.keys().copied());
        let (mut ranks, mut notes) = (vec![], log_notes(&log));
        notes.extend(self.graphs.passed_by_note());
        notes.extend(self.absent_note(&log));
        for (rank, path) in &self.graphs.ranks {
            let graph = read_graph(path)?;
            if let Some(damage) = graph.damage() {
                let damage = diagnostic!(GraphRepaired, "{damage}");
                notes.push(damage.of_file(path.display()));
            }
            let comms = GraphComms::new(*rank, &graph, &groups, &log, timeline);
            ranks.push(comms.map_err(|difference| {
                let graphs = self.graphs.prefix.display();
                let what = format!(": {difference}: the log is not from the graphs {graphs}");
                give_graphs(&self.log, what)
            })?);
        }
        let run = SimulatedRun::new(ranks);
        let report = compare_simulation(&log, &run, measured.as_ref());
        if let Some((against, joined)) = recording {
            refuse_strangers(against, joined, &report)?;
        }
        notes.extend(end_note(&report));
        if report.unpaired > 0 {
            notes.push(diagnostic!(
                SimulationUnpaired,
                "simulated communications without a counterpart in the recording, not compared: {}",
                report.unpaired
            ));
        }
        Ok(SimulationResult {
            log: self.log,
            graphs: self.graphs.prefix,
            diagnostics: notes,
            excluded: vec![],
            report,
            run,
            measured,
        })
    }

    /// Returns a note on graphs that are missing in the log.
    fn absent_note(&self, log: &AstraLog) -> Option<Diagnostic> {
        let graphs = self.graphs.ranks.keys();
        let absent: Vec<&i64> = graphs
            .filter(|rank| !log.ranks.contains_key(rank))
            .collect();
        (!absent.is_empty()).then(|| {
            diagnostic!(
                RanksAbsent,
                "{} has graphs but is not in the log: the simulation did not finish, or it had \
                 fewer ranks",
                rank_list("rank", &absent)
            )
        })
    }

    /// Returns the measured run; refuses one with ranks that were not simulated.
    fn measured_run(&self, against: &Path, joined: &JoinedRun) -> Result<MeasuredRun, RunError> {
        let measured = MeasuredRun::new(&joined.summaries, &joined.matches, &joined.clocks);
        let graphs = &self.graphs.ranks;
        if measured
            .windows
            .keys()
            .all(|rank| graphs.contains_key(rank))
        {
            return Ok(measured);
        }
        let what = format!(
            ": the recording has {}, but the simulation has {}",
            ranks_text(measured.windows.keys()),
            ranks_text(graphs.keys())
        );
        Err(other_recording(against, what))
    }

    fn check_ranks(&self, log: &AstraLog) -> Result<(), RunError> {
        // Ranks missing in the log did not finish.
        let is_known = |rank: &i64| self.graphs.ranks.contains_key(rank);
        if log.ranks.keys().all(is_known) {
            return Ok(());
        }
        let what = format!(
            ": the log has {}, but {} has {}",
            ranks_text(log.ranks.keys()),
            self.graphs.prefix.display(),
            ranks_text(self.graphs.ranks.keys())
        );
        Err(give_graphs(&self.log, what))
    }
}

fn ranks_text<'r>(ranks: impl Iterator<Item = &'r i64>) -> String {
    let ranks: Vec<&i64> = ranks.collect();
    rank_list("rank", &ranks)
}

/// Returns the given log, or the log in a folder in which the simulator ran.
fn find_log(source: &Path) -> Result<PathBuf, RunError> {
    let found = storage::file_data(source).with_path(FileAction::Open, source);
    if found?.kind != StoredKind::Folder {
        return Ok(source.to_owned());
    }
    let places = [source.join(LOG), source.join(LOG_FOLDER).join(LOG)];
    let mut found = places.into_iter().filter(|path| may_be_file(path));
    found.next().ok_or_else(|| {
        let none = Failure::about(
            source.display(),
            ": the folder has no log.log or log/log.log",
        );
        let remedy = "run the simulator in this folder, or give its log file";
        none.advise(remedy).into()
    })
}

/// Returns the files of a log, the earliest first. ASTRA-sim renames a full file to `log.1.log`,
/// after renaming that to `log.2.log`.
fn log_parts(log: &Path) -> Vec<PathBuf> {
    let mut parts = vec![log.to_owned()];
    if log.file_name().is_some_and(|name| name == LOG) {
        let earlier = (1..=LOG_PARTS).map(|part| log.with_file_name(format!("log.{part}.log")));
        parts.extend(earlier.take_while(|part| may_be_file(part)));
    }
    parts.reverse();
    parts
}

fn read_log(path: &Path) -> Result<AstraLog, RunError> {
    let mut reader = AstraLogReader::default();
    for part in log_parts(path) {
        let source = input::open_any(&part)?;
        let read = reader.read(BufReader::with_capacity(1 << 16, source));
        read.with_path(FileAction::Read, &part)?;
    }
    let log = reader.finish();
    if log.known_lines == 0 {
        let what = match log.lines {
            0 => ": the log is empty",
            _ => ": the file is not an ASTRA-sim log",
        };
        let remedy = "give the output of ASTRA-sim, or its log/log.log";
        return Err(Failure::about(path.display(), what).advise(remedy).into());
    }
    let finished = log.ranks.values().any(|rank| rank.finished_ns.is_some());
    let has_nodes = log.ranks.values().any(|rank| !rank.nodes.is_empty());
    if finished || has_nodes {
        return Ok(log);
    }
    let why = match log.critical.first() {
        Some(message) => format!("the simulator says `{message}`"),
        None => "the log is truncated, or the simulator was stopped; let it finish".to_owned(),
    };
    let what = format!(": no rank finished: {why}");
    Err(Failure::about(path.display(), what).into())
}

fn log_notes(log: &AstraLog) -> Vec<Diagnostic> {
    let mut notes = vec![];
    if log.runs > 1 {
        notes.push(diagnostic!(
            LogIncomplete,
            "the log has {} simulations, because the simulator appends to it: the last one is read",
            log.runs
        ));
    }
    if log.ranks.values().all(|rank| rank.nodes.is_empty()) {
        let no_nodes = diagnostic!(
            LogIncomplete,
            "the log has no nodes, so communications are not compared"
        );
        notes.push(no_nodes.advise(
            "set \"trace-enabled\" to 1 in system.json, run the simulator again, and give its \
             log/log.log",
        ));
    }
    if log.without_begin > 0 {
        let no_begin = diagnostic!(
            LogIncomplete,
            "the log lacks the start of some nodes ({}): its beginning is missing, because the \
             simulator keeps only the last 110 MB",
            log.without_begin
        );
        notes.push(no_begin.advise("simulate less, such as files of --comm-only"));
    }
    if let Some(line) = log.first_damaged {
        let count = log.damaged;
        notes.push(diagnostic!(
            LogIncomplete,
            "truncated lines in the log: {count}, first: line {line}"
        ));
    }
    let messages = log.critical.iter();
    notes.extend(
        messages.map(|message| diagnostic!(SimulatorSays, "the simulator says `{message}`")),
    );
    notes
}

/// Returns a note on a simulation that may have continued after the end of its log.
fn end_note(report: &SimulationReport) -> Option<Diagnostic> {
    const LACKS: &str = "the log lacks the simulator's last line (`Exiting`)";
    if report.log_has_end {
        None
    } else if !report.stuck.is_empty() {
        Some(diagnostic!(
            LogIncomplete,
            "{LACKS}: it is truncated, or the simulator was stopped or is still running. Unfinished \
             ranks may not be stuck"
        ))
    } else if !report.aborted.is_empty() {
        Some(diagnostic!(
            LogIncomplete,
            "{LACKS}: the simulator aborted at exit, was stopped or is still running, or the log is \
             truncated"
        ))
    } else {
        None
    }
}

/// Finds the graphs in the folder of a log, or in the folder above it.
fn graphs_near(log: &Path) -> Result<GraphSet, RunError> {
    let folder = match log.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    for folder in [folder.clone(), folder.join("..")] {
        let sets = graphs_in(&folder)?;
        if !sets.is_empty() {
            return only_run(&folder, sets);
        }
    }
    Err(no_graphs(log))
}

/// Returns the runs of `.et` files in a folder, without its subfolders.
fn graphs_in(folder: &Path) -> Result<Vec<GraphSet>, RunError> {
    let entries = storage::list(folder).with_path(FileAction::ReadFolder, folder)?;
    let files = entries.into_iter().map(|entry| entry.path);
    let mut files: Vec<PathBuf> = files.filter(|path| is_graph_name(path)).collect();
    files.sort();
    Ok(graph_sets(files))
}

fn only_run(folder: &Path, mut sets: Vec<GraphSet>) -> Result<GraphSet, RunError> {
    let runs = sets.len();
    match sets.pop() {
        Some(set) if runs == 1 => Ok(set),
        Some(_) => {
            let what = format!(": the folder has graphs of {runs} runs");
            let several = Failure::about(folder.display(), what);
            Err(several
                .advise("give a folder with one run with --graphs")
                .into())
        }
        None => Err(no_graphs(folder)),
    }
}

fn read_graph(path: &Path) -> Result<ChakraGraph, RunError> {
    let source = input::open_any(path)?;
    read::read(source).map_err(|cause| RunError::unreadable(path.display(), cause))
}

/// Refuses a recording whose ranks communicate if the simulation has none of their communications.
fn refuse_strangers(
    against: &Path,
    joined: &JoinedRun,
    report: &SimulationReport,
) -> Result<(), RunError> {
    let simulated = report.communications.len() as u64;
    if simulated == 0 || report.unpaired < simulated || joined.matches.matches.is_empty() {
        return Ok(());
    }
    let what = format!(": none of the {simulated} simulated communications is in the recording");
    Err(other_recording(against, what))
}

/// Creates the error for a log or folder whose graphs are not near it.
fn no_graphs(path: &Path) -> RunError {
    let what = ": no graphs <name>.<rank>.et next to the log or in the folder above it";
    give_graphs(path, what)
}

/// Creates an error that other graphs resolve.
fn give_graphs(path: &Path, what: impl Display) -> RunError {
    let failure = Failure::about(path.display(), what);
    failure
        .advise("give the simulated folder with --graphs")
        .into()
}

/// Creates the error for a recording of another run than the graphs.
fn other_recording(against: &Path, what: String) -> RunError {
    let failure = Failure::about(against.display(), what);
    let remedy = "give the recording of these graphs with --against";
    failure.advise(remedy).into()
}
