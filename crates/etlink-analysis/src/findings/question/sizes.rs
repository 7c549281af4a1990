//! Questions about another batch, sequence length, width or depth.

use super::device::{HOST_BALANCE, op_balance};
use super::predicted::{PredictedMemory, PredictedTimes, PredictionBasis, WorkPlace};
use super::transfer_cost::RankAnswer;
use crate::device_type_name;
use crate::predict::{
    ChangedWork, ShownSize, Size, SizePrediction, SizeRequest, SizeRole, predict_sizes,
    predicted_peaks,
};
use etlink_link::roofline::{RooflineWork, host_work, op_work};
use etlink_link::{LinkedTrace, NodeKind};
use etlink_model::{DurationNs, NameId, NodeIdx, OpIdx, ThreadIdx};
use etlink_replay::GraphEdits;
use rustc_hash::FxHashMap;

/// Least share of the time of work that a change of sizes usually changes.
const LEAST_CHANGED: f64 = 0.1;

/// Largest share of the time of work that may have no shapes.
const MOST_UNKNOWN: f64 = 0.5;

/// Systematic error of the predicted duration of changed work, as a share: on 23 pairs of
/// recordings of one GPU, the sum of kernel times was off by 1.4 % in the median, and by 6.3 % at
/// most.
const USUAL_ERROR: f64 = 0.08;

/// A node with work.
struct WorkNode {
    index: NodeIdx,
    duration: DurationNs,
    place: WorkPlace,
    /// Name of the kernel or op.
    name: NameId,
    /// Factor by shapes; `None` if the op, or its shapes, are not recorded.
    factor: Option<f64>,
    /// Number of times that it runs for each time in the recording.
    repeats: f64,
}

/// Scales work to the time that it takes with other sizes.
pub(super) fn change_sizes(
    trace: &LinkedTrace,
    request: &SizeRequest,
) -> Result<RankAnswer, String> {
    let host = trace.host.as_ref();
    let host = host.ok_or("it has no host trace, which names the tensors of each op")?;
    let prediction = predict_sizes(host, request).map_err(|error| error.to_string())?;
    let nodes = work_nodes(trace, &prediction);
    let by_name = factors_by_name(&nodes);
    let mut edits = GraphEdits::default();
    let mut times = PredictedTimes::default();
    for node in nodes {
        let of_name = by_name.get(&(node.place, node.name)).copied();
        let (basis, factor) = match (node.factor, of_name) {
            (Some(factor), _) if factor != 1.0 => (PredictionBasis::Shapes, factor),
            (Some(_), _) if node.repeats != 1.0 => (PredictionBasis::Repeated, 1.0),
            (Some(_), _) => (PredictionBasis::SameWork, 1.0),
            (None, Some(factor)) => (PredictionBasis::Name, factor),
            (None, None) => (PredictionBasis::Nothing, 1.0),
        };
        times.add((node.place, basis), node.duration, factor * node.repeats);
        if factor != 1.0 {
            edits.scaled.push((node.index, factor));
            edits.errors.push((node.index, USUAL_ERROR));
        }
    }
    edits.scaled.extend(repeated_nodes(trace, &prediction));
    let unknown = times.unknown_share();
    if unknown > MOST_UNKNOWN {
        return Err(format!(
            "{:.1} % of the time of kernels and of work on the host belongs to ops without shapes",
            100.0 * unknown
        ));
    }
    let mut notes = size_notes(&prediction);
    let changed = times.changed_share();
    if changed < LEAST_CHANGED {
        notes.push(format!(
            "only {:.1} % of the time of kernels and of work on the host changes; check that OLD, as \
             in `batch=OLD:NEW`, is the size that you mean",
            100.0 * changed
        ));
    }
    let memory = predicted_memory(trace, &prediction).unwrap_or_else(|why| {
        notes.push(format!("peak memory is not predicted: {why}"));
        vec![]
    });
    Ok(RankAnswer::predicted(edits, notes, (times, memory)))
}

/// Returns the nodes with work, on devices and on the host.
fn work_nodes(trace: &LinkedTrace, prediction: &SizePrediction) -> Vec<WorkNode> {
    let own_work = host_work(trace, &op_work(trace));
    let mut nodes = vec![];
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let op = trace.op_of(&node);
        let (place, name) = match (trace.row_of(&node), op) {
            (Some(row), _) if node.kind != NodeKind::Collective => {
                (WorkPlace::Device, trace.device.rows.name[row.index()])
            }
            (None, Some(op)) if node.kind == NodeKind::HostOp && works(&own_work, op) => {
                (WorkPlace::Host, trace.device.ops.name[op.index()])
            }
            _ => continue,
        };
        let work = op.and_then(|op| Some((op, node_work(trace, prediction, op)?)));
        let factor = work.map(|(op, work)| {
            let balance = match place {
                WorkPlace::Device => op_balance(trace, op),
                WorkPlace::Host => HOST_BALANCE,
            };
            work.kernel_factor(node.duration, balance)
        });
        nodes.push(WorkNode {
            index,
            duration: node.duration,
            place,
            name,
            factor,
            repeats: op.map_or(1.0, |op| op_repeats(trace, prediction, op)),
        });
    }
    nodes
}

