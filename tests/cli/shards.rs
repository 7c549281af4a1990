//! `--prepare` and `merge --shard`: several machines that share a cache do one command.

use crate::tool::{Ran, Tool, unpacked};
use etlink_testing::all_reduce_rank;
use std::collections::BTreeMap;
use std::fs;

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
    settle(&tool);
    tool
}

/// Makes all traces old enough that nothing can change them unnoticed.
fn settle(tool: &Tool) {
    tool.shell("touch -d 2026-01-01 run/*").exits(0);
}

/// Prepares all ranks in `shards` shards, in reverse order.
fn prepare(tool: &Tool, line: &str, shards: u32) {
    for shard in (0..shards).rev() {
        tool.run(&format!("{line} --cache kept --prepare {shard}/{shards}"))
            .exits(0);
    }
}

/// Merges into `out` in two shards that share a cache, the last one first. Checks the exit codes.
fn merge_shards(tool: &Tool, options: &str, codes: [i32; 2]) {
    for shard in [1, 0] {
        let line = format!("merge {options} -o out --cache kept --shard {shard}/2");
        tool.run(&line).exits(codes[shard]);
    }
}

/// Returns what a command prints to standard error without the notes on its cache.
fn without_cache(ran: &Ran) -> String {
    let of_cache = |line: &&str| {
        line.starts_with("note: found the results of") || line.contains("not parsed again")
    };
    let lines = ran.stderr.split_inclusive('\n');
    lines.filter(|line| !of_cache(line)).collect()
}

#[test]
fn shards_write_what_one_merge_writes() {
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
        prepare(&tool, &format!("merge {options}"), shards);
        for shard in (0..shards).rev() {
            let shard = format!("--shard {shard}/{shards}");
            let line = format!("merge {options} -o parts {shard}");
            tool.run(&format!("{line} --cache kept"))
                .exits(0)
                .notes("found the results of");
            // what a cache lacks is linked
            tool.run(&format!("merge {options} -o unprepared {shard}"))
                .exits(0);
        }
        // one command also finds what was prepared
        tool.run(&format!("merge {options} -o all --cache kept"))
            .exits(0)
            .notes("found the results of");
        let one = tool.files("one");
        assert!(one.len() > 1, "{options}: {} files", one.len());
        for folder in ["parts", "unprepared", "all"] {
            assert!(one == tool.files(folder), "{options}: {folder} differs");
        }
    }
}

#[test]
fn shards_may_be_written_at_the_same_time() {
    let tool = four_ranks();
    tool.run("merge run -o one").exits(0);
    prepare(&tool, "merge run", 2);
    // the second time in the place of the first
    for options in ["", "--overwrite"] {
        let line =
            |shard: u32| format!("merge run -o out --cache kept --shard {shard}/4 {options}");
        let mut started = [0, 1, 2, 3].map(|shard| tool.start(&line(shard)));
        for child in &mut started {
            assert!(child.wait().expect("ends").success(), "{options}");
        }
        assert!(tool.files("one") == tool.files("out"), "{options}");
    }
}

/// Copies small recordings of one to four ranks to `runs`.
fn some_runs() -> Tool {
    let tool = Tool::new();
    let runs = "conv-2.15.0 ddp2-2.4.1 ddp2_gloo-2.15.0 mlp-2.15.0 pipeline4-2.15.0 threads-2.15.0";
    let copy = format!("mkdir runs; for run in {runs}; do cp -rp {{pairs}}/$run runs; done");
    tool.shell(&copy).exits(0);
    tool
}

