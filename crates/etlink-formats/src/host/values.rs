//! Finds tensors in the values of a node.
//!
//! ```text
//! values  [ [7,8,0,64,4,"cuda:0"], [ [9,10,0,1,4,"cpu"], [11,12,0,1,4,"cpu"] ], [-1], 2 ]
//! types   [ "Tensor(float)", "GenericList[Tensor(float),Tensor(float)]",
//!           "GenericList[Int]", "Int" ]
//! ```
//! A list of six numbers can also be an argument, so the types decide (`convertIValue` of
//! `execution_trace_observer.cpp`). Both texts are walked in parallel, in linear time and without
//! recursion.

use etlink_json::{BrokenJson, JsonScanner, JsonValue};
use etlink_model::{HostTrace, NameId, TensorRef, TensorUses, ValueList};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Nodes per unit of parallel work.
const PIECE: usize = 1 << 13;

/// Returns all uses of tensors by the nodes of a trace. Linear in the text of their values; runs on
/// the current rayon pool, or the global one.
pub fn tensor_uses(trace: &HostTrace) -> TensorUses {
    let nodes = trace.nodes.len();
    let pieces = nodes.div_ceil(PIECE);
    let mut uses = TensorUses::default();
    // Pieces are joined a few at a time: holding all of them next to the result would double the
    // memory.
    let at_once = 2 * rayon::current_num_threads();
    for first in (0..pieces).step_by(at_once) {
        // Pieces of fixed size, joined in order, give the same numbers for any number of threads.
        let made: Vec<TensorUses> = (first..(first + at_once).min(pieces))
            .into_par_iter()
            .map(|piece| uses_of(trace, piece * PIECE..(piece * PIECE + PIECE).min(nodes)))
            .collect();
        made.into_iter().for_each(|piece| uses.append(piece));
    }
    uses
}

fn uses_of(trace: &HostTrace, rows: Range<usize>) -> TensorUses {
    let mut uses = TensorUses::default();
    let mut types = KnownTypes::default();
    for row in rows {
        add_uses(trace, &trace.nodes.inputs[row], &mut types, &mut uses);
        let inputs = uses.refs.len();
        add_uses(trace, &trace.nodes.outputs[row], &mut types, &mut uses);
        uses.end_node(inputs);
    }
    uses
}

fn add_uses<'t>(
    trace: &'t HostTrace,
    list: &ValueList,
    types: &mut KnownTypes<'t>,
    uses: &mut TensorUses,
) {
    let steps = types.steps(trace, list.types);
    walk_steps(trace.span(list.values), steps, &mut |tensor| {
        let [_, storage, offset, elements, element_bytes] = tensor.numbers;
        let start = offset.saturating_mul(element_bytes);
        uses.refs.push(TensorRef {
            storage,
            start,
            end: start.saturating_add(elements.saturating_mul(element_bytes)),
        });
    });
}

/// Action for an argument of a type.
#[derive(Clone, Copy)]
enum TypeStep<'t> {
    /// The argument contains no tensor.
    Skip,
    /// The argument is a tensor.
    Tensor(&'t [u8]),
    /// The argument may contain tensors.
    Walk(&'t [u8]),
}

/// Lists of types as steps: a trace has few distinct ones.
#[derive(Default)]
struct KnownTypes<'t> {
    all: FxHashMap<NameId, Vec<TypeStep<'t>>>,
}

impl<'t> KnownTypes<'t> {
    fn steps(&mut self, trace: &'t HostTrace, types: NameId) -> &[TypeStep<'t>] {
        let read = || type_steps(trace.names.get(types).as_bytes());
        self.all.entry(types).or_insert_with(read)
    }
}

