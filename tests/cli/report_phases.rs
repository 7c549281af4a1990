//! `--phase` of reports: several machines with a shared folder make one report.

use crate::tool::{Tool, unpacked};
use std::fs;

/// Runs all phases with `shards` shards, in reverse order; returns the join's output.
fn report_in_phases(tool: &Tool, line: &str, shards: u32) -> crate::tool::Ran {
    for shard in (0..shards).rev() {
        let phase = format!("--phase summaries --shard {shard}/{shards} --phase-folder work");
        tool.run(&format!("{line} {phase}")).exits(0);
    }
    tool.run(&format!("{line} --phase join --phase-folder work"))
}

#[test]
fn joins_say_what_the_command_says_of_all_ranks() {
    for (shards, line) in [
        (3, "ranks {pairs}/tpdp4-2.15.0"),
        (2, "ranks {pairs}/ddp2-2.15.0 --json"),
        (2, "ranks {pairs}/pipeline4-2.15.0 --csv --no-align"),
        (2, "ranks {pairs} --ranks 0,1 --json"),
        (3, "analyze {pairs}/tpdp4-2.15.0"),
        (2, "analyze {pairs}/ddp2-2.15.0 --json"),
        (2, "analyze {pairs}/fsdp2-2.15.0 --csv --table kernels"),
        (
            4,
            "analyze {pairs}/pipeline4-2.15.0 --table memory_timeline --json",
        ),
        (2, "analyze {pairs}/inference-2.15.0 --json"),
        (
            1,
            "analyze {pairs}/transformer-2.15.0 --sequences-of aten::mm --json",
        ),
        (5, "analyze {pairs} --json"),
        (3, "findings {pairs}/tpdp4-2.15.0 --json"),
        (2, "findings {pairs}/ddp2-2.15.0"),
        (7, "findings {pairs} --json"),
        (3, "replay {pairs}/tpdp4-2.15.0 --json --critical-path"),
        (
            2,
            "replay {pairs}/ddp2-2.15.0 --what-if overlap-comm --what-if ranks=8 --json",
        ),
        (
            4,
            "replay {pairs}/pipeline4-2.15.0 --explain rank=1/aten::mm --scale kind=host_op=0.5",
        ),
        (6, "replay {pairs} --json"),
        // no rank has an answer
        (2, "replay {pairs}/ddp2-2.15.0 --what-if graphs"),
    ] {
        let tool = Tool::new();
        let one = tool.run(line);
        let joined = report_in_phases(&tool, line, shards);
        assert!(one.code == 2 || !one.stdout.is_empty(), "{line}");
        assert_eq!(one.code, joined.code, "{line}");
        assert!(one.stdout == joined.stdout, "{line} in {shards} shards");
        assert_eq!(one.stderr, joined.stderr, "{line} in {shards} shards");
    }
}

/// Writes two ranks with devices.
fn ranks_with_devices() -> Tool {
    let tool = Tool::new();
    for rank in 0..2 {
        let mut draw = crate::analyze::draw(rank);
        let main = draw.thread();
        draw.annotation(main, "ProfilerStep#1", 0, 50_000);
        tool.file(&format!("run/kineto_trace_{rank}.json"), draw.kineto());
    }
    tool
}

#[test]
fn figures_of_devices_come_through_shards() {
    let tool = ranks_with_devices();
    for line in [
        "ranks run --json",
        "analyze run --json",
        "analyze run --peak-tflops 100 --peak-link 100",
        "findings run --json",
        "replay run --json --what-if bandwidth=0:2 --critical-path",
        "report run -f -o page.html",
    ] {
        let one = tool.run(line).exits(0);
        let page = tool.path("page.html");
        let page = fs::read(&page).ok();
        let joined = report_in_phases(&tool, line, 2).exits(0);
        assert!(one.stdout == joined.stdout, "{line}");
        assert_eq!(one.stderr, joined.stderr, "{line}");
        let again = fs::read(tool.path("page.html")).ok();
        assert!(page == again, "{line}");
    }
}

#[test]
fn a_page_is_that_of_one_command() {
    for (shards, run, options) in [
        (3, "tpdp4-2.15.0", "--timelines 1,2"),
        (2, "ddp2-2.15.0", ""),
        (2, "inference-2.15.0", "--json"),
    ] {
        let tool = Tool::new();
        let line = format!("report {{pairs}}/{run} -o page.html {options}");
        let one = tool.run(&line).exits(0);
        let page = tool.read("page.html");
        fs::remove_file(tool.path("page.html")).expect("removes");
        let joined = report_in_phases(&tool, &line, shards).exits(0);
        assert_eq!(one.stdout, joined.stdout, "{run}");
        assert_eq!(one.stderr, joined.stderr, "{run}");
        assert!(page == tool.read("page.html"), "{run} in {shards} shards");
    }
}

