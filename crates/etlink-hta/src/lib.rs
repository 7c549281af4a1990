//! The numbers that HolisticTraceAnalysis (HTA, f4d0062, 0.6.1) gives, by its own definitions, for
//! comparison with older results.
//!
//! ```text
//! rows        what HTA takes for device rows, its classes, its rounding, its filter of steps
//! times       temporal breakdown, overlap, type table
//! kernels     kernel tables, user annotations
//! launches    idle time, launches
//! series      queue lengths and memory bandwidth, and these summed up over samples; time at a full
//!             queue
//! counters    what CUPTI counted of each kernel
//! stragglers  over all ranks
//! details     what HTA's class in Python has arguments for
//! making      what several tables are made of
//! on_demand   tables that are made when they are asked for
//! ```
//! Where these differ from this crate's own analyses, and why:
//!
//! - *Rounding*: starts are rounded up and ends down to whole microseconds, so that a row loses up
//!   to 2 us and short ones last 0 or -1 us ([`HtaOptions::nanoseconds`] leaves times as they are,
//!   as `HTA_DISABLE_NS_ROUNDING=1` does, but for the type table, where HTA makes each piece of
//!   time whole microseconds all the same).
//! - *Device rows* are events with a stream other than -1: also waits (`cuda_sync`) and CPU ops
//!   that launch Triton kernels.
//! - *Classes* go by the names alone: `hipMemcpy…` is communication; a name with `dma` or that has
//!   `Sync` anywhere is no computation; MSCCL++, NVSHMEM, symmetric memory, custom all-reduces and
//!   arguments of collectives are not known.
//! - *Type table*: types that only meet, where one ends and another begins, make a line of 0.
//! - *Steps*: in a trace with two or more `ProfilerStep#N`, what the host did from the last one's
//!   start on is left out, with what it launched, and device rows without a host call. The last one
//!   to start is mostly that of the device (`gpu_user_annotation`), so that what the host did of
//!   that step before is kept. With [`HtaOptions::include_last`] what came after the last step's
//!   end is left out; but HTA by then counts starts from the trace's first event and ends not, so
//!   that nearly nothing is. Where HTA joins on correlation, a row comes once for each call with
//!   its id, as here; rows without an id, which HTA repeats for each host event without one, are
//!   left out.
//! - *Kernel tables*: `kernel_breakdown` has all names; in `kernel_breakdown_top10`, HTA's default,
//!   those beyond the first ten and those where the running sum of the sums is over its own 80 %
//!   quantile are `others`, and then all figures are of sums: `max`, `min` and `mean` of a name
//!   that is left are its sum. User annotations are folded the same way beyond 1,000 names.
//! - *Idle time* of a stream counts from the end of the row before, not from the latest end: it can
//!   be negative where rows overlap. `kernel_wait` is a gap under 30 us after a launch in time. A
//!   row whose call is not in the trace was launched when the file's first event began.
//! - *Launches* are `cudaLaunchKernel`, `cudaLaunchKernelExC`, `cudaMemcpyAsync`, `cudaMemsetAsync`
//!   and MTIA's `runFunction`: none of HIP, of the driver or of graphs. The queue's length also
//!   counts driver and HIP launches; of a graph launch it counts the last row; the launch of a row
//!   that is the file's first event it does not count.
//! - *Means* of queue length and bandwidth are over samples (changes), not over time; a copy
//!   without length lasts 1 us. What floating point leaves of a sum that should be 0 is a sample
//!   too if it is positive.
//! - *Time at a full queue*: of several streams of a rank with 1,024 launches that wait, only the
//!   last is reported.
//! - *Stragglers* are looked for among kernels `ncclKernel…`, as older NCCL named them; the clocks
//!   of all ranks are taken to be one.
//!
//! What HTA says is no one thing where times are equal, as they often are after rounding: it sorts
//! with numpy's quicksort, which is not stable, and is another algorithm on processors with
//! AVX-512, with AVX2 and with neither. So the mean queue length of a trace depends on the machine
//! (812.4134 or 812.4128 for one public trace of a V100), and so do samples of bandwidth (1,285 or
//! 1,284 there: by the order of two changes, a sum leaves 1e-16 or 0). Here equal times stand as a
//! stable sort leaves them: what HTA says too if it is made to sort stably.
//!
//! What differs from HTA:
//!
//! - Without rounding, HTA computes with microseconds as doubles, which hold 0.0005 us of times
//!   since Kineto's base and 0.25 us of times since 1970; here times are exact. Figures differ by
//!   that, and a gap counts as `host_wait` or not where the call began that close to the end
//!   before.
//! - Where it fails, we answer: with `assert non_compute_time >= 0` where rounding makes the
//!   classes longer than the whole; on traces without device rows; with `assert len(launch) ==
//!   len(kernels)` on graphs; with a rank that has no straggler to compare with; on files that are
//!   no JSON.
//! - One trace is looked at alone: that another rank has several steps, or is of an MTIA, does not
//!   make HTA's filter of steps work here. For MTIA traces with several steps HTA keeps what lies
//!   between the first one's start and the last one's end; here the last is left out as for all.
//! - Rows, where several stand at one time, in the order of time, the longer first, not of the
//!   file: of several rows of a launch, or of several kernels of a step, the last is the last by
//!   time. Rows of categories that no table keeps are not in the time that a full queue is related
//!   to.
//!
//! Not here: kernels with their annotations, call graphs; HTA's critical path is another than
//! `etlink replay`'s. `etlink diff` says what changed between two traces, by its own definitions.

