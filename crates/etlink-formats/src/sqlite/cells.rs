//! The cells of one row.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use std::borrow::Cow;
use std::cell::Cell;

/// The cells of one row, indexed by the position of their column in the request.
///
/// SQLite keeps a type per cell, not per column. A cell whose type does not fit reads as `None`, like
/// NULL, and is counted as [`BadCell`](etlink_model::AnomalyKind::BadCell).
pub struct RowCells<'r, 's> {
    row: &'r Row<'s>,
    /// Number of cells with an unfit type, and the column of the first one.
    pub(crate) bad: Cell<(u64, usize)>,
}

impl<'r, 's> RowCells<'r, 's> {
    pub(crate) fn new(row: &'r Row<'s>) -> Self {
        RowCells {
            row,
            bad: Cell::new((0, 0)),
        }
    }

    /// Returns an integer. Accepts floats without a fraction and texts of digits: other tools copy
    /// tables with such types.
    #[inline]
    pub fn int(&self, column: usize) -> Option<i64> {
        match self.row.get_ref(column) {
            Ok(ValueRef::Integer(number)) => Some(number),
            Ok(ValueRef::Null) | Err(_) => None,
            Ok(other) => self.fitting(column, whole_number(other)),
        }
    }

    /// Returns an unsigned integer. SQLite has only signed numbers, so values above `i64::MAX` are
    /// stored as negative ones; the cast restores them.
    #[inline]
    pub fn bits(&self, column: usize) -> Option<u64> {
        self.int(column).map(|number| number as u64)
    }

    /// Returns a count or size; a negative value is counted as bad.
    #[inline]
    pub fn uint(&self, column: usize) -> Option<u64> {
        let number = self.int(column)?;
        self.fitting(column, u64::try_from(number).ok())
    }

    /// Returns a non-negative number of at most 32 bits.
    #[inline]
    pub fn small_uint(&self, column: usize) -> Option<u32> {
        let number = self.int(column)?;
        self.fitting(column, u32::try_from(number).ok())
    }

    /// Returns a floating point number.
    pub fn real(&self, column: usize) -> Option<f64> {
        match self.row.get_ref(column) {
            Ok(ValueRef::Real(number)) => Some(number),
            Ok(ValueRef::Integer(number)) => Some(number as f64),
            Ok(ValueRef::Null) | Err(_) => None,
            Ok(ValueRef::Text(text)) => {
                let text = std::str::from_utf8(text).ok();
                self.fitting(column, text.and_then(|text| text.trim().parse().ok()))
            }
            Ok(ValueRef::Blob(_)) => self.fitting(column, None),
        }
    }

    /// Returns a text. Bytes that are not UTF-8 become replacement characters.
    pub fn text(&self, column: usize) -> Option<Cow<'r, str>> {
        match self.row.get_ref(column) {
            Ok(ValueRef::Text(text)) => Some(String::from_utf8_lossy(text)),
            Ok(ValueRef::Null) | Err(_) => None,
            Ok(ValueRef::Integer(number)) => Some(Cow::Owned(number.to_string())),
            Ok(_) => self.fitting(column, None),
        }
    }

    /// Returns the bytes of a blob or text.
    pub fn bytes(&self, column: usize) -> Option<&'r [u8]> {
        match self.row.get_ref(column) {
            Ok(ValueRef::Blob(bytes) | ValueRef::Text(bytes)) => Some(bytes),
            Ok(ValueRef::Null) | Err(_) => None,
            Ok(_) => self.fitting(column, None),
        }
    }

    /// Returns `value`, and counts the cell as bad if there is none.
    #[inline]
    fn fitting<T>(&self, column: usize, value: Option<T>) -> Option<T> {
        if value.is_none() {
            let (count, first) = self.bad.get();
            let first = if count == 0 { column } else { first };
            self.bad.set((count + 1, first));
        }
        value
    }
}

/// Converts a float or a text to the integer it represents.
fn whole_number(value: ValueRef<'_>) -> Option<i64> {
    match value {
        // Beyond 2^53 a float stands for several integers.
        ValueRef::Real(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => {
            Some(number as i64)
        }
        ValueRef::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
        _ => None,
    }
}
