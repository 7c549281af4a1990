//! Ops by name and arguments: calls, device time, work, and the use of the device's peak rates.
//!
//! A device row belongs to the innermost op around its launch, a kernel of a graph launch to the op
//! that launched it at capture time, if the trace of the capture is given; rows without an op are totalled by
//! kernel. Rows launched before the recording or outside the steps are left out, as in
//! [`kernels`](crate::kernels). Durations are of calls: the sum over the rows of each.
//!
//! ```text
//! compute time  operations / peak of the precision; of products, convolutions and attention
//! memory time   bytes / bandwidth of the memory; each tensor once
//! roof          the longer of both, summed over the rows
//! bound         the longer of both sums
//! ```
//! In a recording without work on a device, ops whose calls spend at least half of their time outside
//! other ops count with their time on the host, which includes the others.
//!
//! Calls that differ only in numbers with a fraction, such as the learning rate of a step, are calls
//! of one op: these change no amount of work. Whole numbers do, such as factors of 0 and exponents.
//!
//! Work follows [`etlink_link::roofline`]; copies and memsets of an op that also runs kernels are
//! part of its work. It is unknown unless that of all rows is known, by the
//! rules of [`peak_use`](crate::peak_use). Copies from and to the host have no roof: their bound is
//! the link. Neither have devices without a line in the table of peaks.

use crate::device_peaks::{DevicePeaks, PeakTable};
use crate::duration_stats::{DurationStats, median_ns};
use crate::outside_work::CountedWork;
use crate::peak_use::{compute_time, device_peaks, is_known, is_known_by, memory_time};
use crate::python_lines::python_line;
use crate::rows::ClassifiedRows;
use crate::rules::{KernelRules, RowClass};
use crate::short_names::short_names;
use etlink_link::roofline::{
    OpCall, RooflineFormula, RooflineWork, op_call, op_work, row_owner, row_work,
};
use etlink_link::{CapturedOps, LinkedTrace};
use etlink_model::{NameId, OpIdx, RowKind};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::Serialize;
use std::cmp::Reverse;

/// Resource that limits an op at the peaks of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OpBound {
    /// Arithmetic.
    Compute,
    /// Bandwidth of the device's memory.
    Memory,
}

/// Totals of all calls of an op with equal arguments.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpTotals {
    /// Name of the op; empty for kernels without an op.
    pub op: String,
    /// Shapes of the inputs, list text; empty if not recorded.
    pub shapes: String,
    /// Types of the inputs, list text.
    pub types: String,
    /// Strides of the inputs, list text.
    pub strides: String,
    /// Scalars and lists of numbers among the inputs, list text, as of the first call. Tensors are
    /// `""`, or `"=N"` if known to be the tensor of argument N, counted from 0.
    pub values: String,
    /// Number of calls with work on a device.
    pub count: u64,
    /// Number of device rows.
    pub rows: u64,
    /// Sum of the device time, ns.
    pub sum_ns: i64,
    /// Share of the device time of all ops, 0 to 1.
    pub share: f64,
    /// Mean device time of a call, ns.
    pub mean_ns: f64,
    /// Median device time of a call, ns.
    pub median_ns: i64,
    /// Shortest device time of a call, ns.
    pub min_ns: i64,
    /// Longest device time of a call, ns.
    pub max_ns: i64,
    /// Standard deviation of the calls' device time, ns; null for a single call.
    pub stddev_ns: Option<f64>,
    /// Arithmetic operations of all calls; a multiplication and an addition count as two. Null if
    /// unknown.
    pub operations: Option<u64>,
    /// Bytes read and written by all calls; null if unknown.
    pub bytes: Option<u64>,
    /// Operations per byte.
    pub operations_per_byte: Option<f64>,
    /// 10¹² operations per second of device time.
    pub tflops: Option<f64>,
    /// 10¹² bytes per second of device time.
    pub tb_per_s: Option<f64>,
    /// Resource that limits the op; null if its work or the device's peaks are unknown.
    pub bound: Option<OpBound>,
    /// Time of all calls at the peaks of the device, ns.
    pub roof_ns: Option<f64>,
    /// Time at the peaks divided by the device time.
    pub roof_share: Option<f64>,
    /// Device time above the time at the peaks, ns; 0 for an op that is not slower than these.
    pub lost_ns: Option<i64>,
    /// Formula for the work; null if the work is unknown.
    pub formula: Option<RooflineFormula>,
    /// Name of the kernel with the most time.
    pub kernel: String,
    /// Readable name of this kernel.
    pub short_kernel: String,
    /// Line of Python of the first call; of its forward op for a backward op. Null without stacks.
    pub line: Option<String>,
}

