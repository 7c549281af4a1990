//! Summary of one rank, kept for joining it with the others.

mod extent;

use super::{GroupResolver, RankSet, RankSteps};
use crate::host::pending::gloo_ranges;
use crate::lost_collectives::{OPS_OF_BACKEND, launching_op, lost_kernels};
use crate::report::LinkReport;
use crate::{CollectiveRef, LinkedTrace, NodeKind};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{
    AnomalyKind, Collective, CollectiveKind, DeviceTrace, GlobalRank, GroupIdx, NameId, Names,
    NodeIdx, OpIdx, RowIdx, StepIdx, TimeNs, TraceRecorder, TrackLabel, UnixNs, dtype_bytes,
};
use extent::{Carriers, of_node};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use std::collections::{BTreeMap, BTreeSet};

/// Communications of one rank, and evidence that it belongs to the run.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct RankSummary {
    /// Global rank.
    pub rank: GlobalRank,
    /// Number of ranks, if the traces state it.
    pub world_size: Option<i64>,
    /// First start and last end, by this rank's clock.
    pub window_ns: (UnixNs, UnixNs),
    /// True if the file is truncated before its time base: its times belong to no clock.
    pub has_no_clock: bool,
    /// True if the device trace is truncated.
    pub is_cut: bool,
    /// Start of the recording, by this rank's clock, if the trace states it.
    pub stated_start_ns: Option<UnixNs>,
    /// First start of anything that a view of the trace shows, by this rank's clock: events other
    /// than work may precede the window.
    pub first_ns: UnixNs,
    /// Machine whose clock the times use (`host_name` of the device trace, or from the manifest):
    /// ranks of one machine share a clock.
    pub machine: Option<String>,
    /// True if the manifest of one recording lists the rank: it belongs to the run even if its time
    /// does not overlap the other ranks'.
    pub is_listed: bool,
    /// Id of the process with the first op or runtime call; `None` if the trace has neither.
    pub process: Option<i64>,
    /// Version of the host trace's format, which depends on PyTorch's; `None` without a host trace.
    pub host_schema: Option<String>,
    /// Version of the device trace's format, by the parts of its header that depend on PyTorch's
    /// version: time base, id of the trace. `None` for other recorders and truncated headers.
    pub device_schema: Option<(bool, bool)>,
    /// Groups, as numbered by [`Peers::Group`].
    pub groups: Vec<GroupIdentity>,
    /// Communications, sorted by time.
    pub communications: Vec<Communication>,
    /// Communications whose device rows were lost, in order of their launches.
    pub lost: Vec<LostCommunication>,
    /// Number of launches without a row that communicate with unknown peers.
    pub lost_unnamed: u64,
    /// Communications known only by a kernel's name, without size and peers, sorted by time.
    pub unrecorded: Vec<UnrecordedKernel>,
    /// Number of ranges in which Gloo communicates beyond the recorded communications, of unknown
    /// group and size. `ProcessGroupGloo` does not call `record_param_comms`, even in PyTorch 2.15.
    pub unrecorded_gloo: u64,
    /// Steps of the rank and of its communications.
    pub steps: RankSteps,
    /// Strings of the communications.
    pub names: Names,
}

/// A rank's knowledge of a group's ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
pub enum GroupIdentity {
    /// The global ranks are known.
    Ranks(RankSet),
    /// The ranks are unknown, but it is the only group in the rank's trace.
    Only,
    /// The ranks are unknown, but not the NCCL communicator (`Comms Id`) and the size (0 if
    /// unknown).
    Communicator(String, u64),
    /// Only the name is known.
    Named(String),
    /// The ranks whose kernels without records end together.
    Inferred(RankSet),
}

/// Peers of a communication.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize,
)]
pub enum Peers {
    /// A group, by its index in [`RankSummary::groups`].
    Group(GroupIdx),
    /// The rank that it sends to or receives from; `None` if unknown.
    Peer(Option<GlobalRank>),
}

