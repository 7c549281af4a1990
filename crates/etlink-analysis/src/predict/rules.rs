//! Dimensions of an op's outputs, from those of its inputs.

use crate::predict::arguments::{Call, dim_number, most_roles};
use crate::predict::dims::{Dim, Factor, Shape, reshape, roles_of, sizes_of};
use crate::predict::sizes::{SizeRole, Sizes};

/// Dimensions of an output, and what they rest on.
pub(crate) enum Rule {
    /// The op's definition, or an input of the same shape.
    Known(Shape),
    /// Inputs with the same sizes at some dimensions.
    Likely(Shape),
    /// Nothing: the op is unknown, or creates a tensor.
    Unknown,
}

/// Returns the dimensions of output number `place`, which has these sizes.
pub(crate) fn output_shape(
    call: &Call<'_>,
    (place, sizes): (usize, &[u64]),
    known: &Sizes,
) -> Rule {
    if call.shapes.is_empty() {
        return Rule::Unknown;
    }
    // A list of results has the order of the first list, which may be long.
    if call.name.starts_with("_foreach_")
        && let Some(shape) = call.shapes.get(place)
        && sizes_of(shape) == sizes
    {
        return Rule::Known(shape.clone());
    }
    let by_name = named_shape(call, sizes, known);
    // A wrong guess of the layout, or an argument with an unexpected meaning, has other sizes.
    if let Some(shape) = by_name.filter(|shape| sizes_of(shape) == sizes) {
        return Rule::Known(shape);
    }
    if let Some(shape) = same_shape(call, sizes) {
        return Rule::Known(shape);
    }
    match broadcast_shape(call, sizes) {
        Some(shape) => Rule::Likely(shape),
        None => Rule::Unknown,
    }
}

fn named_shape(call: &Call<'_>, sizes: &[u64], known: &Sizes) -> Option<Shape> {
    match call.name {
        "view" | "reshape" | "_unsafe_view" | "_reshape_alias" | "flatten" | "unflatten"
        | "squeeze" | "squeeze_" | "unsqueeze" | "unsqueeze_" | "view_as" => {
            reshape(call.shape(0)?, sizes)
        }
        "t" | "t_" | "numpy_T" => Some(call.shape(0)?.iter().rev().cloned().collect()),
        "transpose" | "transpose_" => {
            let mut dims = call.shape(0)?.to_vec();
            let one = call.dim_number(1, dims.len())?;
            let other = call.dim_number(2, dims.len())?;
            dims.swap(one, other);
            Some(dims.into())
        }
        "permute" => {
            let shape = call.shape(0)?;
            let order = call.inputs.integers(1)?;
            let dims = order.iter();
            dims.map(|dim| shape.get(dim_number(*dim, shape.len())?).cloned())
                .collect()
        }
        "select" => {
            let mut dims = call.shape(0)?.to_vec();
            let dim = call.dim_number(1, dims.len())?;
            dims.remove(dim);
            Some(dims.into())
        }
        "slice" | "narrow" => slice(call, sizes, known),
        "split" | "chunk" | "split_with_sizes" | "unbind" | "tensor_split" | "unsafe_split" => {
            pieces(call, sizes)
        }
        "expand" | "expand_as" | "broadcast_to" => expanded(call, sizes),
        "mm" | "bmm" | "matmul" | "linear" | "_scaled_mm" => product(call, 0, sizes),
        "addmm" | "baddbmm" => product(call, 1, sizes),
        "embedding" => {
            let (table, index) = (call.shape(0)?, call.shape(1)?);
            Some(index.iter().chain(table.last()).cloned().collect())
        }
        "embedding_dense_backward" | "embedding_backward" => {
            let features = call.shape(0)?.last()?.clone();
            Some([Dim::fixed(*sizes.first()?), features].into())
        }
        "index_select" => {
            let mut dims = call.shape(0)?.to_vec();
            let dim = call.dim_number(1, dims.len())?;
            dims[dim] = call.shape(2)?.first()?.clone();
            Some(dims.into())
        }
        "gather" => call.shape(2).cloned(),
        "cat" => concatenated(call, sizes),
        "stack" => {
            let count = call.shapes_of(0).count() as u64;
            let mut dims = call.shapes_of(0).next()?.to_vec();
            let dim = call.dim_number(1, dims.len() + 1)?;
            // samples that the program collates itself
            let is_batch = count > 1 && known.old(SizeRole::Batch) == Some(count);
            let joined = if is_batch {
                Dim::one(Factor::Of(SizeRole::Batch, count))
            } else {
                Dim::fixed(count)
            };
            dims.insert(dim, joined);
            Some(dims.into())
        }
        "copy_" => call.shape(1).cloned(),
        "nonzero" | "masked_select" => counted(call, sizes),
        "sum" | "mean" | "amax" | "amin" | "var" | "var_mean" | "std" | "std_mean" | "norm"
        | "linalg_vector_norm" | "argmax" | "argmin" | "max" | "min" | "any" | "all" | "prod"
        | "logsumexp" => reduced(call, sizes),
        name if name.contains("conv") && !name.contains("backward") => convolved(call, sizes),
        name if name.ends_with('_') => call.shape(0).cloned(),
        _ => None,
    }
}

