//! Idle time of devices, by cause.
//!
//! A *gap* is the time between a row's start and the latest end of the rows before it, on its
//! stream or, for a whole device, on all its streams. Rows that are no work ([`RowClass::Other`])
//! neither fill nor end a gap. Time in which only work outside the steps runs, or work from before
//! the recording is awaited, is no gap either (`OutsideTime`). Each gap is divided, exactly, by
//! what the row at its end was waiting for:
//!
//! ```text
//! gap            |-------------------------------------------------------|  row
//! host_late      |=========| until the call that launched the row began
//! launch_call              |=====| until that call ended, or the row began, if that took more
//!                                  than LAUNCH_LATENCY: the call loads a module, waits inside,
//!                                  or finds the queue full
//! event_wait                     |=======| until the end of the last row of another stream that
//!                                  it waited for, or of the last wait that its own stream shows
//! unexplained                                              |==============| time without a
//!                                  known cause (a node of the graph)
//! launch, between                        |=================| the rest: the launch after a
//!                                  late call, else the time from row to row
//! ```
//! Sums, in ns: `idle = host_late + launch_call + event_wait + launch + between + unexplained`. For
//! a device, this is the idle and exposed other time of its [`DeviceTime`](crate::DeviceTime); after
//! its last work, the host is late. `busy` is the time in which at least one of its rows runs. The
//! time before a stream's first row and after its last row is no gap, unless work outside the steps
//! ran first: from its end on, the stream was available to the steps.

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
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Gaps of a device or of one of its streams, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleCauses {
    /// Device number; `None` for sums.
    pub device: Option<i64>,
    /// Stream; `None` for the whole device.
    pub stream: Option<i64>,
    /// Time in which work runs. Together with `idle_ns` and `outside_ns`, it covers the window of
    /// the device, or the time from the first such row's start to the last one's end on a stream.
    pub busy_ns: i64,
    /// Time in which only work outside the steps runs, work from before the recording is awaited,
    /// or the state is unknown because too many rows were lost.
    pub outside_ns: i64,
    /// Number of gaps.
    pub gaps: u64,
    /// Length of all gaps.
    pub idle_ns: i64,
    /// Time in which the host had not yet launched the next row.
    pub host_late_ns: i64,
    /// Time in which another stream had not yet reached the awaited event.
    pub event_wait_ns: i64,
    /// Time in which the launching call itself blocked for more than 100 us: it loads a module,
    /// waits inside, or finds the queue full.
    pub launch_call_ns: i64,
    /// Time from a late call to the start, without the time the call blocked.
    pub launch_ns: i64,
    /// Time from the previous row, or from the awaited event, to the start.
    pub between_ns: i64,
    /// Time without any known cause.
    pub unexplained_ns: i64,
    /// Length of the longest gap.
    pub longest_ns: i64,
}

/// Cause of a part of a gap.
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

/// A gap with the times that divide it, ns, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GapParts {
    from: i64,
    /// End of the part in which the host is late.
    called: i64,
    /// End of the part in which the launching call blocks.
    returned: i64,
    /// End of the wait for another stream.
    event: i64,
    /// Start of the unexplained part.
    explained: i64,
    to: i64,
}

impl GapParts {
    /// Returns a gap without a row after it: until `waited`, a stream waits for an event; then the
    /// host launches nothing.
    fn without_next_row((from, to): (i64, i64), waited: Option<i64>) -> Vec<GapParts> {
        let waited = waited.unwrap_or(from).clamp(from, to);
        let wait = GapParts {
            from,
            called: from,
            returned: from,
            event: waited,
            explained: waited,
            to: waited,
        };
        let late = GapParts {
            from: waited,
            called: to,
            returned: to,
            event: to,
            explained: to,
            to,
        };
        let parts = [wait, late].into_iter();
        parts.filter(|parts| parts.from < parts.to).collect()
    }

