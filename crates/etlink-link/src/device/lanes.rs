//! Device rows by queue, in the order of their launches, which is the order in which they run.

use crate::device::launch::Launches;
use crate::device::row_end;
use crate::graph::kinds::NoLaunch;
use crate::search::Groups;
use etlink_model::{CallIdx, DeviceTrace, QueueIdx, RowIdx, TimeNs};
use rustc_hash::FxHashMap;

/// Maximum number of a device's queues that are all searched.
const FEW_QUEUES: usize = 16;

fn has_many(queues: &[QueueIdx]) -> bool {
    queues.len() > FEW_QUEUES
}

/// Rows of each queue, by launch.
pub(crate) struct Lanes {
    /// Start of each row's launching call; before all times for launches before the recording.
    launched: Vec<TimeNs>,
    /// Rows by launch, queue by queue.
    rows: Vec<RowIdx>,
    /// Start of each queue in `rows`, followed by the end.
    first: Vec<u32>,
    /// Queues by device and stream; several contexts may share a stream number.
    by_stream: FxHashMap<(i64, i64), Vec<QueueIdx>>,
    /// Queues with rows, by device.
    by_device: FxHashMap<i64, Vec<QueueIdx>>,
    /// Rows of each device with many queues, by launch.
    device_rows: FxHashMap<i64, Vec<(TimeNs, QueueIdx)>>,
    /// All rows, by end.
    pub(crate) by_end: Vec<RowIdx>,
    /// Calls with the rows they launched, by call and start of the row.
    pub(crate) by_call: Vec<(CallIdx, RowIdx)>,
}

impl Lanes {
    /// Indexes the rows. O(rows log rows), nearly linear as rows run in the order of their
    /// launches.
    pub(crate) fn new(device: &DeviceTrace, launches: &Launches) -> Lanes {
        let rows = &device.rows;
        // A row whose call the profiler dropped still began after its launch: its start is the best
        // bound. Before the recording there is none, and the row comes before everything.
        let mut launched: Vec<TimeNs> = Vec::with_capacity(rows.len());
        for (row, call) in launches.row_call.iter().enumerate() {
            launched.push(match (launches.no_launch[row], call.get()) {
                (_, Some(call)) => device.calls.start[call.index()],
                (NoLaunch::CallNotRecorded, None) => rows.start[row],
                (_, None) => TimeNs(i64::MIN),
            });
        }
        let groups = Groups::<QueueIdx, RowIdx>::new(&rows.queue, device.queues.len());
        let mut by_end: Vec<RowIdx> = (0..rows.len()).map(RowIdx::new).collect();
        by_end.sort_by_key(|row| row_end(device, *row));
        let call_of = launches.row_call.iter().zip((0..).map(RowIdx));
        let mut by_call: Vec<(CallIdx, RowIdx)> = call_of
            .filter_map(|(call, row)| Some((call.get()?, row)))
            .collect();
        by_call.sort();
        let mut lanes = Lanes {
            launched,
            rows: Vec::with_capacity(rows.len()),
            first: vec![0],
            by_stream: FxHashMap::default(),
            by_device: FxHashMap::default(),
            device_rows: FxHashMap::default(),
            by_end,
            by_call,
        };
        for (queue, at) in device.queues.iter().zip((0..).map(QueueIdx)) {
            let from = lanes.rows.len();
            lanes.rows.extend(groups.rows(at));
            // A stream runs in the order of launches; rows launched by two threads may be written
            // in another order. The sort is stable, so rows of one graph launch stay in order of
            // time.
            lanes.rows[from..].sort_by_key(|row| lanes.launched[row.index()]);
            lanes.first.push(lanes.rows.len() as u32);
            if from < lanes.rows.len() {
                let of_device = lanes.by_device.entry(queue.device).or_default();
                of_device.push(at);
            }
            lanes
                .by_stream
                .entry((queue.device, queue.stream))
                .or_default()
                .push(at);
        }
        lanes.index_devices(device);
        lanes
    }

