mod type_recorder;
mod typescript;

use super::*;
use base64::engine::Engine;
use etlink_analysis::{ClassifiedRows, KernelRules, Options, analyze, run_totals};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{DurationNs, TimeNs};
use etlink_replay::{ReplayRun, ReplaySettings};
use etlink_testing::{DeviceQueue, TraceBuilder};
use std::io::Read;

const HOSTILE: &str = "</script><script>alert(1)</script>";

fn linked(draw: &TraceBuilder) -> LinkedTrace {
    let device = etlink_formats::kineto::read(
        &draw.kineto()[..],
        etlink_formats::kineto::KinetoReadOptions {
            threads: 1,
            shapes: true,
            keep: etlink_model::KeepEvents::Auxiliary,
        },
    )
    .expect("device trace");
    etlink_link::link(None, device, LinkOptions::default()).expect("links")
}

fn ran(trace: &LinkedTrace) -> (etlink_replay::ReplayGraph, ReplayRun) {
    let graph = etlink_replay::graph_from_trace(trace).expect("a graph");
    let run = etlink_replay::run_graph(&graph, trace, &ReplaySettings::default());
    (graph, run)
}

fn drawn(trace: &LinkedTrace, window: (i64, i64), most: usize) -> Timeline {
    let rules = KernelRules::built_in().expect("rules");
    let (graph, run) = ran(trace);
    let path = etlink_replay::critical_path(&graph, &run);
    let window = TimelineWindow {
        start: TimeNs(window.0),
        end: TimeNs(window.1),
        step: Some(("step 1".into(), DurationNs(900))),
        note: String::new(),
    };
    let of = TracedRank {
        rows: &ClassifiedRows::new(trace, &rules),
        graph: &graph,
        run: &run,
        path: &path,
    };
    trace_timeline(of, window, most, None).labelled("0")
}

fn page(trace: &LinkedTrace, title: &str) -> String {
    page_of(
        trace,
        title,
        &PackedTimeline::new(1_000, 1_000_000, |most| drawn(trace, (0, 1_000_000), most))
            .expect("a timeline"),
    )
}

fn page_of(trace: &LinkedTrace, title: &str, timeline: &PackedTimeline) -> String {
    let (graph, run) = ran(trace);
    let path = PathReport::new(
        &graph,
        trace,
        &run,
        &etlink_replay::critical_path(&graph, &run),
    );
    let rank = ReportRank {
        label: "0".into(),
        device_trace: "trace.json".into(),
        host_trace: None,
        device: None,
        analysis: analyze(
            trace,
            &KernelRules::built_in().expect("rules"),
            &Options::default(),
        ),
        memory_charts: vec![],
        link: Some(trace.report.clone()),
        figures: Some(etlink_replay::replay_figures(&graph, trace, &run)),
        critical_path: Some(PathReport {
            steps: vec![],
            ..path
        }),
        trees: RankTrees::from_trace(&trace.device, 1),
    };
    let total = run_totals([&rank.analysis].into_iter());
    let timelines = [timeline.clone()];
    let page = ReportPage {
        title,
        ranks: &[rank],
        total: &total,
        met: None,
        timelines: &timelines,
        diagnostics: &[],
        findings: &[],
        compared: None,
        simulated: None,
    };
    let bytes = render_page(&page).expect("a page");
    assert_eq!(
        bytes,
        render_page(&page).expect("a page"),
        "same values, same bytes"
    );
    String::from_utf8(bytes).expect("text")
}

/// Returns the data that the page's script unpacks.
fn unpacked(page: &str) -> Value {
    unpacked_after(page, "id=\"data\">")
}

fn unpacked_after(page: &str, mark: &str) -> Value {
    let (_, rest) = page.split_once(mark).expect("data");
    let packed = base64::engine::general_purpose::STANDARD
        .decode(rest.split_once("</script>").expect("an end").0)
        .expect("base64");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .expect("gzip");
    serde_json::from_str(&text).expect("JSON")
}

/// ```text
/// main        aten::mm ----|   aten::add |
///               launch|
/// stream 7              gemm ====|
/// ```
fn one_kernel() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 50_000);
    draw.launch(
        main,
        (10_000, 15_000),
        DeviceQueue::stream(7),
        HOSTILE,
        (20_000, 90_000),
    );
    draw.op(main, "aten::add", 60_000, 80_000);
    draw
}

