//! The `report` command; `tests/browser` opens its page.

use crate::tool::Tool;
use etlink_testing::{DeviceQueue, TraceBuilder};

/// Generates three steps of 100, 300 and 200 us, each with a kernel.
fn steps() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let mut from = 0;
    for (step, length) in [(4, 100_000), (5, 300_000), (6, 200_000)] {
        draw.annotation(main, &format!("ProfilerStep#{step}"), from, from + length);
        draw.op(main, "aten::mm", from + 1_000, from + 40_000);
        draw.launch(
            main,
            (from + 5_000, from + 9_000),
            DeviceQueue::stream(7),
            "sm80_gemm",
            (from + 20_000, from + 60_000),
        );
        from += length;
    }
    draw
}

#[test]
fn one_trace_or_a_folder_becomes_one_page() {
    let tool = Tool::new();
    tool.file("trace.json", steps().kineto());
    let json = tool
        .run("report trace.json -o one.html --json")
        .exits(0)
        .json();
    assert_eq!(
        (&json["step"], &json["steps"], &json["ranges"]),
        (&"ProfilerStep#6".into(), &3.into(), &12.into()),
        "the median of three, and the others"
    );
    let page = tool.read("one.html");
    assert_eq!(json["bytes"], page.len());
    let recorded = tool.run("report {pairs}/tpdp4-2.15.0 -o run.html").exits(0);
    recorded
        .says(", 4 ranks; drawn: step ProfilerStep#3 and 1 other of 4 ranks, ")
        .says(" ranges\n");
    let page = String::from_utf8(tool.read("run.html")).expect("text");
    assert!(page.contains("<title>tpdp4-2.15.0 · etlink report</title>"));
    assert!(
        page.contains("4 ranks without device rows: a step takes 28.28 ms; "),
        "without script, the sentence is there"
    );
    tool.run(
        "report --host {pairs}/mlp-2.15.0/torch_et_0.json.gz \
        {pairs}/mlp-2.15.0/kineto_trace_0.json.gz -o pair.html",
    )
    .exits(0);
}

#[test]
fn the_same_page_with_any_number_of_threads() {
    let tool = Tool::new();
    tool.run("report {pairs}/pipeline4-2.15.0 -o one.html -j 1")
        .exits(0);
    tool.run("report {pairs}/pipeline4-2.15.0 -o four.html -j 4")
        .exits(0);
    assert!(tool.read("one.html") == tool.read("four.html"));
}

#[test]
fn steps_and_ranks_can_be_chosen() {
    let tool = Tool::new();
    tool.file("trace.json", steps().kineto());
    for (step, name) in [
        ("5", "ProfilerStep#5"),
        ("ProfilerStep#4", "ProfilerStep#4"),
    ] {
        let json = tool
            .run(&format!(
                "report trace.json -o x.html --overwrite --json --step {step}"
            ))
            .exits(0)
            .json();
        assert_eq!(json["step"], name);
    }
    tool.run("report trace.json -o y.html --step 7")
        .exits(2)
        .complains(&[
            "no step 7",
            "ProfilerStep#4, ProfilerStep#5, ProfilerStep#6",
        ]);
    let json = tool
        .run("report {pairs}/tpdp4-2.15.0 -o z.html --timelines 1,3 --json")
        .exits(0)
        .json();
    assert_eq!((&json["ranks"], &json["timelines"]), (&4.into(), &2.into()));
    let json = tool
        .run("report {pairs}/tpdp4-2.15.0 -o v.html --timelines 0,2-3 --json")
        .exits(0)
        .json();
    assert_eq!(json["timelines"], 3, "as --ranks takes them");
    tool.run("report {pairs}/tpdp4-2.15.0 -o w.html --timelines 9")
        .exits(2)
        .complains(&["no trace of rank 9", "0, 1, 2, 3"]);
    tool.run("report trace.json -o w.html --timelines 0")
        .exits(2)
        .complains(&["--timelines is for a folder"]);
}

