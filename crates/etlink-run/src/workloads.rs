//! Runs that are made instead of recorded: generated ones, and scaled copies of written ones.
//!
//! Their files are checked, like by `etlink check`, before they get their names.

use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::file_kind::{is_folder, may_be_file};
use crate::graphs::{GraphSet, find_graph_sets, groups_beside, is_merged};
use crate::input;
use crate::made_run::write_made_run;
use crate::merge::{AstraSimOptions, MergeOptions, put_file};
use crate::output::{FileSet, is_input};
use crate::storage;
use etlink_chakra::CollectiveImplementation;
use etlink_chakra::astra::{
    self, NOT_SCALED, NetworkOrigin, Workload, WorkloadSource, configurations, file,
};
use etlink_chakra::check::{RankNodes, check, check_ranks};
use etlink_chakra::convert::GroupList;
use etlink_chakra::finding::{Finding, Severity};
use etlink_chakra::messages::ChakraMessages;
use etlink_chakra::read;
use etlink_model::{Diagnostic, Failure, diagnostic};
use etlink_workload::WorkloadSet;
use etlink_workload::scale::{ScaleOptions, scale};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Report of a run that was made.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadReport {
    /// Folder of the run.
    pub folder: PathBuf,
    /// Prefix of its files.
    pub name: String,
    /// Number of ranks' files.
    pub ranks: u64,
    /// Number of nodes of all ranks.
    pub nodes: u64,
    /// Number of groups that contain only some of the ranks.
    pub groups: u64,
    /// Size of all ranks' files, bytes.
    pub bytes: u64,
    /// Violated rules; none is an error.
    pub findings: Vec<Finding>,
    /// Notes for the user, as sentences.
    pub diagnostics: Vec<Diagnostic>,
}

/// Writes the files of a run that was not recorded into `folder`, with ASTRA-sim's example network.
///
/// # Errors
/// Fails if the run has faults, or the folder cannot be written.
pub fn write_generated(
    name: &str,
    set: &WorkloadSet,
    folder: &Path,
    overwrite: bool,
) -> Result<WorkloadReport, RunError> {
    let generated = Workload {
        network_origin: NetworkOrigin::Example,
        source: WorkloadSource::Generated,
        ..Workload::default()
    };
    write_set(name, set, generated, folder, overwrite)
}

/// Makes a run with more ranks from the run in the folder `source`.
///
/// # Errors
/// Fails if the source is not one complete run or cannot be scaled, or if the folder cannot be
/// written.
pub fn scale_run(
    source: &Path,
    options: &ScaleOptions,
    folder: &Path,
    overwrite: bool,
) -> Result<WorkloadReport, RunError> {
    if !is_folder(source) && storage::is_file(source) {
        let file = Failure::about(source.display(), " is a file");
        let remedy = "give the folder with the graphs of all ranks, as written by `etlink merge`";
        return Err(file.advise(remedy).into());
    }
    let mut sets = find_graph_sets(source)?;
    let runs = sets.len();
    let (Some(found), 1) = (sets.pop(), runs) else {
        return Err(not_one_run(source, runs).into());
    };
    let passed_by = found.passed_by_note();
    let GraphSet { prefix, ranks, .. } = found;
    if let Some(path) = ranks.values().find(|path| is_merged(path)) {
        let what = " is merged JSON (ET+), but scale needs .et files";
        let merged = Failure::about(path.display(), what);
        return Err(merged.advise("make them with `etlink merge`").into());
    }
    let groups: GroupList = groups_beside(&prefix)?.unwrap_or_default();
    let mut graphs = BTreeMap::new();
    for (rank, path) in &ranks {
        if let Ok(rank) = u32::try_from(*rank) {
            graphs.insert(rank, read_rank(path)?);
        }
    }
    let set = scale(&graphs, &groups, options).map_err(|error| {
        let path = error.rank.and_then(|rank| ranks.get(&i64::from(rank)));
        match path {
            Some(path) => Failure::unreadable(path.display(), error),
            None => Failure::new(error.to_string()),
        }
    })?;
    let name = prefix.file_name().unwrap_or_default().to_string_lossy();
    refuse_source(folder, &prefix)?;
    let mut network = network_beside(&prefix, options.ranks)?;
    network.system_text = network.system_text.map(|system| system_for(&set, system));
    let mut report = write_set(&name, &set, network, folder, overwrite)?;
    report.diagnostics.extend(passed_by);
    report.diagnostics.extend(untied_note(&set, graphs.len()));
    Ok(report)
}

