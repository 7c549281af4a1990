//! Mixes ranks of different recorded runs in one folder, under the names of one run: no collective
//! may be joined across runs.
//!
//! `ETLINK_MIXTURES` sets the number of mixtures, `ETLINK_MIXTURE_RUNS` adds folders of runs,
//! separated by `:`.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests"
)]

use etlink_run::{Progress, RunOptions, RunSet, RunSource, input};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Random numbers by SplitMix64 (Steele et al., 2014).
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % most.max(1) as u64) as usize
    }
}

/// A device trace of a recorded run.
struct Recorded {
    /// Folder of its run.
    run: PathBuf,
    rank: usize,
    text: Vec<u8>,
    /// Time base and the first time after it, ns.
    base_ns: i64,
    first_ns: i64,
}

const BASE: &[u8] = b"\"baseTimeNanoseconds\": ";

fn number_at(text: &[u8]) -> i64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| 10 * number + i64::from(digit - b'0'))
}

impl Recorded {
    fn read(run: &Path, path: &Path) -> Option<Recorded> {
        let name = path.file_name()?.to_str()?;
        let rank = name.strip_prefix("kineto_trace_")?.split('.').next()?;
        let rank = rank.parse().ok()?;
        let mut text = vec![];
        let mut opened = input::open(path, &Progress::hidden()).ok()?;
        opened.content.read_to_end(&mut text).ok()?;
        let base = memchr::memmem::find(&text, BASE).map(|at| &text[at + BASE.len()..]);
        let base_ns = base.map_or(0, number_at);
        let times = memchr::memmem::find_iter(&text, b"\"ts\": ");
        let first_us = times
            .map(|at| number_at(&text[at + 6..]))
            .filter(|us| *us > 0);
        Some(Recorded {
            run: run.to_owned(),
            rank,
            base_ns,
            first_ns: 1_000 * first_us.min()?,
            text,
        })
    }

    /// Returns the trace, begun at another time if its times have a base.
    fn begun_at(&self, time_ns: i64) -> Vec<u8> {
        let base = format!("{}", time_ns - self.first_ns);
        let Some(at) = memchr::memmem::find(&self.text, BASE) else {
            return self.text.clone();
        };
        let at = at + BASE.len();
        let digits = self.base_ns.to_string().len();
        [&self.text[..at], base.as_bytes(), &self.text[at + digits..]].concat()
    }
}

/// Reads the ranks of all runs below a folder.
fn read_runs(folder: &Path, found: &mut Vec<Recorded>) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_runs(&path, found);
        } else {
            found.extend(Recorded::read(folder, &path));
        }
    }
}

/// A rank of a mixture: its origin, and whether all ranks of that run begin at one time.
struct Mixed<'r> {
    origin: &'r Recorded,
    begin_ns: Option<i64>,
}

/// Returns the name of the program that a run's folder is named by: `ddp2` of `ddp2_gloo-2.15.0`.
fn program_of(run: &Path) -> Option<&str> {
    run.file_name()?.to_str()?.split(['-', '_']).next()
}

/// Draws ranks of two or three runs.
fn draw_mixture<'r>(runs: &[Vec<&'r Recorded>], draw: &mut Draw) -> BTreeMap<usize, Mixed<'r>> {
    let mut mixture: BTreeMap<usize, Mixed> = BTreeMap::new();
    let moves_times = draw.below(4) > 0;

    let mut used = vec![];
    for _ in 0..2 + draw.below(2) {
        let any = draw.below(runs.len());
        // two runs of one program are the hardest to distinguish
        let program = |run: usize| program_of(&runs[run][0].run);
        let alike = (any..runs.len()).chain(0..any);
        let mut alike = alike.filter(|run| {
            let is_same = |used: &usize| program(*used) == program(*run);
            !used.contains(run) && used.iter().any(is_same)
        });
        let is_alike = draw.below(2) == 0;
        let run = alike.next().filter(|_| is_alike).unwrap_or(any);
        if used.contains(&run) {
            continue;
        }
        used.push(run);
        let own_begin = 1_790_000_000_000_000_000 + draw.below(3_000_000_000) as i64;
        let first_ns = runs[run].iter().map(|one| one.base_ns + one.first_ns).min();
        for origin in &runs[run] {
            if draw.below(3) == 0 {
                continue;
            }
            let keeps = draw.below(4) > 0 && !mixture.contains_key(&origin.rank);
            let free = (0..).find(|rank| !mixture.contains_key(rank)).unwrap_or(0);
            let rank = if keeps { origin.rank } else { free };
            // ranks of one run keep their distance
            let after = origin.base_ns + origin.first_ns - first_ns.unwrap_or(0);
            let begin_ns = moves_times.then_some(own_begin + after);
            mixture.insert(rank, Mixed { origin, begin_ns });
        }
    }
    mixture
}