/// A communication of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Communication {
    /// Node of the linked trace.
    pub node: NodeIdx,
    /// Peers of the communication.
    pub peers: Peers,
    /// Name of the node, in [`RankSummary::names`].
    pub name: NameId,
    /// Kind of the collective, or send or receive.
    pub kind: CollectiveKind,
    /// Element type, as a name in [`RankSummary::names`].
    pub dtype: NameId,
    /// Sizes sent to each rank by an uneven all-to-all, as list text in [`RankSummary::names`].
    pub in_split: NameId,
    /// Input of this rank, bytes; 0 if size or element type are unknown.
    pub in_bytes: u64,
    /// Larger of input and output, bytes.
    pub bytes: u64,
    /// True if the traces state these sizes; otherwise both are 0.
    pub is_sized: bool,
    /// `Seq`, the number of the collective in its group.
    pub seq: Option<i64>,
    /// Start, by this rank's clock.
    pub start_ns: UnixNs,
    /// End; for a host op the end of the call, after which the transfer may continue.
    pub end_ns: UnixNs,
    /// True for device rows, which end with their transfer.
    pub on_device: bool,
    /// Nodes in which it is carried out.
    pub extent: CommExtent,
}

/// A communication whose device row was lost: the rank's arrival and its end are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct LostCommunication {
    /// Peers of the communication.
    pub peers: Peers,
    /// Kind of the collective, or send or receive.
    pub kind: CollectiveKind,
    /// `Seq`, the number of the collective in its group.
    pub seq: Option<i64>,
    /// First communication with the same peers launched later; [`NodeIdx::NONE`] if it was the
    /// last.
    pub before: NodeIdx,
}

/// A communication kernel without a record of its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct UnrecordedKernel {
    /// Node of the linked trace.
    pub node: NodeIdx,
    /// Name, in [`RankSummary::names`].
    pub name: NameId,
    /// Kind from its name, or from the op that launched it.
    pub kind: CollectiveKind,
    /// Stream that it runs on.
    pub stream: i64,
    /// Start, by this rank's clock.
    pub start_ns: UnixNs,
    /// End, by this rank's clock.
    pub end_ns: UnixNs,
    /// Step in which it was launched.
    pub step: StepIdx,
}

/// Nodes in which a communication is carried out: its own, or other ones if calls return at once
/// (Gloo).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CommExtent {
    /// Node whose start is the arrival of the rank.
    pub arrives: NodeIdx,
    /// Time of the arrival.
    pub arrival_ns: UnixNs,
    /// Node in which the rank waits for the others and transfers; may equal `arrives`.
    pub waits: NodeIdx,
    /// Start of node `waits`.
    pub start_ns: UnixNs,
    /// End of node `waits`.
    pub end_ns: UnixNs,
    /// True if the transfer ends with node `waits`; otherwise its end is not recorded.
    pub is_transfer: bool,
}

impl CommExtent {
    /// Creates the extent of a communication that a single node carries out.
    pub fn from_node(node: NodeIdx, (start_ns, end_ns): (UnixNs, UnixNs)) -> CommExtent {
        CommExtent {
            arrives: node,
            arrival_ns: start_ns,
            waits: node,
            start_ns,
            end_ns,
            is_transfer: true,
        }
    }
}

impl Communication {
    /// True for sends and receives.
    pub fn is_message(&self) -> bool {
        matches!(self.kind, CollectiveKind::Send | CollectiveKind::Recv)
    }

    /// True if the recorded communication ends with its transfer.
    pub fn ends_with_transfer(&self) -> bool {
        self.on_device || self.extent.is_transfer
    }

    /// Recorded start and end.
    pub(crate) fn span(&self) -> (UnixNs, UnixNs) {
        if self.on_device {
            (self.start_ns, self.end_ns)
        } else {
            (self.extent.arrival_ns, self.extent.end_ns)
        }
    }

    /// True if it cannot end before all others have arrived. A sender can finish early, and so can
    /// the root of a broadcast.
    pub fn needs_all(&self) -> bool {
        self.kind == CollectiveKind::Recv || needs_all_ranks(self.kind)
    }
}

