//! What a file is, by its first bytes.

use super::FileKind;
use super::wire::{Field, next_field};
use crate::etplus::MARK;
use memchr::memmem::find;
use prost::encoding::decode_varint;

/// How many bytes of a file [`sniff`] should see.
pub const SNIFF_BYTES: usize = 64 << 10;

/// What a file is. `head` is its beginning, unpacked; [`SNIFF_BYTES`] of it are enough.
///
/// A linked trace (ET+) is told from a host trace by its nodes' times, or by the process root,
/// which PyTorch writes last and linkers write first.
pub fn sniff(head: &[u8]) -> FileKind {
    let text = head
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(head)
        .trim_ascii_start();
    // a message's length can be the code of a bracket
    match text.first().map_or(FileKind::Unknown, |first| {
        if b"{[".contains(first) {
            sniff_json(text)
        } else {
            FileKind::Unknown
        }
    }) {
        FileKind::Unknown if is_chakra(head) => FileKind::ChakraEt,
        kind => kind,
    }
}

fn sniff_json(text: &[u8]) -> FileKind {
    let has = |key: &str| find(text, key.as_bytes()).is_some();
    let has_key = |key: &str| has(&format!("\"{key}\""));
    let any = |keys: &[&str]| keys.iter().any(|key| has_key(key));
    if any(&[
        "traceEvents",
        "deviceProperties",
        "baseTimeNanoseconds",
        "schemaVersion",
        "distributedInfo",
    ]) {
        FileKind::KinetoTrace
    } else if has_key("nodes") && any(&["schema", "ctrl_deps", "rf_id"]) {
        let linked = any(&[MARK, "exclusive_dur", "inter_thread_dep"]);
        if linked || process_root_first(text) {
            FileKind::EtPlus
        } else {
            FileKind::HostTrace
        }
    } else if any(&[
        "int64Val",
        "stringVal",
        "uint64Val",
        "boolVal",
        "dataDeps",
        "ctrlDeps",
        "durationMicros",
    ]) {
        FileKind::ChakraJson
    } else if has_key("ph") && any(&["ts", "cat", "pid"]) {
        FileKind::KinetoTrace
    } else {
        FileKind::Unknown
    }
}

fn process_root_first(text: &[u8]) -> bool {
    let process = find(text, b"[pytorch|profiler|execution_trace|process]");
    let Some(process) = process else { return false };
    find(text, b"|thread]").is_some_and(|thread| process < thread)
}

/// Whether a length and the fields of Chakra's metadata or node follow.
fn is_chakra(head: &[u8]) -> bool {
    let mut rest = head;
    let length = loop {
        match decode_varint(&mut rest) {
            Ok(0) if !rest.is_empty() => {}
            Ok(length) => break length,
            Err(_) => return false,
        }
    };
    let Some(mut message) = usize::try_from(length)
        .ok()
        .map(|length| &rest[..length.min(rest.len())])
    else {
        return false;
    };
    let cut = (message.len() as u64) < length;
    let mut fields = 0;
    while !message.is_empty() {
        let known = match next_field(&mut message) {
            Ok((tag, Field::Block(_))) => matches!(tag, 1 | 2 | 4 | 5 | 8..=10),
            Ok((tag, Field::Number(_))) => matches!(tag, 1 | 3..=7),
            Ok(_) => false,
            Err(_) => return cut && fields > 0,
        };
        if !known {
            return false;
        }
        fields += 1;
    }
    fields > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_content() {
        for (head, kind) in [
            (&b"{\"schemaVersion\": 1, \"traceEvents\": ["[..], FileKind::KinetoTrace),
            (b"[{\"ph\": \"X\", \"ts\": 1}", FileKind::KinetoTrace),
            (b"\xEF\xBB\xBF\n {\"schema\": \"1.0.1\", \"nodes\": [{\"name\": \"[pytorch|profiler|execution_trace|thread]\"", FileKind::HostTrace),
            (b"{\"schema\": \"1.1.1\", \"nodes\": [{\"exclusive_dur\": 1", FileKind::EtPlus),
            (b"{\"schema\": \"1.1.1\", \"nodes\": [{\"id\": 0, \"name\": \"[pytorch|profiler|execution_trace|process]\"}, {\"name\": \"[pytorch|profiler|execution_trace|thread]\"", FileKind::EtPlus),
            (b"{\"schema\": \"1.1.1\", \"linked_by\": \"x\", \"nodes\": [", FileKind::EtPlus),
            (b"{\n  \"attr\": [{\"name\": \"pid\", \"uint64Val\": \"7\"", FileKind::ChakraJson),
            (b"[\x0a\x050.0.4\x12\x54", FileKind::ChakraEt),
            (b"\x07\x0a\x050.0.4\x02\x08\x01", FileKind::ChakraEt),
            (b"\x00\x04\x08\x01\x18\x04", FileKind::ChakraEt),
            (b"\xff\xff\x03\x0a\x050.0.4\x12\x90\x4e", FileKind::ChakraEt),
            (b"\x1f\x8b\x08\x00\x00", FileKind::Unknown),
            (b"a\nb\n", FileKind::Unknown),
            (b"plain text", FileKind::Unknown),
            (b"", FileKind::Unknown),
            (b"\x00", FileKind::Unknown),
        ] {
            assert_eq!(sniff(head), kind, "{}", String::from_utf8_lossy(head));
        }
    }
}
