//! `etlink merge`: every rank of a folder, in parallel, one output each or one of all, joined with
//! the others of its run.
//!
//! What a rank's file says of its communications and times depends on all ranks. So all are linked
//! first, and of each is kept what the join needs. Where all linked traces fit into the memory
//! budget they are kept too; else each is linked once more to be written.

mod earlier;
mod joined;
mod show;
mod simulator;
mod timeline;

use super::{print, print_json, threads};
use crate::Outcome;
use crate::args::{Format, Merge};
use anyhow::{Result, bail};
use earlier::Earlier;
use etlink_chakra::TracePart;
use etlink_kineto::KeepEvents;
use etlink_link::LinkedTrace;
use etlink_link::ranks::RankSummary;
use etlink_run::Progress;
use etlink_run::discover::{RankFiles, RunFiles};
use etlink_run::job::{self, JobReport, LinkJob, RankContext};
use etlink_run::output::{self, FileSet, Piece, Target};
use etlink_run::run::{self, RunSet};
use joined::Joined;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What became of one rank.
#[derive(Serialize)]
struct Rank {
    run: String,
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    linked: Option<JobReport>,
    #[serde(skip)]
    known: Option<Known>,
    /// Its part of the timeline.
    #[serde(skip)]
    piece: Option<Piece>,
    /// Of a rank that has nobody to join with: how that went.
    #[serde(skip)]
    alone: Option<Joined>,
}

/// What is kept of a rank until all are linked.
struct Known {
    facts: RankSummary,
    sizes: Vec<Option<i64>>,
    trace: Option<LinkedTrace>,
}

/// Everything that is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    ranks: &'a [Rank],
    runs: &'a [Joined],
}

pub fn run(args: Merge) -> Result<Outcome> {
    let threads = threads(args.how.threads)?;
    args.how.form(args.how.output_format())?;
    if args.simulator.is_some() && !is_et(&args) {
        bail!("--for astra-sim writes .et files: leave --format out");
    }
    let fleet = RunSet::find(&args.dir, args.how.memory, threads)?;
    let (sets, earlier) = file_sets(&args, &fleet)?;
    let progress = crate::progress::bar();
    progress.phase("linking");
    let merge = Merging {
        hold: fleet.all_fit(),
        args,
        fleet,
        sets,
        earlier,
        progress,
    };
    let mut ranks = merge.fleet.each(|at| merge.link(at));
    let mut runs = merge.join(&mut ranks);
    for (run, joined) in merge.fleet.runs.iter().zip(&runs) {
        simulator::check(&merge.args, &merge.args.output.join(&run.folder), joined)?;
    }
    let written = merge
        .fleet
        .each(|at| merge.write_joined(&runs, at, &ranks[at]));
    for (rank, written) in ranks.iter_mut().zip(written) {
        rank.take(written);
    }
    let side_files = merge
        .write_beside(&ranks, &runs)
        .and_then(|()| merge.write_timelines(&mut ranks, &mut runs));
    merge.progress.finish();
    let replaced = side_files.and_then(|()| merge.replace(&mut ranks, &mut runs));
    // what failed is said below, before why nothing was replaced
    let unfit = match replaced {
        Err(error) if !error.is::<Unfit>() => return Err(error),
        replaced => replaced,
    };
    let printed = if merge.args.how.json {
        print_json(&Report {
            ranks: &ranks,
            runs: &runs,
        })
    } else {
        print(&show::summary(&merge.fleet.runs, &ranks, &runs))
    };
    unfit?;
    printed?;
    let bad = ranks.iter().any(Rank::is_bad);
    let unused = (merge.args.simulator.is_some() || merge.is_timeline())
        && runs.iter().any(|run| !run.left_out.is_empty());
    Ok(if bad || unused {
        Outcome::Found
    } else {
        Outcome::Done
    })
}

