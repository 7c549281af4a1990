//! Writes the device trace of a drawing.

use crate::rows::{DrawnCall, DrawnRow, DrawnSync, RowWork};
use crate::{DrawnEvent, DrawnOp, DrawnThread, KinetoFlavour, RecordIds, TraceBuilder};
use etlink_formats::kineto::{
    CompleteEvent, FlowEvent, KinetoHeader, KinetoVersion, KinetoWriteOptions, KinetoWriter,
    TrackKey,
};
use std::collections::BTreeMap;
use std::io;

/// Keys and raw JSON values.
type Arguments = Vec<(String, String)>;

/// Writer of a trace to memory.
type Writer = KinetoWriter<Vec<u8>>;

impl KinetoFlavour {
    pub(crate) fn launch_name(self) -> &'static str {
        match self {
            KinetoFlavour::Cuda | KinetoFlavour::Cuda2021 => "cudaLaunchKernel",
            KinetoFlavour::Rocm => "hipLaunchKernel",
            KinetoFlavour::Xpu => "urEnqueueKernelLaunch",
            KinetoFlavour::Mtia => "runFunction - job_prep_and_submit_for_execution",
        }
    }

    fn call_category(self, driver: bool) -> &'static str {
        match (self, driver) {
            (KinetoFlavour::Cuda | KinetoFlavour::Rocm, false) => "cuda_runtime",
            (KinetoFlavour::Cuda | KinetoFlavour::Rocm, true) => "cuda_driver",
            (KinetoFlavour::Xpu, false) => "xpu_runtime",
            (KinetoFlavour::Xpu, true) => "xpu_driver",
            // MTIA and the Kineto of 2021 have no driver calls of their own.
            (KinetoFlavour::Mtia, _) => "mtia_runtime",
            (KinetoFlavour::Cuda2021, _) => "Runtime",
        }
    }

    fn row_category(self, what: RowWork) -> &'static str {
        match (self, what) {
            // MTIA has a single category for all work of its cores, copies included.
            (KinetoFlavour::Mtia, _) => "mtia_ccp_events",
            (KinetoFlavour::Cuda2021, RowWork::Kernel { .. }) => "Kernel",
            (KinetoFlavour::Cuda2021, RowWork::Memcpy { .. }) => "Memcpy",
            (KinetoFlavour::Cuda2021, RowWork::Memset { .. }) => "Memset",
            (_, RowWork::Kernel { .. }) => "kernel",
            (_, RowWork::Memcpy { .. }) => "gpu_memcpy",
            (_, RowWork::Memset { .. }) => "gpu_memset",
        }
    }
}

/// Process and thread, or device and stream.
type Track = (i64, i64);

impl TraceBuilder {
    /// Returns the device trace.
    pub fn kineto(&self) -> Vec<u8> {
        let text = self.write_kineto(vec![]);
        text.unwrap_or_else(|error| unreachable!("memory has no errors: {error}"))
    }

    fn write_kineto(&self, out: Vec<u8>) -> io::Result<Vec<u8>> {
        let header = KinetoHeader {
            // A realistic time base: a reader that forgets it gets times that are wrong by decades,
            // which no test overlooks.
            base_ns: 1_790_857_026_000_000_000,
            devices: vec!["{\n      \"id\": 0, \"name\": \"Drawn Device\"\n    }".to_owned()],
            metadata: self.header.clone(),
        };
        let version = match self.flavour {
            KinetoFlavour::Cuda2021 => KinetoVersion::Torch1_8,
            _ => KinetoVersion::Torch2_9,
        };
        let options = KinetoWriteOptions {
            version,
            // Names are written unescaped, because many tests are about damaged names.
            verbatim: true,
        };
        let mut writer = Writer::new(out, &header, options)?;
        let known = DrawnIds::new(self);
        for thread in &self.threads {
            self.write_thread_names(&mut writer, *thread)?;
        }
        for event in &self.events {
            self.write_event(&mut writer, event, &known)?;
        }
        // Kineto closes its list with this marker, at the end of the window.
        writer.window_end(self.trace_time(self.last_end()))?;
        writer.finish("trace.json", &self.trailer)
    }

    fn last_end(&self) -> i64 {
        let ends = self.events.iter().map(|event| match event {
            DrawnEvent::Op(op) => self.ops[*op].end,
            DrawnEvent::Call(call) => call.end,
            DrawnEvent::Row(row) => row.end,
            DrawnEvent::Sync(sync) => sync.end,
            DrawnEvent::Python { end, .. } => *end,
            DrawnEvent::Raw(_) => 0,
        });
        ends.max().unwrap_or(0)
    }

