//! Joins over sorted columns: grouping by a small number, and searching from where the last search
//! ended.

/// Row numbers grouped by a value of each row, in their order.
pub(crate) struct Groups {
    /// Where each group begins in `rows`, and the end.
    first: Vec<u32>,
    rows: Vec<u32>,
}

impl Groups {
    /// Groups rows by `values`, all below `groups`. O(rows + groups).
    pub(crate) fn new(values: impl Iterator<Item = usize> + Clone, groups: usize) -> Groups {
        let mut first = vec![0u32; groups + 1];
        values.clone().for_each(|value| first[value + 1] += 1);
        (0..groups).for_each(|group| first[group + 1] += first[group]);
        let mut next = first.clone();
        let mut rows = vec![0u32; first[groups] as usize];
        for (row, value) in values.enumerate() {
            rows[next[value] as usize] = row as u32;
            next[value] += 1;
        }
        Groups { first, rows }
    }

    /// The rows of a group.
    pub(crate) fn of(&self, group: usize) -> &[u32] {
        &self.rows[self.first[group] as usize..self.first[group + 1] as usize]
    }
}

/// `sorted.partition_point(before)`, quick where that is near `hint`: O(log distance).
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_of_a_group_keep_their_order() {
        let groups = Groups::new([2, 0, 2, 3, 0].into_iter(), 5);
        let all: Vec<&[u32]> = (0..5).map(|group| groups.of(group)).collect();
        assert_eq!(all, [&[1, 4][..], &[], &[0, 2], &[3], &[]]);
    }

    proptest! {
        #[test]
        fn from_any_hint_the_same_place(mut values in prop::collection::vec(0u32..50, 0..80), value in 0u32..52, hint in 0usize..90) {
            values.sort_unstable();
            prop_assert_eq!(seek(&values, hint, |other| *other < value), values.partition_point(|other| *other < value));
        }
    }
}
