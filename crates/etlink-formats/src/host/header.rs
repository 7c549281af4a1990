//! Reads the fields around the nodes: `schema`, `pid`, `time`, `start_ts` before them, `finish_ts`
//! after them (`initExecutionTraceStart`, `finalizeExecutionTraceOutput`).

use etlink_json::{FieldScan, JsonScanner, scan_fields};
use etlink_model::HostHeader;

/// Adds the fields in `text` to the header. The last `finish_ts` takes precedence: the process that
/// owns the file writes it after its forked children.
pub(crate) fn add(text: &[u8], header: &mut HostHeader) -> FieldScan {
    scan_fields(text, |key, value| match key {
        b"schema" if header.schema.is_empty() => header.schema = value.text().into_owned(),
        b"pid" => header.pid = header.pid.or(value.int()),
        b"time" if header.time.is_empty() => header.time = value.text().into_owned(),
        b"start_ts" => header.start_ms = header.start_ms.or(value.int()),
        // The last numeric value takes precedence; for all other fields it is the first.
        b"finish_ts" => header.finish_ms = value.int().or(header.finish_ms),
        _ => {}
    })
}

/// Returns the number of occurrences of `key` in a trailer, whose lists are not read.
pub(crate) fn count_lists(trailer: &[u8], key: &str) -> u64 {
    let mut count = 0;
    scan_fields(trailer, |known, _| {
        count += u64::from(known == key.as_bytes())
    });
    count
}

/// Returns the position where the list continues after the end of the document.
///
/// A forked child that exits normally ends the file, and the parent continues to write nodes: `],
/// "finish_ts": 7}, {"id": …`. Anything else after a document is ignored.
pub(crate) fn nodes_after_end(trailer: &[u8]) -> Option<usize> {
    let mut scanner = JsonScanner::new(trailer);
    // The rest of the first document is skipped up to its brace before anything is taken for nodes.
    while scanner.key().ok()?.is_some() {
        scanner.value().ok()?;
    }
    if !scanner.eat(b',') || scanner.peek() != Some(b'{') {
        return None;
    }
    let start = scanner.pos();
    let first = trailer[start + 1..].trim_ascii_start();
    (first.starts_with(b"\"id\"") || first.starts_with(b"\"name\"")).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A forked child writes its own fields after its parent's.
    #[test]
    fn of_fields_that_come_again_the_first_counts_but_for_the_end() {
        let mut header = HostHeader::default();
        let own = r#""schema": "1.1.1", "pid": 1, "time": "a", "start_ts": 5, "finish_ts": 6,"#;
        let child = r#""schema": "1.0.1", "pid": 2, "time": "b", "start_ts": 7, "finish_ts": 8}"#;
        for text in [own, child] {
            add(text.as_bytes(), &mut header);
        }
        let want = HostHeader {
            schema: "1.1.1".to_owned(),
            pid: Some(1),
            time: "a".to_owned(),
            start_ms: Some(5),
            finish_ms: Some(8),
        };
        assert_eq!(header, want);
    }
}
