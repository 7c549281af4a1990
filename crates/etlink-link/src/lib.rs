//! Links a host trace and a device trace of one rank into a dependency graph.
//!
//! ```text
//!                judge_rows()         rows that cannot be true are taken out of the device trace
//! HostTrace ───┐                     match    host node <-> CPU op (ids, else order of names)
//!              ├─> link() ─────────> nest     op tree and exclusive slices per thread
//! DeviceTrace ─┘                     launch   device row -> runtime call -> owning op
//!                                    graph    nodes by time, edges with a cause
//!                └─> LinkedTrace { nodes, edges, report }
//!                       └─> carry_captured_ops()  graph kernels <- ops of a capture-time trace
//! ```
//! Nodes are intervals of work on a resource (a host thread or a device queue). Edges are reasons
//! to wait. Nodes are numbered in order of time, and every edge goes from a lower to a higher
//! number, so the graph is acyclic by construction. An edge that contradicts the measured times is
//! counted but not created. All passes are O(n log n) or better, and nothing recurses.

mod counts;
mod device;
mod diagnostics;
mod earlier_work;
mod error;
mod graph;
mod host;
mod kernel_metrics;
pub mod limits;
mod lost_collectives;
mod matching;
mod options;
mod passive_threads;
pub mod ranks;
mod recorder_advice;
mod recording;
mod report;
pub mod roofline;
mod sanity;
mod search;
mod thread_work;
mod trace;

pub use device::capture::{
    CaptureReport, CapturedOp, CapturedOps, GraphCaptures, begins_capture, carry_captured_ops,
    launches_graph,
};
pub use device::clocks::DeviceClock;
pub use device::launch_queue::FullQueue;
pub use earlier_work::{EarlierWait, is_from_before, waits_for_earlier_work};
pub use error::Error;
pub use graph::edges::{Edge, Edges, NodeDeps};
pub use graph::kinds::{EdgeKind, MatchRule, NoLaunch, NodeKind};
pub use graph::nodes::{Node, Nodes};
pub use host::comms::HostComm;
pub use host::tensors::TensorEdges;
pub use kernel_metrics::{MetricJoin, join_counter_ranges, join_kernel_metrics};
pub use options::LinkOptions;
pub use recording::{RecordingContent, has_stacks};
pub use report::{
    EdgeCounts, LinkReport, MatchCounts, NodeCounts, RecordingOverhead, TimeWindow, UnmatchedCounts,
};
pub use sanity::judge_rows;
pub use thread_work::{HandedWork, ThreadWork};
pub use trace::{CollectiveRef, LinkedTrace};

use device::{clocks, launch, waits};
use etlink_model::{AnomalyKind, DeviceTrace, HostTrace};
use graph::build;
use host::comms;
use host::nest::{self, Nesting};
use host::tensors;
use matching::{Matching, compare};

