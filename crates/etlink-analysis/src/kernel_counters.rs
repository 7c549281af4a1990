//! Metrics measured by kernel profilers, by kernel and metric.
//!
//! Nsight Compute and CUPTI run each kernel alone, and often several times. So durations among
//! these metrics differ from those of the trace.

use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::LinkedTrace;
use etlink_model::{KernelMetric, NameId};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;

/// A metric over all kernels of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelCounter {
    /// Name of the kernel, or of the launch call for traces without kernels.
    pub name: String,
    /// Name of the metric.
    pub metric: String,
    /// Unit as in the profile; empty for counts.
    pub unit: String,
    /// Number of kernels with this metric.
    pub kernels: u64,
    /// Mean over these kernels.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// Collects the metrics by kernel, in order of first launch, then in the profile's order.
/// O(metrics).
pub(crate) fn kernel_counters(trace: &LinkedTrace) -> Vec<KernelCounter> {
    let mut sums: IndexMap<[NameId; 3], (u64, f64, f64, f64), FxBuildHasher> = IndexMap::default();
    for place in 0..trace.kernel_metrics.len() {
        let metric = trace.kernel_metrics.row(place);
        let key = [kernel_name(trace, &metric), metric.metric, metric.unit];
        let first = (0, 0.0, f64::INFINITY, f64::NEG_INFINITY);
        let (kernels, sum, min, max) = sums.entry(key).or_insert(first);
        *kernels += 1;
        *sum += metric.value;
        *min = min.min(metric.value);
        *max = max.max(metric.value);
    }
    let names = &trace.device.names;
    let mut counters = vec![];
    for ([name, metric, unit], (kernels, sum, min, max)) in sums {
        counters.push(KernelCounter {
            name: names.get(name).to_owned(),
            metric: names.get(metric).to_owned(),
            unit: names.get(unit).to_owned(),
            kernels,
            mean: sum / kernels as f64,
            min,
            max,
        });
    }
    // Groups the metrics of a kernel, since launches of several kernels alternate.
    let mut order: IndexMap<String, usize, FxBuildHasher> = IndexMap::default();
    for counter in &counters {
        let next = order.len();
        order.entry(counter.name.clone()).or_insert(next);
    }
    counters.sort_by_key(|counter| order.get(&counter.name).copied());
    counters
}

fn kernel_name(trace: &LinkedTrace, metric: &KernelMetric) -> NameId {
    let device = &trace.device;
    match (metric.row.get(), metric.call.get()) {
        (Some(row), _) => device.rows.name[row.index()],
        (None, Some(call)) => device.calls.name[call.index()],
        (None, None) => NameId::EMPTY,
    }
}
