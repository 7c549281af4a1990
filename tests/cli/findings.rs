//! `etlink findings`: the largest possible gains of a run.

use crate::ranks::later;
use crate::tool::{Tool, pairs};
use etlink_testing::{DeviceQueue, ParamComms, TraceBuilder};
use serde_json::Value;

const US: i64 = 1_000;
const MS: i64 = 1_000_000;
const LOADER: &str = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";

/// Generates four steps of 4 ms in which the host loads for 3 ms and a kernel runs for one.
fn starved() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..4 {
        let begin = step * 4 * MS;
        draw.annotation(main, &format!("ProfilerStep#{step}"), begin, begin + 4 * MS);
        draw.annotation(main, LOADER, begin, begin + 3 * MS);
        let op = begin + 3 * MS;
        draw.op(main, "aten::mm", op, op + 50 * US);
        let kernel = (op + 20 * US, begin + 4 * MS);
        let call = (op + 10 * US, op + 15 * US);
        draw.launch(main, call, DeviceQueue::stream(7), "gemm", kernel);
    }
    draw
}

/// Generates a step of one of two ranks: a kernel of `kernel_ms`, then an all-reduce that ends at 5
/// ms.
fn rank_of_two(rank: i64, kernel_ms: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#3", 0, 200 * US);
    draw.op(main, "aten::mm", 10 * US, 50 * US);
    let compute = (30 * US, 30 * US + kernel_ms * MS);
    let call = (20 * US, 25 * US);
    draw.launch(main, call, DeviceQueue::stream(7), "gemm", compute);
    let comms = ParamComms::new("allreduce", 0..2, rank, 1);
    draw.collective(main, &comms, 60 * US, 90 * US);
    let correlation = draw.next_correlation();
    draw.call(main, "cudaLaunchKernelExC", (70 * US, 80 * US), correlation);
    let reduce = (compute.1 + US, 5 * MS);
    let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    draw.collective_kernel(DeviceQueue::stream(7), name, reduce, correlation, &comms);
    draw
}

#[test]
fn late_input_is_named_with_what_it_costs() {
    let tool = Tool::new();
    tool.file("trace.json", starved().kineto());
    let text = tool.run("findings trace.json").exits(0);
    text.says("1. Input pipeline: ")
        .says(" (75 %)\n")
        .says(" in `enumerate(DataLoader)")
        .says("num_workers");
    let said = tool.run("findings trace.json --json").exits(0).json();
    assert_eq!(
        (&said["schema"], &said["version"]),
        (&"etlink.findings".into(), &1.into())
    );
    let run = &said["runs"][0];
    let first = &run["findings"][0];
    assert_eq!(
        (&first["kind"], &first["subject"]),
        (&"input_pipeline".into(), &LOADER.into())
    );
    // 12 ms of loading, minus the host's time from the end of a kernel to the next launch
    let gain = first["gain_ns"].as_i64().expect("a gain");
    assert!((11_800_000..=12_100_000).contains(&gain), "{first:#}");
    assert_eq!(first["figures"]["count"], 4);
    tool.run("analyze trace.json")
        .exits(0)
        .says("largest possible gains:");
    tool.run("report trace.json -o page.html").exits(0);
}

/// Generates one step that reads numbers back: once at one line for 4 ms, three times at another
/// for 2 ms.
fn reads_at_two_lines() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let stream = DeviceQueue::stream(7);
    draw.annotation(main, "ProfilerStep#1", 0, 11 * MS);
    let mut begin = 100 * US;
    for (line, length) in [(12, 4 * MS), (30, 2 * MS), (30, 2 * MS), (30, 2 * MS)] {
        let end = begin + length;
        let frame = format!("/home/me/train.py({line}): step");
        draw.python(main, &frame, begin, end + 40 * US);
        let call = (begin + 5 * US, begin + 8 * US);
        draw.launch(main, call, stream, "gemm", (begin + 10 * US, end));
        draw.op(main, "aten::item", begin + 10 * US, end + 30 * US);
        let wait = draw.next_correlation();
        let waits = (begin + 12 * US, end + 20 * US);
        draw.call(main, "cudaStreamSynchronize", waits, wait);
        begin = end + 100 * US;
    }
    draw
}

