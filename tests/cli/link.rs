//! `etlink link` on recordings.

use crate::tool::{Tool, bgzip, gzip, unpacked};

const MLP: &str = "--host {pairs}/mlp-2.15.0/torch_et_0.json.gz \
    --device {pairs}/mlp-2.15.0/kineto_trace_0.json.gz";

#[test]
fn every_op_of_a_recorded_pair_is_matched_by_id() {
    let tool = Tool::new();
    let ran = tool.run(&format!("link {MLP} -o out.et --json")).exits(0);
    let report = &ran.json()["report"];
    assert_eq!(report["matched"]["id"], 396);
    assert_eq!(report["cpu_ops"], 396);
    assert_eq!(report["host_ops"], 396);
    assert_eq!(report["anomalies"], serde_json::json!([]));
    tool.run("check out.et").exits(0);
}

#[test]
fn traces_without_options_are_told_apart_by_content() {
    let tool = Tool::new();
    tool.run(&format!("link {MLP} -o named.et")).exits(0);
    let [host, device] =
        ["torch_et_0", "kineto_trace_0"].map(|name| format!("{{pairs}}/mlp-2.15.0/{name}.json.gz"));
    for (output, traces) in [("a.et", [&host, &device]), ("b.et", [&device, &host])] {
        let [first, second] = traces;
        tool.run(&format!("link {first} {second} -o {output}"))
            .exits(0);
        assert!(tool.read(output) == tool.read("named.et"));
    }
    tool.run(&format!("link {device} -o alone.et")).exits(0);
    for refused in [host.clone(), format!("{host} {host}"), "-".to_owned()] {
        tool.run(&format!("link {refused}")).exits(2);
    }
}

#[test]
fn a_trace_without_ids_is_matched_by_order() {
    for case in [
        "mlp-2.3.1",
        "mlp-2.1.2",
        "transformer-2.3.1",
        "loader-2.3.1",
        "conv-2.1.2",
    ] {
        let tool = Tool::new();
        let line = MLP.replace("mlp-2.15.0", case);
        let report = &tool
            .run(&format!("link {line} -o out.et --json"))
            .exits(0)
            .json()["report"];
        assert_eq!(report["matched"]["order"], report["cpu_ops"], "{case}");
        tool.run("check out.et").exits(0);
    }
}

#[test]
fn the_table_tells_the_story() {
    let tool = Tool::new();
    tool.run(&format!("link {MLP} -o out.et"))
        .exits(0)
        .says("396")
        .says("100.00 %")
        .says("by rule")
        .says("out.et");
}

#[test]
fn the_device_trace_alone_gives_the_same_graph() {
    let tool = Tool::new();
    let both = tool
        .run(&format!("link {MLP} -o both.et --json"))
        .exits(0)
        .json();
    let alone = tool
        .run("link --device {pairs}/mlp-2.15.0/kineto_trace_0.json.gz -o alone.et --json")
        .exits(0)
        .json();
    assert_eq!(both["report"]["nodes"], alone["report"]["nodes"]);
    assert_eq!(both["report"]["edges"], alone["report"]["edges"]);
    tool.run("check alone.et").exits(0);
}

#[test]
fn plain_gzip_zstd_and_standard_input_are_the_same() {
    let tool = Tool::new();
    let (host, device) = (
        unpacked("mlp-2.15.0/torch_et_0.json.gz"),
        unpacked("mlp-2.15.0/kineto_trace_0.json.gz"),
    );
    tool.file("host.json", &host);
    // content decides, not the name; a gzip file may have several members
    let (first, second) = device.split_at(device.len() / 3);
    tool.file("device.json", [gzip(first), gzip(second)].concat());
    tool.file(
        "device.zst",
        zstd::encode_all(&device[..], 1).expect("packs"),
    );
    tool.run(&format!("link {MLP} -o a.et")).exits(0);
    tool.run("link --host host.json --device device.json -o b.et")
        .exits(0);
    tool.run("link --host host.json --device device.zst -o c.et")
        .exits(0);
    tool.run_with("link --host host.json --device - -o d.et", &device)
        .exits(0);
    for other in ["b.et", "c.et", "d.et"] {
        assert!(tool.read("a.et") == tool.read(other), "{other}");
    }
}

#[test]
fn one_gzip_member_or_many_are_the_same() {
    let tool = Tool::new();
    let line = |host: &str, device: &str, out: &str| {
        format!("link --host {host} --device {device} -o {out} --overwrite")
    };
    tool.run(&format!(
        "link {} -o one.et",
        MLP.replace("mlp-2.15.0", "transformer-2.15.0")
    ))
    .exits(0);
    let (host, device) = (
        unpacked("transformer-2.15.0/torch_et_0.json.gz"),
        unpacked("transformer-2.15.0/kineto_trace_0.json.gz"),
    );
    tool.file("host.bgz", bgzip(&host));
    tool.file("device.bgz", bgzip(&device));
    // padded like on tapes and block devices
    tool.file("host.padded", [gzip(&host), vec![0; 512]].concat());
    tool.file(
        "device.members",
        device
            .chunks(3000)
            .chain([&b""[..]])
            .flat_map(gzip)
            .chain(vec![0; 5])
            .collect::<Vec<u8>>(),
    );
    for threads in [1, 2, 4, 7] {
        for (host, device) in [
            ("host.bgz", "device.bgz"),
            ("host.padded", "device.members"),
        ] {
            let ran = tool
                .run(&format!(
                    "{} -j {threads} --strict --json",
                    line(host, device, "many.et")
                ))
                .exits(0)
                .json();
            assert!(
                tool.read("one.et") == tool.read("many.et"),
                "{host} {device} at {threads} threads"
            );
            assert_eq!(
                ran["report"]["anomalies"]
                    .as_array()
                    .map(|list| list.iter().filter(|a| a["kind"] == "source_ended").count()),
                Some(0)
            );
        }
    }
    tool.run_with(&line("host.bgz", "-", "many.et"), &bgzip(&device))
        .exits(0);
    assert!(tool.read("one.et") == tool.read("many.et"));
}

