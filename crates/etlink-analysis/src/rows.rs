//! Classified device rows of a rank.

use crate::rules::{COLLECTIVE, KernelRules, MEMCPY, MEMSET, NO_RULE, RowClass};
use etlink_link::LinkedTrace;
use etlink_model::{DeviceQueue, DeviceTrace, RowKind};

/// Device rows with their classes, by [`KernelRules`].
#[derive(Clone, Debug)]
pub struct ClassifiedRows<'t> {
    /// Trace of the rows.
    pub trace: &'t LinkedTrace,
    /// Class of each row.
    pub class: Vec<RowClass>,
    /// Index of each row's label.
    pub(crate) label: Vec<u16>,
    /// Numbers of the devices that have rows, ascending.
    pub devices: Vec<i64>,
    /// Rows of each of these devices, sorted by start.
    pub(crate) of_devices: Vec<Vec<usize>>,
    pub(crate) rules: &'t KernelRules,
}

impl<'t> ClassifiedRows<'t> {
    /// Classifies the rows of `trace`. Each distinct name is matched once. O(rows · log + text of
    /// the names).
    pub fn new(trace: &'t LinkedTrace, rules: &'t KernelRules) -> ClassifiedRows<'t> {
        let device = &trace.device;
        let mut known = vec![None; device.names.count()];
        let (mut class, mut label) = (
            Vec::with_capacity(device.rows.len()),
            Vec::with_capacity(device.rows.len()),
        );
        for row in 0..device.rows.len() {
            let name = device.rows.name[row];
            // Names repeat by the million; each is matched against the rules once.
            let by_name =
                || *known[name.index()].get_or_insert_with(|| rules.find(device.names.get(name)));
            let (of_row, label_of_row) = classify(device, row, by_name);
            class.push(of_row);
            label.push(label_of_row);
        }
        let mut devices: Vec<i64> = device
            .rows
            .queue
            .iter()
            .map(|queue| device.queues[queue.index()].device)
            .collect();
        devices.sort_unstable();
        devices.dedup();
        let of_devices = of_devices(device, &devices);
        ClassifiedRows {
            trace,
            class,
            label,
            devices,
            of_devices,
            rules,
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.class.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.class.is_empty()
    }

    /// Label of a row within its class, by the rules: `gemm`, `elementwise`, `copy`, …
    pub fn label(&self, row: usize) -> &str {
        self.rules.label_at(self.label[row])
    }

    /// True if a row shows that its stream waits.
    pub(crate) fn is_wait(&self, row: usize) -> bool {
        self.class[row] == RowClass::Other && self.label(row) == "wait"
    }

    /// Name of a row.
    pub fn name(&self, row: usize) -> &'t str {
        self.trace.device_name(self.trace.device.rows.name[row])
    }

    /// Start and end of a row, ns since the origin of the trace.
    pub fn span(&self, row: usize) -> (i64, i64) {
        let rows = &self.trace.device.rows;
        (rows.start[row].0, (rows.start[row] + rows.duration[row]).0)
    }

    /// Index of a row's device in `devices`.
    pub(crate) fn device_place(&self, row: usize) -> usize {
        let number = self.device(row);
        self.devices.partition_point(|device| *device < number)
    }

    /// Device number of a row.
    pub fn device(&self, row: usize) -> i64 {
        let device = &self.trace.device;
        device.queues[device.rows.queue[row].index()].device
    }
}

/// Groups the rows by device. O(rows + queues · log devices).
fn of_devices(device: &DeviceTrace, devices: &[i64]) -> Vec<Vec<usize>> {
    let place = |queue: &DeviceQueue| devices.partition_point(|device| *device < queue.device);
    let places: Vec<usize> = device.queues.iter().map(place).collect();
    let mut all = vec![vec![]; devices.len()];
    device
        .rows
        .queue
        .iter()
        .enumerate()
        .for_each(|(row, queue)| all[places[queue.index()]].push(row));
    all
}

fn classify(
    device: &DeviceTrace,
    row: usize,
    by_name: impl FnOnce() -> Option<(RowClass, u16)>,
) -> (RowClass, u16) {
    let communicates = device.rows.collective[row] != u32::MAX
        || device.names.get(device.rows.category[row]) == "collective_comm";
    if communicates {
        // Arguments prove that the row communicates; the name may still reveal the library.
        let library = by_name().filter(|(class, _)| *class == RowClass::Communication);
        return (
            RowClass::Communication,
            library.map_or(COLLECTIVE, |(_, label)| label),
        );
    }
    match device.rows.kind[row] {
        // The category is Kineto's own, and more reliable than a name such as `CopyDeviceToHost`.
        RowKind::Memcpy => (RowClass::Memory, MEMCPY),
        RowKind::Memset => (RowClass::Memory, MEMSET),
        RowKind::Kernel => by_name().unwrap_or((RowClass::Computation, NO_RULE)),
        // The device is idle meanwhile.
        RowKind::GraphNode => (RowClass::Other, NO_RULE),
    }
}
