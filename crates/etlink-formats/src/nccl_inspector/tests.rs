use super::*;
use etlink_model::{DeviceTrace, DurationNs, UnixNs};
use proptest::prelude::*;

/// Builds a line as in version 4.0 of the format.
fn line(rank: i64, coll: &str, number: u64, bytes: u64, us: u64) -> String {
    format!(
        concat!(
            r#"{{"header":{{"id":"0x7f8c496ae9f661","comm_name":"unknown","rank":{rank},"#,
            r#""n_ranks":8,"nnodes":2}},"metadata":{{"inspector_output_format_version":"v4.0","#,
            r#""git_rev":"","rec_mechanism":"nccl_profiler_interface","#,
            r#""dump_timestamp_us":1748030377748202,"hostname":"node1","pid":4711}},"#,
            r#""coll_perf":{{"coll":"{coll}","coll_sn":{number},"coll_msg_size_bytes":{bytes},"#,
            r#""coll_exec_time_us":{us},"coll_timing_source":"kernel_gpu","#,
            r#""coll_algobw_gbs":277.210914,"coll_busbw_gbs":485.119099}}}}"#,
            "\n"
        ),
        rank = rank,
        coll = coll,
        number = number,
        bytes = bytes,
        us = us
    )
}

#[test]
fn lines_become_calls() {
    let text = line(2, "AllReduce", 1407, 1 << 34, 61_974)
        + &line(2, "AllReduce", 1408, 1 << 34, 61_000)
        + r#"{"header":{"id":"0x1","comm_name":"DP \"0\"","rank":1,"n_ranks":2,"nnodes":1},"#
        + r#""metadata":{"hostname":"node1","pid":4711},"p2p_perf":{"p2p":"Send","p2p_sn":3,"#
        + r#""p2p_peer":0,"p2p_msg_size_bytes":4096,"p2p_exec_time_us":10}}"#;
    assert!(is_inspector_log(text.as_bytes()));
    let log = read(text.as_bytes()).expect("a log");
    assert_eq!((log.calls.len(), log.communicators.len()), (3, 2));
    let first = &log.communicators[0];
    assert_eq!(
        (first.id.as_str(), first.name.as_str()),
        ("0x7f8c496ae9f661", "")
    );
    assert_eq!(
        (first.rank, first.ranks, first.nodes, first.pid),
        (2, 8, 2, 4711)
    );
    assert_eq!(log.communicators[1].name, "DP \"0\"");
    assert_eq!(log.calls.communicator, [0, 0, 1]);
    assert_eq!(log.calls.number, [1407, 1408, 3]);
    assert_eq!(log.calls.duration[0], DurationNs(61_974_000));
    assert_eq!(log.calls.bytes, [1 << 34, 1 << 34, 4096]);
    assert_eq!(log.calls.peer, [-1, -1, 0]);
    assert_eq!(log.calls.timing[0], TimingSource::KernelGpu);
    assert_eq!(log.calls.timing[2], TimingSource::Unknown);
    assert_eq!(log.calls.written[0], UnixNs(1_748_030_377_748_202_000));
    assert_eq!(log.names.get(log.calls.name[2]), "Send");
}

#[test]
fn damage_is_counted() {
    let good = line(0, "Broadcast", 1, 8, 5);
    let text = format!(
        "{good}NCCL INFO something\n\n{{\"header\": {{}}}}\n{good}{}",
        &good[..90]
    );
    let log = read(text.as_bytes()).expect("a log");
    assert_eq!(log.calls.len(), 2);
    assert_eq!(log.anomalies.count(AnomalyKind::Skipped), 2);
    assert_eq!(log.anomalies.count(AnomalyKind::Truncated), 1);
    let error = read(&b"hello\nworld\n"[..])
        .expect_err("no log")
        .to_string();
    assert!(error.contains("none of the 2 lines"), "{error}");
}

#[test]
fn a_line_without_an_end_takes_no_memory() {
    let good = line(0, "Broadcast", 1, 8, 5);
    let long = format!("{good}{{\"header\": \"{}\n{good}", "x".repeat(3 << 20));
    let log = read(long.as_bytes()).expect("a log");
    assert_eq!(
        (log.calls.len(), log.anomalies.count(AnomalyKind::Skipped)),
        (2, 1)
    );
}

/// Two communicators run on one stream, in turns.
fn shared_stream() -> (DeviceTrace, InspectorMatches) {
    let (mut events, mut text) = (vec![], String::new());
    for place in 0..16u64 {
        let kind = ["AllReduce", "AllGather"][usize::from(place % 2 == 1)];
        let (at, us) = (1_000 * place, 100 + 40 * (place * 7 % 16));
        events.push(format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_{kind}_RING_LL", "pid": 0, "tid": 20,
            "ts": {at}, "dur": {us}, "args": {{"device": 0, "stream": 20, "correlation": {place}}}}}"#
        ));
        let written = 1_748_030_377_000_000 + at + us;
        let call =
            line(0, kind, place / 2, 64, us).replace("1748030377748202", &written.to_string());
        let id = ["0xaa", "0xbb"][usize::from(place % 2 == 1)];
        text += &call.replace("0x7f8c496ae9f661", id);
    }
    let trace = format!(
        r#"{{"baseTimeNanoseconds": 1748030377000000000, "traceEvents": [{}]}}"#,
        events.join(",")
    );
    let mut trace = crate::kineto::read(trace.as_bytes(), Default::default()).expect("a trace");
    let matches = add_collectives(&mut trace, &read(text.as_bytes()).expect("a log"));
    (trace, matches)
}

#[test]
fn two_communicators_may_share_a_stream() {
    let (trace, matches) = shared_stream();
    let known = InspectorMatches {
        kernels: 16,
        described: 16,
        sized: 16,
    };
    assert_eq!(matches, known);
    for row in 0..trace.rows.len() {
        let record = trace.rows.collective[row] as usize;
        let id = trace.names.get(trace.collectives.comms_id[record]);
        assert_eq!(id, ["0xaa", "0xbb"][row % 2], "row {row}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(read(&bytes[..]));
        let good = line(0, "AllGather", 1, 8, 5);
        let log = read(&[good.as_bytes(), &bytes[..]].concat()[..]).expect("has a line");
        prop_assert!(!log.calls.is_empty());
    }
}
