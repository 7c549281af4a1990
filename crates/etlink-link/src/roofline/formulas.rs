//! Computes an op's operations and bytes from its tensors.

use super::attention::{AttentionMask, attention_mask};
use super::convolution::{is_convolution, is_transposed, output_dims};
use super::outputs::{
    Scattered, broadcast, broadcast_elements, is_scattered, only_writes_first, partly_read_bytes,
    picked_elements, scattered, written_bytes,
};
use super::shapes::elements_of;
use super::values::ArgumentValues;
use super::{RooflineWork, TensorShape, TensorShapes};
use serde::Serialize;

/// Formula for the work of an op. Dimensions of tensors are named as in the formulas.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RooflineFormula {
    /// `mm`, `addmm`, `bmm`, `baddbmm`, `linear` and similar, `[b, m, k] · [b, k, n]`: 2 b m n k.
    Matmul,
    /// Batch b, weight w: 2 b · output positions · elements of w; transposed: input positions.
    Convolution,
    /// Operations of a convolution for the input's gradient, and again for the weight's.
    ConvolutionBackward,
    /// Query `[b, h, s, d]`, key of length t, value of depth e: 2 b h s t (d + e). Masks that are
    /// tensors are ignored.
    Attention,
    /// The scores again, and two products for each factor: 2 b h s t (3 d + 2 e).
    AttentionBackward,
    /// Attention in which query i sees only the first i keys. Only visible pairs count: s (s + 1) /
    /// 2 if s = t. PyTorch's counter takes all s t pairs.
    CausalAttention,
    /// Gradient of causal attention, counting visible pairs.
    CausalAttentionBackward,
    /// Mixture of experts: for each of a token's experts 2 · elements of its weights.
    Experts,
    /// Measured on the device: Nsight Compute, CUPTI.
    Measured,
    /// One operation per element.
    Elementwise,
    /// One operation per input element.
    Reduction,
    /// One operation per element of the largest tensor: only the bytes are known.
    Bytes,
    /// Unknown operations or bytes: the op's writes, or its computation, depend on arguments that
    /// the trace lacks. The figures cover only its inputs, so they are a lower bound.
    Unknown,
    /// A copy or memset: bytes moved.
    Copy,
    /// No shapes, or nothing computed or moved.
    #[default]
    None,
}

impl RooflineFormula {
    /// Name of the formula in files.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// True if PyTorch counts the op too, or if the work was measured.
    pub fn is_counted(self) -> bool {
        self <= RooflineFormula::Measured
    }
}

/// Arguments of an op, as stated in its trace.
#[derive(Clone, Copy, Debug)]
pub struct OpArguments<'a> {
    /// Tensors passed to the op.
    pub inputs: &'a TensorShapes,
    /// Tensors returned by the op; `None` if the trace does not record them, such as device traces.
    pub outputs: Option<&'a TensorShapes>,
    /// Scalars and lists of numbers passed to the op.
    pub values: ArgumentValues<'a>,
}

