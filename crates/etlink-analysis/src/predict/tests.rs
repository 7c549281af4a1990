//! Shapes predicted for recordings of the same programs with other sizes.

use crate::predict::sizes::SizeRequest;
use crate::predict::walk::{find_sources, walk_ops};
use etlink_formats::host::HostReadOptions;
use etlink_model::HostTrace;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

#[allow(clippy::disallowed_methods, reason = "a test")]
fn read(path: &Path) -> HostTrace {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let plain = zstd::Decoder::new(file).expect("zstd");
    etlink_formats::host::read(plain, HostReadOptions::default()).expect("a host trace")
}

/// Result of comparing predicted sizes of inputs with recorded ones.
#[derive(Debug, Default)]
struct Compared {
    dims: u64,
    wrong: u64,
    /// Wrong dimensions and an example by op.
    by_op: BTreeMap<String, (u64, String)>,
}

/// Pairs of rows with equal names, in order; skips ops that only one trace has.
fn aligned(one: &HostTrace, other: &HostTrace) -> Vec<(usize, usize)> {
    const LOOK: usize = 400;
    const SAME: usize = 8;
    let names = |host: &HostTrace| -> Vec<String> {
        let names = host.nodes.name.iter();
        names.map(|name| host.names.get(*name).to_owned()).collect()
    };
    let (left, right) = (names(one), names(other));
    let (mut i, mut j, mut pairs) = (0, 0, vec![]);
    while i < left.len() && j < right.len() {
        if left[i] == right[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let window = |names: &[String], at: usize| names.get(at..at + SAME).map(<[String]>::to_vec);
        let skip = (1..LOOK).find_map(|skip| {
            if window(&left, i + skip).is_some() && window(&left, i + skip) == window(&right, j) {
                Some((skip, 0))
            } else if window(&left, i).is_some() && window(&left, i) == window(&right, j + skip) {
                Some((0, skip))
            } else {
                None
            }
        });
        let Some((left_skip, right_skip)) = skip else {
            break;
        };
        (i, j) = (i + left_skip, j + right_skip);
    }
    pairs
}

fn compare(base: &HostTrace, changed: &HostTrace, request: &str) -> Compared {
    let request: SizeRequest = request.parse().expect("a request");
    let sources = find_sources(base);
    let (mut sizes, _) = sources.sizes(&request);
    request.apply_to(&mut sizes).expect("known sizes");
    let mut predicted: Vec<Option<Vec<Vec<u64>>>> = vec![None; base.nodes.len()];
    walk_ops(base, &sizes, &sources, &mut |ended| {
        if ended.call.name.is_empty() {
            return;
        }
        let shapes = ended.call.shapes.iter();
        let shapes = shapes.map(|shape| shape.iter().map(|dim| dim.changed(&sizes)).collect());
        predicted[ended.call.node] = Some(shapes.collect());
    });
    let mut compared = Compared::default();
    for (node, other) in aligned(base, changed) {
        let Some(shapes) = &predicted[node] else {
            continue;
        };
        let recorded =
            crate::predict::arguments::Arguments::read(changed, &changed.nodes.inputs[other]);
        if recorded.tensors.len() != shapes.len() {
            continue;
        }
        for (shape, tensor) in shapes.iter().zip(&recorded.tensors) {
            if shape.len() != tensor.sizes.len() {
                continue;
            }
            let wrong = shape
                .iter()
                .zip(&tensor.sizes)
                .filter(|(a, b)| a != b)
                .count() as u64;
            compared.dims += shape.len() as u64;
            compared.wrong += wrong;
            if wrong > 0 {
                let name = base.names.get(base.nodes.name[node]).to_owned();
                let example = format!(
                    "node {}: {shape:?}, not {:?}",
                    base.nodes.id[node], tensor.sizes
                );
                let entry = compared.by_op.entry(name).or_insert((0, example));
                entry.0 += wrong;
            }
        }
    }
    compared
}

/// Compares a recording of `testdata/sizes` with the base of its program.
fn compare_recordings(program: &str, changed: &str, request: &str) -> Compared {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sizes");
    let path = |name: &str| folder.join(program).join(format!("{name}.json.zst"));
    compare(&read(&path("base")), &read(&path(changed)), request)
}

#[test]
fn shapes_of_other_sizes_are_those_recorded_with_them() {
    // In each program the batch, the heads or groups, and others have the same size.
    for (program, changed, request, least) in [
        ("qwen2", "batch", "batch=6", 10_000),
        ("qwen2", "seq", "seq=48", 10_000),
        ("unet", "batch", "batch=7", 3_000),
    ] {
        let compared = compare_recordings(program, changed, request);
        assert!(compared.dims > least, "{program}: {compared:?}");
        // The parts of a product are in another order than in the other recording.
        let wrong = compared.wrong as f64 / compared.dims as f64;
        assert!(wrong < 0.000_5, "{program} {request}: {compared:?}");
    }
}

#[test]
fn the_same_sizes_change_nothing() {
    for program in ["qwen2", "unet"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sizes");
        let host = read(&folder.join(program).join("base.json.zst"));
        let request = "batch=4".parse().expect("a request");
        let prediction = crate::predict::predict_sizes(&host, &request).expect("a prediction");
        for (node, work) in prediction.work.iter().enumerate() {
            let name = host.names.get(host.nodes.name[node]);
            assert!(
                work.is_none_or(|work| work.is_unchanged()),
                "{name}: {work:?}"
            );
        }
    }
}
