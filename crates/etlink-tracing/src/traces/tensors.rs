//! Shapes and types of an op's inputs and outputs, from its fields.

use crate::spans::FieldValue;

/// Rust's name, PyTorch's name and bytes per element of each type.
const DTYPES: [(&str, &str, u64); 12] = [
    ("f32", "float", 4),
    ("f64", "double", 8),
    ("f16", "c10::Half", 2),
    ("bf16", "c10::BFloat16", 2),
    ("i8", "signed char", 1),
    ("i16", "short int", 2),
    ("i32", "int", 4),
    ("i64", "long int", 8),
    ("u8", "unsigned char", 1),
    ("bool", "bool", 1),
    ("half", "c10::Half", 2),
    ("bfloat16", "c10::BFloat16", 2),
];

/// Tensor fields of the inputs or outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TensorFields {
    /// Elements per dimension, by tensor.
    pub(crate) shapes: Vec<Vec<u64>>,
    dtypes: Vec<String>,
    /// Identities of the storages, such as addresses.
    storages: Vec<u64>,
}

impl TensorFields {
    /// Stores a field by its name without prefix. Returns a value that cannot be parsed.
    pub(crate) fn take(&mut self, what: &str, value: FieldValue) -> Result<(), FieldValue> {
        match (what, &value) {
            ("shapes", FieldValue::Text(text)) => self.shapes = parse_shapes(text).ok_or(value)?,
            ("dtypes", FieldValue::Text(text)) => {
                self.dtypes = list_items(text).map(str::to_owned).collect()
            }
            ("tensors", FieldValue::Text(text)) => {
                self.storages = list_items(text)
                    .map(address)
                    .collect::<Option<_>>()
                    .ok_or(value)?
            }
            ("tensors", FieldValue::Unsigned(address)) => self.storages = vec![*address],
            _ => return Err(value),
        }
        Ok(())
    }

    /// Returns PyTorch's type name of tensor `at`, and its bytes per element; 0 if the type is
    /// unknown.
    pub(crate) fn dtype(&self, at: usize) -> (&str, u64) {
        let Some(name) = self.dtypes.get(at) else {
            return ("nullptr (uninitialized)", 0);
        };
        let known = DTYPES
            .iter()
            .find(|(rust, torch, _)| name == rust || name == torch);
        known.map_or((name, 0), |(_, torch, bytes)| (torch, *bytes))
    }

    /// Returns type names as Kineto lists them: one per tensor, empty if absent.
    pub(crate) fn dtype_names(&self) -> Vec<&str> {
        (0..self.shapes.len())
            .map(|at| {
                if at < self.dtypes.len() {
                    self.dtype(at).0
                } else {
                    ""
                }
            })
            .collect()
    }

    pub(crate) fn storage(&self, at: usize) -> Option<u64> {
        self.storages.get(at).copied()
    }

    pub(crate) fn elements(&self, at: usize) -> u64 {
        self.shapes.get(at).map_or(0, |shape| {
            shape.iter().fold(1, |all, size| all.saturating_mul(*size))
        })
    }

    /// Returns the strides of contiguous tensors with these shapes.
    pub(crate) fn strides(&self) -> Vec<Vec<u64>> {
        self.shapes.iter().map(|shape| strides(shape)).collect()
    }
}

fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1_u64; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at].saturating_mul(shape[at].max(1));
    }
    strides
}

/// Parses `[[8, 32], [32]]`, as `{:?}` prints it, or `[8, 32]` for one tensor.
fn parse_shapes(text: &str) -> Option<Vec<Vec<u64>>> {
    serde_json::from_str(text)
        .ok()
        .or_else(|| Some(vec![serde_json::from_str(text).ok()?]))
}

/// Splits `float, float` or `["float", "float"]` into items.
fn list_items(text: &str) -> impl Iterator<Item = &str> {
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    inner
        .split(',')
        .map(|item| item.trim().trim_matches('"'))
        .filter(|item| !item.is_empty())
}

/// Parses a number or a printed pointer.
fn address(text: &str) -> Option<u64> {
    text.strip_prefix("0x").map_or_else(
        || text.parse().ok(),
        |hex| u64::from_str_radix(hex, 16).ok(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensors(shapes: &str, dtypes: &str, storages: &str) -> TensorFields {
        let mut tensors = TensorFields::default();
        for (what, text) in [
            ("shapes", shapes),
            ("dtypes", dtypes),
            ("tensors", storages),
        ] {
            tensors
                .take(what, FieldValue::Text(text.into()))
                .expect(text);
        }
        tensors
    }

    #[test]
    fn fields_may_be_printed_or_typed() {
        let typed = tensors("[[8,32],[]]", "f32, bf16", "16,0x20");
        assert_eq!(
            typed,
            tensors(
                &format!("{:?}", [vec![8, 32], vec![]]),
                &format!("{:?}", ["f32", "bf16"]),
                "[16, 0x20]"
            )
        );
        assert_eq!(
            (typed.dtype(0), typed.dtype(1), typed.dtype(2).1),
            (("float", 4), ("c10::BFloat16", 2), 0)
        );
        assert_eq!(
            (typed.elements(0), typed.elements(1), typed.storage(1)),
            (256, 1, Some(32))
        );
        assert_eq!(typed.strides(), [vec![32, 1], vec![]]);
        assert_eq!(tensors("[2, 3]", "", "").shapes, [[2, 3]]);
    }

    #[test]
    fn what_is_no_shape_comes_back() {
        for (what, text) in [("shapes", "8x32"), ("shapes", "[[-1]]"), ("tensors", "a")] {
            assert_eq!(
                TensorFields::default().take(what, FieldValue::Text(text.into())),
                Err(FieldValue::Text(text.into()))
            );
        }
    }
}
