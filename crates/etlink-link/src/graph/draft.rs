//! Nodes before they are numbered.
//!
//! ```text
//! slots   thread 0 [boundary | slices … | end]  thread 1 […] …   rows and delays of queue 0, …
//! tracks            <------------------->                         <------------------------>
//! ```
//! A track is a thread's or queue's nodes in order of their places; a node's place is the time by
//! which it is numbered. A thread has a boundary before its first slice, and behind the last one
//! the time at which that ends. A slice lasts until the next begins, but for wait gaps: time in
//! which the thread waited.

use crate::graph::kinds::NodeKind;
use crate::graph::nodes::Nodes;
use crate::limits::CLOCK_TOLERANCE;
use etlink_model::{DeviceTrace, DurationNs, ThreadIdx, TimeNs};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;

/// About how many nodes one thread of the pool orders or moves at a time.
const PIECE: usize = 1 << 15;

/// Nodes as columns, by slot.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    kind: Vec<NodeKind>,
    source: Vec<u32>,
    first: Vec<bool>,
    resource: Vec<u32>,
    /// ns. Plain numbers: zeros take no memory before they are written.
    place: Vec<i64>,
    /// Where the slots of each thread begin, and those of the device rows.
    bases: Vec<u32>,
    /// Of each thread, then of each queue.
    pub(crate) tracks: Vec<Range<u32>>,
    /// Slots taken by device rows and their delays.
    end: u32,
    /// Slots that begin with a wait's end, and how long their thread had waited.
    pub(crate) wait_gaps: BTreeMap<u32, DurationNs>,
}

/// The slots of one thread.
#[derive(Debug)]
pub(crate) struct Track<'d> {
    kind: &'d mut [NodeKind],
    source: &'d mut [u32],
    first: &'d mut [bool],
    resource: &'d mut [u32],
    place: &'d mut [i64],
    base: u32,
    next: usize,
}

impl Track<'_> {
    /// Appends a node; its slot.
    pub(crate) fn push(&mut self, kind: NodeKind, source: u32, first: bool, place: TimeNs) -> u32 {
        let at = self.next;
        (
            self.kind[at],
            self.source[at],
            self.first[at],
            self.place[at],
        ) = (kind, source, first, place.0);
        self.next += 1;
        self.base + at as u32
    }

    /// The slot of the node to come.
    pub(crate) fn next_slot(&self) -> u32 {
        self.base + self.next as u32
    }

    /// Nothing follows: the last node ends at `end`.
    pub(crate) fn close(self, thread: u32, end: TimeNs) -> Range<u32> {
        if self.place.is_empty() {
            return self.base..self.base;
        }
        self.place[self.next] = end.0;
        self.resource[..self.next].fill(thread);
        // The slot before is the boundary's: `add_boundaries` takes it in.
        self.base + 1..self.base + self.next as u32
    }
}

impl Draft {
    /// Room for at most so many nodes of each thread, and for `rows` device rows, each with a delay
    /// before it.
    pub(crate) fn new(most: impl Iterator<Item = usize>, rows: usize) -> Draft {
        let mut bases = vec![0];
        let mut slots = 0;
        for nodes in most {
            // One more for the boundary in front, one for the time at which the last slice ends.
            slots += if nodes == 0 { 0 } else { nodes + 2 };
            bases.push(slots as u32);
        }
        // zeros that nothing is written to take no memory
        let (end, slots) = (slots as u32, slots + 2 * rows);
        Draft {
            kind: vec![NodeKind::default(); slots],
            source: vec![0; slots],
            first: vec![false; slots],
            resource: vec![0; slots],
            place: vec![0; slots],
            bases,
            tracks: vec![],
            end,
            wait_gaps: BTreeMap::new(),
        }
    }

