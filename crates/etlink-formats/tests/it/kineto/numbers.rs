//! Tests times as integer nanoseconds, and ids in all their spellings.

use crate::kineto::support::{anomalies, document, kernel, op, ops, read};
use etlink_model::{AnomalyKind, Correlation, TimeNs, TrackLabel};
use etlink_testing::{DeviceQueue, KinetoFlavour, TraceBuilder};

fn at(ts: &str, dur: &str) -> (Option<i64>, Option<i64>, Vec<(AnomalyKind, u64)>) {
    let event = format!(
        concat!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "n", "pid": 1, "tid": 1, "ts": {ts}, "#,
            r#""dur": {dur}}}"#,
        ),
        ts = ts,
        dur = dur
    );
    let trace = read(document(&[event]));
    (
        trace.ops.start.first().map(|t| t.0),
        trace.ops.duration.first().map(|d| d.0),
        anomalies(&trace),
    )
}

#[test]
fn times_are_exact_nanoseconds() {
    for (ts, dur, start, duration) in [
        (
            "4373360053499.048",
            "3375.165",
            4_373_360_053_499_048,
            3_375_165,
        ),
        ("1694128199026153", "12", 1_694_128_199_026_153_000, 12_000),
        (
            "1694128199026153.001",
            "0.001",
            1_694_128_199_026_153_001,
            1,
        ),
        ("9007199254740.993", "0.000", 9_007_199_254_740_993, 0),
        ("\"5.250\"", "\"1\"", 5_250, 1_000),
        ("1.5e3", "2E-3", 1_500_000, 2),
        ("-3.500", "1.000", -3_500, 1_000),
    ] {
        assert_eq!(
            at(ts, dur),
            (Some(start), Some(duration), vec![]),
            "{ts} {dur}"
        );
    }
}

#[test]
fn broken_and_negative_durations_are_zero_and_counted() {
    for (dur, kind) in [
        ("-1.-500", AnomalyKind::NegativeDuration),
        ("-0.500", AnomalyKind::NegativeDuration),
        ("nan", AnomalyKind::BadNumber),
        ("-nan", AnomalyKind::BadNumber),
        ("inf", AnomalyKind::BadNumber),
        ("null", AnomalyKind::BadNumber),
        ("\"\"", AnomalyKind::BadNumber),
    ] {
        assert_eq!(
            at("7.000", dur),
            (Some(7_000), Some(0), vec![(kind, 1)]),
            "{dur}"
        );
    }
}

#[test]
fn a_time_before_the_origin_is_read_as_kineto_prints_it() {
    for (ts, ns) in [("-1.-500", -1_500), ("0.-01", -1), ("0.-20", -20)] {
        assert_eq!(at(ts, "1"), (Some(ns), Some(1_000), vec![]), "{ts}");
    }
}

#[test]
fn an_event_without_a_time_is_left_out() {
    let event = r#"{"ph": "X", "cat": "cpu_op", "name": "n", "pid": 1, "tid": 1, "dur": 1}"#;
    let trace = read(document(&[event.to_owned(), op("whole", 3)]));
    assert_eq!(
        (ops(&trace), anomalies(&trace)),
        (vec!["whole"], vec![(AnomalyKind::NoTime, 1)])
    );
}

#[test]
fn a_start_that_is_no_number_is_no_time() {
    // At 0 the event would stretch the window by the age of the machine.
    for ts in ["nan", "null", "\"\"", "1.-500"] {
        assert_eq!(
            at(ts, "1"),
            (None, None, vec![(AnomalyKind::NoTime, 1)]),
            "{ts}"
        );
    }
    for (ts, dur) in [
        ("9223372036854775.808", "1"),
        ("-99999999999999999999", "1"),
        ("1e99", "1"),
        // Differences of such times would overflow.
        ("9200000000000000", "1"),
        ("-9200000000000000", "1"),
        ("1", "9200000000000000"),
    ] {
        assert_eq!(
            at(ts, dur),
            (None, None, vec![(AnomalyKind::TimeOutOfRange, 1)]),
            "{ts} {dur}"
        );
    }
}

#[test]
fn an_event_without_a_duration_takes_no_time() {
    let trace = read(document(&[
        r#"{"ph": "X", "cat": "cpu_op", "name": "n", "pid": 1, "tid": 1, "ts": 1}"#.to_owned(),
    ]));
    assert_eq!((trace.ops.duration[0].0, anomalies(&trace)), (0, vec![]));
}

