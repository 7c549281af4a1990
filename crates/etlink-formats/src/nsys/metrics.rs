//! Events that no graph needs: profiler overhead, and GPU metrics as counters.

use crate::Error;
use crate::nsys::ExportReader;
use crate::nsys::times::{row_times, time_in_range};
use crate::sqlite::{RowFilter, scan_rows};
use etlink_model::{
    Anomalies, AuxiliaryEvent, AuxiliaryKind, DeviceTrace, DurationNs, EventDetail, HostThread,
    KeepEvents, NameId, OtherEvent, RecordedDetails, TextSpan, ThreadIdx, TrackLabel,
};
use rustc_hash::FxHashMap;

/// Table of profiler overhead in the process.
const OVERHEAD: &str = "PROFILER_OVERHEAD";
/// Table of metric samples, `--gpu-metrics-devices`.
const METRICS: &str = "GPU_METRICS";
const METRIC_NAMES: &str = "TARGET_INFO_GPU_METRICS";

impl ExportReader<'_> {
    /// Reads the events requested beyond a graph's rows.
    pub(crate) fn read_metrics(&mut self) -> Result<(), Error> {
        if self.keep >= KeepEvents::Auxiliary {
            self.read_overhead()?;
        }
        if self.keep == KeepEvents::Everything {
            self.read_counters()?;
        }
        Ok(())
    }

    fn read_overhead(&mut self) -> Result<(), Error> {
        let Some(table) = self.tables.table(OVERHEAD) else {
            return Ok(());
        };
        let columns = ["start", "end", "globalTid", "nameId"];
        let (connection, filter) = (self.connection, self.of_threads());
        let mut anomalies = Anomalies::default();
        let mut count = 0;
        let scanned = scan_rows(connection, table, &columns, filter, |cells| {
            let Some((start, duration)) = row_times(cells, OVERHEAD, &mut anomalies) else {
                return;
            };
            let event = AuxiliaryEvent {
                kind: AuxiliaryKind::Overhead,
                name: self.string(cells.int(3)),
                thread: ThreadIdx::NONE,
                start,
                duration,
            };
            self.assembler.trace.auxiliary.push(event);
            count += 1;
        })?;
        self.note_anomalies([anomalies, scanned.anomalies]);
        self.count_rows("X overhead", count);
        Ok(())
    }

    /// Reads metric samples as counters: name, time, value. The lowest byte of `typeId` is the GPU.
    /// A report of several processes has the samples once for all.
    fn read_counters(&mut self) -> Result<(), Error> {
        let names = self.metric_names()?;
        let Some(table) = self.tables.table(METRICS) else {
            return Ok(());
        };
        let process = self.process.as_ref().map_or(0, |process| process.pid);
        let track = HostThread {
            pid: TrackLabel::Int(process),
            tid: TrackLabel::Int(0),
        };
        let mut details = RecordedDetails {
            tracks: vec![track],
            ..RecordedDetails::default()
        };
        let phase = self.assembler.intern("C");
        let category = self.assembler.intern("gpu_metrics");
        let columns = ["timestamp", "typeId", "metricId", "value"];
        let mut times = Anomalies::default();
        let connection = self.connection;
        let mut known: FxHashMap<(i64, i64), NameId> = FxHashMap::default();
        let scanned = scan_rows(connection, table, &columns, RowFilter::All, |cells| {
            let time = time_in_range(cells, &mut times);
            let (Some(time), Some(value)) = (time, cells.int(3)) else {
                return;
            };
            let kind = (cells.int(1).unwrap_or(0), cells.int(2).unwrap_or(0));
            let name = *known.entry(kind).or_insert_with(|| {
                let unnamed = format!("metric {}", kind.1);
                let name = names.get(&kind).unwrap_or(&unnamed);
                self.assembler
                    .intern(&format!("GPU {} {name}", kind.0 & 0xff))
            });
            let text = format!("{{\"value\": {value}}}");
            let start = details.text.len() as u64;
            details.text.extend_from_slice(text.as_bytes());
            details.others.push(OtherEvent {
                phase,
                name,
                start: time,
                duration: DurationNs::ZERO,
            });
            details.other_details.push(EventDetail {
                category,
                track: 0,
                args: TextSpan {
                    start,
                    bytes: u32::try_from(text.len()).unwrap_or(0),
                },
            });
        })?;
        self.note_anomalies([scanned.anomalies, times]);
        self.count_rows("C gpu_metrics", scanned.count);
        // Details exist for all events or for none; a trace without counters needs none.
        if scanned.count > 0 {
            self.assembler.trace.details = Some(Box::new(details));
        }
        Ok(())
    }

    fn metric_names(&mut self) -> Result<FxHashMap<(i64, i64), String>, Error> {
        let mut names = FxHashMap::default();
        let Some(table) = self.tables.table(METRIC_NAMES) else {
            return Ok(names);
        };
        let columns = ["typeId", "metricId", "metricName"];
        let scanned = scan_rows(self.connection, table, &columns, RowFilter::All, |cells| {
            if let (Some(kind), Some(metric), Some(name)) =
                (cells.int(0), cells.int(1), cells.text(2))
            {
                names.insert((kind, metric), name.into_owned());
            }
        })?;
        self.note_anomalies([scanned.anomalies]);
        Ok(names)
    }
}

/// Fills in the details of events in tables, if there are details. Other recorder data is left out,
/// so no event has arguments.
pub(crate) fn fill_details(trace: &mut DeviceTrace) {
    let Some(details) = &mut trace.details else {
        return;
    };
    let category = trace.names.intern("nsys");
    let detail = |track: u32| EventDetail {
        category,
        track,
        args: TextSpan::default(),
    };
    // tracks: the process first, then its threads, then its queues
    let first_thread = details.tracks.len() as u32;
    details.tracks.extend(trace.threads.iter().copied());
    let first_queue = details.tracks.len() as u32;
    for queue in &trace.queues {
        details.tracks.push(HostThread {
            pid: TrackLabel::Int(queue.device),
            tid: TrackLabel::Int(queue.stream),
        });
    }
    for thread in &trace.ops.thread {
        details.ops.push(detail(first_thread + thread.0));
    }
    for thread in &trace.calls.thread {
        details.calls.push(detail(first_thread + thread.0));
    }
    for queue in &trace.rows.queue {
        details.rows.push(detail(first_queue + queue.0));
    }
    for queue in &trace.syncs.queue {
        details.syncs.push(detail(first_queue + queue.0));
    }
    for _ in 0..trace.auxiliary.len() {
        details.auxiliary.push(detail(0));
    }
}
