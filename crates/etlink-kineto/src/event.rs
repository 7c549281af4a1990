//! One event of `traceEvents`, as borrowed text and numbers.

use crate::KinetoReadOptions;
use etlink_json::{BrokenJson, JsonScanner, JsonValue, parse_int};
use etlink_model::{AuxiliaryKind, KeepEvents};

/// Arrows with smaller ids lead from a call to its row: their id is the correlation
/// (`_GRAPH_DEP_FLOW_ID_BASE` of PyTorch's `torch/profiler/_cuspy/trace.py`).
pub(crate) const FIRST_DEPENDENCY: i64 = 1 << 40;

/// What an event is, from its `ph` and `cat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// `cpu_op`, `user_annotation`; `Operator` before 2022.
    Op,
    /// `cuda_runtime`, `cuda_driver` and their twins; HIP calls come as `cuda_runtime`.
    Call,
    /// Kernels and what other devices have in their place.
    Kernel,
    Memcpy,
    Memset,
    /// `cuda_sync`, `xpu_sync`.
    Sync,
    /// `etlink_wait`, which `etlink record` adds to what Kineto wrote.
    ThreadWait,
    /// An instant: `[memory]` and others.
    Instant,
    /// `process_name`, `thread_name` and others that say how to show the trace.
    Metadata,
    /// An end of an arrow (`ac2g`). Only those between nodes of a CUDA graph are kept.
    Flow,
    /// A row of a CUDA graph that is no work of the device.
    GraphNode,
    /// What is kept only on request.
    Auxiliary(AuxiliaryKind),
    /// Nothing that the graph needs.
    #[default]
    Other,
}

impl EventKind {
    fn of(phase: &[u8], category: &[u8]) -> EventKind {
        match category {
            // Metadata has no category: the phase has to be looked at first.
            _ if phase == b"M" => EventKind::Metadata,
            b"cpu_instant_event" if phase == b"i" => EventKind::Instant,
            b"ac2g" if matches!(phase, b"s" | b"f") => EventKind::Flow,
            _ if phase != b"X" => EventKind::Other,
            b"cpu_op" | b"user_annotation" | b"Operator" => EventKind::Op,
            // Gaudi and MTIA have no category `kernel`: these stand for their work on a device.
            b"kernel" | b"Kernel" | b"mtia_ccp_events" | b"hpu_op" | b"collective_comm" => {
                EventKind::Kernel
            }
            b"gpu_memcpy" | b"Memcpy" => EventKind::Memcpy,
            b"gpu_memset" | b"Memset" => EventKind::Memset,
            b"cuda_sync" | b"xpu_sync" => EventKind::Sync,
            b"graph_event_node" | b"graph_host_node" => EventKind::GraphNode,
            b"etlink_wait" => EventKind::ThreadWait,
            // Before 2022 Kineto spelt categories with a capital letter.
            b"Runtime" => EventKind::Call,
            b"python_function" => EventKind::Auxiliary(AuxiliaryKind::Python),
            b"gpu_user_annotation" => EventKind::Auxiliary(AuxiliaryKind::DeviceAnnotation),
            b"overhead" => EventKind::Auxiliary(AuxiliaryKind::Overhead),
            // Every back end has a pair of its own: `mtia_runtime`,
            // `xpu_driver`, `privateuse1_runtime`, …
            _ if category.ends_with(b"_runtime") || category.ends_with(b"_driver") => {
                EventKind::Call
            }
            _ => EventKind::Other,
        }
    }
}

