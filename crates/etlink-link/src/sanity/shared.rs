//! Reassigns rows that carry the correlation of another launch.
//!
//! ROCm and CUPTI have been seen to give the rows of two launches one id, so the other launch has
//! no row (kineto#1416). The rows of such an id belong to its launch and to adjacent launches
//! without a row on its thread, before or after it; other launches may be in between. A row starts
//! no earlier than its launch, and rows of a stream start in the order of their launches. If both
//! sides remain possible, the thread's other ids decide, and rows on idle streams. If nothing
//! decides, the id is ambiguous. If no launch near it lacks a row, the id is that of kernels that
//! launch kernels (dynamic parallelism).

use super::launches::{LaunchCalls, LaunchKind};
use super::row_place;
use crate::device::row_end;
use crate::limits::{CLOCK_TOLERANCE, EARLY_START, LAUNCH_LATENCY, SHARED_REACH};
use crate::search::Groups;
use etlink_model::{
    Anomaly, AnomalyKind, Correlation, DeviceTrace, QueueIdx, RowIdx, ThreadIdx, TimeNs,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// Gives such rows the correlation of their own launch. O(rows log rows + calls).
pub(super) fn give_shared_rows(device: &mut DeviceTrace, calls: &LaunchCalls) {
    if !has_shared(device, calls) {
        return;
    }
    let launched = LaunchedRows::new(device, calls);
    let shared = launched.shared(device, calls);
    let mut rows: Vec<(RowIdx, Correlation)> = vec![];
    let (mut given, mut ambiguous) = (Anomaly::default(), Anomaly::default());
    for (thread, shared) in shared {
        let line = ThreadLine::new(device, calls, &launched, thread, shared);
        for (one, launches) in line.shared.iter().zip(line.decided()) {
            // Kernels that a kernel launches have its id: no other launch lacks a row.
            if !line.has_orphan_near(one) {
                continue;
            }
            let found = match launches {
                Some(launches) => {
                    let ids = launches.iter().map(|launch| calls.launches[*launch].ids[0]);
                    rows.extend(one.rows.iter().copied().zip(ids));
                    &mut given
                }
                None => &mut ambiguous,
            };
            found.count += one.rows.len() as u64 - 1;
            found.first.get_or_insert(row_place(device, one.rows[1]));
        }
    }
    for (row, id) in rows {
        device.rows.correlation[row.index()] = id;
    }
    for (kind, mut found) in [
        (AnomalyKind::CorrelationShared, given),
        (AnomalyKind::CorrelationAmbiguous, ambiguous),
    ] {
        found.of = device.rows.len() as u64;
        device.anomalies.add_all(kind, found);
    }
}

/// True if a call that launches one kernel has several rows. O(rows).
fn has_shared(device: &DeviceTrace, calls: &LaunchCalls) -> bool {
    let mut met: FxHashSet<Correlation> = FxHashSet::default();
    let is_kernel = |id: Correlation| {
        let call = calls.call_of(id);
        call.is_some_and(|call| calls.kind(call) == Some(LaunchKind::Kernel))
    };
    let mut ids = device.rows.correlation.iter();
    ids.any(|id| !met.insert(*id) && is_kernel(*id))
}

/// Rows of each launch, by its index.
struct LaunchedRows {
    rows: Vec<Vec<RowIdx>>,
}

/// A launch of one kernel with several rows.
struct SharedLaunch {
    launch: usize,
    /// Rows, sorted by start.
    rows: Vec<RowIdx>,
}

impl LaunchedRows {
    fn new(device: &DeviceTrace, calls: &LaunchCalls) -> LaunchedRows {
        let mut place: FxHashMap<Correlation, usize> = FxHashMap::default();
        for (launch, one) in calls.launches.iter().enumerate() {
            let own = one.ids.iter().filter(|id| calls.call_of(**id).is_some());
            place.extend(own.map(|id| (*id, launch)));
        }
        let mut rows = vec![vec![]; calls.launches.len()];
        for (row, id) in (0..).map(RowIdx).zip(&device.rows.correlation) {
            if let Some(launch) = place.get(id) {
                rows[*launch].push(row);
            }
        }
        LaunchedRows { rows }
    }

    /// Returns the shared launches by thread, in order.
    fn shared(
        &self,
        device: &DeviceTrace,
        calls: &LaunchCalls,
    ) -> BTreeMap<ThreadIdx, Vec<SharedLaunch>> {
        let mut shared: BTreeMap<ThreadIdx, Vec<SharedLaunch>> = BTreeMap::new();
        for (launch, rows) in self.rows.iter().enumerate() {
            let one = &calls.launches[launch];
            let is_kernel = |row: &RowIdx| device.rows.graph_node[row.index()] == 0;
            if rows.len() > 1 && one.kind == LaunchKind::Kernel && rows.iter().all(is_kernel) {
                let of_thread = shared.entry(device.calls.thread[one.call.index()]);
                of_thread.or_default().push(SharedLaunch {
                    launch,
                    rows: rows.clone(),
                });
            }
        }
        shared
    }
}

/// Position of the other launches of a shared id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OtherLaunches {
    Before,
    Behind,
}

