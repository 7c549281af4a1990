//! Collects the columns of a batch, in order.

use crate::Error;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, UInt32Array,
    UInt64Array,
};
use std::sync::Arc;

/// Columns of one batch, `rank` first.
pub(crate) struct ColumnSet {
    rank: Option<i64>,
    named: Vec<(&'static str, ArrayRef)>,
}

impl ColumnSet {
    pub(crate) fn new(rank: Option<i64>) -> ColumnSet {
        ColumnSet {
            rank,
            named: vec![],
        }
    }

    pub(crate) fn add_signed(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<i64>>,
    ) -> &mut Self {
        self.add(name, Arc::new(values.collect::<Int64Array>()))
    }

    pub(crate) fn add_unsigned(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<u64>>,
    ) -> &mut Self {
        self.add(name, Arc::new(values.collect::<UInt64Array>()))
    }

    pub(crate) fn add_number(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<u32>>,
    ) -> &mut Self {
        self.add(name, Arc::new(values.collect::<UInt32Array>()))
    }

    pub(crate) fn add_float(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<f64>>,
    ) -> &mut Self {
        self.add(name, Arc::new(values.collect::<Float64Array>()))
    }

    pub(crate) fn add_flag(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<bool>>,
    ) -> &mut Self {
        self.add(name, Arc::new(values.collect::<BooleanArray>()))
    }

    pub(crate) fn add_text<'v>(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<&'v str>>,
    ) -> &mut Self {
        self.add(
            name,
            // Names repeat millions of times: a dictionary keeps each once per batch. Keys have 32
            // bits, because a batch may have more names than 16 signed bits can count.
            Arc::new(values.collect::<DictionaryArray<Int32Type>>()),
        )
    }

    /// Adds a finished column.
    pub(crate) fn add_column(&mut self, name: &'static str, array: ArrayRef) -> &mut Self {
        self.add(name, array)
    }

    fn add(&mut self, name: &'static str, array: ArrayRef) -> &mut Self {
        self.named.push((name, array));
        self
    }

    /// Builds the batch. All columns are nullable, so that the files of all ranks share a schema.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, Error> {
        let lines = self.named.first().map_or(0, |(_, array)| array.len());
        // The rank is a column rather than metadata: queries over files of several ranks join by
        // it.
        let rank: ArrayRef =
            Arc::new(std::iter::repeat_n(self.rank, lines).collect::<Int64Array>());
        // `rank` comes first in every table, so that files of all ranks can be read as one.
        let columns = std::iter::once(("rank", rank)).chain(self.named.drain(..));
        Ok(RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, array)| (name, array, true)),
        )?)
    }
}

/// Returns the number; `None` for -1, which means unknown in the traces' tables.
pub(crate) fn known_number(value: i64) -> Option<i64> {
    Some(value).filter(|value| *value != -1)
}

/// Returns the text; `None` if it is empty.
pub(crate) fn non_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
