//! Tests large files, several threads, and other writers' layouts.

use crate::kineto::support::{anomalies, document, dump, events, op, read, read_with};
use etlink_testing::{DeviceQueue, KinetoFlavour, TraceBuilder};

/// Draws a program of `count` ops on three threads, each with a launch; over 1 MB from 3,000 ops
/// on.
fn large(flavour: KinetoFlavour, count: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::new(flavour);
    draw.origin(4_373_360_053_000_000_000);
    let threads: Vec<_> = (0..3).map(|_| draw.thread()).collect();
    for at in 0..count {
        let (thread, start) = (threads[at as usize % 3], at * 10_000);
        draw.op(
            thread,
            &format!("aten::op_{}", at % 50),
            start,
            start + 9_000,
        );
        draw.launch(
            thread,
            (start + 1_000, start + 2_000),
            DeviceQueue::stream(7 + at % 4),
            "k",
            (start + 5_000, start + 8_000),
        );
    }
    draw.kineto()
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let text = large(KinetoFlavour::Cuda, 4_000);
    assert!(text.len() > 1 << 20);
    let one = read_with(&text, 1);
    assert_eq!(
        (one.ops.len(), one.calls.len(), one.rows.len()),
        (4_000, 4_000, 4_000)
    );
    assert_eq!(anomalies(&one), []);
    for threads in [2, 4, 7] {
        assert!(
            dump(&read_with(&text, threads)) == dump(&one),
            "{threads} threads"
        );
    }
}

#[test]
fn the_size_of_reads_does_not_matter() {
    struct Short<'a>(&'a [u8], usize);
    impl std::io::Read for Short<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            self.1 = self.1 * 7 % 4_099 + 1;
            let length = to.len().min(self.1);
            std::io::Read::read(&mut self.0, &mut to[..length])
        }
    }
    let text = large(KinetoFlavour::Rocm, 2_000);
    let short = etlink_formats::kineto::read(
        Short(&text, 1),
        etlink_formats::kineto::KinetoReadOptions::default(),
    )
    .expect("reads");
    assert!(dump(&short) == dump(&read(&text)));
}

#[test]
fn elements_that_do_not_begin_as_the_first_does() {
    // json.dumps(sort_keys=True): flows begin with "bp" or "cat", the rest with "args".
    let mut events: Vec<String> =
        vec![r#"{"zz": 1, "ph": "M", "name": "process_name"}"#.to_owned()];
    for at in 0..20_000 {
        events.push(format!(
            concat!(
                r#"{{"args": {{"External id": {at}}}, "cat": "cpu_op", "dur": 1, "#,
                r#""name": "n", "ph": "X", "pid": 1, "tid": 1, "ts": {at}}}"#,
            ),
            at = at
        ));
        events.push(format!(
            concat!(
                r#"{{"bp": "e", "cat": "ac2g", "id": {at}, "name": "ac2g", "ph": "f", "pid": 1, "#,
                r#""tid": 1, "ts": {at}}}"#,
            ),
            at = at
        ));
    }
    let text = document(&events);
    let trace = read_with(text.as_bytes(), 3);
    assert_eq!(
        (trace.ops.len(), trace.events["f ac2g"], anomalies(&trace)),
        (20_000, 20_000, vec![])
    );
}

#[test]
fn an_event_larger_than_a_chunk() {
    let long = format!("[{}]", vec!["[1, 2, 3]"; 100_000].join(", "));
    let event = op("long", 5).replace(
        "\"External id\": 5",
        &format!("\"Input Dims\": {long}, \"External id\": 5"),
    );
    let list: Vec<String> = (0..3_000).map(|at| op("n", 10 + at)).collect();
    let trace = read_with(
        document(&[vec![op("a", 1), event, op("b", 9)], list].concat()).as_bytes(),
        2,
    );
    assert_eq!(
        (trace.ops.len(), trace.ops.external_id[1], anomalies(&trace)),
        (3_003, 5, vec![])
    );
}

#[test]
fn the_text_around_counts_into_the_size() {
    for flavour in [KinetoFlavour::Cuda, KinetoFlavour::Cuda2021] {
        let text = large(flavour, 10);
        assert_eq!(read(&text).bytes, text.len() as u64);
    }
}

#[test]
fn repeated_metadata_rows_are_kept_once() {
    // An MTIA file had 311,429 of them.
    let row = concat!(
        r#"{"name": "thread_name", "ph": "M", "ts": 1.000, "pid": 3, "tid": 9, "#,
        r#""args": {"name": "thread 9"}}"#,
    )
    .to_owned();
    let other = row.replace("\"thread 9\"", "\"thread 9 (python)\"");
    let process = concat!(
        r#"{"name": "process_name", "ph": "M", "ts": 1.000, "pid": "Spans", "tid": 0, "#,
        r#""args": {"name": "python"}}"#,
    )
    .to_owned();
    let trace = read(document(&[vec![row; 4_998], vec![process, other]].concat()));
    assert_eq!(
        (events(&trace), trace.threads.len(), trace.names.count()),
        (5_000, 0, 6)
    );
    let named = |name| trace.names.get(name);
    let threads: Vec<_> = trace
        .thread_names
        .iter()
        .map(|(thread, name)| (trace.label(thread.tid), named(*name)))
        .collect();
    let processes: Vec<_> = trace
        .process_names
        .iter()
        .map(|(pid, name)| (trace.label(*pid), named(*name)))
        .collect();
    assert_eq!(
        (threads, processes),
        (
            vec![("9".into(), "thread 9 (python)")],
            vec![("Spans".into(), "python")]
        )
    );
}
