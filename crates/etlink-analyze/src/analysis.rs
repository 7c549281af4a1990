//! All analyses of a rank.

use crate::breakdown::{self, DeviceTime};
use crate::collectives::{self, CollectiveTotals};
use crate::compute_rate::{self, ComputeRate};
use crate::copies::{self, CopyTotals};
use crate::host_ops::{self, HostOpTotals};
use crate::idle::{self, HostIdle, IdleCauses, IdleGap};
use crate::kernel_counters::{self, KernelCounter};
use crate::kernels::{self, KernelTotals};
use crate::launches::{self, LaunchTotals};
use crate::memory::{self, MemoryPoint, MemoryUse};
use crate::outside_work::{self, CountedWork, OutsideWork};
use crate::peak_use::{self, PeakUse};
use crate::phases::{self, PhaseTotals};
use crate::queue_depth::{self, QueueDepth};
use crate::rows::ClassifiedRows;
use crate::rules::KernelRules;
use crate::sequences::{self, KernelSequence};
use crate::sm_coverage::{self, SmCoverage};
use crate::steps::{self, StepTime};
use crate::utilization::{self, Utilization};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::LinkedTrace;
use serde::Serialize;

/// What to report besides the tables that are always made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Kernel sequences of the ops whose names contain this.
    pub sequences_of: Option<String>,
    /// Each allocation and free.
    pub memory_timeline: bool,
}

/// Gets the records of a table, which are of any type.
pub trait RecordVisitor {
    /// Why a record could not be taken.
    type Error;

    /// Takes one.
    ///
    /// # Errors
    /// It could not be taken.
    fn visit(&mut self, record: &impl Serialize) -> Result<(), Self::Error>;
}

