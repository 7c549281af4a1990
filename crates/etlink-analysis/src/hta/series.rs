//! Queue lengths and memory bandwidth: pandas' `describe` over samples.

use super::quantile;
use super::rows::{HtaClass, HtaRow, HtaRowKind, HtaTrace};
use serde::Serialize;
use std::collections::BTreeMap;

/// A row of `get_queue_length_summary`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names")]
pub struct QueueSummary {
    pub rank: i64,
    pub stream: i64,
    pub queue_length_count: f64,
    pub queue_length_mean: f64,
    pub queue_length_std: Option<f64>,
    pub queue_length_min: f64,
    #[serde(rename = "queue_length_25%")]
    pub queue_length_25: f64,
    #[serde(rename = "queue_length_50%")]
    pub queue_length_50: f64,
    #[serde(rename = "queue_length_75%")]
    pub queue_length_75: f64,
    pub queue_length_max: f64,
}

/// A row of `get_queue_length_time_series`: number of waiting launches from a time on, in µs from
/// the first event (of all ranks: [`align_series`](crate::hta::align_series)).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names")]
pub struct QueueSample {
    pub rank: i64,
    pub ts: f64,
    pub pid: i64,
    pub tid: i64,
    pub stream: i64,
    pub queue_length: i64,
}

/// A row of `get_memory_bw_time_series`: bandwidth of one kind of copies in GB/s from a time on, in
/// µs from the first event.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names")]
pub struct BandwidthSample {
    pub rank: i64,
    pub ts: f64,
    pub pid: i64,
    pub name: String,
    pub memory_bw_gbps: f64,
}

/// A row of `get_time_spent_blocked_on_full_queue`, in µs and relative to the time from the first
/// start to the last.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names")]
pub struct BlockedTime {
    pub rank: i64,
    pub stream: i64,
    pub duration_at_max_queue_length: f64,
    pub relative_duration_at_max_queue_length: f64,
}

/// A row of `get_memory_bw_summary`, in GB/s.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names")]
pub struct BandwidthSummary {
    pub rank: i64,
    pub name: String,
    pub memory_bw_gbps_count: f64,
    pub memory_bw_gbps_mean: f64,
    pub memory_bw_gbps_std: Option<f64>,
    pub memory_bw_gbps_min: f64,
    #[serde(rename = "memory_bw_gbps_25%")]
    pub memory_bw_gbps_25: f64,
    #[serde(rename = "memory_bw_gbps_50%")]
    pub memory_bw_gbps_50: f64,
    #[serde(rename = "memory_bw_gbps_75%")]
    pub memory_bw_gbps_75: f64,
    pub memory_bw_gbps_max: f64,
}

/// Returns the results of `describe()`: count, mean, sample deviation; minimum, quartiles (linear
/// between neighbours), maximum.
fn describe(mut values: Vec<f64>) -> Option<(f64, f64, Option<f64>, [f64; 5])> {
    // Quartiles require sorted samples.
    values.sort_by(f64::total_cmp);
    let (n, last) = (values.len() as f64, values.len().checked_sub(1)?);
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    let std = (last > 0).then(|| (squares.sum::<f64>() / (n - 1.0)).sqrt());
    let quartiles = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&values, share));
    Some((n, mean, std, quartiles))
}

/// Calls that HTA counts as launches here.
const LAUNCHES: [&str; 12] = [
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "runFunction - job_prep_and_submit_for_execution",
    "hipLaunchKernel",
    "hipExtModuleLaunchKernel",
    "hipMemsetAsync",
    "hipMemcpyAsync",
    "hipMemcpyWithStream",
];

/// Number of waiting launches from a time on.
struct QueuePoint {
    time: i64,
    length: i64,
    /// Device of the row that is launched or starts then: HTA does not distinguish devices here.
    device: i64,
}

/// A stream, and the lengths of its queue.
type QueueSeries = (i64, Vec<QueuePoint>);