#[test]
fn the_page_has_all_and_lets_no_name_out() {
    let page = page(&linked(&one_kernel()), "a \"run\" <of> &c.");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("<title>a &quot;run&quot; &lt;of&gt; &amp;c. · etlink report</title>"));
    assert!(!page.contains(HOSTILE));
    assert_eq!(
        page.matches("</script").count(),
        4,
        "of the data, the trees, the timeline and the script"
    );
    assert!(
        !page.contains("http://")
            || page.matches("http://").count() == page.matches("http://www.w3.org/").count(),
        "nothing is fetched"
    );
    let data = unpacked(&page);
    assert_eq!(data["total"]["kernels"][0]["name"], HOSTILE);
    assert_eq!(data["ranks"][0]["breakdown"][0]["computation_ns"], 70_000);
    assert_eq!(data["ranks"][0]["figures"]["replay_error"], 0.0);
    assert_eq!(
        data["sentence"],
        "One rank; devices are busy 77.8 % of the recording."
    );
}

/// A reader's first questions come first, in at most eight words each.
#[test]
fn cards_are_few_and_short() {
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 2);
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 500_000);
    draw.op(main, "aten::mm", 10_000, 60_000);
    let stream = DeviceQueue::stream(7);
    draw.launch(main, (20_000, 26_000), stream, "gemm", (40_000, 140_000));
    // Host work while the device waits for it.
    draw.op(main, "load the next batch", 140_000, 300_000);
    draw.launch(main, (310_000, 316_000), stream, "gemm", (340_000, 400_000));
    let comms = etlink_testing::ParamComms::new("allreduce", 0..2, 0, 1);
    let correlation = draw.next_correlation();
    draw.call(main, "cudaLaunchKernelExC", (320_000, 326_000), correlation);
    draw.collective_kernel(
        DeviceQueue::stream(20),
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        (390_000, 450_000),
        correlation,
        &comms,
    );
    draw.raw(
        r#"{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1000,
            "tid": 1000, "ts": 12.0, "args": {"Total Reserved": 8192, "Total Allocated": 4096,
            "Bytes": 1024, "Device Id": 0, "Device Type": 1}}"#,
    );
    let data = unpacked(&page(&linked(&draw), "a run"));
    let cards = data["cards"].as_array().expect("cards");
    let field = |field: &str| -> Vec<&str> {
        let texts = cards.iter().map(|card| card[field].as_str());
        texts.map(|text| text.expect("a text")).collect()
    };
    assert_eq!(
        field("name"),
        [
            "Step time",
            "Devices busy",
            "Exposed communication",
            "Peak memory"
        ]
    );
    assert_eq!(field("value")[..3], ["500.0 µs", "42.0 %", "10.0 %"]);
    let words = field("note")
        .into_iter()
        .map(|note| note.split(' ').count());
    assert!(words.max() <= Some(8), "{cards:?}");
}

/// The hash covers the bytes between the tags exactly, as browsers compute it.
#[test]
fn the_policy_names_the_script_and_the_style_and_nothing_else() {
    let page = page(&linked(&one_kernel()), "a run");
    let hash_between = |open: &str, close: &str| {
        let (_, rest) = page.rsplit_once(open).expect("an opening tag");
        let (inline, _) = rest.split_once(close).expect("a closing tag");
        let digest = <sha2::Sha256 as sha2::Digest>::digest(inline.as_bytes());
        base64::engine::general_purpose::STANDARD.encode(digest)
    };
    let script_hash = hash_between("<script>", "</script>");
    let style_hash = hash_between("<style>", "</style>");
    let policy = format!(
        "content=\"default-src 'none'; script-src 'sha256-{script_hash}'; \
         style-src 'sha256-{style_hash}'; img-src data:; base-uri 'none'; form-action 'none'\""
    );
    assert!(page.contains(&policy), "no {policy}");
    let before_policy = page.split(&policy).next().expect("a head");
    assert!(!before_policy.contains("<script") && !before_policy.contains("<style"));
    let (head, _) = page.split_once("<style>").expect("a head");
    assert!(!head.contains("unsafe-"), "{head}");
    // a browser turns CR into LF before it hashes
    assert!(!SCRIPT.contains('\r') && !STYLE.contains('\r'));
    // these would end or change the elements around script and style
    assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("<!--") && !STYLE.contains("</style"));
}

/// Names occur only in the data, which is base64: nothing in it can end its element.
#[test]
fn names_with_markup_and_line_separators_come_back_as_they_are() {
    let names = [
        "</script><img src=x onerror=alert(1)>",
        "<!--<script>",
        "a\u{2028}b\u{2029}c",
        "=cmd|' /C calc'!A0",
        "\"quoted\" & 'single' \\ back",
    ];
    for name in names {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        let stream = DeviceQueue::stream(7);
        draw.op(main, name, 0, 50_000);
        draw.launch(main, (10_000, 15_000), stream, name, (20_000, 90_000));
        let page = page(&linked(&draw), name);
        assert_eq!(unpacked_after(&page, "id=\"trees\">")["names"][2], name);
        assert!(!page.contains("onerror=alert(1)>"), "{name}");
        assert_eq!(unpacked(&page)["total"]["kernels"][0]["name"], name);
        assert_eq!(page.matches("<script").count(), 4, "{name}");
        let (_, rest) = page.split_once("id=\"data\">").expect("data");
        let (packed, _) = rest.split_once("</script>").expect("an end");
        let in_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        assert!(packed.bytes().all(in_alphabet), "{name}");
    }
}