/// Returns the shape of an input with these sizes, the one with the most roles.
fn same_shape(call: &Call<'_>, sizes: &[u64]) -> Option<Shape> {
    let same = call.inputs_with_shapes().filter(|input| input.0 == sizes);
    let shapes = same.map(|(_, shape)| shape);
    let best = shapes.fold(None, |best: Option<&Shape>, shape| match best {
        Some(best) if roles_of(best) >= roles_of(shape) => Some(best),
        _ => Some(shape),
    });
    best.cloned()
}

/// Returns the shape that the inputs broadcast to, aligned at their last dimensions.
fn broadcast_shape(call: &Call<'_>, sizes: &[u64]) -> Option<Shape> {
    let rank = call.shapes.iter().map(|shape| shape.len()).max()?;
    if rank != sizes.len() {
        return None;
    }
    let dims = sizes.iter().enumerate().map(|(at, size)| {
        let fitting = call.shapes.iter().filter_map(|shape| {
            let place = (at + shape.len()).checked_sub(rank)?;
            shape.get(place).filter(|dim| dim.size() == *size)
        });
        most_roles(fitting).cloned()
    });
    dims.collect()
}

fn slice(call: &Call<'_>, sizes: &[u64], known: &Sizes) -> Option<Shape> {
    let mut dims = call.shape(0)?.to_vec();
    let dim = call.dim_number(1, dims.len())?;
    let size = *sizes.get(dim)?;
    let whole = dims[dim].size();
    if whole == size {
        return Some(dims.into());
    }
    dims[dim] = match dims[dim].only_role() {
        // most of a dimension with a role: all but the last token
        Some(role) if size.saturating_mul(2) > whole => Dim::one(Factor::Near(role, size)),
        _ if is_sequence(size, known) => Dim::one(Factor::Of(SizeRole::Sequence, size)),
        _ => Dim::fixed(size),
    };
    Some(dims.into())
}

/// True if a size is that of the sequence, and too large to be anything by chance.
pub(crate) fn is_sequence(size: u64, known: &Sizes) -> bool {
    const LEAST: u64 = 16;
    known.old(SizeRole::Sequence) == Some(size) && size >= LEAST
}

fn pieces(call: &Call<'_>, sizes: &[u64]) -> Option<Shape> {
    let mut dims = call.shape(0)?.to_vec();
    if dims.len() == sizes.len() + 1 {
        let dim = call.dim_number(1, dims.len()).unwrap_or(0);
        dims.remove(dim);
        return Some(dims.into());
    }
    for (dim, size) in dims.iter_mut().zip(sizes) {
        if dim.size() != *size {
            let whole = reshape(
                std::slice::from_ref(dim),
                &[dim.size() / size.max(&1), *size],
            );
            *dim = whole.map_or_else(|| Dim::fixed(*size), |parts| width_part(&parts, *size));
        }
    }
    Some(dims.into())
}

/// Returns one of the pieces that a dimension was split into: pieces of a wider layer are wider.
fn width_part(parts: &[Dim], size: u64) -> Dim {
    match parts.last() {
        Some(part) if part.only_role() == Some(SizeRole::Width) => part.clone(),
        _ => Dim::fixed(size),
    }
}

fn expanded(call: &Call<'_>, sizes: &[u64]) -> Option<Shape> {
    let shape = call.shape(0)?;
    let other = if call.name == "expand_as" {
        call.shape(1)
    } else {
        None
    };
    let offset = sizes.len().checked_sub(shape.len())?;
    let dims = sizes.iter().enumerate().map(|(at, size)| {
        let own = at.checked_sub(offset).and_then(|place| shape.get(place));
        match (own, other) {
            (Some(own), _) if own.size() == *size => Some(own.clone()),
            (_, Some(other)) => other.get(at).cloned(),
            // the ops around may show it
            _ => None,
        }
    });
    dims.collect()
}

/// Returns a dimension of a new tensor by its size alone.
pub(crate) fn by_value(sizes: &[u64], at: usize, known: &Sizes) -> Dim {
    /// Least sequence whose neighbours are taken for sequences with a token more or less.
    const LEAST_NEAR: u64 = 32;
    let size = sizes[at];
    let sequence = known.old(SizeRole::Sequence);
    if is_sequence(size, known) {
        return Dim::one(Factor::Of(SizeRole::Sequence, size));
    }
    if let Some(sequence) = sequence
        && sequence >= LEAST_NEAR
        && size.abs_diff(sequence) == 1
    {
        return Dim::one(Factor::Near(SizeRole::Sequence, size));
    }
    let Some(batch) = known.old(SizeRole::Batch) else {
        return Dim::fixed(size);
    };
    if at == 0 && sizes.len() > 1 && size == batch && batch > 1 {
        return Dim::one(Factor::Of(SizeRole::Batch, size));
    }
    if let Some(sequence) = sequence
        && at == 0
        && size == batch.saturating_mul(sequence)
        && sequence > 1
    {
        let rows = Dim::one(Factor::Of(SizeRole::Batch, batch));
        return rows.joined(&Dim::one(Factor::Of(SizeRole::Sequence, sequence)));
    }
    Dim::fixed(size)
}

