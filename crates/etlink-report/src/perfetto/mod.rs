//! A trace for Perfetto (ui.perfetto.dev, `trace_processor`), in its own format or in Chrome's
//! JSON.
//!
//! ```text
//! critical path   steps      |step |delay|step        |step |
//! python          thread 1   |aten::mm --------|              whole ops, calls in them
//!                             |launch|
//!                                  `---.                      an arrow per edge that is no order
//! device 0        queue depth  __|~~~~~~~|_____________        and rows that run, bytes of copies
//!                 stream 7             v|kernel ======|
//! ```
//! One walk over the ranges feeds the writer of either format (`sink`).
//! Ranges are written by start, the longer first, with their arrows. Perfetto drops a range that
//! overlaps another of its track without nesting: such go to a further track of their thread or
//! stream, `… (2)`. An arrow that ends inside a call, at the end of a wait, gets a range there,
//! `goes on`. Times count from the first event: JSON's are microseconds with three decimals, in
//! 64-bit floats, which readers use and which cannot tell nanoseconds of Unix time. `otherData`
//! (`metadata` in Perfetto's format) has the origin. O(n log n) for n ranges and arrows; what is
//! written is handed on block by block.
//!
//! The ranks of a run are written one by one, in any order, and put together
//! ([`TimelineFormat::begin`], [`write_rank`], [`TimelineFormat::between`],
//! [`TimelineFormat::end`]): nothing that tells ranges, tracks or arrows apart is common to two of
//! them but the arrows between ranks:
//! ```text
//! rank 0 · device 0   |all-reduce ~~~~~~~~~~~|transfer ==|    waits for rank 1, which comes last
//!                                        .---^
//! rank 1 · device 0                     |all-reduce =====|
//! ```
//! Such an arrow ends 1 ns after it begins: of two ranges that begin at one instant Perfetto takes
//! the one that was written first to be where the arrow begins.

mod arrows;
mod counters;
mod describe;
mod json;
mod lanes;
mod packets;
mod sink;
mod slices;
mod tracks;

#[cfg(test)]
mod tests;

use arrows::Arrows;
pub use arrows::is_drawn;
use etlink_link::LinkedTrace;
use etlink_link::ranks::{RankClock, WaitCause};
use etlink_model::{CommonNs, DurationNs, NodeIdx, TimeNs};
use sink::{FactWriter, FileTimes, TimelineSink, TrackId, TrackRange};
use slices::{TraceSlice, TraceSlices};
use std::collections::BTreeMap;
use std::io::{self, Write};
use tracks::TrackTable;

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineFormat {
    /// Chrome's trace format.
    Json,
    /// Perfetto's own.
    Protobuf,
}

impl TimelineFormat {
    /// What stands before the first rank. `origin_ns` is the instant that is 0, since the Unix
    /// epoch; `about` what the file says of itself.
    ///
    /// # Errors
    /// None that a vector has.
    pub fn begin(self, about: &[(&str, String)], origin_ns: i64) -> io::Result<Vec<u8>> {
        match self {
            TimelineFormat::Json => json::file_head(about),
            TimelineFormat::Protobuf => Ok(packets::file_head(about, origin_ns)),
        }
    }

    /// What stands between two ranks.
    pub fn between(self) -> &'static [u8] {
        match self {
            TimelineFormat::Json => json::BETWEEN,
            TimelineFormat::Protobuf => &[],
        }
    }

    /// What stands after the last rank.
    pub fn end(self) -> &'static [u8] {
        match self {
            TimelineFormat::Json => json::END,
            TimelineFormat::Protobuf => &[],
        }
    }
}

/// Which of the ranks of a file a trace is.
#[derive(Clone, Copy, Debug)]
pub struct TimelineRank<'a> {
    /// Its place among them, from 0.
    pub place: u32,
    /// How many they are.
    pub of: u32,
    /// What names of its processes begin with, `rank 3`.
    pub name: &'a str,
    /// Its clock against that of the file.
    pub clock: RankClock,
    /// The instant that is 0 in the file, by the file's clock; nothing of the trace is earlier.
    pub origin_ns: CommonNs,
    /// What other ranks made it wait for, and it others.
    pub releases: &'a [WaitCause],
}

/// A node of the critical path. Steps follow each other: one's start is the last one's end and its
/// delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CriticalStep {
    /// The node.
    pub node: NodeIdx,
    /// When it starts in the run.
    pub start: TimeNs,
    /// How long it takes in the run.
    pub duration: DurationNs,
    /// From the end of the step before, or the beginning of the run, to its start.
    pub delay: DurationNs,
    /// What its duration is spent on.
    pub cause: &'static str,
    /// What its delay is spent on.
    pub delay_cause: &'static str,
    /// What it waited for.
    pub via: &'static str,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineSummary {
    /// Ops, calls, rows, and nodes that are ranges for the sake of an arrow.
    pub slices: u64,
    /// Arrows.
    pub arrows: u64,
    /// Steps of the critical path, delays not counted.
    pub steps: u64,
}

