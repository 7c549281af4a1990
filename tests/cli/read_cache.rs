//! Parsed traces that are kept: the same answers, and what is said of them.

use crate::tool::{Tool, unpacked};
use std::fs::File;
use std::time::{Duration, SystemTime};

/// Runs with host traces, of several ranks, of one trace alone, and of another recorder.
const SOURCES: [&str; 4] = [
    "{pairs}/ddp2-2.15.0",
    "{pairs}/loader-2.3.1",
    "{pairs}/mlp-2.4.1/kineto_trace_0.json.gz",
    "{pairs}/../jax/mlp-0.10.2",
];

const QUESTIONS: [&str; 6] = [
    "analyze {source} --json",
    "analyze {source} --sequences-of mm",
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
                assert!(kept.stderr.contains("not parsed again"), "{}", kept.shown());
            }
        }
    }
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
    let second = tool.run(command).exits(0);
    let note = "note: 4 traces were not parsed again: kept has the parsed form, and the files are \
                as they were then; the oldest was parsed ";
    assert!(second.stderr.contains(note), "{}", second.shown());
    let quiet = tool.run(&format!("{command} -q")).exits(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn damage_is_said_as_of_a_parsed_trace() {
    let tool = Tool::new();
    let whole = unpacked("mlp-2.4.1/kineto_trace_0.json.gz");
    let cut = tool.file("cut.json", &whole[..whole.len() / 2]);
    // what was written a moment ago is not kept
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
    let note = "note: the cache could not be used: kept";
    assert!(ran.stderr.contains(note), "{}", ran.shown());
}
