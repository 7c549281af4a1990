//! Checks that all ranks finish if each runs its communications one after the other.
//!
//! A collective waits until all its ranks have arrived; a send proceeds at once, a receive waits
//! for its send. This is how ASTRA-sim runs a rank's communications. If two ranks run two
//! collectives in opposite order, both wait forever; to continue, the earliest awaited collective
//! is removed. O(steps + removed · ranks).

use super::join::problems::Problems;
use super::join::side;
use super::{Communication, JoinProblem, RankSummary, RunJoin};
use etlink_model::{CollectiveKind, MatchIdx, RankIdx};

/// Role of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommRole {
    /// Waits for all other ranks of its collective.
    Meets,
    /// Proceeds at once.
    Sends,
    /// Waits for the matching send.
    Receives,
}

/// Steps of all ranks.
#[derive(Clone, Debug, Default)]
pub struct DeadlockCheck {
    /// Collectives of each rank, in order.
    queues: Vec<Vec<(MatchIdx, CommRole)>>,
    /// Participants and state of each collective.
    matches: Vec<MatchState>,
}

#[derive(Clone, Debug, Default)]
struct MatchState {
    ranks: Vec<RankIdx>,
    here: usize,
    sent: bool,
    out: bool,
}

impl DeadlockCheck {
    /// Creates a check without any steps.
    pub fn new(ranks: usize, matches: usize) -> DeadlockCheck {
        DeadlockCheck {
            queues: vec![vec![]; ranks],
            matches: vec![MatchState::default(); matches],
        }
    }

    /// Adds the ranks' steps for the matches that take part, each rank's sorted by `key`.
    pub fn from_matches<K: Ord>(
        ranks: &[RankSummary],
        join: &RunJoin,
        takes_part: impl Fn(MatchIdx) -> bool,
        key: impl Fn(&Communication) -> K,
    ) -> DeadlockCheck {
        let mut steps: Vec<Vec<(K, MatchIdx, CommRole)>> = ranks.iter().map(|_| vec![]).collect();
        for (at, matched) in (0u32..).map(MatchIdx).zip(&join.matches) {
            if !takes_part(at) {
                continue;
            }
            for member in &matched.members {
                let (_, communication) = side(ranks, *member);
                let role = match communication.kind {
                    CollectiveKind::Send => CommRole::Sends,
                    // nothing is known of a sender without a trace
                    CollectiveKind::Recv if matched.absent == 0 => CommRole::Receives,
                    // It must not block: its send never comes.
                    CollectiveKind::Recv => CommRole::Sends,
                    _ => CommRole::Meets,
                };
                steps[member.rank.index()].push((key(communication), at, role));
            }
        }
        let mut deadlock = DeadlockCheck::new(ranks.len(), join.matches.len());
        for (rank, mut steps) in (0..).map(RankIdx).zip(steps) {
            steps.sort_by(|(one, ..), (other, ..)| one.cmp(other));
            steps
                .into_iter()
                .for_each(|(_, matched, role)| deadlock.push(rank, matched, role));
        }
        deadlock
    }

    /// Appends a step of a rank. Ranks and collectives beyond those given to [`DeadlockCheck::new`]
    /// are ignored.
    pub fn push(&mut self, rank: RankIdx, matched: MatchIdx, role: CommRole) {
        if let (Some(queue), Some(state)) = (
            self.queues.get_mut(rank.index()),
            self.matches.get_mut(matched.index()),
        ) {
            queue.push((matched, role));
            state.ranks.push(rank);
        }
    }

    /// Runs all ranks, and returns the collectives that had to be removed for all to finish, in
    /// order of removal.
    pub fn into_removed(mut self) -> Vec<MatchIdx> {
        let mut next = vec![0usize; self.queues.len()];
        let mut came: Vec<Option<MatchIdx>> = vec![None; self.queues.len()];
        let mut ready: Vec<RankIdx> = (0u32..).map(RankIdx).take(self.queues.len()).collect();
        let mut out = vec![];
        loop {
            while let Some(rank) = ready.pop() {
                self.advance(rank, &mut next, &mut came, &mut ready);
            }
            let heads = self
                .queues
                .iter()
                .zip(&next)
                .filter_map(|(queue, next)| queue.get(*next));
            // The earliest collective in time: this keeps the order of most ranks, and is
            // deterministic.
            let Some(stuck) = heads.map(|(matched, _)| *matched).min() else {
                return out;
            };
            out.push(stuck);
            let state = &mut self.matches[stuck.index()];
            state.out = true;
            ready.extend(&state.ranks);
        }
    }

