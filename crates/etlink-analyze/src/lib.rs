//! What a linked trace says: the questions people profile for, one definition each.
//!
//! ```text
//! LinkedTrace ─ Rows (classified by Rules) ─┬─ breakdown   computation, communication, memory, idle, overlap
//!                                           └─ kernels     times per class and name
//! ```
//! Pure: values in, values out; times are integer nanoseconds. Every figure is defined in the docs of its
//! module, with its formula and unit. Tables are lists of flat records, so that JSON, CSV and Arrow tables
//! say the same. Figures of several ranks are sums of those of each: [`Total`].

mod analysis;
mod breakdown;
mod intervals;
mod kernels;
mod moments;
mod rows;
mod rules;

pub use analysis::{Analysis, Options, TABLES, Total, analyze, total};
pub use breakdown::DeviceTime;
pub use kernels::Kernel;
pub use moments::Moments;
pub use rows::Rows;
pub use rules::{Class, Rules, RulesError};