#[test]
fn a_kernel_knows_its_launch_and_the_path() {
    let timeline = drawn(&linked(&one_kernel()), (0, 1_000_000), 1_000);
    assert_eq!(
        timeline
            .tracks
            .iter()
            .map(|track| (track.name.as_str(), track.stream, track.ranges))
            .collect::<Vec<_>>()
            .last(),
        Some(&("stream 7", true, 1))
    );
    let named = |wanted: &str| {
        timeline
            .name
            .iter()
            .position(|name| timeline.strings[*name as usize] == wanted)
            .expect("a range of this name")
    };
    let (kernel, call) = (named(HOSTILE), named("cudaLaunchKernel"));
    assert_eq!(
        (timeline.drawn(), timeline.ranges, timeline.together_ns),
        (4, 4, 0)
    );
    assert_eq!(
        (timeline.depth[call], timeline.depth[kernel]),
        (1, 0),
        "a call stands in its op"
    );
    assert_eq!(
        timeline.strings[timeline.owner[kernel] as usize],
        "aten::mm"
    );
    assert_eq!(
        (
            timeline.correlation[kernel],
            timeline.kind[kernel],
            timeline.kind[call]
        ),
        (timeline.correlation[call], 0, 6)
    );
    // Each place is written as the difference to the previous one.
    let mut before = 0;
    let ops: Vec<i64> = timeline
        .op
        .iter()
        .map(|more| {
            before += more;
            before - 1
        })
        .collect();
    let op = named("aten::mm");
    assert_eq!(
        [ops[kernel], ops[call], ops[op]],
        [op as i64, op as i64, -1],
        "a kernel and its call belong to the op around them"
    );
    let deps = &timeline.deps;
    let launch = (0..deps.to.len())
        .find(|at| deps.to[*at] as usize == kernel)
        .expect("it waited");
    assert_eq!(
        (
            deps.from[launch],
            deps.kind[launch],
            deps.gap[launch],
            deps.flags[launch]
        ),
        (call as i64, EdgeKind::Launch as u8, 10_000, 1)
    );
    let steps = serde_json::to_value(&timeline.path).expect("JSON");
    assert_eq!(
        steps["range"].as_array().and_then(|ranges| ranges.last()),
        Some(&Value::from(kernel))
    );
}

#[test]
fn a_window_keeps_what_reaches_into_it_and_the_budget() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "outer", 0, 10_000_000);
    for at in 0..5_000 {
        draw.op(main, "aten::small", at * 2_000, at * 2_000 + 1_000);
    }
    let trace = linked(&draw);
    let window = drawn(&trace, (1_000_000, 2_000_000), 1_000);
    assert_eq!(
        (
            window.ranges,
            window.together_ns,
            window.origin_ns,
            window.start[0]
        ),
        (501, 0, 1_000_000, -1_000_000)
    );
    let all = drawn(&trace, (0, 10_000_000), 600);
    assert_eq!(all.ranges, 5_001);
    assert!(
        all.drawn() <= 600 && all.together_ns > 0,
        "{} ranges drawn",
        all.drawn()
    );
    assert!(all.count.iter().all(|count| *count >= 1));
    assert!(all.deps.to.iter().all(|to| (*to as usize) < all.drawn()));
}

/// Returns text that does not compress.
fn noise(length: usize, seed: &mut u64) -> String {
    let mut letter = || {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // from 0 to o, without the backslash
        char::from(b'0' + (*seed >> 58) as u8)
            .to_string()
            .replace('\\', "z")
    };
    (0..length).map(|_| letter()).collect()
}

#[test]
fn steps_are_drawn_as_long_as_all_of_them_fits() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for at in (0..400).map(|at| at * 1_000) {
        draw.op(main, "aten::mm", at, at + 900);
    }
    let trace = linked(&draw);
    // Each step has a hundred ranges.
    let step = |at: usize, most: usize| {
        let from = at as i64 * 100_000;
        drawn(&trace, (from, from + 100_000), most)
    };
    let ranges = |most: usize, bytes: usize| -> Vec<usize> {
        let all = PackedTimeline::steps(most, bytes, 4, step).expect("packs");
        all.iter().map(|timeline| timeline.ranges).collect()
    };
    assert_eq!(ranges(1_000, 1_000_000), [100; 4]);
    assert_eq!(ranges(299, 1_000_000), [100; 2], "the third has less room");
    let one = PackedTimeline::new(1_000, 1_000_000, |most| step(0, most)).expect("packs");
    let room = one.text.len() * 2 + one.text.len() / 2;
    assert_eq!(ranges(1_000, room), [100; 2], "text is measured");
    let [first] = ranges(90, 1_000_000)[..] else {
        panic!("the first is drawn in any case")
    };
    assert!(first <= 90, "with less detail: {first}");
}

