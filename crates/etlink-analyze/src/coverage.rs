//! How much of a device its kernels can fill.
//!
//! ```text
//! coverage of a kernel = min(blocks of its grid / multiprocessors of the device, 1)
//! by time = sum(coverage · duration) / sum(duration)         by row = mean of coverage
//! ```
//! `low` and `high` are parts of the kernels with coverage under 0.5 and above 0.7 (ccl-bench's memory and compute bound). Kernels without
//! a grid do not count; `time_share` tells of how much of the kernels' time the figures speak. The number of multiprocessors is what the trace's device properties or `blocks per SM` say.
//!
//! Of ROCm a kernel's grid is what its launch call was given (Kineto's `RoctracerLogger.cpp` and `RocprofLogger.cpp`): blocks, but threads for
//! `hipExtModuleLaunchKernel` and `hipHccModuleLaunchKernel` (`globalWorkSizeX`), which become the blocks that hold them.

use crate::rows::Rows;
use crate::rules::Class;
use etlink_link::NoLaunch;
use etlink_model::RowKind;
use serde::Serialize;

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Coverage {
    /// Device number.
    pub device: i64,
    /// Multiprocessors of the device.
    pub multiprocessors: u32,
    /// Kernels with a grid.
    pub rows: u64,
    /// Part of all kernels' duration that is theirs; 0 to 1.
    pub time_share: f64,
    /// Mean coverage, by duration; 0 to 1.
    pub by_time: f64,
    /// Mean coverage, by kernel; 0 to 1.
    pub by_row: f64,
    /// Part of the kernels under 0.5.
    pub low_share: f64,
    /// Part of the kernels above 0.7.
    pub high_share: f64,
}

/// Calls that are given a grid of threads.
const OF_THREADS: [&str; 2] = ["hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"];

/// Per device whose multiprocessors are known. O(rows).
pub(crate) fn coverage(rows: &Rows<'_>) -> Vec<Coverage> {
    rows.devices
        .iter()
        .zip(&rows.of_devices)
        .filter_map(|(device, which)| of(rows, *device, which))
        .collect()
}

fn of(rows: &Rows<'_>, number: i64, which: &[usize]) -> Option<Coverage> {
    let device = &rows.trace.device;
    let multiprocessors = device.multiprocessors(number)?;
    // exact sums of blocks, of which no more count than there are multiprocessors
    let (mut count, mut low, mut high, mut blocks_sum, mut time, mut weighted) =
        (0u64, 0u64, 0u64, 0u128, 0u128, 0u128);
    let mut whole = 0u128;
    for row in which
        .iter()
        .copied()
        .filter(|row| device.rows.kind[*row] == RowKind::Kernel && rows.class[*row] != Class::Other)
    {
        let (blocks, duration) = (
            blocks(rows, row),
            u128::from(device.rows.duration[row].0.unsigned_abs()),
        );
        whole += duration;
        if blocks == 0 {
            continue;
        }
        let blocks = blocks.min(u128::from(multiprocessors));
        let filled = blocks as f64 / f64::from(multiprocessors);
        count += 1;
        low += u64::from(filled < 0.5);
        high += u64::from(filled > 0.7);
        (blocks_sum, time, weighted) = (
            blocks_sum + blocks,
            time + duration,
            weighted.saturating_add(blocks * duration),
        );
    }
    let part = |part: u128, whole: u128| {
        if whole == 0 {
            0.0
        } else {
            part as f64 / whole as f64
        }
    };
    let all = u128::from(count);
    (count > 0).then(|| Coverage {
        device: number,
        multiprocessors,
        rows: count,
        time_share: part(time, whole),
        by_time: part(weighted, time * u128::from(multiprocessors)),
        by_row: part(blocks_sum, all * u128::from(multiprocessors)),
        low_share: part(u128::from(low), all),
        high_share: part(u128::from(high), all),
    })
}

/// Blocks of a kernel, 0 = not said.
fn blocks(rows: &Rows<'_>, row: usize) -> u128 {
    let (trace, device) = (rows.trace, &rows.trace.device);
    let call = trace.row_call[row]
        .get()
        .filter(|_| trace.row_no_launch[row] == NoLaunch::Launched);
    let in_threads = call.is_some_and(|call| {
        OF_THREADS.contains(&device.names.get(device.calls.name[call.index()]))
    });
    let blocks = |(grid, block): (&u32, &u32)| {
        u128::from(if in_threads {
            grid.div_ceil(*block.max(&1))
        } else {
            *grid
        })
    };
    device.rows.grid[row]
        .iter()
        .zip(&device.rows.block[row])
        .map(blocks)
        .fold(1, u128::saturating_mul)
}
