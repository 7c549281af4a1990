//! `etlink merge --phase`: several machines with a shared folder do one merge.

use crate::tool::{Tool, unpacked};
use etlink_testing::all_reduce_rank;
use std::collections::BTreeMap;
use std::fs;

/// Returns the files of an output folder, without those passed between phases.
fn results(tool: &Tool, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = tool.files(folder);
    files.retain(|name, _| !name.starts_with(".etlink-phases"));
    files
}

/// Runs all phases with `shards` shards, in reverse order.
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

/// Writes four ranks of one run to `run`.
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
    // written files are results, which are never replaced unasked
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
        .notes("shard 0/2 was run with another --strict: give all phases the same options");
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
        .exits(2)
        .notes("the traces have changed since shard 0/2 was summarized: rank 3 is gone; 4 ranks then, 3 now; run all phases again");
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
        .says("3 ranks joined, of 2 shards; 1 failed");
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

/// Runs all phases of two shards into `out` with these options, and checks the exit codes.
fn run_phases(tool: &Tool, options: &str, codes: [i32; 3]) {
    let [summaries, join, write] = codes;
    for shard in 0..2 {
        let phase = format!("--phase summaries --shard {shard}/2");
        tool.run(&format!("merge {options} -o out {phase}"))
            .exits(summaries);
    }
    tool.run(&format!("merge {options} -o out --phase join"))
        .exits(join);
    for shard in 0..2 {
        let phase = format!("--phase write --shard {shard}/2");
        tool.run(&format!("merge {options} -o out {phase}"))
            .exits(write);
    }
}

#[test]
fn phases_replace_nothing_that_is_not_of_etlink() {
    let tool = four_ranks();
    for (option, name) in [("--format etplus", "run.0.json.gz"), ("", "run.0.et")] {
        tool.file(&format!("out/{name}"), "somebody's");
        for shard in 0..2 {
            let phase = format!("--phase summaries --shard {shard}/2");
            tool.run(&format!("merge run {option} -o out {phase}"))
                .exits(0);
        }
        for phase in ["join", "write --shard 0/2"] {
            tool.run(&format!("merge run {option} -f -o out --phase {phase}"))
                .exits(2);
        }
        assert_eq!(tool.read(&format!("out/{name}")), b"somebody's");
        fs::remove_dir_all(tool.path("out")).expect("removes");
    }
}

#[test]
fn a_join_can_be_run_again_before_and_after_its_ranks_are_written() {
    let tool = four_ranks();
    tool.run("merge run -o one").exits(0);
    for shard in 0..2 {
        let phase = format!("--phase summaries --shard {shard}/2");
        tool.run(&format!("merge run -o out {phase}")).exits(0);
    }
    tool.run("merge run -o out --phase join").exits(0);
    tool.run("merge run -f -o out --phase join").exits(0);
    run_phases(&tool, "run -f", [0, 0, 0]);
    run_phases(&tool, "run -f", [0, 0, 0]);
    assert_eq!(results(&tool, "one"), results(&tool, "out"));
    // another number of shards, once the leftovers of the first are removed
    for shard in 0..2 {
        fs::remove_file(tool.path(&format!("out/.etlink-phases/summaries.{shard}-of-2")))
            .expect("removes");
    }
    tool.run("merge run -f -o out --phase summaries --shard 0/1")
        .exits(0);
    tool.run("merge run -f -o out --phase join").exits(0);
    tool.run("merge run -f -o out --phase write --shard 0/2")
        .exits(2)
        .notes("shard 0/2 has not been joined");
}

#[test]
fn phases_of_other_traces_are_refused() {
    let tool = four_ranks();
    run_phases(&tool, "run", [0, 0, 0]);
    // the same names, but another run
    for rank in 0..4 {
        for kind in ["torch_et", "kineto_trace"] {
            let name = format!("{kind}_{rank}.json");
            let content = unpacked(&format!("pipeline4-2.15.0/{name}.gz"));
            tool.file(&format!("run/{name}"), content);
        }
    }
    for (phase, done) in [("write --shard 0/2", "joined"), ("join", "summarized")] {
        tool.run(&format!("merge run -f -o out --phase {phase}"))
            .exits(2)
            .notes(&format!(
                "the traces have changed since shard 0/2 was {done}"
            ));
    }
    run_phases(&tool, "run -f", [0, 0, 0]);
    tool.run("merge run -o one").exits(0);
    assert_eq!(results(&tool, "one"), results(&tool, "out"));
}

