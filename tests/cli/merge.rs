//! `etlink merge` over folders of ranks.

use crate::ranks::later;
use crate::tool::{Tool, pairs, unpacked};

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
    tool.run("merge run -o out")
        .exits(1)
        .says("2 linked, 2 failed")
        .notes("torch_et_2.json")
        .notes("failed: 3:")
        .notes("torch_et_3.json");
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

/// Returns host and device trace of the two ranks of one job.
fn two_ranks() -> [[Vec<u8>; 2]; 2] {
    [0, 1].map(|rank| {
        ["torch_et", "kineto_trace"]
            .map(|what| unpacked(&format!("ddp2-2.15.0/{what}_{rank}.json.gz")))
    })
}

/// Writes `name` with the rank in place of `R`.
fn put(tool: &Tool, name: &str, rank: usize, content: &[u8]) {
    tool.file(&name.replace('R', &rank.to_string()), content);
}

#[test]
fn folders_of_one_job_are_one_run() {
    let ranks = two_ranks();
    for (host, device, rule) in [
        // Megatron-LM with --pytorch-profiler-collect-chakra, NeMo
        (
            "chakra/rank-R.json",
            "torch_profile/rank-R.json",
            "host traces in chakra and device traces in torch_profile have the same ranks",
        ),
        (
            "host/rank-R.json",
            "device/rank-R.json",
            "host traces in host and device traces in device have the same ranks",
        ),
        // OLMo
        (
            "rank-R/execution-trace.json",
            "rank-R/trace.json",
            "2 folders (rank-0, …) have one rank each and are named after it",
        ),
    ] {
        let tool = Tool::new();
        for (rank, [host_text, device_text]) in ranks.iter().enumerate() {
            put(&tool, &format!("job/{host}"), rank, host_text);
            put(&tool, &format!("job/{device}"), rank, device_text);
        }
        // an unrelated folder stays a separate run
        tool.file("job/other/kineto_trace_0.json", &ranks[0][1]);
        let merged = tool.run("merge job -o out").exits(0);
        let merged = merged.notes(&format!("{rule}: read as one run"));
        for line in [
            "\n  0  ",
            "\n  1  ",
            "518 of 518 ops matched",
            "\n  other/0  ",
        ] {
            assert!(
                format!("\n{}", merged.stdout).contains(line),
                "{host}: {line}"
            );
        }
        assert!(tool.path("out/job.1.et").exists(), "{host}");
    }
}

/// Layouts in `testdata/layouts`: true if ranks have a host trace, and the rule that assigns files
/// to ranks.
const LAYOUTS: [(&str, bool, &str); 9] = [
    (
        "chakra-samples",
        true,
        "chakra_device_1.json.gz, by names of Chakra's samples",
    ),
    (
        "host-and-device",
        true,
        "device/rank-1.json.gz, by `rank` in the name; one folder for host traces and one for device traces",
    ),
    (
        "megatron",
        true,
        "torch_profile/rank-1.json.gz, by `rank` in the name; one folder for host traces and one for",
    ),
    (
        "mlrepository",
        true,
        "m_kineto_rank1.json.gz, by MLRepository's names",
    ),
    (
        "olmo",
        true,
        "rank-1/trace.json.gz, by the folder name; one folder per rank, as in OLMo",
    ),
    ("sglang", false, "TP-1.trace.json.gz, by SGLang's names"),
    (
        "tensorboard",
        false,
        "by the rank stated in the trace (TensorBoard handler names, `<worker>.<time>.pt.trace`)",
    ),
    (
        "torchtitan",
        false,
        "iteration_10/rank1_trace.json.gz, by torchtitan's names",
    ),
    ("vllm", false, ".pt.trace.json.gz, by vLLM's names"),
];

