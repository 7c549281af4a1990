//! The table of PyTorch's profiler, `key_averages()`, from a device trace.
//!
//! Defined by `torch/autograd/profiler_util.py` (`EventList`, `FunctionEvent`, `_build_table`) and
//! `_parse_kineto_results` in `torch/autograd/profiler.py` of PyTorch 2.15:
//!
//! ```text
//! ranges    ops, annotations, calls, Python frames, overheads; some utility ops are left out
//! tree      a range is the child of the innermost one around it on its thread;
//!           an only child with its parent's name is merged into it
//! device    rows belong to the op whose `External id` they carry:
//!           "self" of that op, "total" of all around it
//! rows      per name, side (host or device) and whether it is a user annotation;
//!           on request also per shapes or stack
//! ```
//! Ranges that end on another thread than they began on have a total and no self time. The trace
//! reveals them only by their backend's name (`gloo:…`); for others, such as ranges suspended by
//! `torch.jit.wait`, the self time is too long. Calls outside all ops are attributed to the thread
//! that stopped the profiler (`setKinetoTID` in `collection.cpp`); if they come from several
//! threads and overlap, self times can be negative, as in PyTorch. The trace must be read with
//! [auxiliary events](etlink_model::DeviceTrace::auxiliary). O(n log n) for n events.

mod call_tree;
mod device;
mod launching_ops;
mod memory;
mod ranges;
mod rows;
mod shapes;
mod stacks;
mod tree;

pub use call_tree::{CallKind, CallNode, CallTree, TreeOptions, call_tree};

use crate::outside_work::CountedWork;
use crate::short_names::short_names;
use etlink_link::ranks::RankSteps;
use etlink_model::{DeviceTrace, TraceRecorder};
use serde::Serialize;

/// Grouping of events into rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopGroup {
    /// One row per name.
    #[default]
    Name,
    /// One row per name and list of input shapes.
    Shape,
    /// One row per name and innermost part, of this many frames, of the Python stack.
    Stack(usize),
}

/// Options of the table.
#[derive(Clone, Copy, Default)]
pub struct Options<'t> {
    /// Grouping of events into rows.
    pub group: TopGroup,
    /// Adds rows for frames of the Python stack.
    pub python: bool,
    /// Input shapes of ops, for device traces recorded without shapes.
    pub shapes: Option<&'t dyn Fn(usize) -> &'t str>,
    /// Selection of the work that counts; `None` for all, as in PyTorch. [`diff`](crate::diff) sets
    /// it.
    pub counted: Option<CountedWork<'t>>,
}

/// Table of PyTorch's profiler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyAverages {
    /// PyTorch's name for the device: `CUDA`, `XPU`, `MTIA`, `HPU`.
    pub device: &'static str,
    /// Distinct names of the devices with rows, as far as the trace states them.
    #[serde(skip)]
    pub device_names: Vec<String>,
    /// Rows in the order of their first event.
    pub rows: Vec<KeyAverage>,
    /// Sum of the rows' self time on the host, ns.
    pub self_host_ns: i64,
    /// Sum of the device rows' time, user annotations left out, ns.
    pub self_device_ns: i64,
    /// Number of [steps](crate::steps) in the trace.
    #[serde(skip)]
    pub steps: u64,
    /// Part of the steps' names before their number.
    #[serde(skip)]
    pub step_name: String,
}

/// Totals of all events with one name, or one name with shapes or a stack. Times are in ns, sizes
/// in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyAverage {
    /// Name of the events; `ProfilerStep*` for all steps.
    pub name: String,
    /// Readable name of a kernel; `None` if equal to `name`: see
    /// [`short_names`](crate::short_names()).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_name: Option<Box<str>>,
    /// True for device rows; false for host ranges.
    pub on_device: bool,
    /// True for user annotations.
    pub annotation: bool,
    /// True if the first event ends on another thread than it began on.
    pub asynchronous: bool,
    /// Number of events.
    pub count: u64,
    /// Time on the host without the children's.
    pub self_host_ns: i64,
    /// Time on the host.
    pub host_ns: i64,
    /// Time on the device of the work that the events launched themselves.
    pub self_device_ns: i64,
    /// Time on the device of the work that the events and their children launched.
    pub device_ns: i64,
    /// Host memory allocated minus freed, without the children's.
    pub self_host_bytes: i64,
    /// Host memory allocated minus freed.
    pub host_bytes: i64,
    /// Device memory allocated minus freed, without the children's.
    pub self_device_bytes: i64,
    /// Device memory allocated minus freed.
    pub device_bytes: i64,
    /// Input shapes, as Python prints them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shapes: Option<String>,
    /// Python frames, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// Sort key of the table; the largest values come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopOrder {
    /// Self time on the device.
    SelfDevice,
    /// Time on the device.
    Device,
    /// Self time on the host.
    SelfHost,
    /// Time on the host.
    Host,
    /// Number of events.
    Count,
}

