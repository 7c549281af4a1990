//! Reads and writes device traces: the Chrome-trace JSON that Kineto writes
//! (`libkineto/src/output_json.cpp`), from PyTorch 1.8 to today, for CUDA, ROCm, XPU and MTIA.
//!
//! ```text
//! bytes -> chunks -> Event (one, reused) -> tables of the chunk -> DeviceTrace, sorted by time
//! ```
//! The file is never held as a tree, and rarely as text: memory is limited to the kept columns.
//! Times are converted from their decimal text to integer nanoseconds. Rows that the graph does not
//! need (Python stacks, flows, instants) are skipped and counted unless requested. Kineto files are
//! often damaged; [`DeviceTrace::anomalies`] lists repairs and omissions. The final sort is O(n log
//! n), everything else is linear.
//!
//! ```
//! let text = br#"{"traceEvents": [
//!   {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
//!    "ts": 5.250, "dur": 2.000}
//! ]}"#;
//! let trace = etlink_formats::kineto::read(&text[..], etlink_formats::kineto::KinetoReadOptions::default())?;
//! assert_eq!(trace.ops.start[0].0, 5_250);
//! # Ok::<(), etlink_formats::Error>(())
//! ```

mod dependencies;
mod event;
mod header;
mod json_values;
mod outline;
mod sizes;
mod tables;
mod write;

pub use outline::{SliceEvents, TraceOutline};
pub use write::{
    CompleteEvent, EventArguments, FlowEvent, KinetoHeader, KinetoVersion, KinetoWriteOptions,
    KinetoWriter, TrackKey,
};

use crate::{Error, SoughtData};
use etlink_json::{ArrayLayout, ReadDamage, read_elements};
use etlink_model::{AnomalyKind, DeviceTrace, Failure, KeepEvents};
use header::KnownKeys;
use outline::OutlineBuilder;
use std::io::Read;
use tables::KeptChunks;

