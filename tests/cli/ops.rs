//! `etlink ops`: figures are those of the raw JSON, by formulas of the test's own.

use crate::tool::{Tool, pairs};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

fn trace(case: &str) -> PathBuf {
    let gpu = pairs().with_file_name("gpu");
    gpu.join(case).join("kineto_trace_0.json.zst")
}

fn events(case: &str) -> Vec<Value> {
    let packed = std::fs::read(trace(case)).expect("a recording");
    let text = zstd::decode_all(&*packed).expect("zstd");
    let mut document: Value = serde_json::from_slice(&text).expect("JSON");
    let events = document["traceEvents"].as_array_mut();
    std::mem::take(events.expect("a list"))
}

/// Returns the rows that `ops --json` prints of a trace, or of a folder of one rank.
fn printed(path: &str, options: &str) -> Vec<Value> {
    let line = format!("ops {path} --json {options}");
    let mut report = Tool::new().run(&line).exits(0).json();
    let ops = report["runs"][0]["ranks"][0]["ops"].as_array_mut();
    std::mem::take(ops.expect("a list"))
}

/// An op's arguments in a trace.
struct Arguments<'v>(&'v Value);

impl Arguments<'_> {
    fn dims(&self, at: usize) -> Vec<u64> {
        let dims = self.0["Input Dims"][at].as_array().expect("a shape");
        dims.iter().filter_map(Value::as_u64).collect()
    }

    fn list(&self, at: usize) -> Vec<u64> {
        let text = self.0["Concrete Inputs"][at].as_str().expect("a text");
        serde_json::from_str(text).expect("a list")
    }

    fn flag(&self, at: usize) -> bool {
        self.0["Concrete Inputs"][at] == "True"
    }

    fn size(&self, at: usize) -> u64 {
        match self.0["Input type"][at].as_str().expect("a type") {
            "float" => 4,
            "c10::BFloat16" | "c10::Half" => 2,
            "long int" => 8,
            other => panic!("{other}"),
        }
    }

    fn bytes(&self, at: usize) -> u64 {
        self.dims(at).iter().product::<u64>() * self.size(at)
    }
}

/// Operations and bytes of a call, as written down from the op's definition; `None` for ops that
/// the test leaves out.
fn work(name: &str, of: &Arguments<'_>) -> Option<(u64, u64)> {
    let elements = |at: usize| of.dims(at).iter().product::<u64>();
    Some(match name {
        "aten::mm" | "aten::bmm" => {
            let (a, b) = (of.dims(0), of.dims(1));
            let (k, n) = (a[a.len() - 1], b[b.len() - 1]);
            let out = elements(0) / k * n;
            (2 * out * k, of.bytes(0) + of.bytes(1) + out * of.size(0))
        }
        "aten::addmm" => {
            let (a, b) = (of.dims(1), of.dims(2));
            let read = of.bytes(0) + of.bytes(1) + of.bytes(2);
            (2 * a[0] * a[1] * b[1], read + a[0] * b[1] * of.size(1))
        }
        "aten::cudnn_convolution" => {
            let (input, weight) = (of.dims(0), of.dims(1));
            let (padding, stride, dilation) = (of.list(2), of.list(3), of.list(4));
            let out: u64 = (0..2)
                .map(|at| {
                    let reach = dilation[at] * (weight[2 + at] - 1) + 1;
                    (input[2 + at] + 2 * padding[at] - reach) / stride[at] + 1
                })
                .product::<u64>()
                * input[0]
                * weight[0];
            let per_output: u64 = weight[1..].iter().product();
            let bytes = of.bytes(0) + of.bytes(1) + out * of.size(0);
            (2 * out * per_output, bytes)
        }
        "aten::_cudnn_attention_forward" => {
            let (query, key, value) = (of.dims(0), of.dims(1), of.dims(2));
            let [b, h, s, d] = query[..] else { panic!() };
            let (t, e) = (key[2], value[3]);
            let pairs = if of.flag(10) {
                assert_eq!(s, t);
                s * (s + 1) / 2
            } else {
                s * t
            };
            let read = of.bytes(0) + of.bytes(1) + of.bytes(2);
            (
                2 * b * h * pairs * (d + e),
                read + b * h * s * e * of.size(0),
            )
        }
        "aten::_softmax" => {
            let written = elements(0) * if of.flag(2) { 4 } else { of.size(0) };
            (elements(0), of.bytes(0) + written)
        }
        "aten::native_layer_norm" => {
            // the mean and the deviation of each row are floats
            let rows = elements(0) / of.list(1).iter().product::<u64>();
            let weights = of.bytes(2) + of.bytes(3);
            (elements(0), 2 * of.bytes(0) + weights + 8 * rows)
        }
        "aten::gelu" | "aten::silu" | "aten::relu" => (elements(0), 2 * of.bytes(0)),
        _ => return None,
    })
}

