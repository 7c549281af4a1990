//! Reports in two phases: shards store the results per rank, and the join continues with them.

use super::error::{EarlierPhase, PhaseError, StoredError};
use super::files::{ShardFiles, StoredShard, pack, write_piece};
use super::identity::{PhaseIdentity, RankIdentity};
use super::shard::Shard;
use super::step::{FailedRank, ReportPhase, ReportStep};
use crate::error::RunError;
use crate::memory::gate::keeping;
use crate::read_cache::RankKey;
use crate::run::{RankEntry, RunSet, RunSource};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_chakra::astra::file;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Version of stored results, increased whenever a report's results per rank change.
const VERSION: u32 = 9;

/// Settings of a report's work per rank.
pub struct ReportWork {
    /// Command of the report, such as `analyze`.
    pub command: &'static str,
    /// Options that affect a rank's result, with their values.
    pub settings: Vec<(&'static str, String)>,
    /// Further settings that affect a cached result. `None` if results are not cached because the
    /// work also writes files.
    pub cache_settings: Option<Vec<(&'static str, String)>>,
}

/// Result of a query in phases.
#[derive(Debug)]
pub enum Phased<T> {
    /// The complete report.
    Report(T),
    /// A shard's stored part.
    Stored(ShardResults),
}

/// Report of one shard.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShardResults {
    /// Number of the shard, from 0.
    pub shard: u32,
    /// Number of shards.
    pub shards: u32,
    /// Number of ranks in the shard.
    pub ranks: usize,
    /// Ranks that failed, with their errors.
    pub failed: Vec<FailedRank>,
    /// File with the stored results.
    pub summaries: PathBuf,
}

/// First piece of a shard's file.
#[derive(Serialize, Deserialize)]
struct ShardHead {
    identity: PhaseIdentity,
    /// Per rank, in the order of the following pieces: place among all ranks of the source, and
    /// estimated memory while reading, in bytes.
    ranks: Vec<(usize, u64)>,
}

impl<T> Phased<T> {
    /// Returns the report of a query without shards.
    ///
    /// # Errors
    /// Fails if only a shard's part was stored.
    pub fn whole<E: From<RunError>>(self) -> Result<T, E> {
        match self {
            Phased::Report(report) => Ok(report),
            Phased::Stored(_) => Err(RunError::from(PhaseError::OnlyShard).into()),
        }
    }

