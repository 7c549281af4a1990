//! Device work: kernels, copies, memsets, graph launches.

use crate::Error;
use crate::nsys::ExportReader;
use crate::nsys::calls::correlation;
use crate::nsys::names::{copy_direction, is_unified, memory_kind};
use crate::nsys::times::row_times;
use crate::sqlite::{RowCells, scan_rows};
use etlink_model::{Anomalies, DeviceQueue, DeviceRow, DurationNs, NameId, QueueIdx, RowKind};
use rustc_hash::FxHashMap;

/// Table of kernels.
pub(crate) const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
/// Table of copies.
pub(crate) const COPIES: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
/// Table of memsets.
pub(crate) const SETS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
/// Table of graph launches as a whole, without their nodes: `--cuda-graph-trace=graph`, the default
/// of `nsys profile`.
pub(crate) const GRAPHS: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";

/// All tables of device work.
pub(crate) const DEVICE_TABLES: [&str; 4] = [KERNELS, COPIES, SETS, GRAPHS];

/// Value for none in 32-bit columns (`CUPTI_SYNCHRONIZATION_INVALID_VALUE`).
const NO_STREAM: i64 = 0xffff_ffff;

/// Returns a stream; -1 for none.
pub(crate) fn stream(stream: Option<i64>) -> i64 {
    stream.filter(|stream| *stream != NO_STREAM).unwrap_or(-1)
}

/// Leading columns of all tables of device work.
const COMMON: [&str; 7] = [
    "start",
    "end",
    "deviceId",
    "contextId",
    "streamId",
    "correlationId",
    "graphNodeId",
];

/// Reads the columns that all tables of device work share.
fn common_row(
    cells: &RowCells<'_, '_>,
    table: &str,
    anomalies: &mut Anomalies,
) -> Option<(DeviceRow, DeviceQueue)> {
    let (start, duration) = row_times(cells, table, anomalies)?;
    let queue = DeviceQueue {
        device: cells.int(2).unwrap_or(0),
        context: cells.int(3).unwrap_or(0),
        stream: stream(cells.int(4)),
    };
    let row = DeviceRow {
        start,
        duration,
        correlation: correlation(cells.int(5)),
        external_id: -1,
        gb_per_s: -1.0,
        graph_node: cells.bits(6).unwrap_or(0),
        collective: u32::MAX,
        ..DeviceRow::default()
    };
    Some((row, queue))
}

impl ExportReader<'_> {
    /// Reads the device work of the process.
    pub(crate) fn read_rows(&mut self) -> Result<(), Error> {
        self.read_kernels()?;
        self.read_copies()?;
        self.read_sets()?;
        self.read_graphs()
    }

    fn read_kernels(&mut self) -> Result<(), Error> {
        let columns = [
            &COMMON[..],
            &[
                "demangledName",
                "shortName",
                "gridX",
                "gridY",
                "gridZ",
                "blockX",
                "blockY",
                "blockZ",
            ],
        ]
        .concat();
        self.read_device_table(KERNELS, &columns, "kernel", |reader, cells, row| {
            row.kind = RowKind::Kernel;
            row.name = reader.string(cells.int(7));
            // Exports of other tools may lack the long names.
            if row.name == NameId::EMPTY {
                row.name = reader.string(cells.int(8));
            }
            let size = |column: usize| cells.small_uint(column).unwrap_or(0);
            row.grid = [size(9), size(10), size(11)];
            row.block = [size(12), size(13), size(14)];
        })
    }

    fn read_copies(&mut self) -> Result<(), Error> {
        let columns = [&COMMON[..], &["bytes", "copyKind", "srcKind", "dstKind"]].concat();
        let mut names: FxHashMap<[Option<i64>; 3], NameId> = FxHashMap::default();
        self.read_device_table(COPIES, &columns, "gpu_memcpy", |reader, cells, row| {
            row.kind = RowKind::Memcpy;
            let kinds = [cells.int(8), cells.int(9), cells.int(10)];
            row.name = *names
                .entry(kinds)
                .or_insert_with(|| reader.assembler.intern(&copy_name(kinds)));
            set_bytes(row, cells.uint(7));
        })
    }

    fn read_sets(&mut self) -> Result<(), Error> {
        let columns = [&COMMON[..], &["bytes", "memKind"]].concat();
        self.read_device_table(SETS, &columns, "gpu_memset", |reader, cells, row| {
            row.kind = RowKind::Memset;
            let kind = memory_kind(cells.int(8));
            row.name = reader.assembler.intern(&format!("Memset ({kind})"));
            set_bytes(row, cells.uint(7));
        })
    }

    fn read_graphs(&mut self) -> Result<(), Error> {
        let columns = [&COMMON[..], &["graphId"]].concat();
        self.read_device_table(GRAPHS, &columns, "kernel", |reader, cells, row| {
            row.kind = RowKind::Kernel;
            let graph = cells.int(7).unwrap_or(0);
            row.name = reader.assembler.intern(&format!("CUDA graph {graph}"));
        })
    }

    /// Reads one table; `fill` adds the table's own columns.
    fn read_device_table(
        &mut self,
        name: &'static str,
        columns: &[&str],
        category: &str,
        mut fill: impl FnMut(&mut Self, &RowCells<'_, '_>, &mut DeviceRow),
    ) -> Result<(), Error> {
        let Some(table) = self.tables.table(name) else {
            return Ok(());
        };
        let category_name = self.assembler.intern(category);
        let (connection, filter) = (self.connection, self.of_process());
        let mut anomalies = Anomalies::default();
        let mut count = 0;
        let mut last: Option<(DeviceQueue, QueueIdx)> = None;
        let scanned = scan_rows(connection, table, columns, filter, |cells| {
            let Some((mut row, queue)) = common_row(cells, name, &mut anomalies) else {
                return;
            };
            row.category = category_name;
            fill(self, cells, &mut row);
            // Neighbouring rows are mostly of one stream, whose number is looked up once.
            row.queue = match last {
                Some((known, index)) if known == queue => index,
                _ => self.assembler.queue_index(queue),
            };
            last = Some((queue, row.queue));
            self.assembler.trace.rows.push(row);
            count += 1;
        })?;
        self.note_anomalies([anomalies, scanned.anomalies]);
        self.count_rows(&format!("X {category}"), count);
        Ok(())
    }

    /// Returns the name of a number in `StringIds`.
    pub(crate) fn string(&mut self, id: Option<i64>) -> NameId {
        self.strings.name(id, &mut self.assembler.trace.names)
    }
}

/// Returns Kineto's name for a copy: `Memcpy HtoD (Pageable -> Device)`.
fn copy_name([kind, from, to]: [Option<i64>; 3]) -> String {
    let kind = kind.unwrap_or(0);
    let direction = copy_direction(kind);
    if is_unified(kind) {
        return format!("Memcpy {direction} (Managed -> Managed)");
    }
    format!(
        "Memcpy {direction} ({} -> {})",
        memory_kind(from),
        memory_kind(to)
    )
}

/// Sets the size and the bandwidth of a copy or memset.
fn set_bytes(row: &mut DeviceRow, bytes: Option<u64>) {
    row.bytes = bytes.unwrap_or(0);
    if row.duration > DurationNs::ZERO {
        // bytes per nanosecond are gigabytes per second
        row.gb_per_s = row.bytes as f64 / row.duration.0 as f64;
    }
}
