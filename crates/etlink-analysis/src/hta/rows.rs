//! Selects rows, steps and times as HTA loads them.

use super::HtaOptions;
use etlink_link::LinkedTrace;
use etlink_model::{AuxiliaryKind, Correlation, DeviceTrace, DurationNs, NameId, QueueIdx, TimeNs};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// HTA's classes of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum HtaClass {
    Computation,
    Communication,
    Memory,
    Other,
}

impl HtaClass {
    pub(super) fn name(self) -> &'static str {
        match self {
            HtaClass::Computation => "COMPUTATION",
            HtaClass::Communication => "COMMUNICATION",
            HtaClass::Memory => "MEMORY",
            HtaClass::Other => "OTHER",
        }
    }
}

/// Returns HTA's class of a name, by its patterns, which match from the start of the name on.
fn classify(name: &str) -> HtaClass {
    // HTA's `.*` does not go beyond a line.
    let line = name.split('\n').next().unwrap_or(name);
    let starts = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
    let others = [
        "nccl",
        "Stream Wait Event",
        "runFunction",
        "hip",
        "job_exe",
        "packet",
        "pe_exe",
        "cpum_exe_subgraph",
        "hccl",
        "collective_subgraph_execution",
    ];
    match () {
        // The order matters: `hipMemcpy` is communication.
        () if starts(&["nccl", "hip", "hccl"]) || has(&["ncclKernel"]) => HtaClass::Communication,
        () if starts(&["Memcpy", "Memset", "dma"]) => HtaClass::Memory,
        () if starts(&others) || has(&["Memcpy", "Memset", "dma", "Sync"]) => HtaClass::Other,
        () if starts(&["cuda"]) && has(&["LaunchKernel"]) => HtaClass::Other,
        () => HtaClass::Computation,
    }
}

/// Kinds of events that HTA takes for device rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HtaRowKind {
    /// A kernel, copy or memset.
    Work,
    /// A `cuda_sync` event.
    Wait,
    /// A CPU op with a stream.
    Op,
}

/// A device row; times are in units of [`HtaTrace::unit_us`].
#[derive(Clone, Copy, Debug)]
pub(super) struct HtaRow {
    pub(super) name: NameId,
    pub(super) class: HtaClass,
    /// HTA's `pid`.
    pub(super) device: i64,
    pub(super) stream: i64,
    pub(super) start: i64,
    pub(super) end: i64,
    /// Row of the call with the same correlation, in the trace's table of calls; `None` if there is
    /// none.
    pub(super) call: Option<usize>,
    pub(super) correlation: Correlation,
    pub(super) kind: HtaRowKind,
    /// True for the file's first event, whose number HTA takes for "none".
    pub(super) first: bool,
    pub(super) gb_per_s: f64,
}

impl HtaRow {
    pub(super) fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// A trace after HTA's filters.
#[derive(Debug)]
pub struct HtaTrace {
    pub(super) trace: LinkedTrace,
    pub(super) rank: i64,
    /// Device rows by start.
    pub(super) rows: Vec<HtaRow>,
    /// Steps by start; several have the same number if devices have ranges for them too.
    pub(super) steps: Vec<HtaStep>,
    /// Length of a time unit, in µs.
    pub(super) unit_us: f64,
    pub(super) settings: HtaOptions,
    /// Limit on starts of host work: only earlier work is kept.
    until: i64,
}

/// A range `ProfilerStep#N`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HtaStep {
    pub(super) number: u64,
    pub(super) start: i64,
    pub(super) end: i64,
    /// Latest end of this step and all earlier ones.
    pub(super) latest: i64,
}

