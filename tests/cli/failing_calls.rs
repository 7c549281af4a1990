//! Fails the n-th read call, or the n-th allocation, of a command, for every n: the library of
//! `failing_calls.c` is preloaded before the system's.
//!
//! Each test prints lines of a table: `cargo test -p etlink --test cli failing_calls -- --nocapture
//! | grep '^|'`

use crate::ranks::{Drawn, RUN, put};
use crate::tool::{Ran, Tool, every_call_fails, failing_calls, gzip, unpacked};
use std::collections::{BTreeMap, BTreeSet};

type Files = BTreeMap<String, Vec<u8>>;

/// A command, with its results if nothing fails.
struct Reading {
    tool: Tool,
    line: &'static str,
    /// Files that an earlier run left in `out`.
    before: Files,
    after: Files,
    whole: Ran,
}

/// Returns a run's output, without the lines about injected failures.
fn said(ran: &Ran) -> String {
    let lines = ran.stderr.lines();
    let own: Vec<&str> = lines
        .filter(|line| !line.starts_with("injected: "))
        .collect();
    format!("{}\n{}", own.join("\n"), ran.stdout)
}

/// Allocations made by Rust's start-up and the SIGABRT handler: if one of them fails, the signal
/// ends the program.
const START: u32 = 100;
/// Number of failing allocations to try.
const SAMPLES: u32 = 5;

/// Selects the calls to fail: all if they are few, otherwise the first ones, which look for files,
/// and a sample of the rest, which read them rank by rank. All if every call should fail.
fn sampled(calls: u32) -> impl Iterator<Item = u32> {
    const FIRST: u32 = 10;
    let step = match every_call_fails() {
        true => 1,
        false => (calls.saturating_sub(FIRST) / 4).max(1) as usize,
    };
    (1..=calls.min(FIRST)).chain((FIRST + 1..=calls).step_by(step))
}

impl Reading {
    /// Runs the command on `run` without failures; results go to `out`, which holds an earlier
    /// run's.
    fn new(tool: Tool, line: &'static str, before: Files) -> Reading {
        tool.put_files("out", &before);
        let whole = tool.run(line).exits(0);
        let after = tool.files("out");
        Reading {
            tool,
            line,
            before,
            after,
            whole,
        }
    }

    fn run(&self, variables: &[(&str, &str)]) -> Ran {
        self.tool.put_files("out", &self.before);
        let (library, below) = (failing_calls().display().to_string(), self.tool.path("run"));
        let below = below
            .canonicalize()
            .expect("is there")
            .display()
            .to_string();
        let mut all = vec![
            ("LD_PRELOAD", library.as_str()),
            ("FAIL_BELOW", below.as_str()),
        ];
        all.extend(variables);
        self.tool.run_in(self.line, &all)
    }

    /// Returns the number of calls and allocations of a run without failures. `error` selects the
    /// calls that can fail with it.
    fn counts(&self, error: &str) -> (u32, u32) {
        let file = self.tool.path("count");
        let ran = self.run(&[
            ("FAIL_COUNT", &file.display().to_string()),
            ("FAIL_READ", &format!("0:{error}")),
        ]);
        assert!(self.is_whole(&ran), "{}", ran.shown());
        let text = String::from_utf8(self.tool.read("count")).expect("numbers");
        let (reads, allocations) = text.split_once(' ').expect("two numbers");
        (
            reads.parse().expect("a number"),
            allocations.parse().expect("a number"),
        )
    }

    /// Returns true if the run gave the same results as without failures.
    fn is_whole(&self, ran: &Ran) -> bool {
        // if a file is written, standard output contains the elapsed time
        let is_same = !self.after.is_empty() || ran.stdout == self.whole.stdout;
        is_same && ran.code == 0 && self.tool.files("out") == self.after
    }

    /// Asserts that no earlier file is lost, none is incomplete, and nothing else is left.
    #[track_caller]
    fn assert_files_are_good(&self, ran: &Ran) {
        let files = self.tool.files("out");
        for (name, content) in &self.before {
            let now = files.get(name);
            assert!(now.is_some(), "{name} is lost\n{}", ran.shown());
            assert!(
                ran.code != 2 || now == Some(content),
                "{name} is another\n{}",
                ran.shown()
            );
        }
        for (name, content) in &files {
            // without its host trace a rank may have another name
            let is_result = self.after.contains_key(name) || name.ends_with(".et");
            assert!(is_result, "{name} is left\n{}", ran.shown());
            if name.ends_with(".et") {
                let read = etlink_chakra::read::read(&content[..]);
                assert!(read.is_ok(), "{name} is no graph\n{}", ran.shown());
            }
            if name.ends_with(".html") {
                assert!(
                    content.ends_with(b"</html>\n"),
                    "{name} is cut\n{}",
                    ran.shown()
                );
            }
        }
    }