#[test]
fn phases_name_what_has_changed() {
    let tool = four_ranks();
    run_phases(&tool, "run -f", [0, 0, 0]);
    for phase in ["write --shard 0/2", "join"] {
        tool.run(&format!("merge run -f -o out --ranks 0-2 --phase {phase}"))
            .exits(2)
            .notes("shard 0/2 was run with another --ranks: give all phases the same options");
    }
    let name = "run/kineto_trace_3.json";
    let file = fs::File::options().write(true).open(tool.path(name));
    let file = file.expect("a file");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    file.set_modified(later).expect("a time");
    let touched = format!("{name} has another time of its last change, and the same size");
    tool.run("merge run -f -o out --phase write --shard 0/2")
        .exits(2)
        .notes(&format!(
            "since shard 0/2 was joined: {touched}; run all phases again"
        ));
    tool.run("merge run -f -o out --phase join")
        .exits(2)
        .notes(&format!(
            "since shard 0/2 was summarized: {touched}; run all phases again"
        ));
    // the join is older than the summaries
    for shard in 0..2 {
        let phase = format!("--phase summaries --shard {shard}/2");
        tool.run(&format!("merge run -f -o out {phase}")).exits(0);
    }
    tool.run("merge run -f -o out --phase write --shard 0/2")
        .exits(2)
        .notes(&format!(
            "since shard 0/2 was joined: {touched}; run the join and the write again"
        ));
    tool.run("merge run -f -o out --phase join").exits(0);
    tool.run("merge run -f -o out --phase write --shard 0/2")
        .exits(0);
    let bytes = tool.read(name).len();
    tool.file(name, [&tool.read(name)[..], b"\n"].concat());
    tool.run("merge run -f -o out --phase join")
        .exits(2)
        .notes(&format!(
            "{name} had {bytes} bytes and has {} now",
            bytes + 1
        ));
    tool.shell("cp run/kineto_trace_3.json run/kineto_trace_4.json; cp run/torch_et_3.json run/torch_et_4.json")
        .exits(0);
    tool.run("merge run -f -o out --phase join").exits(2).notes(
        "the traces have changed since shard 0/2 was summarized: rank 4 has come; 4 ranks then, 5",
    );
}

#[test]
fn ranks_of_an_earlier_run_never_stay_beside_others() {
    let tool = four_ranks();
    run_phases(&tool, "run --for astra-sim", [0, 0, 0]);
    let before = results(&tool, "out");
    // its file would stay
    let broken = tool.read("run/torch_et_2.json");
    tool.file("run/torch_et_2.json", "this is no trace");
    for shard in 0..2 {
        let phase = format!("--phase summaries --shard {shard}/2");
        tool.run(&format!("merge run -f -o out {phase}"))
            .exits(1 - shard);
    }
    tool.run("merge run -f -o out --phase join")
        .exits(2)
        .notes("1 ranks failed, and run.2.et of an earlier run would stay");
    assert_eq!(before, results(&tool, "out"));
    // fewer ranks, and no simulation: files that only the earlier run has are removed
    tool.file("run/torch_et_2.json", broken);
    for kind in ["torch_et", "kineto_trace"] {
        fs::remove_file(tool.path(&format!("run/{kind}_3.json"))).expect("removes");
    }
    run_phases(&tool, "run -f", [0, 0, 0]);
    tool.run("merge run -o one").exits(0);
    assert_eq!(results(&tool, "one"), results(&tool, "out"));
}

#[test]
fn a_rank_that_was_not_joined_is_not_written_later() {
    let tool = four_ranks();
    let whole = tool.read("run/torch_et_2.json");
    let state = fs::metadata(tool.path("run/torch_et_2.json")).expect("a file");
    let mut broken = whole.clone();
    broken[..20].fill(b'x');
    tool.file("run/torch_et_2.json", &broken);
    set_changed(&tool, &state);
    for shard in 0..2 {
        let phase = format!("--phase summaries --shard {shard}/2");
        tool.run(&format!("merge run -o out {phase}"))
            .exits(1 - shard);
    }
    tool.run("merge run -o out --phase join").exits(1);
    // like a temporary read error: the file has not changed
    tool.file("run/torch_et_2.json", &whole);
    set_changed(&tool, &state);
    tool.run("merge run -o out --phase write --shard 0/2")
        .exits(1)
        .says("failed: 2: it failed when it was summarized: ")
        .says("; mend that and run all phases again");
}

