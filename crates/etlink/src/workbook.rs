//! Workbooks of `-o FILE.xlsx`: a sheet for each list of a report.
//!
//! The lists are those of the JSON. Objects below `runs`, `ranks` and `tables` that have lists
//! themselves are no rows: their names stand in the first columns. Units are in the heads, which stay
//! visible. A column `share` is followed by its sum over the rows so far.

use crate::args::{OverwriteArgs, WorkbookArgs};
use crate::envelope::{JsonReport, json_value};
use crate::run_diff::split_pairs;
use anyhow::{Result, bail};
use etlink_run::missing_feature;
use etlink_run::output::{OutputFormat, Target};
use indexmap::IndexMap;
use serde_json::{Map, Value};

/// Lists whose elements can have lists of their own.
const CONTAINERS: [&str; 3] = ["runs", "ranks", "tables"];
/// Fields of such elements that name them.
const NAMES: [&str; 4] = ["run", "label", "file", "rank"];
/// Units by the ends of field names.
const UNITS: [(&str, &str); 6] = [
    ("_ns", "ns"),
    ("_bytes", "bytes"),
    ("gb_per_s", "GB/s"),
    ("tb_per_s", "TB/s"),
    ("tflops", "TFLOP/s"),
    ("share", "0 to 1"),
];

/// Workbook to be written, checked before any work is done.
pub(crate) struct WorkbookTarget(Target);

impl WorkbookTarget {
    /// Checks the target; `None` without a path.
    ///
    /// # Errors
    /// The path is no `.xlsx`, exists, or cannot be written, or this build has no workbooks.
    pub(crate) fn new(
        args: &WorkbookArgs,
        overwrite: &OverwriteArgs,
    ) -> Result<Option<WorkbookTarget>> {
        let Some(path) = &args.output else {
            return Ok(None);
        };
        if cfg!(not(feature = "xlsx")) {
            return Err(missing_feature("-o FILE.xlsx", "xlsx").into());
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        if !extension.is_some_and(|extension| extension.eq_ignore_ascii_case("xlsx")) {
            bail!(
                "-o {}: only workbooks (.xlsx) can be written",
                path.display()
            );
        }
        let target = Target::new(path, Some(OutputFormat::EtPlus), overwrite.overwrite)?;
        Ok(Some(WorkbookTarget(target)))
    }

    /// Writes the lists of a report.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write<T: JsonReport>(&self, report: &T) -> Result<()> {
        let mut sheets: IndexMap<String, Sheet> = IndexMap::new();
        collect(&json_value(report)?, "", &Map::new(), &mut sheets);
        let pages = sheets
            .iter()
            .map(|(name, sheet)| (name.as_str(), sheet.cells()));
        let bytes = workbook_bytes(pages)?;
        self.0.write(|out| out.write_all(&bytes))?;
        Ok(())
    }
}

/// Rows of a sheet, with the names of what they belong to.
#[derive(Default)]
struct Sheet {
    rows: Vec<(Map<String, Value>, Map<String, Value>)>,
}

/// Heads of a sheet's columns, and its lines.
type SheetCells = (Vec<String>, Vec<Vec<Value>>);

/// Adds the lists in `value` to the sheets.
fn collect(
    value: &Value,
    prefix: &str,
    names: &Map<String, Value>,
    sheets: &mut IndexMap<String, Sheet>,
) {
    for (name, field) in value.as_object().into_iter().flatten() {
        match field {
            Value::Array(list) => {
                for element in list.iter().filter_map(Value::as_object) {
                    if CONTAINERS.contains(&&**name) && element.values().any(is_table) {
                        let named = element.iter().filter(|(key, _)| NAMES.contains(&&***key));
                        let mut names = names.clone();
                        names.extend(named.map(|(key, value)| (key.clone(), value.clone())));
                        collect(&Value::Object(element.clone()), prefix, &names, sheets);
                        continue;
                    }
                    let mut record = Map::new();
                    flatten("", &split_pairs(element.clone()), &mut record);
                    let title = match prefix.trim_end() {
                        same if same == name => name.clone(),
                        _ => format!("{prefix}{name}"),
                    };
                    let sheet = sheets.entry(title).or_default();
                    sheet.rows.push((names.clone(), record));
                }
            }
            // totals have lists of the same names as ranks
            Value::Object(_) => collect(field, &format!("{prefix}{name} "), names, sheets),
            _ => {}
        }
    }
}

fn is_table(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().any(Value::is_object),
        Value::Object(map) => map.values().any(is_table),
        _ => false,
    }
}

/// Adds an object's fields as columns: of objects in it by their path, of lists as their JSON.
fn flatten(prefix: &str, object: &Map<String, Value>, record: &mut Map<String, Value>) {
    for (name, value) in object {
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(inner) => flatten(&format!("{name}."), inner, record),
            Value::Array(_) => drop(record.insert(name, value.to_string().into())),
            value => drop(record.insert(name, value.clone())),
        }
    }
}

impl Sheet {
    /// Columns in the order in which rows have them, names first.
    fn columns(&self) -> Vec<&str> {
        let mut columns: IndexMap<&str, ()> = IndexMap::new();
        for key in self.rows.iter().flat_map(|(names, _)| names.keys()) {
            columns.insert(key, ());
        }
        for key in self.rows.iter().flat_map(|(_, record)| record.keys()) {
            columns.insert(key, ());
        }
        columns.into_keys().collect()
    }