fn not_one_run(folder: &Path, runs: usize) -> Failure {
    let folder = folder.display();
    match runs {
        0 => Failure::about(folder, " has no written graphs")
            .advise("make them with `etlink merge TRACES -o DIR`"),
        several => {
            let what = format!(" has written graphs of {several} runs");
            Failure::about(folder, what).advise("give the folder of one run")
        }
    }
}

/// Returns a note if no collective and no message connects the copies of a run, which have `ranks`
/// ranks each.
fn untied_note(set: &WorkloadSet, ranks: usize) -> Option<Diagnostic> {
    let copy_of = |rank: &u32| *rank as usize / ranks.max(1);
    let spans = |group: &Vec<u32>| {
        let copies = group.first().zip(group.last());
        copies.is_some_and(|(first, last)| copy_of(first) != copy_of(last))
    };
    // messages stay within a copy
    if set.ranks.len() <= ranks || set.groups.values().any(spans) {
        return None;
    }
    let why = if set.communicates() {
        "no group has ranks of several copies"
    } else {
        "no rank communicates"
    };
    Some(diagnostic!(
        RanksIndependent,
        "{why}: the copies run independently, so more ranks take no more time"
    ))
}

/// Refuses to write into the source folder, so that the run is not lost to its copies.
fn refuse_source(folder: &Path, prefix: &Path) -> Result<(), RunError> {
    let source = prefix.parent().unwrap_or(prefix);
    match (folder.canonicalize(), source.canonicalize()) {
        (Ok(output), Ok(input)) if output == input => Err(is_input(source)),
        _ => Ok(()),
    }
}

/// Returns the configurations for a run of more ranks, from those next to its graphs.
fn network_beside(prefix: &Path, ranks: u32) -> Result<Workload<'static>, RunError> {
    let mut found = Workload {
        network_origin: NetworkOrigin::Example,
        source: WorkloadSource::Scaled,
        ..Workload::default()
    };
    let system = text_beside(prefix, file::SYSTEM)?;
    // nodes that keep their time store it as bytes that this device's memory moves
    if let Some(device) = system.as_deref().and_then(astra::device_of_system) {
        found.device = device;
    }
    let Some(text) = text_beside(prefix, file::NETWORK)? else {
        return Ok(found);
    };
    found.network_text = astra::scaled_network(&text, u64::from(ranks));
    found.network_origin = match &found.network_text {
        None => NetworkOrigin::NotScaled,
        Some(_) => {
            // The system's file has an algorithm for each level of the network.
            found.system_text = system;
            let readme = text_beside(prefix, file::README)?;
            let line = readme.as_deref().and_then(astra::network_line);
            NetworkOrigin::Scaled(line.map(str::to_owned))
        }
    };
    Ok(found)
}

/// Returns a system file whose algorithms ASTRA-sim can run in all groups of a set: halving and
/// doubling needs 2, 4, 8, … ranks. Rings pass the same bytes.
fn system_for(set: &WorkloadSet, system: String) -> String {
    let mut sizes = set.groups.values().map(Vec::len).chain([set.ranks.len()]);
    if sizes.all(usize::is_power_of_two) {
        system
    } else {
        let halving = CollectiveImplementation::HalvingDoubling.name();
        system.replace(halving, CollectiveImplementation::Ring.name())
    }
}

fn text_beside(prefix: &Path, name: &str) -> Result<Option<String>, RunError> {
    let path = prefix.with_file_name(name);
    if !may_be_file(&path) {
        return Ok(None);
    }
    let text = storage::read_text(&path).with_path(FileAction::Read, &path)?;
    Ok(Some(text))
}