impl RankSummary {
    /// Collects the communications of `trace`, the trace of `rank`. O(nodes).
    pub fn from_trace(trace: &LinkedTrace, rank: GlobalRank) -> RankSummary {
        let facts = RankSummary::without_communications(&trace.device, &trace.report);
        let mut collector = CommunicationCollector::new(RankSummary { rank, ..facts });
        collector.add(trace);
        collector.add_lost(trace);
        let gloo = gloo_ranges(&trace.device).count() as u64;
        let mut summary = collector.finish(gloo);
        let communications = summary.communications.iter().map(|own| own.node);
        let unrecorded = summary.unrecorded.iter().map(|kernel| kernel.node);
        summary.steps = RankSteps::new(trace, communications.chain(unrecorded));
        let steps = summary
            .steps
            .by_comm
            .split_off(summary.communications.len());
        for (kernel, step) in summary.unrecorded.iter_mut().zip(steps) {
            kernel.step = step;
        }
        summary
    }

    /// Returns the start of the recording, as far as the trace shows it.
    pub fn recorded_from(&self) -> UnixNs {
        let first = self.window_ns.0;
        self.stated_start_ns
            .map_or(first, |stated| stated.min(first))
    }

    /// Summarizes a rank from its device trace and report, without communications and steps.
    pub fn without_communications(device: &DeviceTrace, report: &LinkReport) -> RankSummary {
        RankSummary {
            world_size: report.world_size.or(device.header.world_size),
            window_ns: window(device, report),
            is_listed: false,
            has_no_clock: device.anomalies.count(AnomalyKind::NoTimeBase) > 0,
            is_cut: device.anomalies.is_cut(),
            stated_start_ns: device.recorded_from.map(|at| device.header.unix_time(at)),
            first_ns: first_shown(device, report),
            machine: Some(device.header.host_name.clone()).filter(|name| !name.is_empty()),
            process: first_process(device),
            host_schema: report.host_schema.clone(),
            device_schema: device_schema(device),
            ..RankSummary::default()
        }
    }
}

fn device_schema(device: &DeviceTrace) -> Option<(bool, bool)> {
    let (header, has_clock) = (
        &device.header,
        device.anomalies.count(AnomalyKind::NoTimeBase) == 0,
    );
    let is_kineto = header.recorder == TraceRecorder::Kineto;
    (is_kineto && has_clock).then(|| (header.base_ns != UnixNs(0), !header.trace_id.is_empty()))
}

fn first_process(device: &DeviceTrace) -> Option<i64> {
    let (ops, calls) = (&device.ops, &device.calls);
    let thread = ops.thread.first().or(calls.thread.first())?;
    match device.threads.get(thread.index())?.pid {
        TrackLabel::Int(process) => Some(process),
        TrackLabel::Text(_) => None,
    }
}

/// Collects the communications of a rank.
struct CommunicationCollector {
    summary: RankSummary,
    groups: IndexSet<GroupIdentity, FxBuildHasher>,
    /// Number of nodes with a record of their communication.
    records: u64,
}

impl CommunicationCollector {
    /// Starts from the known facts about the rank.
    fn new(summary: RankSummary) -> CommunicationCollector {
        CommunicationCollector {
            summary,
            groups: IndexSet::default(),
            records: 0,
        }
    }