/// Returns the dimensions of a matrix product of argument `first` and the next one.
fn product(call: &Call<'_>, first: usize, sizes: &[u64]) -> Option<Shape> {
    let (one, other) = (call.shape(first)?, call.shape(first + 1)?);
    let (_, rows) = one.split_last()?;
    if call.name == "linear" {
        return Some(rows.iter().chain(other.first()).cloned().collect());
    }
    if other.len() < 2 {
        return None;
    }
    let direct: Shape = rows.iter().chain(other.last()).cloned().collect();
    if sizes_of(&direct) == sizes {
        return Some(direct);
    }
    // the second factor has more batch dimensions
    let batch = other.iter().take(other.len() - 2);
    Some(
        batch
            .chain(rows.last())
            .chain(other.last())
            .cloned()
            .collect(),
    )
}

fn convolved(call: &Call<'_>, sizes: &[u64]) -> Option<Shape> {
    let (input, weight) = (call.shape(0)?, call.shape(1)?);
    let mut dims = vec![input.first()?.clone()];
    for (at, size) in sizes.iter().enumerate().skip(1) {
        let from = if at == 1 {
            weight.first()
        } else {
            input.get(at)
        };
        let same = from.filter(|dim| dim.size() == *size).cloned();
        dims.push(same.unwrap_or_else(|| Dim::fixed(*size)));
    }
    Some(dims.into())
}

/// Returns the shape of a list that is as long as there are elements of some kind: it grows with
/// the batch and the sequence, as samples stay alike.
fn counted(call: &Call<'_>, sizes: &[u64]) -> Option<Shape> {
    let (count, rest) = sizes.split_first()?;
    let mut roles: Vec<SizeRole> = call.shape(0)?.iter().flat_map(Dim::all_roles).collect();
    roles.sort_unstable();
    roles.dedup();
    let mut length = Dim::fixed(*count);
    for (at, role) in roles.into_iter().enumerate() {
        length = if at == 0 {
            Dim::one(Factor::Of(role, *count))
        } else {
            length.joined(&Dim::one(Factor::Of(role, 1)))
        };
    }
    let rest = rest.iter().map(|size| Dim::fixed(*size));
    Some(std::iter::once(length).chain(rest).collect())
}

fn concatenated(call: &Call<'_>, sizes: &[u64]) -> Option<Shape> {
    let parts = call.shapes_of(0).filter(|part| part.len() == sizes.len());
    let parts: Vec<&Shape> = parts.collect();
    let mut dims = parts.first()?.to_vec();
    let dim = call.dim_number(1, dims.len())?;
    let (own, size) = (dims[dim].clone(), sizes[dim]);
    if own.size() == size {
        return Some(dims.into());
    }
    let are_alike = parts.iter().all(|part| part.get(dim) == Some(&own));
    dims[dim] = if are_alike && own.size().saturating_mul(parts.len() as u64) == size {
        Dim::fixed(parts.len() as u64).joined(&own)
    } else {
        // one part that grows, such as a cache with a token more
        let growing = most_roles(parts.iter().filter_map(|part| part.get(dim)));
        match growing.and_then(Dim::only_role) {
            Some(role) => Dim::one(Factor::Near(role, size)),
            None => Dim::fixed(size),
        }
    };
    Some(dims.into())
}

fn reduced(call: &Call<'_>, sizes: &[u64]) -> Option<Shape> {
    let shape = call.shape(0)?;
    if sizes.len() == shape.len() {
        let dims = shape.iter().zip(sizes).map(|(dim, size)| {
            if dim.size() == *size {
                dim.clone()
            } else {
                Dim::fixed(*size)
            }
        });
        return Some(dims.collect());
    }
    let lists = (1..3).find_map(|argument| call.inputs.integers(argument));
    let one = || call.inputs.integer(1).map(|dim| vec![dim]);
    let numbers = lists.or_else(one)?;
    let reduced: Option<Vec<usize>> = numbers
        .iter()
        .map(|dim| dim_number(*dim, shape.len()))
        .collect();
    let reduced = reduced?;
    let kept = shape.iter().enumerate();
    let kept = kept.filter(|(at, _)| !reduced.contains(at));
    Some(kept.map(|(_, dim)| dim.clone()).collect())
}
