//! The numbers that HolisticTraceAnalysis (HTA, f4d0062, 0.6.1) gives, by its own definitions, for comparison with older results.
//!
//! ```text
//! rows      what HTA takes for device rows, its classes, its rounding, its filter of steps
//! times     temporal breakdown, overlap, type table
//! kernels   kernel table, idle time, launches
//! series    queue lengths and memory bandwidth, summed up over samples
//! ```
//! Where these differ from this crate's own analyses, and why:
//!
//! - *Rounding*: starts are rounded up and ends down to whole microseconds, so that a row loses up to 2 us and short ones last 0 or -1 us
//!   ([`Settings::nanoseconds`] leaves times as they are, as `HTA_DISABLE_NS_ROUNDING=1` does).
//! - *Device rows* are events with a stream other than -1: also waits (`cuda_sync`) and CPU ops that launch Triton kernels.
//! - *Classes* go by the names alone: `hipMemcpy…` is communication; a name with `dma` or that has `Sync` anywhere is no computation;
//!   MSCCL++, NVSHMEM, symmetric memory, custom all-reduces and arguments of collectives are not known.
//! - *Steps*: in a trace with two or more `ProfilerStep#N`, what the host did from the last one's start on is left out, with what it
//!   launched ([`Settings::include_last`]: what came after its end), and device rows without a host call. Where HTA joins on correlation, a
//!   row comes once for each call with its id, as here; rows without an id, which HTA repeats for each host event without one, are left out.
//!   HTA also takes steps on the device (`gpu_user_annotation`) for the last step's start; these rows are not read.
//! - *Idle time* of a stream counts from the end of the row before, not from the latest end: it can be negative where rows overlap. `kernel_wait` is
//!   a gap under 30 us after a launch in time. A row whose call is not in the trace was launched when the file's first event began.
//! - *Launches* are `cudaLaunchKernel`, `cudaLaunchKernelExC`, `cudaMemcpyAsync`, `cudaMemsetAsync` and MTIA's `runFunction`: none of HIP, of the driver or of graphs.
//!   The queue's length also counts driver and HIP launches; of a graph launch it counts the last row.
//! - *Ranks*: HTA adds up the type table over ranks; here it is that of each.
//! - *Means* of queue length and bandwidth are over samples (changes), not over time; a copy without length lasts 1 us.
//! - *Kernel table*: HTA folds names beyond the first ten into `others` and takes means of sums there; this is the whole table, which HTA gives for
//!   `num_kernels` large and `duration_ratio=1`.
//!
//! HTA fails where we answer: with `assert non_compute_time >= 0` where rounding makes the classes longer than the whole, with
//! `assert len(launch) == len(kernels)` on graphs. Not here: annotations on the device, CUPTI counters, stragglers (which look
//! for kernels that NCCL has renamed), `duration_at_max_queue_length`.

mod kernels;
mod rows;
mod series;
mod times;

pub use kernels::{IdleTime, KernelStats, LaunchStats};
pub use series::{BandwidthSummary, QueueSummary};
pub use times::{CommCompOverlap, KernelType, TemporalBreakdown};

use crate::rules::RulesError;
use etlink_link::LinkedTrace;
use rows::{Loaded, Patterns};
use serde::Serialize;

/// What HTA can be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `include_last_profiler_step=True`.
    pub include_last: bool,
    /// `HTA_DISABLE_NS_ROUNDING=1`.
    pub nanoseconds: bool,
}

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $row:ty,)*) => {
        /// HTA's tables of one rank, with its names of columns.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct Tables { $($(#[$doc])* pub $name: Vec<$row>,)* }

        impl Tables {
            /// A blank record in each table: the columns that it has.
            pub fn blank() -> Tables {
                Tables { $($name: vec![<$row>::default()],)* }
            }
        }

        /// Their names.
        pub const TABLES: &[&str] = &[$(stringify!($name)),*];
    };
}

tables! {
    /// `get_temporal_breakdown`.
    temporal_breakdown: TemporalBreakdown,
    /// `get_comm_comp_overlap`.
    comm_comp_overlap: CommCompOverlap,
    /// `get_gpu_kernel_breakdown`, first table.
    kernel_type_breakdown: KernelType,
    /// `get_gpu_kernel_breakdown`, second table, all names.
    kernel_breakdown: KernelStats,
    /// `get_idle_time_breakdown`.
    idle_time_breakdown: IdleTime,
    /// `get_cuda_kernel_launch_stats`, memory calls included.
    cuda_kernel_launch_stats: LaunchStats,
    /// `get_queue_length_summary`.
    queue_length_summary: QueueSummary,
    /// `get_memory_bw_summary`.
    memory_bw_summary: BandwidthSummary,
    /// `get_profiler_steps`.
    profiler_steps: ProfilerStep,
}

/// The number of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ProfilerStep {
    /// `N` of `ProfilerStep#N`.
    pub step: u64,
}

/// HTA's numbers for one rank. O(n log n).
///
/// # Errors
/// None: HTA's patterns are right.
pub fn tables(trace: &LinkedTrace, settings: Settings) -> Result<Tables, RulesError> {
    let loaded = Loaded::new(trace, &Patterns::new()?, settings);
    Ok(Tables {
        temporal_breakdown: vec![times::temporal(&loaded)],
        comm_comp_overlap: vec![times::overlap(&loaded)],
        kernel_type_breakdown: times::types(&loaded),
        kernel_breakdown: kernels::kernels(&loaded),
        idle_time_breakdown: kernels::idle(&loaded),
        cuda_kernel_launch_stats: kernels::launches(&loaded),
        queue_length_summary: series::queues(&loaded),
        memory_bw_summary: series::bandwidth(&loaded),
        profiler_steps: loaded.steps.iter().map(|step| ProfilerStep { step: *step }).collect(),
    })
}

/// `x` of `whole` in percent, with so many decimals.
fn percent(x: f64, whole: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (x / whole * 100.0 * scale).round() / scale
}
