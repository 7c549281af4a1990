//! Computes the bytes that an op writes from its arguments: device traces do not record outputs.

use super::shapes::elements_of;
use super::values::ArgumentValues;
use super::{TensorShape, TensorShapes};

/// Size of an index or a count, bytes.
const INDEX_BYTES: u64 = 8;
/// Size of a boolean, bytes.
const FLAG_BYTES: u64 = 1;
const FLOAT_BYTES: u64 = 4;

/// Ops whose output has the size of their first argument.
#[rustfmt::skip]
const LIKE_FIRST: &[&str] = &[
    "clone", "flip", "roll", "tril", "triu", "masked_fill", "scatter",
    "scatter_add", "index_put", "index_add", "index_copy", "index_fill", "ones_like", "zeros_like",
    "full_like", "rand_like", "randn_like", "softmax", "log_softmax", "_safe_softmax",
    "_softmax_backward_data", "_log_softmax_backward_data", "_fused_rms_norm", "rms_norm",
    "layer_norm", "group_norm", "batch_norm",
];

/// Returns the bytes of an op's outputs, by its name without namespace and trailing underscore;
/// `None` if its arguments do not determine them. O(tensors).
pub(super) fn written_bytes(
    name: &str,
    is_elementwise: bool,
    inputs: &TensorShapes,
    values: ArgumentValues<'_>,
) -> Option<u64> {
    let first = || inputs.argument(0);
    if let Some(lists) = written_lists(name) {
        let bytes = lists.iter().map(|list| list_bytes(inputs, *list));
        return Some(bytes.fold(0, u64::saturating_add));
    }
    if name == "native_dropout" {
        let input = first()?;
        let element = input.element_bytes + FLAG_BYTES;
        return Some(input.elements().saturating_mul(element));
    }
    if is_elementwise {
        return broadcast_bytes(name, inputs);
    }
    match name {
        "cat" | "concat" | "stack" | "hstack" | "vstack" => Some(inputs.bytes()),
        "cumsum" | "cumprod" => {
            let input = first()?;
            let size = values.scalar_type_bytes(2).unwrap_or(sum_bytes(input));
            Some(input.elements().saturating_mul(size))
        }
        "isinf" | "isneginf" | "isposinf" => Some(first()?.elements()),
        "select_backward" | "slice_backward" => {
            let (gradient, sizes) = (first()?, values.integers(1)?);
            let sizes = sizes.iter().map(|size| size.unsigned_abs());
            let elements = sizes.fold(1, u64::saturating_mul);
            Some(elements.saturating_mul(gradient.element_bytes))
        }
        "_softmax" | "_log_softmax" => {
            let input = first()?;
            let is_widened = values.flag(2) == Some(true);
            let size = if is_widened {
                FLOAT_BYTES
            } else {
                input.element_bytes
            };
            Some(input.elements().saturating_mul(size))
        }
        "sort" => {
            let input = first()?;
            Some(
                input
                    .elements()
                    .saturating_mul(input.element_bytes + INDEX_BYTES),
            )
        }
        "topk" => top_bytes(first()?, values),
        _ if LIKE_FIRST.contains(&name) => Some(first()?.bytes()),
        "native_layer_norm"
        | "native_group_norm"
        | "native_batch_norm"
        | "_native_batch_norm_legit"
        | "_batch_norm_with_update"
        | "cudnn_batch_norm"
        | "miopen_batch_norm" => {
            let input = first()?;
            // less than a hundredth of the output: not worth giving up on old traces
            let statistics = norm_statistics(name, input, values).unwrap_or(0);
            Some(input.bytes().saturating_add(statistics))
        }
        "upsample_nearest1d"
        | "upsample_nearest2d"
        | "upsample_nearest3d"
        | "_upsample_nearest_exact2d"
        | "upsample_bilinear2d"
        | "upsample_bicubic2d" => {
            let (input, sizes) = (first()?, values.integers(1)?);
            let sizes = sizes.iter().map(|size| size.unsigned_abs());
            let planes = elements_of(input.dims.get(..2)?);
            let elements = sizes.fold(planes, u64::saturating_mul);
            Some(elements.saturating_mul(input.element_bytes))
        }
        "embedding" => {
            let (table, indices) = (first()?, inputs.argument(1)?);
            let (width, count) = (*table.dims.last()?, indices.elements());
            Some(
                count
                    .saturating_mul(width)
                    .saturating_mul(table.element_bytes),
            )
        }
        "_embedding_bag" | "_embedding_bag_forward_only" => {
            let (table, indices) = (first()?, inputs.argument(1)?);
            let has_last = u64::from(values.flag(7)?);
            let bags = inputs.argument(2)?.elements().checked_sub(has_last)?;
            let sums = bags
                .saturating_mul(*table.dims.last()?)
                .saturating_mul(table.element_bytes);
            // the bag of each index, and the size and largest index of each bag
            let numbers = indices.elements().saturating_add(bags.saturating_mul(2));
            Some(sums.saturating_add(numbers.saturating_mul(indices.element_bytes)))
        }
        "embedding_dense_backward" => {
            let (gradient, rows) = (first()?, u64::try_from(values.integer(2)?).ok()?);
            let width = *gradient.dims.last()?;
            Some(
                rows.saturating_mul(width)
                    .saturating_mul(gradient.element_bytes),
            )
        }
        "gather" => {
            let (input, index) = (first()?, inputs.argument(2)?);
            Some(index.elements().saturating_mul(input.element_bytes))
        }
        "index_select" => {
            let (input, index) = (first()?, inputs.argument(2)?);
            let dim = place_of(values.integer(1)?, input.dims.len())?;
            let rest = without_dims(input.dims, &[dim]);
            let elements = rest.saturating_mul(index.elements());
            Some(elements.saturating_mul(input.element_bytes))
        }
        "mse_loss" => loss_bytes(first()?, values.integer(2)?),
        "binary_cross_entropy" => loss_bytes(first()?, values.integer(3)?),
        "nll_loss" | "nll_loss_forward" | "nll_loss2d_forward" | "nll_loss_nd"
        | "cross_entropy_loss" => {
            let (input, target) = (first()?, inputs.argument(1)?);
            let per_target = TensorShape {
                dims: target.dims,
                ..input
            };
            let loss = loss_bytes(per_target, values.integer(3)?)?;
            // the sum of the weights
            let has_sum = name.ends_with("_forward");
            Some(loss + u64::from(has_sum) * input.element_bytes)
        }
        "avg_pool2d"
        | "max_pool2d"
        | "max_pool2d_with_indices"
        | "_adaptive_avg_pool2d"
        | "adaptive_avg_pool2d" => pool_bytes(name, first()?, values),
        _ if name.ends_with("_backward") && is_reduction_gradient(name) => {
            let gradient = inputs.argument(1)?.bytes();
            Some(gradient.saturating_add(weight_gradients(name, inputs, values)))
        }
        _ => reduced_bytes(name, first()?, values),
    }
}

