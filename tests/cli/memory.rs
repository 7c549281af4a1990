//! `--memory`: larger jobs are refused before work starts; jobs that fit give the same results.

use crate::tool::{Tool, gzip, unpacked};
use etlink_testing::TraceBuilder;

const PAIR: &str = "--host {pairs}/tpdp4-2.15.0/torch_et_0.json.gz \
    --device {pairs}/tpdp4-2.15.0/kineto_trace_0.json.gz";

#[test]
fn sizes_are_numbers_with_units() {
    let tool = Tool::new();
    for size in ["lots", "12parsecs", "G", "1,5G", "--json"] {
        let ran = tool.run(&format!("link {PAIR} --memory {size}")).exits(2);
        assert!(ran.stderr.contains("--memory"), "{size}: {}", ran.stderr);
    }
    let ran = tool.run("merge {pairs} -o out --memory 5X").exits(2);
    assert!(
        ran.stderr.contains("'5X'") && ran.stderr.contains("such as 16G"),
        "{}",
        ran.stderr
    );
    for (size, meant) in [("20", "did you mean 20M or 20G?"), ("20k", "18.0 MB")] {
        let ran = tool.run(&format!("link {PAIR} --memory {size}")).exits(2);
        for part in ["18.0 MB before", meant] {
            assert!(ran.stderr.contains(part), "{size}: {}", ran.stderr);
        }
    }
    for size in ["2000000000", "1.5G", "500M", "2GiB", "2Gi", "0.5tb"] {
        tool.run(&format!("link {PAIR} --memory {size}")).exits(0);
    }
}

