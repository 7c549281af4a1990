//! Destinations of results, files kept on failure, and leftovers of interrupted runs.

use crate::ranks::{Drawn, RUN, put};
use crate::tool::{Tool, gzip, unpacked};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::time::{Duration, Instant};

/// Time limit for a shell that a bug would make wait forever; the exit code is then 124.
const LIMIT: &str = "timeout 60";

/// Creates a folder with a trace; also returns its converted output.
fn with_trace() -> (Tool, Vec<u8>) {
    let tool = Tool::new();
    let device = unpacked("mlp-2.15.0/kineto_trace_0.json.gz");
    tool.file("device.json", device);
    tool.run("link --device device.json -o want.et").exits(0);
    let want = tool.read("want.et");
    std::fs::remove_file(tool.path("want.et")).expect("removes");
    (tool, want)
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a number"));
    kill(pid, signal).expect("is there");
}

/// Waits until a file exists.
#[track_caller]
fn wait_for(tool: &Tool, name: &str) {
    let start = Instant::now();
    while !tool.path(name).exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "no {name}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_link_is_written_through() {
    let (tool, want) = with_trace();
    std::fs::create_dir(tool.path("far")).expect("makes folder");
    symlink("far/real.et", tool.path("near.et")).expect("links");
    // the link is dangling at first
    tool.run("link --device device.json -o near.et").exits(0);
    assert!(tool.read("far/real.et") == want);
    tool.file("far/real.et", "precious");
    tool.run("link --device device.json -o near.et")
        .exits(2)
        .complains(&["near.et already exists", "--overwrite"]);
    assert_eq!(tool.read("far/real.et"), b"precious");
    tool.run("link --device device.json -o near.et --overwrite")
        .exits(0);
    assert!(tool.read("far/real.et") == want);
    assert!(tool.path("near.et").is_symlink());
    assert_eq!(tool.names(), ["device.json", "far", "near.et"]);
    assert_eq!(tool.files("far").len(), 1);
}

#[test]
fn standard_output_by_other_names() {
    let (tool, want) = with_trace();
    symlink("/dev/stdout", tool.path("out.et")).expect("links");
    for (line, name) in [
        ("-o /dev/stdout --format chakra > 1", "1"),
        ("-o out.et --overwrite > 2", "2"),
        ("-o /dev/fd/3 --format chakra 3> 3", "3"),
        ("-o /proc/self/fd/4 --format chakra --overwrite 4> 4", "4"),
        ("-q -o /dev/stderr --format chakra 2> 5 > /dev/null", "5"),
        ("-o /dev/stdout --format chakra | cat > 6", "6"),
    ] {
        tool.shell(&format!("$ETLINK link --device device.json {line}"))
            .exits(0);
        assert!(tool.read(name) == want, "{line}");
    }
    assert!(tool.path("out.et").is_symlink());
    // existing content stays in front
    tool.file("log", "before ");
    tool.shell("$ETLINK link --device device.json -o /dev/stdout --format chakra >> log")
        .exits(0);
    tool.shell("$ETLINK link --device device.json -o /dev/fd/3 --format chakra 3>> log")
        .exits(0);
    assert!(tool.read("log") == [b"before ", &want[..], &want[..]].concat());
}

#[test]
fn a_pipe_stays_a_pipe() {
    let (tool, want) = with_trace();
    tool.shell(&format!(
        "mkfifo pipe && {{ cat pipe > got & }} && {LIMIT} $ETLINK link --device device.json -o \
        pipe --format chakra --overwrite; \
         code=$?; wait; exit $code"
    ))
    .exits(0);
    assert!(tool.read("got") == want);
    let kind = std::fs::symlink_metadata(tool.path("pipe")).expect("is there");
    assert!(kind.file_type().is_fifo());
}

#[test]
fn a_reader_that_goes_away() {
    let (tool, _) = with_trace();
    // more than a pipe holds
    let line = "link --host {pairs}/transformer-2.15.0/torch_et_0.json.gz \
                --device {pairs}/transformer-2.15.0/kineto_trace_0.json.gz --format etplus";
    tool.shell(&format!(
        "mkfifo pipe && {{ head -c 10 pipe > got & }} && {LIMIT} $ETLINK {line} -o pipe"
    ))
    .exits(2)
    .complains(&["cannot write pipe", "Broken pipe"]);
    // the reader of standard output closes it early
    for output in ["-", "/dev/stdout"] {
        tool.shell(&format!(
            "{{ {LIMIT} $ETLINK {line} -o {output} 2> said; echo $? > code; }} | head -c 10"
        ))
        .exits(0);
        assert_eq!(tool.read("code"), b"0\n", "{output}");
    }
}

