//! Recordings of one GPU (`testdata/gpu`), and the true step times in `truth.json`.

use crate::tool::{Tool, pairs};
use serde_json::Value;
use std::path::PathBuf;

/// Recordings whose device sets the pace, also while it is recorded.
const DEVICE_BOUND: [&str; 6] = [
    "compile-base",
    "contention-both",
    "contention-sequential",
    "gemm-base",
    "lm-large",
    "ops-sweep",
];

fn gpu() -> PathBuf {
    pairs().with_file_name("gpu")
}

fn sum(counts: &Value) -> u64 {
    let counts = counts.as_object().into_iter().flatten();
    counts.filter_map(|(_, count)| count.as_u64()).sum()
}

/// Returns what is known of the program whose field `key` is `value`.
fn truth(key: &str, value: &str) -> Value {
    let text = std::fs::read_to_string(gpu().join("truth.json")).expect("the true times");
    let truth: Value = serde_json::from_str(&text).expect("JSON");
    let runs = truth["runs"].as_array().expect("a list");
    let run = runs.iter().find(|run| run[key] == value);
    run.unwrap_or_else(|| panic!("{value} is unknown")).clone()
}

/// Returns the step time of a recorded program without a profiler, in ns.
fn true_step_ns(recording: &str) -> f64 {
    let step = truth("recording", recording)["back_to_back_step_ns"].as_f64();
    step.unwrap_or_else(|| panic!("{recording} has no true time"))
}

#[test]
fn all_gpu_recordings_link_completely_and_pass_the_check() {
    let tool = Tool::new();
    let line = format!("merge {} -o out --json", gpu().display());
    let document = tool.run(&line).exits(0).json();
    let ranks = document["ranks"].as_array().expect("ranks");
    assert_eq!(ranks.len(), 29);
    for rank in ranks {
        let (case, report) = (&rank["run"], &rank["report"]);
        if !rank["host"].is_null() {
            let ops = sum(&report["matched"]) + sum(&report["unmatched"]);
            assert_eq!(ops, report["cpu_ops"], "{case}");
        }
        // An exception ends the repeated forward pass of a checkpoint within three ops per layer.
        let left = if case == "checkpoint" { 24 } else { 0 };
        assert_eq!(sum(&report["unmatched"]), left, "{case}");
        // Only rows launched before the window have no launch.
        let before = report["no_launch"]["before_window"].as_u64().unwrap_or(0);
        assert_eq!(sum(&report["no_launch"]), before, "{case}");
        let launched = report["launched"].as_u64().expect("a count");
        assert_eq!(launched + before, report["device_rows"], "{case}");
        let harmless = |anomaly: &Value| anomaly["severity"] == "info";
        let anomalies = report["anomalies"].as_array().expect("a list");
        assert!(anomalies.iter().all(harmless), "{case}: {anomalies:?}");
        let told = report["diagnostics"].as_array().expect("a list");
        assert!(told.iter().all(|told| told["code"] != "two_runs"), "{case}");
        match case.as_str() {
            Some("graphs-changed") => assert_eq!(report["graph_rows"], launched),
            Some("nccl") => assert_eq!(report["nodes"]["collective"], 15),
            _ => {}
        }
    }
    for run in document["runs"].as_array().expect("runs") {
        for clock in run["clocks"].as_array().expect("clocks") {
            assert_eq!(clock["contradicted"], false, "{}", run["run"]);
        }
        if run["run"] == "recorder-gloo2" {
            assert_eq!(
                (&run["collectives"], &run["unmatched"]),
                (&16.into(), &0.into())
            );
        }
    }
    tool.run("check out").exits(0);
}

#[test]
fn collectives_of_nccl_have_the_bytes_of_all_gradients() {
    let line = format!("analyze {} --json", gpu().join("nccl").display());
    let document = Tool::new().run(&line).exits(0).json();
    let collectives = &document["runs"][0]["ranks"][0]["collectives"];
    assert_eq!(collectives.as_array().map(Vec::len), Some(1));
    assert_eq!(collectives[0]["kind"], "all_reduce");
    // Three steps of 41,977,856 parameters in float32.
    assert_eq!(collectives[0]["bytes"], 3 * 4 * 41_977_856);
    assert_eq!(collectives[0]["without_size"], 0);
}