mod counters;
mod details;
mod kernels;
mod launches;
mod making;
mod on_demand;
mod rows;
mod series;
mod stragglers;
mod times;

pub use counters::CuptiCounter;
pub use details::{HtaDetails, RankExtent};
pub use kernels::{KernelStats, NameStats};
pub use launches::{IdleInterval, IdleTime, LaunchDetail, LaunchStats};
pub use on_demand::HtaOnDemand;
pub use series::{BandwidthSample, BandwidthSummary, BlockedTime, QueueSample, QueueSummary};
pub use stragglers::{PotentialStraggler, StragglerQuery};
pub use times::{CommCompOverlap, KernelType, TemporalBreakdown};

use etlink_analyze::RecordVisitor;
use etlink_link::LinkedTrace;
use making::Making;
use rows::{HtaTrace, NamePatterns};
use serde::Serialize;
use std::collections::BTreeSet;

/// The options of HTA that change its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtaOptions {
    /// `include_last_profiler_step=True`.
    pub include_last: bool,
    /// `HTA_DISABLE_NS_ROUNDING=1`.
    pub nanoseconds: bool,
    /// Rank of the trace's file in `trace_files`; `None`: what the trace says.
    pub rank: Option<i64>,
}

/// Texts of a record, which lie beside it: two or three short names.
const RECORD_TEXT_BYTES: usize = 64;

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $row:ty = $make:expr,)*) => {
        /// HTA's tables of one rank, with its names of columns.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct HtaTables {
            $($(#[$doc])* pub $name: Vec<$row>,)*
            #[serde(skip)]
            straggler_evidence: stragglers::StragglerEvidence,
            /// Start of the trace's first event, us by the trace's own clock; none of no events.
            #[serde(skip)]
            first_start_us: Option<f64>,
        }

        impl HtaTables {
            /// A blank record in each table: the columns that it has.
            pub fn blank() -> HtaTables {
                HtaTables {
                    $($name: vec![<$row>::default()],)*
                    straggler_evidence: stragglers::StragglerEvidence::default(),
                    first_start_us: None,
                }
            }

            /// About how much memory its records take, bytes.
            pub fn memory_bytes(&self) -> u64 {
                let mut bytes = 0;
                $(bytes += self.$name.capacity() * (size_of::<$row>() + RECORD_TEXT_BYTES);)*
                bytes as u64
            }

            /// Those that are wanted; the others are empty.
            fn make(making: &Making<'_, '_>, is_wanted: impl Fn(&str) -> bool) -> HtaTables {
                let loaded = making.loaded;
                $(let $name = if is_wanted(stringify!($name)) {
                    let make: fn(&Making<'_, '_>) -> Vec<$row> = $make;
                    make(making)
                } else {
                    vec![]
                };)*
                let straggler_evidence = if is_wanted(POTENTIAL_STRAGGLERS) {
                    stragglers::straggler_evidence(loaded)
                } else {
                    stragglers::StragglerEvidence::default()
                };
                HtaTables {
                    first_start_us: loaded.starts().min().map(|start| loaded.us(start)),
                    straggler_evidence,
                    $($name,)*
                }
            }

            /// Shows the records of a table; whether there is one of this name.
            ///
            /// # Errors
            /// That of the visitor.
            pub fn visit_table<V: RecordVisitor>(
                &self,
                name: &str,
                visitor: &mut V,
            ) -> Result<bool, V::Error> {
                $(if name == stringify!($name) {
                    for record in &self.$name {
                        visitor.visit(record)?;
                    }
                    return Ok(true);
                })*
                Ok(false)
            }
        }

        /// Their names.
        pub const RANK_TABLES: &[&str] = &[$(stringify!($name)),*];
    };
}