/// Ops of one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankOps {
    /// Global rank; `None` if neither the traces nor the caller state it.
    pub rank: Option<i64>,
    /// Name of the first device, as in the trace; empty if it is not named.
    pub device: String,
    /// Sources of the devices' peak rates: data sheets, or lines of a file; empty if no peaks are
    /// known.
    pub sheets: Vec<String>,
    /// True if no device worked: times are of the ops on the host.
    pub on_host: bool,
    /// Ops by name and arguments.
    pub ops: Vec<OpTotals>,
}

/// Work of device rows; `None` if that of any is unknown.
#[derive(Clone, Copy)]
struct KnownWork {
    operations: Option<u64>,
    bytes: Option<u64>,
    /// Compute time, memory time and roof, ns.
    times: Option<[f64; 3]>,
}

/// Device rows with their work.
pub(crate) struct WorkedRows<'r, 't> {
    pub(crate) rows: &'r ClassifiedRows<'t>,
    work: Vec<RooflineWork>,
    /// Peaks of each device.
    peaks: Vec<Option<DevicePeaks>>,
    /// Number of the kernels that each op launches.
    kernels: Vec<u32>,
}

/// Running totals of one op with its arguments.
struct CallSums<'t> {
    call: OpCall<'t>,
    first_op: Option<usize>,
    durations: Vec<i64>,
    rows: u64,
    /// Time and formula of each kernel.
    kernels: IndexMap<NameId, (i64, Option<RooflineFormula>), FxBuildHasher>,
    work: KnownWork,
}

