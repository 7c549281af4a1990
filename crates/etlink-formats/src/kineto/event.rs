//! Reads one event of `traceEvents` as borrowed text and numbers.

use crate::kineto::KinetoReadOptions;
use etlink_json::{BrokenJson, JsonScanner, JsonValue, parse_int};
use etlink_model::{AuxiliaryKind, KeepEvents};

/// Smallest id of a dependency arrow. Arrows with smaller ids lead from a call to its row, and
/// their id is the correlation (`_GRAPH_DEP_FLOW_ID_BASE` of PyTorch's
/// `torch/profiler/_cuspy/trace.py`).
pub(crate) const FIRST_DEPENDENCY: i64 = 1 << 40;

/// Kind of an event, derived from its `ph` and `cat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// `cpu_op`, `user_annotation`; `Operator` before 2022.
    Op,
    /// `cuda_runtime`, `cuda_driver` and their counterparts; HIP calls appear as `cuda_runtime`.
    Call,
    /// Kernels and their equivalents on other devices.
    Kernel,
    Memcpy,
    Memset,
    /// `cuda_sync`, `xpu_sync`.
    Sync,
    /// `etlink_wait`, which `etlink record` adds to Kineto's output.
    ThreadWait,
    /// An instant: `[memory]` and others.
    Instant,
    /// `process_name`, `thread_name` and others that control the display of the trace.
    Metadata,
    /// One end of an arrow (`ac2g`). Only arrows between nodes of a CUDA graph are kept.
    Flow,
    /// Row of a CUDA graph that is not work of the device.
    GraphNode,
    /// Event that is kept only on request.
    Auxiliary(AuxiliaryKind),
    /// Any other event; the graph does not need it.
    #[default]
    Other,
}

impl EventKind {
    fn of(phase: &[u8], category: &[u8]) -> EventKind {
        match category {
            // Metadata has no category, so the phase is checked first.
            _ if phase == b"M" => EventKind::Metadata,
            b"cpu_instant_event" if phase == b"i" => EventKind::Instant,
            b"ac2g" if matches!(phase, b"s" | b"f") => EventKind::Flow,
            _ if phase != b"X" => EventKind::Other,
            b"cpu_op" | b"user_annotation" | b"Operator" => EventKind::Op,
            // Gaudi and MTIA have no category `kernel`; these categories are their device work.
            b"kernel" | b"Kernel" | b"mtia_ccp_events" | b"hpu_op" | b"collective_comm" => {
                EventKind::Kernel
            }
            b"gpu_memcpy" | b"Memcpy" => EventKind::Memcpy,
            b"gpu_memset" | b"Memset" => EventKind::Memset,
            b"cuda_sync" | b"xpu_sync" => EventKind::Sync,
            b"graph_event_node" | b"graph_host_node" => EventKind::GraphNode,
            b"etlink_wait" => EventKind::ThreadWait,
            // Before 2022, Kineto capitalized categories.
            b"Runtime" => EventKind::Call,
            b"python_function" => EventKind::Auxiliary(AuxiliaryKind::Python),
            b"gpu_user_annotation" => EventKind::Auxiliary(AuxiliaryKind::DeviceAnnotation),
            b"overhead" => EventKind::Auxiliary(AuxiliaryKind::Overhead),
            // Every back end has its own pair: `mtia_runtime`, `xpu_driver`, `privateuse1_runtime`,
            // …
            _ if category.ends_with(b"_runtime") || category.ends_with(b"_driver") => {
                EventKind::Call
            }
            _ => EventKind::Other,
        }
    }
}