    /// Fails each read call in turn: once, or permanently like a bad disk.
    fn fail_reads(&self) {
        let calls = self.counts("EIO").0;
        assert!(calls > 5, "{}: {calls}", self.line);
        for lasting in ["", "+"] {
            let mut ends: BTreeMap<(i32, bool), u32> = BTreeMap::new();
            for number in sampled(calls) {
                let ran = self.run(&[("FAIL_READ", &format!("{number}{lasting}:EIO"))]);
                let mut lines = ran.stderr.lines();
                let injected = lines.find(|line| line.starts_with("injected: "));
                let injected = injected.unwrap_or_else(|| panic!("{}", ran.shown()));
                let name = injected.trim_end_matches('/').rsplit('/').next();
                // lines about ranks name the file without its extension
                let stem = name.and_then(|name| name.split('.').next());
                let name = stem.expect("a path");
                let said = said(&ran);
                let causes = [
                    "Input/output error",
                    // SQLite's messages
                    "disk I/O error",
                    "unable to open database",
                    // a read error in the middle of a file counts as damage
                    "damage",
                ];
                let is_said =
                    causes.iter().any(|cause| said.contains(cause)) && said.contains(name);
                let is_whole = self.is_whole(&ran);
                assert!(is_whole || is_said, "{}", ran.shown());
                assert!((0..=2).contains(&ran.code), "{}", ran.shown());
                self.assert_files_are_good(&ran);
                *ends.entry((ran.code, is_whole)).or_default() += 1;
            }
            self.print(&format!("EIO{lasting}"), &ends);
        }
    }

    /// Fails allocations in turn: a single one, or all from there on.
    fn fail_allocations(&self) {
        let count = self.counts("EIO").1;
        assert!(count > 1000, "{}: {count}", self.line);
        // contents of the folder from which the command gave its results
        let mut repeated = BTreeSet::new();
        for lasting in ["", "+"] {
            let mut ends: BTreeMap<(i32, bool), u32> = BTreeMap::new();
            for sample in 0..SAMPLES {
                let number = START + (count - START) * sample / SAMPLES;
                let ran = self.run(&[
                    ("FAIL_ALLOCATION", &format!("{number}{lasting}")),
                    ("RUST_BACKTRACE", "0"),
                ]);
                assert!(ran.stderr.contains("injected: "), "{}", ran.shown());
                let is_whole = self.is_whole(&ran);
                let said = said(&ran).to_lowercase();
                let causes = [
                    "memory allocation of",
                    "out of memory",
                    "cannot allocate memory",
                ];
                let is_said = causes.iter().any(|cause| said.contains(cause));
                assert!(
                    is_whole || ran.code == 2 && is_said,
                    "{number} of {count}: {}",
                    ran.shown()
                );
                // the next run removes the leftovers of a killed process
                let mut files = self.tool.files("out");
                files.retain(|name, _| !name.contains(".etlink-"));
                let is_set = files == self.before || files == self.after;
                assert!(is_set, "{:?}\n{}", files.keys(), ran.shown());
                if repeated.insert(self.tool.entries("out")) {
                    let again = self.tool.run(self.line).exits(0);
                    assert!(self.tool.files("out") == self.after, "{}", again.shown());
                }
                *ends.entry((ran.code, is_whole)).or_default() += 1;
            }
            self.print(&format!("no memory{lasting}"), &ends);
        }
    }

    fn print(&self, fault: &str, ends: &BTreeMap<(i32, bool), u32>) {
        let runs: u32 = ends.values().sum();
        assert!(runs > 0, "{}", self.line);
        let ends: Vec<String> = (ends.iter())
            .map(|((code, is_whole), runs)| match is_whole {
                true => format!("{code} whole ({runs})"),
                false => format!("{code} said ({runs})"),
            })
            .collect();
        println!(
            "| {} | {fault} | {runs} runs | exit {} |",
            self.line,
            ends.join(", ")
        );
    }
}

const LINK: &str = "link --host run/torch_et_0.json.gz --device run/kineto_trace_0.json.gz \
                    -o out/out.et --overwrite -j 1";
const MERGE: &str = "merge run -o out --overwrite -j 1";

/// Copies a recorded pair of two ranks to names that contain their ranks.
fn recorded() -> Tool {
    let tool = Tool::new();
    for rank in 0..2 {
        for (from, to) in [("torch_et", "torch_et"), ("kineto_trace", "kineto_trace")] {
            let text = unpacked(&format!("ddp2-2.15.0/{from}_{rank}.json.gz"));
            // one compressed, one plain
            match rank {
                0 => tool.file(&format!("run/{to}_{rank}.json.gz"), gzip(&text)),
                _ => tool.file(&format!("run/{to}_{rank}.json"), text),
            };
        }
    }
    tool
}

