use super::*;
use etlink_link::{LinkReport, MatchRule};
use etlink_model::Severity;

fn recording(case: &str) -> TraceRepeater {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/pairs")
        .join(case);
    TraceRepeater::open(
        Some(&folder.join("torch_et_0.json.gz")),
        Some(&folder.join("kineto_trace_0.json.gz")),
    )
    .expect("opens")
}

fn texts(recording: &TraceRepeater, times: u32) -> (Vec<u8>, Vec<u8>) {
    let (mut host, mut device) = (vec![], vec![]);
    recording.write_host(times, &mut host).expect("writes");
    recording.write_device(times, &mut device).expect("writes");
    (host, device)
}

fn report(recording: &TraceRepeater, times: u32) -> LinkReport {
    let (host, device) = texts(recording, times);
    for text in [&host, &device] {
        serde_json::from_slice::<serde::de::IgnoredAny>(text).expect("is JSON");
    }
    let host =
        etlink_host::read(&host[..], etlink_host::HostReadOptions::default()).expect("host trace");
    let device = etlink_kineto::read(&device[..], etlink_kineto::KinetoReadOptions::default())
        .expect("device trace");
    etlink_link::link(Some(host), device, etlink_link::LinkOptions::default())
        .expect("links")
        .report
}

#[test]
fn one_time_is_the_recording() {
    let recording = recording("mlp-2.15.0");
    let (host, device) = texts(&recording, 1);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pairs/mlp-2.15.0");
    assert!(host == read_unpacked(&folder.join("torch_et_0.json.gz")).expect("reads"));
    assert!(device == read_unpacked(&folder.join("kineto_trace_0.json.gz")).expect("reads"));
}

#[test]
fn every_repetition_matches_by_id() {
    for case in ["mlp-2.15.0", "transformer-2.15.0", "ddp2-2.15.0"] {
        let recording = recording(case);
        let (one, three) = (report(&recording, 1), report(&recording, 3));
        assert_eq!(
            three.matched[&MatchRule::Id],
            3 * one.matched[&MatchRule::Id],
            "{case}"
        );
        assert_eq!(three.cpu_ops, 3 * one.cpu_ops, "{case}");
        assert_eq!(
            three.unmatched.device_not_in_host,
            3 * one.unmatched.device_not_in_host,
            "{case}"
        );
        assert!(
            !three.anomalies.any(Severity::Damage),
            "{case}: {:?}",
            three.anomalies
        );
        for (kind, anomaly) in three.anomalies.iter() {
            assert!(
                anomaly.count <= 3 * one.anomalies.count(kind),
                "{case}: {kind:?}"
            );
        }
    }
}

#[test]
fn traces_without_ids_match_in_their_order() {
    for case in ["mlp-2.3.1", "mlp-2.1.2", "transformer-2.3.1"] {
        let recording = recording(case);
        let (one, two) = (report(&recording, 1), report(&recording, 2));
        assert_eq!(
            two.matched[&MatchRule::Order],
            2 * one.matched[&MatchRule::Order],
            "{case}"
        );
    }
}

#[test]
fn ids_and_times_move_on() {
    let device = br#"{"traceEvents": [
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 1,
   "tid": 1, "ts": 5.250, "dur": 2000, "args": {"External id": 7, "Ev Idx": 0}},
  {"ph": "s", "id": 9, "cat": "ac2g", "ts": "6",
   "args": {"correlation": 9, "Sequence number": -1, "Record function id": 0}}
]}"#;
    let recording = TraceRepeater::new(None, Some(device.to_vec())).expect("opens");
    let (host, text) = texts(&recording, 2);
    assert!(host.is_empty());
    let text = String::from_utf8(text).expect("is UTF-8");
    let second = text.rfind(r#"{"ph": "X""#).expect("second time");
    let want = r#"{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "pid": 1,
   "tid": 1, "ts": 4005.250, "dur": 2000, "args": {"External id": 15, "Ev Idx": 1}},
  {"ph": "s", "id": 19, "cat": "ac2g", "ts": "4006.000",
   "args": {"correlation": 19, "Sequence number": -1, "Record function id": 0}}
]}"#;
    assert_eq!(&text[second..], want);
}

#[test]
fn damaged_traces_are_refused() {
    let error = TraceRepeater::new(
        None,
        Some(br#"{"traceEvents": [{"ph": "X" oops}]}"#.to_vec()),
    )
    .expect_err("refuses");
    assert_eq!(
        format!("{error:#}"),
        "device trace: only undamaged traces can be repeated: expected `,` or `}` at line 1 column 29"
    );
}