#[test]
fn of_many_lines_of_python_the_one_with_most_time_is_named() {
    let tool = Tool::new();
    tool.file("trace.json", reads_at_two_lines().kineto());
    let said = tool.run("findings trace.json --json").exits(0).json();
    let findings = said["runs"][0]["findings"].as_array().expect("findings");
    let mut findings = findings.iter();
    let read = findings.find(|one| one["kind"] == "scalar_read");
    let read = read.unwrap_or_else(|| panic!("{said:#}"));
    assert_eq!(read["figures"]["python_lines"], 2, "{read:#}");
    let sentence = read["evidence"].as_str().expect("a text");
    // line 12 has the longest wait, line 30 the largest total
    assert!(
        sentence.contains("at 2 lines of Python, most at `home/me/train.py(30): step`")
            || sentence.contains("at 2 lines of Python, most at `me/train.py(30): step`"),
        "{sentence}"
    );
}

#[test]
fn the_late_rank_of_a_folder_is_named() {
    let tool = Tool::new();
    tool.file("run/kineto_trace_0.json", rank_of_two(0, 1).kineto());
    tool.file("run/kineto_trace_1.json", rank_of_two(1, 4).kineto());
    let said = tool.run("findings run --json").exits(0).json();
    let first = &said["runs"][0]["findings"][0];
    assert_eq!(
        (&first["kind"], &first["subject"]),
        (&"late_rank".into(), &"rank 1".into())
    );
    let gain = first["gain_ns"].as_i64().expect("a gain");
    assert!((2_950_000..=3_050_000).contains(&gain), "{first:#}");
    tool.run("findings run")
        .exits(0)
        .says("`gemm` takes 4.00 ms there, 1.00 ms on others");
}

#[test]
fn figures_of_a_folder_begin_with_its_findings() {
    let tool = Tool::new();
    tool.file("run/kineto_trace_0.json", rank_of_two(0, 1).kineto());
    tool.file("run/kineto_trace_1.json", rank_of_two(1, 4).kineto());
    let finding = "Longer work on rank 1: 3.00 ms of 5.00 ms (60 %)";
    let text = tool.run("findings run").exits(0);
    text.says("gains refer to the step, 5.000 ms").says(finding);
    tool.run("analyze run").exits(0).says(finding);
    let said = tool.run("analyze run --json").exits(0).runs();
    let found = &said[0]["findings"];
    assert_eq!(found["findings"][0]["kind"], "late_rank", "{found:#}");
    let page = tool.run("report run -o page.html --json").exits(0).json();
    let first = page["findings"][0].as_str().expect("a finding");
    assert!(first.contains(finding), "{first}");
    // one requested table is printed alone
    for one in ["--table steps", "--csv"] {
        let text = tool.run(&format!("analyze run {one}")).exits(0);
        assert!(!text.stdout.contains("Longer work"));
    }
}

