//! Work of ops of inference libraries: vLLM, SGLang's kernels and AITER.
//!
//! These ops receive the tensors that they write as arguments, so a device trace has all shapes.
//! Numbers of arguments are those of the libraries' schemas: `csrc/torch_bindings.cpp` of vLLM 0.6
//! to 0.15, `sgl-kernel/csrc/common_extension.cc` of SGLang, `aiter/ops/rmsnorm.py` of AITER.

use super::formulas::RooflineFormula::{
    self, Bytes, Elementwise, Experts, Matmul, Reduction, Unknown,
};
use super::formulas::{OpArguments, pytorch_work};
use super::{RooflineWork, TensorShapes};

/// Op whose arguments are read or written whole, each element once.
struct WholeOp {
    name: &'static str,
    formula: RooflineFormula,
    /// Arguments read.
    reads: &'static [u32],
    /// Arguments written, or as large as what is.
    writes: &'static [u32],
}

const fn whole(
    name: &'static str,
    formula: RooflineFormula,
    reads: &'static [u32],
    writes: &'static [u32],
) -> WholeOp {
    WholeOp {
        name,
        formula,
        reads,
        writes,
    }
}

const WHOLE: &[WholeOp] = &[
    whole("_C::rms_norm", Reduction, &[1, 2], &[0]),
    whole("_C::fused_add_rms_norm", Reduction, &[0, 1, 2], &[0, 1]),
    whole("_C::rms_norm_static_fp8_quant", Reduction, &[1, 2], &[0]),
    whole(
        "_C::fused_add_rms_norm_static_fp8_quant",
        Reduction,
        &[1, 2, 3],
        &[0, 2],
    ),
    whole(
        "_C::rms_norm_dynamic_per_token_quant",
        Reduction,
        &[1, 2, 6],
        &[0, 3, 6],
    ),
    whole("_C::silu_and_mul", Elementwise, &[1], &[0]),
    whole("_C::mul_and_silu", Elementwise, &[1], &[0]),
    whole("_C::silu_and_mul_quant", Elementwise, &[1], &[0]),
    whole("_C::gelu_and_mul", Elementwise, &[1], &[0]),
    whole("_C::gelu_tanh_and_mul", Elementwise, &[1], &[0]),
    whole("_C::fatrelu_and_mul", Elementwise, &[1], &[0]),
    whole("_C::swigluoai_and_mul", Elementwise, &[1], &[0]),
    whole("_C::gelu_new", Elementwise, &[1], &[0]),
    whole("_C::gelu_fast", Elementwise, &[1], &[0]),
    whole("_C::gelu_quick", Elementwise, &[1], &[0]),
    whole("_C::static_scaled_fp8_quant", Elementwise, &[1], &[0]),
    whole("_C::dynamic_scaled_fp8_quant", Elementwise, &[1], &[0]),
    whole(
        "_C::dynamic_per_token_scaled_fp8_quant",
        Elementwise,
        &[1],
        &[0, 2],
    ),
    whole("_C::static_scaled_int8_quant", Elementwise, &[1], &[0]),
    whole("_C::dynamic_scaled_int8_quant", Elementwise, &[1], &[0, 2]),
    whole("_moe_C::topk_softmax", Reduction, &[3], &[0, 1, 2]),
    whole("_moe_C::moe_sum", Reduction, &[0], &[1]),
    whole("sgl_kernel::rmsnorm", Reduction, &[1, 2], &[0]),
    whole("sgl_kernel::gemma_rmsnorm", Reduction, &[1, 2], &[0]),
    whole(
        "sgl_kernel::fused_add_rmsnorm",
        Reduction,
        &[0, 1, 2],
        &[0, 1],
    ),
    whole(
        "sgl_kernel::gemma_fused_add_rmsnorm",
        Reduction,
        &[0, 1, 2],
        &[0, 1],
    ),
    whole("sgl_kernel::silu_and_mul", Elementwise, &[1], &[0]),
    whole("sgl_kernel::gelu_and_mul", Elementwise, &[1], &[0]),
    whole("sgl_kernel::gelu_tanh_and_mul", Elementwise, &[1], &[0]),
    whole(
        "sgl_kernel::sgl_per_token_group_quant_fp8",
        Elementwise,
        &[0],
        &[1, 2],
    ),
    whole(
        "sgl_kernel::sgl_per_token_group_quant_int8",
        Elementwise,
        &[0],
        &[1, 2],
    ),
    whole(
        "sgl_kernel::sgl_per_token_quant_fp8",
        Elementwise,
        &[0],
        &[1, 2],
    ),
    whole(
        "sgl_kernel::sgl_per_tensor_quant_fp8",
        Elementwise,
        &[0],
        &[1],
    ),
    // its result, as large as the first argument, is no argument
    whole("aiter::rms_norm", Reduction, &[0, 1], &[0]),
    whole("aiter::rmsnorm2d_fwd", Reduction, &[0, 1], &[0]),
    whole("aiter::_groupnorm_run", Reduction, &[0, 2, 3], &[0]),
    whole("aiter::rmsnorm", Reduction, &[1, 2], &[0]),
    whole("aiter::add_rmsnorm", Reduction, &[1, 2, 4], &[0, 3]),
    whole("aiter::rms_norm_cu", Reduction, &[1, 2], &[0]),
    whole(
        "aiter::fused_add_rms_norm_cu",
        Reduction,
        &[0, 1, 2],
        &[0, 1],
    ),
    whole(
        "aiter::rmsnorm2d_fwd_with_add",
        Reduction,
        &[1, 2, 4],
        &[0, 3],
    ),
    whole(
        "aiter::rmsnorm2d_fwd_with_add_ck",
        Reduction,
        &[1, 2, 4],
        &[0, 3],
    ),
];

