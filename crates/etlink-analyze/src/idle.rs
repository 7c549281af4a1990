//! Where a device waits, and for what.
//!
//! A *gap* is time between a row's start and the latest end of those before it: of its stream, or, for a device as a whole,
//! of all its streams. Rows that stand for no work ([`Class::Other`]) neither fill nor end one. Each gap is cut, exactly, by what the row that ends it was waiting for:
//!
//! ```text
//! gap            |-------------------------------------------------|  row
//! host_late      |=========| until the call that launched the row began
//! event_wait               |=======| until the last row of another stream that it waited for ended, or the last wait that its own stream shows
//! unexplained                                        |==============| what no known cause explains (a node of the graph)
//! launch, between                  |=================| the rest: after a late call what launching took, else the time from row to row
//! ```
//! Sums: `idle = host_late + event_wait + launch + between + unexplained`, ns; for a device that is the idle
//! and exposed other time of its [`DeviceTime`](crate::DeviceTime) between its first and last work. `busy` is the time in which at least one of its rows runs. The time before a stream's first row and after its last is no gap.

use crate::rows::Rows;
use crate::rules::Class;
use etlink_link::{EdgeKind, LinkedTrace, NoLaunch, NodeKind};
use serde::Serialize;

/// The gaps of a device or of one of its streams, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Idle {
    /// Device number; none of a sum.
    pub device: Option<i64>,
    /// Stream; none for the device as a whole.
    pub stream: Option<i64>,
    /// Work runs; with `idle_ns`, from the first such row's start to the last one's end.
    pub busy_ns: i64,
    /// How many gaps.
    pub gaps: u64,
    /// Sum of all.
    pub idle_ns: i64,
    /// The host had not launched yet.
    pub host_late_ns: i64,
    /// Another stream had not got there yet.
    pub event_wait_ns: i64,
    /// From a late call to the start.
    pub launch_ns: i64,
    /// From the row before, or the event waited for, to the start.
    pub between_ns: i64,
    /// Nothing explains it.
    pub unexplained_ns: i64,
    /// The longest gap.
    pub longest_ns: i64,
}

impl Idle {
    /// `waited`: until when its stream showed a wait.
    fn add_gap(
        &mut self,
        causes: &Causes<'_>,
        row: usize,
        waited: Option<i64>,
        (from, to): (i64, i64),
    ) {
        let called = causes
            .called(row)
            .map_or(from, |called| called.clamp(from, to));
        let event = causes
            .event(row)
            .max(waited)
            .map_or(called, |event| event.clamp(called, to));
        let rest = to.saturating_sub(causes.unexplained(row)).max(event);
        let last = if called > from && event == called {
            &mut self.launch_ns
        } else {
            &mut self.between_ns
        };
        *last = last.saturating_add(rest.saturating_sub(event));
        self.gaps += 1;
        self.longest_ns = self.longest_ns.max(to.saturating_sub(from));
        for (sum, start, end) in [
            (&mut self.idle_ns, from, to),
            (&mut self.host_late_ns, from, called),
            (&mut self.event_wait_ns, called, event),
            (&mut self.unexplained_ns, rest, to),
        ] {
            *sum = sum.saturating_add(end.saturating_sub(start));
        }
    }

    fn add(&mut self, other: &Idle) {
        self.gaps += other.gaps;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        for (to, from) in [
            (&mut self.busy_ns, other.busy_ns),
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.host_late_ns, other.host_late_ns),
            (&mut self.event_wait_ns, other.event_wait_ns),
            (&mut self.launch_ns, other.launch_ns),
            (&mut self.between_ns, other.between_ns),
            (&mut self.unexplained_ns, other.unexplained_ns),
        ] {
            *to = to.saturating_add(from);
        }
    }
}

/// What the graph knows of why rows began when they did.
struct Causes<'t> {
    trace: &'t LinkedTrace,
    /// Per row, the node that its causes lead to: the unexplained wait before it, else its own.
    node: Vec<u32>,
}