/// Whether events of such a phase and category, as in
/// [`DeviceTrace::events`](etlink_model::DeviceTrace::events), are ops, calls or device rows, or say
/// how these are shown or hang together.
pub fn is_graph_event(phase_and_category: &str) -> bool {
    let (phase, category) = phase_and_category
        .split_once(' ')
        .unwrap_or((phase_and_category, ""));
    // arrows; the graph has its own
    if matches!(phase, "s" | "t" | "f") {
        return true;
    }
    match EventKind::of(phase.as_bytes(), category.as_bytes()) {
        EventKind::Sync
        | EventKind::ThreadWait
        | EventKind::Auxiliary(_)
        | EventKind::Instant
        | EventKind::Other => false,
        EventKind::Flow
        | EventKind::GraphNode
        | EventKind::Op
        | EventKind::Call
        | EventKind::Kernel
        | EventKind::Memcpy
        | EventKind::Memset
        | EventKind::Metadata => true,
    }
}

macro_rules! arguments {
    ($($field:ident = $($key:literal)|+;)*) => {
        /// The arguments that the tables keep, as they stand in the text.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct EventArgs<'a> { $(pub(crate) $field: Option<JsonValue<'a>>,)* }

        impl<'a> EventArgs<'a> {
            /// Takes `value` if `key` is one of those kept.
            #[inline]
            fn set(&mut self, key: &[u8], value: JsonValue<'a>) {
                match key {
                    $($($key)|+ => self.$field = Some(value),)*
                    _ => {}
                }
            }
        }
    };
}

arguments! {
    external_id = b"External id" | b"external id";
    rf_id = b"Record function id";
    seq_id = b"Sequence number";
    fwd_thread = b"Fwd thread id";
    shapes = b"Input Dims";
    types = b"Input type";
    values = b"Concrete Inputs";
    finished = b"finished";
    name = b"name";
    correlation = b"correlation";
    device = b"device";
    context = b"context";
    stream = b"stream";
    original_stream = b"original_stream";
    annotation = b"annotation";
    bytes = b"bytes";
    size = b"size";
    gb_per_s = b"memory bandwidth (GB/s)";
    grid = b"grid";
    block = b"block";
    blocks_per_sm = b"blocks per SM";
    kernel = b"kernel";
    graph_node = b"graph node id";
    wait_stream = b"wait_on_stream";
    wait_record = b"wait_on_cuda_event_record_corr_id";
    wait_event = b"wait_on_cuda_event_id";
    device_type = b"Device Type";
    device_id = b"Device Id";
    memory_bytes = b"Bytes";
    allocated = b"Total Allocated";
    reserved = b"Total Reserved";
    collective = b"Collective name";
    dtype = b"dtype";
    in_elements = b"In msg nelems";
    out_elements = b"Out msg nelems";
    in_split = b"In split size";
    out_split = b"Out split size";
    rank_start = b"Global rank start";
    rank_stride = b"Global rank stride";
    group_size = b"Group size";
    group_name = b"Process Group Name" | b"Process Group ID";
    group_desc = b"Process Group Description";
    group_ranks = b"Process Group Ranks";
    rank = b"Rank";
    src = b"Src Rank";
    dst = b"Dst Rank";
    seq = b"Seq";
    asynchronous = b"Is asynchronized op";
    comms_id = b"Comms Id";
    after = b"after";
    frees = b"frees";
}

/// An event. Absent strings are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KinetoEvent<'a> {
    pub(crate) kind: EventKind,
    pub(crate) phase: &'a [u8],
    pub(crate) category: &'a [u8],
    pub(crate) name: &'a [u8],
    /// `id` of an arrow.
    pub(crate) id: Option<JsonValue<'a>>,
    pub(crate) pid: Option<JsonValue<'a>>,
    pub(crate) tid: Option<JsonValue<'a>>,
    pub(crate) start: Option<JsonValue<'a>>,
    pub(crate) duration: Option<JsonValue<'a>>,
    pub(crate) args: EventArgs<'a>,
    /// All arguments, as they stand in the text.
    pub(crate) args_text: &'a [u8],
}

