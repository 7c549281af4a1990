//! Reads measurements that complement traces: metrics of kernels, latencies of requests, workload
//! cards.
//!
//! ```text
//! ncu --csv                    ─ read_compute_csv ──> MetricProfile   (joined by etlink-link)
//! vllm bench, bench_serving    ─ read_latencies ────> RequestLatencies
//! ccl-bench's card (YAML)      ─ WorkloadCard::read ─> WorkloadCard ─ filled ─> YAML
//! ```
//! This crate opens no files. Unreadable lines are counted, not rejected.

mod card;
mod compute_csv;
mod latencies;

pub use card::{CardGaps, WorkloadCard, is_workload_card};
pub use compute_csv::{is_compute_csv, read_compute_csv};
pub use latencies::{
    LatencyKind, LatencyTotals, RequestLatencies, is_latency_file, read_latencies,
};

use etlink_model::Failure;

/// Returns the failure of a source.
fn not_read(cause: std::io::Error) -> Failure {
    Failure::new("cannot read the file").because(cause)
}

/// Returns the failure of a file that is larger than any of its kind.
fn too_large(limit: u64, what: &str) -> Failure {
    Failure::new(format!(
        "the file is larger than {limit} bytes, the limit for a {what}"
    ))
}
