//! Memory over time for a chart: points of `analyze`'s `memory_timeline`, reduced to the lowest and
//! highest point per section if there are too many.

use borsh::{BorshDeserialize, BorshSerialize};
use etlink_analysis::memory::{device_type_name, read_device_type};
use etlink_analysis::{MemoryPoint, MemoryUse};
use etlink_formats::memory_snapshot::DeviceMemory;
use indexmap::IndexMap;
use serde::Serialize;

/// Memory of one device, as columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
pub struct MemoryChart {
    #[borsh(deserialize_with = "read_device_type")]
    device_type: &'static str,
    device: i64,
    /// Number of points before reduction.
    points: usize,
    /// Times in ns since the trace's origin, as differences to the previous point.
    time_ns: Vec<i64>,
    allocated_bytes: Vec<i64>,
    reserved_bytes: Vec<u64>,
    /// Largest allocation stacks, those with most memory at the peak first; none without a
    /// snapshot of the allocator.
    stacks: Vec<StackCurve>,
}

impl MemoryChart {
    /// Returns the innermost frame of the stack with most memory at the peak, and that memory in
    /// bytes.
    pub(super) fn largest_stack(&self) -> Option<(&str, u64)> {
        let stack = self.stacks.first()?;
        Some((stack.name.split(" < ").next()?, stack.peak_bytes))
    }
}

/// Memory allocated by one stack, at the times of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
pub struct StackCurve {
    name: String,
    peak_bytes: u64,
    bytes: Vec<u64>,
}

/// Creates the chart and the summary of a device from a snapshot of the allocator.
pub fn snapshot_chart(memory: &DeviceMemory) -> (MemoryChart, MemoryUse) {
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let series = &memory.timeline;
    let mut before = 0;
    let times = series.time_ns.iter();
    let chart = MemoryChart {
        device_type: device_type_name(CUDA),
        device: memory.device,
        points: usize::try_from(memory.allocations + memory.frees).unwrap_or(usize::MAX),
        time_ns: times
            .map(|time| time - std::mem::replace(&mut before, *time))
            .collect(),
        allocated_bytes: series.allocated_bytes.iter().copied().map(signed).collect(),
        reserved_bytes: series.reserved_bytes.clone(),
        stacks: memory
            .stacks
            .iter()
            .zip(&series.stack_bytes)
            .map(|(stack, bytes)| StackCurve {
                name: stack.text(),
                peak_bytes: stack.peak_bytes,
                bytes: bytes.clone(),
            })
            .collect(),
    };
    let end = chart.allocated_bytes.last().copied().unwrap_or_default();
    let summary = MemoryUse {
        device_type: chart.device_type,
        device: memory.device,
        allocations: memory.allocations,
        frees: memory.frees,
        allocated_sum_bytes: signed(memory.stacks.iter().map(|one| one.allocated_bytes).sum()),
        start_bytes: chart.allocated_bytes.first().copied().unwrap_or_default(),
        end_bytes: end,
        peak_bytes: signed(memory.peak.allocated_bytes),
        peak_ns: memory.peak.time_ns,
        peak_reserved_bytes: series
            .reserved_bytes
            .iter()
            .copied()
            .max()
            .unwrap_or_default(),
    };
    (chart, summary)
}

/// Number of CUDA among `c10::DeviceType`; snapshots exist of CUDA's allocator only.
const CUDA: i32 = 1;

/// Creates charts with at most `most` points each. O(n).
pub fn memory_charts(points: &[MemoryPoint], most: usize) -> Vec<MemoryChart> {
    let mut devices: IndexMap<(&'static str, i64), Vec<&MemoryPoint>> = IndexMap::new();
    for point in points {
        devices
            .entry((point.device_type, point.device))
            .or_default()
            .push(point);
    }
    devices.sort_unstable_keys();
    devices
        .into_iter()
        .map(|((device_type, device), points)| memory_chart(device_type, device, &points, most))
        .collect()
}

fn memory_chart(
    device_type: &'static str,
    device: i64,
    points: &[&MemoryPoint],
    most: usize,
) -> MemoryChart {
    let mut chart = MemoryChart {
        device_type,
        device,
        points: points.len(),
        ..MemoryChart::default()
    };
    let mut before = 0;
    for at in kept_points(points, most) {
        let Some(point) = points.get(at) else {
            continue;
        };
        // Differences of times compress better than times, as in timelines.
        chart.time_ns.push(point.time_ns.saturating_sub(before));
        chart.allocated_bytes.push(point.allocated_bytes);
        chart.reserved_bytes.push(point.reserved_bytes);
        before = point.time_ns;
    }
    chart
}

/// Returns the places of kept points: the first and last, and per section the lowest, the highest
/// and the one with most reserved memory.
fn kept_points(points: &[&MemoryPoint], most: usize) -> Vec<usize> {
    if points.len() <= most {
        return (0..points.len()).collect();
    }
    // A section keeps three points, and two more are the ends of the whole.
    let each = points.len().div_ceil((most.saturating_sub(2) / 3).max(1));
    let mut kept = vec![0, points.len() - 1];
    for (stretch, of) in points.chunks(each).enumerate() {
        let places = || (0..of.len()).rev();
        // Among equal points the last lowest and the first highest stay: there the line leaves its
        // bottom and reaches its top.
        let low = places().min_by_key(|at| of[*at].allocated_bytes);
        let high = places()
            .rev()
            .max_by_key(|at| (of[*at].allocated_bytes, std::cmp::Reverse(*at)));
        let reserved = places().max_by_key(|at| of[*at].reserved_bytes);
        kept.extend(
            [low, high, reserved]
                .into_iter()
                .flatten()
                .map(|at| stretch * each + at),
        );
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_points_the_extremes_are_kept() {
        let point = |at: i64| MemoryPoint {
            time_ns: at * 10,
            device_type: "cuda",
            device: 0,
            bytes: 1,
            allocated_bytes: at % 100,
            reserved_bytes: 7,
        };
        let mut points: Vec<MemoryPoint> = (0..10_000).map(point).collect();
        points[4_321].allocated_bytes = 1_000_000;
        points[7_777].allocated_bytes = -5;
        points[8_888].reserved_bytes = 99;
        points.push(MemoryPoint {
            device_type: "cpu",
            device: -1,
            ..point(3)
        });
        let charts = memory_charts(&points, 60);
        let [cpu, cuda] = &charts[..] else {
            panic!("two devices")
        };
        assert_eq!(
            (cpu.device_type, cpu.points, &cpu.time_ns[..]),
            ("cpu", 1, &[30][..])
        );
        assert_eq!(
            (cuda.points, cuda.time_ns.len() <= 60),
            (10_000, true),
            "{}",
            cuda.time_ns.len()
        );
        let times: Vec<i64> = cuda
            .time_ns
            .iter()
            .scan(0, |at, step| Some(std::mem::replace(at, *at + step) + step))
            .collect();
        let at = |time: i64| {
            times
                .iter()
                .position(|of| *of == time)
                .map(|at| (cuda.allocated_bytes[at], cuda.reserved_bytes[at]))
        };
        assert_eq!(
            [at(0), at(43_210), at(77_770), at(99_990)],
            [
                Some((0, 7)),
                Some((1_000_000, 7)),
                Some((-5, 7)),
                Some((99, 7))
            ]
        );
        assert!(at(88_880).is_some_and(|(_, reserved)| reserved == 99));
    }
}