#[test]
fn the_summaries_of_a_report_need_no_page() {
    let tool = Tool::new();
    let line = "report {pairs}/ddp2-2.15.0 --phase-folder work --phase";
    tool.run(&format!("{line} summaries --shard 0/1")).exits(0);
    for phase in ["join", "summaries"] {
        tool.run(&format!("{line} {phase}"))
            .exits(2)
            .notes("required arguments");
    }
    tool.run(&format!("{line} join -o page.html")).exits(0);
    assert!(tool.path("page.html").exists());
}

#[test]
fn written_graphs_have_phases_too() {
    let tool = Tool::new();
    tool.run("merge {pairs}/tpdp4-2.15.0 -o graphs").exits(0);
    for line in ["analyze graphs --json", "replay graphs --json"] {
        let one = tool.run(line).exits(0);
        let joined = report_in_phases(&tool, line, 3).exits(0);
        assert!(one.stdout == joined.stdout, "{line}");
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

const COMMANDS: [&str; 5] = [
    "ranks run",
    "analyze run",
    "findings run",
    "replay run",
    "report run -f -o page.html",
];

#[test]
fn the_join_reads_no_trace() {
    let tool = four_ranks();
    for line in COMMANDS {
        let one = tool.run(line).exits(0);
        let joined = report_in_phases(&tool, line, 2).exits(0);
        assert_eq!(one.stdout, joined.stdout, "{line}");
    }
    // with the same sizes and times, but empty
    for rank in 0..4 {
        for kind in ["torch_et", "kineto_trace"] {
            let path = tool.path(&format!("run/{kind}_{rank}.json"));
            let file = fs::File::options().write(true).open(path).expect("a file");
            let data = file.metadata().expect("a file");
            file.set_len(0).expect("empties");
            file.set_len(data.len()).expect("fills with zeros");
            file.set_modified(data.modified().expect("a time"))
                .expect("a time");
        }
    }
    for line in &COMMANDS[..4] {
        let join = format!("{line} --phase join --phase-folder work");
        let joined = tool.run(&join).exits(0);
        assert!(!joined.stdout.is_empty(), "{line}");
        tool.run(line).exits(2);
    }
}

#[test]
fn a_lost_shard_is_named_and_a_phase_can_be_run_again() {
    let tool = four_ranks();
    for line in COMMANDS {
        let join = format!("{line} --phase join --phase-folder work");
        let shard = |shard: &str| {
            tool.run(&format!(
                "{line} --phase summaries --shard {shard} --phase-folder work"
            ))
            .exits(0)
        };
        tool.run(&join)
            .exits(2)
            .notes("work: no summaries in it: run `--phase summaries` for each shard first");
        shard("0/3");
        shard("2/3");
        tool.run(&join)
            .exits(2)
            .notes("1 of 3 shards have no summaries: 1; run `--phase summaries --shard 1/3`");
        shard("1/3").says("1 rank summarized, 0 failed");
        shard("1/3");
        let first = tool.run(&join).exits(0);
        assert_eq!(first.stdout, tool.run(&join).exits(0).stdout, "{line}");
        shard("0/2");
        tool.run(&join)
            .exits(2)
            .notes("summaries of 2 shards and of 3");
        fs::remove_dir_all(tool.path("work")).expect("removes");
    }
}

#[test]
fn a_rank_that_fails_is_left_out_as_by_one_command() {
    let tool = four_ranks();
    tool.file("run/torch_et_2.json", "this is no trace");
    for line in COMMANDS {
        let one = tool.run(line);
        let shard = |shard: u32| {
            tool.run(&format!(
                "{line} --phase summaries --shard {shard}/2 --phase-folder work"
            ))
        };
        shard(0)
            .exits(1)
            .says("failed: 2: ")
            .says("torch_et_2.json")
            .says("1 rank summarized, 1 failed");
        shard(1).exits(0).says("2 ranks summarized, 0 failed");
        let joined = tool.run(&format!("{line} --phase join --phase-folder work"));
        assert_eq!(one.code, joined.code, "{line}");
        assert_eq!(one.stdout, joined.stdout, "{line}");
        assert_eq!(one.stderr, joined.stderr, "{line}");
    }
}

#[test]
fn a_run_of_which_nothing_can_be_read_is_an_error_as_by_one_command() {
    let tool = four_ranks();
    for rank in 0..4 {
        tool.file(&format!("run/torch_et_{rank}.json"), "this is no trace");
    }
    for line in COMMANDS {
        let one = tool.run(line);
        for shard in 0..2 {
            tool.run(&format!(
                "{line} --phase summaries --shard {shard}/2 --phase-folder work"
            ))
            .exits(1);
        }
        let joined = tool.run(&format!("{line} --phase join --phase-folder work"));
        assert_eq!(one.code, joined.code, "{line}");
        assert_eq!(one.stdout, joined.stdout, "{line}");
        assert_eq!(one.stderr, joined.stderr, "{line}");
    }
}

#[test]
fn other_traces_options_and_damage_are_refused() {
    let tool = four_ranks();
    for shard in 0..2 {
        tool.run(&format!(
            "analyze run --phase summaries --shard {shard}/2 --phase-folder work"
        ))
        .exits(0);
    }
    for (options, named) in [
        ("--strict", "--strict"),
        ("--ranks 0-2", "--ranks"),
        (
            "--sequences-of aten::mm --table sequences",
            "--sequences-of",
        ),
        ("--table memory_timeline", "--table memory_timeline"),
        ("--steps-by x", "--steps-by"),
        ("--allow-mismatch", "--allow-mismatch"),
    ] {
        let line = format!("analyze run {options} --phase join --phase-folder work");
        let said = format!("shard 0/2 was run with another {named}: give all phases the same");
        tool.run(&line).exits(2).notes(&said);
    }
    tool.file("rules", "communication mine mine\n");
    tool.run("analyze run --rules rules --phase join --phase-folder work")
        .exits(2)
        .notes("another --rules");
    let join = "analyze run --phase join --phase-folder work";
    let one = tool.path("work/analyze.1-of-2");
    let whole = fs::read(&one).expect("a file");
    for cut in [whole.len() - 1, whole.len() / 2, 30, 20] {
        fs::write(&one, &whole[..cut]).expect("a file");
        tool.run(join)
            .exits(2)
            .notes("analyze.1-of-2")
            .notes("is damaged");
    }
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 4;
    fs::write(&one, &changed).expect("a file");
    tool.run(join).exits(2).notes("is damaged");
    fs::write(&one, b"something else").expect("a file");
    tool.run(join)
        .exits(2)
        .notes("another version of etlink wrote it");
    fs::write(&one, &whole).expect("a file");
    tool.run(join).exits(0);
    let trace = tool.read("run/kineto_trace_3.json");
    tool.file("run/kineto_trace_3.json", [&trace[..], b"\n"].concat());
    tool.run(join).exits(2).notes(
        "the traces have changed since shard 0/2 was summarized: run/kineto_trace_3.json had",
    );
}

#[test]
fn what_has_no_phases_is_refused() {
    let tool = four_ranks();
    let phase = "--phase summaries --shard 0/2 --phase-folder work";
    for (line, message) in [
        (
            "ranks run --phase summaries --phase-folder work".to_owned(),
            "--shard <K/N>",
        ),
        (
            "ranks run --phase summaries --shard 0/2".to_owned(),
            "--phase-folder <DIR>",
        ),
        ("ranks run --shard 0/2".to_owned(), "--phase <PHASE>"),
        (
            "ranks run --phase-folder work".to_owned(),
            "--phase <PHASE>",
        ),
        (
            "ranks run --phase join --shard 0/2 --phase-folder work".to_owned(),
            "joins all shards",
        ),
        (
            format!("analyze run/kineto_trace_0.json {phase}"),
            "leave --phase out for one trace",
        ),
        (
            format!("replay run/kineto_trace_0.json {phase}"),
            "leave --phase out for one trace",
        ),
        (
            format!("analyze run --parquet tables {phase}"),
            "--compat or --parquet",
        ),
        (
            format!("analyze run --compat hta {phase}"),
            "--compat or --parquet",
        ),
        (
            format!("report run run -o page.html {phase}"),
            "a second run",
        ),
    ] {
        tool.run(&line).exits(2).notes(message);
    }
    assert!(!tool.path("work").exists());
}

#[test]
fn more_shards_than_ranks_are_no_error() {
    let tool = four_ranks();
    let one = tool.run("ranks run").exits(0);
    let joined = report_in_phases(&tool, "ranks run", 6).exits(0);
    assert_eq!(one.stdout, joined.stdout);
}
