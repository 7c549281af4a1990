//! Tests times that only damaged traces have.

use etlink_analysis::hta::{HtaOptions, hta_tables};
use proptest::prelude::*;

fn odd_time() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "-9223372036854775.808",
        "9223372036854775.807",
        "-1.5",
        "0",
        "7.25",
        "12.000",
        "4611686018427387.904",
        "1e15",
    ])
}

/// Kind, start, duration and correlation of an event.
type OddEvent = (u8, &'static str, &'static str, i64);

fn event_json((kind, ts, dur, correlation): &OddEvent) -> String {
    let (phase, category, name) = match kind {
        0 => ("X", "kernel", "gemm"),
        1 => ("X", "kernel", "ncclKernel_AllReduce"),
        2 => ("X", "gpu_memcpy", "Memcpy HtoD"),
        3 => ("X", "cuda_runtime", "cudaLaunchKernel"),
        4 => ("X", "user_annotation", "ProfilerStep#3"),
        5 => ("X", "user_annotation", "ProfilerStep#4"),
        _ => ("X", "cuda_sync", "Stream Sync"),
    };
    let args = format!(r#"{{"stream": 7, "correlation": {correlation}}}"#);
    let place = format!(r#""pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}"#);
    format!(
        r#"{{"ph": "{phase}", "cat": "{category}", "name": "{name}", {place}, "args": {args}}}"#
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn odd_times_do_no_harm(
        events in prop::collection::vec((0u8..7, odd_time(), odd_time(), 0i64..3), 1..12),
    ) {
        let lines: Vec<String> = events.iter().map(event_json).collect();
        let text = format!("{{\"traceEvents\": [{}]}}", lines.join(","));
        let options = etlink_formats::kineto::KinetoReadOptions {
            keep: etlink_model::KeepEvents::Auxiliary,
            ..Default::default()
        };
        let device = etlink_formats::kineto::read(text.as_bytes(), options).expect("reads");
        let linked = etlink_link::link(None, device, etlink_link::LinkOptions::default());
        let Ok(trace) = linked else { return Ok(()) };
        for nanoseconds in [false, true] {
            let options = HtaOptions { nanoseconds, ..Default::default() };
            let tables = hta_tables(trace.clone(), options);
            prop_assert_eq!(tables.temporal_breakdown.len(), 1);
        }
    }
}
