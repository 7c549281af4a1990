//! Share of a device's peak rates that its kernels use, if the peaks of the device are known
//! ([`DevicePeaks`]).
//!
//! Computation kernels count if they were launched and start in the window of [`Utilization`]: the
//! steps, or the recording if there are none:
//!
//! ```text
//! compute time     operations / peak of the precision; of products, convolutions and attention
//! memory time      bytes / bandwidth of the memory; each tensor once
//! covered          duration of kernels whose work is known / duration of all
//! mfu              sum(compute time) / (window - before)
//! roof share       sum(the longer of compute time and memory time) / duration of these kernels
//! bandwidth share  sum(memory time) / duration of these kernels
//! memory bound     duration of kernels whose memory time is the longer / duration of these kernels
//! ```
//! Work is known for ops with shapes, by [`etlink_link::roofline`]; for ops outside PyTorch
//! (`aten::`), only if PyTorch counts them or their library is known: no shape shows what
//! `vllm::moe_forward` computes, whose weights are no arguments. Kernels
//! of graph launches have an op only with the trace of the capture. If less than [`ENOUGH`] is covered, there are no shares.
//! Recomputed work counts each time, as in the HFU of others. Tensors that stay in caches need no
//! memory: they cause shares above 1.
//!
//! fp32 products count as TF32 if the kernel's name says so (`tf32`, or CUTLASS's `s1688`).

use crate::compute_rate::is_in_window;
use crate::device_peaks::{DevicePeaks, PeakTable, Precision};
use crate::outside_work::CountedWork;
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use crate::utilization::{Utilization, UtilizationWindow};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::LinkedTrace;
use etlink_link::roofline::{
    RooflineFormula, RooflineWork, has_all_arguments, op_work, row_op_texts, row_work,
};
use etlink_model::{RowIdx, RowKind};
use serde::Serialize;

/// Minimum covered share of the kernels' time for shares to be reported.
pub const ENOUGH: f64 = 0.9;

/// Use of the peaks of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeakUse {
    /// Device number.
    pub device: i64,
    /// Name of the device.
    pub name: String,
    /// Kind of the window for MFU.
    pub window: UtilizationWindow,
    /// Number of steps in the window.
    pub steps: u64,
    /// Length of the window without work from before the recording, ns.
    pub window_ns: i64,
    /// Data sheet with the peaks.
    pub sheet: String,
    /// Share of the kernels' duration with known work, 0 to 1.
    pub covered: f64,
    /// Compute time divided by the window.
    pub mfu: Option<f64>,
    /// Roof time divided by the duration of the kernels.
    pub roof_share: Option<f64>,
    /// Memory time divided by the duration of the kernels.
    pub bandwidth_share: Option<f64>,
    /// Share of the kernels' duration that is memory-bound, 0 to 1.
    pub memory_bound: Option<f64>,
    /// Peak memory bandwidth, GB/s.
    pub gb_per_s: Option<f64>,
    /// Peak link bandwidth, one way, GB/s.
    pub link_gb_per_s: Option<f64>,
}

/// Running totals over the kernels of a device.
#[derive(Default)]
struct WorkSums {
    all_ns: i64,
    covered_ns: i64,
    memory_bound_ns: i64,
    compute_ns: f64,
    memory_ns: f64,
    roof_ns: f64,
}

