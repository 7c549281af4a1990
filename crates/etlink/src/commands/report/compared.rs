//! Comparison with an earlier run.

use super::ReportConfig;
use crate::args::ReportArgs;
use crate::notes;
use crate::op_tables::{self, OpTableConfig, RunTables};
use crate::run_diff;
use anyhow::Result;
use etlink_analysis::KernelRules;
use etlink_analysis::diff::tree_changes;
use etlink_analysis::top::CallTree;
use etlink_report::page::ComparedRuns;
use etlink_run::RunSource;
use etlink_run::membership::Excluded;
use std::path::Path;

/// Compares two runs. Also returns the traces of the earlier run that are left out.
pub(super) fn compare_with(
    args: &ReportArgs,
    before: &Path,
    rules: &KernelRules,
    config: &ReportConfig,
) -> Result<(ComparedRuns, Vec<Excluded>)> {
    let read = |path: &Path| -> Result<RunTables> {
        op_tables::read_tables(&OpTableConfig {
            tree: true,
            rules: Some(rules),
            ..OpTableConfig::by_name(RunSource::from_path(path), config.compared_options())
        })
    };
    let (first, second) = (read(before)?, read(&args.path)?);
    // notes on the later run are printed with its page
    notes::print(&notes::name_sides([first.diagnostics.clone(), vec![]]));
    let diff = run_diff::diff_tables(&first, &second);
    let mut sentences = run_diff::diff_sentences(&diff);
    sentences.push(run_diff::sums_sentence(&diff));
    sentences.extend(run_diff::outside_sentences(&diff));
    sentences.extend(run_diff::step_notes(&diff).iter().map(ToString::to_string));
    let [trees_before, trees_after]: [Vec<&CallTree>; 2] = [&first, &second].map(|run| {
        let tables = run.tables.iter();
        tables.filter_map(|table| table.tree.as_ref()).collect()
    });
    let tree = tree_changes([&trees_before, &trees_after], diff.units());
    let compared = ComparedRuns::new(before.display().to_string(), sentences, &diff, &tree);
    // the page itself lists excluded traces of the later run
    Ok((compared, first.excluded))
}
