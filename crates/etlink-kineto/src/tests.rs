//! What the reader does with single values.

use crate::event::{Event, Kind, dims, int};
use etlink_json::{Scanner, Value};
use etlink_model::AsideKind;

fn kind(phase: &str, category: &str) -> Kind {
    let text = format!(r#""ph": "{phase}", "cat": "{category}", "name": "n"}}"#);
    let mut event = Event::default();
    event
        .read(
            &mut Scanner::new(text.as_bytes()),
            crate::ReadOptions::default(),
        )
        .expect("an event");
    event.kind
}

#[test]
fn kinds_by_category() {
    for (categories, want) in [
        ("cpu_op user_annotation Operator", Kind::Op),
        (
            "cuda_runtime cuda_driver xpu_runtime xpu_driver mtia_runtime glow_runtime privateuse1_runtime privateuse1_driver Runtime",
            Kind::Call,
        ),
        (
            "kernel Kernel mtia_ccp_events hpu_op collective_comm",
            Kind::Kernel,
        ),
        ("gpu_memcpy Memcpy", Kind::Memcpy),
        ("gpu_memset Memset", Kind::Memset),
        ("cuda_sync xpu_sync", Kind::Sync),
        ("python_function", Kind::Aside(AsideKind::Python)),
        (
            "gpu_user_annotation",
            Kind::Aside(AsideKind::DeviceAnnotation),
        ),
        ("overhead", Kind::Aside(AsideKind::Overhead)),
        (
            "cuda_event ac2g fwdbwd Trace mtia_insight cpu_instant_event",
            Kind::Other,
        ),
    ] {
        for category in categories.split(' ') {
            assert_eq!(kind("X", category), want, "{category}");
            let instant = if category == "cpu_instant_event" {
                Kind::Instant
            } else {
                Kind::Other
            };
            assert_eq!(kind("i", category), instant, "{category}");
        }
    }
}

#[test]
fn integers_in_text_and_hexadecimal() {
    for (value, want) in [
        (Value::Word(b"7"), Some(7)),
        (Value::Text(b"-7"), Some(-7)),
        (Value::Text(b"0x1f"), Some(31)),
        (Value::Text(b"default"), None),
        (Value::Word(b"1.5"), None),
        (Value::Nested(b"[1]"), None),
    ] {
        assert_eq!(int(Some(value)), want, "{value:?}");
    }
    assert_eq!(int(None), None);
}

#[test]
fn dimensions() {
    for (value, want) in [
        (Value::Nested(b"[64, 2, 1]"), [64, 2, 1]),
        (Value::Nested(b"[64]"), [64, 0, 0]),
        (Value::Nested(b"[1, 2, 3, 4]"), [1, 2, 3]),
        (Value::Nested(b"[4294967296, -1, x]"), [0, 0, 0]),
        (Value::Nested(b"[]"), [0, 0, 0]),
        (Value::Text(b"[65536, 1, 1]"), [65536, 1, 1]),
        (Value::Word(b"null"), [0, 0, 0]),
    ] {
        assert_eq!(dims(Some(value)), want, "{value:?}");
    }
}