fn name_of(rank: usize, style: usize) -> String {
    match style {
        0 => format!("kineto_trace_{rank}.json"),
        1 => format!("trace_rank[{rank}].json"),
        2 => format!("r{rank:02}.json"),
        _ => format!("profile_{rank}.json"),
    }
}

/// Joins a mixture. Returns the number of joined collectives, and a text for each wrong one.
fn join_mixture(mixture: &BTreeMap<usize, Mixed>, style: usize) -> (usize, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut origins: BTreeMap<PathBuf, &Recorded> = BTreeMap::new();
    for (rank, mixed) in mixture {
        let text = match mixed.begin_ns {
            Some(begin_ns) => mixed.origin.begun_at(begin_ns),
            None => mixed.origin.text.clone(),
        };
        let path = folder.path().join(name_of(*rank, style));
        std::fs::write(&path, text).expect("writes");
        origins.insert(path, mixed.origin);
    }
    let source = RunSource::Folder(folder.path().to_owned());
    let Ok(runs) = RunSet::open(source, RunOptions::default()) else {
        return (0, vec![]);
    };
    let (mut joined, mut wrong) = (0, vec![]);
    for (run, members) in runs.runs.iter().zip(runs.join()) {
        let Ok(members) = members else { continue };
        let run_of = |rank: i64| {
            let files = run.ranks.iter().find(|files| files.rank == Some(rank));
            let device = files.and_then(|files| files.device.as_ref());
            device.map(|device| origins[device].run.clone())
        };
        let summaries = &members.joined.summaries;
        let matches = members.joined.matches.matches.iter();
        for matched in matches.filter(|matched| matched.is_whole()) {
            let ranks = matched.members.iter();
            let ranks: Vec<i64> = ranks
                .map(|one| summaries[one.rank.index()].rank.0)
                .collect();
            let of_runs: BTreeSet<_> = ranks.iter().map(|rank| run_of(*rank)).collect();
            joined += usize::from(ranks.len() > 1);
            if of_runs.len() > 1 {
                wrong.push(format!("ranks {ranks:?} of {of_runs:?}"));
            }
        }
    }
    (joined, wrong)
}

#[test]
fn ranks_of_different_recorded_runs_are_not_joined() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let mut recorded = vec![];
    for folder in ["pairs", "flight", "gpu/recorder-gloo2", "two-hosts"] {
        read_runs(&testdata.join(folder), &mut recorded);
    }
    let more = std::env::var("ETLINK_MIXTURE_RUNS").unwrap_or_default();
    for folder in more.split(':').filter(|folder| !folder.is_empty()) {
        read_runs(Path::new(folder), &mut recorded);
    }
    let mut by_run: BTreeMap<&Path, Vec<&Recorded>> = BTreeMap::new();
    for one in &recorded {
        by_run.entry(&one.run).or_default().push(one);
    }
    let runs: Vec<Vec<&Recorded>> = by_run.into_values().collect();
    let count = std::env::var("ETLINK_MIXTURES").ok();
    let count: u64 = count.and_then(|count| count.parse().ok()).unwrap_or(20);
    let (mut joined, mut all_wrong) = (0, vec![]);
    for seed in 0..count {
        let mut draw = Draw(seed);
        let mixture = draw_mixture(&runs, &mut draw);
        let (own, wrong) = join_mixture(&mixture, draw.below(4));
        joined += own;
        if let Some(first) = wrong.first() {
            all_wrong.push(format!(
                "seed {seed}: {} wrong, such as {first}",
                wrong.len()
            ));
        }
    }
    println!(
        "{count} mixtures of {} runs: {joined} joined collectives",
        runs.len()
    );
    assert!(
        all_wrong.is_empty(),
        "{}:\n{}",
        all_wrong.len(),
        all_wrong.join("\n")
    );
}
