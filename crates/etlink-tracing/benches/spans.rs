//! Cost of a span to the program that makes it: `cargo bench -p etlink-tracing`.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "criterion's functions; a benchmark looks at the clock"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use etlink_tracing::{
    FinishedTrace, ProgramInfo, ProgramSpans, RecordedCycle, Recorder, RecorderError,
};
use std::hint::black_box;
use std::time::{Duration, Instant};
use tracing::trace_span;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Longest window in spans, so that memory does not grow with the benchmark.
const WINDOW: u64 = 50_000;

/// A layer that does nothing: the baseline cost of `tracing` and its registry.
struct Nothing;

impl<S: tracing::Subscriber> Layer<S> for Nothing {
    fn on_new_span(
        &self,
        _: &tracing::span::Attributes<'_>,
        _: &tracing::span::Id,
        _: Context<'_, S>,
    ) {
    }
}

fn plain(_: u64) {
    let _span = trace_span!("op").entered();
}

fn with_shapes(n: u64) {
    let _span = trace_span!(
        "op",
        shapes = "[[8,32],[32,64]]",
        dtypes = "f32,f32",
        seq = n
    )
    .entered();
}

fn with_printed_shapes(n: u64) {
    let _span =
        trace_span!("op", shapes = ?[[8, black_box(32)], [32, 64]], dtypes = "f32,f32", seq = n)
            .entered();
}

fn device_row(n: u64) {
    let _span = trace_span!("gemm", stream = 7, correlation = n).entered();
}

/// Measures `count` spans in separate windows, excluding their opening and closing.
fn recorded(recorders: &mut [Box<dyn Recorder>], count: u64, span: fn(u64)) -> Duration {
    let mut time = Duration::ZERO;
    for start in (0..count).step_by(WINDOW as usize) {
        recorders.iter_mut().for_each(|recorder| {
            recorder
                .prepare()
                .and_then(|()| recorder.start())
                .expect("starts")
        });
        let from = Instant::now();
        (start..count.min(start + WINDOW)).for_each(span);
        time += from.elapsed();
        recorders
            .iter_mut()
            .for_each(|recorder| recorder.stop().expect("stops"));
    }
    time
}

fn spans(c: &mut Criterion) {
    let mut group = c.benchmark_group("span");
    group.bench_function("clock, read twice", |bench| {
        bench.iter(|| (Instant::now(), Instant::now()))
    });
    tracing::subscriber::with_default(tracing_subscriber::registry().with(Nothing), || {
        group.bench_function("registry alone", |bench| bench.iter(|| plain(black_box(1))));
    });
    let spans = ProgramSpans::new(ProgramInfo::default());
    let mut recorders = spans.recorders(|_: &FinishedTrace<'_>| Ok::<(), RecorderError>(()));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(spans.layer()), || {
        group.bench_function("schedule says none", |bench| {
            bench.iter(|| with_shapes(black_box(1)))
        });
        for (name, span) in [
            ("plain", plain as fn(u64)),
            ("shapes", with_shapes),
            ("printed shapes", with_printed_shapes),
            ("device row", device_row),
        ] {
            group.bench_function(format!("both recorders, {name}"), |bench| {
                bench.iter_custom(|count| recorded(&mut recorders, count, span))
            });
        }
    });
}

/// Measures the cost of saving a closed window, with both traces discarded.
fn saving(c: &mut Criterion) {
    let spans = ProgramSpans::new(ProgramInfo::default());
    let output = |trace: &FinishedTrace<'_>| -> Result<(), RecorderError> {
        Ok(trace.write_to(&mut std::io::sink())?)
    };
    let mut recorders = spans.recorders(output);
    let cycle = RecordedCycle {
        number: 0,
        steps: 0..1,
        cut: false,
    };
    let mut group = c.benchmark_group("save");
    group
        .sample_size(20)
        .throughput(Throughput::Elements(WINDOW));
    let mut save = |count: u64| {
        let mut time = Duration::ZERO;
        for _ in 0..count {
            recorded(&mut recorders, WINDOW, with_shapes);
            let from = Instant::now();
            recorders
                .iter_mut()
                .for_each(|recorder| recorder.save(&cycle).expect("saves"));
            time += from.elapsed();
        }
        time
    };
    tracing::subscriber::with_default(tracing_subscriber::registry().with(spans.layer()), || {
        group.bench_function("both traces, shapes", |bench| bench.iter_custom(&mut save));
    });
}

criterion_group!(benches, spans, saving);
criterion_main!(benches);
