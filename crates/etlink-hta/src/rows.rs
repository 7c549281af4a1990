//! Selects rows, steps and times as HTA loads them.

use super::{HtaOptions, PatternError};
use etlink_link::LinkedTrace;
use etlink_model::{AuxiliaryKind, Correlation, DeviceTrace, DurationNs, NameId, QueueIdx, TimeNs};
use regex::Regex;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
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

/// HTA's patterns, matched at the start of the name.
pub(super) struct NamePatterns {
    communication: Regex,
    memory: Regex,
    not_computation: Regex,
}

impl NamePatterns {
    pub(super) fn new() -> Result<NamePatterns, PatternError> {
        Ok(NamePatterns {
            communication: pattern_at_start("nccl|hip|hccl|.*ncclKernel")?,
            memory: pattern_at_start("(hip)?Memcpy|(hip)?Memset|dma")?,
            not_computation: pattern_at_start(
                "nccl|.*Memcpy|.*Memset|.*dma|.*Sync|Stream Wait Event|cuda.*LaunchKernel|\
                 runFunction|hip|job_exe|packet|pe_exe|cpum_exe_subgraph|hccl|\
                 collective_subgraph_execution",
            )?,
        })
    }

    pub(super) fn classify(&self, name: &str) -> HtaClass {
        match () {
            // The order matters: `hipMemcpy` matches communication first.
            () if self.communication.is_match(name) => HtaClass::Communication,
            () if self.memory.is_match(name) => HtaClass::Memory,
            () if !self.not_computation.is_match(name) => HtaClass::Computation,
            () => HtaClass::Other,
        }
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
pub(super) struct HtaTrace<'t> {
    pub(super) trace: &'t LinkedTrace,
    pub(super) rank: i64,
    /// Device rows by start.
    pub(super) rows: Cow<'t, [HtaRow]>,
    /// Steps by start; several have the same number if devices have ranges for them too.
    pub(super) steps: Cow<'t, [HtaStep]>,
    /// Length of a time unit, in µs.
    pub(super) unit_us: f64,
    pub(super) settings: HtaOptions,
    /// Limit on starts of host work: only earlier work is kept.
    until: i64,
}

/// Result of [`HtaTrace::new`] without the trace.
#[derive(Clone, Debug)]
pub(super) struct KeptRows {
    rows: Vec<HtaRow>,
    steps: Vec<HtaStep>,
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

impl<'t> HtaTrace<'t> {
    pub(super) fn new(
        trace: &'t LinkedTrace,
        patterns: &NamePatterns,
        settings: HtaOptions,
    ) -> HtaTrace<'t> {
        let mut loaded = HtaTrace::without_rows(trace, settings);
        loaded.rows = Cow::Owned(loaded.device_rows(patterns));
        loaded.steps = Cow::Owned(loaded.all_steps());
        if loaded
            .steps
            .iter()
            .map(|step| step.number)
            .collect::<BTreeSet<_>>()
            .len()
            > 1
        {
            // HTA filters only traces with two steps or more, so a single step keeps everything.
            loaded.until = loaded.kept_until();
            let until = loaded.until;
            loaded.steps.to_mut().retain(|step| step.start < until);
            loaded.keep_launched();
        }
        // The order of a stable sort of the file's events.
        loaded.rows.to_mut().sort_by_key(|row| row.start);
        loaded
    }

