//! Ranks of one run: joined, compared, checked, ready for a simulator.

use crate::tool::{Tool, pairs, unpacked};
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, TraceBuilder};
use serde_json::{Value, json};

#[test]
fn bandwidth_by_size_is_that_of_the_collectives() {
    let tool = Tool::new();
    // the last rank of each collective arrives at 400 us and all end 50 us later
    for rank in 0..4 {
        let drawn = Drawn {
            rank,
            world: 4,
            late: rank == 3,
            ..Drawn::default()
        };
        tool.file(&format!("run/kineto_trace_{rank}.json"), draw(drawn));
    }
    let run = tool.run("ranks run --json").exits(0).only_run();
    let sizes = run["bandwidth"].as_array().expect("a list");
    assert_eq!(sizes.len(), 1);
    let of = &sizes[0];
    let collectives = run["collectives"].as_array().expect("a list");
    let transfer = |one: &Value| one["transfer_ns"].as_i64().expect("a time");
    let sum: i64 = collectives.iter().map(transfer).sum();
    assert_eq!(
        (&of["kind"], &of["members"]),
        (&"all_reduce".into(), &4.into())
    );
    assert_eq!(
        (of["count"].as_u64(), of["timed"].as_u64()),
        (Some(8), Some(8))
    );
    assert_eq!(of["transfer_ns"], sum);
    assert_eq!(of["bytes"], 4096);
    let rate = of["algorithm_gb_per_s"].as_f64().expect("a rate");
    assert!((rate - 8.0 * 4096.0 / sum as f64).abs() < 1e-9);
    let bus = of["bus_gb_per_s"].as_f64().expect("a rate");
    assert!(
        (bus / rate - 1.5).abs() < 1e-9,
        "2 (n - 1) / n of four ranks"
    );
    let table = tool
        .run("ranks run --table bandwidth --csv")
        .exits(0)
        .stdout;
    assert_eq!(table.lines().count(), 2);
}

#[test]
fn uneven_all_to_alls_keep_the_bytes_of_each_pair() {
    let path = pairs().join("experts2-2.15.0");
    let run = Tool::new().run(&format!("ranks {} --json", path.display()));
    let run = run.exits(0).only_run();
    let mut wanted = [[0u64; 2]; 2];
    for (rank, sent) in wanted.iter_mut().enumerate() {
        let name = format!("experts2-2.15.0/kineto_trace_{rank}.json.gz");
        let trace: Value = serde_json::from_slice(&unpacked(&name)).expect("JSON");
        for event in trace["traceEvents"].as_array().expect("a list") {
            let args = &event["args"];
            let (Some(split), Some(elements)) = (
                args["In split size"].as_str(),
                args["In msg nelems"].as_u64(),
            ) else {
                continue;
            };
            let parts: Vec<u64> = serde_json::from_str(split).expect("a list");
            let whole: u64 = parts.iter().sum();
            if args["Collective name"] == "all_to_allv" && whole > 0 {
                for (to, part) in parts.iter().enumerate() {
                    sent[to] += 4 * elements * part / whole;
                }
            }
        }
    }
    for pair in run["pair_bytes"].as_array().expect("a list") {
        let [from, to] = ["from", "to"].map(|end| pair[end].as_u64().expect("a rank") as usize);
        assert_eq!(pair["bytes"], wanted[from][to], "{pair}");
    }
    assert_eq!(run["pair_bytes"].as_array().map(Vec::len), Some(4));
}

const MS: i64 = 1_000_000;
const DAY_NS: i64 = 86_400 * 1_000 * MS;

/// Properties of a rank in a generated run.
#[derive(Clone, Copy, Default)]
pub struct Drawn {
    pub rank: i64,
    pub world: i64,
    /// Lead of its clock, ns.
    pub ahead_ns: i64,
    /// True if it comes late to every all-reduce.
    pub late: bool,
    /// Number of its eight all-reduces before its window begins.
    pub skipped: i64,
    pub bytes: u64,
}

/// Generates the device trace of a rank:
/// ```text
/// stream 20   all_reduce ====|      one per millisecond; all ranks end at the same time,
///                                   50 us after the last arrival
/// ```
pub fn draw(drawn: Drawn) -> Vec<u8> {
    let Drawn {
        rank,
        world,
        ahead_ns,
        late,
        skipped,
        bytes,
    } = drawn;
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    draw.distributed(rank, world)
        .origin(1_700_000_000_000 * MS + ahead_ns);
    let main = draw.thread();
    for round in skipped..8 {
        let begin = (round + 1) * MS;
        let mut comms = ParamComms::new("allreduce", 0..world as u64, rank, round + 100);
        (comms.in_elements, comms.out_elements) = (1024 + bytes, 1024 + bytes);
        draw.collective(main, &comms, begin, begin + 20_000);
        let correlation = draw.next_correlation();
        draw.call(
            main,
            "cudaLaunchKernelExC",
            (begin + 5_000, begin + 9_000),
            correlation,
        );
        let arrival = if late {
            400_000
        } else {
            100_000 + 1_000 * (rank * 7 + round * 3).rem_euclid(20)
        };
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_AllReduce_Sum_f32",
            (begin + arrival, begin + 450_000),
            correlation,
            &comms,
        );
    }
    draw.kineto()
}

/// Four ranks on different clocks; rank 2 is late.
pub const RUN: [Drawn; 4] = [
    Drawn {
        rank: 0,
        world: 4,
        ahead_ns: 0,
        late: false,
        skipped: 0,
        bytes: 0,
    },
    Drawn {
        rank: 1,
        world: 4,
        ahead_ns: 3 * MS,
        late: false,
        skipped: 0,
        bytes: 0,
    },
    Drawn {
        rank: 2,
        world: 4,
        ahead_ns: -7 * MS,
        late: true,
        skipped: 0,
        bytes: 0,
    },
    Drawn {
        rank: 3,
        world: 4,
        ahead_ns: 40_000,
        late: false,
        skipped: 0,
        bytes: 0,
    },
];

pub fn put(tool: &Tool, ranks: &[Drawn]) {
    for drawn in ranks {
        tool.file(
            &format!("run/kineto_trace_{}.json", drawn.rank),
            draw(*drawn),
        );
    }
}

fn attrs(tool: &Tool, name: &str) -> Vec<etlink_chakra::read::CommAttrs> {
    let graph = etlink_chakra::read::read(&tool.read(name)[..]).expect("reads");
    (0..graph.len())
        .map(|node| graph.comm_of(node))
        .filter(|comm| comm.size.is_some())
        .collect()
}

fn sizes(tool: &Tool, name: &str) -> Vec<Option<i64>> {
    attrs(tool, name).iter().map(|comm| comm.size).collect()
}

fn groups(tool: &Tool, name: &str) -> Value {
    serde_json::from_slice(&tool.read(name)).expect("JSON")
}

