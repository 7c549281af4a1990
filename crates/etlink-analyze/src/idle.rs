//! Where a device waits, and for what.
//!
//! A *gap* is time between a row's start and the latest end of those before it: of its stream, or,
//! for a device as a whole, of all its streams. Rows that stand for no work ([`RowClass::Other`])
//! neither fill nor end one. Time in which only work of no step runs, or work from before the
//! recording is waited for, is none either (`OutsideTime`). Each gap is cut, exactly, by what the
//! row that ends it was waiting for:
//!
//! ```text
//! gap            |-------------------------------------------------------|  row
//! host_late      |=========| until the call that launched the row began
//! launch_call              |=====| until that call ended, or the row began, where that took more
//!                                  than LAUNCH_LATENCY: the call loads a module, waits in itself,
//!                                  or finds the queue full
//! event_wait                     |=======| until the last row of another stream that it waited
//!                                  for ended, or the last wait that its own stream shows
//! unexplained                                              |==============| what no known cause
//!                                  explains (a node of the graph)
//! launch, between                        |=================| the rest: after a late call what
//!                                  launching took, else the time from row to row
//! ```
//! Sums: `idle = host_late + launch_call + event_wait + launch + between + unexplained`, ns; for a
//! device that is
//! the idle and exposed other time of its [`DeviceTime`](crate::DeviceTime) between its first and
//! last work. `busy` is the time in which at least one of its rows runs. The time before a stream's
//! first row and after its last is no gap, but where work of no step ran first: from then on the
//! steps had the stream.

mod gaps;
mod host;

pub use gaps::{HostIdle, IdleGap};

use crate::outside_time::{OutsideRows, OutsideTime, is_all_unknown};
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::limits::LAUNCH_LATENCY;
use etlink_link::{EdgeKind, LinkedTrace, NoLaunch, NodeKind};
use etlink_model::{NodeIdx, RowIdx, TableIdx, TimeNs};
use gaps::GapCollector;
use serde::Serialize;

/// The gaps of a device or of one of its streams, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleCauses {
    /// Device number; none of a sum.
    pub device: Option<i64>,
    /// Stream; none for the device as a whole.
    pub stream: Option<i64>,
    /// Work runs; with `idle_ns` and `outside_ns`, from the first such row's start to the last
    /// one's end.
    pub busy_ns: i64,
    /// Only work of no step runs, work from before the recording is waited for, or too many rows
    /// were lost to tell.
    pub outside_ns: i64,
    /// How many gaps.
    pub gaps: u64,
    /// Sum of all.
    pub idle_ns: i64,
    /// The host had not launched yet.
    pub host_late_ns: i64,
    /// Another stream had not got there yet.
    pub event_wait_ns: i64,
    /// The launching call itself blocked, for more than 100 us: it loads a module, waits in itself,
    /// or finds the queue full.
    pub launch_call_ns: i64,
    /// From a late call to the start, without what the call blocked.
    pub launch_ns: i64,
    /// From the row before, or the event waited for, to the start.
    pub between_ns: i64,
    /// Nothing explains it.
    pub unexplained_ns: i64,
    /// The longest gap.
    pub longest_ns: i64,
}

/// What a gap is cut into.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GapCause {
    /// See [`IdleCauses::host_late_ns`].
    #[default]
    HostLate,
    /// See [`IdleCauses::event_wait_ns`].
    EventWait,
    /// See [`IdleCauses::launch_call_ns`].
    LaunchCall,
    /// See [`IdleCauses::launch_ns`].
    Launch,
    /// See [`IdleCauses::between_ns`].
    Between,
    /// See [`IdleCauses::unexplained_ns`].
    Unexplained,
}

/// A gap and where it is cut, ns: ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GapParts {
    from: i64,
    /// The host is late until here.
    called: i64,
    /// The launching call blocks until here.
    returned: i64,
    /// Another stream is waited for until here.
    event: i64,
    /// Nothing explains what is behind.
    explained: i64,
    to: i64,
}

