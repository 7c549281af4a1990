//! Dimensions as products of sizes with roles.
//!
//! ```text
//! view [8, 512, 1024] -> [4096, 1024]      batch · sequence, width
//! view [4096, 1024] -> [8, 512, 16, 64]    batch, sequence, width (16 of 1024), 64
//! ```
//! The factors of a dimension are in row-major order, so that views join and split them without
//! comparing values: equal sizes of different roles stay apart.

use crate::predict::sizes::{Size, SizeRole, Sizes};
use std::rc::Rc;

/// A factor of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    /// A size that does not change.
    Fixed(u64),
    /// A size with a role, or a multiple or part of it.
    Of(SizeRole, u64),
    /// A size that differs from that of a role by a fixed number, as the length of shifted labels.
    Near(SizeRole, u64),
}

impl Factor {
    fn size(self) -> u64 {
        match self {
            Factor::Fixed(size) | Factor::Of(_, size) | Factor::Near(_, size) => size,
        }
    }

    /// Returns this factor with another size.
    fn with_size(self, size: u64) -> Factor {
        match self {
            Factor::Fixed(_) => Factor::Fixed(size),
            Factor::Of(role, _) => Factor::Of(role, size),
            Factor::Near(role, _) => Factor::Near(role, size),
        }
    }

    pub(crate) fn role(self) -> Option<SizeRole> {
        match self {
            Factor::Fixed(_) => None,
            Factor::Of(role, _) | Factor::Near(role, _) => Some(role),
        }
    }

    /// Returns the size in the predicted run as a fraction.
    fn changed(self, sizes: &Sizes) -> [u128; 2] {
        let of = |role| sizes.of(role).unwrap_or(Size { old: 1, new: 1 });
        let [size, times, parts] = match self {
            Factor::Fixed(size) => [size, 1, 1],
            Factor::Of(role, size) => [size, of(role).new, of(role).old],
            Factor::Near(role, size) => {
                let Size { old, new } = of(role);
                [size.saturating_add(new).saturating_sub(old), 1, 1]
            }
        };
        [u128::from(size) * u128::from(times), u128::from(parts)]
    }
}

/// A dimension: the product of its factors; 1 if it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dim(Vec<Factor>);

/// Dimensions of a tensor.
pub(crate) type Shape = Rc<[Dim]>;

impl Dim {
    pub(crate) fn fixed(size: u64) -> Dim {
        if size == 1 {
            Dim::default()
        } else {
            Dim(vec![Factor::Fixed(size)])
        }
    }

    pub(crate) fn one(factor: Factor) -> Dim {
        Dim(vec![factor])
    }

    /// Returns `count` times the size of a role, the role's elements next to each other.
    pub(crate) fn multiple(count: u64, role: SizeRole, size: u64) -> Dim {
        let mut dim = Dim::fixed(count);
        dim.0.push(Factor::Of(role, size));
        dim
    }

    pub(crate) fn size(&self) -> u64 {
        let factors = self.0.iter();
        factors.fold(1, |size, factor| size.saturating_mul(factor.size()))
    }

    /// Returns the size in the predicted run.
    pub(crate) fn changed(&self, sizes: &Sizes) -> u64 {
        let [mut size, mut parts] = [1u128, 1u128];
        for factor in &self.0 {
            let [times, of] = factor.changed(sizes);
            size = size.saturating_mul(times);
            parts = parts.saturating_mul(of);
        }
        let rounded = size.saturating_add(parts / 2) / parts.max(1);
        u64::try_from(rounded).unwrap_or(u64::MAX)
    }

    /// Roles of the factors that have one.
    pub(crate) fn all_roles(&self) -> impl Iterator<Item = SizeRole> {
        self.0.iter().filter_map(|factor| factor.role())
    }

    /// Number of factors with a role.
    pub(crate) fn roles(&self) -> usize {
        self.all_roles().count()
    }

    /// Returns the role of a dimension of one factor.
    pub(crate) fn only_role(&self) -> Option<SizeRole> {
        match self.0[..] {
            [factor] => factor.role(),
            _ => None,
        }
    }

    /// Returns this dimension joined with the next one in row-major order.
    pub(crate) fn joined(&self, next: &Dim) -> Dim {
        Dim(self.0.iter().chain(&next.0).copied().collect())
    }
}

/// Sizes of a shape's dimensions.
pub(crate) fn sizes_of(shape: &[Dim]) -> Vec<u64> {
    shape.iter().map(Dim::size).collect()
}

