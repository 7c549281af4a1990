//! Reads schemas 1.0.2 to 1.1.1: arguments are objects, everything else is a typed attribute.
//!
//! ```text
//! {"id": 5, "name": "aten::add", "ctrl_deps": 4,
//!  "inputs": {"values": […], "shapes": […], "types": […], "strides": […]}, "outputs": {…},
//!  "attrs": [{"name": "rf_id", "type": "uint64", "value": 3}, …]}
//! ```
//! `ctrl_deps` is the parent's id. `strides` were added in 1.1.1, `kernel_backend` and
//! `kernel_file` in 1.0.4, communication attributes in 1.1.0, `tensor_range` later.

use crate::host::node::{ArgumentLists, ExtraAttr, NodeAttrs, NodeFields, list_text, parent_id};
use etlink_json::{BrokenJson, JsonScanner, JsonValue};

/// Stores the value of `key` if this layout has such a key with such a value.
pub(crate) fn take<'a>(
    node: &mut NodeFields<'a>,
    key: &[u8],
    scanner: &mut JsonScanner<'a>,
) -> Result<bool, BrokenJson> {
    match (key, scanner.peek()) {
        (b"ctrl_deps", _) => node.parent = parent_id(scanner.value()?),
        (b"inputs", Some(b'{')) => node.inputs = read_lists(scanner)?,
        (b"outputs", Some(b'{')) => node.outputs = read_lists(scanner)?,
        (b"attrs", Some(b'[')) => read_attributes(node, scanner)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn read_lists<'a>(scanner: &mut JsonScanner<'a>) -> Result<ArgumentLists<'a>, BrokenJson> {
    // PyTorch's exact spacing is compared as one text, which skips the search for each key.
    if let Some(lists) = usual_lists(scanner) {
        return Ok(lists);
    }
    let mut lists = ArgumentLists::default();
    scanner.enter()?;
    while let Some(key) = scanner.key()? {
        let value = scanner.value()?;
        match key {
            b"values" => lists.values = list_text(value),
            b"shapes" => lists.shapes = list_text(value),
            b"types" => lists.types = list_text(value),
            b"strides" => lists.strides = list_text(value),
            _ => {}
        }
    }
    Ok(lists)
}

/// Reads lists that are spaced exactly as PyTorch writes them, which applies to all but foreign
/// files.
#[inline]
fn usual_lists<'a>(scanner: &mut JsonScanner<'a>) -> Option<ArgumentLists<'a>> {
    let mut ahead = scanner.clone();
    let mut list = |head: &[u8]| ahead.eat_exact(head).then(|| ahead.value().map(list_text));
    let [values, shapes, types] =
        [&b"{\"values\": "[..], b", \"shapes\": ", b", \"types\": "].map(&mut list);
    let (values, shapes, types) = (values?.ok()?, shapes?.ok()?, types?.ok()?);
    let strides = list(b", \"strides\": ")
        .transpose()
        .ok()?
        .unwrap_or_default();
    if !ahead.eat(b'}') {
        return None;
    }
    // The caller's scanner only advances if everything matched; otherwise parsing restarts at the
    // brace.
    *scanner = ahead;
    Some(ArgumentLists {
        values,
        shapes,
        types,
        strides,
    })
}

fn read_attributes<'a>(
    node: &mut NodeFields<'a>,
    scanner: &mut JsonScanner<'a>,
) -> Result<(), BrokenJson> {
    scanner.eat(b'[');
    // Anything out of the usual order is left to the loop.
    usual_attributes(&mut node.attrs, scanner);
    loop {
        while scanner.eat(b',') {}
        match scanner.peek() {
            Some(b'{') => read_attribute(node, scanner)?,
            Some(b']') => {
                scanner.eat(b']');
                return Ok(());
            }
            _ => drop(scanner.value()?),
        }
    }
}

/// Reads attributes that are exactly as PyTorch writes them, in its order: in most nodes, all of
/// them.
#[inline]
fn usual_attributes<'a>(attrs: &mut NodeAttrs<'a>, scanner: &mut JsonScanner<'a>) {
    scanner.peek();
    macro_rules! take {
        ($($name:ident: $kind:literal,)*) => {
            $(
                let head = concat!(
                    "{\"name\": \"", stringify!($name), "\", \"type\": \"", $kind, "\", \"value\": "
                );
                if let Some(value) = usual_attribute(scanner, head.as_bytes()) {
                    attrs.$name = Some(value);
                    scanner.eat(b',');
                    scanner.peek();
                }
            )*
        };
    }
    take! {
        rf_id: "uint64",
        fw_parent: "uint64",
        seq_id: "int64",
        scope: "uint64",
        tid: "uint64",
        fw_tid: "uint64",
        op_schema: "string",
        kernel_backend: "string",
        kernel_file: "string",
        tensor_range: "string",
    }
}

#[inline]
fn usual_attribute<'a>(scanner: &mut JsonScanner<'a>, head: &[u8]) -> Option<JsonValue<'a>> {
    let mut ahead = scanner.clone();
    if !ahead.eat_exact(head) {
        return None;
    }
    let value = ahead.value().ok()?;
    if !ahead.eat(b'}') {
        return None;
    }
    *scanner = ahead;
    Some(value)
}

fn read_attribute<'a>(
    node: &mut NodeFields<'a>,
    scanner: &mut JsonScanner<'a>,
) -> Result<(), BrokenJson> {
    let (mut name, mut kind, mut value) = (&b""[..], None, None);
    scanner.enter()?;
    while let Some(key) = scanner.key()? {
        let item = scanner.value()?;
        match key {
            b"name" => name = item.raw(),
            b"type" => kind = Some(item),
            b"value" => value = Some(item),
            _ => {}
        }
    }
    keep_attribute(node, name, kind, value);
    Ok(())
}

fn keep_attribute<'a>(
    node: &mut NodeFields<'a>,
    name: &'a [u8],
    kind: Option<JsonValue<'a>>,
    value: Option<JsonValue<'a>>,
) {
    let known = value.is_some_and(|value| {
        node.attrs.set(name, value) || {
            // Only a known communication attribute sets `comm`, since `comm` marks a record.
            let mut comm = node.comm.unwrap_or_default();
            let known = comm.set(name, value);
            if known {
                node.comm = Some(comm);
            }
            known
        }
    });
    if !known {
        node.unknown.push(ExtraAttr { name, kind, value });
    }
}