/// Truncates a device trace, which counts as damage.
fn cut(tool: &Tool, rank: u32) {
    let name = format!("run/kineto_trace_{rank}.json");
    let trace = tool.read(&name);
    tool.file(&name, &trace[..trace.len() * 3 / 4]);
}

#[test]
fn remedies_of_phases_help() {
    let tool = four_ranks();
    run_phases(&tool, "run", [0, 0, 0]);
    let one = tool.path("out/.etlink-phases/agreement.0-of-2");
    let whole = fs::read(&one).expect("a file");
    fs::write(&one, &whole[..whole.len() - 1]).expect("a file");
    tool.run("merge run -f -o out --phase write --shard 0/2")
        .exits(2)
        .notes("agreement.0-of-2: it is damaged: run `--phase join` again");
    tool.run("merge run -f -o out --phase join").exits(0);
    cut(&tool, 2);
    let strict = "merge run -f -o out --strict";
    for shard in 0..2 {
        let phase = format!("--phase summaries --shard {shard}/2");
        tool.run(&format!("{strict} {phase}")).exits(1 - shard);
    }
    tool.shell("rm out/run.2.et").exits(0);
    tool.run(&format!("{strict} --phase join")).exits(1);
    tool.run(&format!("{strict} --phase write --shard 0/2"))
        .exits(1)
        .says("failed: 2: its traces are damaged and were refused when it was summarized: mend")
        .says("or run all phases again without --strict");
}

/// Moves a rank to a clock that is a year ahead, like another run's.
fn set_ahead(tool: &Tool, rank: u32) {
    let name = format!("run/kineto_trace_{rank}.json");
    let text = String::from_utf8(tool.read(&name)).expect("text");
    let base = "\"baseTimeNanoseconds\": ";
    let at = text.find(base).expect("a time base") + base.len();
    let digits = text[at..]
        .find(|c: char| !c.is_ascii_digit())
        .expect("an end");
    let ahead = text[at..at + digits].parse::<i64>().expect("a time") + 31_536_000_000_000_000;
    let text = format!("{}{ahead}{}", &text[..at], &text[at + digits..]);
    tool.file(&name, text);
}

#[test]
fn phases_name_a_rank_that_is_not_joined_as_one_merge_does() {
    for options in ["", "--format etplus", "--for astra-sim"] {
        let tool = four_ranks();
        run_phases(&tool, "run -f", [0, 0, 0]);
        set_ahead(&tool, 2);
        tool.run("merge run -o one").exits(1);
        run_phases(&tool, &format!("run -f {options}"), [0, 1, 0]);
        tool.run(&format!("merge run -f {options} -o out --phase join"))
            .exits(1)
            .says("3 ranks joined, 1 not joined, of 2 shards; 0 failed");
        let names = Vec::from_iter(results(&tool, "out").into_keys());
        let is_there = |name: &str| names.iter().any(|file| file == name);
        let ending = if options.contains("etplus") {
            "json.gz"
        } else {
            "et"
        };
        let is_simulated = options.contains("astra-sim");
        let by_itself = format!("run.2.not_joined.{ending}");
        assert_eq!(is_there(&by_itself), !is_simulated, "{options}: {names:?}");
        let joined = format!("run.2.{ending}");
        assert_eq!(is_there(&joined), is_simulated, "{options}: {names:?}");
        if options.is_empty() {
            assert_eq!(results(&tool, "one"), results(&tool, "out"));
        }
    }
}