#[test]
fn commands_say_of_prepared_ranks_what_they_say_of_traces() {
    for (shards, line) in [
        (3, "ranks {pairs}/tpdp4-2.15.0"),
        (2, "ranks {pairs}/ddp2-2.15.0 --json"),
        (2, "ranks {pairs}/pipeline4-2.15.0 --csv --no-align"),
        (2, "ranks runs --ranks 0,1 --json"),
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
        (5, "analyze runs --json"),
        (3, "findings {pairs}/tpdp4-2.15.0 --json"),
        (2, "findings {pairs}/ddp2-2.15.0"),
        (7, "findings runs --json"),
        (3, "replay {pairs}/tpdp4-2.15.0 --json --critical-path"),
        (
            2,
            "replay {pairs}/ddp2-2.15.0 --what-if overlap-comm --what-if ranks=8 --json",
        ),
        (
            4,
            "replay {pairs}/pipeline4-2.15.0 --explain rank=1/aten::mm --scale kind=host_op=0.5",
        ),
        (6, "replay runs --json"),
        // no rank has an answer
        (2, "replay {pairs}/ddp2-2.15.0 --what-if graphs"),
    ] {
        let tool = some_runs();
        let one = tool.run(line);
        prepare(&tool, line, shards);
        let prepared = tool.run(&format!("{line} --cache kept"));
        assert!(one.code == 2 || !one.stdout.is_empty(), "{line}");
        assert_eq!(one.code, prepared.code, "{line}");
        assert!(one.stdout == prepared.stdout, "{line} in {shards} shards");
        assert_eq!(one.stderr, without_cache(&prepared), "{line}");
        prepared.notes("found the results of");
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
    settle(&tool);
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
        let page = fs::read(tool.path("page.html")).ok();
        prepare(&tool, line, 2);
        let prepared = tool.run(&format!("{line} --cache kept")).exits(0);
        assert!(one.stdout == prepared.stdout, "{line}");
        assert_eq!(one.stderr, without_cache(&prepared), "{line}");
        assert!(page == fs::read(tool.path("page.html")).ok(), "{line}");
        prepared.notes("found the results of 2 ranks");
    }
    // results serve every form of the report
    tool.run("analyze run --csv --table kernels --cache kept")
        .exits(0)
        .notes("found the results of 2 ranks");
}

#[test]
fn a_page_is_that_of_one_command() {
    for (shards, run, options) in [
        (3, "tpdp4-2.15.0", "--timelines 1,2"),
        (2, "ddp2-2.15.0", ""),
        (2, "inference-2.15.0", "--json"),
    ] {
        let tool = Tool::new();
        let line = format!("report {{pairs}}/{run} {options}");
        prepare(&tool, &line, shards);
        assert!(tool.names() == ["kept"], "no page yet");
        let one = tool.run(&format!("{line} -o page.html")).exits(0);
        let page = tool.read("page.html");
        let again = format!("{line} -f -o page.html --cache kept");
        let prepared = tool.run(&again).exits(0);
        assert_eq!(one.stdout, prepared.stdout, "{run}");
        assert_eq!(one.stderr, without_cache(&prepared), "{run}");
        assert!(page == tool.read("page.html"), "{run} in {shards} shards");
    }
}

#[test]
fn written_graphs_are_prepared_too() {
    let tool = Tool::new();
    tool.run("merge {pairs}/tpdp4-2.15.0 -o run").exits(0);
    settle(&tool);
    for line in ["analyze run --json", "replay run --json"] {
        let one = tool.run(line).exits(0);
        prepare(&tool, line, 3);
        let prepared = tool.run(&format!("{line} --cache kept")).exits(0);
        assert!(one.stdout == prepared.stdout, "{line}");
        prepared.notes("found the results of 4 ranks");
    }
}

const COMMANDS: [&str; 6] = [
    "ranks run",
    "analyze run",
    "findings run",
    "replay run",
    "report run -f -o page.html",
    "merge run -f -o out",
];

#[test]
fn no_trace_of_a_prepared_rank_is_read() {
    let tool = four_ranks();
    for line in &COMMANDS[..4] {
        prepare(&tool, line, 2);
    }
    let ones = COMMANDS.map(|line| tool.run(line).exits(0).stdout);
    // with the same sizes and times, but empty
    for rank in 0..4 {
        for kind in ["torch_et", "kineto_trace"] {
            let path = tool.path(&format!("run/{kind}_{rank}.json"));
            let file = fs::File::options().write(true).open(path).expect("a file");
            let data = file.metadata().expect("a file");
            file.set_len(0).expect("empties");
            file.set_len(data.len()).expect("fills with zeros");
        }
    }
    settle(&tool);
    for (line, one) in COMMANDS[..4].iter().zip(&ones) {
        let prepared = tool.run(&format!("{line} --cache kept")).exits(0);
        assert!(prepared.stdout == *one, "{line}");
        tool.run(line).exits(2);
    }
}