#[test]
fn an_interrupted_run_leaves_no_file() {
    for (sent, code) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
    ] {
        let tool = Tool::new();
        // waits for a trace that nobody writes
        let mut child = tool.start("link --device - -o out.et");
        // `wait` closes it, and an empty trace is an error too
        let trace = child.stdin.take().expect("piped");
        wait_for(&tool, ".etlink-write.out.et/lock");
        signal(&child, sent);
        let status = child.wait().expect("ends");
        drop(trace);
        assert_eq!(status.code(), Some(code), "{sent}");
        assert_eq!(tool.names(), [""; 0], "{sent}");
    }
}

#[test]
fn an_unpacked_database_goes_when_a_signal_ends_the_program() {
    let tool = Tool::new();
    tool.file("temporary/.keep", "");
    let temporary = || tool.files("temporary").len();
    let mut child = std::process::Command::new("env")
        .args(["--default-signal", "TMPDIR=temporary"])
        .args([env!("CARGO_BIN_EXE_etlink"), "link", "--device", "-"])
        .current_dir(tool.path(""))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    let mut trace = child.stdin.take().expect("piped");
    let mut pages = b"SQLite format 3\0 CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL".to_vec();
    // more bytes than type detection needs, without an end
    pages.resize(1 << 20, 0);
    trace.write_all(&pages).expect("writes");
    let start = Instant::now();
    while temporary() < 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "no file");
        std::thread::sleep(Duration::from_millis(2));
    }
    signal(&child, Signal::SIGTERM);
    assert_eq!(child.wait().expect("ends").code(), Some(143));
    drop(trace);
    assert_eq!(temporary(), 1);
}

#[test]
fn ignored_signals_stay_ignored() {
    let (tool, want) = with_trace();
    let mut child = std::process::Command::new("nohup")
        .arg(env!("CARGO_BIN_EXE_etlink"))
        .args(["link", "--device", "-", "-o", "out.et"])
        .current_dir(tool.path(""))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    wait_for(&tool, ".etlink-write.out.et/lock");
    signal(&child, Signal::SIGHUP);
    let mut trace = child.stdin.take().expect("piped");
    trace.write_all(&tool.read("device.json")).expect("writes");
    drop(trace);
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    assert!(tool.read("out.et") == want);
}

#[test]
fn two_runs_never_write_one_file() {
    let (tool, want) = with_trace();
    let mut first = tool.start("link --device - -o out.et");
    wait_for(&tool, ".etlink-write.out.et/lock");
    std::thread::sleep(Duration::from_millis(100));
    tool.run("link --device device.json -o out.et --overwrite")
        .exits(2)
        .complains(&[
            "out.et is being written by another etlink",
            &format!("process {}", first.id()),
        ]);
    // another file in the same folder does not matter
    tool.run("link --device device.json -o other.et").exits(0);
    // the lock ends with its process, and the next run into the folder removes the leftovers
    signal(&first, Signal::SIGKILL);
    assert_eq!(first.wait().expect("ends").signal(), Some(9));
    assert!(tool.path(".etlink-write.out.et/lock").exists());
    tool.file(".etlink-write.out.et/result", "half");
    tool.run("link --device device.json -o more.et").exits(0);
    assert_eq!(tool.names(), ["device.json", "more.et", "other.et"]);
    tool.run("link --device device.json -o out.et").exits(0);
    assert!(tool.read("out.et") == want);
    assert_eq!(
        tool.names(),
        ["device.json", "more.et", "other.et", "out.et"]
    );
}

#[test]
fn two_runs_never_write_one_set() {
    let tool = Tool::new();
    put(&tool, &RUN);
    for (line, folder) in [
        ("merge run -o out", "out"),
        ("analyze run --parquet tables", "tables"),
    ] {
        let lock = tool.file(&format!("{folder}/.etlink-write.set/lock"), "4711\n");
        let lock = std::fs::File::open(lock).expect("opens");
        lock.lock().expect("locks");
        tool.run(line).exits(2).complains(&[
            &format!("{folder} is being written by another etlink (process 4711)"),
            "write elsewhere",
        ]);
        drop(lock);
        tool.run(line).exits(0);
        let left = tool.files(folder);
        assert!(left.keys().all(|name| !name.contains(".etlink")));
    }
}