#[test]
fn a_group_has_one_number_on_all_ranks() {
    let tool = Tool::new();
    let ran = tool
        .run("merge {pairs}/tpdp4-2.15.0 -o out --json")
        .exits(0)
        .json();
    let want = serde_json::json!({"1": [0, 1], "3": [0, 2], "4": [1, 3], "5": [2, 3]});
    assert_eq!(groups(&tool, "out/comm_group.json"), want);
    let run = &ran["runs"][0];
    assert_eq!(
        (&run["collectives"], &run["unmatched"], &run["groups"]["2"]),
        (&26.into(), &0.into(), &serde_json::json!([0, 1, 2, 3]))
    );
    let named = |rank: i64| {
        let graph =
            etlink_chakra::read::read(&tool.read(&format!("out/tpdp4-2.15.0.{rank}.et"))[..])
                .expect("reads");
        let names = (0..graph.len())
            .filter_map(|node| graph.comm_of(node).group)
            .map(|name| graph.names.get(name).to_owned());
        names
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        [0, 1, 2, 3].map(named),
        [["1", "3"], ["1", "4"], ["3", "5"], ["4", "5"]]
    );
    tool.run("check out")
        .exits(0)
        .says("tpdp4-2.15.0.*.et: ok, 4 ranks together");
}

#[test]
fn uneven_all_to_alls_have_the_size_of_the_busiest_link() {
    let tool = Tool::new();
    tool.run("merge {pairs}/experts2-2.15.0 -o out")
        .exits(0)
        .says("4 collectives and 0 messages matched, 0 not");
    // Five of eight rows of 64 bytes go to the other rank, and two come back; or the other way round.
    let want = [640; 4].map(Some);
    assert_eq!(
        (
            sizes(&tool, "out/experts2-2.15.0.0.et"),
            sizes(&tool, "out/experts2-2.15.0.1.et")
        ),
        (want.into(), want.into())
    );
    tool.run("check out").exits(0);
}

#[test]
fn every_recorded_run_is_ready_for_astra_sim() {
    let tool = Tool::new();
    tool.run("merge {pairs} -o out --for astra-sim").exits(0);
    tool.run("check out").exits(0);
    let readme = String::from_utf8(tool.read("out/pipeline4-2.15.0/README.md")).expect("text");
    assert!(
        readme.contains("--workload-configuration=\"$PWD\"/pipeline4-2.15.0 ")
            && !readme.contains("comm_group"),
        "{readme}"
    );
    assert!(
        String::from_utf8_lossy(&tool.read("out/pipeline4-2.15.0/network.yml"))
            .contains("npus_count: [ 4 ]")
    );
    for name in ["system.json", "memory.json", "comm_group.json"] {
        groups(&tool, &format!("out/tpdp4-2.15.0/{name}"));
    }
    // one rank is not enough for the simulator's network
    assert!(tool.path("out/mlp-2.15.0/mlp-2.15.0.1.et").exists());
    tool.run("merge {pairs} -o out --for astra-sim")
        .exits(2)
        .complains(&["already exists", "--overwrite"]);
    tool.run("merge {pairs} -o out --for astra-sim --overwrite")
        .exits(0);
    tool.run("merge {pairs} -o other --for astra-sim --format etplus")
        .exits(2)
        .complains(&["--for astra-sim", "--format"]);
}

#[test]
fn the_late_rank_and_the_clocks_are_found() {
    let tool = Tool::new();
    put(&tool, &RUN);
    let ran = tool.run("ranks run --json").exits(0).runs();
    let run = &ran[0];
    for (drawn, clock) in RUN.iter().zip(run["clocks"].as_array().expect("clocks")) {
        let offset = clock["offset_ns"].as_i64().expect("a number");
        assert!(
            (offset + drawn.ahead_ns).abs() <= 5_000,
            "rank {}: {clock}",
            drawn.rank
        );
        assert_eq!(
            (clock["support"].as_u64(), clock["contradicted"].as_bool()),
            (Some(if drawn.rank == 0 { 0 } else { 8 }), Some(false))
        );
    }
    let collectives = run["collectives"].as_array().expect("collectives");
    assert_eq!(collectives.len(), 8);
    for one in collectives {
        assert_eq!(
            (one["last"].as_i64(), one["transfer_ns"].as_i64()),
            (Some(2), Some(50_000)),
            "{one}"
        );
        assert!(
            one["skew_ns"]
                .as_i64()
                .is_some_and(|skew| (280_000..=300_000).contains(&skew)),
            "{one}"
        );
        // 4096 bytes in 50 us, 2 · 3/4 of that on the bus
        assert_eq!(
            (
                one["algorithm_bandwidth"].as_f64(),
                one["bus_bandwidth"].as_f64()
            ),
            (Some(81_920_000.0), Some(122_880_000.0))
        );
    }
    let lasts: Vec<_> = run["ranks"]
        .as_array()
        .expect("ranks")
        .iter()
        .map(|rank| rank["last"].as_u64())
        .collect();
    assert_eq!(lasts, [0, 0, 8, 0].map(Some));
    tool.run("ranks run")
        .exits(0)
        .says("largest skew")
        .says("rank 2");
    let unaligned = tool.run("ranks run --no-align --json").exits(0).runs();
    assert_eq!(
        unaligned[0]["collectives"][0]["last"], 1,
        "its clock is 3 ms ahead"
    );
}

/// Generates one of three ranks, with two overlapping collectives:
/// ```text
/// rank 0   stream 20   all_gather of ranks 0, 1 ======|          rank 1   stream 20      ===|
///          stream 21     all_reduce of all      ========|                 stream 21   ========|
/// ```
fn overlapping(rank: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    draw.distributed(rank, 3).origin(1_700_000_000_000 * MS);
    let main = draw.thread();
    let (gather, reduce) = (
        ParamComms::new("_allgather_base", 0..2, rank, 4),
        ParamComms::new("allreduce", 0..3, rank, 9),
    );
    let starts = if rank == 1 {
        [MS + 60_000, MS + 40_000]
    } else {
        [MS + 40_000, MS + 60_000]
    };
    let rows = [
        (20, "AllGather", gather, starts[0], MS + 300_000),
        (21, "AllReduce", reduce, starts[1], MS + 310_000),
    ];
    for (stream, name, mut comms, start, end) in rows.into_iter().skip(usize::from(rank == 2)) {
        comms.group_name = stream.to_string();
        let correlation = draw.next_correlation();
        draw.collective(main, &comms, start - 30_000, start - 15_000);
        draw.call(
            main,
            "cudaLaunchKernelExC",
            (start - 25_000, start - 20_000),
            correlation,
        );
        draw.collective_kernel(
            DeviceQueue::stream(stream),
            &format!("ncclDevKernel_{name}"),
            (start, end),
            correlation,
            &comms,
        );
    }
    draw.kineto()
}