    fn without_rows(trace: &'t LinkedTrace, settings: HtaOptions) -> HtaTrace<'t> {
        HtaTrace {
            trace,
            rank: rank_of(trace, settings),
            rows: Cow::Borrowed(&[]),
            steps: Cow::Borrowed(&[]),
            unit_us: if settings.nanoseconds { 1e-3 } else { 1.0 },
            settings,
            until: i64::MAX,
        }
    }

    /// Extracts the data from which [`from_kept`](Self::from_kept) restores the value.
    pub(super) fn into_kept(self) -> KeptRows {
        KeptRows {
            rows: self.rows.into_owned(),
            steps: self.steps.into_owned(),
            until: self.until,
        }
    }

    /// Restores the value that produced `kept`, given the same trace and settings.
    pub(super) fn from_kept(
        trace: &'t LinkedTrace,
        settings: HtaOptions,
        kept: &'t KeptRows,
    ) -> HtaTrace<'t> {
        HtaTrace {
            rows: Cow::Borrowed(&kept.rows),
            steps: Cow::Borrowed(&kept.steps),
            until: kept.until,
            ..HtaTrace::without_rows(trace, settings)
        }
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
            return self
                .steps
                .iter()
                .map(|step| step.start)
                .max()
                .unwrap_or(i64::MAX);
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
    fn device_rows(&self, patterns: &NamePatterns) -> Vec<HtaRow> {
        let device = &self.trace.device;
        // A trace has few names and many rows, and the patterns are slow.
        let mut classes = NameClasses::new(device, patterns);
        let call_of = calls_by_correlation(device);
        // HTA numbers events from 0 and takes number 0 for "no partner", which affects the file's
        // first event.
        let first_start = device
            .first_start
            .filter(|start| !is_start_of_host_event(device, start));
        let mut all = Vec::with_capacity(device.rows.len());
        for at in 0..device.rows.len() {
            let rows = &device.rows;
            let (start, end) = self.times(rows.start[at], rows.duration[at]);
            let correlation = rows.correlation[at];
            // The linked call takes precedence, because ids may be reused.
            let linked = self.trace.row_call[at].get().map(|call| call.index());
            all.push(HtaRow {
                name: rows.name[at],
                class: classes.class_of(rows.name[at]),
                device: device.queues[rows.queue[at].index()].device,
                stream: stated_stream(device, rows.queue[at]),
                start,
                end,
                call: linked.or(call_of.get(&correlation).copied()),
                correlation,
                kind: HtaRowKind::Work,
                first: Some(rows.start[at]) == first_start,
                // An absent value is negative in the table and 0 in HTA.
                gb_per_s: rows.gb_per_s[at].max(0.0),
            });
        }
        for at in 0..device.syncs.len() {
            let syncs = &device.syncs;
            let (start, end) = self.times(syncs.start[at], syncs.duration[at]);
            let correlation = syncs.correlation[at];
            // Some versions of Kineto write stream -1 of a device-wide wait as an unsigned number.
            let stream = if syncs.unsigned[at] {
                i64::from(u32::MAX)
            } else {
                device.queues[syncs.queue[at].index()].stream
            };
            all.push(HtaRow {
                name: syncs.name[at],
                class: classes.class_of(syncs.name[at]),
                device: device.queues[syncs.queue[at].index()].device,
                stream,
                start,
                end,
                call: call_of.get(&correlation).copied(),
                correlation,
                kind: HtaRowKind::Wait,
                first: false,
                gb_per_s: 0.0,
            });
        }
        for at in 0..device.stream_ops.len() {
            let op = device.stream_ops.row(at);
            let (start, end) = self.times(op.start, op.duration);
            all.push(HtaRow {
                name: op.name,
                class: classes.class_of(op.name),
                // The op has no device and is in no series.
                device: 0,
                stream: op.stream,
                start,
                end,
                call: None,
                correlation: Correlation::NONE,
                kind: HtaRowKind::Op,
                first: false,
                gb_per_s: 0.0,
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
    pub(super) fn name(&self, row: &HtaRow) -> &'t str {
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
                if row.correlation.get().is_some() {
                    Some(self.times(self.trace.device.first_start?, DurationNs(0)).0)
                } else {
                    None
                }
            }
        }
    }

    /// Returns the name of a call.
    pub(super) fn call_name(&self, call: usize) -> &'t str {
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

/// Returns HTA's rank of a trace.
pub(super) fn rank_of(trace: &LinkedTrace, settings: HtaOptions) -> i64 {
    let stated = trace.report.rank.map(|rank| rank.0);
    settings.rank.or(stated).unwrap_or(0)
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

fn pattern_at_start(text: &str) -> Result<Regex, PatternError> {
    // Python's `re.match` matches only at the start of the name.
    Regex::new(&format!("^(?:{text})")).map_err(PatternError)
}

/// Converts nanoseconds to microseconds as Python parses them from the file's text.
fn float_micros(ns: i64) -> f64 {
    ns.div_euclid(1_000) as f64 + ns.rem_euclid(1_000) as f64 / 1e3
}

/// Cache of HTA's class per name.
struct NameClasses<'t> {
    device: &'t DeviceTrace,
    patterns: &'t NamePatterns,
    known: Vec<Option<HtaClass>>,
}

impl<'t> NameClasses<'t> {
    fn new(device: &'t DeviceTrace, patterns: &'t NamePatterns) -> NameClasses<'t> {
        NameClasses {
            device,
            patterns,
            known: vec![None; device.names.count()],
        }
    }

    fn class_of(&mut self, name: NameId) -> HtaClass {
        let known = &mut self.known[name.index()];
        *known.get_or_insert_with(|| self.patterns.classify(self.device.names.get(name)))
    }
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
