//! `cargo dev hta`: our `--compat hta` against what HolisticTraceAnalysis says, trace by trace and
//! table by table.
//!
//! Results are folders named as the traces, with HTA's data frames as CSV, as
//! `recipes/hta_tables.py` leaves them.

pub mod class;
mod compare;

use crate::support::{install_from_pypi, read_trace_text, repository_root, run_command};
use anyhow::{Context, Result, ensure};
use compare::{TableLine, differences, idle_sums, line_from_record, stored_table};
use etlink_hta::{HtaOptions, HtaTables};
use etlink_link::LinkOptions;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What HTA and its results depend on.
const PACKAGES: [&str; 3] = ["traceinsight==0.6.1", "pandas==2.2.3", "numpy==2.4.6"];

/// A table, and how results name it.
struct ComparedTable {
    name: &'static str,
    /// A name that results of before have.
    before: &'static str,
    /// Columns that name a line.
    key: &'static [&'static str],
}

const fn table(
    name: &'static str,
    before: &'static str,
    key: &'static [&'static str],
) -> ComparedTable {
    ComparedTable { name, before, key }
}

const TABLES: [ComparedTable; 17] = [
    table("temporal_breakdown", "", &["rank"]),
    table("comm_comp_overlap", "", &["rank"]),
    table(
        "kernel_type_breakdown",
        "kernel_type_breakdown_mem",
        &["kernel_type"],
    ),
    table(
        "kernel_breakdown",
        "kernel_breakdown_all_mem",
        &["name", "kernel_type", "rank"],
    ),
    table(
        "kernel_breakdown_top10",
        "",
        &["name", "kernel_type", "rank"],
    ),
    table("user_annotation_breakdown_gpu", "", &["name", "rank"]),
    table("user_annotation_breakdown_cpu", "", &["name", "rank"]),
    table(
        "idle_time_breakdown",
        "",
        &["rank", "stream", "idle_category"],
    ),
    table(
        "cuda_kernel_launch_stats",
        "cuda_kernel_launch_stats_rank0",
        &["correlation"],
    ),
    table("queue_length_summary", "", &["rank", "stream"]),
    table(
        "blocked_on_full_queue",
        "blocked_full_queue",
        &["rank", "stream"],
    ),
    table("memory_bw_summary", "", &["rank", "name"]),
    table("queue_length_series", "", &["rank", "stream"]),
    table("memory_bw_series", "", &["rank", "name"]),
    table("cupti_counters", "", &["rank", "kernel", "counter"]),
    table("profiler_steps", "", &["step"]),
    table("potential_stragglers", "", &["straggler"]),
];

/// What sums in another order give.
const EXACT: f64 = 1e-9;
/// HTA's times without rounding are doubles of us: since 1970, they hold 0.25 us.
const DOUBLES_US: f64 = 0.5;

/// How tables compare.
#[derive(Default)]
struct TableCounts {
    equal: usize,
    stable: usize,
    doubles: usize,
    failed: usize,
    differ: usize,
}

/// Asks HTA itself where no results are given.
pub fn compare_with_hta(traces: &Path, results: Option<&Path>) -> Result<()> {
    let results = results.map_or_else(|| ask_hta(traces), |results| Ok(results.to_owned()))?;
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&results)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    // A folder lists its entries in no order.
    folders.sort();
    let mut counts = TableCounts::default();
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let files = files_of_result(traces, folder, &name)?;
        if files.is_empty() {
            println!("{name}: no trace of this name");
        }
        // The recipe asks HTA in these three ways and names the results so.
        if files.is_empty() {
            continue;
        }
        for how in ["", "_last", "_ns"] {
            let settings = HtaOptions {
                include_last: how == "_last",
                nanoseconds: how == "_ns",
                rank: None,
            };
            compare_tables(
                &name,
                folder,
                how,
                &hta_tables_of(&files, settings)?,
                &mut counts,
            )?;
        }
    }
    let TableCounts {
        equal,
        stable,
        doubles,
        failed,
        differ,
    } = counts;
    println!(
        "{equal} tables equal, {stable} equal to what HTA says with a stable sort, {doubles} but \
         for its doubles, {failed} where HTA fails, {differ} differ"
    );
    ensure!(differ == 0, "{differ} tables differ");
    Ok(())
}

/// What HTA says of all traces of a folder, in `target/hta`.
fn ask_hta(traces: &Path) -> Result<PathBuf> {
    let root = repository_root()?;
    let packages = root.join("target/hta").join(PACKAGES.join("+"));
    let results = root.join("target/hta/results");
    // An install that was interrupted leaves a part of the packages.
    if !packages.join("hta").is_dir() || !packages.join("pandas").is_dir() {
        install_from_pypi(&PACKAGES, &packages, true)?;
    }
    // A trace that is gone from the folder would be compared by its old results.
    if results.exists() {
        std::fs::remove_dir_all(&results).with_context(|| results.display().to_string())?;
    }
    let recipe = root.join("crates/etlink-dev/recipes/hta_tables.py");
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", packages);
    // pandas warns of what HTA does with it
    python.args(["-W", "ignore"]).arg(recipe);
    run_command(python.arg(traces).arg(&results))?;
    Ok(results)
}