    /// Sorts the rows of devices with many queues by launch.
    fn index_devices(&mut self, device: &DeviceTrace) {
        let rows = &device.rows;
        if !self.by_device.values().any(|queues| has_many(queues)) {
            return;
        }
        for (row, launched) in self.launched.iter().enumerate() {
            let queue = rows.queue[row];
            let number = device.queues[queue.index()].device;
            if self
                .by_device
                .get(&number)
                .is_some_and(|queues| has_many(queues))
            {
                let of_device = self.device_rows.entry(number).or_default();
                of_device.push((*launched, queue));
            }
        }
        for rows in self.device_rows.values_mut() {
            rows.sort();
        }
    }

    /// Returns the devices with rows, unordered.
    pub(crate) fn devices(&self) -> impl Iterator<Item = i64> {
        self.by_device.keys().copied()
    }

    /// Start of the call that launched a row.
    pub(crate) fn launched(&self, row: RowIdx) -> TimeNs {
        self.launched[row.index()]
    }

    /// Rows of a queue, by launch.
    pub(crate) fn lane(&self, queue: QueueIdx) -> &[RowIdx] {
        let [start, end] = [queue.index(), queue.index() + 1].map(|at| self.first[at] as usize);
        &self.rows[start..end]
    }

    /// Queues of a device that have rows.
    pub(crate) fn queues_of(&self, device: i64) -> &[QueueIdx] {
        self.by_device.get(&device).map_or(&[], Vec::as_slice)
    }

    /// Returns the last row of a queue that was launched before `time`.
    pub(crate) fn last_before(&self, queue: QueueIdx, time: TimeNs) -> Option<RowIdx> {
        let lane = self.lane(queue);
        lane.partition_point(|row| self.launched(*row) < time)
            .checked_sub(1)
            .map(|at| lane[at])
    }

    /// Returns the first row of a queue that was launched after `time`.
    pub(crate) fn first_after(&self, queue: QueueIdx, time: TimeNs) -> Option<RowIdx> {
        let lane = self.lane(queue);
        lane.get(lane.partition_point(|row| self.launched(*row) <= time))
            .copied()
    }

    /// Returns the queue of a stream, in the context of `like` if there are several.
    pub(crate) fn queue(
        &self,
        device: &DeviceTrace,
        like: QueueIdx,
        stream: i64,
    ) -> Option<QueueIdx> {
        let like = device.queues[like.index()];
        let all = self.by_stream.get(&(like.device, stream))?;
        // A stream number is unique only within its context: stream 7 of two contexts is two
        // queues. The context may have no rows, so any queue of that number with rows is the second
        // choice.
        let mut with_rows = all.iter().filter(|queue| !self.lane(**queue).is_empty());
        let same = with_rows
            .clone()
            .find(|queue| device.queues[queue.index()].context == like.context);
        same.or_else(|| with_rows.next()).copied()
    }

    /// Returns the queues of a device with rows that may have received a launch from `since` up to
    /// `time`.
    ///
    /// Takes time in the number of such queues, or of rows launched meanwhile, whichever is
    /// smaller: a program that synchronises often on many streams launches to few of them in
    /// between.
    pub(crate) fn launched_to(&self, device: i64, since: TimeNs, time: TimeNs) -> Vec<QueueIdx> {
        let Some(queues) = self.by_device.get(&device) else {
            return vec![];
        };
        let Some(rows) = self.device_rows.get(&device) else {
            return queues.clone();
        };
        let from = rows.partition_point(|(launched, _)| *launched < since);
        let until = rows.partition_point(|(launched, _)| *launched < time);
        let rows = rows.get(from..until).unwrap_or_default();
        // The first synchronisation of a program, or one after many launches: there are fewer
        // queues than rows.
        if since == TimeNs(i64::MIN) || rows.len() >= queues.len() {
            return queues.clone();
        }
        let mut launched_to: Vec<QueueIdx> = rows.iter().map(|(_, queue)| *queue).collect();
        launched_to.sort_unstable();
        launched_to.dedup();
        launched_to
    }
}