/// Links one rank. Without a host trace, the graph is built from the device trace alone. Runs on
/// the threads of the current rayon pool, or of the global one.
///
/// # Errors
/// Fails if the two traces are of different programs, ranks or steps, unless `allow_mismatch` is
/// set, or if there is nothing to link.
pub fn link(
    mut host: Option<HostTrace>,
    mut device: DeviceTrace,
    options: LinkOptions,
) -> Result<LinkedTrace, Error> {
    judge_rows(&mut device);
    let Some((start, end)) = device.window() else {
        return Err(Error::empty_device(&device));
    };
    let mut report = LinkReport {
        window: TimeWindow {
            start_ns: start.0,
            end_ns: end.0,
        },
        ..LinkReport::default()
    };
    describe(host.as_ref(), &device, options, &mut report)?;
    // Matching, tensors and nesting are independent of each other.
    let ((matched, used), nesting) = rayon::join(
        || {
            rayon::join(
                || matched(host.as_ref(), &device, options, &mut report),
                || {
                    host.as_ref()
                        .map(|host| tensors::tensor_deps(host, options.tensor_deps))
                        .unwrap_or_default()
                },
            )
        },
        || nest::nest(&device),
    );
    let matching = matched?;
    let first_dropped = used
        .first_dropped
        .zip(host.as_ref())
        .map(|(node, host)| format!("{:?}", host.names.get(host.nodes.name[node.index()])));
    let has_tensors = host.as_ref().is_some_and(|host| host.tensors.is_some());
    let tensors = if has_tensors || options.tensor_deps == TensorEdges::None {
        tensors::between_ops(used.pairs, &matching.op_host)
    } else {
        tensors::recorded_producers(&device)
    };
    // no longer needed, and large
    host.iter_mut().for_each(|host| host.tensors = None);
    let mut anomalies = std::mem::take(&mut report.anomalies);
    anomalies.add(AnomalyKind::TensorUsersDropped, used.dropped, first_dropped);
    let (differences, (mut launches, unlaunched)) = rayon::join(
        || {
            host.as_ref()
                .map(|host| compare::differences(host, &device, &matching, &nesting.op_parent))
                .unwrap_or_default()
        },
        || launch::launches(&device, &nesting, &matching.op_host),
    );
    anomalies.merge(differences);
    anomalies.merge(unlaunched);
    let Nesting {
        op_parent,
        op_exclusive,
        call_op,
        call_slot,
        draft,
        handoffs,
        carried_out,
        recorded,
        release_slot,
        overlaps,
    } = nesting;
    anomalies.merge(overlaps);
    let Matching {
        op_host, op_rule, ..
    } = matching;
    let mut trace = LinkedTrace {
        host,
        device,
        op_host,
        op_rule,
        op_parent,
        op_exclusive,
        call_op,
        is_interleaved: options.is_interleaved,
        report,
        ..LinkedTrace::default()
    };
    // Waits and the graph use the host's clock.
    trace.report.device_clocks = clocks::device_clocks(&trace.device, &launches);
    let recorded_times = clocks::shift_rows(
        &mut trace.device,
        &mut launches,
        &trace.report.device_clocks,
    );
    let waits = waits::waits(&trace.device, &launches, &trace.call_op, &mut anomalies);
    let lost = lost_collectives::lost_kernels(&trace);
    let lost = lost.iter().filter_map(|lost| lost.record).collect();
    let mut communicates = build::host_collectives(&trace.device, &launches, &lost, |op| {
        trace.op_collective(op).map(|found| found.kind())
    });
    // In this case, the worker's range is the communication, and the call only began it.
    for one in &carried_out {
        if let Some(communicates) = communicates.get_mut(one.given.index()) {
            *communicates = false;
        }
    }
    let between = build::BetweenThreads {
        handoffs: &handoffs,
        recorded: &recorded,
        release_slot: &release_slot,
        tensors: &tensors,
    };
    (trace.nodes, trace.edges) = build::build(
        &trace.device,
        draft,
        call_slot,
        &launches,
        (&waits, between),
        &communicates,
        &mut anomalies,
    );
    // If collectives run on devices, the rows are the communications, see `host_collectives`.
    if !launches.collective.contains(&true) {
        trace.host_comms =
            comms::mark_host_comms(&trace.device, &carried_out, &communicates, &mut trace.nodes);
    }
    trace.full_queues = waits.full_queues;
    clocks::restore_rows(&mut trace.device, recorded_times);
    trace.row_call = launches.row_call;
    trace.row_op = launches.row_op;
    trace.row_no_launch = launches.no_launch;
    diagnostics::about_device(
        trace.host.as_ref(),
        &trace.device,
        &mut trace.report.diagnostics,
    );
    diagnostics::about_clocks(&mut trace.report);
    trace.report.anomalies = anomalies;
    counts::count_trace(&mut trace);
    Ok(trace)
}

/// Returns the name of an overlapping range, for messages.
/// Matches the ops of the two traces and compares the traces. Without a host trace, nothing
/// matches.
fn matched(
    host: Option<&HostTrace>,
    device: &DeviceTrace,
    options: LinkOptions,
    report: &mut LinkReport,
) -> Result<Matching, Error> {
    let Some(host) = host else {
        return Ok(Matching::none(0, device.ops.len()));
    };
    let mut found = if options.is_interleaved {
        matching::interleaved(host, device)
    } else {
        matching::matching(host, device, &mut report.anomalies)
    };
    compare::compare(host, device, &found, options, report)?;
    // The graph goes from ops to host nodes only; the other direction is 4 bytes per host node.
    found.host_op = vec![];
    Ok(found)
}

/// Copies the traces' descriptions of themselves to the report.
fn describe(
    host: Option<&HostTrace>,
    device: &DeviceTrace,
    options: LinkOptions,
    report: &mut LinkReport,
) -> Result<(), Error> {
    let rows = device.ops.len() + device.calls.len() + device.rows.len();
    // every event can become several slices, and node numbers are 32 bits wide
    if rows > (u32::MAX / 4) as usize {
        return Err(Error::TooManyEvents { rows });
    }
    // A wrong `--rank` usually means a wrong file: every later figure would carry another rank's
    // name.
    if let (Some(asked), Some(found)) = (options.rank, device.header.rank)
        && asked != found
        && !options.allow_mismatch
    {
        return Err(Error::WrongRank { asked, found });
    }
    report.rank = options.rank.or(device.header.rank);
    report.world_size = device.header.world_size;
    report.host_schema = host.map(|host| host.header.schema.clone());
    if let Some(host) = host {
        report.anomalies.merge(host.anomalies.clone());
    }
    report.anomalies.merge(device.anomalies.clone());
    report.device_is_cut = device.anomalies.is_cut();
    Ok(())
}
