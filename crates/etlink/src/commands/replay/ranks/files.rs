//! The ranks from `.et` files, `<prefix>.<rank>.et`, and the `comm_group.json` beside them.

use super::{Fleet, Member, Stray};
use crate::commands::check::{collect, groups_beside, prefix_and_rank, print_notes};
use anyhow::{Context, Result, bail};
use etlink_chakra::convert::{self, GroupRanks, NodeNames};
use etlink_chakra::read::{self, FileKind};
use etlink_link::ranks::RankSummary;
use etlink_replay::{RankNames, ReplayGraph};
use etlink_run::discover::discover;
use etlink_run::input;
use etlink_run::memory::MemoryBudget;
use etlink_run::run::too_many;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of one run.
pub(in crate::commands) struct Set {
    pub(in crate::commands) prefix: PathBuf,
    pub(in crate::commands) ranks: BTreeMap<i64, PathBuf>,
}

impl Set {
    /// What communicates in the file of `rank`.
    pub(in crate::commands) fn facts(
        &self,
        rank: i64,
        file: &read::ChakraGraph,
        graph: &ReplayGraph,
    ) -> Result<RankSummary> {
        Ok(convert::summarize_rank(rank, file, graph, &self.groups()?))
    }

    /// The groups that are listed beside the files.
    fn groups(&self) -> Result<GroupRanks> {
        let listed = groups_beside(&self.prefix)?.unwrap_or_default();
        Ok(GroupRanks::new(listed, self.ranks.keys().copied()))
    }
}

/// The runs whose `.et` files are in a folder or its subfolders; none where traces are there too,
/// which say more.
pub(in crate::commands) fn find(dir: &Path) -> Result<Vec<Set>> {
    let mut files = vec![];
    let notes = collect(dir, &mut files)?;
    let mut sets: BTreeMap<PathBuf, BTreeMap<i64, PathBuf>> = BTreeMap::new();
    for file in files {
        if let Some((prefix, rank)) = prefix_and_rank(&file) {
            // a packed copy beside the file comes after it
            let ranks = sets.entry(prefix).or_default();
            ranks.entry(rank).or_insert(file);
        }
    }
    if sets.is_empty() || !discover(dir)?.is_empty() {
        return Ok(vec![]);
    }
    print_notes(&notes);
    Ok(sets
        .into_iter()
        .map(|(prefix, ranks)| Set { prefix, ranks })
        .collect())
}

/// Reads them; refuses what does not fit into memory. `strict`: damaged files are left out.
pub(super) fn read(
    sets: &[Set],
    dir: &Path,
    budget: MemoryBudget,
    strict: bool,
) -> Result<Vec<Fleet>> {
    let (mut fleets, mut bytes): (Vec<Fleet>, u64) = (vec![], 0);
    for set in sets {
        let fleet = of_set(set, strict)?;
        bytes = fleet
            .members
            .iter()
            .map(Member::bytes)
            .fold(bytes, u64::saturating_add);
        fleets.push(fleet);
        if bytes > budget.for_ranks() {
            return Err(too_many(
                dir,
                sets.iter().map(|set| set.ranks.len()).sum(),
                budget,
            ));
        }
    }
    Ok(fleets)
}

fn of_set(set: &Set, strict: bool) -> Result<Fleet> {
    let groups = set.groups()?;
    let read: Vec<_> = set
        .ranks
        .par_iter()
        .map(|(rank, path)| (rank, member(*rank, path, &groups, strict)))
        .collect();
    let mut fleet = Fleet {
        name: format!("{}.*.et", set.prefix.display()),
        notes: vec![],
        members: vec![],
        left_out: vec![],
    };
    for (rank, read) in read {
        match read {
            Ok(None) => fleet.notes.push(format!(
                "rank {rank}: its file does nothing, as that of a rank without a trace"
            )),
            Ok(Some((member, notes))) => {
                fleet
                    .notes
                    .extend(notes.into_iter().map(|note| format!("rank {rank}: {note}")));
                fleet.members.push(member);
            }
            Err(error) => fleet.left_out.push(Stray {
                label: rank.to_string(),
                error: Some(format!("{error:#}")),
                why: None,
            }),
        }
    }
    Ok(fleet)
}

fn member(
    rank: i64,
    path: &Path,
    groups: &GroupRanks,
    strict: bool,
) -> Result<Option<(Member, Vec<String>)>> {
    let name = || path.display().to_string();
    let file = read::read(input::open_any(path)?).with_context(name)?;
    if !matches!(file.format, FileKind::ChakraEt | FileKind::ChakraJson) || file.is_empty() {
        bail!(
            "{}: no Chakra nodes in it to run; see `etlink check`",
            path.display()
        );
    }
    if let Some(damage) = file.damage().filter(|_| strict) {
        bail!("{}: refused under --strict: {damage}", path.display());
    }
    if convert::is_idle_rank(&file) {
        return Ok(None);
    }
    let (graph, notes) = convert::replay_graph(&file).with_context(name)?;
    let names = RankNames::from_labels(&NodeNames(&file), graph.len());
    let facts = convert::summarize_rank(rank, &file, &graph, groups);
    Ok(Some((
        Member {
            label: rank.to_string(),
            facts,
            graph,
            names,
            base_ns: file.base_time_ns().unwrap_or(0),
        },
        notes,
    )))
}