/// What each run writes. Makes the folders and refuses what is there already, before any work is
/// done.
fn file_sets(args: &Merge, fleet: &RunSet) -> Result<(Vec<FileSet>, Vec<Earlier>)> {
    let (mut sets, mut all_earlier) = (vec![], vec![]);
    for run in &fleet.runs {
        let set = FileSet::new(&args.output.join(&run.folder), args.how.force)?;
        for name in simulator::names(args) {
            set.target(name, output::Format::Json)?;
        }
        timeline::target(args, &set).transpose()?;
        let earlier = if args.how.force {
            let timeline = timeline::file_name(args);
            Earlier::find(args, set.folder(), &name(args, run), timeline)?
        } else {
            Earlier::default()
        };
        sets.push(set);
        all_earlier.push(earlier);
    }
    Ok((sets, all_earlier))
}

/// Not all ranks of a run were written, and an earlier run's files are of more: those stay.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: nothing was replaced: {failed} of its ranks failed, and {file} of an earlier run would \
    be lost: mend the \
     traces, write to another folder, or remove the file",
    folder.display()
)]
struct Unfit {
    folder: PathBuf,
    failed: usize,
    file: String,
}

fn is_et(args: &Merge) -> bool {
    matches!(args.how.format, Some(Format::Et) | None)
}

struct Merging {
    args: Merge,
    fleet: RunSet,
    /// By run.
    sets: Vec<FileSet>,
    /// By run; nothing without `--force`.
    earlier: Vec<Earlier>,
    /// Linked traces are kept until all ranks are linked.
    hold: bool,
    progress: Progress,
}

impl Merging {
    /// Links a rank; writes it where that does not depend on others.
    fn link(&self, at: usize) -> Rank {
        let (run, found) = self.fleet.rank(at);
        let mut rank = Rank {
            run: run.folder.display().to_string(),
            label: found.label.clone(),
            error: None,
            linked: None,
            known: None,
            piece: None,
            alone: None,
        };
        if let Err(error) = self.try_link(at, &mut rank) {
            (rank.linked, rank.error, rank.known) = (None, Some(format!("{error:#}")), None);
        }
        rank
    }

    fn try_link(&self, at: usize, rank: &mut Rank) -> Result<()> {
        let (_, found) = self.fleet.rank(at);
        let job = self.job(at)?;
        let (trace, mut linked) = job::link(&job, &self.progress)?;
        run::tell_rank(found, &mut linked);
        let alone = self.fleet.is_alone(at);
        let facts = run::rank_summary(&trace, found, alone).filter(|_| !linked.refused);
        if let Some(facts) = facts {
            let sizes = etlink_chakra::simulated_sizes(&trace, &facts);
            rank.known = Some(Known {
                facts,
                sizes,
                trace: None,
            });
        }
        if self.is_by_itself(rank, alone) {
            job::write_out(
                &trace,
                &job,
                RankContext::default(),
                &self.progress,
                &mut linked,
            )?;
        } else if alone {
            let joined = Joined::of(&self.args, &rank.run, &[&*rank]);
            rank.piece = self.write_rank(&trace, &job, &joined, &rank.label, &mut linked)?;
            rank.alone = Some(joined);
        } else if let Some(known) = rank.known.as_mut().filter(|_| self.hold) {
            known.trace = Some(trace);
        }
        rank.linked = Some(linked);
        Ok(())
    }

    /// Whether what is written of a rank depends on no other.
    fn is_by_itself(&self, rank: &Rank, alone: bool) -> bool {
        let silent = rank
            .known
            .as_ref()
            .is_some_and(|known| known.facts.communications.is_empty());
        match self.args.how.format {
            Some(Format::Json) => true,
            Some(Format::Perfetto | Format::Pftrace) => false,
            Some(Format::Et) | None => silent && !alone && self.args.simulator.is_none(),
        }
    }

    fn is_timeline(&self) -> bool {
        self.args
            .how
            .output_format()
            .is_some_and(|format| format.for_perfetto().is_some())
    }

    /// Writes what depends on the other ranks.
    fn write_rank(
        &self,
        trace: &LinkedTrace,
        job: &LinkJob,
        joined: &Joined,
        label: &str,
        linked: &mut JobReport,
    ) -> Result<Option<Piece>> {
        if self.is_timeline() {
            return self.write_part(trace, job, joined, label, linked);
        }
        job::write_out(
            trace,
            job,
            joined.among(&self.args, label),
            &self.progress,
            linked,
        )?;
        Ok(None)
    }

