//! Logs of NCCL's inspector in `ranks`.

use crate::tool::{Tool, gzip};
use etlink_testing::{DeviceQueue, KinetoFlavour, TraceBuilder};
use serde_json::json;

/// Generates four all-reduces and a send of one of two ranks; rank 1 is late, so rank 0 waits.
pub(crate) fn log_of(rank: i64) -> String {
    let mut text = String::new();
    let header =
        format!(r#"{{"header":{{"id":"0xabc","comm_name":"dp","rank":{rank},"n_ranks":2,"#)
            + r#""nnodes":1},"metadata":{"inspector_output_format_version":"v4.0","#
            + &format!(
                r#""dump_timestamp_us":1748030377748202,"hostname":"node","pid":{}}},"#,
                70 + rank
            );
    for number in 0..4 {
        let us = if rank == 0 { 150 } else { 50 };
        text += &header;
        text += &format!(r#""coll_perf":{{"coll":"AllReduce","coll_sn":{number},"#);
        text += &format!(r#""coll_msg_size_bytes":1000000,"coll_exec_time_us":{us},"#);
        text += "\"coll_timing_source\":\"kernel_gpu\"}}\n";
    }
    text += &header;
    text += r#""p2p_perf":{"p2p":"Send","p2p_sn":0,"p2p_peer":1,"p2p_msg_size_bytes":64,"#;
    text + "\"p2p_exec_time_us\":10,\"p2p_timing_source\":\"kernel_gpu\"}}\n"
}

#[test]
fn ranks_says_sizes_and_times_per_communicator() {
    let tool = Tool::new();
    tool.file("logs/node-pid70.log", log_of(0));
    tool.file("logs/node-pid71.log.gz", gzip(log_of(1).as_bytes()));
    let report = tool.run("ranks logs --json").exits(0).runs();
    let sizes = report[0]["sizes"].as_array().expect("a list");
    let reduce = &sizes[0];
    assert_eq!(
        (&reduce["kind"], &reduce["times"]),
        (&json!("all_reduce"), &json!(4))
    );
    assert_eq!(
        (&reduce["name"], &reduce["bytes"]),
        (&json!("dp"), &json!(1_000_000))
    );
    assert_eq!(reduce["mean_transfer_ns"], json!(50_000));
    assert_eq!(reduce["mean_skew_ns"], json!(100_000));
    assert_eq!(reduce["bus_bandwidth"], json!(20.0));
    let members = report[0]["members"].as_array().expect("a list");
    assert_eq!(
        (&members[1]["last"], &members[0]["waited_ns"]),
        (&json!(4), &json!(400_000))
    );
    tool.run("ranks logs")
        .exits(0)
        .says("NCCL's inspector in 2 processes, 6 collectives and messages")
        .says("0xabc dp");
    assert_eq!(
        tool.run("ranks logs --csv").exits(0).stdout.lines().count(),
        1 + 2
    );
    let facts = tool.run("inspect logs/node-pid70.log --json").exits(0);
    assert_eq!(facts.only_file()["kind"], json!("nccl_inspector"));
}

#[test]
fn damaged_logs_are_told() {
    let tool = Tool::new();
    let log = log_of(0);
    tool.file("logs/node-pid70.log", format!("{log}{}", &log[..100]));
    tool.run("ranks logs")
        .exits(0)
        .says("the last rank is unknown")
        .notes("node-pid70.log: damage: the file is truncated");
    tool.run("ranks logs --strict")
        .exits(1)
        .complains(&["node-pid70.log", "refused under --strict"]);
    tool.run("merge logs -o out").exits(2).complains(&[
        "the folder has no host or device traces, only NCCL inspector logs",
        "give them to `etlink ranks`",
    ]);
}

#[test]
fn a_log_that_lies_there_packed_too_counts_once() {
    let tool = Tool::new();
    tool.file("once/node-pid70.log", log_of(0));
    tool.file("twice/node-pid70.log", log_of(0));
    tool.file("twice/node-pid70.log.gz", gzip(log_of(0).as_bytes()));
    let sizes = |folder: &str| {
        let report = tool.run(&format!("ranks {folder} --json")).exits(0).runs();
        (report[0]["sizes"].clone(), report[0]["members"].clone())
    };
    assert_eq!(sizes("twice"), sizes("once"));
    tool.run("ranks twice")
        .exits(0)
        .notes("node-pid70.log.gz is left out: the folder has an uncompressed copy");
}

#[test]
fn logs_of_other_processes_are_named() {
    let tool = Tool::new();
    crate::ranks::put(&tool, &crate::ranks::RUN);
    tool.file("run/node-pid70.log", log_of(0));
    tool.file("run/train.log", "step 1\n");
    for command in ["ranks", "findings", "analyze"] {
        tool.run(&format!("{command} run"))
            .exits(0)
            .notes("ignoring 1 log of NCCL's inspector next to the traces, none of which");
    }
}

const MS: i64 = 1_000_000;

/// Time base of drawn traces.
const BASE_NS: i64 = 1_790_857_026_000_000_000;

/// Times of eight all-reduces on a rank, from 0.5 ms before they end together: begin and end.
fn all_reduces(rank: i64) -> impl Iterator<Item = (i64, i64)> {
    (0..8).map(move |round| {
        let end = (2 + round) * MS;
        (end - 100_000 - 20_000 * ((round + rank) % 3), end)
    })
}

/// Draws kernels without records on a machine of its own, whose clock is seconds ahead: ends do not
/// show which ranks belong together.
fn put_process(tool: &Tool, rank: i64) -> i64 {
    let begin = 5_000 * rank * MS;
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    draw.process(70 + rank).origin(begin);
    draw.metadata("host_name", &format!("\"node{rank}\""));
    let main = draw.thread();
    for (start, end) in all_reduces(rank) {
        let correlation = draw.next_correlation();
        let call = (start - 9_000, start - 5_000);
        draw.call(main, "cudaLaunchKernelExC", call, correlation);
        let kernel = "ncclDevKernel_AllReduce_Sum_f32";
        draw.kernel(DeviceQueue::stream(20), kernel, (start, end), correlation);
    }
    tool.file(&format!("run/kineto_trace_{rank}.json"), draw.kineto());
    BASE_NS + begin
}

/// Returns the lines of a process' log, one of `every` calls.
fn log_of_process(rank: i64, begin: i64, every: usize, longer_us: i64) -> String {
    let calls = all_reduces(rank).enumerate().step_by(every);
    let lines = calls.map(|(number, (start, end))| {
        let line = json!({
            "header": {"id": "0x7f", "rank": rank, "n_ranks": 2, "nnodes": 2},
            "metadata": {
                "hostname": format!("node{rank}"),
                "pid": 70 + rank,
                "dump_timestamp_us": (begin + end) / 1_000 + 40,
            },
            "coll_perf": {
                "coll": "AllReduce",
                "coll_sn": 500 + number,
                "coll_msg_size_bytes": 1_000 * (1 + number),
                "coll_exec_time_us": (end - start) / 1_000 + longer_us,
                "coll_timing_source": "kernel_gpu",
            },
        });
        format!("{line}\n")
    });
    lines.collect()
}

#[test]
fn logs_join_the_traces_of_their_processes() {
    // logs of all calls, of each second one, of other kernels
    for (every, longer_us, joined, sized) in [(1, 0, 16, 8), (2, 0, 16, 4), (1, 500, 0, 0)] {
        let tool = Tool::new();
        for rank in 0..2 {
            let begin = put_process(&tool, rank);
            let log = log_of_process(rank, begin, every, longer_us);
            // the plugin's own folder
            tool.file(&format!("run/nccl/node{rank}-pid{}.log", 70 + rank), log);
        }
        let report = &tool
            .run("ranks run --json --allow-mismatch")
            .exits(0)
            .runs()[0];
        let collectives = report["collectives"].as_array().expect("a list");
        assert_eq!(2 * collectives.len(), joined, "{}", report["diagnostics"]);
        let sizes = collectives.iter().filter_map(|one| one["bytes"].as_u64());
        let sizes: Vec<u64> = sizes.collect();
        let want: Vec<u64> = (1..=8).step_by(every).map(|size| 1_000 * size).collect();
        assert_eq!(sizes, want[..sized]);
        assert!(collectives.iter().all(|one| one["inferred"] == false));
        assert!(collectives.iter().all(|one| one["dtype"].is_null()));
    }
}

#[test]
fn records_of_a_trace_go_before_a_log() {
    let tool = Tool::new();
    let begin = put_process(&tool, 0);
    let mut drawn = crate::ranks::RUN[0];
    drawn.world = 1;
    tool.file("run/kineto_trace_0.json", crate::ranks::draw(drawn));
    tool.file("run/node0-pid70.log", log_of_process(0, begin, 1, 0));
    let ran = tool.run("analyze run --table collectives --json").exits(0);
    assert_eq!(ran.runs()[0]["total"]["collectives"][0]["group_size"], 1);
}