/// Totals the ops of a rank, by falling device time. O(ops + rows + text of the arguments).
pub fn rank_ops(trace: &LinkedTrace, rules: &KernelRules, peaks: &PeakTable) -> RankOps {
    let rows = ClassifiedRows::new(trace, rules);
    let worked = WorkedRows::new(&rows, peaks);
    let counted = CountedWork::new(trace);
    let mut places: FxHashMap<(OpCall<'_>, Option<NameId>), usize> = FxHashMap::default();
    // place of each op, and its device time
    let mut ops: Vec<(Option<usize>, i64)> = vec![(None, 0); owner_count(trace)];
    let mut sums: Vec<CallSums<'_>> = vec![];
    let is_work = |row: &usize| worked.rows.class[*row] != RowClass::Other;
    for row in (0..worked.rows.len()).filter(is_work) {
        if counted.row_cause(row).is_some() {
            continue;
        }
        let op = owner(trace, row);
        let place = op.and_then(|op| ops[op].0).unwrap_or_else(|| {
            let call = op.map_or_else(OpCall::default, |op| op_call(trace, op));
            let kernel = op.is_none().then_some(trace.device.rows.name[row]);
            let place = places.entry((without_fractions(&call), kernel));
            *place.or_insert_with(|| {
                sums.push(CallSums::new(call, op));
                sums.len() - 1
            })
        });
        let ns = trace.device.rows.duration[row].0;
        match op {
            Some(op) => {
                let (of_op, op_ns) = &mut ops[op];
                (*of_op, *op_ns) = (Some(place), op_ns.saturating_add(ns));
            }
            None => sums[place].durations.push(ns),
        }
        sums[place].add_row(&worked, row);
    }
    for (place, ns) in ops {
        if let Some(place) = place {
            sums[place].durations.push(ns);
        }
    }
    let on_host = sums.is_empty();
    if on_host {
        sums = host_calls(trace, &counted);
    }
    let lines = FirstLines::new(trace);
    let totals = sums.into_iter().map(|sum| sum.totals(trace, &lines));
    RankOps {
        rank: trace.report.rank.map(|rank| rank.0),
        device: trace
            .device
            .header
            .devices
            .first()
            .cloned()
            .unwrap_or_default(),
        ops: with_shares(totals.collect()),
        sheets: if on_host { vec![] } else { worked.sheets() },
        on_host,
    }
}

/// Returns the calls of a run without devices, of ops that spend at least half of the time of all
/// their calls outside other ops.
fn host_calls<'t>(trace: &'t LinkedTrace, counted: &CountedWork<'_>) -> Vec<CallSums<'t>> {
    let ops = &trace.device.ops;
    let mut inner_ns = vec![0i64; ops.len()];
    for op in 0..ops.len() {
        if let Some(parent) = trace.op_parent[op].get() {
            let sum = &mut inner_ns[parent.index()];
            *sum = sum.saturating_add(ops.duration[op].0);
        }
    }
    let work = op_work(trace);
    let mut calls: IndexMap<OpCall<'t>, (CallSums<'t>, i64), FxBuildHasher> = IndexMap::default();
    for op in 0..ops.len() {
        let ns = ops.duration[op].0;
        if ns <= 0 || ops.annotation[op] || counted.time_cause(ops.start[op]).is_some() {
            continue;
        }
        let call = op_call(trace, op);
        let known = KnownWork::by_formula(&work[op], call.name);
        let entry = calls.entry(without_fractions(&call));
        let (sums, inner) = entry.or_insert_with(|| (CallSums::new(call, Some(op)), 0));
        sums.durations.push(ns);
        sums.work.add(&known);
        *inner = inner.saturating_add(inner_ns[op]);
    }
    let is_innermost = |(sums, inner): &(CallSums<'_>, i64)| {
        let whole = sums
            .durations
            .iter()
            .fold(0i64, |a, b| a.saturating_add(*b));
        *inner <= whole / 2
    };
    let calls = calls.into_values().filter(is_innermost);
    calls.map(|(sums, _)| sums).collect()
}

/// Returns a call with the same text for all numbers with a fraction.
fn without_fractions<'t>(call: &OpCall<'t>) -> OpCall<'t> {
    let mut call = call.clone();
    let is_fraction = |word: &str| {
        word.parse()
            .is_ok_and(|number: f64| number.is_finite() && number.fract() != 0.0)
    };
    let is_between = |letter: char| matches!(letter, ' ' | ',' | '[' | ']' | '"');
    let words = call.values.split(is_between);
    if words.clone().any(is_fraction) {
        let text = &call.values;
        let parts = text.split_inclusive(is_between).map(|part| {
            let word = part.trim_end_matches(is_between);
            if is_fraction(word) {
                &part[word.len()..]
            } else {
                part
            }
        });
        call.values = parts.collect::<String>().into();
    }
    call
}

/// Returns the number of the op that a row belongs to; a range that the program annotates is none.
pub(crate) fn owner(trace: &LinkedTrace, row: usize) -> Option<usize> {
    let annotation = &trace.device.ops.annotation;
    row_owner(trace, row).filter(|owner| annotation.get(*owner) != Some(&true))
}

/// Number of ops, with the calls captured in graphs.
fn owner_count(trace: &LinkedTrace) -> usize {
    let captured = trace.captured.as_ref();
    trace.device.ops.len() + captured.map_or(0, CapturedOps::calls)
}