    /// Cause of the part between the event and the unexplained time: launching, if the call was
    /// late. Otherwise the device already had the row.
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

    /// Returns the longest part; the first one of equals.
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

/// Causes of the rows' start times, from the graph.
struct GapCauses<'t> {
    trace: &'t LinkedTrace,
    /// Node that leads to a row's causes: the unexplained wait before it, else its own node.
    node: Vec<NodeIdx>,
    /// True if the row is the first of its stream and waits for something that no row shows.
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
            // a boundary to the time before the recording explains nothing
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

    /// Divides the gap before `row` by cause. `waited` is the time until which the row's stream
    /// showed a wait.
    fn cut(&self, row: usize, waited: Option<i64>, (from, to): (i64, i64)) -> GapParts {
        // The causes are placed end to end and clamped to the gap, so the sums are exact.
        let call = self.launch_call(row);
        let called = call.map_or(from, |(start, _)| start).clamp(from, to);
        // A call that takes this long does more than launch.
        let blocks =
            call.filter(|(start, end)| to.min(*end).saturating_sub(*start) > LAUNCH_LATENCY.0);
        let returned = blocks.map_or(called, |(_, end)| end).clamp(called, to);
        // An event that came before the call did not delay the row: `clamp` makes its part empty.
        let event = self.event_wait_end(row).max(waited).unwrap_or(returned);
        let event = event.clamp(returned, to);
        // Measured from the row, not from the gap: only the row's last gap ends at the row.
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

    /// Start and end of the call that launched the row, ns by the clock of the row's device.
    fn launch_call(&self, row: usize) -> Option<(i64, i64)> {
        // A row that starts before its call shows that the clocks disagree; the call then explains
        // nothing.
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

    /// End of the last row of another stream that this row waited for, ns by the clock of the row's
    /// device.
    fn event_wait_end(&self, row: usize) -> Option<i64> {
        let nodes = &self.trace.nodes;
        let node = self.node[row].get()?;
        let edges = self.trace.edges.deps(node);
        let waits = edges.iter().filter(|edge| edge.kind == EdgeKind::EventWait);
        let end = waits.map(|edge| nodes.end(edge.from)).max()?;
        Some(self.by_device(row, end))
    }

    /// Converts a time of a call or node from the host's clock to the clock of the row's device.
    fn by_device(&self, row: usize, time: TimeNs) -> i64 {
        self.trace.device_time(RowIdx::from_index(row), time).0
    }

    /// Time before the row in which no known cause delays it, ns.
    fn unexplained_ns(&self, row: usize) -> i64 {
        let nodes = &self.trace.nodes;
        let node = self.node[row].index();
        match nodes.kind.get(node) {
            Some(NodeKind::UnexplainedWait) => nodes.duration[node].0,
            _ => 0,
        }
    }
}

/// Gaps of a device or stream so far, and the end of its busy time: `None` before its first row.
#[derive(Clone, Default)]
struct BusyUntil {
    idle: IdleCauses,
    /// Start and end of the device's window; `None` for a stream.
    window: Option<(i64, i64)>,
    until: Option<i64>,
    /// Row that ended at `until`.
    last_row: Option<usize>,
}

impl BusyUntil {
    /// Adds a row that works; rows come sorted by start. Returns the gaps before it: several if
    /// work outside the steps runs between them.
    fn add_row(
        &mut self,
        causes: &GapCauses<'_>,
        row: usize,
        waited: Option<i64>,
        (start, end): (i64, i64),
        outside: &OutsideTime,
    ) -> Vec<GapParts> {
        let (from, until) = self.window.unwrap_or((start, end));
        let (start, end) = (start.clamp(from, until), end.clamp(from, until));
        let window_start = outside.begin.unwrap_or(from);
        let busy_until = self.until.unwrap_or(window_start.min(start));
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
        // work that runs next to other rows counts once
        let new = end.saturating_sub(busy_until.max(start));
        self.idle.busy_ns = self.idle.busy_ns.saturating_add(new.max(0));
        if self.until.is_none_or(|until| end > until) {
            (self.until, self.last_row) = (Some(end), Some(row));
        }
        gaps
    }

    /// Adds the gaps between the last row and the end of the device's window, and returns them. A
    /// stream showed a wait until `waited`.
    fn add_tail(&mut self, waited: Option<i64>, outside: &OutsideTime) -> Vec<GapParts> {
        let Some((from, (_, window_end))) = self.until.zip(self.window) else {
            return vec![];
        };
        if from >= window_end {
            return vec![];
        }
        let spans = outside.intervals.gaps_within((from, window_end));
        let gaps: Vec<GapParts> = spans
            .into_iter()
            .flat_map(|gap| GapParts::without_next_row(gap, waited))
            .collect();
        gaps.iter().for_each(|parts| self.idle.add_gap(parts));
        let idle_ns: i64 = gaps.iter().map(|parts| parts.to - parts.from).sum();
        let outside_ns = window_end.saturating_sub(from).saturating_sub(idle_ns);
        self.idle.outside_ns = self.idle.outside_ns.saturating_add(outside_ns);
        gaps
    }

    /// Adds a row outside the steps, at whose end a gap may begin.
    fn add_outside_row(&mut self, row: usize, end: i64) {
        if self.until.is_none_or(|until| end > until) {
            self.last_row = Some(row);
        }
    }
}

/// Idle time of the devices and streams of a trace.
#[derive(Debug, Default)]
pub(crate) struct IdleTables {
    pub(crate) devices: Vec<IdleCauses>,
    pub(crate) streams: Vec<IdleCauses>,
    pub(crate) gaps: Vec<IdleGap>,
    pub(crate) hosts: Vec<HostIdle>,
}

/// Computes the idle time per device with rows, up to the end of its window in `windows`, then per
/// stream. O(nodes + ops + rows · log rows).
pub(crate) fn idle_causes(
    rows: &ClassifiedRows<'_>,
    outside: &OutsideRows,
    windows: &FxHashMap<i64, (i64, i64)>,
) -> IdleTables {
    // Gaps between the remaining rows would be idle time that nobody observed.
    if is_all_unknown(rows.trace) {
        return IdleTables::default();
    }
    let causes = GapCauses::from_graph(rows.trace);
    let queues = &rows.trace.device.queues;
    let mut devices = vec![BusyUntil::default(); rows.devices.len()];
    for (busy, device) in devices.iter_mut().zip(&rows.devices) {
        busy.idle.device = Some(*device);
        busy.window = windows.get(device).copied();
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
    // Rows such as `Stream Wait Event` do no work, but their end shows when the stream could
    // continue.
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
        // A wait that ends after the row began was for something else.
        let waited = waited[queue].filter(|until| *until <= span.0);
        let before = devices[device].last_row;
        let outside = &outside_devices[device];
        for parts in devices[device].add_row(&causes, row, waited, span, outside) {
            gaps.add(device, parts, before, Some(row));
        }
        let outside = &outside_streams[queue];
        streams[queue].add_row(&causes, row, waited, span, outside);
    }
    for (place, device) in rows.devices.iter().enumerate() {
        let before = devices[place].last_row;
        let of_device = queues.iter().zip(&waited);
        let waited = of_device.filter(|(queue, _)| queue.device == *device);
        let waited = waited.filter_map(|(_, waited)| *waited).max();
        for parts in devices[place].add_tail(waited, &outside_devices[place]) {
            gaps.add(place, parts, before, None);
        }
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

/// Sums the idle time of devices or ranks.
pub(crate) fn sum_idle<'a>(all: impl Iterator<Item = &'a IdleCauses>) -> IdleCauses {
    let mut sum = IdleCauses::default();
    all.for_each(|one| sum.add(one));
    sum
}