    fn trace_time(&self, ns: i64) -> i64 {
        self.origin_ns + ns
    }

    fn write_thread_names(&self, writer: &mut Writer, thread: DrawnThread) -> io::Result<()> {
        let DrawnThread { pid, tid } = thread;
        let name = format!("\"thread {tid} (python)\"");
        for (what, key, value) in [
            ("process_name", "name", "\"python\""),
            ("thread_name", "name", &name),
            ("thread_sort_index", "sort_index", &tid.to_string()),
        ] {
            let track = (TrackKey::Number(pid), TrackKey::Number(tid));
            writer.metadata(what, track, self.trace_time(0), (key, value))?;
        }
        Ok(())
    }

    fn write_event(
        &self,
        writer: &mut Writer,
        event: &DrawnEvent,
        known: &DrawnIds<'_>,
    ) -> io::Result<()> {
        match event {
            DrawnEvent::Op(index) => {
                let op = &self.ops[*index];
                if op.in_device {
                    self.write_op(writer, op, known.ids[*index], *index)?;
                }
                Ok(())
            }
            DrawnEvent::Call(call) => self.write_call(writer, call, known),
            DrawnEvent::Row(row) => self.write_row(writer, row, known),
            DrawnEvent::Sync(sync) => self.write_sync(writer, sync),
            DrawnEvent::Python {
                thread,
                name,
                start,
                end,
            } => {
                let args = pairs(&[
                    // The values are arbitrary: readers count these events and do not keep them.
                    ("Python id", "7".into()),
                    ("Python parent id", "6".into()),
                    ("Ev Idx", "0".into()),
                ]);
                let event = DrawnCompleteEvent {
                    category: "python_function",
                    name,
                    track: self.track(*thread),
                    span: (*start, *end),
                    external_id: None,
                };
                self.write_range(writer, &event, &args)
            }
            DrawnEvent::Raw(text) => writer.raw(text),
        }
    }

    fn track(&self, thread: usize) -> Track {
        let DrawnThread { pid, tid } = self.threads[thread];
        (pid, tid)
    }

    fn write_op(&self, writer: &mut Writer, op: &DrawnOp, id: u64, index: usize) -> io::Result<()> {
        let mut args = match self.ids {
            RecordIds::Written => pairs(&[("Record function id", id.to_string())]),
            // PyTorch writes the key for every op even without an observer.
            RecordIds::Zero => pairs(&[("Record function id", "0".into())]),
            RecordIds::Absent => vec![],
        };
        if let Some((number, forward)) = op.seq {
            args.extend(pairs(&[
                ("Sequence number", number.to_string()),
                ("Fwd thread id", forward.to_string()),
            ]));
        }
        if let Some(comms) = &op.comms {
            args.extend(comms.kineto_arguments());
        }
        args.extend(op.args.iter().cloned());
        args.extend(pairs(&[("Ev Idx", index.to_string())]));
        // Annotations were introduced after the categories of 2021 and have kept their name.
        let category = match (op.annotation, self.flavour) {
            (true, _) => "user_annotation",
            (_, KinetoFlavour::Cuda2021) => "Operator",
            _ => "cpu_op",
        };
        let event = DrawnCompleteEvent {
            category,
            name: op.device_name.as_deref().unwrap_or(&op.name),
            track: self.track(op.thread),
            span: (op.start, op.end),
            external_id: Some(id),
        };
        self.write_range(writer, &event, &args)?;
        if let Some((number, forward)) = op.seq {
            // The arrow leads from the forward op, which has no forward thread, to its backward op.
            let is_end = forward != 0;
            self.write_flow(writer, (is_end, "fwdbwd"), number, event.track, op.start)?;
        }
        Ok(())
    }

    /// Returns the id of the innermost op around a call; `None` if there is none.
    fn op_around(&self, call: &DrawnCall, known: &DrawnIds<'_>) -> Option<u64> {
        // Files of 2021 have no `External id` at calls.
        if self.flavour == KinetoFlavour::Cuda2021 {
            return None;
        }
        known.op_around(call)
    }

