//! Aligns two sequences of names that are equal except for gaps on either side.
//!
//! ```text
//! anchor  runs of names that occur once in both, in the longest increasing order (patience)
//! between anchors  shortest edit script (Myers, An O(ND) difference algorithm)
//! too different for that  the shift that most sampled runs vote for, then Myers around it
//! ```
//! O(n log n), plus O(n d) for d differences between anchors, with d limited.

use rustc_hash::FxHashMap;

/// Length of the runs that serve as anchors.
const RUN: usize = 8;
/// Maximum number of differences that Myers follows between two anchors: memory grows with its
/// square.
const MAX_EDITS: usize = 1_000;
/// Number of runs that vote for a shift.
const SAMPLES: usize = 512;

/// Returns pairs of positions with equal values, increasing in both sequences.
pub(crate) fn align(a: &[u32], b: &[u32]) -> Vec<(u32, u32)> {
    let mut pairs = vec![];
    let (mut from_a, mut from_b) = (0, 0);
    for (at_a, at_b, len) in anchors(a, b) {
        // Runs of several values can overlap the previous anchor.
        if at_a < from_a || at_b < from_b {
            continue;
        }
        if pairs.is_empty() {
            before_first(&a[..at_a], &b[..at_b], &mut pairs);
        } else {
            between(a, b, (from_a, at_a), (from_b, at_b), &mut pairs);
        }
        pairs.extend((0..len).map(|i| ((at_a + i) as u32, (at_b + i) as u32)));
        (from_a, from_b) = (at_a + len, at_b + len);
    }
    between(a, b, (from_a, a.len()), (from_b, b.len()), &mut pairs);
    pairs
}

/// Finds runs unique in both sequences, as (position in a, position in b, length), increasing in
/// both.
fn anchors(a: &[u32], b: &[u32]) -> Vec<(usize, usize, usize)> {
    // A long run is rarely unique by chance; a short sequence has too few of them to be anchored.
    let run = if a.len().min(b.len()) >= 4 * RUN {
        RUN
    } else {
        1
    };
    let (in_a, in_b) = (unique_runs(a, run), unique_runs(b, run));
    let mut both: Vec<(usize, usize)> = in_a
        .iter()
        .filter_map(|(key, &at)| Some((at?, (*in_b.get(key)?)?)))
        .collect();
    both.sort_unstable();
    increasing(&both)
        .into_iter()
        .map(|(at_a, at_b)| (at_a, at_b, run))
        .collect()
}

/// Returns the position of each run of `length` values; `None` for runs that occur twice.
fn unique_runs(values: &[u32], length: usize) -> FxHashMap<&[u32], Option<usize>> {
    let mut found = FxHashMap::default();
    for (at, run) in values.windows(length).enumerate() {
        found
            .entry(run)
            .and_modify(|place| *place = None)
            .or_insert(Some(at));
    }
    found
}

/// Returns the longest subsequence of `points`, sorted by first, that increases in second.
fn increasing(points: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut tails: Vec<usize> = vec![];
    // Patience sorting: `tails` holds the least end of a chain of each length, `before` the way
    // back.
    let mut before = vec![usize::MAX; points.len()];
    for (index, &(_, value)) in points.iter().enumerate() {
        let pile = tails.partition_point(|&tail| points[tail].1 < value);
        before[index] = pile.checked_sub(1).map_or(usize::MAX, |below| tails[below]);
        if pile == tails.len() {
            tails.push(index)
        } else {
            tails[pile] = index
        }
    }
    let mut chain = vec![];
    let mut at = tails.last().copied().unwrap_or(usize::MAX);
    while at != usize::MAX {
        chain.push(points[at]);
        at = before[at];
    }
    chain.reverse();
    chain
}

/// Aligns the part before the first anchor, backwards: of several fitting places, the one nearest
/// to the anchor wins.
fn before_first(a: &[u32], b: &[u32], pairs: &mut Vec<(u32, u32)>) {
    between(
        &reversed(a),
        &reversed(b),
        (0, a.len()),
        (0, b.len()),
        pairs,
    );
    pairs
        .iter_mut()
        .for_each(|pair| *pair = (a.len() as u32 - 1 - pair.0, b.len() as u32 - 1 - pair.1));
    pairs.reverse();
}

fn reversed(values: &[u32]) -> Vec<u32> {
    values.iter().rev().copied().collect()
}

