//! Compares with the tables that PyTorch itself made of recorded runs (`testdata/averages`).

use etlink_analysis::top::{KeyAverage, Options, TopGroup, key_averages};
use etlink_model::DeviceTrace;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A row of PyTorch's table; times in us, sizes in bytes.
#[derive(Debug, Deserialize)]
struct Theirs {
    name: String,
    count: u64,
    self_cpu: f64,
    cpu: f64,
    self_memory: i64,
    memory: i64,
    shapes: String,
    stack: Vec<String>,
}

fn averages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/averages")
}

fn unpack(case: &str, file: &str) -> impl std::io::Read + Send + use<> {
    flate2::read::MultiGzDecoder::new(
        File::open(averages().join(case).join(file)).expect("recorded file"),
    )
}

fn device(case: &str, rank: u32) -> DeviceTrace {
    let options = etlink_formats::kineto::KinetoReadOptions {
        threads: 2,
        shapes: true,
        keep: etlink_model::KeepEvents::Auxiliary,
    };
    etlink_formats::kineto::read(
        unpack(case, &format!("kineto_trace_{rank}.json.gz")),
        options,
    )
    .expect("a trace")
}

fn theirs(case: &str, rank: u32, group: &str) -> Vec<Theirs> {
    let mut all: BTreeMap<String, Vec<Theirs>> =
        serde_json::from_reader(unpack(case, &format!("key_averages_{rank}.json.gz")))
            .expect("the profiler's table");
    all.remove(group).expect("group")
}

/// Groups rows by key. The oldest PyTorch does not separate annotations from ops; its few rows of
/// one name are distinguished by their count.
fn keyed<R>(
    rows: Vec<R>,
    key: impl Fn(&R) -> (String, String, Vec<String>, u64),
) -> BTreeMap<(String, String, Vec<String>, u64), R> {
    rows.into_iter().map(|row| (key(&row), row)).collect()
}

/// Compares the two tables; `slack` is the rounding per event, ns.
fn compare(case: &str, rank: u32, group: TopGroup, slack: i64, except: &[&str]) {
    let trace = device(case, rank);
    let word = match group {
        TopGroup::Name => "name",
        TopGroup::Shape => "shape",
        TopGroup::Stack(_) => "stack",
    };
    let shapes = |text: &str| {
        if group == TopGroup::Shape {
            text.to_owned()
        } else {
            String::new()
        }
    };
    let theirs = keyed(theirs(case, rank, word), |row| {
        (
            row.name.clone(),
            shapes(&row.shapes),
            row.stack.clone(),
            row.count,
        )
    });
    let ours: Vec<KeyAverage> = key_averages(
        &trace,
        Options {
            group,
            ..Options::default()
        },
    )
    .rows;
    let ours = keyed(ours, |row| {
        (
            row.name.clone(),
            shapes(row.shapes.as_deref().unwrap_or("")),
            row.stack.clone(),
            row.count,
        )
    });
    let (our, their): (Vec<_>, Vec<_>) = (ours.keys().collect(), theirs.keys().collect());
    assert_eq!(our, their, "{case} {rank}");
    for (key, their) in &theirs {
        let our = &ours[key];
        let ns = |us: f64| (us * 1e3).round() as i64;
        // each event is rounded, and in self times also each child
        let events = i64::try_from(key.3).expect("few");
        let near = |our: i64, their: i64, slack: i64| (our - their).abs() <= slack + 1;
        assert!(
            near(our.host_ns, ns(their.cpu), slack * events),
            "{case} {rank} {key:?}: {our:?} {their:?}"
        );
        if !except.contains(&key.0.as_str()) {
            let slack = if slack == 0 {
                0
            } else {
                slack * events * 8 + our.host_ns / 100
            };
            assert!(
                near(our.self_host_ns, ns(their.self_cpu), slack),
                "{case} {rank} {key:?}: {our:?} {their:?}"
            );
        }
        // memory at the edge of a rounded time may belong to either range
        let bytes = if slack == 0 {
            (their.memory, their.self_memory)
        } else {
            (our.host_bytes, our.self_host_bytes)
        };
        assert_eq!(
            (our.host_bytes, our.self_host_bytes),
            bytes,
            "{case} {rank} {key:?}"
        );
    }
}

#[test]
fn figures_are_those_of_pytorch() {
    for case in ["transformer-2.15.0", "open_range-2.15.0"] {
        for group in [TopGroup::Name, TopGroup::Shape, TopGroup::Stack(2)] {
            compare(case, 0, group, 0, &[]);
        }
    }
    for rank in 0..2 {
        for group in [TopGroup::Name, TopGroup::Shape, TopGroup::Stack(2)] {
            compare("ddp2_gloo-2.15.0", rank, group, 0, &[]);
        }
    }
    // torch.jit.wait suspends `forked`, which continues on another thread: the trace does not show
    // it
    for group in [TopGroup::Name, TopGroup::Shape] {
        compare("threads-2.15.0", 0, group, 0, &["forked"]);
    }
}

/// PyTorch 2.1 truncates durations to whole microseconds in its table, and starts and ends in its
/// traces.
#[test]
fn figures_of_the_oldest_are_the_same_within_its_rounding() {
    // an op and the frame that called it may begin and end in the same microsecond: their nesting
    // is lost
    for group in [TopGroup::Name, TopGroup::Shape] {
        compare("transformer-2.1.2", 0, group, 1000, &[]);
    }
}
