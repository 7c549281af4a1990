//! `etlink merge` over folders of ranks.

use crate::tool::{Tool, unpacked};

#[test]
fn all_recorded_pairs_link_and_pass_the_check() {
    let tool = Tool::new();
    let ran = tool.run("merge {pairs} -o out --json").exits(0);
    let ranks = ran.json()["ranks"].as_array().cloned().expect("a list");
    assert_eq!(ranks.len(), 36);
    for rank in &ranks {
        let report = &rank["report"];
        let matched: u64 = report["matched"]
            .as_object()
            .expect("counts")
            .values()
            .filter_map(|n| n.as_u64())
            .sum();
        let ops = report["cpu_ops"].as_u64().expect("a count");
        assert!(
            matched as f64 >= 0.995 * ops as f64,
            "{}: {matched} of {ops}",
            rank["device"]
        );
    }
    tool.run("check out").exits(0);
}

#[test]
fn a_bad_rank_does_not_stop_the_others() {
    let tool = Tool::new();
    for rank in 0..4 {
        for kind in ["torch_et", "kineto_trace"] {
            let name = format!("{kind}_{rank}.json");
            tool.file(
                &format!("run/{name}"),
                unpacked(&format!("tpdp4-2.15.0/{name}.gz")),
            );
        }
    }
    tool.file("run/torch_et_2.json", "this is no trace");
    std::fs::remove_file(tool.path("run/kineto_trace_3.json")).expect("removes");
    let ran = tool
        .run("merge run -o out")
        .exits(1)
        .says("2 linked, 2 failed")
        .says("torch_et_2.json")
        .says("torch_et_3.json");
    assert!(ran.stdout.contains("failed: 3:"), "{}", ran.stdout);
    let written: Vec<_> = [
        "out/run.0.et",
        "out/run.1.et",
        "out/run.2.et",
        "out/run.3.et",
    ]
    .map(|name| tool.path(name).exists())
    .into();
    assert_eq!(written, [true, true, false, false]);
}

#[test]
fn the_names_in_use_are_found() {
    let tool = Tool::new();
    let (host, device) = (
        unpacked("ddp2-2.15.0/torch_et_0.json.gz"),
        unpacked("ddp2-2.15.0/kineto_trace_0.json.gz"),
    );
    let (host1, device1) = (
        unpacked("ddp2-2.15.0/torch_et_1.json.gz"),
        unpacked("ddp2-2.15.0/kineto_trace_1.json.gz"),
    );
    for (at, names) in [
        [
            "torch_et_0.json",
            "kineto_trace_0.json",
            "torch_et_1.json",
            "kineto_trace_1.json",
        ],
        [
            "pytorch_et_0.json",
            "kineto_0.json",
            "pytorch_et_1.json",
            "kineto_1.json",
        ],
        [
            "host_0.json",
            "device_0.json",
            "host_1.json",
            "device_1.json",
        ],
        [
            "torch_et_0.json",
            "rank0_trace.json",
            "torch_et_1.json",
            "rank1_trace.json",
        ],
        [
            "torch_et_0.json",
            "a.pt.trace.json",
            "torch_et_1.json",
            "b.pt.trace.json",
        ],
    ]
    .into_iter()
    .enumerate()
    {
        for (name, content) in names.iter().zip([&host, &device, &host1, &device1]) {
            tool.file(&format!("run{at}/{name}"), content);
        }
        let ranks = tool
            .run(&format!("merge run{at} -o out{at} --json"))
            .exits(0)
            .json();
        let ranks: Vec<_> = ranks["ranks"]
            .as_array()
            .expect("list")
            .iter()
            .map(|rank| {
                (
                    rank["report"]["rank"].clone(),
                    rank["report"]["matched"]["id"].clone(),
                )
            })
            .collect();
        assert_eq!(
            ranks,
            [(0.into(), 518.into()), (1.into(), 518.into())],
            "{names:?}"
        );
    }
}

#[test]
fn no_two_ranks_share_an_output() {
    let tool = Tool::new();
    let device = unpacked("mlp-2.15.0/kineto_trace_0.json.gz");
    let host = unpacked("mlp-2.15.0/torch_et_0.json.gz");
    for name in ["torch_et_0.json", "torch_et_0.run1.json"] {
        tool.file(&format!("run/{name}"), &host);
    }
    for name in ["kineto_trace_0.json", "kineto_trace_0.run1.json"] {
        tool.file(&format!("run/{name}"), &device);
    }
    let ranks = tool.run("merge run -o out --json --overwrite").json();
    let outputs: Vec<_> = ranks["ranks"]
        .as_array()
        .expect("list")
        .iter()
        .filter_map(|rank| rank["output"].as_str())
        .collect();
    assert_eq!(outputs, ["out/run.0.et", "out/run.kineto_trace_0.run1.et"]);
}

#[test]
fn a_file_and_its_packed_twin_are_one() {
    let tool = Tool::new();
    let device = unpacked("mlp-2.15.0/kineto_trace_0.json.gz");
    tool.file(
        "run/torch_et_0.json",
        unpacked("mlp-2.15.0/torch_et_0.json.gz"),
    );
    tool.file("run/kineto_trace_0.json", &device);
    tool.file("run/kineto_trace_0.json.gz", crate::tool::gzip(&device));
    tool.run("merge run -o out")
        .exits(0)
        .says("1 linked, 0 failed")
        .notes("left out");
}

#[test]
fn the_same_bytes_at_any_thread_count() {
    let tool = Tool::new();
    tool.run("merge {pairs}/tpdp4-2.15.0 -o one -j 1").exits(0);
    tool.run("merge {pairs}/tpdp4-2.15.0 -o four -j 4").exits(0);
    for rank in 0..4 {
        let name = format!("tpdp4-2.15.0.{rank}.et");
        assert!(
            tool.read(&format!("one/{name}")) == tool.read(&format!("four/{name}")),
            "rank {rank}"
        );
    }
}

#[test]
fn a_folder_without_traces_says_so() {
    let tool = Tool::new();
    tool.file("run/notes.txt", "nothing");
    tool.run("merge run -o out")
        .exits(2)
        .complains(&["run", "no host or device traces"]);
    tool.run("merge nowhere -o out")
        .exits(2)
        .complains(&["nowhere", "not a folder"]);
}