    /// Heads and cells, with the column of cumulative shares.
    fn cells(&self) -> SheetCells {
        let columns = self.columns();
        let mut heads = vec![];
        for column in &columns {
            heads.push(head(column));
            if *column == "share" {
                heads.push("cumulative share (0 to 1)".to_owned());
            }
        }
        let (mut lines, mut sum) = (vec![], 0.0);
        let mut last = None;
        for (names, record) in &self.rows {
            if last != Some(names) {
                (last, sum) = (Some(names), 0.0);
            }
            let mut line = vec![];
            for column in &columns {
                let value = record.get(*column).or(names.get(*column));
                line.push(value.cloned().unwrap_or_default());
                if *column == "share" {
                    let share = value.and_then(Value::as_f64);
                    sum += share.unwrap_or(0.0);
                    line.push(share.map_or(Value::Null, |_| sum.into()));
                }
            }
            lines.push(line);
        }
        (heads, lines)
    }
}

/// Returns the head of a column, with its unit.
fn head(column: &str) -> String {
    let unit = UNITS.iter().find(|(end, _)| column.ends_with(end));
    match unit {
        Some((end, unit)) => {
            // `sum_ns` is a sum in ns; of `gb_per_s` the whole name is the figure's
            let short = if end.starts_with('_') {
                column.strip_suffix(end).unwrap_or(column)
            } else {
                column
            };
            format!("{} ({unit})", short.replace('_', " "))
        }
        None => column.replace('_', " "),
    }
}

#[cfg(not(feature = "xlsx"))]
fn workbook_bytes<'s>(_: impl Iterator<Item = (&'s str, SheetCells)>) -> Result<Vec<u8>> {
    Err(missing_feature("-o FILE.xlsx", "xlsx").into())
}

#[cfg(feature = "xlsx")]
fn workbook_bytes<'s>(sheets: impl Iterator<Item = (&'s str, SheetCells)>) -> Result<Vec<u8>> {
    use rust_xlsxwriter::{DocProperties, ExcelDateTime, Format, Workbook};
    /// Limits of a sheet's name and of a text, in letters.
    const MOST_NAME: usize = 31;
    const MOST_TEXT: usize = 32_767;
    let mut workbook = Workbook::new();
    // the time of writing would make each file different
    let first_day = ExcelDateTime::from_ymd(1980, 1, 1)?;
    workbook.set_properties(&DocProperties::new().set_creation_datetime(&first_day));
    let bold = Format::new().set_bold();
    for (name, (heads, lines)) in sheets {
        let page = workbook.add_worksheet();
        page.set_name(name.chars().take(MOST_NAME).collect::<String>())?;
        page.set_freeze_panes(1, 0)?;
        for (column, head) in (0..).zip(&heads) {
            page.write_string_with_format(0, column, head, &bold)?;
            page.set_column_width(column, head.chars().count().clamp(8, 40) as f64 + 2.0)?;
        }
        for (row, line) in (1..).zip(&lines) {
            for (column, value) in (0..).zip(line) {
                match value {
                    Value::Null => continue,
                    Value::Bool(flag) => page.write_boolean(row, column, *flag)?,
                    Value::String(text) => {
                        let text: String = text.chars().take(MOST_TEXT).collect();
                        page.write_string(row, column, text)?
                    }
                    Value::Number(number) => match number.as_f64() {
                        // a float has no more digits
                        Some(figure) if figure.abs() < 9e15 => {
                            page.write_number(row, column, figure)?
                        }
                        _ => page.write_string(row, column, number.to_string())?,
                    },
                    other => page.write_string(row, column, other.to_string())?,
                };
            }
        }
    }
    Ok(workbook.save_to_buffer()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_of_a_report_are_sheets_with_the_names_of_their_owners() {
        let report = json!({
            "runs": [{
                "run": "a",
                "notes": ["no table"],
                "ranks": [
                    {"label": "0", "host_trace": "x", "kernels": [
                        {"name": "k", "sum_ns": 3, "share": 0.75, "durations": {"min_ns": 1}, "parts": [1, 2]},
                        {"name": "l", "sum_ns": 1, "share": 0.25},
                    ]},
                    {"label": "1", "kernels": [{"name": "k", "sum_ns": 1, "share": 1.0}]},
                ],
                "total": {"kernels": [{"name": "k", "sum_ns": 4}]},
            }],
        });
        let mut sheets = IndexMap::new();
        collect(&report, "", &Map::new(), &mut sheets);
        assert_eq!(
            sheets.keys().collect::<Vec<_>>(),
            ["kernels", "total kernels"]
        );
        let (heads, lines) = sheets["kernels"].cells();
        assert_eq!(
            heads,
            [
                "run",
                "label",
                "name",
                "sum (ns)",
                "share (0 to 1)",
                "cumulative share (0 to 1)",
                "durations.min (ns)",
                "parts",
            ]
        );
        let shares: Vec<_> = lines.iter().map(|line| &line[5]).collect();
        assert_eq!(shares, [0.75, 1.0, 1.0]);
        assert_eq!(lines[0][7], "[1,2]");
        assert_eq!(json!(lines[2][..4]), json!(["a", "1", "k", 1]));
    }
}