#[test]
fn findings_do_not_depend_on_memory() {
    let tool = Tool::new();
    for rank in 0..2 {
        let mut draw = rank_of_two(rank, 1 + 3 * rank);
        let main = draw.thread();
        for op in 0..20_000 {
            let begin = 5 * MS + op * US;
            draw.op(main, "aten::add", begin, begin + 500);
        }
        tool.file(&format!("run/kineto_trace_{rank}.json"), draw.kineto());
    }
    let mut sentences: Vec<Vec<String>> = vec![];
    let mut refused = 0;
    for memory in ["10M", "25M", "38M", "300M"] {
        let options = format!("run -j 1 --memory {memory} --json");
        for command in ["findings", "analyze", "report -o page.html --overwrite"] {
            let ran = tool.run(&format!("{command} {options}"));
            if ran.stdout.is_empty() {
                // the figure that would suffice
                ran.exits(2).notes("--memory");
                refused += 1;
                continue;
            }
            let said = ran.exits(0).json();
            let found = match command {
                "findings" => &said["runs"][0]["findings"],
                "analyze" => &said["runs"][0]["findings"]["findings"],
                _ => &said["findings"],
            };
            let found = found.as_array().expect("findings").iter();
            let text = |one: &Value| match one.as_str() {
                Some(text) => text.to_owned(),
                None => one["title"].as_str().expect("a title").to_owned(),
            };
            sentences.push(found.map(text).collect());
        }
    }
    // the page also contains remarks on all findings
    let least = sentences.iter().map(Vec::len).min().expect("findings");
    let first = sentences[0][..least].to_vec();
    assert!(least > 0 && refused > 0, "{refused} refused, {first:?}");
    for other in &sentences {
        assert_eq!(other[..least], first);
    }
}

#[test]
fn where_nothing_stands_out_that_is_said() {
    let tool = Tool::new();
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for turn in 0..6 {
        let begin = turn * 60 * US;
        draw.op(main, "aten::mm", begin, begin + 50 * US);
        let call = (begin + 10 * US, begin + 15 * US);
        let kernel = ((20 + turn * 1_500) * US, (1_519 + turn * 1_500) * US);
        let name = format!("kernel_{turn}");
        draw.launch(main, call, DeviceQueue::stream(7), &name, kernel);
    }
    tool.file("trace.json", draw.kineto());
    tool.run("findings trace.json")
        .exits(0)
        .says("nothing stands out in the recording (9.02 ms)");
    let said = tool.run("findings trace.json --json").exits(0).json();
    assert_eq!(said["runs"][0]["findings"], Value::Array(vec![]));
}

/// From a rank's arrival to the end of its collective: the wait for the others, and the transfer.
#[test]
fn communication_of_gloo_takes_as_long_in_every_command() {
    let tool = Tool::new();
    for name in ["ddp2-2.15.0", "experts2-2.15.0", "pipeline4-2.15.0"] {
        let run = pairs().join(name).display().to_string();
        let found = tool.run(&format!("findings {run} --json")).exits(0).json();
        let analyzed = tool.run(&format!("analyze {run} --json")).exits(0).runs();
        let sums = analyzed[0]["total"]["collectives"].as_array();
        let sums = sums.expect("collectives").iter();
        let ns = |value: &Value| value.as_i64().expect("ns");
        let all: i64 = sums.clone().map(|one| ns(&one["sum_ns"])).sum();
        let findings = found["runs"][0]["findings"].as_array().expect("findings");
        let of_kind = findings.iter();
        let mut of_kind = of_kind.filter(|one| one["kind"] == "exposed_communication");
        let finding = of_kind.next().expect("communication");
        let subject = finding["subject"].as_str().expect("a subject");
        let kind = subject.split(' ').next().expect("a kind");
        let same = sums.filter(|one| one["kind"] == kind);
        let same: i64 = same.map(|one| ns(&one["sum_ns"])).sum();
        assert_eq!(
            ns(&finding["figures"]["time_ns"]),
            same,
            "{name}: {subject}"
        );
        let replayed = tool.run(&format!("replay {run} --json")).exits(0).runs();
        let joined = &replayed[0]["together"]["collectives"];
        let parts = ns(&joined["waiting_ns"]) + ns(&joined["transfer_ns"]);
        assert!((parts - all).abs() <= 10, "{name}: {parts} {all}");
        // messages of some kB
        let remedy = finding["remedy"].as_str().expect("a remedy");
        assert!(remedy.contains("small messages"), "{remedy}");
    }
}