/// Computes the work of an op of PyTorch, or of an op whose arguments have no known meaning. If outputs
/// are not recorded, their sizes are derived from inputs and values; if these are not sufficient, the
/// formula is [`RooflineFormula::Unknown`]. O(arguments).
pub(super) fn pytorch_work(name: &str, arguments: OpArguments<'_>) -> RooflineWork {
    let OpArguments {
        inputs,
        outputs,
        values,
    } = arguments;
    let of_pytorch = name.strip_prefix("aten::");
    let whole = of_pytorch
        .or_else(|| name.rsplit("::").next())
        .unwrap_or(name);
    // `add_` works in place, with the work of `add`
    let plain = whole.trim_end_matches('_');
    let is_in_place = plain != whole;
    if inputs.is_empty() || has(NOTHING, plain) {
        return RooflineWork::default();
    }
    if is_in_place && is_scattered(plain) {
        return scattered_work(plain, inputs, values);
    }
    let picked = picked_elements(plain, inputs);
    let read = picked.as_ref().map(|picked| picked.read_bytes);
    let read = read.or_else(|| partly_read_bytes(plain, inputs, values));
    let read = read.unwrap_or_else(|| inputs.bytes());
    // what the op writes into is no input
    let target = of_pytorch.and_then(|_| target_bytes(plain, inputs));
    let read = read.saturating_sub(target.unwrap_or(0));
    let counted = counted(plain, arguments);
    let (operations, formula) = match counted {
        Some((operations, formula, _)) => (operations, formula),
        None => match &picked {
            Some(picked) => (picked.elements, RooflineFormula::Reduction),
            None => per_element(plain, inputs, outputs),
        },
    };
    let written = if only_writes_first(plain, is_in_place) {
        // its first argument is one of the inputs
        Some(0)
    } else if let Some(bytes) = picked.and_then(|picked| picked.written_bytes) {
        Some(bytes)
    } else if let Some(outputs) = outputs {
        Some(outputs.bytes())
    } else if let Some((_, _, written)) = counted {
        Some(written)
    } else if of_pytorch.is_none() {
        // other ops receive the tensors that they write as arguments
        Some(0)
    } else {
        let is_elementwise = formula == RooflineFormula::Elementwise;
        let known = written_bytes(plain, is_elementwise, inputs, values);
        known.or_else(|| first_bytes(is_in_place, inputs))
    };
    let multiplies = counted.is_none() && is_counted_op(plain);
    // Kineto writes a list of tensors without their types
    let is_guess = of_pytorch.is_some() && inputs.has_unknown_lists();
    RooflineWork {
        operations,
        bytes: read.saturating_add(written.unwrap_or(0)),
        formula: if written.is_none() || multiplies || is_guess {
            RooflineFormula::Unknown
        } else {
            formula
        },
    }
}

/// Returns the work of an op that writes some rows of its first argument in place.
fn scattered_work(name: &str, inputs: &TensorShapes, values: ArgumentValues<'_>) -> RooflineWork {
    match scattered(name, inputs, values) {
        Some(Scattered { elements, bytes }) => RooflineWork {
            operations: elements,
            bytes,
            formula: RooflineFormula::Bytes,
        },
        None => RooflineWork {
            formula: RooflineFormula::Unknown,
            ..RooflineWork::default()
        },
    }
}

/// Returns the size of the first tensor, for an op that works in place.
fn first_bytes(is_in_place: bool, inputs: &TensorShapes) -> Option<u64> {
    if is_in_place {
        inputs.argument(0).map(|tensor| tensor.bytes())
    } else {
        None
    }
}

/// True if PyTorch counts the operations of such an op.
fn is_counted_op(name: &str) -> bool {
    let forward = name.strip_suffix("_backward").unwrap_or(name);
    let without_direction = forward.strip_suffix("_forward").unwrap_or(forward);
    MATMULS.iter().any(|(known, _)| *known == name)
        || name.ends_with("_grouped_mm")
        || is_convolution(forward)
        || has(HEADS_FIRST, forward)
        || has(HEADS_LAST, without_direction)
}