#[test]
fn a_rank_that_fails_is_named_and_left_out_as_by_one_command() {
    let tool = four_ranks();
    tool.file("run/torch_et_2.json", "this is no trace");
    settle(&tool);
    for line in COMMANDS {
        let one = tool.run(line);
        let shard = |shard: u32| tool.run(&format!("{line} --cache kept --prepare {shard}/2"));
        shard(0)
            .exits(1)
            .notes("failed: 2: ")
            .notes("torch_et_2.json")
            .says("1 rank prepared, 1 failed");
        shard(1).exits(0).says("2 ranks prepared, 0 failed");
        let prepared = tool.run(&format!("{line} --cache kept"));
        assert_eq!(one.code, prepared.code, "{line}");
        if !line.starts_with("merge") {
            // that of a merge has times
            assert_eq!(one.stdout, prepared.stdout, "{line}");
            assert_eq!(one.stderr, without_cache(&prepared), "{line}");
        }
        prepared.notes("found the results of 3 ranks");
    }
    // a shard names its own rank alone
    let one = tool.files("out");
    fs::remove_dir_all(tool.path("out")).expect("removes");
    tool.run("merge run -o out --cache kept --shard 1/2")
        .exits(0);
    tool.run("merge run -o out --cache kept --shard 0/2")
        .exits(1)
        .notes("failed: 2: ");
    assert!(one == tool.files("out"));
}

#[test]
fn a_run_of_which_nothing_can_be_read_is_an_error_as_by_one_command() {
    let tool = four_ranks();
    for rank in 0..4 {
        tool.file(&format!("run/torch_et_{rank}.json"), "this is no trace");
    }
    settle(&tool);
    for line in COMMANDS {
        let one = tool.run(line).exits(2);
        for shard in 0..2 {
            tool.run(&format!("{line} --cache kept --prepare {shard}/2"))
                .exits(1);
        }
        let prepared = tool.run(&format!("{line} --cache kept")).exits(2);
        assert_eq!(one.stdout, prepared.stdout, "{line}");
        assert_eq!(one.stderr, without_cache(&prepared), "{line}");
    }
    merge_shards(&tool, "run", [2, 2]);
}

/// Damaged entries, and entries of other files or options, are never believed.
#[test]
fn what_does_not_fit_is_linked_again() {
    let tool = four_ranks();
    for line in ["merge run", "analyze run"] {
        prepare(&tool, line, 2);
    }
    let entries = tool.files("kept");
    let one = tool.run("analyze run --json").exits(0).stdout;
    tool.run("merge run -o one").exits(0);
    let check = |damage: &dyn Fn(&[u8]) -> Vec<u8>| {
        for (name, content) in entries.iter().filter(|(name, _)| name.ends_with(".made")) {
            tool.file(&format!("kept/{name}"), damage(content));
        }
        let ran = tool.run("analyze run --json --cache kept").exits(0);
        assert!(ran.stdout == one);
        merge_shards(&tool, "run -f", [0, 0]);
        assert!(tool.files("one") == tool.files("out"));
        ran
    };
    check(&|whole| whole.to_vec()).notes("found the results of 4 ranks");
    check(&|whole| whole[..whole.len() - 1].to_vec()).notes("damaged entries");
    check(&|whole| whole[..30].to_vec()).notes("damaged entries");
    check(&|_| b"something else".to_vec()).notes("damaged entries");
    check(&|whole| {
        let mut changed = whole.to_vec();
        changed[whole.len() - 20] ^= 4;
        changed
    })
    .notes("damaged entries");
    // other options
    for options in ["--strict", "--steps-by x", "--sequences-of aten::mm"] {
        let line = format!("analyze run {options} --cache kept");
        let ran = tool.run(&line);
        assert!(!ran.stderr.contains("found the results"), "{options}");
    }
    // other traces with the same names
    for rank in 0..4 {
        for kind in ["torch_et", "kineto_trace"] {
            let name = format!("{kind}_{rank}.json");
            let content = unpacked(&format!("pipeline4-2.15.0/{name}.gz"));
            tool.file(&format!("run/{name}"), content);
        }
    }
    settle(&tool);
    tool.run("merge run -f -o one").exits(0);
    merge_shards(&tool, "run -f", [0, 0]);
    assert!(tool.files("one") == tool.files("out"));
}

