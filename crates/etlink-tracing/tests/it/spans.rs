//! Spans and their events in the two traces.

use etlink_model::{DeviceTrace, GlobalRank, HostTrace};
use etlink_schedule::{Arguments, Schedule};
use etlink_tracing::{
    FinishedTrace, ProfilerActivity, ProgramInfo, ProgramSpans, Recorder, RecorderError,
    RecordingSession, TraceKind,
};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use tracing::{Level, trace, trace_span};
use tracing_subscriber::prelude::*;

type Texts = Arc<Mutex<Vec<String>>>;

/// A program with its recorders, and a host and a device trace per cycle.
struct Recorded {
    spans: ProgramSpans,
    texts: Texts,
}

impl Recorded {
    fn new(program: ProgramInfo) -> Recorded {
        Recorded {
            spans: ProgramSpans::new(program),
            texts: Texts::default(),
        }
    }

    fn recorders(&self) -> Vec<Box<dyn Recorder>> {
        let texts = Arc::clone(&self.texts);
        self.spans.recorders(
            move |trace: &FinishedTrace<'_>| -> Result<(), RecorderError> {
                let text = String::from_utf8(trace.to_vec()?)?;
                let mut texts = texts.lock().expect("no panic");
                assert_eq!(
                    trace.kind == TraceKind::Host,
                    texts.len().is_multiple_of(2),
                    "host first"
                );
                texts.push(text);
                Ok(())
            },
        )
    }

    /// Runs `work` in a session that records all of it.
    fn of(work: impl FnOnce(&mut RecordingSession)) -> Vec<(Value, Value)> {
        let recorded = Recorded::new(ProgramInfo::default());
        recorded.run(RecordingSession::always(recorded.recorders()), work)
    }

    fn run(
        &self,
        mut session: RecordingSession,
        work: impl FnOnce(&mut RecordingSession),
    ) -> Vec<(Value, Value)> {
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(self.spans.layer()),
            || {
                session.start().expect("starts");
                work(&mut session);
                session.finish().expect("ends");
            },
        );
        self.traces()
    }

    /// Parses the traces as strict JSON.
    fn traces(&self) -> Vec<(Value, Value)> {
        let texts = self.texts.lock().expect("no panic");
        let parse = |text: &String| {
            serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error} in {text}"))
        };
        texts
            .chunks(2)
            .map(|pair| (parse(&pair[0]), parse(&pair[1])))
            .collect()
    }

    /// Reads the traces of a cycle with the linker's readers.
    fn read(&self, cycle: usize) -> (HostTrace, DeviceTrace) {
        let texts = self.texts.lock().expect("no panic");
        let source = |at: usize| std::io::Cursor::new(texts[at].clone().into_bytes());
        let host = etlink_formats::host::read(
            source(cycle * 2),
            etlink_formats::host::HostReadOptions::default(),
        )
        .expect("a host trace");
        let device = etlink_formats::kineto::read(
            source(cycle * 2 + 1),
            etlink_formats::kineto::KinetoReadOptions::default(),
        )
        .expect("a device trace");
        (host, device)
    }
}

fn nodes(host: &Value) -> &Vec<Value> {
    host["nodes"].as_array().expect("nodes")
}

fn node<'a>(host: &'a Value, name: &str) -> &'a Value {
    nodes(host)
        .iter()
        .find(|node| node["name"] == name)
        .unwrap_or_else(|| panic!("no node {name}"))
}

fn attr<'a>(node: &'a Value, name: &str) -> &'a Value {
    node["attrs"]
        .as_array()
        .expect("attrs")
        .iter()
        .find(|attr| attr["name"] == name)
        .map(|attr| &attr["value"])
        .expect(name)
}

fn events<'a>(device: &'a Value, key: &'a str, value: &'a str) -> impl Iterator<Item = &'a Value> {
    device["traceEvents"]
        .as_array()
        .expect("events")
        .iter()
        .filter(move |event| event[key] == value)
}

fn event<'a>(device: &'a Value, name: &'a str) -> &'a Value {
    events(device, "name", name)
        .next()
        .unwrap_or_else(|| panic!("no event {name}"))
}

/// Converts by digits: a product would be off by one after weeks of uptime.
fn ns(micros: &Value) -> i64 {
    let text = micros.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    format!("{whole}{part:0<3.3}").parse().expect("a time")
}

