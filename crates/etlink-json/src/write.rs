//! Writes values as JSON text.

use serde::Serialize;
use std::io;

/// Writes a string with quotes and escapes.
///
/// # Errors
/// Never fails for a vector.
pub fn text(out: &mut Vec<u8>, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(out, text)?)
}

/// Writes an integer or any other single JSON value. `write!` takes several times as long.
///
/// # Errors
/// Fails if the value cannot be serialized.
pub fn number(out: &mut Vec<u8>, number: impl Serialize) -> io::Result<()> {
    Ok(serde_json::to_writer(out, &number)?)
}

/// Writes nanoseconds as microseconds with three decimals, exactly.
///
/// # Errors
/// Never fails for a vector.
pub fn micros(out: &mut Vec<u8>, ns: i64) -> io::Result<()> {
    if ns < 0 {
        out.push(b'-');
    }
    // `i64::MIN` has no positive counterpart in its own type.
    let ns = ns.unsigned_abs();
    number(out, ns / 1000)?;
    out.push(b'.');
    out.extend([100, 10, 1].map(|place| b'0' + (ns / place % 10) as u8));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::micros;

    #[test]
    fn micros_are_exact() {
        for (ns, want) in [
            (0, "0.000"),
            (1_234_567, "1234.567"),
            (-1, "-0.001"),
            (i64::MIN, "-9223372036854775.808"),
        ] {
            let mut out = vec![];
            micros(&mut out, ns).expect("writes");
            assert_eq!(String::from_utf8_lossy(&out), want);
        }
    }
}
