//! What a linked trace says: the questions people profile for, one definition each.
//!
//! ```text
//! LinkedTrace ─ Rows (classified by Rules) ─┬─ breakdown    computation, communication, memory, idle, overlap
//!                                           ├─ kernels      times per class and name
//!                                           ├─ idle         why a device or stream had nothing to do
//!                                           ├─ launches     calls that launch, delays
//!                                           ├─ queues       launched work that waits
//!                                           ├─ copies       bytes and bandwidth
//!                                           ├─ steps        step times, what the device did for each
//!                                           ├─ coverage     how much of a device kernels can fill
//!                                           ├─ work         operations and their rate
//!                                           ├─ collectives  volume and bandwidth per group and type
//!                                           ├─ sequences    kernels that an op launches
//!                                           └─ memory       allocations, peaks
//! tables of all ranks ─> Total (sums, metrics: single figures by ccl-bench's names)
//! LinkedTrace ─> hta: what HolisticTraceAnalysis would say
//! DeviceTrace, read with its auxiliary events ─> top: what `key_averages()` of PyTorch's profiler says; two of these ─> diff
//! ```
//! Pure: values in, values out; times are integer nanoseconds. Every figure is defined in the docs of its
//! module, with its formula and unit. Tables are lists of flat records, so that JSON, CSV and Arrow tables
//! say the same. Figures of several ranks are sums of those of each: [`Total`].

mod analysis;
pub mod breakdown;
pub mod collectives;
pub mod copies;
pub mod coverage;
pub mod diff;
pub mod hta;
pub mod idle;
mod intervals;
pub mod kernels;
pub mod launches;
pub mod memory;
pub mod metrics;
mod moments;
pub mod queues;
mod rows;
pub mod rules;
pub mod sequences;
pub mod steps;
pub mod top;
pub mod work;

pub use analysis::{Analysis, Options, TABLES, Total, analyze, total};
pub use breakdown::DeviceTime;
pub use collectives::Collectives;
pub use copies::Copies;
pub use coverage::Coverage;
pub use idle::Idle;
pub use kernels::Kernel;
pub use launches::Launches;
pub use memory::{Memory, MemoryPoint};
pub use metrics::{Metric, Peaks, of_peaks};
pub use moments::Moments;
pub use queues::QueueLength;
pub use rows::Rows;
pub use rules::{Class, Rules, RulesError};
pub use sequences::Sequence;
pub use steps::Step;
pub use work::Computed;