/// Elements that a loss picks from its input: one for each target.
pub(super) struct PickedElements {
    /// Number of elements.
    pub(super) elements: u64,
    /// Bytes that the op reads: the elements, or in the backward pass the gradient, and the targets.
    pub(super) read_bytes: u64,
    /// Bytes that the op itself writes, if not all of its output: another op fills the rest with 0.
    pub(super) written_bytes: Option<u64>,
}

/// Returns the elements that a negative log-likelihood picks; `None` for other ops.
pub(super) fn picked_elements(name: &str, inputs: &TensorShapes) -> Option<PickedElements> {
    let first = match name {
        "nll_loss_forward" | "nll_loss2d_forward" => 0,
        "nll_loss_backward" | "nll_loss2d_backward" => 1,
        _ => return None,
    };
    let (input, target) = (inputs.argument(first)?, inputs.argument(first + 1)?);
    let elements = target.elements();
    let picked = elements.saturating_mul(input.element_bytes);
    let (read, written_bytes) = if first == 0 {
        (picked, None)
    } else {
        (inputs.argument(0)?.bytes(), Some(picked))
    };
    Some(PickedElements {
        elements,
        read_bytes: read.saturating_add(target.bytes()),
        written_bytes,
    })
}

/// Returns the bytes read by an op that reads only the table rows named by its indices; `None` for
/// other ops.
pub(super) fn partly_read_bytes(
    name: &str,
    inputs: &TensorShapes,
    values: ArgumentValues<'_>,
) -> Option<u64> {
    let is_embedding = matches!(
        name,
        "embedding" | "_embedding_bag" | "_embedding_bag_forward_only"
    );
    if !is_embedding && !matches!(name, "gather" | "index_select") {
        return None;
    }
    let index = inputs.argument(if is_embedding { 1 } else { 2 })?;
    let table = inputs.argument(0)?;
    let per_index = match name {
        _ if is_embedding => *table.dims.last()?,
        "gather" => 1,
        _ => {
            let dim = place_of(values.integer(1)?, table.dims.len())?;
            without_dims(table.dims, &[dim])
        }
    };
    let rows = index.elements().saturating_mul(per_index);
    let read = rows.saturating_mul(table.element_bytes);
    let offsets = if name.starts_with("_embedding_bag") {
        let weights = inputs.argument(6).map_or(0, |weights| weights.bytes());
        inputs.argument(2)?.bytes().saturating_add(weights)
    } else {
        0
    };
    Some(read.saturating_add(index.bytes()).saturating_add(offsets))
}