#[test]
fn nothing_is_replaced_or_mixed_by_accident() {
    let tool = Tool::new();
    tool.file("trace.json", steps().kineto());
    tool.file("there.html", "mine");
    tool.run("report trace.json -o there.html")
        .exits(2)
        .complains(&["there.html already exists", "--overwrite"]);
    assert_eq!(tool.read("there.html"), b"mine");
    tool.run("report trace.json -o there.html --overwrite")
        .exits(0);
    tool.run("report trace.json -o page.json")
        .exits(2)
        .complains(&["page.json", "use .html"]);
    tool.run("report {pairs} -o all.html").exits(2).complains(&[
        " runs, each in its own folder",
        "give one of them",
        "conv-2.1.2",
    ]);
    tool.run("report no-such-file -o x.html")
        .exits(2)
        .complains(&["no-such-file"]);
    tool.run("report . --host a.json -o x.html")
        .exits(2)
        .complains(&["--host, --capture, --metrics and --rank apply to a single trace"]);
    tool.file("broken/kineto_trace_0.json", steps().kineto());
    tool.file("broken/kineto_trace_1.json", "{\"traceEvents\": 7}");
    tool.run("report broken -o broken.html")
        .exits(1)
        .notes("note: rank 1 is left out");
    assert_eq!(
        tool.names(),
        ["broken", "broken.html", "there.html", "trace.json"],
        "and no half files"
    );
}

/// Rank 1 of a run of 64 ranks next to rank 0 of a run of 2.
#[test]
fn traces_of_another_run_are_left_out() {
    let tool = Tool::new();
    for (rank, world) in [(0, 2), (1, 64)] {
        let mut draw = steps();
        draw.distributed(rank, world);
        tool.file(&format!("run/kineto_trace_{rank}.json"), draw.kineto());
    }
    let json = tool.run("report run -o page.html --json").exits(1).json();
    assert_eq!(json["ranks"], 1);
    let told = &json["diagnostics"][0];
    assert_eq!(
        (&told["code"], &told["remedy"]),
        (
            &"rank_left_out".into(),
            &"--allow-mismatch includes it".into()
        )
    );
    let forced = tool
        .run("report run -o page.html --json --overwrite --allow-mismatch")
        .exits(0)
        .json();
    assert_eq!(forced["ranks"], 2);
    assert_eq!(forced["diagnostics"][0]["code"], "rank_mismatch");
}

/// A trace truncated before its device rows.
#[test]
fn damage_is_said() {
    let tool = Tool::new();
    let whole = steps().kineto();
    let rows = whole
        .windows(9)
        .position(|letters| letters == b"sm80_gemm")
        .expect("device rows");
    tool.file("cut.json", &whole[..rows]);
    tool.run("report cut.json -o one.html")
        .exits(0)
        .notes("note: damage: the file is truncated");
    let page = String::from_utf8(tool.read("one.html")).expect("text");
    assert!(page.contains(
        "One rank on Drawn Device, the readable part of the damaged traces has no device rows"
    ));
    tool.file("run/kineto_trace_0.json", &whole);
    tool.file("run/kineto_trace_1.json", &whole[..rows]);
    tool.run("report run -o run.html")
        .exits(0)
        .notes("note: rank 1: damage: ");
}

/// Steps of 300 us each over both ranks together, the last of 220: from 600 to 820.
#[test]
fn a_step_of_ranks_is_from_the_last_begin_to_the_last_end() {
    let tool = Tool::new();
    for (rank, lengths) in [
        (0, [100_000, 500_000, 200_000]),
        (1, [300_000, 120_000, 400_000]),
    ] {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        let mut from = 0;
        for (step, length) in (4..).zip(lengths) {
            draw.annotation(main, &format!("ProfilerStep#{step}"), from, from + length);
            draw.op(main, "aten::mm", from + 1_000, from + 40_000);
            from += length;
        }
        tool.file(&format!("run/kineto_trace_{rank}.json"), draw.kineto());
    }
    tool.run("report run -o run.html").exits(0);
    let page = String::from_utf8(tool.read("run.html")).expect("text");
    assert!(page.contains("a step takes 273.3 µs"));
}

