//! Nodes before they are numbered.
//!
//! ```text
//! slots   thread 0 [boundary | slices … | end]  thread 1 […] …   rows and delays of queue 0, …
//! tracks            <------------------->                         <------------------------>
//! ```
//! A track holds the nodes of a thread or queue, ordered by place. A node's place is the time by
//! which it is numbered. A thread has a boundary before its first slice, and after the last one the
//! time at which that slice ends. A slice lasts until the next begins, except for wait gaps: time
//! in which the thread waited.

use crate::graph::kinds::NodeKind;
use crate::graph::nodes::Nodes;
use crate::limits::CLOCK_TOLERANCE;
use etlink_model::{DeviceTrace, DurationNs, QueueIdx, RowIdx, ThreadIdx, TimeNs, TrackIdx};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;

/// Approximate number of nodes that one thread of the pool sorts or moves at a time.
const PIECE: usize = 1 << 15;

/// Index of a node in the columns of a [`Draft`], before it has a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotIdx(u32);

impl SlotIdx {
    /// A draft has at most two slots per event, and readers reject more events than 32 bits can
    /// number.
    fn new(index: usize) -> SlotIdx {
        debug_assert!(u32::try_from(index).is_ok(), "{index} slots");
        SlotIdx(index as u32)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the previous slot; `None` for the first of all.
    pub(crate) fn before(self) -> Option<SlotIdx> {
        self.0.checked_sub(1).map(SlotIdx)
    }

    pub(crate) fn after(self) -> SlotIdx {
        SlotIdx(self.0 + 1)
    }
}

/// A range of consecutive slots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotRange {
    pub(crate) start: SlotIdx,
    pub(crate) end: SlotIdx,
}

impl SlotRange {
    fn len(self) -> usize {
        self.rows().len()
    }

    fn rows(self) -> Range<usize> {
        self.start.index()..self.end.index()
    }

    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = SlotIdx> {
        (self.start.0..self.end.0).map(SlotIdx)
    }
}

/// Nodes as columns, by slot.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    kind: Vec<NodeKind>,
    source: Vec<u32>,
    first: Vec<bool>,
    /// Number of the thread or queue. Plain numbers, like the places.
    resource: Vec<u32>,
    /// Places in ns. Plain numbers: zeros take no memory until written.
    place: Vec<i64>,
    /// First slot of each thread, then the first slot of the device rows.
    bases: Vec<SlotIdx>,
    /// Track of each thread, followed by the track of each queue.
    pub(crate) tracks: Vec<SlotRange>,
    /// End of the slots used by device rows and their delays.
    end: SlotIdx,
    /// Slots that begin at the end of a wait, with the time their thread waited.
    pub(crate) wait_gaps: BTreeMap<SlotIdx, DurationNs>,
}

/// Slots of one thread.
#[derive(Debug)]
pub(crate) struct Track<'d> {
    kind: &'d mut [NodeKind],
    source: &'d mut [u32],
    first: &'d mut [bool],
    resource: &'d mut [u32],
    place: &'d mut [i64],
    base: SlotIdx,
    next: usize,
}

impl Track<'_> {
    /// Appends a node, and returns its slot.
    pub(crate) fn push(
        &mut self,
        kind: NodeKind,
        source: u32,
        first: bool,
        place: TimeNs,
    ) -> SlotIdx {
        let at = self.next;
        (
            self.kind[at],
            self.source[at],
            self.first[at],
            self.place[at],
        ) = (kind, source, first, place.0);
        let slot = self.next_slot();
        self.next += 1;
        slot
    }

    /// Slot of the next node.
    pub(crate) fn next_slot(&self) -> SlotIdx {
        SlotIdx::new(self.base.index() + self.next)
    }

    /// Completes the track: the last node ends at `end`.
    pub(crate) fn close(self, thread: ThreadIdx, end: TimeNs) -> SlotRange {
        if self.place.is_empty() {
            return SlotRange {
                start: self.base,
                end: self.base,
            };
        }
        self.place[self.next] = end.0;
        self.resource[..self.next].fill(thread.0);
        // The slot before is the boundary's: `add_boundaries` includes it.
        SlotRange {
            start: self.base.after(),
            end: self.next_slot(),
        }
    }
}

