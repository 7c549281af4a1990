//! Finds the numbers in a host trace's node, for every schema: keys of the node (1.0.1) or of its
//! `attrs`. Ids of tensors and storages are unchanged: a training loop reuses their memory.

use super::document::{NumberFamily, NumberFinder, TraceText};
use anyhow::Result;
use etlink_json::BrokenJson;

/// Name prefix of the nodes of the process and of threads.
const ROOT: &[u8] = b"[pytorch|profiler|execution_trace|";

/// Reads an execution trace.
pub(super) fn read_host_text(text: Vec<u8>) -> Result<TraceText> {
    TraceText::new(text, "nodes", note_node)
}

fn note_node(finder: &mut NumberFinder<'_>) -> Result<(), BrokenJson> {
    let (mut id, mut name) = (None, &b""[..]);
    while let Some(key) = finder.scanner.key()? {
        match key {
            b"id" => id = finder.number(NumberFamily::Node, 1)?,
            b"name" => name = finder.name()?,
            // Schema 1.0.1 has `parent`; later ones call it `ctrl_deps`.
            b"ctrl_deps" | b"parent" => drop(finder.number(NumberFamily::Node, 1)?),
            b"attrs" if finder.scanner.eat(b'[') => note_attributes(finder)?,
            other => note_number(finder, other)?,
        }
    }
    // The kind of node is known only once both keys are read, whatever their order.
    if name.starts_with(ROOT)
        && let Some(id) = id
    {
        finder.is_root(id);
    }
    Ok(())
}

fn note_attributes(finder: &mut NumberFinder<'_>) -> Result<(), BrokenJson> {
    loop {
        while finder.scanner.eat(b',') {}
        if finder.scanner.eat(b']') {
            return Ok(());
        }
        finder.scanner.enter()?;
        let mut name = &b""[..];
        while let Some(key) = finder.scanner.key()? {
            match key {
                b"name" => name = finder.scanner.value()?.raw(),
                b"value" => note_number(finder, name)?,
                _ => drop(finder.scanner.value()?),
            }
        }
    }
}

/// Reads the value of the key or attribute `name`.
fn note_number(finder: &mut NumberFinder<'_>, name: &[u8]) -> Result<(), BrokenJson> {
    let (family, least) = match name {
        b"rf_id" => (NumberFamily::Function, 1),
        b"fw_parent" => (NumberFamily::Node, 1),
        b"seq_id" => (NumberFamily::Sequence, 0),
        _ => {
            finder.scanner.value()?;
            return Ok(());
        }
    };
    finder.number(family, least).map(drop)
}
