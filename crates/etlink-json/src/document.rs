//! Parses small documents that are valid by construction: manifests, reports, settings.

use serde::de::DeserializeOwned;

/// Nesting depth above which documents are left to serde_json, which rejects them; simd-json would
/// recurse until the stack overflows.
const MAX_DEPTH: usize = 100;

/// Parses a whole document with `simd-json`. A document that `simd-json` rejects is parsed again
/// with `serde_json`, whose errors report line and column.
///
/// Meant for documents that etlink itself writes. Traces, which are often invalid JSON, are read by
/// [`read_elements`](crate::read_elements).
///
/// # Errors
/// Fails if the text is not JSON, or does not have the form of `T`.
pub fn from_slice<T: DeserializeOwned>(document: &[u8]) -> Result<T, serde_json::Error> {
    if nesting_depth(document) <= MAX_DEPTH {
        // simd-json resolves escapes in place.
        let mut copy = document.to_vec();
        if let Ok(value) = simd_json::serde::from_slice(&mut copy) {
            return Ok(value);
        }
    }
    serde_json::from_slice(document)
}

/// Returns the deepest nesting of brackets outside strings.
// Counting costs one pass. Without it, a parser that overflows the stack would end the process.
fn nesting_depth(document: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in document {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            // An extra closing bracket is not JSON; the parsers will report it.
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn documents_are_read() {
        let read = from_slice::<Value>(br#"{"a": [1, -2.5, "x\n\u00e9", null, true], "b": {}}"#);
        let want = serde_json::json!({"a": [1, -2.5, "x\n\u{e9}", null, true], "b": {}});
        assert_eq!(read.expect("JSON"), want);
    }

    #[test]
    fn errors_say_where() {
        let error = from_slice::<Value>(b"{\n  \"a\": oops\n}").expect_err("no JSON");
        assert_eq!((error.line(), error.column()), (2, 8));
        let error = from_slice::<Vec<u8>>(b"{}").expect_err("no list");
        assert!(error.to_string().contains("expected a sequence"), "{error}");
        assert!(from_slice::<Value>(b"").expect_err("nothing").is_eof());
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(from_slice::<Value>(&nested(MAX_DEPTH)).is_ok());
        let error = from_slice::<Value>(&nested(1_000_000)).expect_err("too deep");
        assert!(error.to_string().contains("recursion limit"), "{error}");
        assert_eq!(nesting_depth(br#"{"a\"]]": "[[[", "b": [[]]}"#), 3);
    }
}
