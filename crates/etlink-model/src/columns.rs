//! Tables as structs of vectors.

/// Declares a row type and the table that stores such rows column by column.
macro_rules! columns {
    ($(#[$table_doc:meta])* table $Table:ident; $(#[$row_doc:meta])* row $Row:ident {
        $($(#[$doc:meta])* $field:ident: $kind:ty,)*
    }) => {
        $(#[$row_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $Row { $($(#[$doc])* pub $field: $kind,)* }

        $(#[$table_doc])*
        #[derive(Clone, Debug, Default, PartialEq, borsh::BorshSerialize, borsh::BorshDeserialize)]
        pub struct $Table { $($(#[$doc])* pub $field: Vec<$kind>,)* }

        impl $Table {
            // Excludes the padding that a row would have as one value.
            /// Memory per row, in bytes.
            pub const ROW_BYTES: usize = 0 $(+ size_of::<$kind>())*;

            /// Returns the number of rows.
            pub fn len(&self) -> usize {
                columns!(@first self $($field)*).len()
            }

            /// Returns true if there are no rows.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Appends a row.
            #[inline]
            pub fn push(&mut self, row: $Row) {
                $(self.$field.push(row.$field);)*
            }

            /// Returns a copy of row `index`.
            pub fn row(&self, index: usize) -> $Row {
                $Row { $($field: self.$field[index],)* }
            }

            /// Moves all rows of `other` to the end.
            pub fn append(&mut self, other: &mut Self) {
                $(self.$field.append(&mut other.$field);)*
            }

            /// Drops all rows after the first `rows`.
            pub fn truncate(&mut self, rows: usize) {
                $(self.$field.truncate(rows);)*
            }

            /// Reorders the table: row `i` becomes the former row `order[i]`, and rows missing from
            /// `order` are dropped. `order` must not contain a row twice.
            pub fn reorder(&mut self, order: &[u32]) {
                // The swaps are computed once and applied to every column.
                let swaps = $crate::columns::swaps(order, self.len());
                $($crate::columns::apply(&swaps, order.len(), &mut self.$field);)*
            }
        }
    };
    (@first $self:ident $first:ident $($rest:ident)*) => { $self.$first };
}
pub(crate) use columns;

/// Returns the sequence of swaps that brings rows into `order`; both numbers of a swap are current
/// places. O(rows).
pub(crate) fn swaps(order: &[u32], rows: usize) -> Vec<[u32; 2]> {
    // Most traces are already in order, so this needs neither swaps nor memory.
    let ordered = order.iter().zip(0u32..).all(|(&row, place)| row == place);
    let end = if ordered { 0 } else { rows as u32 };
    // Current place of each row, and current row at each place; every swap changes both.
    let (mut place_of, mut row_at): (Vec<u32>, Vec<u32>) = ((0..end).collect(), (0..end).collect());
    let mut swaps = vec![];
    for (to, &row) in order.iter().enumerate().take(row_at.len()) {
        let from = place_of[row as usize];
        let away = row_at[to];
        if away != row {
            swaps.push([to as u32, from]);
            row_at[from as usize] = away;
            place_of[away as usize] = from;
        }
    }
    swaps
}

/// Reorders one column in place, without a second copy in memory.
pub(crate) fn apply<T>(swaps: &[[u32; 2]], rows: usize, column: &mut Vec<T>) {
    for &[a, b] in swaps {
        column.swap(a as usize, b as usize);
    }
    column.truncate(rows);
}

#[cfg(test)]
mod tests {
    use super::{apply, swaps};

    #[test]
    fn every_order_of_some_rows() {
        let rows: Vec<u32> = (0..5).collect();
        let mut orders: Vec<Vec<u32>> = vec![vec![]];
        while let Some(order) = orders.pop() {
            let mut column = rows.clone();
            apply(&swaps(&order, rows.len()), order.len(), &mut column);
            assert_eq!(column, order);
            orders.extend(
                rows.iter()
                    .filter(|row| !order.contains(row))
                    .map(|row| [&order[..], &[*row]].concat()),
            );
        }
    }

    #[test]
    fn a_long_cycle_is_linear() {
        let order: Vec<u32> = (0..200_000).map(|row| (row + 199_999) % 200_000).collect();
        let mut column: Vec<u32> = (0..200_000).collect();
        apply(&swaps(&order, column.len()), order.len(), &mut column);
        assert_eq!(column, order);
    }
}
