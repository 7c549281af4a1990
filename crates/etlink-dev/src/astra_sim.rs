//! Runs recordings in ASTRA-sim and compares its results with the measurements. The simulator is in
//! no package index: it must be built from its public sources.

use crate::support::{etlink_path, repository_root};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Recordings with logs in the test data.
const KEPT: [&str; 2] = ["experts2-2.15.0", "tpdp4-2.15.0"];
/// Maximum relative error of a rank's time.
const RANK_BAR: f64 = 0.05;
/// Maximum relative error of the transfers of a kind.
const KIND_BAR: f64 = 0.15;

/// `cargo dev astra-sim`.
#[derive(Debug, clap::Args)]
pub struct SimulatorSuiteOptions {
    /// ASTRA-sim's program, such as AstraSim_Analytical_Congestion_Unaware
    #[arg(long, value_name = "PROGRAM")]
    simulator: PathBuf,
    /// More recordings of several ranks
    #[arg(value_name = "TRACES")]
    traces: Vec<PathBuf>,
    /// Part to export: `whole`, `device-only` or `comm-only`
    #[arg(long, default_value = "comm-only")]
    part: String,
    /// Write the logs of two recordings to testdata/simulated
    #[arg(long)]
    keep_logs: bool,
}

/// The parts of `etlink simulated --json` that are needed.
#[derive(Debug, Deserialize)]
struct Simulated {
    ranks: Vec<RankTimes>,
    kinds: Vec<KindTimes>,
    communications: Vec<TransferTimes>,
}