/// Returns two runs for replacing one with the other: other times, and one rank less.
fn two_runs(tool: &Tool) -> [Vec<Drawn>; 2] {
    let earlier = RUN.map(|drawn| Drawn {
        late: !drawn.late,
        ..drawn
    });
    put(tool, &RUN);
    [earlier.to_vec(), RUN[..3].to_vec()]
}

#[test]
fn kills_at_random_moments() {
    let tool = Tool::new();
    let line = "merge run -o out --overwrite -j 2";
    let [before, after] = two_runs(&tool).map(|ranks| {
        drop(std::fs::remove_dir_all(tool.path("run")));
        put(&tool, &ranks);
        drop(std::fs::remove_dir_all(tool.path("out")));
        tool.run(line).exits(0);
        tool.files("out")
    });
    assert_ne!(before, after);
    let start = Instant::now();
    tool.run(line).exits(0);
    let whole = start.elapsed();
    let mut killed = 0;
    for number in 0..30u32 {
        tool.put_files("out", &before);
        let sent = if number % 2 == 0 {
            Signal::SIGTERM
        } else {
            Signal::SIGKILL
        };
        let mut child = tool.start(line);
        // moments spread evenly over the run's duration
        std::thread::sleep(whole * (number * 37 % 30) / 27);
        signal(&child, sent);
        let status = child.wait().expect("ends");
        killed += u32::from(!status.success());
        let mut files = tool.files("out");
        let count = files.len();
        files.retain(|name, _| !name.contains(".etlink-"));
        if sent == Signal::SIGTERM {
            // the signal itself ends the process before its handler is installed
            let ends = status.code() == Some(143) || status.success() || status.signal().is_some();
            assert!(ends, "{status}");
            assert_eq!(files.len(), count, "files are left at kill {number}");
        }
        if files != before && files != after {
            assert_eq!(sent, Signal::SIGKILL);
            tool.run("check out")
                .exits(2)
                .complains(&["is replacing its files, or was interrupted"]);
        }
        tool.run(line).exits(0);
        assert!(tool.files("out") == after, "after kill {number}");
    }
    assert!(killed > 5, "only {killed} of 30 were in time");
}

#[test]
fn a_run_with_a_failed_rank_replaces_no_whole_one() {
    let tool = Tool::new();
    put(&tool, &RUN);
    for options in [
        "",
        "--format etplus",
        "--format perfetto",
        "--for astra-sim",
    ] {
        let line = format!("merge run -o out {options} --overwrite");
        put(&tool, &RUN);
        tool.run(&line).exits(0);
        let before = tool.files("out");
        tool.file("run/kineto_trace_2.json", "{\"traceEvents\": ");
        let ran = tool.run(&line).exits(2);
        assert!(
            ran.stderr.contains("out: nothing was replaced, because"),
            "{}",
            ran.shown()
        );
        ran.notes("failed: 2");
        assert!(tool.files("out") == before, "{options}");
        let ran = tool.run(&format!("{line} --json")).exits(2);
        let ranks = ran.json()["ranks"].as_array().cloned().expect("a list");
        let written = ranks.iter().filter(|rank| rank["output"].is_string());
        assert_eq!(written.count(), 0, "{options}");
        std::fs::remove_dir_all(tool.path("out")).expect("removes");
        // if nothing is lost, the others are written
        tool.run(&line).exits(1);
        assert!(!tool.files("out").is_empty());
        std::fs::remove_dir_all(tool.path("out")).expect("removes");
    }
}

#[test]
fn a_file_of_another_tool_is_not_removed() {
    let tool = Tool::new();
    put(&tool, &RUN);
    tool.run("merge run -o out").exits(0);
    tool.file("out/run.9.et", "precious");
    tool.run("merge run -o out --overwrite")
        .exits(2)
        .complains(&[
            "out/run.9.et has the name of an output, but etlink did not write it",
            "move it away",
        ]);
    assert_eq!(tool.read("out/run.9.et"), b"precious");
}