/// Launches of a thread with shared ids.
struct ThreadLine<'t> {
    device: &'t DeviceTrace,
    calls: &'t LaunchCalls,
    shared: Vec<SharedLaunch>,
    /// Launches that should have a row but lack it, ascending.
    orphans: Vec<usize>,
    /// Per queue, sorted by start: rows that belong to a known launch, with that launch.
    in_order: BTreeMap<QueueIdx, Vec<(TimeNs, usize)>>,
    by_queue: Groups<QueueIdx, RowIdx>,
    /// Maximum time by which rows start before their launch, on their clock.
    early_ns: i64,
}

impl<'t> ThreadLine<'t> {
    fn new(
        device: &'t DeviceTrace,
        calls: &'t LaunchCalls,
        launched: &LaunchedRows,
        thread: ThreadIdx,
        shared: Vec<SharedLaunch>,
    ) -> ThreadLine<'t> {
        let mut orphans = vec![];
        let mut in_order: BTreeMap<QueueIdx, Vec<(TimeNs, usize)>> = BTreeMap::new();
        let mut early_ns = CLOCK_TOLERANCE.0;
        for (launch, one) in calls.launches.iter().enumerate() {
            if device.calls.thread[one.call.index()] != thread {
                continue;
            }
            match launched.rows[launch].as_slice() {
                [] => {
                    let may_have_none = one.may_be_captured || one.ids.is_empty();
                    if one.kind == LaunchKind::Kernel && !may_have_none {
                        orphans.push(launch);
                    }
                }
                [row] => {
                    let start = device.rows.start[row.index()];
                    let early = device.calls.start[one.call.index()].since(start);
                    early_ns = early_ns.max(early.min(EARLY_START.0));
                    let queue = device.rows.queue[row.index()];
                    in_order.entry(queue).or_default().push((start, launch));
                }
                _ => {}
            }
        }
        in_order.values_mut().for_each(|rows| rows.sort_unstable());
        ThreadLine {
            device,
            calls,
            shared,
            orphans,
            in_order,
            by_queue: Groups::new(&device.rows.queue, device.queues.len()),
            early_ns,
        }
    }

    /// True if a launch without a row is near enough to be that of one of these rows.
    fn has_orphan_near(&self, one: &SharedLaunch) -> bool {
        let from = one.launch.saturating_sub(SHARED_REACH);
        let next = self.orphans.partition_point(|orphan| *orphan < from);
        let orphan = self.orphans.get(next);
        orphan.is_some_and(|orphan| *orphan <= one.launch.saturating_add(SHARED_REACH))
    }

    /// Returns the launches of each shared launch's rows; `None` if unknown.
    fn decided(&self) -> Vec<Option<Vec<usize>>> {
        let mut used: BTreeSet<usize> = BTreeSet::new();
        let mut decided: Vec<Option<Vec<usize>>> = vec![];
        let mut seen: BTreeSet<OtherLaunches> = BTreeSet::new();
        let mut open: Vec<usize> = vec![];
        for (at, one) in self.shared.iter().enumerate() {
            use OtherLaunches::{Before, Behind};
            let [before, behind] = [Before, Behind].map(|place| self.launches_of(one, place));
            let only = match (before, behind) {
                (Some(before), Some(behind)) => {
                    let idle = [(Before, before), (Behind, behind)].into_iter();
                    let idle = idle.filter(|(_, launches)| self.was_idle(one, launches));
                    seen.extend(idle.map(|(place, _)| place));
                    open.push(at);
                    None
                }
                (Some(before), None) => {
                    seen.insert(Before);
                    Some(before)
                }
                (None, Some(behind)) => {
                    seen.insert(Behind);
                    Some(behind)
                }
                (None, None) => None,
            };
            used.extend(only.iter().flatten());
            decided.push(only);
        }
        let mut seen = seen.into_iter();
        let (Some(place), None) = (seen.next(), seen.next()) else {
            return decided;
        };
        for at in open {
            let launches = self.launches_of(&self.shared[at], place);
            let is_free = |launches: &Vec<usize>| launches.iter().all(|one| used.insert(*one));
            decided[at] = launches.filter(is_free);
        }
        decided
    }

    /// Returns the launches of the rows, in order, if the other launches are at `place` and are the
    /// only possible ones. `None` if there are more or fewer, or if a row fits none.
    fn launches_of(&self, one: &SharedLaunch, place: OtherLaunches) -> Option<Vec<usize>> {
        let own = self
            .shared
            .partition_point(|other| other.launch < one.launch);
        let next = self.orphans.partition_point(|orphan| *orphan < one.launch);
        let shared = |at: Option<usize>| Some(self.shared.get(at?)?.launch);
        let (side, others) = match place {
            OtherLaunches::Before => {
                let least = shared(own.checked_sub(1)).unwrap_or(0);
                let least = least.max(one.launch.saturating_sub(SHARED_REACH));
                let from = self.orphans.partition_point(|orphan| *orphan < least);
                (from..next, 0..one.rows.len() - 1)
            }
            OtherLaunches::Behind => {
                let most = shared(Some(own + 1)).unwrap_or(usize::MAX);
                let most = most.min(one.launch.saturating_add(SHARED_REACH));
                let to = self.orphans.partition_point(|orphan| *orphan < most);
                (next..to, 1..one.rows.len())
            }
        };
        let others = &one.rows[others];
        let may_be = |orphan: &usize| others.iter().any(|row| self.fits(*row, *orphan));
        let side = self.orphans[side].iter().copied();
        let mut launches: Vec<usize> = side.filter(may_be).collect();
        launches.push(one.launch);
        launches.sort_unstable();
        let mut pairs = one.rows.iter().zip(&launches);
        let fit =
            launches.len() == one.rows.len() && pairs.all(|(row, launch)| self.fits(*row, *launch));
        fit.then_some(launches)
    }

    fn called(&self, launch: usize) -> TimeNs {
        self.device.calls.start[self.calls.launches[launch].call.index()]
    }

    fn fits(&self, row: RowIdx, launch: usize) -> bool {
        let start = self.device.rows.start[row.index()];
        let queue = self.device.rows.queue[row.index()];
        let others = self.in_order.get(&queue).map_or(&[][..], |rows| rows);
        let next = others.partition_point(|(other, _)| *other <= start);
        let before = next.checked_sub(1).map(|before| others[before].1);
        let is_behind = before.is_none_or(|before| before < launch);
        let is_before = others.get(next).is_none_or(|(_, after)| launch < *after);
        self.called(launch).since(start) <= self.early_ns && is_behind && is_before
    }

    /// True if all rows of these launches start as soon as they can, and one of them on a stream
    /// that was idle when its launch was called.
    fn was_idle(&self, one: &SharedLaunch, launches: &[usize]) -> bool {
        let mut idle = false;
        let mut pairs = one.rows.iter().zip(launches);
        let is_soon = pairs.all(|(row, launch)| {
            let (start, called) = (self.device.rows.start[row.index()], self.called(*launch));
            let rows = self.by_queue.rows(self.device.rows.queue[row.index()]);
            let own = rows.partition_point(|other| other < row);
            let ended = own
                .checked_sub(1)
                .map(|before| row_end(self.device, rows[before]));
            let can = ended.map_or(called, |ended| ended.max(called));
            idle |= *launch != launches[0] && can == called;
            start.since(can) <= LAUNCH_LATENCY.0
        });
        is_soon && idle
    }
}
