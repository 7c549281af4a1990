//! Finds the host nodes that are communications.
//!
//! ```text
//! thread     record(all_reduce)  …  record(wait) . . . . . . ____
//! worker               |== gloo:all_reduce ==============|          the range
//! thread     record(recv)  …  record(wait)===============____       the wait
//! ```
//! A call hands the communication over and returns. The worker's range is the communication, from
//! the rank's arrival to the end of the transfer. Time in which the thread was blocked meanwhile is
//! a wait gap, which has no duration. Without a range, the transfer ends with the blocked wait: the
//! call stays the communication, and the wait is where it takes time. If ops called inside split a
//! range or wait into several slices, the longest slice is the transfer.

use crate::graph::kinds::NodeKind;
use crate::graph::nodes::Nodes;
use crate::host::pending::{CarriedOut, collective_key, gloo_ranges, recorded_waits};
use etlink_model::{DeviceTrace, DurationNs, NodeIdx, OpIdx, TimeNs};
use rustc_hash::FxHashMap;

/// A host op's communication that continues in another op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostComm {
    /// Op in which it continues: a worker's range, or the record of a wait.
    pub carrier: OpIdx,
    /// Longest slice of the carrier, which ends with the transfer.
    pub node: NodeIdx,
    /// Op that began and describes the communication; [`OpIdx::NONE`] if unknown.
    pub given: OpIdx,
    /// True if the carrier is a wait of the thread that began it.
    pub is_wait: bool,
}

/// Marks the ranges of workers as communications, and returns them by carrier. `communicates` marks
/// the ops that are communications themselves. O(nodes) if there is one, else O(names + ops that
/// communicate).
pub(crate) fn mark_host_comms(
    device: &DeviceTrace,
    carried_out: &[CarriedOut],
    communicates: &[bool],
    nodes: &mut Nodes,
) -> Vec<HostComm> {
    let mut carriers: FxHashMap<OpIdx, HostComm> = FxHashMap::default();
    let mut add = |carrier: OpIdx, given: OpIdx, is_wait: bool| {
        let node = NodeIdx::NONE;
        carriers.entry(carrier).or_insert(HostComm {
            carrier,
            node,
            given,
            is_wait,
        });
    };
    for one in carried_out {
        add(one.range, one.given, false);
    }
    if communicates.contains(&true) {
        let waits: FxHashMap<_, _> = recorded_waits(device).collect();
        for op in (0..communicates.len()).filter(|op| communicates[*op]) {
            let wait = collective_key(device, op).and_then(|key| waits.get(&key));
            // The wait must come after the call: a reused number would name an earlier one.
            if let Some(&wait) = wait.filter(|wait| **wait > op) {
                add(OpIdx::new(wait), OpIdx::new(op), true);
            }
        }
    } else {
        // Nothing is recorded that would count twice: only the ranges are known.
        for range in gloo_ranges(device) {
            add(range, OpIdx::NONE, false);
        }
    }
    if carriers.is_empty() {
        return vec![];
    }
    // The part of a range after its early end is no transfer.
    let late = carried_out.iter().filter(|one| one.handoff.ended_late);
    let ends = late.map(|one| (one.range, one.handoff.end)).collect();
    choose_longest_slices(nodes, &mut carriers, &ends);
    let mut comms: Vec<HostComm> = carriers.into_values().collect();
    comms.retain(|comm| comm.node != NodeIdx::NONE);
    comms.sort_unstable_by_key(|comm| comm.carrier);
    for comm in comms.iter().filter(|comm| !comm.is_wait) {
        nodes.kind[comm.node.index()] = NodeKind::Collective;
    }
    comms
}

/// Sets each carrier's longest slice. For carriers in `ends`, only slices that begin before that
/// time count.
fn choose_longest_slices(
    nodes: &Nodes,
    carriers: &mut FxHashMap<OpIdx, HostComm>,
    ends: &FxHashMap<OpIdx, TimeNs>,
) {
    let duration = |node: NodeIdx| match node.get() {
        Some(node) => nodes.duration[node.index()],
        None => DurationNs(-1),
    };
    for node in nodes.indices() {
        if nodes.kind[node.index()] == NodeKind::HostOp
            && let Some(comm) = carriers.get_mut(&OpIdx(nodes.source[node.index()]))
            && ends
                .get(&comm.carrier)
                .is_none_or(|end| nodes.start[node.index()] < *end)
            && duration(node) > duration(comm.node)
        {
            comm.node = node;
        }
    }
}
