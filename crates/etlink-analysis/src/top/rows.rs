//! Merges events into rows.

use super::device::device_kind;
use super::memory::{MemoryEvents, memory_side};
use super::ranges::{HostRange, RangeSource, RowNames, is_frame};
use super::shapes::python_shapes;
use super::stacks::PythonStacks;
use super::tree::RangeFigures;
use super::{KeyAverage, KeyAverages, Options, TopGroup, counts_waits};
use etlink_model::{AuxiliaryKind, DeviceTrace, DurationNs, MemoryRow, NameId, TimeNs};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use std::cmp::Reverse;

/// Key of a row; the last two fields are numbers of shapes and stacks.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RowKey {
    name: NameId,
    on_device: bool,
    annotation: bool,
    shapes: u32,
    stack: u32,
}

/// Start and end of a row's first event.
type First = (i64, Reverse<i64>);

/// Table under construction.
pub(super) struct KeyAverageRows<'t, 'o> {
    trace: &'t DeviceTrace,
    names: RowNames,
    options: Options<'o>,
    shapes: IndexSet<String, FxBuildHasher>,
    /// Per name, the number of the shapes whose text it is.
    known: Vec<u32>,
    stacks: Vec<Vec<NameId>>,
    rows: IndexMap<RowKey, (First, KeyAverage), FxBuildHasher>,
}

impl<'t, 'o> KeyAverageRows<'t, 'o> {
    pub(super) fn new(trace: &'t DeviceTrace, names: RowNames, options: Options<'o>) -> Self {
        let known = vec![u32::MAX; trace.names.count()];
        // number 0: no shapes
        let shapes = IndexSet::from_iter([python_shapes("")]);
        KeyAverageRows {
            trace,
            names,
            options,
            shapes,
            known,
            stacks: vec![vec![]],
            rows: IndexMap::default(),
        }
    }

    fn row(&mut self, key: RowKey, start: i64, end: i64) -> &mut KeyAverage {
        let (first, row) = self
            .rows
            .entry(key)
            .or_insert_with(|| ((i64::MAX, Reverse(0)), KeyAverage::default()));
        *first = (start, Reverse(end)).min(*first);
        row.count += 1;
        row
    }

    pub(super) fn add_host(
        &mut self,
        ranges: &[HostRange],
        figures: &[RangeFigures],
        stacks: &PythonStacks,
    ) {
        let python = self.options.python;
        self.stacks.extend(stacks.all.iter().cloned());
        for (at, (range, figures)) in ranges.iter().zip(figures).enumerate() {
            // A merged range counts with its parent; frames
            // only shape the tree unless they are asked for.
            if figures.merged || (is_frame(range) && !python) || self.is_outside(range) {
                continue;
            }
            let stack = stacks.of.get(at).map_or(0, |stack| stack + 1);
            let annotation =
                matches!(range.what, RangeSource::Op(op) if self.trace.ops.annotation[op as usize]);
            let key = RowKey {
                name: self.names.of(range.name),
                on_device: false,
                annotation,
                shapes: self.shapes_of(range),
                stack,
            };
            let row = self.row(key, range.start, range.end);
            // `EventList` takes this property from the first event of a row.
            row.asynchronous = if row.count == 1 {
                range.asynchronous
            } else {
                row.asynchronous
            };
            for (sum, more) in [
                (&mut row.self_host_ns, figures.self_host),
                (&mut row.host_ns, figures.host),
                (&mut row.self_device_ns, figures.self_device),
                (&mut row.device_ns, figures.device),
                (&mut row.host_bytes, figures.bytes[0]),
                (&mut row.device_bytes, figures.bytes[1]),
                (&mut row.self_host_bytes, figures.self_bytes[0]),
                (&mut row.self_device_bytes, figures.self_bytes[1]),
            ] {
                add(sum, more);
            }
        }
    }

    /// True if a range of the host began outside the steps that count.
    fn is_outside(&self, range: &HostRange) -> bool {
        let counted = self.options.counted;
        let cause = counted.and_then(|counted| counted.time_cause(TimeNs(range.start)));
        cause.is_some()
    }