#[test]
fn files_beside_the_ranks_are_refused_where_somebody_else_wrote_them() {
    let tool = Tool::new();
    tool.file("groups/comm_group.json", "{\"my\":\"own\"}");
    tool.file("notes/README.md", "notes");
    tool.file("notes/system.json", "mine");
    tool.file("network/network.yml", "mine");
    for (line, folder, named) in [
        ("mlp-2.15.0 -o groups", "groups", "comm_group.json"),
        ("ddp2-2.15.0 -o notes --for astra-sim", "notes", "README.md"),
        (
            "ddp2-2.15.0 -o network --for astra-sim",
            "network",
            "network.yml",
        ),
    ] {
        let before = tool.files(folder);
        tool.run(&format!("merge {{pairs}}/{line} --overwrite"))
            .exits(2)
            .complains(&[&format!("{folder}/{named} has the name"), "move it away"]);
        assert!(tool.files(folder) == before, "{folder}");
    }
    // without a simulation those names do not matter
    let line = "merge {pairs}/ddp2-2.15.0 -o notes --overwrite";
    tool.run(line).exits(0);
    assert_eq!(tool.read("notes/README.md"), b"notes");
    assert_eq!(tool.read("notes/system.json"), b"mine");
    // files written by etlink are replaced
    tool.run("merge {pairs}/tpdp4-2.15.0 -o own --for astra-sim")
        .exits(0);
    let before = tool.files("own");
    tool.run("merge {pairs}/tpdp4-2.15.0 -o own --for astra-sim --overwrite")
        .exits(0);
    assert!(tool.files("own") == before);
}

#[test]
fn a_foreign_file_of_an_outputs_name_stays() {
    let tool = Tool::new();
    for (format, name) in [
        ("perfetto", "timeline.pftrace.gz"),
        ("chrome", "timeline.trace.json.gz"),
        ("etplus", "ddp2-2.15.0.0.json.gz"),
        ("chakra", "ddp2-2.15.0.0.et"),
    ] {
        let line = format!("merge {{pairs}}/ddp2-2.15.0 -o {format} --format {format} --overwrite");
        let file = format!("{format}/{name}");
        for content in [b"mine".to_vec(), gzip(b"{\"traceEvents\": []}")] {
            tool.file(&file, &content);
            tool.run(&line)
                .exits(2)
                .complains(&[&format!("{file} has the name"), "move it away"]);
            assert_eq!(tool.read(&file), content, "{format}");
        }
        // files written by etlink are replaced
        std::fs::remove_file(tool.path(&file)).expect("removes");
        tool.run(&line).exits(0);
        let before = tool.files(format);
        tool.run(&line).exits(0);
        assert!(tool.files(format) == before, "{format}");
    }
}

/// The list of groups covers all files of a folder: another run's list would not fit them.
#[test]
fn a_merge_does_not_replace_what_the_ranks_of_another_run_need() {
    let (first, other) = ("{pairs}/tpdp4-2.15.0", "{pairs}/ddp2-2.15.0");
    let tool = Tool::new();
    tool.run(&format!("merge {first} -o out")).exits(0);
    let before = tool.files("out");
    let named = [
        "out/comm_group.json would no longer fit tpdp4-2.15.0.0.et next to it",
        "which is from another run; write to another folder, or first remove the files of that run",
    ];
    tool.run(&format!("merge {other} -o out -f"))
        .exits(2)
        .complains(&named);
    tool.run(&format!("merge {other} -o out -f --for astra-sim"))
        .exits(2)
        .complains(&named);
    assert!(tool.files("out") == before);
    // nor the simulator's files
    tool.run(&format!("merge {first} -o sim --for astra-sim"))
        .exits(0);
    let before = tool.files("sim");
    tool.run(&format!("merge {other} -o sim -f --for astra-sim"))
        .exits(2)
        .complains(&["sim/README.md would no longer fit tpdp4-2.15.0.0.et next to it"]);
    assert!(tool.files("sim") == before);
    // a run without groups needs no list
    tool.run("merge {pairs}/mlp-2.15.0 -o sim -f").exits(0);
    let mut after = tool.files("sim");
    assert!(after.remove("mlp-2.15.0.0.et").is_some());
    assert!(after == before);
    tool.run("check sim").exits(0);
    // the same run under another name has the same list
    tool.shell("cp -r {pairs}/tpdp4-2.15.0 renamed").exits(0);
    tool.run("merge renamed -o out -f").exits(0);
    tool.run("check out").exits(0);
}

#[test]
fn some_ranks_for_a_simulator_do_not_replace_the_others_by_idle_ones() {
    let tool = Tool::new();
    let line = "merge {pairs}/ddp2-2.15.0 -o out --for astra-sim --overwrite";
    tool.run(line).exits(0);
    let before = tool.files("out");
    tool.run(&format!("{line} --ranks 0")).exits(2).complains(&[
        "out/ddp2-2.15.0.1.et",
        "not selected with --ranks",
        "all ranks",
    ]);
    assert!(tool.files("out") == before);
    // the idle ranks of a partial merge are not a loss
    let line = "merge {pairs}/ddp2-2.15.0 -o some --for astra-sim --overwrite --ranks 0";
    tool.run(line).exits(0);
    let before = tool.files("some");
    assert!(before.contains_key("ddp2-2.15.0.1.et"));
    tool.run(line).exits(0);
    assert!(tool.files("some") == before);
}

