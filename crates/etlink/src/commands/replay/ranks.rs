//! `etlink replay DIR`: all ranks of a run as one graph.

pub(in crate::commands) mod files;
mod traces;

use super::{Replayed, replay, table};
use crate::Outcome;
use crate::args::Replay;
use crate::commands::{print, print_json};
use anyhow::{Context, Result, bail};
use etlink_link::ranks::{
    ExcludeReason, JoinProblem, RankClock, RankSummary, RunSelection, align_clocks, join_ranks,
    select_run,
};
use etlink_model::TimeNs;
use etlink_replay::{
    JoinOutcome, JoinedCollectives, JoinedGraph, RankFigures, RankGraph, RankLabels, RankNames,
    ReplayGraph, ReplayRun,
};
use etlink_run::membership::absent_note;
use etlink_run::memory::MemoryBudget;
use etlink_run::run::taken_in;
use indexmap::IndexMap;
use serde::Serialize;
use std::path::Path;

/// What a node takes until all is told: in its rank's graph and again in that of all ranks, with its share of names, edges and figures. Peaks
/// of 64 ranks of 20,000 nodes and 32 of 66,000 grew by 139 and 157 bytes per node.
const NODE_BYTES: u64 = 160;

/// The ranks of one run, as read.
struct Fleet {
    name: String,
    notes: Vec<String>,
    members: Vec<Member>,
    left_out: Vec<Stray>,
}

/// What is kept of a rank.
struct Member {
    label: String,
    facts: RankSummary,
    graph: ReplayGraph,
    names: RankNames,
    /// What its times count from, ns since the Unix epoch.
    base_ns: i64,
}

impl Member {
    /// What it comes to before all is told.
    fn bytes(&self) -> u64 {
        NODE_BYTES.saturating_mul(self.graph.len() as u64)
    }
}

/// A rank that does not take part.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Stray {
    pub(super) label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<ExcludeReason>,
}

/// How the ranks fared together.
#[derive(Serialize)]
pub(super) struct AllRanks {
    /// Number of ranks of the run, as most traces say it.
    pub(super) world_size: Option<i64>,
    /// Ranks of the run that have no trace here.
    pub(super) absent: Vec<i64>,
    /// Traces that could not be read, or are not of this run.
    pub(super) left_out: Vec<Stray>,
    /// Collectives and messages.
    pub(super) collectives: Collectives,
    /// Each rank, in the run without changes.
    pub(super) ranks: Vec<RankReport>,
    /// What is missing or unequal between the traces.
    pub(super) problems: Vec<JoinProblem>,
}

/// What holds the ranks together; times are sums over ranks, in the run without changes.
#[derive(Default, Serialize)]
pub(super) struct Collectives {
    /// Begin when the last rank has come.
    pub(super) joined: u64,
    /// From the ranks' arrivals to the last ones'.
    pub(super) waiting_ns: i64,
    /// From the last arrivals on.
    pub(super) transfer_ns: i64,
    /// Not joined: they last as long as they were measured to.
    pub(super) local: Local,
}

/// Why collectives and messages are not joined.
#[derive(Default, Serialize)]
pub(super) struct Local {
    #[serde(flatten)]
    pub(super) joined: JoinedCollectives,
    /// A rank was done before the last had come.
    pub(super) contradicted: u64,
    /// Ranks do them in opposite order.
    pub(super) out_of_order: u64,
}

/// One rank.
#[derive(Serialize)]
pub(super) struct RankReport {
    #[serde(flatten)]
    pub(super) figures: RankFigures,
    /// What was added to its times to have them by the first rank's clock, and how far that can be off.
    pub(super) clock_offset_ns: i64,
    pub(super) clock_uncertainty_ns: Option<i64>,
    /// No offset fits: the uncertainty is by how much one is missed.
    pub(super) clock_contradicted: bool,
}

/// How a rank fares when something changes.
#[derive(Serialize)]
pub(super) struct RankChange {
    pub(super) rank: i64,
    /// By how much its last node ends later.
    pub(super) end_change_ns: i64,
    pub(super) waiting_change_ns: i64,
    pub(super) transfer_change_ns: i64,
}

