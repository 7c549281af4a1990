//! Measures many ranks at once, and start-up.

use super::inputs::{self, BenchRecording};
use super::measure::{self, ProcessUsage};
use super::table::median_of;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::Path;

const RANKS: u32 = 64;
/// Runs of commands that take milliseconds.
const SHORT_RUNS: usize = 21;

/// Measures `etlink merge` of 64 ranks against 64 times one rank, and the smallest jobs.
pub fn bench_ranks(
    root: &Path,
    recorded: &[BenchRecording],
    etlink: &Path,
    folder: &Path,
    runs: usize,
) -> Result<()> {
    let pairs = recorded
        .iter()
        .filter(|found| found.host.is_some() && found.bytes < 50_000_000);
    if let Some(largest) = pairs.max_by_key(|found| found.bytes) {
        bench_merge(largest, etlink, folder, runs)?;
    }
    let small = inputs::smallest_recording(root)?;
    let help: [OsString; 2] = [etlink.into(), "--help".into()];
    let link = link_command(&small, etlink, &folder.join("small.et"));
    let (help, link) = (
        run_repeatedly(&help, SHORT_RUNS)?,
        run_repeatedly(&link, SHORT_RUNS)?,
    );
    println!("\n| starting up | wall ms | CPU ms | peak MB |\n|---|---|---|---|");
    for (name, usages) in [
        ("etlink --help".to_owned(), help),
        (
            format!(
                "{}, {:.0} KB unpacked",
                small.name,
                small.bytes as f64 / 1e3
            ),
            link,
        ),
    ] {
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} |",
            median_of(usages.iter().map(|usage| usage.wall * 1e3)),
            median_of(usages.iter().map(|usage| usage.cpu * 1e3)),
            median_of(usages.iter().map(|usage| usage.peak_bytes as f64 / 1e6))
        );
    }
    Ok(())
}

fn bench_merge(found: &BenchRecording, etlink: &Path, folder: &Path, runs: usize) -> Result<()> {
    let ranks = folder.join("ranks");
    if ranks.exists() {
        std::fs::remove_dir_all(&ranks)
            .with_context(|| format!("cannot remove {}", ranks.display()))?;
    }
    std::fs::create_dir_all(&ranks)?;
    for (path, kind) in found
        .host
        .iter()
        .map(|host| (host, "torch_et"))
        .chain([(&found.device, "kineto_trace")])
    {
        // a recording may be on another file system, where it cannot be hard-linked
        let ending = if path.extension().is_some_and(|ending| ending == "gz") {
            "json.gz"
        } else {
            "json"
        };
        let first = ranks.join(format!("{kind}_0.{ending}"));
        std::fs::copy(path, &first)?;
        for rank in 1..RANKS {
            // Hard links share one copy in the page cache, so the figures measure etlink and not
            // the disk.
            std::fs::hard_link(&first, ranks.join(format!("{kind}_{rank}.{ending}")))?;
        }
    }
    let out = folder.join("merged");
    let words = ["merge", "--overwrite", "--allow-mismatch", "-j", "2", "-o"].map(OsString::from);
    let all: Vec<OsString> = [etlink.into()]
        .into_iter()
        .chain(words)
        .chain([out.into(), ranks.into()])
        .collect();
    let mut one = link_command(found, etlink, &folder.join("one.et"));
    one.extend(["-j", "1"].map(OsString::from));
    let (mut merged, mut linked) = (vec![], vec![]);
    for _ in 0..runs.max(1) {
        // One rank takes milliseconds and its times scatter, so it gets more runs.
        linked.extend(run_repeatedly(&one, 3)?);
        merged.extend(run_repeatedly(&all, 1)?);
    }
    let merged_wall = median_of(merged.iter().map(|usage| usage.wall));
    let one_wall = median_of(linked.iter().map(|usage| usage.wall));
    println!(
        "\n{RANKS} ranks of {}, {:.1} MB unpacked each",
        found.name,
        found.bytes as f64 / 1e6
    );
    println!(
        "| merge -j 2, wall s | link -j 1, wall s | merge / ({RANKS} x link) | merge, peak MB |\n\
         |---|---|---|---|"
    );
    let peak = median_of(merged.iter().map(|usage| usage.peak_bytes as f64));
    println!(
        "| {merged_wall:.3} | {one_wall:.4} | {:.2} | {:.1} |",
        merged_wall / (f64::from(RANKS) * one_wall),
        peak / 1e6
    );
    Ok(())
}

fn link_command(found: &BenchRecording, etlink: &Path, out: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![etlink.into()];
    words.extend(["link", "--overwrite", "--allow-mismatch", "--json", "-o"].map(OsString::from));
    words.extend([out.into(), "--device".into(), found.device.clone().into()]);
    words.extend(
        found
            .host
            .iter()
            .flat_map(|host| ["--host".into(), host.clone().into()]),
    );
    words
}

fn run_repeatedly(command: &[OsString], runs: usize) -> Result<Vec<ProcessUsage>> {
    let usages: Vec<ProcessUsage> = (0..runs)
        .map(|_| measure::measure_command(command))
        .collect::<Result<_>>()?;
    match usages.iter().find_map(|usage| usage.failed.as_deref()) {
        // A quick failure would look like a good figure.
        Some(why) => anyhow::bail!("{command:?}: {why}"),
        None => Ok(usages),
    }
}
