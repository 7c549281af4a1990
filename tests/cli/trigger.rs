//! `etlink trigger` without an armed job, and `etlink record --armed` with conflicting options.
//! Jobs of real PyTorch are in `cargo dev test-torch`.

use crate::tool::Tool;
use std::time::{Duration, Instant};

#[test]
fn what_is_no_job_is_named() {
    let tool = Tool::new();
    tool.file("plain/torch_et_0.json", "{}");
    for (job, words) in [
        ("nowhere", "nowhere is neither a folder nor a process id"),
        ("plain", "no running job records into plain"),
    ] {
        tool.run(&format!("trigger {job}"))
            .exits(2)
            .complains(&[words]);
    }
    // it waits for a folder only if it is told how long
    let ran = tool.run("trigger nowhere --timeout 0.1").exits(2);
    ran.notes("nowhere does not exist yet; waiting for the job")
        .complains(&["nowhere is neither a folder nor a process id"]);
    for (options, words) in [
        ("--steps 2 --for 3", "cannot be used with"),
        ("--for 0", "a time in seconds is a number above 0"),
    ] {
        let ran = tool.run(&format!("trigger plain {options}")).exits(2);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_is_not_recorded_is_told_from_none() {
    let tool = Tool::new();
    let own = std::process::id();
    tool.run(&format!("trigger {own}"))
        .exits(2)
        .complains(&["is not recorded by etlink"]);
    tool.run("trigger 4194999")
        .exits(2)
        .complains(&["process 4194999 does not exist on this machine"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_job_that_is_not_armed_is_told() {
    let tool = Tool::new();
    // the work folder exists while the program runs
    let ran = tool
        .shell("$ETLINK record --armed -o traces -- sh -c '$ETLINK trigger traces; echo code $?'")
        .exits(1)
        .says("code 2");
    let words = "the job in traces cannot record: none of its processes has imported PyTorch yet";
    assert!(ran.stderr.contains(words), "{}", ran.stderr);
}

#[test]
fn why_a_job_cannot_be_asked() {
    let tool = Tool::new();
    // reports of processes that have imported PyTorch
    for (report, why) in [
        (r#"{"pid": 7}"#, "it was started without --armed"),
        (
            r#"{"pid": 7, "asked": []}"#,
            "none of its processes has made a step yet; try again, or wait with --timeout. If it is already training, the function in --step-on is never called",
        ),
    ] {
        tool.file("traces/.etlink/host.7.json", report);
        tool.run("trigger traces").exits(2).complains(&[why]);
        // a job that is not armed is not waited for, another one is
        let begun = Instant::now();
        let ran = tool.run("trigger traces --timeout 1").exits(2);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
        let is_armed = report.contains("asked");
        let has_waited = begun.elapsed() >= Duration::from_secs(1);
        assert!(has_waited || !is_armed, "{:?}", begun.elapsed());
        let waits = "no process of the job has made a step yet; waiting for the first step";
        assert_eq!(ran.stderr.contains(waits), is_armed, "{}", ran.stderr);
    }
    tool.run("trigger traces --stop")
        .exits(2)
        .complains(&["no recording is in progress in traces"]);
    tool.file("traces/.etlink/trigger.json", r#"{"id": "a"}"#);
    tool.run("trigger traces --stop")
        .exits(2)
        .complains(&["the recording of a file has not started, requested "]);
}

#[test]
#[cfg(target_os = "linux")]
fn what_started_the_recording_is_not_the_job() {
    let tool = Tool::new();
    // the outer shell, `etlink record`, the inner shell, and one without an open file
    let inside = "for job in $OUTSIDE $PPID $$; do $ETLINK trigger $job; done; sh -c '$ETLINK trigger $$; true'";
    tool.file("inside.sh", inside);
    let outside = "export OUTSIDE=$$; $ETLINK record --armed -o traces -- sh inside.sh; exit $?";
    let ran = tool.shell(outside).exits(1);
    let said = |words: &str| ran.stderr.matches(words).count();
    assert_eq!(said("is not recorded by etlink"), 1, "{}", ran.stderr);
    assert_eq!(
        said("cannot record: none of its processes"),
        3,
        "{}",
        ran.stderr
    );
}

#[test]
#[cfg(unix)]
fn a_job_of_another_machine_is_asked_there() {
    use std::os::unix::fs::PermissionsExt;
    let tool = Tool::new();
    // like ssh: a shell on the other machine gets one line
    let ssh = "#!/bin/sh\n[ \"$1 $2\" = \"-- gpu7\" ] || exit 255\nmkdir -p there\ncd there\nPATH=$ASIDE:$PATH sh -c \"$3\"\n";
    tool.file("bin/ssh", ssh);
    // without etlink at first
    tool.file("there/a b/.etlink/host.7.json", r#"{"pid": 7}"#);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(tool.path("bin/ssh"), executable).expect("it is ours");
    let ask = |job: &str, aside: &str| {
        tool.shell(&format!(
            "mkdir -p aside && ln -sf $ETLINK aside/etlink && ASIDE=$PWD/{aside} PATH=$PWD/bin:/usr/bin:/bin $ETLINK trigger '{job}' --steps 2"
        ))
    };
    let ran = ask("gpu7:a b", "none").exits(2);
    // in addition to the shell's own message
    let words = "gpu7 has no etlink on the PATH";
    assert!(ran.stderr.contains(words), "{}", ran.stderr);
    ask("gpu7:a b", "aside")
        .exits(2)
        .complains(&["the job in a b cannot record: it was started without --armed"]);
    ask("gpu8:traces", "aside")
        .exits(2)
        .complains(&["ssh cannot reach gpu8"]);
}

#[test]
fn options_that_do_not_go_together() {
    let tool = Tool::new();
    for (options, words) in [
        (
            "--armed --wait 1 --warmup 1 --active 1",
            "cannot be used with",
        ),
        ("--armed --interleave", "cannot be used with"),
        ("--every 100", "--armed"),
        (
            "--armed --every 3",
            "--every is 3, but must exceed the 2 steps",
        ),
        ("--armed --when step_time", "use `step_time > 1.5 x median`"),
    ] {
        let ran = tool
            .run(&format!("record {options} -o traces -- true"))
            .exits(2);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    assert!(tool.names().is_empty(), "{:?}", tool.names());
}
