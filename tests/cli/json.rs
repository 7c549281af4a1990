//! `--json`: one envelope for all commands, and a schema per report.

use crate::schema::{check_value, schemas_folder};
use crate::tool::Tool;
use serde_json::Value;
use std::collections::BTreeSet;

const DDP: &str = "{pairs}/ddp2-2.15.0";
const TPDP: &str = "{pairs}/tpdp4-2.15.0";
const TRACE: &str = "{pairs}/ddp2-2.15.0/kineto_trace_0.json.gz";
const HOST: &str = "{pairs}/ddp2-2.15.0/torch_et_0.json.gz";
const STUCK: &str = "{pairs}/../flight/stuck4-2.15.0";
const SNAPSHOT: &str = "{pairs}/../memory/memory_snapshot_0.pickle";
const SIMULATED: &str = "{pairs}/../simulated/tpdp4-2.15.0/log.log";

/// Reports that need a running job or PyTorch, or that are files.
const ELSEWHERE: [&str; 2] = ["etlink.manifest.v1", "etlink.trigger.v1"];

/// Prepares a folder with a log of NCCL's inspector and a written run.
fn prepared() -> Tool {
    let tool = Tool::new();
    tool.file("logs/node-pid70.log", crate::inspector::log_of(0));
    tool.run(&format!("merge {DDP} -o graphs")).exits(0);
    tool
}

/// Returns each command with the name of its report.
fn commands() -> Vec<(String, &'static str)> {
    let of_traces = [
        ("analyze", "etlink.analyze"),
        ("analyze --table kernels", "etlink.analyze"),
        ("analyze --compat hta", "etlink.hta"),
        (
            "analyze --compat hta --table idle_time_breakdown",
            "etlink.hta",
        ),
        ("findings", "etlink.findings"),
        ("replay --critical-path", "etlink.replay"),
        (
            "replay --scale kind=host_op=0.5 --explain aten::addmm",
            "etlink.replay",
        ),
        ("ops", "etlink.ops"),
        ("top", "etlink.top"),
        ("top --tree", "etlink.top"),
    ];
    let mut all = vec![];
    for (line, schema) in of_traces {
        for source in [DDP, TRACE] {
            all.push((format!("{line} {source}"), schema));
        }
    }
    for (line, schema) in [
        (
            format!("link --host {HOST} --device {TRACE}"),
            "etlink.link",
        ),
        (format!("merge {DDP} -o merged"), "etlink.merge"),
        (
            format!("merge {TPDP} -o sim --for astra-sim --comm-only"),
            "etlink.merge",
        ),
        (format!("merge {DDP} -o part --shard 1/2"), "etlink.merge"),
        (
            format!("merge {DDP} --cache kept --prepare 0/2"),
            "etlink.prepared",
        ),
        (
            format!("analyze {DDP} --cache kept --prepare 0/1"),
            "etlink.prepared",
        ),
        (format!("ranks {DDP}"), "etlink.ranks"),
        (format!("ranks {STUCK}"), "etlink.hang"),
        (format!("analyze {SNAPSHOT}"), "etlink.memory"),
        ("ranks logs".to_owned(), "etlink.communicators"),
        (
            format!("replay --validate {TRACE} {TRACE}"),
            "etlink.validation",
        ),
        (
            format!("replay --validate {DDP} {DDP}"),
            "etlink.validation",
        ),
        (format!("report {DDP} -o page.html"), "etlink.report"),
        (format!("report {TRACE} -o one.html"), "etlink.report"),
        (format!("diff {DDP} {DDP}"), "etlink.diff"),
        (format!("diff {DDP} {DDP} {DDP}"), "etlink.diff-runs"),
        ("check graphs".to_owned(), "etlink.check"),
        ("check graphs/ddp2-2.15.0.0.et".to_owned(), "etlink.check"),
        (
            "convert graphs/ddp2-2.15.0.0.et one.json".to_owned(),
            "etlink.convert",
        ),
        (
            format!("convert {DDP} copy --anonymise"),
            "etlink.anonymous",
        ),
        ("analyze graphs".to_owned(), "etlink.analyze"),
        ("replay graphs".to_owned(), "etlink.replay"),
        (
            "generate ring --ranks 4 -o ring".to_owned(),
            "etlink.generate",
        ),
        ("scale ring --ranks 8 -o more".to_owned(), "etlink.scale"),
        (
            format!("simulated {SIMULATED} --graphs sim --against {TPDP}"),
            "etlink.simulated",
        ),
        (
            "schedule --wait 1 --warmup 1 --active 1 --steps 4".to_owned(),
            "etlink.schedule",
        ),
        (
            format!(
                "inspect {HOST} {TRACE} {STUCK}/nccl_trace_rank_0 {SIMULATED} logs/node-pid70.log \
                 graphs/ddp2-2.15.0.0.et"
            ),
            "etlink.inspect",
        ),
        (format!("inspect {TRACE}"), "etlink.inspect"),
    ] {
        all.push((line, schema));
    }
    all
}

#[test]
fn every_command_prints_a_report_of_its_schema() {
    let tool = prepared();
    let mut seen: BTreeSet<String> = ELSEWHERE.map(str::to_owned).into_iter().collect();
    for (line, schema) in commands() {
        // `json` validates it against its schema
        let report = tool.run(&format!("{line} --json")).exits(0).json();
        assert_eq!(report["schema"], schema, "{line}");
        seen.insert(format!("{schema}.v{}", report["version"]));
    }
    let files = std::fs::read_dir(schemas_folder()).expect("a folder");
    let names = files.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().trim_end_matches(".json").to_owned());
    assert_eq!(seen, names.collect());
}

/// Returns the fields of an object.
fn fields(value: &Value) -> Vec<&String> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn a_file_and_a_folder_give_one_shape() {
    let tool = prepared();
    for (command, list) in [
        ("replay", "runs"),
        ("analyze", "runs"),
        ("findings", "runs"),
        ("ops", "runs"),
        ("top", "tables"),
    ] {
        let [file, folder] = [TRACE, DDP].map(|source| {
            let report = tool
                .run(&format!("{command} {source} --json"))
                .exits(0)
                .json();
            assert!(report[list].is_array(), "{command} {source}");
            report
        });
        assert_eq!(fields(&file), fields(&folder), "{command}");
    }
    for command in ["check", "inspect"] {
        let one = tool
            .run(&format!("{command} graphs/ddp2-2.15.0.0.et --json"))
            .exits(0)
            .json();
        assert_eq!(fields(&one), ["schema", "version", "files"], "{command}");
        assert_eq!(one["files"].as_array().map(Vec::len), Some(1), "{command}");
    }
}

/// Manifest that `record` writes for a program that is not a rank.
#[test]
fn a_manifest_has_the_form_of_its_schema() {
    let tool = Tool::new();
    tool.run("record --wait 0 --warmup 0 --active 1 -o traces -- true");
    let manifest = serde_json::from_slice(&tool.read("traces/etlink.json")).expect("JSON");
    assert_eq!(check_value("etlink.manifest.v1", &manifest), Ok(()));
}
