//! Sets of instants, as sorted intervals that do not touch.

use borsh::{BorshDeserialize, BorshSerialize};

/// Half-open intervals, ascending and separated.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) struct Intervals(Vec<(i64, i64)>);

impl Intervals {
    /// Adds `start..end`; calls must come by ascending start. Ignores empty intervals. O(1).
    pub(crate) fn push(&mut self, start: i64, end: i64) {
        match self.0.last_mut() {
            _ if end <= start => {}
            // Intervals that touch become one: there is no instant between them.
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => self.0.push((start, end)),
        }
    }

    /// Returns the set of one interval; empty if the interval has no length.
    pub(crate) fn of_span((start, end): (i64, i64)) -> Intervals {
        let mut one = Intervals::default();
        one.push(start, end);
        one
    }

    /// Returns edge `at` in order of time: even edges begin an interval, odd ones end it.
    fn edge(&self, at: usize) -> Option<i64> {
        let (start, end) = *self.0.get(at / 2)?;
        Some(if at.is_multiple_of(2) { start } else { end })
    }

    /// Returns the parts of `span` outside the set, ascending. O(intervals in it + log intervals).
    pub(crate) fn gaps_within(&self, span: (i64, i64)) -> Vec<(i64, i64)> {
        let mut gaps = vec![];
        let mut from = span.0;
        // for traces with many spans, most intervals end before the span
        let first = self.0.partition_point(|(_, end)| *end <= span.0);
        for (start, end) in &self.0[first..] {
            if *start >= span.1 {
                break;
            }
            if from < *start {
                gaps.push((from, *start));
            }
            from = *end;
        }
        if from < span.1 {
            gaps.push((from, span.1));
        }
        gaps
    }

    /// Starts and ends, ascending.
    pub(crate) fn spans(&self) -> &[(i64, i64)] {
        &self.0
    }

    /// Returns the part of the set within `span`. O(intervals).
    pub(crate) fn clipped_to(&self, span: (i64, i64)) -> Intervals {
        let mut clipped = Intervals::default();
        for (start, end) in &self.0 {
            clipped.push((*start).max(span.0), (*end).min(span.1));
        }
        clipped
    }

    /// Returns the set minus `others`. O(intervals · log others + intervals left).
    pub(crate) fn without(&self, others: &Intervals) -> Intervals {
        let mut left = Intervals::default();
        for span in &self.0 {
            for (start, end) in others.gaps_within(*span) {
                left.push(start, end);
            }
        }
        left
    }

    /// Total length of the intervals.
    pub(crate) fn total_length(&self) -> i64 {
        self.0.iter().fold(0, |sum, (start, end)| {
            sum.saturating_add(end.saturating_sub(*start))
        })
    }
}

/// Measures the time in which each exact combination of sets holds, by bit mask: entry 5 is the
/// time in sets 0 and 2 and no other; entry 0 is the time between the first start and the last end
/// in which none holds. O(n log sets).
pub(crate) fn by_mask<const SETS: usize, const MASKS: usize>(
    sets: &[Intervals; SETS],
) -> [i64; MASKS] {
    let mut times = [0i64; MASKS];
    let mut next = [0usize; SETS];
    let (mut mask, mut now) = (0usize, None);
    // The next edge of any set. The order of edges at one instant does not matter, as no time
    // passes.
    while let Some((time, set)) = (0..SETS)
        .filter_map(|set| Some((sets[set].edge(next[set])?, set)))
        .min()
    {
        if let (Some(now), Some(held)) = (now, times.get_mut(mask)) {
            *held = held.saturating_add(time.saturating_sub(now));
        }
        (mask, now) = (mask ^ (1 << set), Some(time));
        next[set] += 1;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(all: &[(i64, i64)]) -> Intervals {
        let mut set = Intervals::default();
        all.iter().for_each(|(start, end)| set.push(*start, *end));
        set
    }

    #[test]
    fn what_touches_is_one() {
        let set = set(&[(0, 5), (1, 2), (5, 7), (9, 9), (10, 12)]);
        assert_eq!(set.0, [(0, 7), (10, 12)]);
        assert_eq!(set.total_length(), 9);
    }

    #[test]
    fn gaps_are_what_intervals_leave() {
        let set = set(&[(0, 5), (8, 10), (12, 20)]);
        assert_eq!(set.gaps_within((4, 13)), [(5, 8), (10, 12)]);
        assert_eq!(set.gaps_within((13, 20)), []);
        assert_eq!(set.gaps_within((20, 25)), [(20, 25)]);
        assert_eq!(set.clipped_to((4, 13)).0, [(4, 5), (8, 10), (12, 13)]);
    }

    #[test]
    fn every_instant_counts_once() {
        // a ====      ==
        // b   ====  ==
        let times: [i64; 4] = by_mask(&[set(&[(0, 4), (10, 12)]), set(&[(2, 6), (8, 10)])]);
        assert_eq!(times, [2, 4, 4, 2]);
        assert_eq!(by_mask::<1, 2>(&[set(&[])]), [0, 0]);
    }
}
