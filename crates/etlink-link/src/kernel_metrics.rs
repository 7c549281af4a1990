//! Joins measured kernel metrics to the kernels of a trace.
//!
//! ```text
//! profile     gemm (16,8,1)  relu (4,1,1)  gemm (16,8,1)         launches, in order
//! trace       gemm (16,8,1)  relu (4,1,1)  gemm (16,8,1)  ...    kernels by start
//!             k-th of a name and grid with the k-th of that name and grid
//! ```
//! Metric profilers run each kernel alone and several times: their times differ from the trace's,
//! and they know no correlation ids. Only the order of launches of one kernel with one grid is
//! preserved. If the trace has more steps than the profile, each launch occurs several times in the
//! trace, and the profile's launches are repeated in order. O(kernels + metrics).

use crate::trace::LinkedTrace;
use etlink_model::{
    CallIdx, DeviceTrace, Diagnostic, KernelMetric, KernelMetrics, MetricProfile, Names,
    ProfiledKernel, ProfiledMetric, RowIdx, RowKind, TrackLabel, diagnostic,
};
use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::Serialize;
use std::collections::BTreeSet;

/// Outcome of joining a metric profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MetricJoin {
    /// Number of kernels in the profile.
    pub profiled: u64,
    /// Number of the trace's kernels that received metrics.
    pub joined: u64,
    /// Number of joined kernels whose metrics come from another launch of the same kernel and grid.
    pub repeated: u64,
    /// Number of the profile's kernels without a match in the trace.
    pub left_out: u64,
    /// True if grids and blocks had to be equal too, since both sides state them.
    pub by_grid: bool,
    /// Number of calls that received metrics, for traces with launches but without kernels.
    pub calls: u64,
}

impl MetricJoin {
    /// Returns diagnostics of an incomplete join.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut found = vec![];
        if self.repeated > 0 {
            found.push(diagnostic!(
                MetricsIncomplete,
                "{} of {} kernels reuse the metrics of another launch of the same kernel and grid",
                self.repeated,
                self.joined
            ));
        }
        if self.left_out > 0 {
            found.push(diagnostic!(
                MetricsIncomplete,
                "{} of {} kernels with metrics are not in this trace and are left out",
                self.left_out,
                self.profiled
            ));
        }
        found
    }
}

/// Joins the metrics of a profile to the kernels of a trace.
pub fn join_kernel_metrics(trace: &mut LinkedTrace, profile: &MetricProfile) -> MetricJoin {
    let wanted = kernels_of_process(&trace.device, profile);
    let form = NameForm::of_profile(profile);
    let has_grid = |grid: [u32; 3]| grid != [0; 3];
    let profile_has_grid = profile.kernels.grid.iter().copied().any(has_grid);
    let trace_has_grid = trace.device.rows.grid.iter().copied().any(has_grid);
    let by_grid = profile_has_grid && trace_has_grid;
    let mut rows = rows_by_key(&trace.device, form, by_grid);
    let mut profiled: IndexMap<KernelKey, Vec<usize>, FxBuildHasher> = IndexMap::default();
    for kernel in &wanted {
        let key = profiled_key(&profile.names, profile.kernels.row(*kernel), form, by_grid);
        profiled.entry(key).or_default().push(*kernel);
    }
    let metrics = metrics_by_kernel(profile);
    let mut join = MetricJoin {
        profiled: wanted.len() as u64,
        by_grid,
        ..MetricJoin::default()
    };
    let mut pairs = vec![];
    for (key, kernels) in profiled {
        let of_key = rows.swap_remove(&key).unwrap_or_default();
        let is_repeated = of_key.len().is_multiple_of(kernels.len());
        let covered = if is_repeated {
            of_key.len()
        } else {
            of_key.len().min(kernels.len())
        };
        join.joined += covered as u64;
        join.repeated += covered.saturating_sub(kernels.len()) as u64;
        join.left_out += kernels.len().saturating_sub(covered) as u64;
        for (place, row) in of_key[..covered].iter().enumerate() {
            pairs.push((*row, kernels[place % kernels.len()]));
        }
    }
    pairs.sort_unstable();
    // Only one profile is kept: its order is used to find a row's metrics.
    trace.kernel_metrics = KernelMetrics::default();
    for (row, kernel) in pairs {
        let call = trace.row_call[row.index()];
        push_metrics(trace, (row, call), profile, metrics.get(&kernel));
    }
    join
}