/// Returns queue lengths by stream, then by time. At the same time launches precede starts, as in
/// HTA with a stable sort.
fn queue_series(loaded: &HtaTrace) -> Vec<QueueSeries> {
    // If a call has several rows, the last counts.
    let mut launched: BTreeMap<usize, &HtaRow> = BTreeMap::new();
    for row in loaded
        .rows
        .iter()
        .filter(|row| row.kind == HtaRowKind::Work)
    {
        let is_launch = |call: &usize| LAUNCHES.contains(&loaded.call_name(*call));
        if let Some(call) = row.call.filter(is_launch) {
            // HTA's index of a call holds one partner, so a graph launch keeps only its last
            // kernel.
            launched.insert(call, row);
        }
    }
    let mut streams: BTreeMap<i64, Vec<QueueChange>> = BTreeMap::new();
    for (call, row) in launched.into_iter().filter(|(_, row)| !row.first) {
        let (launch, start) = (loaded.call(call).0, row.start);
        let changes = streams.entry(row.stream).or_default();
        changes.extend([(launch, 1, row.device), (start, -1, row.device)]);
    }
    streams
        .into_iter()
        .map(|(stream, changes)| (stream, queue_lengths(changes)))
        .collect()
}

/// A time, the change of the length at that time, and the device.
type QueueChange = (i64, i64, i64);

fn queue_lengths(mut changes: Vec<QueueChange>) -> Vec<QueuePoint> {
    // Launches (+1) precede starts (-1), so that the length never drops below 0 at one instant.
    changes.sort_by_key(|(time, change, _)| (*time, -change));
    let mut length = 0;
    let mut lengths = vec![];
    for (time, change, device) in changes {
        length += change;
        lengths.push(QueuePoint {
            time,
            length,
            device,
        });
    }
    lengths
}

pub(super) fn queue_summaries(loaded: &HtaTrace) -> Vec<QueueSummary> {
    let summary = |(stream, lengths): &QueueSeries| {
        let lengths = lengths.iter().map(|point| point.length as f64);
        let (count, mean, std, [min, q25, q50, q75, max]) = describe(lengths.collect())?;
        Some(QueueSummary {
            rank: loaded.rank,
            stream: *stream,
            queue_length_count: count,
            queue_length_mean: mean,
            queue_length_std: std,
            queue_length_min: min,
            queue_length_25: q25,
            queue_length_50: q50,
            queue_length_75: q75,
            queue_length_max: max,
        })
    };
    queue_series(loaded).iter().filter_map(summary).collect()
}

/// HTA's capacity of a stream's queue, in launches.
const FULL: i64 = 1_024;

/// Returns the time at a full queue. HTA keeps only the last stream of a rank.
pub(super) fn blocked_times(loaded: &HtaTrace) -> Vec<BlockedTime> {
    let of_stream = |(stream, lengths): &QueueSeries| {
        let is_full = |point: &QueuePoint| point.length >= FULL;
        // HTA measures from each sample to the next, so the last one adds nothing.
        let full = lengths.iter().zip(lengths.iter().skip(1));
        let full = full.filter(|(point, _)| is_full(point));
        let time = full.fold(0, |sum: i64, (point, next)| {
            sum.saturating_add(next.time.saturating_sub(point.time))
        });
        lengths.iter().any(is_full).then_some((*stream, time))
    };
    // HTA's result is a dictionary by rank: later streams overwrite earlier ones.
    let queues = queue_series(loaded);
    let Some((stream, time)) = queues.iter().rev().find_map(of_stream) else {
        return vec![];
    };
    let (first, last) = (loaded.starts().min(), loaded.starts().max());
    let whole = last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
    vec![BlockedTime {
        rank: loaded.rank,
        stream,
        duration_at_max_queue_length: loaded.us(time),
        relative_duration_at_max_queue_length: time as f64 / whole as f64,
    }]
}