impl Draft {
    /// Allocates room for the given maximum number of nodes per thread, and for `rows` device rows,
    /// each with a delay before it.
    pub(crate) fn new(most: impl Iterator<Item = usize>, rows: usize) -> Draft {
        let mut bases = vec![SlotIdx::default()];
        let mut slots = 0;
        for nodes in most {
            // One more for the boundary at the start, one for the time at which the last slice
            // ends.
            slots += if nodes == 0 { 0 } else { nodes + 2 };
            bases.push(SlotIdx::new(slots));
        }
        // zeros that are never written take no memory
        let (end, slots) = (SlotIdx::new(slots), slots + 2 * rows);
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

    /// Returns the slots of each thread.
    pub(crate) fn threads(&mut self) -> Vec<Track<'_>> {
        let (mut kind, mut source, mut first) = (
            &mut self.kind[..],
            &mut self.source[..],
            &mut self.first[..],
        );
        let (mut resource, mut place) = (&mut self.resource[..], &mut self.place[..]);
        // Each thread of the pool fills its own part of the columns, without locks and without
        // later copies.
        let track = |ends: &[SlotIdx]| {
            let slots = ends[1].index() - ends[0].index();
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

    /// Returns the last node of a thread that has ended by `time`, and the first that begins at
    /// `time` or later.
    pub(crate) fn around(
        &self,
        thread: ThreadIdx,
        time: TimeNs,
    ) -> (Option<SlotIdx>, Option<SlotIdx>) {
        let track = self.tracks[thread.index()];
        let places = &self.place[track.rows()];
        let earlier = places.partition_point(|place| *place < time.0);
        let after = SlotIdx::new(track.start.index() + earlier);
        let within = |slot: &SlotIdx| *slot >= track.start;
        let begun = after.before().filter(within);
        // the node still runs then if ranges overlap without nesting
        let ended = begun
            .filter(|slot| self.end(*slot) <= time)
            // Only the node that began last can still run: earlier ones end where the next begins.
            .or(begun.and_then(SlotIdx::before).filter(within));
        (ended, Some(after).filter(|after| *after < track.end))
    }

    /// Returns the end of a thread's node.
    fn end(&self, slot: SlotIdx) -> TimeNs {
        let waited = self.wait_gaps.get(&slot.after());
        let waited = waited.map_or(0, |waited| waited.0);
        // The place after a thread's last node is the thread's end.
        TimeNs(self.place[slot.after().index()].saturating_sub(waited))
    }

    /// Records that the thread of node `slot` waited before it.
    pub(crate) fn add_wait_gap(&mut self, slot: SlotIdx, waited: DurationNs) {
        *self.wait_gaps.entry(slot).or_default() += waited;
    }

    /// Returns the thread of a slot.
    pub(crate) fn thread(&self, slot: SlotIdx) -> ThreadIdx {
        ThreadIdx::new(self.bases.partition_point(|base| *base <= slot) - 1)
    }

    /// Shrinks a thread's boundary to no time, since its first slice follows work of another
    /// thread.
    pub(crate) fn end_boundary(&mut self, boundary: SlotIdx) {
        // The handoff explains the wait of the thread, so a boundary would count that time twice.
        self.place[boundary.index()] = self.place[boundary.after().index()];
    }

    /// Adds a boundary from `begin` before the first slice of each thread.
    pub(crate) fn add_boundaries(&mut self, begin: TimeNs) {
        for (track, base) in self
            .tracks
            .iter_mut()
            .zip(&self.bases)
            .filter(|(track, _)| track.start < track.end)
        {
            let at = base.index();
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

    /// Records that a call waited until `until` for something that began at `begun`. The call's
    /// slices begin with `slot` and end by `end`. Leaves a wait gap before the call's remaining
    /// time, and returns its slot. `None` if something else that began in the call runs then, for
    /// longer than the clock error. O(slices in the call).
    pub(crate) fn wait_in(
        &mut self,
        slot: SlotIdx,
        end: TimeNs,
        begun: TimeNs,
        until: TimeNs,
    ) -> Option<SlotIdx> {
        let (mut at, mut own) = (slot, slot);
        while self.end(at) < until && self.place(at.after()) < end {
            at = at.after();
            // A call in which an op or another call ran has several slices: the wait goes into the
            // last one of its own.
            if self.kind[at.index()] == NodeKind::Runtime {
                own = at;
            }
        }
        let left = self.end(own);
        // If a row ends after the call returned, the wait lasts until the return: anything beyond
        // is clock error.
        if left <= begun || until - left > CLOCK_TOLERANCE.max(until - end) {
            return None;
        }
        let waited = left.min(until) - self.place(own);
        self.add_wait_gap(own, waited);
        // The slice now begins at the end of the wait: `wait_gaps` holds the time before.
        self.place[own.index()] += waited.0;
        Some(own)
    }

    /// Records that a thread only waited from the start of slot `first` to the start of `last`:
    /// nodes between take no time. Changes nothing if an op begins between. O(slots between).
    pub(crate) fn wait_between(&mut self, first: SlotIdx, last: SlotIdx) {
        let between = first.index()..last.index();
        let begins_op = |at: usize| self.kind[at] == NodeKind::HostOp && self.first[at];
        if between.clone().any(begins_op) || last <= first {
            return;
        }
        let waited = self.place(last) - self.place(first);
        // All that time is now one gap, including known ones.
        let known = self.wait_gaps.range(first.after()..=last);
        let known: Vec<SlotIdx> = known.map(|(slot, _)| *slot).collect();
        for slot in known {
            self.wait_gaps.remove(&slot);
        }
        self.wait_gaps.insert(last, waited);
        let begun = self.place[first.index()];
        self.place[between].fill(begun);
    }

    /// Moves row `slot`, or the delay before it, after `from` if that keeps the order of its queue.
    pub(crate) fn move_behind(&mut self, slot: SlotIdx, from: SlotIdx) {
        let (at, place) = (slot.index(), self.place(from).0 + 1);
        let track = &self.tracks[self.bases.len() - 1 + self.resource[at] as usize];
        // A row must stay before its successor on the queue, or stream order would lead back.
        if self.place[at] < place && (slot.after() == track.end || self.place[at + 1] >= place) {
            self.place[at] = place;
        }
    }

    /// True if a slot is an unexplained wait; the waiting row has the next slot.
    pub(crate) fn is_wait(&self, slot: SlotIdx) -> bool {
        self.kind[slot.index()] == NodeKind::UnexplainedWait
    }

    /// Returns the last node from `slot` on that ends by `end`.
    pub(crate) fn last_ended(&self, slot: SlotIdx, end: TimeNs) -> Option<SlotIdx> {
        let ended = (slot.index()..)
            .take_while(|slot| self.place[slot + 1] <= end.0 && self.place[*slot] < end.0);
        ended.last().map(SlotIdx::new)
    }

    /// Appends a device row, or a delay before one, and returns its slot.
    pub(crate) fn add_row(
        &mut self,
        kind: NodeKind,
        row: RowIdx,
        queue: QueueIdx,
        place: TimeNs,
    ) -> SlotIdx {
        let slot = self.end;
        let at = slot.index();
        (
            self.kind[at],
            self.source[at],
            self.first[at],
            self.resource[at],
            self.place[at],
        ) = (kind, row.0, true, queue.0, place.0);
        self.end = slot.after();
        slot
    }

    /// Completes a queue: its rows are those from `first` on.
    pub(crate) fn close_queue(&mut self, first: SlotIdx) {
        self.tracks.push(SlotRange {
            start: first,
            end: self.end,
        });
    }

    /// Slot of the next device row.
    pub(crate) fn next_row(&self) -> SlotIdx {
        self.end
    }

    /// First slot of the device rows; lower slots belong to threads.
    fn first_row(&self) -> SlotIdx {
        self.bases.last().copied().unwrap_or_default()
    }

    /// Returns a node's place.
    pub(crate) fn place(&self, slot: SlotIdx) -> TimeNs {
        TimeNs(self.place[slot.index()])
    }

    /// Returns kind, source, start and end of a host node.
    #[cfg(test)]
    pub(crate) fn host_node(&self, slot: SlotIdx) -> (NodeKind, u32, i64, i64) {
        let at = slot.index();
        (
            self.kind[at],
            self.source[at],
            self.place[at],
            self.place[at + 1],
        )
    }

    /// Returns the slots of all nodes by place; at equal places by track.
    pub(crate) fn order(&self) -> Vec<SlotIdx> {
        // pieces of time, each sorted separately, with bounds taken from the longest track
        let nodes: usize = self.tracks.iter().map(|track| track.len()).sum();
        let pieces = nodes.div_ceil(PIECE);
        let longest = self
            .tracks
            .iter()
            // The longest track covers the window, so equal parts of it give pieces of about equal
            // size.
            .max_by_key(|track| track.len())
            .copied()
            .unwrap_or_default();
        let mut from: Vec<SlotIdx> = self.tracks.iter().map(|track| track.start).collect();
        let mut parts: Vec<Vec<SlotRange>> = vec![];
        for piece in 1..=pieces {
            let cut = longest.start.index() + longest.len() * piece / pieces;
            let cut = (piece < pieces).then(|| self.place[cut]);
            let mut part = vec![];
            for (track, from) in self.tracks.iter().zip(&mut from) {
                let rest = &self.place[from.index()..track.end.index()];
                let taken =
                    cut.map_or(rest.len(), |cut| rest.partition_point(|place| *place < cut));
                let end = SlotIdx::new(from.index() + taken);
                let start = std::mem::replace(from, end);
                part.push(SlotRange { start, end });
            }
            parts.push(part);
        }
        let mut order = vec![SlotIdx::default(); nodes];
        let mut rest = &mut order[..];
        let mut slices: Vec<&mut [SlotIdx]> = vec![];
        for part in &parts {
            let size = part.iter().map(|range| range.len()).sum();
            slices.push(rest.split_off_mut(..size).unwrap_or_default());
        }
        slices.into_par_iter().zip(parts).for_each(|(slice, part)| {
            let slots = part.into_iter().flat_map(SlotRange::iter);
            for (to, slot) in slice.iter_mut().zip(slots) {
                *to = slot;
            }
            // tracks are sorted runs, which a merge sort exploits
            slice.sort_by_key(|slot| self.place[slot.index()]);
        });
        order
    }

    /// Returns the thread or queue of each node in `order`, and true for queues. Takes the columns
    /// that nothing else needs.
    pub(crate) fn node_tracks(&mut self, order: &[SlotIdx]) -> (Vec<TrackIdx>, Vec<bool>) {
        let host = self.first_row().index();
        let resource = std::mem::take(&mut self.resource);
        let tracks = gather(order, |at| TrackIdx(resource[at]));
        (tracks, gather(order, |at| at >= host))
    }

    /// Returns the nodes in `order`, without their tracks. The first slice of an op that
    /// communicates by itself becomes a collective.
    pub(crate) fn nodes(
        mut self,
        order: &[SlotIdx],
        device: &DeviceTrace,
        communicates: &[bool],
    ) -> Nodes {
        // each column is dropped once unused, so that there are never two drafts
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
                .map(|(&slot, &source)| (slot, slot.index(), source as usize))
        };
        // Device rows keep their measured start: their place is later if the clocks put them before
        // their launch.
        let start_of = |slot: SlotIdx, at: usize, row: usize| {
            if slot < host {
                TimeNs(place[at])
            } else if self.kind[at].is_delay() {
                // for the same reason, a delay's place can be later than the delayed row
                rows.start[row].min(TimeNs(place[at]))
            } else {
                rows.start[row]
            }
        };
        let start = both().map(|(slot, at, row)| start_of(slot, at, row));
        let start = start.collect();
        let duration = both().map(|(slot, at, row)| {
            if slot < host {
                TimeNs(place[at + 1]) - TimeNs(place[at])
            } else if self.kind[at].is_delay() {
                rows.start[row] - start_of(slot, at, row)
            } else {
                rows.duration[row]
            }
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

/// Returns a column in the given order.
fn gather<T: Send>(order: &[SlotIdx], value: impl Fn(usize) -> T + Sync) -> Vec<T> {
    order
        .par_iter()
        .with_min_len(PIECE / 4)
        .map(|slot| value(slot.index()))
        .collect()
}

/// Replaces a column by slot with the column in the given order.
fn take<T: Copy + Send + Sync>(order: &[SlotIdx], column: &mut Vec<T>) -> Vec<T> {
    let column = std::mem::take(column);
    gather(order, |at| column[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{slices, slot};

    /// Three threads, one of them without nodes, and two queues; long enough for several pieces.
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
        for ((mut track, nodes), thread) in draft
            .threads()
            .into_iter()
            .zip(sizes)
            .zip((0..).map(ThreadIdx))
        {
            let mut places: Vec<TimeNs> = (0..nodes).map(|_| next(50_000)).collect();
            places.sort_unstable();
            for place in places {
                track.push(NodeKind::HostOp, 0, true, place);
            }
            tracks.push(track.close(thread, TimeNs(50_000)));
        }
        draft.tracks = tracks;
        for queue in [0, 1].map(QueueIdx) {
            let first = draft.next_row();
            for row in 0..PIECE as i64 {
                draft.add_row(NodeKind::DeviceOp, RowIdx(0), queue, TimeNs(row * 3));
            }
            draft.close_queue(first);
        }
        let mut want: Vec<SlotIdx> = draft.tracks.iter().flat_map(|track| track.iter()).collect();
        assert_eq!(want.len(), 3 * PIECE + PIECE / 2 + 2 * PIECE);
        want.sort_by_key(|slot| draft.place(*slot));
        assert!(draft.order() == want);
    }

    /// Two threads with two calls each: slots 1 and 2, 5 and 6. Their boundaries are 0 and 4.
    fn two_threads() -> Draft {
        let mut draft = slices(NodeKind::Runtime, &[&[100, 200, 300], &[100, 200, 300]], 0);
        draft.add_boundaries(TimeNs(50));
        draft
    }

    #[test]
    fn what_is_around_a_time_is_of_the_same_thread() {
        let draft = two_threads();
        for (time, ended, begins) in [
            (50, None, Some(4)),
            (70, None, Some(5)),
            (100, Some(4), Some(5)),
            (250, Some(5), None),
            (300, Some(6), None),
        ] {
            let want = (ended.map(slot), begins.map(slot));
            assert_eq!(draft.around(ThreadIdx(1), TimeNs(time)), want, "{time}");
        }
    }

    #[test]
    fn wait_gaps_before_one_slot_add_up() {
        let mut draft = two_threads();
        draft.add_wait_gap(slot(2), DurationNs(30));
        draft.add_wait_gap(slot(2), DurationNs(20));
        assert_eq!(draft.end(slot(1)), TimeNs(150));
    }

    #[test]
    fn a_call_waits_for_what_ends_in_it_or_not_much_later() {
        let late = 200 + CLOCK_TOLERANCE.0;
        for (begun, until, goes_on) in [
            // the next call begins as this one ends
            (110, 210, Some(200)),
            (110, 150, Some(150)),
            // ended before the call
            (50, 60, Some(100)),
            (200, 201, None),
            (110, late, Some(200)),
            (110, late + 1, Some(200)),
        ] {
            let mut draft = two_threads();
            let waits = draft.wait_in(slot(1), TimeNs(200), TimeNs(begun), TimeNs(until));
            let told = waits.map(|slot| (slot, draft.place(slot)));
            assert_eq!(told, goes_on.map(|at| (slot(1), TimeNs(at))), "{until}");
            assert_eq!(draft.place(slot(2)), TimeNs(200), "{until}");
        }
    }

    /// A slice that continues an op is no new work.
    #[test]
    fn a_thread_waits_between_two_slots_unless_an_op_begins() {
        for (begins, waits) in [(false, true), (true, false)] {
            let mut draft = slices(NodeKind::Runtime, &[&[100, 200, 300, 400, 500, 600]], 0);
            draft.kind[3] = NodeKind::HostOp;
            draft.first[3] = begins;
            draft.add_wait_gap(slot(1), DurationNs(7));
            draft.add_wait_gap(slot(3), DurationNs(5));
            draft.wait_between(slot(1), slot(5));
            let places = [1, 2, 3, 4, 5].map(|at| draft.place(slot(at)).0);
            let gaps: Vec<(SlotIdx, DurationNs)> = draft.wait_gaps.into_iter().collect();
            let (want, gap) = if waits {
                ([100, 100, 100, 100, 500], (slot(5), DurationNs(400)))
            } else {
                ([100, 200, 300, 400, 500], (slot(3), DurationNs(5)))
            };
            assert_eq!(places, want);
            assert_eq!(gaps, [(slot(1), DurationNs(7)), gap]);
        }
        let mut draft = two_threads();
        draft.wait_between(slot(2), slot(2));
        assert!(draft.wait_gaps.is_empty());
    }

    /// Slots 0 and 1 are rows of one queue, slot 2 of another.
    #[test]
    fn a_row_moves_as_far_as_its_queue_allows() {
        for (second, moved, place) in [(20, 0, 10), (31, 0, 31), (20, 1, 31)] {
            let mut draft = Draft::new([].into_iter(), 3);
            let mut first = draft.next_row();
            for (queue, places) in [(0, &[10, second][..]), (1, &[30])] {
                for place in places {
                    let queue = QueueIdx(queue);
                    draft.add_row(NodeKind::DeviceOp, RowIdx(0), queue, TimeNs(*place));
                }
                draft.close_queue(first);
                first = draft.next_row();
            }
            draft.move_behind(slot(moved), slot(2));
            assert_eq!(draft.place(slot(moved)), TimeNs(place), "{second} {moved}");
        }
    }

    #[test]
    fn an_op_that_communicates_is_a_collective_in_its_first_slice() {
        let mut draft = slices(NodeKind::HostOp, &[&[100, 200, 300]], 0);
        (draft.source[2], draft.first[2]) = (0, false);
        let order = draft.order();
        let nodes = draft.nodes(&order, &DeviceTrace::default(), &[true]);
        assert_eq!(nodes.kind, [NodeKind::Collective, NodeKind::HostOp]);
    }
}
