//! What stands beside the ranks' files: process groups, and all that a simulator needs.

use super::is_et;
use super::joined::Joined;
use crate::args::{Compute, Merge};
use crate::commands::check::prefix_and_rank;
use anyhow::{Context, Result, bail};
use etlink_chakra::astra::{self, Workload, file};
use etlink_run::output::Target;
use std::path::{Path, PathBuf};

/// More ranks than this are not made up.
const MAX_IDLE: usize = 4096;

/// Names of the files that a run can have beside its ranks'.
pub(super) fn names(args: &Merge) -> Vec<&'static str> {
    match (is_et(args), args.simulator) {
        (false, _) => vec![],
        (true, None) => vec![file::GROUPS],
        (true, Some(_)) => vec![
            file::GROUPS,
            file::SYSTEM,
            file::NETWORK,
            file::MEMORY,
            file::README,
        ],
    }
}

/// Refuses what no simulator could be given, before anything is written.
pub(super) fn check(args: &Merge, folder: &Path, joined: &Joined) -> Result<()> {
    idle(args, folder, joined).map(|_| ())
}

/// Ranks of the run without a trace, of which a simulator wants a file.
fn idle(args: &Merge, folder: &Path, joined: &Joined) -> Result<Vec<i64>> {
    let all = if args.simulator.is_some() {
        count(joined)
    } else {
        0
    };
    let idle: Vec<i64> = (0..)
        .take(usize::try_from(all)?)
        .filter(|rank| !joined.ranks.contains(rank))
        .take(MAX_IDLE + 1)
        .collect();
    if idle.len() > MAX_IDLE {
        bail!(
            "{}: {all} ranks and only {} traces: more than {MAX_IDLE} ranks are absent, and ASTRA-sim wants a file of each; add their traces, or leave --for astra-sim out",
            folder.display(),
            joined.ranks.len()
        );
    }
    Ok(idle)
}

/// How many ranks the simulator has: those of the run, as its traces say it, and no fewer than the last needs. None where nothing was joined.
fn count(joined: &Joined) -> u64 {
    let Some(last) = joined.ranks.iter().max() else {
        return 0;
    };
    let needed = last.saturating_add(1).max(joined.world_size.unwrap_or(0));
    u64::try_from(needed).unwrap_or(0).max(astra::MIN_RANKS)
}

/// Writes them.
pub(super) fn write(args: &Merge, folder: &Path, name: &str, joined: &Joined) -> Result<()> {
    let groups = &joined.agreed.groups;
    if !groups.is_empty() {
        let target = Target::fixed(&folder.join(file::GROUPS), args.how.force)?;
        target.write(|out| etlink_chakra::write_groups(groups, out))?;
    }
    let (ranks, idle) = (count(joined), idle(args, folder, joined)?);
    // a folder in which no rank could be linked has none
    if args.simulator.is_none() || ranks == 0 {
        return Ok(());
    }
    for rank in &idle {
        put(
            args,
            folder,
            &format!("{name}.{rank}.et"),
            &astra::idle_rank(),
        )?;
    }
    let workload = Workload {
        name,
        ranks,
        groups: !groups.is_empty(),
        idle: &idle,
    };
    put(
        args,
        folder,
        file::SYSTEM,
        astra::system(args.compute == Compute::Roofline).as_bytes(),
    )?;
    put(
        args,
        folder,
        file::NETWORK,
        astra::network(ranks).as_bytes(),
    )?;
    put(args, folder, file::MEMORY, astra::memory().as_bytes())?;
    put(
        args,
        folder,
        file::README,
        astra::readme(&workload).as_bytes(),
    )
}

fn put(args: &Merge, folder: &Path, name: &str, content: &[u8]) -> Result<()> {
    let target = Target::fixed(&folder.join(name), args.how.force)?;
    target.write(|out| out.write_all(content))?;
    Ok(())
}

/// Files of a run of the same name that this one did not write; ranks' files, and groups where there are none now.
pub(super) fn stale(
    args: &Merge,
    folder: &Path,
    name: &str,
    joined: &Joined,
    written: &[PathBuf],
) -> Result<Vec<PathBuf>> {
    let idle: Vec<PathBuf> = idle(args, folder, joined)?
        .iter()
        .map(|rank| folder.join(format!("{name}.{rank}.et")))
        .collect();
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let of_run = prefix_and_rank(&path).is_some_and(|(prefix, _)| prefix == folder.join(name));
        let groups = path == folder.join(file::GROUPS) && joined.agreed.groups.is_empty();
        if groups || of_run && !written.contains(&path) && !idle.contains(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
