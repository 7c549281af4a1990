//! Compares the figures of `etlink analyze` with manual results for generated runs.

use crate::tool::{Tool, unpacked};
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, TraceBuilder};
use serde_json::{Value, json};

const US: i64 = 1_000;

/// Generates a rank of two, with this device work:
/// ```text
/// us         0    10   20   30   40   50   60   70   80   90  100
/// stream 7   gemm======     gemm======               copy=====
/// stream 20       all_reduce=====          my_reduce==
/// ```
pub(crate) fn draw(rank: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    let mm = draw.op(main, "aten::mm", 0, 30 * US);
    draw.arg(mm, "Input Dims", "[[100, 100], [100, 100]]");
    draw.arg(mm, "Input type", r#"["float", "float"]"#);
    let at = |start: i64, end: i64| (100 * US + start * US, 100 * US + end * US);
    draw.launch(
        main,
        (5 * US, 8 * US),
        DeviceQueue::stream(7),
        "sm80_gemm",
        at(0, 20),
    );
    let comms = ParamComms::new("allreduce", 0..2, rank, 1);
    let id = draw.next_correlation();
    draw.call(main, "cudaLaunchKernelExC", (9 * US, 10 * US), id);
    draw.collective_kernel(
        DeviceQueue::stream(20),
        "ncclDevKernel_AllReduce_Sum_f32",
        at(10, 30),
        id,
        &comms,
    );
    draw.launch(
        main,
        (11 * US, 12 * US),
        DeviceQueue::stream(7),
        "sm80_gemm",
        at(20, 40),
    );
    draw.launch(
        main,
        (13 * US, 14 * US),
        DeviceQueue::stream(20),
        "ours_exchange",
        at(50, 60),
    );
    let id = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", (15 * US, 16 * US), id);
    draw.memcpy(
        DeviceQueue::stream(7),
        "Memcpy DtoD (Device -> Device)",
        at(80, 100),
        id,
        40_000,
    );
    draw
}

fn table(json: &Value, rank: usize, name: &str) -> Vec<Value> {
    json[0]["ranks"][rank][name]
        .as_array()
        .unwrap_or_else(|| panic!("no table {name}"))
        .clone()
}

#[test]
fn device_time_by_class() {
    let tool = Tool::new();
    tool.file("trace.json", draw(0).kineto());
    let breakdown = |ran: crate::tool::Ran| table(&ran.exits(0).runs(), 0, "breakdown");
    let want = json!([{
        "device": 0, "start_ns": 0, "window_ns": 200_000, "outside_ns": 0, "computation_ns": 50_000,
          "exposed_communication_ns": 0,
        "exposed_memory_ns": 20_000, "exposed_other_ns": 0, "idle_ns": 130_000,
          "communication_ns": 20_000, "memory_ns": 20_000,
        "overlap_ns": 20_000, "overlap_share": 1.0,
    }]);
    assert_eq!(
        breakdown(tool.run("analyze trace.json --json")),
        *want.as_array().expect("a table")
    );
    // a user rule turns a kernel into communication
    tool.file("rules.txt", "# ours\ncommunication ours ^ours_\n");
    let ruled = breakdown(tool.run("analyze trace.json --rules rules.txt --json"));
    assert_eq!(
        (
            &ruled[0]["computation_ns"],
            &ruled[0]["exposed_communication_ns"]
        ),
        (&json!(40_000), &json!(10_000))
    );
    tool.run("analyze trace.json").exits(0).says(
        "the device is busy 35.0 % of the recording (70.000 us of 200.000 us): computation 25.0 %, \
            exposed copies 10.0 %, idle 65.0 %; 100.0 % of communication overlaps with computation",
    );
    tool.file("wrong.txt", "communication ours");
    tool.run("analyze trace.json --rules wrong.txt")
        .exits(2)
        .complains(&["wrong.txt", "line 1", "expected a class"]);
}

#[test]
fn kernels_and_csv() {
    let tool = Tool::new();
    tool.file("kineto_trace_0.json", draw(0).kineto());
    tool.file("kineto_trace_1.json", draw(1).kineto());
    let json = tool.run("analyze . --json").exits(0).runs();
    let gemm = &json[0]["total"]["kernels"][0];
    assert_eq!(
        (
            &gemm["name"],
            &gemm["label"],
            &gemm["count"],
            &gemm["sum_ns"]
        ),
        (
            &json!("sm80_gemm"),
            &json!("gemm"),
            &json!(4),
            &json!(80_000)
        )
    );
    let csv = tool.run("analyze . --csv --table kernels").exits(0);
    let lines: Vec<&str> = csv.stdout.lines().collect();
    assert_eq!(
        lines[0],
        "run,rank,class,label,name,short_name,count,sum_ns,start_skew_ns,mean_ns,min_ns,max_ns,\
         stddev_ns,share,op,other_ops"
    );
    assert!(
        lines[1].starts_with(
            ",0,computation,gemm,sm80_gemm,sm80_gemm,2,40000,0,20000.0,20000,20000,0.0,0.4444"
        ),
        "{}",
        lines[1]
    );
    assert_eq!(lines.len(), 1 + 2 * 4);
}

/// Every figure in every table is the same in CSV as in JSON.
#[test]
fn csv_says_what_json_says() {
    let tool = Tool::new();
    tool.file("kineto_trace_0.json", draw(0).kineto());
    tool.file("kineto_trace_1.json", draw(1).kineto());
    for (how, tables) in [
        (
            "--sequences-of mm",
            &[
                "utilization",
                "breakdown",
                "kernels",
                "idle",
                "gaps",
                "stream_idle",
                "launches",
                "queues",
                "copies",
                "coverage",
                "work",
                "collectives",
                "sequences",
            ][..],
        ),
        (
            "--compat hta",
            &[
                "temporal_breakdown",
                "kernel_type_breakdown",
                "kernel_breakdown_top10",
                "idle_time_breakdown",
                "queue_length_summary",
            ],
        ),
    ] {
        let json = tool.run(&format!("analyze . {how} --json")).exits(0).runs();
        for name in tables {
            let csv = tool
                .run(&format!("analyze . {how} --csv --table {name}"))
                .exits(0);
            let mut reader = csv::Reader::from_reader(csv.stdout.as_bytes());
            let head = reader.headers().expect("a head").clone();
            let mut lines = reader.records();
            for rank in 0..2 {
                let records = table(&json, rank, name);
                assert!(!records.is_empty(), "{name}");
                for record in records {
                    let line = lines.next().expect("a line").expect("reads");
                    assert_eq!(line.get(1), Some(rank.to_string().as_str()));
                    for (key, value) in record
                        .as_object()
                        .expect("a record")
                        .iter()
                        .filter(|(key, _)| *key != "rank")
                    {
                        let cell = line.get(
                            head.iter()
                                .position(|name| name == key)
                                .expect("the column"),
                        );
                        let want = value
                            .as_str()
                            .map_or_else(|| value.to_string(), str::to_owned)
                            .replace("null", "");
                        assert_eq!(cell, Some(want.as_str()), "{name} {key}");
                    }
                }
            }
            assert!(lines.next().is_none(), "{name} has more lines");
        }
    }
}

#[test]
fn all_ranks() {
    let tool = Tool::new();
    tool.file("kineto_trace_0.json", draw(0).kineto());
    tool.file("kineto_trace_1.json", draw(1).kineto());
    let json = tool.run("analyze . --json").exits(0).runs();
    assert_eq!(
        json[0]["total"]["breakdown"][0]["window_ns"],
        json!(400_000)
    );
    assert_eq!(json[0]["total"]["idle"][0]["idle_ns"], json!(260_000));
    assert_eq!(json[0]["stragglers"].as_array().map(Vec::len), Some(2));
    let metric = tool
        .run("analyze . --csv --table metrics")
        .exits(0)
        .says("run,rank,name,value,unit\n")
        .stdout;
    assert!(
        metric.contains(",all,coll_call_num,2.0,count\n"),
        "{metric}"
    );
    tool.run("analyze . --table kernels")
        .exits(0)
        .says("sm80_gemm");
}

#[test]
fn what_cannot_be_analyzed() {
    let tool = Tool::new();
    tool.file("trace.json", draw(0).kineto());
    tool.run("analyze trace.json --table kernel")
        .exits(2)
        .complains(&["no table kernel ", "kernels"]);
    tool.run("analyze trace.json --table kernels --compat hta")
        .exits(2)
        .complains(&["no table kernels ", "temporal_breakdown"]);
    tool.run("analyze gone.json")
        .exits(2)
        .complains(&["gone.json"]);
    tool.run("analyze trace.json --host trace.json")
        .exits(2)
        .complains(&["the same file"]);
    tool.file("wrong/torch_et_0.json", "{}");
    tool.run("analyze wrong")
        .exits(2)
        .complains(&["torch_et_0.json", "cannot be linked alone"]);
    tool.file("wrong/torch_et_1.json", "{}");
    tool.run("analyze wrong")
        .exits(2)
        .complains(&["none of 2 traces can be used", "torch_et_0.json"]);
    tool.run("top wrong")
        .exits(2)
        .complains(&["none of 2 traces can be used", "torch_et_0.json"]);
}

/// A truncated file, and a duration that is not a number.
#[test]
fn damage_is_told_everywhere() {
    let tool = Tool::new();
    let whole = draw(0).kineto();
    tool.file("whole.json", &whole);
    tool.file("cut.json", &whole[..whole.len() * 3 / 4]);
    let text = "damage: the file is truncated: all complete entries are used (1, first: byte ";
    for command in [
        "analyze cut.json",
        "analyze cut.json --compat hta",
        "top cut.json",
        "diff whole.json cut.json",
    ] {
        let said = tool.run(command).exits(0).stderr;
        assert_eq!(
            said.lines()
                .filter(|line| line.starts_with("note: ") && line.contains(text))
                .count(),
            1,
            "{command}: {said}"
        );
        assert!(
            tool.run(&format!("{command} --json"))
                .exits(0)
                .stdout
                .contains(text.trim_start_matches("damage: ")),
            "{command}"
        );
        let csv = tool.run(&format!("{command} --csv")).exits(0);
        assert!(
            csv.stderr.contains(text) && !csv.stdout.contains(text),
            "{command}: {}",
            csv.stderr
        );
        tool.run(&format!("{command} --strict"))
            .exits(1)
            .complains(&["cut.json: refused under --strict: damage: the file is truncated"]);
    }
    let json = tool.run("analyze cut.json --json").exits(0).runs();
    assert_eq!(json[0]["ranks"][0]["anomalies"][0]["kind"], "truncated");
    assert_eq!(
        tool.run("top cut.json --json").exits(0).json()["tables"][0]["anomalies"][0]["kind"],
        "truncated"
    );
}

#[test]
fn damage_of_ranks_is_told_by_rank() {
    let tool = Tool::new();
    tool.file("kineto_trace_0.json", draw(0).kineto());
    let whole = draw(1).kineto();
    tool.file("kineto_trace_1.json", &whole[..whole.len() * 3 / 4]);
    tool.run("analyze .")
        .exits(0)
        .notes("note: rank 1: damage: the file is truncated");
    tool.run("analyze . --strict")
        .exits(1)
        .notes("note: rank 1 is left out: ./kineto_trace_1.json: refused under --strict: damage");
    let json = tool.run("analyze . --strict --json").exits(1).runs();
    assert_eq!(
        (
            json[0]["ranks"].as_array().map(Vec::len),
            &json[0]["excluded"][0]["label"]
        ),
        (Some(1), &json!("1"))
    );
    tool.run("top . --strict")
        .exits(1)
        .says("rank 0")
        .notes("kineto_trace_1.json: refused under --strict");
    let json = tool.run("diff . . --strict --json").exits(1).json();
    assert_eq!(json["excluded"][0]["reason"], "damaged");
    // one for each of the two runs
    assert_eq!(json["excluded"].as_array().map(Vec::len), Some(2));
    let json = tool
        .run("report . -o page.html --strict --json")
        .exits(1)
        .json();
    assert_eq!(json["excluded"][0]["label"], "1");
}

/// The linker's notes on a pair are printed, also for a pair in a folder.
#[test]
fn notes_of_pairs() {
    let tool = Tool::new();
    let host = String::from_utf8(unpacked("mlp-2.15.0/torch_et_0.json.gz")).expect("text");
    let (before, pid) = host
        .split_once("\"pid\": ")
        .expect("the host trace says its process");
    let after = pid.trim_start_matches(|c: char| c.is_ascii_digit());
    tool.file("run/torch_et_0.json", format!("{before}\"pid\": 77{after}"));
    tool.file(
        "run/kineto_trace_0.json",
        unpacked("mlp-2.15.0/kineto_trace_0.json.gz"),
    );
    for line in [
        "analyze run/kineto_trace_0.json --host run/torch_et_0.json",
        "analyze run",
    ] {
        tool.run(line)
            .exits(0)
            .notes("note: the two traces are from two runs of one program (process 77");
        let json = tool.run(&format!("{line} --json")).exits(0).runs();
        assert!(
            json[0]["ranks"][0]["diagnostics"][0]["code"] == "two_runs",
            "{json}"
        );
        tool.run(&format!("{line} --strict"))
            .exits(1)
            .complains(&["refused under --strict"]);
    }
}

/// Rank 1 of a run of 64 ranks among the ranks of a run of 2.
#[test]
fn traces_of_another_run_are_left_out() {
    let tool = Tool::new();
    tool.file("kineto_trace_0.json", draw(0).kineto());
    let mut other = draw(1);
    other.distributed(1, 64);
    tool.file("kineto_trace_1.json", other.kineto());
    let said = "rank 1 is left out: it is from a run of 64 ranks";
    let json = tool.run("analyze . --json").exits(1).runs();
    assert_eq!(
        json[0]["total"]["breakdown"][0]["window_ns"],
        json!(200_000)
    );
    assert_eq!(
        (
            json[0]["ranks"].as_array().map(Vec::len),
            &json[0]["excluded"][0]["label"]
        ),
        (Some(1), &json!("1"))
    );
    tool.run("analyze .").exits(1).notes(said);
    tool.run("analyze . --compat hta").exits(1).notes(said);
    let forced = tool
        .run("analyze . --allow-mismatch --json")
        .exits(0)
        .runs();
    assert_eq!(
        forced[0]["total"]["breakdown"][0]["window_ns"],
        json!(400_000)
    );
    tool.run("analyze . --allow-mismatch").exits(0).notes(
        "note: rank 1: included by --allow-mismatch: it is from a run of 64 ranks; most others are from \
            a run of 2",
    );
}

#[test]
fn numbers_of_hta() {
    let tool = Tool::new();
    tool.file("trace.json", draw(0).kineto());
    tool.run("analyze trace.json --compat hta")
        .exits(0)
        .says("temporal_breakdown of rank 0")
        .says("idle_time(us)")
        .says("30.0");
    let json = tool
        .run("analyze trace.json --compat hta,nanoseconds --json")
        .exits(0)
        .runs();
    assert_eq!(
        table(&json, 0, "temporal_breakdown")[0]["kernel_time(us)"],
        json!(100.0)
    );
}

/// Annotations of devices, which no graph needs, and HTA's results over all ranks.
#[test]
fn annotations_and_stragglers_of_hta() {
    let tool = Tool::new();
    for rank in 0..2 {
        let mut draw = TraceBuilder::default();
        draw.distributed(rank, 2);
        let main = draw.thread();
        draw.annotation(main, "ProfilerStep#4", 0, 100 * US);
        let begin = (20 + 10 * rank) * US;
        draw.launch(
            main,
            (5 * US, 8 * US),
            DeviceQueue::stream(20),
            "ncclKernel_AllReduce_RING_LL",
            (begin, 90 * US),
        );
        draw.raw(
            r#"{"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#4", "pid": 0,
          "tid": 20, "ts": 20.000, "dur": 70.000}"#,
        );
        tool.file(&format!("kineto_trace_{rank}.json"), draw.kineto());
    }
    let json = tool.run("analyze . --compat hta --json").exits(0).runs();
    assert_eq!(
        table(&json, 1, "user_annotation_breakdown_gpu")[0]["sum (us)"],
        json!(70.0)
    );
    assert_eq!(
        json[0]["total"]["potential_stragglers"],
        json!([{"straggler": 0}, {"straggler": 1}])
    );
    assert_eq!(
        json[0]["total"]["kernel_type_breakdown"],
        json!([{"kernel_type": "COMMUNICATION", "sum": 130.0, "percentage": 100.0}])
    );
    tool.run("analyze . --compat hta --table potential_stragglers")
        .exits(0)
        .says("potential_stragglers of all ranks");
    tool.run("analyze . --compat hta --csv --table potential_stragglers")
        .exits(0)
        .says("run,rank,straggler\n")
        .says(",all,1\n");
}