impl<'r, 't> WorkedRows<'r, 't> {
    pub(crate) fn new(rows: &'r ClassifiedRows<'t>, peaks: &PeakTable) -> WorkedRows<'r, 't> {
        let trace = rows.trace;
        let of_device = |device: &i64| Some(device_peaks(peaks, trace, *device)?.1);
        let mut kernels = vec![0u32; owner_count(trace)];
        for row in 0..rows.len() {
            if let Some(op) = owner(trace, row)
                && is_kernel(trace, row)
            {
                kernels[op] += 1;
            }
        }
        WorkedRows {
            work: row_work(trace, &op_work(trace)),
            peaks: rows.devices.iter().map(of_device).collect(),
            kernels,
            rows,
        }
    }

    /// Sources of the peaks, each once.
    fn sheets(self) -> Vec<String> {
        let mut sheets = IndexSet::new();
        for peaks in self.peaks.into_iter().flatten() {
            sheets.insert(match peaks.gb_per_s {
                Some(_) => peaks.sheet,
                None => format!(
                    "{} (no memory bandwidth for this device: --peaks FILE states one)",
                    peaks.sheet
                ),
            });
        }
        sheets.into_iter().collect()
    }

    fn known(&self, row: usize) -> KnownWork {
        let (trace, work) = (self.rows.trace, &self.work[row]);
        let of_kernels = owner(trace, row).is_some_and(|op| self.kernels[op] > 0);
        if of_kernels && !is_kernel(trace, row) {
            // the formula of the op has it
            return KnownWork::NOTHING;
        }
        let is_known = is_known(trace, row, work);
        let has_operations = is_known && work.formula != RooflineFormula::Bytes;
        KnownWork {
            operations: has_operations.then_some(work.operations),
            bytes: is_known.then_some(work.bytes),
            times: self.roof_times(row),
        }
    }

    /// Returns the time of a row at the peaks of its device, ns; `None` if it has no roof.
    pub(crate) fn roof_ns(&self, row: usize) -> Option<f64> {
        self.known(row).times.map(|[_, _, roof]| roof)
    }

    /// Returns the time of a kernel at the peaks of its device, ns; `None` if it has no roof, or if its op
    /// has other kernels: which of them does what part of the work is not known.
    pub(crate) fn kernel_roof_ns(&self, row: usize) -> Option<f64> {
        let op = owner(self.rows.trace, row)?;
        let roof_ns = self.roof_ns(row)?;
        (self.kernels[op] == 1).then_some(roof_ns)
    }

    /// Compute time, memory time and roof of a row, ns.
    fn roof_times(&self, row: usize) -> Option<[f64; 3]> {
        let (trace, work) = (self.rows.trace, &self.work[row]);
        let is_copy = trace.device.rows.kind[row] == RowKind::Memcpy;
        if is_copy && !self.rows.name(row).contains("DtoD") {
            return None;
        }
        let peaks = self.peaks[self.rows.device_place(row)].as_ref()?;
        let compute = compute_time(trace, row, work, peaks)?;
        let memory = memory_time(work, peaks)?;
        Some([compute, memory, compute.max(memory)])
    }
}

fn is_kernel(trace: &LinkedTrace, row: usize) -> bool {
    trace.device.rows.kind[row] == RowKind::Kernel
}

impl RankOps {
    /// Estimated memory of the records, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let texts = |op: &OpTotals| op.shapes.len() + op.types.len() + op.strides.len();
        let bytes = self.ops.iter().map(|op| size_of::<OpTotals>() + texts(op));
        bytes.sum::<usize>() as u64
    }

    /// Share of the device time with known work, 0 to 1.
    pub fn known_share(&self) -> f64 {
        let known = self.ops.iter().filter(|op| op.bytes.is_some());
        // an empty sum of floats is -0
        known.fold(0.0, |sum, op| sum + op.share)
    }

    /// Returns the device time of the ops that have a roof, and its part above the roof, ns.
    pub fn lost_ns(&self) -> (i64, i64) {
        let of_roof = self
            .ops
            .iter()
            .filter_map(|op| Some((op.sum_ns, op.lost_ns?)));
        of_roof.fold((0, 0), |(sum, lost), (op_sum, op_lost)| {
            (sum.saturating_add(op_sum), lost.saturating_add(op_lost))
        })
    }

    /// Sorts the ops by falling device time above the roof; those without a roof are last.
    pub fn sort_by_lost(&mut self) {
        self.ops.sort_by_key(|op| Reverse(op.lost_ns));
    }
}