tables! {
    /// `get_temporal_breakdown`.
    temporal_breakdown: TemporalBreakdown = |making| vec![times::temporal_breakdown(making.loaded)],
    /// `get_comm_comp_overlap`.
    comm_comp_overlap: CommCompOverlap = |making| vec![times::comm_comp_overlap(making.loaded)],
    /// `get_gpu_kernel_breakdown`, first table.
    kernel_type_breakdown: KernelType = |making| times::kernel_types(making.loaded, &times::KERNEL_TYPES),
    /// `get_gpu_kernel_breakdown`, second table, all names: `num_kernels` large and
    /// `duration_ratio=1`.
    kernel_breakdown: KernelStats = |making| kernels::kernel_stats(making.loaded, usize::MAX),
    /// The same with HTA's defaults: ten names, `duration_ratio=0.8`.
    kernel_breakdown_top10: KernelStats = |making| kernels::kernel_stats(making.loaded, 10),
    /// `get_gpu_user_annotation_breakdown`.
    user_annotation_breakdown_gpu: NameStats = |making| making.device_annotations(kernels::ANNOTATIONS),
    /// The same with `use_gpu_annotation=False`.
    user_annotation_breakdown_cpu: NameStats = |making| making.annotations(kernels::ANNOTATIONS),
    /// `get_idle_time_breakdown`.
    idle_time_breakdown: IdleTime = |making| launches::idle_times(making.loaded),
    /// `get_cuda_kernel_launch_stats`, memory calls included.
    cuda_kernel_launch_stats: LaunchStats = |making| launches::launch_stats(making.loaded),
    /// `get_queue_length_summary`.
    queue_length_summary: QueueSummary = |making| series::queue_summaries(making.loaded, making.queues()),
    /// `get_time_spent_blocked_on_full_queue`.
    blocked_on_full_queue: BlockedTime = |making| series::blocked_times(making.loaded, making.queues()),
    /// `get_memory_bw_summary`.
    memory_bw_summary: BandwidthSummary = |making| series::bandwidth_summaries(making.loaded, making.bandwidths()),
    /// `get_profiler_steps`.
    profiler_steps: ProfilerStep = |making| making.profiler_steps(),
    /// `get_queue_length_time_series`.
    queue_length_series: QueueSample = |making| series::queue_samples(making.loaded, making.queues()),
    /// `get_memory_bw_time_series`.
    memory_bw_series: BandwidthSample = |making| series::bandwidth_samples(making.loaded, making.bandwidths()),
    /// `get_cupti_counter_data_with_operators`.
    cupti_counters: CuptiCounter = |making| counters::cupti_counters(making.loaded),
}

/// What HTA says of all ranks together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HtaRunTables {
    /// `get_gpu_kernel_breakdown`, first table: sums over the ranks.
    pub kernel_type_breakdown: Vec<KernelType>,
    /// `get_potential_stragglers`, of all steps.
    pub potential_stragglers: Vec<PotentialStraggler>,
    /// `get_profiler_steps`.
    pub profiler_steps: Vec<ProfilerStep>,
}

/// The table of [`HtaRunTables`] that no rank has alone.
pub const RUN_TABLES: [&str; 1] = [POTENTIAL_STRAGGLERS];