/// Calls, rows and time of an op, and the work of a call.
type CallSums = (BTreeSet<u64>, u64, i64, Option<(u64, u64)>);

/// Returns the values of a call, with all numbers with a fraction made the same.
fn without_fractions(values: &Value) -> Value {
    match values {
        Value::Array(items) => items.iter().map(without_fractions).collect(),
        Value::String(text) if text.starts_with('[') => {
            let items = text.trim_matches(['[', ']']).split(", ");
            items.map(|item| without_fractions(&json!(item))).collect()
        }
        Value::String(text) => match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number.fract() != 0.0 => json!("fraction"),
            _ => values.clone(),
        },
        other => other.clone(),
    }
}

/// Returns the ranges of the steps that count, in us: a first step may be left out.
fn counted_steps(path: &str, events: &[Value]) -> Vec<Range<f64>> {
    let analyzed = Tool::new().run(&format!("analyze {path} --json")).exits(0);
    let analyzed = analyzed.only_run();
    let steps = analyzed["ranks"][0]["steps"].as_array().expect("steps");
    let counted = steps.iter().filter(|step| step["excluded"].is_null());
    let ranges = counted.map(|step| {
        let is_step =
            |event: &&Value| event["cat"] == "user_annotation" && event["name"] == step["name"];
        let range = events.iter().find(is_step).expect("a range");
        let [begin, length] = ["ts", "dur"].map(|key| range[key].as_f64().expect("a time"));
        begin..begin + length
    });
    ranges.collect()
}

#[test]
fn times_and_work_are_those_of_the_raw_trace() {
    let mut classes: BTreeSet<String> = BTreeSet::new();
    for case in [
        "ops-sweep",
        "gpt2",
        "llama-forward",
        "vit",
        "bert",
        "lm-large",
    ] {
        let events = events(case);
        let id = |event: &Value| event["args"]["External id"].as_u64();
        let path = trace(case).display().to_string();
        let counted = counted_steps(&path, &events);
        let is_counted = |event: &&Value| {
            let at = event["ts"].as_f64().expect("a time");
            event["cat"] == "cpu_op" && counted.iter().any(|step| step.contains(&at))
        };
        let ops = events.iter().filter(is_counted);
        let ops: BTreeMap<_, _> = ops.filter_map(|op| Some((id(op)?, op))).collect();
        let mut sums: BTreeMap<String, CallSums> = BTreeMap::new();
        let texts = [
            "Input Dims",
            "Input type",
            "Input Strides",
            "Concrete Inputs",
        ];
        for row in &events {
            let kinds = ["kernel", "gpu_memcpy", "gpu_memset"];
            let is_row = kinds.iter().any(|kind| row["cat"] == *kind);
            let Some(op) = id(row).filter(|_| is_row).and_then(|id| ops.get(&id)) else {
                continue;
            };
            let mut arguments = texts.map(|text| op["args"][text].clone());
            arguments[3] = without_fractions(&arguments[3]);
            let sum = sums.entry(json!([op["name"], arguments]).to_string());
            let sum = sum.or_default();
            sum.0.insert(id(row).expect("an id"));
            sum.1 += 1;
            sum.2 += (row["dur"].as_f64().expect("a time") * 1e3).round() as i64;
            let name = op["name"].as_str().expect("a name");
            sum.3 = work(name, &Arguments(&op["args"]));
            if sum.3.is_some() {
                classes.insert(name.to_owned());
            }
        }
        let printed = printed(&path, "");
        let printed = printed.iter().filter(|row| row["op"] != "");
        let mut found = 0;
        for row in printed {
            let list = |name: &str| -> Value {
                serde_json::from_str(row[name].as_str().expect("a text")).expect("a list")
            };
            let mut arguments = ["shapes", "types", "strides", "values"].map(list);
            arguments[3] = without_fractions(&arguments[3]);
            let key = json!([row["op"], arguments]).to_string();
            let (calls, rows, ns, work) = &sums[&key];
            let calls = calls.len() as u64;
            let counts = json!([calls, rows, ns]);
            assert_eq!(
                json!([row["count"], row["rows"], row["sum_ns"]]),
                counts,
                "{case} {key}"
            );
            if let Some((operations, bytes)) = work {
                let want = json!([operations * calls, bytes * calls]);
                assert_eq!(
                    json!([row["operations"], row["bytes"]]),
                    want,
                    "{case} {key}"
                );
            }
            found += 1;
        }
        assert_eq!(found, sums.len(), "{case}");
    }
    assert_eq!(classes.len(), 9, "{classes:?}");
}