/// Joins the ranges of CUPTI's range profiler in the trace itself. Kineto writes one range per
/// kernel, in order of launch (`CuptiRangeProfiler.cpp`), and usually no kernel rows: then the
/// launches receive the metrics.
pub fn join_counter_ranges(trace: &mut LinkedTrace) -> Option<MetricJoin> {
    if trace.device.counter_ranges.is_empty() {
        return None;
    }
    let profile = profile_of_ranges(&trace.device);
    let rows = &trace.device.rows.kind;
    if rows.contains(&RowKind::Kernel) {
        return Some(join_kernel_metrics(trace, &profile));
    }
    let launches = kernel_launches(&trace.device);
    let mut join = MetricJoin {
        profiled: profile.kernels.len() as u64,
        ..MetricJoin::default()
    };
    // If the numbers differ, the launch without a range is unknown.
    if launches.len() != profile.kernels.len() {
        join.left_out = join.profiled;
        return Some(join);
    }
    let metrics = metrics_by_kernel(&profile);
    for (kernel, call) in launches.into_iter().enumerate() {
        join.calls += 1;
        push_metrics(trace, (RowIdx::NONE, call), &profile, metrics.get(&kernel));
    }
    Some(join)
}

fn profile_of_ranges(device: &DeviceTrace) -> MetricProfile {
    let mut profile = MetricProfile::default();
    let ranges = &device.counter_ranges;
    for range in 0..ranges.len() {
        let range = ranges.row(range);
        let kernel = u32::try_from(profile.kernels.len()).unwrap_or(u32::MAX);
        profile.kernels.push(ProfiledKernel {
            name: profile.names.intern(device.names.get(range.name)),
            process: -1,
            ..ProfiledKernel::default()
        });
        for line in device.names.get(range.values).lines() {
            let Some((metric, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let Some(value) = value.parse().ok().filter(|value: &f64| value.is_finite()) else {
                continue;
            };
            profile.metrics.push(ProfiledMetric {
                kernel,
                metric: profile.names.intern(metric),
                value,
                ..ProfiledMetric::default()
            });
        }
    }
    profile
}

/// Returns the calls that each launch one kernel, in order.
fn kernel_launches(device: &DeviceTrace) -> Vec<CallIdx> {
    let calls = 0..device.calls.len();
    calls
        .filter(|call| {
            let name = device.names.get(device.calls.name[*call]);
            name.starts_with("cudaLaunchKernel") || name.starts_with("cuLaunchKernel")
        })
        .map(CallIdx::new)
        .collect()
}

/// A kernel's name, with its grid and block if both sides state them.
type KernelKey = (String, [u32; 3], [u32; 3]);

/// Form of kernel names in a profile, chosen by `ncu --print-kernel-base`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameForm {
    /// Whole signature: `void f<4>(float *)`.
    Whole,
    /// Function name only: `f`.
    Function,
}

impl NameForm {
    fn of_profile(profile: &MetricProfile) -> NameForm {
        let mut names = profile.kernels.name.iter();
        let is_whole = names.any(|name| profile.names.get(*name).contains('('));
        if is_whole {
            NameForm::Whole
        } else {
            NameForm::Function
        }
    }

    /// Normalizes a name to this form. Demanglers differ only in blanks: `float*` and `float *`.
    fn name_key(self, name: &str) -> String {
        // The bracket of this namespace does not open a parameter list.
        let unbracketed = name.replace("(anonymous namespace)::", "");
        let name = match self {
            NameForm::Whole => name,
            NameForm::Function => function_name(&unbracketed),
        };
        name.chars()
            .filter(|symbol| !symbol.is_whitespace())
            .collect()
    }
}

/// Returns `f` for `void a::f<4>(float*)`.
fn function_name(name: &str) -> &str {
    let end = name.find(['<', '(']).unwrap_or(name.len());
    let before = name[..end].trim_end();
    let begin = before
        .rfind([' ', ':'])
        .map_or(0, |separator| separator + 1);
    // A name that begins with a bracket is kept whole.
    if before.is_empty() {
        name
    } else {
        &before[begin..]
    }
}

fn profiled_key(names: &Names, kernel: ProfiledKernel, form: NameForm, by_grid: bool) -> KernelKey {
    let name = form.name_key(names.get(kernel.name));
    if by_grid {
        (name, kernel.grid, kernel.block)
    } else {
        (name, [0; 3], [0; 3])
    }
}

/// Groups the kernels of a trace by key, each group sorted by start.
fn rows_by_key(
    device: &DeviceTrace,
    form: NameForm,
    by_grid: bool,
) -> IndexMap<KernelKey, Vec<RowIdx>, FxBuildHasher> {
    let rows = &device.rows;
    let mut names: FxHashMap<_, String> = FxHashMap::default();
    let mut all: IndexMap<KernelKey, Vec<RowIdx>, FxBuildHasher> = IndexMap::default();
    let kernels = (0..rows.len()).filter(|row| rows.kind[*row] == RowKind::Kernel);
    for row in kernels {
        let name = rows.name[row];
        let text = names
            .entry(name)
            .or_insert_with(|| form.name_key(device.names.get(name)));
        let key = if by_grid {
            (text.clone(), rows.grid[row], rows.block[row])
        } else {
            (text.clone(), [0; 3], [0; 3])
        };
        all.entry(key).or_default().push(RowIdx::new(row));
    }
    all
}

/// Returns the profile's kernels that belong to the trace's process. Returns all if the profile has
/// only one process, or none of the trace's processes: then it is from another run, with other
/// process ids.
fn kernels_of_process(device: &DeviceTrace, profile: &MetricProfile) -> Vec<usize> {
    let own: BTreeSet<i64> = device
        .threads
        .iter()
        .filter_map(|thread| match thread.pid {
            TrackLabel::Int(pid) => Some(pid),
            TrackLabel::Text(_) => None,
        })
        .collect();
    let all = 0..profile.kernels.len();
    let is_own = |kernel: &usize| own.contains(&profile.kernels.process[*kernel]);
    let of_process: Vec<usize> = all.clone().filter(is_own).collect();
    if !of_process.is_empty() {
        return of_process;
    }
    let first = profile.kernels.process.first().copied();
    // Kernels of several processes alternate; those of one process are in order.
    all.filter(|kernel| Some(profile.kernels.process[*kernel]) == first)
        .collect()
}

/// Maps each kernel to the indexes of its metrics in the profile.
fn metrics_by_kernel(profile: &MetricProfile) -> FxHashMap<usize, Vec<usize>> {
    let mut all: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (place, kernel) in profile.metrics.kernel.iter().enumerate() {
        all.entry(*kernel as usize).or_default().push(place);
    }
    all
}

fn push_metrics(
    trace: &mut LinkedTrace,
    (row, call): (RowIdx, CallIdx),
    profile: &MetricProfile,
    places: Option<&Vec<usize>>,
) {
    for place in places.into_iter().flatten() {
        let metric = profile.metrics.row(*place);
        let names = &mut trace.device.names;
        let joined = KernelMetric {
            row,
            call,
            metric: names.intern(profile.names.get(metric.metric)),
            unit: names.intern(profile.names.get(metric.unit)),
            value: metric.value,
        };
        trace.kernel_metrics.push(joined);
    }
}

/// Measured work of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MeasuredWork {
    /// Floating point operations; a fused multiplication and addition counts as two.
    pub(crate) operations: Option<u64>,
    /// True if operations of tensor cores are included. Without them, a matrix product has hardly
    /// any.
    pub(crate) has_tensor: bool,
    /// Bytes read from and written to the device's memory.
    pub(crate) bytes: Option<u64>,
}