/// Writes the file of one trace, with the critical path of its graph, uncompressed. The same input
/// gives the same bytes.
///
/// # Errors
/// Those of `out`.
pub fn write_trace(
    trace: &LinkedTrace,
    path: &[CriticalStep],
    format: TimelineFormat,
    out: &mut impl Write,
) -> io::Result<TimelineSummary> {
    let begins = path
        .first()
        .map(|step| TimeNs(step.start.0.saturating_sub(step.delay.0)));
    let window = trace.device.window().map(|(start, _)| start);
    // The path can begin before all events, with a delay: no time may be negative in the file.
    let origin = begins.into_iter().chain(window).min().unwrap_or_default();
    let unix_ns = trace.device.header.unix_time(origin).0;
    out.write_all(&format.begin(&file_facts(trace, origin), unix_ns)?)?;
    let summary = write_events(
        trace,
        path,
        None,
        FileTimes::since_origin(origin),
        format,
        out,
    )?;
    out.write_all(format.end())?;
    Ok(summary)
}

/// Writes what a file of all ranks has of one: its ranges, arrows, and the critical path of its own
/// graph.
///
/// # Errors
/// Those of `out`; more tracks than a rank of so many can have.
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
    // those between ranks come first
    let arrows = Arrows::new(
        &slices,
        // Arrows between ranks have numbers of 32 bits, and each rank numbers its edges above.
        member.map_or(0, |member| u64::from(member.place + 1) << 32),
    );
    let mut tracks = TrackTable::new(&trace.device, member, sink)?;
    counters::write_counters(trace, &tracks.device_pids, sink)?;
    let mut out = FactWriter::new(sink);
    write_path(trace, path, tracks.path, &mut out)?;
    let mut summary = TimelineSummary {
        slices: 0,
        arrows: arrows.count,
        steps: path.len() as u64,
    };
    let made = arrows.made_slices();
    // A transfer lies inside its kernel and has to be
    // on the same track, so the track is remembered.
    let mut wholes: BTreeMap<TraceSlice, Option<TrackId>> = made
        .iter()
        .filter_map(|slice| Some((slices.whole_slice(*slice)?, None)))
        .collect();
    for (slice, start, duration) in slices.in_order(made) {
        // on a stream all but this go side by side
        let inside = slices
            .whole_slice(slice)
            .filter(|whole| whole.device_row().is_some())
            .and_then(|whole| *wholes.get(&whole)?);
        let track = inside.map_or_else(
            || {
                tracks.track_for(
                    slice_place(&slices, slice),
                    start,
                    start + duration,
                    out.sink,
                )
            },
            Ok,
        )?;
        if let Some(whole) = wholes.get_mut(&slice) {
            *whole = Some(track);
        }
        let (name, category) = describe::slice_name(trace, slice);
        out.sink.begin_range(TrackRange {
            track,
            name,
            category,
            start,
            duration,
        })?;
        describe::write_facts(&slices, slice, &mut out)?;
        out.sink.end_range(arrows.ends_at(slice))?;
        summary.slices += 1;
    }
    out.sink.write_rest()?;
    Ok(summary)
}

/// What the file says of itself.
fn file_facts(trace: &LinkedTrace, origin: TimeNs) -> Vec<(&'static str, String)> {
    let header = &trace.device.header;
    let mut about = vec![(
        "written_by",
        format!("etlink {}", env!("CARGO_PKG_VERSION")),
    )];
    about.push(("base_time_ns", header.base_ns.0.to_string()));
    about.push(("origin_ns", origin.0.to_string()));
    about.extend(trace.report.rank.map(|rank| ("rank", rank.to_string())));
    about.extend(
        trace
            .report
            .world_size
            .map(|size| ("world_size", size.to_string())),
    );
    about
}

/// The thread, or the queue after all threads, that a range is on.
fn slice_place(slices: &TraceSlices<'_>, slice: TraceSlice) -> usize {
    let (trace, device) = (slices.trace, &slices.trace.device);
    let queues = device.threads.len();
    match slice {
        TraceSlice::Op(at) => device.ops.thread[at as usize].index(),
        TraceSlice::Call(at) => device.calls.thread[at as usize].index(),
        TraceSlice::Row(at) => queues + device.rows.queue[at as usize].index(),
        TraceSlice::Node(node) => {
            let node = trace.nodes.get(node);
            // Nodes count threads and queues each from 0; places have the queues after all threads.
            node.track.index() + if node.on_device { queues } else { 0 }
        }
        TraceSlice::Transfer(_) => slices
            .whole_slice(slice)
            .map_or(0, |whole| slice_place(slices, whole)),
    }
}

/// The critical path: each step, and before it the time that it waited.
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