fn type_steps(types: &[u8]) -> Vec<TypeStep<'_>> {
    let (mut scanner, mut steps) = (JsonScanner::new(types), vec![]);
    if !scanner.eat(b'[') {
        return steps;
    }
    while let Ok(Some(kind)) = scanner.item() {
        let kind = kind.raw();
        steps.push(match tensor_at(kind) {
            None => TypeStep::Skip,
            Some(0) => TypeStep::Tensor(kind),
            Some(_) => TypeStep::Walk(kind),
        });
    }
    // Nothing after the last tensor is examined.
    while let Some(TypeStep::Skip) = steps.last() {
        steps.pop();
    }
    steps
}

/// `[tensor_id, storage_id, offset, num_elem, elem_bytes, "device"]`; absent entries are 0 or
/// empty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TensorValue<'a> {
    /// Numbers of the tuple, in order.
    pub(crate) numbers: [u64; 5],
    pub(crate) device: &'a [u8],
}

impl<'a> TensorValue<'a> {
    pub(crate) fn elements(&self) -> u64 {
        self.numbers[3]
    }

    /// Parses a tuple. Newer or older tuples may be longer or shorter: the numbers are taken in
    /// order, and the first string is the device.
    fn of(tuple: &'a [u8]) -> Self {
        let (mut tensor, mut count) = (TensorValue::default(), 0);
        let mut scanner = JsonScanner::new(tuple);
        scanner.eat(b'[');
        while let Ok(Some(item)) = scanner.item() {
            match item {
                // The device is the only text of the tuple in all schemas, so its position does not
                // matter.
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

/// Calls `found` with every tensor of `values`, including those in lists and tuples, in order.
pub(crate) fn tensors<'a>(values: &'a [u8], types: &[u8], mut found: impl FnMut(TensorValue<'a>)) {
    walk_steps(values, &type_steps(types), &mut found);
}

/// Like `tensors`, with the types given as steps.
fn walk_steps<'a>(
    values: &'a [u8],
    steps: &[TypeStep<'_>],
    found: &mut impl FnMut(TensorValue<'a>),
) {
    let mut values = JsonScanner::new(values);
    if !values.eat(b'[') {
        return;
    }
    // The types lead, since only they identify a list as a tensor.
    for step in steps {
        while values.eat(b',') {}
        let next = values.peek();
        let done = match *step {
            _ if matches!(next, None | Some(b']')) => return,
            TypeStep::Skip => values.value().map(drop),
            TypeStep::Tensor(kind) => match usual_tensor(values.rest()) {
                Some((tensor, length)) => {
                    values.advance(length);
                    found(tensor);
                    Ok(())
                }
                None => walk_value(&mut values, TypeList { rest: kind }, found),
            },
            // Only values with a tensor in their type are walked; a long list of numbers costs one
            // step.
            TypeStep::Walk(kind) => walk_value(&mut values, TypeList { rest: kind }, found),
        };
        if done.is_err() {
            return;
        }
    }
}

/// Parses a tuple exactly as PyTorch writes it, at the start of `text`: five numbers and a plain
/// device, without blanks. Also returns its length.
fn usual_tensor(text: &[u8]) -> Option<(TensorValue<'_>, usize)> {
    let mut rest = text.strip_prefix(b"[")?;
    let mut numbers = [0u64; 5];
    for number in &mut numbers {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // 19 digits cannot overflow; a comma must follow the number
        if !(1..=19).contains(&digits) || rest.get(digits) != Some(&b',') {
            return None;
        }
        for digit in &rest[..digits] {
            *number = *number * 10 + u64::from(digit - b'0');
        }
        rest = &rest[digits + 1..];
    }
    rest = rest.strip_prefix(b"\"")?;
    let device = rest
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b':' || **byte == b'_');
    let device = &rest[..device.count()];
    rest = rest[device.len()..].strip_prefix(b"\"]")?;
    // the next byte decides if the bracket belongs to the tuple
    matches!(rest.first(), Some(b',' | b']')).then_some(())?;
    Some((TensorValue { numbers, device }, text.len() - rest.len()))
}

/// Returns the element type of the first tensor in `types`: `float` for `Tensor(float)`.
pub(crate) fn first_dtype(types: &[u8]) -> &[u8] {
    let Some(start) = tensor_at(types) else {
        return b"";
    };
    let inner = &types[start + TENSOR.len()..];
    let mut depth = 0usize;
    // `Tensor(nullptr (uninitialized))` has its own parentheses.
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

/// Walks one value together with its type, as deep as the type goes.
fn walk_value<'a>(
    values: &mut JsonScanner<'a>,
    mut types: TypeList<'_>,
    found: &mut impl FnMut(TensorValue<'a>),
) -> Result<(), BrokenJson> {
    let mut depth = 0usize;
    loop {
        while values.eat(b',') {}
        match values.peek() {
            Some(b']') if depth > 0 => {
                values.eat(b']');
                types.close();
                depth -= 1;
            }
            // A tensor is written as a list too, but its type has no bracket, so no list is opened
            // here.
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
                // A list may have more values than its type has items; `skip` then stays at the
                // bracket.
                types.skip();
            }
        }
        if depth == 0 {
            return Ok(());
        }
    }
}

/// Rest of a type's text: `Tensor(float),Int],Bool`.
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

    /// Skips one element of a list and its comma, but never the list's bracket.
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

    /// Leaves a list or tuple, and skips a comma after it.
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
    use proptest::prelude::*;

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
            (
                format!("[[\"<None>\",{one}]]"),
                r#"["Tuple[GenericList[Int,Int],Tensor(float)]"]"#,
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
            (r#"[1,2,3,4,5,6,7,"cpu"]"#, [1, 2, 3, 4, 5], "cpu"),
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

    /// Generates what is between the usual bytes: mostly nothing, else blanks, and parts foreign to
    /// a tuple.
    fn piece() -> impl Strategy<Value = String> {
        let number = "[0-9]{1,21}";
        let odd = prop::sample::select(vec!["-1", "1.5", "null", "[3]", "\"a\\\"b\"", "", " "]);
        prop_oneof![9 => number.prop_map(String::from), 1 => odd.prop_map(String::from)]
    }

    proptest! {
        #[test]
        fn a_usual_tuple_is_read_as_any_other(
            pieces in prop::collection::vec(piece(), 4..7),
            device in "(cuda:[0-7]|cpu|vulkan_0|a\\\\\\\\u0062|)",
            end in prop::sample::select(vec!["]", "],", "]]", "] ", " ]]", ""]),
        ) {
            let text = format!("[{},\"{device}\"{end}", pieces.join(","));
            if let Some((tensor, length)) = usual_tensor(text.as_bytes()) {
                let mut scanner = JsonScanner::new(text.as_bytes());
                let value = scanner.value();
                let Ok(JsonValue::Nested(tuple)) = value else {
                    panic!("{text} is no tuple");
                };
                prop_assert_eq!(scanner.pos(), length);
                prop_assert_eq!(TensorValue::of(tuple), tensor);
            }
        }
    }

    #[test]
    fn what_is_not_usual_is_left_to_the_scanner() {
        let usual = br#"[7,8,0,64,4,"cuda:0"],"#;
        let (tensor, length) = usual_tensor(usual).expect("usual");
        assert_eq!(
            (tensor.numbers, length),
            ([7, 8, 0, 64, 4], usual.len() - 1)
        );
        assert_eq!(tensor.device, b"cuda:0");
        for odd in [
            r#"[7,8,0,64,4,"cuda:0"]"#,
            r#"[7,8,0,64,"cuda:0"],"#,
            r#"[7, 8,0,64,4,"cuda:0"],"#,
            r#"[7,8,0,64,4,5,"cuda:0"],"#,
            r#"[7,8,0,64,-4,"cuda:0"],"#,
            r#"[7,8,0,64,4,"a\"b"],"#,
            r#"[7,8,0,64,11111111111111111111,"cpu"],"#,
        ] {
            assert!(usual_tensor(odd.as_bytes()).is_none(), "{odd}");
        }
    }
}
