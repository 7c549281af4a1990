//! A page about all ranks of a folder.

use super::{Content, Report, draw, file_name, job, ran, rank, steps, steps::Steps};
use crate::fleet::{self, Fleet};
use crate::pair::Job;
use crate::progress::Progress;
use anyhow::{Result, bail};
use etlink_analyze::Rules;
use etlink_link::ranks::{Facts, clocks, company, join};
use etlink_report::page::{Met, RANGES, Rank, TIMELINES, Timeline};

/// The ranks that could be read.
#[derive(Default)]
struct Read {
    ranks: Vec<Rank>,
    /// Their places in the fleet.
    places: Vec<usize>,
    facts: Vec<Facts>,
    notes: Vec<String>,
    incomplete: bool,
}

/// Reads all ranks, compares them and draws some.
pub(super) fn content(args: &Report, rules: &Rules, progress: &Progress) -> Result<Content> {
    if args.host.is_some() || args.rank.is_some() {
        bail!("--host and --rank are for one trace; in a folder the files' names tell which belong together");
    }
    let fleet = Fleet::find(&args.path, args.memory, super::threads(args.threads)?)?;
    if let [first, second, ..] = &fleet.runs[..] {
        let [one, other] = [first, second].map(|run| args.path.join(&run.folder).display().to_string());
        let count = fleet.runs.len();
        bail!("{} has {count} runs, each in its folder: give one of them, such as {one} or {other}", args.path.display());
    }
    progress.say("analyzing");
    let Read { ranks, places, facts, mut notes, incomplete } = read(args, &fleet, rules, progress);
    let met = met(facts, args.force, &mut notes);
    let shown = steps::shown(&args.timelines, &ranks, TIMELINES)?;
    let steps = Steps::choose(args.step.as_deref(), &shown.iter().map(|at| &ranks[*at]).collect::<Vec<_>>())?;
    if shown.len() < ranks.len() {
        let labels: Vec<&str> = shown.iter().map(|at| ranks[*at].label.as_str()).collect();
        notes.push(format!("timelines are those of the ranks {}; --timelines takes others", labels.join(", ")));
    }
    progress.say("drawing");
    let room = RANGES / shown.len().max(1);
    let wanted = |at: usize| shown.iter().find(|shown| places[**shown] == at).map(|shown| &ranks[*shown]);
    let drawn = fleet.each(|at| wanted(at).map(|rank| Ok(draw(&ran(&member(args, &fleet, at)?, progress)?, rank, &steps, room, rules))));
    let timelines = drawn.into_iter().flatten().collect::<Result<Vec<Timeline>>>()?;
    Ok(Content { title: file_name(&args.path), ranks, met, timelines, step: steps.name(), notes, incomplete })
}

fn read(args: &Report, fleet: &Fleet, rules: &Rules, progress: &Progress) -> Read {
    let all = fleet.each(|at| -> Result<_> {
        let ran = ran(&member(args, fleet, at)?, progress)?;
        let found = fleet.rank(at).1;
        Ok((rank(&ran, &found.label, found.rank, rules), fleet::facts(&ran.trace, found, fleet.is_alone(at))))
    });
    let notes = fleet.runs.iter().flat_map(|run| run.notes.iter().cloned()).collect();
    let mut read = Read { notes, ..Read::default() };
    for (at, one) in all.into_iter().enumerate() {
        match one {
            Ok((rank, facts)) => {
                read.ranks.push(rank);
                read.facts.extend(facts);
                read.places.push(at);
            }
            Err(error) => {
                read.notes.push(format!("{} is left out: {error:#}", fleet.rank(at).1.label));
                read.incomplete = true;
            }
        }
    }
    read
}

fn member(args: &Report, fleet: &Fleet, at: usize) -> Result<Job> {
    let (run, found) = fleet.rank(at);
    let device = found.device.clone().ok_or_else(|| fleet::no_device(run, found))?;
    Ok(job(args, found.host.clone(), device, fleet.threads_each))
}

/// How the ranks met; of one rank, or of ranks that do not belong together, there is nothing to say.
fn met(all: Vec<Facts>, force: bool, notes: &mut Vec<String>) -> Option<Met> {
    let company = company(&all, force);
    let mut together = vec![];
    for (facts, why) in all.into_iter().zip(&company.left_out) {
        match why {
            None => together.push(facts),
            Some(why) => notes.push(format!("rank {} is not compared with the others: {}", facts.rank, why.describe())),
        }
    }
    if !company.absent.is_empty() {
        let absent: Vec<String> = company.absent.iter().take(8).map(i64::to_string).collect();
        notes.push(format!("no trace of rank {}{}", absent.join(", "), if company.absent.len() > 8 { ", …" } else { "" }));
    }
    let join = join(&together);
    let clocks = clocks(&together, &join);
    (together.len() > 1).then(|| Met::new(&together, &join, clocks))
}
