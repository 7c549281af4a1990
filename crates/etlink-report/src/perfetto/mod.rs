//! Writes a trace for Perfetto (ui.perfetto.dev, `trace_processor`), in Perfetto's own format or in
//! Chrome's JSON.
//!
//! ```text
//! critical path   steps      |step |delay|step        |step |
//! python          thread 1   |aten::mm --------|              whole ops, calls in them
//!                             |launch|
//!                                  `---.                      an arrow per edge that is no order
//! device 0        queue depth  __|~~~~~~~|_____________        and rows that run, bytes of copies
//!                 stream 7             v|kernel ======|
//! ```
//! One traversal of the ranges feeds the writer of either format (`sink`). Ranges are written by
//! start, the longer first, with their arrows. Perfetto drops a range that overlaps another of its
//! track without nesting, so such ranges go to a further track of their thread or stream, `… (2)`.
//! An arrow that ends inside a call, at the end of a wait, gets a range there, `goes on`. Times
//! count from the first event: JSON's are microseconds with three decimals, which readers store in
//! 64-bit floats that cannot resolve nanoseconds of Unix time. `otherData` (`metadata` in
//! Perfetto's format) has the origin. O(n log n) for n ranges and arrows; output is flushed block
//! by block.
//!
//! The ranks of a run are written one by one, in any order, and concatenated
//! ([`TimelineFormat::begin`], [`write_rank`], [`TimelineFormat::between`],
//! [`TimelineFormat::end`]). Two ranks share no numbers of ranges, tracks or arrows, except for the
//! arrows between ranks:
//! ```text
//! rank 0 · device 0   |all-reduce ~~~~~~~~~~~|transfer ==|    waits for rank 1, which comes last
//!                                        .---^
//! rank 1 · device 0                     |all-reduce =====|
//! ```
//! Such an arrow ends 1 ns after it begins: if two ranges begin together, Perfetto takes the one
//! written first as the begin of the arrow.

mod arrows;
mod counters;
mod describe;
mod json;
mod lanes;
mod packets;
mod recorded;
mod sink;
mod slices;
mod tracks;

#[cfg(test)]
mod tests;

/// Messages of Perfetto's schema, generated from `schema/trace.proto`.
#[allow(
    missing_docs,
    clippy::all,
    reason = "generated; the schema says what fields mean"
)]
pub mod schema {
    include!(concat!(env!("OUT_DIR"), "/perfetto.protos.rs"));
}

use arrows::Arrows;
pub use arrows::is_drawn;
use etlink_link::LinkedTrace;
use etlink_link::ranks::{RankClock, WaitCause};
use etlink_model::{CommonNs, DurationNs, NodeIdx, TimeNs};
use sink::{FactWriter, FileTimes, TimelineSink, TrackId, TrackRange};
use slices::{TraceSlice, TraceSlices};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use tracks::TrackTable;

/// File format of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineFormat {
    /// Chrome's trace format.
    Json,
    /// Perfetto's own protobuf format.
    Protobuf,
}

impl TimelineFormat {
    /// Returns the bytes before the first rank. `origin_ns` is the instant of time 0 since the Unix
    /// epoch; `about` is the file's metadata.
    ///
    /// # Errors
    /// None in practice: writing to memory does not fail.
    pub fn begin(self, about: &[(&str, String)], origin_ns: i64) -> io::Result<Vec<u8>> {
        match self {
            TimelineFormat::Json => json::file_head(about),
            TimelineFormat::Protobuf => Ok(packets::file_head(about, origin_ns)),
        }
    }

    /// Returns the bytes between two ranks.
    pub fn between(self) -> &'static [u8] {
        match self {
            TimelineFormat::Json => json::BETWEEN,
            TimelineFormat::Protobuf => &[],
        }
    }

    /// Returns the bytes after the last rank.
    pub fn end(self) -> Vec<u8> {
        match self {
            TimelineFormat::Json => json::END.to_vec(),
            TimelineFormat::Protobuf => vec![],
        }
    }
}

/// Role of a trace among the ranks of a file.
#[derive(Clone, Copy, Debug)]
pub struct TimelineRank<'a> {
    /// Index of the rank, from 0.
    pub place: u32,
    /// Number of ranks in the file.
    pub of: u32,
    /// Prefix of process names, `rank 3`.
    pub name: &'a str,
    /// Clock of the rank relative to the file's.
    pub clock: RankClock,
    /// Instant of file time 0, by the file's clock; no event of the trace is earlier.
    pub origin_ns: CommonNs,
    /// Waits between this rank and others, in both directions.
    pub releases: &'a [WaitCause],
}