/// Computes the use of the peaks per device with known peaks. O(ops + rows).
pub(crate) fn peak_uses(
    rows: &ClassifiedRows<'_>,
    devices: &[Utilization],
    counted: &CountedWork<'_>,
) -> Vec<PeakUse> {
    let table = PeakTable::default();
    let known: Vec<Option<(&str, DevicePeaks)>> = rows
        .devices
        .iter()
        .map(|device| device_peaks(&table, rows.trace, *device))
        .collect();
    if known.iter().all(Option::is_none) {
        return vec![];
    }
    let work = row_work(rows.trace, &op_work(rows.trace));
    let mut uses = vec![];
    for (at, known) in known.into_iter().enumerate() {
        let number = rows.devices[at];
        let window = devices.iter().find(|one| one.device == Some(number));
        if let (Some((name, peaks)), Some(window)) = (known, window) {
            let of_device = rows.of_devices[at].iter().copied();
            let of_window = of_device.filter(|row| is_in_window(rows, *row, window));
            let launched = of_window.filter(|row| counted.row_cause(*row).is_none());
            let sums = sum_work(rows, launched, &work, &peaks);
            uses.extend(sums.peak_use(number, name, &peaks, window));
        }
    }
    uses
}

/// Returns the name and the peaks of a device; `None` if they are unknown.
pub(crate) fn device_peaks<'t>(
    table: &PeakTable,
    trace: &'t LinkedTrace,
    device: i64,
) -> Option<(&'t str, DevicePeaks)> {
    let name = trace.device.header.device_name(device)?;
    let peaks = table.find(name, trace.device.multiprocessors(device))?;
    Some((name, peaks))
}

/// Returns the rate of the links of a trace's devices to each other, GB/s, one way, by data sheet;
/// `None` if it is unknown or differs between the devices.
pub fn link_gb_per_s(trace: &LinkedTrace) -> Option<f64> {
    let table = PeakTable::default();
    let devices = trace.device.queues.iter().map(|queue| queue.device);
    let rates = devices.map(|device| device_peaks(&table, trace, device)?.1.link_gb_per_s);
    let rates: Option<Vec<f64>> = rates.collect();
    let rates = rates?;
    let first = *rates.first()?;
    rates.iter().all(|rate| *rate == first).then_some(first)
}

fn sum_work(
    rows: &ClassifiedRows<'_>,
    some: impl Iterator<Item = usize>,
    work: &[RooflineWork],
    peaks: &DevicePeaks,
) -> WorkSums {
    let table = &rows.trace.device.rows;
    let mut sums = WorkSums::default();
    for row in some {
        let is_kernel = table.kind[row] == RowKind::Kernel;
        if !is_kernel || rows.class[row] != RowClass::Computation {
            continue;
        }
        let ns = table.duration[row].0;
        sums.all_ns = sums.all_ns.saturating_add(ns);
        let Some(compute_ns) = compute_time(rows.trace, row, &work[row], peaks) else {
            continue;
        };
        // without the memory's peak, there is only compute time
        let memory_ns = memory_time(&work[row], peaks).unwrap_or(0.0);
        sums.covered_ns = sums.covered_ns.saturating_add(ns);
        sums.compute_ns += compute_ns;
        sums.memory_ns += memory_ns;
        sums.roof_ns += compute_ns.max(memory_ns);
        if memory_ns > compute_ns {
            sums.memory_bound_ns = sums.memory_bound_ns.saturating_add(ns);
        }
    }
    sums
}

/// Operations divided by their peak rate, ns; `None` if the work or the rate is unknown.
pub(crate) fn compute_time(
    trace: &LinkedTrace,
    row: usize,
    work: &RooflineWork,
    peaks: &DevicePeaks,
) -> Option<f64> {
    if !is_known(trace, row, work) {
        return None;
    }
    if !work.formula.is_counted() {
        return Some(0.0);
    }
    let kernel = trace.device_name(trace.device.rows.name[row]);
    let (_, types) = row_op_texts(trace, RowIdx::new(row))?;
    let precision = precision(types, kernel)?;
    // 10¹² operations per second are 10³ per ns
    Some(work.operations as f64 / (peaks.tflops(precision)? * 1e3))
}

/// Bytes divided by the peak bandwidth of the memory, ns; `None` if that is unknown.
pub(crate) fn memory_time(work: &RooflineWork, peaks: &DevicePeaks) -> Option<f64> {
    Some(work.bytes as f64 / peaks.gb_per_s?)
}

