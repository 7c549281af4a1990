//! `cargo dev hta`: our `--compat hta` against results that HolisticTraceAnalysis left, trace by trace and table by table.
//!
//! Results are folders named as the traces, with HTA's data frames as CSV (`temporal_breakdown.csv`, …; `*_last.csv`: with the last
//! profiler step). A table that HTA did not leave, because it failed, is said to be answered by us alone.

use anyhow::{Context, Result, ensure};
use etlink_analyze::hta::{self, Settings, Tables};
use etlink_link::LinkOptions;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Our tables, HTA's files, and the columns that name a line.
const FILES: [(&str, &str, &[&str]); 9] = [
    ("temporal_breakdown", "temporal_breakdown", &["rank"]),
    ("comm_comp_overlap", "comm_comp_overlap", &["rank"]),
    ("kernel_type_breakdown", "kernel_type_breakdown_mem", &["kernel_type"]),
    ("kernel_breakdown", "kernel_breakdown_all_mem", &["name", "kernel_type", "rank"]),
    ("idle_time_breakdown", "idle_time_breakdown", &["rank", "stream", "idle_category"]),
    ("cuda_kernel_launch_stats", "cuda_kernel_launch_stats_rank0", &["correlation"]),
    ("queue_length_summary", "queue_length_summary", &["rank", "stream"]),
    ("memory_bw_summary", "memory_bw_summary", &["rank", "name"]),
    ("profiler_steps", "profiler_steps", &["step"]),
];

/// Tables that are summed up over samples: the order of samples at one instant, which HTA leaves to an unstable sort, shows.
const BY_SAMPLES: [&str; 2] = ["queue_length_summary", "memory_bw_summary"];

type Line = BTreeMap<String, String>;

pub fn run(traces: &Path, results: &Path) -> Result<()> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(results)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    folders.sort();
    let mut differing = 0;
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(trace) = find(traces, &name)? else {
            println!("{name}: no trace of this name");
            continue;
        };
        for include_last in [false, true] {
            let tables = tables(&trace, Settings { include_last, nanoseconds: false }).with_context(|| trace.display().to_string())?;
            differing += compare(&name, folder, include_last, &tables)?;
        }
    }
    ensure!(differing == 0, "{differing} tables differ");
    Ok(())
}

/// A file `name.json[.gz]` in a folder or those in it.
fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    for file in [format!("{name}.json.gz"), format!("{name}.json")] {
        if folder.join(&file).is_file() {
            return Ok(Some(folder.join(file)));
        }
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path().join(&file);
            if path.is_file() {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = std::fs::read(path)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let packed = std::mem::take(&mut bytes);
        flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn tables(trace: &Path, settings: Settings) -> Result<Tables> {
    let device = etlink_kineto::read(&read(trace)?[..], etlink_kineto::ReadOptions::default())?;
    Ok(hta::tables(&etlink_link::link(None, device, LinkOptions::default())?, settings)?)
}

/// Prints a line per table; how many differ.
fn compare(name: &str, folder: &Path, include_last: bool, tables: &Tables) -> Result<usize> {
    let tables = serde_json::to_value(tables)?;
    let suffix = if include_last { "_last" } else { "" };
    let mut differing = 0;
    for (table, file, key) in FILES {
        let ours: Vec<Line> = tables[table].as_array().into_iter().flatten().filter_map(Value::as_object).map(line).collect();
        let Some(theirs) = stored(folder, &format!("{file}{suffix}"))? else {
            // most tables were stored once
            if !include_last {
                println!("{name:30} {table:26} HTA left none; here {} lines", ours.len());
            }
            continue;
        };
        let differences = differences(key, &ours, &theirs);
        let by_samples = BY_SAMPLES.contains(&table);
        let says = match differences.first() {
            None => "equal".to_owned(),
            Some(first) => format!("{} differ{}: {first}", differences.len(), if by_samples { " (by samples)" } else { "" }),
        };
        println!("{name:30} {:26} {:>5} lines {says}", format!("{table}{suffix}"), theirs.len());
        differing += usize::from(!differences.is_empty() && !by_samples);
    }
    Ok(differing)
}

fn line(record: &Map<String, Value>) -> Line {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    record.iter().map(|(key, value)| (key.clone(), text(value))).collect()
}

/// A stored table, `None` where there is none.
fn stored(folder: &Path, file: &str) -> Result<Option<Vec<Line>>> {
    if let Ok(text) = std::fs::read(folder.join(format!("{file}.json"))) {
        let steps: Vec<Value> = serde_json::from_slice(&text)?;
        return Ok(Some(steps.iter().map(|step| Line::from([("step".to_owned(), step.to_string())])).collect()));
    }
    for name in [format!("{file}.csv"), format!("{file}.csv.gz")] {
        let path = folder.join(name);
        if path.is_file() {
            return lines(&read(&path)?).map(Some).with_context(|| path.display().to_string());
        }
    }
    Ok(None)
}

fn lines(text: &[u8]) -> Result<Vec<Line>> {
    let mut reader = csv::Reader::from_reader(text);
    let head = reader.headers()?.clone();
    let line = |record: csv::StringRecord| head.iter().zip(record.iter()).map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    reader.records().map(|record| Ok(line(record?))).collect()
}

/// What stands otherwise, by lines of one key; lines of the same key in order.
fn differences(key: &[&str], ours: &[Line], theirs: &[Line]) -> Vec<String> {
    let by_key = |lines: &[Line]| {
        let mut all: BTreeMap<Vec<String>, Vec<Line>> = BTreeMap::new();
        for line in lines {
            let key = key.iter().map(|key| line.get(*key).cloned().unwrap_or_default()).collect();
            all.entry(key).or_default().push(line.clone());
        }
        all.values_mut().for_each(|lines| lines.sort());
        all
    };
    let (ours, theirs) = (by_key(ours), by_key(theirs));
    let mut all = vec![];
    for key in ours.keys().chain(theirs.keys().filter(|key| !ours.contains_key(*key))) {
        let (left, right) = (ours.get(key).map_or(&[][..], Vec::as_slice), theirs.get(key).map_or(&[][..], Vec::as_slice));
        if left.len() != right.len() {
            // a category with a sum of nothing is as good as none
            let nothing = |lines: &[Line]| lines.iter().all(|line| line.get("idle_time").is_some_and(|time| number(time) == Some(0.0)));
            if !(nothing(left) && nothing(right)) {
                all.push(format!("{}: {} lines here, {} there", key.join(" "), left.len(), right.len()));
            }
            continue;
        }
        for (left, right) in left.iter().zip(right) {
            for (column, want) in right.iter().filter(|(column, _)| left.contains_key(*column)) {
                let found = &left[column];
                if !same(found, want) {
                    all.push(format!("{} {column} {found}, HTA {want}", key.join(" ")));
                }
            }
        }
    }
    all
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Equal, but for what floating point sums in another order give.
fn same(found: &str, want: &str) -> bool {
    match (number(found), number(want)) {
        (Some(found), Some(want)) => (found - want).abs() <= 1e-9_f64.max(want.abs() * 1e-9),
        _ => found == want,
    }
}
