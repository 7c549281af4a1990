//! Kernel metrics counted by a profiler, before and after they are joined to a trace.
//!
//! Nsight Compute and CUPTI's range profiler run one kernel at a time, often several times, and
//! count what its times cannot show: bytes of memory, instructions, occupancy. Their output has no
//! correlation ids, so it is joined by the order of launches.

use crate::columns::columns;
use crate::{CallIdx, NameId, Names, RowIdx};

columns! {
    /// Profiled kernels, in launch order.
    table ProfiledKernels;
    /// One profiled kernel.
    row ProfiledKernel {
        /// Kernel name, with or without parameters, in [`MetricProfile::names`].
        name: NameId,
        /// Process id; -1 = unknown.
        process: i64,
        /// Blocks in x, y, z; zeros = unknown.
        grid: [u32; 3],
        /// Threads per block in x, y, z; zeros = unknown.
        block: [u32; 3],
    }
}

columns! {
    /// Metrics of profiled kernels, by kernel.
    table ProfiledMetrics;
    /// One metric of one kernel.
    row ProfiledMetric {
        /// Row of [`MetricProfile::kernels`].
        kernel: u32,
        /// Metric name (`dram__bytes.sum`), in [`MetricProfile::names`].
        metric: NameId,
        /// Unit as written (`Mbyte`); empty = a count.
        unit: NameId,
        /// Metric value in `unit`.
        value: f64,
    }
}

/// Output of a metric profiler for one program.
#[derive(Clone, Debug, Default)]
pub struct MetricProfile {
    /// Strings of both tables.
    pub names: Names,
    /// Kernels in launch order.
    pub kernels: ProfiledKernels,
    /// Metrics of the kernels.
    pub metrics: ProfiledMetrics,
    /// Number of unreadable lines, which were skipped.
    pub damaged_lines: u64,
}

columns! {
    /// Metrics that were joined to the kernels of a trace, by kernel.
    table KernelMetrics;
    /// One metric of one kernel.
    row KernelMetric {
        /// Row of the kernel; `RowIdx::NONE` if the trace has only its launch.
        row: RowIdx,
        /// Launch call of the kernel; `CallIdx::NONE` if unknown.
        call: CallIdx,
        /// Metric name, in the names of the device trace.
        metric: NameId,
        /// Unit as written; empty = a count.
        unit: NameId,
        /// Metric value in `unit`.
        value: f64,
    }
}