impl<'t> CallSums<'t> {
    fn new(call: OpCall<'t>, first_op: Option<usize>) -> CallSums<'t> {
        CallSums {
            call,
            first_op,
            durations: vec![],
            rows: 0,
            kernels: IndexMap::default(),
            work: KnownWork::NOTHING,
        }
    }

    fn add_row(&mut self, worked: &WorkedRows<'_, '_>, row: usize) {
        let (trace, work) = (worked.rows.trace, &worked.work[row]);
        let device = &trace.device.rows;
        let (ns, formula) = self.kernels.entry(device.name[row]).or_default();
        *ns = ns.saturating_add(device.duration[row].0);
        *formula = is_known(trace, row, work).then_some(work.formula);
        self.rows += 1;
        self.work.add(&worked.known(row));
    }

    fn totals(mut self, trace: &LinkedTrace, lines: &FirstLines<'_>) -> OpTotals {
        let mut stats = DurationStats::default();
        self.durations.iter().for_each(|ns| stats.add(*ns));
        let seconds = stats.sum_ns as f64 / 1e9;
        let rate = |amount: u64| (seconds > 0.0).then(|| amount as f64 / seconds / 1e12);
        let KnownWork {
            operations,
            bytes,
            times,
        } = self.work;
        // rows that only move data have none
        let operations = operations.filter(|operations| *operations > 0);
        // of kernels with equal time the first one
        let kernels = self.kernels.iter().rev();
        let main = kernels.max_by_key(|(_, (ns, _))| *ns);
        let kernel = main.map_or("", |(name, _)| trace.device_name(*name));
        let roof_ns = times.map(|[_, _, roof]| roof);
        OpTotals {
            op: self.call.name.to_owned(),
            shapes: list_text(self.call.shapes),
            types: list_text(self.call.types),
            strides: list_text(self.call.strides),
            values: list_text(&self.call.values),
            count: stats.count,
            rows: self.rows,
            sum_ns: stats.sum_ns,
            share: 0.0,
            mean_ns: stats.mean_ns(),
            median_ns: median_ns(&mut self.durations),
            min_ns: stats.min_ns,
            max_ns: stats.max_ns,
            stddev_ns: stats.stddev_ns(),
            operations,
            bytes,
            operations_per_byte: operations
                .zip(bytes.filter(|bytes| *bytes > 0))
                .map(|(operations, bytes)| operations as f64 / bytes as f64),
            tflops: operations.and_then(rate),
            tb_per_s: bytes.and_then(rate),
            bound: times.map(|[compute, memory, _]| {
                if compute > memory {
                    OpBound::Compute
                } else {
                    OpBound::Memory
                }
            }),
            roof_ns,
            roof_share: match roof_ns {
                Some(roof) if seconds > 0.0 => Some(roof / 1e9 / seconds),
                _ => None,
            },
            lost_ns: roof_ns.map(|roof| (stats.sum_ns - roof.round() as i64).max(0)),
            formula: main.and_then(|(_, (_, formula))| *formula),
            kernel: kernel.to_owned(),
            short_kernel: String::new(),
            line: self.first_op.and_then(|op| lines.of(op)),
        }
    }
}

impl KnownWork {
    const NOTHING: KnownWork = KnownWork {
        operations: Some(0),
        bytes: Some(0),
        times: Some([0.0; 3]),
    };

