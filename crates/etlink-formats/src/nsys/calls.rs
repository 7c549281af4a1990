//! Runtime and driver calls.

use crate::Error;
use crate::nsys::global_pid::thread_id;
use crate::nsys::times::row_times;
use crate::nsys::{ExportReader, GlobalPid};
use crate::sqlite::scan_rows;
use etlink_model::{Anomalies, Correlation, NameId, RuntimeCall};

/// Table of CUDA runtime and driver calls.
pub(crate) const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";

/// `eventClass` of rows that repeat a call for its call stack, with the same times and correlation
/// (`TRACE_PROCESS_EVENT_CUDABACKTRACE` in `ENUM_NSYS_EVENT_CLASS`; exports of schema 2).
const BACKTRACES: std::ops::RangeInclusive<i64> = 67..=69;

const DRIVER: i64 = 1;

/// Returns a correlation id; tracers write 0 for none.
pub(crate) fn correlation(id: Option<i64>) -> Correlation {
    id.filter(|id| *id != 0)
        .map_or(Correlation::NONE, Correlation)
}

impl ExportReader<'_> {
    /// Reads the calls of the process.
    pub(crate) fn read_calls(&mut self) -> Result<(), Error> {
        let Some(table) = self.tables.table(CALLS) else {
            return Ok(());
        };
        let columns = [
            "start",
            "end",
            "globalTid",
            "correlationId",
            "nameId",
            "eventClass",
        ];
        let filter = self.of_threads();
        let mut anomalies = Anomalies::default();
        let (mut runtime, mut driver) = (0, 0);
        let (strings, assembler) = (&mut self.strings, &mut self.assembler);
        let scanned = scan_rows(self.connection, table, &columns, filter, |cells| {
            let class = cells.int(5);
            if class.is_some_and(|class| BACKTRACES.contains(&class)) {
                return;
            }
            let Some((start, duration)) = row_times(cells, CALLS, &mut anomalies) else {
                return;
            };
            let thread = cells.int(2).unwrap_or(0);
            let pid = GlobalPid::of_thread(thread).pid();
            let call = RuntimeCall {
                name: strings.call_name(cells.int(4), &mut assembler.trace.names),
                thread: assembler.thread_index(pid, thread_id(thread)),
                start,
                duration,
                correlation: correlation(cells.int(3)),
                external_id: -1,
                kernel: NameId::EMPTY,
            };
            assembler.trace.calls.push(call);
            match class {
                Some(DRIVER) => driver += 1,
                _ => runtime += 1,
            }
        })?;
        self.note_anomalies([anomalies, scanned.anomalies]);
        self.count_rows("X cuda_runtime", runtime);
        self.count_rows("X cuda_driver", driver);
        Ok(())
    }

    /// Merges the anomalies found in tables into the trace.
    pub(crate) fn note_anomalies<const N: usize>(&mut self, all: [Anomalies; N]) {
        for anomalies in all {
            self.assembler.trace.anomalies.merge(anomalies);
        }
    }

    /// Counts events of a category; a count of 0 adds no entry.
    pub(crate) fn count_rows(&mut self, phase_and_category: &str, count: u64) {
        if count > 0 {
            self.assembler.count_events(phase_and_category, count);
        }
    }
}