#[test]
fn a_page_that_would_be_too_large_has_less() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let mut seed = 1;
    for at in (0..6_000).map(|at| at * 1_000) {
        draw.op(main, &noise(900, &mut seed), at, at + 900);
        draw.launch(
            main,
            (at + 100, at + 200),
            DeviceQueue::stream(7),
            &noise(900, &mut seed),
            (at + 300, at + 800),
        );
    }
    let trace = linked(&draw);
    let whole = drawn(&trace, (0, 6_000_000), 100_000);
    let unlimited = packed_timeline::pack_json(&whole).expect("packs").len();
    assert!(
        whole.together_ns == 0 && unlimited > 5_000_000,
        "the test is one: {unlimited}"
    );
    let page = page_of(
        &trace,
        "large",
        &PackedTimeline::new(100_000, TIMELINE_BYTES, |most| {
            drawn(&trace, (0, 6_000_000), most)
        })
        .expect("a timeline"),
    );
    assert!(page.len() < 5_000_000, "{}", page.len());
    let (data, timeline) = (
        unpacked(&page),
        unpacked_after(&page, "class=\"timeline\">"),
    );
    assert!(
        timeline["together_ns"].as_i64() > Some(0) && timeline["ranges"] == 18_000,
        "and says so"
    );
    let cut = data["cut"]
        .as_array()
        .and_then(|cuts| cuts.iter().find(|cut| cut["table"] == "kernels"))
        .expect("kernels are cut");
    assert_eq!(cut["of"], 6_000);
    assert!(cut["records"].as_u64() < Some(1_000), "{cut}");
}

#[test]
fn tables_are_cut_and_say_so() {
    let mut value = serde_json::json!({"kernels": [{"name": "x".repeat(5_000)}, {"name": "b"},
        {"name": "c"}], "rank": 3});
    let mut cuts = vec![];
    shorten_tables(&mut value, "3", 2, &mut cuts);
    assert_eq!(value["kernels"].as_array().map(Vec::len), Some(2));
    assert!(
        value["kernels"][0]["name"]
            .as_str()
            .is_some_and(|name| name.ends_with("x… (5000 characters)"))
    );
    let [cut] = &cuts[..] else { panic!("one cut") };
    assert_eq!(
        (&cut.rank[..], &cut.table[..], cut.records, cut.of),
        ("3", "kernels", 2, 3)
    );
}

#[test]
fn times_that_no_trace_should_have_do_no_harm() {
    const ODD: [&str; 6] = [
        "-9223372036854775.808",
        "9223372036854775.807",
        "-1.5",
        "7.25",
        "4611686018427387.904",
        "1e15",
    ];
    let event = |category: &str, at: usize, length: usize, id: usize| {
        let (ts, dur) = (ODD[at % ODD.len()], ODD[length % ODD.len()]);
        format!(
            concat!(
                r#"{{"ph": "X", "cat": "{category}", "name": "{category}", "pid": 0, "#,
                r#""tid": 7, "ts": {ts}, "dur": {dur}, "args": {{"stream": 7, "#,
                r#""correlation": {id}, "External id": 1}}}}"#,
            ),
            category = category,
            ts = ts,
            dur = dur,
            id = id
        )
    };
    for turn in 0..ODD.len().pow(3) {
        let (first, second, third) = (turn, turn / ODD.len(), turn / ODD.len().pow(2));
        let events = [
            event("user_annotation", first, second, 0),
            event("cpu_op", second, third, 0),
            event("cuda_runtime", third, first, 1),
            event("kernel", first, third, 1),
            event("gpu_memcpy", second, first, 2),
        ];
        let text = format!("{{\"traceEvents\": [{}]}}", events.join(","));
        let device = etlink_formats::kineto::read(
            text.as_bytes(),
            etlink_formats::kineto::KinetoReadOptions {
                threads: 1,
                shapes: true,
                keep: etlink_model::KeepEvents::Auxiliary,
            },
        )
        .expect("reads");
        if let Ok(trace) = etlink_link::link(None, device, LinkOptions::default()) {
            page(&trace, "odd");
        }
    }
}
