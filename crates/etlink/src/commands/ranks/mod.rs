//! `etlink ranks`: how the ranks of a run met.

mod show;

use super::{print, print_json, threads};
use crate::Outcome;
use crate::args::Ranks;
use crate::table;
use anyhow::Result;
use etlink_link::ranks::{
    CollectiveSkew, ExcludeReason, JoinProblem, RankClock, RankSummary, StepStragglers,
    StragglerStats, align_clocks, collective_skews, join_ranks, order_conflicts, select_run,
    step_stragglers, straggler_stats,
};
use etlink_run::Progress;
use etlink_run::discover::RunFiles;
use etlink_run::job::{self, LinkJob, Refused};
use etlink_run::run::{self, RunSet};
use serde::Serialize;

/// What is known of the ranks of one run.
#[derive(Serialize)]
struct Compared {
    /// Folder of the run.
    run: String,
    /// What is odd about the files and in them.
    notes: Vec<String>,
    /// Number of ranks of the run, as most traces say it.
    world_size: Option<i64>,
    /// Ranks of the run that have no trace here.
    absent: Vec<i64>,
    /// Traces that could not be linked, or are not of this run.
    left_out: Vec<Stray>,
    /// The ranks' clocks against the first rank's; none with `--no-align`.
    clocks: Vec<RankClock>,
    /// Sums per rank.
    ranks: Vec<StragglerStats>,
    /// Sums per step.
    steps: Vec<StepStragglers>,
    /// What is missing or unequal.
    problems: Vec<JoinProblem>,
    /// Each collective and message, by time.
    collectives: Vec<CollectiveSkew>,
}

#[derive(Serialize)]
struct Stray {
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<ExcludeReason>,
}

pub fn run(args: Ranks) -> Result<Outcome> {
    let threads = threads(args.threads)?;
    let fleet = RunSet::find(&args.dir, args.memory, threads)?;
    let progress = crate::progress::bar();
    progress.phase("linking");
    let linked = fleet.each(|at| link(&args, &fleet, at, &progress));
    progress.finish();
    let mut runs: Vec<Vec<(String, Result<Linked>)>> = fleet.runs.iter().map(|_| vec![]).collect();
    for ((run, place), linked) in fleet.ranks.iter().zip(linked) {
        runs[*run].push((fleet.runs[*run].ranks[*place].label.clone(), linked));
    }
    let compared: Vec<Compared> = fleet
        .runs
        .iter()
        .zip(runs)
        .map(|(run, ranks)| compare(&args, run, ranks))
        .collect();
    if args.json {
        print_json(&compared)?;
    } else if args.csv {
        // CSV has no place for notes
        compared
            .iter()
            .for_each(|one| eprint!("{}", show::notes(one)));
        print(&show::csv(&compared)?)?;
    } else {
        print(
            &compared
                .iter()
                .map(|one| show::table(one, args.top))
                .collect::<String>(),
        )?;
    }
    let bad = compared.iter().any(|one| !one.left_out.is_empty());
    Ok(if bad { Outcome::Found } else { Outcome::Done })
}

/// What is kept of a rank.
struct Linked {
    /// None where its rank is not sure.
    facts: Option<RankSummary>,
    notes: Vec<String>,
}

/// Links a rank and keeps its communications.
fn link(args: &Ranks, fleet: &RunSet, at: usize, progress: &Progress) -> Result<Linked> {
    let (run, found) = fleet.rank(at);
    let device = found
        .device
        .clone()
        .ok_or_else(|| run::no_device(run, found))?;
    let job = LinkJob {
        force: args.force,
        strict: args.strict,
        ..LinkJob::reading(found.host.clone(), device, fleet.threads_each)
    };
    let (trace, linked) = job::link(&job, progress)?;
    if linked.refused {
        return Err(Refused::new(&job.device, &linked.report.anomalies).into());
    }
    let notes = linked
        .report
        .notes
        .into_iter()
        .chain(table::damage(&linked.report.anomalies))
        .collect();
    Ok(Linked {
        facts: run::rank_summary(&trace, found, fleet.is_alone(at)),
        notes,
    })
}

/// What could be linked of a run.
struct Known {
    labels: Vec<String>,
    facts: Vec<RankSummary>,
    notes: Vec<String>,
    left_out: Vec<Stray>,
}

impl Known {
    fn of(ranks: Vec<(String, Result<Linked>)>) -> Known {
        let mut known = Known {
            labels: vec![],
            facts: vec![],
            notes: vec![],
            left_out: vec![],
        };
        let mut told = vec![];
        for (label, linked) in ranks {
            let stray = match linked {
                Ok(Linked { facts, notes }) => {
                    told.extend(notes.into_iter().map(|note| (table::rank(&label), note)));
                    if let Some(facts) = facts {
                        known.labels.push(label);
                        known.facts.push(facts);
                        continue;
                    }
                    Stray {
                        label,
                        error: None,
                        why: None,
                    }
                }
                Err(error) => Stray {
                    label,
                    error: Some(format!("{error:#}")),
                    why: None,
                },
            };
            known.left_out.push(stray);
        }
        known.notes = table::same_notes(
            told.iter()
                .map(|(name, note)| (name.clone(), note.as_str())),
        );
        known
    }
}

fn compare(args: &Ranks, run: &RunFiles, ranks: Vec<(String, Result<Linked>)>) -> Compared {
    let Known {
        labels,
        facts: all,
        notes,
        mut left_out,
    } = Known::of(ranks);
    let company = select_run(&all, args.force);
    let mut notes = [run.notes.clone(), notes].concat();
    if args.force {
        notes.extend(run::taken_in(&all, labels.iter().map(String::as_str)));
    }
    let mut together = vec![];
    for ((facts, label), why) in all.into_iter().zip(labels).zip(&company.excluded) {
        match why {
            None => together.push(facts),
            Some(why) => left_out.push(Stray {
                label,
                error: None,
                why: Some(*why),
            }),
        }
    }
    notes.extend(unrecorded(&together));
    let mut join = join_ranks(&together);
    join.problems.extend(order_conflicts(&together, &join));
    let clocks = if args.no_align {
        vec![]
    } else {
        align_clocks(&together, &join)
    };
    Compared {
        run: run.folder.display().to_string(),
        notes,
        world_size: company.world_size,
        absent: company.absent,
        left_out,
        ranks: straggler_stats(&together, &join, &clocks),
        steps: step_stragglers(&together, &join, &clocks),
        collectives: collective_skews(&together, &join, &clocks),
        clocks,
        problems: join.problems,
    }
}

/// What traces without records of their communication keep to themselves.
fn unrecorded(ranks: &[RankSummary]) -> Option<String> {
    let all = ranks
        .iter()
        .map(|facts| facts.unrecorded)
        .fold(0, u64::saturating_add);
    (all > 0).then(|| {
        format!(
            "{} without a record of what is communicated: nothing is told of that",
            table::count(all, "communication kernel")
        )
    })
}
