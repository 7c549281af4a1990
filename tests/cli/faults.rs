//! Checks the files after the n-th file system call fails, or the process ends there, for every n.
//!
//! Each test prints a line of a table: `cargo test -p etlink --test cli faults -- --nocapture | grep
//! '^|'`

use crate::ranks::{Drawn, RUN, put};
use crate::tool::{Ran, Tool, failing_numbers, unpacked};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

type Files = BTreeMap<String, Vec<u8>>;

/// Outcomes of the runs with faults, for a table.
#[derive(Default)]
struct FaultTally {
    exit_codes: BTreeMap<i32, u32>,
    /// Runs that left the earlier files; `new`: the new files; `refused`: a mixture that no command
    /// reads.
    earlier: u32,
    new: u32,
    refused: u32,
}

impl FaultTally {
    fn print(&self, line: &str, fault: &str) {
        let runs: u32 = self.exit_codes.values().sum();
        let codes: Vec<String> = (self.exit_codes.iter())
            .map(|(code, runs)| format!("{code} ({runs})"))
            .collect();
        let (codes, [earlier, new, refused]) =
            (codes.join(", "), [self.earlier, self.new, self.refused]);
        println!(
            "| {line} | {fault} | {runs} runs | exit {codes} | earlier files {earlier}, new {new}, \
             cut and refused {refused} |"
        );
    }
}

/// A command that replaces the files of an earlier run.
struct Replacement {
    tool: Tool,
    line: &'static str,
    /// Output folder of the command.
    folder: &'static str,
    before: Files,
    after: Files,
    /// Contents of the output folder from which the command gave the intended result.
    repeated: RefCell<BTreeSet<Files>>,
}

impl Replacement {
    /// Replaces the tables, graphs or timeline of an earlier run with other times and one more
    /// rank.
    fn new(line: &'static str) -> Replacement {
        let tool = Tool::new();
        put(&tool, &RUN[..3]);
        tool.run(line).exits(0);
        let after = tool.files("out");
        std::fs::remove_dir_all(tool.path("out")).expect("removes");
        let earlier = RUN.map(|drawn| Drawn {
            late: !drawn.late,
            ..drawn
        });
        put(&tool, &earlier);
        tool.run(line).exits(0);
        let mut before = tool.files("out");
        std::fs::remove_file(tool.path("run/kineto_trace_3.json")).expect("removes");
        put(&tool, &RUN[..3]);
        assert_ne!(before.keys().next(), None);
        assert_ne!(before, after);
        // files of other programs stay
        before.insert("notes.txt".to_owned(), b"mine".to_vec());
        let mut after = after;
        after.insert("notes.txt".to_owned(), b"mine".to_vec());
        Replacement {
            tool,
            line,
            folder: "out",
            before,
            after,
            repeated: RefCell::default(),
        }
    }

    /// Replaces a single file, which the command writes from a device trace.
    fn of_file(line: &'static str) -> Replacement {
        let tool = Tool::new();
        tool.file("device.json", unpacked("mlp-2.15.0/kineto_trace_0.json.gz"));
        std::fs::create_dir(tool.path("out")).expect("makes folder");
        tool.run(line).exits(0);
        let after = tool.files("out");
        let precious = |name: &String| (name.clone(), b"precious".to_vec());
        let before = after.keys().map(precious).collect();
        Replacement {
            tool,
            line,
            folder: "out",
            before,
            after,
            repeated: RefCell::default(),
        }
    }

    fn run(&self, fault: &str) -> Ran {
        self.tool.put_files(self.folder, &self.before);
        self.tool.run_with_fault(self.line, fault)
    }

    /// Returns the files visible to a user, and true if there are hidden ones.
    fn files(&self) -> (Files, bool) {
        let all = self.tool.files(self.folder);
        let count = all.len();
        let seen: Files = all
            .into_iter()
            .filter(|(name, _)| !name.contains(".etlink-"))
            .collect();
        let more = count > seen.len();
        (seen, more)
    }

    /// Counts the outcome of a run, and the state of its files.
    fn note(&self, tally: &mut FaultTally, ran: &Ran) {
        *tally.exit_codes.entry(ran.code).or_default() += 1;
        let seen = self.files().0;
        if seen == self.after {
            tally.new += 1;
        } else if seen == self.before {
            tally.earlier += 1;
        } else {
            tally.refused += 1;
        }
    }

