//! Device rows: which call launched each, and what it waits for.

pub(crate) mod calls;
pub(crate) mod capture;
pub(crate) mod clock_bounds;
pub(crate) mod clock_fit;
pub(crate) mod clocks;
pub(crate) mod graph_branches;
pub(crate) mod inferred;
pub(crate) mod lanes;
pub(crate) mod launch;
pub(crate) mod launch_queue;
pub(crate) mod polls;
pub(crate) mod stated;
pub(crate) mod waits;

use etlink_model::{CallIdx, DeviceTrace, RowIdx, RowKind, TimeNs};

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

pub(crate) fn call_end(device: &DeviceTrace, call: CallIdx) -> TimeNs {
    device.calls.start[call.index()] + device.calls.duration[call.index()]
}

/// Whether a row copies memory of a device to the host. A blocking call for such a copy returns when
/// the row has ended; for one to the device it can return once the memory is staged (CUDA's API
/// synchronization behavior).
pub(crate) fn copies_to_host(device: &DeviceTrace, row: RowIdx) -> bool {
    let name = device.names.get(device.rows.name[row.index()]);
    let to_host = ["DtoH", "Device -> Pageable", "DeviceToHost"];
    device.rows.kind[row.index()] == RowKind::Memcpy
        && to_host.iter().any(|part| name.contains(part))
}

pub(crate) fn row_name(device: &DeviceTrace, row: RowIdx) -> String {
    let name = device.rows.name[row.index()];
    format!("{:?}", device.names.get(name))
}
