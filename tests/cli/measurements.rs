//! Measurements that complement traces: metrics of kernels, latencies of requests, workload cards.

use crate::tool::Tool;
use etlink_testing::{DeviceQueue, TraceBuilder};

/// Generates two steps of a decode with two kernels each.
fn device_trace() -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..2 {
        let begin = step * 1_000_000;
        draw.annotation(
            main,
            "execute_context_0(0)_generation_4(4)",
            begin,
            begin + 900_000,
        );
        for (place, kernel) in (0..).zip(["void gemm<4>(float*)", "relu"]) {
            let at = begin + 100_000 + place * 200_000;
            draw.launch(
                main,
                (at, at + 5_000),
                DeviceQueue::stream(7),
                kernel,
                (at + 20_000, at + 120_000),
            );
        }
    }
    draw.kineto()
}

/// One step in the format of `ncu --csv --page raw`.
const METRICS: &str = concat!(
    "==PROF== Connected to process 41\n",
    "\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"dram__bytes.sum\",",
    "\"sm__sass_thread_inst_executed_op_ffma_pred_on.sum\"\n",
    "\"\",\"\",\"\",\"\",\"\",\"Mbyte\",\"inst\"\n",
    "\"0\",\"41\",\"void gemm<4>(float *)\",\"\",\"\",\"1,024.5\",\"500\"\n",
    "\"1\",\"41\",\"relu\",\"\",\"\",\"2\",\"0\"\n",
);

const LATENCIES: &str = r#"{"backend": "vllm", "model_id": "llama", "completed": 3,
    "mean_ttft_ms": 12.5, "median_ttft_ms": 12.0, "p99_ttft_ms": 20.25, "mean_tpot_ms": 1.5}"#;

const CARD: &str = "
workload:
  model: {phase: training, model_family: llama}
  data: {batch_size: 8, seq_len: 1024}
metric_source: {traces: [kineto_trace]}
";

#[test]
fn metrics_are_attributes_of_kernels_and_lines_of_tables() {
    let tool = Tool::new();
    tool.file("trace.json", device_trace());
    tool.file("ncu.csv", METRICS);
    tool.run("link --device trace.json --metrics ncu.csv -o out.et")
        .exits(0)
        .notes("metrics of ncu.csv are joined to 4 kernels by name and launch order")
        .notes("2 of 4 kernels reuse the metrics of another launch");
    let written = String::from_utf8_lossy(&tool.read("out.et")).into_owned();
    assert!(written.contains("metric.dram__bytes.sum"));
    assert!(written.contains("metric.dram__bytes.sum.unit"));
    let counters = tool
        .run("analyze trace.json --metrics ncu.csv --table counters --csv")
        .exits(0);
    let lines: Vec<&str> = counters.stdout.lines().collect();
    assert!(
        lines[1].ends_with("void gemm<4>(float*),dram__bytes.sum,Mbyte,2,1024.5,1024.5,1024.5"),
        "{lines:?}"
    );
    // 500 fused multiply-adds of two kernels
    let work = tool
        .run("analyze trace.json --metrics ncu.csv --table work --json")
        .exits(0)
        .runs();
    let work = &work[0]["ranks"][0]["work"][0];
    assert_eq!(work["operations"], 2_000);
    let without = tool.run("analyze trace.json --table work --json").exits(0);
    assert_eq!(without.runs()[0]["ranks"][0]["work"], serde_json::json!([]));
}

#[test]
fn what_lies_in_the_folder_of_a_run_is_found() {
    let tool = Tool::new();
    tool.file("job/kineto_trace_0.json", device_trace());
    tool.file("job/ncu_rank0.csv", METRICS);
    tool.file("job/llama.latency.json", LATENCIES);
    tool.file("job/card.yaml", CARD);
    tool.file("job/customers.csv", "a,b\n1,2\n");
    tool.file("job/settings.yaml", "a: 1\n");
    let said = tool.run("analyze job --json").exits(0).runs();
    let run = &said[0];
    assert_eq!(run["ranks"][0]["counters"][0]["kernels"], 2);
    let requests = run["requests"].as_array().expect("requests");
    let of = |place: usize| {
        let one = &requests[place];
        (
            one["latency"].as_str(),
            one["mean_ns"].as_i64(),
            one["trace_phase"].as_str(),
            one["trace_steps"].as_u64(),
        )
    };
    assert_eq!(
        of(0),
        (Some("ttft"), Some(12_500_000), Some("prefill"), Some(0))
    );
    assert_eq!(
        of(1),
        (Some("tpot"), Some(1_500_000), Some("decode"), Some(2))
    );
    let metrics = run["total"]["metrics"].as_array().expect("metrics");
    let tokens = metrics
        .iter()
        .find(|metric| metric["name"] == "tokens_per_second")
        .expect("a card with batch and length");
    // 8 · 1,024 tokens in steps of 0.9 ms
    let value = tokens["value"].as_f64().expect("a number");
    assert!((value - 8_192.0 / 0.0009).abs() < 1.0, "{value}");
    tool.run("analyze job --all")
        .exits(0)
        .says("request latencies")
        .says("2 decode");
}