/// Number of factors with a role in a shape.
pub(crate) fn roles_of(shape: &[Dim]) -> usize {
    shape.iter().map(Dim::roles).sum()
}

/// Returns a shape without roles.
pub(crate) fn fixed_shape(sizes: &[u64]) -> Shape {
    sizes.iter().map(|size| Dim::fixed(*size)).collect()
}

/// Returns the dimensions of a view with these sizes; `None` if the view cuts a factor.
pub(crate) fn reshape(shape: &[Dim], sizes: &[u64]) -> Option<Shape> {
    let factors = shape.iter().flat_map(|dim| &dim.0).copied();
    let mut rest: std::collections::VecDeque<Factor> = factors.collect();
    let mut dims: Vec<Dim> = vec![];
    for size in sizes {
        dims.push(Dim(take_factors(&mut rest, *size)?));
    }
    if rest.iter().any(|factor| factor.size() != 1) {
        return None;
    }
    // A batch of one keeps its role in the last dimension.
    if let Some(last) = dims.last_mut() {
        last.0.extend(rest);
    }
    Some(dims.into())
}

/// Takes factors from the front whose product is `size`.
fn take_factors(rest: &mut std::collections::VecDeque<Factor>, size: u64) -> Option<Vec<Factor>> {
    if size == 1 {
        let first = rest.front().filter(|factor| factor.size() == 1).copied();
        if first.is_some() {
            rest.pop_front();
        }
        return Some(first.into_iter().collect());
    }
    let (mut taken, mut left) = (vec![], size);
    while left > 1 {
        let factor = rest.pop_front()?;
        let whole = factor.size();
        if whole == 0 {
            return None;
        }
        if left.is_multiple_of(whole) {
            taken.push(factor);
            left /= whole;
        } else if whole.is_multiple_of(left) {
            let inner = whole / left;
            // Of a cut sequence the length of its pieces is fixed; of a batch or a width the number
            // of pieces changes, as the number of heads.
            let is_sequence = factor.role() == Some(SizeRole::Sequence);
            let (outer_factor, inner_factor) = if is_sequence {
                (Factor::Fixed(left), factor.with_size(inner))
            } else {
                (factor.with_size(left), Factor::Fixed(inner))
            };
            taken.push(outer_factor);
            rest.push_front(inner_factor);
            left = 1;
        } else {
            return None;
        }
    }
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: Factor = Factor::Of(SizeRole::Batch, 8);
    const SEQUENCE: Factor = Factor::Of(SizeRole::Sequence, 8);
    const WIDTH: Factor = Factor::Of(SizeRole::Width, 1024);

    fn shape(dims: &[&[Factor]]) -> Vec<Dim> {
        dims.iter().map(|dim| Dim(dim.to_vec())).collect()
    }

    #[test]
    fn views_keep_roles_of_equal_sizes_apart() {
        let tokens = shape(&[&[BATCH], &[SEQUENCE], &[WIDTH]]);
        let rows = reshape(&tokens, &[64, 1024]).expect("a view");
        assert_eq!(rows[..], shape(&[&[BATCH, SEQUENCE], &[WIDTH]])[..]);
        let heads = reshape(&rows, &[8, 8, 16, 64]).expect("a view");
        let head = Factor::Of(SizeRole::Width, 16);
        assert_eq!(
            heads[..],
            shape(&[&[BATCH], &[SEQUENCE], &[head], &[Factor::Fixed(64)]])[..]
        );
        let sizes = Sizes {
            batch: Some(Size { old: 8, new: 2 }),
            sequence: Some(Size { old: 8, new: 24 }),
            width: Some(Size {
                old: 1024,
                new: 1536,
            }),
            layers: None,
        };
        let changed: Vec<u64> = heads.iter().map(|dim| dim.changed(&sizes)).collect();
        assert_eq!(changed, [2, 24, 24, 64]);
        assert!(reshape(&tokens, &[10, 1024]).is_none());
    }

    #[test]
    fn a_batch_of_one_keeps_its_role() {
        let one = Factor::Of(SizeRole::Batch, 1);
        let tokens = shape(&[&[one], &[SEQUENCE]]);
        let rows = reshape(&tokens, &[8]).expect("a view");
        assert_eq!(rows[..], shape(&[&[one, SEQUENCE]])[..]);
        let back = reshape(&rows, &[1, 8]).expect("a view");
        assert_eq!(back[..], tokens[..]);
    }
}