    /// Advances a rank as far as possible.
    fn advance(
        &mut self,
        rank: RankIdx,
        next: &mut [usize],
        came: &mut [Option<MatchIdx>],
        ready: &mut Vec<RankIdx>,
    ) {
        let at = rank.index();
        while let Some(&(matched, role)) = self.queues[at].get(next[at]) {
            let state = &mut self.matches[matched.index()];
            let goes = state.out
                || match role {
                    // ASTRA-sim issues a send without waiting for its receive.
                    CommRole::Sends => {
                        state.sent = true;
                        ready.extend(&state.ranks);
                        true
                    }
                    CommRole::Receives => state.sent,
                    CommRole::Meets => {
                        // A rank that is woken in vain reaches the same collective again, but must
                        // count once.
                        if came[at] != Some(matched) {
                            (came[at], state.here) = (Some(matched), state.here + 1);
                            if state.here == state.ranks.len() {
                                ready.extend(&state.ranks);
                            }
                        }
                        state.here == state.ranks.len()
                    }
                };
            if !goes {
                return;
            }
            next[at] += 1;
        }
    }
}

/// Reports these matches as problems: ranks run them in opposite order.
pub fn serialize_comms(
    ranks: &[RankSummary],
    join: &RunJoin,
    places: &[MatchIdx],
) -> Vec<JoinProblem> {
    let mut problems = Problems::default();
    let matches = places
        .iter()
        .filter_map(|place| join.matches.get(place.index()));
    matches.for_each(|matched| problems.in_opposite_order(ranks, &join.groups, matched));
    problems.sorted()
}

/// Reports order conflicts as problems: the collectives that would have to be removed for all ranks
/// to finish, if each ran its communications one after the other.
pub fn order_conflicts(ranks: &[RankSummary], join: &RunJoin) -> Vec<JoinProblem> {
    let check = DeadlockCheck::from_matches(
        ranks,
        join,
        |matched| join.matches[matched.index()].is_whole(),
        |communication| communication.node,
    );
    serialize_comms(ranks, join, &check.into_removed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::testing::{collective, message, rank};
    use CommRole::{Meets, Receives, Sends};

    fn run(queues: &[&[(u32, CommRole)]]) -> Vec<u32> {
        let mut deadlock = DeadlockCheck::new(queues.len(), 9);
        for (rank, queue) in (0..).map(RankIdx).zip(queues) {
            queue
                .iter()
                .for_each(|&(matched, role)| deadlock.push(rank, MatchIdx(matched), role));
        }
        let removed: Vec<MatchIdx> = deadlock.into_removed();
        removed.into_iter().map(|matched| matched.0).collect()
    }

    #[test]
    fn one_order_ends() {
        assert!(
            run(&[
                &[(0, Meets), (1, Meets), (2, Meets)],
                &[(0, Meets), (2, Meets)],
                &[(1, Meets)]
            ])
            .is_empty()
        );
        assert!(run(&[]).is_empty());
    }

    #[test]
    fn opposite_orders_do_not() {
        assert_eq!(
            run(&[
                &[(0, Meets), (1, Meets), (2, Meets)],
                &[(1, Meets), (0, Meets), (2, Meets)]
            ]),
            [0]
        );
        assert_eq!(
            run(&[
                &[(0, Meets), (1, Meets)],
                &[(1, Meets), (2, Meets)],
                &[(2, Meets), (0, Meets)]
            ]),
            [0],
            "a circle of three"
        );
    }

    #[test]
    fn nobody_waits_for_a_sender_without_a_trace() {
        let mut ranks = [0, 1].map(|at| rank(at, 3, &[&[0, 1]]));
        message(&mut ranks[0], CollectiveKind::Recv, Some(2), 0);
        for summary in &mut ranks {
            collective(summary, CollectiveKind::AllReduce, 0, 1, (10, 15));
        }
        let join = crate::ranks::join_ranks(&ranks);
        assert_eq!(join.matches.len(), 2);
        assert!(order_conflicts(&ranks, &join).is_empty());
    }

    #[test]
    fn sends_do_not_wait_and_receives_do() {
        assert!(run(&[&[(0, Sends), (1, Receives)], &[(1, Sends), (0, Receives)]]).is_empty());
        assert_eq!(
            run(&[&[(1, Receives), (0, Sends)], &[(0, Receives), (1, Sends)]]),
            [0]
        );
    }
}
