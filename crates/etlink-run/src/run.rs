//! All ranks of a folder, worked on in parallel within the memory budget.

use crate::discover::{RankFiles, RunFiles, discover};
use crate::job::{JobReport, Refused};
use crate::memory::{MemoryBudget, RankMemory, at_once, in_budget, keeping};
use crate::text::{self, first_ranks};
use anyhow::{Result, bail};
use bytesize::ByteSize;
use etlink_link::LinkedTrace;
use etlink_link::ranks::{ExcludeReason, RankClock, RankSummary, select_run};
use etlink_torch::Ranks;
use std::path::Path;

/// The ranks of a folder and what they take.
pub struct RunSet {
    /// Folders with traces.
    pub runs: Vec<RunFiles>,
    /// Per rank, its run and its place there.
    pub ranks: Vec<(usize, usize)>,
    bytes: Vec<u64>,
    budget: MemoryBudget,
    threads: usize,
    /// Threads for each rank.
    pub threads_each: usize,
}

impl RunSet {
    /// Finds the ranks in `dir`; refuses what does not fit into memory.
    pub fn find(dir: &Path, memory: Option<ByteSize>, threads: usize) -> Result<RunSet> {
        if !dir.is_dir() {
            bail!(
                "{} is not a folder; to link one pair of files use `etlink link`",
                dir.display()
            );
        }
        let runs = discover(dir)?;
        if runs.is_empty() {
            bail!(
                "{}: no host or device traces in it (names such as torch_et_0.json.gz and kineto_trace_0.json.gz)",
                dir.display()
            );
        }
        let places = |(at, run): (usize, &RunFiles)| {
            (0..run.ranks.len())
                .map(move |place| (at, place))
                .collect::<Vec<_>>()
        };
        let ranks: Vec<(usize, usize)> = runs.iter().enumerate().flat_map(places).collect();
        let needs: Vec<RankMemory> = ranks
            .iter()
            .map(|&(run, place)| need(&runs[run].ranks[place], ranks.len()))
            .collect();
        let budget = MemoryBudget::new(memory, threads);
        budget.check(&needs)?;
        let bytes: Vec<u64> = needs.iter().map(|need| need.bytes).collect();
        let threads_each =
            budget.threads_each(ranks.len(), at_once(&bytes, budget.for_ranks(), threads));
        Ok(RunSet {
            runs,
            ranks,
            bytes,
            budget,
            threads,
            threads_each,
        })
    }

    /// A rank's run and files.
    pub fn rank(&self, at: usize) -> (&RunFiles, &RankFiles) {
        let (run, place) = self.ranks[at];
        (&self.runs[run], &self.runs[run].ranks[place])
    }

    /// Whether a rank is the only one of its run.
    pub fn is_alone(&self, at: usize) -> bool {
        self.rank(at).0.ranks.len() == 1
    }

    /// Whether all ranks that are joined with others can stay in memory at once.
    pub fn all_fit(&self) -> bool {
        let joined = (0..self.ranks.len())
            .filter(|at| !self.is_alone(*at))
            .map(|at| self.bytes[at]);
        joined.fold(0u64, u64::saturating_add) <= self.budget.for_ranks()
    }

    /// Does `job` for every rank, by its number; as many at once as fit.
    pub fn each<T: Send>(&self, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
        in_budget(&self.bytes, self.budget.for_ranks(), self.threads, job)
    }

    /// The same where each job says how many bytes of it stay until all ranks are done; refuses what then does not fit.
    pub fn each_kept<T: Send>(
        &self,
        dir: &Path,
        job: impl Fn(usize) -> (T, u64) + Sync,
    ) -> Result<Vec<T>> {
        let all = keeping(&self.bytes, self.budget.for_ranks(), self.threads, job);
        all.ok_or_else(|| too_many(dir, self.ranks.len(), self.budget))
    }
}

/// The graphs of all ranks have to be there at once.
pub fn too_many(dir: &Path, ranks: usize, budget: MemoryBudget) -> anyhow::Error {
    let said = budget.said();
    anyhow::anyhow!(
        "{}: the graphs of all {ranks} ranks do not fit into memory at once, {said}; allow more with --memory, or replay fewer ranks",
        dir.display()
    )
}

/// Whether a rank is among those that were asked for, if any were.
pub fn is_asked(ranks: Option<&Ranks>, rank: Option<i64>) -> bool {
    ranks.is_none_or(|ranks| {
        rank.and_then(|rank| u32::try_from(rank).ok())
            .is_some_and(|rank| ranks.has(rank))
    })
}

/// What one of so many ranks takes; a host trace alone is not read.
fn need(found: &RankFiles, ranks: usize) -> RankMemory {
    let device = found.device.as_deref();
    let need = RankMemory::of(found.host.as_deref().filter(|_| device.is_some()), device);
    if ranks > 1 { need.in_turn() } else { need }
}

