//! Reads device traces: the Chrome-trace JSON that Kineto writes
//! (`libkineto/src/output_json.cpp`), from PyTorch 1.8 to today, for CUDA, ROCm, XPU and MTIA.
//!
//! ```text
//! bytes -> chunks -> Event (one, reused) -> tables of the chunk -> DeviceTrace, sorted by time
//! ```
//! The file is never held as a tree, rarely as text: memory is that of the kept columns.
//! Times are taken from their decimal text as integer nanoseconds. Rows that the graph does
//! not need (Python stacks, flows, instants) are stepped over and counted, unless they are asked for. Kineto files are
//! often damaged; what is repaired or left out is in [`DeviceTrace::anomalies`].
//! O(n log n) for the final sort, else linear.
//!
//! ```
//! let text = br#"{"traceEvents": [
//!   {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5.250, "dur": 2.000}
//! ]}"#;
//! let trace = etlink_kineto::read(&text[..], etlink_kineto::KinetoReadOptions::default())?;
//! assert_eq!(trace.ops.start[0].0, 5_250);
//! # Ok::<(), etlink_kineto::Error>(())
//! ```

mod event;
mod header;
mod places;
mod sizes;
mod tables;

use etlink_json::{ArrayLayout, JsonReadError, ReadDamage, read_elements};
use etlink_model::{AnomalyKind, DeviceTrace};
use std::io::Read;

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct KinetoReadOptions {
    /// Threads to use. Each in turn reads (and inflates) a chunk and then parses it.
    pub threads: usize,
    /// Keep `Input Dims` and `Input type` of CPU ops: needed when there is no host trace.
    pub shapes: bool,
    /// What to keep that no graph needs.
    pub keep: KeepEvents,
}

/// What to keep beside the rows of a graph; each has what those before it have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeepEvents {
    /// Nothing.
    #[default]
    Graph,
    /// Allocations and frees.
    Memory,
    /// Frames of the Python stack, overheads, annotations of streams.
    Auxiliary,
}

impl Default for KinetoReadOptions {
    fn default() -> Self {
        KinetoReadOptions {
            threads: 1,
            shapes: true,
            keep: KeepEvents::Graph,
        }
    }
}

/// Why a device trace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a Kineto trace, or the source failed.
    #[error(transparent)]
    Read(#[from] JsonReadError),
    /// More rows than row numbers.
    #[error("the trace has more than {limit} events of one kind, more than one link can hold", limit = u32::MAX - 1)]
    TooManyRows,
}

const LAYOUT: ArrayLayout = ArrayLayout {
    array: "traceEvents",
    first_keys: &[
        "ph", "name", "cat", "args", "pid", "tid", "ts", "dur", "id", "s", "bp",
    ],
    chunk_bytes: 256 << 10,
};

/// Reads a Kineto trace. The result does not depend on `threads`.
///
/// # Errors
/// The source fails or holds no `traceEvents` list and is no bare list of events.
/// A truncated or partly damaged file is no error: see [`DeviceTrace::anomalies`].
pub fn read<R: Read + Send>(source: R, options: KinetoReadOptions) -> Result<DeviceTrace, Error> {
    let mut builder = tables::DeviceTraceBuilder::default();
    let envelope = read_elements(
        source,
        LAYOUT,
        options.threads,
        |chunk: &mut tables::ChunkTables, scanner| {
            let mut event = event::KinetoEvent::default();
            event.read(scanner, options)?;
            chunk.push(&event, options.keep);
            Ok(())
        },
        |chunk| builder.append(chunk),
    )?;
    let mut trace = builder.finish().ok_or(Error::TooManyRows)?;
    trace.bytes = envelope.bytes;
    for text in [&envelope.header, &envelope.trailer] {
        let fields = header::read(text, &mut trace);
        trace
            .anomalies
            .add(AnomalyKind::HeaderDamaged, fields.damaged, None);
        trace
            .anomalies
            .add(AnomalyKind::TextBehind, u64::from(fields.text_behind), None);
    }
    note_damage(&mut trace, envelope.damage);
    Ok(trace)
}

fn note_damage(trace: &mut DeviceTrace, damage: ReadDamage) {
    let place = damage.first_offset.map(|at| format!("byte {at}"));
    let anomalies = &mut trace.anomalies;
    let end = || Some(format!("byte {}", trace.bytes));
    // a bare list may lack its bracket by convention of the format; it is damage all the same
    anomalies.add(AnomalyKind::Truncated, u64::from(damage.truncated), end());
    anomalies.add(
        AnomalyKind::SourceEnded,
        u64::from(damage.source_error.is_some()),
        damage.source_error,
    );
    anomalies.add(AnomalyKind::Repaired, damage.repaired, place.clone());
    anomalies.add(AnomalyKind::Skipped, damage.skipped, place);
    anomalies.add(AnomalyKind::NotAnObject, damage.not_objects, None);
}

#[cfg(test)]
mod tests;
