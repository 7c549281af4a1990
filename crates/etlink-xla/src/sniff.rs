//! What a file is, by its first bytes.

use crate::track::PlaneKind;
use crate::wire::{WireField, WireFields};
use memchr::memmem;

/// Field numbers of `XSpace` and `XPlane` that a head begins with.
const PLANES: u8 = 0x0A;

/// Whether a file begins as an `XSpace` does: with a plane that has the name of one.
pub fn is_xla_space(head: &[u8]) -> bool {
    let Some(rest) = head.strip_prefix(&[PLANES]) else {
        return false;
    };
    // The plane is longer than the head, so its length is passed over.
    let length = rest.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let plane = rest.get(length..).unwrap_or_default();
    let mut fields = WireFields::of(plane);
    let name = fields.find(|(tag, _)| *tag == 2);
    let Some((2, WireField::Block(name))) = name else {
        return false;
    };
    is_plane_name(&String::from_utf8_lossy(name))
}

/// Whether it is the name of a plane of any kind.
fn is_plane_name(name: &str) -> bool {
    // `Task Environment`, `Host CPUs` and the planes of chips have names without a prefix.
    let known = [
        "/host:",
        "/device:",
        "/virtualdevice:",
        "#Chip",
        "Task Environment",
    ];
    PlaneKind::of(name) != PlaneKind::Other || known.iter().any(|word| name.starts_with(word))
}

/// Whether Chrome JSON begins as that of XLA's profiler: with processes that XLA names, and
/// events without a category, which those of PyTorch have.
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