/// Generates a step of one of three ranks, of which rank 1 sorts longer in the second of two.
fn sorting(rank: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    draw.distributed(rank, 3).origin(1_700_000_000_000 * MS);
    let main = draw.thread();
    for step in 0..2 {
        let begin = (1 + 10 * step) * MS;
        let sorted = begin + if (rank, step) == (1, 1) { 4 * MS } else { MS };
        draw.op(main, "aten::sort", begin + 10_000, sorted);
        draw.op(main, "aten::mm", sorted + 10_000, sorted + MS);
        let at = sorted + MS + 10_000;
        draw.annotation(main, &format!("ProfilerStep#{step}"), begin, at + 30_000);
        let comms = ParamComms::new("allreduce", 0..3, rank, step);
        draw.collective(main, &comms, at, at + 20_000);
        let correlation = draw.next_correlation();
        draw.call(
            main,
            "cudaLaunchKernelExC",
            (at + 5_000, at + 9_000),
            correlation,
        );
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_AllReduce_Sum_f32",
            (at + 15_000, begin + 6 * MS),
            correlation,
            &comms,
        );
    }
    draw.kineto()
}

#[test]
fn the_op_that_makes_a_rank_late_is_named() {
    let tool = Tool::new();
    for rank in 0..3 {
        tool.file(&format!("run/kineto_trace_{rank}.json"), sorting(rank));
    }
    let run = &tool.run("ranks run --json").exits(0).runs()[0];
    let named = json!([{
        "step": "ProfilerStep#1", "rank": 1, "name": "aten::sort", "on_device": false,
        "own_ns": 4 * MS - 10_000, "usual_ns": MS - 10_000
    }]);
    assert_eq!(run["longer_work"], named, "{run}");
    tool.run("ranks run").exits(0).says("host  `aten::sort`");
    let found = tool.run("findings run --json").exits(0).runs();
    let findings = found[0]["findings"].as_array().expect("a list").iter();
    let mut late = findings.filter(|one| one["kind"] == "late_rank");
    let late = late.next().unwrap_or_else(|| panic!("{found}"));
    assert_eq!(late["figures"]["within"], "aten::sort", "{late}");
}

#[test]
fn collectives_that_begin_in_opposite_order_do_not_wait_for_each_other() {
    let tool = Tool::new();
    for rank in 0..3 {
        tool.file(&format!("run/kineto_trace_{rank}.json"), overlapping(rank));
    }
    let said = "communications in opposite order on different ranks (first: all_gather number 4 of ranks 0, 1";
    tool.run("merge run -o out")
        .exits(0)
        .says(said)
        .says("2  communication, order differs");
    let once = said.replace(" (first", " (1) (first");
    tool.run("ranks run").exits(0).notes(&once);
    let problems = &tool.run("ranks run --json").exits(0).runs()[0]["problems"];
    assert_eq!(
        (&problems[0]["kind"], &problems[0]["count"]),
        (&"order_differs".into(), &1.into()),
        "{problems}"
    );
    assert_eq!(
        [0, 1, 2].map(|rank| sizes(&tool, &format!("out/run.{rank}.et")).len()),
        [1, 1, 1]
    );
    let ran = tool.run("merge run -o sim --for astra-sim").exits(0);
    assert!(
        !ran.shown().contains("opposite"),
        "they end in one order: {}",
        ran.stdout
    );
    assert_eq!(
        [0, 1, 2].map(|rank| sizes(&tool, &format!("sim/run.{rank}.et")).len()),
        [2, 2, 1]
    );
    // sequentially they take longer than measured, which replay reports
    let replayed = tool.run("replay sim --json").exits(0).runs();
    let figures = &replayed[0]["figures"];
    assert!(
        figures["replay_error"].as_f64() > Some(0.1)
            && figures["contradictions"]["edges"].as_u64() >= Some(2),
        "{figures}"
    );
    let checked = tool.run("check out sim").exits(0);
    assert!(!checked.shown().contains("opposite"), "{}", checked.stdout);
}

#[test]
fn comparisons_are_tables_for_programs() {
    let tool = Tool::new();
    put(&tool, &RUN);
    let ran = tool.run("ranks run --csv").exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 9);
    assert!(
        lines[0].starts_with("run,kind,ranks,group,number,bytes,start_ns,last,skew_ns"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].starts_with(",all_reduce,\"ranks 0, 1, 2, 3\",1,100,4096,"),
        "{}",
        lines[1]
    );
}

#[test]
fn files_are_on_one_clock_unless_they_shall_not() {
    let tool = Tool::new();
    put(&tool, &RUN);
    tool.run("merge run -o out").exits(0);
    tool.run("merge run -o own --no-align").exits(0);
    let ends = |folder: &str| {
        [0, 2].map(|rank| {
            let graph =
                etlink_chakra::read::read(&tool.read(&format!("{folder}/run.{rank}.et"))[..])
                    .expect("reads");
            let collective = (0..graph.len())
                .find(|node| graph.comm_of(*node).size.is_some())
                .expect("a collective");
            graph.start_ns[collective].expect("a start") + graph.duration_ns[collective]
        })
    };
    let [aligned, own] = [ends("out"), ends("own")];
    assert_eq!((aligned[0] - aligned[1], own[0] - own[1]), (0, 7 * MS));
}

#[test]
fn a_rank_without_communications_is_on_the_clock_of_its_machine() {
    let tool = Tool::new();
    let of_machine = |trace: Vec<u8>, machine: &str| {
        let text = String::from_utf8(trace).expect("text");
        let named = format!("{{\"host_name\": \"{machine}\",");
        // the all-reduces belong to the first two of three ranks
        let text = text.replace("\"world_size\": 2", "\"world_size\": 3");
        text.replacen('{', &named, 1)
    };
    for (drawn, machine) in RUN.iter().take(2).zip(["a", "b"]) {
        let name = format!("run/kineto_trace_{}.json", drawn.rank);
        let drawn = Drawn { world: 2, ..*drawn };
        tool.file(&name, of_machine(draw(drawn), machine));
    }
    // next to rank 1, whose clock is 3 ms ahead
    let mut silent = TraceBuilder::new(KinetoFlavour::Cuda);
    silent
        .distributed(2, 3)
        .origin(1_700_000_000_000 * MS + 3 * MS);
    let main = silent.thread();
    silent.op(main, "aten::mul", MS, 2 * MS);
    tool.file("run/kineto_trace_2.json", of_machine(silent.kineto(), "b"));
    tool.run("merge run -o out").exits(0);
    tool.run("merge run -o own --no-align").exits(0);
    let start = |folder: &str| {
        let file = tool.read(&format!("{folder}/run.2.et"));
        let graph = etlink_chakra::read::read(&file[..]).expect("reads");
        graph.base_time_ns().expect("a time") + graph.start_ns[0].expect("a start")
    };
    assert_eq!(start("own") - start("out"), 3 * MS);
}