/// What `found` has without a device trace.
pub fn no_device(run: &RunFiles, found: &RankFiles) -> anyhow::Error {
    let host = found.host.as_deref().unwrap_or(Path::new("?"));
    let why = if run.notes.is_empty() {
        "without a device trace of the same rank beside it"
    } else {
        "whose device trace is not sure, see the notes,"
    };
    anyhow::anyhow!(
        "{}: a host trace {why} has no times: there is nothing to link",
        host.display()
    )
}

/// Whether a trace is of the run of most in its folder.
pub enum Belongs {
    /// It is.
    Yes,
    /// It is not, for this reason, and is taken in by `--force`.
    Forced(String),
    /// It is not.
    No(String),
}

/// Looks at what is known of the traces of a folder, as `etlink ranks` does: where some tell their rank, those that do not are strange too.
/// With `force` only a second trace of a rank is left out.
pub fn belong(all: &[Option<RankSummary>], force: bool) -> Vec<Belongs> {
    let sure: Vec<RankSummary> = all.iter().flatten().cloned().collect();
    let [mut strange, mut second] =
        [false, true].map(|all| select_run(&sure, all).left_out.into_iter());
    let of = |facts: &Option<RankSummary>| {
        let (why, never) = match facts {
            Some(_) => (
                strange.next().flatten().map(ExcludeReason::describe),
                second.next().flatten().is_some(),
            ),
            None => (
                Some("its rank is not sure".to_owned()).filter(|_| !sure.is_empty()),
                false,
            ),
        };
        match why {
            None => Belongs::Yes,
            Some(why) if never => Belongs::No(why),
            Some(why) if force => Belongs::Forced(by_force(&why)),
            Some(why) => Belongs::No(format!("{why} (--force takes it in)")),
        }
    };
    all.iter().map(of).collect()
}

fn by_force(why: &str) -> String {
    format!("taken in by --force: {why}")
}

/// Notes on the traces that only `--force` takes in, by what they are called.
pub fn taken_in<'l>(all: &[RankSummary], labels: impl IntoIterator<Item = &'l str>) -> Vec<String> {
    let [strange, second] = [false, true].map(|every| select_run(all, every).left_out);
    let all = labels
        .into_iter()
        .zip(strange)
        .zip(second)
        .filter(|(_, second)| second.is_none());
    all.filter_map(|((label, why), _)| {
        Some(format!(
            "{}: {}",
            text::rank(label),
            by_force(&why?.describe())
        ))
    })
    .collect()
}

/// Which ranks of a run have no trace, if any.
pub fn no_trace_of(absent: &[i64]) -> Option<String> {
    (!absent.is_empty()).then(|| format!("no trace of rank {}", first_ranks(absent)))
}

/// Why who came late may be wrong: clocks that nothing tells, and those for which no offset fits.
pub fn clock_notes(clocks: &[RankClock]) -> Vec<String> {
    let unknown = |clock: &&RankClock| clock.uncertainty_ns.is_none() && !clock.by_machine;
    let ranks: Vec<i64> = clocks
        .iter()
        .filter(unknown)
        .map(|clock| clock.rank)
        .collect();
    let by_own = |first: &RankClock| {
        format!(
            "nothing tells how the clock of rank {} lies to that of rank {}: who came late is by their own clocks",
            first_ranks(&ranks),
            first.rank
        )
    };
    let unknown = clocks.first().filter(|_| !ranks.is_empty()).map(by_own);
    let contradicted = clocks.iter().filter(|clock| clock.contradicted).map(|clock| {
        let missed = clock.uncertainty_ns.map_or(String::new(), |missed| format!(" (the nearest misses one by {})", text::time(missed)));
        format!("no offset of the clock of rank {} fits all collectives{missed}: who came late may be wrong", clock.rank)
    });
    unknown.into_iter().chain(contradicted).collect()
}

/// Why nothing can be said of a folder of which no trace could be taken: by the first that was refused, else by the first.
pub fn none_left(mut errors: Vec<anyhow::Error>) -> anyhow::Error {
    let all = errors.len();
    if all == 0 {
        return anyhow::anyhow!("there is no trace of the ranks that --ranks names");
    }
    let error = errors.swap_remove(errors.iter().position(is_refused).unwrap_or(0));
    if all == 1 {
        error
    } else {
        error.context(format!("none of {all} traces could be taken"))
    }
}

/// Whether a trace was refused under `--strict`.
pub fn is_refused(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<Refused>())
}

/// Says the rank that goes for a trace which does not say its own.
pub fn tell_rank(found: &RankFiles, linked: &mut JobReport) {
    linked.report.rank = linked.report.rank.or(found.rank);
}

/// What the others need to know of a rank; `None` where its rank is not sure: then its files are not named by it.
pub fn facts(trace: &LinkedTrace, found: &RankFiles, alone: bool) -> Option<RankSummary> {
    let sure = found
        .rank
        .filter(|rank| alone || found.label == rank.to_string());
    let rank = sure.or(trace.report.rank.or(Some(0)).filter(|_| alone))?;
    let mut facts = RankSummary::of(trace, rank);
    facts.world_size = facts.world_size.or(found.manifest.world_size);
    facts.machine.clone_from(&found.manifest.machine);
    Some(facts)
}