/// Extracts the measured work of each row with metrics. O(metrics).
pub(crate) fn measured_work(trace: &LinkedTrace) -> FxHashMap<RowIdx, MeasuredWork> {
    let metrics = &trace.kernel_metrics;
    let mut all = FxHashMap::default();
    let mut begin = 0;
    while begin < metrics.len() {
        let row = metrics.row[begin];
        let same = metrics.row[begin..]
            .iter()
            .take_while(|other| **other == row);
        let end = begin + same.count();
        let work = MetricValues::of_kernel(trace, begin..end).work();
        if row != RowIdx::NONE && work != MeasuredWork::default() {
            all.insert(row, work);
        }
        begin = end;
    }
    all
}

/// Metrics of one kernel by name, in base units.
struct MetricValues<'t>(FxHashMap<&'t str, f64>);

/// Metrics that Nsight Compute's roofline charts add up (`SpeedOfLight_RooflineChart.section`),
/// each with the number of operations per instruction of a thread.
const OPERATION_METRICS: [(&str, f64); 9] = [
    ("op_fadd_pred_on", 1.0),
    ("op_fmul_pred_on", 1.0),
    ("op_ffma_pred_on", 2.0),
    ("op_dadd_pred_on", 1.0),
    ("op_dmul_pred_on", 1.0),
    ("op_dfma_pred_on", 2.0),
    ("op_hadd_pred_on", 1.0),
    ("op_hmul_pred_on", 1.0),
    ("op_hfma_pred_on", 2.0),
];

