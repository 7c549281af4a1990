//! Several ranks in one file.

use super::packets::{Found, Range, arrows_are_whole, in_rank_processes, of_json, read};
use super::{arrows_go_forward, tracks_nest};
use crate::perfetto::{TimelineFormat, TimelineRank, TimelineSummary, write_rank};
use etlink_link::LinkedTrace;
use etlink_link::ranks::{
    ClockDrift, RankClock, RankSummary, WaitCause, WaitCauses, align_clocks, join_ranks,
    wait_causes,
};
use etlink_model::{CommonNs, GlobalRank, UnixNs};
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, TraceBuilder};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Time 0 of the drawing by the first rank's clock, in ns of its trace.
const ZERO_NS: i64 = 50_000_000;

/// ```text
/// rank 0   op   all_reduce |=============|        starts at `arrival`, all end at 450 us
/// ```
fn rank(rank: i64, ahead_ns: i64, arrival: i64) -> LinkedTrace {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    draw.distributed(rank, 3).origin(ZERO_NS + ahead_ns);
    let main = draw.thread();
    let comms = ParamComms::new("allreduce", 0..3, rank, 100);
    draw.op(main, "aten::mm", 1_000, 3_000);
    draw.collective(main, &comms, 5_000, 20_000);
    let correlation = draw.next_correlation();
    draw.call(main, "cudaLaunchKernelExC", (6_000, 9_000), correlation);
    draw.collective_kernel(
        DeviceQueue::stream(20),
        "ncclDevKernel_AllReduce",
        (arrival, 450_000),
        correlation,
        &comms,
    );
    draw.launch(
        main,
        (30_000, 31_000),
        DeviceQueue::stream(20),
        "next",
        (450_000, 460_000),
    );
    super::linked(&draw)
}

/// Draws a run: rank 1 comes last, clocks differ, and all processes and threads have the same
/// numbers.
fn run() -> (Vec<LinkedTrace>, Vec<RankClock>, WaitCauses) {
    let traces = vec![
        rank(0, 0, 100_000),
        rank(1, 7_000_000, 300_000),
        rank(2, -3_000, 200_000),
    ];
    let facts: Vec<RankSummary> = traces
        .iter()
        .zip((0..).map(GlobalRank))
        .map(|(trace, rank)| RankSummary::from_trace(trace, rank))
        .collect();
    let join = join_ranks(&facts);
    let clocks = align_clocks(&facts, &join);
    let found = wait_causes(&facts, &join, &clocks);
    (traces, clocks, found)
}

fn written(format: TimelineFormat) -> (Vec<u8>, Vec<TimelineSummary>) {
    let (traces, clocks, found) = run();
    let mut file = format
        .begin(&[("written_by", "a test".to_owned())], 0)
        .expect("begins");
    let mut summaries = vec![];
    for (place, trace) in traces.iter().enumerate() {
        file.extend_from_slice(if place > 0 { format.between() } else { &[] });
        let origin_ns = trace.device.header.base_ns.0 + ZERO_NS;
        let name = format!("rank {place}");
        let member = TimelineRank {
            place: place as u32,
            of: 3,
            name: &name,
            clock: clocks[place],
            origin_ns: CommonNs(origin_ns),
            releases: &found.of_rank[place],
        };
        summaries.push(write_rank(trace, &[], &member, format, &mut file).expect("writes"));
    }
    file.extend_from_slice(&format.end());
    (file, summaries)
}

fn both() -> [Found; 2] {
    let mut document: Value =
        serde_json::from_slice(&written(TimelineFormat::Json).0).expect("JSON");
    let Value::Array(events) = document["traceEvents"].take() else {
        panic!("no events")
    };
    tracks_nest(&events);
    let mut in_time = events.clone();
    in_time.sort_by_key(|event| super::ns(event.get("ts").unwrap_or(&Value::from(0))));
    arrows_go_forward(&in_time);
    [of_json(&events), read(&written(TimelineFormat::Protobuf).0)]
}

fn process<'f>(found: &'f Found, range: &Range) -> &'f str {
    found
        .processes
        .iter()
        .find(|(pid, ..)| *pid == range.track.0)
        .map(|(_, name, _)| name.as_str())
        .expect("named")
}

#[test]
fn both_formats_say_the_same_and_ranks_share_nothing() {
    let [json, found] = both();
    assert_eq!(json, in_rank_processes(&found));
    arrows_are_whole(&found);
    let pids: BTreeSet<u64> = found.processes.iter().map(|(pid, ..)| *pid).collect();
    assert_eq!(pids.len(), 9, "{:?}", found.processes);
    let rank_of = |range: &Range| {
        process(&found, range)
            .split(" · ")
            .next()
            .expect("a rank")
            .to_owned()
    };
    let mut flows: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for range in &found.ranges {
        range
            .flows
            .iter()
            .for_each(|id| flows.entry(*id).or_default().extend([rank_of(range)]));
    }
    let across: Vec<_> = flows
        .values()
        .filter(|ranks| ranks.len() > 1)
        .cloned()
        .collect();
    assert_eq!(
        across,
        [["rank 0", "rank 1"], ["rank 1", "rank 2"]]
            .map(|pair| BTreeSet::from(pair.map(str::to_owned)))
    );
    assert_eq!(flows.len() - across.len(), 6, "two launches per rank");
}