    fn job(&self, at: usize) -> Result<LinkJob> {
        let (run, found) = self.fleet.rank(at);
        let how = &self.args.how;
        Ok(LinkJob {
            capture: None,
            host: found.host.clone(),
            device: found
                .device
                .clone()
                .ok_or_else(|| run::no_device(run, found))?,
            // a rank that only tells files apart need not be the process's rank
            rank: None,
            target: Some(self.target(at)?),
            form: how.form(how.output_format())?.with(part(&self.args)),
            tensor_deps: how.tensor_deps.into(),
            keep: KeepEvents::Graph,
            threads: self.fleet.threads_each,
            strict: how.strict,
            force: how.force,
        })
    }

    /// Where a rank is written, or its part of a timeline.
    fn target(&self, at: usize) -> Result<Target> {
        let (run, found) = self.fleet.rank(at);
        let set = &self.sets[self.fleet.ranks[at].0];
        if let Some(timeline) = timeline::target(&self.args, set) {
            return timeline;
        }
        let format = self.args.how.output_format();
        let format = format.unwrap_or(output::Format::Et);
        set.target(&self.file_name(run, found), format)
    }

    /// Joins the ranks of each run.
    fn join(&self, ranks: &mut [Rank]) -> Vec<Joined> {
        let of_run = |(run, _): (usize, &RunFiles)| {
            let places: Vec<usize> = (0..ranks.len())
                .filter(|at| self.fleet.ranks[*at].0 == run)
                .collect();
            if let [only] = places[..]
                && let Some(joined) = ranks[only].alone.take()
            {
                return joined;
            }
            let members: Vec<&Rank> = places.iter().map(|at| &ranks[*at]).collect();
            Joined::of(
                &self.args,
                &self.fleet.runs[run].folder.display().to_string(),
                &members,
            )
        };
        self.fleet.runs.iter().enumerate().map(of_run).collect()
    }

    /// Writes a rank that waited for the others; gives what is new of it.
    fn write_joined(
        &self,
        runs: &[Joined],
        at: usize,
        rank: &Rank,
    ) -> Option<Result<(JobReport, Option<Piece>)>> {
        let linked = rank
            .linked
            .as_ref()
            .filter(|linked| linked.output.is_none() && !linked.refused && rank.piece.is_none())?;
        let joined = &runs[self.fleet.ranks[at].0];
        if (self.is_timeline() || self.args.simulator.is_some()) && !joined.has(&rank.label) {
            return None;
        }
        Some(self.try_write(at, rank, joined, linked.seconds))
    }

    fn try_write(
        &self,
        at: usize,
        rank: &Rank,
        joined: &Joined,
        before: job::JobSeconds,
    ) -> Result<(JobReport, Option<Piece>)> {
        let mut job = self.job(at)?;
        if let (Some(trace), Some(linked)) = (
            rank.known.as_ref().and_then(|known| known.trace.as_ref()),
            &rank.linked,
        ) {
            let mut linked = linked.clone();
            let piece = self.write_rank(trace, &job, joined, &rank.label, &mut linked)?;
            return Ok((linked, piece));
        }
        // what was said the first time goes
        job.strict = false;
        let (trace, mut linked) = job::link(&job, &self.progress)?;
        run::tell_rank(self.fleet.rank(at).1, &mut linked);
        let piece = self.write_rank(&trace, &job, joined, &rank.label, &mut linked)?;
        linked.seconds.read += before.read;
        linked.seconds.link += before.link;
        Ok((linked, piece))
    }

    /// Writes what stands beside the ranks' files.
    fn write_beside(&self, ranks: &[Rank], runs: &[Joined]) -> Result<()> {
        if !is_et(&self.args) {
            return Ok(());
        }
        for (at, (run, joined)) in self.fleet.runs.iter().zip(runs).enumerate() {
            if self.ranks_of(at, ranks).any(|rank| rank.output().is_some()) {
                simulator::write(&self.args, &self.sets[at], &name(&self.args, run), joined)?;
            }
        }
        Ok(())
    }