#[derive(Debug, Deserialize)]
struct TransferTimes {
    kind: String,
    measured_start_ns: Option<i64>,
    measured_ns: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct RankTimes {
    rank: i64,
    simulated_ns: Option<i64>,
    measured_ns: Option<i64>,
    change: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct KindTimes {
    kind: String,
    count: u64,
    compared: u64,
    simulated_ns: i64,
    measured_ns: i64,
    change: Option<f64>,
    last_done_ns: i64,
}

/// The parts of `etlink merge --json` about a network that are needed.
#[derive(Debug, Deserialize)]
struct Merged {
    runs: Vec<MergedNetwork>,
}

#[derive(Debug, Deserialize)]
struct MergedNetwork {
    network: Option<FittedNetwork>,
}

#[derive(Debug, Deserialize)]
struct FittedNetwork {
    kinds: Vec<FittedKind>,
}

#[derive(Debug, Deserialize)]
struct FittedKind {
    kind: String,
    held_out: Vec<HeldOutSums>,
}

#[derive(Debug, Deserialize)]
struct HeldOutSums {
    measured_ns: f64,
    network_ns: f64,
    repeated_ns: Option<f64>,
}

/// A simulated recording.
struct SimulatedRecording {
    name: String,
    seconds: f64,
    result: Simulated,
    fitted: Vec<FittedKind>,
}

/// Simulates all recordings of several ranks, and prints tables for BENCHMARKS.md.
pub fn compare_simulations(options: &SimulatorSuiteOptions) -> Result<()> {
    let root = repository_root()?;
    let simulator = options
        .simulator
        .canonicalize()
        .with_context(|| options.simulator.display().to_string())?;
    let mut recordings = recordings_of_several_ranks(&root.join("testdata/pairs"))?;
    recordings.push(root.join("testdata/two-hosts"));
    recordings.extend_from_slice(&options.traces);
    let mut all = vec![];
    for traces in &recordings {
        let recording = simulate(&root, traces, &simulator, options)?;
        println!(
            "{}: {:.2} s in the simulator",
            recording.name, recording.seconds
        );
        all.push(recording);
    }
    print_ranks(&all);
    print_kinds(&all);
    let is_off = |rank: &RankTimes| rank.change.is_none_or(|change| change.abs() > RANK_BAR);
    let off = all.iter().flat_map(|one| &one.result.ranks);
    let off = off.filter(|rank| is_off(rank)).count();
    ensure!(
        off == 0,
        "{off} ranks are further off than {:.0} %",
        100.0 * RANK_BAR
    );
    Ok(())
}

fn recordings_of_several_ranks(pairs: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in std::fs::read_dir(pairs).with_context(|| pairs.display().to_string())? {
        let path = entry?.path();
        if path.join("kineto_trace_1.json.gz").is_file() {
            found.push(path);
        }
    }
    found.sort();
    ensure!(!found.is_empty(), "{}: no recordings", pairs.display());
    Ok(found)
}

/// Exports a recording, simulates it and reads the log.
fn simulate(
    root: &Path,
    traces: &Path,
    simulator: &Path,
    options: &SimulatorSuiteOptions,
) -> Result<SimulatedRecording> {
    let name = traces.file_name().unwrap_or_default().to_string_lossy();
    let folder = root.join("target/astra-sim").join(&*name);
    if folder.exists() {
        // The simulator appends to the log of an earlier run.
        std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    let mut merge = Command::new(etlink_path()?);
    merge.args(["-q", "merge", "--json", "--for", "astra-sim"]);
    match options.part.as_str() {
        "whole" => {}
        part @ ("device-only" | "comm-only") => drop(merge.arg(format!("--{part}"))),
        other => bail!("--part {other}: whole, device-only or comm-only"),
    }
    merge.arg(traces).arg("-o").arg(&folder);
    let merged = merge.stderr(Stdio::null()).output()?;
    ensure!(merged.status.success(), "{name}: etlink merge failed");
    let merged: Merged = serde_json::from_slice(&merged.stdout).context("reading its --json")?;
    let networks = merged.runs.into_iter().filter_map(|run| run.network);
    let fitted = networks.flat_map(|network| network.kinds).collect();
    let (printed, seconds) = run_simulator(simulator, &folder)?;
    let mut read = Command::new(etlink_path()?);
    read.args(["-q", "simulated", "--json"]).arg(&folder);
    let read = read.arg("--against").arg(traces).output()?;
    if !read.status.success() {
        let said = String::from_utf8_lossy(&read.stderr);
        bail!("{name}: etlink simulated failed, or ranks did not finish: {said}");
    }
    if options.keep_logs && KEPT.contains(&&*name) {
        let kept = root.join("testdata/simulated").join(&*name);
        std::fs::create_dir_all(&kept)?;
        std::fs::copy(folder.join("log/log.log"), kept.join("log.log"))?;
        std::fs::write(kept.join("printed.txt"), printed)?;
    }
    Ok(SimulatedRecording {
        name: name.into_owned(),
        seconds,
        fitted,
        result: serde_json::from_slice(&read.stdout).context("reading etlink simulated --json")?,
    })
}

/// Runs the simulator in the folder of an export, following its README, with all nodes logged.
/// Returns its output and the elapsed seconds.
fn run_simulator(simulator: &Path, folder: &Path) -> Result<(Vec<u8>, f64)> {
    let system = folder.join("system.json");
    let text = std::fs::read_to_string(&system).with_context(|| system.display().to_string())?;
    let traced = text.replace("\"trace-enabled\": 0", "\"trace-enabled\": 1");
    ensure!(traced != text, "{}: no trace-enabled", system.display());
    std::fs::write(&system, traced)?;
    let mut run = Command::new(simulator);
    run.current_dir(folder);
    let option = |name: &str, file: &Path| format!("--{name}-configuration={}", file.display());
    run.arg(option("workload", &workload_prefix(folder)?));
    run.arg(option("system", &system));
    run.arg(option("network", &folder.join("network.yml")));
    run.arg(option("remote-memory", &folder.join("memory.json")));
    let groups = folder.join("comm_group.json");
    if groups.is_file() {
        run.arg(option("comm-group", &groups));
    }
    let begin = Instant::now();
    // The exit code is meaningless: the simulator can abort at exit, after all times are logged.
    let ran = run
        .output()
        .with_context(|| simulator.display().to_string())?;
    Ok((ran.stdout, begin.elapsed().as_secs_f64()))
}

/// Returns the common prefix of a folder's graphs.
fn workload_prefix(folder: &Path) -> Result<PathBuf> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(prefix) = name.strip_suffix(".0.et") {
            return Ok(folder.join(prefix));
        }
    }
    bail!("{}: no graphs", folder.display())
}

fn percent(change: Option<f64>) -> String {
    change.map_or("-".to_owned(), |change| format!("{:+.1}", 100.0 * change))
}

fn millis(ns: Option<i64>) -> String {
    ns.map_or("-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6))
}

fn print_ranks(all: &[SimulatedRecording]) {
    println!(
        "\n| recording | rank | measured, ms | simulated, ms | change, % |\n|---|---|---|---|---|"
    );
    for one in all {
        for rank in &one.result.ranks {
            println!(
                "| {} | {} | {} | {} | {} |",
                one.name,
                rank.rank,
                millis(rank.measured_ns),
                millis(rank.simulated_ns),
                percent(rank.change)
            );
        }
    }
}

/// Prints the transfers of each kind, measured and simulated. *Held out* and *repeats* concern each
/// half of the transfers: the result of a network fitted to the other half, and the duration of the
/// same transfers there. *Halves* is the prediction from the average of the other half, a bound
/// that no single time per kind can beat.
fn print_kinds(all: &[SimulatedRecording]) {
    println!(
        "\n| recording | kind | times | compared | measured, ms | simulated, ms | change, % | held out, % | \
         repeats, % | halves, % | until the last is done, ms |\n|---|---|---|---|---|---|---|---|---|---|---|"
    );
    let (mut kinds, mut held, mut foretold) = (0, 0, 0);
    for one in all {
        for kind in &one.result.kinds {
            let halves = |ns: fn(&HeldOutSums) -> Option<f64>| {
                let of_kind = one
                    .fitted
                    .iter()
                    .filter(|fit| is_kind(&fit.kind, &kind.kind));
                let halves = of_kind.flat_map(|fit| &fit.held_out);
                let changes: Vec<String> = halves
                    .map(|half| percent(ns(half).map(|ns| ns / half.measured_ns - 1.0)))
                    .collect();
                if changes.is_empty() {
                    "-".to_owned()
                } else {
                    changes.join(", ")
                }
            };
            let measured = measured_times(&one.result.communications, &kind.kind);
            let changes = half_by_half(&measured);
            let of_halves = changes.map_or("-".to_owned(), |changes| {
                changes.map(|change| percent(Some(change))).join(", ")
            });
            let is_foretold = |changes: &[f64; 2]| changes.iter().all(|one| one.abs() <= KIND_BAR);
            foretold += u32::from(changes.as_ref().is_some_and(is_foretold));
            println!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                one.name,
                kind.kind,
                kind.count,
                kind.compared,
                millis((kind.compared > 0).then_some(kind.measured_ns)),
                millis((kind.compared > 0).then_some(kind.simulated_ns)),
                percent(kind.change),
                halves(|half| Some(half.network_ns)),
                halves(|half| half.repeated_ns),
                of_halves,
                millis((kind.compared > 0).then_some(kind.last_done_ns)),
            );
            kinds += 1;
            held += u32::from(kind.change.is_some_and(|change| change.abs() <= KIND_BAR));
        }
    }
    println!(
        "\n{held} of {kinds} kinds are within {:.0} %; of {foretold} each half foretells the other so \
         well",
        100.0 * KIND_BAR
    );
}

/// Returns the durations of the transfers of a kind, in order of time, ns.
fn measured_times(transfers: &[TransferTimes], kind: &str) -> Vec<i64> {
    let of_kind = transfers.iter().filter(|transfer| transfer.kind == kind);
    let times = of_kind.filter_map(|one| Some((one.measured_start_ns?, one.measured_ns?)));
    let mut times: Vec<(i64, i64)> = times.collect();
    times.sort_unstable();
    times.into_iter().map(|(_, ns)| ns).collect()
}

/// Returns the relative deviation of the second half's average from the first's, and vice versa;
/// `None` for fewer than four times.
fn half_by_half(times: &[i64]) -> Option<[f64; 2]> {
    if times.len() < 4 {
        return None;
    }
    let (first, second) = times.split_at(times.len() / 2);
    let average = |half: &[i64]| half.iter().sum::<i64>() as f64 / half.len() as f64;
    let ratio = average(second) / average(first);
    Some([ratio - 1.0, ratio.recip() - 1.0])
}

/// Returns true if the kinds match: a message is fitted under its ranks' names for it.
fn is_kind(fitted: &str, simulated: &str) -> bool {
    fitted == simulated || simulated == "message" && matches!(fitted, "send" | "recv")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_half_of_the_transfers_foretells_the_other() {
        let transfer = |start, ns, kind: &str| TransferTimes {
            kind: kind.to_owned(),
            measured_start_ns: Some(start),
            measured_ns: ns,
        };
        let transfers = [
            transfer(30, Some(200), "send"),
            transfer(10, Some(90), "send"),
            transfer(20, Some(110), "send"),
            transfer(15, Some(7), "all_reduce"),
            transfer(50, None, "send"),
            transfer(40, Some(300), "send"),
        ];
        let times = measured_times(&transfers, "send");
        assert_eq!(times, [90, 110, 200, 300]);
        assert_eq!(half_by_half(&times), Some([1.5, -0.6]));
        assert_eq!(half_by_half(&times[1..]), None);
    }
}