/// A node of the critical path. Each step starts at the end of the previous one plus its own delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CriticalStep {
    /// Node of the step.
    pub node: NodeIdx,
    /// Start in the run.
    pub start: TimeNs,
    /// Duration in the run.
    pub duration: DurationNs,
    /// Delay from the end of the previous step, or the beginning of the run, to the start.
    pub delay: DurationNs,
    /// Cause of the duration.
    pub cause: &'static str,
    /// Cause of the delay.
    pub delay_cause: &'static str,
    /// Kind of dependency that the step waited for.
    pub via: &'static str,
}

/// Counts of written items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineSummary {
    /// Number of ops, calls, rows, and nodes that are ranges for an arrow.
    pub slices: u64,
    /// Number of arrows.
    pub arrows: u64,
    /// Number of critical-path steps, without delays.
    pub steps: u64,
}

/// Writes the file of one trace, with the critical path of its graph, uncompressed. The same input
/// gives the same bytes.
///
/// # Errors
/// Errors of `out`.
pub fn write_trace(
    trace: &LinkedTrace,
    path: &[CriticalStep],
    format: TimelineFormat,
    out: &mut impl Write,
) -> io::Result<TimelineSummary> {
    let begins = path
        .first()
        .map(|step| TimeNs(step.start.0.saturating_sub(step.delay.0)));
    let device = &trace.device;
    let first = match device.details {
        Some(_) => device.first_start_of_all(),
        None => device.window().map(|(start, _)| start),
    };
    // The path can begin before all events, with a delay: no time may be negative in the file.
    let origin = begins.into_iter().chain(first).min().unwrap_or_default();
    let unix_ns = trace.device.header.unix_time(origin).0;
    let facts = file_facts(trace, origin);
    let facts: Vec<(&str, String)> = facts
        .iter()
        .map(|(key, value)| (key.as_ref(), value.clone()))
        .collect();
    out.write_all(&format.begin(&facts, unix_ns)?)?;
    let summary = write_events(
        trace,
        path,
        None,
        FileTimes::since_origin(origin),
        format,
        out,
    )?;
    out.write_all(&format.end())?;
    Ok(summary)
}

/// Writes one rank of a file of several: its ranges, arrows, and the critical path of its own
/// graph.
///
/// # Errors
/// Errors of `out`; more tracks than a rank can have in a file with this number of ranks.
pub fn write_rank(
    trace: &LinkedTrace,
    path: &[CriticalStep],
    member: &TimelineRank<'_>,
    format: TimelineFormat,
    out: &mut impl Write,
) -> io::Result<TimelineSummary> {
    let times = FileTimes {
        clock: member.clock,
        base_ns: trace.device.header.base_ns,
        origin_ns: member.origin_ns,
    };
    write_events(trace, path, Some(member), times, format, out)
}

fn write_events(
    trace: &LinkedTrace,
    path: &[CriticalStep],
    member: Option<&TimelineRank<'_>>,
    times: FileTimes,
    format: TimelineFormat,
    out: &mut impl Write,
) -> io::Result<TimelineSummary> {
    match format {
        TimelineFormat::Json => {
            write_slices(trace, path, member, &mut json::JsonWriter::new(out, times))
        }
        TimelineFormat::Protobuf => write_slices(
            trace,
            path,
            member,
            &mut packets::PacketWriter::new(
                out,
                times,
                member.map_or(1, |member| member.place + 1),
            ),
        ),
    }
}