/// Returns operations and bytes written, for ops that PyTorch counts.
fn counted(name: &str, arguments: OpArguments<'_>) -> Option<(u64, RooflineFormula, u64)> {
    let OpArguments {
        inputs,
        outputs,
        values,
    } = arguments;
    if let Some((_, first)) = MATMULS.iter().find(|(known, _)| *known == name) {
        let factors = (inputs.argument(*first)?, inputs.argument(first + 1)?);
        return matmul(name, factors.0, factors.1, values);
    }
    if let "_grouped_mm" | "_scaled_grouped_mm" = name {
        return grouped_matmul(name, inputs, values);
    }
    if name == "convolution_backward" {
        let tensors = [
            inputs.argument(0)?,
            inputs.argument(1)?,
            inputs.argument(2)?,
        ];
        return convolution_backward(tensors, outputs, values);
    }
    if is_convolution(name) {
        let (input, weight) = (inputs.argument(0)?, inputs.argument(1)?);
        let dims;
        let output = match outputs {
            Some(outputs) => outputs.argument(0)?,
            None => {
                dims = output_dims(name, input, weight, values)?;
                TensorShape {
                    dims: &dims,
                    ..input
                }
            }
        };
        let direction = is_transposed(name, values);
        let operations = convolution(input, weight, output, direction)?;
        return Some((operations, RooflineFormula::Convolution, output.bytes()));
    }
    let (forward, backward) = name
        .strip_suffix("_backward")
        .map_or((name, false), |forward| (forward, true));
    let heads_first = has(HEADS_FIRST, forward);
    if heads_first
        || has(
            HEADS_LAST,
            forward.strip_suffix("_forward").unwrap_or(forward),
        )
    {
        // The backward op has the output's gradient as its first argument.
        let first = u32::from(backward);
        let tensors = [
            inputs.argument(first)?,
            inputs.argument(first + 1)?,
            inputs.argument(first + 2)?,
        ];
        let layout = AttentionLayout {
            heads_first,
            backward,
            keeps_scores: name.ends_with("_math"),
            mask: attention_mask(name, values),
        };
        let packed = packed_dims(forward, backward, tensors, (inputs, values));
        let Some([query, key, value]) = &packed else {
            return attention(layout, tensors);
        };
        let dims = [query, key, value];
        let unpacked = [0, 1, 2].map(|number| TensorShape {
            dims: dims[number],
            ..tensors[number]
        });
        return attention(layout, unpacked);
    }
    None
}

