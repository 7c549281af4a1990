//! ET+ JSON: the op tree with times and device rows, as written by `chakra_trace_link`.
//!
//! ```text
//! {"schema": …, "pid": …, "time": …, "start_ts": …, "nodes": [
//! {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, …},
//! {"id": 2, …},
//! …], "finish_ts": …}
//! ```
//! Each ET op is one node on one line; `ctrl_deps` is the parent's id, not a dependency.
//! `chakra_converter` and `et_replay`'s `ExecutionTrace` read the format, so all keys they require
//! are present. Ids are new: they ascend in program order, an op's device rows directly follow it,
//! and the process root has id 1 because et_replay expects it there. Linear in the trace.

mod attrs;
mod json;
mod node;
mod plan;
mod read;
mod rebuilt;
mod schema;
mod threads;

#[cfg(test)]
mod tests;

pub(crate) use read::read_etplus;
pub use rebuilt::rebuilt_traces;

use crate::WriteSummary;
use crate::et::metadata;
use crate::ordered_writer::{self, OutputBlock};
use etlink_link::LinkedTrace;
use node::NodeWriter;
use plan::EtPlusPlan;
use std::io::{self, Write};
use threads::ThreadTimes;

/// Lines per block; about 500 KB.
const BLOCK_LINES: u64 = 512;

/// Key in the first kilobyte by which this crate's readers recognize a file with times.
pub(crate) const MARK: &str = "linked_by";

/// Writes a trace as uncompressed ET+ JSON. The output is always valid JSON.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_etplus(
    trace: &LinkedTrace,
    out: &mut (impl Write + Send),
) -> io::Result<WriteSummary> {
    let plan = EtPlusPlan::new(trace);
    let threads = ThreadTimes::new(trace, &plan);
    let lines = plan.lines();
    let blocks = lines.div_ceil(BLOCK_LINES);
    let mut summary = ordered_writer::write(out, blocks as usize, |block, mut bytes| {
        let first = block as u64 * BLOCK_LINES;
        // Each block has its own writer, because blocks are made on several threads.
        let mut nodes = NodeWriter::new(trace, &plan, &threads);
        if first == 0 {
            write_head(trace, &mut bytes)?;
        }
        nodes.lines(first..lines.min(first + BLOCK_LINES), &mut bytes)?;
        Ok(OutputBlock {
            bytes,
            summary: nodes.summary,
        })
    })?;
    summary.bytes += write_tail(trace, out)?;
    summary.ops_left_out = plan.ops_left_out(trace);
    Ok(summary)
}

fn write_head(trace: &LinkedTrace, out: &mut Vec<u8>) -> io::Result<()> {
    let time = trace.host.as_ref().map_or("", |host| &host.header.time);
    let pid = metadata::pid(trace).unwrap_or(0);
    write!(out, "{{\"schema\": \"{}\", ", schema::of(trace).schema)?;
    write!(out, "\"pid\": {pid}, \"time\": ")?;
    json::text(out, time)?;
    write!(out, ", \"start_ts\": {}, ", start_ms(trace))?;
    writeln!(out, "\"{MARK}\": \"{}\", \"nodes\": [", metadata::WRITER)
}

/// Writes the text after the nodes. `chakra_converter` requires `finish_ts`, which is missing if
/// the observer was never unregistered; the end of the device trace is then used.
fn write_tail(trace: &LinkedTrace, out: &mut impl Write) -> io::Result<u64> {
    // Milliseconds of the observer's steady clock; the length of the window is added to them.
    let said = trace.host.as_ref().and_then(|host| host.header.finish_ms);
    let span = trace
        .device
        .window()
        .map_or(0, |(start, end)| (end - start).0);
    let finish = said.unwrap_or_else(|| start_ms(trace).saturating_add(span / 1_000_000));
    let tail = format!("\n], \"finish_ts\": {finish}}}\n");
    out.write_all(tail.as_bytes())?;
    Ok(tail.len() as u64)
}

fn start_ms(trace: &LinkedTrace) -> i64 {
    let stated = trace.host.as_ref().and_then(|host| host.header.start_ms);
    let first_ns = trace.device.window().map_or(0, |(start, _)| start.0);
    stated.unwrap_or(first_ns.div_euclid(1_000_000)).max(0)
}
