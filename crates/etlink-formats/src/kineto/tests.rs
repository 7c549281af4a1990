//! Tests the reader on single values.

use crate::kineto::KinetoReadOptions;
use crate::kineto::event::{EventKind, KinetoEvent, dims, int};
use etlink_json::{JsonScanner, JsonValue};
use etlink_model::{AuxiliaryKind, KeepEvents};

fn kind(phase: &str, category: &str) -> EventKind {
    let text = format!(r#""ph": "{phase}", "cat": "{category}", "name": "n"}}"#);
    let mut event = KinetoEvent::default();
    event
        .read(
            &mut JsonScanner::new(text.as_bytes()),
            KinetoReadOptions::default(),
        )
        .expect("an event");
    event.kind
}

#[test]
fn kinds_by_category() {
    for (categories, want) in [
        ("cpu_op user_annotation Operator", EventKind::Op),
        (
            "cuda_runtime cuda_driver xpu_runtime xpu_driver mtia_runtime glow_runtime \
                privateuse1_runtime privateuse1_driver Runtime",
            EventKind::Call,
        ),
        (
            "kernel Kernel mtia_ccp_events hpu_op collective_comm",
            EventKind::Kernel,
        ),
        ("gpu_memcpy Memcpy", EventKind::Memcpy),
        ("gpu_memset Memset", EventKind::Memset),
        ("cuda_sync xpu_sync", EventKind::Sync),
        (
            "python_function",
            EventKind::Auxiliary(AuxiliaryKind::Python),
        ),
        (
            "gpu_user_annotation",
            EventKind::Auxiliary(AuxiliaryKind::DeviceAnnotation),
        ),
        ("overhead", EventKind::Auxiliary(AuxiliaryKind::Overhead)),
        (
            "cuda_event ac2g fwdbwd Trace mtia_insight cpu_instant_event",
            EventKind::Other,
        ),
    ] {
        for category in categories.split(' ') {
            assert_eq!(kind("X", category), want, "{category}");
            let instant = if category == "cpu_instant_event" {
                EventKind::Instant
            } else {
                EventKind::Other
            };
            assert_eq!(kind("i", category), instant, "{category}");
        }
    }
}

#[test]
fn an_event_that_no_table_keeps_is_left_before_its_values() {
    for (keep, start) in [
        (KeepEvents::Graph, None),
        (KeepEvents::Auxiliary, Some(JsonValue::Word(b"5"))),
    ] {
        let text = br#""ph": "X", "cat": "python_function", "name": "n", "ts": 5, "dur": 1}"#;
        let options = KinetoReadOptions {
            keep,
            ..KinetoReadOptions::default()
        };
        let mut event = KinetoEvent::default();
        let read = event.read(&mut JsonScanner::new(text), options);
        assert!(read.is_ok());
        assert_eq!(event.start, start, "{keep:?}");
    }
}

/// Writers other than Kineto put the category last.
#[test]
fn arguments_before_the_category_count() {
    let text = br#""ph": "X", "args": {"correlation": 7}, "name": "n", "cat": "kernel"}"#;
    let mut event = KinetoEvent::default();
    let read = event.read(&mut JsonScanner::new(text), KinetoReadOptions::default());
    assert!(read.is_ok());
    assert_eq!(event.kind, EventKind::Kernel);
    assert_eq!(int(event.args.correlation), Some(7));
}

#[test]
fn integers_in_text_and_hexadecimal() {
    for (value, want) in [
        (JsonValue::Word(b"7"), Some(7)),
        (JsonValue::Text(b"-7"), Some(-7)),
        (JsonValue::Text(b"0x1f"), Some(31)),
        (JsonValue::Text(b"default"), None),
        (JsonValue::Word(b"1.5"), None),
        (JsonValue::Nested(b"[1]"), None),
    ] {
        assert_eq!(int(Some(value)), want, "{value:?}");
    }
    assert_eq!(int(None), None);
}

#[test]
fn dimensions() {
    for (value, want) in [
        (JsonValue::Nested(b"[64, 2, 1]"), [64, 2, 1]),
        (JsonValue::Nested(b"[64]"), [64, 0, 0]),
        (JsonValue::Nested(b"[1, 2, 3, 4]"), [1, 2, 3]),
        (JsonValue::Nested(b"[4294967296, -1, x]"), [0, 0, 0]),
        (JsonValue::Nested(b"[]"), [0, 0, 0]),
        (JsonValue::Text(b"[65536, 1, 1]"), [65536, 1, 1]),
        (JsonValue::Word(b"null"), [0, 0, 0]),
    ] {
        assert_eq!(dims(Some(value)), want, "{value:?}");
    }
}
