//! Decides the intended meaning of text that is not JSON.

/// Stack of open brackets and their kinds. Without the kinds, a brace that was never closed would
/// end at the array's own `]`.
#[derive(Clone, Copy, Default)]
pub(crate) struct BracketStack {
    pub(crate) depth: usize,
    /// Kinds of the open brackets, innermost in bit 0; 1 for `[`. Bits of brackets beyond 128
    /// levels are lost.
    kinds: u128,
    /// True if bits were lost; kinds are not compared any more.
    lost: bool,
}

impl BracketStack {
    pub(crate) fn open(self, byte: u8) -> BracketStack {
        let depth = self.depth + 1;
        BracketStack {
            depth,
            kinds: self.kinds << 1 | u128::from(byte == b'['),
            lost: self.lost || depth > 128,
        }
    }

    /// Removes the innermost bracket; returns `None` if `byte` does not close it.
    pub(crate) fn close(self, byte: u8) -> Option<BracketStack> {
        // A closing brace that does not match its opening one shows that an element was left open.
        let fits = self.lost || (self.kinds & 1 == 1) == (byte == b']');
        fits.then_some(BracketStack {
            depth: self.depth - 1,
            kinds: self.kinds >> 1,
            lost: self.lost,
        })
    }
}

/// Returns the position of the brace in `,{"`, ignoring white space: a string that was never
/// closed, or an element without its closing brace, runs into the next element.
pub(crate) fn next_element(raw: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'{', raw).find(|&at| {
        let (before, after) = (raw[..at].trim_ascii_end(), raw[at + 1..].trim_ascii_start());
        before.ends_with(b",") && after.starts_with(b"\"")
    })
}

/// Returns true if the text after a comma is `"key":`, or if the comma is a trailing one.
pub(crate) fn key_follows(text: &[u8]) -> bool {
    match text.trim_ascii_start().split_first() {
        // A text that is truncated after the quote gets the benefit of the doubt.
        Some((b'"', key)) => memchr::memchr(b'"', key).is_none_or(|end| {
            key[end + 1..]
                .trim_ascii_start()
                .first()
                .is_none_or(|b| *b == b':')
        }),
        next => next.is_none_or(|(b, _)| *b == b'}'),
    }
}

/// Returns true if the text after a closing brace is valid there.
pub(crate) fn structure_follows(text: &[u8]) -> bool {
    text.trim_ascii_start()
        .first()
        .is_none_or(|b| b",}]{".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_brace_stands_structure() {
        for text in ["", " ", ",", "}", "\n]", " {\"a\": 1}"] {
            assert!(structure_follows(text.as_bytes()), "{text:?}");
        }
        for text in ["a", " \"", "1", ":"] {
            assert!(!structure_follows(text.as_bytes()), "{text:?}");
        }
    }
}
