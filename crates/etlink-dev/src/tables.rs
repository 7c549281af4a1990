//! Reads the output of `etlink analyze --parquet` with DuckDB, Polars and pandas, and compares it
//! with the linked traces.

use crate::support::{etlink_path, install_from_pypi, repository_root, run_command};
use anyhow::{Context, Result, bail, ensure};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::NodeIdx;
use etlink_testing::{DeviceQueue, HostSchema, ParamComms, TraceBuilder};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

// Pinned, so that a failure of the suite is due to our change and not a reader's.
const PACKAGES: [&str; 4] = [
    "duckdb==2.0.0",
    "polars==2.1.0",
    "pandas==3.1.1",
    "pyarrow==26.0.1",
];
const US: i64 = 1_000;

#[derive(Debug, Deserialize)]
struct ReaderOutput {
    lines: BTreeMap<String, Vec<u64>>,
    queries: Vec<Vec<Vec<Value>>>,
}

/// Tests two generated ranks, and a trace without a rank, through the command and all three
/// readers.
pub fn test_tables() -> Result<()> {
    let root = repository_root()?;
    let folder = root.join("target/tables");
    let traces = folder.join("traces");
    std::fs::create_dir_all(&traces).with_context(|| traces.display().to_string())?;
    let ranks = [0, 1].map(draw_rank);
    for (rank, draw) in ranks.iter().enumerate() {
        std::fs::write(
            traces.join(format!("torch_et_{rank}.json")),
            draw.host(HostSchema::V1_1_1),
        )?;
        std::fs::write(
            traces.join(format!("kineto_trace_{rank}.json")),
            draw.kineto(),
        )?;
    }
    run_analyze(&traces, &folder)?;
    let linked: Vec<LinkedTrace> = ranks.iter().map(link_drawn).collect::<Result<_>>()?;
    let packages = install_readers(&folder)?;
    let found = run_readers(&packages, &folder, &root)?;
    compare_rows(&found, &linked)?;
    println!(
        "{} tables, 3 readers, {} queries: as linked",
        found.lines.len(),
        found.queries.len()
    );
    // Here `rank` is null. In SQL null equals nothing, not even null, which the README's joins must
    // handle.
    let nameless = folder.join("nameless");
    std::fs::create_dir_all(&nameless).with_context(|| nameless.display().to_string())?;
    let draw = draw_steps(TraceBuilder::default(), 0);
    std::fs::write(nameless.join("trace.json"), draw.kineto())?;
    run_analyze(&nameless.join("trace.json"), &nameless)?;
    without_rank(&run_readers(&packages, &nameless, &root)?)?;
    println!("a trace without a rank: the same queries join it");
    Ok(())
}

fn run_analyze(traces: &Path, folder: &Path) -> Result<()> {
    let mut analyze = Command::new(etlink_path()?);
    analyze.args(["analyze", "--overwrite"]).arg(traces);
    run_command(analyze.arg("--parquet").arg(folder.join("tables")))
}

/// Generates a rank; rank 1 is 40 us late for its second all-reduce.
pub(crate) fn draw_rank(rank: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    draw_steps(draw, rank)
}

fn draw_steps(mut draw: TraceBuilder, rank: i64) -> TraceBuilder {
    let main = draw.thread();
    for step in 0..3 {
        let (begin, late) = (
            step * 1_000 * US,
            if step == 1 { rank * 40 * US } else { 0 },
        );
        draw.op(main, "aten::mm", begin, begin + 60 * US);
        draw.launch(
            main,
            (begin + 20 * US, begin + 30 * US),
            DeviceQueue::stream(7),
            "gemm",
            (begin + 40 * US, begin + 140 * US),
        );
        let comms = ParamComms::new("allreduce", [0, 1], rank, step);
        draw.collective(main, &comms, begin + 300 * US, begin + 400 * US);
        // Launch and kernel of NCCL share the id; the op is found by enclosing the call.
        let id = draw.next_correlation();
        draw.call(
            main,
            "cudaLaunchKernelExC",
            (begin + 310 * US, begin + 320 * US),
            id,
        );
        draw.collective_kernel(
            DeviceQueue::stream(24),
            "ncclDevKernel_AllReduce",
            (begin + 350 * US + late, begin + 800 * US),
            id,
            &comms,
        );
    }
    draw
}

