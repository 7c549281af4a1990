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
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $Table { $($(#[$doc])* pub $field: Vec<$kind>,)* }

        impl $Table {
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

            /// Reorders: row `i` becomes the former row `order[i]`.
            pub fn reorder(&mut self, order: &[u32]) {
                $(self.$field = order.iter().map(|&i| self.$field[i as usize]).collect();)*
            }
        }
    };
    (@first $self:ident $first:ident $($rest:ident)*) => { $self.$first };
}
pub(crate) use columns;
