//! Detects the type of a file by its first bytes.

use crate::xla::track::PlaneKind;
use crate::xla::wire::{WireField, WireFields};
use memchr::memmem;

/// First key of a file: field number of `XSpace::planes`, with its wire type.
const PLANES: u8 = 0x0A;

/// Returns true if a file begins like an `XSpace`: with a plane that has a known name.
pub fn is_xla_space(head: &[u8]) -> bool {
    let Some(rest) = head.strip_prefix(&[PLANES]) else {
        return false;
    };
    // The plane is longer than the head, so its length is skipped unchecked.
    let length = rest.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let plane = rest.get(length..).unwrap_or_default();
    let mut fields = WireFields::of(plane);
    let name = fields.find(|(tag, _)| *tag == 2);
    let Some((2, WireField::Block(name))) = name else {
        return false;
    };
    is_plane_name(&String::from_utf8_lossy(name))
}

/// Returns true if any kind of plane has this name.
fn is_plane_name(name: &str) -> bool {
    // `Task Environment`, `Host CPUs` and the planes of chips have no prefix in their names.
    let known = [
        "/host:",
        "/device:",
        "/virtualdevice:",
        "#Chip",
        "Task Environment",
    ];
    PlaneKind::of(name) != PlaneKind::Other || known.iter().any(|word| name.starts_with(word))
}

/// Returns true if Chrome JSON begins like that of XLA's profiler: with processes that XLA names,
/// and events without the category that PyTorch's have.
pub fn is_xla_json(head: &[u8]) -> bool {
    let names_planes = ["\"/host:", "\"/device:", " /host:CPU\"", " /device:"]
        .iter()
        .any(|word| contains(head, word.as_bytes()));
    let is_pytorch = contains(head, b"\"cat\"") || contains(head, b"\"schemaVersion\"");
    contains(head, b"\"traceEvents\"") && names_planes && !is_pytorch
}

fn contains(head: &[u8], word: &[u8]) -> bool {
    memmem::find(head, word).is_some()
}