#[test]
fn an_op_is_the_same_in_both_traces() {
    let traces = Recorded::of(|_| {
        let _outer = trace_span!("train", annotation = true).entered();
        let shapes = [vec![8, 32], vec![32, 64]];
        let _op = trace_span!(
            "aten::mm",
            ?shapes,
            dtypes = "f32,bf16",
            tensors = "0x10,32",
            out_shapes = "[8,64]",
            schema = "mm(a, b)",
            flops = 12.5
        )
        .entered();
    });
    let (host, device) = &traces[0];
    let (op, range) = (node(host, "aten::mm"), node(host, "train"));
    assert_eq!(op["ctrl_deps"], range["id"]);
    assert_eq!(host["schema"], "1.1.1-chakra.0.0.4");
    assert_eq!(op["inputs"]["shapes"].to_string(), "[[8,32],[32,64]]");
    assert_eq!(op["inputs"]["strides"].to_string(), "[[32,1],[64,1]]");
    assert_eq!(
        op["inputs"]["types"].to_string(),
        r#"["Tensor(float)","Tensor(c10::BFloat16)"]"#
    );
    assert_eq!(
        op["inputs"]["values"][1].as_array().expect("a tensor")[2..]
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>(),
        ["0", "2048", "2", "\"cpu\""]
    );
    assert_eq!(op["outputs"]["shapes"].to_string(), "[[8,64]]");
    assert_eq!(
        [
            attr(op, "op_schema"),
            attr(op, "scope"),
            attr(range, "scope")
        ]
        .map(Value::to_string),
        ["\"mm(a, b)\"", "0", "7"]
    );
    let row = event(device, "aten::mm");
    assert_eq!(
        (&row["cat"], &event(device, "train")["cat"]),
        (&"cpu_op".into(), &"user_annotation".into())
    );
    assert_eq!(&row["args"]["Record function id"], attr(op, "rf_id"));
    assert_eq!(row["args"]["Input Dims"].to_string(), "[[8,32],[32,64]]");
    assert_eq!(
        row["args"]["Input type"].to_string(),
        r#"["float","c10::BFloat16"]"#
    );
    assert_eq!(row["args"]["flops"], 12.5);
    assert!(ns(&row["ts"]) >= ns(&event(device, "train")["ts"]) && ns(&row["dur"]) > 0);
}

#[test]
fn names_may_be_anything_and_traces_stay_json() {
    let odd = "quote \" backslash \\ line \n nul \0 emoji \u{1f600}";
    let traces = Recorded::of(|_| {
        let _op = trace_span!(
            "op",
            name = odd,
            note = odd,
            ratio = f64::NAN,
            shapes = "no shapes"
        )
        .entered();
    });
    let (host, device) = &traces[0];
    assert_eq!(attr(node(host, odd), "rf_id"), 1);
    let args = &event(device, odd)["args"];
    assert_eq!(
        (&args["note"], &args["ratio"], &args["shapes"]),
        (&odd.into(), &"NaN".into(), &"no shapes".into())
    );
}

#[test]
fn calls_and_rows_find_each_other() {
    let traces = Recorded::of(|_| {
        let op = trace_span!("aten::mm").entered();
        trace_span!("launchKernel", correlation = 5).in_scope(|| {});
        drop(op);
        trace_span!(
            "gemm",
            stream = 7,
            device = 1,
            correlation = 5,
            grid = "[1, 2, 3]"
        )
        .in_scope(|| {});
        trace_span!(
            "Memcpy HtoD (Host -> Device)",
            stream = 8,
            correlation = 6,
            bytes = 64
        )
        .in_scope(|| {});
    });
    let (host, device) = &traces[0];
    assert_eq!(
        nodes(host).len(),
        3,
        "process, thread and op: calls and rows are no nodes"
    );
    let (call, row) = (event(device, "launchKernel"), event(device, "gemm"));
    assert_eq!(
        (&call["cat"], &row["cat"]),
        (&"cuda_runtime".into(), &"kernel".into())
    );
    assert_eq!((&row["pid"], &row["tid"]), (&1.into(), &7.into()));
    for event in [call, row] {
        assert_eq!(
            (&event["args"]["correlation"], &event["args"]["External id"]),
            (&5.into(), attr(node(host, "aten::mm"), "rf_id"))
        );
    }
    let copy = events(device, "cat", "gpu_memcpy").next().expect("a copy");
    assert_eq!(
        (&copy["args"]["bytes"], &copy["args"]["External id"]),
        (&64.into(), &Value::Null)
    );
    let flows: Vec<String> = events(device, "cat", "ac2g")
        .map(|flow| format!("{}{}", flow["ph"].as_str().expect("text"), flow["id"]))
        .collect();
    assert_eq!(flows, ["s5", "f5", "f6"]);
    assert_eq!(device["deviceProperties"].as_array().map(Vec::len), Some(2));
}

