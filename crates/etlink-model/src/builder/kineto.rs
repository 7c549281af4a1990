//! The device trace's text, as `libkineto/src/output_json.cpp` prints it.

use super::{Call, Event, HostThread, KinetoFlavour, Op, RecordIds, Row, Sync, TraceBuilder, What};

type Args = Vec<(String, String)>;

impl KinetoFlavour {
    pub(super) fn launch_name(self) -> &'static str {
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
            (KinetoFlavour::Mtia, _) => "mtia_runtime",
            (KinetoFlavour::Cuda2021, _) => "Runtime",
        }
    }

    fn row_category(self, what: What) -> &'static str {
        match (self, what) {
            (KinetoFlavour::Mtia, _) => "mtia_ccp_events",
            (KinetoFlavour::Cuda2021, What::Kernel { .. }) => "Kernel",
            (KinetoFlavour::Cuda2021, What::Memcpy { .. }) => "Memcpy",
            (KinetoFlavour::Cuda2021, What::Memset { .. }) => "Memset",
            (_, What::Kernel { .. }) => "kernel",
            (_, What::Memcpy { .. }) => "gpu_memcpy",
            (_, What::Memset { .. }) => "gpu_memset",
        }
    }
}

/// What the lines of an event are made of.
struct Line<'a> {
    category: &'a str,
    name: &'a str,
    pid: i64,
    tid: i64,
    start: i64,
    end: i64,
    args: Args,
}

impl TraceBuilder {
    /// The device trace.
    pub fn kineto(&self) -> Vec<u8> {
        let mut text = self.head();
        let ids = self.rf_ids();
        self.threads
            .iter()
            .for_each(|thread| text.push_str(&self.thread_rows(*thread)));
        self.events
            .iter()
            .for_each(|event| text.push_str(&self.event(event, &ids)));
        if self.flavour == KinetoFlavour::Cuda2021 {
            text.truncate(text.trim_end_matches([',', '\n']).len());
            text.push_str("\n]}\n");
            return text.into_bytes();
        }
        let end = self.time(self.end());
        text.push_str(&format!(
            "  {{\n    \"ph\": \"i\", \"s\": \"g\", \"name\": \"Record Window End\",\n    \"pid\": \"\", \"tid\": \"\", \"ts\": {end}\n  }}\n  ],"
        ));
        self.trailer
            .iter()
            .for_each(|(key, value)| text.push_str(&format!("\"{key}\": {value},\n")));
        text.push_str("\"traceName\": \"trace.json\" }");
        text.into_bytes()
    }

    fn head(&self) -> String {
        if self.flavour == KinetoFlavour::Cuda2021 {
            return "{\n  \"traceEvents\": [\n".to_owned();
        }
        let mut text = String::from(
            "\n{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\n      \"id\": 0, \"name\": \"Drawn Device\"\n    }\n  ],\n",
        );
        self.header
            .iter()
            .for_each(|(key, value)| text.push_str(&format!("  \"{key}\": {value},\n")));
        text.push_str("  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": 1790857026000000000,\n  \"traceEvents\": [\n");
        text
    }

    fn end(&self) -> i64 {
        let end = |event: &Event| match event {
            Event::Op(op) => self.ops[*op].end,
            Event::Call(call) => call.end,
            Event::Row(row) => row.end,
            Event::Sync(sync) => sync.end,
            Event::Python { end, .. } => *end,
            Event::Raw(_) => 0,
        };
        self.events.iter().map(end).max().unwrap_or(0)
    }

    fn thread_rows(&self, thread: HostThread) -> String {
        let HostThread { pid, tid } = thread;
        let row = |name: &str, args: String| {
            let ts = self.time(0);
            format!(
                "  {{\n    \"name\": \"{name}\", \"ph\": \"M\", \"ts\": {ts}, \"pid\": {pid}, \"tid\": {tid},\n    \"args\": {{\n      {args}\n    }}\n  }},\n"
            )
        };
        [
            row("process_name", "\"name\": \"python\"".to_owned()),
            row(
                "thread_name",
                format!("\"name\": \"thread {tid} (python)\""),
            ),
            row("thread_sort_index", format!("\"sort_index\": {tid}")),
        ]
        .concat()
    }