    /// Adds the communications of a trace.
    fn add(&mut self, trace: &LinkedTrace) {
        let known = GroupResolver::new(trace);
        let summary = &mut self.summary;
        // Only runs on Gloo need them, and they cost a pass over all ops.
        let mut carriers = None;
        for index in trace.nodes.indices() {
            // Most nodes do not communicate: their other columns are not read.
            if trace.nodes.kind[index.index()] != NodeKind::Collective {
                continue;
            }
            let node = trace.nodes.get(index);
            if !trace.is_communication(&node) {
                continue;
            }
            let Some(found) = trace.collective(&node) else {
                // The caller counts ranges of Gloo.
                let kernel = unrecorded_kernel(trace, index, &mut summary.names);
                summary.unrecorded.extend(kernel);
                continue;
            };
            self.records += 1;
            let kind = found.kind();
            let Some(peers) = peers(&known, &found, &mut self.groups) else {
                continue;
            };
            let start_ns = trace.device.header.unix_time(node.start);
            let end_ns = start_ns + node.duration;
            let sizes = sizes(&found);
            let (in_bytes, bytes) = sizes.unwrap_or_default();
            let dtype = summary.names.intern(found.names.get(found.record.dtype));
            let in_split = summary.names.intern(found.names.get(found.record.in_split));
            let extent = if node.on_device {
                of_node(trace, index)
            } else {
                let is_message = matches!(kind, CollectiveKind::Send | CollectiveKind::Recv);
                carriers
                    .get_or_insert_with(|| Carriers::new(trace))
                    .extent(trace, index, is_message)
            };
            summary.communications.push(Communication {
                node: index,
                peers,
                name: summary.names.intern(trace.name(&node)),
                kind,
                dtype,
                in_split,
                in_bytes,
                bytes,
                is_sized: sizes.is_some(),
                seq: Some(found.record.seq).filter(|seq| *seq >= 0),
                start_ns,
                end_ns,
                on_device: node.on_device,
                extent,
            });
        }
    }

    /// Adds communications whose device rows were lost. O(calls + rows) if there are any.
    fn add_lost(&mut self, trace: &LinkedTrace) {
        let lost = lost_kernels(trace);
        if lost.is_empty() {
            return;
        }
        let known = GroupResolver::new(trace);
        let mut launched: BTreeMap<Peers, Vec<(TimeNs, NodeIdx)>> = BTreeMap::new();
        let mut met: BTreeSet<OpIdx> = BTreeSet::new();
        // Ops that launch communications described only by their kernels.
        let mut without_record: BTreeSet<Option<NameId>> = BTreeSet::new();
        for communication in &self.summary.communications {
            let node = trace.nodes.get(communication.node);
            let Some(row) = trace.row_of(&node) else {
                continue;
            };
            let op = trace.row_op[row.index()];
            met.insert(op);
            let has_record = op.get().is_some_and(|op| trace.op_collective(op).is_some());
            if let Some(call) = trace.row_call[row.index()].get() {
                let called = trace.device.calls.start[call.index()];
                let launched = launched.entry(communication.peers).or_default();
                launched.push((called, communication.node));
                if !has_record {
                    without_record.insert(launching_op(trace, call));
                }
            }
        }
        launched
            .values_mut()
            .for_each(|nodes| nodes.sort_unstable());
        for one in lost {
            let found = one.record.map(|op| (op, trace.op_collective(op)));
            let Some((op, Some(found))) = found else {
                let may_be = without_record.contains(&launching_op(trace, one.call));
                self.summary.lost_unnamed += u64::from(one.is_of_backend || may_be);
                continue;
            };
            // The record has a row, or was seen already.
            if !met.insert(op) {
                continue;
            }
            let Some(peers) = peers(&known, &found, &mut self.groups) else {
                continue;
            };
            let called = trace.device.calls.start[one.call.index()];
            let nodes = launched.get(&peers).map_or(&[][..], |nodes| nodes);
            let after = nodes.partition_point(|(other, _)| *other <= called);
            self.summary.lost.push(LostCommunication {
                peers,
                kind: found.kind(),
                seq: Some(found.record.seq).filter(|seq| *seq >= 0),
                before: nodes.get(after).map_or(NodeIdx::NONE, |(_, node)| *node),
            });
        }
    }

    /// Returns the summary, without steps. `gloo` is the number of ranges in which Gloo
    /// communicates.
    fn finish(self, gloo: u64) -> RankSummary {
        RankSummary {
            unrecorded_gloo: gloo.saturating_sub(self.records),
            groups: self.groups.into_iter().collect(),
            ..self.summary
        }
    }
}

/// True if every rank needs data of every other.
pub fn needs_all_ranks(kind: CollectiveKind) -> bool {
    use CollectiveKind as Kind;
    matches!(
        kind,
        Kind::AllReduce | Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll | Kind::Barrier
    )
}

