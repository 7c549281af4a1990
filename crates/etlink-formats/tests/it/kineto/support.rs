//! Helpers that build short texts and inspect the traces read from them.

use etlink_formats::kineto::KinetoReadOptions;
use etlink_model::{AnomalyKind, DeviceTrace};

pub(crate) fn read(text: impl AsRef<[u8]>) -> DeviceTrace {
    read_with(text.as_ref(), 1)
}

pub(crate) fn read_with(text: &[u8], threads: usize) -> DeviceTrace {
    etlink_formats::kineto::read(
        text,
        KinetoReadOptions {
            threads,
            shapes: true,
            keep: etlink_model::KeepEvents::Graph,
        },
    )
    .expect("a trace")
}

/// Returns all anomalies with their counts.
pub(crate) fn anomalies(trace: &DeviceTrace) -> Vec<(AnomalyKind, u64)> {
    trace
        .anomalies
        .iter()
        .map(|(kind, anomaly)| (kind, anomaly.count))
        .collect()
}

/// Returns the names of the CPU ops, in order.
pub(crate) fn ops(trace: &DeviceTrace) -> Vec<&str> {
    trace
        .ops
        .name
        .iter()
        .map(|name| trace.names.get(*name))
        .collect()
}

/// Returns the names of the device rows, in order.
pub(crate) fn rows(trace: &DeviceTrace) -> Vec<&str> {
    trace
        .rows
        .name
        .iter()
        .map(|name| trace.names.get(*name))
        .collect()
}

/// Returns the number of events, kept or not.
pub(crate) fn events(trace: &DeviceTrace) -> u64 {
    trace.events.values().sum()
}

/// Formats an op of 500 ns at `at` µs; `name` is inserted unescaped.
pub(crate) fn op(name: &str, at: u32) -> String {
    format!(
        concat!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1, "#,
            r#""ts": {at}.000, "dur": 0.500, "args": {{"External id": {at}}}}}"#,
        ),
        name = name,
        at = at
    )
}

/// Formats a kernel of 500 ns at `at` µs with these arguments.
pub(crate) fn kernel(args: &str, at: u32) -> String {
    format!(
        concat!(
            r#"{{"ph": "X", "cat": "kernel", "name": "k{at}", "pid": 0, "tid": 7, "#,
            r#""ts": {at}.000, "dur": 0.500, "args": {{{args}}}}}"#,
        ),
        at = at,
        args = args
    )
}

pub(crate) fn document(events: &[String]) -> String {
    format!(
        "{{\n\"schemaVersion\": 1,\n\"traceEvents\": [\n{}\n],\n\"traceName\": \"t\"}}",
        events.join(",\n")
    )
}

/// Formats everything in a trace, to compare two traces.
pub(crate) fn dump(trace: &DeviceTrace) -> String {
    format!("{trace:?}")
}
