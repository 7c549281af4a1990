//! Unrolls collectives into messages between their ranks.
//!
//! | | ring | tree | pairwise |
//! |---|---|---|---|
//! | all-reduce | reduce-scatter, all-gather | reduce to the root, broadcast (binomial) | reduce-scatter, all-gather |
//! | all-gather, reduce-scatter | to the next rank, p - 1 steps | Bruck, log p steps | each rank
//! with each |
//! | all-to-all | each rank with each, in turn | Bruck, log p steps | each rank with each |
//! | broadcast, reduce | along the ranks | binomial | from or to the root |
//! | gather, scatter | from or to the root | from or to the root | from or to the root |
//! | barrier | one-byte all-reduce | dissemination | all-reduce |
//!
//! The root is the group's first rank, since a Chakra node does not name another. Sources: Thakur,
//! Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005);
//! Bruck et al., "Efficient Algorithms for All-to-All Communications" (1997).

use etlink_chakra::proto::CollectiveCommType;

/// Algorithm that turns collectives into messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CollectiveAlgorithm {
    /// Messages to the next rank of a ring.
    #[default]
    Ring,
    /// Trees, in a logarithmic number of steps.
    Tree,
    /// Messages between every pair of ranks.
    Pairwise,
}

/// Messages of one rank in a step: they may all run concurrently, once the previous step is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommStep {
    /// Receiving ranks of the group, with bytes.
    pub sends: Vec<(u32, u64)>,
    /// Sending ranks of the group, with bytes.
    pub receives: Vec<(u32, u64)>,
}

/// Position of a rank in its group.
#[derive(Clone, Copy, Debug)]
pub struct GroupPlace {
    /// Index of the rank in the group.
    pub rank: u32,
    /// Number of ranks in the group.
    pub ranks: u32,
}

impl GroupPlace {
    fn ahead(self, by: u32) -> u32 {
        (self.rank + by) % self.ranks
    }

    fn behind(self, by: u32) -> u32 {
        (self.rank + self.ranks - by % self.ranks) % self.ranks
    }
}

impl CommStep {
    fn exchange(to: u32, from: u32, bytes: u64) -> CommStep {
        CommStep {
            sends: vec![(to, bytes)],
            receives: vec![(from, bytes)],
        }
    }

    fn is_empty(&self) -> bool {
        self.sends.is_empty() && self.receives.is_empty()
    }
}

/// Returns the messages of a rank in a collective. `bytes` is the size in Chakra's terms: the
/// contribution of each rank for an all-gather, the whole buffer of a rank for a reduce-scatter,
/// all-reduce or all-to-all. O(ranks).
pub fn unroll(
    algorithm: CollectiveAlgorithm,
    kind: CollectiveCommType,
    bytes: u64,
    place: GroupPlace,
) -> Vec<CommStep> {
    use CollectiveCommType as Kind;
    if place.ranks < 2 {
        return vec![];
    }
    let part = bytes.div_ceil(u64::from(place.ranks));
    let mut steps = match kind {
        Kind::AllReduce => all_reduce(algorithm, bytes, part, place),
        Kind::AllGather => all_gather(algorithm, bytes, place),
        Kind::ReduceScatter | Kind::ReduceScatterBlock => reduce_scatter(algorithm, part, place),
        Kind::AllToAll => match algorithm {
            CollectiveAlgorithm::Ring => rotations(part, place),
            CollectiveAlgorithm::Tree => bruck_all_to_all(part, place),
            CollectiveAlgorithm::Pairwise => at_once(rotations(part, place)),
        },
        Kind::Broadcast => broadcast(algorithm, bytes, place),
        Kind::Reduce => reversed(broadcast(algorithm, bytes, place)),
        Kind::Scatter => from_root(bytes, place),
        Kind::Gather => reversed(from_root(bytes, place)),
        Kind::Barrier => match algorithm {
            CollectiveAlgorithm::Tree => bruck(place, |_| 1),
            _ => all_reduce(algorithm, 1, 1, place),
        },
    };
    steps.retain(|step| !step.is_empty());
    steps
}

