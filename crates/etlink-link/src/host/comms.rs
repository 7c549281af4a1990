//! Which nodes of a host are its communications.
//!
//! ```text
//! thread     record(all_reduce)  …  record(wait) . . . . . . ____
//! worker               |== gloo:all_reduce ==============|          the range
//! thread     record(recv)  …  record(wait)===============____       the wait
//! ```
//! A call gives the communication away and returns. The worker's range is the communication, from
//! the rank's arrival to the end of the transfer. What the thread was blocked meanwhile is a wait
//! gap, which has no duration. Without a range the transfer ends with the blocked wait: the call
//! stays the communication, and the wait is where it takes time. Of a range or wait in several
//! slices, cut by ops that it calls, the longest is the transfer.

use crate::graph::kinds::NodeKind;
use crate::graph::nodes::Nodes;
use crate::host::pending::{CarriedOut, collective_key, gloo_ranges, recorded_waits};
use etlink_model::{DeviceTrace, DurationNs, NodeIdx, OpIdx, TimeNs};
use rustc_hash::FxHashMap;

/// A host op's communication that goes on in another op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostComm {
    /// The op in which it goes on: a worker's range, or the record of a wait.
    pub carrier: OpIdx,
    /// The longest slice of that, which ends with the transfer.
    pub node: NodeIdx,
    /// The op that began it, and that says what it is; [`OpIdx::NONE`] where none is known.
    pub given: OpIdx,
    /// The carrier is a wait of the thread that began it.
    pub is_wait: bool,
}

/// Marks the ranges of workers as communications. `communicates` has the ops that are
/// communications themselves. By carrier. O(nodes) where there is one, else O(names + ops that
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
            // The wait must lie behind the call: a number that comes back would name an earlier
            // one.
            if let Some(&wait) = wait.filter(|wait| **wait > op) {
                add(OpIdx::new(wait), OpIdx::new(op), true);
            }
        }
    } else {
        // Nothing is recorded that would be counted twice: the ranges are all that is known.
        for range in gloo_ranges(device) {
            add(range, OpIdx::NONE, false);
        }
    }
    if carriers.is_empty() {
        return vec![];
    }
    // A range that ended late is no transfer any more then.
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

/// `ends` has the carriers of which only what begins before that time counts.
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