#[test]
fn a_rank_that_is_not_there_is_named() {
    let tool = Tool::new();
    put(&tool, &[RUN[0], RUN[1], RUN[3]]);
    tool.run("merge run -o out")
        .exits(0)
        .notes("no trace of rank 2: 3 of 4 ranks have traces")
        .says("8 collectives and 0 messages matched, 0 not");
    assert_eq!(
        groups(&tool, "out/comm_group.json"),
        serde_json::json!({"1": [0, 1, 2, 3]})
    );
    tool.run("check out").exits(1).says("rank 2 has no file");
    tool.run("merge run -o sim --for astra-sim")
        .exits(0)
        .says("absent rank");
    assert_eq!(
        sizes(&tool, "sim/run.0.et"),
        [],
        "what rank 2 takes part in is computation"
    );
    assert!(
        String::from_utf8_lossy(&tool.read("sim/README.md"))
            .contains("These ranks have no usable trace: 2.")
    );
    tool.run("check sim")
        .exits(0)
        .says("run.*.et: ok, 4 ranks together");
    tool.run("ranks run").exits(0).notes("no trace of rank 2");
    let json = tool.run("ranks run --json").exits(0).runs();
    let told: Vec<_> = json[0]["collectives"]
        .as_array()
        .expect("collectives")
        .iter()
        .map(|one| &one["transfer_ns"])
        .collect();
    assert_eq!(told, [&Value::Null; 8], "rank 2 comes last to all of them");
    tool.run("replay run")
        .exits(0)
        .notes("note: no trace of rank 2")
        .says("and transferred, or waited for absent ranks, for ");
    tool.run("analyze run")
        .exits(0)
        .notes("note: no trace of rank 2")
        // The clocks are known less well than the ranks are late.
        .lacks("delays the others most");
    let chosen = tool.run("analyze run --ranks 0,1").exits(0);
    assert!(!chosen.shown().contains("no trace of"), "{}", chosen.stdout);
    put(&tool, &RUN);
    let whole = tool
        .run("analyze run")
        .exits(0)
        .says("\nrank 2 delays the others most");
    assert!(
        !whole.shown().contains("no trace of") && !whole.shown().contains("late arrivals"),
        "{}",
        whole.stdout
    );
}

#[test]
fn who_came_late_by_clocks_that_nothing_tells_is_said() {
    let tool = Tool::new();
    for rank in 0..4 {
        let name = format!("kineto_trace_{rank}.json");
        let trace = unpacked(&format!("tpdp4-2.15.0/{name}.gz"));
        tool.file(&format!("run/{name}"), without_host_name(&trace));
    }
    let said = "note: the clock offset of rank 1, 2, 3 to rank 0 is unknown: late arrivals use each rank's own clock";
    for command in [
        "ranks",
        "analyze",
        "findings",
        "replay",
        "report -o page.html",
    ] {
        tool.run(&format!("{command} run")).exits(0).notes(said);
    }
}

/// Returns a recorded trace in the form of writers that do not state their machine.
pub fn without_host_name(trace: &[u8]) -> String {
    let text = String::from_utf8_lossy(trace);
    assert!(text.contains("\"host_name\": \"host\","));
    text.replace("\"host_name\": \"host\",", "")
}

#[test]
fn ranks_of_one_host_have_one_clock() {
    let tool = Tool::new();
    let ran = tool.run("ranks {pairs}/tpdp4-2.15.0").exits(0);
    let ran = ran.says("all ranks run on one machine and share its clock");
    assert!(!ran.stderr.contains("clock"), "{}", ran.stderr);
}

#[test]
fn collectives_of_plain_gloo_are_counted_with_the_reason() {
    let tool = Tool::new();
    let said = "8 Gloo collectives without group and size";
    let run = "{pairs}/ddp2_gloo-2.15.0";
    tool.run(&format!("ranks {run}")).exits(0).notes(said);
    tool.run(&format!("ranks {run} --strict")).exits(1);
    let page = format!("report {run} --overwrite -o page.html");
    tool.run(&page).exits(0).notes(said);
    tool.run(&format!("{page} --strict")).exits(1);
    let merge = format!("merge {run} --overwrite -o out");
    let problem = "Gloo collectives without group and size";
    tool.run(&merge).exits(0).says(problem);
    tool.run(&format!("{merge} --strict"))
        .exits(1)
        .says(problem);
    // a range may be several nodes of a file
    let found = tool.run("check out --json").exits(0).json();
    let files = found["files"].as_array().expect("files").iter();
    let counts = files.filter_map(|file| file["findings"][0]["count"].as_u64());
    assert_eq!(counts.sum::<u64>(), 8, "{found}");
    let check = "check out/ddp2_gloo-2.15.0.0.et";
    tool.run(check)
        .exits(0)
        .says("warning")
        .says("Gloo collectives as computation");
    tool.run(&format!("{check} --strict")).exits(1);
}

/// Generates one of two ranks, without records for its collective kernels. Rank 1 comes 3 ms later
/// to the fourth, and its clock is ahead.
fn unrecorded_rank(rank: i64, kernels: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    let ahead = rank * 700_000;
    draw.distributed(rank, 2)
        .origin(1_700_000_000_000 * MS + ahead);
    let main = draw.thread();
    for number in 0..kernels {
        let end = (number + 1) * 5 * MS + number * number * 20_000;
        let came = if number == 3 && rank == 1 {
            60_000
        } else {
            3_060_000
        };
        let correlation = draw.next_correlation();
        draw.call(
            main,
            "cudaLaunchKernelExC",
            (end - came - 20_000, end - came - 15_000),
            correlation,
        );
        draw.kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_AllReduce_Sum_f32",
            (end - came, end + rank * 2_000),
            correlation,
        );
    }
    draw.kineto()
}

#[test]
fn communication_without_a_record_is_joined_by_its_ends() {
    let tool = Tool::new();
    for (kernels, joined) in [(1, 0), (8, 8)] {
        for rank in 0..2 {
            tool.file(
                &format!("run/kineto_trace_{rank}.json"),
                unrecorded_rank(rank, kernels),
            );
        }
        let ran = tool.run("ranks run --json");
        let report = ran.exits(0).json();
        let collectives = report["runs"][0]["collectives"].as_array();
        assert_eq!(collectives.map(Vec::len), Some(joined));
        let sides = format!("note: {} of {} communications", 2 * joined, 2 * kernels);
        tool.run("ranks run").exits(0).notes(&sides);
        tool.run("findings run").notes(&sides);
        tool.run("analyze run").notes(&sides);
        if joined > 0 {
            let late = &report["runs"][0]["ranks"][1];
            assert_eq!(late["last"], 1, "{late}");
            let caused = late["caused_ns"].as_i64();
            assert!(
                caused.is_some_and(|ns| (2_990_000..=3_010_000).contains(&ns)),
                "{late}"
            );
        }
    }
    std::fs::remove_file(tool.path("run/kineto_trace_1.json")).expect("it is there");
    tool.run("ranks run")
        .exits(0)
        .notes("note: communication kernels without a record of their group and size: 8");
}

#[test]
fn a_window_that_begins_later_costs_only_what_it_lacks() {
    let tool = Tool::new();
    put(
        &tool,
        &[
            RUN[0],
            RUN[1],
            Drawn {
                skipped: 3,
                ..RUN[2]
            },
            RUN[3],
        ],
    );
    let ran = tool
        .run("merge run -o out --for astra-sim")
        .exits(0)
        .says("5 collectives and 0 messages matched, 3 not");
    assert!(
        ran.stdout.contains(
            "all_reduce number 100 of ranks 0, 1, 2, 3 is before or after the recording of rank 2"
        ),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("9  communication, unmatched"),
        "{}",
        ran.stdout
    );
    assert_eq!(
        (
            sizes(&tool, "out/run.0.et").len(),
            sizes(&tool, "out/run.2.et").len()
        ),
        (5, 5)
    );
    tool.run("check out").exits(0);
}

