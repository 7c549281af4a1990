//! A page about all ranks of a folder.

use super::{Content, Report, file_name, source::Source, steps, steps::Steps};
use crate::table;
use anyhow::{Result, bail};
use etlink_analyze::KernelRules;
use etlink_link::ranks::{RankClock, RankSummary, RunJoin, align_clocks, join_ranks, select_run};
use etlink_report::page::{
    PackedTimeline, RANGES, RankStats, ReportRank, RunTimeline, TIMELINE_BYTES, TIMELINES,
};
use etlink_run::Progress;
use etlink_run::membership::absent_note;
use etlink_run::run::{Belongs, belong};

/// The ranks that could be read.
#[derive(Default)]
struct Read {
    ranks: Vec<ReportRank>,
    /// Their places in the folder.
    places: Vec<usize>,
    /// What they did with the others; none where a rank is not sure.
    facts: Vec<Option<RankSummary>>,
    notes: Vec<String>,
    incomplete: bool,
}

/// The ranks that are of one run.
struct Joined {
    facts: Vec<RankSummary>,
    /// Their places in the folder.
    places: Vec<usize>,
    join: RunJoin,
    clocks: Vec<RankClock>,
}

/// Reads all ranks, compares them and draws some.
pub(super) fn content(args: &Report, rules: &KernelRules, progress: &Progress) -> Result<Content> {
    if args.host.is_some() || args.rank.is_some() {
        bail!(
            "--host and --rank are for one trace; in a folder the files' names tell which belong together"
        );
    }
    let source = Source::find(args, super::threads(args.threads)?)?;
    progress.phase("analyzing");
    let Read {
        ranks,
        places,
        facts,
        mut notes,
        incomplete,
    } = read(args, &source, rules, progress).in_company(args.force);
    let joined = Joined::new(
        facts
            .into_iter()
            .zip(&places)
            .filter_map(|(facts, at)| Some((*at, facts?)))
            .collect(),
        &mut notes,
    );
    let met = (joined.facts.len() > 1)
        .then(|| RankStats::new(&joined.facts, &joined.join, joined.clocks.clone()));
    let late = |rank: &ReportRank| {
        met.as_ref()
            .and_then(|met| {
                met.ranks
                    .iter()
                    .find(|of| Some(of.rank) == rank.analysis.rank)
            })
            .map_or(0, |of| of.caused_ns)
    };
    let shown = steps::shown(&args.timelines, &ranks, TIMELINES, late)?;
    let steps = Steps::choose(
        args.step.as_deref(),
        &shown.iter().map(|at| &ranks[*at]).collect::<Vec<_>>(),
    )?;
    if shown.len() < ranks.len() {
        let labels: Vec<&str> = shown.iter().map(|at| ranks[*at].label.as_str()).collect();
        let why = if args.timelines.is_empty() && met.is_some() {
            ", of which the others waited for some longest"
        } else {
            ""
        };
        notes.push(format!("timelines with threads and streams are those of the ranks {}{why}; --timelines takes others", labels.join(", ")));
    }
    progress.phase("drawing");
    let name = steps.name();
    let together = met
        .as_ref()
        .map(|_| RunTimeline::new(&joined.facts, &joined.join, &joined.clocks, name.as_deref()));
    // that of all ranks gets as much as two of a rank, at least a quarter
    let of_all = if together.is_some() {
        (2.0 / (shown.len() as f64 + 2.0)).max(0.25)
    } else {
        0.0
    };
    let share = |all: usize, part: f64| (all as f64 * part) as usize;
    let each = (1.0 - of_all) / shown.len().max(1) as f64;
    let all = together.as_ref().map(|together| {
        PackedTimeline::new(
            share(RANGES, of_all),
            share(TIMELINE_BYTES, of_all),
            |most| together.timeline(most),
        )
    });
    let wanted = |at: usize| {
        shown
            .iter()
            .find(|shown| places[**shown] == at)
            .map(|shown| &ranks[*shown])
    };
    let member = |at: usize| {
        together
            .as_ref()?
            .member(joined.places.iter().position(|place| *place == at)?)
    };
    let draw = |at: usize, rank: &ReportRank| -> Result<Option<PackedTimeline>> {
        let Some(ran) = source.ran(at, args, progress)? else {
            return Ok(None);
        };
        let member = member(at);
        let packed =
            PackedTimeline::new(share(RANGES, each), share(TIMELINE_BYTES, each), |most| {
                ran.draw(rank, &steps, most, rules, member.as_ref())
            });
        Ok(Some(packed?))
    };
    let drawn = source.each(|at| wanted(at).map(|rank| draw(at, rank)));
    let drawn = drawn
        .into_iter()
        .flatten()
        .collect::<Result<Vec<Option<PackedTimeline>>>>()?;
    let timelines = all
        .transpose()?
        .into_iter()
        .chain(drawn.into_iter().flatten())
        .collect();
    Ok(Content {
        title: file_name(&args.path),
        ranks,
        met,
        timelines,
        drawn: shown.len(),
        step: name,
        notes,
        incomplete,
    })
}