#[test]
fn what_cannot_be_prepared_is_refused() {
    let tool = four_ranks();
    tool.file("file", "");
    let prepare = "--prepare 0/2 --cache kept";
    for (line, message) in [
        ("ranks run --prepare 0/2".to_owned(), "with --cache"),
        ("merge run --prepare 0/2".to_owned(), "with --cache"),
        (
            "ranks run --prepare 0/2 --cache file".to_owned(),
            "file is a file; name a folder",
        ),
        (format!("ranks run {prepare} --prepare 2/2"), "--prepare"),
        (
            "ranks run --prepare 2/2 --cache kept".to_owned(),
            "the last of 2 is 1/2",
        ),
        (
            format!("analyze run/kineto_trace_0.json {prepare}"),
            "leave it out for one trace",
        ),
        (
            format!("replay run/kineto_trace_0.json {prepare}"),
            "leave it out for one trace",
        ),
        (
            format!("analyze run --parquet tables {prepare}"),
            "--prepare does not work with --compat or --parquet",
        ),
        (
            format!("analyze run --compat hta {prepare}"),
            "--prepare does not work with",
        ),
        (
            format!("report run run -o page.html {prepare}"),
            "--prepare does not work with",
        ),
        ("report run".to_owned(), "required arguments"),
        ("merge run".to_owned(), "required arguments"),
        (
            format!("merge run -o out --shard 0/2 {prepare}"),
            "cannot be used with",
        ),
        (
            "merge run -o out --shard 0/2 --format perfetto".to_owned(),
            "leave --shard out for one file of all ranks",
        ),
    ] {
        let ran = tool.run(&line).exits(2);
        assert!(ran.stderr.contains(message), "{}", ran.shown());
    }
    assert!(!tool.path("out").exists());
}

#[test]
fn more_shards_than_ranks_are_no_error() {
    let tool = four_ranks();
    let one = tool.run("ranks run").exits(0);
    prepare(&tool, "ranks run", 6);
    let prepared = tool.run("ranks run --cache kept").exits(0);
    assert_eq!(one.stdout, prepared.stdout);
    tool.run("merge run -o one").exits(0);
    for shard in 0..6 {
        tool.run(&format!("merge run -o out --cache kept --shard {shard}/6"))
            .exits(0);
    }
    assert!(tool.files("one") == tool.files("out"));
}

#[test]
fn a_shard_can_be_written_again() {
    let tool = four_ranks();
    tool.run("merge run -o one").exits(0);
    merge_shards(&tool, "run", [0, 0]);
    // written files are results, which are never replaced unasked
    tool.run("merge run -o out --cache kept --shard 1/2")
        .exits(2)
        .notes("--overwrite replaces it");
    tool.run("merge run -o out --cache kept --shard 0/2")
        .exits(2)
        .notes("--overwrite replaces it");
    merge_shards(&tool, "run -f", [0, 0]);
    assert!(tool.files("one") == tool.files("out"));
}

#[test]
fn shards_replace_nothing_that_is_not_of_etlink() {
    let tool = four_ranks();
    for (option, name) in [("--format etplus", "run.0.json.gz"), ("", "run.0.et")] {
        tool.file(&format!("out/{name}"), "somebody's");
        merge_shards(&tool, &format!("run {option} -f"), [2, 2]);
        assert_eq!(tool.read(&format!("out/{name}")), b"somebody's");
        fs::remove_dir_all(tool.path("out")).expect("removes");
    }
}

#[test]
fn ranks_of_an_earlier_run_never_stay_beside_others() {
    let tool = four_ranks();
    merge_shards(&tool, "run --for astra-sim", [0, 0]);
    let before = tool.files("out");
    // its file would stay
    let broken = tool.read("run/torch_et_2.json");
    tool.file("run/torch_et_2.json", "this is no trace");
    settle(&tool);
    merge_shards(&tool, "run -f", [2, 2]);
    assert!(before == tool.files("out"));
    // fewer ranks, and no simulation: files that only the earlier run has are removed
    tool.file("run/torch_et_2.json", broken);
    for kind in ["torch_et", "kineto_trace"] {
        fs::remove_file(tool.path(&format!("run/{kind}_3.json"))).expect("removes");
    }
    settle(&tool);
    merge_shards(&tool, "run -f", [0, 0]);
    tool.run("merge run -o one").exits(0);
    assert!(tool.files("one") == tool.files("out"));
    // another form of the same ranks
    merge_shards(&tool, "run -f --pack zstd", [0, 0]);
    tool.run("merge run -f --pack zstd -o one").exits(0);
    assert_eq!(
        Vec::from_iter(tool.files("one").into_keys()),
        Vec::from_iter(tool.files("out").into_keys())
    );
}

