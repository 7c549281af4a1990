//! Tables of other tools, with their column names.

use crate::args::AnalyzeArgs;
use crate::commands::analyze::AsHta;
use crate::commands::analyze::results::AnalyzedRun;
use crate::table::{Grid, Limit};
use anyhow::Result;
use etlink_analysis::{Records, records};
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
            for name in etlink_analysis::hta::RANK_TABLES.iter().filter(wanted) {
                writeln!(out, "{name} of rank {}", rank.label)?;
                out += &table_text(rank.said.records(name), args.rows.rows)?;
            }
        }
        // for a single rank they would repeat its own tables
        if run.ranks.len() > 1 {
            let types = records(&total.kernel_type_breakdown);
            let late = records(&total.potential_stragglers);
            let of_all = [
                ("kernel_type_breakdown", types),
                ("potential_stragglers", late),
            ];
            for (name, records) in of_all.into_iter().filter(|(name, _)| wanted(&name)) {
                writeln!(out, "{name} of all ranks")?;
                out += &table_text(Some(records), args.rows.rows)?;
            }
        }
    }
    Ok(out)
}

fn table_text(records: Option<Records<'_>>, top: usize) -> Result<String> {
    let records = records.into_iter().flatten();
    let records: Vec<Value> = records.collect::<Result<_, _>>()?;
    let mut records = records.iter().filter_map(Value::as_object).peekable();
    let Some(first) = records.peek().copied() else {
        return Ok("  empty\n".to_owned());
    };
    let mut grid = Grid::new(0, Limit::rows(top), first.keys().map(String::as_str))
        .text_columns(|head| first.get(head).is_some_and(Value::is_string));
    let mut is_negative = false;
    for record in records {
        is_negative |= record.iter().any(|(head, value)| {
            head.starts_with("idle") && value.as_f64().is_some_and(|idle| idle < 0.0)
        });
        grid.add(record.values().map(|value| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }));
    }
    let mut out = grid.to_string();
    if is_negative {
        out += "  idle times below 0 are HTA's: it rounds times to us, and counts from the end of the \
                previous row, also if rows overlap\n";
    }
    Ok(out)
}