/// All communication of these runs is of one kind.
#[test]
fn hidden_communication_gains_as_much_by_name_as_by_finding() {
    let tool = Tool::new();
    for name in [
        "ddp2-2.15.0",
        "ddp2-2.4.1",
        "ddp2_gloo-2.15.0",
        "ddp2_gloo-2.3.1",
        "ddp2_race-2.15.0",
    ] {
        let run = pairs().join(name).display().to_string();
        let found = tool.run(&format!("findings {run} --json")).exits(0);
        let found = found.only_run()["findings"].clone();
        let mut findings = found.as_array().expect("findings").iter();
        let exposed = findings.find(|one| one["kind"] == "exposed_communication");
        let gain = exposed.and_then(|one| one["gain_share"].as_f64());
        let asked = format!("replay {run} --what-if overlap-comm --json");
        let step = tool.run(&asked).exits(0).only_run()["step"].clone();
        let ns = |key: &str| step[key].as_f64().expect("a step");
        let asked = 1.0 - ns("ns") / ns("unchanged_ns");
        assert!(
            (gain.expect("a finding") - asked).abs() < 0.005,
            "{name}: {gain:?} {asked}"
        );
    }
}

/// Generates two workers of Gloo next to a thread on which no op waits for them.
fn workers_of_gloo() -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    let [main, one, two] = [draw.thread(), draw.thread(), draw.thread()];
    draw.annotation(main, "ProfilerStep#7", 0, 200 * MS);
    draw.op(main, "aten::empty", 150 * MS, 151 * MS);
    for (worker, begin) in [(one, 10 * MS), (two, 20 * MS)] {
        let range = draw.annotation(worker, "gloo:all_reduce", begin, begin + 170 * MS);
        draw.arg(range, "Input Dims", "[[321271]]");
        draw.arg(range, "Input type", "[\"float\"]");
    }
    draw.kineto()
}

#[test]
fn communication_that_nothing_is_seen_to_wait_for_has_no_price() {
    let tool = Tool::new();
    tool.file("trace.json", workers_of_gloo());
    tool.run("findings trace.json")
        .exits(0)
        .says("no known cause costs 2 % of 1 step (200 ms)")
        .says("the host communicates for 90 % of the step (180 ms of 200 ms), all of it all_reduce")
        .says("the cost is unknown: the traces do not show what waits for it")
        .lacks("neither ops nor runtime calls");
    tool.run("replay trace.json --what-if overlap-comm")
        .exits(0)
        .notes("--what-if overlap-comm: the answer is unknown");
}

#[test]
fn time_without_an_op_is_said_to_be_between_ops() {
    let tool = Tool::new();
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#7", 0, 50 * MS);
    for launch in 0..5 {
        let begin = launch * 10 * MS;
        draw.op(main, "aten::mm", begin, begin + MS / 10);
        let times = (begin + MS / 50, begin + MS / 20);
        let row = (begin + MS / 20, begin + MS);
        draw.launch(main, times, DeviceQueue::stream(7), "sm80_gemm", row);
    }
    tool.file("trace.json", draw.kineto());
    tool.run("findings trace.json")
        .exits(0)
        .says("the host spends 49.5 ms on unrecorded work, in gaps of over ");
}

#[test]
fn a_group_that_is_named_by_a_number_is_told_by_its_ranks() {
    let tool = Tool::new();
    let said = tool.run("findings {pairs}/../two-hosts").exits(0);
    said.says("all_gather of ranks 0, 1:")
        .says("barrier of default_pg, 4 ranks:");
}

#[test]
fn nobody_is_told_to_put_barriers_into_larger_buckets() {
    let tool = Tool::new();
    let said = tool.run("findings {pairs}/tpdp4-2.15.0").exits(0);
    let barrier = |line: &&str| line.contains("Exposed barrier of");
    let mut lines = said.stdout.lines().skip_while(|line| !barrier(line));
    let remedy = lines.nth(2).unwrap_or_default();
    assert!(remedy.ends_with("it moves no data"), "{remedy}");
}

