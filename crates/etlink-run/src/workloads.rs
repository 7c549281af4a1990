//! Runs that are made instead of recorded: generated ones, and scaled copies of written ones.
//!
//! Their files are checked, like by `etlink check`, before they get their names.

use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::file_kind::{is_folder, may_be_file};
use crate::graphs::{GraphSet, find_graph_sets, groups_beside, is_merged};
use crate::input;
use crate::made_run::MadeRun;
use crate::merge::{AstraSimOptions, MergeOptions};
use crate::output::{FileSet, OutputFormat, is_input};
use crate::storage;
use etlink_chakra::astra::{
    self, NOT_SCALED, NetworkBackend, NetworkOrigin, Workload, WorkloadSource, file,
};
use etlink_chakra::check::{RankNodes, check, check_ranks};
use etlink_chakra::convert::GroupList;
use etlink_chakra::finding::{Finding, Severity};
use etlink_chakra::messages::{ChakraMessages, MessageError};
use etlink_chakra::read::{self, ChakraReadError};
use etlink_chakra::{CollectiveImplementation, RooflineDevice};
use etlink_model::Failure;
use etlink_workload::WorkloadSet;
use etlink_workload::generate::{WorkloadPattern, WorkloadSizes, generate};
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
    pub notes: Vec<String>,
}

/// Generates the run of a pattern in `folder`.
///
/// # Errors
/// Fails if the parameters contradict each other, or the folder cannot be written.
pub fn generate_run(
    name: &str,
    pattern: &WorkloadPattern,
    sizes: &WorkloadSizes,
    folder: &Path,
    overwrite: bool,
) -> Result<WorkloadReport, RunError> {
    let set = generate(pattern, sizes).map_err(|error| Failure::new(error.to_string()))?;
    let generated = Configurations {
        origin: NetworkOrigin::Example,
        source: WorkloadSource::Generated,
        ..Configurations::default()
    };
    write_set(name, &set, generated, folder, overwrite)
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
    network.system = network.system.map(|system| system_for(&set, system));
    let mut report = write_set(&name, &set, network, folder, overwrite)?;
    report.notes.extend(passed_by);
    report.notes.extend(untied_note(&set, graphs.len()));
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
fn untied_note(set: &WorkloadSet, ranks: usize) -> Option<String> {
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
    Some(format!(
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

/// Configurations of ASTRA-sim for a run.
#[derive(Default)]
struct Configurations {
    /// Content of the network's file; `None` to use ASTRA-sim's example.
    network: Option<String>,
    /// Content of the system's file, unchanged.
    system: Option<String>,
    origin: NetworkOrigin<'static>,
    /// README of the run that was scaled.
    readme: Option<String>,
    source: WorkloadSource,
    /// Device for a roofline.
    device: RooflineDevice,
}

/// Returns the configurations for a run of more ranks, from those next to its graphs.
fn network_beside(prefix: &Path, ranks: u32) -> Result<Configurations, RunError> {
    let mut found = Configurations {
        origin: NetworkOrigin::Example,
        source: WorkloadSource::Scaled,
        ..Configurations::default()
    };
    let system = text_beside(prefix, file::SYSTEM)?;
    // nodes that keep their time store it as bytes that this device's memory moves
    if let Some(device) = system.as_deref().and_then(astra::device_of_system) {
        found.device = device;
    }
    let Some(text) = text_beside(prefix, file::NETWORK)? else {
        return Ok(found);
    };
    found.network = astra::scaled_network(&text, u64::from(ranks));
    found.origin = match &found.network {
        None => NetworkOrigin::NotScaled,
        Some(_) => {
            // The system's file has an algorithm for each level of the network.
            found.system = system;
            found.readme = text_beside(prefix, file::README)?;
            NetworkOrigin::Scaled(None)
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
    let (graph, losses) = ChakraMessages::read(input::open_any(path)?).map_err(|error| {
        let cause = match error {
            MessageError::Read(cause) => cause,
            MessageError::Sink(source) => ChakraReadError::Io { offset: 0, source },
        };
        RunError::unreadable(path.display(), cause)
    })?;
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
    network: Configurations,
    folder: &Path,
    overwrite: bool,
) -> Result<WorkloadReport, RunError> {
    let made = MadeRun {
        folder,
        name,
        options: MergeOptions {
            simulator: Some(AstraSimOptions::default()),
            overwrite,
            ..MergeOptions::default()
        },
    };
    made.write(|files| write_files(name, set, network, folder, files))
}

/// Writes all files of a run, and checks them.
fn write_files(
    name: &str,
    set: &WorkloadSet,
    network: Configurations,
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
        notes: vec![],
    };
    if network.origin == NetworkOrigin::NotScaled {
        let path = folder.join(file::NETWORK);
        report.notes.push(format!(
            "{} is ASTRA-sim's example: {NOT_SCALED}; replace it with your topology",
            path.display()
        ));
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
        put(files, &format!("{name}.{rank}.et"), &bytes)?;
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
        WorkloadSource::Generated => "give another --size, or more --ranks",
        _ => "see `etlink check` for the source",
    };
    let problem = format!("nothing was written: the generated run has faults ({faults})");
    Err(Failure::new(problem).advise(remedy).into())
}

/// Writes the files that ASTRA-sim needs next to the ranks: groups, and initial configurations.
fn write_configurations(
    name: &str,
    set: &WorkloadSet,
    network: Configurations,
    files: &FileSet,
) -> Result<(), RunError> {
    let groups = set.group_list();
    let ranks = set.ranks.len() as u64;
    let workload = Workload {
        name,
        ranks,
        groups: groups.is_some(),
        idle: &[],
        single: false,
        host_nodes: set.has_host_nodes(),
        subgroups: set.groups.len() > 1,
        network: None,
        network_origin: match (network.origin, &network.readme) {
            (NetworkOrigin::Scaled(_), Some(readme)) => {
                NetworkOrigin::Scaled(astra::network_line(readme))
            }
            (origin, _) => origin,
        },
        source: network.source,
        device: Some(&network.device),
        silent: !set.communicates(),
        backend: NetworkBackend::Analytical,
    };
    if let Some(groups) = &groups {
        put(files, file::GROUPS, groups.as_bytes())?;
    }
    let device = &network.device;
    let system = network.system.clone();
    let system = system.unwrap_or_else(|| astra::system(false, device, None));
    put(files, file::SYSTEM, system.as_bytes())?;
    let network = network.network.clone();
    let network = network.unwrap_or_else(|| astra::network(ranks, None));
    put(files, file::NETWORK, network.as_bytes())?;
    put(files, file::MEMORY, astra::memory().as_bytes())?;
    put(files, file::README, astra::readme(&workload).as_bytes())
}

fn put(files: &FileSet, name: &str, content: &[u8]) -> Result<(), RunError> {
    // the format is irrelevant: the content is already encoded
    let target = files.target(name, OutputFormat::Chakra)?;
    target.write(|out| out.write_all(content))?;
    Ok(())
}