pub(super) fn run(args: &Replay, dir: &Path, threads: usize) -> Result<Outcome> {
    if args.output.is_some() {
        bail!("-o writes a trace for Perfetto of one rank; give its traces as --host and --device");
    }
    if args.link.rank.is_some() {
        bail!(
            "--rank is for one trace; a folder is replayed with all its ranks, 'rank=1/' before a --scale rule or an --explain name takes one of them"
        );
    }
    let progress = crate::progress::bar();
    let sets = files::find(dir)?;
    let fleets = match &sets[..] {
        [] => traces::read(args, dir, threads, &progress)?,
        sets => Some(files::read(
            sets,
            dir,
            MemoryBudget::new(args.memory, threads),
            args.link.strict,
        )?),
    };
    progress.finish();
    let Some(fleets) = fleets else {
        return Ok(Outcome::Found);
    };
    let runs = fleets
        .into_iter()
        .map(|fleet| of_fleet(args, fleet))
        .collect::<Result<Vec<Replayed>>>()?;
    if args.json {
        print_json(&runs)?;
    } else {
        print(&runs.iter().map(table::replayed).collect::<String>())?;
    }
    let bad = runs
        .iter()
        .filter_map(|run| run.together.as_ref())
        .any(|all| !all.left_out.is_empty());
    Ok(if bad { Outcome::Found } else { Outcome::Done })
}

fn of_fleet(args: &Replay, fleet: Fleet) -> Result<Replayed> {
    let Fleet {
        name,
        notes,
        members,
        mut left_out,
    } = fleet;
    let mut notes = same_notes(notes);
    if args.link.force {
        let facts: Vec<RankSummary> = members.iter().map(|member| member.facts.clone()).collect();
        notes.extend(taken_in(
            &facts,
            members.iter().map(|member| member.label.as_str()),
        ));
    }
    let (mut kept, company) = Kept::of(members, args.link.force, &mut left_out);
    if kept.ranks.is_empty() {
        bail!(
            "{name}: no rank could be read{}",
            left_out
                .iter()
                .find_map(|stray| stray.error.as_ref())
                .map_or(String::new(), |why| format!(": {why}"))
        );
    }
    let join = join_ranks(&kept.facts);
    let measured = kept.ranks.iter().all(|rank| rank.graph.measured);
    let clocks = if args.no_align || !measured {
        vec![]
    } else {
        align_clocks(&kept.facts, &join)
    };
    kept.align(&clocks);
    let mut joined = etlink_replay::collective_nodes(&kept.facts, &join);
    let joints = std::mem::take(&mut joined.collectives);
    let together =
        etlink_replay::join_graphs(&kept.ranks, &joints).with_context(|| name.clone())?;
    kept.ranks.clear();
    let labels = RankLabels {
        joined: &together,
        ranks: &kept.names,
        collectives: &joints,
    };
    if let Some(absent) = absent_note(&company.absent) {
        notes.push(format!("{absent}: what waits for them counts as transfer"));
    }
    if !measured && !joints.is_empty() {
        notes.push(
            "without start times a collective lasts on each rank as long as its node says"
                .to_owned(),
        );
    }
    let (mut replayed, runs) = replay(args, name, notes, &together.graph, &labels)?;
    let ranks = together.by_rank(runs.plain.as_ref().unwrap_or(&runs.last));
    if let Some(what_if) = &mut replayed.what_if {
        what_if.ranks = changes(&ranks, &together, &runs.last);
    }
    let (world_size, absent, problems) = (company.world_size, company.absent, join.problems);
    let collectives = collectives(&together, &ranks, joined);
    replayed.together = Some(AllRanks {
        world_size,
        absent,
        left_out,
        collectives,
        ranks: with_clocks(ranks, &clocks),
        problems,
    });
    Ok(replayed)
}

/// The ranks that are of one run, as columns.
#[derive(Default)]
struct Kept {
    facts: Vec<RankSummary>,
    ranks: Vec<RankGraph>,
    bases_ns: Vec<i64>,
    names: Vec<RankNames>,
}

