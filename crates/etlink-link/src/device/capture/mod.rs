//! Carries ops of a capture-time trace over to the kernels of graph launches.
//!
//! A graph launch is one call: its kernels have neither op nor shapes. Both existed when the graph
//! was captured: ops ran and launched, but nothing was executed.
//!
//! ```text
//! capture   BeginCapture  aten::mm [launch gemm]  aten::add [launch add]  EndCapture
//! replay    GraphLaunch                                     stream 7   gemm ===  add =
//! ```
//! No trace records which captured launch became which kernel: calls have no `graph node id`. But
//! both sides have the order of kernel names, so a kernel gets an op if that order leaves no
//! choice:
//!
//! 1. A captured launch is a call without a device row between the start and the end of a capture,
//!    on the capturing thread or, for autograd's threads, in its process. Its `kernel` names the
//!    launched kernel. If one launch has no name (CUDA), its capture is left out.
//! 2. The rows of a graph launch are sorted by `graph node id` if all have one, else by time, per
//!    stream.
//! 3. They are aligned with each capture, see [`place`]. A capture fits if the names agree and at
//!    most a tenth of either side is left over. If a capture has exactly the same names, only such
//!    captures are considered.
//! 4. A row gets its op if its alignment is unique, and every fitting capture gives the same name,
//!    shapes, types and annotation. All other rows are counted, not guessed.
//!
//! Evidence: for the vLLM trace of a captured graph (MI300, 421 launches, all named) and its replay
//! (421 rows), all names agree, place by place. Launch calls name their kernel on all of 5335 rows
//! in seven public ROCm traces, and on none of 8552 in ten CUDA traces. Names cannot distinguish
//! two graphs of the same kernels for different batch sizes.
//!
//! O(n log n), and O(captures × rows) for each distinct sequence of rows that equals no capture.

mod captured;
mod graphs;
mod place;
mod recorded;

pub(crate) use captured::rows_of_graph_launches;
pub use captured::{CaptureReport, CapturedOp, CapturedOps, begins_capture, launches_graph};

use crate::error::Error;
use crate::trace::LinkedTrace;
use etlink_model::{CallIdx, DeviceTrace, Diagnostic, NameId, Names, RowIdx, diagnostic};
use graphs::{KernelTokens, LaunchFit, distinct};
use place::GraphRow;
use recorded::RecordedCaptures;
use rustc_hash::FxHashMap;

/// No captured op.
const NONE: u32 = u32::MAX;

/// Captures of one or more capture-time traces.
#[derive(Debug, Default)]
pub struct GraphCaptures {
    names: Names,
    recorded: RecordedCaptures,
}

impl GraphCaptures {
    /// Adds the captures of a trace. O(n log n).
    ///
    /// # Errors
    /// Fails if the trace has no usable capture.
    pub fn add(&mut self, capture: &DeviceTrace) -> Result<(), Error> {
        self.recorded.add(capture, &mut self.names)
    }
}

/// Carries captured ops over to the rows of graph launches, and counts the outcome.
pub fn carry_captured_ops(trace: &mut LinkedTrace, captures: GraphCaptures) {
    let GraphCaptures { names, recorded } = captures;
    let mut report = recorded.report;
    let graphs = distinct(&recorded);
    let mut row_call = vec![NONE; trace.device.rows.len()];
    let mut calls = vec![];
    let tokens = KernelTokens::new(&trace.device, &names);
    let mut rows = rows_of_graph_launches(&trace.device, &trace.row_call);
    let mut seen: FxHashMap<Vec<GraphRow>, LaunchFit> = FxHashMap::default();
    for launch in rows.chunk_by_mut(|a, b| a.0 == b.0) {
        in_order(&trace.device, launch);
        // the same graph is launched repeatedly
        let found = seen
            .entry(tokens.steps(launch))
            .or_insert_with_key(|steps| graphs.find(steps));
        match found {
            LaunchFit { complete: true, .. } => report.complete += 1,
            LaunchFit { fits, .. } if fits.is_empty() => report.unknown += 1,
            LaunchFit { .. } => report.partial += 1,
        }
        // kernels of one captured call, in one launch of its graph, are those of one call
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        for (at, &(_, row)) in launch.iter().enumerate() {
            let op = found.op_of(at, &graphs, &mut report);
            if op == NONE {
                continue;
            }
            let number = numbers.entry(found.call_of(at, &graphs));
            row_call[row.index()] = *number.or_insert_with(|| {
                calls.push(op);
                calls.len() as u32 - 1
            });
        }
    }
    let shapes = recorded
        .ops
        .iter()
        .any(|[_, shapes, ..]| *shapes != NameId::EMPTY);
    trace
        .report
        .diagnostics
        .extend(note(&report, rows.is_empty(), shapes));
    trace.report.capture = Some(report);
    trace.captured = Some(CapturedOps {
        names,
        ops: recorded.ops,
        calls,
        row: row_call,
    });
}

/// Returns the fact that a capture trace adds nothing, or no shapes; `None` otherwise.
fn note(report: &CaptureReport, no_rows: bool, shapes: bool) -> Option<Diagnostic> {
    let text = match report {
        _ if no_rows => diagnostic!(
            CaptureUnused,
            "the device trace has no graph launches, so the capture trace adds nothing"
        ),
        CaptureReport {
            complete: 0,
            partial: 0,
            unknown,
            ..
        } => {
            diagnostic!(
                CaptureUnused,
                "none of the {unknown} graph launches has the kernels of a captured graph: the \
                 capture trace is from other graphs, so no op was assigned"
            )
        }
        _ if !shapes => diagnostic!(
            CaptureUnused,
            "the capture trace has no shapes, so only op names were assigned"
        )
        .advise("record it with record_shapes=True"),
        _ => return None,
    };
    Some(text)
}

/// Sorts the rows of one launch in the graph's own order, if the trace has it.
fn in_order(device: &DeviceTrace, launch: &mut [(CallIdx, RowIdx)]) {
    let nodes = &device.rows.graph_node;
    if launch.iter().all(|(_, row)| nodes[row.index()] != 0) {
        launch.sort_by_key(|(_, row)| nodes[row.index()]);
    }
}