fn read(args: &Report, source: &Source, rules: &KernelRules, progress: &Progress) -> Read {
    let all = source.each(|at| -> Result<_> {
        let Some(ran) = source.ran(at, args, progress)? else {
            return Ok(None);
        };
        let (label, named) = source.label(at);
        Ok(Some((
            ran.rank(&label, named, rules, source.len()),
            source.facts(at, &ran)?,
            ran.leaves_out(),
            ran.damage(),
        )))
    });
    let mut damaged: Vec<(String, String)> = vec![];
    let mut read = Read {
        notes: source.notes(),
        ..Read::default()
    };
    for (at, one) in all.into_iter().enumerate() {
        let label = source.label(at).0;
        match one {
            Ok(Some((rank, facts, leaves_out, damage))) => {
                read.ranks.push(rank);
                read.facts.push(facts);
                read.places.push(at);
                read.notes
                    .extend(leaves_out.filter(|note| !read.notes.contains(note)));
                damaged.extend(damage.map(|damage| (table::rank(&label), damage)));
            }
            Ok(None) => read.notes.push(format!(
                "rank {label}: its file does nothing, as that of a rank without a trace"
            )),
            Err(error) => {
                read.notes.push(format!("{label} is left out: {error:#}"));
                read.incomplete = true;
            }
        }
    }
    read.notes.extend(table::same_notes(
        damaged
            .iter()
            .map(|(name, damage)| (name.clone(), damage.as_str())),
    ));
    read
}

impl Read {
    /// Without what is not of the run of most; with `force` a note names it.
    fn in_company(self, force: bool) -> Read {
        let belongs = belong(&self.facts, force);
        let mut kept = Read {
            notes: self.notes,
            incomplete: self.incomplete,
            ..Read::default()
        };
        for (((rank, place), facts), belongs) in self
            .ranks
            .into_iter()
            .zip(self.places)
            .zip(self.facts)
            .zip(belongs)
        {
            let name = table::rank(&rank.label);
            match belongs {
                Belongs::No(why) => {
                    kept.notes.push(format!("{name} is left out: {why}"));
                    kept.incomplete = true;
                    continue;
                }
                Belongs::Forced(why) => kept.notes.push(format!("{name}: {why}")),
                Belongs::Yes => {}
            }
            kept.ranks.push(rank);
            kept.places.push(place);
            kept.facts.push(facts);
        }
        kept
    }
}

impl Joined {
    /// Of one rank there is nothing to say.
    fn new(all: Vec<(usize, RankSummary)>, notes: &mut Vec<String>) -> Joined {
        let (places, facts): (Vec<usize>, Vec<RankSummary>) = all.into_iter().unzip();
        notes.extend(absent_note(&select_run(&facts, true).absent));
        let join = join_ranks(&facts);
        let clocks = align_clocks(&facts, &join);
        Joined {
            facts,
            places,
            join,
            clocks,
        }
    }
}
