//! A trace for Perfetto (ui.perfetto.dev, `trace_processor`), in Chrome's JSON.
//!
//! ```text
//! critical path   steps      |step |delay|step        |step |
//! python          thread 1   |aten::mm --------|              whole ops, calls in them
//!                             |launch|
//!                                  `---.                      an arrow per edge that is no order
//! device 0        stream 7             v|kernel ======|
//! ```
//! Ranges are written by start, the longer first, with their arrows. Perfetto drops a range that overlaps
//! another of its track without nesting: such go to a further track of their thread or stream, `… (2)`.
//! An arrow that ends inside a call, at the end of a wait, gets a range there, `goes on`.
//! Times are microseconds with three decimals, counted from the first event: 64-bit floats, which readers
//! use, cannot tell nanoseconds of Unix time. `otherData` has the origin. O(n log n) for n ranges and
//! arrows; the text is written block by block.

mod arrows;
mod describe;
mod events;
mod lanes;
mod slices;
mod tracks;

#[cfg(test)]
mod tests;

use arrows::Arrows;
pub use arrows::is_drawn;
use etlink_link::LinkedTrace;
use etlink_model::{DurationNs, TimeNs};
use events::{Events, Track};
use slices::{Slice, Slices};
use std::io::{self, Write};
use tracks::Tracks;

/// A node of the critical path. Steps follow each other: one's start is the last one's end and its delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The node.
    pub node: u32,
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
pub struct Summary {
    /// Ops, calls, rows, and nodes that are ranges for the sake of an arrow.
    pub slices: u64,
    /// Arrows.
    pub arrows: u64,
    /// Steps of the critical path, delays not counted.
    pub steps: u64,
}

/// Writes a trace and the critical path of its graph, uncompressed. The same input gives the same bytes.
///
/// # Errors
/// Those of `out`.
pub fn write(trace: &LinkedTrace, path: &[Step], out: &mut impl Write) -> io::Result<Summary> {
    let begins = path.first().map(|step| TimeNs(step.start.0.saturating_sub(step.delay.0)));
    let window = trace.device.window().map(|(start, _)| start);
    let origin = begins.into_iter().chain(window).min().unwrap_or_default();
    let mut events = Events::begin(out, origin, &about(trace, origin))?;
    let mut tracks = Tracks::new(&trace.device, &mut events)?;
    steps(trace, path, tracks.path, &mut events)?;
    let slices = Slices::new(trace);
    let arrows = Arrows::new(trace, &slices);
    let mut summary = Summary { slices: 0, arrows: arrows.count, steps: path.len() as u64 };
    for (slice, start, duration) in slices::in_order(trace, arrows.nodes()) {
        let track = tracks.of(place(trace, slice), start, start + duration, &mut events)?;
        let (name, category) = describe::name(trace, slice);
        let mut args = events.slice(track, name, category, start, duration)?;
        describe::args(trace, slice, slices.node(slice), &mut args)?;
        args.end();
        for mark in arrows.of(slice) {
            events.arrow(track, mark.begins, mark.id, mark.kind, mark.at)?;
        }
        summary.slices += 1;
    }
    events.finish()?;
    Ok(summary)
}

/// What the file says of itself.
fn about(trace: &LinkedTrace, origin: TimeNs) -> Vec<(&'static str, String)> {
    let header = &trace.device.header;
    let mut about = vec![("written_by", format!("etlink {}", env!("CARGO_PKG_VERSION")))];
    about.push(("base_time_ns", header.base_ns.to_string()));
    about.push(("origin_ns", origin.0.to_string()));
    about.extend(trace.report.rank.map(|rank| ("rank", rank.to_string())));
    about.extend(trace.report.world_size.map(|size| ("world_size", size.to_string())));
    about
}

/// The thread, or the queue after all threads, that a range is on.
fn place(trace: &LinkedTrace, slice: Slice) -> usize {
    let device = &trace.device;
    let queues = device.threads.len();
    match slice {
        Slice::Op(at) => device.ops.thread[at as usize].index(),
        Slice::Call(at) => device.calls.thread[at as usize].index(),
        Slice::Row(at) => queues + device.rows.queue[at as usize].index(),
        Slice::Node(node) => {
            let node = trace.nodes.get(node as usize);
            node.resource as usize + if node.on_device { queues } else { 0 }
        }
    }
}

/// The critical path: each step, and before it the time that it waited.
fn steps<W: Write>(trace: &LinkedTrace, path: &[Step], track: Track, out: &mut Events<'_, W>) -> io::Result<()> {
    for step in path {
        let node = trace.nodes.get(step.node as usize);
        let name = trace.name(&node);
        if step.delay.0 > 0 {
            let start = TimeNs(step.start.0.saturating_sub(step.delay.0));
            let mut args = out.slice(track, &format!("delay: {}", step.delay_cause), "delay", start, step.delay)?;
            args.text("cause", step.delay_cause)?;
            args.text("via", step.via)?;
            args.text("before", name)?;
            args.number("node", Some(step.node))?;
            args.end();
        }
        let mut args = out.slice(track, name, "step", step.start, step.duration)?;
        args.text("cause", step.cause)?;
        args.text("via", step.via)?;
        args.number("node", Some(step.node))?;
        args.number("kind", Some(node.kind))?;
        args.text("name", name)?;
        args.text("resource", &resource(trace, &node))?;
        args.end();
    }
    Ok(())
}

fn resource(trace: &LinkedTrace, node: &etlink_link::Node) -> String {
    let device = &trace.device;
    let (thread, queue) = (device.threads.get(node.resource as usize), device.queues.get(node.resource as usize));
    match (node.on_device, thread, queue) {
        (true, _, Some(queue)) => format!("stream {} of device {}", queue.stream, queue.device),
        (false, Some(thread), _) => format!("thread {}", device.label(thread.tid)),
        _ => String::new(),
    }
}