#[test]
fn a_run_without_a_rank_that_was_asked_for_gets_no_folder() {
    let tool = Tool::new();
    tool.shell("mkdir in && cp -r {pairs}/ddp2-2.15.0 {pairs}/pipeline4-2.15.0 in")
        .exits(0);
    tool.run("merge in -o out --ranks 3").exits(0);
    let folders = std::fs::read_dir(tool.path("out")).expect("lists");
    let names: Vec<_> = folders
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    assert_eq!(names, ["pipeline4-2.15.0"]);
    // the rank of this trace is only known once it is read
    tool.shell(
        "cp -r {pairs}/mlp-2.15.0 in/unsure && cd in/unsure && rm -f RECIPE && \
        mv kineto_trace_0.json.gz x.json.gz && mv torch_et_0.json.gz y.json.gz",
    )
    .exits(0);
    tool.run("merge in -o again --ranks 3").exits(0);
    assert!(!tool.path("again/unsure").exists());
    tool.run("merge in/unsure -o none --ranks 3").exits(2);
    assert!(!tool.path("none").exists());
}

#[test]
fn a_merge_of_some_ranks_keeps_the_files_of_the_others() {
    let tool = Tool::new();
    for (run, pair, ranks) in [("a", "ddp2-2.15.0", 2), ("b", "pipeline4-2.15.0", 4)] {
        for rank in 0..ranks {
            for kind in ["torch_et", "kineto_trace"] {
                let name = format!("{kind}_{rank}.json");
                let trace = unpacked(&format!("{pair}/{name}.gz"));
                tool.file(&format!("two/{run}/{name}"), trace);
            }
        }
    }
    tool.run("merge two -o out").exits(0);
    let before = tool.files("out");
    tool.run("merge two -o out --overwrite --ranks 3").exits(0);
    let after = tool.files("out");
    assert!(before.keys().eq(after.keys()), "{:?}", after.keys());
    let changed = before.iter().filter(|(name, file)| after[*name] != **file);
    let changed: Vec<&str> = changed.map(|(name, _)| name.as_str()).collect();
    assert!(
        changed.iter().all(|name| *name == "b/b.3.et"),
        "{changed:?}"
    );
    tool.run("check out").exits(0);
    // with fewer ranks, process groups have other numbers than in the other files
    let line = "merge {pairs}/tpdp4-2.15.0 -o groups --overwrite";
    tool.run(line).exits(0);
    let before = tool.files("groups");
    tool.run(&format!("{line} --ranks 1"))
        .exits(2)
        .complains(&["groups/comm_group.json would no longer fit", "all ranks"]);
    assert!(tool.files("groups") == before);
}

