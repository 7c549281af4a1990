//! Single figures of a run, with the names of ccl-bench, from the tables of its ranks. All figures
//! share one classification and one definition each, which makes them differ from ccl-bench's
//! tools:
//!
//! - `avg_step_time` (s): mean host time of the inner steps (all but the first and last if there
//!   are more than two) of all ranks.
//! - `ttft`, `tpot` (s): host time of the first inference step, and mean of the others; mean over
//!   ranks. Steps without a phase do not count.
//! - `total_trace_time` (s): steps, else recording, of the rank on which they are longest: windows
//!   of different clocks are not mixed. Here and below without work outside the steps.
//! - `total_kernel_time` (s): sum of all kernels' durations (no copies).
//! - `aggregate_gpu_utilization` (%): mean over devices of busy / window.
//! - `load_imbalance_ratio` (ratio): busy time of the busiest device / of the least busy one.
//! - `communication_fraction` (%): sum of communication kernels / sum of all kernels;
//!   `communication_ratio` is a hundredth of it.
//! - `total_communication_time` (s): time in which communication runs, mean over devices.
//! - `communication_time_per_step` (s): communication time per inner step, over rows launched in
//!   it.
//! - `communication_overhead` (%): mean over inner steps of communication time / step's host time.
//! - `compute_comm_overlap` (%): overlap / time in which communication runs, over all devices;
//!   `communication_overlap_ratio` is a hundredth of it.
//! - `straggler`, `straggler_slowdown` (ratio): (max - min) / max, max / min over ranks of the sum
//!   of communication kernels.
//! - `break_down_<label>` (s): sum of the kernels with this label in the rules.
//! - `dominant_kernel_concentration` (%): largest sum of one kernel name / sum of all kernels.
//! - `moe_fraction` (%): sum of kernels labelled `moe` by the rules / sum of all kernels.
//! - `mean_sm_coverage`, `mean_sm_coverage_by_kernel` (%): [`crate::SmCoverage`], mean over
//!   devices.
//! - `memory_bound_fraction`, `compute_bound_fraction` (%): kernels with coverage under 50 %, above
//!   70 %, mean over devices.
//! - `memory_transfer_overhead` (%): exposed copies / window, over all devices.
//! - `average_memory_bandwidth` (GB/s): bytes of copies (no memsets) / sum of the durations of
//!   copies of known size.
//! - `tflops` (TFLOP/s): operations of [`ComputeRate`](crate::ComputeRate) / window, mean over
//!   devices.
//! - `mfu` (%): [`PeakUse`](crate::PeakUse) by the peaks of the device's data sheet, mean over the
//!   devices that have it; recomputed work counts.
//! - `hfu` (%): `tflops` / peak ([`HardwarePeaks`]): like `mfu`, but counts everything that ran,
//!   including recomputed activations, and only the ops of [`ComputeRate`](crate::ComputeRate).
//! - `bus_bandwidth_<kind>` (GB/s): bytes · ring factor / duration, weighted by duration, of the
//!   collectives with sizes in known groups.
//! - `bandwidth_utilization_<kind>` (ratio): `bus_bandwidth_<kind>` / peak of the links
//!   ([`HardwarePeaks`]).
//! - `coll_call_num` (count): collectives and messages of all ranks.
//! - `collective_vol_<kind>_gb`, `collective_vol_total_gb` (GB (10⁹)): input bytes, mean over
//!   ranks.
//!
//! Latency and bandwidth of collectives (Hockney) are in the table of
//! [`CollectiveTotals`](crate::CollectiveTotals), whose fit per group replaces the guess of
//! `traffic_window`. Figures that a trace cannot give are left out: `gpu_step_score` needs another
//! run, `scale_up_bw_utility` a simulation, request latencies the client's clock, `nvlink_*` the
//! device's counters.

use crate::analysis::RankAnalysis;
use crate::kernels::KernelTotals;
use crate::rules::RowClass;
use crate::sm_coverage::SmCoverage;
use crate::steps::{StepTime, counted_steps};
use serde::Serialize;
use std::collections::BTreeMap;

/// A single figure of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunMetric {
    /// Name of the metric.
    pub name: String,
    /// Value in `unit`.
    pub value: f64,
    /// `s`, `%`, `GB/s`, `TFLOP/s`, `GB`, `ratio` or `count`.
    pub unit: &'static str,
}