#[test]
fn different_sizes_are_told_and_made_equal() {
    let tool = Tool::new();
    put(
        &tool,
        &[RUN[0], RUN[1], RUN[2], Drawn { bytes: 1, ..RUN[3] }],
    );
    tool.run("merge run -o out")
        .exits(0)
        .says("8  collectives of different sizes on different ranks")
        .says("4096 bytes on rank 0, 4100 bytes on rank 3");
    assert_eq!(sizes(&tool, "out/run.0.et"), [Some(4100); 8]);
    tool.run("check out").exits(0);
}

#[test]
fn two_files_of_one_rank_are_not_guessed_between() {
    let tool = Tool::new();
    put(&tool, &RUN);
    tool.file("run/device_1.json", later(&draw(RUN[1]), 1));
    let ran = tool
        .run("merge run -o out")
        .exits(1)
        .says("3 linked, 2 not joined, 0 failed")
        .notes("2 device traces claim rank 1");
    assert!(
        ran.stderr
            .contains("is not joined with the others: its rank is uncertain"),
        "{}",
        ran.shown()
    );
    assert!(
        tool.path("out/run.device_1.et").exists()
            && tool.path("out/run.kineto_trace_1.et").exists()
    );
    tool.run("merge run -o sim --for astra-sim").exits(1);
    tool.run("check sim").exits(0).says("4 ranks together");
}

/// Returns the file names in a folder.
fn file_names(tool: &Tool, folder: &str) -> Vec<String> {
    tool.files(folder).into_keys().collect()
}

#[test]
fn the_file_of_a_rank_that_is_not_joined_is_no_rank_of_the_run() {
    let another_day = Drawn {
        ahead_ns: DAY_NS,
        ..RUN[3]
    };
    // without communication a rank is written before the others are known
    let mut silent = TraceBuilder::new(KinetoFlavour::Cuda);
    silent.distributed(3, 8);
    let main = silent.thread();
    silent.op(main, "aten::add", MS, 2 * MS);
    for (options, stranger, ending) in [
        ("", draw(another_day), "et"),
        ("-j1 --memory 100M", draw(another_day), "et"),
        ("--pack zstd", draw(another_day), "et.zst"),
        ("--no-align", silent.kineto(), "et"),
        ("--format etplus", draw(another_day), "json.gz"),
    ] {
        let tool = Tool::new();
        put(&tool, &RUN[..3]);
        tool.file("run/kineto_trace_3.json", stranger);
        let by_itself = format!("run.3.not_joined.{ending}");
        let ran = tool.run(&format!("merge run -o out {options}"));
        ran.exits(1)
            .notes("3 is not joined with the others: it")
            .notes(&format!("; it is written separately: {by_itself}"))
            .says("s, not joined")
            .says("3 linked, 1 not joined, 0 failed");
        let names = file_names(&tool, "out");
        assert!(names.contains(&by_itself), "{options}: {names:?}");
        assert!(
            !names.contains(&format!("run.3.{ending}")),
            "{options}: {names:?}"
        );
        let json = tool.run(&format!("merge run -f -o out {options} --json"));
        let json = json.exits(1).json();
        assert_eq!(json["ranks"][3]["output"], format!("out/{by_itself}"));
        assert_eq!(file_names(&tool, "out"), names, "{options}");
        // another tool that reads the folder sees three ranks
        if ending == "et" {
            tool.run("convert out out.goal").exits(0).says("of 3 ranks");
        }
        tool.run(&format!("check out/{by_itself}")).exits(0);
    }
}

#[test]
fn the_file_that_a_rank_had_while_it_was_joined_goes() {
    let another_day = Drawn {
        ahead_ns: DAY_NS,
        ..RUN[3]
    };
    // for all ranks, and for some, which keep the files of the others
    for (options, ending) in [
        ("", "et"),
        ("--ranks 1-3", "et"),
        ("--ranks 1-3 --format etplus", "json.gz"),
    ] {
        let [joined, by_itself, first] =
            ["3", "3.not_joined", "0"].map(|rank| format!("run.{rank}.{ending}"));
        let form = options.trim_start_matches("--ranks 1-3");
        let tool = Tool::new();
        put(&tool, &RUN);
        tool.run(&format!("merge run -o out {form}")).exits(0);
        let before = tool.files("out");
        put(&tool, &[another_day]);
        tool.run(&format!("merge run -o out {options}")).exits(2);
        assert!(tool.files("out") == before, "{options}");
        tool.run(&format!("merge run -f -o out {options}")).exits(1);
        let names = file_names(&tool, "out");
        assert!(!names.contains(&joined), "{options}: {names:?}");
        assert!(names.contains(&by_itself), "{options}: {names:?}");
        assert!(names.contains(&first), "{options}: {names:?}");
        put(&tool, &[RUN[3]]);
        tool.run(&format!("merge run -f -o out {options}")).exits(0);
        let after = tool.files("out");
        assert!(
            after.keys().eq(before.keys()),
            "{options}: {:?}",
            after.keys()
        );
        // a subset of ranks uses the clock of its first rank
        assert!(after == before || !options.is_empty());
        let before = after;
        // a rank that fails keeps its earlier file
        tool.file("run/kineto_trace_3.json", "this is no trace");
        tool.run(&format!("merge run -f -o out {options}")).exits(2);
        assert!(tool.files("out") == before, "{options}");
    }
    // other files with such a name stay
    let tool = Tool::new();
    put(&tool, &RUN);
    tool.file("out/run.3.not_joined.et", "precious");
    tool.run("merge run -f -o out").exits(2).complains(&[
        "out/run.3.not_joined.et has the name of an output, but etlink did not write it",
    ]);
    assert_eq!(tool.read("out/run.3.not_joined.et"), b"precious");
}

#[test]
fn a_rank_that_is_not_joined_does_not_become_one_of_the_run_by_itself() {
    let another_day = Drawn {
        ahead_ns: DAY_NS,
        ..RUN[3]
    };
    for (form, ending) in [
        ("", "et"),
        ("--pack zstd", "et.zst"),
        ("--format etplus", "json.gz"),
    ] {
        let tool = Tool::new();
        put(&tool, &RUN[..3]);
        put(&tool, &[another_day]);
        let merge = format!("merge run -o out {form}");
        tool.run(&merge).exits(1).says("1 not joined");
        let before = tool.files("out");
        let file = format!("out/run.3.not_joined.{ending}");
        tool.run(&format!("{merge} --ranks 3"))
            .exits(2)
            .complains(&["already exists"]);
        let said = format!(
            "{file} was not joined with the ranks whose files stay, and this merge includes none of those ranks; merge all ranks, write to another folder, or include it with --allow-mismatch"
        );
        tool.run(&format!("{merge} --ranks 3 -f"))
            .exits(2)
            .complains(&[&said]);
        assert!(tool.files("out") == before, "{form}");
        tool.run(&format!("{merge} --ranks 3 -f --shard 0/2"))
            .exits(2)
            .complains(&[&said]);
        assert!(tool.files("out") == before, "{form}");
        // next to ranks of the run it is again recognized as foreign
        tool.run(&format!("{merge} --ranks 1-3 -f")).exits(1);
        assert!(file_names(&tool, "out").contains(&format!("run.3.not_joined.{ending}")));
        tool.run(&format!("{merge} --ranks 3 -f --allow-mismatch"))
            .exits(0);
        assert!(file_names(&tool, "out").contains(&format!("run.3.{ending}")));
    }
}