#[test]
fn pipes_and_unreadable_folders_are_passed_by() {
    let tool = Tool::new();
    put(&tool, &RUN);
    tool.run("merge run -o graphs").exits(0);
    for folder in ["run", "graphs"] {
        for name in ["5.json", "x.5.et", "kineto_trace_5.json", "graphs.5.et"] {
            tool.shell(&format!("mkfifo {folder}/{name}")).exits(0);
        }
        for (rank, place) in ["/proc/kmsg", "/proc/self/maps", "/dev/zero"]
            .iter()
            .enumerate()
        {
            let link = format!("ln -s {place} {folder}/kineto_trace_{}.json", rank + 6);
            tool.shell(&format!("[ ! -e {place} ] || {link}")).exits(0);
        }
    }
    for line in [
        "check graphs",
        "replay graphs",
        "report graphs -o 1.html",
        "analyze graphs",
        "analyze run",
        "ranks run",
        "replay run",
        "report run -o 2.html",
        "merge run -o out",
    ] {
        tool.shell(&format!("{LIMIT} $ETLINK {line}")).exits(0);
    }
    std::fs::create_dir(tool.path("run/closed")).expect("makes folder");
    std::fs::create_dir(tool.path("graphs/closed")).expect("makes folder");
    // root can read everything unless it drops that capability
    let setup = r#"chmod 0 run/closed graphs/closed
        limited() {
            if [ "$(id -u)" = 0 ]
            then setpriv --bounding-set=-dac_override,-dac_read_search -- "$@"
            else "$@"
            fi
        }"#;
    for (line, code) in [
        ("check graphs", 0),
        ("ranks run", 1),
        ("ranks run --json", 1),
        ("analyze run", 1),
        ("analyze run --csv", 1),
        ("replay run", 1),
        ("replay graphs", 1),
        ("findings run", 1),
        ("top run", 1),
        ("merge run -o left", 1),
        ("merge run -o part --shard 0/2", 1),
        ("diff {pairs}/tpdp4-2.15.0 run", 1),
        ("report run -o 2.html -f", 1),
        ("report {pairs}/tpdp4-2.15.0 run -o 3.html", 1),
        ("report run {pairs}/tpdp4-2.15.0 -o 4.html", 1),
    ] {
        let ran = tool.shell(&format!("{setup}\nlimited $ETLINK {line}"));
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.contains("/closed: Permission denied") && said.contains("left out"),
            "{}",
            ran.shown()
        );
        ran.exits(code);
    }
    assert!(tool.path("left/run.3.et").exists());
    // closed folders belong to no run
    let two_runs = "chmod 700 run/closed graphs/closed && mkdir all all/c && cp -r run all/a \
                    && rm -r all/a/closed && cp -r all/a all/b";
    tool.shell(two_runs).exits(0);
    let setup = setup.replace("run/closed graphs/closed", "all/c");
    for line in [
        "ranks all",
        "analyze all",
        "findings all",
        "replay all",
        "merge all -o both",
    ] {
        let ran = tool.shell(&format!("{setup}\nlimited $ETLINK {line}"));
        let ran = ran.exits(1);
        let note = "note: cannot read folder all/c: Permission denied";
        assert!(ran.stderr.contains(note), "{}", ran.shown());
    }
    // created by file systems
    tool.shell("mv all/c all/lost+found").exits(0);
    let setup = setup.replace("all/c", "all/lost+found");
    for line in ["ranks all", "merge all -o both -f"] {
        let ran = tool.shell(&format!("{setup}\nlimited $ETLINK {line}"));
        let ran = ran.exits(0);
        assert!(!ran.stderr.contains("lost+found"), "{}", ran.shown());
    }
    tool.shell("chmod 700 all/lost+found").exits(0);
}

#[test]
fn a_file_that_grows_too_large() {
    let (tool, _) = with_trace();
    tool.file("out.et", "precious");
    // blocks of 512 bytes; beyond them the system sends SIGXFSZ
    tool.shell("ulimit -f 8; $ETLINK link --device device.json -o out.et --overwrite")
        .exits(2)
        .complains(&["cannot write out.et", "File too large"]);
    assert_eq!(tool.read("out.et"), b"precious");
    assert_eq!(tool.names(), ["device.json", "out.et"]);
}

/// An unpacked archive of traces may contain such links: whatever is there, nothing outside is
/// touched.
#[test]
fn links_in_place_of_work_folders_lead_nowhere() {
    const MERGE: &str = "merge {pairs}/mlp-2.15.0 -o out";
    for name in [".etlink-write.set", ".etlink-write.other"] {
        let tool = Tool::new();
        tool.file("victim/precious", "here");
        tool.file("victim/lock", "here");
        tool.file("out/before", "");
        symlink("../victim", tool.path(&format!("out/{name}"))).expect("links");
        let before = tool.files("victim");
        let ran = tool.run(MERGE);
        assert!(tool.files("victim") == before, "{}", ran.shown());
        if name.ends_with(".set") {
            ran.exits(2).complains(&[name, "is a link", "remove it"]);
        } else {
            ran.exits(0);
        }
    }
    // the locked file
    let tool = Tool::new();
    tool.file("precious", "here");
    tool.file("out/.etlink-write.set/before", "");
    symlink("../../precious", tool.path("out/.etlink-write.set/lock")).expect("links");
    tool.run(MERGE)
        .exits(2)
        .complains(&["lock is a link", "remove it"]);
    assert_eq!(tool.read("precious"), b"here");
}

#[test]
fn a_url_without_a_bucket_is_no_folder_of_this_machine() {
    let tool = Tool::new();
    for url in ["s3://", "s3:///", "gs://"] {
        tool.run(&format!("merge {{pairs}}/mlp-2.15.0 -o {url}"))
            .exits(2)
            .complains(&[url, "bucket"]);
    }
    assert!(tool.names().is_empty(), "{:?}", tool.names());
}