/// Times with the change at each, or the sum from then on, and the device.
type BandwidthChanges = Vec<(i64, f64, i64)>;

/// Returns the queue lengths of all streams as records.
pub(super) fn queue_samples(loaded: &HtaTrace) -> Vec<QueueSample> {
    let first = loaded.starts().min().unwrap_or(0);
    let mut samples = vec![];
    for (stream, lengths) in queue_series(loaded) {
        samples.extend(lengths.iter().map(|point| QueueSample {
            rank: loaded.rank,
            ts: loaded.us(point.time.saturating_sub(first)),
            pid: point.device,
            // Kineto writes the stream as the thread of a device's row.
            tid: stream,
            stream,
            queue_length: point.length,
        }));
    }
    samples
}

/// A kind of copies, and times with the bandwidth from then on.
type BandwidthSeries = (String, BandwidthChanges);

/// Returns bandwidths by kind, then by time.
fn bandwidth_series(loaded: &HtaTrace) -> Vec<BandwidthSeries> {
    let mut kinds: BTreeMap<&str, (BandwidthChanges, BandwidthChanges)> = BTreeMap::new();
    for row in loaded
        .rows
        .iter()
        .filter(|row| row.class == HtaClass::Memory)
    {
        let name = loaded.name(row);
        // HTA truncates the name to 11 characters: `Memcpy HtoD`.
        let kind = match () {
            () if name.starts_with("Memset") => "Memset",
            () if name.starts_with("Memcpy") => name.get(..11).unwrap_or(name),
            () => "Memcpy Unknown",
        };
        // A row without length lasts 1 µs.
        let end = if row.duration() == 0 {
            row.start
                .saturating_add((1.0 / loaded.unit_us).round() as i64)
        } else {
            row.end
        };
        let (starts, ends) = kinds.entry(kind).or_default();
        starts.push((row.start, row.gb_per_s, row.device));
        ends.push((end, -row.gb_per_s, row.device));
    }
    let series = |(kind, (starts, ends)): (&str, (BandwidthChanges, BandwidthChanges))| {
        let mut changes = [starts, ends].concat();
        // Starts precede ends and the sort is stable, as in HTA's concatenated frames.
        changes.sort_by_key(|change| change.0);
        let mut sum = 0.0;
        for (_, change, _) in &mut changes {
            sum += *change;
            *change = sum;
        }
        (kind.to_owned(), changes)
    };
    kinds.into_iter().map(series).collect()
}

pub(super) fn bandwidth_samples(loaded: &HtaTrace) -> Vec<BandwidthSample> {
    let first = loaded.starts().min().unwrap_or(0);
    let mut samples = vec![];
    for (kind, sums) in bandwidth_series(loaded) {
        samples.extend(sums.iter().map(|(time, sum, device)| BandwidthSample {
            rank: loaded.rank,
            ts: loaded.us(time.saturating_sub(first)),
            pid: *device,
            name: kind.clone(),
            memory_bw_gbps: *sum,
        }));
    }
    samples
}

pub(super) fn bandwidth_summaries(loaded: &HtaTrace) -> Vec<BandwidthSummary> {
    let summary = |(kind, sums): &BandwidthSeries| {
        let sums = sums.iter().map(|(_, sum, _)| *sum);
        let sums = sums.filter(|sum| *sum > 0.0);
        let (count, mean, std, [min, q25, q50, q75, max]) = describe(sums.collect())?;
        Some(BandwidthSummary {
            rank: loaded.rank,
            name: kind.clone(),
            memory_bw_gbps_count: count,
            memory_bw_gbps_mean: mean,
            memory_bw_gbps_std: std,
            memory_bw_gbps_min: min,
            memory_bw_gbps_25: q25,
            memory_bw_gbps_50: q50,
            memory_bw_gbps_75: q75,
            memory_bw_gbps_max: max,
        })
    };
    bandwidth_series(loaded)
        .iter()
        .filter_map(summary)
        .collect()
}
