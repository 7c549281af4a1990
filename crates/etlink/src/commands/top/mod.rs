//! `etlink top`: the table of PyTorch's profiler from a recorded trace.

mod document;
mod show;
mod tree;

pub use document::TopDocument;

use super::{print_report, print_text};
use crate::envelope::{JsonReport, print_json_report};
use crate::op_tables::{self, RunTables};
use crate::{Outcome, args, notes};
use anyhow::Result;
use etlink_model::Severity;

impl JsonReport for RunTables {
    const SCHEMA: &'static str = "etlink.top";
}

pub fn run(args: args::TopArgs) -> Result<Outcome> {
    let tables = &args.tables;
    let made = op_tables::read_tables(&args.op_table_config()?)?;
    if !tables.print.json {
        notes::print(&made.diagnostics);
        notes::print(made.tables.iter().flat_map(|table| &table.diagnostics));
        if notes::is_verbose() {
            for table in &made.tables {
                let infos = table.anomalies.diagnostics(Severity::Info);
                let infos: Vec<_> = infos.map(|info| info.of_file(&table.file)).collect();
                notes::print(&infos);
            }
        }
    }
    if tables.print.json {
        print_json_report(&made)?;
    } else if tables.print.csv {
        print_text(&show::rows_csv(&made.tables)?)?;
    } else {
        let mut text = String::new();
        for (at, table) in made.tables.iter().enumerate() {
            if let (Some(tree), Some(time)) = (&table.tree, args.folded) {
                tree::push_folded(&mut text, table, tree, time);
                continue;
            }
            if at > 0 {
                text.push('\n');
            }
            if let Some(tree) = &table.tree {
                tree::push_tree(&mut text, table, tree, &args);
                continue;
            }
            show::push_table(&mut text, table, tables.rows.rows, tables.names.full_names);
        }
        if args.folded.is_some() {
            print_text(&text)?;
        } else {
            print_report(&text)?;
        }
    }
    Ok(Outcome::done_if(made.excluded.is_empty()))
}