#[test]
fn a_simulation_says_that_an_empty_rank_stands_for_one_that_is_not_joined() {
    let tool = Tool::new();
    put(&tool, &RUN);
    put(
        &tool,
        &[Drawn {
            ahead_ns: DAY_NS,
            ..RUN[3]
        }],
    );
    tool.run("merge run -o sim --for astra-sim")
        .exits(1)
        .notes("it is not written, and an idle rank takes its place in the simulation")
        .says("not joined and not written")
        .says("3 linked, 1 not joined, 0 failed");
    tool.run("check sim").exits(0).says("4 ranks together");
}

#[test]
fn a_rank_that_is_checked_without_the_others_is_told() {
    let tool = Tool::new();
    put(&tool, &RUN);
    tool.run("merge run -o out").exits(0);
    tool.shell("mkdir one && cp out/run.0.et out/comm_group.json one")
        .exits(0);
    tool.run("check one")
        .exits(1)
        .says("one/run.*.et: faults, 1 rank alone")
        .says("ET501: 3 ranks that take part in communication but have no file");
    // without the list of groups, and with the group of all ranks, which no list has
    std::fs::remove_file(tool.path("one/comm_group.json")).expect("removes");
    tool.run("check one").exits(1).says("error ET502");
    tool.run("merge {pairs}/ddp2-2.15.0 --ranks 0 -o part")
        .exits(0);
    tool.run("check part").exits(1).says("error ET501");
    // where the other rank's share is computation, no rank waits for it
    tool.run("merge {pairs}/ddp2-2.15.0 --ranks 0 --for astra-sim -o sim")
        .exits(0);
    tool.run("check sim").exits(0).says("warning ET308");
    let alone = "out/run.0.et communicates with other ranks but is checked alone; give its folder";
    tool.run("check out/run.0.et").exits(0).notes(alone);
    let together = tool.run("check out").exits(0);
    assert_eq!(together.stderr, "");
    // a single rank has no other to fit
    let whole = tool.run("merge {pairs}/mlp-2.15.0 -o single");
    whole.exits(0);
    for path in ["single", "single/mlp-2.15.0.0.et"] {
        let ran = tool.run(&format!("check {path}")).exits(0);
        assert_eq!(ran.stderr, "");
        assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.shown());
    }
}

#[test]
fn ranks_of_other_runs_are_left_out() {
    let tool = Tool::new();
    put(&tool, &RUN);
    put(
        &tool,
        &[Drawn {
            ahead_ns: DAY_NS,
            ..RUN[3]
        }],
    );
    tool.run("merge run -o out").exits(1).notes(
        "3 is not joined with the others: it was recorded 86399 s after the others, so it is from another run",
    );
    tool.run("ranks run")
        .exits(1)
        .notes("3 is left out: it was recorded 86399 s after");
    put(&tool, &[Drawn { world: 8, ..RUN[3] }]);
    tool.run("merge run -o world").exits(1).notes(
        "3 is not joined with the others: it is from a run of 8 ranks; most others are from a run of 4",
    );
    assert_eq!(
        groups(&tool, "world/comm_group.json"),
        serde_json::json!({"1": [0, 1, 2, 3]})
    );
    let forced = tool.run("merge run -o forced --allow-mismatch").exits(0);
    assert!(
        !forced.shown().contains("is not joined"),
        "{}",
        forced.stdout
    );
    let said = "rank 3: included by --allow-mismatch: it is from a run of 8 ranks; most others are from a run of 4";
    forced.notes(said);
    for command in ["ranks", "replay", "analyze"] {
        tool.run(&format!("{command} run --allow-mismatch"))
            .exits(0)
            .notes(said);
        let left_out = tool.run(&format!("{command} run")).exits(1);
        assert!(
            !left_out.shown().contains("included by"),
            "{}",
            left_out.stdout
        );
    }
}

#[test]
fn a_rank_of_another_program_is_told() {
    let tool = Tool::new();
    for (case, ranks) in [("tpdp4-2.15.0", 0..3), ("pipeline4-2.15.0", 3..4)] {
        for name in ranks
            .flat_map(|rank| ["torch_et", "kineto_trace"].map(|kind| format!("{kind}_{rank}.json")))
        {
            tool.file(
                &format!("run/{name}"),
                unpacked(&format!("{case}/{name}.gz")),
            );
        }
    }
    tool.run("merge run -o out --for astra-sim --allow-mismatch")
        .exits(0)
        .notes("no communication of rank 3 matches another rank");
    tool.run("check out").exits(0).says("4 ranks together");
}

#[test]
fn ranks_of_one_machine_that_were_recorded_one_after_the_other_are_no_run() {
    let tool = Tool::new();
    for rank in 0..4 {
        let name = format!("kineto_trace_{rank}.json");
        let trace = unpacked(&format!("tpdp4-2.15.0/{name}.gz"));
        let trace = if rank == 3 { later(&trace, 10) } else { trace };
        tool.file(&format!("run/{name}"), trace);
    }
    for command in [
        "ranks run",
        "analyze run",
        "findings run",
        "top run",
        "replay run",
    ] {
        let ran = tool.run(command).exits(1);
        let ran = ran.notes("rank 3 is left out: it was recorded ");
        assert!(
            !ran.stdout.contains(" s ("),
            "nobody waited: {}",
            ran.stdout
        );
    }
    let merged = tool.run("merge run -o out").exits(1);
    merged.notes("3 is not joined with the others: it was recorded ");
    // at the same time, so no note
    let whole = tool.run("ranks {pairs}/tpdp4-2.15.0").exits(0);
    assert!(!whole.stderr.contains("apart"), "{}", whole.stderr);
}