    /// Applies `make` to a complete report.
    ///
    /// # Errors
    /// Returns the errors of `make`.
    pub fn and_then<U, E>(self, make: impl FnOnce(T) -> Result<U, E>) -> Result<Phased<U>, E> {
        Ok(match self {
            Phased::Report(report) => Phased::Report(make(report)?),
            Phased::Stored(stored) => Phased::Stored(stored),
        })
    }
}

impl RunSet {
    /// Calls `job` for every rank, in the phase of the options, as many at a time as fit into
    /// memory. `keep` returns the bytes of a result that stay until all ranks are done, and may
    /// drop parts of the result. Results are in the order of the ranks.
    ///
    /// # Errors
    /// Fails if the kept results do not fit into memory, or if a shard cannot be written, is
    /// missing, or ran on other traces or with other options. Failures of a single rank are its
    /// result.
    pub fn rank_results<V>(
        &mut self,
        work: &ReportWork,
        job: impl Fn(RankEntry<'_>) -> Result<V, RunError> + Sync,
        keep: impl Fn(RankEntry<'_>, &mut V) -> u64 + Sync,
    ) -> Result<Phased<Vec<Result<V, RunError>>>, RunError>
    where
        V: Send + BorshSerialize + BorshDeserialize,
    {
        let Some(ReportPhase { folder, step }) = self.options.phase.clone() else {
            let settings = cache_settings(self, work);
            let results = self.map_ranks_retaining(|entry| {
                let mut made = cached_result(entry, settings.as_deref(), &job);
                let kept = made.as_mut().map_or(0, |made| keep(entry, made));
                (made, kept)
            })?;
            return Ok(Phased::Report(results));
        };
        let files = ShardFiles {
            folder: &folder,
            stem: work.command,
            version: VERSION,
        };
        match step {
            ReportStep::Summaries(shard) => self
                .store_results(work, files, shard, job)
                .map(Phased::Stored),
            ReportStep::Join => self.stored_results(work, files, keep).map(Phased::Report),
        }
    }

    /// Stores the results of `job` for the ranks of a shard.
    fn store_results<V: BorshSerialize>(
        &self,
        work: &ReportWork,
        files: ShardFiles<'_>,
        shard: Shard,
        job: impl Fn(RankEntry<'_>) -> Result<V, RunError> + Sync,
    ) -> Result<ShardResults, RunError> {
        // packed at once, so that only the written bytes of a rank are kept
        let packed = self.map_ranks_retaining(|entry| {
            let piece = pack_result(entry, job(entry));
            let bytes = piece.as_ref().map_or(0, |(piece, _)| piece.len() as u64);
            (piece, bytes)
        })?;
        // ranks that were cancelled before they began did not fail
        self.options.cancellation.check()?;
        let head = ShardHead {
            identity: report_identity(self, work),
            ranks: self
                .entries()
                .map(|entry| (entry.place(), entry.memory_bytes()))
                .collect(),
        };
        let (mut pieces, mut failed) = (vec![], vec![]);
        for piece in packed {
            let (piece, failure) = piece.map_err(|source| cannot_store(files, shard, source))?;
            pieces.push(piece);
            failed.extend(failure);
        }
        let summaries = files.write_with(shard, |out| {
            let head = postcard::to_stdvec(&head).map_err(std::io::Error::other)?;
            write_piece(out, &pack(&head)?)?;
            pieces.iter().try_for_each(|piece| write_piece(out, piece))
        })?;
        Ok(ShardResults {
            shard: shard.index(),
            shards: shard.count(),
            ranks: pieces.len(),
            failed,
            summaries,
        })
    }

    /// Returns the results stored by all shards. From then on, the set has all ranks.
    fn stored_results<V: Send + BorshDeserialize>(
        &mut self,
        work: &ReportWork,
        files: ShardFiles<'_>,
        keep: impl Fn(RankEntry<'_>, &mut V) -> u64 + Sync,
    ) -> Result<Vec<Result<V, RunError>>, RunError> {
        self.options.progress.phase("joining");
        let shards = files.all_shards()?;
        let identity = report_identity(self, work);
        let mut bytes: Vec<Option<u64>> = vec![None; identity.ranks.len()];
        for shard in &shards {
            let (head, stored) = read_head(files, *shard)?;
            head.identity
                .check(*shard, EarlierPhase::Summaries, &identity)?;
            for (place, of_rank) in head.ranks {
                let of_shard = if shard.has(place) {
                    bytes.get_mut(place)
                } else {
                    None
                };
                *of_shard.ok_or_else(|| stored.damaged())? = Some(of_rank);
            }
        }
        let places = bytes.iter().position(Option::is_none);
        if let Some(missing) = places.and_then(|place| shards.iter().find(|one| one.has(place))) {
            return Err(read_head(files, *missing)?.1.damaged().into());
        }
        self.take_all(bytes.into_iter().flatten().collect());
        let set = &*self;
        let read = |at: usize| {
            let mut kept = 0u64;
            let results = read_results(files, shards[at], set.len(), |place, made: &mut V| {
                kept = kept.saturating_add(keep(set.entry(place), made));
            });
            (results, kept)
        };
        // the results of a shard are small compared with a trace
        let gate = set.gate_for(vec![0; shards.len()]);
        let of_shards = set.keeping_results(|threads| keeping(&gate, threads, read))?;
        let mut all: Vec<Option<Result<V, RunError>>> = vec![];
        all.resize_with(set.len(), || None);
        for results in of_shards {
            for (place, result) in results? {
                all[place] = Some(result);
            }
        }
        // no place is missing, as checked in the heads
        Ok(all.into_iter().flatten().collect())
    }
}

/// Result of a rank, and its place among all ranks of the source.
type PlacedResult<V> = (usize, Result<V, RunError>);

/// Result of a rank as a piece of a file, and the failure, if it failed.
type PackedResult = (Vec<u8>, Option<FailedRank>);

fn pack_result<V: BorshSerialize>(
    entry: RankEntry<'_>,
    made: Result<V, RunError>,
) -> std::io::Result<PackedResult> {
    let stored = made.map_err(|error| StoredError::from(&error));
    let piece = pack(&borsh::to_vec(&stored)?)?;
    let failed = stored.err().map(|error| FailedRank {
        name: entry.name(),
        message: error.message,
    });
    Ok((piece, failed))
}

fn cannot_store(files: ShardFiles<'_>, shard: Shard, source: std::io::Error) -> RunError {
    PhaseError::CannotStore {
        path: files.path(shard),
        source,
    }
    .into()
}

/// Reads the first piece of a shard's file, and returns the file positioned after it.
fn read_head(files: ShardFiles<'_>, shard: Shard) -> Result<(ShardHead, StoredShard), PhaseError> {
    let mut stored = files.open(shard)?;
    let head = stored.next_piece()?;
    match postcard::from_bytes(&head) {
        Ok(head) => Ok((head, stored)),
        Err(_) => Err(stored.damaged()),
    }
}

/// Reads the results of a shard, with their places below `count`. Calls `keep` for each successful
/// result.
fn read_results<V: BorshDeserialize>(
    files: ShardFiles<'_>,
    shard: Shard,
    count: usize,
    mut keep: impl FnMut(usize, &mut V),
) -> Result<Vec<PlacedResult<V>>, RunError> {
    let (head, mut stored) = read_head(files, shard)?;
    let mut results = vec![];
    for (place, _) in head.ranks {
        // a shard that is repeated meanwhile may have replaced its file
        if place >= count {
            return Err(stored.damaged().into());
        }
        let piece = stored.next_piece()?;
        let result = borsh::from_slice::<Result<V, StoredError>>(&piece);
        let mut result = result.map_err(|_| stored.damaged())?;
        if let Ok(made) = &mut result {
            keep(place, made);
        }
        results.push((place, result.map_err(RunError::from)));
    }
    Ok(results)
}

/// Returns the result of `job` for a rank, or the cached result with the same settings.
fn cached_result<V: BorshSerialize + BorshDeserialize>(
    entry: RankEntry<'_>,
    settings: Option<&[(String, String)]>,
    job: impl Fn(RankEntry<'_>) -> Result<V, RunError>,
) -> Result<V, RunError> {
    let files = entry.files();
    let (Some(cache), Some(settings)) = (&entry.set.options.cache, settings) else {
        return job(entry);
    };
    let paths = [&files.host, &files.device, &files.capture];
    let more = [&files.flight, &files.metrics, &files.graph];
    let paths = paths.into_iter().chain(more).flatten();
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
    cache.rank_result(&key, || entry.mark_idle(), || job(entry))
}

/// Returns all settings that affect a rank's result besides its files; `None` if it is not cached.
fn cache_settings(runs: &RunSet, work: &ReportWork) -> Option<Vec<(String, String)>> {
    let how = &runs.options;
    let (_, own) = how.cache.as_ref().zip(work.cache_settings.as_ref())?;
    let mut settings = report_settings(runs, work);
    settings.retain(|(name, _)| *name != "--ranks");
    settings.extend(own.iter().cloned());
    settings.extend([
        ("command", work.command.to_owned()),
        ("results", VERSION.to_string()),
        ("rank", format!("{:?}", how.rank)),
        ("kept events", format!("{:?}", how.keep)),
        ("only traces", how.traces_only.to_string()),
        ("source", source_kind(&runs.source).to_owned()),
    ]);
    let settings = settings.into_iter();
    Some(
        settings
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

/// Returns the options that affect a report's part, with their values.
fn report_settings(runs: &RunSet, work: &ReportWork) -> Vec<(&'static str, String)> {
    let how = &runs.options;
    let mut settings = vec![
        ("version of etlink", env!("CARGO_PKG_VERSION").to_owned()),
        ("--ranks", format!("{:?}", how.ranks)),
        ("--steps-by", format!("{:?}", how.steps_by)),
        ("--steps or --time", format!("{:?}", how.slice)),
        ("--strict", how.strict.to_string()),
        ("--allow-mismatch", how.allow_mismatch.to_string()),
        ("--tensor-deps", format!("{:?}", how.tensor_deps)),
    ];
    settings.extend(work.settings.iter().cloned());
    settings
}

fn report_identity(runs: &RunSet, work: &ReportWork) -> PhaseIdentity {
    let settings = report_settings(runs, work);
    let mut ranks = vec![];
    for &(run, place) in &runs.listed {
        let files = &runs.runs[run];
        // reports name no outputs of the run
        ranks.push(RankIdentity::new(
            &files.folder,
            "",
            &files.ranks[place],
            &runs.state,
        ));
    }
    PhaseIdentity::new(ranks, settings)
}