/// Returns the messages of a rank in an uneven all-to-all, by the bytes that it sends to each rank
/// and receives from each. Pairs that exchange nothing have no message; blocks of different sizes
/// are not combined, so the tree is like the ring. O(ranks).
pub(super) fn exchange_pairs(
    algorithm: CollectiveAlgorithm,
    [sent, received]: &[Vec<u64>; 2],
    place: GroupPlace,
) -> Vec<CommStep> {
    let mut steps = rotations(0, place);
    for step in &mut steps {
        for (messages, bytes) in [(&mut step.sends, sent), (&mut step.receives, received)] {
            messages
                .iter_mut()
                .for_each(|of| of.1 = bytes[of.0 as usize]);
            messages.retain(|(_, bytes)| *bytes > 0);
        }
    }
    steps.retain(|step| !step.is_empty());
    match algorithm {
        CollectiveAlgorithm::Pairwise => at_once(steps),
        _ => steps,
    }
}

fn all_reduce(
    algorithm: CollectiveAlgorithm,
    bytes: u64,
    part: u64,
    place: GroupPlace,
) -> Vec<CommStep> {
    match algorithm {
        CollectiveAlgorithm::Ring | CollectiveAlgorithm::Pairwise => {
            let mut steps = reduce_scatter(algorithm, part, place);
            steps.extend(all_gather(algorithm, part, place));
            steps
        }
        CollectiveAlgorithm::Tree => {
            let mut steps = reversed(binomial(bytes, place));
            steps.extend(binomial(bytes, place));
            steps
        }
    }
}

fn all_gather(algorithm: CollectiveAlgorithm, bytes: u64, place: GroupPlace) -> Vec<CommStep> {
    match algorithm {
        CollectiveAlgorithm::Ring => around(bytes, place),
        CollectiveAlgorithm::Tree => bruck(place, |blocks| bytes * u64::from(blocks)),
        CollectiveAlgorithm::Pairwise => at_once(rotations(bytes, place)),
    }
}

fn reduce_scatter(algorithm: CollectiveAlgorithm, part: u64, place: GroupPlace) -> Vec<CommStep> {
    match algorithm {
        CollectiveAlgorithm::Ring => around(part, place),
        CollectiveAlgorithm::Tree => reversed(bruck(place, |blocks| part * u64::from(blocks))),
        CollectiveAlgorithm::Pairwise => at_once(rotations(part, place)),
    }
}

fn broadcast(algorithm: CollectiveAlgorithm, bytes: u64, place: GroupPlace) -> Vec<CommStep> {
    match algorithm {
        CollectiveAlgorithm::Ring => along(bytes, place),
        CollectiveAlgorithm::Tree => binomial(bytes, place),
        CollectiveAlgorithm::Pairwise => from_root(bytes, place),
    }
}

/// Sends to the next rank and receives from the previous one, once per other rank.
fn around(bytes: u64, place: GroupPlace) -> Vec<CommStep> {
    let step = CommStep::exchange(place.ahead(1), place.behind(1), bytes);
    vec![step; place.ranks as usize - 1]
}

/// Exchanges with each other rank in turn: step k sends to the k-th rank ahead and receives from
/// the k-th behind.
fn rotations(bytes: u64, place: GroupPlace) -> Vec<CommStep> {
    (1..place.ranks)
        .map(|by| CommStep::exchange(place.ahead(by), place.behind(by), bytes))
        .collect()
}

/// Merges steps that need not wait for each other.
fn at_once(steps: Vec<CommStep>) -> Vec<CommStep> {
    let mut all = CommStep::default();
    for step in steps {
        all.sends.extend(step.sends);
        all.receives.extend(step.receives);
    }
    vec![all]
}

