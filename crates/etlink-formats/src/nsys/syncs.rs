//! Synchronisations, and records of the events they wait for.

use crate::Error;
use crate::nsys::ExportReader;
use crate::nsys::calls::correlation;
use crate::nsys::names::sync_name;
use crate::nsys::rows::stream;
use crate::nsys::times::row_times;
use crate::sqlite::scan_rows;
use etlink_model::{Anomalies, Correlation, DeviceQueue, SyncRow};
use rustc_hash::FxHashMap;

/// Table of waits of threads and streams.
pub(crate) const SYNCS: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
/// Table of calls that record events. This table and [`SYNCS`] exist with
/// `--cuda-event-trace=true`, the default since 2024.
pub(crate) const EVENTS: &str = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";

const EVENT_SYNC: i64 = 1;
const STREAM_WAIT: i64 = 2;
const CONTEXT_SYNC: i64 = 4;

/// A call that recorded an event to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EventRecord {
    correlation: i64,
    stream: i64,
}

/// Records of events. Correlation ids of a process grow with time, so the last record before a wait
/// has the next lower id, as in Kineto (`waitEventMap` in `CuptiActivityProfiler.cpp`).
#[derive(Default)]
struct EventRecords {
    /// Records by context and event.
    of_event: FxHashMap<(i64, i64), Vec<EventRecord>>,
    /// Records by the number that CUDA 12.8 and later give each record and its waits.
    of_sync: FxHashMap<i64, EventRecord>,
}

impl EventRecords {
    fn push(&mut self, context: i64, event: i64, sync: Option<i64>, record: EventRecord) {
        if let Some(sync) = sync.filter(|sync| *sync > 0) {
            self.of_sync.insert(sync, record);
        }
        let records = self.of_event.entry((context, event)).or_default();
        records.push(record);
    }

    fn sort(&mut self) {
        self.of_event
            .values_mut()
            .for_each(|records| records.sort());
    }

    /// Returns the record that a wait with a correlation id waits for.
    fn find(
        &self,
        context: i64,
        event: i64,
        sync: Option<i64>,
        wait: Correlation,
    ) -> Option<EventRecord> {
        if let Some(record) = sync.and_then(|sync| self.of_sync.get(&sync)) {
            return Some(*record);
        }
        let records = self.of_event.get(&(context, event))?;
        let before = records.partition_point(|record| record.correlation < wait.0);
        Some(records[before.checked_sub(1)?])
    }
}

impl ExportReader<'_> {
    /// Reads the synchronisations of the process.
    pub(crate) fn read_syncs(&mut self) -> Result<(), Error> {
        let Some(table) = self.tables.table(SYNCS) else {
            return Ok(());
        };
        let records = self.event_records()?;
        let columns = [
            "start",
            "end",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "syncType",
            "eventId",
            "eventSyncId",
        ];
        let filter = self.of_process();
        let mut anomalies = Anomalies::default();
        let assembler = &mut self.assembler;
        let mut count = 0;
        let scanned = scan_rows(self.connection, table, &columns, filter, |cells| {
            let Some((start, duration)) = row_times(cells, SYNCS, &mut anomalies) else {
                return;
            };
            let queue = DeviceQueue {
                device: cells.int(2).unwrap_or(0),
                context: cells.int(3).unwrap_or(0),
                stream: stream(cells.int(4)),
            };
            let id = correlation(cells.int(5));
            let event = stream(cells.int(7));
            let waits = matches!(cells.int(6), Some(EVENT_SYNC | STREAM_WAIT));
            let record = Some(event)
                .filter(|event| waits && *event >= 0)
                .and_then(|event| records.find(queue.context, event, cells.int(8), id));
            // Nsight Systems of 2022 writes a device synchronisation as a wait for a negative
            // event.
            let kind = match cells.int(6) {
                Some(EVENT_SYNC) if event < 0 && queue.stream < 0 => Some(CONTEXT_SYNC),
                kind => kind,
            };
            let row = SyncRow {
                name: assembler.intern(sync_name(kind)),
                queue: assembler.queue_index(queue),
                unsigned: false,
                start,
                duration,
                correlation: id,
                wait_stream: record.map_or(-1, |record| record.stream),
                wait_record: record
                    .filter(|record| record.correlation > 0)
                    .map_or(Correlation::NONE, |record| Correlation(record.correlation)),
                wait_event: if waits { event } else { -1 },
            };
            assembler.trace.syncs.push(row);
            count += 1;
        })?;
        self.note_anomalies([anomalies, scanned.anomalies]);
        self.count_rows("X cuda_sync", count);
        Ok(())
    }

    fn event_records(&mut self) -> Result<EventRecords, Error> {
        let mut records = EventRecords::default();
        let Some(table) = self.tables.table(EVENTS) else {
            return Ok(records);
        };
        let columns = [
            "contextId",
            "eventId",
            "eventSyncId",
            "correlationId",
            "streamId",
        ];
        let filter = self.of_process();
        let scanned = scan_rows(self.connection, table, &columns, filter, |cells| {
            if let (Some(event), Some(correlation)) = (cells.int(1), cells.int(3)) {
                let stream = stream(cells.int(4));
                let record = EventRecord {
                    correlation,
                    stream,
                };
                records.push(cells.int(0).unwrap_or(0), event, cells.int(2), record);
            }
        })?;
        records.sort();
        self.note_anomalies([scanned.anomalies]);
        self.count_rows("i cuda_event", scanned.count);
        Ok(records)
    }
}