/// A receipt does not end before its send begins: the clock that is ahead is found, and its rank is not
/// blamed.
#[test]
fn messages_of_the_host_bound_clocks() {
    let tool = Tool::new();
    for rank in 0..4 {
        let name = format!("kineto_trace_{rank}.json");
        let trace = unpacked(&format!("pipeline4-2.15.0/{name}.gz"));
        let ahead = if rank == 1 { 20 * MS } else { 0 };
        tool.file(&format!("run/{name}"), ahead_by(&trace, ahead));
    }
    let found = |folder: &str| tool.run(&format!("ranks {folder} --json")).runs()[0].clone();
    let (right, shifted) = (found("{pairs}/pipeline4-2.15.0"), found("run"));
    let near = |one: &Value, other: i64| {
        let off = one.as_i64().expect("ns") - other;
        assert!(off.abs() < 200_000, "{one} and {other}");
    };
    near(&shifted["clocks"][1]["offset_ns"], -20 * MS);
    for rank in 0..4 {
        let caused = right["ranks"][rank]["caused_ns"].as_i64().expect("ns");
        near(&shifted["ranks"][rank]["caused_ns"], caused);
    }
}

/// Moves a recorded trace `seconds` later.
pub fn later(trace: &[u8], seconds: i64) -> Vec<u8> {
    ahead_by(trace, seconds * 1_000 * MS)
}

/// Moves a recorded trace later by some time, in ns.
fn ahead_by(trace: &[u8], ns: i64) -> Vec<u8> {
    let text = String::from_utf8_lossy(trace);
    let key = "\"baseTimeNanoseconds\": ";
    let (before, after) = text.split_once(key).expect("has a time base");
    let digits = after.chars().take_while(char::is_ascii_digit).count();
    let base: i64 = after[..digits].parse().expect("is a number");
    let base = base + ns;
    format!("{before}{key}{base}{}", &after[digits..]).into_bytes()
}

#[test]
fn a_rank_that_is_cut_keeps_what_it_has() {
    let tool = Tool::new();
    put(&tool, &RUN);
    let whole = draw(RUN[2]);
    tool.file("run/kineto_trace_2.json", &whole[..whole.len() * 6 / 10]);
    let cut = "the device trace of rank 2 is truncated: the missing part";
    // its first collectives would show little, and its missing ones would fix the others in place
    let left_out = "rank 2 is left out: its device trace is truncated and lacks collectives that other ranks have";
    tool.run("findings run").exits(1).notes(left_out);
    // a call that is missing in the middle would pair each later call with another one
    tool.run("ranks run")
        .exits(1)
        .notes("note: rank 2: damage: the file is truncated")
        .notes(left_out);
    let waits = |command: &str| tool.run(command).runs()[0]["ranks"].clone();
    assert_eq!(
        waits("ranks run --json"),
        waits("ranks run --ranks 0,1,3 --json")
    );
    let without = tool.run("findings run --ranks 0,1,3 -q").exits(0).stdout;
    tool.run("findings run -q")
        .exits(1)
        .says(without.trim_end());
    tool.run("replay run")
        .exits(1)
        .notes("rank 2 is left out: its device trace is truncated and lacks collectives");
    tool.run("analyze run").exits(0).says(cut);
    let said = "note: gains exclude rank 2: ";
    tool.run("analyze run").notes(said);
    tool.run("report run -o x.html").exits(0).notes(said);
    let json = tool.run("ranks run --json").exits(1).runs();
    let told = &json[0]["diagnostics"][0];
    assert_eq!(
        (&told["code"], &told["severity"], &told["ranks"]),
        (&json!("truncated"), &json!("damage"), &json!([2])),
        "{told}"
    );
    assert!(
        tool.run("ranks run --csv")
            .exits(1)
            .stderr
            .contains("note: rank 2: damage: the file is truncated")
    );
    tool.run("ranks run --strict")
        .exits(1)
        .notes("note: rank 2 is left out: run/kineto_trace_2.json: refused under --strict: damage");
    let merge = "merge run --for astra-sim --overwrite -o out";
    let merged = tool.run(&format!("{merge} --json")).exits(1).runs();
    let told = merged[0]["diagnostics"].as_array().expect("a list");
    let told: Vec<_> = told
        .iter()
        .map(|one| (&one["code"], &one["ranks"]))
        .collect();
    assert!(
        told.contains(&(&json!("rank_left_out"), &json!([2]))),
        "{told:?}"
    );
    assert_eq!(merged[0]["excluded"], json[0]["excluded"]);
    tool.run("check out").exits(0);
    // on request, the collectives that it has are joined
    let merge = format!("{merge} --allow-mismatch");
    tool.run(&merge).exits(0).says("communication, unmatched");
    let kept = sizes(&tool, "out/run.2.et").len();
    assert!((2..8).contains(&kept), "{kept}");
    assert_eq!(sizes(&tool, "out/run.0.et").len(), kept);
    for command in ["ranks", "findings", "replay"] {
        tool.run(&format!("{command} run --allow-mismatch"))
            .exits(0);
    }
    tool.run("check out").exits(0);
    tool.file("run/kineto_trace_2.json", "this is no trace");
    tool.run("merge run -o none --for astra-sim")
        .exits(1)
        .notes("failed: 2:");
    tool.run("check none").exits(0).says("4 ranks together");
}

/// PyTorch 2.4 to 2.8 write the time base after the events, so a truncated file lacks it.
#[test]
fn a_rank_that_is_cut_before_its_time_base_is_called_cut() {
    let tool = Tool::new();
    tool.shell("mkdir run && cp {pairs}/ddp2-2.4.1/* run && rm run/kineto_trace_0.json.gz")
        .exits(0);
    let whole = unpacked("ddp2-2.4.1/kineto_trace_0.json.gz");
    tool.file("run/kineto_trace_0.json", &whole[..whole.len() * 8 / 10]);
    let cause = "is left out: its file is truncated before its time base";
    for line in [
        "ranks run",
        "analyze run",
        "replay run",
        "report run -o page.html",
    ] {
        tool.run(line).exits(1).notes(cause);
    }
    let not_joined = "0 is not joined with the others: its file is truncated before its time base";
    let by_itself = "compared with other ranks; it is written separately: run.0.not_joined.et";
    tool.run("merge run -o out")
        .exits(1)
        .notes(not_joined)
        .notes(by_itself);
    let timeline = tool.run("merge run -o view --format perfetto").exits(1);
    let timeline = timeline.notes(not_joined);
    let timeline = timeline.notes("compared with other ranks; it is not written");
    timeline
        .says("not joined and not written")
        .says("1 linked, 1 not joined, 0 failed");
    tool.run("check out/run.0.not_joined.et").exits(0);
}

#[test]
fn an_unreadable_group_file_is_named() {
    let tool = Tool::new();
    tool.run("merge {pairs}/tpdp4-2.15.0 -o out").exits(0);
    tool.file("out/comm_group.json", "{\"1\": [0");
    let text = tool.run("check out").exits(1);
    for part in [
        "tpdp4-2.15.0.3.et: ok",
        "files that cannot be read (1)",
        "comm_group.json",
        "list of ranks",
    ] {
        assert!(text.stdout.contains(part), "{}", text.stdout);
    }
    // the contents of an unreadable list are unknown
    assert!(!text.stdout.contains("does not list"), "{}", text.stdout);
    tool.file("out/comm_group.json", "{\"1\": [0, 1]}");
    tool.run("check out")
        .exits(1)
        .says("a group that comm_group.json does not list")
        .says("group \"3\"");
}