/// Returns true if the work of a row is known: see the module's documentation.
pub(crate) fn is_known(trace: &LinkedTrace, row: usize, work: &RooflineWork) -> bool {
    let op = || row_op_texts(trace, RowIdx::new(row)).map(|(name, _)| name);
    is_known_by(work.formula, op)
}

/// Returns true if a formula states the work of an op of this name, which is asked for if it
/// matters.
pub(crate) fn is_known_by<'t>(
    formula: RooflineFormula,
    op: impl FnOnce() -> Option<&'t str>,
) -> bool {
    match formula {
        RooflineFormula::None | RooflineFormula::Unknown => false,
        RooflineFormula::Copy => true,
        formula if formula.is_counted() => true,
        _ => op().is_some_and(has_all_arguments),
    }
}

/// Returns the precision of the first tensor: a multiplying op takes the factors first.
fn precision(types: &str, kernel: &str) -> Option<Precision> {
    for text in types.split('"').skip(1).step_by(2) {
        let dtype = match text.split_once("Tensor(") {
            Some((_, inner)) => inner.split(')').next().unwrap_or(inner),
            None => text,
        };
        return Some(match dtype.trim_start_matches("c10::") {
            "double" => Precision::Fp64,
            "float" if kernel.contains("tf32") || kernel.contains("s1688") => Precision::Tf32,
            "float" => Precision::Fp32,
            "Half" => Precision::Fp16,
            "BFloat16" => Precision::Bf16,
            dtype if dtype.starts_with("Float8") => Precision::Fp8,
            // a scalar, or a list whose types are not recorded
            _ => continue,
        });
    }
    None
}

impl WorkSums {
    /// Computes the record of a device; `None` without kernels.
    fn peak_use(
        &self,
        device: i64,
        name: &str,
        peaks: &DevicePeaks,
        window: &Utilization,
    ) -> Option<PeakUse> {
        let covered = share(self.covered_ns as f64, self.all_ns)?;
        let is_enough = covered >= ENOUGH;
        let kernels_share = |part: f64| {
            let has_memory = is_enough && peaks.gb_per_s.is_some();
            if has_memory {
                share(part, self.covered_ns)
            } else {
                None
            }
        };
        Some(PeakUse {
            device,
            name: name.to_owned(),
            window: window.window,
            steps: window.steps,
            window_ns: window.whole_ns(),
            sheet: peaks.sheet.clone(),
            covered,
            mfu: if is_enough {
                share(self.compute_ns, window.whole_ns())
            } else {
                None
            },
            roof_share: kernels_share(self.roof_ns),
            bandwidth_share: kernels_share(self.memory_ns),
            memory_bound: kernels_share(self.memory_bound_ns as f64),
            gb_per_s: peaks.gb_per_s,
            link_gb_per_s: peaks.link_gb_per_s,
        })
    }
}

/// Returns `part` divided by `whole_ns`; `None` if that is 0.
fn share(part: f64, whole_ns: i64) -> Option<f64> {
    (whole_ns > 0).then(|| part / whole_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_of_ops() {
        for (types, kernel, want) in [
            (r#"["float", "float"]"#, "sgemm", Some(Precision::Fp32)),
            (
                r#"["float", "float"]"#,
                "cutlass_80_tensorop_s1688gemm_128x128",
                Some(Precision::Tf32),
            ),
            (
                r#"["Scalar", "c10::BFloat16"]"#,
                "gemm",
                Some(Precision::Bf16),
            ),
            (
                r#"["Tensor(c10::Half)", "Tensor(c10::Half)"]"#,
                "gemm",
                Some(Precision::Fp16),
            ),
            (
                r#"["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float"]"#,
                "gemm",
                Some(Precision::Fp8),
            ),
            (r#"["signed char"]"#, "gemm", None),
            ("", "gemm", None),
        ] {
            assert_eq!(precision(types, kernel), want, "{types} {kernel}");
        }
    }
}
