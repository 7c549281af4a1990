//! What stands beside the ranks' files: process groups, and all that a simulator needs.

use super::is_et;
use super::joined::Joined;
use crate::args::{Compute, Format, Merge};
use crate::output::Target;
use anyhow::{Result, bail};
use etlink_chakra::astra::{self, Workload, file};
use std::path::Path;

/// More ranks than this are not made up.
const MAX_IDLE: usize = 4096;

/// Names of the files that a run can have beside its ranks'.
pub(super) fn names(args: &Merge) -> Vec<&'static str> {
    match (is_et(args), args.simulator) {
        (false, _) => vec![],
        (true, None) => vec![file::GROUPS],
        (true, Some(_)) => vec![file::GROUPS, file::SYSTEM, file::NETWORK, file::MEMORY, file::README],
    }
}

/// Writes them.
pub(super) fn write(args: &Merge, folder: &Path, name: &str, joined: &Joined) -> Result<()> {
    let groups = &joined.agreed.groups;
    if !groups.is_empty() {
        let target = Target::new(&folder.join(file::GROUPS), Some(Format::Json), args.how.force)?;
        target.write(|out| etlink_chakra::write_groups(groups, out))?;
    }
    // a folder in which no rank could be linked
    let Some(last) = joined.ranks.iter().max().filter(|_| args.simulator.is_some()) else { return Ok(()) };
    let ranks = u64::try_from(last.saturating_add(1)).unwrap_or(0).max(astra::MIN_RANKS);
    let idle: Vec<i64> = (0..).take(usize::try_from(ranks)?).filter(|rank| !joined.ranks.contains(rank)).take(MAX_IDLE + 1).collect();
    if idle.len() > MAX_IDLE {
        bail!(
            "{}: rank {last} and only {} traces: more than {MAX_IDLE} ranks are absent; ASTRA-sim counts ranks from 0",
            folder.display(),
            joined.ranks.len()
        );
    }
    for rank in &idle {
        put(args, folder, &format!("{name}.{rank}.et"), &astra::idle_rank())?;
    }
    let workload = Workload { name, ranks, groups: !groups.is_empty(), idle: &idle };
    put(args, folder, file::SYSTEM, astra::system(args.compute == Compute::Roofline).as_bytes())?;
    put(args, folder, file::NETWORK, astra::network(ranks).as_bytes())?;
    put(args, folder, file::MEMORY, astra::memory().as_bytes())?;
    put(args, folder, file::README, astra::readme(&workload).as_bytes())
}

fn put(args: &Merge, folder: &Path, name: &str, content: &[u8]) -> Result<()> {
    let target = Target::new(&folder.join(name), Some(Format::Json), args.how.force)?;
    target.write(|out| out.write_all(content))?;
    Ok(())
}