    /// The slots of each thread.
    pub(crate) fn threads(&mut self) -> Vec<Track<'_>> {
        let (mut kind, mut source, mut first) = (
            &mut self.kind[..],
            &mut self.source[..],
            &mut self.first[..],
        );
        let (mut resource, mut place) = (&mut self.resource[..], &mut self.place[..]);
        // Each thread of the pool fills its own part of the columns, without locks and without
        // copies afterwards.
        let track = |ends: &[u32]| {
            let slots = (ends[1] - ends[0]) as usize;
            Track {
                kind: kind.split_off_mut(..slots).unwrap_or_default(),
                source: source.split_off_mut(..slots).unwrap_or_default(),
                first: first.split_off_mut(..slots).unwrap_or_default(),
                resource: resource.split_off_mut(..slots).unwrap_or_default(),
                place: place.split_off_mut(..slots).unwrap_or_default(),
                base: ends[0],
                next: 1,
            }
        };
        self.bases.windows(2).map(track).collect()
    }

    /// The last node of a thread that has ended by `time`, and the first that begins from then on.
    pub(crate) fn around(&self, thread: ThreadIdx, time: TimeNs) -> (Option<u32>, Option<u32>) {
        let track = &self.tracks[thread.index()];
        let places = &self.place[track.start as usize..track.end as usize];
        let after = track.start + places.partition_point(|place| *place < time.0) as u32;
        let begun = (track.start..after).next_back();
        // it still runs then where ranges overlap without nesting
        let ended = begun
            .filter(|slot| self.end(*slot) <= time)
            // Only the node that began last can still run: those before it end where the next
            // begins.
            .or(begun.and_then(|slot| (track.start..slot).next_back()));
        (ended, Some(after).filter(|after| *after < track.end))
    }

    /// When a node of a thread ends.
    fn end(&self, slot: u32) -> TimeNs {
        let waited = self.wait_gaps.get(&(slot + 1)).map_or(0, |waited| waited.0);
        // The place behind a thread's last node is the time at which the thread ends.
        TimeNs(self.place[slot as usize + 1].saturating_sub(waited))
    }

    /// The thread of node `slot` waited before it.
    pub(crate) fn add_wait_gap(&mut self, slot: u32, waited: DurationNs) {
        *self.wait_gaps.entry(slot).or_default() += waited;
    }

    /// The thread of a slot.
    pub(crate) fn thread(&self, slot: u32) -> ThreadIdx {
        ThreadIdx(self.bases.partition_point(|base| *base <= slot) as u32 - 1)
    }

    /// The boundary of a thread whose first slice follows on another thread's work takes no time.
    pub(crate) fn end_boundary(&mut self, boundary: u32) {
        // The handoff says what the thread waited for, so that a boundary would count that time
        // twice.
        self.place[boundary as usize] = self.place[boundary as usize + 1];
    }

    /// Puts a boundary, from `begin` on, before the first slice of each thread.
    pub(crate) fn add_boundaries(&mut self, begin: TimeNs) {
        for (track, base) in self
            .tracks
            .iter_mut()
            .zip(&self.bases)
            .filter(|(track, _)| track.start < track.end)
        {
            let at = *base as usize;
            track.start = *base;
            (
                self.kind[at],
                self.source[at],
                self.first[at],
                self.place[at],
            ) = (NodeKind::Boundary, u32::MAX, true, begin.0);
            self.resource[at] = self.resource[at + 1];
        }
    }

    /// The call whose slices begin with `slot` and end by `end` has waited until `until` for what
    /// began at `begun`: a wait gap is left before what it does after that. The slot of that.
    /// `None` where by more than clocks err something else runs then that began in the call.
    /// O(slices in the call).
    pub(crate) fn wait_in(
        &mut self,
        slot: u32,
        end: TimeNs,
        begun: TimeNs,
        until: TimeNs,
    ) -> Option<u32> {
        let (mut at, mut own) = (slot, slot);
        while self.end(at) < until && self.place(at + 1) < end {
            at += 1;
            // A call in which an op or another call ran is in several slices: the wait goes into
            // the last of its own.
            if self.kind[at as usize] == NodeKind::Runtime {
                own = at;
            }
        }
        let left = self.end(own);
        if left <= begun || until - left > CLOCK_TOLERANCE {
            return None;
        }
        let waited = left.min(until) - self.place(own);
        if waited > DurationNs(0) {
            self.add_wait_gap(own, waited);
            // The slice now begins where the wait ends: the time before is the gap that `wait_gaps`
            // has.
            self.place[own as usize] += waited.0;
        }
        Some(own)
    }

    /// Puts row `slot`, or the delay before it, behind `from` if that is possible without disorder
    /// on its queue.
    pub(crate) fn move_behind(&mut self, slot: u32, from: u32) {
        let (at, place) = (slot as usize, self.place(from).0 + 1);
        let track = &self.tracks[self.bases.len() - 1 + self.resource[at] as usize];
        // A row that stands before its successor on the queue must stay there, or stream order
        // would lead back.
        if self.place[at] < place && (slot + 1 == track.end || self.place[at + 1] >= place) {
            self.place[at] = place;
        }
    }

    /// Whether a slot is the unexplained wait before row `row`.
    pub(crate) fn waits_before(&self, slot: u32, row: u32) -> bool {
        let at = slot as usize;
        slot >= self.first_row()
            && self.kind[at] == NodeKind::UnexplainedWait
            && self.source[at] == row
    }

    /// The last node of those from `slot` on that ends by `end`.
    pub(crate) fn last_ended(&self, slot: u32, end: TimeNs) -> Option<u32> {
        let ended = (slot..).take_while(|slot| {
            self.place[*slot as usize + 1] <= end.0 && self.place[*slot as usize] < end.0
        });
        ended.last()
    }

    /// Appends a device row, or a delay before one; its slot.
    pub(crate) fn add_row(&mut self, kind: NodeKind, row: u32, queue: u32, place: TimeNs) -> u32 {
        let at = self.end as usize;
        (
            self.kind[at],
            self.source[at],
            self.first[at],
            self.resource[at],
            self.place[at],
        ) = (kind, row, true, queue, place.0);
        self.end += 1;
        at as u32
    }

    /// The rows from `first` on are a queue's.
    pub(crate) fn close_queue(&mut self, first: u32) {
        self.tracks.push(first..self.end);
    }

    /// The slot of the next device row.
    pub(crate) fn next_row(&self) -> u32 {
        self.end
    }

    /// Slots below are threads'.
    fn first_row(&self) -> u32 {
        self.bases.last().copied().unwrap_or_default()
    }

    /// A node's place.
    pub(crate) fn place(&self, slot: u32) -> TimeNs {
        TimeNs(self.place[slot as usize])
    }

    /// Kind, source, start and end of a host node.
    #[cfg(test)]
    pub(crate) fn host_node(&self, slot: u32) -> (NodeKind, u32, i64, i64) {
        let at = slot as usize;
        (
            self.kind[at],
            self.source[at],
            self.place[at],
            self.place[at + 1],
        )
    }

    /// The slots of all nodes by place; at one instant by track.
    pub(crate) fn order(&self) -> Vec<u32> {
        let place = |slot: u32| self.place[slot as usize];
        // pieces of time, each put in order by itself; cut where the longest track tells
        let nodes: usize = self.tracks.iter().map(|track| track.len()).sum();
        let pieces = nodes.div_ceil(PIECE);
        let longest = self
            .tracks
            .iter()
            // The longest track is spread over the window, so equal parts of it give pieces of
            // about equal size.
            .max_by_key(|track| track.len())
            .cloned()
            .unwrap_or_default();
        let mut from: Vec<u32> = self.tracks.iter().map(|track| track.start).collect();
        let mut parts: Vec<Vec<Range<u32>>> = vec![];
        for piece in 1..=pieces {
            let cut = (piece < pieces)
                .then(|| place(longest.start + (longest.len() * piece / pieces) as u32));
            let until = |(track, from): (&Range<u32>, &mut u32)| {
                let rest = &self.place[*from as usize..track.end as usize];
                let end = *from
                    + cut.map_or(rest.len(), |cut| rest.partition_point(|place| *place < cut))
                        as u32;
                std::mem::replace(from, end)..end
            };
            parts.push(self.tracks.iter().zip(&mut from).map(until).collect());
        }
        let mut order = vec![0u32; nodes];
        let mut rest = &mut order[..];
        let size = |part: &Vec<Range<u32>>| part.iter().map(|range| range.len()).sum();
        let slices: Vec<&mut [u32]> = parts
            .iter()
            .map(|part| rest.split_off_mut(..size(part)).unwrap_or_default())
            .collect();
        slices.into_par_iter().zip(parts).for_each(|(slice, part)| {
            slice
                .iter_mut()
                .zip(part.into_iter().flatten())
                .for_each(|(to, slot)| *to = slot);
            // the tracks are runs, which a merge sort takes as they are
            slice.sort_by_key(|&slot| place(slot));
        });
        order
    }

    /// Per node in `order`, the thread or queue that it runs on, and whether that is a queue. Takes
    /// what only this needs.
    pub(crate) fn resources(&mut self, order: &[u32]) -> (Vec<u32>, Vec<bool>) {
        let host = self.first_row() as usize;
        (
            take(order, &mut self.resource),
            gather(order, |at| at >= host),
        )
    }

    /// The nodes in `order`, but for their resources. An op that communicates by itself is a
    /// collective in its first slice.
    pub(crate) fn nodes(
        mut self,
        order: &[u32],
        device: &DeviceTrace,
        communicates: &[bool],
    ) -> Nodes {
        // each column goes when no other needs it, so that there are never two drafts
        let kind = gather(order, |at| match self.kind[at] {
            NodeKind::HostOp | NodeKind::HostGap
                if self.first[at] && communicates.get(self.source[at] as usize) == Some(&true) =>
            {
                NodeKind::Collective
            }
            kind => kind,
        });
        let first = take(order, &mut self.first);
        let source = take(order, &mut self.source);
        let (host, rows, place) = (self.first_row(), &device.rows, &self.place);
        let both = || {
            order
                .par_iter()
                .zip(&source)
                .with_min_len(PIECE / 4)
                .map(|(&slot, &source)| (slot, slot as usize, source as usize))
        };
        // Device rows keep their measured start: their place can be later, where the clocks put
        // them before their launch.
        let by_place = |slot: u32, at: usize| slot < host || self.kind[at].is_delay();
        let start = both()
            .map(|(slot, at, row)| {
                if by_place(slot, at) {
                    TimeNs(place[at])
                } else {
                    rows.start[row]
                }
            })
            .collect();
        let duration = both().map(|(slot, at, row)| match slot < host {
            true => TimeNs(place[at + 1]) - TimeNs(place[at]),
            false if self.kind[at].is_delay() => rows.start[row] - TimeNs(place[at]),
            false => rows.duration[row],
        });
        Nodes {
            duration: duration.collect(),
            kind,
            source,
            first,
            start,
            ..Nodes::default()
        }
    }
}

