//! Bad input: one sentence with the file, the place and the remedy; exit code 2; nothing
//! half-written.

use crate::tool::{Tool, bgzip, gzip, unpacked};

const HOST: &str = "{pairs}/mlp-2.15.0/torch_et_0.json.gz";
const DEVICE: &str = "{pairs}/mlp-2.15.0/kineto_trace_0.json.gz";

#[test]
fn files_that_are_not_there_or_empty_or_folders() {
    let tool = Tool::new();
    tool.file("empty.json", "");
    std::fs::create_dir(tool.path("folder")).expect("makes folder");
    for (file, words) in [
        ("missing.json", &["missing.json", "No such file"][..]),
        ("empty.json", &["empty.json is empty"]),
        ("folder", &["folder is a folder", "etlink merge"]),
    ] {
        tool.run(&format!("link --device {file} -o out.et"))
            .exits(2)
            .complains(words);
        tool.run(&format!("link --host {file} --device {DEVICE} -o out.et"))
            .exits(2)
            .complains(words);
        tool.run(&format!("inspect {file}"))
            .exits(2)
            .complains(&words[..1]);
    }
    tool.run("link folder")
        .exits(2)
        .complains(&["folder is a folder", "etlink merge folder"]);
    tool.run("link empty.json")
        .exits(2)
        .complains(&["empty.json"]);
    tool.run("check missing.et")
        .exits(2)
        .complains(&["missing.et"]);
    assert_eq!(tool.names(), ["empty.json", "folder"]);
}

#[test]
fn the_wrong_kind_of_file_is_named() {
    let tool = Tool::new();
    tool.run(&format!(
        "link --host {HOST} --device {DEVICE} -o linked.et"
    ))
    .exits(0);
    tool.file("notes.txt", "hello");
    tool.file("other.json", "{\"a\": [1, 2, 3]}");
    for (host, device, words) in [
        (
            DEVICE,
            HOST,
            &[
                "is a Kineto trace",
                "--host needs a PyTorch execution trace",
            ][..],
        ),
        (HOST, HOST, &["the same file"]),
        (
            HOST,
            "linked.et",
            &[
                "linked.et is a Chakra execution trace",
                "a device trace (Kineto) is needed",
            ],
        ),
        (
            "linked.et",
            DEVICE,
            &["linked.et is a Chakra execution trace", "--host needs"],
        ),
        (HOST, "notes.txt", &["notes.txt is an unknown kind of file"]),
        (
            "other.json",
            DEVICE,
            &["other.json is an unknown kind of file", "--host needs"],
        ),
    ] {
        tool.run(&format!("link --host {host} --device {device} -o out.et"))
            .exits(2)
            .complains(words);
    }
    tool.run(&format!("link --device {HOST} -o out.et"))
        .exits(2)
        .complains(&[
            "is a PyTorch execution trace",
            "a device trace (Kineto) is needed",
        ]);
    tool.run("inspect notes.txt")
        .exits(2)
        .complains(&["notes.txt", "an unknown kind of file"]);
    tool.run("check notes.txt")
        .exits(2)
        .complains(&["notes.txt"]);
}

/// Phrases that introduce a remedy: a text with one contains at least one of them.
const REMEDIES: [&str; 11] = [
    "; give ",
    "; record ",
    "; replay ",
    "; export ",
    "; see `",
    "; use `",
    "or use `",
    ": give ",
    "; leave ",
    "; pass ",
    "or `etlink replay`",
];

/// A name with a colour code for terminals.
const RED: &str = "\u{1b}[31mred";

