//! Converts records of reports to Arrow columns with the names and numbers of their JSON.
//!
//! | in JSON | column |
//! |---|---|
//! | whole number | `Int64`; `UInt64` if one is too large for that |
//! | number with a fraction | `Float64` |
//! | text | `Utf8` |
//! | object | one column per field, `object.field` |
//! | array | `Utf8`: its JSON, as in CSV |
//!
//! A column without a value in any record, including the blank one, has the type `Null`.

use crate::Error;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, NullArray, RecordBatch, RecordBatchOptions,
    StringArray, UInt64Array,
};
use arrow_schema::{Field, Schema};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Records of one shape, collected as columns.
#[derive(Debug, Default)]
pub struct RecordTable {
    columns: IndexMap<String, RecordColumn>,
    lines: usize,
}

impl RecordTable {
    /// Declares the columns of a table by a blank record, so that an empty table has them too, with
    /// their types. `has_rank` as in [`RecordTable::push`].
    ///
    /// # Errors
    /// The record is not an object.
    pub fn declare(&mut self, has_rank: bool, blank: &impl Serialize) -> Result<(), Error> {
        self.push(has_rank.then_some(Some(0)), blank)?;
        self.lines = 0;
        for column in self.columns.values_mut() {
            column.clear();
        }
        Ok(())
    }

    /// Adds a record; pass `rank` if the record itself lacks it.
    ///
    /// # Errors
    /// The record is not an object.
    pub fn push(
        &mut self,
        rank: Option<Option<i64>>,
        record: &impl Serialize,
    ) -> Result<(), Error> {
        // one record at a time as a value: a million at once would take gigabytes
        let Value::Object(fields) = serde_json::to_value(record)? else {
            return Err(Error::NoRecord);
        };
        if !fields.contains_key("rank")
            && let Some(rank) = rank
        {
            self.add_value("rank", rank.into());
        }
        self.add_fields("", fields);
        self.lines += 1;
        // fields that were skipped because they are empty
        for column in self.columns.values_mut() {
            column.pad(self.lines);
        }
        Ok(())
    }

    fn add_fields(&mut self, prefix: &str, fields: Map<String, Value>) {
        for (name, value) in fields {
            let name = match prefix {
                "" => name,
                prefix => format!("{prefix}.{name}"),
            };
            match value {
                Value::Object(fields) => self.add_fields(&name, fields),
                value => self.add_value(&name, value),
            }
        }
    }

    fn add_value(&mut self, name: &str, value: Value) {
        let lines = self.lines;
        // not by `entry`, which needs an owned name: all but the first row find the column
        if let Some(column) = self.columns.get_mut(name) {
            column.push(lines, value);
            return;
        }
        let mut column = RecordColumn::default();
        column.push(lines, value);
        self.columns.insert(name.to_owned(), column);
    }

