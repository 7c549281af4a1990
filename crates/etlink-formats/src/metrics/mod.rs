//! Reads measurements that complement traces: metrics of kernels, latencies of requests, workload
//! cards.
//!
//! ```text
//! ncu --csv                    ─ read_compute_csv ──> MetricProfile   (joined by etlink-link)
//! vllm bench, bench_serving    ─ read_latencies ────> RequestLatencies
//! ccl-bench's card (YAML)      ─ WorkloadCard::read ─> WorkloadCard ─ write ─> YAML
//! ```
//! This crate opens no files. Unreadable lines are counted, not rejected.

mod card;
mod compute_csv;
mod error;
mod latencies;

pub use card::{CardModel, CardParallelism, WorkloadCard, is_workload_card};
pub use compute_csv::{is_compute_csv, read_compute_csv};
pub use error::Error;
pub use latencies::{
    LatencyKind, LatencyTotals, RequestLatencies, is_latency_file, read_latencies,
};
