//! Device rows: which call launched each, and what it waits for.

pub(crate) mod calls;
pub(crate) mod capture;
pub(crate) mod inferred;
pub(crate) mod lanes;
pub(crate) mod launch;
pub(crate) mod waits;

use etlink_model::{DeviceTrace, RowIdx, TimeNs};

/// Row or call `to` waits for the end of row `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wait {
    pub(crate) to: u32,
    pub(crate) from: u32,
    /// Found by a rule, not stated by a `cuda_sync` row.
    pub(crate) inferred: bool,
}

pub(crate) fn row_end(device: &DeviceTrace, row: u32) -> TimeNs {
    device.rows.start[row as usize] + device.rows.duration[row as usize]
}

pub(crate) fn row_name(device: &DeviceTrace, row: u32) -> String {
    format!(
        "{:?}",
        device.names.get(device.rows.name[RowIdx(row).index()])
    )
}
