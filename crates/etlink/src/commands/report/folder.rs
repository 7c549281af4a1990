//! A page about all ranks of a folder.

use super::{Content, Report, file_name, source::Source, steps, steps::Steps};
use crate::progress::Progress;
use anyhow::{Result, bail};
use etlink_analyze::Rules;
use etlink_link::ranks::{Clock, Facts, Join, clocks, company, join};
use etlink_report::page::{Met, Packed, RANGES, Rank, TIMELINE_BYTES, TIMELINES, Together};

/// The ranks that could be read.
#[derive(Default)]
struct Read {
    ranks: Vec<Rank>,
    /// Their places in the folder.
    places: Vec<usize>,
    /// With the places in the folder.
    facts: Vec<(usize, Facts)>,
    notes: Vec<String>,
    incomplete: bool,
}

/// The ranks that are of one run.
struct Joined {
    facts: Vec<Facts>,
    /// Their places in the folder.
    places: Vec<usize>,
    join: Join,
    clocks: Vec<Clock>,
}

/// Reads all ranks, compares them and draws some.
pub(super) fn content(args: &Report, rules: &Rules, progress: &Progress) -> Result<Content> {
    if args.host.is_some() || args.rank.is_some() {
        bail!("--host and --rank are for one trace; in a folder the files' names tell which belong together");
    }
    let source = Source::find(args, super::threads(args.threads)?)?;
    progress.say("analyzing");
    let Read { ranks, places, facts, mut notes, incomplete } = read(args, &source, rules, progress);
    let joined = Joined::new(facts, args.force, &mut notes);
    let met = (joined.facts.len() > 1).then(|| Met::new(&joined.facts, &joined.join, joined.clocks.clone()));
    let late =
        |rank: &Rank| met.as_ref().and_then(|met| met.ranks.iter().find(|of| Some(of.rank) == rank.analysis.rank)).map_or(0, |of| of.caused_ns);
    let shown = steps::shown(&args.timelines, &ranks, TIMELINES, late)?;
    let steps = Steps::choose(args.step.as_deref(), &shown.iter().map(|at| &ranks[*at]).collect::<Vec<_>>())?;
    if shown.len() < ranks.len() {
        let labels: Vec<&str> = shown.iter().map(|at| ranks[*at].label.as_str()).collect();
        let why = if args.timelines.is_empty() && met.is_some() { ", of which the others waited for some longest" } else { "" };
        notes.push(format!("timelines with threads and streams are those of the ranks {}{why}; --timelines takes others", labels.join(", ")));
    }
    progress.say("drawing");
    let name = steps.name();
    let together = met.as_ref().map(|_| Together::new(&joined.facts, &joined.join, &joined.clocks, name.as_deref()));
    // that of all ranks gets as much as two of a rank, at least a quarter
    let of_all = if together.is_some() { (2.0 / (shown.len() as f64 + 2.0)).max(0.25) } else { 0.0 };
    let share = |all: usize, part: f64| (all as f64 * part) as usize;
    let each = (1.0 - of_all) / shown.len().max(1) as f64;
    let all = together.as_ref().map(|together| Packed::new(share(RANGES, of_all), share(TIMELINE_BYTES, of_all), |most| together.timeline(most)));
    let wanted = |at: usize| shown.iter().find(|shown| places[**shown] == at).map(|shown| &ranks[*shown]);
    let member = |at: usize| together.as_ref()?.member(joined.places.iter().position(|place| *place == at)?);
    let draw = |at: usize, rank: &Rank| -> Result<Option<Packed>> {
        let Some(ran) = source.ran(at, args, progress)? else { return Ok(None) };
        let member = member(at);
        let packed = Packed::new(share(RANGES, each), share(TIMELINE_BYTES, each), |most| ran.draw(rank, &steps, most, rules, member.as_ref()));
        Ok(Some(packed?))
    };
    let drawn = source.each(|at| wanted(at).map(|rank| draw(at, rank)));
    let drawn = drawn.into_iter().flatten().collect::<Result<Vec<Option<Packed>>>>()?;
    let timelines = all.transpose()?.into_iter().chain(drawn.into_iter().flatten()).collect();
    Ok(Content { title: file_name(&args.path), ranks, met, timelines, drawn: shown.len(), step: name, notes, incomplete })
}

fn read(args: &Report, source: &Source, rules: &Rules, progress: &Progress) -> Read {
    let all = source.each(|at| -> Result<_> {
        let Some(ran) = source.ran(at, args, progress)? else { return Ok(None) };
        let (label, named) = source.label(at);
        Ok(Some((ran.rank(&label, named, rules, source.len()), source.facts(at, &ran)?, ran.leaves_out())))
    });
    let mut read = Read { notes: source.notes(), ..Read::default() };
    for (at, one) in all.into_iter().enumerate() {
        let label = source.label(at).0;
        match one {
            Ok(Some((rank, facts, leaves_out))) => {
                read.ranks.push(rank);
                read.facts.extend(facts.map(|facts| (at, facts)));
                read.places.push(at);
                read.notes.extend(leaves_out.filter(|note| !read.notes.contains(note)));
            }
            Ok(None) => read.notes.push(format!("rank {label}: its file does nothing, as that of a rank without a trace")),
            Err(error) => {
                read.notes.push(format!("{label} is left out: {error:#}"));
                read.incomplete = true;
            }
        }
    }
    read
}

impl Joined {
    /// Of one rank, or of ranks that do not belong together, there is nothing to say.
    fn new(all: Vec<(usize, Facts)>, force: bool, notes: &mut Vec<String>) -> Joined {
        let (places, all): (Vec<usize>, Vec<Facts>) = all.into_iter().unzip();
        let company = company(&all, force);
        let (mut facts, mut kept) = (vec![], vec![]);
        for ((one, at), why) in all.into_iter().zip(places).zip(&company.left_out) {
            match why {
                None => {
                    facts.push(one);
                    kept.push(at);
                }
                Some(why) => notes.push(format!("rank {} is not compared with the others: {}", one.rank, why.describe())),
            }
        }
        if !company.absent.is_empty() {
            let absent: Vec<String> = company.absent.iter().take(8).map(i64::to_string).collect();
            notes.push(format!("no trace of rank {}{}", absent.join(", "), if company.absent.len() > 8 { ", …" } else { "" }));
        }
        let join = join(&facts);
        let clocks = clocks(&facts, &join);
        Joined { facts, places: kept, join, clocks }
    }
}
