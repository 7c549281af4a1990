//! Tests the command as users type it, on recorded and on broken input.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]
#![allow(unreachable_pub, reason = "a test program has no outside")]

mod advice;
mod analyze;
mod analyze_tables;
mod anonymous;
mod attributes;
mod bad_input;
mod capture;
mod claims;
mod completions;
mod convert;
mod damaged_rows;
mod diagnostics;
mod diff;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod failing_calls;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod faults;
mod feeder;
mod findings;
mod flight;
mod generate;
mod gpu;
mod graph;
mod grouping;
mod inspector;
mod json;
mod learned;
mod link;
mod measurements;
mod memory;
mod memory_snapshot;
mod merge;
mod merged;
mod nsys;
mod odd_ranks;
mod ops;
mod options;
#[cfg(target_os = "linux")]
mod outputs;
mod packed;
mod perfetto;
mod ranks;
mod read_cache;
mod record;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod record_faults;
mod replay;
mod replay_ranks;
mod report;
mod repro;
mod rocm;
mod rules;
mod runs;
mod schedule;
mod schema;
mod shards;
mod simulated;
mod simulator;
mod slices;
mod start_skew;
mod steps;
mod timeline;
mod tool;
mod top;
mod trigger;
mod two_traces;
mod width;
mod written;
mod xla;