/// The traces of a folder of results: those that it names, or `NAME.json[.gz]` in a folder or those
/// in it.
fn files_of_result(traces: &Path, results: &Path, name: &str) -> Result<Vec<PathBuf>> {
    if let Ok(text) = std::fs::read(results.join("traces.json")) {
        let names: Vec<String> = serde_json::from_slice(&text)?;
        return Ok(names.iter().map(|name| traces.join(name)).collect());
    }
    for file in [format!("{name}.json.gz"), format!("{name}.json")] {
        if traces.join(&file).is_file() {
            return Ok(vec![traces.join(file)]);
        }
        for entry in std::fs::read_dir(traces)? {
            let path = entry?.path().join(&file);
            if path.is_file() {
                return Ok(vec![path]);
            }
        }
    }
    Ok(vec![])
}

/// Tables of one rank or several, as HTA has them: lines of all ranks, or what is of all.
fn hta_tables_of(traces: &[PathBuf], settings: HtaOptions) -> Result<Map<String, Value>> {
    let mut ranks = vec![];
    for trace in traces {
        let tables = rank_tables(trace, settings);
        ranks.push(tables.with_context(|| trace.display().to_string())?);
    }
    etlink_hta::align_series(ranks.iter_mut());
    let mut all = Map::new();
    for rank in &ranks {
        for (name, lines) in object_fields(serde_json::to_value(rank)?) {
            if let (Value::Array(all), Value::Array(lines)) = (
                all.entry(name).or_insert_with(|| Value::Array(vec![])),
                lines,
            ) {
                all.extend(lines);
            }
        }
    }
    all.extend(object_fields(serde_json::to_value(
        etlink_hta::run_tables(ranks.iter()),
    )?));
    Ok(all)
}

fn rank_tables(trace: &Path, settings: HtaOptions) -> Result<HtaTables> {
    let options = etlink_kineto::KinetoReadOptions {
        threads: 1,
        shapes: false,
        // HTA's tables count Python frames and memory events too
        keep: etlink_model::KeepEvents::Auxiliary,
    };
    let device = etlink_kineto::read(&read_trace_text(trace)?[..], options)?;
    let linked = etlink_link::link(None, device, LinkOptions::default())?;
    Ok(etlink_hta::hta_tables(&linked, settings)?)
}

fn object_fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Prints a line per table.
fn compare_tables(
    name: &str,
    folder: &Path,
    how: &str,
    tables: &Map<String, Value>,
    counts: &mut TableCounts,
) -> Result<()> {
    for ComparedTable {
        name: table,
        before,
        key,
    } in TABLES
    {
        let ours: Vec<TableLine> = tables[table]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .map(line_from_record)
            .collect();
        let theirs = match stored_table(folder, &format!("{table}{how}"))? {
            Some(lines) => Some(lines),
            None => stored_table(folder, &format!("{before}{how}"))?,
        };
        // HTA may fail as it loads a trace, or in one table.
        let failed = ["load", table]
            .iter()
            .any(|name| folder.join(format!("{name}{how}.error")).is_file());
        let Some(theirs) = theirs else {
            if failed {
                counts.failed += 1;
                println!("{name:40} {table:30} HTA fails; here {} lines", ours.len());
            }
            continue;
        };
        // Where times are equal, HTA's order depends on the processor. The recipe asks it again
        // with a stable sort.
        let stable = stored_table(folder, &format!("{table}{how}_stable"))?;
        let answers = TableAnswers {
            table,
            key,
            ours: &ours,
            theirs: &theirs,
            stable: stable.as_deref(),
        };
        let says = answers.describe_match(how == "_ns", counts);
        println!(
            "{name:40} {table:30}{how:5} {:>5} lines {says}",
            theirs.len()
        );
    }
    Ok(())
}

/// What both say in one table.
struct TableAnswers<'a> {
    table: &'a str,
    key: &'a [&'a str],
    ours: &'a [TableLine],
    theirs: &'a [TableLine],
    /// Of HTA with a stable sort, where that is something else.
    stable: Option<&'a [TableLine]>,
}

impl TableAnswers<'_> {
    /// How they compare, in words; counted.
    fn describe_match(&self, exact_times: bool, counts: &mut TableCounts) -> String {
        let different = differences(self.key, self.ours, self.theirs, EXACT);
        let but_for = |theirs: &[TableLine], tolerance| {
            differences(self.key, self.ours, theirs, tolerance).is_empty()
        };
        let idle_alike = || {
            differences(
                self.key,
                &idle_sums(self.ours),
                &idle_sums(self.theirs),
                DOUBLES_US,
            )
            .is_empty()
        };
        let (count, says) = match different.first() {
            None => (&mut counts.equal, "equal".to_owned()),
            // The order of these arms is from the strictest agreement to the loosest.
            Some(first) if self.stable.is_some_and(|stable| but_for(stable, EXACT)) => (
                &mut counts.stable,
                format!("equal with a stable sort; without, {first}"),
            ),
            Some(first)
                if exact_times && but_for(self.stable.unwrap_or(self.theirs), DOUBLES_US) =>
            {
                (
                    &mut counts.doubles,
                    format!("equal but for HTA's doubles: {first}"),
                )
            }
            // they also decide whether a call began before an end that is as near
            Some(first) if exact_times && self.table == "idle_time_breakdown" && idle_alike() => (
                &mut counts.doubles,
                format!("equal but for the cause, by HTA's doubles: {first}"),
            ),
            Some(first) => (
                &mut counts.differ,
                format!("{} differ: {first}", different.len()),
            ),
        };
        *count += 1;
        says
    }
}
