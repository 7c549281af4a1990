//! Computes the figures of HolisticTraceAnalysis (HTA, f4d0062, 0.6.1) by its own definitions, for
//! comparison with older results.
//!
//! ```text
//! rows        HTA's device rows, classes, rounding, and filter of steps
//! times       temporal breakdown, overlap, type table
//! kernels     kernel tables, user annotations
//! launches    idle time, launches
//! series      queue lengths and memory bandwidth, and their summaries over samples; time at a full
//!             queue
//! counters    CUPTI's counters of each kernel
//! stragglers  potential stragglers among all ranks
//! ```
//! Differences from this crate's own analyses:
//!
//! - *Rounding*: starts are rounded up and ends down to whole microseconds, so a row loses up to 2
//!   µs, and short rows last 0 or -1 µs. [`HtaOptions::nanoseconds`] keeps times exact, like
//!   `HTA_DISABLE_NS_ROUNDING=1`, except in the type table, where HTA truncates each piece of time
//!   to whole microseconds all the same.
//! - *Device rows* are events with a stream other than -1, including waits (`cuda_sync`) and CPU
//!   ops that launch Triton kernels.
//! - *Classes* depend only on names: `hipMemcpy…` is communication; a name with `dma`, or with
//!   `Sync` anywhere, is not computation; MSCCL++, NVSHMEM, symmetric memory, custom all-reduces
//!   and arguments of collectives are unknown.
//! - *Type table*: types that only meet, one ending as another begins, produce a line of 0.
//! - *Steps*: in a trace with two or more `ProfilerStep#N`, host work from the start of the last
//!   step on is dropped, together with the work it launched and with device rows without a host
//!   call. The last step to start is usually the device's (`gpu_user_annotation`), so host work of
//!   that step before this start is kept. With [`HtaOptions::include_last`], everything after the
//!   end of the last step is dropped; but HTA by then counts starts from the trace's first event
//!   and ends not, so it drops nearly nothing. If HTA joins on correlation, a row appears once per
//!   call with its id, as here; rows without an id, which HTA repeats for each host event without
//!   one, are dropped.
//! - *Kernel tables*: `kernel_breakdown` has all names. `kernel_breakdown_top10`, HTA's default,
//!   folds names into `others` that come after the first ten, or at which the running sum of the
//!   sums exceeds its own 80 % quantile. All figures are then figures of sums: `max`, `min` and
//!   `mean` of a remaining name equal its sum. User annotations are folded the same way beyond
//!   1,000 names.
//! - *Idle time* of a stream counts from the end of the previous row, not from the latest end, so
//!   it can be negative if rows overlap. `kernel_wait` is a gap under 30 µs after a launch in time.
//!   A row whose call is not in the trace counts as launched at the start of the file's first
//!   event.
//! - *Launches* are `cudaLaunchKernel`, `cudaLaunchKernelExC`, `cudaMemcpyAsync`, `cudaMemsetAsync`
//!   and MTIA's `runFunction`, but none of HIP, of the driver or of graphs. The queue length also
//!   counts driver and HIP launches. It counts only the last row of a graph launch, and ignores the
//!   launch of a row that is the file's first event.
//! - *Means* of queue length and bandwidth are over samples (changes), not over time; a copy
//!   without length lasts 1 µs. A positive floating-point residue of a sum that should be 0 is a
//!   sample too.
//! - *Time at a full queue*: of several streams of a rank with 1,024 waiting launches, only the
//!   last is reported.
//! - *Stragglers* are searched among kernels named `ncclKernel…`, as older NCCL names them; the
//!   clocks of all ranks are assumed to agree.
//!
//! HTA's results are ambiguous for equal times, which are frequent after rounding: HTA sorts with
//! numpy's quicksort, which is unstable and uses different algorithms on processors with AVX-512,
//! with AVX2 and with neither. The mean queue length of a trace therefore depends on the machine
//! (812.4134 or 812.4128 for one public trace of a V100), and so do samples of bandwidth (1,285 or
//! 1,284 there: depending on the order of two changes, a sum leaves 1e-16 or 0). Here equal times
//! keep the order of a stable sort, which HTA matches if it is made to sort stably.
//!
//! Differences from HTA:
//!
//! - Without rounding, HTA computes with microseconds as doubles, whose resolution is 0.0005 µs for
//!   times since Kineto's base and 0.25 µs for times since 1970; here times are exact. Figures
//!   differ by that, and the classification of a gap as `host_wait` may differ if the call began
//!   that close to the previous end.
//! - This crate returns results if HTA fails: with `assert non_compute_time >= 0` if rounding makes
//!   the classes longer than the whole; on traces without device rows; with `assert len(launch) ==
//!   len(kernels)` on graphs; with a rank that has no straggler to compare with; on files that are
//!   not JSON.
//! - Each trace is analyzed alone: unlike in HTA, a trace with one step is not filtered because
//!   another rank has several steps, or is of an MTIA. For MTIA traces with several steps, HTA
//!   keeps everything between the first step's start and the last step's end; here the last step is
//!   dropped, as for all traces.
//! - Rows at the same time are ordered by length, the longer first, not by their order in the file.
//!   Of several rows of a launch, or several kernels of a step, the last one is the last by time.
//!   Rows of categories that no table keeps are not part of the time that a full queue is relative
//!   to.
//!
//! Not included: kernels with their annotations, and call graphs. HTA's critical path differs from
//! `etlink replay`'s. `etlink diff` reports changes between two traces by its own definitions.

