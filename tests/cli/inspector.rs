//! Logs of NCCL's inspector in `ranks`.

use crate::tool::{Tool, gzip};
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
    let facts = tool
        .run("inspect logs/node-pid70.log --json")
        .exits(0)
        .only_file();
    assert_eq!(
        (&facts["kind"], &facts["calls"]),
        (&json!("nccl_inspector"), &json!(5))
    );
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
fn logs_next_to_traces_are_named() {
    let tool = Tool::new();
    crate::ranks::put(&tool, &crate::ranks::RUN);
    tool.file("run/node-pid70.log", log_of(0));
    tool.file("run/train.log", "step 1\n");
    for command in ["ranks", "findings", "analyze"] {
        tool.run(&format!("{command} run"))
            .exits(0)
            .notes("ignoring 1 log of NCCL's inspector");
    }
}
