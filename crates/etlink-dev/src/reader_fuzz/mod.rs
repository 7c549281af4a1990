//! `cargo dev fuzz-readers`: millions of small damaged documents at each reader by itself.
//!
//! ```text
//! seeds ─> documents ─ damage ─> read ─┬─ panic, no end, too much memory: a finding
//!              ^                       │
//!              └── what came out new ──┘
//! ```
//! `cargo dev fuzz` takes whole recordings through everything, some a second. Here a document has
//! some hundred bytes and meets one reader. An execution is one document read once. A document whose
//! outcome is new (another error, other anomalies, other numbers of rows) is damaged further.

mod campaign;
mod damage;
mod seeds;
mod targets;

use anyhow::{Context, Result, bail, ensure};
use campaign::Campaign;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use targets::{ReaderTarget, TARGETS};

/// A reader is fuzzed for so long before the next has its turn.
const TURN: Duration = Duration::from_secs(5);
/// A document that takes longer than this has no end.
const NO_END: Duration = Duration::from_secs(120);
/// No document of some kilobytes needs more.
#[cfg(unix)]
const MOST_MEMORY: u64 = 4 << 30;

/// `cargo dev fuzz-readers`.
#[derive(Debug, clap::Args)]
pub struct ReaderFuzzOptions {
    /// Readers, such as kineto,host [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// How long
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// Readers that are fuzzed side by side
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// A reader has had enough of so many executions, with those of earlier runs
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    enough: u64,
    /// All that is random comes from it [default: the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Table of executions per reader; those of earlier runs that stand in it are added to
    #[arg(long, value_name = "FILE")]
    counts: Option<PathBuf>,
    /// Folder for documents that are findings
    #[arg(long, value_name = "DIR", default_value = "target/fuzz/readers")]
    keep: PathBuf,
    /// Read these documents once, by the one reader that `--only` names, and end
    #[arg(value_name = "FILE", requires = "only")]
    documents: Vec<PathBuf>,
}

/// What became of a reader so far.
#[derive(Clone, Debug, Default)]
struct ReaderCounts {
    executions: u64,
    seconds: f64,
    outcomes: usize,
    findings: usize,
}

/// The readers that wait for their turn, and the counts of all.
#[derive(Default)]
struct Schedule {
    waiting: Vec<Campaign>,
    counts: BTreeMap<String, ReaderCounts>,
}

/// Fuzzes until the time is over or all readers have had enough.
pub fn fuzz_readers(options: &ReaderFuzzOptions) -> Result<()> {
    let targets = wanted_targets(&options.only)?;
    if !options.documents.is_empty() {
        return read_documents(&targets, &options.documents);
    }
    limit_memory()?;
    std::fs::create_dir_all(&options.keep).with_context(|| options.keep.display().to_string())?;
    let seed = options.seed.unwrap_or_else(clock_seed);
    println!("seed {seed}");
    let mut schedule = Schedule {
        counts: read_counts(options.counts.as_deref())?,
        ..Schedule::default()
    };
    for target in targets {
        let campaign = Campaign::new(target, seed, &options.keep)?;
        schedule.counts.entry(target.name.to_owned()).or_default();
        schedule.waiting.push(campaign);
    }
    let running = AtomicBool::new(true);
    let schedule = Mutex::new(schedule);
    let end = Instant::now() + Duration::from_secs(options.seconds);
    std::thread::scope(|scope| -> Result<()> {
        let jobs: Vec<_> = (0..options.jobs.max(1))
            .map(|_| scope.spawn(|| alone(|| take_turns(&schedule, end, options))))
            .collect();
        scope.spawn(|| campaign::watch_for_endless(&running, NO_END));
        for job in jobs {
            job.join()
                .unwrap_or_else(|_| bail!("a job of the fuzzer panicked"))?;
        }
        running.store(false, Ordering::Relaxed);
        Ok(())
    })?;
    let schedule = schedule
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    print!("{}", table_of(&schedule.counts));
    let findings: usize = schedule.waiting.iter().map(Campaign::finding_count).sum();
    ensure!(
        findings == 0,
        "{findings} findings; their documents are in {}",
        options.keep.display()
    );
    Ok(())
}

/// Does what rayon does in it on this thread: to wake another takes longer than to read a small
/// document.
fn alone(action: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
    pool.use_current_thread().build()?.install(action)
}