    /// Work without a time at peaks; the name is that of the op.
    fn by_formula(work: &RooflineWork, op: &str) -> KnownWork {
        let is_known = is_known_by(work.formula, || Some(op));
        let has_operations = is_known && work.formula != RooflineFormula::Bytes;
        KnownWork {
            operations: has_operations.then_some(work.operations),
            bytes: is_known.then_some(work.bytes),
            times: None,
        }
    }

    fn add(&mut self, other: &KnownWork) {
        let sum = |(a, b): (u64, u64)| a.saturating_add(b);
        self.operations = self.operations.zip(other.operations).map(sum);
        self.bytes = self.bytes.zip(other.bytes).map(sum);
        let times = self.times.zip(other.times);
        self.times = times.map(|(a, b)| std::array::from_fn(|at| a[at] + b[at]));
    }
}

/// Finds the lines of Python that called ops.
struct FirstLines<'t> {
    trace: &'t LinkedTrace,
    /// First op of each sequence number on a forward thread.
    forward: FxHashMap<i64, OpIdx>,
}

impl<'t> FirstLines<'t> {
    fn new(trace: &'t LinkedTrace) -> FirstLines<'t> {
        let ops = &trace.device.ops;
        let mut forward = FxHashMap::default();
        for op in 0..ops.len() {
            if ops.seq_id[op] >= 0 && ops.fwd_thread[op] == 0 {
                forward.entry(ops.seq_id[op]).or_insert(OpIdx::new(op));
            }
        }
        FirstLines { trace, forward }
    }

    /// Returns the line of an op by its number; `None` for calls captured in graphs.
    fn of(&self, op: usize) -> Option<String> {
        let ops = &self.trace.device.ops;
        let op = (op < ops.len()).then(|| OpIdx::new(op))?;
        let mut around = Some(op);
        while let Some(op) = around {
            let seq = ops.seq_id[op.index()];
            if ops.fwd_thread[op.index()] != 0 && seq >= 0 {
                return self.line(*self.forward.get(&seq)?);
            }
            around = self.trace.op_parent[op.index()].get();
        }
        self.line(op)
    }

    fn line(&self, op: OpIdx) -> Option<String> {
        let ops = &self.trace.device.ops;
        python_line(self.trace, ops.thread[op.index()], ops.start[op.index()].0)
    }
}

/// Returns a list's text with one blank after each comma: some traces are indented.
pub fn list_text(text: &str) -> String {
    let (mut out, mut is_quoted) = (String::with_capacity(text.len()), false);
    for letter in text.chars() {
        is_quoted ^= letter == '"';
        match letter {
            _ if is_quoted => out.push(letter),
            ',' => out += ", ",
            letter if letter.is_whitespace() => {}
            letter => out.push(letter),
        }
    }
    out
}

/// Adds the shares and short names, and sorts by falling time.
fn with_shares(mut all: Vec<OpTotals>) -> Vec<OpTotals> {
    let whole = all
        .iter()
        .fold(0i64, |sum, op| sum.saturating_add(op.sum_ns));
    let shorts = short_names(all.iter().map(|op| op.kernel.as_str()));
    for (op, short) in all.iter_mut().zip(shorts) {
        op.share = op.sum_ns as f64 / whole.max(1) as f64;
        op.short_kernel = short.map_or_else(|| op.kernel.clone(), String::from);
    }
    // a stable sort: equal sums stay in the order of the trace
    all.sort_by_key(|op| Reverse(op.sum_ns));
    all
}

#[cfg(test)]
mod tests {
    use super::list_text;

    #[test]
    fn lists_have_one_form() {
        let indented = "[\n  [\n    8,\n    16\n  ],\n  []\n]";
        for (text, want) in [
            ("[[8,16],[]]", "[[8, 16], []]"),
            (indented, "[[8, 16], []]"),
            (r#"["a, b",  "[2,2]"]"#, r#"["a, b", "[2,2]"]"#),
            ("", ""),
        ] {
            assert_eq!(list_text(text), want);
        }
    }
}