/// Peak rates of the hardware, as stated by its vendor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HardwarePeaks {
    /// Peak operations of a device, 10¹² per second, in the precision of the model.
    pub tflops: Option<f64>,
    /// Bandwidth of a device's links, one way, GB/s.
    pub link_gb_per_s: Option<f64>,
}

/// Computes the used share of the peaks from the metrics of a run.
pub fn peak_metrics(metrics: &[RunMetric], peaks: HardwarePeaks) -> Vec<RunMetric> {
    metrics
        .iter()
        .filter_map(|metric| share_of_peak(metric, peaks))
        .filter(|metric| metric.value.is_finite())
        .collect()
}

/// Derives `hfu` from `tflops`, and `bandwidth_utilization_<kind>` from `bus_bandwidth_<kind>`.
fn share_of_peak(metric: &RunMetric, peaks: HardwarePeaks) -> Option<RunMetric> {
    if metric.name == "tflops" {
        return Some(RunMetric {
            name: "hfu".to_owned(),
            value: 100.0 * metric.value / peaks.tflops?,
            unit: "%",
        });
    }
    let kind = metric.name.strip_prefix(BUS_BANDWIDTH)?;
    Some(RunMetric {
        name: format!("bandwidth_utilization_{kind}"),
        value: metric.value / peaks.link_gb_per_s?,
        unit: "ratio",
    })
}

const BUS_BANDWIDTH: &str = "bus_bandwidth_";

/// Computes all metrics that the traces of these ranks support.
pub(crate) fn run_metrics<'a>(ranks: impl Iterator<Item = &'a RankAnalysis>) -> Vec<RunMetric> {
    let ranks: Vec<&RankAnalysis> = ranks.collect();
    let mut list = MetricList::default();
    list.add_steps(&ranks);
    list.add_devices(&ranks);
    list.add_kernels(&ranks);
    list.add_stragglers(&ranks);
    list.add_copies(&ranks);
    list.add_coverage(&ranks);
    let rates = ranks.iter().flat_map(|rank| &rank.work);
    let peaks = ranks.iter().flat_map(|rank| &rank.peaks);
    let mfu = mean_of(peaks.filter_map(|device| device.mfu));
    list.add("mfu", mfu.map(|share| 100.0 * share), "%");
    list.add("tflops", mean_of(rates.map(|rate| rate.tflops)), "TFLOP/s");
    list.add_bus_bandwidths(&ranks);
    list.add_volumes(&ranks);
    list.metrics
}

fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn as_seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Returns `part` in percent of `whole`; `None` if `whole` is 0.
fn percent_of(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

fn sum_ns(times: impl Iterator<Item = i64>) -> i64 {
    times.fold(0, i64::saturating_add)
}

/// Returns the largest and the smallest value.
fn extremes(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let most = values.clone().reduce(f64::max)?;
    let least = values.reduce(f64::min)?;
    Some((most, least))
}

/// Returns all counted steps but the first and the last, which the recording may have truncated;
/// all if there are fewer than three.
fn inner_steps(steps: &[StepTime]) -> Vec<&StepTime> {
    let mut counted: Vec<&StepTime> = counted_steps(steps).collect();
    if counted.len() > 2 {
        counted.pop();
        counted.remove(0);
    }
    counted
}

/// Returns the first step and the others of a rank with inference steps.
fn token_steps<'a>(rank: &&'a RankAnalysis) -> Option<(&'a StepTime, &'a [StepTime])> {
    let (first, others) = rank.steps.split_first()?;
    (!rank.phases.is_empty()).then_some((first, others))
}

/// True for kernels: not for copies, memsets, or rows that are no work.
fn is_kernel(kernel: &&KernelTotals) -> bool {
    kernel.class != RowClass::Other && kernel.label != "memcpy" && kernel.label != "memset"
}

/// Sums the time of all kernels per key.
fn kernel_time_by<'a>(
    kernels: impl Iterator<Item = &'a KernelTotals>,
    key: fn(&KernelTotals) -> &str,
) -> BTreeMap<&'a str, i64> {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for kernel in kernels {
        let sum = sums.entry(key(kernel)).or_default();
        *sum = sum.saturating_add(kernel.durations.sum_ns);
    }
    sums
}