mod counters;
mod kernels;
mod launches;
mod rows;
mod series;
mod stragglers;
mod times;

pub use counters::CuptiCounter;
pub use kernels::{KernelStats, NameStats};
pub use launches::{IdleInterval, IdleTime, LaunchDetail, LaunchStats};
pub use rows::HtaTrace;
pub use series::{BandwidthSample, BandwidthSummary, BlockedTime, QueueSample, QueueSummary};
pub use stragglers::{PotentialStraggler, StragglerQuery};
pub use times::{CommCompOverlap, KernelType, TemporalBreakdown};

use crate::{Records, records};
use etlink_link::LinkedTrace;
use serde::Serialize;
use std::collections::BTreeSet;

/// HTA's options that change its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtaOptions {
    /// `include_last_profiler_step=True`.
    pub include_last: bool,
    /// `HTA_DISABLE_NS_ROUNDING=1`.
    pub nanoseconds: bool,
    /// Rank of the trace's file in `trace_files`; `None` to use the rank stated in the trace.
    pub rank: Option<i64>,
}

/// Estimated bytes of a record's texts, which are stored outside of it: two or three short names.
const RECORD_TEXT_BYTES: usize = 64;

macro_rules! tables {
    (
        printed {$($(#[$doc:meta])* $name:ident: $row:ty = $make:expr,)*}
        details {$($(#[$detail_doc:meta])* $detail:ident: $detail_row:ty = $make_detail:expr,)*}
    ) => {
        /// HTA's tables of one rank, with its column names.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct HtaTables {
            $($(#[$doc])* pub $name: Vec<$row>,)*
            $($(#[$detail_doc])* #[serde(skip)] pub $detail: Vec<$detail_row>,)*
            #[serde(skip)]
            straggler_evidence: stragglers::StragglerEvidence,
            /// Start of the trace's first event, in µs by the trace's own clock; `None` without
            /// events.
            #[serde(skip)]
            first_start_us: Option<f64>,
        }

        impl HtaTables {
            /// Returns one blank record per table, to list the columns.
            pub fn blank() -> HtaTables {
                HtaTables {
                    $($name: vec![<$row>::default()],)*
                    $($detail: vec![<$detail_row>::default()],)*
                    ..HtaTables::default()
                }
            }

            /// Estimates the memory of all printed records, in bytes.
            pub fn memory_bytes(&self) -> u64 {
                let mut bytes = 0;
                $(bytes += self.$name.capacity() * (size_of::<$row>() + RECORD_TEXT_BYTES);)*
                bytes as u64
            }

            /// Returns the records of a table; `None` if there is no table of this name.
            pub fn records(&self, table: &str) -> Option<Records<'_>> {
                Some(match table {
                    $(stringify!($name) => records(&self.$name),)*
                    $(stringify!($detail) => records(&self.$detail),)*
                    _ => return None,
                })
            }
        }

        impl HtaTrace {
            /// Builds the tables of these names; the others stay empty. O(n log n).
            pub fn tables(&self, names: &[&str]) -> HtaTables {
                let mut tables = HtaTables {
                    first_start_us: self.starts().min().map(|start| self.us(start)),
                    ..HtaTables::default()
                };
                if names.contains(&POTENTIAL_STRAGGLERS) {
                    tables.straggler_evidence = stragglers::straggler_evidence(self);
                }
                $(if names.contains(&stringify!($name)) {
                    tables.$name = rows_of(self, $make);
                })*
                $(if names.contains(&stringify!($detail)) {
                    tables.$detail = rows_of(self, $make_detail);
                })*
                tables
            }
        }

        /// Names of the tables of a rank that are printed.
        pub const RANK_TABLES: &[&str] = &[$(stringify!($name)),*];
    };
}

fn rows_of<T>(loaded: &HtaTrace, make: fn(&HtaTrace) -> Vec<T>) -> Vec<T> {
    make(loaded)
}

tables! {
    printed {
        /// `get_temporal_breakdown`.
        temporal_breakdown: TemporalBreakdown = |loaded| vec![times::temporal_breakdown(loaded)],
        /// `get_comm_comp_overlap`.
        comm_comp_overlap: CommCompOverlap = |loaded| vec![times::comm_comp_overlap(loaded)],
        /// `get_gpu_kernel_breakdown`, first table.
        kernel_type_breakdown: KernelType = |loaded| times::kernel_types(loaded, &times::KERNEL_TYPES),
        /// `get_gpu_kernel_breakdown`, second table, all names: `num_kernels` large and
        /// `duration_ratio=1`.
        kernel_breakdown: KernelStats = |loaded| kernels::kernel_stats(loaded, usize::MAX),
        /// `get_gpu_kernel_breakdown`, second table, with HTA's defaults: ten names,
        /// `duration_ratio=0.8`.
        kernel_breakdown_top10: KernelStats = |loaded| kernels::kernel_stats(loaded, 10),
        /// `get_gpu_user_annotation_breakdown`.
        user_annotation_breakdown_gpu: NameStats = |loaded| kernels::annotation_stats(loaded, loaded.device_annotations(), kernels::ANNOTATIONS),
        /// `get_gpu_user_annotation_breakdown(use_gpu_annotation=False)`.
        user_annotation_breakdown_cpu: NameStats = |loaded| kernels::annotation_stats(loaded, loaded.annotations(), kernels::ANNOTATIONS),
        /// `get_idle_time_breakdown`.
        idle_time_breakdown: IdleTime = launches::idle_times,
        /// `get_cuda_kernel_launch_stats`, memory calls included.
        cuda_kernel_launch_stats: LaunchStats = launches::launch_stats,
        /// `get_queue_length_summary`.
        queue_length_summary: QueueSummary = series::queue_summaries,
        /// `get_time_spent_blocked_on_full_queue`.
        blocked_on_full_queue: BlockedTime = series::blocked_times,
        /// `get_memory_bw_summary`.
        memory_bw_summary: BandwidthSummary = series::bandwidth_summaries,
        /// `get_profiler_steps`.
        profiler_steps: ProfilerStep = profiler_steps,
        /// `get_queue_length_time_series`.
        queue_length_series: QueueSample = series::queue_samples,
        /// `get_memory_bw_time_series`.
        memory_bw_series: BandwidthSample = series::bandwidth_samples,
        /// `get_cupti_counter_data_with_operators`.
        cupti_counters: CuptiCounter = counters::cupti_counters,
    }
    // Before the arguments of HTA's class `TraceAnalysis` apply, such as `num_kernels`,
    // `duration_ratio` and `consecutive_kernel_delay`: queries on small tables, for which the class
    // need not read the trace again.
    details {
        /// Gaps that `get_idle_time_breakdown` sums up.
        idle_intervals: IdleInterval = launches::idle_intervals,
        /// Launches that `get_cuda_kernel_launch_stats` filters.
        launches: LaunchDetail = launches::launch_details,
        /// `get_gpu_kernel_breakdown(include_memory_kernels=False)`, first table.
        kernel_types_without_memory: KernelType = |loaded| times::kernel_types(loaded, &times::KERNEL_TYPES[..2]),
        /// `get_gpu_user_annotation_breakdown` of all names.
        annotations_gpu: NameStats = |loaded| kernels::annotation_stats(loaded, loaded.device_annotations(), usize::MAX),
        /// `get_gpu_user_annotation_breakdown(use_gpu_annotation=False)` of all names.
        annotations_cpu: NameStats = |loaded| kernels::annotation_stats(loaded, loaded.annotations(), usize::MAX),
        /// Start and duration of the trace.
        extent: RankExtent = |loaded| vec![extent(loaded)],
    }
}

/// Extent of one rank's trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankExtent {
    /// HTA's `rank`.
    pub rank: i64,
    /// Start of the first event, in µs by the file's own clock; `None` without events.
    pub first_start: Option<f64>,
    /// Time from the first start to the last start, in µs: `get_trace_duration`.
    pub duration: f64,
}

fn extent(loaded: &HtaTrace) -> RankExtent {
    let first = loaded.starts().min();
    let last = loaded.starts().max().unwrap_or(0);
    RankExtent {
        rank: loaded.rank,
        first_start: first.map(|first| loaded.us(first)),
        duration: loaded.us(last.saturating_sub(first.unwrap_or(0))),
    }
}

fn profiler_steps(loaded: &HtaTrace) -> Vec<ProfilerStep> {
    // A step has a range on the host and one on each device, all with the same number.
    let steps: BTreeSet<u64> = loaded.steps.iter().map(|step| step.number).collect();
    let steps = steps.into_iter();
    steps.map(|step| ProfilerStep { step }).collect()
}

/// HTA's tables of all ranks together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HtaRunTables {
    /// `get_gpu_kernel_breakdown`, first table: sums over the ranks.
    pub kernel_type_breakdown: Vec<KernelType>,
    /// `get_potential_stragglers` of all steps.
    pub potential_stragglers: Vec<PotentialStraggler>,
    /// `get_profiler_steps`.
    pub profiler_steps: Vec<ProfilerStep>,
}

/// Table of [`HtaRunTables`] that no single rank has.
pub const RUN_TABLES: [&str; 1] = [POTENTIAL_STRAGGLERS];

const POTENTIAL_STRAGGLERS: &str = "potential_stragglers";

/// Number of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilerStep {
    /// `N` of `ProfilerStep#N`.
    pub step: u64,
}

/// Computes HTA's printed figures of one rank. O(n log n). The trace has to be read as for
/// [`HtaTrace::new`].
pub fn hta_tables(trace: LinkedTrace, settings: HtaOptions) -> HtaTables {
    let names = [RANK_TABLES, &RUN_TABLES].concat();
    HtaTrace::new(trace, settings).tables(&names)
}

/// Shifts the times of all series to count from the first event of all ranks, as HTA does with
/// several traces (`_align_all_ranks`), which assumes that the files share one clock.
pub fn align_series<'a>(ranks: impl Iterator<Item = &'a mut HtaTables>) {
    let ranks: Vec<&mut HtaTables> = ranks.collect();
    let starts = ranks.iter().filter_map(|rank| rank.first_start_us);
    let Some(first) = starts.min_by(f64::total_cmp) else {
        return;
    };
    for rank in ranks {
        let later = rank.first_start_us.map_or(0.0, |start| start - first);
        let queues = rank.queue_length_series.iter_mut();
        let times = queues.map(|sample| &mut sample.ts);
        let copies = rank.memory_bw_series.iter_mut();
        let times = times.chain(copies.map(|sample| &mut sample.ts));
        times.for_each(|time| *time += later);
        // A second call shifts nothing.
        rank.first_start_us = rank.first_start_us.map(|_| first);
    }
}

/// Computes the tables of all ranks together, assuming that the traces share one clock.
pub fn run_tables<'a>(ranks: impl Iterator<Item = &'a HtaTables>) -> HtaRunTables {
    let ranks: Vec<&HtaTables> = ranks.collect();
    let steps = ranks.iter().flat_map(|rank| &rank.profiler_steps);
    let steps: BTreeSet<ProfilerStep> = steps.copied().collect();
    HtaRunTables {
        kernel_type_breakdown: times::kernel_types_of_run(
            ranks.iter().flat_map(|rank| &rank.kernel_type_breakdown),
        ),
        potential_stragglers: potential_stragglers(
            ranks.iter().copied(),
            &StragglerQuery::default(),
        ),
        profiler_steps: steps.into_iter().collect(),
    }
}

/// Computes `get_potential_stragglers` with its arguments.
pub fn potential_stragglers<'a>(
    ranks: impl Iterator<Item = &'a HtaTables>,
    query: &StragglerQuery,
) -> Vec<PotentialStraggler> {
    let evidence: Vec<_> = ranks.map(|rank| &rank.straggler_evidence).collect();
    stragglers::potential_stragglers(&evidence, query)
}

/// Returns `x` as a percentage of `whole`, rounded to `decimals` decimals.
fn percent(x: f64, whole: f64, decimals: i32) -> f64 {
    round(x / whole * 100.0, decimals)
}

/// Rounds like pandas.
fn round(x: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    // numpy rounds halves to the even digit.
    (x * scale).round_ties_even() / scale
}

/// Returns a quantile of ascending values, linear between neighbours; 0 without values.
fn quantile(values: &[f64], share: f64) -> f64 {
    let place = share * values.len().saturating_sub(1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let low = values.get(below).copied().unwrap_or(0.0);
    let high = values.get(above).copied().unwrap_or(low);
    low + (high - low) * place.fract()
}
