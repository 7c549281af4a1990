//! Selection, truncation and printing of `etlink analyze` tables.

use crate::analyze::draw;
use crate::tool::Tool;
use etlink_testing::DeviceQueue;
use serde_json::{Value, json};

const US: i64 = 1_000;

/// Selects one table, or one that does not exist.
#[test]
fn one_table() {
    let tool = Tool::new();
    for rank in 0..2 {
        tool.file(&format!("kineto_trace_{rank}.json"), draw(rank).kineto());
    }
    let json = tool.run("analyze . --table idle --json").exits(0).runs();
    let keys = |value: &Value| {
        value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        keys(&json[0]),
        ["run", "diagnostics", "ranks", "excluded", "absent", "total"]
    );
    assert_eq!(keys(&json[0]["total"]), ["idle"]);
    assert_eq!(
        keys(&json[0]["ranks"][1]),
        [
            "label",
            "device_trace",
            "host_trace",
            "diagnostics",
            "anomalies",
            "recording",
            "rank",
            "idle"
        ]
    );
    let hta = tool
        .run("analyze . --compat hta --table idle_time_breakdown --json")
        .exits(0)
        .runs();
    assert_eq!(
        keys(&hta[0]["ranks"][0]),
        [
            "label",
            "device_trace",
            "host_trace",
            "diagnostics",
            "anomalies",
            "recording",
            "idle_time_breakdown"
        ]
    );
    let late = tool.run("analyze . --table stragglers --csv").exits(0);
    assert!(
        late.stdout
            .starts_with("run,rank,collectives,last,caused_ns,")
            && late.stdout.contains("\n,1,"),
        "{}",
        late.stdout
    );
    tool.run("analyze . --table stragglers")
        .exits(0)
        .says("stragglers (others wait");
    let memory = tool.run("analyze . --table memory --csv").exits(0).stdout;
    assert!(
        memory.starts_with("run,rank,device_type,device,") && memory.lines().count() == 1,
        "{memory}"
    );
    tool.run("analyze . --table memory")
        .exits(0)
        .says("memory (before and after the recording)\n  empty\n");
    tool.run("analyze . --table sequences")
        .exits(2)
        .complains(&["--table sequences needs --sequences-of"]);
    tool.run("analyze . --compat include-last-step")
        .exits(2)
        .complains(&[
            "need hta, as in --compat hta",
            "--compat hta,include-last-step",
        ]);
    tool.run("analyze . --compat hta --parquet tables").exits(2);
}

#[test]
fn help_names_all_tables() {
    let tool = Tool::new();
    let help = tool.run("analyze --help").exits(0).stdout;
    let help: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
    tool.file("trace.json", draw(0).kineto());
    let error = tool.run("analyze trace.json --table no").exits(2).stderr;
    let (_, names) = error.trim().split_once("tables: ").expect("names tables");
    assert!(
        names.split(", ").all(|name| help.contains(name)) && help.contains("Exit codes: 0 done; 1"),
        "{names}: {help}"
    );
}

#[test]
fn chosen_ranks() {
    let tool = Tool::new();
    for rank in 0..3 {
        tool.file(
            &format!("run/kineto_trace_{rank}.json"),
            draw(rank).kineto(),
        );
    }
    tool.run("merge run -o graphs --allow-mismatch").exits(0);
    for folder in ["run", "graphs"] {
        let json = tool
            .run(&format!("analyze {folder} --ranks 1 --json"))
            .exits(0)
            .runs();
        let labels: Vec<_> = json[0]["ranks"]
            .as_array()
            .expect("ranks")
            .iter()
            .map(|rank| rank["label"].clone())
            .collect();
        assert_eq!(labels, [json!("1")]);
        tool.run(&format!("analyze {folder} --ranks 7"))
            .exits(2)
            .complains(&["no traces for the ranks requested with --ranks"]);
    }
    tool.run("analyze run/kineto_trace_0.json --ranks 0")
        .exits(2)
        .complains(&["--ranks selects traces in a folder"]);
}

#[test]
fn what_is_cut_is_said() {
    let tool = Tool::new();
    for rank in 0..2 {
        tool.file(&format!("kineto_trace_{rank}.json"), draw(rank).kineto());
    }
    for table in [
        "kernels",
        "stream_idle",
        "launches",
        "queues",
        "coverage",
        "stragglers",
    ] {
        let cut = tool
            .run(&format!("analyze . --table {table} --rows 1"))
            .exits(0)
            .stdout;
        assert!(
            cut.contains("  1 of ") && cut.contains(" rows; --rows 0 shows all"),
            "{cut}"
        );
        let all = tool
            .run(&format!("analyze . --table {table} --rows 0"))
            .exits(0)
            .stdout;
        assert!(
            all.lines().count() > cut.lines().count() - 1 && !all.contains("--rows 0"),
            "{all}"
        );
    }
}

#[test]
fn sentences_and_units() {
    let tool = Tool::new();
    for rank in 0..2 {
        let mut draw = draw(rank);
        let main = draw.thread();
        draw.annotation(main, "ProfilerStep#1", 0, 8_202_738 * US);
        tool.file(&format!("kineto_trace_{rank}.json"), draw.kineto());
    }
    tool.run("analyze .")
        .exits(0)
        .says(
            "2 devices are busy 0.0 % of their summed step (140.000 us of 16.405 s): \
            computation 0.0 %",
        )
        .says("1 step on each of 2 ranks, mean 8.203 s from the last rank's begin to the last rank's end; on a rank, mean 8.203 s on the host");
    tool.run("analyze kineto_trace_0.json")
        .exits(0)
        .says("\n1 step, mean 8.203 s; 8.203 s on the host");
}

