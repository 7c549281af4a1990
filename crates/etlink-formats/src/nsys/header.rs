//! Report facts around the events: clock, machine, devices, thread names.

use crate::Error;
use crate::nsys::{ExportReader, GlobalPid};
use crate::sqlite::{RowCells, RowFilter, scan_rows};
use etlink_model::{GlobalRank, TraceRecorder, TrackLabel, UnixNs};

/// Largest number of devices in a machine; more are damage.
const MOST_DEVICES: i64 = 1024;

impl ExportReader<'_> {
    /// Reads the facts around the events.
    pub(crate) fn read_header(&mut self) -> Result<(), Error> {
        self.assembler.trace.header.recorder = TraceRecorder::Nsight;
        self.read_clock()?;
        self.read_machine()?;
        self.read_devices()?;
        self.read_thread_names()?;
        self.read_process();
        self.read_diagnoses()
    }

    /// Reads warnings (2) and errors (3) of Nsight Systems about its own recording.
    fn read_diagnoses(&mut self) -> Result<(), Error> {
        let columns = ["severity", "text"];
        self.each_row(
            "DIAGNOSTIC_EVENT",
            &columns,
            RowFilter::All,
            |this, cells| {
                let text = if matches!(cells.int(0), Some(2 | 3)) {
                    cells.text(1)
                } else {
                    None
                };
                if let Some(text) = text {
                    this.assembler.trace.header.note_diagnosis(&text);
                }
            },
        )
    }

    /// Visits the rows of a small table; does nothing if the table is missing.
    fn each_row(
        &mut self,
        name: &str,
        columns: &[&str],
        filter: RowFilter<'_>,
        mut take: impl FnMut(&mut Self, &RowCells<'_, '_>),
    ) -> Result<(), Error> {
        let Some(table) = self.tables.table(name) else {
            return Ok(());
        };
        let connection = self.connection;
        let scanned = scan_rows(connection, table, columns, filter, |cells| {
            take(self, cells);
        })?;
        self.note_anomalies([scanned.anomalies]);
        Ok(())
    }

    /// Reads the session start, stated by the first row; times count from it.
    fn read_clock(&mut self) -> Result<(), Error> {
        let mut start = None;
        self.each_row(
            "TARGET_INFO_SESSION_START_TIME",
            &["utcEpochNs"],
            RowFilter::All,
            |_, cells| start = start.or(cells.int(0)),
        )?;
        self.assembler.trace.header.base_ns = UnixNs(start.unwrap_or(0));
        Ok(())
    }

    fn read_machine(&mut self) -> Result<(), Error> {
        self.each_row(
            "TARGET_INFO_SYSTEM_ENV",
            &["name", "value"],
            RowFilter::All,
            |reader, cells| {
                if cells.text(0).as_deref() == Some("Hostname")
                    && let Some(name) = cells.text(1)
                {
                    reader.assembler.trace.header.host_name = name.into_owned();
                }
            },
        )
    }

    /// Reads names and multiprocessors of devices. Rows number devices as the process sees them
    /// (`CUDA_VISIBLE_DEVICES`); in newer reports, `TARGET_INFO_CUDA_DEVICE` maps that number to a
    /// GPU.
    fn read_devices(&mut self) -> Result<(), Error> {
        let mut gpus: Vec<(i64, i64, String, Option<u32>)> = vec![];
        self.each_row(
            "TARGET_INFO_GPU",
            &["id", "cuDevice", "name", "smCount"],
            RowFilter::All,
            |_, cells| {
                let name = cells.text(2).map(|name| name.into_owned());
                let id = cells.int(0).unwrap_or(-1);
                let device = cells.int(1).unwrap_or(id);
                gpus.push((id, device, name.unwrap_or_default(), cells.small_uint(3)));
            },
        )?;
        let mut seen: Vec<(i64, i64, Option<u32>)> = vec![];
        let pid = self.global_pid().map(GlobalPid::pid);
        self.each_row(
            "TARGET_INFO_CUDA_DEVICE",
            &["gpuId", "cudaId", "pid", "numMultiprocessors"],
            RowFilter::All,
            |_, cells| {
                let is_other = pid.is_some() && cells.int(2).is_some_and(|of| Some(of) != pid);
                if let (Some(gpu), Some(device), false) = (cells.int(0), cells.int(1), is_other) {
                    seen.push((gpu, device, cells.small_uint(3)));
                }
            },
        )?;
        // Without that table, a GPU has the driver's number.
        if seen.is_empty() {
            seen = gpus
                .iter()
                .map(|(id, device, ..)| (*id, *device, None))
                .collect();
        }
        let trace = &mut self.assembler.trace;
        for (gpu, device, count) in seen {
            let known = gpus.iter().find(|(id, ..)| *id == gpu);
            let count = count.or(known.and_then(|(.., count)| *count));
            if let Some(count) = count.filter(|count| *count > 0) {
                trace.note_multiprocessors(device, count);
            }
            if device >= MOST_DEVICES {
                continue;
            }
            let Some(place) = usize::try_from(device).ok() else {
                continue;
            };
            let devices = &mut trace.header.devices;
            devices.resize(devices.len().max(place + 1), String::new());
            if let Some((_, _, name, _)) = known {
                devices[place].clone_from(name);
            }
        }
        Ok(())
    }

    /// Reads system names of threads. Names that the program sets through NVTX are read later and
    /// win.
    fn read_thread_names(&mut self) -> Result<(), Error> {
        let filter = self.of_threads();
        self.each_row(
            "ThreadNames",
            &["globalTid", "nameId"],
            filter,
            |reader, cells| {
                let name = cells.int(1).and_then(|id| reader.strings.text(id));
                if let (Some(thread), Some(name)) = (cells.int(0), name) {
                    reader.insert_thread_name(thread, &name);
                }
            },
        )
    }

    /// Writes name and rank of the process into the trace.
    fn read_process(&mut self) {
        let Some(process) = self.process.clone() else {
            return;
        };
        let name = self.assembler.intern(&process.name);
        let trace = &mut self.assembler.trace;
        trace
            .process_names
            .insert(TrackLabel::Int(process.pid), name);
        trace.header.rank = process.rank.map(|rank| GlobalRank(rank.rank));
        trace.header.world_size = process.rank.and_then(|rank| rank.world_size);
    }
}
