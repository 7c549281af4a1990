//! Counts and sizes claimed by a file: whatever they are, each command ends soon, in little memory,
//! and with an answer.

use crate::tool::Tool;
use etlink_testing::all_reduce_rank;

/// Limits of memory, kB, and time, s: a believed claim would exceed both by far.
const LIMITS: &str = "ulimit -v 3000000; timeout 120";

/// Replaces the numbers of `key` in the text of a trace by `number`.
fn with_number(text: &str, key: &str, number: &str) -> String {
    let mut parts = text.split(key);
    let mut changed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_number = |c: char| c.is_ascii_digit() || c == '-';
        let rest = part.trim_start_matches(is_number);
        // some tracks are named by texts
        let number = if rest.len() == part.len() { "" } else { number };
        changed += &format!("{key}{number}{rest}");
    }
    assert_ne!(changed, text, "{key} is not there");
    changed
}

/// Command that reads every field of a folder of traces.
const MERGE: &str = "merge run -o out --for astra-sim --overwrite";

/// Other commands that read a folder of traces; each number is given to one of them, in turn.
const COMMANDS: [&str; 4] = [
    "ranks run",
    "analyze run",
    "replay run",
    "report run -o page.html --overwrite",
];

#[test]
fn numbers_that_no_run_has_end_soon_with_an_answer() {
    let tool = Tool::new();
    let ranks = [0, 1].map(|rank| {
        let text = all_reduce_rank(rank, 2, 3);
        String::from_utf8(text).expect("text")
    });
    let mut others = COMMANDS.iter().cycle();
    for key in [
        "\"world_size\": ",
        "\"rank\": ",
        "\"pg_count\": ",
        "\"pg_size\": ",
        "\"Group size\": ",
        "\"Global rank start\": ",
        "\"Global rank stride\": ",
        "\"In msg nelems\": ",
        "\"Out msg nelems\": ",
        "\"Rank\": ",
        "\"Seq\": ",
        "\"stream\": ",
        "\"device\": ",
        "\"context\": ",
        "\"correlation\": ",
        "\"registers per thread\": ",
        "\"grid\": [",
        "\"tid\": ",
        "\"pid\": ",
        "\"ts\": ",
        "\"dur\": ",
    ] {
        for number in ["4294967295", "9223372036854775807", "-1"] {
            for (rank, text) in ranks.iter().enumerate() {
                let name = format!("run/kineto_trace_{rank}.json");
                tool.file(&name, with_number(text, key, number));
            }
            let other = others.next().expect("a cycle has no end");
            for line in [MERGE, other] {
                let ran = tool.shell(&format!("{LIMITS} $ETLINK {line}"));
                let is_answered = match ran.code {
                    0 => !ran.stdout.is_empty(),
                    1 => !ran.stdout.is_empty() || !ran.stderr.is_empty(),
                    2 => !ran.stderr.is_empty(),
                    _ => false,
                };
                assert!(is_answered, "{key}{number}\n{}", ran.shown());
            }
        }
    }
}

/// A job of many processes under one profiler, each calling one op.
#[test]
fn twenty_thousand_processes() {
    let tool = Tool::new();
    let ops: Vec<String> = (0..20_000)
        .map(|process| {
            format!(
                "{{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": {}, \
                 \"tid\": {}, \"ts\": {process}.000, \"dur\": 5.000, \"args\": {{}}}}",
                process + 100,
                process + 100,
            )
        })
        .collect();
    let trace = format!(
        "{{\"schemaVersion\": 1, \"traceEvents\": [\n{}\n]}}",
        ops.join(",\n")
    );
    tool.file("device.json", trace);
    for line in [
        "link --device device.json -o out.et",
        "check out.et",
        "analyze device.json --json",
        "top device.json",
        "replay device.json",
        "findings device.json",
        "report device.json -o page.html",
        "link --device device.json -o out.pftrace",
    ] {
        tool.shell(&format!("{LIMITS} $ETLINK {line}")).exits(0);
    }
}
