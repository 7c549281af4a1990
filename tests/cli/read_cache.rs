//! Cached parsed traces: the answers are unchanged, and the cache is mentioned.

use crate::tool::{Tool, unpacked};
use std::fs::File;
use std::time::{Duration, SystemTime};

/// Runs with host traces, of several ranks, of a single trace, and of another recorder.
const SOURCES: [&str; 4] = [
    "{pairs}/ddp2-2.15.0",
    "{pairs}/loader-2.3.1",
    "{pairs}/mlp-2.4.1/kineto_trace_0.json.gz",
    "{pairs}/../jax/mlp-0.10.2",
];

const QUESTIONS: [&str; 10] = [
    "analyze {source} --table kernels --json",
    "analyze {source} --json",
    "analyze {source}",
    "analyze {source} --sequences-of mm",
    "analyze {source} --table memory_timeline --csv",
    "analyze {source} --steps-by .*",
    "findings {source} --json",
    "replay {source} --json",
    "ranks {source} --json",
    "top {source} --json",
];

#[test]
fn answers_are_those_of_a_parsed_trace() {
    let tool = Tool::new();
    for source in SOURCES {
        for question in QUESTIONS {
            let command = question.replace("{source}", source);
            let parsed = tool.run(&command);
            let filling = tool.run(&format!("{command} --cache kept"));
            let kept = tool.run(&format!("{command} --cache kept"));
            assert_eq!(parsed.code, filling.code, "{command}");
            assert_eq!(parsed.code, kept.code, "{command}");
            assert!(parsed.stdout == filling.stdout, "{command}");
            assert!(parsed.stdout == kept.stdout, "{command}");
            if parsed.code == 0 {
                let notes = ["not parsed again", "found the results of"];
                let is_said = notes.iter().any(|note| kept.stderr.contains(note));
                assert!(is_said, "{}", kept.shown());
            }
        }
    }
}

/// A result depends on more than its rank's files.
#[test]
fn a_rank_is_made_again_where_something_else_differs() {
    let tool = Tool::new();
    tool.shell("cp -p {pairs}/ddp2-2.15.0/*_0.json.gz . && touch -d -1hour *.gz")
        .exits(0);
    let commands = [
        "analyze . --json",
        "analyze . --json --steps-by aten::.*",
        "analyze . --json --strict",
        "analyze . --json --table breakdown",
        "analyze kineto_trace_0.json.gz --json",
        "analyze kineto_trace_0.json.gz --json --rank 3",
        "findings . --json",
        "replay . --json",
        "replay . --json --what-if graphs",
        "replay . --json --what-if fuse=AllReduce --what-if graphs",
    ];
    let answer = |line: &str| {
        let ran = tool.run(line);
        (ran.code, ran.stdout)
    };
    let plain = commands.map(answer);
    for _ in 0..2 {
        for (command, plain) in commands.iter().zip(&plain) {
            assert!(
                answer(&format!("{command} --cache kept")) == *plain,
                "{command}"
            );
        }
    }
    // one more rank
    tool.shell("cp -p {pairs}/ddp2-2.15.0/*_1.json.gz . && touch -d -1hour *.gz")
        .exits(0);
    for command in ["ranks . --json", "analyze . --json"] {
        assert!(
            answer(&format!("{command} --cache kept")) == answer(command),
            "{command}"
        );
    }
    tool.shell("cp -p {pairs}/ddp2-2.15.0/etlink.json . || true")
        .exits(0);
    for command in ["ranks . --json", "analyze . --json"] {
        assert!(
            answer(&format!("{command} --cache kept")) == answer(command),
            "{command}"
        );
    }
    // tables are also written for cached ranks
    let parquet = "analyze . --parquet tables --overwrite --cache kept";
    tool.run(parquet).exits(0);
    tool.run(parquet).exits(0);
    assert!(tool.path("tables/nodes").exists());
}

/// The groups of a written graph are in a separate file.
#[test]
fn a_graph_is_read_again_where_its_groups_changed() {
    let tool = Tool::new();
    tool.run("merge {pairs}/tpdp4-2.15.0 -o run").exits(0);
    tool.shell("touch -d -1hour run/*").exits(0);
    let command = "analyze run/tpdp4-2.15.0.0.et --json";
    let cached = format!("{command} --cache kept");
    let first = tool.run(&cached).exits(0).stdout;
    assert!(tool.run(&cached).exits(0).stdout == first);
    let mut groups: serde_json::Value =
        serde_json::from_slice(&tool.read("run/comm_group.json")).expect("groups");
    for ranks in groups.as_object_mut().expect("groups").values_mut() {
        *ranks = serde_json::json!([0, 1, 2, 3, 4, 5]);
    }
    tool.file("run/comm_group.json", groups.to_string());
    let plain = tool.run(command).exits(0).stdout;
    assert!(plain != first && tool.run(&cached).exits(0).stdout == plain);
    tool.file("run/comm_group.json", "{");
    tool.run(&cached).exits(2);
}

