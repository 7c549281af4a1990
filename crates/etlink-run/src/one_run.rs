//! A source with a single run.

use crate::discover::RunFiles;
use crate::error::RunError;
use crate::joined::JoinedRun;
use crate::run::{JoinedMembers, RankEntry, RunOptions, RunSet, RunSource};
use etlink_model::Failure;

/// The single run of a source.
pub struct Run {
    set: RunSet,
    files: RunFiles,
}

impl Run {
    /// Opens the run of a source, and refuses ranks that do not fit into memory.
    ///
    /// # Errors
    /// Fails like [`RunSet::open`], or if the source has several runs; the error names two of them.
    pub fn open(source: RunSource, options: RunOptions) -> Result<Run, RunError> {
        let set = RunSet::open(source, options)?;
        let files = set.only_run()?.clone();
        Ok(Run { set, files })
    }

    /// Returns the run as a set of one run, to process its ranks in parallel.
    pub fn set(&self) -> &RunSet {
        &self.set
    }

    /// Returns the files of the run.
    pub fn files(&self) -> &RunFiles {
        &self.files
    }

    /// Returns the requested ranks of the run.
    pub fn ranks(&self) -> impl Iterator<Item = RankEntry<'_>> {
        (0..self.set.len()).map(|index| self.set.entry(index))
    }

    /// Returns the rank of a run that has only one.
    ///
    /// # Errors
    /// Fails if the run has several requested ranks, or none.
    pub fn only_rank(&self) -> Result<RankEntry<'_>, RunError> {
        let mut ranks = self.ranks();
        let first = ranks.next().ok_or(RunError::NoRankAsked)?;
        if ranks.next().is_some() {
            let what = format!(" has {} ranks", self.set.len());
            let several = Failure::about(self.set.source_name(), what);
            return Err(several.advise("give the traces of one of them").into());
        }
        Ok(first)
    }

    /// Links all ranks of the run and joins them.
    ///
    /// # Errors
    /// Returns the first error if no rank could be linked.
    pub fn join(&self) -> Result<JoinedRun, RunError> {
        Ok(self.join_members()?.joined)
    }

    /// Like [`Run::join`], and also returns data about the traces.
    ///
    /// # Errors
    /// Returns the first error if no rank could be linked.
    pub fn join_members(&self) -> Result<JoinedMembers, RunError> {
        let mut joined = self.set.join();
        debug_assert_eq!(joined.len(), 1, "a result for each run");
        joined.pop().unwrap_or(Err(RunError::NoRankAsked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn open(folder: &str) -> Result<Run, RunError> {
        let pairs = PathBuf::from("../../testdata/pairs").join(folder);
        Run::open(RunSource::Folder(pairs), RunOptions::default())
    }

    #[test]
    fn one_run_is_opened_and_joined() {
        let run = open("ddp2-2.15.0").expect("one run");
        assert_eq!(run.ranks().count(), 2);
        let refused = run.only_rank().map(|_| ()).expect_err("two ranks");
        assert!(refused.to_string().contains("has 2 ranks"), "{refused}");
        let joined = run.join().expect("both ranks are whole");
        assert_eq!(joined.summaries.len(), 2);
    }

    #[test]
    fn several_runs_are_refused_by_name() {
        let error = open("").map(|_| ()).expect_err("many runs");
        let remedy = error.remedy().expect("names two runs");
        let named = remedy.strip_prefix("give one of them, such as ");
        let (one, other) = named
            .and_then(|named| named.split_once(" or "))
            .expect("two");
        assert!(one < other && Path::new(one).is_dir() && Path::new(other).is_dir());
    }
}
