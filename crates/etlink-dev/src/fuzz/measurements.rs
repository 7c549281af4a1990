//! Fuzzes measurements of a trace: no panic, and only kernels of the trace are joined.

use super::corpus::mutate_text;
use anyhow::{Result, ensure};
use etlink_formats::metrics::{WorkloadCard, read_compute_csv, read_latencies};
use etlink_link::{LinkedTrace, join_counter_ranges, join_kernel_metrics};
use etlink_model::RowKind;
use std::fmt::Write;

/// Keys of vLLM's and SGLang's benchmarks.
const LATENCIES: &str = r#"{"backend": "vllm", "model_id": "m", "completed": 3,
"mean_ttft_ms": 12.5, "median_ttft_ms": 12.0, "p99_e2el_ms": 20.25, "ttfts": [0.1, 0.3],
"itls": [[0.01, 0.03], [0.02]], "avg_latency": 2.5, "percentiles": {"50": 2.5, "99": 2.99}}"#;

/// A card with constructs of real files: inline maps, quotes, numbers of all kinds.
const CARD: &str = "version: 1
workload: &w
  model: {phase: training, model_arch: {num_params: 8.03e9}}
  data: {batch_size: '4', seq_len: [1024]}
Model-executor:
  framework: {name: torchtitan}
metric_source:
  traces: [kineto_trace, *w]
";

/// Reads damaged measurements, and joins kernel metrics to the trace they were made from.
pub(super) fn check_measurements(trace: &LinkedTrace) -> Result<()> {
    // The damage depends only on the trace, so that a round is reproducible.
    let mut random = fastrand::Rng::with_seed(trace.device.bytes);
    drop(read_latencies(
        &mutate_text(LATENCIES.as_bytes(), &mut random)[..],
    ));
    drop(WorkloadCard::read(
        &mutate_text(CARD.as_bytes(), &mut random)[..],
    ));
    let table = compute_table(trace);
    let whole = read_compute_csv(table.as_bytes())?;
    let kernels = trace.device.rows.kind.iter();
    let kernels = kernels.filter(|kind| **kind == RowKind::Kernel).count() as u64;
    let mut joined = trace.clone();
    let join = join_kernel_metrics(&mut joined, &whole);
    ensure!(
        join.joined + join.left_out >= join.profiled && join.joined <= kernels,
        "{join:?} of {kernels} kernels"
    );
    let damaged = mutate_text(table.as_bytes(), &mut random);
    if let Ok(profile) = read_compute_csv(&damaged[..]) {
        join_kernel_metrics(&mut joined, &profile);
    }
    join_counter_ranges(&mut joined);
    let rows = &joined.kernel_metrics.row;
    ensure!(rows.is_sorted(), "metrics are not in the order of kernels");
    Ok(())
}

/// Formats the kernels among the first hundred rows of a trace as Nsight Compute prints them.
fn compute_table(trace: &LinkedTrace) -> String {
    let mut table = "\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\
                     \"dram__bytes.sum\"\n\"\",\"\",\"\",\"\",\"\",\"Mbyte\"\n"
        .to_owned();
    let device = &trace.device;
    for row in 0..device.rows.len().min(100) {
        let row = device.rows.row(row);
        let name = device.names.get(row.name).replace('"', "\"\"");
        let ([x, y, z], [a, b, c]) = (row.grid, row.block);
        // A name of only blanks makes a line without a kernel.
        if name.trim().is_empty() {
            continue;
        }
        let _ = writeln!(
            table,
            "\"{}\",\"1\",\"{name}\",\"({a}, {b}, {c})\",\"({x}, {y}, {z})\",\"1,024.5\"",
            row.start.0.unsigned_abs()
        );
    }
    table
}