/// True if the op only writes its first argument, and does not read it.
pub(super) fn only_writes_first(name: &str, is_in_place: bool) -> bool {
    const FILLS: &[&str] = &[
        "fill",
        "zero",
        "normal",
        "uniform",
        "random",
        "bernoulli",
        "exponential",
        "copy",
        "eye",
    ];
    is_in_place && FILLS.contains(&name)
}

/// Returns the argument numbers of the tensor lists that a fused or `foreach` op writes in place.
fn written_lists(name: &str) -> Option<&'static [u32]> {
    match name {
        "_fused_adam" | "_fused_adamw" => Some(&[0, 2, 3, 4]),
        "_fused_sgd" => Some(&[0, 2]),
        _ if name.starts_with("_foreach") => Some(&[0]),
        _ => None,
    }
}

fn list_bytes(inputs: &TensorShapes, argument: u32) -> u64 {
    let tensors = inputs.of_argument(argument);
    tensors.fold(0, |sum, tensor| sum.saturating_add(tensor.bytes()))
}

/// Returns the number of elements of the inputs broadcast to one shape.
pub(super) fn broadcast_elements(inputs: &TensorShapes) -> u64 {
    let shapes: Vec<&[u64]> = inputs.iter().map(|tensor| tensor.dims).collect();
    elements_of(&broadcast(&shapes))
}

/// Returns the shape that shapes broadcast to, aligned at their last dimensions.
pub(super) fn broadcast(shapes: &[&[u64]]) -> Vec<u64> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut dims = vec![1; rank];
    for shape in shapes {
        let offset = rank - shape.len();
        for (at, dim) in shape.iter().enumerate() {
            // a dimension of 0 makes the result empty
            if *dim != 1 {
                dims[offset + at] = *dim;
            }
        }
    }
    dims
}

/// What an op reads and writes that works on some rows of its first argument.
pub(super) struct Scattered {
    /// Elements that it writes.
    pub(super) elements: u64,
    /// Bytes that it reads and writes, indices included.
    pub(super) bytes: u64,
}

/// True if the op, in place, writes only what its indices name.
pub(super) fn is_scattered(name: &str) -> bool {
    const SCATTERED: &[&str] = &[
        "index_copy",
        "index_add",
        "index_fill",
        "index_put",
        "_index_put_impl",
        "scatter",
        "scatter_add",
    ];
    SCATTERED.contains(&name)
}

/// Returns the reads and writes of an op that [`is_scattered`]; `None` if its arguments do not tell.
pub(super) fn scattered(
    name: &str,
    inputs: &TensorShapes,
    values: ArgumentValues<'_>,
) -> Option<Scattered> {
    let table = inputs.argument(0)?;
    let (elements, indices) = match name {
        "index_put" | "_index_put_impl" => {
            // masks have the shape of what they are of; indices are whole numbers
            let lists = inputs.of_argument(1).map(|index| index.dims);
            let dims: Vec<&[u64]> = lists.collect();
            if dims
                .iter()
                .any(|dims| dims.len() > 1 && table.dims.starts_with(dims))
            {
                return None;
            }
            let rest = table.dims.get(dims.len()..)?;
            let places = elements_of(&broadcast(&dims));
            let count = dims.iter().map(|dims| elements_of(dims)).sum::<u64>();
            (places.saturating_mul(elements_of(rest)), count)
        }
        "scatter" | "scatter_add" => {
            let index = inputs.argument(2)?;
            (index.elements(), index.elements())
        }
        _ => {
            let index = inputs.argument(2)?;
            let dim = place_of(values.integer(1)?, table.dims.len())?;
            let rest = without_dims(table.dims, &[dim]);
            (rest.saturating_mul(index.elements()), index.elements())
        }
    };
    let rows = elements.saturating_mul(table.element_bytes);
    let source = match name {
        "index_put" | "_index_put_impl" => inputs.argument(2),
        _ => inputs.argument(3),
    };
    let source = source.map_or(0, |source| source.bytes().min(rows));
    let adds =
        name.ends_with("add") || name.starts_with("index_put") && values.flag(3) == Some(true);
    let before = if adds { rows } else { 0 };
    let parts = [rows, before, source, indices.saturating_mul(INDEX_BYTES)];
    Some(Scattered {
        elements,
        bytes: parts.into_iter().fold(0, u64::saturating_add),
    })
}

