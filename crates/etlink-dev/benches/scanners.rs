//! Compares the readers' own scanner with simd-json and serde_json, on the same chunks of the same
//! events, to justify it. `cargo bench -p etlink-dev --bench scanners`.
//!
//! All read name, times and ids of every event, except for simd-json's tape, which is only built:
//! reading it costs extra.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "criterion's functions; a benchmark may stop and read files"
)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use etlink_dev::generate::TraceRepeater;
use etlink_json::{ArrayLayout, BrokenJson, ChunkReader, JsonScanner};
use serde::Deserialize;
use simd_json::Buffers;
use std::borrow::Cow;
use std::hint::black_box;
use std::path::Path;

const CHUNK_BYTES: usize = 128 << 10;

/// Returns a recorded device trace in chunks, each a list of whole events.
fn chunks() -> Vec<Vec<u8>> {
    let device = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/pairs/transformer-2.15.0/kineto_trace_0.json.gz");
    let mut text = vec![];
    TraceRepeater::open(None, Some(&device))
        .expect("testdata opens")
        .write_device(4, &mut text)
        .expect("memory takes it");
    let layout = ArrayLayout {
        array: "traceEvents",
        first_keys: &["ph"],
        chunk_bytes: CHUNK_BYTES,
    };
    let mut cutter = ChunkReader::open(&text[..], layout).expect("opens");
    let mut chunks = vec![];
    while let Some(chunk) = cutter.next(vec![]).expect("memory gives it") {
        // after the last chunk's events comes the rest of the document
        if let Some(events) = chunk.text.trim_ascii().strip_suffix(b",") {
            chunks.push([b"[", events, b"]"].concat());
        }
    }
    chunks
}

/// Inputs of the sums, so that no reader can skip them.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: usize,
    names: usize,
    ids: u64,
}

fn own(chunk: &[u8]) -> Result<Seen, BrokenJson> {
    let mut seen = Seen::default();
    let mut scanner = JsonScanner::new(chunk);
    scanner.eat(b'[');
    loop {
        while scanner.eat(b',') {}
        if scanner.eat(b']') {
            return Ok(seen);
        }
        scanner.enter()?;
        seen.events += 1;
        while let Some(key) = scanner.key()? {
            match key {
                b"name" => seen.names += scanner.value()?.text().len(),
                b"ts" | b"dur" => drop(black_box(scanner.value()?.time_ns())),
                b"args" => own_arguments(&mut scanner, &mut seen)?,
                _ => drop(scanner.value()?),
            }
        }
    }
}

fn own_arguments(scanner: &mut JsonScanner<'_>, seen: &mut Seen) -> Result<(), BrokenJson> {
    scanner.enter()?;
    while let Some(key) = scanner.key()? {
        let value = scanner.value()?;
        if matches!(key, b"External id" | b"Record function id" | b"correlation") {
            seen.ids += value.uint().unwrap_or(0);
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    ts: f64,
    dur: Option<f64>,
    args: Option<Args>,
}

#[derive(Deserialize)]
struct Args {
    #[serde(rename = "External id")]
    external_id: Option<u64>,
    #[serde(rename = "Record function id")]
    rf_id: Option<u64>,
    correlation: Option<u64>,
}

fn typed(events: &[Event<'_>]) -> Seen {
    let mut seen = Seen {
        events: events.len(),
        ..Seen::default()
    };
    for event in events {
        seen.names += event.name.len();
        black_box((event.ts, event.dur));
        let ids = event
            .args
            .iter()
            .flat_map(|args| [args.external_id, args.rf_id, args.correlation]);
        seen.ids += ids.flatten().sum::<u64>();
    }
    seen
}

fn serde_typed(chunk: &[u8]) -> Seen {
    typed(&serde_json::from_slice::<Vec<Event<'_>>>(chunk).expect("is JSON"))
}

fn scanners(c: &mut Criterion) {
    let chunks = chunks();
    let first = own(&chunks[0]).expect("is JSON");
    assert_eq!(first, serde_typed(&chunks[0]));
    let mut group = c.benchmark_group("scan");
    group.throughput(Throughput::Bytes(
        chunks.iter().map(|chunk| chunk.len() as u64).sum(),
    ));
    group.bench_function("own scanner", |bench| {
        bench.iter(|| {
            chunks
                .iter()
                .filter_map(|chunk| own(chunk).ok())
                .map(|seen| seen.ids)
                .sum::<u64>()
        })
    });
    group.bench_function("serde_json typed", |bench| {
        bench.iter(|| {
            chunks
                .iter()
                .map(|chunk| serde_typed(chunk).ids)
                .sum::<u64>()
        })
    });
    let mut buffers = Buffers::new(2 * CHUNK_BYTES);
    group.bench_function("simd-json tape", |bench| {
        // the parser writes into its input
        bench.iter_batched_ref(
            || chunks.clone(),
            |chunks| {
                chunks
                    .iter_mut()
                    .map(|chunk| {
                        simd_json::to_tape_with_buffers(chunk, &mut buffers)
                            .expect("is JSON")
                            .0
                            .len()
                    })
                    .sum::<usize>()
            },
            BatchSize::LargeInput,
        );
    });
    group.bench_function("simd-json typed", |bench| {
        bench.iter_batched_ref(
            || chunks.clone(),
            |chunks| {
                let read = |chunk: &mut Vec<u8>| {
                    typed(
                        &simd_json::serde::from_slice_with_buffers::<Vec<Event<'_>>>(
                            chunk,
                            &mut buffers,
                        )
                        .expect("is JSON"),
                    )
                    .ids
                };
                chunks.iter_mut().map(read).sum::<u64>()
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, scanners);
criterion_main!(benches);
