//! Totals over the analyses of all ranks.

use crate::analysis::RankAnalysis;
use crate::breakdown::{self, DeviceTime};
use crate::collectives::{self, CollectiveTotals};
use crate::copies::{self, CopyTotals};
use crate::host_ops::{self, HostOpTotals};
use crate::idle::{self, IdleCauses};
use crate::kernels::{self, KernelTotals};
use crate::launches::{self, LaunchTotals};
use crate::metrics::{self, RunMetric};
use crate::phases::{self, PhaseTotals};
use crate::sequences::{self, KernelSequence};
use crate::utilization::{self, Utilization};
use serde::Serialize;

/// Totals over the traces of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunTotals {
    /// Utilization summed over all devices of all ranks: one record, none without devices.
    pub utilization: Vec<Utilization>,
    /// Device time by class, summed over all devices of all ranks: one record, none without
    /// devices.
    pub breakdown: Vec<DeviceTime>,
    /// Device rows of all ranks by class and name.
    pub kernels: Vec<KernelTotals>,
    /// Host ops of ranks without device work, by self time.
    pub host_ops: Vec<HostOpTotals>,
    /// Idle time by cause, summed over all devices of all ranks: one record, none without devices.
    pub idle: Vec<IdleCauses>,
    /// Launching calls by name.
    pub launches: Vec<LaunchTotals>,
    /// Launching calls by enclosing op.
    pub op_launches: Vec<LaunchTotals>,
    /// Copies and memsets by kind.
    pub copies: Vec<CopyTotals>,
    /// Inference steps of all ranks, by phase.
    pub phases: Vec<PhaseTotals>,
    /// Communication by type and group.
    pub collectives: Vec<CollectiveTotals>,
    /// Kernel sequences.
    pub sequences: Vec<KernelSequence>,
    /// Single figures of the run.
    pub metrics: Vec<RunMetric>,
}

/// Sums the analyses of the ranks.
pub fn run_totals<'a>(ranks: impl Iterator<Item = &'a RankAnalysis> + Clone) -> RunTotals {
    let devices = ranks.clone().any(|rank| !rank.breakdown.is_empty());
    RunTotals {
        utilization: utilization::sum_utilizations(
            ranks.clone().flat_map(|rank| &rank.utilization),
        ),
        breakdown: if devices {
            vec![breakdown::sum_device_times(
                ranks.clone().flat_map(|rank| &rank.breakdown),
            )]
        } else {
            vec![]
        },
        kernels: kernels::sum_kernels(ranks.clone().flat_map(|rank| &rank.kernels)),
        host_ops: host_ops::sum_host_ops(ranks.clone().flat_map(|rank| &rank.host_ops)),
        idle: if ranks.clone().any(|rank| !rank.idle.is_empty()) {
            vec![idle::sum_idle(ranks.clone().flat_map(|rank| &rank.idle))]
        } else {
            vec![]
        },
        launches: launches::sum_launches(ranks.clone().flat_map(|rank| &rank.launches)),
        op_launches: launches::sum_launches(ranks.clone().flat_map(|rank| &rank.op_launches)),
        copies: copies::sum_copies(ranks.clone().flat_map(|rank| &rank.copies)),
        phases: phases::phase_totals(ranks.clone().map(|rank| &rank.steps[..])),
        collectives: collectives::sum_collectives(ranks.clone().flat_map(|rank| &rank.collectives)),
        sequences: sequences::sum_sequences(ranks.clone().flat_map(|rank| &rank.sequences)),
        metrics: metrics::run_metrics(ranks),
    }
}