    fn write_call(
        &self,
        writer: &mut Writer,
        call: &DrawnCall,
        known: &DrawnIds<'_>,
    ) -> io::Result<()> {
        let callback = match self.flavour {
            KinetoFlavour::Rocm => "cid",
            _ => "cbid",
        };
        // CUPTI's number for cudaLaunchKernel. Readers use the name.
        let mut args = pairs(&[(callback, "211".into())]);
        if let Some(kernel) = &call.kernel {
            args.push(("kernel".to_owned(), format!("\"{kernel}\"")));
        }
        if let Some(id) = call.correlation {
            args.push(number("correlation", id));
        }
        let event = DrawnCompleteEvent {
            category: self.flavour.call_category(call.driver),
            name: &call.name,
            track: self.track(call.thread),
            span: (call.start, call.end),
            external_id: self.op_around(call, known),
        };
        self.write_range(writer, &event, &args)?;
        let Some(id) = call.correlation else {
            return Ok(());
        };
        // Calls other than launches and copies end an arrow that has no beginning.
        let is_launch = call.name.contains("aunch") || call.name.contains("Mem");
        self.write_flow(writer, (!is_launch, "ac2g"), id, event.track, call.start)
    }

    fn write_row(
        &self,
        writer: &mut Writer,
        row: &DrawnRow,
        known: &DrawnIds<'_>,
    ) -> io::Result<()> {
        // A row has the op of its launch, not the op that runs at the same time as the row: Kineto
        // assigns `External id` by correlation too.
        let launch = row.correlation.and_then(|id| known.calls.get(&id).copied());
        let event = DrawnCompleteEvent {
            category: self.flavour.row_category(row.what),
            name: &row.name,
            track: (row.queue.device, row.queue.stream),
            span: (row.start, row.end),
            external_id: launch.and_then(|call| self.op_around(call, known)),
        };
        self.write_range(writer, &event, &self.row_arguments(row))?;
        match row.correlation {
            Some(id) => self.write_flow(writer, (true, "ac2g"), id, event.track, row.start),
            None => Ok(()),
        }
    }

    fn row_arguments(&self, row: &DrawnRow) -> Arguments {
        let mut args = match self.flavour {
            KinetoFlavour::Mtia => vec![
                number("stream", row.queue.stream),
                number("seq_num", 1),
                number("sqid", 11),
                number("host_ctx", 1),
            ],
            KinetoFlavour::Rocm => vec![
                number("device", row.queue.device),
                number("stream", row.queue.stream),
            ],
            KinetoFlavour::Xpu => vec![
                number("device", row.queue.device),
                number("context", row.queue.context),
                number("sycl queue", row.queue.stream),
            ],
            _ => vec![
                number("queued", 0),
                number("device", row.queue.device),
                number("context", row.queue.context),
                number("stream", row.queue.stream),
            ],
        };
        args.extend(row.correlation.map(|id| number("correlation", id)));
        match row.what {
            // roctracer records no graph nodes, nor their grids.
            RowWork::Kernel { graph_node, .. } if self.flavour == KinetoFlavour::Rocm => args
                .extend(match graph_node {
                    0 => pairs(&[
                        ("kind", "\"Dispatch Kernel\"".into()),
                        ("grid", "[64, 2, 1]".into()),
                        ("block", "[128, 1, 1]".into()),
                    ]),
                    _ => pairs(&[("kind", "\"Dispatch Task\"".into())]),
                }),
            // Grid and block are the same for all kernels without explicit blocks, so that figures
            // derived from them are easy to check.
            RowWork::Kernel { graph_node, blocks } => args.extend(pairs(&[
                ("registers per thread", "32".into()),
                ("blocks per SM", blocks_per_multiprocessor(blocks)),
                (
                    "grid",
                    blocks.map_or("[64, 2, 1]".into(), |(all, _)| format!("[{all}, 1, 1]")),
                ),
                ("block", "[128, 1, 1]".into()),
                ("est. achieved occupancy %", "7".into()),
                ("graph node id", graph_node.to_string()),
            ])),
            RowWork::Memcpy { bytes } | RowWork::Memset { bytes } => {
                args.extend(pairs(&[
                    ("bytes", bytes.to_string()),
                    ("memory bandwidth (GB/s)", "12.5".into()),
                ]));
            }
        }
        args.extend(row.comms.iter().flat_map(|comms| comms.kineto_arguments()));
        args
    }

    fn write_sync(&self, writer: &mut Writer, sync: &DrawnSync) -> io::Result<()> {
        let queue = sync.queue;
        let mut args = pairs(&[
            ("cuda_sync_kind", format!("\"{}\"", sync.kind)),
            ("stream", queue.stream.to_string()),
            ("correlation", sync.correlation.to_string()),
            ("device", queue.device.to_string()),
            ("context", queue.context.to_string()),
        ]);
        if let Some((stream, record)) = sync.wait {
            args.extend(pairs(&[
                ("wait_on_stream", stream.to_string()),
                ("wait_on_cuda_event_record_corr_id", record.to_string()),
                // Nothing pairs by the id of the event, which is reused. The correlation of the
                // event's record counts.
                ("wait_on_cuda_event_id", "5".into()),
            ]));
        }
        let event = DrawnCompleteEvent {
            category: "cuda_sync",
            name: &sync.kind,
            track: (queue.device, queue.stream),
            span: (sync.start, sync.end),
            external_id: None,
        };
        self.write_range(writer, &event, &args)
    }