    /// Asserts that the files are either the earlier or the new ones.
    #[track_caller]
    fn assert_is_whole(&self, ran: &Ran) {
        let seen = self.files().0;
        let names: Vec<&String> = seen.keys().collect();
        assert!(
            seen == self.before || seen == self.after,
            "{names:?}\n{}",
            ran.shown()
        );
    }

    /// Asserts that the files are the earlier or the new ones, or that an incomplete set is
    /// rejected.
    #[track_caller]
    fn assert_is_whole_or_refused(&self, ran: &Ran) {
        let seen = self.files().0;
        if seen != self.before && seen != self.after {
            let check = self.tool.run("check out").exits(2);
            assert!(
                check
                    .stderr
                    .contains("is replacing its files, or was interrupted"),
                "{}\n{}",
                ran.shown(),
                check.shown()
            );
        }
    }

    /// Asserts that the next run gives the intended result, and leaves nothing else. Equal leftovers
    /// are tried once.
    #[track_caller]
    fn assert_is_repeatable(&self, ran: &Ran) {
        let left = self.tool.entries(self.folder);
        if !self.repeated.borrow_mut().insert(left) {
            return;
        }
        let again = self.tool.run(self.line).exits(0);
        let (seen, more) = self.files();
        let shown = format!("{}\n{}", ran.shown(), again.shown());
        assert!(seen == self.after && !more, "{shown}");
    }

    /// Fails each call in turn. Returns the number of calls.
    fn fail(&self, error: &str, message: &str) -> u32 {
        let mut tally = FaultTally::default();
        for number in failing_numbers() {
            let ran = self.run(&format!("any:{number}:{error}"));
            let is_cut = ran.stderr.contains("not all files are replaced");
            match ran.code {
                0 => assert!(self.files().0 == self.after, "{}", ran.shown()),
                2 if is_cut => self.assert_is_whole_or_refused(&ran),
                2 => {
                    self.assert_is_whole(&ran);
                    let said = ran.stderr.contains(message) || ran.stdout.contains(message);
                    assert!(said && ran.stderr.contains("out"), "{}", ran.shown());
                }
                _ => panic!("{}", ran.shown()),
            }
            let is_past = !ran.stderr.contains("injected: ");
            if is_past {
                tally.print(self.line, error);
            } else {
                self.note(&mut tally, &ran);
            }
            self.assert_is_repeatable(&ran);
            if is_past {
                return number;
            }
        }
        0
    }

    /// Kills the process at each call. Returns the number of calls.
    fn kill(&self) -> u32 {
        let mut tally = FaultTally::default();
        for number in failing_numbers() {
            let ran = self.run(&format!("any:{number}:KILL"));
            let is_past = ran.code == 0;
            if is_past {
                tally.print(self.line, "SIGKILL");
                assert!(
                    self.files() == (self.after.clone(), false),
                    "{}",
                    ran.shown()
                );
                return number;
            }
            self.note(&mut tally, &ran);
            self.assert_is_whole_or_refused(&ran);
            self.assert_is_repeatable(&ran);
        }
        0
    }

    /// Sends SIGTERM at each call. Returns the number of calls.
    fn terminate(&self) -> u32 {
        let mut tally = FaultTally::default();
        for number in failing_numbers() {
            let ran = self.run(&format!("any:{number}:TERM"));
            self.assert_is_whole(&ran);
            assert!(!self.files().1, "files are left\n{}", ran.shown());
            if !ran.stderr.contains("injected: ") {
                tally.print(self.line, "SIGTERM");
                ran.exits(0);
                return number;
            }
            self.note(&mut tally, &ran);
            // the last calls come after everything else is done
            assert!(ran.code == 143 || ran.code == 0, "{}", ran.shown());
        }
        0
    }
}

const LINK: &str = "link --device device.json -o out/out.et --overwrite";
const PAGE: &str = "report device.json -o out/page.html --overwrite";
const REPLAY: &str = "replay device.json -o out/new.pftrace --overwrite";
const MERGE: &str = "merge run -o out --overwrite -j 2";
const TIMELINE: &str = "merge run -o out --format perfetto --overwrite -j 2";
const TABLES: &str = "analyze run --parquet out --overwrite -j 2";

#[test]
fn a_call_fails_while_a_file_is_replaced() {
    let calls = Replacement::of_file(LINK).fail("EIO", "Input/output error");
    assert!(calls > 8, "{calls}");
}