    fn ranks_of<'r>(&self, run: usize, ranks: &'r [Rank]) -> impl Iterator<Item = &'r Rank> {
        let all = self.fleet.ranks.iter().zip(ranks);
        all.filter(move |((of, _), _)| *of == run)
            .map(|(_, rank)| rank)
    }

    /// Puts the files of each run in place, and those of an earlier run away. Where ranks failed
    /// whose files would be lost by that, the earlier run stays as it is.
    fn replace(&self, ranks: &mut [Rank], runs: &mut [Joined]) -> Result<()> {
        let mut unfit = None;
        for (run, (set, earlier)) in self.sets.iter().zip(&self.earlier).enumerate() {
            let failed = self
                .ranks_of(run, ranks)
                .filter(|rank| rank.is_bad())
                .count();
            let lost = self.first_lost(run, ranks).filter(|_| failed > 0);
            let Some(file) = lost else {
                let all = earlier.ranks.iter().chain(&earlier.groups);
                let stale = all.filter(|name| !set.has(name)).cloned();
                set.replace(stale.collect())?;
                continue;
            };
            for (rank, (of, _)) in ranks.iter_mut().zip(&self.fleet.ranks) {
                if *of == run
                    && let Some(linked) = &mut rank.linked
                {
                    (linked.output, linked.bytes.output) = (None, 0);
                }
            }
            runs[run].timeline = None;
            unfit.get_or_insert(Unfit {
                folder: set.folder().to_owned(),
                failed,
                file: file.clone(),
            });
        }
        unfit.map_or(Ok(()), |unfit| Err(unfit.into()))
    }

    /// A file of an earlier run for which this one has no other. Of the file of all ranks it is not
    /// known whether it has one of those that are not in the new one.
    fn first_lost(&self, run: usize, ranks: &[Rank]) -> Option<&String> {
        let written: BTreeSet<PathBuf> = self
            .ranks_of(run, ranks)
            .filter_map(|rank| rank.output().map(PathBuf::from))
            .collect();
        let folder = self.sets[run].folder();
        let is_lost = |name: &&String| self.is_timeline() || !written.contains(&folder.join(name));
        self.earlier[run].ranks.iter().find(is_lost)
    }

    /// `<name>.<rank>.et`, as simulators want it: a prefix and the rank.
    fn file_name(&self, run: &RunFiles, found: &RankFiles) -> String {
        let ending = if is_et(&self.args) { "et" } else { "json.gz" };
        format!("{}.{}.{ending}", name(&self.args, run), found.label)
    }
}

/// What outputs of a run begin with: the name of its folder.
fn name(args: &Merge, run: &RunFiles) -> String {
    let whole = args.dir.join(&run.folder);
    let whole = whole.canonicalize().unwrap_or(whole);
    whole
        .file_name()
        .map_or("trace".into(), |name| name.to_string_lossy().into_owned())
}

/// Which part of each rank is written.
fn part(args: &Merge) -> TracePart {
    match (args.device_only, args.comm_only) {
        (true, _) => TracePart::Device,
        (_, true) => TracePart::Communication,
        _ => TracePart::Whole,
    }
}

impl Rank {
    /// Whether there is no result of it.
    fn is_bad(&self) -> bool {
        self.linked.as_ref().is_none_or(|linked| linked.refused)
    }

    /// The file that it is written to.
    fn output(&self) -> Option<&str> {
        self.linked.as_ref()?.output.as_deref()
    }

    /// Its name among all runs.
    fn name(&self) -> String {
        Path::new(&self.run).join(&self.label).display().to_string()
    }

    fn take(&mut self, written: Option<Result<(JobReport, Option<Piece>)>>) {
        match written {
            Some(Ok((linked, piece))) => (self.linked, self.piece) = (Some(linked), piece),
            Some(Err(error)) => (self.linked, self.error) = (None, Some(format!("{error:#}"))),
            None => {}
        }
    }
}