#[test]
fn calls_say_what_they_wait_for() {
    let traces = Recorded::of(|_| {
        trace_span!(
            "deviceStreamWaitEvent",
            correlation = 2,
            sync_stream = 7,
            wait_on_stream = 20,
            wait_on_record = 1
        )
        .in_scope(|| {});
        trace_span!(
            "deviceStreamSynchronize",
            correlation = 3,
            sync_stream = 7,
            device = 1
        )
        .in_scope(|| {});
        trace_span!("deviceSynchronize", correlation = 4, sync_stream = -1).in_scope(|| {});
    });
    let said = events(&traces[0].1, "cat", "cuda_sync").map(|row| {
        (
            row["name"].as_str().expect("text"),
            row["pid"].clone(),
            row["tid"].clone(),
            row["args"].clone(),
        )
    });
    let said: Vec<_> = said
        .map(|(name, device, stream, args)| {
            format!(
                "{name} {device} {stream} {} {}",
                args["correlation"], args["wait_on_cuda_event_record_corr_id"]
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            "Stream Wait Event 0 7 2 1",
            "Stream Sync 1 7 3 null",
            "Context Sync 0 -1 4 null"
        ]
    );
}

#[test]
fn a_device_may_tell_its_times_later() {
    let mut told = (0, 0);
    let traces = Recorded::of(|_| {
        let since = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("a time")
            .as_nanos() as i64;
        told = (since, since + 1_500);
        trace_span!("launchKernel", correlation = 5).in_scope(|| {});
        trace!(
            stream = 7,
            correlation = 5,
            start_ns = told.0,
            end_ns = told.1,
            "gemm"
        );
        trace!(stream = 7, start_ns = 1, end_ns = 2, "of another window");
        trace!("not a row");
        tracing::event!(Level::INFO, other = 3);
    });
    let (_, device) = &traces[0];
    let row = event(device, "gemm");
    assert_eq!(
        device["baseTimeNanoseconds"].as_i64().expect("a base") + ns(&row["ts"]),
        told.0
    );
    assert_eq!(ns(&row["dur"]), 1_500);
    assert_eq!(events(device, "cat", "kernel").count(), 1);
}

#[test]
fn backward_ops_know_their_forward_ops() {
    let traces = Recorded::of(|_| {
        let outer = trace_span!("forward").entered();
        trace_span!("aten::linear", seq = 3).in_scope(|| {});
        drop(outer);
        let subscriber = tracing::dispatcher::get_default(Clone::clone);
        let engine = || {
            tracing::dispatcher::with_default(&subscriber, || {
                trace_span!("LinearBackward0", seq = 3, backward = true).in_scope(|| {})
            })
        };
        std::thread::scope(|scope| scope.spawn(engine).join().expect("no panic"));
    });
    let (host, device) = &traces[0];
    let (forward, backward) = (node(host, "aten::linear"), node(host, "LinearBackward0"));
    assert_eq!([forward, backward].map(|node| attr(node, "seq_id")), [3, 3]);
    assert_eq!(
        (attr(backward, "fw_tid"), attr(backward, "scope")),
        (attr(forward, "tid"), &1.into())
    );
    assert_eq!(attr(backward, "fw_parent"), &node(host, "forward")["id"]);
    let args = |name| &event(device, name)["args"];
    assert_eq!(
        (
            &args("aten::linear")["Fwd thread id"],
            &args("LinearBackward0")["Fwd thread id"]
        ),
        (&0.into(), attr(forward, "tid"))
    );
    assert_eq!(events(device, "cat", "fwdbwd").count(), 2);
}

#[test]
fn spans_that_run_at_the_end_are_in_both_traces() {
    let recorded = Recorded::new(ProgramInfo::default());
    let traces = recorded.run(RecordingSession::always(recorded.recorders()), |session| {
        let outer = trace_span!("serve").entered();
        trace_span!("request").in_scope(|| {});
        session.stop().expect("stops");
        trace_span!("later").in_scope(|| {});
        drop(outer);
    });
    let (host, device) = &traces[0];
    assert_eq!(
        node(host, "request")["ctrl_deps"],
        node(host, "serve")["id"]
    );
    let (served, end) = (event(device, "serve"), event(device, "Record Window End"));
    assert_eq!(served["args"]["finished"], false);
    assert_eq!(ns(&served["ts"]) + ns(&served["dur"]), ns(&end["ts"]));
    assert!(events(device, "name", "later").next().is_none() && traces.len() == 1);
    let (host, device) = recorded.read(0);
    let linked =
        etlink_link::link(Some(host), device, etlink_link::LinkOptions::default()).expect("links");
    assert_eq!(
        (
            linked.report.matched.values().sum::<u64>(),
            linked.report.host_ops
        ),
        (2, 2)
    );
}

#[test]
fn a_value_may_make_spans_while_it_is_printed() {
    struct Busy;
    impl std::fmt::Debug for Busy {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            trace_span!("inner", text = "of the printed").in_scope(|| f.write_str("busy"))
        }
    }
    let traces = Recorded::of(|_| {
        trace_span!("outer", state = ?Busy, after = 1).in_scope(|| {});
    });
    // whether `tracing` passes on the inner one depends on the subscriber
    let args = &event(&traces[0].1, "outer")["args"];
    assert_eq!(
        (&args["state"], &args["after"]),
        (&"busy".into(), &1.into())
    );
}

