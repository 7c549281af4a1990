//! The ranks of a folder: traces, or the graphs that `merge` wrote.

use super::{Ran, Report, job, ran};
use crate::commands::replay::ranks::files::{self, Set};
use anyhow::{Result, bail};
use etlink_chakra::convert::is_idle_rank;
use etlink_link::ranks::RankSummary;
use etlink_run::Progress;
use etlink_run::input;
use etlink_run::memory::{MemoryBudget, RankMemory, in_budget};
use etlink_run::run::{self, RunSet};
use ran::Of;
use std::path::{Path, PathBuf};

pub(super) enum Source {
    Traces(RunSet),
    Graphs(Graphs),
}

/// Files named `<prefix>.<rank>.et`.
pub(super) struct Graphs {
    set: Set,
    files: Vec<(i64, PathBuf)>,
    needs: Vec<u64>,
    room: u64,
    threads: usize,
}

impl Source {
    /// Finds one run.
    pub(super) fn find(args: &Report, threads: usize) -> Result<Source> {
        let mut sets = files::find(&args.path)?;
        if let (Some(set), true) = (sets.pop(), sets.is_empty()) {
            return Ok(Source::Graphs(Graphs::new(set, args, threads)?));
        }
        if let Some(first) = sets.first() {
            let (count, one) = (
                sets.len() + 1,
                first.prefix.parent().unwrap_or(Path::new(".")).display(),
            );
            bail!(
                "{} has written graphs of {count} runs: give the folder of one of them, such as {one}",
                args.path.display()
            );
        }
        let fleet = RunSet::find(&args.path, args.memory, threads)?;
        if let [first, second, ..] = &fleet.runs[..] {
            let [one, other] =
                [first, second].map(|run| args.path.join(&run.folder).display().to_string());
            let count = fleet.runs.len();
            bail!(
                "{} has {count} runs, each in its folder: give one of them, such as {one} or {other}",
                args.path.display()
            );
        }
        Ok(Source::Traces(fleet))
    }

    /// How many ranks.
    pub(super) fn len(&self) -> usize {
        match self {
            Source::Traces(fleet) => fleet.ranks.len(),
            Source::Graphs(graphs) => graphs.files.len(),
        }
    }

    /// Does `job` for every rank, by its number; as many at once as fit.
    pub(super) fn each<T: Send>(&self, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
        match self {
            Source::Traces(fleet) => fleet.each(job),
            Source::Graphs(graphs) => in_budget(&graphs.needs, graphs.room, graphs.threads, job),
        }
    }

    /// What a rank is called, and its number as the file's name has it.
    pub(super) fn label(&self, at: usize) -> (String, Option<i64>) {
        match self {
            Source::Traces(fleet) => (fleet.rank(at).1.label.clone(), fleet.rank(at).1.rank),
            Source::Graphs(graphs) => (graphs.files[at].0.to_string(), Some(graphs.files[at].0)),
        }
    }

    /// What is known of the folder.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Source::Traces(fleet) => fleet
                .runs
                .iter()
                .flat_map(|run| run.notes.iter().cloned())
                .collect(),
            Source::Graphs(_) => vec![],
        }
    }

    /// Reads a rank; `None` where its file does nothing, as that of a rank without a trace.
    pub(super) fn ran(&self, at: usize, args: &Report, progress: &Progress) -> Result<Option<Ran>> {
        match self {
            Source::Traces(fleet) => {
                let (run, found) = fleet.rank(at);
                let device = found
                    .device
                    .clone()
                    .ok_or_else(|| run::no_device(run, found))?;
                Ran::traces(
                    &job(args, found.host.clone(), device, fleet.threads_each),
                    progress,
                )
                .map(Some)
            }
            Source::Graphs(graphs) => {
                let (rank, path) = &graphs.files[at];
                let ran = Ran::written(path, input::open(path, 1, progress)?, Some(*rank))?;
                let does_nothing =
                    matches!(&ran.of, Of::Written { file, .. } if is_idle_rank(file));
                Ok((!does_nothing).then_some(ran))
            }
        }
    }

    /// What the others need to know of a rank.
    pub(super) fn facts(&self, at: usize, ran: &Ran) -> Result<Option<RankSummary>> {
        Ok(match (self, &ran.of) {
            (Source::Traces(fleet), Of::Traces(trace)) => {
                run::rank_summary(trace, fleet.rank(at).1, fleet.is_alone(at))
            }
            (Source::Graphs(graphs), Of::Written { file, .. }) if ran.graph().measured => {
                Some(graphs.set.facts(graphs.files[at].0, file, ran.graph())?)
            }
            _ => None,
        })
    }
}

impl Graphs {
    fn new(set: Set, args: &Report, threads: usize) -> Result<Graphs> {
        let files: Vec<(i64, PathBuf)> = set
            .ranks
            .iter()
            .map(|(rank, path)| (*rank, path.clone()))
            .collect();
        let budget = MemoryBudget::new(args.memory, threads);
        let needs: Vec<RankMemory> = files
            .iter()
            .map(|(_, path)| RankMemory::of(None, Some(path)).in_turn())
            .collect();
        budget.check(&needs)?;
        Ok(Graphs {
            set,
            files,
            needs: needs.iter().map(|need| need.bytes).collect(),
            room: budget.for_ranks(),
            threads,
        })
    }
}
