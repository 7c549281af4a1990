//! Durations of ops on a device, learned from recordings.
//!
//! ```text
//! same shapes   the recorded duration
//! neighbours    (c + roof) · factor     factor: recorded duration / (c + roof) of the five nearest
//!                                       recorded ops, each with a weight that falls by distance
//! ```
//! Candidates have the same formula for their work and the same element type, so that a product by
//! `addmm` says what one by `mm` takes. The roof is the op's time at the peak rates of the device, and
//! `c` the part of a duration that no size changes. The distance is that of operations and of bytes,
//! as logarithms of their ratios, and one more each for another op and another layout. On five models
//! recorded on an H100 and an MI300X, each left out in turn, the sum of kernel times was off by 10.5 %
//! in the median and by 25 % at most; by peak rates alone by 38 and 108 %.

use crate::predict::law::fixed_ns;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Number of neighbours.
const NEIGHBOURS: usize = 5;
/// Distance of another op, and of another layout.
const OTHER_KIND: f64 = 1.0;
/// Distance below which neighbours weigh about the same.
const NEAR: f64 = 0.1;

/// Longest duration of an op that is believed: an hour, ns.
const LONGEST_NS: i64 = 3_600_000_000_000;

/// Name and version of the format of files.
const SCHEMA: &str = "etlink.kernels";
const VERSION: u32 = 1;

/// Durations that came with the program.
const BUILT_IN: &str = include_str!("kernels.etk");

/// An op with its arguments, and the duration of a call on a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LearnedOp {
    /// Name of the device, as in the table of peaks: `h100 80gb hbm3`.
    pub device: String,
    /// Formula for the work, which says how the duration grows.
    pub formula: String,
    /// Element type of the first tensor.
    pub dtype: String,
    /// Name of the op.
    pub op: String,
    /// Shapes of the inputs, list text.
    pub shapes: String,
    /// Strides of the inputs, list text.
    pub strides: String,
    /// Arithmetic operations of a call.
    pub operations: u64,
    /// Bytes read and written by a call.
    pub bytes: u64,
    /// Number of recorded calls.
    pub count: u64,
    /// Median device time of a call, ns.
    pub ns: i64,
}

impl LearnedOp {
    /// Returns the element type of the first tensor in the types of an op's inputs, list text; empty
    /// without a tensor.
    pub fn first_dtype(types: &str) -> &str {
        let names = types.split('"').skip(1).step_by(2);
        // a device trace does not tell the types in a list
        let names = names.filter(|name| !name.starts_with("GenericList"));
        let inner = names.map(|name| match name.split_once("Tensor(") {
            Some((_, inner)) => inner.split([')', ',']).next().unwrap_or(inner),
            None => name,
        });
        let no_tensors = [
            "",
            "None",
            "Scalar",
            "ScalarList",
            "TensorList",
            "Int",
            "Bool",
        ];
        let mut tensors = inner.filter(|name| !no_tensors.contains(name));
        tensors.next().unwrap_or("")
    }

    /// Returns the lists of an op's inputs in a form that all recorders share: a host trace has an
    /// empty list for each number in a list of numbers, a device trace has one for the whole.
    pub fn plain_lists(text: &str) -> String {
        let is_numbers = |list: &serde_json::Value| match list.as_array() {
            Some(inner) if !inner.is_empty() => {
                inner.iter().all(|one| one == &serde_json::json!([]))
            }
            _ => false,
        };
        let Ok(mut lists) = serde_json::from_str::<Vec<serde_json::Value>>(text) else {
            return text.to_owned();
        };
        for list in &mut lists {
            if is_numbers(list) {
                *list = serde_json::json!([]);
            }
        }
        let plain = serde_json::to_string(&lists);
        plain.map_or_else(|_| text.to_owned(), |plain| plain.replace(',', ", "))
    }
}