/// Returns the files of an earlier `merge run -o out`, from ranks with other times.
fn earlier_graphs(tool: &Tool) -> Files {
    let earlier = Tool::new();
    put(
        &earlier,
        &[RUN[0], RUN[1]].map(|drawn| Drawn { world: 2, ..drawn }),
    );
    earlier.run("merge run -o out").exits(0);
    tool.put_files("out", &BTreeMap::new());
    earlier.files("out")
}

#[test]
fn a_call_fails_while_a_rank_is_linked() {
    let tool = recorded();
    let mut earlier = earlier_graphs(&tool);
    let graph = earlier.remove("run.0.et").expect("is written");
    let before = Files::from([("out.et".to_owned(), graph)]);
    Reading::new(tool, LINK, before).fail_reads();
}

#[test]
fn a_call_fails_while_a_run_is_merged() {
    let tool = recorded();
    let before = earlier_graphs(&tool);
    Reading::new(tool, MERGE, before).fail_reads();
}

#[test]
fn a_call_fails_while_traces_are_looked_for_whose_names_tell_no_rank() {
    let tool = Tool::new();
    tool.file(
        "run/a/one.json",
        unpacked("mlp-2.15.0/kineto_trace_0.json.gz"),
    );
    tool.file("run/a/two.json", unpacked("mlp-2.15.0/torch_et_0.json.gz"));
    tool.file("run/notes", "mine");
    Reading::new(tool, "merge run -o out -j 1", Files::new()).fail_reads();
}

#[test]
fn a_call_fails_while_a_run_is_analysed() {
    Reading::new(recorded(), "analyze run --json -j 1", Files::new()).fail_reads();
}

#[test]
fn a_call_fails_while_a_page_is_made() {
    Reading::new(recorded(), "report run -o out/page.html -j 1", Files::new()).fail_reads();
}

#[test]
fn a_call_fails_while_graphs_are_read() {
    for line in ["check run --json -j 1", "replay run --json -j 1"] {
        let tool = recorded();
        tool.run("merge run -o graphs").exits(0);
        tool.put_files("run", &tool.files("graphs"));
        Reading::new(tool, line, Files::new()).fail_reads();
    }
}

/// Recordings by recorders other than PyTorch, by file name.
fn other_recordings() -> Vec<(&'static str, Tool)> {
    let of = |form: &str| unpacked(&format!("../recorders/program1.{form}.gz"));
    let files = [
        ("x.sqlite", unpacked("../nsys/program.sqlite.gz")),
        ("4711_results.db", of("rocpd.db")),
        ("4711_results.json", of("rocprof.json")),
        ("host.xplane.pb", of("xplane.pb")),
        ("host.trace.json.gz", gzip(&of("trace.json"))),
    ];
    let put = |(name, content): (&'static str, Vec<u8>)| {
        let tool = Tool::new();
        tool.file(&format!("run/{name}"), content);
        (name, tool)
    };
    files.into_iter().map(put).collect()
}

#[test]
fn a_call_fails_while_a_trace_of_another_recorder_is_linked() {
    for (name, tool) in other_recordings() {
        let line = format!("link --device run/{name} -o out/out.et -j 1");
        Reading::new(tool, line.leak(), Files::new()).fail_reads();
    }
}

#[test]
fn a_call_fails_while_a_trace_of_another_recorder_is_looked_for() {
    for (_, tool) in other_recordings() {
        Reading::new(tool, "merge run -o out -j 1", Files::new()).fail_reads();
    }
}

#[test]
fn memory_cannot_be_had_while_a_rank_is_linked() {
    let tool = recorded();
    let mut earlier = earlier_graphs(&tool);
    let graph = earlier.remove("run.0.et").expect("is written");
    let before = Files::from([("out.et".to_owned(), graph)]);
    Reading::new(tool, LINK, before).fail_allocations();
}

#[test]
fn memory_cannot_be_had_while_a_run_is_merged() {
    let tool = recorded();
    let before = earlier_graphs(&tool);
    Reading::new(tool, MERGE, before).fail_allocations();
}

#[test]
fn memory_cannot_be_had_while_a_run_is_analysed() {
    let line = "analyze run --json -j 2";
    Reading::new(recorded(), line, Files::new()).fail_allocations();
}

/// Interrupted reads are retried, and short reads are continued.
#[test]
fn reads_are_interrupted_and_short() {
    let tool = recorded();
    let before = earlier_graphs(&tool);
    let reading = Reading::new(tool, MERGE, before);
    let ran = reading.run(&[("FAIL_READ", "0:SHORT")]);
    assert!(reading.is_whole(&ran), "{}", ran.shown());
    let mut interrupted = 0;
    for number in sampled(reading.counts("EINTR").0) {
        let ran = reading.run(&[("FAIL_READ", &format!("{number}:EINTR"))]);
        assert!(reading.is_whole(&ran), "{}", ran.shown());
        assert!(ran.stderr.contains("injected: "), "{}", ran.shown());
        interrupted += 1;
    }
    assert!(interrupted > 10, "{interrupted}");
}
