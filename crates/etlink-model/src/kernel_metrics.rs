//! What a profiler of metrics counted of kernels: before it is joined to a trace, and after.
//!
//! Nsight Compute and CUPTI's range profiler run one kernel at a time, often several times, and
//! count what its times cannot show: bytes of memory, instructions, occupancy. They know nothing of
//! correlation ids. What they counted is joined by the order of launches.

use crate::columns::columns;
use crate::{CallIdx, NameId, Names, RowIdx};

columns! {
    /// Kernels that were profiled, in the order in which they were launched.
    table ProfiledKernels;
    /// Such a kernel.
    row ProfiledKernel {
        /// Its name, with or without parameters, in [`MetricProfile::names`].
        name: NameId,
        /// Process id, -1 = not known.
        process: i64,
        /// Blocks in x, y, z; zeros = not known.
        grid: [u32; 3],
        /// Threads of a block in x, y, z; zeros = not known.
        block: [u32; 3],
    }
}

columns! {
    /// Metrics of profiled kernels, by kernel.
    table ProfiledMetrics;
    /// A metric of a kernel.
    row ProfiledMetric {
        /// Row of [`MetricProfile::kernels`].
        kernel: u32,
        /// Its name (`dram__bytes.sum`), in [`MetricProfile::names`].
        metric: NameId,
        /// Its unit as written (`Mbyte`); empty = a count.
        unit: NameId,
        /// Its value, in that unit.
        value: f64,
    }
}

/// What a metric profiler wrote of a program.
#[derive(Clone, Debug, Default)]
pub struct MetricProfile {
    /// Strings.
    pub names: Names,
    /// Kernels by launch.
    pub kernels: ProfiledKernels,
    /// Their metrics.
    pub metrics: ProfiledMetrics,
    /// Lines that could not be read and were left out.
    pub damaged_lines: u64,
}

columns! {
    /// Metrics that were joined to the kernels of a trace, by kernel.
    table KernelMetrics;
    /// A metric of a kernel.
    row KernelMetric {
        /// The kernel's row; none where the trace has only its launch.
        row: RowIdx,
        /// The call that launched it, where that is known.
        call: CallIdx,
        /// Its name, in the names of the device trace.
        metric: NameId,
        /// Its unit as written; empty = a count.
        unit: NameId,
        /// Its value, in that unit.
        value: f64,
    }
}
