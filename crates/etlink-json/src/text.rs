//! Decodes the contents of JSON strings.

use std::borrow::Cow;

/// Resolves the escapes of a JSON string's contents.
///
/// Never fails: bytes that are not UTF-8 become U+FFFD. Escapes unknown to JSON are kept unchanged,
/// because PyTorch writes range names unescaped. Borrows if there is nothing to resolve.
pub fn unescape(raw: &[u8]) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', raw) else {
        // The strict check is much faster than the lossy one.
        return std::str::from_utf8(raw)
            .map_or_else(|_| String::from_utf8_lossy(raw), Cow::Borrowed);
    };
    let mut out = Vec::with_capacity(raw.len());
    out.extend_from_slice(&raw[..first]);
    let mut rest = &raw[first..];
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        rest = resolve_escape(tail, &mut out);
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// Resolves the escape that begins with `tail` after its backslash; returns the text after the
/// escape.
fn resolve_escape<'a>(tail: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let plain = match tail.first() {
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
        Some(b'u') => {
            // `\u` without four digits is kept: Windows paths in range names contain it
            // (`C:\users`).
            if let Some((ch, used)) = unicode_escape(&tail[1..]) {
                out.extend_from_slice(ch.encode_utf8(&mut [0; 4]).as_bytes());
                return &tail[1 + used..];
            }
            out.push(b'\\');
            return tail;
        }
        _ => {
            out.push(b'\\');
            return tail;
        }
    };
    out.push(plain);
    &tail[1..]
}

/// Decodes the character of `XXXX` or `XXXX\uXXXX`, and returns it with the number of bytes used.
fn unicode_escape(hex: &[u8]) -> Option<(char, usize)> {
    let high = four_hex_digits(hex)?;
    if !(0xD800..0xDC00).contains(&high) {
        return Some((
            char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER),
            4,
        ));
    }
    let low = hex
        .get(4..6)
        .filter(|mark| mark == b"\\u")
        .and_then(|_| four_hex_digits(&hex[6..]));
    match low {
        // Characters beyond 16 bits are written as two escapes, a surrogate pair (RFC 8259, section
        // 7).
        Some(low @ 0xDC00..0xE000) => {
            let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
            Some((char::from_u32(code)?, 10))
        }
        _ => Some((char::REPLACEMENT_CHARACTER, 4)),
    }
}

fn four_hex_digits(hex: &[u8]) -> Option<u32> {
    let digits = hex.get(..4)?;
    digits.iter().try_fold(0, |value, &byte| {
        Some(value << 4 | (byte as char).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn escapes() {
        for (raw, text) in [
            (r"plain", "plain"),
            (r#"a\"b\\c\/d"#, r#"a"b\c/d"#),
            (r"\n\t\u0041\u00e9", "\n\tA\u{e9}"),
            (r"\ud83d\ude00", "\u{1F600}"),
            (r"\ud83dx", "\u{FFFD}x"),
            (r"\ud83dxxde00", "\u{FFFD}xxde00"),
            (r"\udc00\udc01", "\u{FFFD}\u{FFFD}"),
            (r"\r\b\f", "\r\u{8}\u{c}"),
            (r"C:\path\q", r"C:\path\q"),
            (r"end\", r"end\"),
            (r"\u12", r"\u12"),
        ] {
            assert_eq!(unescape(raw.as_bytes()), text, "{raw}");
        }
        assert_eq!(unescape(b"\xff\\n"), "\u{FFFD}\n");
    }
}