impl HtaTrace {
    /// Filters a trace, which it keeps. For annotations of devices and for the first and last event,
    /// the trace has to be read with [auxiliary](etlink_model::DeviceTrace::auxiliary) events.
    pub fn new(trace: LinkedTrace, settings: HtaOptions) -> HtaTrace {
        let stated = trace.report.rank.map(|rank| rank.0);
        let mut loaded = HtaTrace {
            rank: settings.rank.or(stated).unwrap_or(0),
            trace,
            rows: vec![],
            steps: vec![],
            unit_us: if settings.nanoseconds { 1e-3 } else { 1.0 },
            settings,
            until: i64::MAX,
        };
        loaded.rows = loaded.device_rows();
        loaded.steps = loaded.all_steps();
        let numbers = loaded.steps.iter().map(|step| step.number);
        if numbers.collect::<BTreeSet<_>>().len() > 1 {
            // HTA filters only traces with two steps or more, so a single step keeps everything.
            let until = loaded.kept_until();
            loaded.until = until;
            loaded.steps.retain(|step| step.start < until);
            loaded.keep_launched();
        }
        // The order of a stable sort of the file's events.
        loaded.rows.sort_by_key(|row| row.start);
        loaded
    }

    /// Returns HTA's rank of the trace.
    pub fn rank(&self) -> i64 {
        self.rank
    }

    /// Returns start and end rounded like HTA's: in floating point, which matters if an end is a
    /// whole microsecond.
    pub(super) fn times(&self, start: TimeNs, duration: DurationNs) -> (i64, i64) {
        if self.settings.nanoseconds {
            return (start.0, (start + duration).0);
        }
        // As parsed from decimal text; nanoseconds since 1970 exceed the precision of a double.
        let (ts, dur) = (float_micros(start.0), float_micros(duration.0));
        // Rounding both ends inwards can leave a length of -1. HTA computes with it, and its tables
        // show it.
        (ts.ceil() as i64, (ts + dur).floor() as i64)
    }

    /// Returns true if host work that starts at this time is kept.
    pub(super) fn is_kept(&self, start: TimeNs) -> bool {
        self.times(start, DurationNs(0)).0 < self.until
    }

    /// Returns the limit on starts of host work: the start of the last step or, if it is included,
    /// its end; HTA by then counts starts from the first event, but not ends.
    fn kept_until(&self) -> i64 {
        if !self.settings.include_last {
            let starts = self.steps.iter().map(|step| step.start);
            return starts.max().unwrap_or(i64::MAX);
        }
        // The first start is added because HTA has subtracted it from starts and not from ends.
        let first = self.starts().min().unwrap_or(0);
        self.steps.last().map_or(i64::MAX, |step| {
            step.latest.saturating_add(first).saturating_add(1)
        })
    }

    /// Returns the starts of all events.
    pub(super) fn starts(&self) -> impl Iterator<Item = i64> {
        self.rows
            .iter()
            .map(|row| row.start)
            .chain(self.host_times().map(|(start, _)| start))
    }

    /// Returns all steps, including those on devices.
    fn all_steps(&self) -> Vec<HtaStep> {
        let DeviceTrace { ops, names, .. } = &self.trace.device;
        let number: Vec<Option<u64>> = names
            .iter()
            .map(|name| name.strip_prefix("ProfilerStep#")?.parse().ok())
            .collect();
        let of_host =
            (0..ops.len()).map(|op| (ops.name[op], self.times(ops.start[op], ops.duration[op])));
        let step = |(name, (start, end)): (NameId, _)| {
            Some(HtaStep {
                number: number[name.index()]?,
                start,
                end,
                latest: end,
            })
        };
        let mut steps: Vec<HtaStep> = of_host
            .chain(self.device_annotations())
            .filter_map(step)
            .collect();
        // The running maximum lets `step_at` stop early: steps of host and devices overlap.
        steps.sort_by_key(|step| step.start);
        let mut latest = i64::MIN;
        for step in &mut steps {
            latest = latest.max(step.end);
            step.latest = latest;
        }
        steps
    }