const POTENTIAL_STRAGGLERS: &str = "potential_stragglers";

/// The number of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilerStep {
    /// `N` of `ProfilerStep#N`.
    pub step: u64,
}

/// A pattern of HTA that the regex engine refuses.
#[derive(Debug, thiserror::Error)]
#[error("a pattern of HolisticTraceAnalysis is refused: {0}")]
pub struct PatternError(#[source] regex::Error);

/// HTA's numbers for one rank. O(n log n). For annotations of devices, and the first and last
/// event, the trace has to be read with [auxiliary](etlink_model::DeviceTrace::auxiliary).
///
/// # Errors
/// None: HTA's patterns are right.
pub fn hta_tables(trace: &LinkedTrace, settings: HtaOptions) -> Result<HtaTables, PatternError> {
    let loaded = HtaTrace::new(trace, &NamePatterns::new()?, settings);
    Ok(HtaTables::make(&Making::new(&loaded), |_| true))
}

/// The same, with what HTA's class in Python has arguments for.
///
/// # Errors
/// None: HTA's patterns are right.
pub fn hta_tables_in_detail(
    trace: &LinkedTrace,
    settings: HtaOptions,
) -> Result<(HtaTables, HtaDetails), PatternError> {
    let loaded = HtaTrace::new(trace, &NamePatterns::new()?, settings);
    let making = Making::new(&loaded);
    let tables = HtaTables::make(&making, |_| true);
    Ok((tables, HtaDetails::make(&making, |_| true)))
}

/// Lets the times of all series count from the first event of all ranks, as HTA does with several
/// traces (`_align_all_ranks`): it takes the times of their files as those of one clock.
pub fn align_series<'a>(ranks: impl Iterator<Item = &'a mut HtaTables>) {
    let ranks: Vec<&mut HtaTables> = ranks.collect();
    let starts = ranks.iter().filter_map(|rank| rank.first_start_us);
    let Some(first) = starts.min_by(f64::total_cmp) else {
        return;
    };
    for rank in ranks {
        let later = rank.first_start_us.map_or(0.0, |start| start - first);
        for sample in &mut rank.queue_length_series {
            sample.ts += later;
        }
        for sample in &mut rank.memory_bw_series {
            sample.ts += later;
        }
        // asked again, nothing moves
        rank.first_start_us = rank.first_start_us.map(|_| first);
    }
}

/// What the ranks say together; the times of their traces are taken as those of one clock.
pub fn run_tables<'a>(ranks: impl Iterator<Item = &'a HtaTables>) -> HtaRunTables {
    let ranks: Vec<&HtaTables> = ranks.collect();
    HtaRunTables {
        kernel_type_breakdown: times::kernel_types_of_run(
            ranks.iter().flat_map(|rank| &rank.kernel_type_breakdown),
        ),
        potential_stragglers: potential_stragglers(
            ranks.iter().copied(),
            &StragglerQuery::default(),
        ),
        profiler_steps: ranks
            .iter()
            .flat_map(|rank| &rank.profiler_steps)
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
    }
}

/// `get_potential_stragglers` with its arguments.
pub fn potential_stragglers<'a>(
    ranks: impl Iterator<Item = &'a HtaTables>,
    query: &StragglerQuery,
) -> Vec<PotentialStraggler> {
    let evidence: Vec<_> = ranks.map(|rank| &rank.straggler_evidence).collect();
    stragglers::potential_stragglers(&evidence, query)
}

/// `x` of `whole` in percent, with so many decimals.
fn percent(x: f64, whole: f64, decimals: i32) -> f64 {
    round(x / whole * 100.0, decimals)
}

/// As pandas rounds.
fn round(x: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    // numpy rounds halves to the even digit.
    (x * scale).round_ties_even() / scale
}

/// Of ascending values, linear between neighbours; 0 of none.
fn quantile(values: &[f64], share: f64) -> f64 {
    let place = share * values.len().saturating_sub(1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let low = values.get(below).copied().unwrap_or(0.0);
    let high = values.get(above).copied().unwrap_or(low);
    low + (high - low) * place.fract()
}
