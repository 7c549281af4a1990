//! Element sizes of tensors in lists, whose types device traces lack, from the names of kernels.
//!
//! ```text
//! CatArrayBatchedCopy<…::OpaqueType<2u>, unsigned int, …>              copies: only the size
//! multi_tensor_apply_kernel<…, …::BinaryOpScalarFunctor<float, 1, …>>  `_foreach_…`, `_fused_…`
//! ```

use crate::trace::LinkedTrace;
use etlink_model::dtype_bytes;
use rustc_hash::FxHashMap;

/// Type of a list whose tensors' types are not recorded.
const LIST: &str = "\"TensorList\"";

/// Returns the element size of the lists of each op that has any, in bytes: the one that the names
/// of all its kernels state. O(rows + text of names).
pub(super) fn list_element_bytes(trace: &LinkedTrace) -> FxHashMap<usize, u64> {
    let (ops, rows) = (&trace.device.ops, &trace.device.rows);
    let mut sizes: FxHashMap<usize, Option<u64>> = FxHashMap::default();
    for (row, op) in trace.row_op.iter().enumerate() {
        let Some(op) = op.get().map(|op| op.index()) else {
            continue;
        };
        if !trace.device_name(ops.types[op]).contains(LIST) {
            continue;
        }
        let Some(size) = kernel_element_bytes(trace.device_name(rows.name[row])) else {
            continue;
        };
        let known = sizes.entry(op).or_insert(size);
        if *known != size {
            *known = None;
        }
    }
    let known = sizes.into_iter();
    known.filter_map(|(op, size)| Some((op, size?))).collect()
}

/// Returns the element size that a kernel of lists states, in bytes; the inner `None` if it names
/// several, the outer one for other kernels.
fn kernel_element_bytes(kernel: &str) -> Option<Option<u64>> {
    let types = |text: &str| -> Vec<Option<u64>> {
        let arguments = text.split(", ").take(2);
        arguments.map(argument_bytes).collect()
    };
    if let Some((_, rest)) = kernel.split_once("CatArrayBatchedCopy") {
        // the type of an index follows
        let (_, arguments) = rest.split_once('<')?;
        return Some(types(arguments)[0]);
    }
    let (_, rest) = kernel.split_once("multi_tensor_apply_kernel<")?;
    let (_, arguments) = rest.split_once("Functor<")?;
    Some(match types(arguments)[..] {
        [first, Some(second)] if first != Some(second) => None,
        [first, ..] => first,
        [] => None,
    })
}

/// Returns the size of a template argument that is a type, in bytes.
fn argument_bytes(text: &str) -> Option<u64> {
    match text.split_once("OpaqueType<") {
        Some((_, size)) => size.split('u').next()?.parse().ok(),
        None => dtype_bytes(text.split('>').next()?),
    }
}

#[cfg(test)]
mod tests {
    use super::kernel_element_bytes;

    #[test]
    fn sizes_in_names_of_kernels() {
        let list = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>, at::native::(anonymous namespace)::";
        for (kernel, size) in [
            (
                "void CatArrayBatchedCopy<at::OpaqueType<2u>, unsigned int, 4, 64>(x)",
                Some(Some(2)),
            ),
            (
                "void CatArrayBatchedCopy_vectorized<long, unsigned int, 2>(x)",
                Some(Some(8)),
            ),
            (
                "void CatArrayBatchedCopy<Unheard, unsigned int, 2>(x)",
                Some(None),
            ),
            (
                &format!("{list}UnaryOpFunctor<c10::BFloat16, 2, 1, 1>, at::native::Sqrt<float> >"),
                Some(Some(2)),
            ),
            (
                &format!("{list}CopyFunctor<c10::BFloat16, float, 2, 1, 1>, Copy>"),
                Some(None),
            ),
            (
                &format!("{list}CopyFunctor<float, float, 2, 1, 1>, Copy>"),
                Some(Some(4)),
            ),
            (
                "void at::native::vectorized_elementwise_kernel<4, Functor<float>>",
                None,
            ),
            ("", None),
        ] {
            assert_eq!(kernel_element_bytes(kernel), size, "{kernel}");
        }
    }
}