    fn event(&self, event: &Event, ids: &[u64]) -> String {
        match event {
            Event::Op(op) => {
                let drawn = &self.ops[*op];
                if drawn.in_device {
                    self.op_event(drawn, ids[*op], *op)
                } else {
                    String::new()
                }
            }
            Event::Call(call) => self.call_event(call, ids),
            Event::Row(row) => self.row_event(row, ids),
            Event::Sync(sync) => self.sync_event(sync),
            Event::Python {
                thread,
                name,
                start,
                end,
            } => {
                let HostThread { pid, tid } = self.threads[*thread];
                let args = pairs(&[
                    ("Python id", "7".into()),
                    ("Python parent id", "6".into()),
                    ("Ev Idx", "0".into()),
                ]);
                self.complete(Line {
                    category: "python_function",
                    name,
                    pid,
                    tid,
                    start: *start,
                    end: *end,
                    args,
                })
            }
            Event::Raw(text) => format!("{text},\n"),
        }
    }

    fn op_event(&self, op: &Op, id: u64, index: usize) -> String {
        let HostThread { pid, tid } = self.threads[op.thread];
        let mut args = pairs(&[("External id", id.to_string())]);
        match self.ids {
            RecordIds::Written => args.extend(pairs(&[("Record function id", id.to_string())])),
            RecordIds::Zero => args.extend(pairs(&[("Record function id", "0".into())])),
            RecordIds::Absent => {}
        }
        if let Some((number, forward)) = op.seq {
            args.extend(pairs(&[
                ("Sequence number", number.to_string()),
                ("Fwd thread id", forward.to_string()),
            ]));
        }
        args.extend(op.comms.iter().flat_map(|comms| comms.kineto()));
        args.extend(op.args.iter().cloned());
        args.extend(pairs(&[("Ev Idx", index.to_string())]));
        let category = match (op.annotation, self.flavour) {
            (true, _) => "user_annotation",
            (_, KinetoFlavour::Cuda2021) => "Operator",
            _ => "cpu_op",
        };
        let name = op.device_name.as_deref().unwrap_or(&op.name);
        let mut text = self.complete(Line {
            category,
            name,
            pid,
            tid,
            start: op.start,
            end: op.end,
            args,
        });
        if let Some((number, forward)) = op.seq {
            text.push_str(&self.flow(
                if forward == 0 { "s" } else { "f" },
                "fwdbwd",
                number,
                pid,
                tid,
                op.start,
            ));
        }
        text
    }

    /// The innermost op around a call, if there is one.
    fn linked(&self, call: &Call, ids: &[u64]) -> Args {
        let around = |op: &&Op| {
            op.in_device
                && !op.annotation
                && op.thread == call.thread
                && op.start <= call.start
                && call.start < op.end
        };
        let ops = self
            .ops
            .iter()
            .zip(ids)
            .filter(|(op, _)| self.flavour != KinetoFlavour::Cuda2021 && around(op));
        let inner = ops.max_by_key(|(op, id)| (op.start, **id));
        inner
            .map(|(_, id)| ("External id".to_owned(), id.to_string()))
            .into_iter()
            .collect()
    }

    fn call_event(&self, call: &Call, ids: &[u64]) -> String {
        let HostThread { pid, tid } = self.threads[call.thread];
        let mut args = self.linked(call, ids);
        args.extend(pairs(&[(
            if self.flavour == KinetoFlavour::Rocm {
                "cid"
            } else {
                "cbid"
            },
            "211".into(),
        )]));
        args.extend(
            call.kernel
                .iter()
                .map(|kernel| ("kernel".to_owned(), format!("\"{kernel}\""))),
        );
        args.extend(
            call.correlation
                .map(|id| ("correlation".to_owned(), id.to_string())),
        );
        let category = self.flavour.call_category(call.driver);
        let mut text = self.complete(Line {
            category,
            name: &call.name,
            pid,
            tid,
            start: call.start,
            end: call.end,
            args,
        });
        if let Some(id) = call.correlation {
            let phase = if call.name.contains("aunch") || call.name.contains("Mem") {
                "s"
            } else {
                "f"
            };
            text.push_str(&self.flow(phase, "ac2g", id, pid, tid, call.start));
        }
        text
    }