#[test]
fn steps_of_device_bound_programs_take_as_long_as_without_a_profiler() {
    for case in DEVICE_BOUND {
        let tool = Tool::new();
        let folder = gpu().join(case).display().to_string();
        let analyzed = tool
            .run(&format!("analyze {folder} --json"))
            .exits(0)
            .json();
        let found = tool
            .run(&format!("findings {folder} --json"))
            .exits(0)
            .json();
        let used = &analyzed["runs"][0]["ranks"][0]["utilization"][0];
        let ns = |document: &Value, key: &str| document[key].as_f64().expect("a time");
        let lengths = [
            ns(used, "window_ns") - ns(used, "before_recording_ns"),
            ns(&found["runs"][0], "window_ns"),
        ];
        for length_ns in lengths {
            let error = length_ns / ns(used, "steps") / true_step_ns(case) - 1.0;
            assert!(error.abs() < 0.03, "{case}: {error}");
        }
    }
}

fn found_in(case: &str, options: &str) -> Value {
    let line = format!("findings {} --json {options}", gpu().join(case).display());
    Tool::new().run(&line).exits(0).json()["runs"][0].clone()
}

fn findings_of(case: &str, options: &str) -> Vec<Value> {
    let found = found_in(case, options);
    // The kernel that is named next to the findings counts as one.
    let mut findings: Vec<Value> = found["findings"].as_array().cloned().unwrap_or_default();
    findings.extend(found.get("kernel").cloned());
    findings
}

#[test]
fn fused_kernels_still_compute() {
    let findings = findings_of("compile-base", "");
    assert_eq!(findings[0]["kind"], "fusible_chain");
    let before = true_step_ns("compile-base");
    let gain = 3.0 * (before - true_step_ns("compile-changed"));
    let stated = findings[0]["gain_ns"].as_f64().expect("a gain");
    assert!(
        (stated / gain - 1.0).abs() < 0.1,
        "{stated} instead of {gain}"
    );
}

#[test]
fn a_kernel_that_nothing_waits_for_is_no_advice() {
    for finding in findings_of("resnet50", "") {
        assert!(finding["gain_share"].as_f64() > Some(0.0), "{finding}");
    }
}

#[test]
fn checkpoints_without_a_range_repeat_each_layer() {
    // As recorded, the slowed host hides the gain.
    let findings = findings_of("checkpoint", "--overhead 52.4ms");
    let repeated = findings.iter().find(|one| one["kind"] == "recomputation");
    // Eight layers; the device trace alone has the ops that the hook leaves early.
    assert_eq!(
        repeated.map(|one| one["figures"]["count"].clone()),
        Some(8.into())
    );
}

#[test]
fn a_step_of_small_kernels_is_launch_bound() {
    // Its CUDA graph takes a fifth of the time.
    assert_eq!(findings_of("graphs-base", "")[0]["kind"], "small_kernels");
}