#[test]
fn what_the_card_beside_the_traces_says_is_written_too() {
    let tool = Tool::new();
    tool.file("job/kineto_trace_0.json", device_trace());
    tool.file("job/llama.latency.json", LATENCIES);
    let card = "
hf_url: https://example.org/llama
contributor: somebody
workload:
  model: {phase: training, moe: false, model_arch: {num_layers: 28, num_params_embedding: 500000}}
  hardware: {network_topo: {topology: nvlink, bandwidth_gbps: [400, 3600]}}
metric_source: {traces: [json], metrics_specific_trace: []}
";
    tool.file("job/card.yaml", card);
    tool.run("analyze job --workload-card out.yaml").exits(0);
    let written = String::from_utf8(tool.read("out.yaml")).expect("text");
    for line in [
        "hf_url: https://example.org/llama",
        "contributor: somebody",
        "moe: false",
        "num_layers: 28",
        "num_params_embedding: 500000",
        "topology: nvlink",
        "- 3600",
        "phase: training",
        "- json",
        "- vllm_bench_latency",
        "total_count: 1",
    ] {
        assert!(written.contains(line), "{line}: {written}");
    }
    // a copy has the same contents; another card belongs to another run
    tool.file("job/copy.yaml", card);
    let ran = tool.run("analyze job").exits(0);
    assert!(!ran.stderr.contains("workload cards"), "{}", ran.stderr);
    tool.file("job/other.yaml", CARD);
    tool.run("analyze job --workload-card none.yaml")
        .exits(0)
        .notes("3 workload cards differ (card.yaml, copy.yaml, other.yaml): none is used");
    let written = String::from_utf8(tool.read("none.yaml")).expect("text");
    assert!(!written.contains("nvlink"), "{written}");
}

#[test]
fn a_card_is_written_from_a_run() {
    let tool = Tool::new();
    tool.file("trace.json", device_trace());
    tool.run("analyze trace.json --workload-card card.yaml")
        .exits(0);
    let card = String::from_utf8(tool.read("card.yaml")).expect("text");
    for line in [
        "phase: inference",
        "- kineto_trace",
        "total_count: 1",
        "name: pytorch",
    ] {
        assert!(card.contains(line), "{line}: {card}");
    }
    tool.run("inspect card.yaml")
        .exits(0)
        .says("a workload card (ccl-bench)");
    tool.run("analyze trace.json --workload-card card.yaml")
        .exits(2)
        .complains(&["card.yaml already exists"]);
}

#[test]
fn what_is_no_measurement_is_refused_by_name() {
    let tool = Tool::new();
    tool.file("trace.json", device_trace());
    tool.file("notes.txt", "hello");
    tool.file("ncu.csv", METRICS);
    tool.run("analyze trace.json --metrics notes.txt")
        .exits(2)
        .complains(&[
            "notes.txt is an unknown kind of file, not a measurement",
            "give a CSV file of Nsight Compute",
        ]);
    tool.run("analyze trace.json --metrics ncu.csv --metrics ncu.csv")
        .exits(2)
        .complains(&["ncu.csv is a second file with kernel metrics"]);
    tool.run("link --device ncu.csv")
        .exits(2)
        .complains(&["kernel metrics (CSV of Nsight Compute)", "as --metrics"]);
    tool.run("inspect ncu.csv")
        .exits(0)
        .says("kernel metrics (CSV of Nsight Compute)");
}

#[test]
fn tables_and_settings_that_are_named_by_ranks_are_no_traces() {
    let tool = Tool::new();
    tool.file("job/kineto_trace_0.json", device_trace());
    for (name, content) in [
        ("host_0.yaml", "a: 1\n"),
        ("device_0.csv", "a,b\n1,2\n"),
        ("trace_rank_0.jsonl", "{}\n"),
        ("kineto_0.db", "no database"),
    ] {
        tool.file(&format!("job/{name}"), content);
    }
    tool.run("merge job -o out")
        .exits(0)
        .says("1 linked, 0 failed");
}

#[test]
fn metrics_of_another_rank_are_not_those_of_the_only_one() {
    let tool = Tool::new();
    tool.file("job/kineto_trace_0.json", device_trace());
    tool.file("job/ncu_rank_3.csv", METRICS);
    let said = tool.run("analyze job --json").exits(0).runs();
    assert_eq!(said[0]["ranks"][0]["counters"], serde_json::json!([]));
    tool.run("analyze job --table counters").exits(0).notes(
        "ncu_rank_3.csv has kernel metrics for rank 3, but no trace is from this rank: not used",
    );
}

