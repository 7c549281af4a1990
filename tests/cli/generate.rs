//! `etlink generate` and `etlink scale`.

use crate::tool::Tool;

const PATTERNS: [&str; 12] = [
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
    "pipeline --rounds 3",
    "transformer --tensor 2 --pipeline 2 --expert 2 --rounds 2 --layers 4",
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
    tool.run("scale run --ranks 15 -o odd")
        .exits(2)
        .complains(&["a multiple of 2"]);
    tool.run("merge {pairs}/tpdp4-2.15.0 --for astra-sim -o parts")
        .exits(0);
    tool.run("scale parts --ranks 8 -o undecided")
        .exits(2)
        .complains(&["--data-parallel", "ranks [0, 1]"]);
    tool.run("merge {pairs}/experts2-2.15.0 --for astra-sim -o experts")
        .exits(0);
    tool.run("scale experts --ranks 8 -o refused")
        .exits(2)
        .complains(&["ALL_TO_ALL", "--keep all-to-all"]);
    tool.run("scale experts --ranks 8 --keep all-to-all -o kept")
        .exits(0);
    tool.run("check kept").exits(0).says("ok, 8 ranks together");
}