impl<'t> MetricValues<'t> {
    fn of_kernel(trace: &'t LinkedTrace, places: std::ops::Range<usize>) -> Self {
        let mut values = FxHashMap::default();
        for place in places {
            let metric = trace.kernel_metrics.row(place);
            let names = &trace.device.names;
            let value = metric.value * unit_factor(names.get(metric.unit));
            values.insert(names.get(metric.metric), value);
        }
        MetricValues(values)
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Sum over the kernel, as measured; otherwise its rate times the kernel's time.
    fn total(&self, name: &str) -> Option<f64> {
        let sum = format!("{name}.sum");
        if let Some(total) = self.value(&sum) {
            return Some(total);
        }
        let seconds = self.value("gpu__time_duration.sum")?;
        if let Some(rate) = self.value(&format!("{sum}.per_second")) {
            return Some(rate * seconds);
        }
        let per_cycle = self.value(&format!("{sum}.per_cycle_elapsed"))?;
        let unit = name.split("__").next().unwrap_or_default();
        let cycles = self.value(&format!("{unit}__cycles_elapsed.avg.per_second"))?;
        Some(per_cycle * cycles * seconds)
    }

    fn work(&self) -> MeasuredWork {
        let mut operations: Option<f64> = None;
        for (metric, factor) in OPERATION_METRICS {
            let of_threads = ["sm", "smsp"].into_iter().find_map(|unit| {
                self.total(&format!("{unit}__sass_thread_inst_executed_{metric}"))
            });
            if let Some(count) = of_threads {
                operations = Some(operations.unwrap_or(0.0) + count * factor);
            }
        }
        // For tensor cores, `sm__ops_path_tensor_src_fp16_dst_fp32` and others count operations.
        let mut tensor: BTreeSet<&str> = BTreeSet::new();
        for name in self.0.keys() {
            if name.starts_with("sm__ops_path_tensor_src_") {
                tensor.extend(name.split('.').next());
            }
        }
        let has_tensor = !tensor.is_empty();
        for name in tensor {
            if let Some(count) = self.total(name) {
                operations = Some(operations.unwrap_or(0.0) + count);
            }
        }
        let read = self.total("dram__bytes_read");
        let written = self.total("dram__bytes_write");
        let bytes = self.total("dram__bytes").or_else(|| Some(read? + written?));
        MeasuredWork {
            operations: operations.and_then(whole_number),
            has_tensor,
            bytes: bytes.and_then(whole_number),
        }
    }
}

fn whole_number(value: f64) -> Option<u64> {
    (0.0..1.8e19).contains(&value).then(|| value.round() as u64)
}

/// Returns the factor that converts a value to bytes, seconds or counts, from units as Nsight
/// Compute writes them: `Mbyte/second`, `usecond`, `Kinst`.
fn unit_factor(unit: &str) -> f64 {
    // Older versions write `cycle/nsecond` for `Ghz`.
    if let Some((counted, time)) = unit.split_once('/') {
        return unit_factor(counted) / unit_factor(time);
    }
    match unit {
        "usecond" | "us" => return 1e-6,
        "nsecond" | "ns" => return 1e-9,
        "msecond" | "ms" => return 1e-3,
        _ => {}
    }
    let bases = [
        "byte", "inst", "hz", "Hz", "sector", "request", "cycle", "second",
    ];
    let base = bases.into_iter().find(|base| unit.ends_with(base));
    match base.and_then(|base| unit.strip_suffix(base)) {
        Some("K" | "k") => 1e3,
        Some("M") => 1e6,
        Some("G") => 1e9,
        Some("T") => 1e12,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions() {
        for (name, function) in [
            ("void a::f<4, b::c>(float*)", "f"),
            ("gemm", "gemm"),
            ("void gemm(int)", "gemm"),
            (
                "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(int)",
                "CatArrayBatchedCopy",
            ),
            ("void (anonymous namespace)::f<4>(int)", "f"),
        ] {
            assert_eq!(NameForm::Function.name_key(name), function);
        }
    }

    #[test]
    fn units() {
        for (unit, factor) in [
            ("byte", 1.0),
            ("Kbyte", 1e3),
            ("Gbyte/second", 1e9),
            ("usecond", 1e-6),
            ("cycle/nsecond", 1.0 / 1e-9),
            ("Kbyte/msecond", 1e3 / 1e-3),
            ("byte/block", 1.0),
            ("", 1.0),
            ("%", 1.0),
            ("Ghz", 1e9),
        ] {
            assert_eq!(unit_factor(unit), factor, "{unit}");
        }
    }
}