impl GapParts {
    /// The part between the event and what nothing explains: after a late call it is what
    /// launching took. Else the device had the row already.
    fn rest(&self) -> GapCause {
        if self.returned > self.from && self.event == self.returned {
            GapCause::Launch
        } else {
            GapCause::Between
        }
    }

    fn lengths(&self) -> [(GapCause, i64); 5] {
        let blocked_ns = self.returned.saturating_sub(self.called);
        [
            (GapCause::HostLate, self.called.saturating_sub(self.from)),
            (GapCause::LaunchCall, blocked_ns),
            (
                GapCause::EventWait,
                self.event.saturating_sub(self.returned),
            ),
            (self.rest(), self.explained.saturating_sub(self.event)),
            (
                GapCause::Unexplained,
                self.to.saturating_sub(self.explained),
            ),
        ]
    }

    /// The longest part; of equal ones the first.
    fn largest(&self) -> (GapCause, i64) {
        let lengths = self.lengths().into_iter().rev();
        lengths.max_by_key(|(_, ns)| *ns).unwrap_or_default()
    }
}

impl IdleCauses {
    fn add_gap(&mut self, parts: &GapParts) {
        self.gaps += 1;
        let length = parts.to.saturating_sub(parts.from);
        self.longest_ns = self.longest_ns.max(length);
        self.idle_ns = self.idle_ns.saturating_add(length);
        for (cause, ns) in parts.lengths() {
            let sum = match cause {
                GapCause::HostLate => &mut self.host_late_ns,
                GapCause::EventWait => &mut self.event_wait_ns,
                GapCause::LaunchCall => &mut self.launch_call_ns,
                GapCause::Launch => &mut self.launch_ns,
                GapCause::Between => &mut self.between_ns,
                GapCause::Unexplained => &mut self.unexplained_ns,
            };
            *sum = sum.saturating_add(ns);
        }
    }

    fn add(&mut self, other: &IdleCauses) {
        self.gaps += other.gaps;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        for (to, from) in [
            (&mut self.busy_ns, other.busy_ns),
            (&mut self.outside_ns, other.outside_ns),
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.host_late_ns, other.host_late_ns),
            (&mut self.event_wait_ns, other.event_wait_ns),
            (&mut self.launch_call_ns, other.launch_call_ns),
            (&mut self.launch_ns, other.launch_ns),
            (&mut self.between_ns, other.between_ns),
            (&mut self.unexplained_ns, other.unexplained_ns),
        ] {
            *to = to.saturating_add(from);
        }
    }
}

/// Why rows began when they did, by the graph.
struct GapCauses<'t> {
    trace: &'t LinkedTrace,
    /// Per row, the node that its causes lead to: the unexplained wait before it, else its own.
    node: Vec<NodeIdx>,
    /// Whether it is the first of its stream and waits for what no row shows.
    waits_first: Vec<bool>,
}