#[test]
fn a_span_that_was_made_in_another_window_is_not_taken_for_a_new_one() {
    let recorded = Recorded::new(ProgramInfo::default());
    let schedule = Schedule::new(Arguments {
        wait: 0,
        warmup: 0,
        active: 1,
        repeat: 0,
        ..Arguments::default()
    })
    .expect("valid");
    let traces = recorded.run(
        RecordingSession::scheduled(recorded.recorders(), schedule),
        |session| {
            let old = trace_span!("old");
            old.in_scope(|| trace_span!("first").in_scope(|| {}));
            session.step().expect("steps");
            old.in_scope(|| trace_span!("second").in_scope(|| {}));
        },
    );
    let parent = |host: &Value, name: &str| node(host, name)["ctrl_deps"].clone();
    assert_eq!(
        parent(&traces[0].0, "first"),
        node(&traces[0].0, "old")["id"]
    );
    assert_eq!(
        parent(&traces[1].0, "second"),
        node(&traces[1].0, "ProfilerStep#1")["id"]
    );
    assert!(nodes(&traces[1].0).iter().all(|node| node["name"] != "old"));
}

#[test]
fn a_span_is_where_it_runs() {
    let traces = Recorded::of(|_| {
        let span = trace_span!("task", part = tracing::field::Empty);
        span.in_scope(|| {});
        span.record("part", 2);
        let subscriber = tracing::dispatcher::get_default(Clone::clone);
        let work = || {
            tracing::dispatcher::with_default(&subscriber, || {
                span.in_scope(|| trace_span!("inner").in_scope(|| {}))
            })
        };
        let build = std::thread::Builder::new().name("worker".into());
        std::thread::scope(|scope| {
            build
                .spawn_scoped(scope, work)
                .expect("spawns")
                .join()
                .expect("no panic")
        });
    });
    let (host, device) = &traces[0];
    let runs: Vec<&Value> = events(device, "name", "task").collect();
    assert_eq!(
        runs.iter()
            .map(|run| &run["args"]["part"])
            .collect::<Vec<_>>(),
        [2, 2]
    );
    assert_ne!(runs[0]["tid"], runs[1]["tid"]);
    let inner = event(device, "inner");
    assert_eq!(inner["tid"], runs[1]["tid"]);
    let thread = events(device, "name", "thread_name")
        .find(|row| row["tid"] == inner["tid"])
        .expect("its name");
    assert!(
        thread["args"]["name"]
            .as_str()
            .is_some_and(|name| name.contains("worker")),
        "{thread}"
    );
    let parent = &node(host, "inner")["ctrl_deps"];
    assert!(nodes(host).iter().any(|node| node["id"] == *parent
        && *attr(node, "rf_id") == runs[1]["args"]["Record function id"]));
}