    /// Returns user annotations of the host with their times.
    pub(super) fn annotations(&self) -> impl Iterator<Item = (NameId, (i64, i64))> {
        let ops = &self.trace.device.ops;
        let all = (0..ops.len()).filter(|op| ops.annotation[*op]);
        all.map(|op| (ops.name[op], self.times(ops.start[op], ops.duration[op])))
            .filter(|(_, (start, _))| *start < self.until)
    }

    /// Returns user annotations of devices with their times.
    pub(super) fn device_annotations(&self) -> impl Iterator<Item = (NameId, (i64, i64))> {
        let auxiliary = &self.trace.device.auxiliary;
        let all = (0..auxiliary.len())
            .filter(|row| auxiliary.kind[*row] == AuxiliaryKind::DeviceAnnotation);
        all.map(|row| {
            (
                auxiliary.name[row],
                self.times(auxiliary.start[row], auxiliary.duration[row]),
            )
        })
        .filter(|(_, (start, _))| *start < self.until)
    }

    /// Returns the times of HTA's host events: ops, calls, frames, annotations.
    pub(super) fn host_times(&self) -> impl Iterator<Item = (i64, i64)> {
        let DeviceTrace {
            ops,
            calls,
            auxiliary,
            ..
        } = &self.trace.device;
        let starts = ops.start.iter().chain(&calls.start).chain(&auxiliary.start);
        let durations = ops
            .duration
            .iter()
            .chain(&calls.duration)
            .chain(&auxiliary.duration);
        starts
            .zip(durations)
            .map(|(start, duration)| self.times(*start, *duration))
            .chain(self.rows_without_stream())
            .filter(|(start, _)| *start < self.until)
    }

    /// Returns the times of device rows that do not state a stream, by which HTA recognizes device
    /// rows.
    fn rows_without_stream(&self) -> impl Iterator<Item = (i64, i64)> {
        let device = &self.trace.device;
        let rows = &device.rows;
        (0..rows.len())
            .filter(|row| !device.stated_queues.contains(&rows.queue[*row]))
            .map(|row| self.times(rows.start[row], rows.duration[row]))
    }

    /// Returns all device rows in HTA's sense: rows of the device, waits, ops with a stream.
    fn device_rows(&self) -> Vec<HtaRow> {
        let device = &self.trace.device;
        let DeviceTrace { rows, syncs, .. } = device;
        // A trace has few names and many rows.
        let mut classes = vec![None; device.names.count()];
        let call_of = calls_by_correlation(device);
        let mut row_of = |name: NameId, correlation, start: TimeNs, duration: DurationNs| {
            let class = &mut classes[name.index()];
            let (start, end) = self.times(start, duration);
            HtaRow {
                name,
                class: *class.get_or_insert_with(|| classify(device.names.get(name))),
                device: 0,
                stream: -1,
                start,
                end,
                call: call_of.get(&correlation).copied(),
                correlation,
                kind: HtaRowKind::Op,
                first: false,
                gb_per_s: 0.0,
            }
        };
        // HTA numbers events from 0 and takes number 0 for "no partner", which affects the file's
        // first event.
        let first_start = device.first_start;
        let first_start = first_start.filter(|start| !is_start_of_host_event(device, start));
        let mut all = Vec::with_capacity(rows.len());
        for at in 0..rows.len() {
            let (start, duration) = (rows.start[at], rows.duration[at]);
            let row = row_of(rows.name[at], rows.correlation[at], start, duration);
            // The linked call takes precedence, because ids may be reused.
            let linked = self.trace.row_call[at].get().map(|call| call.index());
            all.push(HtaRow {
                device: device.queues[rows.queue[at].index()].device,
                stream: stated_stream(device, rows.queue[at]),
                call: linked.or(row.call),
                kind: HtaRowKind::Work,
                first: Some(start) == first_start,
                // An absent value is negative in the table and 0 in HTA.
                gb_per_s: rows.gb_per_s[at].max(0.0),
                ..row
            });
        }
        for at in 0..syncs.len() {
            let (start, duration) = (syncs.start[at], syncs.duration[at]);
            let queue = device.queues[syncs.queue[at].index()];
            all.push(HtaRow {
                device: queue.device,
                // Some versions of Kineto write stream -1 of a device-wide wait as an unsigned
                // number.
                stream: if syncs.unsigned[at] {
                    i64::from(u32::MAX)
                } else {
                    queue.stream
                },
                kind: HtaRowKind::Wait,
                ..row_of(syncs.name[at], syncs.correlation[at], start, duration)
            });
        }
        for at in 0..device.stream_ops.len() {
            let op = device.stream_ops.row(at);
            // The op has no device and is in no series.
            all.push(HtaRow {
                stream: op.stream,
                ..row_of(op.name, Correlation::NONE, op.start, op.duration)
            });
        }
        // HTA recognizes a device row by its stream alone.
        all.retain(|row| row.stream != -1);
        all
    }