impl GapCauses<'_> {
    fn from_graph(trace: &LinkedTrace) -> GapCauses<'_> {
        let nodes = &trace.nodes;
        let mut first_node = vec![NodeIdx::NONE; trace.device.rows.len()];
        let mut waits_first = vec![false; trace.device.rows.len()];
        for node in nodes.indices() {
            let index = node.index();
            if !nodes.on_device[index] {
                continue;
            }
            // what came before the recording explains nothing
            if nodes.kind[index] == NodeKind::Boundary {
                if let Some(waits) = waits_first.get_mut(nodes.source[index] as usize) {
                    *waits = true;
                }
                continue;
            }
            // the wait before a row has a lower number than the row's own node
            if let Some(slot) = first_node.get_mut(nodes.source[index] as usize)
                && *slot == NodeIdx::NONE
            {
                *slot = node;
            }
        }
        GapCauses {
            trace,
            node: first_node,
            waits_first,
        }
    }

    /// Cuts the gap before `row` by its causes. `waited`: until when its stream showed a wait.
    fn cut(&self, row: usize, waited: Option<i64>, (from, to): (i64, i64)) -> GapParts {
        // The causes are laid end to end and each is kept inside the gap, so that the sums are
        // exact.
        let call = self.launch_call(row);
        let called = call.map_or(from, |(start, _)| start).clamp(from, to);
        // A call that takes this long does more than to launch.
        let blocks =
            call.filter(|(start, end)| to.min(*end).saturating_sub(*start) > LAUNCH_LATENCY.0);
        let returned = blocks.map_or(called, |(_, end)| end).clamp(called, to);
        // An event that came before the call did not delay the row: `clamp` makes its part empty.
        let event = self.event_wait_end(row).max(waited).unwrap_or(returned);
        let event = event.clamp(returned, to);
        // Counted from the row, not from the gap: the row's last gap alone ends with it.
        let start = self.trace.device.rows.start[row].0;
        let explained = start.saturating_sub(self.unexplained_ns(row));
        let explained = if self.waits_first[row] && to - event > LAUNCH_LATENCY.0 {
            event
        } else {
            explained.clamp(event, to)
        };
        GapParts {
            from,
            called,
            returned,
            event,
            explained,
            to,
        }
    }

    /// When the call that launched the row began and ended, ns by the clock of the row's device.
    fn launch_call(&self, row: usize) -> Option<(i64, i64)> {
        // A row that starts before its call shows clocks
        // that disagree; the call explains nothing then.
        let launched = self.trace.row_no_launch[row] == NoLaunch::Launched;
        if !launched {
            return None;
        }
        let call = self.trace.row_call[row].get()?;
        let calls = &self.trace.device.calls;
        let start = calls.start[call.index()];
        let end = start + calls.duration[call.index()];
        let [start, end] = [start, end].map(|time| self.by_device(row, time));
        Some((start, end))
    }

    /// When the last row of another stream that it waited for ended, ns by the clock of the row's
    /// device.
    fn event_wait_end(&self, row: usize) -> Option<i64> {
        let nodes = &self.trace.nodes;
        let node = self.node[row].get()?;
        let edges = self.trace.edges.deps(node);
        let waits = edges.iter().filter(|edge| edge.kind == EdgeKind::EventWait);
        let end = waits.map(|edge| nodes.end(edge.from)).max()?;
        Some(self.by_device(row, end))
    }

    /// Calls and nodes are by the host's clock, gaps between rows by that of their device.
    fn by_device(&self, row: usize, time: TimeNs) -> i64 {
        self.trace.device_time(RowIdx::from_index(row), time).0
    }

    /// How long before the row no known cause holds it up.
    fn unexplained_ns(&self, row: usize) -> i64 {
        let nodes = &self.trace.nodes;
        let node = self.node[row].index();
        match nodes.kind.get(node) {
            Some(NodeKind::UnexplainedWait) => nodes.duration[node].0,
            _ => 0,
        }
    }
}

/// The gaps of a device or stream so far, and until when it is busy: none before its first row.
#[derive(Clone, Default)]
struct BusyUntil {
    idle: IdleCauses,
    until: Option<i64>,
    /// The row that ended then.
    last_row: Option<usize>,
}

impl BusyUntil {
    /// A row that works. Rows come in the order of their starts. The gaps before it: several where
    /// work of no step runs between them.
    fn add_row(
        &mut self,
        causes: &GapCauses<'_>,
        row: usize,
        waited: Option<i64>,
        (start, end): (i64, i64),
        outside: &OutsideTime,
    ) -> Vec<GapParts> {
        let begin = || outside.begin.map_or(start, |begin| begin.min(start));
        let busy_until = self.until.unwrap_or_else(begin);
        let mut gaps = vec![];
        if busy_until < start {
            let mut outside_ns = start.saturating_sub(busy_until);
            for gap in outside.intervals.gaps_within((busy_until, start)) {
                let parts = causes.cut(row, waited, gap);
                self.idle.add_gap(&parts);
                gaps.push(parts);
                outside_ns = outside_ns.saturating_sub(gap.1.saturating_sub(gap.0));
            }
            self.idle.outside_ns = self.idle.outside_ns.saturating_add(outside_ns);
        }
        // what runs beside other rows counts once
        let new = end.saturating_sub(busy_until.max(start));
        self.idle.busy_ns = self.idle.busy_ns.saturating_add(new.max(0));
        if self.until.is_none_or(|until| end > until) {
            (self.until, self.last_row) = (Some(end), Some(row));
        }
        gaps
    }