    fn write_range(
        &self,
        writer: &mut Writer,
        range: &DrawnCompleteEvent<'_>,
        arguments: &Arguments,
    ) -> io::Result<()> {
        let (start, end) = range.span;
        let event = CompleteEvent {
            category: range.category,
            name: range.name,
            pid: TrackKey::Number(range.track.0),
            tid: TrackKey::Number(range.track.1),
            start_ns: self.trace_time(start),
            duration_ns: end - start,
            external_id: range.external_id.map(|id| id as i64),
        };
        writer.complete(&event, |args| {
            for (key, value) in arguments {
                args.raw(key, value)?;
            }
            Ok(())
        })
    }

    fn write_flow(
        &self,
        writer: &mut Writer,
        (is_end, category): (bool, &str),
        id: i64,
        (pid, tid): Track,
        time: i64,
    ) -> io::Result<()> {
        writer.flow(&FlowEvent {
            is_end,
            category,
            id,
            pid: TrackKey::Number(pid),
            tid: TrackKey::Number(tid),
            time_ns: self.trace_time(time),
        })
    }
}

/// Indices for looking up rows and calls, because a drawing of thousands of events looks up each.
struct DrawnIds<'d> {
    /// Record function id of each op.
    ids: Vec<u64>,
    /// Ops of each thread, by start and id.
    ops: Vec<Vec<DrawnAround>>,
    /// First call of each correlation.
    calls: BTreeMap<i64, &'d DrawnCall>,
}

/// An op that can enclose a call.
struct DrawnAround {
    start: i64,
    id: u64,
    end: i64,
    /// Latest end of this op and all earlier ones.
    last_end: i64,
}

impl<'d> DrawnIds<'d> {
    fn new(draw: &'d TraceBuilder) -> DrawnIds<'d> {
        let ids = draw.rf_ids();
        let mut ops: Vec<Vec<DrawnAround>> = vec![];
        ops.resize_with(draw.threads.len(), Vec::new);
        for (op, id) in draw.ops.iter().zip(&ids) {
            if op.in_device && !op.annotation {
                ops[op.thread].push(DrawnAround {
                    start: op.start,
                    id: *id,
                    end: op.end,
                    last_end: op.end,
                });
            }
        }
        for of_thread in &mut ops {
            of_thread.sort_by_key(|op| (op.start, op.id));
            let mut last_end = i64::MIN;
            for op in of_thread {
                last_end = last_end.max(op.end);
                op.last_end = last_end;
            }
        }
        let mut calls = BTreeMap::new();
        for event in &draw.events {
            if let DrawnEvent::Call(call) = event
                && let Some(id) = call.correlation
            {
                calls.entry(id).or_insert(call);
            }
        }
        DrawnIds { ids, ops, calls }
    }

    fn op_around(&self, call: &DrawnCall) -> Option<u64> {
        let ops = self.ops.get(call.thread)?;
        let begun = ops.partition_point(|op| op.start <= call.start);
        // The op that began last is the innermost, as in Kineto's stack of correlation ids.
        let mut around = ops[..begun].iter().rev();
        let inner = around
            .by_ref()
            .take_while(|op| op.last_end > call.start)
            .find(|op| op.end > call.start)?;
        Some(inner.id)
    }
}

/// Common fields of events with a duration.
struct DrawnCompleteEvent<'d> {
    category: &'d str,
    name: &'d str,
    track: Track,
    /// Start and end, in nanoseconds from the origin.
    span: (i64, i64),
    external_id: Option<u64>,
}

/// Formats blocks of the grid divided by multiprocessors, with six decimals.
fn blocks_per_multiprocessor(blocks: Option<(u32, u32)>) -> String {
    let (all, places) = blocks.unwrap_or((128, 216));
    format!("{:.6}", f64::from(all) / f64::from(places.max(1)))
}

fn number(key: &str, value: i64) -> (String, String) {
    (key.to_owned(), value.to_string())
}

fn pairs(pairs: &[(&str, String)]) -> Arguments {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect()
}