#[test]
fn without_the_overhead_of_recording_steps_take_their_true_time() {
    let found = found_in("recorder-interleaved", "--overhead remove");
    // By the manifest, other steps took 29.35 ms and the two recorded ones 35.61 ms.
    let step_ns = found["window_ns"].as_f64().expect("a time") / 2.0;
    assert!((step_ns / 29_351_749.0 - 1.0).abs() < 0.02, "{step_ns}");
    let step_ns = true_step_ns("resnet50");
    let options = format!("--overhead {:.0}us", step_ns / 1e3);
    let kinds = |options: &str| {
        let findings = findings_of("resnet50", options).into_iter();
        findings.map(|one| one["kind"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("--overhead keep")[0], "small_kernels");
    // The devices set the pace of the program, and that of no other by default.
    for options in [&options, "--overhead remove", ""] {
        let kinds = kinds(options);
        assert!(
            !kinds.is_empty() && !kinds.contains(&"small_kernels".into()),
            "{kinds:?}"
        );
    }
}

#[test]
fn gains_of_a_host_that_recording_slowed_say_so() {
    let is_slowed = |finding: &Value| finding["figures"]["host_slowed"] == true;
    let recorded = findings_of("resnet50", "--overhead keep");
    assert!(recorded.iter().any(is_slowed), "{recorded:?}");
    let given = findings_of("resnet50", "");
    assert!(!given.is_empty() && !given.iter().any(is_slowed));
    // Ranks that wait for each other keep their recorded times.
    let findings = findings_of("recorder-gloo2", "");
    let host = findings.iter().filter(|one| one["kind"] == "host_work");
    assert!(host.clone().count() > 0 && host.clone().all(is_slowed));
}

#[test]
fn communication_of_the_host_counts_each_moment_once_and_gains_what_waits_for_it() {
    let found = found_in("recorder-gloo2", "");
    let first = &found["findings"][0];
    assert_eq!(first["kind"], "exposed_communication");
    let window_ns = found["window_ns"].as_f64().expect("a window");
    let figures = &first["figures"];
    let [exposed_ns, time_ns] =
        ["exposed_ns", "time_ns"].map(|name| figures[name].as_f64().expect("a time"));
    // The calls of a rank overlap.
    assert!(
        time_ns > 2.0 * window_ns && exposed_ns < 2.0 * window_ns,
        "{figures}"
    );
    // Copies to other streams wait for the host, not for work from before the recording.
    assert!(first["gain_share"].as_f64() > Some(0.45), "{first}");
}

/// Runs `replay` on a recording, with `options`.
fn replayed(recording: &str, options: &str) -> Value {
    let line = format!(
        "replay {} --json {options}",
        gpu().join(recording).display()
    );
    Tool::new().run(&line).exits(0).json()["runs"][0].clone()
}

/// Recordings whose host was not slowed down, not recognisably, or waits for the workers of a loader,
/// and keep their times: those of `DEVICE_BOUND` and these.
const AS_RECORDED: [&str; 6] = [
    "compile-changed",
    "gemm-changed",
    "graphs-changed",
    "loader-changed",
    "streams-base",
    "streams-changed",
];

#[test]
fn steps_without_the_overhead_of_recording_are_nearer_to_the_truth() {
    let text = std::fs::read_to_string(gpu().join("truth.json")).expect("the true times");
    let truth: Value = serde_json::from_str(&text).expect("JSON");
    let runs = truth["runs"].as_array().expect("a list");
    let mut ratios = vec![];
    for recording in runs.iter().filter_map(|run| run["recording"].as_str()) {
        let true_ns = true_step_ns(recording);
        let [raw, given] = ["--overhead keep", ""].map(|options| {
            let step = replayed(recording, options)["step"]["ns"].as_f64();
            step.expect("a step") / true_ns
        });
        println!(
            "| `{recording}` | {:.2} | {:.2} | {raw:.2} | {given:.2} |",
            true_ns / 1e6,
            given * true_ns / 1e6
        );
        if DEVICE_BOUND.contains(&recording) || AS_RECORDED.contains(&recording) {
            assert!(
                (given / raw - 1.0).abs() < 0.01,
                "{recording}: {raw} {given}"
            );
        } else {
            let [before, after] = [raw, given].map(|ratio| ratio.ln().abs());
            assert!(after < before, "{recording}: {raw} {given}");
            ratios.push(given);
        }
    }
    assert!(ratios.len() >= 12, "{ratios:?}");
    assert!(
        ratios.iter().all(|ratio| (0.8..1.3).contains(ratio)),
        "{ratios:?}"
    );
}

#[test]
fn commands_agree_on_the_length_of_a_step() {
    for case in ["resnet50", "gpt2"] {
        let replayed = replayed(case, "");
        let step_ns = replayed["step"]["ns"].as_i64().expect("a step");
        let steps = replayed["step"]["steps"].as_i64().expect("a number");
        let found = found_in(case, "");
        assert_eq!(found["steps"], steps, "{case}");
        assert_eq!(
            found["window_ns"].as_i64().map(|ns| ns / steps),
            Some(step_ns),
            "{case}"
        );
        let line = format!("analyze {} --json", gpu().join(case).display());
        let analyzed = Tool::new().run(&line).exits(0).json();
        let used = &analyzed["runs"][0]["ranks"][0]["utilization"][0];
        assert_eq!(used["window_ns"], found["window_ns"], "{case}");
        // The measured time stays measured.
        let (given, raw) = (
            &replayed["figures"],
            self::replayed(case, "--overhead keep"),
        );
        assert_eq!(
            given["measured_ns"], raw["figures"]["measured_ns"],
            "{case}"
        );
        assert!(
            given["corrected_ns"].as_i64() < given["measured_ns"].as_i64(),
            "{case}"
        );
        assert_eq!(raw["figures"]["corrected_ns"], Value::Null, "{case}");
    }
}

#[test]
fn a_first_step_behind_earlier_work_is_left_out_of_the_mean() {
    // Devices still carried out 40 ms of the step before it.
    let replayed = replayed("resnet50", "--overhead keep");
    let [first, second] = [0, 1].map(|step| replayed["steps"][step].clone());
    assert_eq!(first["excluded"], "behind_earlier_work");
    assert!(first["ns"].as_f64() < second["ns"].as_f64().map(|ns| 0.8 * ns));
    assert_eq!(replayed["step"]["ns"], second["ns"]);
    // Devices that set the pace make such a step neither shorter nor longer.
    let steps = self::replayed("gemm-base", "")["steps"].clone();
    assert_eq!(steps[0]["excluded"], Value::Null);
}

#[test]
fn all_causes_together_gain_no_less_than_one() {
    let found = found_in("input_copy-changed", "");
    let most = found["findings"][0]["gain_ns"].as_i64();
    assert!(found["together"]["gain_ns"].as_i64() >= most, "{found}");
}

#[test]
fn tables_of_ops_refuse_to_remove_overhead() {
    let [base, changed] = ["graphs-base", "graphs-changed"].map(|case| gpu().join(case));
    let (base, changed) = (base.display(), changed.display());
    let tool = Tool::new();
    tool.run(&format!("diff {base} {changed} --overhead remove"))
        .exits(2);
    tool.run(&format!("top {base} --overhead remove")).exits(2);
}

#[test]
fn products_of_half_the_size_take_half_the_time() {
    let folder = gpu().join("gemm-base");
    let words = ["replay", folder.to_str().expect("UTF-8"), "--json"];
    let words = words.into_iter().chain(["--scale", "class=gemm 0.5"]);
    let words: Vec<String> = words.map(str::to_owned).collect();
    let document = Tool::new().run_words(&words).exits(0).json();
    // The recording begins while the device still works: that work gets shorter, too.
    let step_ns = document["runs"][0]["step"]["ns"].as_f64().expect("a time");
    let truth = true_step_ns("gemm-changed");
    assert!((step_ns / truth - 1.0).abs() < 0.05, "{step_ns}");
}

/// Recordings, other sizes, and the program that has them.
const OTHER_SIZES: [(&str, &str, &str); 23] = [
    ("lm", "batch=1", "lm/b1"),
    ("lm", "batch=2", "lm/b2"),
    ("lm", "batch=4", "lm/b4"),
    ("lm", "batch=16", "lm/b16"),
    ("lm", "batch=32", "lm/b32"),
    ("lm", "seq=0.5x", "lm/s256"),
    ("lm", "seq=1024", "lm/s1024"),
    ("lm", "seq=512:2048", "lm/s2048"),
    ("lm", "width=768", "lm/d768"),
    ("lm", "width=1.5x", "lm/d1536"),
    ("lm", "width=2x", "lm/d2048"),
    ("lm", "layers=4", "lm/l4"),
    ("lm", "layers=16", "lm/l16"),
    ("lm", "layers=8:24", "lm/l24"),
    ("gpt2", "batch=8", "gpt2/b8-s512"),
    ("gpt2", "batch=16", "gpt2/b16-s512"),
    ("gpt2", "seq=1024", "gpt2/b4-s1024"),
    ("bert", "batch=32", "bert/b32-s128"),
    ("bert", "seq=256", "bert/b16-s256"),
    ("vit", "batch=64", "vit/b64"),
    ("resnet50", "batch=32", "resnet50/b32"),
    ("resnet50", "batch=64", "resnet50/b64"),
    ("llama-forward", "batch=1", "llama-forward/b1"),
];

/// Factor by which the host's time of a program differs from one process to another: steps of `lm` that
/// leave it the same work take 17 to 24 ms.
const OTHER_PROCESS: f64 = 1.45;

/// Replays a recording; `tool` keeps the parsed recording for the next question.
fn replayed_by(tool: &Tool, recording: &str, options: &str) -> Value {
    let folder = gpu().join(recording);
    let line = format!("replay {} {options} --json --cache kept", folder.display());
    tool.run(&line).exits(0).only_run()
}

/// Returns recorded and predicted time of the work whose op is known, of all steps, in ns.
fn device_work_ns(replayed: &Value) -> [f64; 2] {
    let predicted = &replayed["what_if"]["questions"][0]["predicted"];
    let times = predicted.as_array().expect("times");
    let known = times
        .iter()
        .filter(|time| time["place"] == "device" && time["basis"] != "name");
    known.fold([0.0, 0.0], |[recorded, predicted], time| {
        [
            recorded + time["recorded_ns"].as_f64().expect("a time"),
            predicted + time["predicted_ns"].as_f64().expect("a time"),
        ]
    })
}

#[test]
fn device_work_with_other_sizes_is_predicted() {
    let (tool, mut errors) = (Tool::new(), vec![]);
    let (mut steps_in_range, mut changes_in_range) = (0, 0);
    for (recording, question, program) in OTHER_SIZES {
        let replayed = replayed_by(&tool, recording, &format!("--what-if {question}"));
        let [recorded, predicted] = device_work_ns(&replayed);
        let true_ns = |key: &str, value: &str| {
            let work = truth(key, value)["device_work_ns"].as_f64();
            work.unwrap_or_else(|| panic!("{value} has no device work"))
        };
        let steps = recorded / true_ns("recording", recording);
        assert!((steps - steps.round()).abs() < 1e-3, "{recording}: {steps}");
        let after = true_ns("program", program);
        let error = predicted / steps / after - 1.0;
        println!(
            "| `{recording}` | `{question}` | {:.2} | {:.2} | {:.2} | {:+.1} % | {:+.1} % |",
            recorded / steps / 1e6,
            predicted / steps / 1e6,
            after / 1e6,
            100.0 * error,
            100.0 * (recorded / steps / after - 1.0)
        );
        errors.push(error.abs());
        let (step, what_if) = (&replayed["step"], &replayed["what_if"]);
        let of_range = |key: &str| what_if["range"]["step"][key].as_f64().expect("a bound");
        let [before, after] =
            [("recording", recording), ("program", program)].map(|(key, value)| {
                let step = truth(key, value)["back_to_back_step_ns"].as_f64();
                step.expect("a true step")
            });
        let [least, most] = ["least_ns", "most_ns"].map(of_range);
        let [smallest, largest] = ["least_change", "most_change"].map(of_range);
        let change = after / before - 1.0;
        println!(
            "| `{recording}` | `{question}` | {:.1} to {:.1} | {:.1} to {:.1} | {:.1} | {:+.0} to {:+.0} % | {:+.0} % |",
            step["unchanged_ns"].as_f64().expect("a step") / 1e6,
            step["ns"].as_f64().expect("a step") / 1e6,
            least / 1e6,
            most / 1e6,
            after / 1e6,
            100.0 * smallest,
            100.0 * largest,
            100.0 * change
        );
        steps_in_range += u32::from((least..=most).contains(&after));
        let by_host = (1.0 + smallest) / OTHER_PROCESS..=(1.0 + largest) * OTHER_PROCESS;
        changes_in_range += u32::from(by_host.contains(&(1.0 + change)));
        let step_change_ns = step["ns"].as_i64().zip(step["unchanged_ns"].as_i64());
        let step_change_ns = step_change_ns.map(|(after, before)| after - before);
        let change_ns = what_if["change_ns"].as_i64();
        let signs = step_change_ns.zip(change_ns);
        assert!(
            signs.is_some_and(|(step, all)| step.signum() * all.signum() >= 0),
            "{signs:?}"
        );
    }
    assert!(steps_in_range >= 22, "{steps_in_range} of 23");
    assert!(changes_in_range >= 22, "{changes_in_range} of 23");
    errors.sort_by(f64::total_cmp);
    assert!(errors[errors.len() / 2] < 0.025, "{errors:?}");
    assert!(errors.iter().all(|error| *error < 0.10), "{errors:?}");
}

#[test]
fn what_is_unknown_with_and_without_a_change_is_no_doubt_about_it() {
    let tool = Tool::new();
    let asked = |question: &str| replayed_by(&tool, "lm", &format!("--what-if {question}"));
    let same = asked("batch=8");
    let range = &same["what_if"]["range"];
    for key in ["least_change_ns", "most_change_ns"] {
        assert_eq!(range[key], 0);
    }
    for key in ["least_change", "most_change"] {
        assert_eq!(range["step"][key], 0.0);
    }
    // No host makes a step shorter than its device work at the best rates in question.
    let slow = asked("device=T4");
    let [_, predicted] = device_work_ns(&slow);
    let least = slow["what_if"]["range"]["step"]["least_ns"].as_f64();
    let steps = slow["step"]["steps"].as_f64().expect("steps");
    assert!(
        least > Some(predicted / steps / 2.2),
        "{least:?} {predicted}"
    );
    // A faster device makes no step longer.
    let step = asked("device=B200")["step"].clone();
    assert!(
        step["ns"].as_i64() <= step["unchanged_ns"].as_i64(),
        "{step}"
    );
}

#[test]
fn peak_memory_of_other_sizes_is_predicted() {
    let tool = Tool::new();
    let sizes = OTHER_SIZES
        .iter()
        .filter(|(case, question, _)| *case == "lm" && !question.starts_with("layers"));
    let mut errors = vec![];
    for (_, question, program) in sizes {
        let replayed = replayed_by(&tool, "lm-memory", &format!("--what-if {question}"));
        let memory = &replayed["what_if"]["questions"][0]["memory"];
        assert_eq!(memory["recorded_bytes"], 3_654_755_328_u64);
        let peak = truth("program", program)["peak_allocated_bytes"].as_f64();
        let predicted = memory["predicted_bytes"].as_f64().expect("bytes");
        let error = predicted / peak.expect("a true peak") - 1.0;
        println!(
            "| {program} | {:.1} | {:+.2} % |",
            predicted / 1e6,
            100.0 * error
        );
        errors.push(error.abs());
    }
    errors.sort_by(f64::total_cmp);
    assert!(errors[errors.len() / 2] < 0.001, "{errors:?}");
    assert!(errors.iter().all(|error| *error < 0.02), "{errors:?}");
}

#[test]
fn steps_with_other_sizes_take_the_time_of_their_device_work() {
    // All but the batch of 32 leave the recorded program to its host.
    let folder = gpu().join("lm");
    let before = truth("recording", "lm")["drained_step_ns"]["median"].as_f64();
    let line = format!(
        "replay {} --what-if batch=32 --overhead {:.0}us --json",
        folder.display(),
        before.expect("a time") / 1e3
    );
    let document = Tool::new().run(&line).exits(0).json();
    let step_ns = document["runs"][0]["step"]["ns"].as_f64().expect("a time");
    let after = truth("program", "lm/b32")["drained_step_ns"]["median"].as_f64();
    let error = step_ns / after.expect("a time") - 1.0;
    assert!(error.abs() < 0.05, "{error}");
}

#[test]
fn sizes_that_no_tensor_shows_are_asked_for() {
    let tool = Tool::new();
    let ask = |recording: &str, question: &str| {
        let folder = gpu().join(recording);
        let line = format!("replay {} --what-if {question}", folder.display());
        tool.run(&line).exits(2)
    };
    ask("resnet50", "seq=64").complains(&["seq=OLD:NEW"]);
    ask("lm", "batch=7:14").complains(&["batch 7"]);
}