#[test]
fn ranks_stand_in_their_order_with_their_names() {
    let [_, found] = both();
    let mut processes = found.processes.clone();
    processes.sort_by_key(|(_, _, place)| *place);
    let names: Vec<&str> = processes.iter().map(|(_, name, _)| name.as_str()).collect();
    let of =
        |rank: &str| ["critical path", "python", "device 0"].map(|name| format!("{rank} · {name}"));
    assert_eq!(names, ["rank 0", "rank 1", "rank 2"].map(of).concat());
}

#[test]
fn who_waits_has_the_transfer_as_a_range_from_the_last_arrival_on() {
    let [_, found] = both();
    let transfers: Vec<&Range> = found
        .ranges
        .iter()
        .filter(|range| range.name == "transfer")
        .collect();
    let said: Vec<_> = transfers
        .iter()
        .map(|range| {
            (
                process(&found, range),
                range.start,
                range.duration,
                range.args["waited_ns"].clone(),
            )
        })
        .collect();
    let late = |rank, waited: i64| (rank, 300_001, 149_999, Value::from(waited));
    assert_eq!(
        said,
        [
            late("rank 0 · device 0", 200_001),
            late("rank 2 · device 0", 100_001)
        ]
    );
    for transfer in transfers {
        let kernel = found
            .ranges
            .iter()
            .find(|range| range.track == transfer.track && range.name.starts_with("nccl"))
            .expect("on its kernel's track");
        assert_eq!(kernel.start + kernel.duration, 450_000);
        let [id] = transfer.flows[..] else {
            panic!("one arrow")
        };
        let cause = found
            .ranges
            .iter()
            .find(|range| range.flows.contains(&id) && range.name != "transfer")
            .expect("a cause");
        assert_eq!(
            (process(&found, cause), cause.start),
            ("rank 1 · device 0", 300_000)
        );
    }
}

#[test]
fn a_range_that_began_later_is_what_a_message_arrives_at() {
    let trace = rank(0, 0, 100_000);
    let node = RankSummary::from_trace(&trace, GlobalRank(0)).communications[0].node;
    let origin_ns = trace.device.header.base_ns.0 + ZERO_NS;
    let at_ns = UnixNs(origin_ns + 100_000);
    let release = WaitCause {
        node,
        number: 1,
        at_ns,
        waits: true,
        message: true,
    };
    let member = TimelineRank {
        place: 0,
        of: 1,
        name: "rank 0",
        clock: RankClock::default(),
        origin_ns: CommonNs(origin_ns),
        releases: &[release],
    };
    let mut bytes = vec![];
    let summary =
        write_rank(&trace, &[], &member, TimelineFormat::Protobuf, &mut bytes).expect("writes");
    let found = read(&bytes);
    let kernel = found
        .ranges
        .iter()
        .find(|range| range.flows.contains(&1))
        .expect("an end");
    assert_eq!(
        (kernel.name.as_str(), kernel.start),
        ("ncclDevKernel_AllReduce", 100_000)
    );
    assert_eq!(summary.slices as usize, found.ranges.len());
}

#[test]
fn more_tracks_than_a_rank_can_have_are_an_error() {
    let trace = rank(0, 0, 100_000);
    let member = |of| TimelineRank {
        place: 0,
        of,
        name: "rank 0",
        clock: RankClock::default(),
        origin_ns: CommonNs(0),
        releases: &[],
    };
    let failed = write_rank(
        &trace,
        &[],
        &member(1 << 30),
        TimelineFormat::Json,
        &mut vec![],
    )
    .expect_err("does not fit");
    assert!(failed.to_string().contains("threads"), "{failed}");
    write_rank(
        &trace,
        &[],
        &member(10_000),
        TimelineFormat::Json,
        &mut vec![],
    )
    .expect("fits");
}

#[test]
fn a_clock_that_drifts_moves_all_times() {
    let trace = rank(0, 0, 100_000);
    let origin_ns = trace.device.header.base_ns.0 + ZERO_NS;
    // a tenth of a percent too slow
    let drift = Some(ClockDrift {
        ppb: 1_000_000,
        uncertainty_ppb: 0,
        applied: true,
    });
    let clock = RankClock {
        offset_ns: 2_000,
        drift,
        at_ns: UnixNs(origin_ns),
        ..RankClock::default()
    };
    for format in [TimelineFormat::Json, TimelineFormat::Protobuf] {
        let member = TimelineRank {
            place: 0,
            of: 1,
            name: "rank 0",
            clock,
            origin_ns: CommonNs(origin_ns),
            releases: &[],
        };
        let mut bytes = format.begin(&[], 0).expect("begins");
        write_rank(&trace, &[], &member, format, &mut bytes).expect("writes");
        bytes.extend_from_slice(&format.end());
        let found = match format {
            TimelineFormat::Json => of_json(
                serde_json::from_slice::<Value>(&bytes).expect("JSON")["traceEvents"]
                    .as_array()
                    .expect("events"),
            ),
            TimelineFormat::Protobuf => read(&bytes),
        };
        let kernel = found
            .ranges
            .iter()
            .find(|range| range.name.starts_with("nccl"))
            .expect("is there");
        assert_eq!((kernel.start, kernel.duration), (102_100, 350_350));
    }
}
