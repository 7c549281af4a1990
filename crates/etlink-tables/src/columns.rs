//! Makes the columns of a batch from its rows, in order.

use crate::Error;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch,
    StringArray, UInt32Array, UInt64Array,
};
use std::sync::Arc;

/// Columns of one batch, `rank` first.
pub(crate) struct Columns<'r, R> {
    rank: Option<i64>,
    rows: &'r [R],
    named: Vec<(&'static str, ArrayRef)>,
}

impl<'r, R> Columns<'r, R> {
    pub(crate) fn new(rank: Option<i64>, rows: &'r [R]) -> Columns<'r, R> {
        let named = vec![];
        Columns { rank, rows, named }
    }

    pub(crate) fn signed<V: Into<Option<i64>>>(
        &mut self,
        name: &'static str,
        value: impl Fn(&'r R) -> V,
    ) -> &mut Self {
        self.add::<Int64Array, _>(name, |row| value(row).into())
    }

    pub(crate) fn unsigned<V: Into<Option<u64>>>(
        &mut self,
        name: &'static str,
        value: impl Fn(&'r R) -> V,
    ) -> &mut Self {
        self.add::<UInt64Array, _>(name, |row| value(row).into())
    }

    pub(crate) fn number<V: Into<Option<u32>>>(
        &mut self,
        name: &'static str,
        value: impl Fn(&'r R) -> V,
    ) -> &mut Self {
        self.add::<UInt32Array, _>(name, |row| value(row).into())
    }

    pub(crate) fn float(&mut self, name: &'static str, value: impl Fn(&'r R) -> f64) -> &mut Self {
        self.add::<Float64Array, _>(name, |row| Some(value(row)))
    }

    pub(crate) fn flag(&mut self, name: &'static str, value: impl Fn(&'r R) -> bool) -> &mut Self {
        self.add::<BooleanArray, _>(name, |row| Some(value(row)))
    }

    /// Adds names; null if a name is empty. Names repeat millions of times: a dictionary keeps each
    /// once per batch. Keys have 32 bits, because a batch may have more names than 16 signed bits
    /// can count.
    pub(crate) fn text<'v, V: Into<Option<&'v str>>>(
        &mut self,
        name: &'static str,
        value: impl Fn(&'r R) -> V,
    ) -> &mut Self {
        self.add::<DictionaryArray<Int32Type>, _>(name, |row| {
            value(row).into().filter(|text| !text.is_empty())
        })
    }

    /// Adds names, which may be empty.
    pub(crate) fn any_text<'v>(
        &mut self,
        name: &'static str,
        value: impl Fn(&'r R) -> &'v str,
    ) -> &mut Self {
        self.add::<DictionaryArray<Int32Type>, _>(name, |row| Some(value(row)))
    }

    /// Adds texts that do not repeat.
    pub(crate) fn own_text(
        &mut self,
        name: &'static str,
        value: impl Fn(&'r R) -> &'r str,
    ) -> &mut Self {
        self.add::<StringArray, _>(name, |row| Some(value(row)))
    }

    fn add<A: Array + FromIterator<Option<T>> + 'static, T>(
        &mut self,
        name: &'static str,
        value: impl Fn(&'r R) -> Option<T>,
    ) -> &mut Self {
        let array: A = self.rows.iter().map(value).collect();
        self.named.push((name, Arc::new(array)));
        self
    }

    /// Builds the batch. All columns are nullable, so that the files of all ranks share a schema.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, Error> {
        // The rank is a column rather than metadata: queries over files of several ranks join by
        // it. It comes first in every table, so that files of all ranks can be read as one.
        let ranks = std::iter::repeat_n(self.rank, self.rows.len());
        let rank: ArrayRef = Arc::new(ranks.collect::<Int64Array>());
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
