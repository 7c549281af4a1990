//! The ranks from their traces.

use super::{Fleet, Member, Stray};
use crate::args::Replay;
use anyhow::{Result, bail};
use etlink_replay::RankNames;
use etlink_run::Progress;
use etlink_run::job::{self, LinkJob};
use etlink_run::run;
use std::path::Path;

/// Links every rank found; `None` where one is damaged and that was not to be taken.
pub(super) fn read(
    args: &Replay,
    dir: &Path,
    threads: usize,
    progress: &Progress,
) -> Result<Option<Vec<Fleet>>> {
    let found = run::RunSet::find(dir, args.memory, threads)?;
    progress.phase("linking");
    let ranks = found.each_kept(dir, |at| {
        let linked = member(args, &found, at, progress);
        let bytes = linked
            .as_ref()
            .ok()
            .and_then(|linked| linked.member.as_ref())
            .map_or(0, Member::bytes);
        (linked, bytes)
    })?;
    let fleet = |run: &etlink_run::discover::RunFiles| {
        let place = if run.folder.as_os_str().is_empty() {
            dir.to_owned()
        } else {
            dir.join(&run.folder)
        };
        let name = place.display().to_string();
        Fleet {
            name,
            notes: run.notes.clone(),
            members: vec![],
            left_out: vec![],
        }
    };
    let mut fleets: Vec<Fleet> = found.runs.iter().map(fleet).collect();
    let mut damaged = false;
    for ((run, place), linked) in found.ranks.iter().zip(ranks) {
        let (fleet, label) = (
            &mut fleets[*run],
            found.runs[*run].ranks[*place].label.clone(),
        );
        match linked {
            Ok(Linked { damage: true, .. }) if args.link.strict => {
                eprintln!(
                    "etlink: {} rank {label}: damage was found and --strict given: nothing was replayed",
                    fleet.name
                );
                damaged = true;
            }
            Ok(Linked { member, notes, .. }) => {
                fleet.notes.extend(
                    notes
                        .into_iter()
                        .map(|note| format!("rank {label}: {note}")),
                );
                match member {
                    Some(member) => fleet.members.push(member),
                    None => fleet.left_out.push(Stray {
                        label,
                        error: None,
                        why: None,
                    }),
                }
            }
            Err(error) => fleet.left_out.push(Stray {
                label,
                error: Some(format!("{error:#}")),
                why: None,
            }),
        }
    }
    Ok((!damaged).then_some(fleets))
}

struct Linked {
    member: Option<Member>,
    notes: Vec<String>,
    damage: bool,
}

/// Links a rank and keeps what the replay needs.
fn member(args: &Replay, fleet: &run::RunSet, at: usize, progress: &Progress) -> Result<Linked> {
    let (run, found) = fleet.rank(at);
    let device = found
        .device
        .clone()
        .ok_or_else(|| run::no_device(run, found))?;
    let job = LinkJob {
        tensor_deps: args.link.tensor_deps.into(),
        strict: args.link.strict,
        force: args.link.force,
        ..LinkJob::reading(found.host.clone(), device, fleet.threads_each)
    };
    let (trace, mut linked) = job::link(&job, progress)?;
    run::tell_rank(found, &mut linked);
    let graph = etlink_replay::graph_from_trace(&trace)?;
    if graph.is_empty() {
        bail!("{}: nothing to run in it", job::inputs(&job));
    }
    let facts = run::rank_summary(&trace, found, fleet.is_alone(at));
    let names = RankNames::from_labels(&trace, graph.len());
    let member = facts.map(|facts| Member {
        label: found.label.clone(),
        facts,
        graph,
        names,
        base_ns: trace.device.header.base_ns,
    });
    Ok(Linked {
        member,
        notes: super::super::notes(&linked.report),
        damage: linked.refused,
    })
}
