//! `etlink generate` and `etlink scale`.

use crate::tool::Tool;

const PATTERNS: [&str; 17] = [
    "comp",
    "comps",
    "chain",
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "broadcast",
    "message",
    "ring",
    "transformer --tensor 2 --pipeline 2 --expert 2 --rounds 2 --layers 4",
    "transformer --pipeline 2 --schedule 1f1b --chunks 2 --rounds 4 --context 2 --zero 3",
    "transformer --pipeline 4 --schedule zero-bubble --rounds 8 --vocabulary 32000 --norms",
    "transformer --tensor 2 --expert 4 --zero 1 --vocabulary 32000",
    "prefill --tensor 2 --pipeline 2 --rounds 3",
    "decode --tensor 2 --expert 2 --tokens 3 --vocabulary 32000",
    "disaggregated --tensor 2 --prefill-ranks 2 --rounds 3 --tokens 3",
];

#[test]
fn every_pattern_passes_the_check() {
    let tool = Tool::new();
    for (number, pattern) in PATTERNS.iter().enumerate() {
        tool.run(&format!("generate {pattern} --ranks 8 -o set{number}"))
            .exits(0)
            .says("8 ranks");
        tool.run(&format!("check set{number} --strict"))
            .exits(0)
            .says("ok, 8 ranks together");
    }
}

#[test]
fn what_a_simulator_never_ends_is_not_made() {
    let tool = Tool::new();
    tool.run("generate all-gather --size 3 --ranks 4 -o made")
        .exits(2)
        .complains(&["nothing was written", "ET305", "--size"]);
    assert!(!tool.path("made").exists());
    tool.run("generate all-gather --size 4 --ranks 4 -o made")
        .exits(0);
    let readme = String::from_utf8(tool.read("made/README.md")).expect("is text");
    assert!(!readme.contains("recording"), "{readme}");
}

/// `merge --for astra-sim` gives a run of one rank an idle neighbour, which is not one of its
/// ranks.
#[test]
fn a_run_of_one_rank_is_scaled() {
    let tool = Tool::new();
    tool.run("merge {pairs}/mlp-2.15.0 --for astra-sim -o one")
        .exits(0);
    tool.run("scale one --ranks 3 -o made").exits(0);
    let files = tool.files("made");
    let ranks = files.keys().filter(|name| name.ends_with(".et"));
    assert_eq!(ranks.count(), 3);
    let readme = String::from_utf8(tool.read("made/README.md")).expect("is text");
    assert!(readme.contains("a copy of a rank"), "{readme}");
}

#[test]
fn a_configuration_that_no_rank_would_finish_with_is_named() {
    let tool = Tool::new();
    tool.run("generate ring --ranks 2 -o run").exits(0);
    tool.run("check run").exits(0).lacks("track-local-mem");
    let system = String::from_utf8(tool.read("run/system.json")).expect("is text");
    let tracks = system.replace("\"track-local-mem\": 0", "\"track-local-mem\": 1");
    assert_ne!(tracks, system);
    tool.file("run/system.json", tracks);
    tool.run("check run")
        .exits(0)
        .notes("sets track-local-mem, which needs `inputs` and `outputs`");
}

#[test]
fn the_same_seed_gives_the_same_files() {
    let tool = Tool::new();
    let make = |seed: u32, folder: &str| {
        tool.run(&format!(
            "generate ring --rounds 5 --jitter 50 --seed {seed} -o {folder}"
        ))
        .exits(0);
        tool.files(folder)
    };
    let first = make(3, "a");
    assert!(first == make(3, "b"));
    assert!(first != make(4, "c"));
    assert!(first.contains_key("system.json") && first.contains_key("ring.7.et"));
    tool.run("generate ring -o a")
        .exits(2)
        .complains(&["--overwrite"]);
    tool.run("generate transformer --ranks 6 --tensor 4 -o d")
        .exits(2)
        .complains(&["6 ranks", "a multiple of 4"]);
    assert!(!tool.path("d").exists());
}

