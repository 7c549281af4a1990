//! ET+ JSON: the op tree with times and device rows, as `chakra_trace_link` writes it.
//!
//! ```text
//! {"schema": …, "pid": …, "time": …, "start_ts": …, "nodes": [
//! {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, …},
//! {"id": 2, …},
//! …], "finish_ts": …}
//! ```
//! One node per line and per ET op; `ctrl_deps` is the parent's id, not a dependency.
//! `chakra_converter` and `et_replay`'s `ExecutionTrace` read it, so all their required keys
//! are there. Ids are new: they ascend in program order with an op's device rows right after
//! it, and the process root is 1 because et_replay looks for it there. Linear in the trace.

mod attrs;
mod json;
mod node;
mod plan;
mod schema;

#[cfg(test)]
mod tests;

use crate::WriteSummary;
use crate::et::metadata;
use crate::et::sink::Sink;
use etlink_link::LinkedTrace;
use node::NodeWriter;
use plan::Plan;
use std::io::{self, Write};

/// Where readers of this crate can tell in the first kilobyte that times follow.
pub(crate) const MARK: &str = "linked_by";

/// Writes a trace as ET+ JSON, uncompressed. The output is always valid JSON.
///
/// # Errors
/// Those of `out`.
pub fn write_etplus(trace: &LinkedTrace, out: &mut impl Write) -> io::Result<WriteSummary> {
    let plan = Plan::new(trace);
    let mut sink = Sink::new(out);
    let mut nodes = NodeWriter::new(trace, &plan);
    head(trace, sink.text()?)?;
    for entry in 0..plan.entries.len() {
        if entry > 0 {
            sink.text()?.extend_from_slice(b",\n");
        }
        nodes.entry(entry, sink.text()?)?;
        for &row in plan.rows_of(entry) {
            sink.text()?.extend_from_slice(b",\n");
            nodes.row(entry, row as usize, sink.text()?)?;
        }
    }
    tail(trace, sink.text()?)?;
    let bytes = sink.finish()?;
    Ok(WriteSummary { bytes, ..nodes.summary })
}

fn head(trace: &LinkedTrace, out: &mut Vec<u8>) -> io::Result<()> {
    let time = trace.host.as_ref().map_or("", |host| &host.header.time);
    let pid = metadata::pid(trace).unwrap_or(0);
    write!(out, "{{\"schema\": \"{}\", ", schema::of(trace))?;
    write!(out, "\"pid\": {pid}, \"time\": ")?;
    json::text(out, time)?;
    write!(out, ", \"start_ts\": {}, ", start_ms(trace))?;
    writeln!(out, "\"{MARK}\": \"{}\", \"nodes\": [", metadata::WRITER)
}

/// `finish_ts` is missing where the observer was never unregistered, but `chakra_converter`
/// wants it: then the end is that of the device trace.
fn tail(trace: &LinkedTrace, out: &mut Vec<u8>) -> io::Result<()> {
    let said = trace.host.as_ref().and_then(|host| host.header.finish_ms);
    let span = trace.device.window().map_or(0, |(start, end)| (end - start).0);
    let finish = said.unwrap_or_else(|| start_ms(trace).saturating_add(span / 1_000_000));
    writeln!(out, "\n], \"finish_ts\": {finish}}}")
}

fn start_ms(trace: &LinkedTrace) -> i64 {
    let said = trace.host.as_ref().and_then(|host| host.header.start_ms);
    let first = || trace.device.window().map_or(0, |(start, _)| start.0);
    said.unwrap_or_else(|| first().div_euclid(1_000_000)).max(0)
}