/// Size of the result of an elementwise op, bytes. Comparisons return booleans.
fn broadcast_bytes(name: &str, inputs: &TensorShapes) -> Option<u64> {
    const COMPARISONS: &[&str] = &[
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_not",
        "isnan",
        "isinf",
        "isneginf",
        "isposinf",
    ];
    let rank = inputs.iter().map(|tensor| tensor.dims.len()).max()?;
    let element_bytes = if COMPARISONS.contains(&name) {
        FLAG_BYTES
    } else {
        let has_floating = inputs.iter().any(|tensor| tensor.is_floating);
        // a scalar does not widen the result of a tensor, nor an integer the result of a float
        let wide = inputs.iter().filter(|tensor| {
            let is_scalar = tensor.dims.is_empty() && rank > 0;
            !is_scalar && (tensor.is_floating || !has_floating)
        });
        let widest = wide.map(|tensor| tensor.element_bytes).max();
        widest.or(inputs.iter().map(|tensor| tensor.element_bytes).max())?
    };
    Some(broadcast_elements(inputs).saturating_mul(element_bytes))
}

/// Size of the result of a reduction. Its list of dimensions is argument 1, or argument 2 after the
/// order of a norm.
fn reduced_bytes(name: &str, input: TensorShape<'_>, values: ArgumentValues<'_>) -> Option<u64> {
    let argument = match name {
        "norm" | "linalg_vector_norm" => 2,
        "sum" | "mean" | "amax" | "amin" | "var" | "var_mean" | "std" | "std_mean"
        | "logsumexp" | "all" | "any" | "prod" | "argmax" | "argmin" | "max" | "min" => 1,
        _ => return None,
    };
    if values.is_empty() {
        return None;
    }
    // `sum(self, dtype)` has no list; `prod(self, dim, keepdim, dtype)` has a number
    let has_one = values.count() > 2;
    let reduced = match (values.integers(argument), values.integer(argument)) {
        (Some(list), _) => list,
        (None, Some(one)) if has_one => vec![one],
        _ => vec![],
    };
    let mut dims = vec![];
    for dim in &reduced {
        dims.push(place_of(*dim, input.dims.len())?);
    }
    let elements = if dims.is_empty() {
        1
    } else {
        without_dims(input.dims, &dims)
    };
    let last = u32::try_from(values.count()).ok()?.checked_sub(1)?;
    let size = match name {
        "sum" | "prod" => values.scalar_type_bytes(last).unwrap_or(sum_bytes(input)),
        "mean" => values
            .scalar_type_bytes(last)
            .unwrap_or(input.element_bytes),
        "argmax" | "argmin" => INDEX_BYTES,
        "all" | "any" => FLAG_BYTES,
        // the values and their positions
        "max" | "min" if !dims.is_empty() => input.element_bytes + INDEX_BYTES,
        "var_mean" | "std_mean" => input.element_bytes * 2,
        _ => input.element_bytes,
    };
    Some(elements.saturating_mul(size))
}

/// Size of an element of a sum, bytes: whole numbers are added as int64.
fn sum_bytes(input: TensorShape<'_>) -> u64 {
    if input.is_floating {
        input.element_bytes
    } else {
        INDEX_BYTES
    }
}

/// Size of the values and positions of the largest `k` along a dimension.
fn top_bytes(input: TensorShape<'_>, values: ArgumentValues<'_>) -> Option<u64> {
    let kept = u64::try_from(values.integer(1)?).ok()?;
    let dim = place_of(values.integer(2)?, input.dims.len())?;
    let elements = without_dims(input.dims, &[dim]).saturating_mul(kept);
    Some(elements.saturating_mul(input.element_bytes + INDEX_BYTES))
}