/// Products of `a`, argument 1, that write argument 0, with the number of values per element of `a`.
const PRODUCTS: &[(&str, u64)] = &[
    ("_C::cutlass_scaled_mm", 1),
    ("_C::cutlass_scaled_fp4_mm", 2),
    ("sgl_kernel::cutlass_scaled_fp4_mm", 2),
    ("sgl_kernel::dsv3_fused_a_gemm", 1),
    ("sgl_kernel::dsv3_router_gemm", 1),
];

/// Mixtures of experts: tokens, both weights, and the weight and number of each expert of a token.
const EXPERTS: &[&str] = &[
    "vllm::inplace_fused_experts",
    "vllm::outplace_fused_experts",
    "sglang::inplace_fused_experts",
    "sglang::outplace_fused_experts",
];

/// Copies of new keys and values into the rows of a cache that argument 4 names.
const CACHES: &[&str] = &[
    "_C_cache_ops::reshape_and_cache",
    "_C_cache_ops::reshape_and_cache_flash",
    "sglang::store_cache",
];

const ROTARY: &[&str] = &["_C::rotary_embedding", "sgl_kernel::rotary_embedding"];

/// True if the arguments of an op name everything that it reads and writes.
pub fn has_all_arguments(name: &str) -> bool {
    name.starts_with("aten::") || is_library_op(name)
}

/// Computes the work of an op. If outputs are not recorded, their sizes are derived from inputs and
/// values; if these are not sufficient, the formula is [`RooflineFormula::Unknown`]. O(arguments).
pub fn work_from_shapes(name: &str, arguments: OpArguments<'_>) -> RooflineWork {
    if !is_library_op(name) {
        return pytorch_work(name, arguments);
    }
    library_work(name, arguments.inputs).unwrap_or(RooflineWork {
        formula: Unknown,
        ..RooflineWork::default()
    })
}

/// True if the work of a library's op follows from its arguments.
fn is_library_op(name: &str) -> bool {
    WHOLE.iter().any(|op| op.name == name)
        || PRODUCTS.iter().any(|(known, _)| *known == name)
        || EXPERTS.contains(&name)
        || CACHES.contains(&name)
        || ROTARY.contains(&name)
}

