//! Parses the tensors among an op's arguments from list text.
//!
//! ```text
//! shapes  [[8, 16], [[2, 3], [4]], [], []]   one entry per argument,
//!                                                       lists of tensors are nested
//! types   ["Tensor(float)", "GenericList[Tensor(long),…]", "Int", ""]      host trace
//!         ["float", "TensorList", "Scalar", ""]                            device trace
//! ```

use etlink_model::dtype_bytes;

/// Assumed element size if a trace does not state the types in a list of tensors.
const USUAL_ELEMENT_BYTES: u64 = 4;

/// Shape of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorShape<'a> {
    /// Dimensions of the tensor.
    pub dims: &'a [u64],
    /// Size of an element, bytes.
    pub element_bytes: u64,
    /// True if its elements are floating point numbers.
    pub is_floating: bool,
}

impl TensorShape<'_> {
    /// Number of elements; a scalar has one.
    pub fn elements(&self) -> u64 {
        elements_of(self.dims)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.element_bytes)
    }
}

/// Returns the number of elements of a tensor with these dimensions; 1 without any.
pub(super) fn elements_of(dims: &[u64]) -> u64 {
    let sizes = dims.iter();
    sizes.fold(1, |product, size| product.saturating_mul(*size))
}

#[derive(Clone, Copy, Debug)]
struct DimsSpan {
    argument: u32,
    from: usize,
    to: usize,
    element: ElementType,
}

/// Type of the elements of an argument.
#[derive(Clone, Copy, Debug, Default)]
struct ElementType {
    /// Size, bytes; 0 if the argument is no tensor.
    bytes: u64,
    is_floating: bool,
    /// The argument is a list of tensors whose types the trace lacks.
    is_guess: bool,
}

/// Tensors of an op's inputs or outputs. The memory is reused from op to op.
#[derive(Clone, Debug, Default)]
pub struct TensorShapes {
    dims: Vec<u64>,
    places: Vec<DimsSpan>,
    /// Element type of each argument.
    elements: Vec<ElementType>,
    /// True if a list is too long for the trace: Kineto writes `[]` for more than 30 tensors.
    lacks_list: bool,
}

impl TensorShapes {
    /// Reads the tensors from list text; other text has none. O(text).
    pub fn read(&mut self, shapes: &str, types: &str) {
        self.dims.clear();
        self.places.clear();
        self.elements.clear();
        self.lacks_list = false;
        self.elements
            .extend(types.split('"').skip(1).step_by(2).map(element_type));
        let (mut depth, mut argument, mut from, mut leaf, mut number) =
            (0u32, 0u32, 0, false, None);
        for byte in shapes.bytes() {
            if let b'0'..=b'9' = byte {
                number = Some(
                    number
                        .unwrap_or(0u64)
                        .saturating_mul(10)
                        .saturating_add(u64::from(byte - b'0')),
                );
                continue;
            }
            self.dims.extend(number.take());
            match byte {
                b'[' => (depth, from, leaf) = (depth + 1, self.dims.len(), true),
                b']' => {
                    // `[]` at depth 2 is a scalar or an argument that is no tensor; its type
                    // decides in `place`.
                    if leaf && depth > 1 {
                        self.place(argument, from, depth);
                    }
                    (depth, leaf) = (depth.saturating_sub(1), false);
                }
                b',' if depth == 1 => argument += 1,
                _ => {}
            }
        }
    }

    /// Sets the element size of lists whose types the trace lacks; 0 if it is unknown.
    pub(super) fn set_list_bytes(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let elements = self.places.iter_mut().map(|place| &mut place.element);
        for element in elements.filter(|element| element.is_guess) {
            (element.bytes, element.is_guess) = (bytes, false);
        }
    }

    fn place(&mut self, argument: u32, from: usize, depth: u32) {
        let element = self.elements.get(argument as usize).copied();
        let element = element.unwrap_or_default();
        if element.is_guess && depth == 2 {
            self.lacks_list = true;
        } else if element.bytes > 0 {
            self.places.push(DimsSpan {
                argument,
                from,
                to: self.dims.len(),
                element,
            });
        }
    }

    /// Size of all tensors, in bytes.
    pub fn bytes(&self) -> u64 {
        let sizes = self.iter().map(|tensor| tensor.bytes());
        sizes.fold(0, u64::saturating_add)
    }