/// Aligns `a[span_a]` with `b[span_b]`.
fn between(
    a: &[u32],
    b: &[u32],
    span_a: (usize, usize),
    span_b: (usize, usize),
    pairs: &mut Vec<(u32, u32)>,
) {
    let (part_a, part_b) = (&a[span_a.0..span_a.1], &b[span_b.0..span_b.1]);
    if part_a.is_empty() || part_b.is_empty() {
        return;
    }
    // The two observers start at different points, so a part between anchors may have more than a
    // thousand differences. Then only a shift can be found cheaply.
    let found = myers(part_a, part_b).unwrap_or_else(|| shifted(part_a, part_b));
    pairs.extend(
        found
            .iter()
            .map(|&(at_a, at_b)| (at_a + span_a.0 as u32, at_b + span_b.0 as u32)),
    );
}

/// Returns the equal pairs of the shortest edit script; `None` beyond [`MAX_EDITS`].
fn myers(a: &[u32], b: &[u32]) -> Option<Vec<(u32, u32)>> {
    let (len_a, len_b) = (a.len() as isize, b.len() as isize);
    let limit = MAX_EDITS.min(a.len() + b.len()) as isize;
    // furthest[d][k]: furthest position in a on diagonal k after d edits
    let mut furthest: Vec<Vec<isize>> = vec![];
    for d in 0..=limit {
        let mut row = vec![-1; 2 * d as usize + 1];
        for k in (-d..=d).step_by(2) {
            let mut x = furthest
                .last()
                .map_or(0, |previous| step(previous, d - 1, k).0);
            while x < len_a && x >= k && x - k < len_b && a[x as usize] == b[(x - k) as usize] {
                x += 1;
            }
            row[(k + d) as usize] = x;
            if x >= len_a && x - k >= len_b {
                furthest.push(row);
                return Some(backtrack(&furthest, len_a, len_b));
            }
        }
        furthest.push(row);
    }
    None
}

/// Returns the entry into diagonal `k` from the row of `d` edits: (position in a, previous
/// diagonal).
fn step(row: &[isize], d: isize, k: isize) -> (isize, isize) {
    let at = |k: isize| {
        if (-d..=d).contains(&k) {
            row[(k + d) as usize]
        } else {
            -1
        }
    };
    let (down, right) = (at(k + 1), at(k - 1));
    if down > right {
        (down, k + 1)
    } else {
        (right + 1, k - 1)
    }
}

fn backtrack(furthest: &[Vec<isize>], len_a: isize, len_b: isize) -> Vec<(u32, u32)> {
    let (mut x, mut k) = (len_a, len_a - len_b);
    let mut pairs = vec![];
    for d in (0..furthest.len() as isize).rev() {
        let (entered, from) = if d == 0 {
            (0, 0)
        } else {
            step(&furthest[d as usize - 1], d - 1, k)
        };
        while x > entered.max(0) && x > k.max(0) {
            x -= 1;
            pairs.push((x as u32, (x - k) as u32));
        }
        if d > 0 {
            x = if from == k + 1 { entered } else { entered - 1 };
            k = from;
        }
    }
    pairs.reverse();
    pairs
}

/// Aligns around the shift that most runs of the shorter sequence vote for.
fn shifted(a: &[u32], b: &[u32]) -> Vec<(u32, u32)> {
    if a.len() < b.len() {
        return shifted(b, a)
            .into_iter()
            .map(|(at_b, at_a)| (at_a, at_b))
            .collect();
    }
    let Some(shift) = vote(a, b) else {
        return vec![];
    };
    // b[i] is at about a[i + shift]; differences may move it by MAX_EDITS / 2 either way
    let from = shift.max(0) as usize;
    let lead = (-shift).max(0) as usize;
    // A margin of a quarter of the differences keeps Myers within its limit if the shift is right.
    let until = (from + b.len() - lead.min(b.len()) + MAX_EDITS / 4).min(a.len());
    let Some(part) = a.get(from..until) else {
        return vec![];
    };
    let rest = &b[lead.min(b.len())..];
    // Loops over equal layers fit at many shifts: position by position is still right for most ops.
    let found = myers(part, rest).unwrap_or_else(|| straight(part, rest));
    found
        .into_iter()
        .map(|(at_a, at_b)| (at_a + from as u32, at_b + lead as u32))
        .collect()
}

/// Pairs equal values at equal positions.
fn straight(a: &[u32], b: &[u32]) -> Vec<(u32, u32)> {
    a.iter()
        .zip(b)
        .enumerate()
        .filter(|(_, (x, y))| x == y)
        .map(|(at, _)| (at as u32, at as u32))
        .collect()
}

