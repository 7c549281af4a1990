//! Share of a device's multiprocessors that its kernels can fill.
//!
//! ```text
//! coverage of a kernel = min(blocks of its grid / multiprocessors of the device, 1)
//! by time = sum(coverage · duration) / sum(duration)         by row = mean of coverage
//! ```
//! `low` and `high` are shares of the kernels with coverage below 0.5 and above 0.7 (ccl-bench's
//! memory and compute bound). Kernels without a grid do not count; `time_share` is the share of
//! kernel time that the figures cover. The number of multiprocessors comes from the trace's device
//! properties or from `blocks per SM`.
//!
//! For ROCm, a kernel's grid is the one passed to its launch call (Kineto's `RoctracerLogger.cpp`
//! and `RocprofLogger.cpp`). It counts blocks, except for `hipExtModuleLaunchKernel` and
//! `hipHccModuleLaunchKernel`, where it counts threads (`globalWorkSizeX`), which are converted to
//! the blocks that hold them.

use crate::outside_time::OutsideRows;
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::NoLaunch;
use etlink_model::RowKind;
use serde::Serialize;

/// Coverage of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SmCoverage {
    /// Device number.
    pub device: i64,
    /// Number of multiprocessors of the device.
    pub multiprocessors: u32,
    /// Number of kernels with a grid.
    pub rows: u64,
    /// Share of all kernels' duration spent in these kernels, 0 to 1.
    pub time_share: f64,
    /// Mean coverage weighted by duration, 0 to 1.
    pub by_time: f64,
    /// Mean coverage per kernel, 0 to 1.
    pub by_row: f64,
    /// Share of the kernels below 0.5.
    pub low_share: f64,
    /// Share of the kernels above 0.7.
    pub high_share: f64,
}

/// Calls whose grid counts threads, not blocks.
const THREAD_GRID_CALLS: [&str; 2] = ["hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"];

/// Computes the coverage per device with a known number of multiprocessors. O(rows).
pub(crate) fn sm_coverage(rows: &ClassifiedRows<'_>, outside: &OutsideRows) -> Vec<SmCoverage> {
    let devices = rows.devices.iter().zip(&rows.of_devices);
    devices
        .filter_map(|(device, of_device)| device_coverage(rows, *device, of_device, outside))
        .collect()
}

/// Exact sums over the kernels of a device. A kernel's blocks are limited to the number of
/// multiprocessors.
#[derive(Default)]
struct CoverageSums {
    kernels: u64,
    low: u64,
    high: u64,
    blocks: u128,
    time: u128,
    blocks_by_time: u128,
    /// Time of all kernels, including those without a grid.
    all_time: u128,
}

fn device_coverage(
    rows: &ClassifiedRows<'_>,
    number: i64,
    of_device: &[usize],
    outside: &OutsideRows,
) -> Option<SmCoverage> {
    let device = &rows.trace.device;
    let multiprocessors = device.multiprocessors(number)?;
    let mut sums = CoverageSums::default();
    for &row in of_device {
        // Copies have no grid, and rows that are no work fill nothing.
        let is_work = rows.class[row] != RowClass::Other && !outside.contains_row(row);
        if device.rows.kind[row] != RowKind::Kernel || !is_work {
            continue;
        }
        let duration = u128::from(device.rows.duration[row].0.unsigned_abs());
        // The time of kernels without a grid is counted, so `time_share` shows the uncovered part.
        sums.all_time += duration;
        let blocks = kernel_blocks(rows, row);
        if blocks == 0 {
            continue;
        }
        let blocks = blocks.min(u128::from(multiprocessors));
        let filled = blocks as f64 / f64::from(multiprocessors);
        sums.kernels += 1;
        sums.low += u64::from(filled < 0.5);
        sums.high += u64::from(filled > 0.7);
        sums.blocks += blocks;
        sums.time += duration;
        sums.blocks_by_time = sums.blocks_by_time.saturating_add(blocks * duration);
    }
    let kernels = u128::from(sums.kernels);
    let places = u128::from(multiprocessors);
    (sums.kernels > 0).then(|| SmCoverage {
        device: number,
        multiprocessors,
        rows: sums.kernels,
        time_share: share_of(sums.time, sums.all_time),
        by_time: share_of(sums.blocks_by_time, sums.time * places),
        by_row: share_of(sums.blocks, kernels * places),
        low_share: share_of(u128::from(sums.low), kernels),
        high_share: share_of(u128::from(sums.high), kernels),
    })
}

/// Returns `part` divided by `whole`; 0 if `whole` is 0.
fn share_of(part: u128, whole: u128) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Returns the number of blocks of a kernel; 0 if its grid is unknown.
pub fn kernel_blocks(rows: &ClassifiedRows<'_>, row: usize) -> u128 {
    let (trace, device) = (rows.trace, &rows.trace.device);
    let call = if trace.row_no_launch[row] == NoLaunch::Launched {
        trace.row_call[row].get()
    } else {
        None
    };
    let in_threads = call.is_some_and(|call| {
        let name = device.names.get(device.calls.name[call.index()]);
        THREAD_GRID_CALLS.contains(&name)
    });
    let mut blocks = 1u128;
    for (grid, block) in device.rows.grid[row].iter().zip(&device.rows.block[row]) {
        let along_axis = if in_threads {
            grid.div_ceil(*block.max(&1))
        } else {
            *grid
        };
        blocks = blocks.saturating_mul(u128::from(along_axis));
    }
    blocks
}
