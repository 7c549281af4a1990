//! Analyses of linked traces: one definition for each question people profile for. [`findings`] has
//! causes of lost time with their gains, [`hta`] HTA's definitions of figures, and [`predict`] the
//! work and times of runs with other sizes or on other devices.
//!
//! ```text
//! LinkedTrace ─ Rows (classified by Rules) ─┬─ breakdown    device time by class, idle, overlap
//!                                           ├─ utilization  share of time a device is busy
//!                                           ├─ kernels      times per class and name
//!                                           ├─ outside      work outside the steps
//!                                           ├─ idle         causes of idle devices and streams
//!                                           ├─ gaps         longest gaps, host activity in them
//!                                           ├─ launches     launching calls, delays
//!                                           ├─ queues       queues of launched work
//!                                           ├─ copies       bytes and bandwidth
//!                                           ├─ steps        step times, device activity
//!                                           ├─ phases       inference steps: prefill, decode
//!                                           ├─ coverage     share of a device kernels can fill
//!                                           ├─ counters     metrics measured per kernel
//!                                           ├─ work         operations and their rate
//!                                           ├─ peaks        use of the device's peak rates
//!                                           ├─ collectives  volume, bandwidth by group and type
//!                                           ├─ sequences    kernels launched by an op
//!                                           └─ memory       allocations, peaks
//! LinkedTrace ─> ops: `rank_ops()`, device time and work of ops by their arguments
//! tables of all ranks ─> Total (sums, metrics: single figures with the names of ccl-bench)
//! DeviceTrace, read with its auxiliary events ─> top: `key_averages()` of PyTorch's profiler
//! two runs of these ─> diff
//! names of a table ─> short_names: readable short forms
//! ```
//! Pure: values in, values out. Times are integer nanoseconds. Each module's docs define its
//! figures, with formula and unit. Tables are lists of flat records, so JSON, CSV and Arrow tables
//! have the same content. Figures of several ranks are sums over the ranks: [`RunTotals`].

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
pub mod findings;
pub mod hang;
pub mod host_ops;
pub mod hta;
pub mod idle;
mod intervals;
pub mod kernel_counters;
pub mod kernels;
pub mod launches;
pub mod memory;
pub mod metrics;
pub mod op_calls;
mod ops;
mod outside_time;
pub mod outside_work;
pub mod peak_use;
pub mod phases;
pub mod predict;
mod python_lines;
pub mod queue_depth;
mod rows;
pub mod rules;
mod run_totals;
pub mod sequences;
pub mod short_names;
pub mod sm_coverage;
mod start_skew;
pub mod steps;
mod sums;
pub mod top;
pub mod utilization;

pub use analysis::{Options, RankAnalysis, Records, TABLES, analyze, records};
pub use breakdown::DeviceTime;
pub use collectives::{CollectiveTotals, input_bytes};
pub use compute_rate::ComputeRate;
pub use copies::CopyTotals;
pub use device_peaks::{DevicePeaks, PeakLineError, PeakTable, Precision};
pub use duration_stats::{DurationStats, median_ns};
pub use exposed_communication::{CommunicationWait, DeviceUse, ExposedCommunication, device_use};
pub use host_ops::HostOpTotals;
pub use idle::{GapCause, HostIdle, IdleCauses, IdleGap};
pub use kernel_counters::KernelCounter;
pub use kernels::{KernelOp, KernelTotals};
pub use launches::LaunchTotals;
pub use memory::{MemoryPoint, MemoryUse, device_type_name};
pub use metrics::{HardwarePeaks, RunMetric, peak_metrics};
pub use op_calls::{OpCalls, RunOp, compare_ops};
pub use ops::{OpBound, OpTotals, RankOps, list_text, rank_ops};
pub use outside_work::{CountedWork, OutsideCause, OutsideWork};
pub use peak_use::{PeakUse, link_gb_per_s};
pub use phases::PhaseTotals;
pub use python_lines::python_line;
pub use queue_depth::QueueDepth;
pub use rows::ClassifiedRows;
pub use rules::{KernelRules, RowClass, RulesError};
pub use run_totals::{RunTotals, run_totals};
pub use sequences::KernelSequence;
pub use short_names::short_names;
pub use sm_coverage::SmCoverage;
pub use start_skew::leave_out_start_skew;
pub use steps::{StepTime, counted_steps, steps_window};
pub use utilization::{Utilization, UtilizationWindow};