fn unrecorded_kernel(
    trace: &LinkedTrace,
    index: NodeIdx,
    names: &mut Names,
) -> Option<UnrecordedKernel> {
    let node = trace.nodes.get(index);
    let row = trace.row_of(&node)?;
    let device = &trace.device;
    let start_ns = device.header.unix_time(node.start);
    Some(UnrecordedKernel {
        node: index,
        name: names.intern(trace.name(&node)),
        kind: unrecorded_kind(trace, trace.name(&node), row),
        stream: device.queues[device.rows.queue[row.index()].index()].stream,
        start_ns,
        end_ns: start_ns + node.duration,
        step: StepIdx::NONE,
    })
}

/// Returns the kind in a kernel's name; for kernels that serve several kinds, the kind of the op
/// that launched it: `c10d::alltoall_base_` for NCCL's `SendRecv`.
fn unrecorded_kind(trace: &LinkedTrace, kernel: &str, row: RowIdx) -> CollectiveKind {
    let mut kind = CollectiveKind::from_name(kernel);
    let mut op = trace.row_op[row.index()];
    for _ in 0..OPS_OF_BACKEND {
        if kind != CollectiveKind::Other {
            break;
        }
        let Some(own) = op.get() else {
            break;
        };
        let name = trace.device_name(trace.device.ops.name[own.index()]);
        if let Some(name) = name.strip_prefix("c10d::").or(name.strip_prefix("nccl:")) {
            kind = CollectiveKind::from_name(name);
        }
        op = trace.op_parent[own.index()];
    }
    kind
}

fn window(device: &DeviceTrace, report: &LinkReport) -> (UnixNs, UnixNs) {
    let (header, window) = (&device.header, report.window);
    let start = header.unix_time(TimeNs(window.start_ns));
    (start, header.unix_time(TimeNs(window.end_ns)))
}

fn first_shown(device: &DeviceTrace, report: &LinkReport) -> UnixNs {
    let shown = device.details.as_ref();
    let first = shown.and_then(|_| device.first_start_of_all());
    let window = window(device, report).0;
    first.map_or(window, |first| window.min(device.header.unix_time(first)))
}

/// Returns the peers of a communication; `None` for other records.
fn peers(
    known: &GroupResolver<'_>,
    found: &CollectiveRef<'_>,
    groups: &mut IndexSet<GroupIdentity, FxBuildHasher>,
) -> Option<Peers> {
    match found.kind() {
        CollectiveKind::Other => None,
        CollectiveKind::Send | CollectiveKind::Recv => Some(Peers::Peer(known.peer(found))),
        _ => {
            let (group, _) = groups.insert_full(group_of(known, found));
            Some(Peers::Group(GroupIdx::new(group)))
        }
    }
}

/// Returns the input, and the larger of input and output, in bytes; `None` if the trace does not
/// state them.
fn sizes(found: &CollectiveRef<'_>) -> Option<(u64, u64)> {
    let Collective {
        dtype,
        in_elements,
        out_elements,
        ..
    } = found.record;
    // A barrier needs no element type: it moves no data.
    if found.kind() == CollectiveKind::Barrier && dtype_bytes(found.names.get(dtype)).is_none() {
        return Some((0, 0));
    }
    let element = dtype_bytes(found.names.get(dtype))?;
    Some((
        in_elements.saturating_mul(element),
        in_elements.max(out_elements).saturating_mul(element),
    ))
}

fn group_of(known: &GroupResolver<'_>, found: &CollectiveRef<'_>) -> GroupIdentity {
    let communicator = found.names.get(found.record.comms_id);
    match known.ranks(found) {
        Some(ranks) => GroupIdentity::Ranks(RankSet::from_iter(ranks)),
        // The communicator takes precedence over the name: PyTorch's group names differ between
        // ranks.
        None if !communicator.is_empty() => {
            GroupIdentity::Communicator(communicator.to_owned(), found.record.group_size)
        }
        None if known.is_only(found) => GroupIdentity::Only,
        None => GroupIdentity::Named(found.names.get(found.record.group_name).to_owned()),
    }
}

#[cfg(test)]
mod tests;