fn write_slices(
    trace: &LinkedTrace,
    path: &[CriticalStep],
    member: Option<&TimelineRank<'_>>,
    sink: &mut dyn TimelineSink,
) -> io::Result<TimelineSummary> {
    let slices = TraceSlices::new(trace, member.map_or(&[], |member| member.releases));
    // arrows between ranks come first
    let arrows = Arrows::new(
        &slices,
        // Arrows between ranks have 32-bit numbers; each rank numbers its edges above them.
        member.map_or(0, |member| u64::from(member.place + 1) << 32),
    );
    let mut tracks = TrackTable::new(&trace.device, member, sink)?;
    counters::write_counters(trace, &tracks, sink)?;
    let mut out = FactWriter::new(sink);
    write_path(trace, path, tracks.path, &mut out)?;
    let mut summary = TimelineSummary {
        slices: 0,
        arrows: arrows.count,
        steps: path.len() as u64,
    };
    let made = arrows.made_slices();
    // A transfer must be on the same track as the kernel around it, so the track is remembered.
    let mut wholes: BTreeMap<TraceSlice, Option<TrackId>> = made
        .iter()
        .filter_map(|slice| Some((slices.whole_slice(*slice)?, None)))
        .collect();
    for (slice, start, duration) in slices.in_order(made) {
        // on a stream, all other ranges stay side by side
        let inside = slices
            .whole_slice(slice)
            .filter(|whole| whole.device_row().is_some())
            .and_then(|whole| *wholes.get(&whole)?);
        let place = tracks.place_of(&slices, slice);
        let track = match inside {
            Some(track) => track,
            None => {
                let end = start + duration;
                tracks.track_for(place, start, end, &trace.device, out.sink)?
            }
        };
        if let Some(whole) = wholes.get_mut(&slice) {
            *whole = Some(track);
        }
        let (name, category) = describe::slice_name(&slices, slice);
        out.sink.begin_range(TrackRange {
            track,
            name,
            category,
            start,
            duration,
            is_instant: slices.is_instant(slice),
        })?;
        describe::write_facts(&slices, slice, &mut out)?;
        out.sink.end_range(arrows.ends_at(slice))?;
        summary.slices += 1;
    }
    out.sink.write_rest()?;
    Ok(summary)
}

/// Returns the file's metadata, and document keys around the recorded events.
fn file_facts(trace: &LinkedTrace, origin: TimeNs) -> Vec<(Cow<'static, str>, String)> {
    let (device, report) = (&trace.device, &trace.report);
    let facts = [
        (
            "written_by",
            Some(format!("etlink {}", env!("CARGO_PKG_VERSION"))),
        ),
        ("base_time_ns", Some(device.header.base_ns.0.to_string())),
        ("origin_ns", Some(origin.0.to_string())),
        ("rank", report.rank.map(|rank| rank.to_string())),
        ("world_size", report.world_size.map(|size| size.to_string())),
    ];
    let facts = facts.into_iter();
    let facts = facts.filter_map(|(key, value)| Some((Cow::Borrowed(key), value?)));
    let header = device.details.iter().flat_map(|details| &details.header);
    let header = header.map(|(key, value)| (Cow::Owned(format!("header_{key}")), value.clone()));
    facts.chain(header).collect()
}

/// Writes the critical path: each step, preceded by its delay.
fn write_path(
    trace: &LinkedTrace,
    path: &[CriticalStep],
    track: TrackId,
    out: &mut FactWriter<'_>,
) -> io::Result<()> {
    for step in path {
        let node = trace.nodes.get(step.node);
        let name = trace.name(&node);
        if step.delay.0 > 0 {
            // A step begins when its delay is over, so the delay ends at the start.
            let start = TimeNs(step.start.0.saturating_sub(step.delay.0));
            let why = format!("delay: {}", step.delay_cause);
            out.sink.begin_range(TrackRange {
                track,
                name: &why,
                category: "delay",
                start,
                duration: step.delay,
                is_instant: false,
            })?;
            out.add_text("cause", step.delay_cause)?;
            out.add_text("via", step.via)?;
            out.add_text("before", name)?;
            out.add_number("node", Some(step.node.0))?;
            out.sink.end_range(&[])?;
        }
        out.sink.begin_range(TrackRange {
            track,
            name,
            category: "step",
            start: step.start,
            duration: step.duration,
            is_instant: false,
        })?;
        out.add_text("cause", step.cause)?;
        out.add_text("via", step.via)?;
        out.add_number("node", Some(step.node.0))?;
        out.add_word("kind", Some(node.kind))?;
        out.add_text("name", name)?;
        out.add_text("resource", &resource_name(trace, &node))?;
        out.sink.end_range(&[])?;
    }
    Ok(())
}

fn resource_name(trace: &LinkedTrace, node: &etlink_link::Node) -> String {
    let device = &trace.device;
    if let Some(queue) = node.queue() {
        let queue = device.queues.get(queue.index());
        return queue.map_or(String::new(), |queue| {
            format!("stream {} of device {}", queue.stream, queue.device)
        });
    }
    let thread = node.thread().and_then(|at| device.threads.get(at.index()));
    thread.map_or(String::new(), |thread| {
        format!("thread {}", device.label(thread.tid))
    })
}
