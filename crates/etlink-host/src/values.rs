//! Tensors among the values of a node.
//!
//! ```text
//! values  [ [7,8,0,64,4,"cuda:0"], [ [9,10,0,1,4,"cpu"], [11,12,0,1,4,"cpu"] ], [-1], 2 ]
//! types   [ "Tensor(float)", "GenericList[Tensor(float),Tensor(float)]",
//!           "GenericList[Int]", "Int" ]
//! ```
//! A list of six numbers can be an argument too, so the types decide
//! (`convertIValue` of `execution_trace_observer.cpp`). Both texts are walked side by side,
//! in linear time and without recursion.

use etlink_json::{BrokenJson, JsonScanner, JsonValue, unescape};
use etlink_model::{HostTrace, TensorRef, TensorUses, ValueList};
use rayon::prelude::*;
use std::ops::Range;

/// How many nodes are looked at in one go.
const PIECE: usize = 1 << 13;

/// All uses of tensors by the nodes of a trace. Linear in the text of their values; works on the
/// threads of the rayon pool that it is called in, or of the global one.
pub fn tensor_uses(trace: &HostTrace) -> TensorUses {
    let nodes = trace.nodes.len();
    // Pieces of a fixed size, joined in order, give the same numbers at any count of threads.
    let pieces = (0..nodes.div_ceil(PIECE))
        .into_par_iter()
        .map(|piece| uses_of(trace, piece * PIECE..(piece * PIECE + PIECE).min(nodes)));
    let mut uses = TensorUses::default();
    pieces
        .collect::<Vec<TensorUses>>()
        .into_iter()
        .for_each(|piece| uses.append(piece));
    uses
}

fn uses_of(trace: &HostTrace, rows: Range<usize>) -> TensorUses {
    let mut uses = TensorUses::default();
    for row in rows {
        add_uses(trace, &trace.nodes.inputs[row], &mut uses);
        let inputs = uses.refs.len();
        add_uses(trace, &trace.nodes.outputs[row], &mut uses);
        uses.end_node(inputs);
    }
    uses
}

fn add_uses(trace: &HostTrace, list: &ValueList, uses: &mut TensorUses) {
    tensors(
        trace.span(list.values),
        trace.names.get(list.types).as_bytes(),
        |tensor| {
            let [tensor_id, storage, offset, elements, element_bytes] = tensor.numbers;
            let device = uses.devices.intern(&unescape(tensor.device));
            uses.refs.push(TensorRef {
                tensor: tensor_id,
                storage,
                offset,
                elements,
                element_bytes,
                device,
            });
        },
    );
}

/// `[tensor_id, storage_id, offset, num_elem, elem_bytes, "device"]`; absent entries are 0 or
/// empty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TensorValue<'a> {
    /// The numbers in their order.
    pub(crate) numbers: [u64; 5],
    pub(crate) device: &'a [u8],
}

impl<'a> TensorValue<'a> {
    pub(crate) fn elements(&self) -> u64 {
        self.numbers[3]
    }

    /// Newer or older tuples may be longer or shorter: numbers in order, the first string is the
    /// device.
    fn of(tuple: &'a [u8]) -> Self {
        let (mut tensor, mut count) = (TensorValue::default(), 0);
        let mut scanner = JsonScanner::new(tuple);
        scanner.eat(b'[');
        while let Ok(Some(item)) = scanner.item() {
            match item {
                // The device is the only text of the tuple in
                // all schemas, so its place does not matter.
                JsonValue::Text(device) if tensor.device.is_empty() => tensor.device = device,
                JsonValue::Word(_) if count < tensor.numbers.len() => {
                    tensor.numbers[count] = item.uint().unwrap_or(0);
                    count += 1;
                }
                _ => {}
            }
        }
        tensor
    }
}