/// Options for reading.
#[derive(Clone, Copy, Debug)]
pub struct KinetoReadOptions {
    /// Threads to use. They take turns: each reads (and decompresses) a chunk, then parses it.
    pub threads: usize,
    /// Keeps `Input Dims`, `Input type`, `Input Strides` and `Concrete Inputs` of CPU ops, which
    /// are needed without a host trace.
    pub shapes: bool,
    /// Events to keep in addition to those that the graph needs.
    pub keep: KeepEvents,
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

/// The list of events.
const EVENTS: SoughtData = SoughtData {
    data: "\"traceEvents\" list",
    meaning: "not a Kineto trace, or truncated before its events",
    remedy: "export it again",
};

const LAYOUT: ArrayLayout = ArrayLayout {
    // `ph` is Kineto's own first key; the others come from Python tools that sort or rewrite files.
    array: "traceEvents",
    first_keys: &[
        "ph", "name", "cat", "args", "pid", "tid", "ts", "dur", "id", "s", "bp",
    ],
    chunk_bytes: 256 << 10,
};

/// Reads a Kineto trace. The result does not depend on `threads`.
///
/// # Errors
/// Fails if the source fails, or if it neither holds a `traceEvents` list nor is a bare list of
/// events. A truncated or partly damaged file is not an error: see [`DeviceTrace::anomalies`].
pub fn read<R: Read + Send>(source: R, options: KinetoReadOptions) -> Result<DeviceTrace, Error> {
    let (trace, _) = read_kept(source, options, KeptChunks::Whole)?;
    Ok(trace)
}

/// Reads a slice of a Kineto trace: at least what [`DeviceTrace::cut`] keeps of the trace. Names,
/// threads and queues keep the numbers they have in the whole trace.
///
/// # Errors
/// Fails like [`read`].
pub fn read_slice<R: Read + Send>(
    source: R,
    options: KinetoReadOptions,
    slice: &SliceEvents,
) -> Result<DeviceTrace, Error> {
    let (trace, _) = read_kept(source, options, KeptChunks::Slice(slice))?;
    Ok(trace)
}

/// Reads what determines the start and end of a slice of a Kineto trace: annotations, and the ops
/// whose names `is_step` accepts.
///
/// # Errors
/// Fails like [`read`].
pub fn read_outline<R: Read + Send>(
    source: R,
    options: KinetoReadOptions,
    is_step: &(dyn Fn(&str) -> bool + Sync),
) -> Result<TraceOutline, Error> {
    let builder = OutlineBuilder::new(is_step);
    let (trace, kept) = read_kept(source, options, KeptChunks::Outline(builder))?;
    match kept {
        KeptChunks::Outline(builder) => Ok(builder.finish(trace)),
        KeptChunks::Whole | KeptChunks::Slice(_) => Ok(TraceOutline::of_trace(trace)),
    }
}

fn read_kept<R: Read + Send>(
    source: R,
    options: KinetoReadOptions,
    kept: KeptChunks<'_>,
) -> Result<(DeviceTrace, KeptChunks<'_>), Error> {
    let mut builder = tables::DeviceTraceBuilder::new(kept);
    let envelope = read_elements(
        source,
        LAYOUT,
        options.threads,
        |chunk: &mut tables::ChunkTables, scanner| {
            // An event is read completely before any part is kept, because damage may offer it a
            // second time.
            let mut event = event::KinetoEvent::default();
            event.read(scanner, options)?;
            chunk.push(&event, options.keep);
            Ok(())
        },
        |chunk| builder.append(chunk),
    )
    .map_err(|error| EVENTS.error(error))?;
    let (mut trace, kept) = builder.finish().ok_or(Error::TooManyRows)?;
    trace.bytes = envelope.bytes;
    let mut keys = header::KnownKeys::default();
    for (text, is_trailer) in [(&envelope.header, false), (&envelope.trailer, true)] {
        // A header ends inside the list and does not report the list's key.
        if is_trailer {
            keys.add(LAYOUT.array.as_bytes());
        }
        let fields = header::read(text, &mut trace, &mut keys, options.keep);
        trace
            .anomalies
            .add(AnomalyKind::HeaderDamaged, fields.damaged, None);
        trace
            .anomalies
            .add(AnomalyKind::TextBehind, u64::from(fields.text_behind), None);
    }
    let KnownKeys {
        repeated,
        first_repeated,
        ..
    } = keys;
    trace
        .anomalies
        .add(AnomalyKind::RepeatedKey, repeated, first_repeated);
    note_damage(&mut trace, envelope.damage);
    match xla_process(&trace) {
        Some(process) => {
            let problem = format!(
                "the file is a trace of JAX or XLA (it has {process:?}), which its start does not show"
            );
            let failure = Failure::new(problem);
            Err(failure
                .advise("give the profile it was generated from (.xplane.pb)")
                .into())
        }
        None => Ok((trace, kept)),
    }
}

/// Returns the name that identifies a trace of JAX or another user of XLA: processes or threads
/// have XLA's names, and no event has a category, so no table has a row.
fn xla_process(trace: &DeviceTrace) -> Option<String> {
    let names = trace.process_names.iter().map(|(_, name)| *name);
    let threads = trace.thread_names.iter().map(|(_, name)| *name);
    let process = names
        .map(|name| trace.names.get(name))
        .find(|name| name.starts_with("/device:") || name.starts_with("/host:"));
    let line = threads
        .map(|name| trace.names.get(name))
        .find(|name| matches!(*name, "XLA Modules" | "XLA Ops"));
    // A trace with rows is PyTorch's, whatever its processes are called.
    let found = process.or(line).map(str::to_owned);
    if trace.window().is_none() {
        found
    } else {
        None
    }
}

/// Minimum of times relative to a time base, in nanoseconds: base times are a quarter of a year
/// apart, so hardly any recording begins within the first minutes.
const LEAST_NS: i64 = 1_000_000_000_000;

/// Minimum of times since the Unix epoch, in nanoseconds; this is in 1973.
const LEAST_UNIX_NS: i64 = 100_000_000_000_000_000;

/// Returns true if the file ends before the time base that its times need.
fn is_cut_before_base(trace: &DeviceTrace) -> bool {
    let Some((start, _)) = trace.window() else {
        return false;
    };
    trace.header.base_ns.0 == 0 && (LEAST_NS..LEAST_UNIX_NS).contains(&start.0)
}

fn note_damage(trace: &mut DeviceTrace, damage: ReadDamage) {
    let is_truncated = damage.truncated || damage.source_error.is_some();
    if is_truncated && is_cut_before_base(trace) {
        trace.anomalies.note(AnomalyKind::NoTimeBase, String::new);
    }
    // The format allows a bare list to lack its bracket; it is reported as damage all the same.
    crate::note_damage(&mut trace.anomalies, trace.bytes, damage);
}

#[cfg(test)]
mod tests;
