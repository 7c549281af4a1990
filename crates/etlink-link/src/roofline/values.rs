//! Scalars and lists of numbers among the arguments of an op, from list text.
//!
//! ```text
//! host trace    [[12, 13, 0, 4816896, 4, "cuda:0"], [2, 2], [3, 3], false, 1]
//! device trace  ["", "[2, 2]", "[3, 3]", "False", "1"]         `Concrete Inputs`
//! ```

/// Arguments of one op, by number; the text is empty if the trace does not have them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArgumentValues<'t>(&'t str);

impl<'t> ArgumentValues<'t> {
    /// Takes the arguments from list text.
    pub fn new(text: &'t str) -> ArgumentValues<'t> {
        let inner = text.trim().strip_prefix('[');
        ArgumentValues(inner.and_then(|text| text.strip_suffix(']')).unwrap_or(""))
    }

    /// True if the trace has no values.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Number of arguments. O(text).
    pub fn count(self) -> usize {
        self.iter().count()
    }

    /// Returns the text of argument `number` without quotes; `None` beyond the last. O(text).
    pub fn text(self, number: u32) -> Option<&'t str> {
        let text = self.iter().nth(number as usize)?.trim();
        let inner = text.strip_prefix('"');
        let inner = inner.and_then(|text| text.strip_suffix('"'));
        Some(inner.unwrap_or(text).trim())
    }

    /// Parses argument `number` as an integer.
    pub fn integer(self, number: u32) -> Option<i64> {
        self.text(number)?.parse().ok()
    }

    /// Returns the size of the `ScalarType` that argument `number` is, in bytes; `None` if it is none.
    pub fn scalar_type_bytes(self, number: u32) -> Option<u64> {
        Some(match self.integer(number)? {
            // uint8, int8, bool and the float8 types
            0 | 1 | 11 | 23..=26 => 1,
            // int16, half, bfloat16
            2 | 5 | 15 => 2,
            // int32, float, complex half
            3 | 6 | 8 => 4,
            // int64, double, complex float
            4 | 7 | 9 => 8,
            // complex double
            10 => 16,
            _ => return None,
        })
    }

    /// Parses argument `number` as a boolean, as written by Python or JSON.
    pub fn flag(self, number: u32) -> Option<bool> {
        match self.text(number)? {
            "True" | "true" => Some(true),
            "False" | "false" => Some(false),
            _ => None,
        }
    }

    /// Parses argument `number` as a list of integers.
    pub fn integers(self, number: u32) -> Option<Vec<i64>> {
        list_of(self.text(number)?, |item| item.parse().ok())
    }

    /// Parses argument `number` as a list of booleans.
    pub fn flags(self, number: u32) -> Option<Vec<bool>> {
        list_of(self.text(number)?, |item| match item {
            "True" | "true" => Some(true),
            "False" | "false" => Some(false),
            _ => None,
        })
    }

    /// Iterates over the arguments' texts: commas inside brackets or quotes do not separate
    /// arguments.
    pub(super) fn iter(self) -> impl Iterator<Item = &'t str> {
        let mut rest = if self.0.is_empty() {
            None
        } else {
            Some(self.0)
        };
        std::iter::from_fn(move || {
            let text = rest?;
            let (mut depth, mut is_quoted) = (0i32, false);
            for (at, byte) in text.bytes().enumerate() {
                match byte {
                    b'"' => is_quoted = !is_quoted,
                    b'[' if !is_quoted => depth += 1,
                    b']' if !is_quoted => depth -= 1,
                    b',' if !is_quoted && depth == 0 => {
                        rest = Some(&text[at + 1..]);
                        return Some(&text[..at]);
                    }
                    _ => {}
                }
            }
            rest = None;
            Some(text)
        })
    }
}

fn list_of<T>(text: &str, item: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    if inner.trim().is_empty() {
        return Some(vec![]);
    }
    inner.split(',').map(|text| item(text.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_either_trace() {
        let host = ArgumentValues::new(
            r#"[[1,2,0,9,4,"cuda:0"],[2,2],[[true, false]], false, -1, "a,b"]"#,
        );
        let device = ArgumentValues::new(r#"["", "[2, 2]", "[]", "False", "-1", "a,b"]"#);
        for values in [host, device] {
            assert_eq!(values.count(), 6);
            assert_eq!(values.integers(1), Some(vec![2, 2]));
            assert_eq!(values.flag(3), Some(false));
            assert_eq!(values.integer(4), Some(-1));
            assert_eq!(values.text(5), Some("a,b"));
            assert_eq!(values.text(6), None);
        }
        assert_eq!(device.integers(2), Some(vec![]));
        assert_eq!(device.integers(0), None);
        assert_eq!(
            ArgumentValues::new(r#"["[True, False]"]"#).flags(0),
            Some(vec![true, false])
        );
    }

    #[test]
    fn what_is_no_list_has_none() {
        for text in ["", "[]", "[", "null", "]["] {
            assert!(ArgumentValues::new(text).text(0).is_none(), "{text}");
        }
    }
}
