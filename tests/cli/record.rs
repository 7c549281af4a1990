//! `etlink record` without PyTorch: the program passes through, and what is missing is told. With PyTorch: `cargo dev test-torch`.

use crate::tool::Tool;
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
            .starts_with("err\netlink: note: nothing is recorded: the program started no Python"),
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
        .complains(&["nothing is recorded", "did not import torch"]);
    assert_eq!(ran.stdout, "plain\n");
    tool.run(&format!(
        "record {SCHEDULE} -o traces --force -- python3 -E plain.py"
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
        "PYTHONPATH=mine $ETLINK record {SCHEDULE} -o traces -- python3 -c 'import sitecustomize; print(sitecustomize.__file__)'"
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
        .complains(&["cannot start `no-such-program`", "spelled right"]);
    tool.run(&format!("record {SCHEDULE} -o file -- true"))
        .exits(2)
        .complains(&["cannot make folder file"]);
    tool.run("record --wait 1 --warmup 1 --active 0 -o other -- true")
        .exits(2)
        .complains(&["active is 0, needs to be at least 1"]);
    for (option, words) in [
        ("--ranks 3-1", "`3-1` is neither a rank nor a range"),
        (
            "--step-on batch",
            "a step is `optimizer`, `forward`, `forward:CLASS`, or a function such as",
        ),
    ] {
        let ran = tool
            .run(&format!("record {SCHEDULE} {option} -o other -- true"))
            .exits(2);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    assert_eq!(tool.names(), ["file", "traces"]);
    assert_eq!(
        std::fs::read_dir(tool.path("traces"))
            .expect("folder")
            .count(),
        0
    );
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
        .complains(&["kineto_trace_3.json is there already", "--force"]);
    assert!(old.iter().all(|file| file.exists()));
    tool.run(&line.replace("-- true", "--force -- no-such-program"))
        .exits(2)
        .complains(&["no-such-program"]);
    assert!(old.iter().all(|file| file.exists()));
    tool.run(&line.replace(" -o", " --force -o")).exits(1);
    assert!(!old.iter().any(|file| file.exists()) && other.exists());
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