#[test]
fn cycles_are_apart_and_their_ids_go_on() {
    let recorded = Recorded::new(ProgramInfo {
        rank: Some(2),
        world_size: Some(8),
        backend: "gloo".into(),
        ..ProgramInfo::default()
    });
    let schedule = Schedule::new(Arguments {
        wait: 1,
        warmup: 1,
        active: 2,
        repeat: 2,
        ..Arguments::default()
    })
    .expect("valid");
    let traces = recorded.run(
        RecordingSession::scheduled(recorded.recorders(), schedule),
        |session| {
            for step in 0..7 {
                trace_span!("op", step).in_scope(|| {});
                session.step().expect("steps");
            }
            // the second cycle is truncated in its last step
            trace_span!("op", step = 7).in_scope(|| {});
        },
    );
    let names = |host: &Value| {
        nodes(host)
            .iter()
            .filter(|node| *attr(node, "rf_id") != 0)
            .map(|node| node["name"].as_str().expect("text").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(&traces[0].0),
        ["op", "ProfilerStep#2", "op", "ProfilerStep#3"]
    );
    assert_eq!(
        names(&traces[1].0),
        ["op", "ProfilerStep#6", "op", "ProfilerStep#7"]
    );
    let ids: Vec<u64> = traces
        .iter()
        .flat_map(|(_, device)| device["traceEvents"].as_array().expect("events"))
        .filter_map(|event| event["args"]["Record function id"].as_u64())
        .collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7, 8]);
    let steps: Vec<&Value> = events(&traces[1].1, "name", "op")
        .map(|op| &op["args"]["step"])
        .collect();
    assert_eq!(steps, [6, 7]);
    assert_eq!(traces[0].1["distributedInfo"]["rank"], 2);
    let (host, device) = recorded.read(1);
    assert!(host.anomalies.iter().next().is_none() && device.anomalies.iter().next().is_none());
    assert_eq!(
        (device.header.rank, device.header.world_size),
        (Some(GlobalRank(2)), Some(8))
    );
}

#[test]
fn what_is_toggled_off_is_in_neither_trace() {
    let traces = Recorded::of(|session| {
        let both = || {
            trace_span!("op").in_scope(|| {});
            trace_span!("row", stream = 7).in_scope(|| {});
        };
        both();
        session.toggle(ProfilerActivity::Cpu, false).expect("off");
        both();
        session.toggle(ProfilerActivity::Cpu, true).expect("on");
        session
            .toggle(ProfilerActivity::PrivateUse1, false)
            .expect("off");
        both();
    });
    let (host, device) = &traces[0];
    assert_eq!(
        nodes(host)
            .iter()
            .filter(|node| node["name"] == "op")
            .count(),
        2
    );
    assert_eq!(
        ["op", "row"].map(|name| events(device, "name", name).count()),
        [2, 2]
    );
}

#[test]
fn other_layers_see_what_they_always_see() {
    #[derive(Clone, Default)]
    struct Count(Arc<Mutex<u64>>);
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Count {
        fn on_new_span(
            &self,
            _: &tracing::span::Attributes<'_>,
            _: &tracing::span::Id,
            _: tracing_subscriber::layer::Context<'_, S>,
        ) {
            *self.0.lock().expect("no panic") += 1;
        }
    }
    let (recorded, count) = (Recorded::new(ProgramInfo::default()), Count::default());
    let schedule = Schedule::new(Arguments {
        wait: 1,
        warmup: 1,
        active: 1,
        repeat: 1,
        ..Arguments::default()
    })
    .expect("valid");
    let mut session = RecordingSession::scheduled(recorded.recorders(), schedule);
    tracing::subscriber::with_default(
        tracing_subscriber::registry()
            .with(recorded.spans.layer())
            .with(count.clone()),
        || {
            session.start().expect("starts");
            for _ in 0..5 {
                trace_span!("op").in_scope(|| {});
                session.step().expect("steps");
            }
            session.finish().expect("ends");
        },
    );
    assert_eq!(*count.0.lock().expect("no panic"), 5);
    assert_eq!(events(&recorded.traces()[0].1, "name", "op").count(), 1);
}

#[test]
fn many_threads_lose_nothing() {
    const SPANS: usize = 3_000;
    let recorded = Recorded::new(ProgramInfo::default());
    let traces = recorded.run(RecordingSession::always(recorded.recorders()), |_| {
        let subscriber = tracing::dispatcher::get_default(Clone::clone);
        let work = || {
            tracing::dispatcher::with_default(&subscriber, || {
                (0..SPANS).for_each(|n| {
                    trace_span!("outer", n).in_scope(|| trace_span!("inner").in_scope(|| {}))
                })
            })
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    });
    let (host, device) = &traces[0];
    assert_eq!(
        ["outer", "inner"].map(|name| events(device, "name", name).count()),
        [4 * SPANS; 2]
    );
    assert_eq!(nodes(host).len(), 1 + 4 + 8 * SPANS);
    let (host, device) = recorded.read(0);
    let linked =
        etlink_link::link(Some(host), device, etlink_link::LinkOptions::default()).expect("links");
    assert_eq!(
        linked.report.matched.values().sum::<u64>() as usize,
        8 * SPANS
    );
    assert!(
        linked.report.anomalies.iter().next().is_none(),
        "{:?}",
        linked.report.anomalies
    );
}
