//! Joins over sorted columns: grouping by a small number, and searches that start where the last
//! one ended. Searches over convex functions.

use etlink_model::TableIdx;
use std::marker::PhantomData;

/// Rows `R` of a table, grouped by a column of ids `G`, in table order.
pub(crate) struct Groups<G, R> {
    /// Start of each group in `rows`, followed by the end.
    first: Vec<u32>,
    rows: Vec<R>,
    group: PhantomData<G>,
}

impl<G: TableIdx, R: TableIdx> Groups<G, R> {
    /// Groups rows by `column`, whose ids are all below `groups`. O(rows + groups).
    pub(crate) fn new(column: &[G], groups: usize) -> Groups<G, R> {
        let mut first = vec![0u32; groups + 1];
        for group in column {
            first[group.index() + 1] += 1;
        }
        for group in 0..groups {
            first[group + 1] += first[group];
        }
        let mut next = first.clone();
        let mut rows = vec![R::from_index(0); column.len()];
        for (row, group) in column.iter().enumerate() {
            let place = &mut next[group.index()];
            rows[*place as usize] = R::from_index(row);
            *place += 1;
        }
        Groups {
            first,
            rows,
            group: PhantomData,
        }
    }

    /// Returns the rows of a group.
    pub(crate) fn rows(&self, group: G) -> &[R] {
        let [start, end] = [group.index(), group.index() + 1].map(|at| self.first[at] as usize);
        &self.rows[start..end]
    }
}

/// Like `sorted.partition_point(before)`, but fast if the result is near `hint`: O(log distance).
pub(crate) fn seek<T>(sorted: &[T], hint: usize, before: impl Fn(&T) -> bool) -> usize {
    let hint = hint.min(sorted.len());
    let mut step = 1;
    if sorted.get(hint).is_some_and(&before) {
        let mut low = hint + 1;
        while sorted.get(low + step - 1).is_some_and(&before) {
            low += step;
            step *= 2;
        }
        let high = (low + step - 1).min(sorted.len());
        return low + sorted[low..high].partition_point(before);
    }
    let mut high = hint;
    while high >= step && !before(&sorted[high - step]) {
        high -= step;
        step *= 2;
    }
    let low = high.saturating_sub(step);
    low + sorted[low..high].partition_point(before)
}

/// Finds the minimum of a convex function.
pub(crate) fn least_at(of: impl Fn(i64) -> i128, mut low: i64, mut high: i64) -> i64 {
    while high - low > 2 {
        let third = (high - low) / 3;
        let (one, other) = (low + third, high - third);
        if of(one) <= of(other) {
            high = other
        } else {
            low = one
        }
    }
    (low..=high).min_by_key(|at| of(*at)).unwrap_or(low)
}

/// Returns the last place from `inside` towards `limit` at which a convex function is at most 0; at
/// `inside` it is.
pub(crate) fn last_fit(of: impl Fn(i64) -> i128, inside: i64, limit: i64) -> i64 {
    if of(limit) <= 0 {
        return limit;
    }
    let (mut fits, mut misses) = (inside, limit);
    while fits.abs_diff(misses) > 1 {
        let middle = fits.midpoint(misses);
        if of(middle) <= 0 {
            fits = middle
        } else {
            misses = middle
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_model::{QueueIdx, RowIdx};
    use proptest::prelude::*;

    #[test]
    fn rows_of_a_group_keep_their_order() {
        let column = [2, 0, 2, 3, 0].map(QueueIdx);
        let groups = Groups::<QueueIdx, RowIdx>::new(&column, 5);
        let all = [0, 1, 2, 3, 4].map(|group| groups.rows(QueueIdx(group)));
        let want = [&[1, 4][..], &[], &[0, 2], &[3], &[]];
        assert_eq!(
            all.map(|rows| rows.to_vec()),
            want.map(|rows| {
                let rows = rows.iter().copied();
                rows.map(RowIdx).collect::<Vec<_>>()
            })
        );
    }

    proptest! {
        #[test]
        fn from_any_hint_the_same_place(
            mut values in prop::collection::vec(0u32..50, 0..80),
            value in 0u32..52,
            hint in 0usize..90,
        ) {
            values.sort_unstable();
            prop_assert_eq!(
                seek(&values, hint, |other| *other < value),
                values.partition_point(|other| *other < value)
            );
        }
    }
}
