//! `etlink replay` on recordings, on a small generated trace, and on foreign files.

use crate::tool::{Tool, pairs};
use etlink_testing::{DeviceQueue, TraceBuilder};
use serde_json::{Value, json};

const MLP: &str = "--host {pairs}/mlp-2.15.0/torch_et_0.json.gz \
    {pairs}/mlp-2.15.0/kineto_trace_0.json.gz";

/// An op that launches a kernel on each of two streams and a second one on the first, in
/// microseconds:
/// ```text
/// thread 21  step======================================50
///              launch 10   launch 20   launch 30
/// stream 7         gemm 16=============46 relu 47==57
/// stream 8                     copy 26=====36
/// ```
fn drawn() -> String {
    let mut events = vec![event("cpu_op", "step", (100, 21), (0, 50), json!({}))];
    for (name, stream, call, start, duration) in [
        ("gemm", 7, 10, 16, 30),
        ("Memcpy DtoH (Device -> Pinned)", 8, 20, 26, 10),
        ("relu", 7, 30, 47, 10),
    ] {
        let args = json!({"correlation": call, "External id": 1});
        events.push(event(
            "cuda_runtime",
            "cudaLaunchKernel",
            (100, 21),
            (call, 3),
            args,
        ));
        let category = if stream == 8 { "gpu_memcpy" } else { "kernel" };
        let args = json!({"correlation": call, "External id": 1, "device": 0, "context": 1,
            "stream": stream});
        events.push(event(category, name, (0, stream), (start, duration), args));
    }
    json!({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": events}).to_string()
}

fn event(category: &str, name: &str, place: (i64, i64), time: (i64, i64), args: Value) -> Value {
    json!({"ph": "X", "cat": category, "name": name, "pid": place.0, "tid": place.1,
        "ts": 1_000 + time.0, "dur": time.1, "args": args})
}

fn assert_true(figures: &Value, what: &str) {
    let below = |key: &str, value: &Value| {
        assert!(
            value.as_f64().is_some_and(|error| error <= 0.01),
            "{what}: {key} is {value}"
        )
    };
    below("replay error", &figures["replay_error"]);
    below("end error", &figures["end_error"]["mean_share"]);
    assert_eq!(figures["contradictions"]["edges"], 0, "{what}");
}

#[test]
fn every_recorded_pair_gives_its_measured_times_back() {
    let tool = Tool::new();
    let mut ranks = 0;
    for case in std::fs::read_dir(pairs()).expect("pairs") {
        let case = case
            .expect("entry")
            .file_name()
            .to_string_lossy()
            .into_owned();
        for rank in 0.. {
            let [host, device] =
                ["torch_et", "kineto_trace"].map(|name| format!("{case}/{name}_{rank}.json.gz"));
            if !pairs().join(&device).exists() {
                break;
            }
            let pair = format!("--host {{pairs}}/{host} {{pairs}}/{device} --overwrite");
            let told = tool
                .run(&format!("replay {pair} --critical-path --json"))
                .exits(0)
                .only_run();
            assert_true(&told["figures"], &device);
            let path = &told["critical_path"];
            let causes = path["causes"].as_object().expect("causes").values();
            assert_eq!(
                causes
                    .map(|time| time["ns"].as_i64().expect("ns"))
                    .sum::<i64>(),
                path["makespan_ns"],
                "{device}"
            );
            tool.run(&format!("link {pair} -o out.et")).exits(0);
            let file = tool.run("replay out.et --json").exits(0).only_run();
            assert_true(&file["figures"], &device);
            assert_eq!(
                file["figures"]["nodes"], told["figures"]["nodes"],
                "{device}"
            );
            assert_eq!(
                file["figures"]["replayed_ns"], told["figures"]["replayed_ns"],
                "{device}"
            );
            ranks += 1;
        }
    }
    assert!(ranks > 30, "{ranks} ranks");
}

#[test]
fn the_table_tells_how_true_the_graph_is() {
    let tool = Tool::new();
    let ran = tool
        .run(&format!("replay {MLP} --critical-path -j 1 -v"))
        .exits(0);
    ran.says("cross-step")
        .says("no inferred edges")
        .says("program order")
        .says("critical path")
        .says("host");
}

#[test]
fn a_kineto_trace_is_linked_and_replayed_from_anywhere() {
    let tool = Tool::new();
    tool.file("trace.json", drawn());
    let file = tool.run("replay trace.json --json").exits(0).only_run();
    let figures = &file["figures"];
    assert_true(figures, "drawn");
    assert_eq!(
        (
            &figures["device_ops"],
            &figures["streams"],
            &figures["measured_ns"]
        ),
        (&json!(3), &json!(2), &json!(57_000))
    );
    let launch = &figures["by_edge"]["launch"];
    assert_eq!(
        (
            &launch["count"],
            &launch["decided"],
            &launch["latency"]["max_ns"]
        ),
        (&json!(3), &json!(2), &json!(6_000))
    );
    let piped = tool
        .run_with("replay - --json", drawn().as_bytes())
        .exits(0)
        .only_run();
    assert_eq!(&piped["figures"], figures);
    let device = tool.run("replay trace.json --json").exits(0).only_run();
    assert_eq!(device, file);
    // a file has less detail about edges, but the same times
    tool.run("link --device trace.json -o out.et").exits(0);
    let written = tool.run("replay out.et --json").exits(0).only_run();
    assert_eq!(&written["figures"], figures);
}

#[test]
fn what_if_questions_change_the_makespan() {
    let tool = Tool::new();
    tool.file("trace.json", drawn());
    let change = |options: &str| {
        let words: Vec<String> = options.split('|').map(|word| format!("'{word}'")).collect();
        let told = tool
            .shell(&format!(
                "$ETLINK replay trace.json --json {}",
                words.join(" ")
            ))
            .exits(0)
            .only_run();
        assert_true(&told["figures"], options);
        (
            told["what_if"]["change_ns"].as_i64(),
            told["what_if"]["device_end_change_ns"].as_i64(),
        )
    };
    assert_eq!(
        change("--scale|gemm=0.5"),
        (Some(-7_000), Some(-11_000)),
        "then the host thread ends last, and relu starts 5 us after its own launch"
    );
    assert_eq!(
        change("--scale|kind=device 2.0"),
        (Some(40_000), Some(40_000))
    );
    assert_eq!(
        change("--scale|g?mm*=2|--scale|gemm=0.5"),
        (Some(0), Some(0))
    );
    assert_eq!(
        change("--drop-edges|stream-order"),
        (Some(-7_000), Some(-11_000))
    );
    assert_eq!(change("--resources"), (None, None));
    tool.shell("$ETLINK replay trace.json --scale 'kind=device 2.0' --drop-edges launch")
        .exits(0)
        .says("kind=device 2.0, without launch");
}

#[test]
fn a_rule_that_concerns_nothing_is_refused_with_what_there_is() {
    let tool = Tool::new();
    tool.file("trace.json", drawn());
    for (rule, option, instead) in [
        (
            "--scale gem=0.5",
            "--scale gem=0.5",
            "no node has that name; similar names: gemm",
        ),
        (
            "--scale 'kind=collective 9'",
            "--scale kind=collective 9",
            "no node of that kind; kinds: host_op, runtime, kernel",
        ),
        (
            "--scale 'rank=1/gemm=2'",
            "--scale rank=1/gemm=2",
            "no rank 1",
        ),
        (
            "--drop-edges tensor",
            "--drop-edges tensor",
            "no edge of that kind; kinds: program_order, launch, stream_order",
        ),
        (
            "--explain Relu",
            "--explain Relu",
            "no node has that name; similar names: relu",
        ),
    ] {
        tool.shell(&format!("$ETLINK replay trace.json {rule}"))
            .exits(2)
            .complains(&["trace.json", option, instead]);
    }
    // one matching rule does not excuse another
    tool.run("replay trace.json --scale gemm=2 --scale gem=2")
        .exits(2)
        .complains(&["--scale gem=2: changes nothing"]);
}

#[test]
fn a_node_is_explained() {
    let tool = Tool::new();
    tool.file("trace.json", drawn());
    let told = tool
        .run("replay trace.json --explain relu --json")
        .exits(0)
        .only_run();
    let told = &told["explanation"];
    assert_eq!(
        (&told["name"], &told["place"], &told["latency_ns"]),
        (
            &json!("relu"),
            &json!("stream 7 of device 0"),
            &json!(1_000)
        )
    );
    let deps = told["deps"].as_array().expect("deps");
    assert_eq!(
        (
            &deps[0]["edge"],
            &deps[0]["decided"],
            &deps[0]["from"]["name"]
        ),
        (&json!("stream_order"), &json!(true), &json!("gemm"))
    );
    assert_eq!(
        (&deps[1]["edge"], &deps[1]["decided"], &deps[1]["slack_ns"]),
        // 16 us after the call; 5 us of them are a launch's own time
        (&json!("launch"), &json!(false), &json!(11_000))
    );
    assert!(
        deps[1]["evidence"]
            .as_str()
            .is_some_and(|text| text.contains("thread 21") && text.contains("correlation 30")),
        "{told}"
    );
    let number = told["node"].as_u64().expect("number");
    tool.run(&format!("replay trace.json --explain {number}"))
        .exits(0)
        .says("decided")
        .says("stream order")
        .says("correlation 30");
    tool.run("replay trace.json --explain softmax")
        .exits(2)
        .complains(&["trace.json", "softmax"]);
}

#[test]
fn what_cannot_be_replayed_is_refused_with_a_reason() {
    let tool = Tool::new();
    tool.run("replay").exits(2);
    tool.run("replay nowhere.et")
        .exits(2)
        .complains(&["nowhere.et"]);
    tool.file("empty.et", "");
    tool.run("replay empty.et")
        .exits(2)
        .complains(&["empty.et is empty"]);
    tool.file("text.et", "no trace at all");
    tool.run("replay text.et")
        .exits(2)
        .complains(&["text.et is an unknown kind of file"]);
    tool.run("replay {pairs}/mlp-2.15.0/torch_et_0.json.gz")
        .exits(2)
        .complains(&[
            "is a PyTorch execution trace",
            "--host, with the device trace",
        ]);
    tool.run(&format!("link {MLP} -o merged.json")).exits(0);
    let merged = String::from_utf8_lossy(&tool.read("merged.json")).into_owned();
    tool.file("untimed.json", merged.replace("\"ts\":", "\"other\":"));
    tool.run("replay untimed.json")
        .exits(2)
        .complains(&["untimed.json", "none of its nodes has a time"]);
    tool.file("trace.json", drawn());
    for (option, word) in [
        ("--scale=gemm", "factor"),
        ("--scale=gemm=-1", "at least 0"),
        ("--scale=kind=gpu=2", "kinds: "),
        ("--drop-edges=x", "event_wait"),
    ] {
        let ran = tool.run(&format!("replay trace.json {option}")).exits(2);
        assert!(ran.stderr.contains(word), "{option}: {}", ran.stderr);
    }
}

#[test]
fn a_file_of_others_runs_without_starts_and_cycles_are_named() {
    let tool = Tool::new();
    let node = |id: u64, name: &str, deps: &[u64]| {
        json!({"id": id, "name": name, "type": "COMP_NODE", "ctrlDeps": deps,
            "durationMicros": "5"})
        .to_string()
    };
    tool.file(
        "ok.json",
        [
            r#"{"version": "0.0.4"}"#,
            &node(9, "last", &[4, 77]),
            &node(4, "first", &[]),
        ]
        .join("\n"),
    );
    let told = tool.run("replay ok.json --json").exits(0).only_run();
    assert_eq!(
        (
            &told["figures"]["replayed_ns"],
            &told["figures"]["replay_error"]
        ),
        (&json!(10_000), &Value::Null)
    );
    tool.run("replay ok.json --explain 9")
        .exits(0)
        .notes("dependencies on nodes that are missing from the file, left out: 1")
        .notes("no start time")
        .says("first");
    tool.file(
        "circle.json",
        [
            r#"{"version": "0.0.4"}"#,
            &node(9, "one", &[4]),
            &node(4, "other", &[9]),
        ]
        .join("\n"),
    );
    tool.run("replay circle.json").exits(2).complains(&[
        "circle.json",
        "circle",
        "node 9 \"one\"",
        "node 4 \"other\"",
    ]);
}

#[test]
fn damage_is_refused_only_under_strict() {
    let tool = Tool::new();
    let trace = drawn();
    tool.file("cut.json", &trace[..trace.len() - 40]);
    tool.run("replay cut.json")
        .exits(0)
        .notes("note: damage: the file is truncated");
    tool.run("replay cut.json --strict")
        .exits(1)
        .complains(&["cut.json", "--strict"]);
}

/// Generates two kernels of one kind and one of another, on a device that is never idle between
/// them.
fn named_kernels() -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let us = 1_000;
    let elementwise = |functor: &str| {
        format!(
            "void at::native::vectorized_elementwise_kernel<4, at::native::{functor}<float>, \
             std::array<char*, 2ul> >(int, at::native::{functor}<float>, std::array<char*, 2ul>)"
        )
    };
    let kernels = [
        ("sm80_gemm_128x64".to_owned(), 100),
        (elementwise("MulFunctor"), 40),
        (elementwise("AddFunctor"), 20),
    ];
    let mut start = 20;
    for (at, (kernel, micros)) in (0..).zip(kernels) {
        draw.launch(
            main,
            ((2 * at + 1) * us, (2 * at + 2) * us),
            DeviceQueue::stream(7),
            &kernel,
            (start * us, (start + micros) * us),
        );
        start += micros;
    }
    draw.kineto()
}

#[test]
fn kernels_are_named_as_tables_print_them_or_by_class() {
    let tool = Tool::new();
    tool.file("trace.json", named_kernels());
    let change = |rule: &str| {
        let args = ["replay", "trace.json", "--json", "--scale", rule];
        let report = tool.run_words(&args.map(String::from)).exits(0).only_run();
        report["what_if"]["change_ns"].as_i64().expect("a number")
    };
    assert_eq!(change("class=gemm=0.5"), -50_000);
    assert_eq!(change("class=elementwise 0.5"), -30_000);
    assert_eq!(
        change("vectorized_elementwise_kernel<MulFunctor>=0.5"),
        -20_000
    );
    assert_eq!(change("vectorized_ele…<AddF…=0.5"), -10_000);
    // the trace's name keeps its meaning
    assert_eq!(change("*MulFunctor*=0"), -40_000);
    let refused = |option: &str, value: &str, parts: &[&str]| {
        let args = ["replay", "trace.json", option, value];
        tool.run_words(&args.map(String::from))
            .exits(2)
            .complains(parts);
    };
    refused(
        "--scale",
        "vectorized_elementwise_kernel=0.5",
        &[
            "the name matches several kernels",
            "<AddFunctor>",
            "<MulFunctor>",
        ],
    );
    refused(
        "--scale",
        "class=conv=0.5",
        &["no kernel of class \"conv\"", "elementwise, gemm"],
    );
    refused(
        "--explain",
        "vectorized_elementwise_kernel",
        &["the name matches several kernels"],
    );
    let args = [
        "replay",
        "trace.json",
        "--json",
        "--explain",
        "class=elementwise",
    ];
    let report = tool.run_words(&args.map(String::from)).exits(0).only_run();
    let name = report["explanation"].to_string();
    assert!(name.contains("MulFunctor"), "{name}");
}

/// A polling thread outlasts all work, like NCCL's watchdog.
#[test]
fn a_what_if_says_what_it_is_compared_with() {
    let mut draw = TraceBuilder::default();
    let (main, watchdog) = (draw.thread(), draw.thread());
    draw.op(main, "aten::mm", 0, 10_000);
    draw.launch(
        main,
        (2_000, 6_000),
        DeviceQueue::stream(7),
        "gemm",
        (9_000, 109_000),
    );
    for query in 0..4 {
        let start = 500_000 + query * 100_000;
        draw.call(watchdog, "cudaEventQuery", (start, start + 1_000), None);
    }
    let tool = Tool::new();
    tool.file("trace.json", draw.kineto());
    let question = "replay trace.json --scale 'gemm=0.5'";
    let ran = tool.shell(&format!("$ETLINK {question} --json")).exits(0);
    let what_if = &ran.only_run()["what_if"];
    let times = ["unchanged_ns", "makespan_ns", "change_ns"].map(|key| what_if[key].as_i64());
    assert_eq!(times, [Some(109_000), Some(59_000), Some(-50_000)]);
    tool.shell(&format!("$ETLINK {question}"))
        .exits(0)
        .says("109.000 us -> 59.000 us")
        .says("replayed, the whole recording");
}

#[test]
fn questions_have_names_and_answers_a_range() {
    let tool = Tool::new();
    tool.file("trace.json", drawn());
    let told = tool
        .run("replay trace.json --what-if graphs --scale kind=device=2 --json")
        .exits(0)
        .only_run();
    let what_if = &told["what_if"];
    assert_eq!(what_if["questions"][0]["question"], json!("graphs"));
    let range = &what_if["range"];
    assert!(
        range["least_change_ns"].as_i64() <= range["most_change_ns"].as_i64(),
        "{range}"
    );
    tool.run("replay trace.json --what-if graphs")
        .exits(0)
        .says("in any case")
        .says("can be captured if it takes no longer");
    tool.run("replay trace.json --what-if grafs")
        .exits(2)
        .notes("questions: graphs, fuse=REGEX");
    tool.run("replay trace.json --what-if overlap-comm")
        .complains(&["trace.json", "it has no communication"]);
}

#[test]
fn a_trace_predicts_itself() {
    let tool = Tool::new();
    tool.file("trace.json", drawn());
    let told = tool
        .run("replay --validate trace.json trace.json --json")
        .exits(0)
        .json();
    assert_eq!(told["error"], json!(0.0), "{told}");
    assert_eq!(told["only_before"]["nodes"], json!(0), "{told}");
    tool.run("replay --validate trace.json trace.json")
        .exits(0)
        .says("predicted")
        .says("in both runs");
}

#[test]
fn a_written_graph_says_what_other_readers_get() {
    let tool = Tool::new();
    tool.file("trace.json", drawn());
    tool.run("link --device trace.json -o out.et").exits(0);
    let told = tool.run("replay out.et --json").exits(0).only_run();
    let error = told["stock_replay"]["error"].as_f64();
    // 57, rounded to whole microseconds
    assert!(error.is_some_and(|error| error < 0.05), "{told}");
    tool.run("replay out.et").exits(0).says("duration_micros");
}