impl<'a> KinetoEvent<'a> {
    /// Reads the event that `scanner` is in, to its end.
    ///
    /// Kineto writes `ph` and `cat` first, so that an event which no table keeps is left at
    /// once; in files of other writers they may come last.
    pub(crate) fn read(
        &mut self,
        scanner: &mut JsonScanner<'a>,
        options: KinetoReadOptions,
    ) -> Result<(), BrokenJson> {
        // Keys in their usual order need no comparison
        // with all others; the loop takes what is left.
        self.usual_head(scanner)?;
        loop {
            if self.is_of_no_use(options) {
                // Most events of a trace with Python stacks
                // end here, without a look at their values.
                scanner.leave()?;
                break;
            }
            let Some(key) = scanner.key()? else { break };
            match key {
                b"args"
                    if scanner.peek() == Some(b'{')
                        && (options.keep >= KeepEvents::Auxiliary
                            || self.is_counter_range()
                            || !(self.is_known() && self.kind == EventKind::Other)) =>
                {
                    self.read_args(scanner, options)?
                }
                b"name" => self.name = scanner.value()?.raw(),
                b"ts" => self.start = Some(scanner.value()?),
                b"dur" => self.duration = Some(scanner.value()?),
                b"pid" => self.pid = Some(scanner.value()?),
                b"tid" => self.tid = Some(scanner.value()?),
                b"ph" => self.phase = scanner.value()?.raw(),
                b"cat" => self.category = scanner.value()?.raw(),
                b"id" => self.id = Some(scanner.value()?),
                _ => drop(scanner.value()?),
            }
            // Foreign writers put `ph` or `cat` anywhere,
            // so the kind may become known with any key.
            self.kind = EventKind::of(self.phase, self.category);
        }
        scanner.end_element()
    }

    /// Whether it is known that no table keeps the event.
    fn is_of_no_use(&self, options: KinetoReadOptions) -> bool {
        let is_kept = match self.kind {
            EventKind::Other => self.is_kept_other(options.keep),
            EventKind::Instant => options.keep >= KeepEvents::Memory,
            EventKind::Flow => self.is_graph_dependency(),
            EventKind::Auxiliary(_) => options.keep >= KeepEvents::Auxiliary,
            _ => true,
        };
        !is_kept && self.is_known() && !self.category.is_empty()
    }

    /// Whether an event that no figure needs is kept.
    fn is_kept_other(&self, keep: KeepEvents) -> bool {
        let is_arrow = matches!(self.phase, b"s" | b"t" | b"f");
        match keep {
            KeepEvents::Everything => !is_arrow,
            // Metrics of kernels belong to the graph; few traces have any.
            KeepEvents::Graph | KeepEvents::Memory | KeepEvents::Auxiliary => {
                self.is_counter_range()
            }
        }
    }

    /// Whether it has what CUPTI counted of a kernel.
    pub(crate) fn is_counter_range(&self) -> bool {
        self.category == b"cuda_profiler_range" && self.phase == b"X"
    }

    /// Whether an arrow joins nodes of a CUDA graph; also where its id is yet to come.
    pub(crate) fn is_graph_dependency(&self) -> bool {
        // Launches have arrows too. Kineto writes `id` before `cat`, so that those go at once.
        self.id
            .is_none_or(|id| int(Some(id)).is_some_and(|id| id >= FIRST_DEPENDENCY))
    }

    /// Whether both keys that decide the kind have been seen.
    fn is_known(&self) -> bool {
        !self.phase.is_empty() && (!self.category.is_empty() || self.phase != b"X")
    }

    /// Takes those keys that stand exactly as Kineto writes them, in its order: all of nearly all
    /// events.
    #[inline]
    fn usual_head(&mut self, scanner: &mut JsonScanner<'a>) -> Result<(), BrokenJson> {
        if let Some(phase) = usual(scanner, b"\"ph\": ")? {
            self.phase = phase.raw();
        }
        if let Some(category) = usual(scanner, b"\"cat\": ")? {
            self.category = category.raw();
        }
        self.kind = EventKind::of(self.phase, self.category);
        // Such events are most often not kept; `read` decides before more of them is taken.
        if matches!(
            self.kind,
            EventKind::Other | EventKind::Auxiliary(_) | EventKind::Flow
        ) {
            return Ok(());
        }
        if let Some(name) = usual(scanner, b"\"name\": ")? {
            self.name = name.raw();
        }
        for (head, field) in [
            (&b"\"pid\": "[..], &mut self.pid),
            (b"\"tid\": ", &mut self.tid),
            (b"\"ts\": ", &mut self.start),
            (b"\"dur\": ", &mut self.duration),
        ] {
            *field = usual(scanner, head)?.or(*field);
        }
        Ok(())
    }