/// Returns how often an op runs in the predicted run for each time in the recorded one.
fn op_repeats(trace: &LinkedTrace, prediction: &SizePrediction, op: OpIdx) -> f64 {
    let node = trace.op_host.get(op.index()).and_then(|node| node.get());
    match (&trace.host, node) {
        (Some(host), Some(node)) => prediction.repeats(host, node.index()),
        _ => 1.0,
    }
}

/// Returns the nodes that run more or less often, on the host and on devices. Gaps between ops take
/// after the op before them.
fn repeated_nodes(trace: &LinkedTrace, prediction: &SizePrediction) -> Vec<(NodeIdx, f64)> {
    if !prediction.has_other_layers() {
        return vec![];
    }
    let mut last: FxHashMap<ThreadIdx, f64> = FxHashMap::default();
    let mut repeated = vec![];
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let own = if node.kind == NodeKind::HostGap {
            None
        } else {
            trace.op_of(&node)
        };
        let repeats = match (own, node.thread()) {
            (Some(op), thread) => {
                let repeats = op_repeats(trace, prediction, op);
                if let Some(thread) = thread {
                    last.insert(thread, repeats);
                }
                repeats
            }
            (None, Some(thread)) => last.get(&thread).copied().unwrap_or(1.0),
            (None, None) => 1.0,
        };
        if repeats != 1.0 {
            repeated.push((index, repeats));
        }
    }
    repeated
}

fn works(own_work: &[RooflineWork], op: OpIdx) -> bool {
    own_work[op.index()].bytes > 0
}

/// Returns the work of an op with known tensors.
fn node_work(trace: &LinkedTrace, prediction: &SizePrediction, op: OpIdx) -> Option<ChangedWork> {
    let node = trace.op_host.get(op.index())?.get()?;
    *prediction.work.get(node.index())?
}

/// Returns the factor on the sum of all durations of a name, from nodes with shapes, with their
/// repetitions.
fn factors_by_name(nodes: &[WorkNode]) -> FxHashMap<(WorkPlace, NameId), f64> {
    let mut sums: FxHashMap<(WorkPlace, NameId), [f64; 2]> = FxHashMap::default();
    for node in nodes {
        if let Some(factor) = node.factor {
            let [recorded, predicted] = sums.entry((node.place, node.name)).or_default();
            *recorded += node.duration.0 as f64;
            *predicted += node.duration.0 as f64 * factor * node.repeats;
        }
    }
    let factors = sums.into_iter();
    let factors = factors.filter(|(_, [recorded, _])| *recorded > 0.0);
    factors
        .map(|(key, [recorded, predicted])| (key, predicted / recorded))
        .collect()
}

/// Returns the peak memory of each device, or the reason why it is not predicted.
fn predicted_memory(
    trace: &LinkedTrace,
    prediction: &SizePrediction,
) -> Result<Vec<PredictedMemory>, &'static str> {
    if trace.device.memory.is_empty() {
        return Err(
            "allocations were not recorded (`etlink record --profile-memory`, `profile_memory=True`)",
        );
    }
    // Blocks of a layer that live at once are not told from those that follow each other.
    if prediction.has_other_layers() {
        return Err("the number of layers changes");
    }
    let peaks = predicted_peaks(trace, prediction);
    let peaks = peaks.ok_or("the trace does not show which of its devices holds which weights")?;
    let peaks = peaks.into_iter();
    let peaks = peaks.map(|peak| PredictedMemory {
        device_type: device_type_name(peak.device_type).to_owned(),
        device: i64::from(peak.device),
        recorded_bytes: peak.recorded_bytes,
        predicted_bytes: peak.predicted_bytes,
        unknown_share: peak.unknown_bytes as f64 / peak.allocations_bytes.max(1) as f64,
    });
    Ok(peaks.collect())
}

/// Returns a note on each size that changes, with the tensor that shows it.
fn size_notes(prediction: &SizePrediction) -> Vec<String> {
    let mut notes = vec![];
    for (role, Size { old, new }) in prediction.sizes.changes() {
        let shown = prediction.shown.iter().find(|shown| shown.role == role);
        let source = match shown {
            Some(ShownSize { op, shape, .. }) => {
                let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
                format!("taken from the {} input of {op}", shape.join("x"))
            }
            None if role == SizeRole::Layers => {
                "blocks whose weights have the same shapes".to_owned()
            }
            None => "as stated".to_owned(),
        };
        notes.push(format!("{} {old} to {new}, {source}", role.name()));
    }
    notes
}
