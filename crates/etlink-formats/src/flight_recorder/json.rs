//! Reads a dump in JSON (`_dump_fr_trace_json`) as a list of values. An explicit stack holds the
//! open values, so nesting costs only memory proportional to the text.

use crate::flight_recorder::LIMITS;
use crate::pickle::{PickleValue, ValueIdx, ValueTree};
use etlink_json::{BrokenJson, JsonScanner, JsonValue};
use etlink_model::Failure;

/// An unfinished list or dict with its contents so far.
enum OpenValue {
    List(Vec<ValueIdx>),
    Dict(Vec<ValueIdx>),
}

/// Reads a document up to its end, or to the first truncated or broken part. O(bytes).
///
/// # Errors
/// The document has more values than a dump.
pub(crate) fn read_json(text: &[u8]) -> Result<ValueTree<'_>, Failure> {
    let mut tree = ValueTree::new(text.len());
    let mut scanner = JsonScanner::new(text);
    let mut open: Vec<OpenValue> = vec![];
    loop {
        // an open value is not in the tree yet, but already takes its memory
        LIMITS.check_values(&tree, open.len())?;
        match read_next(&mut scanner, &mut tree, &mut open) {
            Ok(Some(whole)) => {
                tree.root = Some(whole);
                return Ok(tree);
            }
            Ok(None) => {}
            Err(_) => break,
        }
    }
    tree.is_cut = true;
    // open values keep what came before the end
    while let Some(value) = open.pop() {
        let place = close_value(value, &mut tree);
        match open.last_mut() {
            Some(outer) => push_value(outer, place),
            None => tree.root = Some(place),
        }
    }
    Ok(tree)
}

/// Reads up to the next bracket or value; returns the document once it is complete.
fn read_next<'a>(
    scanner: &mut JsonScanner<'a>,
    tree: &mut ValueTree<'a>,
    open: &mut Vec<OpenValue>,
) -> Result<Option<ValueIdx>, BrokenJson> {
    let is_closed = match open.last_mut() {
        Some(OpenValue::Dict(pairs)) => match scanner.key()? {
            Some(key) => {
                // a key without a value is useless: it is dropped if the text ends here
                pairs.push(tree.add(PickleValue::EscapedText(key)));
                false
            }
            None => true,
        },
        Some(OpenValue::List(_)) => {
            while scanner.eat(b',') {}
            scanner.eat(b']')
        }
        None => false,
    };
    let value = if is_closed {
        match open.pop() {
            Some(value) => close_value(value, tree),
            None => return Ok(None),
        }
    } else if scanner.eat(b'{') {
        open.push(OpenValue::Dict(vec![]));
        return Ok(None);
    } else if scanner.eat(b'[') {
        open.push(OpenValue::List(vec![]));
        return Ok(None);
    } else {
        tree.add(plain_value(scanner.value()?))
    };
    match open.last_mut() {
        Some(outer) => {
            push_value(outer, value);
            Ok(None)
        }
        None => Ok(Some(value)),
    }
}

fn plain_value(value: JsonValue<'_>) -> PickleValue<'_> {
    match value {
        JsonValue::Text(raw) => PickleValue::EscapedText(raw),
        JsonValue::Word(_) if value.boolean().is_some() => {
            PickleValue::Bool(value.boolean() == Some(true))
        }
        JsonValue::Word(raw) => match value.int() {
            Some(number) => PickleValue::Int(number),
            None => match std::str::from_utf8(raw)
                .ok()
                .and_then(|text| text.parse().ok())
            {
                Some(number) => PickleValue::Float(number),
                None => PickleValue::Nothing,
            },
        },
        // brackets are opened before a value is requested
        JsonValue::Nested(_) => PickleValue::Nothing,
    }
}

fn close_value<'a>(value: OpenValue, tree: &mut ValueTree<'a>) -> ValueIdx {
    tree.add(match value {
        OpenValue::List(items) => PickleValue::List(items),
        OpenValue::Dict(pairs) => PickleValue::Dict(pairs),
    })
}

fn push_value(outer: &mut OpenValue, value: ValueIdx) {
    match outer {
        OpenValue::List(all) | OpenValue::Dict(all) => all.push(value),
    }
}