#[test]
fn metrics_that_no_rank_takes_are_noted() {
    let tool = Tool::new();
    for rank in 0..2 {
        tool.file(&format!("job/kineto_trace_{rank}.json"), device_trace());
    }
    tool.file("job/ncu.csv", METRICS);
    tool.file("job/ncu_rank1.csv", METRICS);
    tool.file("job/second_rank1.csv", METRICS);
    tool.run("analyze job --table counters")
        .exits(0)
        .notes("ncu.csv has kernel metrics, but no rank in its name: not used; rename it")
        .notes("second_rank1.csv has kernel metrics, but ncu_rank1.csv is used instead");
    for cycle in 1..3 {
        tool.file(
            &format!("cycles/kineto_trace_0.cycle{cycle}.json"),
            crate::ranks::later(device_trace().as_ref(), cycle),
        );
    }
    tool.file("cycles/ncu.csv", METRICS);
    tool.run("merge cycles -o out")
        .notes("ncu.csv has kernel metrics, but the folder has several cycles: not used");
}

#[test]
fn measurements_in_a_folder_without_traces_are_of_the_only_run() {
    let tool = Tool::new();
    tool.file("job/traces/kineto_trace_0.json", device_trace());
    tool.file("job/latencies.json", LATENCIES);
    tool.file("job/ncu.csv", METRICS);
    tool.run("analyze job -v --table counters")
        .exits(0)
        .notes("latencies.json is request latencies (a vLLM or SGLang benchmark result), in a folder without traces: used for this run")
        .says("dram__bytes.sum");
    // settings of other programs contain such words too
    tool.file("job/config.yaml", "workload:\n  name: a\n  gpus: 8\n");
    tool.file("job/prometheus.yml", "metric_source: prometheus\n");
    tool.file("job/traces/card.yaml", CARD);
    let other = CARD.replace("batch_size: 8", "batch_size: 16");
    tool.file("job/card.yaml", other);
    tool.run("analyze job -v")
        .exits(0)
        .lacks("config.yaml")
        .lacks("prometheus")
        .lacks("differ")
        .notes("not used, since another one is next to the traces");
    tool.run("merge job -o out").exits(0).lacks("card.yaml");
    tool.file("job/second/kineto_trace_0.json", device_trace());
    tool.run("analyze job")
        .exits(0)
        .notes("latencies.json is request latencies (a vLLM or SGLang benchmark result), in a folder without traces: not used")
        .notes("ncu.csv is kernel metrics (CSV of Nsight Compute), in a folder without traces: not used");
}

#[test]
fn commands_that_show_no_latencies_say_so() {
    let tool = Tool::new();
    tool.file("trace.json", device_trace());
    tool.file("latencies.json", LATENCIES);
    for line in [
        "link --device trace.json --metrics latencies.json -o out.et",
        "findings trace.json --metrics latencies.json",
        "report trace.json --metrics latencies.json -o page.html",
    ] {
        tool.run(line)
            .exits(0)
            .notes("latencies.json is request latencies (a vLLM or SGLang benchmark result): not used here; `etlink analyze` shows it");
    }
}

#[test]
fn a_cut_file_of_metrics_costs_no_trace() {
    let tool = Tool::new();
    tool.file("job/kineto_trace_0.json", device_trace());
    let mut packed = crate::tool::gzip(METRICS.as_bytes());
    packed.truncate(packed.len() - 12);
    tool.file("job/ncu_rank_0.csv.gz", packed);
    tool.run("analyze job")
        .exits(0)
        .notes("lines that are not rows of the table, left out");
}

#[test]
fn shapes_count_where_no_tensor_cores_were_measured() {
    let tool = Tool::new();
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let op = draw.op(main, "aten::mm", 0, 50_000);
    draw.arg(op, "Input Dims", "[[64, 32], [32, 16]]");
    draw.arg(op, "Input type", "[\"float\", \"float\"]");
    draw.launch(
        main,
        (5_000, 10_000),
        DeviceQueue::stream(7),
        "void gemm<4>(float*)",
        (20_000, 40_000),
    );
    tool.file("trace.json", draw.kineto());
    tool.file("ncu.csv", METRICS);
    let operations = |line: &str| {
        let said = tool.run(line).exits(0).runs();
        said[0]["ranks"][0]["work"][0]["operations"].clone()
    };
    let by_shapes = operations("analyze trace.json --table work --json");
    assert_eq!(by_shapes, 2 * 64 * 32 * 16);
    let measured = operations("analyze trace.json --metrics ncu.csv --table work --json");
    assert_eq!(measured, by_shapes);
    let tensor = METRICS.replace(
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
    );
    tool.file("tensor.csv", tensor);
    let measured = operations("analyze trace.json --metrics tensor.csv --table work --json");
    assert_eq!(measured, 500);
}