impl Kept {
    /// Takes all times by the first rank's clock, from what its own count from.
    fn align(&mut self, clocks: &[RankClock]) {
        let origin = self.bases_ns.first().copied().unwrap_or(0);
        for (at, (rank, base)) in self.ranks.iter_mut().zip(&self.bases_ns).enumerate() {
            let clock = clocks.get(at).copied().unwrap_or_default();
            let aligned = |time: TimeNs| {
                TimeNs(
                    clock
                        .aligned(base.saturating_add(time.0))
                        .saturating_sub(origin),
                )
            };
            rank.graph
                .start
                .iter_mut()
                .for_each(|start| *start = aligned(*start));
            rank.uncertainty_ns = clock.uncertainty_ns.unwrap_or(0);
        }
    }

    fn of(members: Vec<Member>, force: bool, left_out: &mut Vec<Stray>) -> (Kept, RunSelection) {
        let facts: Vec<RankSummary> = members.iter().map(|member| member.facts.clone()).collect();
        let company = select_run(&facts, force);
        let mut kept = Kept::default();
        for ((member, facts), why) in members.into_iter().zip(facts).zip(&company.excluded) {
            if why.is_some() {
                left_out.push(Stray {
                    label: member.label,
                    error: None,
                    why: *why,
                });
                continue;
            }
            kept.ranks.push(RankGraph {
                rank: facts.rank,
                graph: member.graph,
                uncertainty_ns: 0,
            });
            kept.bases_ns.push(member.base_ns);
            kept.facts.push(facts);
            kept.names.push(member.names);
        }
        (kept, company)
    }
}

fn with_clocks(ranks: Vec<RankFigures>, clocks: &[RankClock]) -> Vec<RankReport> {
    let report = |(at, figures): (usize, RankFigures)| {
        let clock = clocks.get(at).copied().unwrap_or_default();
        RankReport {
            figures,
            clock_offset_ns: clock.offset_ns,
            clock_uncertainty_ns: clock.uncertainty_ns,
            clock_contradicted: clock.contradicted,
        }
    };
    ranks.into_iter().enumerate().map(report).collect()
}

fn collectives(
    together: &JoinedGraph,
    ranks: &[RankFigures],
    joined: JoinedCollectives,
) -> Collectives {
    let count = |fate: JoinOutcome| {
        together
            .outcomes
            .iter()
            .filter(|found| **found == fate)
            .count() as u64
    };
    let sum = |of: fn(&RankFigures) -> i64| ranks.iter().map(of).fold(0, i64::saturating_add);
    Collectives {
        joined: count(JoinOutcome::Joined),
        waiting_ns: sum(|rank| rank.collectives.waiting_ns),
        transfer_ns: sum(|rank| rank.collectives.transfer_ns),
        local: Local {
            joined,
            contradicted: count(JoinOutcome::Contradicted),
            out_of_order: count(JoinOutcome::OutOfOrder),
        },
    }
}

fn changes(before: &[RankFigures], together: &JoinedGraph, run: &ReplayRun) -> Vec<RankChange> {
    let change = |(now, before): (RankFigures, &RankFigures)| RankChange {
        rank: now.rank,
        end_change_ns: now.end_ns.saturating_sub(before.end_ns),
        waiting_change_ns: now
            .collectives
            .waiting_ns
            .saturating_sub(before.collectives.waiting_ns),
        transfer_change_ns: now
            .collectives
            .transfer_ns
            .saturating_sub(before.collectives.transfer_ns),
    };
    together
        .by_rank(run)
        .into_iter()
        .zip(before)
        .map(change)
        .collect()
}

/// What is said of several ranks is said once.
fn same_notes(notes: Vec<String>) -> Vec<String> {
    let text = |note: &str| {
        note.split_once(": ")
            .filter(|(rank, _)| rank.starts_with("rank "))
            .map(|(_, text)| text.to_owned())
    };
    let mut said: IndexMap<String, Vec<String>> = IndexMap::new();
    for note in notes {
        said.entry(text(&note).unwrap_or_else(|| note.clone()))
            .or_default()
            .push(note);
    }
    let once = |(text, mut notes): (String, Vec<String>)| match notes.len() {
        1 => notes.remove(0),
        several => format!("{several} ranks: {text}"),
    };
    said.into_iter().map(once).collect()
}