#[test]
fn ops_of_the_host_count_all_their_calls() {
    let file = pairs().join("transformer-2.15.0/kineto_trace_0.json.gz");
    let packed = std::fs::read(&file).expect("a recording");
    let trace: Value = serde_json::from_reader(GzDecoder::new(&packed[..])).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let path = file.display().to_string();
    let counted = counted_steps(&path, events);
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for event in events {
        let at = event["ts"].as_f64().unwrap_or(f64::NAN);
        if event["cat"] == "cpu_op" && counted.iter().any(|step| step.contains(&at)) {
            let texts = [
                "Input Dims",
                "Input type",
                "Input Strides",
                "Concrete Inputs",
            ];
            let arguments = texts.map(|text| event["args"][text].clone());
            let key = json!([event["name"], without_fractions(&json!(arguments))]);
            *calls.entry(key.to_string()).or_default() += 1;
        }
    }
    let mut shown: BTreeMap<String, u64> = BTreeMap::new();
    for row in printed(&path, "") {
        let list = |name: &str| -> Value {
            serde_json::from_str(row[name].as_str().expect("a text")).unwrap_or_default()
        };
        let arguments = ["shapes", "types", "strides", "values"].map(list);
        let key = json!([row["op"], without_fractions(&json!(arguments))]).to_string();
        *shown.entry(key).or_default() += row["count"].as_u64().expect("a count");
    }
    assert!(shown.len() > 40, "{}", shown.len());
    for (key, count) in shown {
        assert_eq!(Some(&count), calls.get(&key), "{key}");
    }
}

#[test]
fn a_device_trace_alone_knows_the_work_of_lists_that_it_shows() {
    /// Calls, operations and bytes of ops of lists; no bytes if those of any call are unknown.
    fn lists(path: &str) -> BTreeMap<String, (u64, u64, Option<u64>)> {
        let mut sums: BTreeMap<String, (u64, u64, Option<u64>)> = BTreeMap::new();
        for row in printed(path, "") {
            let name = row["op"].as_str().expect("a name");
            if name == "aten::cat" || name.starts_with("aten::_foreach") {
                let sum = sums.entry(name.to_owned()).or_insert((0, 0, Some(0)));
                sum.0 += row["count"].as_u64().expect("a count");
                sum.1 += row["operations"].as_u64().unwrap_or(0);
                let both = sum.2.zip(row["bytes"].as_u64());
                sum.2 = both.map(|(sum, bytes)| sum + bytes);
            }
        }
        sums
    }
    // Kineto leaves out the shapes of lists of more than 30 tensors; a list of two types is copied
    // by kernels that name none
    for (case, unknown) in [
        ("nccl", 0),
        ("loader-base", 0),
        ("llama-forward", 1),
        ("gpt2", 7),
    ] {
        let path = trace(case);
        let alone = lists(&path.display().to_string());
        let paired = lists(&path.with_file_name("").display().to_string());
        assert!(alone.keys().eq(paired.keys()), "{case}");
        let mut seen = 0;
        for (name, sums) in &alone {
            if sums.2.is_some() {
                assert_eq!(sums, &paired[name], "{case} {name}");
            } else {
                assert!(paired[name].2.is_some(), "{case} {name}");
                seen += 1;
            }
        }
        assert_eq!(seen, unknown, "{case}");
    }
}

