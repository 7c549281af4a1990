//! Shapes and work of a run with another batch, sequence length, width or depth than the recorded one.
//!
//! ```text
//! host trace ──> sources: data, weights ──> sizes of roles ──> dimensions of all tensors
//!                                             request ──┘           │
//!                recorded work of each op <── recorded sizes ──────┤
//!               predicted work of each op <── changed sizes  ──────┘
//! ```
//! The host trace names each tensor that an op reads and writes, so dimensions are followed from the
//! input through the program, and two dimensions of the same size stay apart. Ops keep their
//! algorithms and their order; nothing is said of loops that would run more often.

mod arguments;
mod blocks;
mod dims;
mod law;
mod learned;
mod memory;
mod rules;
mod sizes;
mod sources;
mod walk;

#[cfg(test)]
mod tests;

pub use law::{ChangedWork, USUAL_BALANCE};
pub use learned::{LearnedBasis, LearnedError, LearnedOp, LearnedTimes};
pub use memory::{PredictedPeak, predicted_peaks};
pub use sizes::{Size, SizeRequest, SizeRequestError, SizeRole, Sizes};
pub use sources::ShownSize;

use crate::predict::arguments::{Arguments, Call, Tensor};
use crate::predict::blocks::{Blocks, find_blocks};
use crate::predict::dims::{Dim, Shape};
use crate::predict::sources::Sources;
use crate::predict::walk::{EndedCall, find_sources, walk_ops};
use etlink_link::roofline::{ArgumentValues, OpArguments, RooflineFormula, RooflineWork};
use etlink_link::roofline::{TensorShapes, work_from_shapes};
use etlink_model::HostTrace;

/// Largest factor on a size: the kernels of the recording say nothing of a run beyond it.
const MOST_TIMES: u64 = 1_000;

/// Reason why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PredictError {
    /// No tensor shows the size.
    #[error(
        "the trace does not show which size is {}; state it, as in `{}=OLD:NEW`",
        .0.name(), .0.name()
    )]
    UnknownSize(SizeRole),
    /// No blocks of the program have weights of the same shapes.
    #[error("no part of the program repeats with weights of the same shapes")]
    NoLayers,
    /// The program has another number of layers than stated.
    #[error("the program has {0} layers, not {1}")]
    OtherLayers(u64, u64),
    /// The size grows more than 1,000 times.
    #[error("{} grows more than {MOST_TIMES} times, too far from what was recorded", .0.name())]
    TooLarge(SizeRole),
    /// The stated size is that of no input.
    #[error("no input of the program has {role} {size}", role = .0.name(), size = .1)]
    NoSuchSize(SizeRole, u64),
}

/// Work of a run with other sizes.
#[derive(Clone, Debug, Default)]
pub struct SizePrediction {
    /// Sizes in both runs.
    pub sizes: Sizes,
    /// Tensors that show the recorded sizes.
    pub shown: Vec<ShownSize>,
    /// Work of each node of the host trace, by its own arguments; `None` for nodes without tensors.
    pub work: Vec<Option<ChangedWork>>,
    /// Sizes of the tensors of each node of the host trace.
    bytes: Vec<NodeBytes>,
    /// Layers, if their number changes.
    blocks: Option<Blocks>,
    /// Sizes of weights, and of states of optimizers: one tensor of each storage.
    weights: Vec<ChangedBytes>,
}

impl SizePrediction {
    /// Returns how often a node of the host trace runs in the predicted run for each time in the
    /// recorded one: nodes of layers more often if there are more, and ops of the optimizer for more
    /// weights.
    pub fn repeats(&self, host: &HostTrace, node: usize) -> f64 {
        let (Some(blocks), Some(layers)) = (&self.blocks, self.sizes.layers) else {
            return 1.0;
        };
        let times = layers.new as f64 / layers.old.max(1) as f64;
        if blocks.nodes.get(node) == Some(&true) {
            return times;
        }
        let name = host.names.get(host.nodes.name[node]);
        if name.contains("_foreach_") || name.contains("_fused_") {
            return 1.0 + blocks.weight_share * (times - 1.0);
        }
        1.0
    }

    /// Returns true if the number of layers changes.
    pub fn has_other_layers(&self) -> bool {
        self.blocks.is_some()
    }
}

/// Size of a tensor in the recorded and in the predicted run, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChangedBytes {
    old: u64,
    new: u64,
}

/// Sizes of the tensors of a node.
#[derive(Clone, Debug, Default)]
struct NodeBytes {
    outputs: Vec<ChangedBytes>,
    inputs: Vec<ChangedBytes>,
}

/// Predicts the work of each op of a host trace with other sizes. O(nodes).
///
/// # Errors
/// The trace does not show a size that changes, or no tensor has the stated size.
pub fn predict_sizes(
    host: &HostTrace,
    request: &SizeRequest,
) -> Result<SizePrediction, PredictError> {
    let sources = find_sources(host);
    let (mut sizes, shown) = sources.sizes(request);
    let blocks = changed_blocks(host, request, &sources)?;
    sizes.layers = blocks.as_ref().map(|blocks| Size {
        old: blocks.count,
        new: blocks.count,
    });
    request
        .apply_to(&mut sizes)
        .map_err(PredictError::UnknownSize)?;
    for (role, size) in request.all_stated() {
        if !sources.has_size(role, size) {
            return Err(PredictError::NoSuchSize(role, size));
        }
    }
    let mut changes = sizes.changes();
    let too_large = changes.find(|(_, size)| size.new / size.old.max(1) > MOST_TIMES);
    if let Some((role, _)) = too_large {
        return Err(PredictError::TooLarge(role));
    }
    let mut work = vec![None; host.nodes.len()];
    let mut bytes = vec![NodeBytes::default(); host.nodes.len()];
    let weights = walk_ops(host, &sizes, &sources, &mut |ended| {
        let (call, node) = (ended.call, ended.call.node);
        bytes[node] = NodeBytes {
            outputs: changed_bytes(&ended.outputs.tensors, ended.output_shapes, &sizes),
            inputs: changed_bytes(&call.inputs.tensors, &call.shapes, &sizes),
        };
        if !call.inputs.tensors.is_empty() {
            work[node] = Some(changed_work(host, &ended, &sizes));
        }
    });
    let weights = weights.into_iter();
    let weights = weights.map(|(tensor, shape)| tensor_bytes(&tensor, &shape, &sizes));
    let weights = weights.collect();
    Ok(SizePrediction {
        sizes,
        shown,
        work,
        bytes,
        blocks,
        weights,
    })
}