/// Calls `found` with every tensor of `values`, those in lists and tuples included, in order.
pub(crate) fn tensors<'a>(values: &'a [u8], types: &[u8], mut found: impl FnMut(TensorValue<'a>)) {
    let (mut values, mut types) = (JsonScanner::new(values), JsonScanner::new(types));
    if !(values.eat(b'[') && types.eat(b'[')) {
        return;
    }
    // The types lead, since only they say which list is a tensor.
    while let Ok(Some(kind)) = types.item() {
        let kind = kind.raw();
        while values.eat(b',') {}
        if matches!(values.peek(), None | Some(b']')) {
            return;
        }
        let step = if tensor_at(kind).is_some() {
            // Only values whose type names a tensor are walked;
            // long lists of numbers cost one step each.
            walk_value(&mut values, TypeList { rest: kind }, &mut found)
        } else {
            values.value().map(drop)
        };
        if step.is_err() {
            return;
        }
    }
}

/// Element type of the first tensor that `types` names: `float` of `Tensor(float)`.
pub(crate) fn first_dtype(types: &[u8]) -> &[u8] {
    let Some(start) = tensor_at(types) else {
        return b"";
    };
    let inner = &types[start + TENSOR.len()..];
    let mut depth = 0usize;
    // `Tensor(nullptr (uninitialized))` has brackets of its own.
    let end = inner.iter().position(|byte| {
        depth += usize::from(*byte == b'(');
        let closes = *byte == b')' && depth == 0;
        depth = depth.saturating_sub(usize::from(*byte == b')'));
        closes
    });
    &inner[..end.unwrap_or(inner.len())]
}

const TENSOR: &[u8] = b"Tensor(";

fn tensor_at(types: &[u8]) -> Option<usize> {
    if types.starts_with(TENSOR) {
        Some(0)
    } else {
        types.windows(TENSOR.len()).position(|part| part == TENSOR)
    }
}

/// Walks one value, with its type, as deep as the type goes.
fn walk_value<'a>(
    values: &mut JsonScanner<'a>,
    mut types: TypeList<'_>,
    found: &mut impl FnMut(TensorValue<'a>),
) -> Result<(), BrokenJson> {
    let mut depth = 0usize;
    loop {
        while depth > 0 && values.eat(b',') {}
        match values.peek() {
            Some(b']') if depth > 0 => {
                values.eat(b']');
                types.close();
                depth -= 1;
            }
            // A tensor is written as a list too; its type
            // has no bracket, so it does not open one here.
            Some(b'[') if types.is_list() => {
                values.eat(b'[');
                types.open();
                depth += 1;
            }
            _ => {
                let value = values.value()?;
                if let JsonValue::Nested(tuple) = value
                    && types.rest.starts_with(TENSOR)
                {
                    found(TensorValue::of(tuple));
                }
                // A list may have more values than its type
                // names; `skip` then stays at the bracket.
                types.skip();
            }
        }
        if depth == 0 {
            return Ok(());
        }
    }
}

/// The rest of a type's text: `Tensor(float),Int],Bool`.
struct TypeList<'t> {
    rest: &'t [u8],
}

