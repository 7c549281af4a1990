//! Tables of other tools, with their column names.

use crate::args::AnalyzeArgs;
use crate::commands::analyze::AsHta;
use crate::commands::analyze::csv::{table_records, value_text};
use crate::commands::analyze::results::AnalyzedRun;
use crate::table::{Grid, Limit};
use anyhow::Result;
use serde_json::Value;
use std::fmt::Write;

/// Formats all tables, or the requested one.
pub(in crate::commands::analyze) fn compat_tables(
    told: &[AsHta],
    args: &AnalyzeArgs,
) -> Result<String> {
    AnalyzedRun::print_notes(told.iter().map(|one| &one.told));
    let mut out = String::new();
    let wanted = |name: &&&str| args.table.as_deref().is_none_or(|only| only == **name);
    for AsHta { told: run, total } in told {
        for rank in &run.ranks {
            let said = serde_json::to_value(&rank.said)?;
            for name in etlink_hta::RANK_TABLES.iter().filter(wanted) {
                writeln!(out, "{name} of rank {}", rank.label)?;
                out += &table_text(&said, name, args.rows.rows);
            }
        }
        let said = serde_json::to_value(total)?;
        // for a single rank they would repeat its own tables
        let of_all: &[&str] = if run.ranks.len() > 1 {
            &["kernel_type_breakdown", "potential_stragglers"]
        } else {
            &[]
        };
        for name in of_all.iter().filter(wanted) {
            writeln!(out, "{name} of all ranks")?;
            out += &table_text(&said, name, args.rows.rows);
        }
    }
    Ok(out)
}

fn table_text(said: &Value, name: &str, top: usize) -> String {
    let Some(first) = table_records(said, name).next() else {
        return "  empty\n".to_owned();
    };
    let mut grid = Grid::new(
        0,
        Limit {
            lines: top,
            option: "--rows",
        },
        first.keys().map(String::as_str),
    )
    .text_columns(|head| first.get(head).is_some_and(Value::is_string));
    let mut is_negative = false;
    for record in table_records(said, name) {
        is_negative |= record.iter().any(|(head, value)| {
            head.starts_with("idle") && value.as_f64().is_some_and(|idle| idle < 0.0)
        });
        grid.add(record.values().map(|value| value_text(Some(value))));
    }
    let mut out = grid.to_string();
    if is_negative {
        out += "  idle times below 0 are HTA's: it rounds times to us, and counts from the end of the \
                previous row, also if rows overlap\n";
    }
    out
}
