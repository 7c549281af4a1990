//! Lets all ranks run as far as possible.

use super::{MatchTable, RankComm, RankNodes, comm};
use crate::finding::{FindingKind, Findings};

/// Progress of one rank.
struct RankProgress {
    /// Number of dependencies of each node that have not run.
    waits: Vec<u32>,
    /// Entry in `comms` of each node; `u32::MAX` for computation.
    comm: Vec<u32>,
    ran: usize,
    /// Entries of `comms` that have started and wait for other ranks.
    waiting: Vec<u32>,
}

/// Runs all ranks and reports nodes that wait forever.
pub(super) fn run(ranks: &[RankNodes], table: &MatchTable, findings: &mut Findings) {
    let mut state: Vec<RankProgress> = ranks.iter().map(RankProgress::new).collect();
    let mut here: Vec<Vec<(u32, u32)>> = vec![vec![]; table.needs.len()];
    let mut ready: Vec<(u32, u32)> = vec![];
    for (at, rank) in (0u32..).zip(ranks) {
        ready.extend(
            (0u32..)
                .zip(&rank.waits)
                .filter(|(_, waits)| **waits == 0)
                .map(|(node, _)| (at, node)),
        );
    }
    while let Some((at, node)) = ready.pop() {
        let entry = state[at as usize].comm[node as usize];
        let Some(communication) = ranks[at as usize].comms.get(entry as usize) else {
            finish(ranks, &mut state, at, node, &mut ready);
            continue;
        };
        let matched = table.of[at as usize][entry as usize] as usize;
        let arrived = &mut here[matched];
        arrived.push((at, node));
        // A send is done once it is issued; only the receive waits.
        if matches!(communication.what, RankComm::Send(_)) {
            finish(ranks, &mut state, at, node, &mut ready);
        }
        if arrived.len() == table.needs[matched] {
            for (at, node) in std::mem::take(arrived) {
                let entry = state[at as usize].comm[node as usize];
                if !matches!(comm(ranks, (at, entry)).1.what, RankComm::Send(_)) {
                    finish(ranks, &mut state, at, node, &mut ready);
                }
            }
        }
    }
    for arrived in here {
        for (at, node) in arrived {
            let entry = state[at as usize].comm[node as usize];
            state[at as usize].waiting.push(entry);
        }
    }
    report(ranks, &state, table, findings);
}

impl RankProgress {
    fn new(rank: &RankNodes) -> RankProgress {
        let mut comm = vec![u32::MAX; rank.waits.len()];
        for (entry, communication) in (0..).zip(&rank.comms) {
            comm[communication.node as usize] = entry;
        }
        RankProgress {
            waits: rank.waits.clone(),
            comm,
            ran: 0,
            waiting: vec![],
        }
    }
}

/// Marks a node as run, which makes dependents ready that waited only for this node.
fn finish(
    ranks: &[RankNodes],
    state: &mut [RankProgress],
    at: u32,
    node: u32,
    ready: &mut Vec<(u32, u32)>,
) {
    let progress = &mut state[at as usize];
    progress.ran += 1;
    for &next in ranks[at as usize].after(node) {
        let waits = &mut progress.waits[next as usize];
        *waits = waits.saturating_sub(1);
        if *waits == 0 {
            ready.push((at, next));
        }
    }
}

/// Reports, for each rank that does not end, the first communication it waits in, and the ranks it
/// waits for.
fn report(
    ranks: &[RankNodes],
    state: &[RankProgress],
    table: &MatchTable,
    findings: &mut Findings,
) {
    let sides: Vec<&Vec<(u32, u32)>> = table.matches.values().collect();
    for (at, (rank, progress)) in ranks.iter().zip(state).enumerate() {
        let left = rank.waits.len() - progress.ran;
        // The first communication that a rank waits in is the cause; all later nodes are stuck
        // behind it.
        let stuck = progress
            .waiting
            .iter()
            .filter(|entry| !matches!(rank.comms[**entry as usize].what, RankComm::Send(_)));
        if left == 0 {
            continue;
        }
        let Some(&entry) = stuck.min() else {
            continue;
        };
        findings.note(FindingKind::Stuck, || {
            let others = &sides[table.of[at][entry as usize] as usize];
            let detail = format!(
                "waits here {}; {left} of {} nodes never run",
                missing_ranks(ranks, state, at, others),
                rank.waits.len()
            );
            rank.example(&rank.comms[entry as usize], detail)
        });
    }
}

/// Describes the ranks that the rank at index `at` waits for: ranks of a match that have not
/// reached it.
fn missing_ranks(
    ranks: &[RankNodes],
    state: &[RankProgress],
    at: usize,
    sides: &[(u32, u32)],
) -> String {
    let mut missing = vec![];
    for (other, entry) in sides {
        let has_come = state[*other as usize].waiting.contains(entry);
        if *other as usize != at && !has_come {
            missing.push(ranks[*other as usize].rank.to_string());
        }
    }
    match &missing[..] {
        [] => "for ranks that lack it".to_owned(),
        [one] => format!("for rank {one}"),
        all => format!("for ranks {}", all.join(", ")),
    }
}
