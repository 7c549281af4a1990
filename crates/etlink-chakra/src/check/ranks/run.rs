//! Lets all ranks run as far as possible.

use super::{MatchTable, RankNodes};
use crate::finding::{FindingKind, Findings};
use etlink_link::ranks::CommRole;

/// Progress of one rank.
struct RankProgress {
    /// Number of dependencies of each node that have not run.
    waits: Vec<u32>,
    ran: usize,
    /// Entries of `comms` that have started and wait for other ranks.
    waiting: Vec<u32>,
}

/// A node: the index of its rank, and its own.
type NodeOfRank = (u32, u32);

/// Runs all ranks and reports nodes that wait forever.
pub(super) fn run(ranks: &[RankNodes], table: &MatchTable, findings: &mut Findings) {
    let (mut state, mut ready): (Vec<RankProgress>, Vec<NodeOfRank>) = (vec![], vec![]);
    for (at, rank) in (0u32..).zip(ranks) {
        state.push(RankProgress {
            waits: rank.waits.clone(),
            ran: 0,
            waiting: vec![],
        });
        ready.extend(rank.roots().map(|node| (at, node)));
    }
    let mut here: Vec<Vec<NodeOfRank>> = vec![vec![]; table.needs.len()];
    while let Some((at, node)) = ready.pop() {
        let mut finish = |(at, node): NodeOfRank| {
            let progress = &mut state[at as usize];
            progress.ran += 1;
            let next = |next| ready.push((at, next));
            ranks[at as usize].finish(node, &mut progress.waits, next);
        };
        let Some((entry, communication)) = ranks[at as usize].comm_of(node) else {
            finish((at, node));
            continue;
        };
        let matched = table.of[at as usize][entry as usize] as usize;
        let arrived = &mut here[matched];
        arrived.push((at, node));
        // A send is done once it is issued; only the receive waits.
        if communication.role == CommRole::Sends {
            finish((at, node));
        }
        if arrived.len() == table.needs[matched] {
            for (at, node) in std::mem::take(arrived) {
                let comm = ranks[at as usize].comm_of(node);
                if comm.is_some_and(|(_, comm)| comm.role != CommRole::Sends) {
                    finish((at, node));
                }
            }
        }
    }
    for (at, node) in here.into_iter().flatten() {
        let entry = ranks[at as usize].comm_of(node).map(|(entry, _)| entry);
        state[at as usize].waiting.extend(entry);
    }
    report(ranks, &state, table, findings);
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
            .filter(|entry| rank.comms[**entry as usize].role != CommRole::Sends);
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