/// One job: the reader that had the least time is next.
fn take_turns(schedule: &Mutex<Schedule>, end: Instant, options: &ReaderFuzzOptions) -> Result<()> {
    while Instant::now() < end {
        let Some(mut campaign) = take_next(&mut lock(schedule), options.enough) else {
            return Ok(());
        };
        let name = campaign.target.name;
        let done = lock(schedule).counts[name].executions;
        let turn = end.min(Instant::now() + TURN);
        let begin = Instant::now();
        let executions = campaign.run_until(turn, options.enough.saturating_sub(done))?;
        let mut schedule = lock(schedule);
        if let Some(counts) = schedule.counts.get_mut(name) {
            counts.executions += executions;
            counts.seconds += begin.elapsed().as_secs_f64();
            counts.outcomes = campaign.outcome_count();
            counts.findings += campaign.take_new_findings();
        }
        schedule.waiting.push(campaign);
        if let Some(path) = &options.counts {
            std::fs::write(path, table_of(&schedule.counts))
                .with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

fn take_next(schedule: &mut Schedule, enough: u64) -> Option<Campaign> {
    let counts = &schedule.counts;
    let wants_more = |campaign: &&Campaign| counts[campaign.target.name].executions < enough;
    let next = schedule.waiting.iter().filter(wants_more).min_by(|a, b| {
        let seconds = |campaign: &Campaign| counts[campaign.target.name].seconds;
        seconds(a).total_cmp(&seconds(b))
    })?;
    let name = next.target.name;
    let place = schedule
        .waiting
        .iter()
        .position(|campaign| campaign.target.name == name)?;
    Some(schedule.waiting.swap_remove(place))
}

fn lock(schedule: &Mutex<Schedule>) -> MutexGuard<'_, Schedule> {
    schedule.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads documents, such as those of findings, without catching what they do.
fn read_documents(targets: &[&ReaderTarget], documents: &[PathBuf]) -> Result<()> {
    let [target] = targets else {
        bail!("name the one reader of the documents with --only");
    };
    for path in documents {
        let document = std::fs::read(path).with_context(|| path.display().to_string())?;
        let begin = Instant::now();
        let outcome = (target.read)(&document, path);
        println!("{}: {outcome:?} in {:?}", path.display(), begin.elapsed());
    }
    Ok(())
}

fn wanted_targets(names: &[String]) -> Result<Vec<&'static ReaderTarget>> {
    let is_known = |name: &&String| TARGETS.iter().any(|target| target.name == **name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        let all: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        bail!(
            "there is no reader {name:?}; readers are {}",
            all.join(", ")
        );
    }
    let is_wanted = |target: &&ReaderTarget| names.iter().any(|name| name == target.name);
    Ok(TARGETS
        .iter()
        .filter(|target| names.is_empty() || is_wanted(target))
        .collect())
}

fn clock_seed() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// An allocation of what a document claims ends the process: its document stays in the file that
/// [`campaign`] writes before each execution.
#[cfg(unix)]
fn limit_memory() -> Result<()> {
    use nix::sys::resource::{Resource, setrlimit};
    setrlimit(Resource::RLIMIT_AS, MOST_MEMORY, MOST_MEMORY).context("cannot limit the memory")
}

#[cfg(not(unix))]
fn limit_memory() -> Result<()> {
    Ok(())
}

const COLUMNS: &str = "reader executions seconds per_second outcomes findings";

fn table_of(counts: &BTreeMap<String, ReaderCounts>) -> String {
    let mut table = format!("{COLUMNS}\n");
    for (name, count) in counts {
        let rate = count.executions as f64 / count.seconds.max(1e-9);
        let _ = writeln!(
            table,
            "{name} {} {:.0} {rate:.0} {} {}",
            count.executions, count.seconds, count.outcomes, count.findings
        );
    }
    table
}

fn read_counts(path: Option<&Path>) -> Result<BTreeMap<String, ReaderCounts>> {
    let mut counts = BTreeMap::new();
    let Some(path) = path.filter(|path| path.exists()) else {
        return Ok(counts);
    };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    for line in text.lines().skip(1) {
        let fields: Vec<_> = line.split(' ').collect();
        let [name, executions, seconds, _, outcomes, findings] = fields[..] else {
            bail!("{}: {line:?} is no line of counts", path.display());
        };
        let count = ReaderCounts {
            executions: executions.parse()?,
            seconds: seconds.parse()?,
            outcomes: outcomes.parse()?,
            findings: findings.parse()?,
        };
        counts.insert(name.to_owned(), count);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readers of several formats, of which a seed is one: the others refuse it.
    const TRIED_AS_SEVERAL: [&str; 2] = ["manifest", "rules"];

    #[test]
    fn seeds_are_read_and_damaged_ones_end_well() {
        // seeds lie in the repository
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::env::set_current_dir(root).expect("there is a repository");
        let keep = tempfile::tempdir().expect("a folder");
        for target in &TARGETS {
            let seeds = (target.seeds)().expect("seeds");
            assert!(!seeds.is_empty(), "{}", target.name);
            let path = keep.path().join("seed");
            for seed in seeds {
                std::fs::write(&path, &seed).expect("writes");
                let outcome = (target.read)(&seed, &path);
                let is_tried = TRIED_AS_SEVERAL.contains(&target.name);
                let shown = String::from_utf8_lossy(&seed);
                assert!(outcome.is_read || is_tried, "{}: {shown}", target.name);
            }
            let mut campaign = Campaign::new(target, 7, keep.path()).expect("begins");
            let end = Instant::now() + Duration::from_secs(60);
            let executions = campaign.run_until(end, 60).expect("runs");
            assert!(executions >= 60, "{}: {executions}", target.name);
            assert_eq!(campaign.finding_count(), 0, "{}", target.name);
        }
    }
}
