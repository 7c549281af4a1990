//! Distributes the ranges of one thread or stream over the fewest tracks that keep them apart.
//!
//! A Perfetto track accepts ranges that nest; if two overlap otherwise, it drops one.

use etlink_model::TimeNs;
use std::collections::BTreeSet;

/// Assigns lanes to the ranges of one thread or stream, in order of start and the longer first.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackLanes {
    /// True if ranges may nest: calls do, work of a stream runs next to other work.
    nests: bool,
    /// Ends of the open ranges per lane, the innermost last.
    open: Vec<Vec<TimeNs>>,
    /// Innermost end and number of each occupied lane.
    innermost: BTreeSet<(TimeNs, u32)>,
    /// Lanes without an open range.
    free: BTreeSet<u32>,
}

impl TrackLanes {
    pub(super) fn new(nests: bool) -> TrackLanes {
        TrackLanes {
            nests,
            ..TrackLanes::default()
        }
    }

    /// Returns the lane of the next range: inside the narrowest range that encloses it, else the
    /// first free lane. O(log lanes), amortised.
    pub(super) fn place_range(&mut self, start: TimeNs, end: TimeNs) -> u32 {
        self.close_ended(start);
        let around = self
            .innermost
            // The narrowest open range that ends no earlier is the one to nest in.
            .range((end, 0)..)
            .next()
            .copied();
        let lane = match around {
            Some(around) if self.nests => {
                self.innermost.remove(&around);
                around.1
            }
            _ => self.free.pop_first().unwrap_or_else(|| self.add_lane()),
        };
        if let Some(open) = self.open.get_mut(lane as usize) {
            open.push(end);
        }
        self.innermost.insert((end, lane));
        lane
    }

    fn add_lane(&mut self) -> u32 {
        self.open.push(vec![]);
        self.open.len() as u32 - 1
    }

    /// Closes the ranges that have ended.
    fn close_ended(&mut self, now: TimeNs) {
        while let Some(&(end, lane)) = self.innermost.first().filter(|(end, _)| *end <= now) {
            self.innermost.remove(&(end, lane));
            let Some(open) = self.open.get_mut(lane as usize) else {
                continue;
            };
            // Nested ranges may have ended together, so several may be over at once.
            while open.last().is_some_and(|end| *end <= now) {
                open.pop();
            }
            match open.last() {
                Some(&end) => self.innermost.insert((end, lane)),
                None => self.free.insert(lane),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn placed(nests: bool, ranges: &[(i64, i64)]) -> Vec<u32> {
        let mut lanes = TrackLanes::new(nests);
        ranges
            .iter()
            .map(|&(start, end)| lanes.place_range(TimeNs(start), TimeNs(end)))
            .collect()
    }

    #[test]
    fn what_nests_stays_and_what_overlaps_moves() {
        assert_eq!(
            placed(true, &[(0, 10), (0, 4), (4, 8), (5, 12), (6, 7), (13, 20)]),
            [0, 0, 0, 1, 0, 0]
        );
        assert_eq!(placed(true, &[(0, 10), (10, 10), (10, 20)]), [0, 0, 0]);
        assert_eq!(
            placed(false, &[(0, 10), (0, 4), (4, 8), (10, 12)]),
            [0, 1, 1, 0]
        );
    }

    proptest! {
        #[test]
        fn no_lane_has_ranges_that_cross(
            nests: bool,
            mut ranges in prop::collection::vec((0i64..50, 0i64..20), 0..60),
        ) {
            ranges.sort_by_key(|(start, length)| (*start, -length));
            let ranges: Vec<(i64, i64)> = ranges
                .iter()
                .map(|(start, length)| (*start, start + length))
                .collect();
            let lanes = placed(nests, &ranges);
            for (a, left) in ranges.iter().enumerate() {
                for (b, right) in ranges
                    .iter()
                    .enumerate()
                    .skip(a + 1)
                    .filter(|(b, _)| lanes[a] == lanes[*b])
                {
                    let apart = right.0 >= left.1;
                    let inside = nests && right.1 <= left.1;
                    prop_assert!(
                        apart || inside,
                        "{left:?} and {right:?} are both on lane {}, {a} {b}",
                        lanes[a]
                    );
                }
            }
        }
    }
}
