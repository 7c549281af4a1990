//! Tensors and values among the arguments of a node of the host trace.

use crate::predict::dims::{Dim, Shape};
use etlink_model::{HostTrace, ValueList};
use serde_json::Value;

/// A tensor among inputs or outputs: `[id, storage, offset, elements, element bytes, device]`.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    /// Number of the argument.
    pub(crate) argument: usize,
    /// Place in the argument, if that is a list of tensors.
    place: Option<usize>,
    pub(crate) id: u64,
    pub(crate) storage: u64,
    pub(crate) offset: u64,
    pub(crate) sizes: Vec<u64>,
    /// Size of an element, bytes.
    pub(crate) element_bytes: u64,
    /// True if its elements are whole numbers, such as tokens or labels.
    pub(crate) is_integer: bool,
}

/// Values and tensors of a node's inputs or outputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) values: Vec<Value>,
    /// Sizes of all arguments, nested as in the trace.
    shapes: Vec<Value>,
    pub(crate) tensors: Vec<Tensor>,
}

impl Arguments {
    /// Reads a list of the trace; text that is no such list has no tensors. O(text).
    pub(crate) fn read(host: &HostTrace, list: &ValueList) -> Arguments {
        let values = parse_list(host.span(list.values));
        let shapes = parse_list(host.names.get(list.shapes).as_bytes());
        let types = parse_list(host.names.get(list.types).as_bytes());
        let mut tensors = vec![];
        for (argument, value) in values.iter().enumerate() {
            let shape = shapes.get(argument).unwrap_or(&Value::Null);
            let Some(kind) = types.get(argument).and_then(Value::as_str) else {
                continue;
            };
            let is_integer = ["long", "int", "short"]
                .iter()
                .any(|name| kind.contains(name));
            if kind.starts_with("Tensor(") {
                tensors.extend(tensor((argument, None), value, shape, is_integer));
            } else if kind.starts_with("GenericList[Tensor") {
                let items = value.as_array().into_iter().flatten();
                let sizes = shape.as_array().into_iter().flatten();
                for (place, (item, size)) in items.zip(sizes).enumerate() {
                    tensors.extend(tensor((argument, Some(place)), item, size, is_integer));
                }
            }
        }
        Arguments {
            values,
            shapes,
            tensors,
        }
    }

    /// Returns the number of the first tensor of an argument.
    pub(crate) fn first_of(&self, argument: usize) -> Option<usize> {
        let tensors = &self.tensors;
        tensors
            .iter()
            .position(|tensor| tensor.argument == argument)
    }

    /// Returns an argument that is a number.
    pub(crate) fn integer(&self, argument: usize) -> Option<i64> {
        self.values.get(argument)?.as_i64()
    }

    /// Returns an argument that is a list of numbers; `None` if it is empty or has other items.
    pub(crate) fn integers(&self, argument: usize) -> Option<Vec<i64>> {
        let items = self.values.get(argument)?.as_array()?;
        let numbers: Option<Vec<i64>> = items.iter().map(Value::as_i64).collect();
        numbers.filter(|numbers| !numbers.is_empty())
    }

    /// Returns the shapes as list text, as in the trace, with other sizes for the tensors.
    pub(crate) fn shapes_text(&self, sizes: &[Vec<u64>]) -> String {
        let mut shapes = self.shapes.clone();
        for (tensor, sizes) in self.tensors.iter().zip(sizes) {
            let argument = shapes.get_mut(tensor.argument);
            let shape = match tensor.place {
                Some(place) => argument.and_then(|list| list.get_mut(place)),
                None => argument,
            };
            if let Some(shape) = shape {
                *shape = Value::from(sizes.clone());
            }
        }
        Value::Array(shapes).to_string()
    }
}

fn parse_list(text: &[u8]) -> Vec<Value> {
    // Text of a damaged trace may be no list; then the node has no known tensors.
    serde_json::from_slice(text).unwrap_or_default()
}

fn tensor(
    (argument, place): (usize, Option<usize>),
    value: &Value,
    shape: &Value,
    is_integer: bool,
) -> Option<Tensor> {
    let parts = value.as_array().filter(|parts| parts.len() >= 5)?;
    let part = |number: usize| parts[number].as_u64();
    let sizes: Option<Vec<u64>> = shape.as_array()?.iter().map(Value::as_u64).collect();
    Some(Tensor {
        argument,
        place,
        id: part(0)?,
        storage: part(1)?,
        offset: part(2)?,
        sizes: sizes?,
        element_bytes: part(4)?,
        is_integer,
    })
}

/// A call of an op, with the dimensions of its inputs.
#[derive(Clone, Debug)]
pub(crate) struct Call<'t> {
    /// Row of the host trace.
    pub(crate) node: usize,
    /// True if it called other ops.
    pub(crate) has_inner: bool,
    /// Name of the node, and the op's name without namespace; empty for ranges that are no op.
    pub(crate) full_name: &'t str,
    pub(crate) name: &'t str,
    pub(crate) inputs: Arguments,
    /// Dimensions of each tensor of `inputs`.
    pub(crate) shapes: Vec<Shape>,
}

impl Call<'_> {
    /// Returns the dimensions of the first tensor of an argument.
    pub(crate) fn shape(&self, argument: usize) -> Option<&Shape> {
        self.shapes.get(self.inputs.first_of(argument)?)
    }

    /// Returns the dimensions of all tensors of an argument.
    pub(crate) fn shapes_of(&self, argument: usize) -> impl Iterator<Item = &Shape> {
        let tensors = self.inputs.tensors.iter().zip(&self.shapes);
        tensors.filter_map(move |(tensor, shape)| (tensor.argument == argument).then_some(shape))
    }

    /// Iterates over inputs with their sizes and dimensions.
    pub(crate) fn inputs_with_shapes(&self) -> impl Iterator<Item = (&[u64], &Shape)> {
        let tensors = self.inputs.tensors.iter().zip(&self.shapes);
        tensors.map(|(tensor, shape)| (&tensor.sizes[..], shape))
    }

    /// Returns a dimension of an argument's tensor; numbers below 0 count from the end.
    pub(crate) fn dim_number(&self, argument: usize, rank: usize) -> Option<usize> {
        dim_number(self.inputs.integer(argument)?, rank)
    }
}

/// Returns the number of a dimension that may count from the end.
pub(crate) fn dim_number(dim: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let number = if dim < 0 { dim + rank } else { dim };
    let number = usize::try_from(number).ok()?;
    ((number as i64) < rank).then_some(number)
}

/// Returns the dimension with the most roles.
pub(crate) fn most_roles<'d>(dims: impl Iterator<Item = &'d Dim>) -> Option<&'d Dim> {
    // The first of equals, for the order of inputs to decide.
    dims.fold(None, |best: Option<&Dim>, dim| match best {
        Some(best) if best.roles() >= dim.roles() => Some(best),
        _ => Some(dim),
    })
}
