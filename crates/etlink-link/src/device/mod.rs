//! Device rows: their launches and waits.

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

use calls::Does;
use etlink_model::{CallIdx, DeviceTrace, RowIdx, RowKind, TimeNs};

/// A wait of a device row.
pub(crate) type RowWait = Wait<RowIdx>;

/// A wait of a runtime call.
pub(crate) type CallWait = Wait<CallIdx>;

/// A wait of `to` for the end of row `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wait<To> {
    pub(crate) to: To,
    pub(crate) from: RowIdx,
    /// True if found by a rule, not stated by a `cuda_sync` row.
    pub(crate) inferred: bool,
}

pub(crate) fn row_end(device: &DeviceTrace, row: RowIdx) -> TimeNs {
    device.rows.start[row.index()] + device.rows.duration[row.index()]
}

pub(crate) fn call_end(device: &DeviceTrace, call: CallIdx) -> TimeNs {
    device.calls.start[call.index()] + device.calls.duration[call.index()]
}

/// True if a call that launches a copy returns no earlier than the copy's end.
///
/// Blocking copies to the host do, and so does any copy to pageable memory. For copies to the
/// device, a CUDA call can return once the memory is staged; copies on the device do not wait
/// (CUDA's API synchronization behavior). HIP's blocking copies wait in all directions: 83 copies
/// in public traces all return within 8.5 us of the end of their rows, or after it.
pub(crate) fn waits_for_copy(device: &DeviceTrace, call: CallIdx, does: Does, row: RowIdx) -> bool {
    if device.rows.kind[row.index()] != RowKind::Memcpy {
        return false;
    }
    let name = device.names.get(device.rows.name[row.index()]);
    let to_host = ["DtoH", "Device -> Pageable", "DeviceToHost"];
    let is_to_host = to_host.iter().any(|part| name.contains(part));
    let is_hip = || {
        let call = device.calls.name[call.index()];
        device.names.get(call).starts_with("hip")
    };
    match does {
        Does::BlockingCopy => is_to_host || is_hip(),
        _ => is_to_host && name.contains("Pageable"),
    }
}

pub(crate) fn row_name(device: &DeviceTrace, row: RowIdx) -> String {
    let name = device.rows.name[row.index()];
    format!("{:?}", device.names.get(name))
}