macro_rules! arguments {
    ($($field:ident = $($key:literal)|+;)*) => {
        /// Arguments that the tables keep, as written in the text.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct EventArgs<'a> { $(pub(crate) $field: Option<JsonValue<'a>>,)* }

        impl<'a> EventArgs<'a> {
            /// Stores `value` if `key` is one of the kept arguments.
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
    strides = b"Input Strides";
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
    memory_address = b"Addr";
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

/// An event; absent strings are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KinetoEvent<'a> {
    pub(crate) kind: EventKind,
    pub(crate) phase: &'a [u8],
    pub(crate) category: &'a [u8],
    pub(crate) name: &'a [u8],
    /// `id` of an arrow; `None` for other events.
    pub(crate) id: Option<JsonValue<'a>>,
    pub(crate) pid: Option<JsonValue<'a>>,
    pub(crate) tid: Option<JsonValue<'a>>,
    pub(crate) start: Option<JsonValue<'a>>,
    pub(crate) duration: Option<JsonValue<'a>>,
    pub(crate) args: EventArgs<'a>,
    /// All arguments, as written in the text.
    pub(crate) args_text: &'a [u8],
}

impl<'a> KinetoEvent<'a> {
    /// Reads the current event of `scanner` to its end.
    ///
    /// Kineto writes `ph` and `cat` first, so an event that no table keeps is skipped at once.
    /// Other writers may put them last.
    pub(crate) fn read(
        &mut self,
        scanner: &mut JsonScanner<'a>,
        options: KinetoReadOptions,
    ) -> Result<(), BrokenJson> {
        // Keys in their usual order need no comparison with all others; the loop handles the rest.
        self.usual_head(scanner)?;
        loop {
            if self.is_of_no_use(options) {
                // Most events of a trace with Python stacks end here; their values are never read.
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
            // Other writers put `ph` or `cat` anywhere, so the kind may become known with any key.
            self.kind = EventKind::of(self.phase, self.category);
        }
        scanner.end_element()
    }

    /// Returns true if it is already known that no table keeps the event.
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

    /// Returns true if an event of kind `Other` is kept.
    fn is_kept_other(&self, keep: KeepEvents) -> bool {
        let is_arrow = matches!(self.phase, b"s" | b"t" | b"f");
        match keep {
            KeepEvents::Everything => !is_arrow,
            // Metrics of kernels belong to the graph; few traces have any.
            KeepEvents::Graph | KeepEvents::Memory | KeepEvents::Auxiliary => {
                self.is_counter_range() || self.is_recording()
            }
        }
    }

    /// Returns true for Kineto's own range, from the start of the recording to its end.
    pub(crate) fn is_recording(&self) -> bool {
        self.category == b"Trace" && self.phase == b"X"
    }

    /// Returns true if the event holds CUPTI's counters of a kernel.
    pub(crate) fn is_counter_range(&self) -> bool {
        self.category == b"cuda_profiler_range" && self.phase == b"X"
    }

    /// Returns true if an arrow connects nodes of a CUDA graph, or if its id is not known yet.
    pub(crate) fn is_graph_dependency(&self) -> bool {
        // Launches have arrows too. Kineto writes `id` before `cat`, so those are skipped at once.
        self.id
            .is_none_or(|id| int(Some(id)).is_some_and(|id| id >= FIRST_DEPENDENCY))
    }

    /// Returns true if both keys that decide the kind have been seen.
    fn is_known(&self) -> bool {
        !self.phase.is_empty() && (!self.category.is_empty() || self.phase != b"X")
    }

    /// Reads the keys that appear exactly as Kineto writes them, in its order, which covers all
    /// keys of nearly all events.
    #[inline]
    fn usual_head(&mut self, scanner: &mut JsonScanner<'a>) -> Result<(), BrokenJson> {
        if let Some(phase) = usual(scanner, b"\"ph\": ")? {
            self.phase = phase.raw();
        }
        if let Some(category) = usual(scanner, b"\"cat\": ")? {
            self.category = category.raw();
        }
        self.kind = EventKind::of(self.phase, self.category);
        // Such events are rarely kept; `read` decides before more of them is read.
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

    /// Reads the arguments of host events that appear exactly as Kineto writes them, in its order.
    #[inline]
    fn usual_args(&mut self, scanner: &mut JsonScanner<'a>) -> Result<(), BrokenJson> {
        let args = &mut self.args;
        // These two appear among the others and are not kept.
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
        // A damaged event can hold two argument lists: the last one counts, as in other JSON readers.
        self.args = EventArgs::default();
        self.usual_args(scanner)?;
        while let Some(key) = scanner.key()? {
            let value = scanner.value()?;
            self.args.set(key, value);
        }
        self.args_text = scanner.text_since(start);
        // If a host trace exists, its shapes are used; these texts are most of a large trace's
        // names.
        if !options.shapes {
            (self.args.shapes, self.args.types) = (None, None);
            (self.args.strides, self.args.values) = (None, None);
        }
        Ok(())
    }
}

/// Returns the value after `head` if `head` is exactly next.
#[inline]
fn usual<'a>(
    scanner: &mut JsonScanner<'a>,
    head: &[u8],
) -> Result<Option<JsonValue<'a>>, BrokenJson> {
    // Commas and white space before a key are consumed even if the key is a different one, which is
    // harmless.
    scanner.eat(b',');
    scanner.peek();
    if scanner.eat_exact(head) {
        scanner.value().map(Some)
    } else {
        Ok(None)
    }
}

/// Parses an integer that may also be hexadecimal text (`"0x0"`, ROCm).
pub(crate) fn int(value: Option<JsonValue<'_>>) -> Option<i64> {
    let raw = value?.raw();
    parse_int(raw).or_else(|| {
        let hex = std::str::from_utf8(raw).ok()?.strip_prefix("0x")?;
        i64::from_str_radix(hex, 16).ok()
    })
}

/// Parses a stream. CUPTI's value for "none" is -1, which Kineto has also printed unsigned.
pub(crate) fn stream(value: Option<JsonValue<'_>>) -> Option<i64> {
    int(value).map(|stream| {
        if stream == i64::from(u32::MAX) {
            -1
        } else {
            stream
        }
    })
}

/// Parses three dimensions from `[x, y, z]`, quoted or not; absent ones are 0.
pub(crate) fn dims(value: Option<JsonValue<'_>>) -> [u32; 3] {
    let mut out = [0; 3];
    if let Some(JsonValue::Nested(text) | JsonValue::Text(text)) = value {
        let mut scanner = JsonScanner::new(text);
        scanner.eat(b'[');
        for slot in &mut out {
            match scanner.item() {
                Ok(Some(item)) => {
                    // An invalid dimension does not void the others.
                    *slot = item.uint().and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
                }
                _ => break,
            }
        }
    }
    out
}
