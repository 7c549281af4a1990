//! Device rows: which call launched each, and what it waits for.

pub(crate) mod calls;
pub(crate) mod capture;
pub(crate) mod clocks;
pub(crate) mod graph_branches;
pub(crate) mod inferred;
pub(crate) mod lanes;
pub(crate) mod launch;
pub(crate) mod launch_queue;
pub(crate) mod polls;
pub(crate) mod waits;

use etlink_model::{CallIdx, DeviceTrace, RowIdx, TimeNs};

/// A wait of a device row.
pub(crate) type RowWait = Wait<RowIdx>;

/// A wait of a runtime call.
pub(crate) type CallWait = Wait<CallIdx>;

/// `to` waits for the end of row `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wait<To> {
    pub(crate) to: To,
    pub(crate) from: RowIdx,
    /// Found by a rule, not stated by a `cuda_sync` row.
    pub(crate) inferred: bool,
}

pub(crate) fn row_end(device: &DeviceTrace, row: RowIdx) -> TimeNs {
    device.rows.start[row.index()] + device.rows.duration[row.index()]
}

pub(crate) fn row_name(device: &DeviceTrace, row: RowIdx) -> String {
    let name = device.rows.name[row.index()];
    format!("{:?}", device.names.get(name))
}
