//! Writes the files next to the ranks' files: process groups, and configurations of simulators.

use super::joined::simulated_ranks;
use super::{MergeOptions, MergedRun};
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::file_kind::may_be_file;
use crate::output::{FileSet, OutputFormat, not_ours};
use crate::storage;
use etlink_chakra::TracePart;
use etlink_chakra::astra::{self, NetworkBackend, Workload, backend_files, configurations, file};
use etlink_model::{Failure, GlobalRank, Setting};
use memchr::memmem;
use std::path::Path;

/// Maximum number of idle ranks that are made up.
// a damaged world_size must not fill the disk with empty files
const MAX_IDLE: usize = 4096;

/// Text that identifies a README of etlink.
const README_MARK: &str = "ranks for ASTRA-sim\n\nWritten by etlink ";

/// Returns the names of files that a run may have next to its ranks' files.
pub(super) fn file_names(options: &MergeOptions) -> Vec<&'static str> {
    match (options.is_et(), options.simulator) {
        (false, _) => vec![],
        // every reader of `.et` needs the groups; only ASTRA-sim needs the rest
        (true, None) => vec![file::GROUPS],
        (true, Some(simulator)) => {
            let mut names = vec![
                file::GROUPS,
                file::SYSTEM,
                file::NETWORK,
                file::MEMORY,
                file::README,
            ];
            names.extend(backend_files(simulator.backend));
            names
        }
    }
}

/// Returns the configurations that an earlier run wrote. The README next to them shows that etlink
/// wrote them: users edit the configurations, but do not rename them.
///
/// # Errors
/// Fails if another program's files have names that are about to be written.
pub(super) fn earlier_files(
    options: &MergeOptions,
    folder: &Path,
) -> Result<Vec<String>, RunError> {
    let mut names = vec![file::README, file::SYSTEM, file::NETWORK, file::MEMORY];
    names.extend(backend_files(NetworkBackend::Ns3));
    names.extend(backend_files(NetworkBackend::Htsim));
    let mut files = vec![];
    for name in names {
        if may_be_file(&folder.join(name)) {
            files.push(name.to_owned());
        }
    }
    // `system.json` is a common name: without the mark, the file is foreign
    if !has_our_readme(folder)? {
        let foreign = if options.simulator.is_some() {
            files.first()
        } else {
            None
        };
        return match foreign {
            Some(name) => Err(not_ours(&folder.join(name))),
            None => Ok(vec![]),
        };
    }
    Ok(files)
}

fn has_our_readme(folder: &Path) -> Result<bool, RunError> {
    let readme = folder.join(file::README);
    if !may_be_file(&readme) {
        return Ok(false);
    }
    let text = storage::read(&readme).with_path(FileAction::Read, &readme)?;
    Ok(memmem::find(&text, README_MARK.as_bytes()).is_some())
}

/// Refuses a run with too many absent ranks, before anything is written.
pub(super) fn check_absent(
    options: &MergeOptions,
    folder: &Path,
    joined: &MergedRun,
) -> Result<(), RunError> {
    idle_ranks(options, folder, joined).map(|_| ())
}

/// Returns the ranks of the run without a trace, for which a simulator needs a file.
fn idle_ranks(
    options: &MergeOptions,
    folder: &Path,
    joined: &MergedRun,
) -> Result<Vec<i64>, RunError> {
    let all = if options.simulator.is_some() {
        rank_count(joined)
    } else {
        0
    };
    let idle: Vec<i64> = (0..)
        .take(usize::try_from(all).unwrap_or(usize::MAX))
        .filter(|rank| !joined.ranks.contains(&GlobalRank(*rank)))
        // one more shows that there are too many, without counting up to a damaged number
        .take(MAX_IDLE + 1)
        .collect();
    if idle.len() > MAX_IDLE {
        let what = format!(
            ": only {} of {all} ranks have traces: more than {MAX_IDLE} ranks are missing, and \
             ASTRA-sim needs a file per rank",
            joined.ranks.len()
        );
        let remedy = format!("add their traces, or leave {} out", Setting::ForAstraSim);
        return Err(Failure::about(folder.display(), what).advise(remedy).into());
    }
    Ok(idle)
}

/// Returns the number of simulated ranks: the run's world size according to its traces, or more if
/// the highest rank exceeds it. Returns 0 if nothing was joined.
fn rank_count(joined: &MergedRun) -> u64 {
    simulated_ranks(&joined.ranks, joined.world_size)
}

/// Writes process groups, and with a simulator also its configurations and idle ranks.
pub(super) fn write_files(
    options: &MergeOptions,
    set: &FileSet,
    name: &str,
    joined: &MergedRun,
) -> Result<(), RunError> {
    let groups = &joined.agreed.groups;
    if !groups.is_empty() {
        let target = set.target(file::GROUPS, OutputFormat::EtPlus)?;
        target.write(|out| etlink_chakra::write_groups(groups, out))?;
    }
    let (ranks, idle) = (
        rank_count(joined),
        idle_ranks(options, set.folder(), joined)?,
    );
    // a folder without linked ranks gets no such files
    if ranks == 0 {
        return Ok(());
    }
    let Some(simulator) = options.simulator else {
        return Ok(());
    };
    for rank in &idle {
        put_file(set, &format!("{name}.{rank}.et"), &astra::idle_rank())?;
    }
    let workload = Workload {
        name,
        ranks,
        groups: !groups.is_empty(),
        idle: &idle,
        single: joined.is_single(),
        host_nodes: options.chakra.part != TracePart::Communication,
        subgroups: groups.len() > 1,
        network: joined.network.as_ref(),
        silent: joined.is_silent,
        backend: simulator.backend,
        device: joined.agreed.device.clone(),
        roofline: simulator.roofline,
        ..Workload::default()
    };
    for (name, text) in configurations(&workload) {
        put_file(set, name, text.as_bytes())?;
    }
    Ok(())
}

/// Writes a file with this content.
pub(crate) fn put_file(set: &FileSet, name: &str, content: &[u8]) -> Result<(), RunError> {
    let target = set.target(name, OutputFormat::EtPlus)?;
    target.write(|out| out.write_all(content))?;
    Ok(())
}