    /// Keeps rows of kept calls, and repeats a row once per call with its correlation.
    fn keep_launched(&mut self) {
        let calls = &self.trace.device.calls;
        let mut times: FxHashMap<Correlation, usize> = FxHashMap::default();
        for call in (0..calls.len()).filter(|call| self.call(*call).0 < self.until) {
            *times.entry(calls.correlation[call]).or_default() += 1;
        }
        let often = |row: &HtaRow| match row.correlation.get() {
            // A pandas merge repeats a row for every call with its id.
            Some(id) => times.get(&id).copied().unwrap_or(0),
            None => usize::from(row.kind == HtaRowKind::Op && row.start < self.until),
        };
        let rows = self.rows.iter();
        self.rows = rows
            .flat_map(|row| std::iter::repeat_n(*row, often(row)))
            .collect();
    }

    /// Returns the name of a row.
    pub(super) fn name(&self, row: &HtaRow) -> &str {
        self.trace.device_name(row.name)
    }

    /// Returns start and end of a call.
    pub(super) fn call(&self, call: usize) -> (i64, i64) {
        let calls = &self.trace.device.calls;
        self.times(calls.start[call], calls.duration[call])
    }

    /// Returns the start of the call that HTA assigns to a row: the file's first event if no call
    /// has its correlation.
    pub(super) fn called(&self, row: &HtaRow) -> Option<i64> {
        match row.call {
            Some(call) => Some(self.call(call).0),
            None => {
                row.correlation.get()?;
                Some(self.times(self.trace.device.first_start?, DurationNs(0)).0)
            }
        }
    }

    /// Returns the name of a call.
    pub(super) fn call_name(&self, call: usize) -> &str {
        self.trace.device_name(self.trace.device.calls.name[call])
    }

    /// Converts a time to µs as HTA writes it.
    pub(super) fn us(&self, time: i64) -> f64 {
        if self.settings.nanoseconds {
            time as f64 / 1e3
        } else {
            time as f64
        }
    }
}

/// Returns the stream of a queue; -1 for rows that do not state a stream, because HTA ignores
/// `tid`.
fn stated_stream(device: &DeviceTrace, queue: QueueIdx) -> i64 {
    if device.stated_queues.contains(&queue) {
        device.queues[queue.index()].stream
    } else {
        -1
    }
}

/// Converts nanoseconds to microseconds as Python parses them from the file's text.
fn float_micros(ns: i64) -> f64 {
    ns.div_euclid(1_000) as f64 + ns.rem_euclid(1_000) as f64 / 1e3
}

/// Maps each correlation to its call; if several calls share one, the last wins, as in HTA's join.
fn calls_by_correlation(device: &DeviceTrace) -> FxHashMap<Correlation, usize> {
    let ids = device.calls.correlation.iter().copied();
    ids.zip(0..).filter(|(id, _)| id.get().is_some()).collect()
}

fn is_start_of_host_event(device: &DeviceTrace, start: &TimeNs) -> bool {
    let starts = [&device.ops.start, &device.calls.start];
    starts
        .iter()
        .any(|starts| starts.binary_search(start).is_ok())
}
