//! Reads Chakra messages without building them.
//!
//! A file can be damaged or hostile: every length is checked against the available bytes, strings
//! need not be UTF-8, and unknown fields are skipped.

use super::schema::attribute;
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    /// Varint, as the written bits.
    Number(u64),
    /// Fixed 32 or 64 bits.
    Fixed(u64),
    /// String, bytes, message or packed list.
    Block(&'a [u8]),
    /// A skipped group.
    Other,
}

/// Removes and returns the next field of `message`.
pub(crate) fn next_field<'a>(message: &mut &'a [u8]) -> Result<(u32, Field<'a>), DecodeError> {
    // prost's own decoding fails at strings that are not UTF-8, and builds the whole message.
    let (tag, wire_type) = decode_key(message)?;
    let field = match wire_type {
        WireType::Varint => Field::Number(decode_varint(message)?),
        WireType::LengthDelimited => {
            // `skip_field` checks the length against the available bytes before a slice is taken.
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

/// Value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AttrValue<'a> {
    /// No value, which the schema does not foresee but files contain.
    Absent,
    /// Any integer type or bool.
    Int(i64),
    /// `float` or `double`.
    Float(f64),
    /// `string` or `bytes`.
    Text(&'a [u8]),
    /// `int64_list`: the message that contains the numbers.
    IntList(&'a [u8]),
    /// Any other list.
    List,
}

/// An `AttributeProto`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Attr<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: AttrValue<'a>,
}

/// Decodes an `AttributeProto`. If a value is present twice, the last counts, as in protobuf.
pub(crate) fn attr(mut message: &[u8]) -> Result<Attr<'_>, DecodeError> {
    let mut attr = Attr {
        name: b"",
        value: AttrValue::Absent,
    };
    while !message.is_empty() {
        match next_field(&mut message)? {
            (attribute::NAME, Field::Block(name)) => attr.name = name,
            (tag, field) => attr.value = attr_value(tag, field).unwrap_or(attr.value),
        }
    }
    Ok(attr)
}

/// Returns the value in a field of an `AttributeProto`, if the field is one of its `oneof value`.
fn attr_value<'a>(tag: u32, field: Field<'a>) -> Option<AttrValue<'a>> {
    use attribute::*;
    match (tag, field) {
        (STRING_VAL | BYTES_VAL, Field::Block(text)) => Some(AttrValue::Text(text)),
        (INT32_VAL | INT64_VAL | UINT32_VAL | UINT64_VAL | BOOL_VAL, Field::Number(bits)) => {
            Some(AttrValue::Int(bits.cast_signed()))
        }
        (SINT32_VAL | SINT64_VAL, Field::Number(bits)) => Some(AttrValue::Int(decode_zigzag(bits))),
        (FIXED32_VAL | FIXED64_VAL | SFIXED64_VAL, Field::Fixed(bits)) => {
            Some(AttrValue::Int(bits.cast_signed()))
        }
        (SFIXED32_VAL, Field::Fixed(bits)) => {
            // The sign is the highest of 32 bits, not of 64.
            let value = (bits as u32).cast_signed();
            Some(AttrValue::Int(value.into()))
        }
        (DOUBLE_VAL, Field::Fixed(bits)) => Some(AttrValue::Float(f64::from_bits(bits))),
        (FLOAT_VAL, Field::Fixed(bits)) => {
            // A 64-bit field with this number is damage: its low half is as good as any.
            let value = f32::from_bits(bits as u32);
            Some(AttrValue::Float(value.into()))
        }
        (INT64_LIST, Field::Block(block)) => Some(AttrValue::IntList(block)),
        (DOUBLE_LIST..=BYTES_LIST, Field::Block(_)) => Some(AttrValue::List),
        _ => None,
    }
}

/// Decodes protobuf's zigzag encoding.
fn decode_zigzag(bits: u64) -> i64 {
    (bits >> 1).cast_signed() ^ -(bits & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::AttributeProto;
    use crate::proto::attribute_proto::Value;
    use proptest::prelude::*;
    use prost::Message;

    /// Reads back a value written by prost.
    fn read_again(value: Value) -> AttrValue<'static> {
        let message = AttributeProto {
            value: Some(value),
            ..AttributeProto::default()
        };
        let bytes = message.encode_to_vec();
        match attr(&bytes).expect("it is whole").value {
            AttrValue::Int(number) => AttrValue::Int(number),
            AttrValue::Float(number) => AttrValue::Float(number),
            other => panic!("{other:?} is no number"),
        }
    }

    proptest! {
        #[test]
        fn any_number_comes_back(short in any::<i32>(), long in any::<i64>()) {
            for value in [
                Value::Int32Val(short),
                Value::Sint32Val(short),
                Value::Sfixed32Val(short),
            ] {
                prop_assert_eq!(read_again(value), AttrValue::Int(short.into()));
            }
            for value in [
                Value::Uint32Val(short.cast_unsigned()),
                Value::Fixed32Val(short.cast_unsigned()),
            ] {
                prop_assert_eq!(read_again(value), AttrValue::Int(short.cast_unsigned().into()));
            }
            for value in [
                Value::Int64Val(long),
                Value::Sint64Val(long),
                Value::Sfixed64Val(long),
                Value::Uint64Val(long.cast_unsigned()),
                Value::Fixed64Val(long.cast_unsigned()),
            ] {
                prop_assert_eq!(read_again(value), AttrValue::Int(long));
            }
            let (single, double) = (short as f32 / 8.0, long as f64 / 8.0);
            let read = read_again(Value::FloatVal(single));
            prop_assert_eq!(read, AttrValue::Float(single.into()));
            prop_assert_eq!(read_again(Value::DoubleVal(double)), AttrValue::Float(double));
        }
    }

    #[test]
    fn a_list_is_read_packed_or_not() {
        let mut all = vec![];
        numbers(Field::Number(7), &mut all).expect("a number");
        numbers(Field::Block(&[1, 0x80, 1, 3]), &mut all).expect("a packed list");
        assert_eq!(all, [7, 1, 128, 3]);
        assert!(numbers(Field::Block(&[0x80]), &mut all).is_err(), "cut");
    }
}
