//! Waits for ranks whose recordings began later, in all commands that show means.

use crate::tool::Tool;
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, TraceBuilder};
use serde_json::Value;

const MS: i64 = 1_000_000;
const APART_NS: i64 = 17_000 * MS;

/// Draws a rank of three with eight all-reduces, the first of which waits 17 s for rank 2. The others
/// last from 100 us before rank 2 arrives to 50 us after. `idle`: the trace of rank 2 states that it was
/// recorded from the start on.
fn draw(rank: i64, idle: bool) -> Vec<u8> {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    draw.distributed(rank, 3)
        .process(100 + rank)
        .origin(1_700_000_000_000 * MS);
    let main = draw.thread();
    for round in 0..8 {
        let at = APART_NS + (1 + round) * MS;
        let begin = match (rank, round) {
            (2, _) => at,
            (_, 0) => MS,
            _ => at - 100_000,
        };
        let comms = ParamComms::new("allreduce", 0..3, rank, round);
        let correlation = draw.next_correlation();
        let call = (begin - 20_000, begin - 10_000);
        draw.call(main, "cudaLaunchKernelExC", call, correlation);
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_AllReduce_Sum_f32",
            (begin, at + 50_000),
            correlation,
            &comms,
        );
    }
    if idle {
        draw.raw(
            r#"{"ph": "X", "cat": "Trace", "ts": 1, "dur": 20000000, "pid": "Spans",
            "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": {"Op count": 0}}"#,
        );
    }
    draw.kineto()
}

fn put(tool: &Tool, idle: bool) {
    for rank in 0..3 {
        let trace = draw(rank, idle && rank == 2);
        tool.file(&format!("run/kineto_trace_{rank}.json"), trace);
    }
}

fn float(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn a_call_of_seconds_is_start_skew_and_in_no_mean() {
    for (idle, skews) in [(false, 1), (true, 0)] {
        let tool = Tool::new();
        put(&tool, idle);
        let report = &tool.run("analyze run --json").exits(0).runs()[0];
        let totals = &report["total"]["collectives"][0];
        // ranks 0 and 1 wait in the first of eight
        assert_eq!(totals["count"], 24);
        assert_eq!(totals["start_skew"], 2 * skews);
        assert_eq!(totals["start_skew_ns"], 2 * skews * APART_NS);
        let kernel = &report["total"]["kernels"][0];
        let mean_ns = float(&kernel["mean_ns"]);
        let bandwidth = float(&totals["algorithm_gb_per_s"]);
        let of_ranks = tool.run("ranks run --json").exits(0).runs();
        let of_ranks = &of_ranks[0]["bandwidth"][0];
        assert_eq!(of_ranks["started_apart"], skews);
        let mean_skew_ns = float(&of_ranks["mean_skew_ns"]);
        if idle {
            assert!(mean_ns > 1e9 && bandwidth < 1e-3 && mean_skew_ns > 1e9);
        } else {
            // 14 waits of 100 us, two of which begin when rank 2 comes, and the transfers
            let sum_ns = 14.0 * 150_000.0 + 2.0 * 50_000.0 + 8.0 * 50_000.0;
            assert!((24.0 * mean_ns - sum_ns).abs() < 1e-3, "{mean_ns}");
            assert_eq!(mean_skew_ns, 100_000.0);
            assert!(bandwidth > 1e-3);
        }
        assert!(
            float(&kernel["max_ns"]) > 1e10,
            "the longest is as recorded"
        );
        for command in ["analyze run", "findings run", "report run -o page.html"] {
            let ran = tool.run(command);
            assert_eq!(ran.stderr.contains("start skew"), !idle, "{command}");
        }
        let late = tool.run("ranks run --json").runs()[0]["ranks"][2].clone();
        let charged = ["caused_ns", "start_skew_ns"].map(|key| late[key].as_i64());
        let apart = |is_it: bool| i64::from(is_it) * 2 * APART_NS;
        // 14 waits of 100 us are its own work in either case
        let own = 14 * 100_000;
        assert_eq!(charged, [Some(own + apart(idle)), Some(apart(!idle))]);
    }
}

#[test]
fn the_table_of_collectives_has_a_column_for_it() {
    let tool = Tool::new();
    put(&tool, false);
    let ran = tool.run("analyze run --table collectives").exits(0);
    assert!(ran.stdout.contains("start skew"));
    put(&tool, true);
    let ran = tool.run("analyze run --table collectives").exits(0);
    assert!(!ran.stdout.contains("start skew"));
}