/// Returns the work of a library's op; `None` for other ops, and if arguments are missing.
/// O(tensors).
fn library_work(name: &str, inputs: &TensorShapes) -> Option<RooflineWork> {
    if let Some(op) = WHOLE.iter().find(|op| op.name == name) {
        return whole_work(op, inputs);
    }
    if let Some((_, packed)) = PRODUCTS.iter().find(|(known, _)| *known == name) {
        let (out, a) = (inputs.argument(0)?, inputs.argument(1)?);
        let depth = a.dims.last()?.saturating_mul(*packed);
        return Some(RooflineWork {
            operations: out.elements().saturating_mul(depth).saturating_mul(2),
            bytes: inputs.bytes(),
            formula: Matmul,
        });
    }
    if EXPERTS.contains(&name) {
        return expert_work(inputs);
    }
    if CACHES.contains(&name) {
        let (key, value) = (inputs.argument(0)?, inputs.argument(1)?);
        let (cache, slots) = (inputs.argument(2)?, inputs.argument(4)?);
        let elements = key.elements().saturating_add(value.elements());
        let written = elements.saturating_mul(cache.element_bytes);
        let read = [key.bytes(), value.bytes(), slots.bytes()];
        return Some(RooflineWork {
            operations: elements,
            bytes: read.into_iter().fold(written, u64::saturating_add),
            formula: Bytes,
        });
    }
    if ROTARY.contains(&name) {
        let (positions, query) = (inputs.argument(0)?, inputs.argument(1)?);
        let key = inputs.argument(2).map_or(0, |key| key.bytes());
        let table = inputs.argument(4)?;
        let rows = positions.elements().saturating_mul(*table.dims.last()?);
        let turned = query.bytes().saturating_add(key);
        let read = rows.saturating_mul(table.element_bytes);
        let bytes = [turned, turned, read, positions.bytes()];
        return Some(RooflineWork {
            operations: turned / query.element_bytes.max(1),
            bytes: bytes.into_iter().fold(0, u64::saturating_add),
            formula: Elementwise,
        });
    }
    None
}

fn whole_work(op: &WholeOp, inputs: &TensorShapes) -> Option<RooflineWork> {
    let main = inputs.argument(*op.reads.first()?)?;
    inputs.argument(*op.writes.first()?)?;
    let arguments = op.reads.iter().chain(op.writes);
    // optional tensors may be absent
    let sizes = arguments.filter_map(|number| Some(inputs.argument(*number)?.bytes()));
    Some(RooflineWork {
        operations: main.elements(),
        bytes: sizes.fold(0, u64::saturating_add),
        formula: op.formula,
    })
}

/// Returns the work of a mixture of experts. Bytes assume that as many experts are used as the tokens
/// can name.
fn expert_work(inputs: &TensorShapes) -> Option<RooflineWork> {
    let (tokens, chosen) = (inputs.argument(0)?, inputs.argument(4)?);
    let (up, down) = (inputs.argument(1)?, inputs.argument(2)?);
    let (&[experts, up_rows, up_columns], &[_, down_rows, down_columns]) = (up.dims, down.dims)
    else {
        return None;
    };
    // packed weights have fewer columns
    if Some(&up_columns) != tokens.dims.last() {
        return None;
    }
    let per_token = up_rows
        .saturating_mul(up_columns)
        .saturating_add(down_rows.saturating_mul(down_columns));
    let pairs = chosen.elements();
    let used = pairs.min(experts);
    let weights = (up.bytes().saturating_add(down.bytes()) / experts.max(1)).saturating_mul(used);
    Some(RooflineWork {
        operations: pairs.saturating_mul(per_token).saturating_mul(2),
        bytes: tokens
            .bytes()
            .saturating_mul(2)
            .saturating_add(chosen.bytes().saturating_mul(2))
            .saturating_add(weights),
        formula: Experts,
    })
}