/// Truncates a device trace, which counts as damage.
fn cut(tool: &Tool, rank: u32) {
    let name = format!("run/kineto_trace_{rank}.json");
    let trace = tool.read(&name);
    tool.file(&name, &trace[..trace.len() * 3 / 4]);
}

#[test]
fn refused_ranks_are_findings_of_their_shards() {
    let tool = four_ranks();
    cut(&tool, 2);
    settle(&tool);
    let strict = "merge run --strict";
    tool.run(&format!("{strict} --cache kept --prepare 0/2"))
        .exits(1)
        .notes("failed: 2: ");
    merge_shards(&tool, "run --strict", [1, 0]);
    tool.run(&format!("{strict} -o one")).exits(1);
    assert!(tool.files("one") == tool.files("out"));
    (0..4).for_each(|rank| cut(&tool, rank));
    settle(&tool);
    fs::remove_dir_all(tool.path("out")).expect("removes");
    merge_shards(&tool, "run --strict", [1, 1]);
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
fn a_rank_that_is_not_joined_is_written_as_by_one_merge() {
    for options in ["", "--format etplus", "--for astra-sim"] {
        let tool = four_ranks();
        merge_shards(&tool, "run -f", [0, 0]);
        set_ahead(&tool, 2);
        settle(&tool);
        tool.run(&format!("merge run -o one {options}")).exits(1);
        fs::remove_dir_all(tool.path("kept")).expect("removes");
        merge_shards(&tool, &format!("run -f {options}"), [1, 1]);
        let names = |folder: &str| Vec::from_iter(tool.files(folder).into_keys());
        if !options.contains("etplus") {
            assert!(tool.files("one") == tool.files("out"), "{options}");
        }
        let is_apart = names("out")
            .iter()
            .any(|name| name.starts_with("run.2.not_joined."));
        assert_eq!(is_apart, !options.contains("astra-sim"), "{options}");
    }
}

#[test]
fn shards_of_some_ranks_replace_what_a_rank_was_while_it_was_joined() {
    let tool = Tool::new();
    let put = |rank: u64, ranks: u64| {
        let trace = all_reduce_rank(rank, ranks, 0);
        tool.file(&format!("run/kineto_trace_{rank}.json"), trace);
        settle(&tool);
    };
    (0..4).for_each(|rank| put(rank, 4));
    tool.run("merge run -o out").exits(0);
    put(3, 8);
    // without `-f` nothing is replaced
    let before = tool.files("out");
    merge_shards(&tool, "run --ranks 1-3", [2, 2]);
    assert!(tool.files("out") == before);
    merge_shards(&tool, "run --ranks 1-3 -f", [1, 1]);
    let names = || Vec::from_iter(tool.files("out").into_keys());
    let apart = [
        "comm_group.json",
        "run.0.et",
        "run.1.et",
        "run.2.et",
        "run.3.not_joined.et",
    ];
    assert_eq!(names(), apart);
    put(3, 4);
    merge_shards(&tool, "run --ranks 1-3 -f", [0, 0]);
    let before: BTreeMap<String, Vec<u8>> = before;
    assert_eq!(names(), Vec::from_iter(before.into_keys()));
    tool.run("merge run --ranks 99 -o one").exits(2);
    merge_shards(&tool, "run --ranks 99", [2, 2]);
}

#[test]
fn a_shard_refuses_files_that_exist() {
    let tool = four_ranks();
    tool.run("merge run -o out --for astra-sim --shard 1/4")
        .exits(0);
    tool.run("merge run -o out --for astra-sim --shard 1/2")
        .exits(2)
        .complains(&["run.1.et already exists"]);
    tool.shell("ls out/*.et").exits(0).says("run.1.et");
}

#[test]
fn times_ahead_of_the_clock_are_kept_in_the_cache() {
    let tool = four_ranks();
    tool.shell("touch -d '+1 hour' run/*").exits(0);
    prepare(&tool, "ranks run", 1);
    tool.run("ranks run --cache kept")
        .notes("found the results of 4 ranks");
}