/// Passes the data along the ranks: from the first to the second, from the second to the third, …
fn along(bytes: u64, place: GroupPlace) -> Vec<CommStep> {
    let before = place.rank.checked_sub(1);
    let after = Some(place.rank + 1).filter(|after| *after < place.ranks);
    vec![
        CommStep {
            sends: vec![],
            receives: before.map(|rank| (rank, bytes)).into_iter().collect(),
        },
        CommStep {
            sends: after.map(|rank| (rank, bytes)).into_iter().collect(),
            receives: vec![],
        },
    ]
}

/// Sends from the first rank to each other one.
fn from_root(bytes: u64, place: GroupPlace) -> Vec<CommStep> {
    vec![if place.rank == 0 {
        CommStep {
            sends: (1..place.ranks).map(|rank| (rank, bytes)).collect(),
            receives: vec![],
        }
    } else {
        CommStep {
            sends: vec![],
            receives: vec![(0, bytes)],
        }
    }]
}

/// Broadcasts along a binomial tree from the first rank: the distance to the next receiver doubles
/// in each step.
fn binomial(bytes: u64, place: GroupPlace) -> Vec<CommStep> {
    let mut steps = vec![];
    let mut distance = 1;
    while distance < place.ranks {
        let mut step = CommStep::default();
        if place.rank < distance && place.rank + distance < place.ranks {
            step.sends.push((place.rank + distance, bytes));
        } else if (distance..2 * distance).contains(&place.rank) {
            step.receives.push((place.rank - distance, bytes));
        }
        steps.push(step);
        distance *= 2;
    }
    steps
}

/// Bruck's all-gather: in each step a rank sends the blocks it holds to the rank `distance` behind
/// it, limited to the missing blocks.
fn bruck(place: GroupPlace, bytes_of: impl Fn(u32) -> u64) -> Vec<CommStep> {
    let mut steps = vec![];
    let mut distance = 1;
    while distance < place.ranks {
        let blocks = distance.min(place.ranks - distance);
        steps.push(CommStep::exchange(
            place.behind(distance),
            place.ahead(distance),
            bytes_of(blocks),
        ));
        distance *= 2;
    }
    steps
}

/// Bruck's all-to-all: each step moves the blocks whose distance has the step's bit set.
fn bruck_all_to_all(part: u64, place: GroupPlace) -> Vec<CommStep> {
    let mut steps = vec![];
    let mut distance = 1;
    while distance < place.ranks {
        let blocks = (1..place.ranks).filter(|way| way & distance != 0).count() as u64;
        steps.push(CommStep::exchange(
            place.ahead(distance),
            place.behind(distance),
            part * blocks,
        ));
        distance *= 2;
    }
    steps
}

