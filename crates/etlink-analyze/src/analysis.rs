//! All analyses of a rank, and of all ranks.

use crate::breakdown::{self, DeviceTime};
use crate::kernels::{self, Kernel};
use crate::rows::Rows;
use crate::rules::Rules;
use etlink_link::LinkedTrace;
use serde::Serialize;

/// What to find out besides what is always told.
#[derive(Clone, Debug, Default)]
pub struct Options {}

/// The tables of [`Analysis`], by the names that JSON and CSV have.
pub const TABLES: [&str; 2] = ["breakdown", "kernels"];

/// What one rank's trace says. Each field is a table; an empty one says that the trace has nothing of the kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Analysis {
    /// Global rank, if the traces or the caller say it.
    pub rank: Option<i64>,
    /// Device time by class, per device.
    pub breakdown: Vec<DeviceTime>,
    /// Device rows by class and name.
    pub kernels: Vec<Kernel>,
}

/// What the traces of all ranks say together: sums of what each says.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Total {
    /// Device time by class, summed over all devices of all ranks: one record.
    pub breakdown: Vec<DeviceTime>,
    /// Device rows of all ranks by class and name.
    pub kernels: Vec<Kernel>,
}

/// Analyses one rank. O(n log n) in the events.
pub fn analyze(trace: &LinkedTrace, rules: &Rules, _options: &Options) -> Analysis {
    let rows = Rows::new(trace, rules);
    Analysis { rank: trace.report.rank, breakdown: breakdown::breakdown(&rows), kernels: kernels::kernels(&rows) }
}

/// Adds up the ranks.
pub fn total<'a>(ranks: impl Iterator<Item = &'a Analysis> + Clone) -> Total {
    Total {
        breakdown: vec![breakdown::sum(ranks.clone().flat_map(|rank| &rank.breakdown))],
        kernels: kernels::sum(ranks.clone().flat_map(|rank| &rank.kernels)),
    }
}
