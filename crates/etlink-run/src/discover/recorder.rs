//! Recorder of a trace and the recording time, from the beginning of its file.

use std::collections::BTreeSet;

/// Categories of events in the recorded process itself.
const HOST_CATEGORIES: [&[u8]; 6] = [
    b"cpu_op",
    b"user_annotation",
    b"python_function",
    b"cuda_runtime",
    b"Operator",
    b"Runtime",
];

/// Recorder of a trace, as far as the beginning of the file states it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recorder {
    /// Process id.
    pub(super) process: Option<i64>,
    /// Host name, from `host_name`.
    pub(super) host: Option<String>,
    /// Returns the start of the first host event, Unix time, ns.
    pub(super) start_ns: Option<i64>,
    /// Origin of the file's times, Unix time, ns.
    pub(super) base_ns: i64,
    /// Groups of ranks named by its first collectives.
    pub(super) groups: BTreeSet<Vec<i64>>,
}

impl Recorder {
    /// Reads the beginning of a host trace, which states its process before its nodes.
    pub(super) fn of_host_trace(head: &[u8]) -> Recorder {
        let nodes = memchr::memmem::find(head, b"\"nodes\"").unwrap_or(head.len());
        Recorder {
            process: text_after(&head[..nodes], b"\"pid\"").and_then(integer),
            ..Recorder::default()
        }
    }

    /// Reads the beginning of a Kineto trace, which may end anywhere.
    pub(super) fn of_head(head: &[u8]) -> Recorder {
        let base_ns = text_after(head, b"\"baseTimeNanoseconds\"")
            .and_then(integer)
            .unwrap_or(0);
        let event = first_host_event(head);
        let of_event = |key: &[u8]| event.and_then(|event| text_after(event, key));
        let host = text_after(head, b"\"host_name\"").and_then(quoted);
        let start = of_event(b"\"ts\"").and_then(nanoseconds);
        Recorder {
            process: of_event(b"\"pid\"").and_then(integer),
            host: host.filter(|host| !host.is_empty()),
            start_ns: start.map(|start| base_ns.saturating_add(start)),
            base_ns,
            groups: groups(head),
        }
    }

    /// Returns the number of ranks according to collectives' groups: the highest member plus one.
    pub(super) fn largest_group(&self) -> Option<i64> {
        Some(self.groups.iter().flatten().max()? + 1)
    }

    /// Returns true if two traces are of different processes.
    pub(super) fn is_other_process(&self, other: &Recorder) -> bool {
        let are_known = self.process.is_some() && other.process.is_some();
        let hosts = self.host.as_ref().zip(other.host.as_ref());
        are_known && self.process != other.process || hosts.is_some_and(|(one, two)| one != two)
    }
}

/// Returns the first object in `head` that is a host event.
fn first_host_event(head: &[u8]) -> Option<&[u8]> {
    for at in memchr::memmem::find_iter(head, b"\"cat\"") {
        let category = text_after(&head[at..], b"\"cat\"").and_then(quoted);
        let is_host = |category: &String| HOST_CATEGORIES.contains(&category.as_bytes());
        if category.as_ref().is_some_and(is_host) {
            let begin = memchr::memrchr(b'{', &head[..at])?;
            // arguments may follow, with their own objects
            let end = memchr::memchr(b'}', &head[at..]).map_or(head.len(), |end| at + end);
            return head.get(begin..end);
        }
    }
    None
}

/// Returns the global ranks of groups, as listed in records of collectives.
fn groups(head: &[u8]) -> BTreeSet<Vec<i64>> {
    const KEY: &[u8] = b"\"Process Group Ranks\"";
    let mut all = BTreeSet::new();
    for at in memchr::memmem::find_iter(head, KEY) {
        let list = text_after(&head[at..], KEY).and_then(quoted);
        let list = list
            .as_deref()
            .and_then(|list| list.strip_prefix('[')?.strip_suffix(']'));
        let ranks: Option<Vec<i64>> = list.and_then(|list| {
            list.split(',')
                .map(|rank| rank.trim().parse().ok())
                .collect()
        });
        all.extend(ranks);
    }
    all
}

/// Returns the text after a key and its colon.
pub(super) fn text_after<'t>(text: &'t [u8], key: &[u8]) -> Option<&'t [u8]> {
    let at = memchr::memmem::find(text, key)? + key.len();
    let rest = text[at..].trim_ascii_start().strip_prefix(b":")?;
    Some(rest.trim_ascii_start())
}

fn quoted(text: &[u8]) -> Option<String> {
    let rest = text.strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', rest)?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_digit() && *byte != b'-');
    std::str::from_utf8(&text[..end?]).ok()?.parse().ok()
}

/// Converts microseconds with up to three decimals to nanoseconds.
pub(super) fn nanoseconds(text: &[u8]) -> Option<i64> {
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    let micros = integer(text)?;
    let digits = text
        .iter()
        .position(|byte| !byte.is_ascii_digit() && *byte != b'-')?;
    let mut decimals = text[digits..].strip_prefix(b".").unwrap_or_default().iter();
    let mut nanos = 0;
    for _ in 0..3 {
        let digit = decimals.next().filter(|byte| byte.is_ascii_digit());
        nanos = nanos * 10 + digit.map_or(0, |byte| i64::from(byte - b'0'));
    }
    micros.checked_mul(1_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_says_who_recorded_it() {
        let head = br#"{"schemaVersion": 1, "host_name": "a1", "baseTimeNanoseconds": 1000000,
            "traceEvents": [{"ph": "M", "pid": 0, "ts": 0}, {"ph": "X", "cat": "kernel", "pid": 2},
            {"ph": "X", "cat": "cpu_op", "pid": 77, "ts": 12.5, "args":
            {"Process Group Ranks": "[0, 2]"}}, {"Process Group Ranks": "[0, 1, ...]"}"#;
        let recorder = Recorder::of_head(head);
        assert_eq!(
            (
                recorder.process,
                recorder.start_ns,
                recorder.host.as_deref()
            ),
            (Some(77), Some(1_012_500), Some("a1"))
        );
        assert_eq!(recorder.groups, BTreeSet::from([vec![0, 2]]));
        assert_eq!(
            Recorder::of_head(b"{\"traceEvents\": ["),
            Recorder::default()
        );
    }
}
