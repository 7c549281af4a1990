//! The table of PyTorch's profiler, `key_averages()`, from a device trace.
//!
//! Defined by `torch/autograd/profiler_util.py` (`EventList`, `FunctionEvent`, `_build_table`) and
//! `_parse_kineto_results` in `torch/autograd/profiler.py` of PyTorch 2.15:
//!
//! ```text
//! ranges    ops, annotations, calls, Python frames, overheads; some utility ops are left out
//! tree      a range is the child of the innermost one around it on its thread;
//!           one that bears its parent's name and is its only child is one with it
//! device    rows belong to the op whose `External id` they bear:
//!           "self" of that op, "total" of all around it
//! rows      per name, side (host or device) and whether it is a user annotation;
//!           on request also per shapes or stack
//! ```
//! Ranges that end on another thread than they began on have a total and no self time. The trace
//! shows them by their backend's name (`gloo:…`) alone: of others, such as what `torch.jit.wait`
//! suspends, the self time is too long. Calls that no op made are of the thread that stopped the
//! profiler (`setKinetoTID` in `collection.cpp`): where they are of several threads and overlap,
//! self times can be negative, as they are there. The trace has to be read with [auxiliary
//! events](etlink_model::DeviceTrace::auxiliary). O(n log n) for n events.

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
use etlink_model::DeviceTrace;
use serde::Serialize;

/// What makes a row of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopGroup {
    /// Each name.
    #[default]
    Name,
    /// Each name with each list of input shapes.
    Shape,
    /// Each name with each innermost piece, of this many frames, of the Python stack.
    Stack(usize),
}

/// How to sum up.
#[derive(Clone, Copy, Default)]
pub struct Options<'t> {
    /// What makes a row of its own.
    pub group: TopGroup,
    /// Give frames of the Python stack rows too.
    pub python: bool,
    /// Input shapes of ops, where the device trace was recorded without.
    pub shapes: Option<&'t dyn Fn(usize) -> &'t str>,
    /// What counts, where that is not all: as [`diff`](crate::diff) wants it, not PyTorch.
    pub counted: Option<CountedWork<'t>>,
}

/// The table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyAverages {
    /// What PyTorch calls the device: `CUDA`, `XPU`, `MTIA`, `HPU`.
    pub device: &'static str,
    /// Names of the devices that have rows, where the trace says them, each once.
    #[serde(skip)]
    pub device_names: Vec<String>,
    /// In order of their first event.
    pub rows: Vec<KeyAverage>,
    /// Sum of the rows' self time on the host, ns.
    pub self_host_ns: i64,
    /// Sum of the device rows' time, user annotations left out, ns.
    pub self_device_ns: i64,
    /// How many [steps](crate::steps) the trace has.
    #[serde(skip)]
    pub steps: u64,
    /// What their names have before their number.
    #[serde(skip)]
    pub step_name: String,
}

/// All events that bear one name, or one name with shapes or a stack. Times are ns, sizes bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyAverage {
    /// Name; `ProfilerStep*` for all steps.
    pub name: String,
    /// The name of a kernel as people read it, where it is another: see
    /// [`short_names`](crate::short_names()).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_name: Option<Box<str>>,
    /// Rows of a device, not ranges of the host.
    pub on_device: bool,
    /// User annotations.
    pub annotation: bool,
    /// The first of them ends on another thread than it began on.
    pub asynchronous: bool,
    /// Number of events.
    pub count: u64,
    /// Time on the host without that of children.
    pub self_host_ns: i64,
    /// Time on the host.
    pub host_ns: i64,
    /// Time on the device of what it launched itself.
    pub self_device_ns: i64,
    /// Time on the device of what it and its children launched.
    pub device_ns: i64,
    /// Host memory taken less given back, children left out.
    pub self_host_bytes: i64,
    /// Host memory taken less given back.
    pub host_bytes: i64,
    /// Device memory taken less given back, children left out.
    pub self_device_bytes: i64,
    /// Device memory taken less given back.
    pub device_bytes: i64,
    /// Input shapes, as Python prints them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shapes: Option<String>,
    /// Python frames, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// What to sort by, the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopOrder {
    /// Own time on the device.
    SelfDevice,
    /// Time on the device.
    Device,
    /// Own time on the host.
    SelfHost,
    /// Time on the host.
    Host,
    /// Number of events.
    Count,
}

impl KeyAverages {
    /// Sorts the rows, equal ones in the order of their first events. O(rows log rows).
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

    /// Whether any row has time on a device.
    pub fn has_device(&self) -> bool {
        self.rows.iter().any(|row| row.self_device_ns > 0)
    }

    /// Whether memory was recorded, of the host or of a device.
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

/// Sums up a trace.
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
    let mut launched = device::launched_time(trace, &ranges, options.counted.is_none());
    tree.merge(&ranges, &names, &mut launched);
    let memory = memory::MemoryEvents::new(trace);
    let figures = tree.figures(&ranges, &launched, &memory);
    let mut rows = rows::KeyAverageRows::new(trace, names, options);
    rows.add_host(&ranges, &figures, &stacks);
    rows.add_device();
    rows.add_memory(&memory, &ranges);
    let steps = crate::steps::trace_steps(trace);
    // The part before the number is what the steps of both runs of a comparison share.
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
    // ops of the host bear the namespace of their library
    kernels.retain(|row| row.on_device && !row.annotation);
    let shorts = short_names(kernels.iter().map(|row| row.name.as_str()));
    for (row, short) in kernels.into_iter().zip(shorts) {
        row.short_name = short;
    }
    all
}

/// What the devices with rows are called.
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
