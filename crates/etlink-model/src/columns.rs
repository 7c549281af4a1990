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
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $Table { $($(#[$doc])* pub $field: Vec<$kind>,)* }

        impl $Table {
            // Without the padding that a row as one value would have.
            /// What one row takes in memory, bytes.
            pub const ROW_BYTES: usize = 0 $(+ size_of::<$kind>())*;

            /// Number of rows.
            pub fn len(&self) -> usize {
                columns!(@first self $($field)*).len()
            }

            /// Whether there are no rows.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Appends a row.
            #[inline]
            pub fn push(&mut self, row: $Row) {
                $(self.$field.push(row.$field);)*
            }

            /// Copies row `index` out.
            pub fn row(&self, index: usize) -> $Row {
                $Row { $($field: self.$field[index],)* }
            }

            /// Moves all rows of `other` to the end.
            pub fn append(&mut self, other: &mut Self) {
                $(self.$field.append(&mut other.$field);)*
            }

            /// Drops all rows but the first so many.
            pub fn truncate(&mut self, rows: usize) {
                $(self.$field.truncate(rows);)*
            }

            /// Reorders: row `i` becomes the former row `order[i]`; rows that `order` does not name
            /// go. It names none twice.
            pub fn reorder(&mut self, order: &[u32]) {
                // Found once, and then made on every column.
                let swaps = $crate::columns::swaps(order, self.len());
                $($crate::columns::apply(&swaps, order.len(), &mut self.$field);)*
            }
        }
    };
    (@first $self:ident $first:ident $($rest:ident)*) => { $self.$first };
}
pub(crate) use columns;

/// The exchanges, in turn, that bring rows into an order; both numbers of each are current places.
/// O(rows).
pub(crate) fn swaps(order: &[u32], rows: usize) -> Vec<[u32; 2]> {
    // Most traces are in order already: no exchange is made, and no memory taken for it.
    let ordered = order.iter().zip(0u32..).all(|(&row, place)| row == place);
    let end = if ordered { 0 } else { rows as u32 };
    // Where each row is now, and which row each place holds; both change with every exchange.
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

/// Orders one column in its place: no second copy is ever in memory.
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
