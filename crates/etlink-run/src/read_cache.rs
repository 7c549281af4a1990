//! Cache of parsed traces and of reports' results per rank, so that later commands need not repeat
//! the work.
//!
//! ```text
//! trace ── path, size, time of change, parts read ─────> entry? ─┬─ yes: its tables
//!                                                                └─ no: parse, write an entry
//! rank  ── its files and options, the command ─────────> entry? ─┬─ yes: its result
//!                                                                └─ no: link, analyze, write an entry
//! ```
//! The entry of a trace contains its tables as the reader returned them, so results equal those
//! without a cache. Readers omit unneeded data, so the data for a graph and for a page are separate
//! entries. The entry of a rank is the whole result of a command
//! ([`RunSet::rank_results`](crate::run::RunSet::rank_results)). What is found in a folder is an entry
//! too (`listing.rs`).
//!
//! The cache is a folder on a disk or in an object store; several machines may share it. Files count
//! as unchanged if their size, and their time of change or the store's tag of their content are.
//!
//! The cache never fails a command: unusable entries are parsed again, and [`CacheUsage`] states
//! the reason. Entries are trusted input: only their user may write to the folder.

use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::output::{OutputFormat, Target};
use crate::storage::{self, FileData, StoredKind, is_url, is_web_url};
use crate::text;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_formats::kineto::KinetoReadOptions;
use etlink_model::KeepEvents;
use serde::Serialize;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Version of the tables' layout in entries. Increase it with every change of a table in
/// `etlink_model`; a test checks this.
const LAYOUT: u32 = 10;
/// zstd level: entries are often written and read, so speed matters more than size.
const ZSTD_LEVEL: i32 = 1;
/// Limit on the length of an entry's first line, bytes.
const MOST_KEY_BYTES: u64 = 1 << 20;
/// Age below which a file may change again with the same modification time: file systems count in
/// ticks of milliseconds.
const SETTLING: Duration = Duration::from_millis(100);
/// The same for object stores that state no tags: their times have seconds.
const OBJECT_SETTLING: Duration = Duration::from_secs(2);

/// A folder of parsed traces and results, on a disk or in an object store.
#[derive(Clone, Debug)]
pub struct ReadCache {
    folder: PathBuf,
    usage: Arc<Mutex<CacheUsage>>,
    /// Traces already looked up by this process: a second read finds its own entry.
    met: Arc<Mutex<BTreeSet<PathBuf>>>,
    /// Program whose results are cached; `None` if only parsed traces are.
    build: Option<String>,
    /// True if parsed traces are cached.
    keeps_traces: bool,
}

/// Usage statistics of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Number of trace files found in entries that existed before.
    pub found: u64,
    /// Time when the oldest of these was parsed.
    pub oldest: Option<SystemTime>,
    /// Number of traces that were parsed and stored.
    pub stored: u64,
    /// Number of ranks whose result for a report was found.
    pub found_results: u64,
    /// Time when the oldest of these results was computed.
    pub oldest_result: Option<SystemTime>,
    /// First error of reading or writing an entry.
    pub problem: Option<String>,
    /// Number of damaged entries, which were replaced.
    pub damaged: u64,
    /// The first damaged entry, and its damage.
    pub first_damaged: Option<String>,
}

/// Parts read of a trace. Two readings of the same trace are two entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TraceReading {
    /// A host trace.
    Host {
        /// True if the tensors of nodes were read.
        tensors: bool,
    },
    /// A device trace.
    Device {
        /// True if the shapes of ops were read.
        shapes: bool,
        /// True if allocations were read.
        memory: bool,
        /// True if frames, overheads and annotations of streams were read.
        auxiliary: bool,
    },
}

impl TraceReading {
    /// Returns the reading for options of the device reader; `None` if it keeps the text of all
    /// events, which an entry would only repeat.
    pub(crate) fn of_device(options: KinetoReadOptions) -> Option<TraceReading> {
        let KinetoReadOptions { shapes, keep, .. } = options;
        (keep < KeepEvents::Everything).then_some(TraceReading::Device {
            shapes,
            memory: keep >= KeepEvents::Memory,
            auxiliary: keep >= KeepEvents::Auxiliary,
        })
    }
}

impl ReadCache {
    /// Creates a cache in a folder, which is created on the first write.
    pub fn new(folder: PathBuf) -> ReadCache {
        ReadCache {
            folder,
            usage: Arc::default(),
            met: Arc::default(),
            build: None,
            keeps_traces: true,
        }
    }