#[test]
fn what_does_not_fit_is_refused_before_work_starts() {
    let tool = Tool::new();
    let words = [
        "torch_et_0.json.gz and ",
        "kineto_trace_0.json.gz",
        "uncompressed need about",
        "--memory allows 1.0 MB",
        "more with --memory",
        "fewer steps",
    ];
    tool.run(&format!("link {PAIR} -o out.et --memory 1M"))
        .exits(2)
        .complains(&words);
    // damaged traces are not even read
    tool.file(
        "run/kineto_trace_7.json",
        format!("{{\"traceEvents\": [{}", "x".repeat(3_000_000)),
    );
    tool.file(
        "run/torch_et_7.json",
        unpacked("mlp-2.15.0/torch_et_0.json.gz"),
    );
    tool.file(
        "run/kineto_trace_8.json",
        unpacked("mlp-2.15.0/kineto_trace_0.json.gz"),
    );
    let refused = tool
        .run("merge run -o out --memory 1M -j 1")
        .exits(2)
        .complains(&[
            "run/torch_et_7.json and run/kineto_trace_7.json",
            "3.4 MB uncompressed",
        ]);
    assert!(
        refused.stderr.contains("(1 more rank is also too large)"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        (refused.stdout.as_str(), tool.names()),
        ("", vec!["run".into()])
    );
}

#[test]
fn fewer_threads_are_a_remedy() {
    let tool = Tool::new();
    tool.run(&format!("link {PAIR} -j 64 --memory 100M"))
        .exits(2)
        .complains(&["use fewer threads (-j 1)"]);
    tool.run(&format!("link {PAIR} -j 1 --memory 100M"))
        .exits(0);
}

/// The size of standard input is only known as it is read.
#[test]
fn what_comes_from_standard_input_keeps_to_the_memory() {
    let tool = Tool::new();
    let device = unpacked("tpdp4-2.15.0/kineto_trace_0.json.gz");
    tool.run_with("link --device - --memory 40M", &device)
        .exits(0);
    tool.run_with("link --device - --memory 1M", &device)
        .exits(2)
        .complains(&["standard input: ", "uncompressed need about", "allow more"]);
    // beyond the limit it is not read to the end
    let ops = many_ops(200_000);
    tool.run_with("analyze - --memory 22M -j 1", &ops)
        .exits(2)
        .complains(&[
            "standard input: ",
            "uncompressed, with more to come, need about",
        ]);
    for command in ["top", "inspect"] {
        tool.run_with(&format!("{command} - --memory 18M -j 1"), &ops)
            .exits(2)
            .complains(&[
                "standard input: the data read so far needs about",
                "allow more",
            ]);
    }
}

/// Generates `ops` short ops in sequence.
fn many_ops(ops: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for op in 0..ops {
        draw.op(main, "aten::add", op * 10_000, op * 10_000 + 4_000);
    }
    draw.kineto()
}

/// The memory named in a refusal is enough. Only unusually short events are discovered by reading,
/// and then a second refusal names enough.
#[test]
fn what_a_refusal_names_is_enough() {
    let tool = Tool::new();
    tool.file("short/kineto_trace_0.json", many_ops(30_000));
    let commands = ["analyze", "replay", "top", "findings"];
    let runs = [
        ("{pairs}/transformer-2.15.0", 1, &commands[..]),
        // for a folder, findings also keep a graph per rank, which is reported separately
        ("short", 2, &commands[..3]),
        ("short/kineto_trace_0.json", 2, &commands[..3]),
    ];
    for (source, refusals, commands) in runs {
        for command in commands {
            for threads in ["-j 1", "-j 4"] {
                let mut memory = "19M".to_owned();
                for refusal in 0..refusals {
                    let ran = tool.run(&format!("{command} {source} {threads} --memory {memory}"));
                    if ran.code == 0 && refusal > 0 {
                        break;
                    }
                    memory = named_memory(&ran.exits(2).stderr);
                }
                tool.run(&format!("{command} {source} {threads} --memory {memory}"))
                    .exits(0);
            }
        }
    }
}

/// Returns a fifth more than the reported need of linking the largest rank: the report is based on
/// file sizes, and actual use is measured later.
fn small_budget(tool: &Tool, line: &str) -> String {
    let refused = tool.run(&format!("{line} --memory 1M")).exits(2).stderr;
    let named = named_memory(&refused);
    let megabytes: f64 = named.trim_end_matches("MB").parse().expect("a number");
    format!("{:.1}MB", 1.2 * megabytes)
}

/// Extracts the memory that a refusal names.
fn named_memory(refused: &str) -> String {
    let (_, takes) = refused.split_once("need about ").expect("an estimate");
    let (megabytes, _) = takes.split_once(" MB of memory").expect("megabytes");
    format!("{megabytes}MB")
}

#[test]
fn one_at_a_time_is_the_same_as_all_at_once() {
    let tool = Tool::new();
    let merge = |out: &str| format!("merge {{pairs}} -o {out} -j 4 --json");
    let small = small_budget(&tool, &merge("small"));
    let reports = [(small.as_str(), "small"), ("64G", "large")].map(|(memory, out)| {
        let mut report = tool
            .run(&format!("{} --memory {memory}", merge(out)))
            .exits(0)
            .json();
        for rank in report["ranks"].as_array_mut().expect("a list") {
            rank["seconds"].take();
            let output = rank["output"].take();
            let output = output
                .as_str()
                .and_then(|name| name.split_once('/'))
                .expect("a file")
                .1
                .to_owned();
            rank["bytes_written"] = tool.read(&format!("{out}/{output}")).into();
            rank["output"] = output.into();
        }
        report
    });
    assert!(reports[0] == reports[1]);
}

#[test]
fn packed_files_that_say_a_wrong_size() {
    let tool = Tool::new();
    let packed = gzip(&unpacked("tpdp4-2.15.0/kineto_trace_0.json.gz"));
    for size in [0, 1, u32::MAX] {
        let mut lies = packed.clone();
        let trailer = lies.len() - 4;
        lies[trailer..].copy_from_slice(&size.to_le_bytes());
        tool.file("lies.json.gz", lies);
        tool.run("link --device lies.json.gz --memory 100M")
            .exits(0)
            .says("the stream of the file is truncated or damaged");
        tool.run("link --device lies.json.gz --memory 1M")
            .exits(2)
            .complains(&["lies.json.gz", "uncompressed need about"]);
    }
    tool.file("stub.json.gz", &packed[..3]);
    tool.run("link --device stub.json.gz")
        .exits(2)
        .complains(&["stub.json.gz", "truncated or damaged"]);
}

#[test]
fn a_budget_below_what_the_program_takes_says_how_much_that_is() {
    let tool = Tool::new();
    tool.run(&format!("link {PAIR} -o x.et -j 1 --memory 3M"))
        .exits(2)
        .complains(&["and etlink itself needs about 18.0 MB"]);
    assert!(!tool.path("x.et").exists());
}

#[test]
fn graphs_of_all_ranks_have_to_fit() {
    let tool = Tool::new();
    // the same work on all ranks, each in its own process: little to link, much to keep
    let trace = String::from_utf8(unpacked("tpdp4-2.15.0/kineto_trace_0.json.gz")).expect("text");
    let (_, rest) = trace.split_once("\"pid\": ").expect("a process");
    let (process, _) = rest.split_once(',').expect("its number");
    for rank in 0..40 {
        let own = trace.replace(
            &format!("\"pid\": {process},"),
            &format!("\"pid\": {rank},"),
        );
        let name = format!("run/kineto_trace_{rank}.json.gz");
        tool.file(&name, gzip(own.as_bytes()));
    }
    tool.run("ranks run --memory 22M -j 1").exits(1);
    tool.run("replay run --memory 22M -j 1 --allow-mismatch")
        .exits(2)
        .complains(&[
            "run: the results of all 40 ranks",
            "--memory allows 22.0 MB",
            "allow more",
        ]);
    tool.run("replay run --memory 48M -j 1 --allow-mismatch")
        .exits(0);
    tool.run("merge run --allow-mismatch -o out").exits(0);
    tool.run("replay out --memory 22M -j 1")
        .exits(2)
        .complains(&[
            "out: the results of all 40 ranks",
            "--memory allows 22.0 MB",
        ]);
    // the graphs state a run of four ranks, like the traces
    tool.run("replay out --memory 48M -j 1 --allow-mismatch")
        .exits(0);
}

/// `ulimit -v`: too large jobs are refused beforehand, and failing allocations are reported.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_the_process_is_said() {
    let tool = Tool::new();
    let device = unpacked("transformer-2.15.0/kineto_trace_0.json.gz");
    tool.file("device.json", device);
    let (mut done, mut refused) = (0, 0);
    // kB; the program itself needs at least this much to load
    for limit in (40_000..=400_000).step_by(15_000) {
        let run = |line: &str| tool.shell(&format!("ulimit -v {limit}; exec $ETLINK {line}"));
        if run("--version").code != 0 {
            continue;
        }
        let ran = run("link --device device.json -o out.et --overwrite");
        match ran.code {
            0 => done += 1,
            2 => {
                let causes = [
                    "but the system has",
                    "memory allocation of",
                    "or raise the limits of memory",
                    "cannot listen for signals",
                ];
                let is_said = causes.iter().any(|words| ran.stderr.contains(words));
                assert!(is_said, "{}", ran.shown());
                refused += 1;
            }
            _ => panic!("{limit} kB: {}", ran.shown()),
        }
    }
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
    // the next run removes the leftovers of one that ran out of memory
    tool.run("link --device device.json -o out.et --overwrite")
        .exits(0);
    assert_eq!(tool.names(), ["device.json", "out.et"]);
}