/// A `.et` keeps the device rows unchanged.
#[test]
fn written_graphs() {
    let tool = Tool::new();
    tool.file("in/kineto_trace_0.json", draw(0).kineto());
    tool.file("in/kineto_trace_1.json", draw(1).kineto());
    tool.run("merge in -o out --no-align").exits(0);
    let (before, after) = (
        tool.run("analyze in --json").exits(0).runs(),
        tool.run("analyze out --json").exits(0).runs(),
    );
    let rank = table(&after, 1, "breakdown");
    // a graph's window is the window of its slices
    for figure in ["computation_ns", "overlap_ns", "exposed_memory_ns"] {
        assert_eq!(
            rank[0][figure],
            table(&before, 1, "breakdown")[0][figure],
            "{figure}"
        );
    }
    let names = |json: &Value| {
        table(json, 0, "kernels")
            .iter()
            .map(|kernel| (kernel["name"].clone(), kernel["sum_ns"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&after), names(&before));
    assert_eq!(table(&after, 0, "collectives")[0]["bytes"], json!(4096));
    assert_eq!(
        table(&after, 0, "launches")[0]["rows"],
        table(&before, 0, "launches")[0]["rows"]
    );
    tool.run("analyze out")
        .exits(0)
        .notes("note: a written graph lacks steps");
    tool.run("link --device in/kineto_trace_0.json -o one.json")
        .exits(0);
    let etplus = tool.run("analyze one.json --json").exits(0).runs();
    assert_eq!(names(&etplus), names(&before));
    tool.run("analyze in/kineto_trace_0.json").exits(0);
}

/// Types, groups and bytes of a CPU run's communications match its traces; barriers are missing in
/// a `.et`.
#[test]
fn written_graphs_of_a_cpu_run() {
    let tool = Tool::new();
    tool.run("merge {pairs}/tpdp4-2.15.0 -o out").exits(0);
    let communications = |of: &str| {
        let json = tool.run(&format!("analyze {of} --json")).exits(0).runs();
        let all = json[0]["total"]["collectives"].as_array().expect("a table");
        let mut all: Vec<String> = all
            .iter()
            .map(|one| {
                format!(
                    "{} {} {} {}",
                    one["kind"], one["group"], one["count"], one["bytes"]
                )
            })
            .collect();
        all.retain(|one| !one.contains("barrier"));
        all.sort();
        all
    };
    let told = communications("{pairs}/tpdp4-2.15.0");
    assert!(
        told.contains(&r#""all_gather" "ranks 0, 1" 8 8192"#.to_owned()),
        "{told:?}"
    );
    assert_eq!(communications("out"), told);
}

/// Recorded traces take precedence over written graphs next to them.
#[test]
fn written_graphs_beside_traces() {
    let tool = Tool::new();
    for rank in 0..2 {
        tool.file(
            &format!("run/kineto_trace_{rank}.json"),
            draw(rank).kineto(),
        );
    }
    tool.run("merge run -o graphs").exits(0);
    tool.shell("cp graphs/run.*.et run").exits(0);
    let said = "note: ignoring run.0.et and 1 more .et files: the folder also contains recordings";
    let json = tool.run("analyze run --json").exits(0).runs();
    assert_eq!(
        table(&json, 1, "launches"),
        table(
            &tool
                .run("analyze run/kineto_trace_1.json --json")
                .exits(0)
                .runs(),
            0,
            "launches"
        )
    );
    assert_eq!(json[0]["ranks"].as_array().map(Vec::len), Some(2));
    for line in ["analyze run", "ranks run", "replay run"] {
        let ran = tool.run(line).exits(0);
        assert!(
            ran.stderr.contains(said.trim_start_matches("note: ")),
            "{line}: {}",
            ran.stderr
        );
    }
}

/// Calls that wait for the device keep their start in a written graph.
/// ```text
/// us       0                       210      2000             3000                  3801  3900
/// thread   [= hipMemcpyWithStream =]        hipLaunchKernel  item[= hipMemcpyWithStream =]
/// stream 7               [== 150-200 ==]    [a]                       [== 3700-3790 ==]
/// ```
#[test]
fn calls_that_wait_begin_in_written_graphs_when_they_did() {
    let tool = Tool::new();
    let mut draw = TraceBuilder::new(KinetoFlavour::Rocm);
    draw.distributed(0, 2);
    let main = draw.thread();
    let us = |start: i64, end: i64| (start * US, end * US);
    let copy = |draw: &mut TraceBuilder, call: (i64, i64), name: &str, row: (i64, i64)| {
        let id = draw.next_correlation();
        draw.call(main, "hipMemcpyWithStream", call, id);
        draw.memcpy(DeviceQueue::stream(7), name, row, id, 4);
    };
    // A graph begins with its first call, so the recording does, too.
    draw.op(main, "aten::copy_", 0, 300 * US);
    copy(
        &mut draw,
        us(0, 210),
        "Memcpy HtoD (Host -> Device)",
        us(150, 200),
    );
    draw.launch(
        main,
        us(2_000, 2_005),
        DeviceQueue::stream(7),
        "a",
        us(2_010, 2_020),
    );
    draw.op(main, "aten::item", 3_000 * US, 3_900 * US);
    copy(
        &mut draw,
        us(3_001, 3_801),
        "Memcpy DtoH (Device -> Host)",
        us(3_700, 3_790),
    );
    let comms = ParamComms::new("allreduce", 0..2, 0, 1);
    let id = draw.next_correlation();
    draw.call(main, "hipLaunchKernel", us(3_950, 3_955), id);
    draw.collective_kernel(
        DeviceQueue::stream(20),
        "ncclDevKernel_AllReduce_Sum_f32",
        us(3_960, 3_990),
        id,
        &comms,
    );
    tool.file("in/kineto_trace_0.json", draw.kineto());
    let before = tool.run("analyze in --json").exits(0).runs();
    for latency in ["fold", "node", "drop"] {
        tool.run(&format!("merge in -o {latency} --latency {latency}"))
            .exits(0);
        let after = tool
            .run(&format!("analyze {latency} --json"))
            .exits(0)
            .runs();
        for name in ["utilization", "idle", "stream_idle", "launches", "queues"] {
            assert_eq!(
                table(&after, 0, name),
                table(&before, 0, name),
                "{name}, {latency}"
            );
        }
        let [ours, theirs] = [&after, &before].map(|json| table(json, 0, "collectives")[0].clone());
        for figure in ["group", "group_size", "bus_gb_per_s"] {
            assert_eq!(ours[figure], theirs[figure], "{figure}");
        }
        assert_eq!(ours["group"], json!("ranks 0, 1"));
    }
}

/// A recording on the CPU has steps and collectives, but no devices.
#[test]
fn without_a_device() {
    let tool = Tool::new();
    let json = tool
        .run("analyze {pairs}/tpdp4-2.15.0 --json")
        .exits(0)
        .runs();
    assert_eq!(
        (
            json[0]["ranks"].as_array().map(Vec::len),
            json[0]["total"]["breakdown"].as_array().map(Vec::len)
        ),
        (Some(4), Some(0))
    );
    let steps: Vec<Value> = table(&json, 3, "steps")
        .iter()
        .map(|step| step["name"].clone())
        .collect();
    assert_eq!(steps, ["ProfilerStep#2", "ProfilerStep#3"]);
    let kinds: Vec<Value> = json[0]["total"]["collectives"]
        .as_array()
        .expect("a table")
        .iter()
        .map(|one| one["kind"].clone())
        .collect();
    assert!(
        kinds.contains(&json!("all_reduce")) && kinds.contains(&json!("barrier")),
        "{kinds:?}"
    );
    assert_eq!(json[0]["stragglers"].as_array().map(Vec::len), Some(4));
    tool.run("analyze {pairs}/tpdp4-2.15.0 --all")
        .exits(0)
        .says("no device work in the trace")
        .says("ProfilerStep#2");
    // DDP's reducer records only Gloo's ranges: two per rank and step, 4810 and 2112 floats
    let json = tool
        .run("analyze {pairs}/ddp2_gloo-2.15.0 --json")
        .exits(0)
        .runs();
    let all = &json[0]["total"]["collectives"][0];
    assert_eq!(
        (&all["kind"], &all["group"], &all["count"]),
        (&json!("all_reduce"), &json!("ranks 0, 1"), &json!(8))
    );
    assert_eq!(
        (&all["bytes"], &all["algorithm_gb_per_s"]),
        (&json!(4 * 4 * (4810 + 2112)), &Value::Null)
    );
}

#[test]
fn parquet_files_per_table_and_rank() {
    let tool = Tool::new();
    for rank in 0..2 {
        tool.file(
            &format!("run/kineto_trace_{rank}.json"),
            draw(rank).kineto(),
        );
    }
    tool.run("analyze run --parquet tables").exits(0);
    for table in ["events", "nodes", "edges", "collectives"] {
        for rank in 0..2 {
            let file = std::fs::read(tool.path(&format!("tables/{table}/{rank}.parquet")))
                .expect("written");
            assert!(
                file.starts_with(b"PAR1") && file.ends_with(b"PAR1"),
                "{table} of rank {rank}"
            );
        }
    }
    tool.run("analyze run/kineto_trace_0.json --parquet tables")
        .exits(2)
        .complains(&["0.parquet", "already exists", "--overwrite"]);
    tool.run("analyze run/kineto_trace_0.json --parquet tables --overwrite")
        .exits(0);
    tool.run("merge run -o graphs").exits(0);
    tool.run("analyze graphs --parquet more")
        .exits(2)
        .complains(&["graphs: --parquet needs recorded traces"]);
    tool.run("analyze graphs/run.0.et --parquet more")
        .exits(2)
        .complains(&["a written graph has no events"]);
}

/// Existing tables are refused before any work; with --overwrite a run is replaced as a whole.
#[test]
fn parquet_of_an_earlier_run() {
    let tool = Tool::new();
    for rank in 0..2 {
        tool.file(
            &format!("run/kineto_trace_{rank}.json"),
            draw(rank).kineto(),
        );
    }
    // an earlier run had rank 7
    tool.file("earlier/kineto_trace_1.json", draw(1).kineto());
    tool.file("earlier/kineto_trace_7.json", draw(7).kineto());
    tool.run("analyze earlier --parquet tables --allow-mismatch")
        .exits(0);
    assert!(tool.path("tables/nodes/7.parquet").exists());
    tool.file("tables/nodes/notes.txt", "mine");
    tool.run("analyze run --parquet tables")
        .exits(2)
        .complains(&["1.parquet already exists", "--overwrite"]);
    assert!(
        !tool.path("tables/events/0.parquet").exists(),
        "written before it was refused"
    );
    // readers would consider it part of the table
    tool.file("tables/events/customers.parquet", "precious");
    tool.run("analyze run --parquet tables --overwrite")
        .exits(2)
        .complains(&[
            "tables/events/customers.parquet was not written by etlink",
            "move it away",
        ]);
    assert_eq!(tool.read("tables/events/customers.parquet"), b"precious");
    assert!(tool.path("tables/nodes/7.parquet").exists());
    std::fs::remove_file(tool.path("tables/events/customers.parquet")).expect("removes");
    // a rank with tables from the earlier run fails
    tool.file("run/kineto_trace_7.json", "{\"traceEvents\": ");
    let earlier = tool.read("tables/nodes/7.parquet");
    tool.run("analyze run --parquet tables --overwrite")
        .exits(2)
        .complains(&["no table was replaced", "7.parquet"]);
    assert!(tool.read("tables/nodes/7.parquet") == earlier);
    assert!(!tool.path("tables/nodes/0.parquet").exists());
    std::fs::remove_file(tool.path("run/kineto_trace_7.json")).expect("removes");
    tool.run("analyze run --parquet tables --overwrite")
        .exits(0);
    let names = |table: &str| {
        let entries = std::fs::read_dir(tool.path(&format!("tables/{table}"))).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    };
    assert_eq!(
        (names("events"), names("nodes")),
        (
            vec!["0.parquet".into(), "1.parquet".into()],
            vec!["0.parquet".into(), "1.parquet".into(), "notes.txt".into()]
        )
    );
    // a trace of another run gets no tables
    let mut other = draw(1);
    other.distributed(1, 64);
    tool.file("run/kineto_trace_1.json", other.kineto());
    tool.run("analyze run --parquet more").exits(1);
    assert!(
        tool.path("more/nodes/0.parquet").exists() && !tool.path("more/nodes/1.parquet").exists()
    );
}

#[test]
fn how_much_of_the_peaks_is_used() {
    let tool = Tool::new();
    tool.file("trace.json", draw(0).kineto());
    // 2 million operations in a recording of 200 us, 4096 bytes in 20 us
    tool.run("analyze trace.json --csv --table metrics --peak-tflops 0.2 --peak-link 2.048")
        .exits(0)
        .says(",all,tflops,0.01,TFLOP/s\n")
        .says(",all,hfu,5.0,%\n")
        .says(",all,bandwidth_utilization_all_reduce,0.1,ratio\n");
    tool.run("analyze trace.json --all")
        .exits(0)
        .says("operations of matrix multiplications");
    let refused = tool.run("analyze trace.json --peak-tflops 0").exits(2);
    assert!(
        refused
            .stderr
            .contains("'--peak-tflops <TFLOPS>': a peak is a number above 0"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_kernel_names_the_op_that_owns_most_of_its_time() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let us = 1_000;
    for (at, op, micros) in [
        (0, "aten::mm", 40),
        (100, "aten::addmm", 10),
        (200, "aten::mm", 40),
    ] {
        draw.op(main, op, at * us, (at + 60) * us);
        draw.launch(
            main,
            ((at + 5) * us, (at + 6) * us),
            DeviceQueue::stream(7),
            "sm80_gemm",
            ((at + 10) * us, (at + 10 + micros) * us),
        );
    }
    let tool = Tool::new();
    tool.file("trace.json", draw.kineto());
    tool.run("analyze trace.json --table kernels")
        .exits(0)
        .says("aten::mm + 1 other  sm80_gemm");
    let json = tool.run("analyze trace.json --json").exits(0).runs();
    let gemm = &json[0]["total"]["kernels"][0];
    assert_eq!(
        (&gemm["op"], &gemm["other_ops"]),
        (&json!("aten::mm"), &json!(1))
    );
}

#[test]
fn a_program_without_a_device_has_its_ops() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let us = 1_000;
    draw.op(main, "aten::linear", 0, 100 * us);
    draw.op(main, "aten::addmm", 10 * us, 90 * us);
    let tool = Tool::new();
    tool.file("trace.json", draw.kineto());
    tool.run("analyze trace.json")
        .exits(0)
        .says("the host op with the most self time is aten::addmm, 80.0 %")
        .says("1  80.000 us  80.0 %   80.000 us  aten::addmm")
        .says("1  20.000 us  20.0 %  100.000 us  aten::linear");
    tool.run("analyze trace.json --table host_ops --csv")
        .exits(0)
        .says("aten::addmm,1,80000,80000,0.8");
}

/// The sentences name the extremes; `--all` has the tables of each rank.
#[test]
fn several_ranks_fit_on_a_screen() {
    let tool = Tool::new();
    for rank in 0..8 {
        let mut draw = TraceBuilder::default();
        draw.distributed(rank, 8);
        let main = draw.thread();
        draw.annotation(main, "ProfilerStep#1", 0, 500_000);
        draw.op(main, "aten::mm", 10_000, 60_000);
        let end = 100_000 + 10_000 * rank;
        let stream = DeviceQueue::stream(7);
        draw.launch(main, (20_000, 26_000), stream, "gemm", (40_000, end));
        tool.file(&format!("run/kineto_trace_{rank}.json"), draw.kineto());
    }
    let short = tool.run_in("analyze run", &[("COLUMNS", "100")]).exits(0);
    assert!(short.stdout.lines().count() <= 45, "{}", short.shown());
    assert!(
        short
            .stdout
            .contains("least computation and copies: rank 0"),
        "{}",
        short.shown()
    );
    let all = tool.run("analyze run --all").exits(0);
    assert!(all.stdout.contains("device utilization"), "{}", all.shown());
}
