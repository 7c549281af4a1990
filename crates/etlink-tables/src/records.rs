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
use serde_json::{Map, Number, Value};
use std::sync::Arc;

/// Records of one shape, collected as columns.
#[derive(Debug, Default)]
pub struct RecordTable {
    columns: IndexMap<String, Vec<Option<Cell>>>,
    /// Number of records, including a blank one.
    lines: usize,
    /// True if the first record is blank.
    is_declared: bool,
}

/// Value of a field.
#[derive(Debug, Clone)]
enum Cell {
    Flag(bool),
    Number(Number),
    Text(String),
}

impl RecordTable {
    /// Declares the columns of a table by a blank record, before all others, so that an empty table
    /// has them too, with their types. `has_rank` as in [`RecordTable::push`].
    ///
    /// # Errors
    /// The record is not an object.
    pub fn declare(&mut self, has_rank: bool, blank: Value) -> Result<(), Error> {
        self.is_declared = true;
        self.push(has_rank.then_some(Some(0)), blank)
    }

    /// Adds a record; pass `rank` if the record itself lacks it.
    ///
    /// # Errors
    /// The record is not an object.
    pub fn push(&mut self, rank: Option<Option<i64>>, record: Value) -> Result<(), Error> {
        let Value::Object(fields) = record else {
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
        for cells in self.columns.values_mut() {
            pad(cells, self.lines);
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
        // not by `entry`, which needs an owned name: all but the first row find the column
        if !self.columns.contains_key(name) {
            self.columns.insert(name.to_owned(), vec![]);
        }
        if let Some(cells) = self.columns.get_mut(name) {
            pad(cells, self.lines);
            cells.push(match value {
                Value::Null => None,
                Value::Bool(flag) => Some(Cell::Flag(flag)),
                Value::Number(number) => Some(Cell::Number(number)),
                Value::String(text) => Some(Cell::Text(text)),
                other => Some(Cell::Text(other.to_string())),
            });
        }
    }

    /// Returns all rows as one batch.
    ///
    /// # Errors
    /// The columns do not fit together.
    pub fn finish(self) -> Result<RecordBatch, Error> {
        let blanks = usize::from(self.is_declared);
        let (mut fields, mut arrays) = (vec![], vec![]);
        for (name, cells) in self.columns {
            let array = array_of(&cells, blanks);
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        // a table without columns has no other way to state its number of rows
        let options = RecordBatchOptions::new().with_row_count(Some(self.lines - blanks));
        let schema = Arc::new(Schema::new(fields));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

/// Adds nulls up to a length of `lines`. Never shortens: a field that occurs twice in a record, once
/// as a part, would be truncated.
fn pad(cells: &mut Vec<Option<Cell>>, lines: usize) {
    if cells.len() < lines {
        cells.resize(lines, None);
    }
}

/// Makes a column of the narrowest type that holds all cells. The first `blanks` cells only count
/// for the type.
fn array_of(cells: &[Option<Cell>], blanks: usize) -> ArrayRef {
    let values = cells.get(blanks..).unwrap_or_default().iter();
    let all = |is: fn(&Cell) -> bool| cells.iter().flatten().all(is);
    let are_numbers = |is: fn(&Number) -> bool| {
        let mut numbers = cells.iter().flatten();
        numbers.all(|cell| number(Some(cell)).is_some_and(is))
    };
    if all(|_| false) {
        Arc::new(NullArray::new(values.len()))
    } else if all(|cell| matches!(cell, Cell::Flag(_))) {
        let flag = |cell: &Option<Cell>| match cell {
            Some(Cell::Flag(flag)) => Some(*flag),
            _ => None,
        };
        Arc::new(values.map(flag).collect::<BooleanArray>())
    } else if are_numbers(Number::is_i64) {
        let signed = values.map(|cell| number(cell.as_ref())?.as_i64());
        Arc::new(signed.collect::<Int64Array>())
    } else if are_numbers(Number::is_u64) {
        let unsigned = values.map(|cell| number(cell.as_ref())?.as_u64());
        Arc::new(unsigned.collect::<UInt64Array>())
    } else if are_numbers(|_| true) {
        let floats = values.map(|cell| number(cell.as_ref())?.as_f64());
        Arc::new(floats.collect::<Float64Array>())
    } else {
        let text = |cell: &Cell| match cell {
            Cell::Flag(flag) => flag.to_string(),
            Cell::Number(number) => number.to_string(),
            Cell::Text(text) => text.clone(),
        };
        let texts = values.map(|cell| cell.as_ref().map(text));
        Arc::new(texts.collect::<StringArray>())
    }
}

fn number(cell: Option<&Cell>) -> Option<&Number> {
    match cell {
        Some(Cell::Number(number)) => Some(number),
        _ => None,
    }
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
        table.declare(false, blank).expect("an object");
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
        for line in lines {
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