impl KeyAverages {
    /// Sorts the rows; ties stay in the order of their first events. O(rows log rows).
    pub fn sort(&mut self, by: TopOrder) {
        self.rows.sort_by_key(|row| {
            std::cmp::Reverse(match by {
                TopOrder::SelfDevice => row.self_device_ns,
                TopOrder::Device => row.device_ns,
                TopOrder::SelfHost => row.self_host_ns,
                TopOrder::Host => row.host_ns,
                TopOrder::Count => i64::try_from(row.count).unwrap_or(i64::MAX),
            })
        });
    }

    /// True if any row has time on a device.
    pub fn has_device(&self) -> bool {
        self.rows.iter().any(|row| row.self_device_ns > 0)
    }

    /// True if memory was recorded, for the host and for devices.
    pub fn has_memory(&self) -> [bool; 2] {
        [
            self.rows
                .iter()
                .any(|row| row.host_bytes != 0 || row.self_host_bytes != 0),
            self.rows
                .iter()
                .any(|row| row.device_bytes != 0 || row.self_device_bytes != 0),
        ]
    }
}

/// Returns true if rows in which a device or the host waits count as time of a device: as in
/// PyTorch's table, which only Kineto's traces have. Comparisons are about the work of devices.
fn counts_waits(trace: &DeviceTrace, counted: Option<CountedWork<'_>>) -> bool {
    counted.is_none() && trace.header.recorder == TraceRecorder::Kineto
}

/// Computes the table of a trace.
pub fn key_averages(trace: &DeviceTrace, options: Options<'_>) -> KeyAverages {
    // Stacks need the tree as it is before equal children are merged.
    let mut ranges = ranges::host_ranges(trace);
    ranges::end_unfinished(&mut ranges);
    let names = ranges::RowNames::new(&trace.names);
    let mut tree = tree::RangeTree::new(&ranges, trace.threads.len());
    let stacks = match options.group {
        TopGroup::Stack(depth) => stacks::python_stacks(trace, &ranges, &tree, depth),
        TopGroup::Name | TopGroup::Shape => stacks::PythonStacks::default(),
    };
    let mut launched = device::launched_time(trace, &ranges, counts_waits(trace, options.counted));
    tree.merge(&ranges, &names, &mut launched);
    let memory = memory::MemoryEvents::new(trace);
    let figures = tree.figures(&ranges, &launched, &memory);
    let mut rows = rows::KeyAverageRows::new(trace, names, options);
    rows.add_host(&ranges, &figures, &stacks);
    rows.add_device();
    rows.add_memory(&memory, &ranges);
    let steps = RankSteps::all_of(trace);
    // The part before the number is common to the steps of both runs of a comparison.
    let step_name = steps.first().map_or("", |step| {
        step.name
            .split(|c: char| c.is_ascii_digit())
            .next()
            .unwrap_or_default()
    });
    let mut all = KeyAverages {
        steps: steps.len() as u64,
        step_name: step_name.to_owned(),
        device_names: device_names(trace),
        ..rows.finish()
    };
    let mut kernels: Vec<&mut KeyAverage> = all.rows.iter_mut().collect();
    // host op names keep the namespace of their library
    kernels.retain(|row| row.on_device && !row.annotation);
    let shorts = short_names(kernels.iter().map(|row| row.name.as_str()));
    for (row, short) in kernels.into_iter().zip(shorts) {
        row.short_name = short;
    }
    all
}

/// Returns the names of the devices with rows.
fn device_names(trace: &DeviceTrace) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    for queue in &trace.queues {
        let name = trace.header.device_name(queue.device);
        if let Some(name) = name.filter(|name| !names.iter().any(|own| own == name)) {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests;
