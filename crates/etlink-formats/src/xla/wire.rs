//! Decodes fields of protobuf messages without building the messages.
//!
//! A file can be damaged or hostile: each length is checked against the bytes present, and strings
//! need not be UTF-8.

use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use std::borrow::Cow;

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WireField<'a> {
    /// Varint, as the written bits.
    Number(u64),
    /// `double`.
    Double(f64),
    /// String, bytes or nested message.
    Block(&'a [u8]),
    /// Anything else, skipped.
    Other,
}

impl<'a> WireField<'a> {
    /// Returns the number of an `int64`.
    pub(crate) fn int(self) -> Option<i64> {
        match self {
            WireField::Number(bits) => Some(bits.cast_signed()),
            WireField::Double(_) | WireField::Block(_) | WireField::Other => None,
        }
    }

    /// Returns the text of a string, with replacement characters for invalid UTF-8.
    pub(crate) fn text(self) -> Cow<'a, str> {
        match self {
            WireField::Block(bytes) => String::from_utf8_lossy(bytes),
            WireField::Number(_) | WireField::Double(_) | WireField::Other => Cow::Borrowed(""),
        }
    }
}

/// Iterator over the fields of a message, up to its end or the first invalid field.
pub(crate) struct WireFields<'a> {
    rest: &'a [u8],
    is_broken: bool,
}

impl<'a> WireFields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        WireFields {
            rest: message,
            is_broken: false,
        }
    }

    /// Returns true if the last field was invalid, so that the rest of the message is lost.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }
}

impl<'a> Iterator for WireFields<'a> {
    type Item = (u32, WireField<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.is_broken {
            return None;
        }
        let field = next_field(&mut self.rest);
        self.is_broken = field.is_err();
        field.ok()
    }
}

/// Takes the next field off `message`.
fn next_field<'a>(message: &mut &'a [u8]) -> Result<(u32, WireField<'a>), DecodeError> {
    let (tag, wire_type) = decode_key(message)?;
    if wire_type == WireType::Varint {
        return Ok((tag, WireField::Number(decode_varint(message)?)));
    }
    // `skip_field` checks the length against the bytes present before a slice is taken.
    let whole = *message;
    skip_field(wire_type, tag, message, DecodeContext::default())?;
    let mut skipped = &whole[..whole.len() - message.len()];
    let field = match wire_type {
        WireType::LengthDelimited => {
            decode_varint(&mut skipped)?;
            WireField::Block(skipped)
        }
        WireType::SixtyFourBit => match skipped.try_into() {
            Ok(bytes) => WireField::Double(f64::from_le_bytes(bytes)),
            Err(_) => WireField::Other,
        },
        WireType::Varint | WireType::ThirtyTwoBit | WireType::StartGroup | WireType::EndGroup => {
            WireField::Other
        }
    };
    Ok((tag, field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_each_type() {
        let message = [
            0x08, 0x96, 0x01, // 1: 150
            0x12, 0x02, b'h', b'i', // 2: "hi"
            0x19, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F, // 3: 1.0
            0x25, 1, 0, 0, 0, // 4: fixed32
        ];
        let fields: Vec<_> = WireFields::of(&message).collect();
        assert_eq!(
            fields,
            [
                (1, WireField::Number(150)),
                (2, WireField::Block(b"hi")),
                (3, WireField::Double(1.0)),
                (4, WireField::Other),
            ]
        );
    }

    #[test]
    fn lengths_that_are_not_there_end_the_message() {
        for message in [
            &[0x12, 0x05, b'h'][..],
            &[
                0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01,
            ],
            &[0x08],
            &[0x00],
        ] {
            let mut fields = WireFields::of(message);
            assert_eq!(fields.next(), None, "{message:?}");
            assert!(fields.is_broken());
            assert_eq!(fields.next(), None);
        }
    }
}