impl TypeList<'_> {
    fn opening(&self) -> Option<usize> {
        let end = self
            .rest
            .iter()
            .position(|byte| !byte.is_ascii_alphanumeric())?;
        (self.rest[end] == b'[').then_some(end)
    }

    fn is_list(&self) -> bool {
        self.opening().is_some()
    }

    /// Enters a list or tuple.
    fn open(&mut self) {
        if let Some(bracket) = self.opening() {
            self.rest = self.rest[bracket + 1..].trim_ascii_start();
        }
    }

    /// Goes behind one element of a list and its comma, never behind the list's bracket.
    fn skip(&mut self) {
        let mut depth = 0usize;
        let end = self.rest.iter().position(|byte| match byte {
            b'[' | b'(' => {
                depth += 1;
                false
            }
            b']' if depth == 0 => true,
            b']' | b')' => {
                depth = depth.saturating_sub(1);
                false
            }
            byte => *byte == b',' && depth == 0,
        });
        let rest = &self.rest[end.unwrap_or(self.rest.len())..];
        self.rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
    }

    /// Leaves a list or tuple, and goes behind the comma that may follow.
    fn close(&mut self) {
        while !self.rest.is_empty() && self.rest[0] != b']' {
            self.skip();
        }
        let rest = self.rest.strip_prefix(b"]").unwrap_or(self.rest);
        self.rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(values: &str, types: &str) -> Vec<u64> {
        let mut all = vec![];
        tensors(values.as_bytes(), types.as_bytes(), |tensor| {
            all.push(tensor.numbers[0])
        });
        all
    }

    #[test]
    fn types_decide_what_is_a_tensor() {
        let one = r#"[1,2,0,4,4,"cpu"]"#;
        for (values, types, want) in [
            (format!("[{one}]"), r#"["Tensor(float)"]"#, &[1][..]),
            (
                format!("[[{one},{one}],[1,2,3,4,5,6]]"),
                concat!(
                    r#"["GenericList[Tensor(float),Tensor(float)]","#,
                    r#""GenericList[Int,Int,Int,Int,Int,Int]"]"#
                ),
                &[1, 1],
            ),
            (
                format!("[[[{one}],[]],7,{one}]"),
                concat!(
                    r#"["GenericList[GenericList[Tensor(c10::Half)],GenericList[]]","#,
                    r#""Int","Tensor(long int)"]"#
                ),
                &[1, 1],
            ),
            (
                format!("[[5,[1,2],{one},\"a\"]]"),
                r#"["Tuple[Int,GenericList[Int,Int],Tensor(nullptr (uninitialized)),String]"]"#,
                &[1],
            ),
            (
                format!("[[{one},{one}]]"),
                r#"["GenericList[Tensor(float)]"]"#,
                &[1],
            ),
            (
                format!("[[{one}]]"),
                r#"["GenericList[Tensor(float),Tensor(float)]"]"#,
                &[1],
            ),
            (format!("[{one},{one}]"), r#"["Tensor(float)"]"#, &[1]),
            (
                format!("[nan,-inf,{one}]"),
                r#"["Double","Double","Tensor(float)"]"#,
                &[1],
            ),
            (
                "[\"<None>\",[]]".to_owned(),
                r#"["Tensor(float)","GenericList[Tensor(float)]"]"#,
                &[],
            ),
            (one.to_owned(), "[]", &[]),
            (String::new(), "", &[]),
            (
                "[[[[".to_owned(),
                r#"["GenericList[GenericList[Tensor(float"]"#,
                &[],
            ),
        ] {
            assert_eq!(ids(&values, types), want, "{values} {types}");
        }
    }

    #[test]
    fn tuples_of_other_lengths() {
        for (tuple, numbers, device) in [
            (r#"[1,2,3,4,5,"cuda:0"]"#, [1, 2, 3, 4, 5], "cuda:0"),
            ("[1,2,3,4,5]", [1, 2, 3, 4, 5], ""),
            (r#"[1, 2, 3, 4, 5, "cpu", "x"]"#, [1, 2, 3, 4, 5], "cpu"),
            (r#"[1,2,-3,4]"#, [1, 2, 0, 4, 0], ""),
            ("[]", [0; 5], ""),
        ] {
            assert_eq!(
                TensorValue::of(tuple.as_bytes()),
                TensorValue {
                    numbers,
                    device: device.as_bytes()
                },
                "{tuple}"
            );
        }
    }

    #[test]
    fn dtypes() {
        for (types, dtype) in [
            (
                r#"["Int","GenericList[Tensor(long int),Tensor(float)]"]"#,
                "long int",
            ),
            (
                r#"["Tensor(nullptr (uninitialized))"]"#,
                "nullptr (uninitialized)",
            ),
            (r#"["Int"]"#, ""),
            ("Tensor(flo", "flo"),
        ] {
            assert_eq!(first_dtype(types.as_bytes()), dtype.as_bytes(), "{types}");
        }
    }

    #[test]
    fn depth_costs_no_stack_and_no_square() {
        let deep = 200_000;
        let values = format!("[{}{}]", "[".repeat(deep), "]".repeat(deep));
        let types = format!(
            r#"["{}Tensor(float){}"]"#,
            "GenericList[".repeat(deep),
            "]".repeat(deep)
        );
        assert_eq!(ids(&values, &types), [0; 0]);
    }
}