#[test]
fn every_layout_in_use_merges_as_it_lies() {
    let folder = pairs().join("../layouts");
    let mut names = vec![];
    for entry in std::fs::read_dir(&folder).expect("lists folder") {
        let name = entry.expect("entry").file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    // a new layout needs a new line
    assert_eq!(names, LAYOUTS.map(|(name, ..)| name));
    for (layout, has_host, rule) in LAYOUTS {
        let tool = Tool::new();
        let words = ["merge", layout, "-o", "out", "-v"].map(str::to_owned);
        let path = folder.join(layout).display().to_string();
        let words: Vec<String> = words
            .into_iter()
            .map(|word| if word == layout { path.clone() } else { word })
            .collect();
        let merged = tool.run_words(&words).exits(0);
        let content = match has_host {
            true => "42 of 42 ops matched",
            false => "device trace only",
        };
        let ranks = merged.stdout.matches(content).count();
        assert_eq!(ranks, 2, "{layout}: {}", merged.shown());
        merged
            .says("4 collectives and 0 messages matched, 0 not")
            .says("2 linked, 0 failed")
            .notes(rule);
    }
}

#[test]
fn folders_that_only_look_alike_stay_runs() {
    let tool = Tool::new();
    let ranks = two_ranks();
    // host traces of another rank, and folders without a rank in their names
    tool.file("a/host/rank-1.json", &ranks[1][0]);
    tool.file("a/device/rank-0.json", &ranks[0][1]);
    tool.run("merge a -o out-a")
        .exits(1)
        .notes("no device trace of the same rank is next to it");
    // ranks of an adapter rather than of a job, and no trace states its rank
    let unnamed = String::from_utf8_lossy(&ranks[0][1]).replace("distributedInfo", "info");
    tool.file("c/rank-8/trace.json", &unnamed);
    tool.file("c/rank-16/trace.json", &unnamed);
    tool.run("merge c -o out-c")
        .exits(0)
        .says("rank-16/")
        .says("rank-8/");
    // two host traces of one rank
    tool.file("d/chakra/host_0.a.json", &ranks[0][0]);
    tool.file("d/chakra/host_0.b.json", &ranks[1][0]);
    tool.file("d/torch_profile/rank-0.json", &ranks[0][1]);
    tool.run("merge d -o out-d")
        .exits(1)
        .says("torch_profile/0  ")
        .notes("2 host traces claim rank 0");
    // both ranks of a world of two, at the same time
    tool.file("b/first/kineto_trace_0.json", &ranks[0][1]);
    tool.file("b/second/kineto_trace_1.json", &ranks[1][1]);
    tool.run("merge b -o out-b")
        .exits(0)
        .says("2 ranks  1 group; 4 collectives");
}

#[test]
fn folders_that_may_belong_together_are_named() {
    let tool = Tool::new();
    for (rank, [host, device]) in two_ranks().iter().enumerate() {
        put(&tool, "job/chakra/rank-R.json", rank, host);
        put(&tool, "job/tb/rank-R.json", rank, device);
        put(&tool, "job/torch_profile/rank-R.json", rank, device);
    }
    tool.run("merge job -o out")
        .exits(1)
        .notes(
            "folders of host traces (chakra) and of device traces (tb, torch_profile) share ranks",
        )
        .notes("keep only one of tb, torch_profile")
        .notes("which device trace belongs to it is unclear");
    std::fs::remove_dir_all(tool.path("job/tb")).expect("removes");
    tool.run("merge job -o out --overwrite")
        .exits(0)
        .says("2 linked, 0 failed");
    // nodes with separate folders are parts of one run
    for (rank, [host, device]) in two_ranks().iter().enumerate() {
        put(&tool, &format!("nodes/n{rank}_et/rank-R.json"), rank, host);
        put(
            &tool,
            &format!("nodes/n{rank}_kt/rank-R.json"),
            rank,
            device,
        );
    }
    let merged = tool.run("merge nodes -o nodes-out").exits(1);
    let merged =
        merged.notes("put all host traces into one folder, and all device traces into another");
    assert!(!merged.stderr.contains("keep only"), "{}", merged.stderr);
}

#[test]
fn cycles_in_one_folder_are_runs() {
    let ranks = two_ranks();
    for (names, cycles) in [
        (
            ["kineto_trace_R.cycle9.json", "kineto_trace_R.cycle10.json"],
            ["cycle9", "cycle10"],
        ),
        (
            ["node_4R.1795.pt.trace.json", "node_4R.18000.pt.trace.json"],
            ["cycle1", "cycle2"],
        ),
    ] {
        let tool = Tool::new();
        for (rank, [host, device]) in ranks.iter().enumerate() {
            // one observer writes one host trace over all cycles
            put(&tool, "job/torch_et_R.json", rank, host);
            for (name, seconds) in names.into_iter().zip([0, 10]) {
                let device = later(device, seconds);
                put(&tool, &format!("job/{name}"), rank, &device);
            }
        }
        let merged = tool
            .run("merge job -o out")
            .exits(0)
            .notes(&format!(
                "2 recordings of the ranks ({})",
                cycles.join(", ")
            ))
            .says(&format!("joined {}  2 ranks", cycles[0]))
            .says(&format!("joined {}  2 ranks", cycles[1]));
        let matched = merged.stdout.matches("518 of 518 ops matched").count();
        assert_eq!(matched, 4, "{}", merged.stdout);
    }
    // by their times, whatever the process ids in the names
    let tool = Tool::new();
    for (name, rank, seconds) in [
        ("node_67.1000", 0, 0),
        ("node_68.2000", 0, 10),
        ("node_68.1001", 1, 0),
        ("node_67.2001", 1, 10),
    ] {
        let device = later(&ranks[rank][1], seconds);
        tool.file(&format!("job/{name}.pt.trace.json"), device);
    }
    let json = tool.run("merge job -o out --json").exits(0).json();
    let first = &json["ranks"].as_array().expect("ranks")[1];
    let name = first["device"].to_string();
    assert!(name.contains("node_68.1001"), "{name}");
    // a cycle can be selected, though it is not a folder
    tool.run("analyze job/cycle2").exits(0);
    tool.run("analyze job/cycle3").exits(2);
    // words name the recordings of one process
    let tool = Tool::new();
    tool.file("job/kineto_trace_0.first.json", &ranks[0][1]);
    tool.file("job/kineto_trace_0.second.json", later(&ranks[0][1], 10));
    tool.run("merge job -o out")
        .notes("2 recordings of the ranks (first, second)");
    // but without additions they may mean anything
    let tool = Tool::new();
    tool.file("job/kineto_trace_0.json", &ranks[0][1]);
    tool.file("job/device_0.json", later(&ranks[0][1], 10));
    tool.run("merge job -o out")
        .notes("2 device traces claim rank 0");
}

#[test]
fn a_cycle_is_told_by_its_number_in_the_names() {
    let ranks = two_ranks();
    let tool = Tool::new();
    for (rank, cycle) in [(0, 1), (0, 2), (1, 2), (1, 3)] {
        let name = format!("job/kineto_trace_R.cycle{cycle}.json");
        put(&tool, &name, rank, &later(&ranks[rank][1], cycle));
    }
    let merged = tool
        .run("merge job -o out")
        .exits(0)
        .notes("3 recordings of the ranks (cycle1, cycle2, cycle3), each a run")
        .notes("cycle1 has no trace of rank 1; cycle3 has no trace of rank 0")
        .says("joined cycle2  2 ranks")
        .says("4 linked, 0 failed");
    assert_eq!(
        merged.stdout.matches("  2 ranks").count(),
        1,
        "{}",
        merged.stdout
    );
    for (cycle, count) in [(1, 1), (2, 2), (3, 1)] {
        let said = tool.run(&format!("analyze job/cycle{cycle} --json"));
        let said = said.exits(0).runs();
        let ranks = said[0]["ranks"].as_array().map_or(0, Vec::len);
        assert_eq!(ranks, count, "cycle{cycle}");
    }
}

#[test]
fn a_cycle_without_the_trace_of_a_rank_leaves_the_others_whole() {
    let ranks = two_ranks();
    for has_several_hosts in [false, true] {
        let tool = Tool::new();
        for (rank, [host, device]) in ranks.iter().enumerate() {
            if !has_several_hosts {
                put(&tool, "job/torch_et_R.json", rank, host);
            }
            for cycle in [0, 1] {
                if has_several_hosts {
                    let name = format!("job/torch_et_R.cycle{cycle}.json");
                    // the same ops, but not a copy
                    put(
                        &tool,
                        &name,
                        rank,
                        &[&host[..], &vec![b' '; cycle as usize]].concat(),
                    );
                }
                if (rank, cycle) != (1, 0) {
                    let name = format!("job/kineto_trace_R.cycle{cycle}.json");
                    put(&tool, &name, rank, &later(device, cycle));
                }
            }
        }
        let merged = tool
            .run("merge job -o out")
            .exits(0)
            .notes("cycle0 has no trace of rank 1")
            .says("joined cycle1  2 ranks")
            .says("3 linked, 0 failed");
        let matched = merged.stdout.matches("518 of 518 ops matched").count();
        assert_eq!(matched, 3, "{}", merged.stdout);
    }
}

#[test]
fn damaged_traces_are_named_beside_cycles_that_lack_some() {
    let ranks = two_ranks();
    for (damaged, note) in [
        (
            &[1][..],
            "host_10.1.pt.trace.json is an unknown kind of file: it may be damaged, and a trace that \
             one of the cycles lacks",
        ),
        (
            &[1, 2],
            "2 files, such as host_10.1.pt.trace.json, are an unknown kind of file: one may be \
             damaged, and the device trace that rank 1 lacks",
        ),
    ] {
        let tool = Tool::new();
        for (rank, [host, device]) in ranks.iter().enumerate() {
            put(&tool, "job/torch_et_R.json", rank, host);
            for cycle in [1, 2] {
                let is_damaged = rank == 1 && damaged.contains(&cycle);
                let name = format!("job/host_R0.{cycle}.pt.trace.json");
                let device = later(device, cycle);
                put(
                    &tool,
                    &name,
                    rank,
                    if is_damaged { b"garbage" } else { &device },
                );
            }
        }
        tool.run("merge job -o out").notes(note);
    }
}

#[test]
fn profiles_by_stage_are_runs() {
    let ranks = two_ranks();
    let tool = Tool::new();
    for (rank, [_, device]) in ranks.iter().enumerate() {
        for (stage, seconds) in [("EXTEND", 0), ("DECODE", 1)] {
            let name = format!("job/1795225129.51-TP-R-{stage}.trace.json");
            put(&tool, &name, rank, &later(device, seconds));
        }
    }
    tool.run("merge job -o out")
        .exits(0)
        .notes("2 recordings of the ranks (DECODE, EXTEND), each a run")
        .says("joined DECODE  2 ranks")
        .says("joined EXTEND  2 ranks");
    tool.run("ranks job/EXTEND").exits(0);
    tool.run("ranks job/PREFILL").exits(2);
}

#[test]
fn no_two_ranks_share_an_output() {
    let tool = Tool::new();
    let device = unpacked("mlp-2.15.0/kineto_trace_0.json.gz");
    let host = unpacked("mlp-2.15.0/torch_et_0.json.gz");
    for name in ["torch_et_0.json", "torch_et_0.run1.json"] {
        tool.file(&format!("run/{name}"), &host);
    }
    for (name, seconds) in [("kineto_trace_0.json", 0), ("kineto_trace_0.run1.json", 1)] {
        tool.file(&format!("run/{name}"), later(&device, seconds));
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
fn what_is_damaged_is_said() {
    let tool = Tool::new();
    tool.shell("cp -r {pairs}/ddp2-2.15.0 run && rm -f run/RECIPE run/kineto_trace_1.json.gz")
        .exits(0);
    let device = unpacked("ddp2-2.15.0/kineto_trace_1.json.gz");
    // a longer trace was overwritten
    let behind = &device[device.len() - 300..];
    tool.file("run/kineto_trace_1.json", [&device[..], behind].concat());
    let said = "note: rank 1: damage: pieces of text after the end";
    for (code, options) in [
        (0, "-o out"),
        (0, "-o part --shard 1/2"),
        (1, "-o strict --strict"),
    ] {
        tool.run(&format!("merge run {options}"))
            .exits(code)
            .says(" 1 damage,")
            .notes(said);
    }
}

/// A copy that was truncated while it was unpacked.
#[test]
fn a_packed_trace_is_read_where_the_plain_one_is_cut() {
    let device = unpacked("ddp2-2.15.0/kineto_trace_1.json.gz");
    let host = unpacked("ddp2-2.15.0/torch_et_1.json.gz");
    for bytes in [device.len() / 2, 0] {
        let tool = Tool::new();
        tool.shell("cp -r {pairs}/ddp2-2.15.0 run && rm -f run/RECIPE && cp -r run whole")
            .exits(0);
        tool.run("merge whole -o out").exits(0);
        let rank = tool.read("out/whole.1.et");
        tool.file("run/kineto_trace_1.json", &device[..bytes]);
        tool.file("run/torch_et_1.json", &host[..host.len() * 2 / 3]);
        tool.run("merge run -o out2")
            .exits(0)
            .notes(
                "run/kineto_trace_1.json is truncated: reading run/kineto_trace_1.json.gz instead",
            )
            .notes("run/torch_et_1.json is truncated: reading run/torch_et_1.json.gz instead");
        assert!(tool.read("out2/run.1.et") == rank, "{bytes}");
    }
    // compressed with zstd, and with both
    let tool = Tool::new();
    tool.file("run/kineto_trace_1.json", &device[..1000]);
    let packed = zstd::encode_all(&device[..], 0).expect("packs");
    tool.file("run/kineto_trace_1.json.zst", packed);
    tool.run("merge run -o out")
        .exits(0)
        .notes("kineto_trace_1.json.zst instead")
        .says(" 0 damage,");
    tool.file("run/kineto_trace_1.json.gz", crate::tool::gzip(&device));
    tool.run("merge run -o out -f")
        .exits(0)
        .notes("kineto_trace_1.json.gz instead")
        .notes("kineto_trace_1.json.zst is left out: the folder has another compressed copy")
        .says("1 linked, 0 failed");
    // both are truncated: the one with more data counts
    let tool = Tool::new();
    tool.file("run/kineto_trace_1.json", &device[..device.len() / 2]);
    tool.file(
        "run/kineto_trace_1.json.gz",
        crate::tool::gzip(&device[..1000]),
    );
    tool.run("merge run -o out")
        .exits(0)
        .notes("kineto_trace_1.json.gz is left out: the folder has an uncompressed copy");
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

#[test]
fn a_packed_twin_of_any_recorder_is_one_file() {
    let tool = Tool::new();
    let profile = std::fs::read(pairs().join("../jax/mlp-0.10.2/host.xplane.pb"));
    let profile = profile.expect("a recorded profile");
    tool.file("job/rank0.xplane.pb.gz", crate::tool::gzip(&profile));
    tool.file("job/rank0.xplane.pb", profile);
    tool.run("merge job -o out")
        .exits(0)
        .notes("the folder has an uncompressed copy")
        .says("1 linked, 0 failed");
}

#[test]
fn a_rank_of_two_recorders_has_its_kineto_trace() {
    let tool = Tool::new();
    for (rank, [host, device]) in two_ranks().iter().enumerate() {
        put(&tool, "job/torch_et_R.json", rank, host);
        put(&tool, "job/kineto_trace_R.json", rank, device);
        // truncated: its tables cannot be read
        put(&tool, "job/nsys_R.sqlite", rank, b"SQLite format 3\0");
    }
    tool.run("merge job -o out")
        .exits(0)
        .says("2 linked, 0 failed")
        .says("518 of 518 ops matched");
}

#[test]
fn outputs_are_not_mixed_with_inputs() {
    let tool = Tool::new();
    for (rank, [host, device]) in two_ranks().iter().enumerate() {
        put(&tool, "job/run/torch_et_R.json", rank, host);
        put(&tool, "job/run/kineto_trace_R.json", rank, device);
    }
    let before = tool.files("job");
    #[cfg(unix)]
    std::os::unix::fs::symlink("job/run", tool.path("link")).expect("a link");
    let links: &[&str] = if cfg!(unix) {
        &["job/run -o link"]
    } else {
        &[]
    };
    let among = [
        "job/run -o job/run",
        "job/run -o job/../job/run",
        "job -o job",
        "job/run -o job",
    ];
    for line in among.iter().chain(links) {
        tool.run(&format!("merge {line}"))
            .exits(2)
            .complains(&["contains the input", "folder of its own"]);
    }
    assert!(tool.files("job") == before, "the inputs are unchanged");
    // a folder within is no input the next time
    for (folder, format) in [("a", "chakra"), ("b", "etplus"), ("c", "perfetto")] {
        let line = format!("merge job/run -o job/run/{folder} --format {format}");
        tool.run(&line).exits(0).says("2 linked, 0 failed");
    }
    tool.run("merge job -o out")
        .exits(0)
        .says("2 linked, 0 failed");
}