fn link_drawn(draw: &TraceBuilder) -> Result<LinkedTrace> {
    let host = etlink_host::read(
        &draw.host(HostSchema::V1_1_1)[..],
        etlink_host::HostReadOptions { threads: 1 },
    )?;
    let device = etlink_kineto::read(
        &draw.kineto()[..],
        etlink_kineto::KinetoReadOptions {
            threads: 1,
            shapes: false,
            keep: etlink_model::KeepEvents::Graph,
        },
    )?;
    Ok(etlink_link::link(
        Some(host),
        device,
        LinkOptions::default(),
    )?)
}

/// Installs the readers from PyPI.
fn install_readers(folder: &Path) -> Result<PathBuf> {
    let packages = folder.join(PACKAGES.join("+"));
    if packages.join("duckdb").is_dir() && packages.join("pandas").is_dir() {
        return Ok(packages);
    }
    install_from_pypi(&PACKAGES, &packages, true)?;
    Ok(packages)
}

fn run_readers(packages: &Path, folder: &Path, root: &Path) -> Result<ReaderOutput> {
    let recipe = root.join("crates/etlink-dev/recipes/tables.py");
    let ran = Command::new("python3")
        .env("PYTHONPATH", packages)
        .arg(recipe)
        .arg(folder)
        .arg(root.join("crates/etlink-tables/README.md"))
        .output()?;
    if !ran.status.success() {
        bail!(
            "the readers failed: {}",
            String::from_utf8_lossy(&ran.stderr).trim()
        );
    }
    serde_json::from_slice(&ran.stdout).context("reading what the recipe printed")
}

fn compare_rows(found: &ReaderOutput, linked: &[LinkedTrace]) -> Result<()> {
    let want = [
        (
            "events",
            sum_over(linked, |trace| {
                trace.device.ops.len() + trace.device.calls.len() + trace.device.rows.len()
            }),
        ),
        ("nodes", sum_over(linked, |trace| trace.nodes.len())),
        ("edges", sum_over(linked, |trace| trace.edges.len())),
        ("collectives", sum_over(linked, count_collectives)),
    ];
    for (table, lines) in want {
        ensure!(
            // One count from each of the three readers.
            found.lines.get(table) == Some(&vec![lines; 3]),
            "{table}: {lines} lines, read as {:?}",
            found.lines.get(table)
        );
    }
    // The README is the source, so a query that changes there is tested from then on.
    let [ops, edges, skew] = found.queries.as_slice() else {
        bail!("{} queries in the README, 3 wanted", found.queries.len())
    };
    ensure!(
        ops.iter()
            // Three steps on two ranks, with kernels of 100 us.
            .any(|line| line[0] == "aten::mm" && line[1] == 6 && line[2] == 0.6),
        "device time of ops: {ops:?}"
    );
    let counted: u64 = edges.iter().filter_map(|line| line[1].as_u64()).sum();
    ensure!(counted == want[2].1, "{counted} edges by kind");
    ensure!(
        skew.first()
            .is_some_and(|line| (&line[2], &line[3], &line[4])
                == (&Value::from(1), &Value::from(1), &Value::from(40.0))),
        "skew: {skew:?}"
    );
    Ok(())
}

/// Checks results for a null `rank`, which equals nothing.
fn without_rank(found: &ReaderOutput) -> Result<()> {
    let [ops, edges, _] = found.queries.as_slice() else {
        bail!("{} queries in the README, 3 wanted", found.queries.len())
    };
    ensure!(
        ops.iter()
            // Three steps of one rank.
            .any(|line| line[0] == "aten::mm" && line[1] == 3 && line[2] == 0.3),
        "device time of ops without a rank: {ops:?}"
    );
    let counted: u64 = edges.iter().filter_map(|line| line[1].as_u64()).sum();
    ensure!(
        found.lines.get("edges") == Some(&vec![counted; 3]),
        "{counted} edges by kind without a rank"
    );
    Ok(())
}

fn sum_over(ranks: &[LinkedTrace], count: fn(&LinkedTrace) -> usize) -> u64 {
    ranks.iter().map(count).sum::<usize>() as u64
}

fn count_collectives(trace: &LinkedTrace) -> usize {
    let nodes = trace.nodes.indices();
    nodes.filter(|node| is_collective(trace, *node)).count()
}

fn is_collective(trace: &LinkedTrace, at: NodeIdx) -> bool {
    let node = trace.nodes.get(at);
    trace.is_communication(&node) && trace.collective(&node).is_some()
}