/// Reverses a schedule in time and direction: senders become receivers.
fn reversed(steps: Vec<CommStep>) -> Vec<CommStep> {
    let turned = steps.into_iter().rev().map(|step| CommStep {
        sends: step.receives,
        receives: step.sends,
    });
    turned.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const ALGORITHMS: [CollectiveAlgorithm; 3] = [
        CollectiveAlgorithm::Ring,
        CollectiveAlgorithm::Tree,
        CollectiveAlgorithm::Pairwise,
    ];

    fn run(algorithm: CollectiveAlgorithm, kind: CollectiveCommType, ranks: u32) -> u64 {
        let place = |rank| GroupPlace { rank, ranks };
        let steps = (0..ranks).map(|rank| unroll(algorithm, kind, 840, place(rank)));
        exchanged(
            &steps.collect::<Vec<_>>(),
            &format!("{algorithm:?} {kind:?}"),
        )
    }

    /// Runs all ranks step by step; a receive takes the oldest message of its sender. Returns the
    /// bytes sent.
    fn exchanged(steps: &[Vec<CommStep>], what: &str) -> u64 {
        let ranks = steps.len() as u32;
        let mut done = vec![0; ranks as usize];
        let mut sent_step = vec![0; ranks as usize];
        let mut wires: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
        let mut sent = 0;
        loop {
            let mut moved = false;
            for rank in 0..ranks {
                let at = rank as usize;
                let Some(step) = steps[at].get(done[at]) else {
                    continue;
                };
                if sent_step[at] == done[at] {
                    sent_step[at] += 1;
                    moved = true;
                    for &(to, bytes) in &step.sends {
                        assert!(to < ranks && to != rank);
                        wires.entry((rank, to)).or_default().push(bytes);
                        sent += bytes;
                    }
                }
                let is_there = |&(from, _): &(u32, u64)| {
                    wires
                        .get(&(from, rank))
                        .is_some_and(|wire| !wire.is_empty())
                };
                if step.receives.iter().all(is_there) {
                    for &(from, bytes) in &step.receives {
                        let wire = wires.get_mut(&(from, rank)).expect("is there");
                        assert_eq!(wire.remove(0), bytes, "{what} {ranks}");
                    }
                    done[at] += 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        for (done, steps) in done.iter().zip(steps) {
            assert_eq!(*done, steps.len(), "{what} of {ranks} ends");
        }
        assert!(wires.values().all(Vec::is_empty), "all is received");
        sent
    }

    #[test]
    fn all_ranks_of_all_collectives_end() {
        for algorithm in ALGORITHMS {
            for number in 0..10 {
                let kind = CollectiveCommType::try_from(number).expect("a type");
                for ranks in 1..18 {
                    run(algorithm, kind, ranks);
                }
            }
        }
    }

    /// Some pairs exchange nothing, and nobody sends to rank 3.
    #[test]
    fn pairs_of_an_uneven_all_to_all_exchange_their_own_bytes() {
        let bytes = |from: u32, to: u32| match to {
            3 => 0,
            _ => u64::from((from + 2 * to) % 4 * (1 + from)),
        };
        for algorithm in ALGORITHMS {
            for ranks in 2..9 {
                let of_rank = |rank| {
                    let sent = (0..ranks).map(|to| bytes(rank, to)).collect();
                    let received = (0..ranks).map(|from| bytes(from, rank)).collect();
                    exchange_pairs(algorithm, &[sent, received], GroupPlace { rank, ranks })
                };
                let steps: Vec<_> = (0..ranks).map(of_rank).collect();
                let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
                let between = pairs.filter(|(from, to)| from != to);
                let want: u64 = between.map(|(from, to)| bytes(from, to)).sum();
                assert_eq!(exchanged(&steps, "uneven all-to-all"), want);
            }
        }
    }

    #[test]
    fn as_much_is_sent_as_the_algorithms_need() {
        use CollectiveAlgorithm::{Pairwise, Ring, Tree};
        use CollectiveCommType as Kind;
        for (algorithm, kind, ranks, bytes) in [
            // 2 (p - 1) / p of the buffer per rank
            (Ring, Kind::AllReduce, 4, 4 * 2 * 3 * 210),
            (Pairwise, Kind::AllReduce, 4, 4 * 2 * 3 * 210),
            // up and down a tree of p - 1 edges
            (Tree, Kind::AllReduce, 7, 2 * 6 * 840),
            // each rank gets the blocks of all others
            (Ring, Kind::AllGather, 7, 7 * 6 * 840),
            (Tree, Kind::AllGather, 7, 7 * 6 * 840),
            (Pairwise, Kind::AllGather, 7, 7 * 6 * 840),
            (Tree, Kind::ReduceScatter, 7, 7 * 6 * 120),
            (Ring, Kind::AllToAll, 7, 7 * 6 * 120),
            // each of the three bits is set in 3 of the distances 1 to 6
            (Tree, Kind::AllToAll, 7, 7 * (3 + 3 + 3) * 120),
            (Ring, Kind::Broadcast, 7, 6 * 840),
            (Tree, Kind::Reduce, 7, 6 * 840),
            (Pairwise, Kind::Gather, 7, 6 * 840),
        ] {
            assert_eq!(run(algorithm, kind, ranks), bytes, "{algorithm:?} {kind:?}");
        }
    }
}