    /// Returns the number of a range's shapes; 0 if rows are not grouped by shape.
    fn shapes_of(&mut self, range: &HostRange) -> u32 {
        let (TopGroup::Shape, RangeSource::Op(op)) = (self.options.group, range.what) else {
            return 0;
        };
        // The device trace was recorded without shapes: these come from the host trace.
        if let Some(shapes) = self.options.shapes {
            return self
                .shapes
                .insert_full(python_shapes(shapes(op as usize)))
                .0 as u32;
        }
        let name = self.trace.ops.shapes[op as usize];
        if self.known[name.index()] == u32::MAX {
            self.known[name.index()] = self
                .shapes
                .insert_full(python_shapes(self.trace.names.get(name)))
                .0 as u32;
        }
        self.known[name.index()]
    }

    /// Adds kernels, copies, memsets, synchronisation rows and annotations of streams.
    pub(super) fn add_device(&mut self) {
        let DeviceTrace {
            rows,
            syncs,
            auxiliary,
            ..
        } = self.trace;
        let counted = self.options.counted;
        let counts = |row: &usize| counted.is_none_or(|counted| counted.row_cause(*row).is_none());
        for row in (0..rows.len()).filter(counts) {
            self.add_row(rows.name[row], false, rows.start[row], rows.duration[row]);
        }
        let waits = if counts_waits(self.trace, counted) {
            syncs.len()
        } else {
            0
        };
        for row in 0..waits {
            self.add_row(
                syncs.name[row],
                false,
                syncs.start[row],
                syncs.duration[row],
            );
        }
        for row in (0..auxiliary.len())
            .filter(|row| auxiliary.kind[*row] == AuxiliaryKind::DeviceAnnotation)
        {
            self.add_row(
                auxiliary.name[row],
                true,
                auxiliary.start[row],
                auxiliary.duration[row],
            );
        }
    }

    fn add_row(&mut self, name: NameId, annotation: bool, start: TimeNs, duration: DurationNs) {
        let key = RowKey {
            name: self.names.of(name),
            on_device: true,
            annotation,
            shapes: 0,
            stack: 0,
        };
        let row = self.row(key, start.0, (start + duration).0);
        add(&mut row.self_device_ns, duration.0);
        add(&mut row.device_ns, duration.0);
    }

    /// Adds memory events at times when nothing ran, and failed allocations.
    pub(super) fn add_memory(&mut self, memory: &MemoryEvents, ranges: &[HostRange]) {
        let rows = &self.trace.memory;
        for at in memory
            .events_outside_ranges(ranges)
            .into_iter()
            .chain(memory.failed.iter().copied())
        {
            let MemoryRow {
                name,
                time,
                device_type,
                bytes,
                ..
            } = rows.row(at as usize);
            let key = RowKey {
                name,
                on_device: false,
                annotation: false,
                shapes: 0,
                stack: 0,
            };
            let row = self.row(key, time.0, time.0);
            let sums = match memory_side(device_type) {
                Some(0) => [&mut row.host_bytes, &mut row.self_host_bytes],
                Some(_) => [&mut row.device_bytes, &mut row.self_device_bytes],
                None => continue,
            };
            sums.into_iter().for_each(|sum| add(sum, bytes));
        }
    }

    pub(super) fn finish(self) -> KeyAverages {
        let names = &self.trace.names;
        let mut rows: Vec<_> = self.rows.into_iter().collect();
        // PyTorch's rows are in the order of their first events, longer events first.
        rows.sort_by_key(|(_, (first, _))| *first);
        let shaped = self.options.group == TopGroup::Shape;
        let rows = rows.into_iter().map(|(key, (_, row))| KeyAverage {
            name: self.names.text(key.name, names),
            on_device: key.on_device,
            annotation: key.annotation,
            shapes: if shaped {
                self.shapes.get_index(key.shapes as usize).cloned()
            } else {
                None
            },
            stack: self.stacks[key.stack as usize]
                .iter()
                .map(|frame| names.get(*frame).to_owned())
                .collect(),
            ..row
        });
        let rows: Vec<KeyAverage> = rows.collect();
        let self_host_ns = rows
            .iter()
            .map(|row| row.self_host_ns)
            .fold(0, i64::saturating_add);
        let self_device_ns = rows
            .iter()
            // An annotation of a stream covers kernels that have their own rows.
            .filter(|row| row.on_device && !row.annotation)
            .map(|row| row.self_device_ns)
            .fold(0, i64::saturating_add);
        KeyAverages {
            device: device_kind(self.trace).0,
            rows,
            self_host_ns,
            self_device_ns,
            ..KeyAverages::default()
        }
    }
}

fn add(sum: &mut i64, more: i64) {
    *sum = sum.saturating_add(more);
}
