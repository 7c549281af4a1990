//! What devices compute: floating point operations of the kernels whose ops are multiplications of
//! matrices, convolutions or attention.
//!
//! Operations follow from the shapes in the traces by the formulas of `torch.utils.flop_counter`
//! ([`etlink_link::roofline`]); an op's are shared by its kernels.
//!
//! ```text
//! tflops = operations / (window - before), as in `Utilization`: the steps, or the recording
//! busy_tflops = operations / sum of these kernels' durations
//! both: operations per ns / 1000
//! ```
//! What is recomputed counts each time that it runs. Kernels without an op (graph launches) or
//! whose op has no shapes (`record_shapes` was off) do not count, nor do those that were launched
//! before the recording or the first step. Then both figures are too low, the first more so.

use crate::outside_work::CountedWork;
use crate::rows::ClassifiedRows;
use crate::utilization::{Utilization, UtilizationWindow};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::roofline::{RooflineWork, op_work, row_work};
use serde::Serialize;

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComputeRate {
    /// Device number.
    pub device: i64,
    /// Kernels whose operations are known.
    pub rows: u64,
    /// Sum of their operations; a multiplication and an addition are two.
    pub operations: u64,
    /// Sum of their durations, ns.
    pub sum_ns: i64,
    /// What the window is of.
    pub window: UtilizationWindow,
    /// Steps in the window.
    pub steps: u64,
    /// The window, less what is from before the recording: [`Utilization::whole_ns`].
    pub window_ns: i64,
    /// 10¹² operations per second of the window.
    pub tflops: f64,
    /// 10¹² operations per second of these kernels' time.
    pub busy_tflops: f64,
}

/// Per device with such kernels; `devices` are all those that have rows. O(ops + rows).
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
        // `flop_counter` counts products, convolutions and attention; of other ops only bytes are
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

/// Whether a row starts in the window that its rate is of.
pub(crate) fn is_in_window(rows: &ClassifiedRows<'_>, row: usize, time: &Utilization) -> bool {
    let until = time.start_ns.saturating_add(time.window_ns);
    (time.start_ns..until).contains(&rows.trace.device.rows.start[row].0)
}

/// 10¹² operations per second; operations per ns are 10⁹ per second. 0 of no time.
fn tera_per_second(operations: u64, ns: i64) -> f64 {
    if ns > 0 {
        operations as f64 / ns as f64 / 1e3
    } else {
        0.0
    }
}