    /// Caches no parsed traces, which would be of no use to other machines.
    pub fn without_traces(self) -> ReadCache {
        ReadCache {
            keeps_traces: false,
            ..self
        }
    }

    /// Also caches results of reports per rank. `build` identifies the program, because another one
    /// may compute other results from the same traces.
    pub fn with_results(self, build: String) -> ReadCache {
        ReadCache {
            build: Some(build),
            ..self
        }
    }

    /// Returns true if results are cached, and not only parsed traces.
    pub(crate) fn has_results(&self) -> bool {
        self.build.is_some()
    }

    /// Returns the folder of the cache.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the usage until now, shared by all clones.
    pub fn usage(&self) -> CacheUsage {
        self.lock().clone()
    }

    /// Returns the tables of a trace, from its entry if there is one. Otherwise calls `parse` and
    /// stores its result.
    ///
    /// # Errors
    /// Returns the errors of `parse`.
    pub(crate) fn read<T: BorshSerialize + BorshDeserialize>(
        &self,
        trace: &Path,
        reading: TraceReading,
        parse: impl FnOnce() -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        if !self.keeps_traces {
            return parse();
        }
        let place = trace.canonicalize();
        let name = hash_of(&(place.as_deref().unwrap_or(trace), reading));
        // the name is the same for all states of the trace, so that a new state replaces the old one
        let name = format!("{name:016x}.parsed");
        let key = || first_line(&(LAYOUT, FileState::now(trace)?, reading));
        let (tables, kept) = self.kept(&name, key, || has_settled(trace), parse)?;
        match kept {
            Kept::Found(written) if self.is_first_time(trace) => {
                let mut usage = self.lock();
                usage.found += 1;
                usage.oldest = earlier(usage.oldest, written);
            }
            Kept::Stored => {
                self.is_first_time(trace);
                self.lock().stored += 1;
            }
            Kept::Found(_) | Kept::Made => {}
        }
        Ok(tables)
    }

    /// Returns a report's result for a rank, from its entry if there is one; then calls `found`.
    /// Otherwise calls `make` and stores its result.
    ///
    /// # Errors
    /// Returns the errors of `make`, which are not stored.
    pub(crate) fn rank_result<V: BorshSerialize + BorshDeserialize>(
        &self,
        rank: &RankKey<'_>,
        found: impl FnOnce(),
        make: impl FnOnce() -> Result<V, RunError>,
    ) -> Result<V, RunError> {
        let name = format!("{:016x}.made", hash_of(&(rank.settings, &rank.files)));
        let key = || {
            let beside = rank.beside.iter().filter(|path| storage::exists(path));
            let paths = rank
                .paths
                .iter()
                .copied()
                .chain(beside.map(PathBuf::as_path));
            let states: Option<Vec<FileState>> = paths.map(FileState::now).collect();
            first_line(&(self.build.as_deref()?, states?, &rank.files, rank.settings))
        };
        let (made, kept) = self.kept(&name, key, || rank.has_settled(), make)?;
        if let Kept::Found(written) = kept {
            let mut usage = self.lock();
            usage.found_results += 1;
            usage.oldest_result = earlier(usage.oldest_result, written);
            drop(usage);
            found();
        }
        Ok(made)
    }

    /// Returns what was found in a folder, from its entry if there is one. Otherwise calls `find` and
    /// stores its result. `facts` returns the state of the folder; `None` if it is unknown.
    ///
    /// # Errors
    /// Returns the errors of `find`, which are not stored.
    pub(crate) fn listing<V: BorshSerialize + BorshDeserialize>(
        &self,
        folder: &Path,
        facts: impl Fn() -> Option<String>,
        find: impl FnOnce() -> Result<V, RunError>,
    ) -> Result<V, RunError> {
        // The same relative path is another folder in another working folder.
        let place = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = format!("{:016x}.made", hash_of(&("listing", folder, &place)));
        let key = || first_line(&(self.build.as_deref()?, folder, &place, facts()?));
        Ok(self.kept(&name, key, || true, find)?.0)
    }