    fn row_event(&self, row: &Row, ids: &[u64]) -> String {
        let calls = self.events.iter().filter_map(|event| {
            if let Event::Call(call) = event {
                Some(call)
            } else {
                None
            }
        });
        let mut calls =
            calls.filter(|call| row.correlation.is_some() && call.correlation == row.correlation);
        let mut args = calls
            .next()
            .map(|call| self.linked(call, ids))
            .unwrap_or_default();
        args.extend(self.row_args(row));
        let (pid, tid) = (row.queue.device, row.queue.stream);
        let category = self.flavour.row_category(row.what);
        let mut text = self.complete(Line {
            category,
            name: &row.name,
            pid,
            tid,
            start: row.start,
            end: row.end,
            args,
        });
        if let Some(id) = row.correlation {
            text.push_str(&self.flow("f", "ac2g", id, pid, tid, row.start));
        }
        text
    }

    fn row_args(&self, row: &Row) -> Args {
        let number = |key: &str, value: i64| (key.to_owned(), value.to_string());
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
            // roctracer knows no graph nodes, and no grid of theirs
            What::Kernel { graph_node } if self.flavour == KinetoFlavour::Rocm => {
                args.extend(match graph_node {
                    0 => pairs(&[
                        ("kind", "\"Dispatch Kernel\"".into()),
                        ("grid", "[64, 2, 1]".into()),
                        ("block", "[128, 1, 1]".into()),
                    ]),
                    _ => pairs(&[("kind", "\"Dispatch Task\"".into())]),
                })
            }
            What::Kernel { graph_node } => args.extend(pairs(&[
                ("registers per thread", "32".into()),
                ("blocks per SM", "0.592593".into()),
                ("grid", "[64, 2, 1]".into()),
                ("block", "[128, 1, 1]".into()),
                ("est. achieved occupancy %", "7".into()),
                ("graph node id", graph_node.to_string()),
            ])),
            What::Memcpy { bytes } | What::Memset { bytes } => {
                args.extend(pairs(&[
                    ("bytes", bytes.to_string()),
                    ("memory bandwidth (GB/s)", "12.5".into()),
                ]));
            }
        }
        args.extend(row.comms.iter().flat_map(|comms| comms.kineto()));
        args
    }

    fn sync_event(&self, sync: &Sync) -> String {
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
                ("wait_on_cuda_event_id", "5".into()),
            ]));
        }
        self.complete(Line {
            category: "cuda_sync",
            name: &sync.kind,
            pid: queue.device,
            tid: queue.stream,
            start: sync.start,
            end: sync.end,
            args,
        })
    }

    fn complete(&self, line: Line<'_>) -> String {
        let Line {
            category,
            name,
            pid,
            tid,
            start,
            end,
            args,
        } = line;
        let args: Vec<String> = args
            .iter()
            .map(|(key, value)| format!("\"{key}\": {value}"))
            .collect();
        let (ts, dur) = (self.time(start), self.duration(end - start));
        format!(
            "  {{\n    \"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid},\n    \"ts\": {ts}, \"dur\": {dur},\n    \"args\": {{\n      {}\n    }}\n  }},\n",
            args.join(", ")
        )
    }

    fn flow(&self, phase: &str, category: &str, id: i64, pid: i64, tid: i64, at: i64) -> String {
        let ts = self.time(at);
        let bind = if phase == "f" { ", \"bp\": \"e\"" } else { "" };
        format!(
            "  {{\n    \"ph\": \"{phase}\", \"id\": {id}, \"pid\": {pid}, \"tid\": {tid}, \"ts\": {ts},\n    \"cat\": \"{category}\", \"name\": \"{category}\"{bind}\n  }},\n"
        )
    }

    fn time(&self, ns: i64) -> String {
        let ns = self.origin_ns + ns;
        if self.flavour == KinetoFlavour::Cuda2021 {
            ns.div_euclid(1_000).to_string()
        } else {
            decimals(ns)
        }
    }

    fn duration(&self, ns: i64) -> String {
        if self.flavour == KinetoFlavour::Cuda2021 {
            ns.div_euclid(1_000).to_string()
        } else {
            decimals(ns)
        }
    }
}

/// Microseconds as Kineto prints them: also `-1.-500`.
fn decimals(ns: i64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}

fn pairs(pairs: &[(&str, String)]) -> Args {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect()
}