/// Returns the dimensions `[b, s, h, d]` of packed tensors `[tokens, h, d]` whose sequences are
/// equally long: the longest, which is an argument, times their number gives the tokens.
fn packed_dims(
    name: &str,
    backward: bool,
    tensors: [TensorShape<'_>; 3],
    (inputs, values): (&TensorShapes, ArgumentValues<'_>),
) -> Option<[[u64; 4]; 3]> {
    let sequences = match (name, backward) {
        ("_flash_attention_forward" | "_flash_attn_varlen_forward", false) => 3,
        ("_flash_attention", true) => 6,
        _ => return None,
    };
    let mut unpacked = [[0; 4]; 3];
    for (number, tensor) in tensors.into_iter().enumerate() {
        let &[tokens, heads, depth] = tensor.dims else {
            return None;
        };
        // first of the queries, then of keys and values
        let side = u32::from(number > 0);
        let count = inputs
            .argument(sequences + side)?
            .elements()
            .checked_sub(1)?;
        let longest = u64::try_from(values.integer(sequences + 2 + side)?).ok()?;
        if count.checked_mul(longest) != Some(tokens) {
            return None;
        }
        unpacked[number] = [count, longest, heads, depth];
    }
    Some(unpacked)
}

/// Returns the size of the tensor that a product writes into, which follows the arguments of its schema:
/// Inductor calls `mm.out`, whose name in traces is that of `mm`.
fn target_bytes(name: &str, inputs: &TensorShapes) -> Option<u64> {
    let place = match name {
        "mm" | "bmm" | "matmul" | "mv" | "dot" | "_int_mm" => 2,
        "linear" => 3,
        "addmm" | "baddbmm" | "addmv" => 5,
        "_addmm_activation" => 6,
        "_scaled_mm" => 8,
        _ => return None,
    };
    inputs.argument(place).map(|target| target.bytes())
}

/// Computes products of `[m, k]` and `[k, n]` with any batch before them; a `linear`'s weight is
/// `[n, k]`.
fn matmul(
    name: &str,
    a: TensorShape<'_>,
    b: TensorShape<'_>,
    values: ArgumentValues<'_>,
) -> Option<(u64, RooflineFormula, u64)> {
    let is_linear = name.ends_with("linear");
    let (k, before) = a.dims.split_last()?;
    let (m, batch) = before.split_last().unwrap_or((&1, &[]));
    let (n, other_batch): (u64, &[u64]) = match (is_linear, b.dims) {
        (_, []) => return None,
        (_, [_]) => (1, &[]),
        (true, [n, ..]) => (*n, &[]),
        (false, [batch @ .., _, n]) => (*n, batch),
    };
    // a batch of one is used for each of the other's
    let batches = broadcast(&[batch, other_batch]);
    let elements = elements_of(&batches).saturating_mul(*m).saturating_mul(n);
    let element_bytes = match name {
        "_int_mm" => 4,
        // `out_dtype`
        "_scaled_mm" => values.scalar_type_bytes(6).unwrap_or(a.element_bytes),
        _ => a.element_bytes,
    };
    Some((
        elements.saturating_mul(*k).saturating_mul(2),
        RooflineFormula::Matmul,
        elements.saturating_mul(element_bytes),
    ))
}

/// Computes the products of groups of rows, of columns, or of parts of the inner dimension; each value
/// of the first factor belongs to one group.
fn grouped_matmul(
    name: &str,
    inputs: &TensorShapes,
    values: ArgumentValues<'_>,
) -> Option<(u64, RooflineFormula, u64)> {
    let (a, b) = (inputs.argument(0)?, inputs.argument(1)?);
    let (&[.., m, k], &[.., n]) = (a.dims, b.dims) else {
        return None;
    };
    let offsets = if name == "_grouped_mm" { 2 } else { 4 };
    let (batch, written_groups) = match (a.dims.len(), b.dims.len()) {
        (3, 3) => (a.dims[0], a.dims[0]),
        (2, 2) => (1, inputs.argument(offsets)?.elements()),
        (2, 3) | (3, 2) => (1, 1),
        _ => return None,
    };
    // `out_dtype`; bfloat16 if it is left out
    let element_bytes = if name == "_grouped_mm" {
        a.element_bytes
    } else {
        values.scalar_type_bytes(7).unwrap_or(2)
    };
    let rows_and_columns = m.saturating_mul(n);
    let products = rows_and_columns.saturating_mul(batch).saturating_mul(k);
    let written = rows_and_columns.saturating_mul(written_groups);
    Some((
        products.saturating_mul(2),
        RooflineFormula::Matmul,
        written.saturating_mul(element_bytes),
    ))
}

/// Returns the operations. `direction` is true for a transposed convolution, whose weight is
/// `[channels in, channels out / groups, …]`; `None` if the trace does not state it.
fn convolution(
    input: TensorShape<'_>,
    weight: TensorShape<'_>,
    output: TensorShape<'_>,
    direction: Option<bool>,
) -> Option<u64> {
    let ([batch, channels, input_space @ ..], [out_batch, out_channels, output_space @ ..]) =
        (input.dims, output.dims)
    else {
        return None;
    };
    let [first, ..] = weight.dims else {
        return None;
    };
    if batch != out_batch || input_space.len() != output_space.len() {
        return None;
    }
    let (inside, outside) = (elements_of(input_space), elements_of(output_space));
    // A square weight fits both ways; then a larger output indicates a transposed one.
    let looks_transposed = first == channels && (first != out_channels || outside > inside);
    let places = if direction.unwrap_or(looks_transposed) {
        inside
    } else {
        outside
    };
    let products = batch
        .saturating_mul(places)
        .saturating_mul(weight.elements());
    Some(products.saturating_mul(2))
}

/// Computes both gradients. `flop_counter` multiplies the weight's gradient by the number of
/// groups; here, only actual products count.
fn convolution_backward(
    [gradient, input, weight]: [TensorShape<'_>; 3],
    outputs: Option<&TensorShapes>,
    values: ArgumentValues<'_>,
) -> Option<(u64, RooflineFormula, u64)> {
    /// Index of `output_mask`: gradients of the input, the weight and the bias.
    const MASK: u32 = 10;
    /// `transposed`.
    const TRANSPOSED: u32 = 7;
    let one = convolution(input, weight, gradient, values.flag(TRANSPOSED))?;
    let mask = values.flags(MASK).filter(|mask| mask.len() == 3);
    let asked = |number: u32| match (outputs, &mask) {
        (Some(outputs), _) => outputs.argument(number).is_some(),
        (None, Some(mask)) => mask[number as usize],
        (None, None) => true,
    };
    let (mut times, mut written) = (0, 0u64);
    for (number, tensor) in [(0, input), (1, weight)] {
        if asked(number) {
            times += 1;
            written = written.saturating_add(tensor.bytes());
        }
    }
    if mask.is_some_and(|mask| mask[2])
        && let Some(channels) = gradient.dims.get(1)
    {
        let bias = channels.saturating_mul(gradient.element_bytes);
        written = written.saturating_add(bias);
    }
    Some((
        one.saturating_mul(times),
        RooflineFormula::ConvolutionBackward,
        written,
    ))
}

/// Layout of an attention's dimensions, and the keys that its queries see.
#[derive(Clone, Copy, Debug)]
struct AttentionLayout {
    /// True for `[b, h, s, d]`, false for `[b, s, h, d]`.
    heads_first: bool,
    backward: bool,
    /// True if the scores of all pairs are also a result.
    keeps_scores: bool,
    mask: AttentionMask,
}

/// Computes the operations of an attention; none for packed tensors without padding, `[tokens, h,
/// d]`, which do not show the lengths.
fn attention(
    layout: AttentionLayout,
    [query, key, value]: [TensorShape<'_>; 3],
) -> Option<(u64, RooflineFormula, u64)> {
    let (&[b, h_or_s, s_or_h, d], &[_, k1, k2, _], &[_, _, _, e]) =
        (query.dims, key.dims, value.dims)
    else {
        return None;
    };
    let (h, s, t) = if layout.heads_first {
        (h_or_s, s_or_h, k2)
    } else {
        (s_or_h, h_or_s, k1)
    };
    let depth = if layout.backward {
        d.saturating_mul(3).saturating_add(e.saturating_mul(2))
    } else {
        d.saturating_add(e)
    };
    let pairs = layout.mask.pairs(s, t);
    let operations = [b, h, pairs, depth]
        .into_iter()
        .fold(2u64, u64::saturating_mul);
    let is_causal = layout.mask != AttentionMask::None;
    Some(if layout.backward {
        let written = query.bytes().saturating_add(key.bytes());
        let formula = if is_causal {
            RooflineFormula::CausalAttentionBackward
        } else {
            RooflineFormula::AttentionBackward
        };
        (operations, formula, written.saturating_add(value.bytes()))
    } else {
        let formula = if is_causal {
            RooflineFormula::CausalAttention
        } else {
            RooflineFormula::Attention
        };
        let mut elements = (query.elements() / d.max(1)).saturating_mul(e);
        if layout.keeps_scores {
            let scores = [h, s, t].into_iter().fold(b, u64::saturating_mul);
            elements = elements.saturating_add(scores);
        }
        let written = elements.saturating_mul(query.element_bytes);
        (operations, formula, written)
    })
}

fn per_element(
    name: &str,
    inputs: &TensorShapes,
    outputs: Option<&TensorShapes>,
) -> (u64, RooflineFormula) {
    let any = largest_tensor(inputs).max(outputs.map_or(0, largest_tensor));
    match () {
        // The lists of a fused optimizer hold parameters, gradients and states: the first list is
        // updated.
        () if name.starts_with("_foreach") || name.starts_with("_fused") => {
            (inputs.first_elements(), RooflineFormula::Elementwise)
        }
        () if has(ELEMENTWISE, name.strip_suffix("_backward").unwrap_or(name)) => {
            let broadcast = broadcast_elements(inputs);
            (any.max(broadcast), RooflineFormula::Elementwise)
        }
        () if has(REDUCTIONS, name.strip_suffix("_backward").unwrap_or(name)) => {
            (largest_tensor(inputs), RooflineFormula::Reduction)
        }
        () => (any, RooflineFormula::Bytes),
    }
}

/// Number of elements of the largest tensor; 0 without tensors.
fn largest_tensor(tensors: &TensorShapes) -> u64 {
    let elements = tensors.iter().map(|tensor| tensor.elements());
    elements.max().unwrap_or(0)
}

fn has(list: &[&str], name: &str) -> bool {
    list.contains(&name)
}

/// Products, with the argument index of the first factor.
const MATMULS: &[(&str, u32)] = &[
    ("mm", 0),
    ("bmm", 0),
    ("matmul", 0),
    ("mv", 0),
    ("dot", 0),
    ("linear", 0),
    ("mkldnn_linear", 0),
    ("_scaled_mm", 0),
    ("_int_mm", 0),
    ("addmm", 1),
    ("_addmm_activation", 1),
    ("baddbmm", 1),
    ("addmv", 1),
];

/// Attention over `[b, h, s, d]`.
const HEADS_FIRST: &[&str] = &[
    "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_cudnn_attention",
    "_cudnn_attention_forward",
];

/// Attention over `[b, s, h, d]`.
const HEADS_LAST: &[&str] = &[
    "_flash_attention",
    "_efficient_attention",
    "_flash_attn",
    "_flash_attn_varlen",
];

#[rustfmt::skip]
const ELEMENTWISE: &[&str] = &[
    "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "pow", "neg",
    "abs", "sign", "exp", "exp2", "log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal", "square",
    "sin", "cos", "tanh", "sigmoid", "relu", "threshold", "leaky_relu", "elu", "gelu", "silu",
    "mish", "softplus", "hardswish", "hardtanh", "clamp", "clamp_min", "clamp_max", "maximum",
    "minimum", "where", "masked_fill", "addcmul", "addcdiv", "lerp", "eq", "ne", "lt", "le", "gt",
    "ge", "logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not",
    "native_dropout", "dropout", "round", "floor", "ceil", "isnan", "erf",
];

#[rustfmt::skip]
const REDUCTIONS: &[&str] = &[
    "sum", "mean", "prod", "max", "min", "amax", "amin", "argmax", "argmin", "norm",
    "linalg_vector_norm", "var", "var_mean", "std", "all", "any", "cumsum", "logsumexp", "_softmax",
    "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "native_layer_norm",
    "native_group_norm", "native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm",
    "miopen_batch_norm", "_fused_rms_norm", "nll_loss_forward", "nll_loss", "mse_loss",
    "binary_cross_entropy", "avg_pool2d", "max_pool2d_with_indices", "_adaptive_avg_pool2d",
    "adaptive_avg_pool2d", "topk", "sort",
];

/// Ops that only create a view, or uninitialized memory.
#[rustfmt::skip]
const NOTHING: &[&str] = &[
    "view", "_unsafe_view", "_reshape_alias", "reshape", "view_as", "flatten", "unflatten", "t",
    "transpose", "permute", "as_strided", "expand", "expand_as", "slice", "select", "narrow",
    "split", "split_with_sizes", "chunk", "unbind", "unsqueeze", "squeeze", "detach", "alias",
    "lift_fresh", "resolve_conj", "resolve_neg", "contiguous", "to", "_to_copy", "empty",
    "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize", "set", "is_nonzero",
    "item", "_local_scalar_dense", "result_type", "numpy_T", "movedim", "diagonal",
    "record_param_comms", "broadcast_tensors", "type_as", "unfold", "real", "view_as_real",
    "view_as_complex", "is_same_size", "AccumulateGrad",
];
