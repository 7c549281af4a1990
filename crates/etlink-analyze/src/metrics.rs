//! Single figures of a run, by the names of ccl-bench, from the tables of its ranks. One classification and one definition each, which
//! is where they differ from ccl-bench's tools:
//!
//! | metric | definition | unit |
//! |---|---|---|
//! | `avg_step_time` | mean host time of the inner steps (all but the first and last where there are more than two) of all ranks | s |
//! | `ttft`, `tpot` | first, and mean of the others, of `execute_context_*` steps; mean over ranks. SGLang's `run_batch` is a Python frame, which is no step here | s |
//! | `total_trace_time` | longest device window of a rank: windows of different clocks are not mixed | s |
//! | `total_kernel_time` | sum of all kernels' durations (no copies) | s |
//! | `aggregate_gpu_utilization` | mean over devices of busy / window | % |
//! | `load_imbalance_ratio` | busy time of the busiest device / of the least busy one | ratio |
//! | `communication_fraction` | sum of communication kernels / sum of all kernels; `communication_ratio` is a hundredth of it | % |
//! | `total_communication_time` | time in which communication runs, mean over devices | s |
//! | `communication_time_per_step` | the same per inner step, over rows launched in it | s |
//! | `communication_overhead` | mean over inner steps of that / the step's host time | % |
//! | `compute_comm_overlap` | overlap / time in which communication runs, over all devices; `communication_overlap_ratio` is a hundredth of it | % |
//! | `straggler`, `straggler_slowdown` | (max - min) / max, max / min over ranks of the sum of communication kernels | ratio |
//! | `break_down_<label>` | sum of the kernels that the rules give this label | s |
//! | `dominant_kernel_concentration` | sum of the name with the largest sum / sum of all kernels | % |
//! | `moe_fraction` | sum of kernels that the rules label `moe` / sum of all kernels | % |
//! | `mean_sm_coverage`, `mean_sm_coverage_by_kernel` | [`Coverage`](crate::Coverage), mean over devices | % |
//! | `memory_bound_fraction`, `compute_bound_fraction` | kernels with coverage under 50 %, above 70 %, mean over devices | % |
//! | `memory_transfer_overhead` | exposed copies / window, over all devices | % |
//! | `average_memory_bandwidth` | bytes of copies (no memsets) / sum of the durations of those with a size | GB/s |
//! | `tflops` | operations of [`Computed`](crate::Computed) / window, mean over devices | TFLOP/s |
//! | `hfu` | `tflops` / peak ([`Peaks`]): `mfu`, but that it counts what ran, recomputed activations too, and no more than [`Computed`](crate::Computed) knows | % |
//! | `bus_bandwidth_<kind>` | bytes · ring factor / duration, of the collectives with sizes in known groups, weighted by duration | GB/s |
//! | `bandwidth_utilization_<kind>` | `bus_bandwidth_<kind>` / peak of the links ([`Peaks`]) | ratio |
//! | `coll_call_num` | collectives and messages of all ranks | count |
//! | `collective_vol_<kind>_gb`, `collective_vol_total_gb` | input bytes, mean over ranks | GB (10⁹) |
//!
//! Latency and bandwidth of collectives (Hockney) are in the table of [`Collectives`](crate::Collectives), whose lines per group are what
//! `traffic_window` guesses at. Not here is what a trace does not have: `mfu` needs the model's parameters and tokens, `gpu_step_score` another run,
//! `scale_up_bw_utility` a simulation, latencies of requests the client's clock, `nvlink_*` the device's counters.

use crate::analysis::Analysis;
use crate::kernels::Kernel;
use crate::rules::Class;
use crate::steps::Step;
use serde::Serialize;
use std::collections::BTreeMap;

/// One figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// `s`, `%`, `GB/s`, `TFLOP/s`, `GB`, `ratio` or `count`.
    pub unit: &'static str,
}

/// What the hardware can do at most, as its vendor says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peaks {
    /// Operations of a device, 10¹² per second, in the precision that the model has.
    pub tflops: Option<f64>,
    /// What the links of a device carry one way, GB/s.
    pub link_gb_per_s: Option<f64>,
}

/// How much of that was used, from the metrics of a run.
pub fn of_peaks(metrics: &[Metric], peaks: Peaks) -> Vec<Metric> {
    let used = |metric: &Metric| match (
        metric.name.as_str(),
        metric.name.strip_prefix(BUS_BANDWIDTH),
    ) {
        ("tflops", _) => Some(Metric {
            name: "hfu".to_owned(),
            value: 100.0 * metric.value / peaks.tflops?,
            unit: "%",
        }),
        (_, Some(kind)) => Some(Metric {
            name: format!("bandwidth_utilization_{kind}"),
            value: metric.value / peaks.link_gb_per_s?,
            unit: "ratio",
        }),
        _ => None,
    };
    metrics
        .iter()
        .filter_map(used)
        .filter(|metric| metric.value.is_finite())
        .collect()
}