/// First line of a file.
#[derive(Serialize, Deserialize)]
struct Head {
    schema: String,
    version: u32,
    /// Recordings that the durations come from.
    sources: Vec<String>,
}

/// Durations by device, formula and element type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearnedTimes {
    /// Recordings that the durations come from, sorted.
    sources: Vec<String>,
    /// By device, kind and element type.
    groups: BTreeMap<(String, String, String), Vec<LearnedOp>>,
}

/// Basis of a duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LearnedBasis {
    /// The op was recorded on the device with the same shapes and strides.
    SameShapes,
    /// Ops of other shapes were recorded; the distance of the nearest.
    Neighbours(f64),
}

/// A line of a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not a duration of an op: {why}")]
pub struct LearnedError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl LearnedTimes {
    /// Returns the durations that came with the program: of public recordings, which the file
    /// names.
    ///
    /// # Errors
    /// None in a released build: a test reads the file.
    pub fn built_in() -> Result<&'static LearnedTimes, LearnedError> {
        static TIMES: LazyLock<Result<LearnedTimes, LearnedError>> =
            LazyLock::new(|| LearnedTimes::from_text(BUILT_IN));
        TIMES.as_ref().map_err(Clone::clone)
    }

    /// Reads a file: a line of JSON with its format and its sources, then one per op.
    ///
    /// # Errors
    /// A line has another form.
    pub fn from_text(text: &str) -> Result<LearnedTimes, LearnedError> {
        let mut lines = (1..).zip(text.lines());
        let fails = |line: usize, why: String| LearnedError { line, why };
        let (line, first) = lines
            .next()
            .ok_or_else(|| fails(1, "the file is empty".into()))?;
        let head: Head =
            serde_json::from_str(first).map_err(|error| fails(line, error.to_string()))?;
        if (head.schema.as_str(), head.version) != (SCHEMA, VERSION) {
            let why = format!("{} {} is not {SCHEMA} {VERSION}", head.schema, head.version);
            return Err(fails(line, why));
        }
        let mut times = LearnedTimes::default();
        for (line, text) in lines {
            if text.trim().is_empty() {
                continue;
            }
            let op: LearnedOp =
                serde_json::from_str(text).map_err(|error| fails(line, error.to_string()))?;
            if !(1..=LONGEST_NS).contains(&op.ns) {
                return Err(fails(line, format!("{} ns is no duration of an op", op.ns)));
            }
            times.add(op);
        }
        times.add_sources(head.sources);
        Ok(times)
    }

    /// Writes the file. The same durations give the same bytes, in any order of adding.
    pub fn to_text(&self) -> String {
        let head = Head {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            sources: self.sources.clone(),
        };
        let lines = self.groups.values().flatten().map(serde_json::to_string);
        let lines = std::iter::once(serde_json::to_string(&head)).chain(lines);
        // of texts and numbers alone: always valid
        let lines: Vec<String> = lines.filter_map(Result::ok).collect();
        lines.join("\n") + "\n"
    }

    /// Adds the recordings that durations come from.
    pub fn add_sources(&mut self, sources: impl IntoIterator<Item = String>) {
        self.sources.extend(sources);
        self.sources.sort();
        self.sources.dedup();
    }

    /// Adds an op. Of two recordings of the same op the one with more calls counts; of as many the
    /// shorter one.
    pub fn add(&mut self, op: LearnedOp) {
        let key = (op.device.clone(), kind(&op).to_owned(), op.dtype.clone());
        let ops = self.groups.entry(key).or_default();
        let arguments = |op: &LearnedOp| (op.op.clone(), op.shapes.clone(), op.strides.clone());
        match ops.binary_search_by_key(&arguments(&op), arguments) {
            Ok(at) => {
                let known = &ops[at];
                if (op.count, Reverse(op.ns)) > (known.count, Reverse(known.ns)) {
                    ops[at] = op;
                }
            }
            Err(at) => ops.insert(at, op),
        }
    }

    /// Adds all durations of another file.
    pub fn merge(&mut self, other: LearnedTimes) {
        self.add_sources(other.sources);
        other
            .groups
            .into_values()
            .flatten()
            .for_each(|op| self.add(op));
    }

    /// Number of ops.
    pub fn len(&self) -> usize {
        self.groups.values().map(Vec::len).sum()
    }

    /// True without ops.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// True if any op of a device is known.
    pub fn has_device(&self, device: &str) -> bool {
        self.groups.keys().any(|(known, ..)| known == device)
    }

    /// Returns the duration of a call on a device, ns, and its basis; `None` without an op of its kind
    /// there. `asked` has the op's work and arguments, its device is ignored. `roof_ns` is the time
    /// of an op at the peak rates of the device. O(ops of the kind).
    pub fn op_ns(
        &self,
        device: &str,
        asked: &LearnedOp,
        roof_ns: impl Fn(&LearnedOp) -> f64,
    ) -> Option<(f64, LearnedBasis)> {
        let key = (
            device.to_owned(),
            kind(asked).to_owned(),
            asked.dtype.clone(),
        );
        let known = self.groups.get(&key)?;
        // without shapes nothing tells how much an op does
        if asked.bytes == 0 {
            return None;
        }
        let is_same = |op: &&LearnedOp| {
            (&op.op, &op.shapes, &op.strides) == (&asked.op, &asked.shapes, &asked.strides)
                && op.operations == asked.operations
        };
        if let Some(same) = known.iter().find(is_same) {
            return Some((same.ns as f64, LearnedBasis::SameShapes));
        }
        let others = known.iter().filter(|op| op.bytes > 0 && op.ns > 0);
        let channels = channels(asked);
        let others = others.filter(|op| has_like_channels(channels, op));
        let mut near: Vec<(f64, &LearnedOp)> = others.map(|op| (distance(asked, op), op)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.truncate(NEIGHBOURS);
        let nearest = near.first()?.0;
        let law = |op: &LearnedOp| fixed_ns(&op.formula) + roof_ns(op);
        let (mut sum, mut weights) = (0.0, 0.0);
        for (distance, op) in near {
            let weight = (NEAR + distance).powi(-2);
            sum += weight * (op.ns as f64 / law(op)).ln();
            weights += weight;
        }
        let factor = (sum / weights).exp();
        Some((law(asked) * factor, LearnedBasis::Neighbours(nearest)))
    }
}

