//! In which nodes of a rank its communications go on.
//!
//! ```text
//! NCCL     stream    |== kernel: waits for the others, transfers ==|
//! Gloo     thread    record(all_reduce)  …  record(wait) . . . . . . ____
//!          worker               |== gloo:all_reduce ==============|
//! Gloo     thread    record(recv)  …  record(wait)===============____
//! ```
//! A device row is both: the rank arrives when it begins, and the transfer ends when it does. A host op only gives the work
//! away: a worker's range carries it out, else whoever waits for it is blocked until it is done. Of a range in several
//! slices, cut by ops that it calls, the longest is the transfer; those around it prepare and copy.

use super::Facts;
use crate::queued::{self, queued};
use crate::{LinkedTrace, NodeKind};
use etlink_model::{DurationNs, OpIdx};
use rustc_hash::FxHashMap;

/// The nodes of one communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// When this begins, the rank has arrived.
    pub arrives: u32,
    /// When this ends, so does the transfer; it can be the same node.
    pub node: u32,
}

/// Those of each communication of a rank; `None` where nothing is recorded that ends with the transfer. O(n).
pub fn transfers(trace: &LinkedTrace, facts: &Facts) -> Vec<Option<Transfer>> {
    let on_host = facts.communications.iter().any(|communication| !communication.on_device);
    let carriers = if on_host { Carriers::new(trace) } else { Carriers::default() };
    let transfer = |node: u32, on_device: bool| match on_device {
        true => Some(Transfer { arrives: node, node }),
        false => carriers.of(trace, node),
    };
    facts.communications.iter().map(|communication| transfer(communication.node, communication.on_device)).collect()
}

/// What carries out the collectives that host ops give away.
#[derive(Default)]
struct Carriers {
    /// The worker's range, by the op that gave it the work.
    ranges: FxHashMap<OpIdx, OpIdx>,
    /// The record of the wait.
    waits: FxHashMap<queued::Key, OpIdx>,
    /// Per range and wait, its longest slice and how long that is.
    slices: FxHashMap<OpIdx, (DurationNs, u32)>,
}

impl Carriers {
    fn new(trace: &LinkedTrace) -> Carriers {
        let device = &trace.device;
        let ranges: FxHashMap<OpIdx, OpIdx> = queued(device).into_iter().map(|work| (work.given, work.run)).collect();
        let waits: FxHashMap<queued::Key, OpIdx> = queued::waits(device).map(|(key, op)| (key, OpIdx::new(op))).collect();
        let mut slices: FxHashMap<OpIdx, (DurationNs, u32)> = ranges.values().chain(waits.values()).map(|op| (*op, (DurationNs(-1), 0))).collect();
        for (at, kind) in (0u32..).zip(&trace.nodes.kind) {
            let node = trace.nodes.get(at as usize);
            if let (NodeKind::HostOp, Some(longest)) = (kind, slices.get_mut(&OpIdx(node.source)))
                && node.duration > longest.0
            {
                *longest = (node.duration, at);
            }
        }
        slices.retain(|_, (duration, _)| duration.0 >= 0);
        Carriers { ranges, waits, slices }
    }

    fn of(&self, trace: &LinkedTrace, node: u32) -> Option<Transfer> {
        let op = OpIdx(trace.nodes.source[node as usize]);
        if let Some((_, slice)) = self.ranges.get(&op).and_then(|range| self.slices.get(range)) {
            return Some(Transfer { arrives: *slice, node: *slice });
        }
        let key = queued::key(&trace.device, op.index())?;
        let (_, slice) = self.slices.get(self.waits.get(&key)?)?;
        (*slice > node).then_some(Transfer { arrives: node, node: *slice })
    }
}
