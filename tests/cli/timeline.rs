//! Perfetto's own format, and all ranks of a run in one file. `cargo dev perfetto` tests that
//! Perfetto reads them.

use crate::ranks::{RUN, put};
use crate::tool::{Tool, unpacked};
use etlink_report::perfetto::schema::{InternedString, Trace, track_event::Type};
use flate2::read::MultiGzDecoder;
use prost::Message;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

const TPDP: &str = "merge {pairs}/tpdp4-2.15.0";

/// A range of a trace: process, name, start, duration and arrows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    process: String,
    name: String,
    start: u64,
    duration: u64,
    flows: Vec<u64>,
}

#[derive(Debug, Default)]
struct Found {
    processes: Vec<String>,
    ranges: Vec<Range>,
    unix_ns: u64,
    metadata: BTreeMap<String, String>,
}

impl Found {
    /// Returns the two ranges of each arrow, the earlier first.
    fn arrows(&self) -> BTreeMap<u64, [&Range; 2]> {
        let mut ends: BTreeMap<u64, Vec<&Range>> = BTreeMap::new();
        self.ranges.iter().for_each(|range| {
            range
                .flows
                .iter()
                .for_each(|id| ends.entry(*id).or_default().push(range))
        });
        let pair = |mut ranges: Vec<_>| {
            ranges.sort_by_key(|range: &&Range| range.start);
            ranges.try_into().expect("two ends")
        };
        ends.into_iter()
            .map(|(id, ranges)| (id, pair(ranges)))
            .collect()
    }

    fn between_ranks(&self) -> Vec<[&Range; 2]> {
        self.arrows()
            .into_values()
            .filter(|[from, to]| rank(from) != rank(to))
            .collect()
    }
}

/// Extracts `rank 3` from `rank 3 · device 0`.
fn rank(range: &Range) -> &str {
    range.process.split(" · ").next().unwrap_or_default()
}

fn inflated(bytes: &[u8]) -> Vec<u8> {
    let mut plain = vec![];
    MultiGzDecoder::new(bytes)
        .read_to_end(&mut plain)
        .expect("unpacks");
    plain
}

fn read(bytes: &[u8]) -> Found {
    let mut found = Found::default();
    let [mut ranks, mut processes] = [BTreeMap::new(), BTreeMap::new()];
    let mut tracks = BTreeMap::new();
    let mut names: BTreeMap<(u32, u64), String> = BTreeMap::new();
    for packet in Trace::decode(bytes).expect("packets").packet {
        let sequence = packet.trusted_packet_sequence_id();
        found.unix_ns = packet
            .clock_snapshot
            .map_or(found.unix_ns, |snapshot| snapshot.clocks[1].timestamp());
        let metadata = packet
            .chrome_events
            .into_iter()
            .flat_map(|events| events.metadata);
        found
            .metadata
            .extend(metadata.map(|one| (one.name().to_owned(), one.string_value().to_owned())));
        for InternedString { iid, name } in packet
            .interned_data
            .into_iter()
            .flat_map(|data| data.event_names)
        {
            names.insert((sequence, iid.expect("a number")), name.expect("a name"));
        }
        if let Some(track) = packet.track_descriptor {
            let (uuid, parent) = (track.uuid(), track.parent_uuid());
            // ranks are above processes, and processes above threads, streams and counters
            match processes.get(&parent) {
                Some(_) => {
                    let before = tracks.insert(uuid, parent);
                    assert!(before.is_none(), "two tracks are {uuid}");
                }
                None if track.parent_uuid.is_none() => {
                    let words: Vec<&str> = track.name().split_whitespace().collect();
                    let before = ranks.insert(uuid, words.join(" "));
                    assert!(before.is_none(), "two ranks are {uuid}");
                }
                None => {
                    let name = match &ranks[&parent][..] {
                        "trace" => track.name().to_owned(),
                        rank => format!("{rank} · {}", track.name()),
                    };
                    found.processes.push(name.clone());
                    let before = processes.insert(uuid, name);
                    assert!(before.is_none(), "two processes are {uuid}");
                }
            }
        }
        let Some(event) = packet.track_event else {
            continue;
        };
        let at = packet.timestamp.expect("a time");
        if matches!(event.r#type(), Type::SliceBegin | Type::Instant) {
            let process = processes[&tracks[&event.track_uuid()]].clone();
            let name = names[&(sequence, event.name_iid())].clone();
            found.ranges.push(Range {
                process,
                name,
                start: at,
                duration: 0,
                flows: event.flow_ids,
            });
        } else if event.r#type() == Type::SliceEnd
            && let Some(range) = found.ranges.last_mut()
        {
            range.duration = at - range.start;
        }
    }
    found
}

fn timeline(tool: &Tool, folder: &str) -> Found {
    read(&inflated(
        &tool.read(&format!("{folder}/timeline.pftrace.gz")),
    ))
}

