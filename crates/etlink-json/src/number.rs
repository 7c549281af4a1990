//! Parses numbers without floats.

/// Parses 1 to 18 digits and nothing else, which cannot overflow.
#[inline]
pub(crate) fn short_uint(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    // A byte below `0` wraps to a large number, so a single comparison rejects both sides of the
    // digits.
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| value * 10 + u64::from(digit))
    })
}

/// Parses a decimal integer with an optional sign. Returns `None` for anything else, and on
/// overflow.
pub fn parse_int(text: &[u8]) -> Option<i64> {
    if let Some(short) = short_uint(text) {
        return Some(short.cast_signed());
    }
    let (negative, digits) = split_sign(text);
    if digits.is_empty() {
        return None;
    }
    // The sum is built below zero, because `i64::MIN` has no positive counterpart.
    let mut value = 0i64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

/// Converts microseconds in decimal text to integer nanoseconds: `1234.567` becomes 1 234 567.
///
/// The result is exact; digits past the third decimal round half away from zero. Kineto prints
/// exactly three decimals (`output_json.cpp`). Python tools print shortest floats, so exponents are
/// accepted. Kineto's form of times before its origin is accepted as well (`-1.-500`, `0.-01`).
/// Returns `None` if the text is not a number (`nan`) or overflows.
pub fn micros_to_ns(text: &[u8]) -> Option<i64> {
    // Nearly every time of a trace has this form, which needs no sign, exponent or rounding.
    if let Some(ns) = kineto_micros(text) {
        return Some(ns);
    }
    if let Some(ns) = negative_kineto_micros(text) {
        return Some(ns);
    }
    // The power 3 converts microseconds to nanoseconds.
    scaled_number(text, 3)
}

/// Converts microseconds in decimal text to integer picoseconds: `12.93` becomes 12 930 000.
///
/// Digits past the sixth decimal round half away from zero, because programs that count picoseconds
/// print them as floats of microseconds (`63.103999999999999`). Returns `None` if the text is not a
/// number or overflows, which 106 days do.
pub fn micros_to_ps(text: &[u8]) -> Option<i64> {
    scaled_number(text, 6)
}

/// Multiplies a decimal number by ten to the `power` and rounds it to an integer.
fn scaled_number(text: &[u8], power: i32) -> Option<i64> {
    let (negative, rest) = split_sign(text);
    let whole_len = count_digits(rest);
    let (whole, rest) = rest.split_at(whole_len);
    let (fraction, rest) = match rest.split_first() {
        Some((b'.', tail)) => tail.split_at(count_digits(tail)),
        _ => (&[][..], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match rest.split_first() {
        None => 0,
        Some((b'e' | b'E', power)) => i32::try_from(parse_int(power)?).ok()?,
        Some(_) => return None,
    };
    let scaled = scale_decimal(whole, fraction, exponent.checked_add(power)?)?;
    Some(if negative { -scaled } else { scaled })
}

/// Parses microseconds as Kineto prints them: up to 15 digits, a point, three digits.
#[inline]
fn kineto_micros(text: &[u8]) -> Option<i64> {
    // 15 digits and three more make 18, which fit `u64` and `i64` without a check.
    let point = text
        .len()
        .checked_sub(4)
        .filter(|point| *point <= 15 && text[*point] == b'.')?;
    let (whole, fraction) = (short_uint(&text[..point])?, short_uint(&text[point + 1..])?);
    Some((whole * 1000 + fraction).cast_signed())
}

/// Parses a time before Kineto's origin, which Kineto prints as quotient and remainder of a
/// division by 1,000, each with its own sign, the remainder three characters wide (`fmtTs` in
/// `output_json.cpp`).
fn negative_kineto_micros(text: &[u8]) -> Option<i64> {
    let point = text.windows(2).position(|pair| pair == b".-")?;
    let (whole, fraction) = (parse_int(&text[..point])?, &text[point + 2..]);
    // `1.-500` is not such a time.
    if whole > 0 || !(2..=3).contains(&fraction.len()) {
        return None;
    }
    let fraction = short_uint(fraction)?.cast_signed();
    whole.checked_mul(1_000)?.checked_sub(fraction)
}

fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    }
}

fn count_digits(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}

/// Multiplies `whole.fraction` by ten to the `power` and rounds it to an integer.
fn scale_decimal(whole: &[u8], fraction: &[u8], power: i32) -> Option<i64> {
    // Position of the decimal point among the digits after scaling; it may be outside of them.
    let point = i64::try_from(whole.len()).ok()? + i64::from(power);
    let mut value = 0i64;
    let mut place = 0i64;
    for &byte in whole.iter().chain(fraction) {
        let digit = i64::from(byte - b'0');
        // The first digit after the point decides the rounding. If the point precedes all digits,
        // less than a half is left.
        if place >= point {
            return if place == point && digit >= 5 {
                value.checked_add(1)
            } else {
                Some(value)
            };
        }
        value = value.checked_mul(10)?.checked_add(digit)?;
        place += 1;
    }
    // `0e99` is zero, although ten to that power overflows.
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10i64.checked_pow(u32::try_from(point - place).ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picoseconds_of_floats() {
        for (text, ps) in [
            ("12.93", Some(12_930_000)),
            ("63.103999999999999", Some(63_104_000)),
            ("9.9999999999999995e-07", Some(1)),
            ("0.000001", Some(1)),
            ("4e-07", Some(0)),
            ("-2.5", Some(-2_500_000)),
            ("nan", None),
            ("1e13", None),
        ] {
            assert_eq!(micros_to_ps(text.as_bytes()), ps, "{text}");
        }
    }

    #[test]
    fn micros_are_exact() {
        for (text, ns) in [
            ("1234.567", 1_234_567),
            ("4458676522690.655", 4_458_676_522_690_655),
            ("1694128199026153", 1_694_128_199_026_153_000),
            ("0", 0),
            ("-0.001", -1),
            ("5.", 5_000),
            (".5", 500),
            ("1.0004", 1_000),
            ("1.0005", 1_001),
            ("0.30000000000000004", 300),
            ("1.5e3", 1_500_000),
            ("1e-3", 1),
            ("1e-4", 0),
            ("0e99", 0),
            ("-1.-500", -1_500),
            ("0.-01", -1),
            ("-123.-45", -123_045),
        ] {
            assert_eq!(micros_to_ns(text.as_bytes()), Some(ns), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in [
            "",
            "-",
            ".",
            "nan",
            "-nan",
            "inf",
            "1.-500",
            "-1.-5000",
            "-1.-5",
            "-1.-",
            ".-500",
            "1e",
            "1e99",
            "99999999999999999999",
            "1 2",
            "null",
        ] {
            assert_eq!(micros_to_ns(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn ints() {
        assert_eq!(parse_int(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_int(b"9223372036854775808"), None);
        assert_eq!(parse_int(b"+7"), Some(7));
        for text in ["", "-", "1.0", "0x0"] {
            assert_eq!(parse_int(text.as_bytes()), None, "{text}");
        }
    }
}
