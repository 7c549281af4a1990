//! Assembles a device trace row by row, for recorders that write rows one after the other.

use crate::{
    DeviceQueue, DeviceTrace, HostThread, IndexByValue, NameId, QueueIdx, ThreadIdx, TrackLabel,
};

/// Builder of a device trace. Rows are pushed to the tables of [`Self::trace`] in any order, with
/// the numbers that this builder assigns.
///
/// ```
/// use etlink_model::{DeviceQueue, DeviceRow, DeviceTraceAssembler, DurationNs, TimeNs};
///
/// let mut assembler = DeviceTraceAssembler::default();
/// for start in [70, 20] {
///     let row = DeviceRow {
///         name: assembler.trace.names.intern("gemm"),
///         queue: assembler.queue_index(DeviceQueue::stream(7)),
///         start: TimeNs(start),
///         duration: DurationNs(10),
///         ..DeviceRow::default()
///     };
///     assembler.trace.rows.push(row);
///     assembler.count_events("X kernel", 1);
/// }
/// let trace = assembler.finish().expect("a short table");
/// assert_eq!(trace.rows.start, [TimeNs(20), TimeNs(70)]);
/// ```
#[derive(Debug, Default)]
pub struct DeviceTraceAssembler {
    /// Trace assembled so far.
    pub trace: DeviceTrace,
    threads: IndexByValue<HostThread>,
    queues: IndexByValue<DeviceQueue>,
}

impl DeviceTraceAssembler {
    /// Returns the number of a host thread, adding it if unknown. O(1).
    pub fn thread_index(&mut self, pid: i64, tid: i64) -> ThreadIdx {
        let thread = HostThread {
            pid: TrackLabel::Int(pid),
            tid: TrackLabel::Int(tid),
        };
        ThreadIdx::new(self.threads.place_of(&mut self.trace.threads, thread))
    }

    /// Returns the number of a queue whose stream the recorder states, adding it if unknown.
    /// O(log queues).
    pub fn queue_index(&mut self, queue: DeviceQueue) -> QueueIdx {
        let index = QueueIdx::new(self.queues.place_of(&mut self.trace.queues, queue));
        self.trace.stated_queues.insert(index);
        index
    }

    /// Returns the number of a text, adding it if unknown. O(length).
    pub fn intern(&mut self, text: &str) -> NameId {
        self.trace.names.intern(text)
    }

    /// Counts events in [`DeviceTrace::events`], by phase and category as Kineto would write them:
    /// `X kernel`. O(1).
    pub fn count_events(&mut self, phase_and_category: &str, count: u64) {
        let events = &mut self.trace.events;
        match events.get_mut(phase_and_category) {
            Some(known) => *known += count,
            None => {
                events.insert(phase_and_category.to_owned(), count);
            }
        }
    }

    /// Returns the trace with its tables in order of time; `None` if a table is too long for its
    /// row numbers. O(n log n).
    pub fn finish(self) -> Option<DeviceTrace> {
        let mut trace = self.trace;
        trace.sort_by_time()?;
        Some(trace)
    }
}