/// Texts of a record, which lie beside it: two or three short names.
const RECORD_TEXT_BYTES: usize = 64;

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $row:ty,)*) => {
        /// What one rank's trace says. Each field is a table of flat records; an empty one says
        /// that the trace has nothing of the kind.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct RankAnalysis {
            /// Global rank, if the traces or the caller say it.
            pub rank: Option<i64>,
            $($(#[$doc])* pub $name: Vec<$row>,)*
        }

        impl RankAnalysis {
            /// A blank record in each table: the columns that it has.
            pub fn blank() -> RankAnalysis {
                RankAnalysis { rank: None, $($name: vec![<$row>::default()],)* }
            }

            /// About how much memory its records take, bytes.
            pub fn memory_bytes(&self) -> u64 {
                let mut bytes = 0;
                $(bytes += self.$name.capacity() * (size_of::<$row>() + RECORD_TEXT_BYTES);)*
                bytes as u64
            }

            /// Gives back what its tables have taken in advance: those of all ranks of a run are
            /// there at once.
            fn shrink(&mut self) {
                $(self.$name.shrink_to_fit();)*
            }

            /// Gives each record of a table to `visitor`. Says whether there is such a table.
            ///
            /// # Errors
            /// The visitor's.
            pub fn visit_table<V: RecordVisitor>(
                &self,
                table: &str,
                visitor: &mut V,
            ) -> Result<bool, V::Error> {
                // by field, not by way of a value of all tables: one of them can have millions
                match table {
                    $(stringify!($name) => {
                        for record in &self.$name {
                            visitor.visit(record)?;
                        }
                    })*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }

        /// The tables of [`RankAnalysis`], by the names that JSON and CSV have.
        pub const TABLES: &[&str] = &[$(stringify!($name)),*];
    };
}

tables! {
    /// Of which time a device is busy, per device.
    utilization: Utilization,
    /// Device time by class, per device.
    breakdown: DeviceTime,
    /// Device rows by class and name.
    kernels: KernelTotals,
    /// Device rows of no step, which `kernels`, `copies`, `breakdown`, `idle` and `coverage` do
    /// not count: launched before the recording, or before the first step.
    outside: OutsideWork,
    /// Ops of the host by their own time, where there is no device work.
    host_ops: HostOpTotals,
    /// Idle time by cause, per device.
    idle: IdleCauses,
    /// The same per stream.
    stream_idle: IdleCauses,
    /// Idle time in which the host was late, by what it did, per device.
    host_idle: HostIdle,
    /// The longest gaps of each device.
    gaps: IdleGap,
    /// Calls that launch, by name.
    launches: LaunchTotals,
    /// The same by the op around the call.
    op_launches: LaunchTotals,
    /// Launched work that waits, per stream.
    queues: QueueDepth,
    /// Copies and memsets by kind.
    copies: CopyTotals,
    /// Steps.
    steps: StepTime,
    /// Steps of inference by phase.
    phases: PhaseTotals,
    /// How much of a device its kernels can fill, per device.
    coverage: SmCoverage,
    /// Operations of kernels, per device.
    work: ComputeRate,
    /// Metrics that were measured of kernels beside the trace, by kernel.
    counters: KernelCounter,
    /// How much of the peaks of a known device is used, per device.
    peaks: PeakUse,
    /// Communication by type and group.
    collectives: CollectiveTotals,
    /// Kernel sequences, where [`Options::sequences_of`] asks for them.
    sequences: KernelSequence,
    /// Memory per device.
    memory: MemoryUse,
    /// Each allocation and free, where [`Options::memory_timeline`] asks for them.
    memory_timeline: MemoryPoint,
}

/// The steps of a rank alone, as in [`RankAnalysis::steps`]. O(rows log rows).
pub fn analyze_steps(trace: &LinkedTrace, rules: &KernelRules) -> Vec<StepTime> {
    steps_of_rows(&ClassifiedRows::new(trace, rules))
}

fn steps_of_rows(rows: &ClassifiedRows<'_>) -> Vec<StepTime> {
    let mut steps = steps::step_times(rows);
    utilization::add_time_before(rows, &mut steps);
    steps
}

/// Analyses one rank. O(n log n) in the events.
pub fn analyze(trace: &LinkedTrace, rules: &KernelRules, options: &Options) -> RankAnalysis {
    let rows = ClassifiedRows::new(trace, rules);
    let (memory, points) = memory::memory_use(&trace.device, options.memory_timeline);
    // Computed first: the rates below divide by the windows of its devices.
    let steps = steps_of_rows(&rows);
    let counted = CountedWork::from_steps(trace, &steps);
    let utilization = utilization::utilizations(&rows, &steps);
    let outside = outside_work::outside_rows(&rows, &counted, &steps);
    let idle = idle::idle_causes(&rows, &outside);
    // rates over a time of which rows are missing would be too low
    let is_known = utilization.iter().all(|device| device.unknown_ns == 0);
    let rated = if is_known { &utilization[..] } else { &[] };
    let windows = utilization
        .iter()
        .filter_map(|one| Some((one.device?, one.span())));
    let windows = windows.collect();
    let mut analysis = RankAnalysis {
        rank: trace.report.rank.map(|rank| rank.0),
        peaks: peak_use::peak_uses(&rows, rated, &counted),
        work: compute_rate::compute_rates(&rows, rated, &counted),
        breakdown: breakdown::device_times(&rows, &outside, &windows),
        utilization,
        kernels: kernels::kernel_totals(&rows, &counted),
        outside: outside_work::outside_work(&rows, &counted),
        host_ops: host_ops::host_op_totals(&rows),
        idle: idle.devices,
        stream_idle: idle.streams,
        host_idle: idle.hosts,
        gaps: idle.gaps,
        launches: launches::launch_totals(&rows, &outside),
        op_launches: launches::op_launch_totals(&rows, &outside),
        queues: queue_depth::queue_depths(&rows),
        copies: copies::copy_totals(&rows, &outside),
        phases: phases::phase_totals(std::iter::once(&steps[..])),
        steps,
        counters: kernel_counters::kernel_counters(trace),
        coverage: sm_coverage::sm_coverage(&rows, &outside),
        collectives: collectives::collective_totals(&rows, &counted),
        sequences: options
            .sequences_of
            .as_ref()
            .map(|text| sequences::kernel_sequences(&rows, text))
            .unwrap_or_default(),
        memory,
        memory_timeline: points,
    };
    analysis.shrink();
    analysis
}