#[test]
fn a_page_can_go_to_standard_output() {
    let tool = Tool::new();
    tool.file("trace.json", steps().kineto());
    let ran = tool
        .run_with("report - -o -", &tool.read("trace.json"))
        .exits(0);
    assert!(ran.stdout.starts_with("<!doctype html>") && ran.stdout.ends_with("</html>\n"));
}

#[test]
fn written_graphs_say_what_they_tell() {
    let tool = Tool::new();
    for rank in 0..2 {
        tool.file(
            &format!("traces/kineto_trace_{rank}.json"),
            steps().kineto(),
        );
    }
    tool.run("merge traces -o sim").exits(0);
    let json = tool.run("report sim -o sim.html --json").exits(0).json();
    assert_eq!(
        (&json["ranks"], &json["timelines"], &json["step"]),
        (&2.into(), &2.into(), &serde_json::Value::Null)
    );
    let said = "host times of a written graph are times of slices; not reported: steps, linking, copy \
        sizes, grids, allocations, barriers and start times of Gloo";
    assert_eq!(json["diagnostics"][0]["message"], said);
    tool.run("report sim/traces.1.et -o one.html")
        .exits(0)
        .notes(said)
        .says(", 1 rank; drawn: 1 rank, without steps, 12 ranges");
    tool.run("link --device traces/kineto_trace_0.json -o tree.json")
        .exits(0);
    tool.run("report tree.json -o tree.html")
        .exits(0)
        .notes("not reported: critical path")
        .says("drawn: step ProfilerStep#6 and 2 others of 1 rank, ");
    let sim = tool.read("sim/traces.0.et");
    tool.run_with("report - -o -", &sim).exits(0);
}

#[test]
fn what_is_no_graph_is_refused_in_words() {
    let tool = Tool::new();
    tool.run("report {pairs}/mlp-2.15.0/torch_et_0.json.gz -o x.html")
        .exits(2)
        .complains(&["is a PyTorch execution trace (host trace)", "--host"]);
    tool.run("merge {pairs}/tpdp4-2.15.0 -o a").exits(0);
    tool.run("merge {pairs}/ddp2-2.15.0 -o a/b").exits(0);
    tool.run("report a -o x.html")
        .exits(2)
        .complains(&["written graphs of 2 runs", "give the folder of one"]);
    tool.file("sim/run.0.et", tool.read("a/tpdp4-2.15.0.0.et"));
    tool.file("sim/run.1.et", "no graph");
    tool.run("report sim -o x.html")
        .exits(1)
        .notes("note: rank 1 is left out")
        .says(", 1 rank; ");
}

#[test]
fn a_page_of_two_runs_says_what_changed() {
    let two = "{pairs}/transformer-2.3.1 {pairs}/transformer-2.15.0";
    let tool = Tool::new();
    let said = tool
        .run(&format!("report {two} -o page.html --json"))
        .exits(0);
    let json = said.json();
    let diff = tool.run(&format!("diff {two}")).exits(0).stdout;
    let sentence = json["compared"][0].as_str().expect("a sentence");
    assert!(sentence.starts_with("mean step 31.448 ms -> 27.617 ms"));
    assert!(diff.starts_with(sentence), "{diff}");
    tool.run(&format!("report {two} -o page.html --overwrite"))
        .exits(0)
        .says(sentence);
    // alone it has nothing to compare with
    let alone = tool
        .run("report {pairs}/transformer-2.15.0 -o page.html --overwrite --json")
        .exits(0);
    assert!(alone.json().get("compared").is_none());
    tool.run("report nowhere {pairs}/transformer-2.15.0 -o page.html --overwrite")
        .exits(2)
        .complains(&["nowhere"]);
}