    /// Returns the content of an entry with this key, if there is one. Otherwise calls `make`, and
    /// stores its result if the files have settled and the key is the same after it.
    fn kept<V: BorshSerialize + BorshDeserialize>(
        &self,
        name: &str,
        key: impl Fn() -> Option<String>,
        has_settled: impl Fn() -> bool,
        make: impl FnOnce() -> Result<V, RunError>,
    ) -> Result<(V, Kept), RunError> {
        let Some(before) = key() else {
            return Ok((make()?, Kept::Made));
        };
        let entry = self.folder.join(name);
        match read_entry(&entry, &before, |content| borsh::from_slice(content)) {
            Ok(Some((content, written))) => return Ok((content, Kept::Found(written))),
            Ok(None) => {}
            Err(error) => self.note_unread(&entry, &error),
        }
        let made = make()?;
        // files that changed meanwhile match neither state
        if !has_settled() || key().as_ref() != Some(&before) {
            return Ok((made, Kept::Made));
        }
        let content = |out: &mut dyn Write| borsh::to_writer(out, &made);
        if let Err(error) = self.write_entry(&entry, &before, content) {
            self.note_problem(&entry, &error);
            return Ok((made, Kept::Made));
        }
        Ok((made, Kept::Stored))
    }

    fn write_entry(
        &self,
        entry: &Path,
        key: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), RunError> {
        if !is_url(&self.folder) {
            make_own_folder(&self.folder).with_path(FileAction::MakeFolder, &self.folder)?;
        }
        // the format is irrelevant: a target is used to replace the file atomically
        let target = Target::new(entry, Some(OutputFormat::EtPlus), true)?;
        target.write(|out| {
            out.write_all(key.as_bytes())?;
            let mut packed = zstd::Encoder::new(out, ZSTD_LEVEL)?;
            packed.include_checksum(true)?;
            content(&mut packed)?;
            packed.finish()?;
            Ok(())
        })?;
        Ok(())
    }

    /// Returns true if this process has not found or stored a trace before.
    fn is_first_time(&self, trace: &Path) -> bool {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.insert(trace.to_owned())
    }

    fn note_problem(&self, entry: &Path, error: &dyn std::error::Error) {
        let mut usage = self.lock();
        let problem = || {
            if self.folder.exists() && !self.folder.is_dir() {
                format!("{} is a file; name a folder", self.folder.display())
            } else {
                format!("{}: {}", entry.display(), text::error_chain(error))
            }
        };
        usage.problem.get_or_insert_with(problem);
    }

    fn note_unread(&self, entry: &Path, error: &EntryError) {
        let error = match error {
            EntryError::Unread(error) => return self.note_problem(entry, error),
            EntryError::Damaged(error) => error,
        };
        let mut usage = self.lock();
        usage.damaged += 1;
        let first = || format!("{}: {}", entry.display(), text::error_chain(error));
        usage.first_damaged.get_or_insert_with(first);
    }

    fn lock(&self) -> MutexGuard<'_, CacheUsage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Identity of a rank for its entry.
pub(crate) struct RankKey<'r> {
    /// Files of the rank.
    pub(crate) paths: Vec<&'r Path>,
    /// Files that are read with the rank if they exist.
    pub(crate) beside: Vec<PathBuf>,
    /// Facts about the rank that are not in its files.
    pub(crate) files: String,
    /// All other settings that affect the result.
    pub(crate) settings: &'r [(String, String)],
}

impl RankKey<'_> {
    /// Returns true if the next change of any file gives it another state.
    fn has_settled(&self) -> bool {
        let beside = self.beside.iter().map(PathBuf::as_path);
        let beside = beside.filter(|path| storage::exists(path));
        self.paths.iter().copied().chain(beside).all(has_settled)
    }
}

/// Origin of an entry's content.
enum Kept {
    /// An entry, with its time of writing.
    Found(Option<SystemTime>),
    /// Made, and stored in an entry.
    Stored,
    /// Made, and not stored.
    Made,
}

/// State of a file: a changed file has another one.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct FileState {
    place: String,
    bytes: u64,
    changed_ns: u128,
    /// Hash of the tag by which a store identifies the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<u64>,
}

impl FileState {
    /// Returns the current state; `None` if it is not a regular file, or has a database log. A file
    /// of a web server has none either: its URL may contain a secret.
    fn now(path: &Path) -> Option<FileState> {
        if is_web_url(path) {
            return None;
        }
        let data = storage::file_data(path).ok()?;
        let place = if is_url(path) {
            path.to_owned()
        } else {
            path.canonicalize().ok()?
        };
        let has_log = ["-wal", "-journal"].iter().any(|ending| {
            let mut log = place.clone().into_os_string();
            log.push(ending);
            Path::new(&log).exists()
        });
        if has_log || data.kind != StoredKind::File {
            return None;
        }
        let changed = data.changed?.duration_since(UNIX_EPOCH).ok()?;
        Some(FileState {
            place: place.to_str()?.to_owned(),
            bytes: data.bytes,
            changed_ns: changed.as_nanos(),
            tag: data.tag,
        })
    }
}