/// Returns the kind of an op: its formula, without differences that its work already shows.
fn kind(op: &LearnedOp) -> &str {
    match op.formula.as_str() {
        // pairs of visible positions are counted
        "causal_attention" => "attention",
        "causal_attention_backward" => "attention_backward",
        // of one op some devices run a kernel, and others a copy
        "copy" => "bytes",
        formula => formula,
    }
}

/// Returns the number of input channels of a convolution.
fn channels(op: &LearnedOp) -> Option<u64> {
    if !op.formula.starts_with("convolution") {
        return None;
    }
    let shapes: Vec<serde_json::Value> = serde_json::from_str(&op.shapes).ok()?;
    shapes.first()?.get(1)?.as_u64()
}

/// Returns false for a convolution whose channels differ by more than fourfold: those of an image with
/// three channels take ten times as long as others with as many operations.
fn has_like_channels(asked: Option<u64>, op: &LearnedOp) -> bool {
    match asked.zip(channels(op)) {
        Some((a, b)) => a.max(b) <= 4 * a.min(b),
        None => true,
    }
}

/// Distance of two ops: logarithms of the ratios of their operations and bytes, and one more each
/// for another op and another layout.
fn distance(a: &LearnedOp, b: &LearnedOp) -> f64 {
    let apart = |a: u64, b: u64| ((a as f64 + 1.0) / (b as f64 + 1.0)).ln().abs();
    let mut distance = apart(a.bytes, b.bytes);
    if a.operations > 0 && b.operations > 0 {
        distance += apart(a.operations, b.operations);
    }
    if a.op != b.op {
        distance += OTHER_KIND;
    }
    if is_contiguous(a) != is_contiguous(b) {
        distance += OTHER_KIND;
    }
    distance
}

