//! `etlink merge --phase`: many machines that share a folder do one merge.

use crate::tool::{Tool, unpacked};
use std::collections::BTreeMap;
use std::fs;

/// Files of an output folder, but for what phases hand to each other.
fn results(tool: &Tool, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = tool.files(folder);
    files.retain(|name, _| !name.starts_with(".etlink-phases"));
    files
}

/// Runs all phases with so many shards, the shards in no order.
fn merge_in_phases(tool: &Tool, shards: u32, options: &str) {
    for shard in (0..shards).rev() {
        let phase = format!("--phase summaries --shard {shard}/{shards}");
        tool.run(&format!("merge {options} -o phases {phase}"))
            .exits(0);
    }
    tool.run(&format!("merge {options} -o phases --phase join"))
        .exits(0);
    for shard in (0..shards).rev() {
        let phase = format!("--phase write --shard {shard}/{shards}");
        tool.run(&format!("merge {options} -o phases {phase}"))
            .exits(0);
    }
}

#[test]
fn phases_write_what_one_merge_writes() {
    for (shards, options) in [
        (3, "{pairs}/tpdp4-2.15.0"),
        (1, "{pairs}/ddp2-2.15.0 --format etplus"),
        (5, "{pairs}/tpdp4-2.15.0 --for astra-sim"),
        (
            2,
            "{pairs}/pipeline4-2.15.0 --no-align --comm-only --for astra-sim",
        ),
        (2, "{pairs} --ranks 3"),
    ] {
        let tool = Tool::new();
        tool.run(&format!("merge {options} -o one")).exits(0);
        merge_in_phases(&tool, shards, options);
        let (one, phases) = (results(&tool, "one"), results(&tool, "phases"));
        assert!(one.len() > 1, "{options}: {} files", one.len());
        let names = |files: &BTreeMap<String, Vec<u8>>| Vec::from_iter(files.keys().cloned());
        assert_eq!(names(&one), names(&phases), "{options}");
        for (name, content) in &one {
            assert!(phases[name] == *content, "{options}: {name} differs");
        }
    }
}

/// Four ranks of one run in `run`.
fn four_ranks() -> Tool {
    let tool = Tool::new();
    for rank in 0..4 {
        for kind in ["torch_et", "kineto_trace"] {
            let name = format!("{kind}_{rank}.json");
            let content = unpacked(&format!("tpdp4-2.15.0/{name}.gz"));
            tool.file(&format!("run/{name}"), content);
        }
    }
    tool
}

#[test]
fn a_phase_can_be_run_again_and_finds_what_is_missing() {
    let tool = four_ranks();
    tool.run("merge run -o out --phase join")
        .exits(2)
        .notes("run `--phase summaries` for each shard first");
    tool.run("merge run -o out --phase summaries --shard 0/3")
        .exits(0);
    tool.run("merge run -o out --phase summaries --shard 2/3")
        .exits(0);
    tool.run("merge run -o out --phase write --shard 0/3")
        .exits(2)
        .notes("shard 0/3 has not been joined");
    tool.run("merge run -o out --phase join")
        .exits(2)
        .notes("1 of 3 shards have no summaries: 1; run `--phase summaries --shard 1/3`");
    tool.run("merge run -o out --phase summaries --shard 1/3")
        .exits(0);
    tool.run("merge run -o out --phase summaries --shard 1/3")
        .exits(0);
    tool.run("merge run -o out --phase join").exits(0);
    tool.run("merge run -o out --phase write --shard 0/3")
        .exits(0);
    // what is written is a result, and those are never replaced unasked
    tool.run("merge run -o out --phase write --shard 0/3")
        .exits(1)
        .says("--overwrite replaces it");
    tool.run("merge run -o out --phase write --shard 0/3 --overwrite")
        .exits(0);
    tool.run("merge run -o out --phase join --overwrite")
        .exits(0);
    tool.run("merge run -o out --phase summaries --shard 0/2")
        .exits(0);
    tool.run("merge run -o out --phase join --overwrite")
        .exits(2)
        .notes("summaries of 2 shards and of 3");
}

#[test]
fn phases_refuse_other_traces_options_and_damage() {
    let tool = four_ranks();
    for shard in 0..2 {
        let phase = format!("--phase summaries --shard {shard}/2");
        tool.run(&format!("merge run -o out {phase}")).exits(0);
    }
    tool.run("merge run -o out --phase join --strict")
        .exits(2)
        .notes("another --strict: false and not true");
    let one = tool.path("out/.etlink-phases/summaries.1-of-2");
    let whole = fs::read(&one).expect("a file");
    for cut in [whole.len() - 1, whole.len() / 2, 30] {
        fs::write(&one, &whole[..cut]).expect("a file");
        tool.run("merge run -o out --phase join")
            .exits(2)
            .notes("summaries.1-of-2")
            .notes("is damaged");
    }
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 4;
    fs::write(&one, &changed).expect("a file");
    tool.run("merge run -o out --phase join")
        .exits(2)
        .notes("is damaged");
    fs::write(&one, b"something else").expect("a file");
    tool.run("merge run -o out --phase join")
        .exits(2)
        .notes("another version of etlink wrote it");
    fs::write(&one, &whole).expect("a file");
    fs::remove_file(tool.path("run/kineto_trace_3.json")).expect("removes");
    fs::remove_file(tool.path("run/torch_et_3.json")).expect("removes");
    tool.run("merge run -o out --phase join")
        .exits(2).notes("the traces have changed since shard 0/2 was summarized: it saw 4 ranks, and now there are 3");
    for (options, message) in [
        ("--phase summaries", "--shard <K/N>"),
        ("--phase join --shard 0/2", "joins all shards"),
        ("--shard 0/2", "--phase <PHASE>"),
        ("--phase write --shard 2/2", "the last of 2 is 1/2"),
        (
            "--phase summaries --shard 0/2 --format perfetto",
            "leave --phase out for one file of all ranks",
        ),
    ] {
        tool.run(&format!("merge run -o out {options}"))
            .exits(2)
            .notes(message);
    }
}

#[test]
fn a_rank_that_fails_is_named_in_its_shard_and_by_the_join() {
    let tool = four_ranks();
    tool.file("run/torch_et_2.json", "this is no trace");
    tool.run("merge run -o out --phase summaries --shard 0/2")
        .exits(1)
        .says("torch_et_2.json");
    tool.run("merge run -o out --phase summaries --shard 1/2")
        .exits(0);
    tool.run("merge run -o out --phase join")
        .exits(1)
        .says("torch_et_2.json")
        .says("3 joined of 2 shards, 1 failed");
    tool.run("merge run -o out --phase write --shard 0/2")
        .exits(1);
    tool.run("merge run -o out --phase write --shard 1/2")
        .exits(0);
    tool.run("merge run -o one").exits(1);
    assert_eq!(results(&tool, "one").keys().len(), 4);
    for (name, content) in results(&tool, "one") {
        let written = fs::read(tool.path(&format!("out/{name}"))).expect("a file");
        assert!(written == content, "{name} differs");
    }
}
