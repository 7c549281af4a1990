//! What a capture-time trace gave to the kernels of graph launches.

use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{CallIdx, DeviceTrace, NameId, Names, RowIdx};
use serde::Serialize;

/// Ops of a capture-time trace, by the device rows that they launched.
#[derive(Clone, Debug, Default)]
pub struct CapturedOps {
    pub(super) names: Names,
    /// Name, shapes, types and scope of each different op.
    pub(super) ops: Vec<[NameId; 4]>,
    /// Per device row: its op.
    pub(super) row: Vec<u32>,
}

/// What the capture-time trace says of a row's op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedOp<'t> {
    /// Name of the innermost op around the launch.
    pub name: &'t str,
    /// `Input Dims`, list text; empty where shapes were not recorded.
    pub shapes: &'t str,
    /// `Input type`, list text.
    pub types: &'t str,
    /// Name of the innermost user annotation around it; empty where there is none.
    pub scope: &'t str,
}

impl CapturedOps {
    /// The op of a device row.
    pub fn of(&self, row: RowIdx) -> Option<CapturedOp<'_>> {
        let [name, shapes, types, scope] =
            (*self.ops.get(*self.row.get(row.index())? as usize)?).map(|name| self.names.get(name));
        Some(CapturedOp {
            name,
            shapes,
            types,
            scope,
        })
    }
}

/// How many kernels of graph launches got the op that launched them at capture time.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaptureReport {
    /// Captures that the capture-time trace has from begin to end.
    pub captures: u64,
    /// Launches in them.
    pub launches: u64,
    /// Captures with launches that do not say what they launch: left out.
    pub unnamed: u64,
    /// Captures of which only the begin or the end is recorded: left out.
    pub unfinished: u64,
    /// Graph launches whose kernels have the names of a capture, all of them in the same order.
    pub complete: u64,
    /// Graph launches of which a part fits a capture.
    pub partial: u64,
    /// Graph launches that no capture fits.
    pub unknown: u64,
    /// Device rows that got an op.
    pub carried: u64,
    /// Device rows for which several ops come into question.
    pub ambiguous: u64,
    /// Device rows that no capture has.
    pub not_found: u64,
    /// Device rows whose captured launch stands in no op.
    pub without_op: u64,
}

/// Whether a call of this name begins to capture a stream: `cudaStreamBeginCapture`,
/// `hipStreamBeginCapture` and their kin.
pub fn begins_capture(name: &str) -> bool {
    name.contains("StreamBeginCapture")
}

/// Whether a call of this name launches a graph: `cudaGraphLaunch`, `hipGraphLaunch` and their kin.
pub fn launches_graph(name: &str) -> bool {
    name.contains("GraphLaunch")
}

/// Rows that a graph launch caused, with its call: by call, then by start.
pub(crate) fn rows_of_graph_launches(
    device: &DeviceTrace,
    row_call: &[CallIdx],
) -> Vec<(CallIdx, RowIdx)> {
    // A trace has few call names and many rows, so each name is looked at once.
    let mut launches = vec![None; device.names.count()];
    let mut is_graph = |call: CallIdx| {
        let name = device.calls.name[call.index()];
        *launches[name.index()].get_or_insert_with(|| launches_graph(device.names.get(name)))
    };
    let mut rows: Vec<_> = row_call
        .iter()
        .zip((0..).map(RowIdx))
        .filter_map(|(&call, row)| Some((call.get()?, row)))
        .filter(|&(call, _)| is_graph(call))
        .collect();
    // rows are numbered by their start
    rows.sort();
    rows
}