/// Returns the name of an entry; its first line resolves collisions.
fn hash_of(identity: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    hasher.finish()
}

/// Returns the first line of an entry: all that its content depends on.
fn first_line(key: &impl Serialize) -> Option<String> {
    let key = serde_json::to_string(&(env!("CARGO_PKG_VERSION"), key)).ok()?;
    Some(key + "\n")
}

fn has_settled(path: &Path) -> bool {
    storage::file_data(path).is_ok_and(|data| is_settled(path, &data))
}

/// Returns true if the next change of a file gives it another state: the store states a tag of the
/// content, or the last change is old enough that the next has another time.
pub(crate) fn is_settled(path: &Path, data: &FileData) -> bool {
    let settling = if is_url(path) {
        OBJECT_SETTLING
    } else {
        SETTLING
    };
    // A clock ahead of this machine's, as of a file server, gives a time in the future.
    let age = data.changed.map(|changed| match changed.elapsed() {
        Ok(age) => age,
        Err(future) => future.duration(),
    });
    data.tag.is_some() || age.is_some_and(|age| age >= settling)
}

/// Returns the earlier of two times that may be unknown.
fn earlier(one: Option<SystemTime>, other: Option<SystemTime>) -> Option<SystemTime> {
    one.into_iter().chain(other).min()
}

/// Error of an entry that cannot be used.
#[derive(Debug)]
enum EntryError {
    /// The system cannot read the entry.
    Unread(io::Error),
    /// The content differs from what was written.
    Damaged(io::Error),
}

/// Decodes an entry, and also returns its time of writing; `None` if there is no entry of this
/// state.
fn read_entry<T>(
    entry: &Path,
    key: &str,
    decode: impl FnOnce(&[u8]) -> io::Result<T>,
) -> Result<Option<(T, Option<SystemTime>)>, EntryError> {
    let opened = match storage::open(entry) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(EntryError::Unread)?,
    };
    if opened.data.kind != StoredKind::File {
        return Ok(None);
    }
    let mut stored = BufReader::new(opened.content);
    let mut first = vec![];
    stored
        .by_ref()
        .take(MOST_KEY_BYTES)
        .read_until(b'\n', &mut first)
        .map_err(EntryError::Unread)?;
    if first != key.as_bytes() {
        return if is_key(&first) {
            Ok(None)
        } else {
            Err(EntryError::Damaged(io::Error::other(
                "its first line is cut or overwritten",
            )))
        };
    }
    let decoded = unpacked(stored).and_then(|content| decode(&content));
    let decoded = decoded.map_err(EntryError::Damaged)?;
    Ok(Some((decoded, opened.data.changed)))
}

/// Returns true if a first line may belong to another state or version.
fn is_key(line: &[u8]) -> bool {
    let is_whole = line.ends_with(b"\n");
    is_whole && serde_json::from_slice::<Vec<serde_json::Value>>(line).is_ok()
}