fn read_rank(path: &Path) -> Result<ChakraMessages, RunError> {
    let read = ChakraMessages::read(input::open_any(path)?);
    let (graph, losses) = read.map_err(|cause| RunError::unreadable(path.display(), cause))?;
    match losses.iter().next() {
        None => Ok(graph),
        Some((kind, _)) => {
            let what = format!(": {}; a damaged run is not used", kind.describe());
            Err(Failure::about(path.display(), what).into())
        }
    }
}

/// Checks and writes all files of a run, or none.
fn write_set(
    name: &str,
    set: &WorkloadSet,
    network: Workload<'_>,
    folder: &Path,
    overwrite: bool,
) -> Result<WorkloadReport, RunError> {
    let options = MergeOptions {
        simulator: Some(AstraSimOptions::default()),
        overwrite,
        ..MergeOptions::default()
    };
    write_made_run(folder, name, &options, |files| {
        write_files(name, set, network, folder, files)
    })
}

/// Writes all files of a run, and checks them.
fn write_files(
    name: &str,
    set: &WorkloadSet,
    network: Workload<'_>,
    folder: &Path,
    files: &FileSet,
) -> Result<WorkloadReport, RunError> {
    let mut report = WorkloadReport {
        folder: folder.to_owned(),
        name: name.to_owned(),
        ranks: set.ranks.len() as u64,
        nodes: 0,
        groups: set.groups.len() as u64,
        bytes: 0,
        findings: vec![],
        diagnostics: vec![],
    };
    if network.network_origin == NetworkOrigin::NotScaled {
        let path = folder.join(file::NETWORK);
        let example = diagnostic!(
            NetworkAssumed,
            "{} is ASTRA-sim's example: {NOT_SCALED}",
            path.display()
        );
        report
            .diagnostics
            .push(example.advise("replace it with your topology"));
    }
    let mut ranks = vec![];
    for (rank, graph) in (0..).zip(&set.ranks) {
        let bytes = graph.to_et();
        let path = folder.join(format!("{name}.{rank}.et"));
        let written = read::read(bytes.as_slice())
            .map_err(|cause| RunError::unreadable(path.display(), cause))?;
        report.findings.extend(check(&written));
        ranks.push(RankNodes::from_graph(rank, &written));
        report.nodes += graph.nodes.len() as u64;
        report.bytes += bytes.len() as u64;
        put_file(files, &format!("{name}.{rank}.et"), &bytes)?;
    }
    let groups: GroupList = set
        .groups
        .iter()
        .map(|(number, ranks)| {
            let ranks = ranks.iter().map(|rank| i64::from(*rank)).collect();
            (number.to_string(), ranks)
        })
        .collect();
    report.findings.extend(check_ranks(&ranks, Some(&groups)));
    refuse_faults(&report.findings, network.source)?;
    write_configurations(name, set, network, files)?;
    Ok(report)
}

fn refuse_faults(findings: &[Finding], source: WorkloadSource) -> Result<(), RunError> {
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    let mut faults: Vec<String> = errors
        .map(|finding| format!("{} {}", finding.rule, finding.kind.describe()))
        .collect();
    faults.sort();
    faults.dedup();
    if faults.is_empty() {
        return Ok(());
    }
    let faults = faults.join("; ");
    let remedy = match source {
        WorkloadSource::Generated => {
            "give other sizes, or more ranks (`generate`: --size, --ranks)"
        }
        _ => "see `etlink check` for the source",
    };
    let problem = format!("nothing was written: the generated run has faults ({faults})");
    Err(Failure::new(problem).advise(remedy).into())
}

/// Writes the files that ASTRA-sim needs next to the ranks: groups, and initial configurations.
fn write_configurations(
    name: &str,
    set: &WorkloadSet,
    network: Workload<'_>,
    files: &FileSet,
) -> Result<(), RunError> {
    let groups = set.group_list();
    let workload = Workload {
        name,
        ranks: set.ranks.len() as u64,
        groups: groups.is_some(),
        host_nodes: set.has_host_nodes(),
        subgroups: set.groups.len() > 1,
        silent: !set.communicates(),
        ..network
    };
    if let Some(groups) = &groups {
        put_file(files, file::GROUPS, groups.as_bytes())?;
    }
    for (name, text) in configurations(&workload) {
        put_file(files, name, text.as_bytes())?;
    }
    Ok(())
}
