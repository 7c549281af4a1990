//! Damage found in real files, with what is kept and what is counted.

use crate::kineto::support::{anomalies, document, events, kernel, op, ops, read, rows};
use etlink_model::AnomalyKind::{self, NotAnObject, Repaired, Skipped, Truncated, Unfinished};
use etlink_testing::{DeviceQueue, TraceBuilder};

/// Reads ops `a` and `b` with `event` between them; returns kept ops and anomalies.
fn between(event: &str) -> (Vec<String>, Vec<(AnomalyKind, u64)>) {
    let trace = read(document(&[op("a", 1), event.to_owned(), op("b", 9)]));
    (
        ops(&trace).into_iter().map(str::to_owned).collect(),
        anomalies(&trace),
    )
}

#[test]
fn no_tail() {
    // A killed process leaves the comma after the last event.
    let text = format!("{{\"traceEvents\": [\n{},\n{},\n", op("a", 1), op("b", 2));
    let trace = read(text);
    assert_eq!(
        (ops(&trace), anomalies(&trace)),
        (vec!["a", "b"], vec![(Truncated, 1)])
    );
}

#[test]
fn a_trailing_comma() {
    let trace = read(format!(
        "{{\"traceEvents\": [\n{},\n{},\n]}}",
        op("a", 1),
        op("b", 2)
    ));
    assert_eq!((ops(&trace), anomalies(&trace)), (vec!["a", "b"], vec![]));
}

/// ```text
/// thread  step ------------------        stream 7
///           aten::é\n --                 k ====
///              launch --
/// ```
fn small() -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "step }],{ \\\" \\u00e9", 0, 100);
    let op = draw.op(main, "aten::é", 10, 40);
    draw.arg(op, "Concrete Inputs", "[\"\", \"[1, 2]\", \"}\"]");
    draw.launch(main, (20, 30), DeviceQueue::stream(7), "k", (35, 60));
    draw.kineto()
}

#[test]
fn a_cut_at_every_byte_keeps_all_whole_events() {
    let whole = small();
    let text = String::from_utf8_lossy(&whole).into_owned();
    let list = text.find("\"traceEvents\": [").expect("list") + "\"traceEvents\": [".len();
    let ends: Vec<usize> = text
        .match_indices("\n  }")
        .map(|(at, end)| at + end.len())
        .filter(|end| *end > list)
        .collect();
    let close = text.rfind("],").expect("close") + 1;
    assert_eq!(ends.len() as u64, events(&read(&whole)));
    for cut in list..whole.len() {
        let trace = read(&whole[..cut]);
        let kept = ends.iter().filter(|end| **end <= cut).count() as u64;
        assert_eq!(events(&trace), kept, "cut at {cut}");
        let in_list = anomalies(&trace)
            .into_iter()
            .filter(|(kind, _)| *kind != AnomalyKind::HeaderDamaged);
        let want = if cut < close {
            vec![(Truncated, 1)]
        } else {
            vec![]
        };
        assert_eq!(in_list.collect::<Vec<_>>(), want, "cut at {cut}");
    }
    for cut in 0..list {
        assert!(
            etlink_formats::kineto::read(
                &whole[..cut],
                etlink_formats::kineto::KinetoReadOptions::default()
            )
            .is_err(),
            "cut at {cut}"
        );
    }
}

#[test]
fn unescaped_quotes_in_a_name() {
    for name in [
        r#"say "hi" there"#,
        r#""all""#,
        r#"5" disk"#,
        r#"ends with ""#,
        r#"{"key": 1}"#,
        r#"{"key": "value"}"#,
        r#"f("x: y")"#,
        r#"a", "b" c"#,
        r#"["a", "b"]"#,
        r#"("one", "two", "three")"#,
    ] {
        assert_eq!(
            between(&op(name, 5)),
            (
                vec!["a".to_owned(), name.to_owned(), "b".to_owned()],
                vec![(Repaired, 1)]
            ),
            "{name}"
        );
    }
}