#[test]
fn a_recorded_run_becomes_one_of_more_ranks() {
    let tool = Tool::new();
    tool.run("merge {pairs}/ddp2-2.15.0 --for astra-sim -o run")
        .exits(0);
    tool.run("scale run --ranks 16 -o large")
        .exits(0)
        .says("16 ranks");
    tool.run("check large")
        .exits(0)
        .says("ok, 16 ranks together");
    let network = String::from_utf8(tool.read("large/network.yml")).expect("is text");
    // the fitted network, with more ranks
    let fitted = String::from_utf8(tool.read("run/network.yml")).expect("is text");
    assert_eq!(network, fitted.replace("[ 2 ]", "[ 16 ]"));
    tool.run("merge {pairs}/ddp2-2.15.0 -o trees --format etplus")
        .exits(0);
    tool.run("scale trees --ranks 16 -o none").exits(2).complains(&[
        "ddp2-2.15.0.0.json.gz is merged JSON (ET+), but scale needs .et files; make them with `etlink merge`",
    ]);
    tool.run("scale run --ranks 15 -o odd")
        .exits(2)
        .complains(&["a multiple of 2"]);
    tool.run("merge {pairs}/tpdp4-2.15.0 --for astra-sim -o parts")
        .exits(0);
    tool.run("scale parts --ranks 8 -o undecided")
        .exits(2)
        .complains(&["--data-parallel", "ranks [0, 1]"]);
    tool.run("scale parts --ranks 8 --data-parallel none -o apart")
        .exits(0)
        .notes("no group has ranks of several copies: the copies run independently");
    tool.run("merge {pairs}/experts2-2.15.0 --for astra-sim -o experts")
        .exits(0);
    tool.run("scale experts --ranks 8 -o refused")
        .exits(2)
        .complains(&["ALL_TO_ALL", "--keep all-to-all"]);
    tool.run("scale experts --ranks 8 --keep all-to-all -o kept")
        .exits(0);
    tool.run("check kept").exits(0).says("ok, 8 ranks together");
}

/// Asserts that `--overwrite` is refused because of a file that etlink did not write.
fn refuses_foreign(tool: &Tool, line: &str, file: &str) {
    tool.run(line)
        .exits(2)
        .complains(&[file, "etlink did not write it", "move it away"]);
}

#[test]
fn files_of_others_are_not_overwritten() {
    let tool = Tool::new();
    tool.run("generate all-reduce --ranks 2 -o run").exits(0);
    for (number, foreign) in [
        "README.md",
        "system.json",
        "network.yml",
        "memory.json",
        "comm_group.json",
        "all-reduce.1.et",
        "all-reduce.9.et",
    ]
    .iter()
    .enumerate()
    {
        let folder = format!("foreign{number}");
        std::fs::create_dir(tool.path(&folder)).expect("a folder");
        let file = format!("{folder}/{foreign}");
        tool.file(&file, "{\"mine\": 1}\n");
        for line in [
            format!("generate all-reduce --ranks 4 -o {folder} -f"),
            format!("scale run --ranks 4 -o {folder} -f"),
        ] {
            refuses_foreign(&tool, &line, foreign);
            assert_eq!(tool.files(&folder).len(), 1, "{foreign}");
            assert_eq!(tool.read(&file), b"{\"mine\": 1}\n", "{foreign}");
        }
    }
    // a run scaled onto itself, by any name of its folder
    let before = tool.files("run");
    for output in ["run", "./run/."] {
        tool.run(&format!("scale run --ranks 4 -o {output} -f"))
            .exits(2)
            .complains(&["run is also an input"]);
    }
    assert!(tool.files("run") == before);
}

#[test]
fn fewer_ranks_replace_all_of_an_earlier_run() {
    let tool = Tool::new();
    tool.run("generate ring --ranks 8 -o ring").exits(0);
    tool.file("ring/notes.txt", "mine");
    tool.run("generate ring --ranks 4 -o ring -f").exits(0);
    tool.run("check ring").exits(0).says("ok, 4 ranks together");
    assert!(!tool.path("ring/ring.4.et").exists());
    // a run with another name stays
    tool.run("generate comp --ranks 2 -o ring -f").exits(0);
    assert!(tool.path("ring/ring.3.et").exists() && tool.path("ring/notes.txt").exists());

    tool.run("generate all-reduce --ranks 2 -o small").exits(0);
    tool.run("scale small --ranks 16 -o large").exits(0);
    assert!(tool.path("large/comm_group.json").exists());
    tool.run("scale small --ranks 8 -o large -f").exits(0);
    tool.run("check large")
        .exits(0)
        .says("ok, 8 ranks together");
    // without groups, the earlier group list must not remain for the new ranks
    tool.run("generate all-reduce --ranks 4 -o large -f")
        .exits(0);
    assert!(!tool.path("large/comm_group.json").exists());
}

#[test]
fn a_run_that_cannot_be_made_leaves_no_folder() {
    let tool = Tool::new();
    tool.run("generate all-reduce --ranks 2 -o run").exits(0);
    tool.run("generate all-gather --ranks 2 -o other").exits(0);
    // its ranks wait for each other in different collectives
    tool.file("run/all-reduce.1.et", tool.read("other/all-gather.1.et"));
    tool.run("scale run --ranks 4 --keep all-gather -o made/inner")
        .exits(2)
        .complains(&["nothing was written"]);
    assert!(!tool.path("made").exists());
}

#[test]
fn standard_output_is_no_folder() {
    let tool = Tool::new();
    for line in [
        "generate ring --ranks 2 -o -",
        "merge {pairs}/ddp2-2.15.0 -o -",
        "merge {pairs} -o - --format etplus",
    ] {
        tool.run(line)
            .exits(2)
            .complains(&["standard output cannot take several files", "give a folder"]);
        assert_eq!(tool.names(), Vec::<String>::new());
    }
}