#[test]
fn the_same_bytes_at_any_thread_count() {
    let tool = Tool::new();
    for case in ["transformer-2.15.0", "threads-2.15.0", "transformer-2.3.1"] {
        for ending in ["et", "json"] {
            let line = MLP.replace("mlp-2.15.0", case);
            tool.run(&format!("link {line} -o one.{ending} -j 1 --overwrite"))
                .exits(0);
            for threads in [2, 3, 8, 100_000] {
                tool.run(&format!(
                    "link {line} -o many.{ending} -j {threads} --overwrite"
                ))
                .exits(0);
                assert!(
                    tool.read(&format!("one.{ending}")) == tool.read(&format!("many.{ending}")),
                    "{case}.{ending} at {threads} threads"
                );
            }
        }
    }
}

#[test]
fn merged_json_is_json_and_can_be_checked() {
    let tool = Tool::new();
    tool.run(&format!("link {MLP} -o out.json")).exits(0);
    tool.run(&format!("link {MLP} -o packed.json.gz")).exits(0);
    let merged: serde_json::Value =
        serde_json::from_slice(&tool.read("out.json")).expect("valid JSON");
    assert_eq!(merged["nodes"].as_array().map(Vec::len), Some(398));
    assert_eq!(&tool.read("packed.json.gz")[..2], b"\x1f\x8b");
    tool.run("check out.json packed.json.gz").exits(0);
}

#[test]
fn standard_output_takes_the_graph_alone() {
    let tool = Tool::new();
    let ran = tool
        .run(&format!("link {MLP} -o - --format etplus"))
        .exits(0);
    assert!(ran.other_json()["nodes"].is_array());
}

#[test]
fn inspect_knows_every_kind_and_what_takes_it() {
    let tool = Tool::new();
    let streams = "link --device {pairs}/../graphs/streams-2.15.0.json";
    tool.run(&format!("{streams} -o out.0.et")).exits(0);
    tool.run(&format!("{streams} -o out.json")).exits(0);
    tool.run("convert out.0.et printed.json").exits(0);
    let graph = vec![
        "analyze FILE",
        "report FILE -o page.html -f",
        "check FILE",
        "convert FILE x.dot -f",
        "replay FILE",
    ];
    let device = [
        "link --device FILE",
        "analyze FILE",
        "findings FILE",
        "replay FILE",
        "report FILE -o page.html -f",
        "top FILE",
        "diff FILE FILE",
    ];
    let kineto = "{pairs}/mlp-2.15.0/kineto_trace_0.json.gz";
    let host = [
        format!("link --host FILE --device {kineto}"),
        format!("analyze --host FILE {kineto}"),
        format!("top --host FILE {kineto}"),
    ];
    let simulated = "{pairs}/../simulated/tpdp4-2.15.0";
    for (file, kind, commands) in [
        (
            "{pairs}/mlp-2.15.0/torch_et_0.json.gz",
            "host_trace",
            host.each_ref().map(String::as_str).to_vec(),
        ),
        (kineto, "kineto_trace", device.to_vec()),
        (
            "{pairs}/../jax/mlp-0.10.2/host.xplane.pb",
            "xla_space",
            device.to_vec(),
        ),
        ("out.0.et", "chakra_et", graph.clone()),
        ("out.json", "et_plus", graph.clone()),
        ("printed.json", "chakra_json", graph),
        (
            &format!("{simulated}/log.log"),
            "astra_log",
            vec!["inspect FILE"],
        ),
        (
            &format!("{simulated}/printed.txt"),
            "astra_log",
            vec!["inspect FILE"],
        ),
    ] {
        let facts = tool
            .run(&format!("inspect {file} --json"))
            .exits(0)
            .only_file();
        assert_eq!(facts["kind"], kind, "{file}");
        let taken_by = facts["taken_by"].as_str().expect("a text");
        for command in commands {
            tool.run(&command.replace("FILE", file)).exits(0);
            let name = command.split(' ').next().unwrap_or_default();
            assert!(
                taken_by.contains(name) || name == "inspect",
                "{name}: {taken_by}"
            );
        }
        tool.run(&format!("inspect {file}"))
            .exits(0)
            .says("taken by");
    }
    let log = format!("{simulated}/log.log");
    let facts = tool
        .run(&format!("inspect {log} --json"))
        .exits(0)
        .only_file();
    assert!(
        facts["taken_by"]
            .as_str()
            .expect("a text")
            .starts_with("simulated")
    );
    tool.run(&format!("analyze {log}"))
        .exits(2)
        .complains(&["is an ASTRA-sim log", "give it to `etlink simulated`"]);
}
