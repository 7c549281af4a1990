//! Reports in two phases: shards store what a report makes of each rank, the join goes on with that.

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

/// Counted up whenever what a report makes of a rank is stored otherwise.
const VERSION: u32 = 8;

/// What a report does with each rank.
pub struct ReportWork {
    /// The report's command: `analyze`.
    pub command: &'static str,
    /// Options that what is made of a rank depends on, with their values.
    pub settings: Vec<(&'static str, String)>,
    /// What else it depends on, where it may come from the cache. `None` of work that also writes
    /// files.
    pub cache_settings: Option<Vec<(&'static str, String)>>,
}

/// What came of a part of a report.
#[derive(Debug)]
pub enum Phased<T> {
    /// It is made.
    Report(T),
    /// A shard's part is stored.
    Stored(ShardResults),
}

/// What a shard did.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShardResults {
    /// Its number, from 0.
    pub shard: u32,
    /// How many there are.
    pub shards: u32,
    /// How many ranks it has.
    pub ranks: usize,
    /// Those that failed, and why.
    pub failed: Vec<FailedRank>,
    /// Where the rest is stored.
    pub summaries: PathBuf,
}

/// What the file of a shard begins with.
#[derive(Serialize, Deserialize)]
struct ShardHead {
    identity: PhaseIdentity,
    /// Of each rank, in the order of the pieces that follow, its place among all of the source and
    /// what it is counted with while it is read, bytes.
    ranks: Vec<(usize, u64)>,
}

impl<T> Phased<T> {
    /// The report, of a query that asks for no shard.
    ///
    /// # Errors
    /// It asks for one: only a part of the report is stored.
    pub fn whole<E: From<RunError>>(self) -> Result<T, E> {
        match self {
            Phased::Report(report) => Ok(report),
            Phased::Stored(_) => Err(RunError::from(PhaseError::OnlyShard).into()),
        }
    }

    /// What `make` makes of what is there.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn and_then<U, E>(self, make: impl FnOnce(T) -> Result<U, E>) -> Result<Phased<U>, E> {
        Ok(match self {
            Phased::Report(report) => Phased::Report(make(report)?),
            Phased::Stored(stored) => Phased::Stored(stored),
        })
    }
}

impl RunSet {
    /// Does `job` for every rank, in the phase that the options name, as many at once as fit into
    /// memory. `keep` says how many bytes of a result stay until all ranks are done, and can give up
    /// a part of it. Results are in the order of the ranks.
    ///
    /// # Errors
    /// What stays does not fit into memory; a shard cannot be written, is missing, or was run on
    /// other traces or with other options. What fails for one rank alone is its result.
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

    /// Stores what `job` makes of each rank of a shard.
    fn store_results<V: BorshSerialize>(
        &self,
        work: &ReportWork,
        files: ShardFiles<'_>,
        shard: Shard,
        job: impl Fn(RankEntry<'_>) -> Result<V, RunError> + Sync,
    ) -> Result<ShardResults, RunError> {
        // packed at once: what stays of a rank is what is written of it
        let packed = self.map_ranks_retaining(|entry| {
            let piece = pack_result(entry, job(entry));
            let bytes = piece.as_ref().map_or(0, |(piece, _)| piece.len() as u64);
            (piece, bytes)
        })?;
        // ranks that were not begun any more did not fail
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

    /// What all shards have stored. The set has all ranks from now on.
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
        // what is read of a shard is small beside what a trace takes
        let gate = set.gate_for(vec![0; shards.len()]);
        let of_shards = set.keeping_results(|threads| keeping(&gate, threads, read))?;
        let mut all: Vec<Option<Result<V, RunError>>> = vec![];
        all.resize_with(set.len(), || None);
        for results in of_shards {
            for (place, result) in results? {
                all[place] = Some(result);
            }
        }
        // all places are there: the heads say so
        Ok(all.into_iter().flatten().collect())
    }
}

/// What came of the rank at a place among all of the source.
type PlacedResult<V> = (usize, Result<V, RunError>);

/// What came of a rank as a piece of a file; why it failed, where it did.
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

/// What the file of a shard begins with, and the file behind that.
fn read_head(files: ShardFiles<'_>, shard: Shard) -> Result<(ShardHead, StoredShard), PhaseError> {
    let mut stored = files.open(shard)?;
    let head = stored.next_piece()?;
    match postcard::from_bytes(&head) {
        Ok(head) => Ok((head, stored)),
        Err(_) => Err(stored.damaged()),
    }
}

/// The results of a shard of so many ranks, with their places; `keep` is given each that did not
/// fail.
fn read_results<V: BorshDeserialize>(
    files: ShardFiles<'_>,
    shard: Shard,
    count: usize,
    mut keep: impl FnMut(usize, &mut V),
) -> Result<Vec<PlacedResult<V>>, RunError> {
    let (head, mut stored) = read_head(files, shard)?;
    let mut results = vec![];
    for (place, _) in head.ranks {
        // a shard that is run again meanwhile can have another file now
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

/// What `job` makes of a rank, which may have been made before with these settings.
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
    // of a written graph the groups are read, too
    let graph = files.graph.as_ref().or(files.device.as_ref());
    let groups = graph.map(|graph| graph.with_file_name(file::GROUPS));
    let folder = entry.run().folder.display();
    let (is_alone, place) = (entry.is_alone(), entry.place());
    let key = RankKey {
        paths: paths.map(PathBuf::as_path).collect(),
        beside: groups.into_iter().collect(),
        files: format!("{folder}, alone: {is_alone}, place: {place}, {files:?}"),
        settings,
    };
    cache.rank_result(&key, || entry.mark_idle(), || job(entry))
}

/// All that what is made of a rank depends on beside its files; `None` where it is not to be cached.
fn cache_settings(runs: &RunSet, work: &ReportWork) -> Option<Vec<(String, String)>> {
    let how = &runs.options;
    let (_, own) = how.cache.as_ref().zip(work.cache_settings.as_ref())?;
    let mut settings = report_settings(runs, work);
    settings.extend(own.iter().cloned());
    settings.extend([
        ("command", work.command.to_owned()),
        ("results", VERSION.to_string()),
        ("rank", format!("{:?}", how.rank)),
        ("kept events", format!("{:?}", how.keep)),
        ("only traces", how.traces_only.to_string()),
        ("ranks of the source", runs.whole_len().to_string()),
        ("source", source_kind(&runs.source).to_owned()),
    ]);
    let settings = settings.into_iter();
    Some(
        settings
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// A file is read as what it is, a pair as a host and a device trace.
fn source_kind(source: &RunSource) -> &'static str {
    match source {
        RunSource::Folder(_) => "folder",
        RunSource::File(_) => "file",
        RunSource::Files(_) => "files",
        RunSource::Rank(_) => "pair",
    }
}

/// Options that a report's part depends on, with their values.
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
        // of its run no output is named
        ranks.push(RankIdentity::new(
            &files.folder,
            "",
            &files.ranks[place],
            &runs.state,
        ));
    }
    PhaseIdentity::new(ranks, settings)
}