#[test]
fn unescaped_quotes_that_look_like_keys_cost_one_event_at_most() {
    // The quotes of {"a": "b", "c": 2} are ambiguous.
    let (kept, counted) = between(&op(r#"{"a": "b", "c": 2}"#, 5));
    assert_eq!(
        (
            kept.first().map(String::as_str),
            kept.last().map(String::as_str)
        ),
        (Some("a"), Some("b"))
    );
    assert!(
        counted
            .iter()
            .any(|(kind, _)| kind.severity() == etlink_model::Severity::Damage),
        "{counted:?}"
    );
}

#[test]
fn unescaped_quotes_in_arguments() {
    let event = op("n", 5).replace(
        "\"External id\": 5",
        r#""Concrete Inputs": ["", "say "hi"", "[1]"], "note": "a "b" c", "External id": 5"#,
    );
    let trace = read(document(&[op("a", 1), event, op("b", 9)]));
    assert_eq!(
        (ops(&trace), anomalies(&trace)),
        (vec!["a", "n", "b"], vec![(Repaired, 1)])
    );
    assert_eq!(trace.ops.external_id, [1, 5, 9]);
}

#[test]
fn unescaped_quotes_in_a_row_that_is_left_out() {
    let event = op(r#"<built-in method "x" of {type}>"#, 5).replace("cpu_op", "python_function");
    let (kept, counted) = between(&event);
    assert_eq!((kept.len(), counted), (2, vec![(Repaired, 1)]));
}

#[test]
fn backslashes_turned_into_slashes() {
    // sanitizeStr turns \" into /", which does not end a string.
    for (name, kept) in [
        (r#"a/"b"#, r#"a/"b"#),
        (r#"f(/"x/", 1)"#, r#"f(/"x/", 1)"#),
        ("C:/new/file", "C:/new/file"),
    ] {
        let (names, counted) = between(&op(name, 5));
        assert_eq!(names[1..].to_vec(), [kept, "b"], "{name}");
        assert_eq!(
            counted,
            if name.contains('"') {
                vec![(Repaired, 1)]
            } else {
                vec![]
            },
            "{name}"
        );
    }
}

#[test]
fn control_characters_and_invalid_utf8() {
    let mut text = document(&[op("a\u{1}\tb\nc", 1), op("NAME", 2), op("whole", 3)]).into_bytes();
    let at = memchr::memmem::find(&text, b"NAME").expect("there");
    text[at..at + 4].copy_from_slice(b"\xff\xc3z\x80");
    let trace = read(text);
    assert_eq!(
        ops(&trace),
        ["a\u{1}\tb\nc", "\u{fffd}\u{fffd}z\u{fffd}", "whole"]
    );
    assert_eq!(anomalies(&trace), []);
}

#[test]
fn bare_nan_and_inf_are_values() {
    let row = kernel(
        concat!(
            r#""memory bandwidth (GB/s)": inf, "x": -nan, "est. achieved occupancy %": nan, "#,
            r#""stream": 7, "correlation": 3"#,
        ),
        5,
    );
    let trace = read(document(&[op("a", 1), row, op("b", 9)]));
    assert_eq!(
        (ops(&trace), rows(&trace), anomalies(&trace)),
        (vec!["a", "b"], vec!["k5"], vec![])
    );
    assert_eq!(trace.rows.correlation[0].0, 3);
}

#[test]
fn of_duplicate_keys_the_last_counts() {
    let event = op("first", 5).replace("\"pid\": 1", "\"name\": \"second\", \"pid\": 1");
    assert_eq!(
        between(&event),
        (vec!["a".into(), "second".into(), "b".into()], vec![])
    );
}

#[test]
fn of_duplicate_argument_lists_the_last_counts() {
    let trace = read(
        r#"{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2,
        "args": {"External id": 1, "Sequence number": 30, "Fwd thread id": 1}, "args": {"External id": 2}}]}"#,
    );
    let found = (
        trace.ops.external_id[0],
        trace.ops.seq_id[0],
        trace.ops.fwd_thread[0],
    );
    assert_eq!(found, (2, -1, 0));
}

#[test]
fn args_missing_empty_null_or_with_empty_keys() {
    for args in [
        "",
        ", \"args\": {}",
        ", \"args\": null",
        ", \"args\": {\"\": \"\", \"\": 1}",
        ", \"args\": []",
        ", \"args\": \"\"",
    ] {
        let event = format!(
            concat!(
                r#"{{"ph": "X", "cat": "kernel", "name": "n", "pid": 2, "tid": 7, "ts": 5, "#,
                r#""dur": 1{args}}}"#,
            ),
            args = args
        );
        let trace = read(document(&[event, op("b", 9)]));
        assert_eq!(
            (rows(&trace), ops(&trace), anomalies(&trace)),
            (vec!["n"], vec!["b"], vec![]),
            "{args}"
        );
        assert_eq!(
            (trace.queues[0].device, trace.queues[0].stream),
            (2, 7),
            "{args}"
        );
    }
}

#[test]
fn args_before_the_rest() {
    let event = concat!(
        r#"{"args": {"External id": 3, "correlation": 12, "stream": 9, "device": 1}, "#,
        r#""cat": "kernel", "dur": 2, "name": "k", "ph": "X", "pid": 0, "tid": 7, "ts": 5}"#,
    );
    let python = concat!(
        r#"{"args": {"Python id": 3}, "cat": "python_function", "dur": 2, "name": "p", "#,
        r#""ph": "X", "pid": 0, "tid": 7, "ts": 5}"#,
    );
    let trace = read(document(&[
        event.to_owned(),
        python.to_owned(),
        event.to_owned(),
    ]));
    assert_eq!((rows(&trace), anomalies(&trace)), (vec!["k", "k"], vec![]));
    assert_eq!(
        (
            trace.rows.correlation[1].0,
            trace.queues[0].stream,
            trace.queues[0].device
        ),
        (12, 9, 1)
    );
}

#[test]
fn entries_that_are_no_objects() {
    for (entry, count) in [
        ("null", 1),
        ("null, null", 2),
        ("3", 1),
        ("\"text, with } and ]\"", 1),
        ("[1, {\"ph\": 2}]", 1),
    ] {
        assert_eq!(
            between(entry),
            (vec!["a".into(), "b".into()], vec![(NotAnObject, count)]),
            "{entry}"
        );
    }
}

#[test]
fn text_between_events_costs_what_it_covers() {
    for garbage in [
        "}",
        "}}",
        ":",
        "{\"ph\": \"X\"}}",
        "]x",
        "oops }, {",
        "\"x\": 1}",
        "[log] rank 3 joined",
    ] {
        let (kept, counted) = between(garbage);
        assert_eq!(kept, ["a", "b"], "{garbage}");
        assert!(
            counted
                .iter()
                .any(|(kind, _)| matches!(kind, Skipped | NotAnObject | AnomalyKind::NoTime)),
            "{garbage}: {counted:?}"
        );
    }
}

#[test]
fn a_stray_brace_in_a_large_file_costs_one_event() {
    let mut events: Vec<String> = (0..9_000).map(|at| op("n", at)).collect();
    events[100].push('}');
    let trace = read(document(&events));
    assert_eq!(
        (trace.ops.len(), anomalies(&trace)),
        (8_999, vec![(Skipped, 1)])
    );
}

#[test]
fn an_event_without_a_comma_before_it() {
    let trace = read(format!("[{} {}\n{}]", op("a", 1), op("b", 2), op("c", 3)));
    assert_eq!(
        (ops(&trace), anomalies(&trace)),
        (vec!["a", "b", "c"], vec![])
    );
}

#[test]
fn an_unclosed_string_or_object_costs_one_event() {
    for event in [
        r#"{"ph": "X", "cat": "cpu_op", "name": "open, "pid": 1}"#,
        r#"{"ph": "X", "cat": "cpu_op", "name": "n", "pid": 1, "ts": 5"#,
        r#"{"ph": "X", "cat": "cpu_op", "name": "n", "args": {"x": [1, 2}}"#,
        r#"{"ph": "X", "cat" "cpu_op", "ts": 5}"#,
    ] {
        let (kept, counted) = between(event);
        assert_eq!(kept.last().map(String::as_str), Some("b"), "{event}");
        assert_eq!(kept.first().map(String::as_str), Some("a"), "{event}");
        assert!(!counted.is_empty(), "{event}");
    }
}

#[test]
fn open_ops_are_counted() {
    let event = op("open", 5).replace(
        "\"External id\": 5",
        "\"External id\": 5, \"finished\": false",
    );
    assert_eq!(
        between(&event),
        (
            vec!["a".into(), "open".into(), "b".into()],
            vec![(Unfinished, 1)]
        )
    );
}

#[test]
fn rows_that_overlap_on_a_stream_are_all_kept() {
    let queue = DeviceQueue::stream(0);
    let mut draw = TraceBuilder::new(etlink_testing::KinetoFlavour::Rocm);
    [(0, 100), (50, 80), (50, 300)]
        .iter()
        .for_each(|&span| draw.kernel(queue, "k", span, 1));
    let trace = read(draw.kineto());
    assert_eq!(
        trace.rows.start.iter().map(|t| t.0).collect::<Vec<_>>(),
        [0, 50, 50]
    );
    assert_eq!(
        trace.rows.duration.iter().map(|d| d.0).collect::<Vec<_>>(),
        [100, 250, 30]
    );
}

#[test]
fn a_million_brackets_inside_args_cost_no_stack() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let event = op("deep", 5).replace(
        "\"External id\": 5",
        &format!("\"x\": {deep}, \"External id\": 5"),
    );
    let trace = read(document(&[op("a", 1), event, op("b", 9)]));
    assert_eq!(
        (ops(&trace), anomalies(&trace)),
        (vec!["a", "deep", "b"], vec![])
    );
    assert_eq!(trace.ops.external_id, [1, 5, 9]);
}

#[test]
fn a_million_open_brackets_cost_one_event() {
    let event = op("deep", 5).replace(
        "\"External id\": 5",
        &format!("\"x\": {}", "[".repeat(1_000_000)),
    );
    let trace = read(document(&[op("a", 1), event, op("b", 9)]));
    assert_eq!(
        (ops(&trace), anomalies(&trace)),
        (vec!["a", "b"], vec![(Skipped, 1)])
    );
}