/// A column in order.
fn gather<T: Send>(order: &[u32], value: impl Fn(usize) -> T + Sync) -> Vec<T> {
    order
        .par_iter()
        .with_min_len(PIECE / 4)
        .map(|&slot| value(slot as usize))
        .collect()
}

/// A column in order, instead of the one by slot.
fn take<T: Copy + Send + Sync>(order: &[u32], column: &mut Vec<T>) -> Vec<T> {
    let column = std::mem::take(column);
    gather(order, |at| column[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three threads, of which one has no nodes, and two queues; long enough for several pieces.
    #[test]
    fn tracks_are_merged_by_place_and_at_one_instant_in_turn() {
        let sizes = [3 * PIECE, 0, PIECE / 2];
        let mut draft = Draft::new(sizes.into_iter(), 2 * PIECE);
        let mut random = 12345u64;
        let mut next = |limit: u64| {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            TimeNs(((random >> 33) % limit) as i64)
        };
        let mut tracks = vec![];
        for ((mut track, nodes), thread) in draft.threads().into_iter().zip(sizes).zip(0..) {
            let mut places: Vec<TimeNs> = (0..nodes).map(|_| next(50_000)).collect();
            places.sort_unstable();
            for place in places {
                track.push(NodeKind::HostOp, 0, true, place);
            }
            tracks.push(track.close(thread, TimeNs(50_000)));
        }
        draft.tracks = tracks;
        for queue in 0..2 {
            let first = draft.next_row();
            for row in 0..PIECE as i64 {
                draft.add_row(NodeKind::DeviceOp, 0, queue, TimeNs(row * 3));
            }
            draft.close_queue(first);
        }
        let mut want: Vec<u32> = draft.tracks.iter().cloned().flatten().collect();
        assert_eq!(want.len(), 3 * PIECE + PIECE / 2 + 2 * PIECE);
        want.sort_by_key(|slot| draft.place(*slot));
        assert!(draft.order() == want);
    }
}
