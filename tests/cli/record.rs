//! `etlink record` without PyTorch: the program runs unchanged, and missing data is reported. With
//! PyTorch: `cargo dev test-torch`.

use crate::tool::{Tool, pairs};
use std::io::Read;
use std::process::{Command, Stdio};

const SCHEDULE: &str = "--wait 2 --warmup 1 --active 2";

fn manifest(tool: &Tool) -> serde_json::Value {
    serde_json::from_slice(&tool.read("traces/etlink.json")).expect("json")
}

#[test]
fn exit_code_and_streams_are_the_programs() {
    let tool = Tool::new();
    tool.file(
        "seven.sh",
        "read line; echo \"out $line $1\"; echo err >&2; exit 7\n",
    );
    let ran = tool
        .run_with(
            &format!("record {SCHEDULE} -o traces -- sh seven.sh --json"),
            b"in\n",
        )
        .exits(7);
    assert_eq!(ran.stdout, "out in --json\n");
    assert!(
        ran.stderr
            .starts_with("err\netlink: note: nothing was recorded: the program started no Python"),
        "{}",
        ran.stderr
    );
    let manifest = manifest(&tool);
    assert_eq!(
        (
            &manifest["ended"]["exit_code"],
            &manifest["command"][1],
            &manifest["schedule"]["repeat"]
        ),
        (&7.into(), &"seven.sh".into(), &1.into())
    );
    let left: Vec<_> = std::fs::read_dir(tool.path("traces"))
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    assert_eq!(left, ["etlink.json"]);
}

#[test]
fn a_program_that_records_nothing_is_found_out() {
    let tool = Tool::new();
    tool.file("plain.py", "print('plain')\n");
    let ran = tool
        .run(&format!("record {SCHEDULE} -o traces -- python3 plain.py"))
        .exits(1)
        .complains(&["nothing was recorded", "did not import torch"]);
    assert_eq!(ran.stdout, "plain\n");
    tool.run(&format!(
        "record {SCHEDULE} -o traces --overwrite -- python3 -E plain.py"
    ))
    .exits(1)
    .complains(&["runs with -I, -E or -S"]);
}

#[test]
fn the_sitecustomize_of_others_still_runs() {
    let tool = Tool::new();
    tool.file(
        "mine/sitecustomize.py",
        "import sys\nprint('mine', sys.modules['sitecustomize'].__name__)\n",
    );
    let line = format!(
        "PYTHONPATH=mine $ETLINK record {SCHEDULE} -o traces -- python3 -c 'import sitecustomize; \
            print(sitecustomize.__file__)'"
    );
    let ran = tool.shell(&line).exits(1);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "mine sitecustomize");
    assert!(
        lines[1].ends_with("mine/sitecustomize.py"),
        "{}",
        ran.stdout
    );
}