fn unpacked(stored: impl BufRead) -> io::Result<Vec<u8>> {
    let mut content = vec![];
    zstd::Decoder::with_buffer(stored)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Creates a folder that only its user can read: traces name programs and their files.
fn make_own_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input;
    use crate::job::{read_device, read_host};
    use crate::progress::Progress;
    use etlink_link::TensorEdges;
    use etlink_model::{DeviceTrace, HostTrace};
    use std::fs::File;

    const DEVICE: &str = "../../testdata/pairs/ddp2-2.15.0/kineto_trace_0.json.gz";
    const HOST: &str = "../../testdata/pairs/ddp2-2.15.0/torch_et_0.json.gz";
    const READING: TraceReading = TraceReading::Device {
        shapes: true,
        memory: false,
        auxiliary: false,
    };

    fn parse(path: &Path) -> Result<DeviceTrace, RunError> {
        read_device(input::open(path, &Progress::hidden())?, 1, true)
    }

    fn never() -> Result<DeviceTrace, RunError> {
        panic!("it is parsed again")
    }

    /// Returns a cache, and a trace that was modified some time ago.
    fn sample() -> (tempfile::TempDir, ReadCache, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = folder.path().join("trace.json.gz");
        std::fs::copy(DEVICE, &trace).expect("copies");
        age(&trace, 10);
        let cache = ReadCache::new(folder.path().join("cache"));
        (folder, cache, trace)
    }

    fn age(path: &Path, seconds: u64) {
        let file = File::options().append(true).open(path).expect("opens");
        let then = SystemTime::now() - Duration::from_secs(seconds);
        file.set_modified(then).expect("changes its time");
    }

    fn entry_of(cache: &ReadCache) -> PathBuf {
        let mut entries = cache.folder().read_dir().expect("a folder");
        let entry = entries.next().expect("an entry").expect("a name");
        assert!(entries.next().is_none(), "one entry");
        entry.path()
    }

    #[test]
    fn tables_come_back_as_they_were() {
        let (_folder, cache, trace) = sample();
        let parsed = cache.read(&trace, READING, || parse(&trace));
        let parsed = parsed.expect("a trace");
        let again = cache.read(&trace, READING, never).expect("an entry");
        assert_eq!(format!("{parsed:?}"), format!("{again:?}"));
        // its own entry does not count as one of earlier commands
        let usage = cache.usage();
        assert_eq!((usage.stored, usage.found, usage.problem), (1, 0, None));
        let later = ReadCache::new(cache.folder().to_owned());
        for _ in 0..2 {
            later.read(&trace, READING, never).expect("an entry");
        }
        let usage = later.usage();
        assert_eq!((usage.stored, usage.found, usage.problem), (0, 1, None));
        assert!(usage.oldest.is_some());
    }

    #[test]
    fn host_tables_come_back_as_they_were() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = ReadCache::new(folder.path().to_owned());
        let reading = TraceReading::Host { tensors: true };
        let path = Path::new(HOST);
        let parse = || {
            let file = input::open(path, &Progress::hidden())?;
            read_host(file, 1, TensorEdges::Raw)
        };
        let parsed: HostTrace = cache.read(path, reading, parse).expect("a trace");
        let never = || panic!("it is parsed again");
        let again: HostTrace = cache.read(path, reading, never).expect("an entry");
        assert_eq!(format!("{parsed:?}"), format!("{again:?}"));
    }

    #[test]
    fn a_changed_trace_is_parsed_and_replaces_its_entry() {
        let (_folder, cache, trace) = sample();
        cache
            .read(&trace, READING, || parse(&trace))
            .expect("a trace");
        // with the same length
        age(&trace, 5);
        let mut is_parsed = false;
        let parse_again = || {
            is_parsed = true;
            parse(&trace)
        };
        cache.read(&trace, READING, parse_again).expect("a trace");
        assert!(is_parsed);
        entry_of(&cache);
        assert_eq!(cache.usage().found, 0);
    }

    #[test]
    fn what_was_not_read_is_no_entry_of_what_is_asked_for() {
        let (_folder, cache, trace) = sample();
        cache
            .read(&trace, READING, || parse(&trace))
            .expect("a trace");
        let other = TraceReading::Device {
            shapes: true,
            memory: true,
            auxiliary: true,
        };
        cache
            .read(&trace, other, || parse(&trace))
            .expect("a trace");
        assert_eq!((cache.usage().stored, cache.usage().found), (2, 0));
    }

    #[test]
    fn a_trace_that_may_change_in_this_moment_is_not_kept() {
        let (_folder, cache, trace) = sample();
        age(&trace, 0);
        let read = cache.read(&trace, READING, || parse(&trace));
        read.expect("a trace");
        assert_eq!(cache.usage(), CacheUsage::default());
    }

    #[test]
    fn damaged_entries_are_parsed_again_and_said() {
        let (_folder, cache, trace) = sample();
        cache
            .read(&trace, READING, || parse(&trace))
            .expect("a trace");
        let entry = entry_of(&cache);
        let whole = std::fs::read(&entry).expect("reads");
        let tables = whole.iter().position(|byte| *byte == b'\n').expect("a key") + 1;
        // damage before the tables truncates the first line; a change there makes it another state
        let places = [
            tables,
            tables + 9,
            whole.len() / 2,
            whole.len() - 1,
            0,
            tables / 2,
        ];
        for place in places {
            for damaged in [
                whole[..place].to_vec(),
                [&whole[..place], &[!whole[place]], &whole[place + 1..]].concat(),
                [&whole[..place], b"\n"].concat(),
            ] {
                std::fs::write(&entry, damaged).expect("writes");
                let other = ReadCache::new(cache.folder().to_owned());
                let read = other.read(&trace, READING, || parse(&trace));
                read.expect("a trace");
                let usage = other.usage();
                assert_eq!((usage.found, usage.stored), (0, 1), "at {place}");
                assert_eq!((usage.problem, usage.damaged), (None, 1), "at {place}");
                let first = usage.first_damaged.expect("it is said");
                assert!(first.contains(".parsed: "), "{first}");
            }
        }
        cache.read(&trace, READING, never).expect("a whole entry");
    }

    #[test]
    fn a_folder_that_cannot_be_written_fails_nothing() {
        let (_folder, cache, trace) = sample();
        std::fs::write(cache.folder(), "a file").expect("writes");
        let read = cache.read(&trace, READING, || parse(&trace));
        read.expect("a trace");
        let problem = cache.usage().problem.expect("it is said");
        assert!(
            problem.ends_with("cache is a file; name a folder"),
            "{problem}"
        );
    }

    /// Computes or reads a rank's result with some setting, and counts the computations in `calls`.
    fn made(cache: &ReadCache, trace: &Path, setting: &str, calls: &mut u32) -> String {
        let settings = [("setting".to_owned(), setting.to_owned())];
        let key = RankKey {
            paths: vec![trace],
            beside: vec![trace.with_file_name("groups.json")],
            files: String::new(),
            settings: &settings,
        };
        let make = || {
            *calls += 1;
            Ok(format!("made with {setting}"))
        };
        cache.rank_result(&key, || (), make).expect("is made")
    }

    #[test]
    fn results_come_back_for_the_same_files_settings_and_program() {
        let (_folder, cache, trace) = sample();
        let mut calls = 0;
        // a cache without a known program stores no results
        made(&cache, &trace, "a", &mut calls);
        made(&cache, &trace, "a", &mut calls);
        assert_eq!((calls, cache.folder().exists()), (2, false));
        let cache = cache.with_results("one".to_owned());
        for _ in 0..3 {
            assert_eq!(made(&cache, &trace, "a", &mut calls), "made with a");
            assert_eq!(made(&cache, &trace, "b", &mut calls), "made with b");
        }
        assert_eq!((calls, cache.usage().found_results), (4, 4));
        assert!(cache.usage().oldest_result.is_some());
        age(&trace, 5);
        made(&cache, &trace, "a", &mut calls);
        assert_eq!(calls, 5);
        let other = cache.clone().with_results("two".to_owned());
        made(&other, &trace, "a", &mut calls);
        assert_eq!(calls, 6);
        // files that are read with the rank
        let groups = trace.with_file_name("groups.json");
        for (text, made_anew) in [("{}", 7), ("[]", 8)] {
            std::fs::write(&groups, text).expect("writes");
            age(&groups, made_anew);
            made(&other, &trace, "a", &mut calls);
            made(&other, &trace, "a", &mut calls);
            assert_eq!(u64::from(calls), made_anew);
        }
        // a database with a part of its content in a log
        std::fs::write(format!("{}-wal", trace.display()), "rows").expect("writes");
        made(&other, &trace, "a", &mut calls);
        assert_eq!(calls, 9);
    }

    #[test]
    fn damaged_results_are_made_again_and_said() {
        let (_folder, cache, trace) = sample();
        let cache = cache.with_results("one".to_owned());
        let mut calls = 0;
        made(&cache, &trace, "a", &mut calls);
        let entry = entry_of(&cache);
        let whole = std::fs::read(&entry).expect("reads");
        std::fs::write(&entry, &whole[..whole.len() - 3]).expect("writes");
        assert_eq!(made(&cache, &trace, "a", &mut calls), "made with a");
        let first = cache.usage().first_damaged.expect("it is said");
        assert!(calls == 2 && first.contains(".made: "), "{first}");
        made(&cache, &trace, "a", &mut calls);
        assert_eq!(calls, 2);
    }

    /// If this fails, increase [`LAYOUT`], and then update the number. Otherwise entries of other
    /// tables would be accepted.
    #[test]
    fn tables_are_laid_out_as_the_version_says() {
        let mut device = parse(Path::new(DEVICE)).expect("a trace");
        // this depends on the file alone
        device.bytes = 0;
        let stored = borsh::to_vec(&device).expect("stores");
        let mut sum = flate2::Crc::new();
        sum.update(&stored);
        assert_eq!((LAYOUT, sum.sum()), (10, 3_319_960_296));
    }
}