/// Sum of the durations of a rank's communication kernels, ns.
fn communication_ns(rank: &&RankAnalysis) -> f64 {
    let kernels = rank.kernels.iter();
    let communication = kernels.filter(|kernel| kernel.class == RowClass::Communication);
    communication
        .map(|kernel| kernel.durations.sum_ns as f64)
        .sum()
}

/// Getter of a share between 0 and 1.
type CoverageFigure = fn(&SmCoverage) -> f64;

/// Metrics in report order.
#[derive(Debug, Default)]
struct MetricList {
    metrics: Vec<RunMetric>,
}

impl MetricList {
    /// Adds a metric, unless the traces do not provide its value.
    fn add(&mut self, name: &str, value: Option<f64>, unit: &'static str) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let name = name.to_owned();
            self.metrics.push(RunMetric { name, value, unit });
        }
    }

    fn add_steps(&mut self, ranks: &[&RankAnalysis]) {
        // The window may begin and end inside a step, so the outer steps would bias the mean.
        let inner = ranks.iter().flat_map(|rank| inner_steps(&rank.steps));
        let times = inner.clone().map(|step| as_seconds(step.length_ns));
        self.add("avg_step_time", mean_of(times), "s");
        let tokens = ranks.iter().filter_map(token_steps);
        let first = tokens.clone().map(|(first, _)| as_seconds(first.length_ns));
        self.add("ttft", mean_of(first), "s");
        let others = tokens.filter_map(|(_, others)| {
            mean_of(others.iter().map(|step| as_seconds(step.length_ns)))
        });
        self.add("tpot", mean_of(others), "s");
        let communication = inner.clone().map(|step| as_seconds(step.communication_ns));
        self.add("communication_time_per_step", mean_of(communication), "s");
        let shares = inner.filter_map(|step| percent_of(step.communication_ns, step.length_ns));
        self.add("communication_overhead", mean_of(shares), "%");
    }

    fn add_devices(&mut self, ranks: &[&RankAnalysis]) {
        let devices = ranks
            .iter()
            .flat_map(|rank| &rank.breakdown)
            .filter(|time| time.whole_ns() > 0);
        let windows = devices.clone().map(|time| as_seconds(time.whole_ns()));
        self.add("total_trace_time", windows.reduce(f64::max), "s");
        let busy = devices
            .clone()
            .filter_map(|time| percent_of(time.busy_ns(), time.whole_ns()));
        self.add("aggregate_gpu_utilization", mean_of(busy), "%");
        // For a single device the ratio would be 1, which would look like a balanced run.
        let several = devices.clone().count() > 1;
        let imbalance = match extremes(devices.clone().map(|time| time.busy_ns() as f64)) {
            Some((most, least)) if several => Some(most / least),
            _ => None,
        };
        self.add("load_imbalance_ratio", imbalance, "ratio");
        let communication = devices
            .clone()
            .map(|time| as_seconds(time.communication_ns));
        self.add("total_communication_time", mean_of(communication), "s");
        let overlap = percent_of(
            sum_ns(devices.clone().map(|time| time.overlap_ns)),
            sum_ns(devices.clone().map(|time| time.communication_ns)),
        );
        self.add("compute_comm_overlap", overlap, "%");
        let exposed_copies = percent_of(
            sum_ns(devices.clone().map(|time| time.exposed_memory_ns)),
            sum_ns(devices.map(|time| time.whole_ns())),
        );
        self.add("memory_transfer_overhead", exposed_copies, "%");
    }

    fn add_kernels(&mut self, ranks: &[&RankAnalysis]) {
        let kernels = ranks
            .iter()
            .flat_map(|rank| &rank.kernels)
            .filter(is_kernel);
        let whole = sum_ns(kernels.clone().map(|kernel| kernel.durations.sum_ns));
        let total = (whole > 0).then(|| as_seconds(whole));
        self.add("total_kernel_time", total, "s");
        let communication = kernels
            .clone()
            .filter(|kernel| kernel.class == RowClass::Communication);
        let communication = sum_ns(communication.map(|kernel| kernel.durations.sum_ns));
        let fraction = percent_of(communication, whole);
        self.add("communication_fraction", fraction, "%");
        let names = kernel_time_by(kernels.clone(), |kernel| &kernel.name);
        let dominant = names.into_values().max();
        let concentration = dominant.and_then(|ns| percent_of(ns, whole));
        self.add("dominant_kernel_concentration", concentration, "%");
        // A `BTreeMap` lists the labels in the same order for all runs.
        let labels = kernel_time_by(kernels, |kernel| &kernel.label);
        let experts = labels.get("moe").copied().unwrap_or(0);
        self.add("moe_fraction", percent_of(experts, whole), "%");
        for (label, ns) in &labels {
            self.add(&format!("break_down_{label}"), Some(as_seconds(*ns)), "s");
        }
    }

    fn add_stragglers(&mut self, ranks: &[&RankAnalysis]) {
        // a single rank has none to be compared with
        let times = if ranks.len() > 1 {
            extremes(ranks.iter().map(communication_ns))
        } else {
            None
        };
        let spread = times
            .filter(|(most, _)| *most > 0.0)
            .map(|(most, least)| (most - least) / most);
        self.add("straggler", spread, "ratio");
        let slowdown = times
            .filter(|(_, least)| *least > 0.0)
            .map(|(most, least)| most / least);
        self.add("straggler_slowdown", slowdown, "ratio");
    }

    fn add_copies(&mut self, ranks: &[&RankAnalysis]) {
        let copies = ranks
            .iter()
            .flat_map(|rank| &rank.copies)
            .filter(|copies| !copies.kind.starts_with("Memset"));
        let bytes: f64 = copies.clone().map(|copies| copies.bytes as f64).sum();
        let ns: f64 = copies.map(|copies| copies.sized_sum_ns as f64).sum();
        let bandwidth = (ns > 0.0).then(|| bytes / ns);
        self.add("average_memory_bandwidth", bandwidth, "GB/s");
    }

    fn add_coverage(&mut self, ranks: &[&RankAnalysis]) {
        let figures: [(&str, CoverageFigure); 4] = [
            ("mean_sm_coverage", |device| device.by_time),
            ("mean_sm_coverage_by_kernel", |device| device.by_row),
            ("memory_bound_fraction", |device| device.low_share),
            ("compute_bound_fraction", |device| device.high_share),
        ];
        for (name, figure) in figures {
            let devices = ranks.iter().flat_map(|rank| &rank.coverage);
            let shares = devices.map(|device| 100.0 * figure(device));
            self.add(name, mean_of(shares), "%");
        }
    }

    fn add_bus_bandwidths(&mut self, ranks: &[&RankAnalysis]) {
        let mut kinds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for one in ranks.iter().flat_map(|rank| &rank.collectives) {
            // Groups of unknown size have no factor and are left out of the mean.
            if let Some(bus) = one.bus_gb_per_s {
                let (bytes, ns) = kinds.entry(&one.kind).or_default();
                // weighted by duration: bytes per ns times ns
                *bytes += bus * one.sized_ns as f64;
                *ns += one.sized_ns as f64;
            }
        }
        for (kind, (bytes, ns)) in &kinds {
            self.add(&format!("{BUS_BANDWIDTH}{kind}"), Some(bytes / ns), "GB/s");
        }
    }

    fn add_volumes(&mut self, ranks: &[&RankAnalysis]) {
        let all = ranks.iter().flat_map(|rank| &rank.collectives);
        let count: u64 = all.clone().map(|one| one.count).sum();
        let calls = (count > 0).then_some(count as f64);
        self.add("coll_call_num", calls, "count");
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        for one in all {
            if let Some(bytes) = one.in_bytes.filter(|bytes| *bytes > 0) {
                let sum = kinds.entry(&one.kind).or_default();
                *sum = sum.saturating_add(bytes);
            }
        }
        let ranks = ranks.len() as f64;
        for (kind, bytes) in &kinds {
            let name = format!("collective_vol_{kind}_gb");
            self.add(&name, Some(*bytes as f64 / 1e9 / ranks), "GB");
        }
        let whole = kinds.values().copied().fold(0, u64::saturating_add);
        let total = (!kinds.is_empty()).then(|| whole as f64 / 1e9 / ranks);
        self.add("collective_vol_total_gb", total, "GB");
    }
}
