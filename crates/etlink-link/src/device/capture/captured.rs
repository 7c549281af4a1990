//! Ops that a capture-time trace provides for the kernels of graph launches.

use super::NONE;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{CallIdx, DeviceTrace, NameId, Names, RowIdx};
use serde::Serialize;

/// Ops of a capture-time trace, by the device rows that they launched.
#[derive(Clone, Debug, Default)]
pub struct CapturedOps {
    pub(super) names: Names,
    /// Distinct ops: see [`CapturedOp`] for the order of the texts.
    pub(super) ops: Vec<[NameId; 6]>,
    /// Op of each call: an op that was captured once is called by each launch of its graph.
    pub(super) calls: Vec<u32>,
    /// Call of each device row.
    pub(super) row: Vec<u32>,
}

/// Op of a row, as described by the capture-time trace. Lists are text, and empty if shapes were
/// not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedOp<'t> {
    /// Name of the innermost op around the launch.
    pub name: &'t str,
    /// `Input Dims`.
    pub shapes: &'t str,
    /// `Input type`.
    pub types: &'t str,
    /// Name of the innermost user annotation around it; empty if there is none.
    pub scope: &'t str,
    /// `Input Strides`.
    pub strides: &'t str,
    /// `Concrete Inputs`.
    pub values: &'t str,
}

impl CapturedOps {
    /// Returns the op of a device row; `None` if none is known.
    pub fn of(&self, row: RowIdx) -> Option<CapturedOp<'_>> {
        self.op(self.call_of(row)?)
    }

    /// Returns the number of the call that a device row belongs to; `None` if none is known.
    pub fn call_of(&self, row: RowIdx) -> Option<usize> {
        let call = *self.row.get(row.index())?;
        (call != NONE).then_some(call as usize)
    }

    /// Number of calls.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns the op of a call; `None` if there is no such call.
    pub fn op(&self, call: usize) -> Option<CapturedOp<'_>> {
        let texts = *self.ops.get(*self.calls.get(call)? as usize)?;
        let [name, shapes, types, scope, strides, values] = texts.map(|name| self.names.get(name));
        Some(CapturedOp {
            name,
            shapes,
            types,
            scope,
            strides,
            values,
        })
    }
}

/// Counts of graph launches and kernels that received their op from capture time.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaptureReport {
    /// Complete captures in the capture-time trace.
    pub captures: u64,
    /// Launches in these captures.
    pub launches: u64,
    /// Captures with launches that do not name their kernels: left out.
    pub unnamed: u64,
    /// Captures with only their start or end recorded: left out.
    pub unfinished: u64,
    /// Graph launches whose kernels match the names of a capture, all in the same order.
    pub complete: u64,
    /// Graph launches that match a capture in part.
    pub partial: u64,
    /// Graph launches that match no capture.
    pub unknown: u64,
    /// Device rows that received an op.
    pub carried: u64,
    /// Device rows with several possible ops.
    pub ambiguous: u64,
    /// Device rows that are in no capture.
    pub not_found: u64,
    /// Device rows whose captured launch is outside all ops.
    pub without_op: u64,
}

/// True if a call with this name begins a stream capture: `cudaStreamBeginCapture`,
/// `hipStreamBeginCapture` and similar names.
pub fn begins_capture(name: &str) -> bool {
    name.contains("StreamBeginCapture")
}

/// True if a call with this name launches a graph: `cudaGraphLaunch`, `hipGraphLaunch` and similar
/// names.
pub fn launches_graph(name: &str) -> bool {
    name.contains("GraphLaunch")
}

/// Lists the rows that graph launches caused, with their calls: by call, then by start.
pub(crate) fn rows_of_graph_launches(
    device: &DeviceTrace,
    row_call: &[CallIdx],
) -> Vec<(CallIdx, RowIdx)> {
    // A trace has few call names and many rows, so each name is checked once.
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
    // rows are numbered by start
    rows.sort();
    rows
}