#[test]
fn names_of_files_reach_no_terminal_raw_in_errors() {
    let tool = Tool::new();
    let [damaged, absent] = ["damaged", "absent"].map(|name| format!("{name}{RED}.json"));
    tool.file(&damaged, "{");
    let mut lines = vec![
        format!("link --device {DEVICE} -o none{RED}/x.et"),
        format!("merge {{pairs}}/mlp-2.15.0 -o {damaged}"),
    ];
    for file in [damaged, absent] {
        for command in [
            "inspect",
            "check",
            "ranks",
            "top",
            "findings",
            "analyze",
            "replay",
            "link --device",
            "diff {pairs}/mlp-2.15.0",
            "simulated",
            "trigger",
            // a superfluous word
            "generate",
        ] {
            lines.push(format!("{command} {file}"));
        }
        lines.push(format!("merge {file} -o out"));
        lines.push(format!("report {file} -o out.html"));
        lines.push(format!("convert {file} out.json"));
        lines.push(format!("scale {file} --ranks 8 -o out"));
    }
    for line in lines {
        let ran = tool.run(&line).exits(2);
        assert!(!ran.stderr.contains('\u{1b}'), "{line}: {:?}", ran.stderr);
    }
}

#[test]
fn each_error_names_the_file_and_what_to_do() {
    let tool = Tool::new();
    let pair = format!("--host {HOST} --device {DEVICE}");
    tool.run(&format!("link {pair} -o linked.et")).exits(0);
    tool.run(&format!("link {pair} --format etplus -o merged.json"))
        .exits(0);
    tool.run(&format!("link {pair} --format chrome -o view.json"))
        .exits(0);
    let linked = tool.read("linked.et");
    tool.file("stub.et", &linked[..40]);
    tool.file("odd.et", [&[3], &linked[1..]].concat());
    let merged = String::from_utf8(tool.read("merged.json")).expect("text");
    let other = merged.replacen("\"schema\": \"", "\"schema\": \"9.9-", 1);
    tool.file("other_schema.json", other);
    let head = r#"{"schema": "1.0.2-chakra.0.0.4", "pid": 1, "nodes": 5}"#;
    tool.file("no_nodes.json", head);
    tool.file(
        "no_events.json",
        r#"{"schemaVersion": 1, "traceEvents": 5}"#,
    );
    tool.file("notes.txt", "hello");
    let files = [
        "linked.et",
        "merged.json",
        "view.json",
        "stub.et",
        "odd.et",
        "other_schema.json",
        "no_nodes.json",
        "no_events.json",
        "notes.txt",
    ];
    let mut silent = vec![];
    for command in [
        "analyze", "replay", "check", "inspect", "top", "findings", "ranks",
    ] {
        for file in files {
            let ran = tool.run(&format!("{command} {file}"));
            // faults listed by `check` are results, not errors
            if ran.code != 2 {
                continue;
            }
            let error = ran
                .stderr
                .lines()
                .filter(|line| line.starts_with("etlink: "));
            let error: Vec<&str> = error.collect();
            let has_remedy = REMEDIES
                .iter()
                .any(|remedy| error.join("").contains(remedy));
            if !error.join("").contains(file) || !has_remedy {
                silent.push(format!("{command} {file}: {error:?}"));
            }
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn truncated_files_give_what_is_whole() {
    let tool = Tool::new();
    let (host, device) = (
        unpacked("mlp-2.15.0/torch_et_0.json.gz"),
        unpacked("mlp-2.15.0/kineto_trace_0.json.gz"),
    );
    tool.file("host.json", &host[..host.len() * 3 / 4]);
    tool.file("device.json", &device[..device.len() * 3 / 4]);
    let packed = gzip(&device);
    tool.file("device.gz", &packed[..packed.len() * 3 / 4]);
    for (host, device, anomaly) in [
        ("host.json", DEVICE, "truncated"),
        (HOST, "device.json", "truncated"),
        (HOST, "device.gz", "source_ended"),
    ] {
        let ran = tool
            .run(&format!(
                "link --host {host} --device {device} -o out.et --json --overwrite"
            ))
            .exits(0)
            .json();
        let kinds: Vec<_> = ran["report"]["anomalies"]
            .as_array()
            .expect("list")
            .iter()
            .map(|a| a["kind"].clone())
            .collect();
        assert!(kinds.contains(&anomaly.into()), "{kinds:?}");
        assert!(ran["report"]["matched"]["id"].as_u64().expect("count") > 200);
        tool.run("check out.et").exits(0);
    }
    let mut flipped = gzip(&device);
    let crc = flipped.len() - 8;
    flipped[crc] ^= 1;
    tool.file("flipped.gz", flipped);
    tool.run("link --device flipped.gz --strict")
        .exits(1)
        .says("the stream of the file is truncated or damaged");
    tool.file("stub.gz", &packed[..12]);
    tool.run("link --device stub.gz -o x.et")
        .exits(2)
        .complains(&["stub.gz", "truncated or damaged"]);
}

/// A truncated copy of a host trace says nothing about the recorded program.
#[test]
fn a_cut_packed_host_trace_is_not_laid_to_its_process() {
    let tool = Tool::new();
    let host = unpacked("mlp-2.15.0/torch_et_0.json.gz");
    let packed = zstd::encode_all(&host[..], 0).expect("packs");
    let line =
        "link --device {pairs}/mlp-2.15.0/kineto_trace_0.json.gz -o out.et --overwrite --host";
    tool.file("host.json.zst", &packed[..packed.len() * 9 / 10]);
    let said = tool.run(&format!("{line} host.json.zst")).exits(0);
    let said =
        said.notes("the host trace is truncated: the compressed file ends early or is damaged");
    assert!(!said.stderr.contains("killed"), "{}", said.shown());
    tool.file("host.json", &host[..host.len() * 9 / 10]);
    tool.run(&format!("{line} host.json"))
        .exits(0)
        .notes("the host trace is truncated: its process was killed");
}

#[test]
fn damage_in_one_of_many_gzip_members_is_the_same_at_any_thread_count() {
    let tool = Tool::new();
    let packed = bgzip(&unpacked("transformer-2.15.0/kineto_trace_0.json.gz"));
    let mut flipped = packed.clone();
    flipped[packed.len() / 2] ^= 0x55;
    let host = HOST.replace("mlp-2.15.0", "transformer-2.15.0");
    for (name, stored) in [
        ("cut.gz", &packed[..packed.len() * 2 / 3]),
        ("flipped.gz", &flipped),
        ("behind.gz", &[&packed[..], b"\0\0no member"].concat()),
    ] {
        tool.file(name, stored);
        let run = |threads| {
            let ran = tool
                .run(&format!(
                    "link --host {host} --device {name} -o out.et --json --overwrite -j {threads}"
                ))
                .exits(0)
                .json();
            (ran["report"].clone(), tool.read("out.et"))
        };
        let one = run(1);
        let kinds: Vec<_> = one.0["anomalies"]
            .as_array()
            .expect("list")
            .iter()
            .map(|a| a["kind"].clone())
            .collect();
        assert!(kinds.contains(&"source_ended".into()), "{name}: {kinds:?}");
        for threads in [2, 5] {
            assert!(run(threads) == one, "{name} at {threads} threads");
        }
    }
}

#[test]
fn traces_without_events() {
    let tool = Tool::new();
    tool.file("device.json", r#"{"schemaVersion": 1, "traceEvents": []}"#);
    tool.file(
        "host.json",
        r#"{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "time": "",
      "start_ts": 1, "nodes": [], "finish_ts": 2}"#,
    );
    tool.run("link --device device.json -o out.et")
        .exits(2)
        .complains(&["device.json", "no timed events"]);
    tool.run(&format!(
        "link --host {HOST} --device device.json -o out.et"
    ))
    .exits(2)
    .complains(&["no timed events"]);
    tool.run(&format!(
        "link --host host.json --device {DEVICE} -o out.et"
    ))
    .exits(2)
    .complains(&["host.json", "has no ops"]);
}

#[test]
fn an_unknown_schema_is_read_by_its_shape() {
    let tool = Tool::new();
    let text = String::from_utf8(unpacked("mlp-2.15.0/torch_et_0.json.gz")).expect("text");
    tool.file(
        "host.json",
        text.replacen("1.1.1-chakra.0.0.4", "2.7.0-chakra.9", 1),
    );
    tool.run(&format!(
        "link --host host.json --device {DEVICE} -o out.et"
    ))
    .exits(0)
    .says("2.7.0-chakra.9")
    .says("read by its structure");
}

#[test]
fn an_existing_output_needs_force() {
    let tool = Tool::new();
    tool.file("out.et", "precious");
    tool.run(&format!("link --device {DEVICE} -o out.et"))
        .exits(2)
        .complains(&["out.et already exists", "--overwrite"]);
    assert_eq!(tool.read("out.et"), b"precious");
    tool.run(&format!("link --device {DEVICE} -o out.et --overwrite"))
        .exits(0);
    assert_ne!(tool.read("out.et"), b"precious");
}

#[test]
fn an_input_is_never_the_output() {
    let tool = Tool::new();
    let device = unpacked("mlp-2.15.0/kineto_trace_0.json.gz");
    tool.file("device.json", &device);
    tool.run("link --device device.json -o ./device.json --overwrite")
        .exits(2)
        .complains(&["device.json is also an input"]);
    assert!(tool.read("device.json") == device);
}

#[test]
fn an_output_whose_name_tells_no_format() {
    let tool = Tool::new();
    tool.run(&format!("link --device {DEVICE} -o out.txt"))
        .exits(2)
        .complains(&["out.txt", ".et", "--format"]);
    tool.run(&format!("link --device {DEVICE} -o -"))
        .exits(2)
        .complains(&["--format"]);
    tool.run(&format!("link --device {DEVICE} -o no/such/folder/out.et"))
        .exits(2)
        .complains(&["no/such/folder/out.et", "create it first"]);
    assert_eq!(tool.names(), [""; 0]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_said() {
    let tool = Tool::new();
    tool.run(&format!(
        "link --device {DEVICE} -o /dev/full --format chakra"
    ))
    .exits(2)
    .complains(&["cannot write /dev/full", "No space left"]);
}

#[test]
fn deep_nesting_and_odd_values_do_no_harm() {
    let tool = Tool::new();
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let event = |args: &str, dur: &str| {
        format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1.000,
              "dur": {dur}, "args": {{{args}}}}}"#
        )
    };
    let events = [
        event(&format!("\"x\": {deep}"), "5.000"),
        event("", "-1.-500"),
        event("", "-3"),
        event("", "nan"),
        event("\"Record function id\": 99999999999999999999", "1"),
    ];
    tool.file(
        "device.json",
        format!(r#"{{"traceEvents": [{}]}}"#, events.join(",")),
    );
    let ran = tool
        .run("link --device device.json -o out.et --json")
        .exits(0)
        .json();
    assert_eq!(ran["report"]["cpu_ops"], 5);
    assert!(
        ran["report"]["anomalies"]
            .to_string()
            .contains("negative_duration")
    );
    tool.run("check out.et").exits(0);
}

#[test]
fn duplicate_ids_are_counted() {
    let tool = Tool::new();
    let text = String::from_utf8(unpacked("mlp-2.15.0/torch_et_0.json.gz")).expect("text");
    // duplicated nodes, as left by a child process that forked inside the window
    let start = text.find("\"nodes\": [").expect("nodes") + "\"nodes\": [".len();
    let end = text.rfind(']').expect("closed");
    let doubled = format!("{},{}", &text[..end], &text[start..]);
    tool.file("host.json", doubled);
    let ran = tool
        .run(&format!(
            "link --host host.json --device {DEVICE} -o out.et --json"
        ))
        .exits(0)
        .json();
    assert!(
        ran["report"]["anomalies"]
            .to_string()
            .contains("duplicate_node_id")
    );
}

#[test]
fn a_string_without_end_is_refused_with_its_place() {
    let tool = Tool::new();
    let mut text = br#"{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": ""#.to_vec();
    text.resize(80 << 20, b'a');
    tool.file("device.json", gzip(&text));
    tool.run("link --device device.json -o out.et")
        .exits(2)
        .complains(&["device.json", "byte 17", "larger than 64 MiB"]);
}

#[test]
fn random_bytes_do_no_harm() {
    let tool = Tool::new();
    let mut state = 7u64;
    for round in 0..40 {
        let mut device = unpacked("mlp-2.15.0/kineto_trace_0.json.gz");
        for _ in 0..200 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let at = (state >> 33) as usize % device.len();
            device[at] = (state >> 20) as u8;
        }
        tool.file("device.json", device);
        let code = tool
            .run("link --device device.json -o out.et --overwrite")
            .code;
        assert!((0..=2).contains(&code), "round {round}");
        if code == 0 {
            tool.run("check out.et").exits(0);
        }
    }
}

/// Faults of a file are unknown until it is read, whichever rules are selected.
#[test]
fn a_file_that_is_not_read_keeps_to_no_rule() {
    let tool = Tool::new();
    tool.file("run/x.1.et", "garbage, and no graph at all");
    tool.run(&format!("link --device {DEVICE} -o run/x.0.et"))
        .exits(0);
    tool.run("check run --rule ET105")
        .exits(1)
        .says("x.1.et: faults, not read")
        .lacks("ok, not read");
}

/// Nodes in a cycle are listed in the order in which they wait; JSON has their ids.
#[test]
fn a_circle_of_nodes_is_in_the_order_of_waiting() {
    let tool = Tool::new();
    let node = |id: u64, dep: u64| {
        format!(
            "{{\"id\": \"{id}\", \"name\": \"n\", \"type\": \"COMP_NODE\", \"dataDeps\": [\"{dep}\"]}}\n"
        )
    };
    let nodes = [(1, 3), (2, 1), (3, 2)].map(|(id, dep)| node(id, dep));
    let metadata = "{\"version\": \"0.0.4\"}\n";
    tool.file("x.json", format!("{metadata}{}", nodes.concat()));
    tool.run("check x.json")
        .exits(1)
        .says("3 nodes, each waits for the next, and the last waits for the first: 1, 3, 2");
    let json = tool.run("check x.json --json").exits(1).files();
    let findings = json[0]["findings"].as_array().expect("a list");
    let cycle = findings.iter().find(|one| one["rule"] == "ET105");
    let nodes = &cycle.expect("a cycle")["examples"][0]["nodes"];
    assert_eq!(nodes, &serde_json::json!([1, 3, 2]));
}

/// Kineto's own file names contain no rank, and neither does a file with a damaged head.
#[test]
fn a_damaged_file_is_named_beside_the_rank_that_lacks_its_trace() {
    let tool = Tool::new();
    for rank in [0, 1] {
        let host = unpacked(&format!("ddp2-2.15.0/torch_et_{rank}.json.gz"));
        tool.file(&format!("run/torch_et_{rank}.json"), host);
        let device = unpacked(&format!("ddp2-2.15.0/kineto_trace_{rank}.json.gz"));
        let device = if rank == 1 {
            b"garbage".to_vec()
        } else {
            device
        };
        tool.file(&format!("run/host_{rank}0.1.pt.trace.json"), device);
    }
    tool.run("merge run -o out")
        .exits(1)
        .notes("failed: 1: run/torch_et_1.json: a host trace has no times")
        .notes("host_10.1.pt.trace.json is an unknown kind of file: it may be damaged, and the device trace that rank 1 lacks");
}

/// Recordings take precedence over files derived from them, with a note on the ignored file.
#[test]
fn merged_json_beside_recordings_is_named() {
    let tool = Tool::new();
    tool.shell("mkdir run; cp {pairs}/ddp2-2.15.0/*.gz run/")
        .exits(0);
    tool.run("merge run -o run/made --format etplus").exits(0);
    tool.shell("mv run/made/*.json.gz run/; rm -r run/made")
        .exits(0);
    tool.run("merge run -o out -v")
        .exits(0)
        .notes("run.0.json.gz is a merged trace (ET+): not used");
}
