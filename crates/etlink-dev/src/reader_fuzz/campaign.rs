//! One reader and its documents: what is damaged next, and what came of it.

use super::damage::{Damage, Dictionary};
use super::targets::{Outcome, ReaderTarget};
use anyhow::{Context, Result};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// The most documents of a reader that are damaged further.
const MOST_DOCUMENTS: usize = 1_000;
/// A document that takes longer is a finding: it has some kilobytes.
const TOO_LONG: Duration = Duration::from_secs(2);
/// Documents of one panic that are kept.
const KEPT_OF_ONE: usize = 3;

thread_local! {
    /// Where the last panic of this thread was.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
    /// Whether this thread reads a document; other panics are the fuzzer's own.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// Executions under way, with the time at which each began.
static UNDER_WAY: LazyLock<Mutex<BTreeMap<&'static str, Instant>>> = LazyLock::new(Mutex::default);
/// Numbers of executions, so that a reader that goes on is told from one that stands.
static EXECUTIONS: AtomicU64 = AtomicU64::new(0);

pub(super) struct Campaign {
    pub(super) target: &'static ReaderTarget,
    documents: Vec<Vec<u8>>,
    outcomes: BTreeSet<Outcome>,
    dictionary: Dictionary,
    random: fastrand::Rng,
    /// The document that is being read: it is there still if the process ends.
    current: File,
    current_path: PathBuf,
    current_bytes: usize,
    keep: PathBuf,
    findings: BTreeMap<String, usize>,
    /// Findings that the counts have.
    reported: usize,
}

impl Campaign {
    pub(super) fn new(target: &'static ReaderTarget, seed: u64, keep: &Path) -> Result<Campaign> {
        note_panics();
        let documents = (target.seeds)().with_context(|| format!("seeds of {}", target.name))?;
        let name_hash: u64 = target.name.bytes().map(u64::from).sum();
        // in memory where that can be had: it is written before each execution
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory } else { keep };
        let file_name = format!("etlink-fuzz-{}-{}", std::process::id(), target.name);
        let current_path = folder.join(file_name);
        let current =
            File::create(&current_path).with_context(|| current_path.display().to_string())?;
        Ok(Campaign {
            target,
            dictionary: Dictionary::new(&documents),
            documents,
            outcomes: BTreeSet::new(),
            random: fastrand::Rng::with_seed(seed ^ name_hash),
            current,
            current_path,
            current_bytes: 0,
            keep: keep.to_owned(),
            findings: BTreeMap::new(),
            reported: 0,
        })
    }

    pub(super) fn outcome_count(&self) -> usize {
        self.outcomes.len()
    }

    pub(super) fn finding_count(&self) -> usize {
        self.findings.len()
    }

    /// How many findings there are since the last call.
    pub(super) fn take_new_findings(&mut self) -> usize {
        let new = self.findings.len() - self.reported;
        self.reported = self.findings.len();
        new
    }

    /// Reads damaged documents until then, at most so many. How many it were.
    pub(super) fn run_until(&mut self, end: Instant, most: u64) -> Result<u64> {
        let mut executions = 0;
        // the seeds themselves, so that damage to them is known from what they give whole
        if self.outcomes.is_empty() {
            for document in self.documents.clone() {
                self.execute(&document)?;
                executions += 1;
            }
        }
        while executions < most && Instant::now() < end {
            let document = self.next_document();
            self.execute(&document)?;
            executions += 1;
        }
        under_way(|all| all.remove(self.target.name));
        Ok(executions)
    }

    fn next_document(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let document = &self.documents[random.usize(..self.documents.len())];
        let other = &self.documents[random.usize(..self.documents.len())];
        let damage = Damage {
            other,
            dictionary: &self.dictionary,
            keeps_length: self.target.keeps_length,
        };
        damage.apply(document, random)
    }

    /// One execution.
    fn execute(&mut self, document: &[u8]) -> Result<()> {
        self.write_current(document)?;
        let begin = Instant::now();
        under_way(|all| all.insert(self.target.name, begin));
        EXECUTIONS.fetch_add(1, Ordering::Relaxed);
        match self.read(document) {
            Some(outcome) => self.note_outcome(outcome, document),
            None => {
                let place = PANIC.with_borrow(String::clone);
                self.note_finding(&format!("panic at {place}"), document)?;
            }
        }
        // The machine may have been busy: what is slow is slow a second time.
        if begin.elapsed() > TOO_LONG && !self.is_quick(document) {
            self.note_finding("takes too long", document)?;
        }
        Ok(())
    }

    /// What the reader makes of a document; `None` where it panics.
    fn read(&self, document: &[u8]) -> Option<Outcome> {
        IS_READING.set(true);
        let read = || (self.target.read)(document, &self.current_path);
        let outcome = catch_unwind(AssertUnwindSafe(read));
        IS_READING.set(false);
        outcome.ok()
    }

    fn is_quick(&self, document: &[u8]) -> bool {
        let (begin, used) = (Instant::now(), thread_time());
        self.read(document);
        // without the time in which other programs had the core
        let took = used.and_then(|used| Some(thread_time()? - used));
        took.unwrap_or_else(|| begin.elapsed()) <= TOO_LONG
    }

    fn write_current(&mut self, document: &[u8]) -> Result<()> {
        let place = &self.current_path;
        let named = || place.display().to_string();
        self.current.seek(SeekFrom::Start(0)).with_context(named)?;
        self.current.write_all(document).with_context(named)?;
        if document.len() != self.current_bytes {
            let length = document.len() as u64;
            self.current.set_len(length).with_context(named)?;
            self.current_bytes = document.len();
        }
        Ok(())
    }

    fn note_outcome(&mut self, outcome: Outcome, document: &[u8]) {
        let is_new = self.outcomes.insert(outcome);
        if !is_new || document.is_empty() {
            return;
        }
        if self.documents.len() < MOST_DOCUMENTS {
            self.documents.push(document.to_vec());
        } else {
            let place = self.random.usize(..self.documents.len());
            self.documents[place] = document.to_vec();
        }
    }

    fn note_finding(&mut self, what: &str, document: &[u8]) -> Result<()> {
        let count = self.findings.entry(what.to_owned()).or_default();
        *count += 1;
        if *count <= KEPT_OF_ONE {
            let number = self.findings.values().sum::<usize>();
            let path = self.keep.join(format!("{}-{number}", self.target.name));
            println!("{}: {what}: {}", self.target.name, path.display());
            std::fs::write(&path, document).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.current_path));
    }
}

/// How long this thread has run, where the system says so (`schedstat` of Linux).
fn thread_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn under_way<T>(action: impl FnOnce(&mut BTreeMap<&'static str, Instant>) -> T) -> T {
    action(&mut UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Keeps the place of a panic in place of printing it: one fault panics thousands of times.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_READING.get() {
                return print(panic);
            }
            let place = panic.location().map(ToString::to_string);
            let place = place.unwrap_or_else(|| "an unknown place".to_owned());
            PANIC.with_borrow_mut(|last| *last = place);
        }));
    });
}

/// Ends the process where a document is read for longer than `limit`. The file with the document
/// stays, and is named.
pub(super) fn watch_for_endless(running: &AtomicBool, limit: Duration) {
    while running.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(500));
        let oldest = under_way(|all| {
            let begins = all.iter().map(|(name, begin)| (*begin, *name));
            begins.min()
        });
        if let Some((begin, name)) = oldest
            && begin.elapsed() > limit
        {
            eprintln!(
                "{name}: no end after {limit:?}: the document is /dev/shm/etlink-fuzz-{}-{name}",
                std::process::id()
            );
            std::process::abort();
        }
    }
}
