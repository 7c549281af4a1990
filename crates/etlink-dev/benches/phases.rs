//! Benchmarks each phase of a link separately, on one thread: `cargo bench -p etlink-dev --bench
//! phases`.
//!
//! The input is a recording of testdata, repeated until it exceeds the caches.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "criterion's functions; a benchmark may stop and read files"
)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use etlink_chakra::{WriteOptions, et, etplus};
use etlink_dev::generate::TraceRepeater;
use etlink_json::{ArrayLayout, ChunkReader};
use etlink_link::{LinkOptions, LinkedTrace};
use flate2::{Compression, bufread::MultiGzDecoder, write::GzEncoder};
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

/// Repetitions, for about 40 MB of both traces.
const TIMES: u32 = 8;

/// Texts of the traces.
struct Texts {
    host: Vec<u8>,
    device: Vec<u8>,
}

impl Texts {
    fn generate() -> Texts {
        let case =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pairs/transformer-2.15.0");
        let (host, device) = (
            case.join("torch_et_0.json.gz"),
            case.join("kineto_trace_0.json.gz"),
        );
        let recording = TraceRepeater::open(Some(&host), Some(&device)).expect("testdata opens");
        let mut texts = Texts {
            host: vec![],
            device: vec![],
        };
        recording
            .write_host(TIMES, &mut texts.host)
            .expect("memory takes it");
        recording
            .write_device(TIMES, &mut texts.device)
            .expect("memory takes it");
        texts
    }

    fn read(&self) -> (etlink_model::HostTrace, etlink_model::DeviceTrace) {
        let host = etlink_host::read(&self.host[..], etlink_host::HostReadOptions::default())
            .expect("host trace");
        let device = etlink_kineto::read(
            &self.device[..],
            etlink_kineto::KinetoReadOptions {
                threads: 1,
                shapes: false,
                keep: etlink_model::KeepEvents::Graph,
            },
        )
        .expect("device trace");
        (host, device)
    }

    fn link(&self) -> LinkedTrace {
        let (host, device) = self.read();
        etlink_link::link(Some(host), device, LinkOptions::default()).expect("links")
    }
}

fn reading(c: &mut Criterion) {
    let texts = Texts::generate();
    let mut group = c.benchmark_group("read");
    for (name, text) in [("host", &texts.host), ("device", &texts.device)] {
        let mut packed = GzEncoder::new(vec![], Compression::default());
        packed.write_all(text).expect("memory takes it");
        let packed = packed.finish().expect("memory takes it");
        assert!(
            inflate(&packed) == text.len() && cut(text) > text.len() >> 18,
            "both do all of their work"
        );
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("inflate {name}"), |bench| {
            bench.iter(|| inflate(&packed))
        });
        group.bench_function(format!("cut {name}"), |bench| bench.iter(|| cut(text)));
    }
    group.throughput(Throughput::Bytes(texts.host.len() as u64));
    group.bench_function("parse host", |bench| {
        bench.iter(|| {
            etlink_host::read(
                black_box(&texts.host[..]),
                etlink_host::HostReadOptions::default(),
            )
        });
    });
    group.throughput(Throughput::Bytes(texts.device.len() as u64));
    group.bench_function("parse device", |bench| {
        bench.iter(|| {
            etlink_kineto::read(
                black_box(&texts.device[..]),
                etlink_kineto::KinetoReadOptions {
                    threads: 1,
                    shapes: false,
                    keep: etlink_model::KeepEvents::Graph,
                },
            )
        });
    });
    group.finish();
}

fn inflate(packed: &[u8]) -> usize {
    let mut decoder = MultiGzDecoder::new(black_box(packed));
    let mut block = vec![0; 64 << 10];
    let mut total = 0;
    while let Ok(read @ 1..) = decoder.read(&mut block) {
        total += read;
    }
    total
}

fn cut(text: &[u8]) -> usize {
    let array = if text.trim_ascii_start().starts_with(b"{\n  \"schema\":") {
        "nodes"
    } else {
        "traceEvents"
    };
    let layout = ArrayLayout {
        array,
        first_keys: &[],
        chunk_bytes: 128 << 10,
    };
    let mut cutter = ChunkReader::open(black_box(text), layout).expect("opens");
    let (mut spare, mut chunks) = (vec![], 0);
    while let Some(chunk) = cutter.next(spare).expect("memory gives it") {
        (spare, chunks) = (chunk.text, chunks + 1);
    }
    chunks
}

fn linking(c: &mut Criterion) {
    let texts = Texts::generate();
    let mut group = c.benchmark_group("link");
    group.throughput(Throughput::Bytes(
        (texts.host.len() + texts.device.len()) as u64,
    ));
    group.bench_function("link", |bench| {
        let link = |(host, device)| {
            etlink_link::link(Some(host), device, LinkOptions::default()).expect("links")
        };
        bench.iter_batched(|| texts.read(), link, BatchSize::PerIteration);
    });
    group.finish();
}

fn writing(c: &mut Criterion) {
    let texts = Texts::generate();
    let trace = texts.link();
    let mut group = c.benchmark_group("write");
    group.throughput(Throughput::Elements(trace.nodes.len() as u64));
    let options = WriteOptions::default();
    group.bench_function("et", |bench| {
        bench.iter(|| et::write_et(black_box(&trace), &options, &mut std::io::sink()))
    });
    group.bench_function("et+", |bench| {
        bench.iter(|| etplus::write_etplus(black_box(&trace), &mut std::io::sink()))
    });
    group.finish();
}

fn slow() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
}

criterion_group! { name = phases; config = slow(); targets = reading, linking, writing }
criterion_main!(phases);
