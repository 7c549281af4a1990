//! Recorded arguments of an event.

use etlink_json::{JsonValue, object_fields, unescape};
use std::borrow::Cow;

/// Value of an argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ArgumentValue<'t> {
    Int(i64),
    Uint(u64),
    Float(f64),
    Bool(bool),
    Text(Cow<'t, str>),
    /// A list, an object, or any other word (`null`, `nan`), as written.
    Json(Cow<'t, str>),
}

macro_rules! value {
    ($($from:ty => $kind:ident),*) => {
        $(impl From<$from> for ArgumentValue<'_> {
            fn from(value: $from) -> Self {
                ArgumentValue::$kind(value.into())
            }
        })*
    };
}

value!(i64 => Int, i32 => Int, u64 => Uint, u32 => Uint, bool => Bool);

/// Calls `argument` for each key of an object's text. Stops at unreadable text, which the reader
/// has already counted as damage.
pub(super) fn each_argument<E>(
    text: &[u8],
    mut argument: impl FnMut(&str, ArgumentValue<'_>) -> Result<(), E>,
) -> Result<(), E> {
    for (key, value) in object_fields(text) {
        argument(&unescape(key), recorded_value(value))?;
    }
    Ok(())
}

fn recorded_value(value: JsonValue<'_>) -> ArgumentValue<'_> {
    match value {
        JsonValue::Text(raw) => ArgumentValue::Text(unescape(raw)),
        JsonValue::Nested(raw) => ArgumentValue::Json(String::from_utf8_lossy(raw)),
        JsonValue::Word(raw) => word_value(raw),
    }
}

fn word_value(raw: &[u8]) -> ArgumentValue<'_> {
    let text = String::from_utf8_lossy(raw);
    // Only a number that is written back unchanged counts: `007`, `+1` and `1.50` do not.
    if let Ok(number) = text.parse::<i64>()
        && number.to_string() == text
    {
        return ArgumentValue::Int(number);
    }
    if let Ok(number) = text.parse::<u64>()
        && number.to_string() == text
    {
        return ArgumentValue::Uint(number);
    }
    match text.parse::<f64>() {
        Ok(number) if format!("{number:?}") == text && number.is_finite() => {
            ArgumentValue::Float(number)
        }
        _ if raw == b"true" => ArgumentValue::Bool(true),
        _ if raw == b"false" => ArgumentValue::Bool(false),
        _ => ArgumentValue::Json(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_kind() {
        let text = br#"{"a": 5, "b": -1.5, "c": "x \"y\"", "d": [1, 2], "e": null, "f": true,
            "g": 18446744073709551615, "h": 1.50, "i": nan, "j": 99999999999999999999}"#;
        let mut all = vec![];
        let read = each_argument(text, |key, value| {
            all.push(format!("{key} {value:?}"));
            Ok::<(), ()>(())
        });
        assert_eq!(read, Ok(()));
        assert_eq!(
            all,
            [
                "a Int(5)",
                "b Float(-1.5)",
                r#"c Text("x \"y\"")"#,
                r#"d Json("[1, 2]")"#,
                r#"e Json("null")"#,
                "f Bool(true)",
                "g Uint(18446744073709551615)",
                r#"h Json("1.50")"#,
                r#"i Json("nan")"#,
                r#"j Json("99999999999999999999")"#,
            ]
        );
    }
}