#[test]
fn options_that_a_pattern_does_not_look_at_are_refused() {
    let tool = Tool::new();
    for (pattern, option) in [
        ("comp", "--rounds"),
        ("comps", "--rounds"),
        ("chain", "--size"),
        ("transformer", "--size"),
        ("ring", "--tensor"),
        ("all-reduce", "--layers"),
        ("message", "--sequence"),
        ("prefill", "--tokens"),
        ("decode", "--context"),
        ("ring", "--vocabulary"),
        ("transformer", "--prefill-ranks"),
    ] {
        tool.run(&format!("generate {pattern} --ranks 8 {option} 8 -o set"))
            .exits(2)
            .complains(&[option, "has no effect", pattern]);
        assert!(!tool.path("set").exists());
    }
    // numbers that overflow in every reader
    for line in [
        "comp --time 18446744073709551615 --jitter 100",
        "ring --size 16EiB",
    ] {
        tool.run(&format!("generate {line} --ranks 2 -o set"))
            .exits(2);
    }
    let most = "ring --time 1000000000000 --jitter 1000 --size 1PiB --ranks 2";
    tool.run(&format!("generate {most} -o most")).exits(0);
    tool.run("check most").exits(0).says("ok, 2 ranks together");
}

#[test]
fn a_network_that_cannot_be_scaled_is_named() {
    let tool = Tool::new();
    tool.run("generate all-reduce --ranks 2 -o run").exits(0);
    let readme = String::from_utf8(tool.read("run/README.md")).expect("is text");
    assert!(!readme.contains("too few communications"), "{readme}");
    let rest = "bandwidth: [ 3 ]\nlatency: [ 5 ]\n";
    tool.file(
        "run/network.yml",
        format!("topology: [ Ring ]\nnpus_count:\n  - 2\n{rest}"),
    );
    let ran = tool.run("scale run --ranks 8 -o scaled").exits(0);
    assert_eq!(ran.stderr, "");
    let network = String::from_utf8(tool.read("scaled/network.yml")).expect("is text");
    assert_eq!(
        network,
        format!("topology: [ Ring ]\nnpus_count: [ 8 ]\n{rest}")
    );
    // halving and doubling needs 2, 4, 8, … ranks
    let system = String::from_utf8(tool.read("run/system.json")).expect("is text");
    let system = system.replacen("\"ring\"", "\"halvingDoubling\"", 1);
    tool.file("run/system.json", &system);
    for (ranks, algorithm) in [(8, "halvingDoubling"), (6, "ring")] {
        tool.run(&format!("scale run --ranks {ranks} -o algorithm -f"))
            .exits(0);
        let scaled = String::from_utf8(tool.read("algorithm/system.json")).expect("is text");
        let wanted = format!("\"all-reduce-implementation\": [\"{algorithm}\"]");
        assert!(scaled.contains(&wanted), "{scaled}");
    }
    tool.file(
        "run/network.yml",
        "topology: [ Ring, Ring ]\nnpus_count: [ 3, 2 ]\n",
    );
    tool.run("scale run --ranks 8 -o other")
        .exits(0)
        .notes("other/network.yml is ASTRA-sim's example");
    let ran = tool.run("scale run --ranks 8 -o other -f --json").exits(0);
    assert!(ran.json()["diagnostics"][0]["code"] == "network_assumed");
    let readme = String::from_utf8(tool.read("other/README.md")).expect("is text");
    assert!(readme.contains("is left out"), "{readme}");
}

#[test]
fn runs_of_which_a_rank_has_no_trace_are_not_scaled() {
    let tool = Tool::new();
    for file in ["torch_et_0.json.gz", "kineto_trace_0.json.gz"] {
        let recorded = crate::tool::pairs().join("ddp2-2.15.0").join(file);
        tool.file(
            &format!("traces/{file}"),
            std::fs::read(recorded).expect("a recording"),
        );
    }
    tool.run("merge traces --for astra-sim -o run").exits(0);
    tool.run("scale run --ranks 4 -o large")
        .exits(2)
        .complains(&["traces.1.et", "rank 1 has no trace"]);
}

#[test]
fn a_peer_that_the_run_has_not_is_named_with_its_file() {
    let tool = Tool::new();
    tool.run("generate ring --ranks 2 -o run").exits(0);
    tool.run("convert run/ring.1.et rank.json").exits(0);
    let text = String::from_utf8(tool.read("rank.json")).expect("is text");
    let place = text.find("comm_dst").expect("a send");
    let (before, after) = text.split_at(place);
    let changed = after.replacen("\"int32Val\": 0", "\"int32Val\": -7", 1);
    assert_ne!(changed, after);
    tool.file("rank.json", format!("{before}{changed}"));
    tool.run("convert -f rank.json run/ring.1.et").exits(0);
    tool.run("scale run --ranks 4 -o large")
        .exits(2)
        .complains(&["run/ring.1.et", "comm_dst is -7", "ranks 0 to 1"]);
}