const BUS_BANDWIDTH: &str = "bus_bandwidth_";

/// Those that the traces can give.
pub(crate) fn metrics<'a>(ranks: impl Iterator<Item = &'a Analysis>) -> Vec<Metric> {
    let ranks: Vec<&Analysis> = ranks.collect();
    let mut all = vec![];
    let mut add = |name: &str, value: Option<f64>, unit| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            all.push(Metric {
                name: name.to_owned(),
                value,
                unit,
            });
        }
    };
    steps(&ranks, &mut add);
    devices(&ranks, &mut add);
    kernels(&ranks, &mut add);
    stragglers(&ranks, &mut add);
    copies(&ranks, &mut add);
    coverage(&ranks, &mut add);
    add(
        "tflops",
        mean(
            ranks
                .iter()
                .flat_map(|rank| &rank.work)
                .map(|one| one.tflops),
        ),
        "TFLOP/s",
    );
    bandwidths(&ranks, &mut add);
    volumes(&ranks, &mut add);
    all
}

type Add<'f> = &'f mut dyn FnMut(&str, Option<f64>, &'static str);

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

fn inner(steps: &[Step]) -> &[Step] {
    if steps.len() > 2 {
        steps.get(1..steps.len() - 1).unwrap_or_default()
    } else {
        steps
    }
}

fn steps(ranks: &[&Analysis], add: Add<'_>) {
    let inner = || ranks.iter().flat_map(|rank| inner(&rank.steps));
    add(
        "avg_step_time",
        mean(inner().map(|step| seconds(step.duration_ns))),
        "s",
    );
    let tokens = || {
        ranks
            .iter()
            .filter_map(|rank| rank.steps.split_first())
            .filter(|(first, _)| first.name.starts_with("execute_context_"))
    };
    add(
        "ttft",
        mean(tokens().map(|(first, _)| seconds(first.duration_ns))),
        "s",
    );
    add(
        "tpot",
        mean(
            tokens().filter_map(|(_, others)| {
                mean(others.iter().map(|step| seconds(step.duration_ns)))
            }),
        ),
        "s",
    );
    add(
        "communication_time_per_step",
        mean(inner().map(|step| seconds(step.communication_ns))),
        "s",
    );
    let share = |step: &Step| {
        (step.duration_ns > 0)
            .then(|| 100.0 * step.communication_ns as f64 / step.duration_ns as f64)
    };
    add(
        "communication_overhead",
        mean(inner().filter_map(share)),
        "%",
    );
}

fn devices(ranks: &[&Analysis], add: Add<'_>) {
    let devices = || {
        ranks
            .iter()
            .flat_map(|rank| &rank.breakdown)
            .filter(|time| time.window_ns > 0)
    };
    let percent = |part: i64, whole: i64| (whole > 0).then(|| 100.0 * part as f64 / whole as f64);
    add(
        "total_trace_time",
        devices()
            .map(|time| seconds(time.window_ns))
            .reduce(f64::max),
        "s",
    );
    add(
        "aggregate_gpu_utilization",
        mean(devices().filter_map(|time| percent(time.busy_ns(), time.window_ns))),
        "%",
    );
    let busy = || devices().map(|time| time.busy_ns() as f64);
    let several = devices().count() > 1;
    let ratio = busy()
        .reduce(f64::max)
        .zip(busy().reduce(f64::min))
        .map(|(most, least)| most / least);
    add("load_imbalance_ratio", ratio.filter(|_| several), "ratio");
    let sum = |of: fn(&crate::DeviceTime) -> i64| devices().map(of).fold(0, i64::saturating_add);
    add(
        "total_communication_time",
        mean(devices().map(|time| seconds(time.communication_ns))),
        "s",
    );
    add(
        "compute_comm_overlap",
        percent(
            sum(|time| time.overlap_ns),
            sum(|time| time.communication_ns),
        ),
        "%",
    );
    add(
        "memory_transfer_overhead",
        percent(
            sum(|time| time.exposed_memory_ns),
            sum(|time| time.window_ns),
        ),
        "%",
    );
}

/// Copies and memsets are no kernels here, nor what stands for no work.
fn is_kernel(kernel: &&Kernel) -> bool {
    kernel.class != Class::Other && kernel.label != "memcpy" && kernel.label != "memset"
}

fn kernels(ranks: &[&Analysis], add: Add<'_>) {
    let kernels = || {
        ranks
            .iter()
            .flat_map(|rank| &rank.kernels)
            .filter(is_kernel)
    };
    let sum = |of: fn(&&Kernel) -> bool| {
        kernels()
            .filter(of)
            .map(|kernel| kernel.durations.sum_ns)
            .fold(0, i64::saturating_add)
    };
    let whole = sum(|_| true);
    let percent = |part: i64| (whole > 0).then(|| 100.0 * part as f64 / whole as f64);
    add(
        "total_kernel_time",
        (whole > 0).then(|| seconds(whole)),
        "s",
    );
    add(
        "communication_fraction",
        percent(sum(|kernel| kernel.class == Class::Communication)),
        "%",
    );
    let by = |key: fn(&Kernel) -> &str| {
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        for kernel in kernels() {
            let sum = sums.entry(key(kernel)).or_default();
            *sum = sum.saturating_add(kernel.durations.sum_ns);
        }
        sums
    };
    add(
        "dominant_kernel_concentration",
        by(|kernel| &kernel.name)
            .into_values()
            .max()
            .and_then(percent),
        "%",
    );
    let labels = by(|kernel| &kernel.label);
    add(
        "moe_fraction",
        percent(labels.get("moe").copied().unwrap_or(0)),
        "%",
    );
    labels
        .iter()
        .for_each(|(label, ns)| add(&format!("break_down_{label}"), Some(seconds(*ns)), "s"));
}

fn stragglers(ranks: &[&Analysis], add: Add<'_>) {
    let of_rank = |rank: &&Analysis| {
        let communication = rank
            .kernels
            .iter()
            .filter(|kernel| kernel.class == Class::Communication);
        communication
            .map(|kernel| kernel.durations.sum_ns as f64)
            .sum::<f64>()
    };
    let (most, least) = (
        ranks.iter().map(of_rank).reduce(f64::max),
        ranks.iter().map(of_rank).reduce(f64::min),
    );
    let spread = most
        .zip(least)
        .filter(|(most, _)| *most > 0.0 && ranks.len() > 1)
        .map(|(most, least)| (most - least) / most);
    add("straggler", spread, "ratio");
    add(
        "straggler_slowdown",
        most.zip(least)
            .filter(|(_, least)| *least > 0.0 && ranks.len() > 1)
            .map(|(most, least)| most / least),
        "ratio",
    );
}

fn copies(ranks: &[&Analysis], add: Add<'_>) {
    let copies = || {
        ranks
            .iter()
            .flat_map(|rank| &rank.copies)
            .filter(|copies| !copies.kind.starts_with("Memset"))
    };
    let (bytes, time) = (
        copies().map(|copies| copies.bytes as f64).sum::<f64>(),
        copies()
            .map(|copies| copies.sized_sum_ns as f64)
            .sum::<f64>(),
    );
    add(
        "average_memory_bandwidth",
        (time > 0.0).then(|| bytes / time),
        "GB/s",
    );
}

fn coverage(ranks: &[&Analysis], add: Add<'_>) {
    let devices = || ranks.iter().flat_map(|rank| &rank.coverage);
    add(
        "mean_sm_coverage",
        mean(devices().map(|one| 100.0 * one.by_time)),
        "%",
    );
    add(
        "mean_sm_coverage_by_kernel",
        mean(devices().map(|one| 100.0 * one.by_row)),
        "%",
    );
    add(
        "memory_bound_fraction",
        mean(devices().map(|one| 100.0 * one.low_share)),
        "%",
    );
    add(
        "compute_bound_fraction",
        mean(devices().map(|one| 100.0 * one.high_share)),
        "%",
    );
}

fn bandwidths(ranks: &[&Analysis], add: Add<'_>) {
    let mut kinds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for one in ranks.iter().flat_map(|rank| &rank.collectives) {
        if let Some(bus) = one.bus_gb_per_s {
            let (bytes, ns) = kinds.entry(&one.kind).or_default();
            (*bytes, *ns) = (
                *bytes + bus * one.sized_ns as f64,
                *ns + one.sized_ns as f64,
            );
        }
    }
    kinds.iter().for_each(|(kind, (bytes, ns))| {
        add(&format!("{BUS_BANDWIDTH}{kind}"), Some(bytes / ns), "GB/s")
    });
}

fn volumes(ranks: &[&Analysis], add: Add<'_>) {
    let all = || ranks.iter().flat_map(|rank| &rank.collectives);
    let count = all().map(|one| one.count).sum::<u64>();
    add(
        "coll_call_num",
        (count > 0).then_some(count as f64),
        "count",
    );
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for one in all().filter(|one| one.in_bytes > 0) {
        let sum = kinds.entry(&one.kind).or_default();
        *sum = sum.saturating_add(one.in_bytes);
    }
    let per_rank = |bytes: u64| Some(bytes as f64 / 1e9 / ranks.len() as f64);
    for (kind, bytes) in &kinds {
        add(&format!("collective_vol_{kind}_gb"), per_rank(*bytes), "GB");
    }
    add(
        "collective_vol_total_gb",
        per_rank(kinds.values().copied().fold(0, u64::saturating_add))
            .filter(|_| !kinds.is_empty()),
        "GB",
    );
}