/// Returns true if no input of an op has gaps or another order of dimensions; inputs that are lists
/// of tensors are not looked at.
fn is_contiguous(op: &LearnedOp) -> bool {
    type Lists = Vec<serde_json::Value>;
    let lists = |text: &str| serde_json::from_str::<Lists>(text).unwrap_or_default();
    let (shapes, strides) = (lists(&op.shapes), lists(&op.strides));
    let numbers = |list: &serde_json::Value| -> Option<Vec<u64>> {
        let list = list.as_array()?;
        list.iter().map(serde_json::Value::as_u64).collect()
    };
    shapes.iter().zip(&strides).all(|(shape, stride)| {
        let Some((shape, stride)) = numbers(shape).zip(numbers(stride)) else {
            return true;
        };
        let mut next = 1u64;
        shape.iter().zip(&stride).rev().all(|(length, stride)| {
            let fits = *length == 1 || *stride == next;
            next = next.saturating_mul(*length);
            fits
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(op: &str, size: u64, ns: i64) -> LearnedOp {
        LearnedOp {
            device: "h100 80gb hbm3".to_owned(),
            formula: "matmul".to_owned(),
            dtype: "float".to_owned(),
            op: op.to_owned(),
            shapes: format!("[[{size}, {size}], [{size}, {size}]]"),
            strides: format!("[[{size}, 1], [{size}, 1]]"),
            operations: 2 * size * size * size,
            bytes: 12 * size * size,
            count: 3,
            ns,
        }
    }

    #[test]
    fn neighbours_tell_how_far_from_the_roof_an_op_is() {
        let roof = |op: &LearnedOp| op.operations as f64 / 1e3;
        let mut times = LearnedTimes::default();
        // twice the law of 3 us and the roof
        for size in [256u64, 1024, 2048] {
            let law = 3_000.0 + roof(&product("", size, 0));
            times.add(product("aten::mm", size, (2.0 * law) as i64));
        }
        let asked = product("aten::addmm", 512, 0);
        let (ns, basis) = times.op_ns(&asked.device, &asked, roof).expect("a time");
        assert!(
            (ns / (2.0 * (3_000.0 + roof(&asked))) - 1.0).abs() < 1e-3,
            "{ns}"
        );
        assert!(matches!(basis, LearnedBasis::Neighbours(near) if near > 1.0));
        let same = product("aten::mm", 1024, 0);
        let (_, basis) = times.op_ns(&same.device, &same, roof).expect("a time");
        assert_eq!(basis, LearnedBasis::SameShapes);
        assert_eq!(times.op_ns("h20", &same, roof), None);
    }

    #[test]
    fn files_are_the_same_in_any_order() {
        let ops = [1024, 256, 512].map(|size| product("aten::mm", size, 9));
        let mut times = LearnedTimes::default();
        times.add_sources(["b".to_owned(), "a".to_owned()]);
        ops.iter().cloned().for_each(|op| times.add(op));
        let mut again = LearnedTimes::default();
        again.add_sources(["a".to_owned()]);
        ops.iter().rev().cloned().for_each(|op| again.add(op));
        again.merge(LearnedTimes::from_text(&times.to_text()).expect("a file"));
        assert_eq!(again.to_text(), times.to_text());
        let error = LearnedTimes::from_text("{}").expect_err("no head");
        assert_eq!(error.line, 1);
    }

    #[test]
    fn the_built_in_file_is_read() {
        let times = LearnedTimes::built_in().expect("a file");
        assert!(times.has_device("h100 80gb hbm3") && times.has_device("mi300x"));
        assert_eq!(times.to_text(), BUILT_IN);
    }
}