    /// The same for the arguments of host events.
    #[inline]
    fn usual_args(&mut self, scanner: &mut JsonScanner<'a>) -> Result<(), BrokenJson> {
        let args = &mut self.args;
        // two stand between the others and are not kept
        let (mut index, mut callback) = (None, None);
        for (head, field) in [
            (&b"\"External id\": "[..], &mut args.external_id),
            (b"\"Record function id\": ", &mut args.rf_id),
            (b"\"Sequence number\": ", &mut args.seq_id),
            (b"\"Fwd thread id\": ", &mut args.fwd_thread),
            (b"\"Ev Idx\": ", &mut index),
            (b"\"cbid\": ", &mut callback),
            (b"\"correlation\": ", &mut args.correlation),
        ] {
            *field = usual(scanner, head)?.or(*field);
        }
        Ok(())
    }

    fn read_args(
        &mut self,
        scanner: &mut JsonScanner<'a>,
        options: KinetoReadOptions,
    ) -> Result<(), BrokenJson> {
        scanner.peek();
        let start = scanner.pos();
        scanner.enter()?;
        self.usual_args(scanner)?;
        while let Some(key) = scanner.key()? {
            let value = scanner.value()?;
            self.args.set(key, value);
        }
        self.args_text = scanner.text_since(start);
        // With a host trace at hand its shapes are used, and
        // these texts are most of a large trace's names.
        if !options.shapes {
            (self.args.shapes, self.args.types) = (None, None);
            self.args.values = None;
        }
        Ok(())
    }
}

/// The value behind `head`, if exactly that is next.
#[inline]
fn usual<'a>(
    scanner: &mut JsonScanner<'a>,
    head: &[u8],
) -> Result<Option<JsonValue<'a>>, BrokenJson> {
    // Commas and white space before a key are eaten even
    // where the key is another one: no harm is done.
    scanner.eat(b',');
    scanner.peek();
    if scanner.eat_exact(head) {
        scanner.value().map(Some)
    } else {
        Ok(None)
    }
}

/// An integer that may also be written as hexadecimal text (`"0x0"`, ROCm).
pub(crate) fn int(value: Option<JsonValue<'_>>) -> Option<i64> {
    let raw = value?.raw();
    parse_int(raw).or_else(|| {
        let hex = std::str::from_utf8(raw).ok()?.strip_prefix("0x")?;
        i64::from_str_radix(hex, 16).ok()
    })
}

/// A stream; CUPTI's "none" is -1, which Kineto has also printed unsigned.
pub(crate) fn stream(value: Option<JsonValue<'_>>) -> Option<i64> {
    int(value).map(|stream| {
        if stream == i64::from(u32::MAX) {
            -1
        } else {
            stream
        }
    })
}

/// Three dimensions out of `[x, y, z]`, quoted or not; absent ones are 0.
pub(crate) fn dims(value: Option<JsonValue<'_>>) -> [u32; 3] {
    let mut out = [0; 3];
    if let Some(JsonValue::Nested(text) | JsonValue::Text(text)) = value {
        let mut scanner = JsonScanner::new(text);
        scanner.eat(b'[');
        for slot in &mut out {
            match scanner.item() {
                Ok(Some(item)) => {
                    // A dimension that is no number does not void the others.
                    *slot = item.uint().and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
                }
                _ => break,
            }
        }
    }
    out
}