    /// True if an argument is a list of tensors whose shapes or types the trace lacks.
    pub fn has_unknown_lists(&self) -> bool {
        self.lacks_list || self.places.iter().any(|place| place.element.is_guess)
    }

    /// True if no argument is a tensor.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the tensor in argument `number`; `None` if it is no tensor.
    pub fn argument(&self, number: u32) -> Option<TensorShape<'_>> {
        self.of_argument(number).next()
    }

    /// Iterates over all tensors, including those in lists.
    pub fn iter(&self) -> impl Iterator<Item = TensorShape<'_>> {
        self.places.iter().map(|place| self.tensor(place))
    }

    /// Iterates over the tensors of one argument, which may be a list.
    pub fn of_argument(&self, number: u32) -> impl Iterator<Item = TensorShape<'_>> {
        let places = self.places.iter();
        places
            .filter(move |place| place.argument == number)
            .map(|place| self.tensor(place))
    }

    /// Number of elements of all tensors of the first argument that has any.
    pub fn first_elements(&self) -> u64 {
        let first = self.places.first().map(|place| place.argument);
        self.places
            .iter()
            .filter(|place| Some(place.argument) == first)
            .fold(0, |sum, place| {
                sum.saturating_add(self.tensor(place).elements())
            })
    }

    fn tensor(&self, place: &DimsSpan) -> TensorShape<'_> {
        TensorShape {
            dims: &self.dims[place.from..place.to],
            element_bytes: place.element.bytes,
            is_floating: place.element.is_floating,
        }
    }
}

/// Parses a type as written in the traces.
fn element_type(text: &str) -> ElementType {
    let dtype = match text.split_once("Tensor(") {
        Some((_, inner)) => inner.split(')').next(),
        // Kineto writes `TensorList` without the types in it.
        None if text == "TensorList" => {
            return ElementType {
                bytes: USUAL_ELEMENT_BYTES,
                is_floating: true,
                is_guess: true,
            };
        }
        None if text.starts_with(|c: char| c.is_ascii_lowercase()) => Some(text),
        None => None,
    };
    let Some(dtype) = dtype else {
        return ElementType::default();
    };
    const FLOATING: &[&str] = &["float", "double", "Half", "BFloat16", "Float8"];
    let plain = dtype.trim_start_matches("c10::");
    ElementType {
        bytes: dtype_bytes(dtype).unwrap_or(0),
        is_floating: FLOATING.iter().any(|name| plain.starts_with(name)),
        is_guess: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(shapes: &str, types: &str) -> Vec<(Vec<u64>, u64)> {
        let mut tensors = TensorShapes::default();
        tensors.read("[[7]]", r#"["double"]"#);
        tensors.read(shapes, types);
        tensors
            .iter()
            .map(|tensor| (tensor.dims.to_vec(), tensor.element_bytes))
            .collect()
    }

    #[test]
    fn tensors_of_either_trace() {
        let host = read(
            "[[8, 16], [16,24], [], [[], []], []]",
            concat!(
                r#"["Tensor(float)", "Tensor(c10::Half)", "Tensor(nullptr (uninitialized))", "#,
                r#""GenericList[Int,Int]", "Bool"]"#
            ),
        );
        assert_eq!(host, [(vec![8, 16], 4), (vec![16, 24], 2)]);
        let device = read(
            "[[24], [], [], [3]]",
            r#"["c10::BFloat16", "Scalar", "long int", "c10::Float8_e4m3fn"]"#,
        );
        assert_eq!(
            device,
            [(vec![24], 2), (vec![], 8), (vec![3], 1)],
            "a tensor of no dimension has one element"
        );
    }

    #[test]
    fn lists_of_tensors() {
        let types = r#"["GenericList[Tensor(long),Tensor(long)]", "Int"]"#;
        assert_eq!(
            read("[[[2, 3], [4]], []]", types),
            [(vec![2, 3], 8), (vec![4], 8)]
        );
        assert_eq!(
            read("[[[2, 3], [4]], []]", r#"["TensorList", "Scalar"]"#),
            [(vec![2, 3], 4), (vec![4], 4)]
        );
    }

    #[test]
    fn what_is_no_list_has_none() {
        for shapes in [
            "",
            "null",
            "[]",
            "]]]",
            "[[",
            "7, 8",
            "[[99999999999999999999999]",
        ] {
            assert!(read(shapes, r#"["float"]"#).len() <= 1, "{shapes}");
        }
        assert_eq!(read("[[2]]", ""), []);
    }
}
