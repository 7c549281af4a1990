//! Computing rate of devices: floating point operations of kernels whose ops are matrix
//! multiplications, convolutions or attention.
//!
//! Operations follow from the shapes in the traces, by the formulas of `torch.utils.flop_counter`
//! ([`etlink_link::roofline`]). An op's operations are divided among its kernels.
//!
//! ```text
//! tflops = operations / (window - before), as in `Utilization`: the steps, or the recording
//! busy_tflops = operations / sum of these kernels' durations
//! both: operations per ns / 1000
//! ```
//! Recomputed work counts each time it runs. Not counted are kernels without an op (graph
//! launches), kernels whose op has no shapes (`record_shapes` was off), and kernels launched
//! before the recording or the first step. Both figures are then too low, the first one more so.

use crate::outside_work::CountedWork;
use crate::rows::ClassifiedRows;
use crate::utilization::{Utilization, UtilizationWindow};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::roofline::{RooflineWork, op_work, row_work};
use serde::Serialize;

/// Computing rate of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComputeRate {
    /// Device number.
    pub device: i64,
    /// Number of kernels with known operations.
    pub rows: u64,
    /// Sum of the kernels' operations; a multiplication and an addition count as two.
    pub operations: u64,
    /// Sum of the kernels' durations, ns.
    pub sum_ns: i64,
    /// Kind of the window.
    pub window: UtilizationWindow,
    /// Number of steps in the window.
    pub steps: u64,
    /// Length of the window without work from before the recording: [`Utilization::whole_ns`].
    pub window_ns: i64,
    /// 10¹² operations per second of the window.
    pub tflops: f64,
    /// 10¹² operations per second of the kernels' durations.
    pub busy_tflops: f64,
}

/// Returns the rates of devices with such kernels. `devices` lists all devices with rows. O(ops +
/// rows).
pub(crate) fn compute_rates(
    rows: &ClassifiedRows<'_>,
    devices: &[Utilization],
    counted: &CountedWork<'_>,
) -> Vec<ComputeRate> {
    let work = row_work(rows.trace, &op_work(rows.trace));
    devices
        .iter()
        .zip(&rows.of_devices)
        .filter_map(|(time, which)| device_compute_rate(rows, &work, which, time, counted))
        .collect()
}

fn device_compute_rate(
    rows: &ClassifiedRows<'_>,
    work: &[RooflineWork],
    which: &[usize],
    time: &Utilization,
    counted: &CountedWork<'_>,
) -> Option<ComputeRate> {
    let window_ns = time.whole_ns();
    let mut found = ComputeRate {
        device: time.device?,
        window: time.window,
        steps: time.steps,
        window_ns,
        ..ComputeRate::default()
    };
    for row in which
        .iter()
        .copied()
        // `flop_counter` counts products, convolutions and attention; for other ops only bytes are
        // known.
        .filter(|row| work[*row].formula.is_counted())
        .filter(|row| is_in_window(rows, *row, time) && counted.row_cause(*row).is_none())
    {
        found.rows += 1;
        found.operations = found.operations.saturating_add(work[row].operations);
        found.sum_ns = found
            .sum_ns
            .saturating_add(rows.trace.device.rows.duration[row].0);
    }
    found.tflops = tera_per_second(found.operations, window_ns);
    found.busy_tflops = tera_per_second(found.operations, found.sum_ns);
    (found.operations > 0).then_some(found)
}

/// Returns true if a row starts in the window of its rate.
pub(crate) fn is_in_window(rows: &ClassifiedRows<'_>, row: usize, time: &Utilization) -> bool {
    let until = time.start_ns.saturating_add(time.window_ns);
    (time.start_ns..until).contains(&rows.trace.device.rows.start[row].0)
}

/// Converts to 10¹² operations per second; operations per ns are 10⁹ per second. 0 if the time is
/// 0.
fn tera_per_second(operations: u64, ns: i64) -> f64 {
    if ns > 0 {
        operations as f64 / ns as f64 / 1e3
    } else {
        0.0
    }
}