#[test]
fn a_rank_that_is_linked_by_itself_names_only_groups_of_a_part() {
    let tool = Tool::new();
    for name in ["torch_et_0.json", "kineto_trace_0.json"] {
        tool.file(name, unpacked(&format!("ddp2-2.15.0/{name}.gz")));
    }
    tool.run("link --host torch_et_0.json --device kineto_trace_0.json -o x.et")
        .exits(0);
    assert!(
        attrs(&tool, "x.et").iter().all(|comm| comm.group.is_none()),
        "simulators take all ranks"
    );
}

#[test]
fn only_a_rank_that_several_device_traces_claim_has_one_that_is_not_sure() {
    let tool = Tool::new();
    let pair = pairs().join("ddp2-2.15.0");
    for (name, source) in [
        ("kineto_trace_0.json.gz", "kineto_trace_0.json.gz"),
        ("torch_et_1.json.gz", "torch_et_1.json.gz"),
        ("torch_et_2.json.gz", "torch_et_0.json.gz"),
        ("kineto_trace_2.json.gz", "kineto_trace_0.json.gz"),
        ("device_2.json.gz", "kineto_trace_1.json.gz"),
    ] {
        let trace = std::fs::read(pair.join(source)).expect("a trace");
        tool.file(&format!("run/{name}"), trace);
    }
    let json = tool.run("ranks run --json").exits(1).runs();
    let message = |label: &str| {
        let excluded = json[0]["excluded"].as_array().expect("a list");
        let of_rank = excluded.iter().find(|one| one["label"] == label);
        of_rank.expect("is excluded")["message"].to_string()
    };
    // the note on rank 2 does not cover rank 1
    let missing = message("1");
    assert!(
        missing.contains("no device trace of the same rank"),
        "{missing}"
    );
    let unsure = message("2");
    assert!(unsure.contains("is unclear"), "{unsure}");
}

#[test]
fn check_reports_the_other_files_where_one_cannot_be_read() {
    let tool = Tool::new();
    tool.run("merge {pairs}/ddp2-2.15.0 -o out").exits(0);
    tool.file("garbage.et", "no trace at all");
    let good = "out/ddp2-2.15.0.0.et";
    let text = tool
        .run(&format!("check {good} garbage.et missing.et"))
        .exits(1);
    for part in [
        "ddp2-2.15.0.0.et: ok",
        "garbage.et: faults, not read",
        "missing.et: faults, not read",
    ] {
        assert!(text.stdout.contains(part), "{}", text.stdout);
    }
    let json = tool
        .run(&format!("check {good} garbage.et --json"))
        .exits(1)
        .files();
    assert_eq!(json[0]["ok"], true);
    assert_eq!(json[1]["ok"], false);
    assert_eq!(json[1]["findings"][0]["kind"], "unreadable");
    tool.run("check garbage.et missing.et")
        .exits(2)
        .complains(&["none of the 2 files can be read", "garbage.et"]);
}

#[test]
fn ranks_are_as_busy_as_analyze_says() {
    let tool = Tool::new();
    for drawn in RUN {
        tool.file(&format!("kineto_trace_{}.json", drawn.rank), draw(drawn));
    }
    let ranks = tool.run("ranks . --json").exits(0).runs();
    let analyzed = tool.run("analyze . --json").exits(0).runs();
    let shares = |list: &Value| -> Vec<Value> {
        let ranks = list.as_array().expect("ranks").iter();
        ranks.map(|rank| rank["busy_share"].clone()).collect()
    };
    let of_analyze = analyzed[0]["ranks"].as_array().expect("ranks").iter();
    let of_analyze: Vec<Value> = of_analyze
        .map(|rank| rank["utilization"][0]["busy_share"].clone())
        .collect();
    assert_eq!(shares(&ranks[0]["utilization"]), of_analyze);
    assert!(of_analyze[0].as_f64() > Some(0.0), "{of_analyze:?}");
    tool.run("ranks .")
        .exits(0)
        .says("device works: computes, copies or transfers");
}

/// Four ranks on one machine; rank 2 comes to all eight all-reduces 300 us later than the others,
/// and all end 50 us after it.
#[test]
fn a_device_that_waits_for_a_late_rank_does_not_work() {
    let tool = Tool::new();
    for drawn in RUN {
        let drawn = Drawn {
            ahead_ns: 0,
            ..drawn
        };
        tool.file(&format!("kineto_trace_{}.json", drawn.rank), draw(drawn));
    }
    let json = tool.run("ranks . --json").exits(0).runs();
    let utilization = json[0]["utilization"].as_array().expect("ranks");
    for (rank, own) in (0..).zip(utilization) {
        let arrivals = (0..8).map(|round| match rank {
            2 => 400_000,
            rank => 100_000 + 1_000 * (rank * 7 + round * 3i64).rem_euclid(20),
        });
        let waits: i64 = arrivals.map(|arrival| 400_000 - arrival).sum();
        assert_eq!(own["waiting_ns"], waits, "rank {rank}");
        let works = own["busy_ns"].as_i64().expect("ns") - waits;
        assert_eq!(works, 8 * 50_000, "rank {rank}: {own}");
        let share = own["working_share"].as_f64().expect("a share");
        let whole = own["whole_ns"].as_f64().expect("ns");
        assert!((share - works as f64 / whole).abs() < 1e-12, "{own}");
    }
    let text = tool.run("ranks .").exits(0);
    let text = text.says("device waits: only waits in collectives for later ranks");
    let late = text.stdout.lines().find(|line| line.starts_with("  2  "));
    assert!(
        late.is_some_and(|line| line.ends_with(" 0.0 %")),
        "{}",
        text.stdout
    );
    // a single trace cannot distinguish a transfer from a wait
    tool.run("diff kineto_trace_0.json kineto_trace_2.json")
        .exits(0)
        .says(
            "devices compute or copy 0.0 % -> 0.0 % (+0.0 points) of the time; with communication",
        );
}

/// Whoever reads some ranks learns that the others may be what they wait for.
#[test]
fn the_answer_of_some_ranks_says_that_it_is_of_them_alone() {
    let tool = Tool::new();
    let run = crate::tool::pairs().join("tpdp4-2.15.0");
    for command in ["ranks", "findings"] {
        let line = format!("{command} {}", run.display());
        tool.run(&format!("{line} --ranks 0-1"))
            .exits(0)
            .notes("--ranks leaves out rank 2");
        let whole = tool.run(&line).exits(0);
        assert!(!whole.stderr.contains("leaves out"), "{}", whole.shown());
    }
    tool.run(&format!("ranks {} --ranks 1", run.display()))
        .exits(0)
        .says("only one rank; pass the folder");
}

#[test]
fn steps_that_no_trace_has_are_one_error_in_all_commands() {
    let tool = Tool::new();
    for command in ["ranks", "findings", "analyze", "top", "replay"] {
        tool.run(&format!("{command} {{pairs}}/ddp2-2.15.0 --steps 900"))
            .exits(2)
            .complains(&[
                "none of 2 traces can be used",
                "--steps 900 selects nothing",
            ]);
    }
}