/// Returns the position in a minus the position in b by majority of sampled runs; the smallest of
/// equals.
fn vote(a: &[u32], b: &[u32]) -> Option<isize> {
    let run = RUN.min(b.len());
    let samples = b
        .windows(run)
        .enumerate()
        .step_by((b.len() / SAMPLES).max(1));
    let mut wanted: FxHashMap<&[u32], Vec<usize>> = FxHashMap::default();
    for (at, values) in samples {
        wanted.entry(values).or_default().push(at);
    }
    let mut votes: FxHashMap<isize, usize> = FxHashMap::default();
    for (at, values) in a.windows(run).enumerate() {
        // a run that is everywhere (fills, views) is no evidence and costs much
        for &from in wanted.get(values).into_iter().flatten().take(16) {
            *votes.entry(at as isize - from as isize).or_default() += 1;
        }
    }
    votes
        .into_iter()
        .max_by_key(|&(shift, count)| (count, std::cmp::Reverse(shift.abs()), shift))
        .map(|(shift, _)| shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(a: &[u32], b: &[u32]) -> Vec<(u32, u32)> {
        let pairs = align(a, b);
        assert!(pairs.iter().all(|&(x, y)| a[x as usize] == b[y as usize]));
        assert!(pairs.windows(2).all(|p| p[0].0 < p[1].0 && p[0].1 < p[1].1));
        pairs
    }

    /// A loop body of `ops` names, many of them equal, with step labels between iterations.
    fn steps(count: u32, ops: u32) -> Vec<u32> {
        (0..count)
            .flat_map(|step| std::iter::once(10_000 + step).chain((0..ops).map(|op| op * op % 17)))
            .collect()
    }

    #[test]
    fn equal_sequences_align_wholly() {
        let a = steps(5, 400);
        assert_eq!(check(&a, &a).len(), a.len());
        assert_eq!(check(&[], &a).len(), 0);
    }

    #[test]
    fn lost_ops_cost_only_themselves() {
        let a = steps(5, 400);
        let b: Vec<u32> = a
            .iter()
            .enumerate()
            .filter(|(at, _)| at % 97 != 13)
            .map(|(_, v)| *v)
            .collect();
        let pairs = check(&a, &b);
        assert_eq!(pairs.len(), b.len());
    }

    #[test]
    fn a_window_inside_a_longer_recording_is_found() {
        let a = steps(40, 300);
        let from = 20 * 301;
        let b = &a[from..from + 2 * 301];
        let pairs = check(&a, b);
        assert_eq!(pairs.len(), b.len());
        assert!(pairs.iter().all(|&(x, y)| x as usize == y as usize + from));
    }

    #[test]
    fn a_window_without_labels_still_aligns() {
        let body: Vec<u32> = (0..5_000u32)
            .map(|op| op.wrapping_mul(2_654_435_761) >> 27)
            .collect();
        let a: Vec<u32> = body.iter().cycle().take(50_000).copied().collect();
        let pairs = check(&a, &body);
        assert_eq!(pairs.len(), body.len());
    }

    #[test]
    fn short_sequences_are_anchored_by_single_values() {
        let values = |count: u32| -> Vec<u32> { (0..count).collect() };
        let run = |count: u32| anchors(&values(count), &values(count))[0].2;
        assert_eq!((run(31), run(32)), (1, RUN));
        // the shorter one decides
        assert_eq!(anchors(&values(31), &values(100))[0].2, 1);
    }

    #[test]
    fn of_anchors_that_cross_the_longest_row_is_kept() {
        let points = [(0, 3), (1, 0), (2, 1), (3, 2)];
        assert_eq!(increasing(&points), points[1..]);
        assert_eq!(increasing(&[(0, 1), (1, 0)]).len(), 1);
        assert_eq!(increasing(&[]), []);
    }

    #[test]
    fn anchors_that_overlap_in_one_sequence_alone_are_passed_over() {
        // b repeats a piece of a, after other values
        let a: Vec<u32> = (0..40).collect();
        let b: Vec<u32> = (0..8).chain(100..120).chain(4..40).collect();
        assert_eq!(check(&a, &b).len(), a.len());
        assert_eq!(check(&b, &a).len(), a.len());
    }

    proptest! {
        #[test]
        fn never_worse_than_half_of_the_common_part(
            values in prop::collection::vec(0u32..6, 0..300),
            keep in prop::collection::vec(0u32..20, 300),
        ) {
            let b: Vec<u32> = values
                .iter()
                .zip(&keep)
                .filter(|(_, k)| **k != 0)
                .map(|(v, _)| *v)
                .collect();
            let pairs = check(&values, &b);
            prop_assert!(pairs.len() * 2 >= b.len());
        }
    }
}