/// A terminal would obey control characters in names. File names are arbitrary, and appear in
/// titles, notes and errors.
#[test]
fn control_characters_in_names_of_files() {
    let tool = Tool::new();
    tool.file("run/ki\u{1b}[31mneto_trace_0.json", draw(0).kineto());
    for line in [
        "analyze run",
        "top run",
        "top run --tree",
        "findings run",
        "ranks run",
        "replay run",
        "merge run -o out",
        "report run -o page.html",
        "check run",
    ] {
        let ran = tool.run(line);
        for text in [&ran.stdout, &ran.stderr] {
            assert!(!text.contains('\u{1b}'), "{line}: {text:?}");
        }
    }
}

/// A file name cannot imitate a line about another rank.
#[cfg(unix)]
#[test]
fn line_ends_in_names_of_files() {
    let tool = Tool::new();
    tool.file("run/kineto_trace_0.json", "{\"traceEvents\": [");
    tool.file("run/rank1\n  1  linked.json", "{\"traceEvents\": [");
    let ran = tool.run("merge run -o out");
    let lines = ran.stdout.lines().chain(ran.stderr.lines());
    let forged = lines.filter(|line| line.starts_with("  1  linked"));
    assert_eq!(forged.count(), 0, "{}", ran.shown());
    assert!(
        ran.code != 0 && ran.stderr.contains("\\n  1  linked"),
        "{}",
        ran.shown()
    );
}

#[test]
fn control_characters_in_names() {
    let tool = Tool::new();
    let text = String::from_utf8(draw(0).kineto())
        .expect("text")
        .replace("sm80_gemm", "\\u001b[31mred\\u0007\\nnext");
    tool.file("odd.json", &text);
    let (before, after) = text.split_once("[31m").expect("the name is there");
    tool.file(
        "cut.json",
        format!(
            "{before}[31m{}",
            after.replacen("\"dur\": ", "\"dur\": nan, \"was\": ", 1)
        ),
    );
    tool.run("analyze cut.json")
        .exits(0)
        .notes("note: damage: durations that are not numbers");
    tool.file("plain.json", draw(0).kineto());
    for line in [
        "analyze odd.json",
        "analyze odd.json --compat hta",
        "analyze cut.json",
        "top odd.json",
        "diff plain.json odd.json",
        "link --device odd.json",
    ] {
        let ran = tool.run(line).exits(0);
        assert!(
            !ran.stdout.contains(|c: char| c.is_control() && c != '\n'),
            "{line}: {:?}",
            ran.stdout
        );
    }
    tool.run("analyze odd.json")
        .exits(0)
        .says(r"\u{1b}[31mred\u{7}\nnext");
}

#[test]
fn blanks_before_a_trace_and_rules_that_are_no_text() {
    let tool = Tool::new();
    tool.file(
        "spaces.json",
        [vec![b' '; 1 << 20], draw(0).kineto()].concat(),
    );
    tool.run("analyze spaces.json")
        .exits(0)
        .says("the device is busy 35.0 %");
    tool.file("latin.txt", b"communication caf\xe9 ^nccl\n");
    tool.run("analyze spaces.json --rules latin.txt")
        .exits(2)
        .complains(&["latin.txt: byte 17 is not UTF-8; save it as UTF-8 text"]);
}

/// Spreadsheets interpret a text with such a beginning as a formula; numbers begin with a sign too.
#[test]
fn csv_quotes_formulas_of_traces() {
    let tool = Tool::new();
    let mut trace = draw(0);
    let main = trace.thread();
    trace.op(main, "=HYPERLINK(\"x\")", 0, 10 * US);
    tool.file("=run/kineto_trace_0.json", trace.kineto());
    let top = tool.run("top =run --csv").exits(0).stdout;
    assert!(top.contains(",\"'=HYPERLINK(\"\"x\"\")\","), "{top}");
    assert!(!top.contains(",\"=HYPERLINK"), "{top}");
    let json = tool.run("top =run --json").exits(0).json();
    assert!(
        json.to_string().contains("\"=HYPERLINK"),
        "JSON has the name as it is"
    );
}

/// `cat` of a file must not let a name in it control the terminal.
#[test]
fn csv_has_no_control_characters_of_traces() {
    let tool = Tool::new();
    let mut trace = draw(0);
    let main = trace.thread();
    let name = "evil\\u001b[31m\\u0007\\u009b2J";
    trace.op(main, name, 0, 10 * US);
    let queue = DeviceQueue::stream(7);
    trace.launch(main, (US, 2 * US), queue, name, (3 * US, 9 * US));
    tool.file("run/kineto_trace_0.json", trace.kineto());
    for line in [
        "top run --csv",
        "analyze run --table kernels --csv",
        "analyze run --table op_launches --csv",
        "diff run run --csv",
    ] {
        let csv = tool.run(line).exits(0).stdout;
        assert!(
            csv.contains("evil\\u{1b}[31m\\u{7}\\u{9b}2J"),
            "{line}: {csv}"
        );
        let is_odd = |letter: char| letter.is_control() && letter != '\n';
        assert!(!csv.contains(is_odd), "{line}: {csv:?}");
    }
    let json = tool.run("top run --json").exits(0).json();
    assert!(
        json.to_string().contains("evil\\u001b[31m"),
        "JSON has the name as it is"
    );
}