#[test]
fn shares_add_up_and_roofs_follow_from_the_peaks() {
    let tool = Tool::new();
    // bf16 at a tenth of the sheet's rate, and memory that is never the bound
    tool.file("own.txt", "h200 | - | - - - - 98.95 - | 1e9 | - | a test\n");
    let folder = trace("llama-forward")
        .with_file_name("")
        .display()
        .to_string();
    let own = format!("--peaks {}", tool.path("own.txt").display());
    let (sheet, own) = (printed(&folder, ""), printed(&folder, &own));
    let share: f64 = sheet.iter().filter_map(|row| row["share"].as_f64()).sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    assert!(sheet.iter().all(|row| row["formula"] != Value::Null));
    let mm = |rows: &[Value]| {
        let row = rows.iter().find(|row| row["op"] == "aten::mm").cloned();
        row.expect("a product")
    };
    let (by_sheet, by_own) = (mm(&sheet), mm(&own));
    let operations = by_sheet["operations"].as_f64().expect("operations");
    for (row, tflops) in [(&by_sheet, 989.5), (&by_own, 98.95)] {
        let roof = row["roof_ns"].as_f64().expect("a roof");
        assert!((roof - operations / tflops / 1e3).abs() < 1.0, "{row}");
        assert_eq!(row["bound"], "compute");
        let share = row["roof_share"].as_f64().expect("a share");
        let sum = row["sum_ns"].as_f64().expect("a time");
        assert!((share - roof / sum).abs() < 1e-9, "{row}");
    }
    tool.file("bad.txt", "h200 | fast\n");
    let line = format!("ops {folder} --peaks {}", tool.path("bad.txt").display());
    tool.run(&line).exits(2).complains(&["bad.txt: line 1 "]);
}

#[test]
fn work_that_is_not_known_is_not_printed() {
    // the shapes of a Triton kernel do not show what it reads and writes
    let path = trace("compile-changed").display().to_string();
    let [row] = &printed(&path, "")[..] else {
        panic!("one op")
    };
    for figure in ["operations", "bytes", "bound", "roof_ns", "formula"] {
        assert!(row[figure].is_null(), "{figure}: {row}");
    }
    // a kernel of a graph launch belongs to no op, though an annotation surrounds its launch
    let path = trace("graphs-changed").display().to_string();
    let rows = printed(&path, "");
    assert!(
        rows.iter()
            .all(|row| row["op"] == "" && row["count"] == row["rows"])
    );
    let ran = Tool::new().run(&format!("ops {path}")).exits(0);
    assert!(
        ran.stdout.contains("work is known for 0.0 %"),
        "{}",
        ran.stdout
    );
}

#[test]
fn csv_has_a_line_per_op_and_rank() {
    let folder = "{pairs}/../gpu/recorder-gloo2";
    let ran = Tool::new().run(&format!("ops {folder} --csv")).exits(0);
    let mut lines = csv::Reader::from_reader(ran.stdout.as_bytes());
    let head = lines.headers().expect("a head").clone();
    assert_eq!(
        head.iter().take(4).collect::<Vec<_>>(),
        ["run", "rank", "op", "shapes"]
    );
    let ranks: BTreeSet<String> = lines
        .records()
        .map(|line| line.expect("a line")[1].to_owned())
        .collect();
    assert_eq!(ranks.len(), 2);
}

