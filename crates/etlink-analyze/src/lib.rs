//! What a linked trace says: the questions people profile for, one definition each.
//!
//! ```text
//! LinkedTrace ─ Rows (classified by Rules) ─┬─ breakdown    what the device did, idle, overlap
//!                                           ├─ utilization  of which time a device is busy
//!                                           ├─ kernels      times per class and name
//!                                           ├─ outside      work of no step
//!                                           ├─ idle         why a device or stream stood still
//!                                           ├─ gaps         what the host did meanwhile
//!                                           ├─ launches     calls that launch, delays
//!                                           ├─ queues       launched work that waits
//!                                           ├─ copies       bytes and bandwidth
//!                                           ├─ steps        step times, what the device did
//!                                           ├─ phases       steps of inference: prefill, decode
//!                                           ├─ coverage     how much of a device kernels can fill
//!                                           ├─ counters     metrics measured of kernels
//!                                           ├─ work         operations and their rate
//!                                           ├─ peaks        how much of the device's peaks is used
//!                                           ├─ collectives  volume, bandwidth by group and type
//!                                           ├─ sequences    kernels that an op launches
//!                                           └─ memory       allocations, peaks
//! tables of all ranks ─> Total (sums, metrics: single figures by ccl-bench's names)
//! DeviceTrace, read with its auxiliary events ─> top: `key_averages()` of PyTorch's profiler
//! two of these ─> diff
//! names of a table ─> short_names: the same, as people read them
//! ```
//! Pure: values in, values out; times are integer nanoseconds. Every figure is defined in the docs
//! of its module, with its formula and unit. Tables are lists of flat records, so that JSON, CSV
//! and Arrow tables say the same. Figures of several ranks are sums of those of each:
//! [`RunTotals`].

mod analysis;
pub mod breakdown;
pub mod collectives;
pub mod communicators;
pub mod compute_rate;
pub mod copies;
pub mod device_peaks;
pub mod diff;
mod duration_stats;
pub mod exposed_communication;
pub mod hang;
pub mod host_ops;
pub mod idle;
mod intervals;
pub mod kernel_counters;
pub mod kernels;
pub mod launches;
pub mod memory;
pub mod metrics;
mod outside_time;
pub mod outside_work;
pub mod peak_use;
pub mod phases;
pub mod queue_depth;
mod rows;
pub mod rules;
mod run_totals;
pub mod sequences;
pub mod short_names;
pub mod sm_coverage;
pub mod steps;
pub mod top;
pub mod utilization;

pub use analysis::{Options, RankAnalysis, RecordVisitor, TABLES, analyze, analyze_steps};
pub use breakdown::DeviceTime;
pub use collectives::{CollectiveTotals, input_bytes};
pub use compute_rate::ComputeRate;
pub use copies::CopyTotals;
pub use device_peaks::{DevicePeaks, Precision};
pub use duration_stats::{DurationStats, median_ns};
pub use exposed_communication::{CommunicationWait, DeviceUse, ExposedCommunication, device_use};
pub use host_ops::HostOpTotals;
pub use idle::{GapCause, HostIdle, IdleCauses, IdleGap};
pub use kernel_counters::KernelCounter;
pub use kernels::{KernelOp, KernelTotals};
pub use launches::LaunchTotals;
pub use memory::{MemoryPoint, MemoryUse};
pub use metrics::{HardwarePeaks, RunMetric, peak_metrics};
pub use outside_work::{CountedWork, OutsideCause, OutsideWork};
pub use peak_use::PeakUse;
pub use phases::PhaseTotals;
pub use queue_depth::QueueDepth;
pub use rows::ClassifiedRows;
pub use rules::{KernelRules, RowClass, RulesError};
pub use run_totals::{RunTotals, run_totals};
pub use sequences::KernelSequence;
pub use short_names::short_names;
pub use sm_coverage::SmCoverage;
pub use steps::{StepExclusion, StepTime, counted_steps, is_counted_step, step_period};
pub use utilization::{Utilization, UtilizationWindow};