#[test]
fn what_cannot_be_run_is_named_and_leaves_nothing() {
    let tool = Tool::new();
    tool.file("file", "");
    tool.run(&format!("record {SCHEDULE} -o traces -- no-such-program x"))
        .exits(2)
        .complains(&["cannot start `no-such-program`", "check the spelling"]);
    tool.run(&format!("record {SCHEDULE} -o file -- true"))
        .exits(2)
        .complains(&["cannot create folder file"]);
    tool.run("record --wait 1 --warmup 1 --active 0 -o other -- true")
        .exits(2)
        .complains(&["active is 0, needs to be at least 1"]);
    for (option, words) in [
        ("--ranks 3-1", "`3-1` is neither a rank nor a range"),
        (
            "--step-on batch",
            "a step is `optimizer`, `forward`, `forward:CLASS`, `annotation:NAME`, or a function such as",
        ),
    ] {
        let ran = tool
            .run(&format!("record {SCHEDULE} {option} -o other -- true"))
            .exits(2);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    for (phase, words) in [
        (
            "validation:active=1",
            "there is no phase validation; the phases are train, validate, test, predict",
        ),
        ("train", "such as validate:wait=1,active=2"),
        ("train:wait=1", "active is 0, needs to be at least 1"),
        ("train:active", "active has no number"),
        ("train:active=two", "active is two, which is not a whole"),
        ("train:steps=2", "no argument steps"),
    ] {
        let ran = tool
            .run(&format!("record --phase {phase} -o other -- true"))
            .exits(2);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    let both = format!("record {SCHEDULE} --phase train:active=1 -o other -- true");
    let ran = tool.run(&both).exits(2);
    assert!(ran.stderr.contains("cannot be used with"), "{}", ran.stderr);
    assert_eq!(tool.names(), ["file"]);
    // folders that existed before, or that contain other files, stay
    tool.file("there/mine", "");
    for output in ["new/a/b", "there/a/b", "there"] {
        let line =
            format!("record {SCHEDULE} -o {output} --tensorboard board/x -- no-such-program");
        tool.run(&line).exits(2);
        assert_eq!(tool.names(), ["file", "there"]);
        assert_eq!(names(&tool, "there"), ["mine"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_without_room_changes_nothing() {
    for (program, code) in [("exit 0", 1), ("exit 7", 7)] {
        let tool = Tool::new();
        let line = format!("$ETLINK record {SCHEDULE} -o traces -- sh -c '{program}' 2>/dev/full");
        tool.shell(&line).exits(code);
        assert_eq!(names(&tool, "traces"), ["etlink.json"]);
    }
    // the reader has gone
    let tool = Tool::new();
    let line =
        format!("$ETLINK record {SCHEDULE} -o traces -- sh -c 'exit 7' 2>&1 | true; sleep 0");
    tool.shell(&line).exits(0);
    assert_eq!(manifest(&tool)["ended"]["exit_code"], 7);
    // other commands end with 2, as if the reason could be printed
    tool.shell("$ETLINK link no-such-trace.json 2>/dev/full")
        .exits(2);
    // and so do reports that leave standard output to the trace
    let pair = pairs().join("conv-2.15.0");
    let [host, device] = ["torch_et_0", "kineto_trace_0"]
        .map(|name| pair.join(format!("{name}.json.gz")).display().to_string());
    for line in [
        format!(
            "$ETLINK link --host {host} --device {device} -o - --format chakra 2>/dev/full >rank.et"
        ),
        format!("$ETLINK replay --host {host} {device} -o - 2>/dev/full >replayed.json"),
    ] {
        tool.shell(&line).exits(0);
    }
    // and invalid command lines, also those with control characters that are removed
    tool.shell("$ETLINK \"$(printf 'li\\033nk')\" 2>/dev/full")
        .exits(2);
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_command_was_started_to_ignore_the_program_ignores() {
    let tool = Tool::new();
    let show = "grep SigIgn /proc/self/status";
    let line =
        format!("trap '' HUP INT QUIT USR1; {show}; $ETLINK record {SCHEDULE} -o traces -- {show}");
    let ran = tool.shell(&line).exits(1);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(
        matches!(&lines[..], [plain, own] if plain == own),
        "{lines:?}"
    );
}

#[cfg(unix)]
#[test]
fn a_program_that_ended_before_it_imported_torch_is_told_so() {
    let tool = Tool::new();
    tool.file("fails.py", "import sys\nsys.exit(3)\n");
    tool.file(
        "dies.py",
        "import os, signal\nsignal.signal(1, signal.SIG_DFL)\nos.kill(os.getpid(), 1)\n",
    );
    tool.file("torch.py", "raise OSError('libgomp.so.1 is missing')\n");
    tool.file("imports.py", "import torch\n");
    for (script, code, words) in [
        (
            "fails.py",
            3,
            "ended with exit code 3 before it imported torch",
        ),
        (
            "dies.py",
            129,
            "SIGHUP ended the program before it imported torch",
        ),
        (
            "imports.py",
            1,
            "cannot import torch: OSError: libgomp.so.1 is missing",
        ),
    ] {
        let line = format!("record {SCHEDULE} -o traces --overwrite -- python3 {script}");
        let ran = tool.run(&line).exits(code);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_whose_name_is_no_text_is_named() {
    let tool = Tool::new();
    let line = format!("$ETLINK record {SCHEDULE} -o \"$(printf 'a\\377')\" -- true");
    let ran = tool.shell(&line).exits(2);
    assert!(
        ran.stderr.contains("the path of the folder is not UTF-8"),
        "{}",
        ran.stderr
    );
    assert!(tool.names().is_empty());
}

#[test]
fn a_list_that_no_recorder_wrote_is_not_replaced() {
    let tool = Tool::new();
    tool.file("traces/etlink.json", "{\"mine\": 1}");
    tool.file("traces/torch_et_0.json", "mine");
    tool.run(&format!("record {SCHEDULE} -o traces --overwrite -- true"))
        .exits(2)
        .complains(&["etlink.json", "etlink did not write it", "move it away"]);
    assert_eq!(tool.read("traces/etlink.json"), b"{\"mine\": 1}");
    assert_eq!(names(&tool, "traces"), ["etlink.json", "torch_et_0.json"]);
}

#[test]
fn an_earlier_recording_is_replaced_only_by_force() {
    let tool = Tool::new();
    let old = [
        "traces/torch_et_3.json.gz",
        "traces/cycle_1/kineto_trace_3.json",
    ]
    .map(|name| tool.file(name, "old"));
    let other = tool.file("traces/torch_et_notes.json", "mine");
    let line = format!("record {SCHEDULE} -o traces -- true");
    tool.run(&line)
        .exits(2)
        .complains(&["kineto_trace_3.json already exists", "--overwrite"]);
    assert!(old.iter().all(|file| file.exists()));
    tool.run(&line.replace("-- true", "--overwrite -- no-such-program"))
        .exits(2)
        .complains(&["no-such-program"]);
    assert!(old.iter().all(|file| file.exists()));
    // a program that records nothing, such as a mistyped script name
    let ran = tool.run(&line.replace(" -o", " --overwrite -o")).exits(1);
    assert!(
        ran.stderr.contains("the earlier recording in"),
        "{}",
        ran.stderr
    );
    assert!(old.iter().all(|file| file.exists()) && other.exists());
    assert_eq!(
        names(&tool, "traces"),
        ["cycle_1", "torch_et_3.json.gz", "torch_et_notes.json"]
    );
}

/// Program that acts like the hook when the first trace is complete: old files are moved aside, new
/// ones appear.
const RECORDS: &str = r#"
import json, os
settings = json.loads(os.environ["ETLINK_RECORD"])
work, output = settings["work"], settings["output"]
old = os.path.join(work, "old.json")
for index, name in enumerate(json.load(open(old)) if os.path.exists(old) else []):
    os.rename(os.path.join(output, name), os.path.join(work, "%d.old" % index))
for kind in ("torch_et", "kineto_trace"):
    open(os.path.join(output, kind + "_0.json"), "w").write("new")
"#;

#[cfg(unix)]
#[test]
fn what_a_killed_launcher_leaves_is_restored_or_cleaned() {
    for has_new in [false, true] {
        let tool = Tool::new();
        tool.file("traces/torch_et_3.json", "old");
        tool.file("traces/etlink.json", "{\"ranks\": []}");
        let script = if has_new {
            RECORDS
        } else {
            // dies between the first file it moves and the first it writes
            RECORDS.split("for kind").next().expect("a first part")
        };
        let kill = "os.kill(os.getppid(), 9)\n";
        tool.file("records.py", format!("{script}\n{kill}"));
        let line = format!("record {SCHEDULE} --overwrite -o traces -- python3 records.py");
        assert_eq!(tool.run(&line).code, -1);
        assert!(tool.path("traces/.etlink/0.old").exists());
        tool.run(&format!("record {SCHEDULE} -o traces -- true"))
            .exits(2)
            .complains(&["already exists"]);
        let expected: &[&str] = if has_new {
            &["kineto_trace_0.json", "torch_et_0.json"]
        } else {
            &["etlink.json", "torch_et_3.json"]
        };
        assert_eq!(names(&tool, "traces"), expected);
    }
}

/// State left by a launcher that is killed after moving three files aside.
fn moved_aside() -> Tool {
    let tool = Tool::new();
    let list = r#"["cycle_1/kineto_trace_0.json","kineto_trace_0.json","torch_et_0.json"]"#;
    tool.file("traces/.etlink/old.json", list);
    tool.file("traces/.etlink/old.moved", "");
    for index in 0..3 {
        tool.file(&format!("traces/.etlink/{index}.old"), "old");
    }
    tool
}

#[test]
fn files_moved_aside_are_put_back_or_kept() {
    let line = format!("record {SCHEDULE} -o traces -- true");
    // the user has removed the folder of a cycle
    let tool = moved_aside();
    tool.run(&line).exits(2).complains(&["already exists"]);
    let expected = ["cycle_1", "kineto_trace_0.json", "torch_et_0.json"];
    assert_eq!(names(&tool, "traces"), expected);
    assert_eq!(names(&tool, "traces/cycle_1"), ["kineto_trace_0.json"]);
    // one file cannot be restored: the others are, and it is kept
    let tool = moved_aside();
    tool.file("traces/cycle_1", "a file");
    for _ in 0..2 {
        tool.run(&line).exits(2).complains(&[
            "cannot restore or remove",
            "which was cycle_1/kineto_trace_0.json",
        ]);
        assert_eq!(tool.read("traces/.etlink/0.old"), b"old");
        assert_eq!(tool.read("traces/torch_et_0.json"), b"old");
    }
    // the list is unreadable, or its contents are
    for is_damaged in [false, true] {
        let tool = moved_aside();
        std::fs::remove_file(tool.path("traces/.etlink/old.json")).expect("removes");
        let reason = if is_damaged {
            tool.file("traces/.etlink/old.json", "[\"cycle_1");
            "old.json is damaged"
        } else {
            std::fs::create_dir(tool.path("traces/.etlink/old.json")).expect("makes folder");
            "old.json"
        };
        tool.run(&line).exits(2).complains(&[reason]);
        for index in 0..3 {
            assert_eq!(tool.read(&format!("traces/.etlink/{index}.old")), b"old");
        }
    }
}

#[cfg(unix)]
#[test]
fn one_recording_at_a_time_and_the_lock_dies_with_its_process() {
    let tool = Tool::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_etlink"));
    command
        .args(format!("record {SCHEDULE} -o traces -- cat").split(' '))
        .current_dir(tool.path("."));
    // the program outlives its launcher, until the test closes its input
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut first = command.stderr(Stdio::null()).spawn().expect("starts");
    let reads = first.stdin.take();
    while !tool.path("traces/.etlink/job").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let line = format!("record {SCHEDULE} -o traces -- true");
    tool.run(&line).exits(2).complains(&[
        "another recording is being written to",
        "choose another folder",
    ]);
    first.kill().expect("kills");
    first.wait().expect("ends");
    tool.run(&line)
        .exits(1)
        .complains(&["nothing was recorded"]);
    drop(reads);
}

#[cfg(unix)]
#[test]
fn tasks_of_one_job_share_a_folder_and_a_manifest() {
    let tool = Tool::new();
    let task = |number: u32, more: &str| {
        let job = "SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2";
        tool.shell(&format!(
            "{job} SLURM_PROCID={number} $ETLINK record {SCHEDULE} {more} -o traces -- sh -c \
                'exit {number}'"
        ))
    };
    task(0, "").exits(1);
    task(1, "--overwrite").exits(1);
    let shared = manifest(&tool);
    assert_eq!(
        (&shared["job"], &shared["ended"]["exit_code"]),
        (&"slurm 4711.0".into(), &1.into())
    );
    let tasks: Vec<_> = shared["tasks"].as_array().expect("tasks").iter().collect();
    assert_eq!(tasks.len(), 2);
    let notes = shared["notes"].to_string();
    assert!(notes.contains("task 0: nothing was recorded"), "{notes}");
    let again = task(1, "").exits(2);
    assert!(
        again
            .stderr
            .contains("task 1 of this job has already recorded"),
        "{}",
        again.stderr
    );
    // another job is another recording
    tool.run(&format!("record {SCHEDULE} -o traces -- true"))
        .exits(2)
        .complains(&["etlink.json already exists"]);
}

#[cfg(unix)]
#[test]
fn nodes_of_torchrun_share_a_folder_and_wait_for_each_other() {
    // like torchrun: no node continues before all have arrived
    let meets = "echo >> $1.met; n=0; while [ $(wc -l < $1.met) -lt 2 ]; do sleep 0.1; \
                 n=$((n + 1)); [ $n -gt 600 ] && exit 9; done; exit 0\n";
    let named = ["--node-rank 0 --rdzv-id=7", "--node-rank=1 --rdzv_id 7"];
    for (nodes, job) in [
        (named, "torchrun 7"),
        (["--rdzv-endpoint n0:29400"; 2], "torchrun none n0:29400"),
    ] {
        let tool = Tool::new();
        tool.file("torchrun", format!("shift $(($# - 1)); {meets}"));
        let run = |options: &str, place: &str| {
            let [one, other] = nodes.map(|node| {
                format!(
                    "$ETLINK record {SCHEDULE} {options} -o traces -- sh torchrun --nnodes 2 {node} \
                     train.py {place}"
                )
            });
            tool.shell(&format!("{one} & {other}; a=$?; wait $!; echo $a $?"))
        };
        let ran = run("", "first");
        // nothing was recorded, since there is no Python
        assert_eq!(ran.stdout, "1 1\n", "{}", ran.stderr);
        let shared = manifest(&tool);
        assert_eq!(shared["job"], job);
        let tasks = shared["tasks"].as_array().expect("tasks");
        let numbers: Vec<_> = tasks.iter().map(|task| task["task"].as_u64()).collect();
        assert_eq!(numbers, [Some(0), Some(1)]);
        // the same command again: neither node is started, or both are
        let again = run("", "second");
        assert_eq!(again.stdout, "2 2\n", "{}", again.stderr);
        assert!(
            again.stderr.contains("has already recorded into"),
            "{}",
            again.stderr
        );
        let replaced = run("--overwrite", "third");
        assert_eq!(replaced.stdout, "1 1\n", "{}", replaced.stderr);
    }
}

#[test]
fn a_script_that_sets_the_path_anew_keeps_the_hook() {
    let tool = Tool::new();
    tool.file(
        "mine/plain.py",
        "import os, sys\nprint(sys.argv[1:], os.environ['PYTHONPATH'].split(':')[1:])\n",
    );
    tool.file("run.sh", "PYTHONPATH=mine python3 -m plain 'a b' \"$1\"\n");
    let ran = tool
        .run(&format!("record {SCHEDULE} -o traces -- sh run.sh c"))
        .exits(1);
    // it reached Python, which lacks torch
    assert!(
        ran.stderr.contains("the program did not import torch"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stdout, "['a b', 'c'] ['mine']\n");
}

#[test]
fn a_script_that_takes_the_hook_away_is_named() {
    let tool = Tool::new();
    tool.file("plain.py", "");
    // by its full path, so that the first match on PATH is not used
    tool.file(
        "run.sh",
        "# starts it\nPYTHONPATH= $(PATH=$1 command -v python3) plain.py\n",
    );
    let ran = tool
        .shell(&format!(
            "$ETLINK record {SCHEDULE} -o traces -- sh run.sh \"$PATH\""
        ))
        .exits(1);
    assert!(
        ran.stderr.contains("run.sh:2 overwrites PYTHONPATH"),
        "{}",
        ran.stderr
    );
}

/// Returns the names in a folder, sorted.
fn names(tool: &Tool, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(tool.path(folder)).expect("folder");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

#[cfg(unix)]
#[test]
fn signals_pass_to_the_program_and_back() {
    let tool = Tool::new();
    tool.file("dies.sh", "kill -KILL $$\n");
    tool.run(&format!("record {SCHEDULE} -o killed -- sh dies.sh"))
        .exits(128 + 9);
    tool.file(
        "waits.sh",
        "trap 'echo told; exit 9' TERM\necho ready\nwhile :; do sleep 0.05; done\n",
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_etlink"));
    command
        .args(format!("record {SCHEDULE} -o traces -- sh waits.sh").split(' '))
        .current_dir(tool.path("."));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut stdout = child.stdout.take().expect("piped");
    let mut ready = [0; 6];
    stdout.read_exact(&mut ready).expect("says ready");
    Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .expect("sends");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("reads");
    assert_eq!(
        (rest.as_str(), child.wait().expect("ends").code()),
        ("told\n", Some(9))
    );
    assert_eq!(manifest(&tool)["ended"]["exit_code"], 9);
}

/// Publishes a recorded pair like the hook, and kills the launcher when both traces have their
/// names.
const KILLS: &str = r#"
import gzip, json, os, sys
settings = json.loads(os.environ["ETLINK_RECORD"])
sys.path.insert(0, settings["hook"])
from _etlink_hook import files
key = os.path.join(settings["work"], "{}.{}".format(settings["launcher"], os.getpid()))
pairs = []
for kind in ("torch_et", "kineto_trace"):
    packed = os.path.join(sys.argv[1], "conv-2.15.0", kind + "_0.json.gz")
    with open(key + "." + kind, "wb") as file:
        file.write(gzip.open(packed).read())
    pairs.append((key + "." + kind, kind + "_0.json"))
files.publish(settings, pairs, [])
cycle = {"whole": True, "first_step": 3, "last_step": 4, "host_trace": pairs[0][1], "device_trace": pairs[1][1]}
report = {"pid": os.getpid(), "launcher": settings["launcher"], "rank": 0, "cycles": [cycle], "notes": ["odd"]}
files.write_whole(key + ".json", json.dumps(report))
files.write_whole(key + ".steps", "5")
os.kill(os.getppid(), 9)
"#;

#[test]
fn a_recording_whose_launcher_was_killed_is_used_and_listed() {
    let tool = Tool::new();
    tool.file("kills.py", KILLS);
    let line = format!(
        "$ETLINK record {SCHEDULE} -o traces -- python3 kills.py {}",
        pairs().display()
    );
    tool.shell(&line);
    assert!(!tool.path("traces/etlink.json").exists());
    let why = "traces has no etlink.json: `etlink record` was killed before it wrote the manifest";
    tool.run("ranks traces").exits(0).notes(why);
    tool.run("merge traces -o merged")
        .exits(0)
        .notes("`etlink record --recover -o traces` writes a manifest");
    tool.run("record --recover -o traces")
        .exits(0)
        .notes("etlink.json from the files of an earlier launcher");
    let again = "etlink.json exists: nothing to recover";
    tool.run("record --recover -o traces").exits(0).notes(again);
    tool.run("record --recover -o nothing")
        .exits(2)
        .complains(&["nothing has no unfinished recording"]);
    assert!(!tool.path("nothing").exists());
    tool.run("record --recover -o traces -- true").exits(2);
    let manifest = manifest(&tool);
    let rank = &manifest["ranks"][0];
    assert_eq!(
        (
            &rank["steps"],
            &rank["cycles"][0]["first_step"],
            &manifest["schedule"]["wait"]
        ),
        (&5.into(), &3.into(), &2.into())
    );
    assert_eq!(manifest["command"][1], "kills.py");
    assert!(manifest["ended"].is_null());
    let notes = manifest["notes"].as_array().expect("notes");
    assert!(
        notes[0]
            .as_str()
            .is_some_and(|note| note.starts_with("`etlink record` was killed"))
    );
    assert_eq!(notes[1..], ["rank 0: odd"]);
    assert!(!tool.path("traces/.etlink").exists());
    let again = tool.run("ranks traces").exits(0);
    assert!(!again.stderr.contains("was killed"), "{}", again.stderr);
}

#[test]
fn traces_that_are_being_recorded_are_not_said_to_be_left() {
    let tool = Tool::new();
    tool.file(
        "reads.py",
        KILLS.replace(
            "os.kill(os.getppid(), 9)",
            "os.system('$ETLINK ranks traces >&2')",
        ),
    );
    let line = format!(
        "$ETLINK record {SCHEDULE} -o traces -- python3 reads.py {}",
        pairs().display()
    );
    let ran = tool.shell(&line);
    assert!(
        ran.stderr
            .contains("traces is still being recorded: results cover the files so far"),
        "{}",
        ran.stderr
    );
    assert!(tool.path("traces/etlink.json").exists());
    assert!(!tool.path("traces/.etlink").exists());
}

/// Returns the distinct permissions of all files below a folder.
#[cfg(unix)]
fn modes(tool: &Tool, folder: &str) -> std::collections::BTreeSet<String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = |name: &String| {
        let path = tool.path(folder).join(name);
        let metadata = path.metadata().expect("a file");
        format!("{:o}", metadata.permissions().mode() & 0o777)
    };
    tool.files(folder).keys().map(mode).collect()
}

#[cfg(unix)]
#[test]
fn files_have_the_permissions_that_umask_leaves() {
    let tool = Tool::new();
    for (mask, mode) in [("077", "600"), ("022", "644"), ("002", "664")] {
        let lines = [
            format!("record {SCHEDULE} -o {mask}/record -- true"),
            format!("merge {{pairs}}/mlp-2.15.0 -o {mask}/merge"),
            format!("merge {{pairs}}/ddp2-2.15.0 --for astra-sim -o {mask}/astra"),
            format!("analyze {{pairs}}/mlp-2.15.0 --parquet {mask}/parquet"),
            format!("report {{pairs}}/mlp-2.15.0 -o {mask}/report.html"),
            format!("convert {mask}/merge/mlp-2.15.0.0.et {mask}/graph.json"),
        ];
        for line in lines {
            let code = i32::from(line.starts_with("record"));
            tool.shell(&format!("umask {mask}; $ETLINK {line}"))
                .exits(code);
        }
        assert!(tool.files(mask).len() > 7);
        assert_eq!(Vec::from_iter(modes(&tool, mask)), [mode]);
    }
}

#[test]
fn the_manifest_has_no_secrets_of_the_command_line() {
    let tool = Tool::new();
    tool.shell(&format!(
        "$ETLINK record {SCHEDULE} -o traces -- sh -c 'HF_TOKEN=hunter2 true' --lr 1 --api-key hunter2 \
         --password=hunter2 s3://hunter2:hunter2@host/x"
    ))
    .exits(1);
    let text = String::from_utf8(tool.read("traces/etlink.json")).expect("text");
    assert!(!text.contains("hunter2"), "{text}");
    let masked = [
        "sh",
        "-c",
        "HF_TOKEN=*** true",
        "--lr",
        "1",
        "--api-key",
        "***",
        "--password=***",
        "s3://***@host/x",
    ];
    assert_eq!(manifest(&tool)["command"], serde_json::json!(masked));
}

/// Publishes two traces like the hook, for a cycle whose waits could not be written.
const LOSES_WAITS: &str = r#"
import json, os
settings = json.loads(os.environ["ETLINK_RECORD"])
for kind in ("torch_et", "kineto_trace"):
    open(os.path.join(settings["output"], kind + "_0.json"), "w").write("{}")
cycle = {"whole": True, "host_trace": "torch_et_0.json", "device_trace": "kineto_trace_0.json", "lost": ["thread_waits"]}
report = {"pid": os.getpid(), "launcher": settings["launcher"], "rank": 0, "cycles": [cycle], "notes": ["why"]}
key = os.path.join(settings["work"], "{}.{}".format(settings["launcher"], os.getpid()))
open(key + ".json", "w").write(json.dumps(report))
open(key + ".steps", "w").write("8")
"#;

#[test]
fn waits_that_could_not_be_written_are_missing() {
    let tool = Tool::new();
    let whole = LOSES_WAITS.replace("\"thread_waits\"", "");
    for (script, code) in [(LOSES_WAITS, 1), (&whole, 0)] {
        tool.file("loses.py", script);
        tool.run(&format!(
            "record {SCHEDULE} --overwrite -o traces -- python3 loses.py"
        ))
        .exits(code);
        let lost = manifest(&tool)["ranks"][0]["cycles"][0]["lost"].clone();
        assert_eq!(lost.is_null(), code == 0);
    }
}
