//! `etlink simulated` on ASTRA-sim's logs for exports of recorded runs.

use crate::tool::{Tool, unpacked};
use serde_json::Value;
use std::path::PathBuf;

const RUN: &str = "experts2-2.15.0";

fn logged(run: &str, file: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/simulated")
        .join(run)
        .join(file);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Prepares a folder with the simulated graphs, and the log at its usual path.
fn simulated(run: &str) -> Tool {
    let tool = Tool::new();
    tool.run(&format!(
        "merge {{pairs}}/{run} --for astra-sim --comm-only -o sim"
    ))
    .exits(0);
    tool.file("sim/log/log.log", logged(run, "log.log"));
    tool
}

fn document(tool: &Tool, arguments: &str) -> Value {
    let ran = tool.run(&format!("simulated {arguments} --json"));
    ran.exits(0).json()
}

/// Returns the log's own statements of when ranks finished, by rank.
fn stated_ends(log: &[u8]) -> Vec<(i64, i64)> {
    let text = String::from_utf8_lossy(log);
    let lines = text.lines().filter_map(|line| line.split_once("sys["));
    let mut ends: Vec<(i64, i64)> = lines
        .filter_map(|(_, rest)| {
            let (rank, rest) = rest.split_once("] finished, ")?;
            let (tick, _) = rest.split_once(' ')?;
            Some((rank.parse().ok()?, tick.parse().ok()?))
        })
        .collect();
    ends.sort_unstable();
    ends
}

#[test]
fn ranks_and_kinds_stand_beside_the_recording() {
    for (run, kinds) in [
        (RUN, &["all_to_all"][..]),
        (
            "tpdp4-2.15.0",
            &["all_gather", "all_reduce", "reduce_scatter"],
        ),
    ] {
        let tool = simulated(run);
        let document = document(&tool, &format!("sim --against {{pairs}}/{run}"));
        let ranks = document["ranks"].as_array().expect("ranks");
        let ends: Vec<(i64, i64)> = ranks
            .iter()
            .map(|rank| {
                let number = |key: &str| rank[key].as_i64().expect("a number");
                (number("rank"), number("simulated_ns"))
            })
            .collect();
        assert_eq!(ends, stated_ends(&logged(run, "log.log")));
        for rank in ranks {
            let change = rank["change"].as_f64().expect("compared");
            assert!(change.abs() < 0.05, "{rank}");
            assert_eq!(rank["nodes"], rank["nodes_done"], "{rank}");
            // ASTRA-sim sums the same intervals
            assert_eq!(
                rank["communication_ns"], rank["statistics"]["communication_ns"],
                "{rank}"
            );
        }
        let found = document["kinds"].as_array().expect("kinds");
        let names: Vec<&str> = found
            .iter()
            .filter_map(|kind| kind["kind"].as_str())
            .collect();
        assert_eq!(names, kinds);
        for kind in found {
            assert_eq!(kind["count"], kind["compared"], "{kind}");
        }
        assert_eq!(document["unpaired"], 0);
        let longer: Vec<u64> = document["communications"]
            .as_array()
            .expect("communications")
            .iter()
            .map(|comm| comm["longer_ns"].as_i64().expect("compared").unsigned_abs())
            .collect();
        assert!(longer.is_sorted_by(|a, b| a >= b), "{longer:?}");
    }
}

#[test]
fn what_was_printed_has_times_of_ranks_alone() {
    let tool = simulated(RUN);
    tool.file("printed.txt", logged(RUN, "printed.txt"));
    tool.run(&format!(
        "simulated printed.txt --graphs sim --against {{pairs}}/{RUN}"
    ))
    .exits(0)
    .says("5.428 ms")
    .notes("set \"trace-enabled\" to 1");
    let alone = document(&tool, "printed.txt --graphs sim");
    assert_eq!(alone["ranks"][0]["measured_ns"], Value::Null);
    assert_eq!(alone["communications"], Value::Array(vec![]));
}

#[test]
fn an_appended_log_and_one_of_several_files_say_the_same() {
    let tool = simulated(RUN);
    let once = document(&tool, "sim");
    let log = logged(RUN, "log.log");
    tool.file("sim/log/log.log", [log.clone(), log.clone()].concat());
    let twice = document(&tool, "sim");
    assert_eq!(once["ranks"], twice["ranks"]);
    let told = &twice["diagnostics"][0];
    let message = told["message"].as_str().expect("a message");
    assert_eq!(told["code"], "log_incomplete");
    assert!(message.starts_with("the log has 2 simulations"), "{told}");
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let (first, rest) = lines.split_at(12);
    let (second, third) = rest.split_at(12);
    tool.file("sim/log/log.2.log", first.concat());
    tool.file("sim/log/log.1.log", second.concat());
    tool.file("sim/log/log.log", third.concat());
    let parts = document(&tool, "sim");
    assert_eq!(once["ranks"], parts["ranks"]);
    assert_eq!(once["communications"], parts["communications"]);
}

#[test]
fn a_cut_log_says_where_each_rank_is() {
    let tool = simulated(RUN);
    let log = logged(RUN, "log.log");
    let text = String::from_utf8_lossy(&log);
    let end = text
        .find("callback,sys->id=0, tick=1286832")
        .expect("a collective ends");
    tool.file("sim/log/log.log", &log[..end + 30]);
    tool.run(&format!("simulated sim --against {{pairs}}/{RUN}"))
        .exits(1)
        .says("rank 0 did not finish; at the end of the log it is in all_to_all, group 1 (node 1)")
        .notes("the log lacks the simulator's last line")
        .notes("truncated lines in the log: 1");
}

/// If a rank is in several groups, ASTRA-sim can abort before it prints that a rank finished.
#[test]
fn an_abort_at_exit_leaves_no_rank_unfinished() {
    let tool = simulated(RUN);
    let whole = document(&tool, "sim");
    let log = String::from_utf8(logged(RUN, "log.log")).expect("is text");
    let lines = log.lines().filter(|line| !line.contains("sys[0] finished"));
    tool.file("sim/log/log.log", lines.collect::<Vec<_>>().join("\n"));
    let aborted = document(&tool, "sim");
    assert_eq!(aborted["aborted"], serde_json::json!([0]));
    assert_eq!(aborted["stuck"], serde_json::json!([]));
    let [one, other] = [&whole, &aborted].map(|it| it["ranks"][0]["simulated_ns"].as_i64());
    let [one, other] = [one, other].map(|ns| ns.expect("an end"));
    assert!((one - other).abs() < 10_000, "{one} {other}");
    // A log that was cut may look the same, so its missing end is noted.
    let lines = log.lines().filter(|line| {
        let is_end = line.contains("finished") || line.contains("Exiting");
        !is_end
    });
    tool.file("sim/log/log.log", lines.collect::<Vec<_>>().join("\n"));
    tool.run("simulated sim")
        .exits(0)
        .says("executed all nodes, but the log has no `finished` line")
        .notes("the log lacks the simulator's last line");
}

#[test]
fn logs_of_others_are_refused_with_their_place() {
    let tool = simulated(RUN);
    let refused = |says: &[&str]| {
        tool.run("simulated sim").exits(2).complains(says);
    };
    tool.file("sim/log/log.log", logged("tpdp4-2.15.0", "log.log"));
    refused(&[
        "log.log: the log has ranks 0, 1, 2, 3",
        "has ranks 0, 1",
        "--graphs",
    ]);
    let log = String::from_utf8(logged(RUN, "log.log")).expect("text");
    tool.file(
        "sim/log/log.log",
        log.replace("node->id=9,", "node->id=90,"),
    );
    refused(&["log.log: line", "issues node 90", "--graphs"]);
    tool.file(
        "sim/log/log.log",
        log.replace("name=compute", "name=aten::mm"),
    );
    refused(&["line 5: node 0 of rank 0 is named `aten::mm`", "`compute`"]);
    tool.file("sim/log/log.log", "");
    refused(&["log.log: the log is empty", "log/log.log"]);
    tool.file("sim/log/log.log", "a text\nof somebody\n");
    refused(&["the file is not an ASTRA-sim log"]);
    let stopped = "[2026-11-23 18:54:56.435] [workload] [critical] For rank 1 ET node 302, \
                   communicator group 1 not found\n";
    tool.file("sim/log/log.log", stopped);
    refused(&["no rank finished", "communicator group 1 not found"]);
    std::fs::remove_dir_all(tool.path("sim/log")).expect("removes");
    refused(&["sim: the folder has no log.log"]);
    tool.file("alone/log.log", &log);
    tool.run("simulated alone")
        .exits(2)
        .complains(&["alone/log.log: no graphs", "--graphs"]);
    tool.run("simulated nowhere.log --graphs sim")
        .exits(2)
        .complains(&["nowhere.log"]);
}

#[test]
fn recordings_of_others_are_refused() {
    let tool = simulated(RUN);
    tool.run("simulated sim --against {pairs}/tpdp4-2.15.0")
        .exits(2)
        .complains(&[
            "ranks 0, 1, 2, 3",
            "the simulation has ranks 0, 1",
            "--against",
        ]);
    tool.run("simulated sim --against {pairs}/fsdp2-2.15.0")
        .exits(2)
        .complains(&[
            "none of the 4 simulated communications is in the recording",
            "--against",
        ]);
    tool.run("simulated sim --against sim")
        .exits(2)
        .complains(&["no host or device traces"]);
}

#[test]
fn the_page_has_the_simulation_of_its_run_and_of_no_other() {
    let tool = simulated(RUN);
    tool.run(&format!(
        "report {{pairs}}/{RUN} --simulated sim -o page.html"
    ))
    .exits(0)
    .says("page.html");
    let page = tool.read("page.html").len();
    tool.run(&format!("report {{pairs}}/{RUN} -o plain.html"))
        .exits(0);
    assert!(page > tool.read("plain.html").len());
    // A missing log is detected before the traces are read; another run's log, after.
    tool.run(&format!(
        "report {{pairs}}/{RUN} --simulated none -o no.html"
    ))
    .complains(&["none"]);
    tool.run("report {pairs}/ddp2-2.15.0 --simulated sim -o no.html")
        .complains(&["give the recording of these graphs"]);
    assert!(!tool.path("no.html").exists());
}

#[test]
fn the_timeline_has_the_measured_ranks_above_the_simulated() {
    let tool = simulated(RUN);
    tool.run(&format!(
        "simulated sim --against {{pairs}}/{RUN} -o both.trace.json"
    ))
    .exits(0);
    let timeline: Value = serde_json::from_slice(&tool.read("both.trace.json")).expect("JSON");
    let events = timeline["traceEvents"].as_array().expect("events");
    let processes: Vec<(i64, &str)> = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .filter_map(|event| Some((event["pid"].as_i64()?, event["args"]["name"].as_str()?)))
        .collect();
    assert_eq!(
        processes,
        [
            (0, "rank 0, measured"),
            (1, "rank 0, simulated"),
            (2, "rank 1, measured"),
            (3, "rank 1, simulated")
        ]
    );
    let ends = |pid: i64| {
        let slices = events
            .iter()
            .filter(|event| event["ph"] == "X" && event["pid"] == pid);
        let ends = slices.map(|slice| {
            slice["ts"].as_f64().expect("begins") + slice["dur"].as_f64().expect("takes")
        });
        ends.fold(0.0, f64::max)
    };
    for (rank, end) in stated_ends(&logged(RUN, "log.log")) {
        assert!(
            (ends(2 * rank + 1) * 1000.0 - end as f64).abs() < 1.0,
            "{rank}"
        );
        let [measured, simulated] = [ends(2 * rank), ends(2 * rank + 1)];
        assert!(
            (measured / simulated - 1.0).abs() < 0.05,
            "{measured} {simulated}"
        );
    }
    tool.run("simulated sim -o both.trace.json")
        .exits(2)
        .complains(&["--overwrite"]);
    tool.run("simulated sim -o both.svg")
        .exits(2)
        .complains(&[".trace.json"]);
}

/// Log of a simulator that was killed.
#[test]
fn a_log_that_is_cut_within_a_name_is_cut() {
    let tool = simulated(RUN);
    let log = tool.read("sim/log/log.log");
    let text = String::from_utf8_lossy(&log);
    let node = text.rfind("issue,sys").expect("a node");
    let name = text[node..].find("node->name=").expect("a name");
    tool.file("sim/log/log.log", &log[..node + name + 14]);
    tool.run("simulated sim")
        .exits(1)
        .notes("truncated lines in the log: 1");
}

#[test]
fn a_rank_without_a_line_is_compared_with_the_recording() {
    let tool = simulated(RUN);
    let printed = String::from_utf8(logged(RUN, "printed.txt")).expect("text");
    let without: String = printed
        .split_inclusive('\n')
        .filter(|line| !line.contains("sys[1]"))
        .collect();
    assert_ne!(printed, without);
    tool.file("printed.txt", without);
    tool.run(&format!(
        "simulated printed.txt --graphs sim --against {{pairs}}/{RUN}"
    ))
    .exits(1)
    .says("rank 1 did not finish; the log does not show its current node")
    .notes("rank 1 has graphs but is not in the log");
}

#[test]
fn packed_graphs_lie_beside_the_log() {
    let tool = simulated(RUN);
    let plain = document(&tool, "sim");
    for (name, content) in tool.files("sim") {
        let (name, content) = match name.strip_suffix(".et") {
            Some(_) => (format!("{name}.zst"), zstd::encode_all(&content[..], 3)),
            None => (name, Ok(content)),
        };
        tool.file(&format!("packed/{name}"), content.expect("packs"));
    }
    assert_eq!(plain["kinds"], document(&tool, "packed")["kinds"]);
}

/// The last to arrive may be a missing rank, so the duration of the transfer is unknown.
#[test]
fn recordings_of_some_ranks_tell_no_transfers_with_others() {
    let tool = Tool::new();
    let run = "tpdp4-2.15.0";
    tool.run(&format!(
        "merge {{pairs}}/{run} --for astra-sim --comm-only -o sim"
    ))
    .exits(0);
    tool.file("sim/log/log.log", logged(run, "log.log"));
    for rank in 0..2 {
        for kind in ["torch_et", "kineto_trace"] {
            let name = format!("{kind}_{rank}.json");
            tool.file(
                &format!("some/{name}"),
                unpacked(&format!("{run}/{name}.gz")),
            );
        }
    }
    let whole = document(&tool, &format!("sim --against {{pairs}}/{run}"));
    let some = document(&tool, "sim --against some");
    let transfers = |report: &Value| -> Vec<(String, i64, i64)> {
        let all = report["communications"].as_array().expect("a list");
        let known = all.iter().filter_map(|comm| {
            let ns = comm["measured_ns"].as_i64()?;
            let ranks = comm["ranks"].as_str()?.to_owned();
            Some((ranks, comm["number"].as_i64()?, ns))
        });
        known.collect()
    };
    let (whole, some) = (transfers(&whole), transfers(&some));
    assert!(!some.is_empty() && some.len() < whole.len());
    assert!(
        some.iter().all(|(ranks, ..)| ranks == "ranks 0, 1"),
        "{some:?}"
    );
}

#[test]
fn what_is_odd_in_the_recording_is_said() {
    let tool = simulated(RUN);
    let put = |folder: &str, ranks: &[i64]| {
        for rank in ranks {
            for kind in ["torch_et", "kineto_trace"] {
                let name = format!("{kind}_{rank}.json");
                let trace = unpacked(&format!("{RUN}/{name}.gz"));
                tool.file(&format!("{folder}/{name}"), trace);
            }
        }
    };
    put("absent", &[0]);
    tool.run("simulated sim --against absent")
        .exits(0)
        .notes("note: absent: no trace of rank 1");
    let json = document(&tool, "sim --against absent");
    assert!(
        json["diagnostics"]
            .as_array()
            .is_some_and(|all| all.iter().any(|told| told["code"] == "ranks_absent"
                && told["runs"] == serde_json::json!(["absent"]))),
        "{json}"
    );
    assert_eq!(json["excluded"], serde_json::json!([]));
    // an unreadable trace is not part of the recording
    put("broken", &[0, 1]);
    tool.file("broken/kineto_trace_1.json", "[1, 2");
    let said = tool.run("simulated sim --against broken").exits(1);
    said.notes("note: broken: rank 1 is left out: ");
    let json = tool
        .run("simulated sim --against broken --json")
        .exits(1)
        .json();
    assert_eq!(json["excluded"][0]["label"], "1");
}