/// Counts ranges and arrows of the JSON timeline.
fn json_counts(tool: &Tool, folder: &str) -> (usize, usize, Value) {
    let bytes = inflated(&tool.read(&format!("{folder}/timeline.trace.json.gz")));
    let document: Value = serde_json::from_slice(&bytes).expect("JSON");
    let of = |phase: &str| {
        document["traceEvents"]
            .as_array()
            .expect("events")
            .iter()
            .filter(|event| event["ph"] == phase)
            .count()
    };
    assert_eq!(of("s"), of("f"));
    (of("X") + of("i"), of("s"), document["otherData"].clone())
}

#[test]
fn link_and_replay_write_it() {
    const MLP: &str = "--host {pairs}/mlp-2.15.0/torch_et_0.json.gz \
        {pairs}/mlp-2.15.0/kineto_trace_0.json.gz";
    let tool = Tool::new();
    let ran = tool
        .run(&format!("link {MLP} -o x.pftrace --json"))
        .exits(0)
        .json();
    let found = read(&tool.read("x.pftrace"));
    let (path, rest): (Vec<&Range>, Vec<&Range>) = found
        .ranges
        .iter()
        .partition(|range| range.process == "critical path");
    // the ops, the profiler's own range, two instants
    assert_eq!((rest.len(), &ran["shown"]["slices"]), (399, &399.into()));
    let replayed = tool
        .run(&format!("replay {MLP} -o y.pftrace.gz --json"))
        .exits(0)
        .only_run();
    assert_eq!(
        replayed["figures"]["replayed_ns"],
        path.iter().map(|step| step.duration).sum::<u64>()
    );
    assert!(
        inflated(&tool.read("y.pftrace.gz")) == tool.read("x.pftrace"),
        "packed it is the same"
    );
    tool.run(&format!("link {MLP} -j 1 --format perfetto -o other"))
        .exits(0);
    assert!(
        tool.read("other") == tool.read("x.pftrace"),
        "at any thread count"
    );
    tool.run(&format!("link {MLP} -o x.pftrace"))
        .exits(2)
        .complains(&["x.pftrace", "--overwrite"]);
    tool.run(&format!("link {MLP} -o z.pftrace --latency drop"))
        .exits(2)
        .complains(&["--latency", ".et"]);
}

#[test]
fn all_ranks_are_in_one_file_and_share_nothing() {
    let tool = Tool::new();
    let ran = tool
        .run(&format!("{TPDP} -o out --format perfetto --json"))
        .exits(0)
        .json();
    let (found, told) = (timeline(&tool, "out"), &ran["runs"][0]["timeline"]);
    let names: Vec<String> = (0..4)
        .flat_map(|rank| {
            ["critical path", "python", "other events"].map(|name| format!("rank {rank} · {name}"))
        })
        .collect();
    assert_eq!(found.processes, names);
    let shown = found
        .ranges
        .iter()
        .filter(|range| !range.process.ends_with("critical path"))
        .count();
    assert_eq!(
        (told["slices"].as_u64(), told["output"].as_str()),
        (Some(shown as u64), Some("out/timeline.pftrace.gz"))
    );
    let arrows = found.arrows().len() as u64;
    assert_eq!(
        told["arrows"]
            .as_u64()
            .zip(told["between_ranks"].as_u64())
            .map(|(within, between)| within + between),
        Some(arrows)
    );
    assert_eq!(ran["ranks"][3]["output"], "out/timeline.pftrace.gz");
    assert_eq!(
        std::fs::read_dir(tool.path("out"))
            .expect("a folder")
            .count(),
        1,
        "nothing else is left there"
    );
    tool.run(&format!("{TPDP} -o json --format chrome"))
        .exits(0)
        .says("30 between ranks");
    let (ranges, arrows, about) = json_counts(&tool, "json");
    assert_eq!((ranges, arrows), (found.ranges.len(), found.arrows().len()));
    assert_eq!(
        (&about["ranks"], &about["origin_ns"]),
        (&"0, 1, 2, 3".into(), &found.unix_ns.to_string().into())
    );
    assert_eq!(found.metadata["ranks"], "0, 1, 2, 3");
}

#[test]
fn every_collective_and_message_of_the_recordings_has_its_arrows() {
    // all-reduces between two ranks: 4; 18 collectives between two and 4 between four; 24 messages
    for (case, between) in [
        ("ddp2-2.15.0", 4),
        ("tpdp4-2.15.0", 30),
        ("pipeline4-2.15.0", 24),
        ("experts2-2.15.0", 4),
        ("ddp2_gloo-2.15.0", 0),
    ] {
        let tool = Tool::new();
        let ran = tool
            .run(&format!(
                "merge {{pairs}}/{case} -o out --format perfetto --json"
            ))
            .exits(0)
            .json();
        let (found, told) = (timeline(&tool, "out"), &ran["runs"][0]["timeline"]);
        assert_eq!(
            (told["between_ranks"].as_u64(), told["gone_on"].as_u64()),
            (Some(between), Some(0)),
            "{case}"
        );
        let across = found.between_ranks();
        assert_eq!(across.len() as u64, between, "{case}");
        // in the middle of a range, after an op in it, an arrow has its own piece
        assert_eq!(
            case == "tpdp4-2.15.0",
            across.iter().any(|[from, _]| from.name == "goes on"),
            "{case}"
        );
        for [from, to] in across {
            assert!(
                ["record_param_comms", "goes on"].contains(&from.name.as_str())
                    || from.name.starts_with("gloo:"),
                "{case}: {from:?}"
            );
            // the record of the wait, if it begins when the message is on its way
            assert!(
                ["transfer", "record_param_comms"].contains(&to.name.as_str())
                    || to.name.starts_with("gloo:"),
                "{case}: {to:?}"
            );
        }
    }
}

