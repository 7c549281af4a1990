//! Compares the utilization reported by `etlink analyze` with an independent script's.
//!
//! `recipes/utilization.py` shares no code with etlink: it reads the raw JSON of a Kineto trace
//! with Python's own reader, and sums up the time in which rows run.
//!
//! Both ignore time that nothing in the trace explains or that precedes the recording: rows without
//! a call, and the wait of a stream's first row. Two generated traces test the limits of this rule.
//! A first row that begins right after another stream's row ended waited for that row, so the time
//! is idle. The first row of a device waits since the window began, not since its launch.

use crate::support::{etlink_path, repository_root};
use crate::web::draw_traces;
use anyhow::{Context, Result, bail, ensure};
use etlink_testing::{DeviceQueue, TraceBuilder};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum difference in percentage points: the precision of the printed sentence.
const TOLERANCE: f64 = 0.1;

const US: i64 = 1_000;

/// Output of the script for a trace.
#[derive(Debug, Deserialize)]
struct ScriptAnswer {
    devices: BTreeMap<String, ScriptDevice>,
}

#[derive(Debug, Deserialize)]
struct ScriptDevice {
    window: String,
    window_us: f64,
    before_us: f64,
    busy_us: f64,
    busy_share: Option<f64>,
}

/// Compares the given traces; otherwise generated ones with devices, and recorded ones of the CPU.
pub fn compare_utilization(traces: &[PathBuf]) -> Result<()> {
    let root = repository_root()?;
    let etlink = etlink_path()?;
    let traces = match traces {
        [] => own_traces(&root)?,
        traces => traces.to_vec(),
    };
    let (mut devices, mut different) = (0, 0);
    println!("window   length us  before us    script    etlink  trace");
    for trace in &traces {
        let script = ask_script(&root, trace)?;
        let said = ask_etlink(&etlink, trace)?;
        ensure!(
            script.devices.len() == said.len(),
            "{}: the script has {} devices, etlink {}",
            trace.display(),
            script.devices.len(),
            said.len()
        );
        for (script, said) in script.devices.values().zip(&said) {
            devices += 1;
            let own = said["busy_share"].as_f64().map_or(f64::NAN, percent);
            let theirs = script.busy_share.map_or(f64::NAN, percent);
            let is_equal = (own.is_nan() && theirs.is_nan()) || (own - theirs).abs() <= TOLERANCE;
            println!(
                "{:7} {:10.0} {:10.0} {theirs:8.2} % {own:7.2} % {}{}",
                script.window,
                script.window_us,
                script.before_us,
                trace.display(),
                if is_equal { "" } else { "  DIFFERENT" }
            );
            if !is_equal {
                different += 1;
                println!("  script: busy {} us; etlink: {said}", script.busy_us);
            }
        }
    }
    if different > 0 {
        bail!("{different} of {devices} devices differ");
    }
    ensure!(devices > 0, "no trace with device rows");
    println!("{devices} devices in {} traces: equal", traces.len());
    Ok(())
}

fn percent(share: f64) -> f64 {
    share * 100.0
}

fn own_traces(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join("target/utilization");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut traces = vec![];
    for (name, path) in draw_traces(&folder)? {
        // damaged on purpose, and Python's reader fails at once
        if name == "hostile" {
            continue;
        }
        if path.is_dir() {
            traces.extend(device_traces(&path)?);
        } else {
            traces.push(path);
        }
    }
    for (name, draw) in [
        ("streams", draw_second_stream as fn() -> TraceBuilder),
        ("earlier", draw_earlier_work),
    ] {
        let path = folder.join(format!("{name}.json"));
        std::fs::write(&path, draw().kineto()).with_context(|| path.display().to_string())?;
        traces.push(path);
    }
    for run in sorted_entries(&root.join("testdata/pairs"))? {
        traces.extend(device_traces(&run)?);
    }
    Ok(traces)
}

/// Generates a stream's first row that waits for another stream of the recording, through a time in
/// which nothing runs: this is idle time, not work from before the recording.
///
/// ```text
/// us         0        100       200       300       400       500
/// main       [ProfilerStep#1 ------------------------------------]
/// stream 7   [a==]              [b====]
/// stream 20      . . . . . . . . . . . [c====]
/// ```
fn draw_second_stream() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let (first, second) = (DeviceQueue::stream(7), DeviceQueue::stream(20));
    let span = |start: i64, end: i64| (start * US, end * US);
    draw.annotation(main, "ProfilerStep#1", 0, 500 * US);
    draw.launch(main, span(5, 6), first, "a", span(10, 40));
    let id = draw.next_correlation();
    draw.call(main, "cudaLaunchKernel", span(20, 21), id);
    draw.launch(main, span(245, 246), first, "b", span(250, 340));
    draw.kernel(second, "c", span(343, 400), id);
    draw
}

/// Generates a device's first row that waits for work from before the recording: since the window
/// began.
///
/// ```text
/// us         0        100       200       300       400
/// main       [ProfilerStep#1 -----------------]
/// stream 7      l . . . . . . . [a========]
/// ```
fn draw_earlier_work() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let span = |start: i64, end: i64| (start * US, end * US);
    draw.annotation(main, "ProfilerStep#1", 0, 420 * US);
    draw.launch(
        main,
        span(50, 51),
        DeviceQueue::stream(7),
        "a",
        span(300, 400),
    );
    draw
}

fn device_traces(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = sorted_entries(folder)?;
    all.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("kineto_trace")
    });
    Ok(all)
}

fn sorted_entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder.read_dir();
    let entries = entries.with_context(|| folder.display().to_string())?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn ask_script(root: &Path, trace: &Path) -> Result<ScriptAnswer> {
    let recipe = root.join("crates/etlink-dev/recipes/utilization.py");
    let mut python = Command::new("python3");
    let output = run(python.arg(recipe).arg(trace))?;
    serde_json::from_slice(&output)
        .with_context(|| format!("{}: what the script printed", trace.display()))
}

/// Returns the records of the table, by device number.
fn ask_etlink(etlink: &Path, trace: &Path) -> Result<Vec<serde_json::Value>> {
    let mut command = Command::new(etlink);
    let output = run(command.args(["analyze", "--json"]).arg(trace))?;
    let answer: serde_json::Value = serde_json::from_slice(&output)?;
    let table = answer["runs"][0]["ranks"][0]["utilization"].as_array();
    Ok(table.cloned().unwrap_or_default())
}

fn run(command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output.stdout)
}
