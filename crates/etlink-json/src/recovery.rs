//! How the scanner decides what text that is not JSON was meant to be.

/// Open brackets. A brace that was never closed would otherwise end at the list's own `]`.
#[derive(Clone, Copy, Default)]
pub(crate) struct BracketStack {
    pub(crate) depth: usize,
    /// Bit 0 is the innermost: 1 for `[`. Bits of brackets deeper than the word are lost.
    kinds: u128,
    /// Some bits were lost: kinds are not compared any more.
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

    /// `None` where `byte` does not close the innermost bracket.
    pub(crate) fn close(self, byte: u8) -> Option<BracketStack> {
        // A closing brace that does not fit its opening one shows where an element was left open.
        let fits = self.lost || (self.kinds & 1 == 1) == (byte == b']');
        fits.then_some(BracketStack {
            depth: self.depth - 1,
            kinds: self.kinds >> 1,
            lost: self.lost,
        })
    }
}

/// Where `,{"` stands, but for white space: a string that was never closed, or an element without
/// its brace, runs into the next element.
pub(crate) fn next_element(raw: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'{', raw).find(|&at| {
        let (before, after) = (raw[..at].trim_ascii_end(), raw[at + 1..].trim_ascii_start());
        before.ends_with(b",") && after.starts_with(b"\"")
    })
}

/// Whether the text after a comma is `"key":`, or the comma was one too many.
pub(crate) fn key_follows(text: &[u8]) -> bool {
    match text.trim_ascii_start().split_first() {
        // A text that is cut behind the quote gets the benefit of the doubt.
        Some((b'"', key)) => memchr::memchr(b'"', key).is_none_or(|end| {
            key[end + 1..]
                .trim_ascii_start()
                .first()
                .is_none_or(|b| *b == b':')
        }),
        next => next.is_none_or(|(b, _)| *b == b'}'),
    }
}

/// Whether the text after a closing brace can stand there.
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