#[test]
fn the_line_of_a_backward_op_is_that_of_its_forward_op() {
    let mut events = vec![];
    let mut add = |category: &str, name: &str, tid: i64, (ts, dur): (i64, i64), args: Value| {
        events.push(json!({
            "ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args
        }));
    };
    for (name, ts, id) in [
        ("train.py(9): main", 0, 1),
        ("torch/nn/linear.py(3): forward", 2, 2),
    ] {
        add(
            "python_function",
            name,
            1,
            (ts, 90 - ts),
            json!({"Python id": id}),
        );
    }
    for (name, tid, ts, id, forward) in [("aten::mm", 1, 10, 5, 0), ("MmBackward0", 2, 60, 6, 7)] {
        let op = json!({
            "External id": id, "Sequence number": 4, "Fwd thread id": forward,
            "Input Dims": [[8, 16], [16, 4]], "Input type": ["float", "float"]
        });
        add("cpu_op", name, tid, (ts, 20), op);
        let call = json!({"External id": id, "correlation": id});
        add("cuda_runtime", "cudaLaunchKernel", tid, (ts + 1, 2), call);
        let row = json!({"External id": id, "correlation": id, "stream": 7, "device": 0});
        add("kernel", "sgemm", 7, (ts + 5, 3), row);
    }
    let tool = Tool::new();
    let document = json!({"schemaVersion": 1, "traceEvents": events});
    let path = tool.file("kineto_trace_0.json", document.to_string());
    let rows = printed(&path.display().to_string(), "");
    let lines = rows
        .iter()
        .map(|row| (&row["op"], &row["line"], &row["operations"]));
    let line = json!("train.py(9): main");
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            (&json!("aten::mm"), &line, &json!(2 * 8 * 16 * 4)),
            (&json!("MmBackward0"), &line, &Value::Null),
        ]
    );
}

#[test]
fn workbooks_are_the_same_bytes_each_time_and_replace_nothing() {
    let tool = Tool::new();
    let run = "{pairs}/ddp2-2.15.0";
    for command in ["ops", "analyze", "ranks", &format!("diff {run}")] {
        let name = command.split(' ').next().expect("a name");
        for book in ["one", "two"] {
            let line = format!("{command} {run} -o {name}-{book}.xlsx");
            tool.run(&line).exits(0);
        }
        let [one, two] = ["one", "two"].map(|book| tool.read(&format!("{name}-{book}.xlsx")));
        assert!(one.starts_with(b"PK") && one == two, "{name}");
        let line = format!("{command} {run} -o {name}-one.xlsx");
        tool.run(&line).exits(2).complains(&["exists"]);
        tool.run(&format!("{line} -f")).exits(0);
    }
    let line = format!("ops {run} -o ops.csv");
    tool.run(&line).exits(2).complains(&["ops.csv", ".xlsx"]);
}

#[test]
fn a_line_says_what_a_recording_lacks() {
    let of = |case: &str| {
        let line = format!("inspect {} --json", trace(case).display());
        let facts = Tool::new().run(&line).exits(0).only_file();
        facts["recording"].as_str().expect("a line").to_owned()
    };
    let shown = of("gpt2");
    assert!(
        shown.starts_with("2 steps, 14238 ops, shapes, no stacks, 2414 device rows, no sync rows")
    );
    assert!(
        shown.contains("with_stack=True") && !shown.contains("record_shapes=True"),
        "{shown}"
    );
    let shown = of("graphs-changed");
    assert!(
        shown.contains("3 graph launches without their capture"),
        "{shown}"
    );
    assert!(
        shown.contains("no ops") && shown.contains("--capture"),
        "{shown}"
    );
    let run = "analyze {pairs}/../gpu/recorder-gloo2";
    let document = Tool::new()
        .run(&format!("{run} --json"))
        .exits(0)
        .only_run();
    let content = &document["ranks"][0]["recording"];
    assert_eq!(
        json!([content["ranks"], content["has_shapes"]]),
        json!([1, true])
    );
    let shown = Tool::new().run(run).exits(0).stdout;
    let line = shown.lines().find(|line| line.starts_with("recording: "));
    assert!(
        line.is_some_and(|line| line.contains(" steps, ")),
        "{shown}"
    );
}

#[test]
fn a_narrow_table_keeps_the_time_and_the_loss() {
    let line = format!("ops {}", trace("vit").display());
    let ran = Tool::new().run_in(&line, &[("COLUMNS", "80")]).exits(0);
    let heads: BTreeSet<&str> = ran.stdout.split_whitespace().collect();
    let left_out = ran
        .stdout
        .split("left out to fit: ")
        .nth(1)
        .expect("a line");
    for head in ["sum", "lost", "roof"] {
        let is_left_out = left_out.split([',', '\n']).any(|name| name.trim() == head);
        assert!(
            heads.contains(head) && !is_left_out,
            "{head}: {}",
            ran.shown()
        );
    }
}