    /// A row of no step: where it ends a gap may begin.
    fn add_outside_row(&mut self, row: usize, end: i64) {
        if self.until.is_none_or(|until| end > until) {
            self.last_row = Some(row);
        }
    }
}

/// Idle time of a trace's devices and streams.
#[derive(Debug, Default)]
pub(crate) struct IdleTables {
    pub(crate) devices: Vec<IdleCauses>,
    pub(crate) streams: Vec<IdleCauses>,
    pub(crate) gaps: Vec<IdleGap>,
    pub(crate) hosts: Vec<HostIdle>,
}

/// Per device with rows, then per stream. O(nodes + ops + rows · log
/// rows).
pub(crate) fn idle_causes(rows: &ClassifiedRows<'_>, outside: &OutsideRows) -> IdleTables {
    // The gaps between rows that are left would be idle time that nobody has seen.
    if is_all_unknown(rows.trace) {
        return IdleTables::default();
    }
    let causes = GapCauses::from_graph(rows.trace);
    let queues = &rows.trace.device.queues;
    let mut devices = vec![BusyUntil::default(); rows.devices.len()];
    for (busy, device) in devices.iter_mut().zip(&rows.devices) {
        busy.idle.device = Some(*device);
    }
    let mut streams = vec![BusyUntil::default(); queues.len()];
    for (busy, queue) in streams.iter_mut().zip(queues) {
        busy.idle.device = Some(queue.device);
        busy.idle.stream = Some(queue.stream);
    }
    let outside_devices = outside.outside_times(rows, devices.len(), |row| rows.device_place(row));
    let outside_streams = outside.outside_times(rows, queues.len(), |row| {
        rows.trace.device.rows.queue[row].index()
    });
    let mut gaps = GapCollector::new(rows);
    // Rows such as `Stream Wait Event` do no work, but their end is when the stream could go on.
    let mut waited: Vec<Option<i64>> = vec![None; queues.len()];
    for row in 0..rows.len() {
        let span = rows.span(row);
        let device = rows.device_place(row);
        let queue = rows.trace.device.rows.queue[row].index();
        if rows.class[row] == RowClass::Other {
            if rows.is_wait(row) {
                waited[queue] = waited[queue].max(Some(span.1));
            }
            continue;
        }
        if outside.contains_row(row) {
            devices[device].add_outside_row(row, span.1);
            continue;
        }
        // A wait that ends after the row began was of something else.
        let waited = waited[queue].filter(|until| *until <= span.0);
        let before = devices[device].last_row;
        let outside = &outside_devices[device];
        for parts in devices[device].add_row(&causes, row, waited, span, outside) {
            gaps.add(device, parts, before, row);
        }
        let outside = &outside_streams[queue];
        streams[queue].add_row(&causes, row, waited, span, outside);
    }
    let with_rows = streams.into_iter().filter(|busy| busy.until.is_some());
    let mut streams: Vec<IdleCauses> = with_rows.map(|busy| busy.idle).collect();
    streams.sort_by_key(|idle| (idle.device, idle.stream));
    let (gaps, hosts) = gaps.finish();
    IdleTables {
        devices: devices.into_iter().map(|busy| busy.idle).collect(),
        streams,
        gaps,
        hosts,
    }
}

/// Sum over all of them.
pub(crate) fn sum_idle<'a>(all: impl Iterator<Item = &'a IdleCauses>) -> IdleCauses {
    let mut sum = IdleCauses::default();
    all.for_each(|one| sum.add(one));
    sum
}
