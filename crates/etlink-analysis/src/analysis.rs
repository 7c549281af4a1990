//! Runs all analyses of a rank.

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
use etlink_model::{RowIdx, TimeNs};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::Value;

/// Optional tables, in addition to those that are always computed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Tables kernel sequences of the ops whose names contain this text; `None` for no sequences.
    pub sequences_of: Option<String>,
    /// Lists each allocation and free.
    pub memory_timeline: bool,
}

/// Records of a table as values, one at a time: a table can have millions.
pub type Records<'r> = Box<dyn Iterator<Item = serde_json::Result<Value>> + 'r>;

/// Returns records as values.
pub fn records<T: Serialize>(all: &[T]) -> Records<'_> {
    Box::new(all.iter().map(serde_json::to_value))
}

/// Estimated text per record, stored outside the record: two or three short names.
const RECORD_TEXT_BYTES: usize = 64;

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $row:ty,)*) => {
        /// Analyses of one rank's trace. Each field is a table of flat records; a table is empty if
        /// the trace contains nothing of its kind.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct RankAnalysis {
            /// Global rank; `None` if neither the traces nor the caller state it.
            pub rank: Option<i64>,
            $($(#[$doc])* pub $name: Vec<$row>,)*
        }

        impl RankAnalysis {
            /// Returns a table set with one blank record per table, which shows the columns.
            pub fn blank() -> RankAnalysis {
                RankAnalysis { rank: None, $($name: vec![<$row>::default()],)* }
            }

            /// Estimated memory of the records, in bytes.
            pub fn memory_bytes(&self) -> u64 {
                let mut bytes = 0;
                $(bytes += self.$name.capacity() * (size_of::<$row>() + RECORD_TEXT_BYTES);)*
                bytes as u64
            }

            /// Frees the spare capacity of the tables: the tables of all ranks of a run are in
            /// memory at once.
            fn shrink(&mut self) {
                $(self.$name.shrink_to_fit();)*
            }

            /// Returns the records of a table; `None` if there is no table of this name.
            pub fn records(&self, table: &str) -> Option<Records<'_>> {
                Some(match table {
                    $(stringify!($name) => records(&self.$name),)*
                    _ => return None,
                })
            }
        }

        /// Names of the tables of [`RankAnalysis`], as in JSON and CSV.
        pub const TABLES: &[&str] = &[$(stringify!($name)),*];
    };
}

tables! {
    /// Share of time in which a device is busy, per device.
    utilization: Utilization,
    /// Device time by class, per device.
    breakdown: DeviceTime,
    /// Device rows by class and name.
    kernels: KernelTotals,
    /// Device rows outside the steps, launched before the recording or before the first step.
    /// `kernels`, `copies`, `breakdown`, `idle` and `coverage` do not count them.
    outside: OutsideWork,
    /// Host ops by self time; empty if the trace has device work.
    host_ops: HostOpTotals,
    /// Idle time by cause, per device.
    idle: IdleCauses,
    /// Idle time by cause, per stream.
    stream_idle: IdleCauses,
    /// Idle time in which the host was late, by host activity, per device.
    host_idle: HostIdle,
    /// Longest gaps of each device.
    gaps: IdleGap,
    /// Launching calls by name.
    launches: LaunchTotals,
    /// Launching calls by enclosing op.
    op_launches: LaunchTotals,
    /// Launched work waiting in queues, per stream.
    queues: QueueDepth,
    /// Copies and memsets by kind.
    copies: CopyTotals,
    /// Step times.
    steps: StepTime,
    /// Inference steps by phase.
    phases: PhaseTotals,
    /// Share of a device that its kernels can fill, per device.
    coverage: SmCoverage,
    /// Floating point operations of kernels, per device.
    work: ComputeRate,
    /// Metrics measured by other tools, per kernel.
    counters: KernelCounter,
    /// Use of the peaks of known devices, per device.
    peaks: PeakUse,
    /// Communication by type and group.
    collectives: CollectiveTotals,
    /// Kernel sequences; empty unless [`Options::sequences_of`] is set.
    sequences: KernelSequence,
    /// Memory use per device.
    memory: MemoryUse,
    /// Allocations and frees; empty unless [`Options::memory_timeline`] is set.
    memory_timeline: MemoryPoint,
}

/// Returns the window of each device's utilization, by the clock of the device.
fn windows_by_device_clock(
    rows: &ClassifiedRows<'_>,
    utilization: &[Utilization],
) -> FxHashMap<i64, (i64, i64)> {
    let mut windows = FxHashMap::default();
    for (device, of_device) in rows.devices.iter().zip(&rows.of_devices) {
        let found = utilization.iter().find(|one| one.device == Some(*device));
        let (Some(found), Some(row)) = (found, of_device.first()) else {
            continue;
        };
        let row = RowIdx::new(*row);
        let by_device = |time| rows.trace.device_time(row, TimeNs(time)).0;
        let (start, end) = found.span();
        windows.insert(*device, (by_device(start), by_device(end)));
    }
    windows
}

/// Analyses one rank. O(n log n) in the number of events.
pub fn analyze(trace: &LinkedTrace, rules: &KernelRules, options: &Options) -> RankAnalysis {
    let rows = ClassifiedRows::new(trace, rules);
    let (memory, points) = memory::memory_use(&trace.device, options.memory_timeline);
    // Computed first: the rates below divide by the windows of its devices.
    let steps = steps::step_times(&rows);
    let counted = CountedWork::from_steps(trace, &steps);
    let utilization = utilization::utilizations(&rows, &steps);
    let outside = outside_work::outside_rows(&rows, &counted, &steps);
    // rates over a period with missing rows would be too low
    let is_known = utilization.iter().all(|device| device.unknown_ns == 0);
    let rated = if is_known { &utilization[..] } else { &[] };
    let windows = windows_by_device_clock(&rows, &utilization);
    let idle = idle::idle_causes(&rows, &outside, &windows);
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