    /// Returns all rows as one batch.
    ///
    /// # Errors
    /// The columns do not fit together.
    pub fn finish(self) -> Result<RecordBatch, Error> {
        let (mut fields, mut arrays) = (vec![], vec![]);
        for (name, column) in self.columns {
            let array = column.finish(self.lines);
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        // a table without columns has no other way to state its number of rows
        let options = RecordBatchOptions::new().with_row_count(Some(self.lines));
        let schema = Arc::new(Schema::new(fields));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

/// Values of a column. The first value that is not null sets the type; a value that does not fit
/// widens the whole column.
#[derive(Debug, Default)]
enum RecordColumn {
    /// Only nulls so far.
    #[default]
    Unknown,
    Flags(Vec<Option<bool>>),
    Signed(Vec<Option<i64>>),
    Unsigned(Vec<Option<u64>>),
    Floats(Vec<Option<f64>>),
    Texts(Vec<Option<String>>),
}

impl RecordColumn {
    /// Adds the value of a row.
    fn push(&mut self, line: usize, value: Value) {
        self.widen_for(&value);
        self.pad(line);
        match self {
            RecordColumn::Unknown => {}
            RecordColumn::Flags(flags) => flags.push(value.as_bool()),
            RecordColumn::Signed(numbers) => numbers.push(value.as_i64()),
            RecordColumn::Unsigned(numbers) => numbers.push(value.as_u64()),
            RecordColumn::Floats(numbers) => numbers.push(value.as_f64()),
            RecordColumn::Texts(texts) => texts.push(match value {
                Value::Null => None,
                Value::String(text) => Some(text),
                other => Some(other.to_string()),
            }),
        }
    }

    /// Widens the column so that it can hold `value`.
    fn widen_for(&mut self, value: &Value) {
        let is_held = match (&*self, value) {
            (_, Value::Null) => true,
            (RecordColumn::Unknown, _) => false,
            (RecordColumn::Flags(_), value) => value.is_boolean(),
            (RecordColumn::Signed(_), value) => value.is_i64(),
            (RecordColumn::Unsigned(_), value) => value.is_u64(),
            (RecordColumn::Floats(_), value) => value.is_number(),
            (RecordColumn::Texts(_), _) => true,
        };
        if is_held {
            return;
        }
        let is_number = value.is_number();
        *self = match std::mem::take(self) {
            RecordColumn::Unknown => match value {
                Value::Bool(_) => RecordColumn::Flags(vec![]),
                Value::Number(number) if number.is_i64() => RecordColumn::Signed(vec![]),
                Value::Number(number) if number.is_u64() => RecordColumn::Unsigned(vec![]),
                Value::Number(_) => RecordColumn::Floats(vec![]),
                _ => RecordColumn::Texts(vec![]),
            },
            RecordColumn::Signed(numbers) if value.is_u64() && all_unsigned(&numbers) => {
                let numbers = numbers.into_iter();
                let unsigned = numbers.map(|number| number.and_then(|it| u64::try_from(it).ok()));
                RecordColumn::Unsigned(unsigned.collect())
            }
            RecordColumn::Signed(numbers) if is_number => {
                let numbers = numbers.into_iter();
                RecordColumn::Floats(numbers.map(|number| number.map(|it| it as f64)).collect())
            }
            RecordColumn::Unsigned(numbers) if is_number => {
                let numbers = numbers.into_iter();
                RecordColumn::Floats(numbers.map(|number| number.map(|it| it as f64)).collect())
            }
            other => RecordColumn::Texts(other.into_texts()),
        };
    }

    fn into_texts(self) -> Vec<Option<String>> {
        fn texts<T: ToString>(values: Vec<Option<T>>) -> Vec<Option<String>> {
            let values = values.into_iter();
            values
                .map(|value| value.map(|value| value.to_string()))
                .collect()
        }
        match self {
            RecordColumn::Unknown => vec![],
            RecordColumn::Flags(flags) => texts(flags),
            RecordColumn::Signed(numbers) => texts(numbers),
            RecordColumn::Unsigned(numbers) => texts(numbers),
            RecordColumn::Floats(numbers) => texts(numbers),
            RecordColumn::Texts(texts) => texts,
        }
    }

    /// Adds nulls up to a length of `lines`.
    fn pad(&mut self, lines: usize) {
        fn pad_values<T: Clone>(values: &mut Vec<Option<T>>, lines: usize) {
            // never shorter: a field that occurs twice in a record, once as a part, would be
            // truncated
            if values.len() < lines {
                values.resize(lines, None);
            }
        }
        match self {
            RecordColumn::Unknown => {}
            RecordColumn::Flags(flags) => pad_values(flags, lines),
            RecordColumn::Signed(numbers) => pad_values(numbers, lines),
            RecordColumn::Unsigned(numbers) => pad_values(numbers, lines),
            RecordColumn::Floats(numbers) => pad_values(numbers, lines),
            RecordColumn::Texts(texts) => pad_values(texts, lines),
        }
    }

    /// Removes the values, but keeps the type.
    fn clear(&mut self) {
        match self {
            RecordColumn::Unknown => {}
            RecordColumn::Flags(flags) => flags.clear(),
            RecordColumn::Signed(numbers) => numbers.clear(),
            RecordColumn::Unsigned(numbers) => numbers.clear(),
            RecordColumn::Floats(numbers) => numbers.clear(),
            RecordColumn::Texts(texts) => texts.clear(),
        }
    }

    fn finish(mut self, lines: usize) -> ArrayRef {
        self.pad(lines);
        match self {
            RecordColumn::Unknown => Arc::new(NullArray::new(lines)),
            RecordColumn::Flags(flags) => Arc::new(BooleanArray::from(flags)),
            RecordColumn::Signed(numbers) => Arc::new(Int64Array::from(numbers)),
            RecordColumn::Unsigned(numbers) => Arc::new(UInt64Array::from(numbers)),
            RecordColumn::Floats(numbers) => Arc::new(Float64Array::from(numbers)),
            RecordColumn::Texts(texts) => Arc::new(StringArray::from(texts)),
        }
    }
}

fn all_unsigned(numbers: &[Option<i64>]) -> bool {
    numbers.iter().flatten().all(|number| *number >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::DataType;
    use serde_json::json;

    fn types_of(batch: &RecordBatch) -> Vec<(String, DataType)> {
        let schema = batch.schema();
        let fields = schema.fields().iter();
        fields
            .map(|field| (field.name().clone(), field.data_type().clone()))
            .collect()
    }

    #[test]
    fn a_table_without_lines_has_the_columns_of_the_blank_record() {
        let mut table = RecordTable::default();
        let blank = json!({"name": "", "sum_ns": 0, "share": 0.0, "is_inferred": false});
        table.declare(false, &blank).expect("an object");
        let batch = table.finish().expect("columns");
        assert_eq!(batch.num_rows(), 0);
        let expected = [
            ("name", DataType::Utf8),
            ("sum_ns", DataType::Int64),
            ("share", DataType::Float64),
            ("is_inferred", DataType::Boolean),
        ];
        let expected = expected.map(|(name, kind)| (name.to_owned(), kind));
        assert_eq!(types_of(&batch), expected);
    }

    #[test]
    fn what_does_not_fit_makes_a_column_wider_and_what_is_missing_is_null() {
        let mut table = RecordTable::default();
        let lines = [
            json!({"a": 1, "b": 1, "c": {"d": [1, 2]}}),
            json!({"a": 0.5, "b": u64::MAX, "late": "x"}),
            json!({"a": null, "b": 2, "late": true}),
        ];
        for line in &lines {
            table.push(Some(Some(7)), line).expect("an object");
        }
        let batch = table.finish().expect("columns");
        assert_eq!(batch.num_rows(), 3);
        let expected = [
            ("rank", DataType::Int64),
            ("a", DataType::Float64),
            ("b", DataType::UInt64),
            ("c.d", DataType::Utf8),
            ("late", DataType::Utf8),
        ];
        let expected = expected.map(|(name, kind)| (name.to_owned(), kind));
        assert_eq!(types_of(&batch), expected);
        let nulls = batch.columns().iter().map(|column| column.null_count());
        assert_eq!(nulls.collect::<Vec<_>>(), [0, 1, 0, 2, 1]);
    }
}