impl Causes<'_> {
    fn of(trace: &LinkedTrace) -> Causes<'_> {
        let nodes = &trace.nodes;
        let mut node = vec![u32::MAX; trace.device.rows.len()];
        // the wait before a row has a lower number; what came before the recording explains nothing
        for at in (0..nodes.len())
            .filter(|at| nodes.on_device[*at] && nodes.kind[*at] != NodeKind::Boundary)
        {
            if let Some(slot) = node
                .get_mut(nodes.source[at] as usize)
                .filter(|slot| **slot == u32::MAX)
            {
                *slot = at as u32;
            }
        }
        Causes { trace, node }
    }

    fn called(&self, row: usize) -> Option<i64> {
        let call = self.trace.row_call[row]
            .get()
            .filter(|_| self.trace.row_no_launch[row] == NoLaunch::Launched)?;
        Some(self.trace.device.calls.start[call.index()].0)
    }

    /// When the last row of another stream that it waited for ended.
    fn event(&self, row: usize) -> Option<i64> {
        let node = usize::try_from(self.node[row])
            .ok()
            .filter(|node| *node < self.trace.nodes.len())?;
        let nodes = &self.trace.nodes;
        let waits = self
            .trace
            .edges
            .deps(node)
            .iter()
            .filter(|edge| edge.kind == EdgeKind::EventWait);
        waits
            .map(|edge| (nodes.start[edge.from as usize] + nodes.duration[edge.from as usize]).0)
            .max()
    }

    fn unexplained(&self, row: usize) -> i64 {
        let nodes = &self.trace.nodes;
        match nodes.kind.get(self.node[row] as usize) {
            Some(NodeKind::UnexplainedWait) => nodes.duration[self.node[row] as usize].0,
            _ => 0,
        }
    }
}

/// Per device with rows, then per stream. O(nodes + rows · log).
pub(crate) fn idle(rows: &Rows<'_>) -> (Vec<Idle>, Vec<Idle>) {
    let causes = Causes::of(rows.trace);
    let queues = &rows.trace.device.queues;
    let mut devices: Vec<(Idle, Option<i64>)> = rows
        .devices
        .iter()
        .map(|device| {
            (
                Idle {
                    device: Some(*device),
                    ..Idle::default()
                },
                None,
            )
        })
        .collect();
    let of_queue = |queue: &etlink_model::DeviceQueue| Idle {
        device: Some(queue.device),
        stream: Some(queue.stream),
        ..Idle::default()
    };
    let mut streams: Vec<(Idle, Option<i64>)> =
        queues.iter().map(|queue| (of_queue(queue), None)).collect();
    let mut waited: Vec<Option<i64>> = vec![None; queues.len()];
    for row in 0..rows.len() {
        let (start, end) = rows.span(row);
        let device = rows
            .devices
            .partition_point(|device| *device < rows.device(row));
        let queue = rows.trace.device.rows.queue[row].index();
        if rows.class[row] == Class::Other {
            waited[queue] = waited[queue].max(rows.is_wait(row).then_some(end));
            continue;
        }
        for (idle, busy_until) in [devices.get_mut(device), streams.get_mut(queue)]
            .into_iter()
            .flatten()
        {
            if let Some(from) = busy_until.filter(|from| *from < start) {
                idle.add_gap(
                    &causes,
                    row,
                    waited[queue].filter(|until| *until <= start),
                    (from, start),
                );
            }
            let new = end.saturating_sub(busy_until.map_or(start, |until| until.max(start)));
            idle.busy_ns = idle.busy_ns.saturating_add(new.max(0));
            *busy_until = Some(busy_until.map_or(end, |until| until.max(end)));
        }
    }
    let mut streams: Vec<Idle> = streams
        .into_iter()
        .filter(|(_, until)| until.is_some())
        .map(|(idle, _)| idle)
        .collect();
    streams.sort_by_key(|idle| (idle.device, idle.stream));
    (devices.into_iter().map(|(idle, _)| idle).collect(), streams)
}

/// Sum over all of them.
pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a Idle>) -> Idle {
    let mut sum = Idle::default();
    all.for_each(|one| sum.add(one));
    sum
}