#[test]
fn what_hiding_communication_gains_is_not_told_where_no_wait_is_recorded() {
    let tool = Tool::new();
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 2);
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#3", 0, 6 * MS);
    let comms = ParamComms::new("allreduce", 0..2, 0, 1);
    draw.collective(main, &comms, 60 * US, 90 * US);
    let correlation = draw.next_correlation();
    draw.call(main, "cudaLaunchKernelExC", (70 * US, 80 * US), correlation);
    let reduce = (MS, 4 * MS);
    let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    draw.collective_kernel(DeviceQueue::stream(7), name, reduce, correlation, &comms);
    // The host continues long after, and no call shows if it has waited.
    let op = 5 * MS;
    draw.op(main, "aten::mm", op, op + 50 * US);
    let call = (op + 10 * US, op + 15 * US);
    let kernel = (op + 20 * US, 6 * MS);
    draw.launch(main, call, DeviceQueue::stream(7), "gemm", kernel);
    tool.file("trace.json", draw.kineto());
    let said = tool.run("findings trace.json").exits(0);
    assert!(!said.stdout.contains("not end earlier"), "{}", said.stdout);
    said.says("the trace records no calls that wait");
}

#[test]
fn time_that_no_op_shows_is_told_where_nothing_stands_out() {
    let tool = Tool::new();
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..2 {
        let begin = step * 100 * MS;
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            begin,
            begin + 100 * MS,
        );
        // Then the program sleeps.
        draw.op(main, "aten::mm", begin, begin + 10 * MS);
    }
    tool.file("trace.json", draw.kineto());
    tool.run("findings trace.json").exits(0).says(
        "no known cause costs 2 % of 2 steps (200 ms); the host runs neither ops nor runtime calls \
         for 90 % of its steps (record with --with-stack",
    );
}

/// A note on one of several runs names it.
#[test]
fn notes_of_several_runs_name_them() {
    let tool = Tool::new();
    tool.shell("mkdir -p both; cp -r {pairs}/ddp2-2.15.0 both/a; cp -r {pairs}/ddp2-2.4.1 both/b")
        .exits(0);
    tool.run("findings both --ranks 0,7")
        .exits(0)
        .notes("note: 2 runs (a, b): no trace of rank 7 (requested with --ranks)");
}

/// If two traces may both be rank 0's, notes say so, and mention no option that was not given.
#[test]
fn where_no_rank_is_sure_the_reason_is_told() {
    let tool = Tool::new();
    for (name, seconds) in [("before", 0), ("after", 1)] {
        let trace = later(&rank_of_two(0, 2).kineto(), seconds);
        tool.file(&format!("run/{name}.json"), trace);
    }
    for command in ["findings", "replay"] {
        let ran = tool.run(&format!("{command} run")).exits(2);
        let ran = ran
            .notes("2 device traces claim rank 0")
            .complains(&["no rank is certain"]);
        assert!(!ran.stderr.contains("--ranks"), "{}", ran.shown());
    }
}

/// The engine of vLLM is a separate process: the profiled one has only steps.
#[test]
fn a_trace_in_which_nothing_ran_says_where_the_work_is() {
    let tool = Tool::new();
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..6 {
        let begin = step * MS;
        draw.annotation(main, &format!("ProfilerStep#{step}"), begin, begin + MS);
    }
    tool.file("trace.json", draw.kineto());
    let said = tool.run("findings trace.json").exits(1);
    said.says("nothing ran in the recorded process")
        .lacks("--with-stack")
        .notes("no op, runtime call or device row. The work probably runs in worker processes")
        .notes("`etlink record`");
    for command in ["analyze", "inspect"] {
        tool.run(&format!("{command} trace.json")).exits(0);
    }
    tool.run("analyze trace.json")
        .exits(0)
        .notes("nothing ran in the recorded process");
}