#[test]
fn a_call_fails_while_a_page_or_a_replay_is_replaced() {
    for line in [PAGE, REPLAY] {
        let calls = Replacement::of_file(line).fail("EIO", "Input/output error");
        assert!(calls > 8, "{line}: {calls}");
    }
}

#[test]
fn a_run_is_killed_while_it_replaces_a_page_or_a_replay() {
    for line in [PAGE, REPLAY] {
        let calls = Replacement::of_file(line).kill();
        assert!(calls > 8, "{line}: {calls}");
    }
}

#[test]
fn a_run_is_interrupted_while_it_replaces_a_page_or_a_replay() {
    for line in [PAGE, REPLAY] {
        Replacement::of_file(line).terminate();
    }
}

#[test]
fn the_disk_is_full_while_a_file_is_replaced() {
    Replacement::of_file(LINK).fail("ENOSPC", "No space left on device");
}

#[test]
fn a_call_fails_while_graphs_are_replaced() {
    let calls = Replacement::new(MERGE).fail("EIO", "Input/output error");
    assert!(calls > 30, "{calls}");
}

#[test]
fn a_call_fails_while_a_timeline_is_replaced() {
    let calls = Replacement::new(TIMELINE).fail("EIO", "Input/output error");
    assert!(calls > 20, "{calls}");
}

#[test]
fn a_call_fails_while_tables_are_replaced() {
    let calls = Replacement::new(TABLES).fail("EIO", "Input/output error");
    assert!(calls > 60, "{calls}");
}

#[test]
fn a_run_is_killed_while_it_replaces_a_file() {
    let calls = Replacement::of_file(LINK).kill();
    assert!(calls > 8, "{calls}");
}

#[test]
fn a_run_is_killed_while_it_replaces_graphs() {
    let calls = Replacement::new(MERGE).kill();
    assert!(calls > 30, "{calls}");
}

#[test]
fn a_run_is_killed_while_it_replaces_tables() {
    let calls = Replacement::new(TABLES).kill();
    assert!(calls > 60, "{calls}");
}

#[test]
fn a_run_is_interrupted_while_it_replaces_a_file() {
    Replacement::of_file(LINK).terminate();
}

#[test]
fn a_run_is_interrupted_while_it_replaces_graphs() {
    Replacement::new(MERGE).terminate();
}

#[test]
fn a_run_is_interrupted_while_it_replaces_a_timeline() {
    Replacement::new(TIMELINE).terminate();
}

#[test]
fn a_run_is_interrupted_while_it_replaces_tables() {
    Replacement::new(TABLES).terminate();
}

/// Stops a merge at each of its calls while another one writes into the same folder.
#[test]
fn two_merges_into_one_folder() {
    let merge = Replacement::new(MERGE);
    let (mut refused, mut written) = (0, 0);
    for number in 1.. {
        merge.tool.put_files(merge.folder, &merge.before);
        let fault = format!("any:{number}:STOP");
        let Some(mut first) = merge.tool.start_until(merge.line, &fault) else {
            break;
        };
        let second = merge.tool.run(merge.line);
        let said = "is being written by another etlink";
        let is_refused = second.code == 2 && second.stderr.contains(said);
        // before the first run has its lock, or after it has released it
        assert!(is_refused || second.code == 0, "{}", second.shown());
        refused += u32::from(is_refused);
        let pid = Pid::from_raw(first.id().cast_signed());
        kill(pid, Signal::SIGCONT).expect("is there");
        let code = first.wait().expect("ends").code();
        written += u32::from(code == Some(0));
        // whichever came first, all files belong to one run, and nothing else is there
        assert_eq!(
            merge.files(),
            (merge.after.clone(), false),
            "{number}: {code:?}"
        );
        if is_refused {
            assert_eq!(code, Some(0), "at call {number}");
        }
    }
    assert!(refused > 30 && written >= refused, "{refused}, {written}");
}

/// Some network file systems lack locks: then an existing folder stops the next run, with an
/// explanation.
#[test]
fn a_file_system_without_locks() {
    let file = Replacement::of_file(LINK);
    file.run("lock:1:ENOLCK").exits(0);
    assert!(file.files() == (file.after.clone(), false));
    file.tool.file("out/.etlink-write.out.et/result", "half");
    let ran = file
        .tool
        .run_with_fault(file.line, "lock:1:ENOLCK")
        .exits(2);
    let said = "has no locks; if no other etlink is running, remove out/.etlink-write.out.et";
    assert!(ran.stderr.contains(said), "{}", ran.shown());
}