#[test]
fn pid_and_tid_in_every_spelling() {
    let event = |ids: &str, at: u32| {
        format!(r#"{{"ph": "X", "cat": "cpu_op", "name": "n", {ids}"ts": {at}, "dur": 1}}"#)
    };
    let spellings = [
        r#""pid": 9, "tid": 8, "#,
        r#""pid": -1, "tid": -5, "#,
        r#""pid": "9", "tid": "8", "#,
        r#""pid": "Spans", "tid": "", "#,
        "",
    ];
    let events: Vec<String> = spellings
        .iter()
        .zip(0..)
        .map(|(ids, at)| event(ids, at))
        .collect();
    let trace = read(document(&events));
    let seen: Vec<(String, String)> = trace
        .ops
        .thread
        .iter()
        .map(|t| trace.threads[t.index()])
        .map(|t| (trace.label(t.pid), trace.label(t.tid)))
        .collect();
    let want = [
        ("9", "8"),
        ("-1", "-5"),
        ("9", "8"),
        ("Spans", ""),
        ("0", "0"),
    ];
    assert_eq!(
        seen,
        want.map(|(pid, tid)| (pid.to_owned(), tid.to_owned()))
    );
    assert_eq!(trace.threads.len(), 4);
    assert_eq!(
        trace.threads[2].pid,
        TrackLabel::Text(trace.names.find("Spans").expect("name"))
    );
    assert_eq!(anomalies(&trace), [(AnomalyKind::NoThread, 1)]);
    for half in [r#""pid": 9, "#, r#""tid": 8, "#] {
        let trace = read(document(&[event(half, 1)]));
        assert_eq!(anomalies(&trace), [(AnomalyKind::NoThread, 1)], "{half}");
    }
}

/// Tracers write a correlation of 0 for events without one.
#[test]
fn a_correlation_of_zero_is_none() {
    let trace = read(document(&[kernel(r#""correlation": 0"#, 1), kernel("", 2)]));
    assert_eq!(trace.rows.correlation, [Correlation::NONE; 2]);
}

#[test]
fn numbers_that_overflowed_32_bits_still_join() {
    let call = concat!(
        r#"{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "#,
        r#""tid": 1, "ts": 1, "dur": 1, "args": {"External id": -2147483000, "#,
        r#""correlation": -2147483648}}"#,
    );
    let row = kernel(
        concat!(
            r#""External id": -2147483000, "device": 0, "context": 1, "stream": 7, "#,
            r#""correlation": -2147483648"#,
        ),
        5,
    );
    let trace = read(document(&[call.to_owned(), row]));
    assert_eq!(
        (trace.calls.correlation[0], trace.rows.correlation[0]),
        (Correlation(-2_147_483_648), Correlation(-2_147_483_648))
    );
    assert_eq!(
        (trace.calls.external_id[0], trace.rows.external_id[0]),
        (-2_147_483_000, -2_147_483_000)
    );
}

#[test]
fn rocm_queues_and_correlations_as_text() {
    let row = kernel(
        concat!(
            r#""device": "0x2", "stream": "0x0", "correlation": "812", "grid": "[141, 1, "#,
            r#"1]", "block": [256]"#,
        ),
        5,
    );
    let trace = read(document(&[row]));
    assert_eq!(
        (
            trace.queues[0].device,
            trace.queues[0].stream,
            trace.rows.correlation[0]
        ),
        (2, 0, Correlation(812))
    );
    assert_eq!(
        (trace.rows.grid[0], trace.rows.block[0]),
        ([141, 1, 1], [256, 0, 0])
    );
}

#[test]
fn without_device_and_stream_a_row_s_pid_and_tid_are_its_queue() {
    let trace = read(document(&[kernel("", 5)]));
    assert_eq!(
        (
            trace.queues[0].device,
            trace.queues[0].stream,
            trace.rows.correlation[0]
        ),
        (0, 7, Correlation::NONE)
    );
}

#[test]
fn the_2021_format_has_whole_microseconds() {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda2021);
    let main = draw.thread();
    draw.origin(1_665_536_373_000_000_000);
    draw.launch(
        main,
        (5_999, 8_000),
        DeviceQueue::stream(7),
        "k",
        (12_345, 30_999),
    );
    let trace = read(draw.kineto());
    assert_eq!(trace.calls.start[0], TimeNs(1_665_536_373_000_005_000));
    assert_eq!(
        (trace.rows.start[0], trace.rows.duration[0].0),
        (TimeNs(1_665_536_373_000_012_000), 18_000)
    );
    assert_eq!((trace.header.base_ns.0, anomalies(&trace)), (0, vec![]));
}