#[test]
fn arrows_come_from_the_last_and_times_are_aligned() {
    let tool = Tool::new();
    put(&tool, &RUN);
    tool.run("merge run -o out --format perfetto")
        .exits(0)
        .says("24 between ranks");
    let found = timeline(&tool, "out");
    let across = found.between_ranks();
    assert_eq!(across.len(), 8 * 3);
    for [from, to] in &across {
        assert_eq!(
            (rank(from), to.name.as_str(), to.start),
            ("rank 2", "transfer", from.start + 1)
        );
        assert!(
            (49_000..=51_000).contains(&to.duration),
            "all end 50 us after the last came: {to:?}"
        );
    }
    let kernels: Vec<&Range> = found
        .ranges
        .iter()
        .filter(|range| range.name.starts_with("nccl") && range.process.ends_with("device 0"))
        .collect();
    assert_eq!(kernels.len(), 8 * 4);
    let mut ends: Vec<u64> = kernels
        .iter()
        .map(|kernel| kernel.start + kernel.duration)
        .collect();
    ends.sort_unstable();
    assert!(
        ends.chunks(4).all(|ends| ends[3] - ends[0] <= 2_000),
        "the ends of a collective are one instant: {ends:?}"
    );
    tool.run("merge run -o apart --format perfetto --no-align")
        .exits(0)
        .says("not drawn because the rank had continued");
    let apart = timeline(&tool, "apart");
    let starts = |found: &Found, rank: &str| {
        found
            .ranges
            .iter()
            .filter(|range| range.process.starts_with(rank))
            .map(|range| range.start)
            .min()
    };
    assert_eq!(starts(&apart, "rank 2"), Some(0), "its clock is behind");
    assert!(starts(&apart, "rank 1").is_some_and(|start| start >= 9_000_000));
    assert_eq!(apart.metadata["clock_offsets_ns"], "0, 0, 0, 0");
}

#[test]
fn threads_and_memory_change_nothing() {
    let tool = Tool::new();
    tool.run(&format!("{TPDP} -o one --format perfetto -j 1"))
        .exits(0);
    tool.run(&format!("{TPDP} -o four --format perfetto -j 4"))
        .exits(0);
    // the ranks do not fit at once, so each is linked again to be written
    tool.run(&format!(
        "{TPDP} -o little --format perfetto -j 2 --memory 22M"
    ))
    .exits(0);
    let file = |folder: &str| tool.read(&format!("{folder}/timeline.pftrace.gz"));
    assert!(file("one") == file("four") && file("one") == file("little"));
}

#[test]
fn runs_have_a_timeline_each_and_strangers_are_named() {
    let tool = Tool::new();
    put(&tool, &[RUN[0], RUN[1]]);
    tool.file(
        "run/again/kineto_trace_0.json",
        unpacked("mlp-2.15.0/kineto_trace_0.json.gz"),
    );
    tool.run("merge run -o out --format chrome").exits(0);
    assert!(
        tool.path("out/timeline.trace.json.gz").exists()
            && tool.path("out/again/timeline.trace.json.gz").exists()
    );
    assert_eq!(json_counts(&tool, "out/again").2["ranks"], "0");
    tool.run("merge run -o out --format chrome")
        .exits(2)
        .complains(&["timeline.trace.json.gz", "--overwrite"]);
    let mut stranger = RUN[3];
    stranger.rank = 5;
    put(&tool, &[stranger]);
    tool.run("merge run -o other --format chrome")
        .exits(1)
        .notes("5 is not joined with the others: the run has only 4 ranks");
    assert_eq!(json_counts(&tool, "other").2["ranks"], "0, 1");
}

#[test]
fn a_rank_that_cannot_be_read_is_named_and_the_others_are_written() {
    let tool = Tool::new();
    put(&tool, &RUN[..3]);
    tool.file("run/kineto_trace_3.json", "{\"nothing\": 1}");
    tool.run("merge run -o out --format perfetto")
        .exits(1)
        .notes("failed: 3");
    let found = timeline(&tool, "out");
    assert_eq!(found.between_ranks().len(), 8 * 2);
    assert!(
        found
            .processes
            .iter()
            .all(|name| !name.starts_with("rank 3"))
    );
}
