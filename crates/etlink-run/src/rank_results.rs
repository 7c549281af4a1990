//! Results per rank, which a cache keeps for later commands and other machines.
//!
//! ```text
//! prepare, shard 0 ──┐
//! prepare, shard 1 ──┼── cache ── the same command, on all ranks
//! prepare, shard 2 ──┘
//! ```
//! A result depends on the rank's files, on options, and on the program, but not on the other ranks.
//! So machines that share a cache can each prepare a [`Shard`], and a command then finds the results
//! of all ranks there. What it does not find, it computes.

use crate::error::RunError;
use crate::prepared::{FailedRank, PreparedShard};
use crate::read_cache::RankKey;
use crate::run::{RankEntry, RunSet, RunSource};
use crate::shard::Shard;
use crate::text;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_chakra::astra::file;
use etlink_model::Failure;
use std::path::PathBuf;

/// Version of the results, increased whenever those of a command change.
const VERSION: u32 = 21;

/// Work of a command per rank.
pub struct RankJob {
    /// Name of the command, such as `analyze`.
    pub command: &'static str,
    /// Options of the command that affect the result, with their values. `None` if results are not
    /// cached because the work also writes files.
    pub settings: Option<Vec<(&'static str, String)>>,
}

impl RunSet {
    /// Calls `job` for every rank without a cached result, as many at a time as fit into memory.
    /// `keep` returns the bytes of a result that stay until all ranks are done, and may drop parts of
    /// the result. Results are in the order of the ranks.
    ///
    /// # Errors
    /// Fails if the kept results do not fit into memory. Fails with [`RunError::Prepared`] if the
    /// results were only to be prepared. Failures of a single rank are its result.
    pub fn rank_results<V>(
        &self,
        work: &RankJob,
        job: impl Fn(RankEntry<'_>) -> Result<V, RunError> + Sync,
        keep: impl Fn(RankEntry<'_>, &mut V) -> u64 + Sync,
    ) -> Result<Vec<Result<V, RunError>>, RunError>
    where
        V: Send + BorshSerialize + BorshDeserialize,
    {
        if let Some(shard) = self.options.prepare {
            return Err(self.prepare_ranks(shard, work, job)?.into());
        }
        let settings = cache_settings(self, work);
        self.map_ranks_retaining(|entry| {
            let mut made = cached_result(entry, settings.as_deref(), || job(entry));
            let kept = made.as_mut().map_or(0, |made| keep(entry, made));
            (made, kept)
        })
    }

    /// Stores the results of `job` for the ranks of a shard in the cache.
    ///
    /// # Errors
    /// Fails if results are not cached, or the cache cannot be written. Failures of a single rank are
    /// in the result.
    pub(crate) fn prepare_ranks<V: BorshSerialize + BorshDeserialize>(
        &self,
        shard: Shard,
        work: &RankJob,
        job: impl Fn(RankEntry<'_>) -> Result<V, RunError> + Sync,
    ) -> Result<PreparedShard, RunError> {
        let refused = |problem: &str| Failure::new(problem);
        let cache = self.options.cache.as_ref();
        let cache = cache
            .ok_or_else(|| refused("--prepare fills a cache: name its folder with --cache"))?;
        let settings = cache_settings(self, work).ok_or_else(|| {
            refused("this command has no results per rank to prepare: leave --prepare out")
        })?;
        let failed = self.map_ranks(|entry| {
            let made = cached_result(entry, Some(&settings), || job(entry));
            made.err().map(|error| failure(entry, &error))
        });
        // ranks that were cancelled before they began did not fail
        self.options.cancellation.check()?;
        if let Some(problem) = cache.usage().problem {
            return Err(refused(&format!("nothing can be prepared: {problem}")).into());
        }
        Ok(PreparedShard {
            shard: shard.index(),
            shards: shard.count(),
            ranks: failed.len(),
            failed: failed.into_iter().flatten().collect(),
        })
    }
}

fn failure(entry: RankEntry<'_>, error: &RunError) -> FailedRank {
    FailedRank {
        name: entry.name(),
        message: text::error_chain(error),
    }
}

/// Returns the cached result of a rank with these settings, or else that of `job`.
pub(crate) fn cached_result<V: BorshSerialize + BorshDeserialize>(
    entry: RankEntry<'_>,
    settings: Option<&[(String, String)]>,
    job: impl FnOnce() -> Result<V, RunError>,
) -> Result<V, RunError> {
    let files = entry.files();
    let (Some(cache), Some(settings)) = (&entry.set.options.cache, settings) else {
        return job();
    };
    let paths = [&files.host, &files.device];
    let more = [&files.flight, &files.inspector, &files.metrics];
    let paths = paths.into_iter().chain(more).chain([&files.graph]);
    let paths = paths.flatten().chain(&files.captures.paths);
    // a written graph is read with its list of groups
    let graph = files.graph.as_ref().or(files.device.as_ref());
    let groups = graph.map(|graph| graph.with_file_name(file::GROUPS));
    let folder = entry.run().folder.display();
    // the trace of another file may state a rank that was not requested
    let asked = if files.rank.is_none() {
        entry.set.options.ranks.as_ref()
    } else {
        None
    };
    let is_alone = entry.is_alone();
    // a time counts from the begin of the run, which depends on the other ranks
    let slice = entry.slice();
    let key = RankKey {
        paths: paths.map(PathBuf::as_path).collect(),
        beside: groups.into_iter().collect(),
        files: format!("{folder}, alone: {is_alone}, asked: {asked:?}, {slice:?}, {files:?}"),
        settings,
    };
    cache.rank_result(&key, || entry.mark_idle(), job)
}

/// Returns all settings that affect a rank's result besides its files; `None` if it is not cached.
pub(crate) fn cache_settings(runs: &RunSet, work: &RankJob) -> Option<Vec<(String, String)>> {
    let how = &runs.options;
    let (_, own) = how.cache.as_ref().zip(work.settings.as_ref())?;
    let alone = (0..runs.runs.len()).map(|run| runs.is_one_rank(run));
    let settings = [
        ("command", work.command.to_owned()),
        ("results", VERSION.to_string()),
        ("source", source_kind(&runs.source).to_owned()),
        ("rank", format!("{:?}", how.rank)),
        ("kept events", format!("{:?}", how.keep)),
        ("only traces", how.traces_only.to_string()),
        ("steps by", format!("{:?}", how.steps_by)),
        ("slice", format!("{:?}", how.slice)),
        ("overhead", format!("{:?}", how.overhead)),
        ("alone", format!("{:?}", Vec::from_iter(alone))),
        ("strict", how.strict.to_string()),
        ("mismatch", how.allow_mismatch.to_string()),
        ("tensor edges", format!("{:?}", how.tensor_deps)),
    ];
    let own = own.iter().cloned();
    Some(
        settings
            .into_iter()
            .chain(own)
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// Names the kind of a source: a single file is read by its kind, a pair as host and device trace.
fn source_kind(source: &RunSource) -> &'static str {
    match source {
        RunSource::Folder(_) => "folder",
        RunSource::File(_) => "file",
        RunSource::Files(_) => "files",
        RunSource::Rank(_) => "pair",
    }
}
