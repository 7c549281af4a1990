//! Chakra messages without building them.
//!
//! A file can be damaged or hostile: every length is checked against the bytes that are
//! there, strings need not be UTF-8, and unknown fields are stepped over.

use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    /// Varint, as the bits that were written.
    Number(u64),
    /// Fixed 32 or 64 bits.
    Fixed(u64),
    /// String, bytes, message or packed list.
    Block(&'a [u8]),
    /// A group, skipped.
    Other,
}

/// Takes the next field off `message`.
pub(crate) fn next_field<'a>(message: &mut &'a [u8]) -> Result<(u32, Field<'a>), DecodeError> {
    let (tag, wire_type) = decode_key(message)?;
    let field = match wire_type {
        WireType::Varint => Field::Number(decode_varint(message)?),
        WireType::LengthDelimited => {
            let whole = *message;
            skip_field(wire_type, tag, message, DecodeContext::default())?;
            let mut block = &whole[..whole.len() - message.len()];
            decode_varint(&mut block)?;
            Field::Block(block)
        }
        WireType::ThirtyTwoBit | WireType::SixtyFourBit => {
            let whole = *message;
            skip_field(wire_type, tag, message, DecodeContext::default())?;
            let bytes = &whole[..whole.len() - message.len()];
            Field::Fixed(
                bytes
                    .iter()
                    .rev()
                    .fold(0, |value, byte| value << 8 | u64::from(*byte)),
            )
        }
        WireType::StartGroup | WireType::EndGroup => {
            skip_field(wire_type, tag, message, DecodeContext::default())?;
            Field::Other
        }
    };
    Ok((tag, field))
}

/// Appends a repeated number, packed or not.
pub(crate) fn numbers(field: Field<'_>, out: &mut Vec<u64>) -> Result<(), DecodeError> {
    match field {
        Field::Number(number) => out.push(number),
        Field::Block(mut packed) => {
            while !packed.is_empty() {
                out.push(decode_varint(&mut packed)?);
            }
        }
        Field::Fixed(_) | Field::Other => {}
    }
    Ok(())
}

/// An attribute's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AttrValue<'a> {
    /// None was written: proto3 has no oneof without one, but files do.
    Absent,
    /// Any integer type or bool.
    Int(i64),
    /// `float` or `double`.
    Float(f64),
    /// `string` or `bytes`.
    Text(&'a [u8]),
    /// A list.
    List,
}

/// An `AttributeProto`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Attr<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: AttrValue<'a>,
}

/// Decodes an attribute. Field numbers are those of the schema.
pub(crate) fn attr(mut message: &[u8]) -> Result<Attr<'_>, DecodeError> {
    let mut attr = Attr {
        name: b"",
        value: AttrValue::Absent,
    };
    while !message.is_empty() {
        match next_field(&mut message)? {
            (1, Field::Block(name)) => attr.name = name,
            (29 | 31, Field::Block(text)) => attr.value = AttrValue::Text(text),
            (7 | 9 | 11 | 13 | 27, Field::Number(bits)) => {
                attr.value = AttrValue::Int(bits.cast_signed())
            }
            (15 | 17, Field::Number(bits)) => {
                attr.value = AttrValue::Int((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed())
            }
            (19 | 23 | 21 | 25, Field::Fixed(bits)) => {
                attr.value = AttrValue::Int(bits.cast_signed())
            }
            (3, Field::Fixed(bits)) => attr.value = AttrValue::Float(f64::from_bits(bits)),
            (5, Field::Fixed(bits)) => {
                let bits = u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
                attr.value = AttrValue::Float(f32::from_bits(bits).into());
            }
            (4..=32, Field::Block(_)) => attr.value = AttrValue::List,
            _ => {}
        }
    }
    Ok(attr)
}