/// Size of the mean and deviation that a norm keeps for its gradient: two floats per normalized
/// group.
fn norm_statistics(name: &str, input: TensorShape<'_>, values: ArgumentValues<'_>) -> Option<u64> {
    let groups = match name {
        "native_layer_norm" => {
            let normalized = values.integers(1)?.len();
            let kept = input.dims.len().checked_sub(normalized)?;
            elements_of(&input.dims[..kept])
        }
        "native_group_norm" => {
            let (batch, groups) = (values.integer(3)?, values.integer(6)?);
            u64::try_from(batch.checked_mul(groups)?).ok()?
        }
        // not kept in evaluation
        _ if values.flag(5) == Some(false) => 0,
        _ => *input.dims.get(1)?,
    };
    Some(groups.saturating_mul(2 * FLOAT_BYTES))
}

/// Size of the gradients of a norm's weight and bias, as selected by its mask.
fn weight_gradients(name: &str, inputs: &TensorShapes, values: ArgumentValues<'_>) -> u64 {
    let (weight, mask) = match name {
        "native_batch_norm_backward" => (2, 9),
        "native_layer_norm_backward" => (5, 7),
        "native_group_norm_backward" => (4, 9),
        _ => return 0,
    };
    let weight = inputs.argument(weight).map_or(0, |weight| weight.bytes());
    let mask = values.flags(mask).unwrap_or_default();
    let asked = mask.iter().skip(1).filter(|asked| **asked).count();
    weight.saturating_mul(asked as u64)
}

/// Size of a loss: one number, or with reduction 0 one per element.
fn loss_bytes(input: TensorShape<'_>, reduction: i64) -> Option<u64> {
    Some(if reduction == 0 {
        input.bytes()
    } else {
        input.element_bytes
    })
}

fn pool_bytes(name: &str, input: TensorShape<'_>, values: ArgumentValues<'_>) -> Option<u64> {
    let [outside @ .., height, width] = input.dims else {
        return None;
    };
    let pair = |number: u32| match values.integers(number)?[..] {
        [one] => Some([one, one]),
        [first, second] => Some([first, second]),
        _ => None,
    };
    let planes = elements_of(outside);
    if name.contains("adaptive") {
        let [rows, columns] = pair(1)?;
        let (rows, columns) = (u64::try_from(rows).ok()?, u64::try_from(columns).ok()?);
        let elements = planes.saturating_mul(rows).saturating_mul(columns);
        return Some(elements.saturating_mul(input.element_bytes));
    }
    let kernel = pair(1)?;
    let stride = pair(2).unwrap_or(kernel);
    let padding = pair(3)?;
    let has_indices = name.ends_with("with_indices");
    let (dilation, ceil) = if name.starts_with("max") {
        (pair(4)?, values.flag(5)?)
    } else {
        ([1, 1], values.flag(4)?)
    };
    let mut elements = planes;
    for (at, size) in [height, width].into_iter().enumerate() {
        let size = i64::try_from(*size).ok()?;
        let reach = dilation[at].checked_mul(kernel[at].checked_sub(1)?)?;
        let around = padding[at].checked_mul(2)?;
        let room = size
            .checked_add(around)?
            .checked_sub(reach)?
            .checked_sub(1)?;
        let mut places = room.checked_div_euclid(stride[at])? + 1;
        let has_rest = room.checked_rem_euclid(stride[at])? > 0;
        // with `ceil_mode`, the last window starts inside the input or its padding
        if ceil && has_rest && places.checked_mul(stride[at])? < size.checked_add(padding[at])? {
            places += 1;
        }
        elements = elements.saturating_mul(u64::try_from(places).ok()?);
    }
    let size = if has_indices {
        input.element_bytes + INDEX_BYTES
    } else {
        input.element_bytes
    };
    Some(elements.saturating_mul(size))
}

/// True for gradients of norms, pools and losses, whose second argument is the tensor that they
/// belong to.
fn is_reduction_gradient(name: &str) -> bool {
    const GRADIENTS: &[&str] = &["norm", "pool", "loss", "batch_norm", "layer_norm"];
    GRADIENTS.iter().any(|part| name.contains(part))
}

/// Returns the index of a dimension that may count from the end.
fn place_of(dim: i64, count: usize) -> Option<usize> {
    let count = i64::try_from(count).ok()?;
    let place = if dim < 0 { dim + count } else { dim };
    usize::try_from(place)
        .ok()
        .filter(|place| (*place as i64) < count.max(1))
}

fn without_dims(dims: &[u64], reduced: &[usize]) -> u64 {
    let kept = dims.iter().enumerate();
    let kept = kept.filter(|(at, _)| !reduced.contains(at));
    kept.fold(1, |product, (_, dim)| product.saturating_mul(*dim))
}