#[test]
fn a_phase_of_some_ranks_replaces_what_a_rank_was_while_it_was_joined() {
    let tool = Tool::new();
    let put = |rank: u64, ranks: u64| {
        let trace = all_reduce_rank(rank, ranks, 0);
        tool.file(&format!("run/kineto_trace_{rank}.json"), trace);
    };
    (0..4).for_each(|rank| put(rank, 4));
    tool.run("merge run -o out").exits(0);
    put(3, 8);
    // without `-f` nothing is replaced
    let before = tool.files("out");
    run_phases(&tool, "run --ranks 1-3", [0, 2, 2]);
    assert_eq!(results(&tool, "out"), before);
    run_phases(&tool, "run --ranks 1-3 -f", [0, 1, 0]);
    let names = Vec::from_iter(results(&tool, "out").into_keys());
    let apart = [
        "comm_group.json",
        "run.0.et",
        "run.1.et",
        "run.2.et",
        "run.3.not_joined.et",
    ];
    assert_eq!(names, apart);
    put(3, 4);
    run_phases(&tool, "run --ranks 1-3 -f", [0, 0, 0]);
    let names = Vec::from_iter(results(&tool, "out").into_keys());
    assert_eq!(names, Vec::from_iter(before.into_keys()));
}

/// Restores a file's modification time.
fn set_changed(tool: &Tool, state: &fs::Metadata) {
    let path = tool.path("run/torch_et_2.json");
    let file = fs::File::options().write(true).open(path).expect("a file");
    let changed = state.modified().expect("a time");
    file.set_modified(changed).expect("a time");
}

#[test]
fn phases_end_with_the_codes_of_one_merge() {
    let tool = four_ranks();
    tool.run("merge run --ranks 99 -o one").exits(2);
    for shard in 0..2 {
        let phase = format!("--phase summaries --shard {shard}/2");
        tool.run(&format!("merge run --ranks 99 -o out {phase}"))
            .exits(0);
    }
    tool.run("merge run --ranks 99 -o out --phase join")
        .exits(2);
    for rank in 0..4 {
        tool.file(&format!("run/torch_et_{rank}.json"), "this is no trace");
    }
    tool.run("merge run -o one").exits(2);
    for shard in 0..2 {
        let phase = format!("--phase summaries --shard {shard}/2");
        tool.run(&format!("merge run -f -o out {phase}")).exits(1);
    }
    tool.run("merge run -f -o out --phase join").exits(2);
    // rejected ranks are findings
    let tool = four_ranks();
    (0..4).for_each(|rank| cut(&tool, rank));
    let refused = tool.run("merge run --strict -o one").exits(1);
    refused.says("0 linked, 4 refused under --strict, 0 failed");
    for shard in 0..2 {
        let phase = format!("--phase summaries --shard {shard}/2");
        tool.run(&format!("merge run --strict -o out {phase}"))
            .exits(1);
    }
    tool.run("merge run --strict -o out --phase join").exits(1);
    // a join links nothing, so it needs no memory for linking
    let tool = four_ranks();
    for shard in 0..2 {
        let phase = format!("--phase summaries --shard {shard}/2");
        tool.run(&format!("merge run -o out {phase}")).exits(0);
    }
    tool.run("merge run -o out --phase join --memory 1M")
        .exits(0);
}

/// With a thousand ranks, a join holds more than a megabyte.
#[test]
fn a_join_ends_where_what_it_reads_does_not_fit() {
    let tool = Tool::new();
    for rank in 0..1000 {
        let trace = all_reduce_rank(rank, 1000, 0);
        tool.file(&format!("run/kineto_trace_{rank}.json"), trace);
    }
    tool.run("merge run -o out --phase summaries --shard 0/1")
        .exits(0);
    tool.run("merge run -o out --phase join --memory 1M")
        .exits(2)
        .complains(&["all 1000 ranks", "allow more with --memory"]);
    tool.run("merge run -o out --phase join --memory 10M")
        .exits(0);
}

#[test]
fn a_join_removes_no_earlier_file_unless_it_may() {
    let tool = Tool::new();
    tool.run("merge {pairs}/mlp-2.15.0 -o out").exits(0);
    let before = tool.read("out/mlp-2.15.0.0.et");
    let phase = "merge {pairs}/mlp-2.15.0 -o out --pack zstd --phase";
    tool.run(&format!("{phase} summaries --shard 0/1")).exits(0);
    tool.run(&format!("{phase} join"))
        .exits(2)
        .complains(&["mlp-2.15.0.0.et already exists", "--overwrite"]);
    assert!(tool.read("out/mlp-2.15.0.0.et") == before);
    tool.run(&format!("{phase} join --overwrite")).exits(0);
    tool.run(&format!("{phase} write --shard 0/1")).exits(0);
    assert!(!tool.path("out/mlp-2.15.0.0.et").exists());
    tool.run("check out").exits(0);
}