/// A page identifies ranks by index.
#[test]
fn a_page_of_other_ranks_is_drawn_anew() {
    let tool = Tool::new();
    let copy = |rank: u32| {
        let line =
            format!("cp {{pairs}}/tpdp4-2.15.0/*_{rank}.json.gz run && touch -d -1hour run/*");
        tool.shell(&line).exits(0);
    };
    tool.shell("mkdir run").exits(0);
    copy(1);
    copy(2);
    tool.run("report run -o first.html --cache kept").exits(0);
    tool.shell("rm run/*_2.json.gz").exits(0);
    copy(0);
    tool.run("report run -o cached.html --cache kept").exits(0);
    tool.run("report run -o plain.html").exits(0);
    assert!(tool.read("cached.html") == tool.read("plain.html"));
}

#[test]
fn graphs_and_pages_are_those_of_parsed_traces() {
    let tool = Tool::new();
    let commands = [
        "merge {pairs}/tpdp4-2.15.0 --for astra-sim -o {out}/run",
        "merge {pairs}/conv-2.1.2 --tensor-deps raw --format etplus -o {out}/run",
        "report {pairs}/ddp2-2.15.0 -o {out}/page.html",
        "link --device {pairs}/mlp-2.4.1/kineto_trace_0.json.gz -o {out}/rank.trace.json",
    ];
    for (number, command) in commands.iter().enumerate() {
        let outputs = [
            ("parsed", ""),
            ("filling", "--cache cache"),
            ("kept", "--cache cache"),
        ];
        let files = outputs.map(|(name, options)| {
            let folder = format!("{name}{number}");
            tool.file(&format!("{folder}/before"), "");
            let command = command.replace("{out}", &folder);
            tool.run(&format!("{command} {options}")).exits(0);
            tool.files(&folder)
        });
        assert!(files[0].len() > 1, "{command}");
        assert!(files[0] == files[1], "{command}");
        assert!(files[0] == files[2], "{command}");
    }
}

#[test]
fn the_note_says_how_many_and_how_old() {
    let tool = Tool::new();
    let command = "ranks {pairs}/ddp2-2.15.0 --cache kept";
    let first = tool.run(command).exits(0);
    assert!(!first.stderr.contains("not parsed"), "{}", first.shown());
    // another command on the same traces, which needs more of the host trace
    let second = tool.run("replay {pairs}/ddp2-2.15.0 --cache kept").exits(0);
    let note = "note: 2 trace files were not parsed again: kept has the parsed form of the \
                unchanged files; the oldest parsed form is ";
    assert!(second.stderr.contains(note), "{}", second.shown());
    let third = tool.run(command).exits(0);
    let note = "note: found the results of 2 ranks in kept; their \
                files are unchanged; the oldest result is ";
    assert!(third.stderr.contains(note), "{}", third.shown());
    assert!(!third.stderr.contains("not parsed"), "{}", third.shown());
    let quiet = tool.run(&format!("{command} -q")).exits(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn damage_is_said_as_of_a_parsed_trace() {
    let tool = Tool::new();
    let whole = unpacked("mlp-2.4.1/kineto_trace_0.json.gz");
    let cut = tool.file("cut.json", &whole[..whole.len() / 2]);
    // recently written files are not cached
    let cut = File::options().append(true).open(cut).expect("opens");
    cut.set_modified(SystemTime::now() - Duration::from_secs(60))
        .expect("has a time");
    let answers = ["", "--cache kept", "--cache kept"].map(|options| {
        let ran = tool.run(&format!("analyze cut.json --strict {options}"));
        assert_eq!(ran.code, 1, "{}", ran.shown());
        ran.stderr
    });
    assert_eq!(answers[0], answers[1]);
    assert!(answers[2].contains(answers[0].trim_end()), "{}", answers[2]);
}

#[test]
fn a_cache_that_cannot_be_written_is_a_note() {
    let tool = Tool::new();
    tool.file("kept", "a file");
    let ran = tool.run("ranks {pairs}/ddp2-2.15.0 --cache kept").exits(0);
    let note = "note: cannot use the cache: kept is a file; name a folder";
    assert!(ran.stderr.contains(note), "{}", ran.shown());
}

/// A result belongs to a rank's files: other ranks that come or are left out change nothing.
#[test]
fn results_stay_where_other_ranks_come_and_go() {
    let tool = Tool::new();
    let copy = |ranks: &str| {
        let from = format!("{{pairs}}/tpdp4-2.15.0/*_[{ranks}].json.gz");
        tool.shell(&format!("cp {from} run && touch -d 2026-01-01 run/*"))
            .exits(0);
    };
    tool.shell("mkdir run").exits(0);
    copy("12");
    for (ranks, options, found) in [
        ("12", "", None),
        ("0123", "", Some("2 ranks")),
        ("0123", "--ranks 0-2", Some("3 ranks")),
        ("0123", "--json", Some("4 ranks")),
    ] {
        copy(ranks);
        for command in ["ranks", "findings", "analyze", "replay"] {
            let line = format!("{command} run {options}");
            let cached = tool.run(&format!("{line} --cache kept")).exits(0);
            assert!(cached.stdout == tool.run(&line).stdout, "{line}");
            match found {
                Some(found) => cached.notes(&format!("found the results of {found} in kept")),
                None => cached,
            };
        }
    }
}