/// Returns the layers if their number changes.
fn changed_blocks(
    host: &HostTrace,
    request: &SizeRequest,
    sources: &Sources,
) -> Result<Option<Blocks>, PredictError> {
    if !request.changes(SizeRole::Layers) {
        return Ok(None);
    }
    let blocks = find_blocks(host, sources).ok_or(PredictError::NoLayers)?;
    match request.stated(SizeRole::Layers) {
        Some(stated) if stated != blocks.count => {
            Err(PredictError::OtherLayers(blocks.count, stated))
        }
        _ => Ok(Some(blocks)),
    }
}

fn changed_bytes(tensors: &[Tensor], shapes: &[Shape], sizes: &Sizes) -> Vec<ChangedBytes> {
    let tensors = tensors.iter().zip(shapes);
    tensors
        .map(|(tensor, shape)| tensor_bytes(tensor, shape, sizes))
        .collect()
}

fn tensor_bytes(tensor: &Tensor, shape: &Shape, sizes: &Sizes) -> ChangedBytes {
    let bytes = |all: u64, size: u64| all.saturating_mul(size);
    ChangedBytes {
        old: tensor
            .sizes
            .iter()
            .copied()
            .fold(tensor.element_bytes, bytes),
        new: shape
            .iter()
            .map(|dim| dim.changed(sizes))
            .fold(tensor.element_bytes, bytes),
    }
}

fn changed_work(host: &HostTrace, ended: &EndedCall<'_>, sizes: &Sizes) -> ChangedWork {
    let (call, node) = (ended.call, ended.call.node);
    let (inputs, outputs) = (&host.nodes.inputs[node], &host.nodes.outputs[node]);
    let old_shapes = [inputs.shapes, outputs.shapes].map(|id| host.names.get(id));
    let old = work_of(host, call, old_shapes);
    let mut shapes = call.shapes.iter().chain(ended.output_shapes);
    let is_same = |dim: &Dim| dim.changed(sizes) == dim.size();
    if shapes.all(|shape| shape.iter().all(is_same)) {
        return ChangedWork { old, new: old };
    }
    let read = changed_text(&call.inputs, &call.shapes, sizes);
    let written = changed_text(ended.outputs, ended.output_shapes, sizes);
    let new = work_of(host, call, [&read, &written]);
    if new.formula == old.formula {
        return ChangedWork { old, new };
    }
    // works by two formulas have no ratio
    let bytes = |shapes| {
        let (read, written) = arguments_of(host, call, shapes);
        work_or_bytes(RooflineWork::default(), &read, &written)
    };
    ChangedWork {
        old: bytes(old_shapes),
        new: bytes([&read, &written]),
    }
}

/// Returns the work of a call with these shapes of its inputs and outputs, list text.
fn work_of(host: &HostTrace, call: &Call<'_>, shapes: [&str; 2]) -> RooflineWork {
    let (read, written) = arguments_of(host, call, shapes);
    let given = &host.nodes.inputs[call.node];
    let values = std::str::from_utf8(host.span(given.values)).unwrap_or("");
    let arguments = OpArguments {
        inputs: &read,
        outputs: (!written.is_empty()).then_some(&written),
        values: ArgumentValues::new(values),
    };
    let work = work_from_shapes(call.full_name, arguments);
    work_or_bytes(work, &read, &written)
}

/// Returns the tensors of a call's inputs and outputs with these shapes, list text.
fn arguments_of(
    host: &HostTrace,
    call: &Call<'_>,
    [inputs, outputs]: [&str; 2],
) -> (TensorShapes, TensorShapes) {
    let types = [
        &host.nodes.inputs[call.node],
        &host.nodes.outputs[call.node],
    ];
    let [given, returned] = types.map(|arguments| host.names.get(arguments.types));
    let (mut read, mut written) = (TensorShapes::default(), TensorShapes::default());
    read.read(inputs, given);
    written.read(outputs, returned);
    (read, written)
}

/// Returns the bytes of all arguments for an op whose work is not known.
fn work_or_bytes(work: RooflineWork, read: &TensorShapes, written: &TensorShapes) -> RooflineWork {
    let is_known = work.operations > 0 || work.bytes > 0;
    if work.formula != RooflineFormula::None && is_known {
        return work;
    }
    RooflineWork {
        operations: 0,
        bytes: read.bytes().saturating_add(written.bytes()),
        formula: RooflineFormula::None,
    }
}

fn changed_text(arguments: &Arguments, shapes: &[Shape], sizes: &Sizes) -> String {
    let changed = shapes.iter().map(|shape| {
        let dims = shape.iter().map(|dim| dim.changed(sizes));
        dims.collect()
    });
    let changed: Vec<Vec<u64>> = changed.collect();
    arguments.shapes_text(&changed)
}
