//! Writes messages field by field to reusable memory.
//!
//! A Chakra trace has a message per node, with about fifteen attributes each. Building the
//! generated structs costs an allocation per string; here lengths are computed and bytes appended.
//! Names of attributes are constants, so inlining also makes the bytes before a value constant.

use super::schema::{attribute, io_info, list};
use etlink_model::DurationNs;
use prost::encoding::{WireType, encode_varint, encoded_len_varint, key_len};

/// Fields of an `IOInfo`; each key takes one byte.
const IO_INFO_TAGS: [u32; 3] = [io_info::VALUES, io_info::SHAPES, io_info::TYPES];

/// Bytes reserved for the length of a message, which nearly always takes two.
const LENGTH_BYTES: usize = 2;

/// Writer of length-delimited messages.
#[derive(Debug, Default)]
pub(crate) struct MessageWriter {
    bytes: Vec<u8>,
    /// Field number of the attributes.
    attr: u32,
    /// Start of the last message, including the space for its length.
    begin: usize,
}

impl MessageWriter {
    /// Creates a writer that appends messages whose attributes have this field number.
    pub(crate) fn after(bytes: Vec<u8>, attr: u32) -> Self {
        MessageWriter {
            bytes,
            attr,
            begin: 0,
        }
    }

    /// Returns all messages.
    pub(crate) fn bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Begins the next message.
    pub(crate) fn begin(&mut self) {
        self.begin = self.bytes.len();
        // The length is unknown until the message ends; two bytes are reserved for it.
        self.bytes.extend_from_slice(&[0; LENGTH_BYTES]);
    }

    /// Ends the message, whose length is known now.
    pub(crate) fn end(&mut self) {
        let room = self.begin..self.begin + LENGTH_BYTES;
        let length = self.bytes.len() - room.end;
        // Any other length is rare, and moves the message by a byte or two.
        if (0x80..0x4000).contains(&length) {
            self.bytes[room].copy_from_slice(&[length as u8 | 0x80, (length >> 7) as u8]);
        } else {
            let mut exact = vec![];
            encode_varint(length as u64, &mut exact);
            self.bytes.splice(room, exact);
        }
    }

    /// Writes a number; 0 is omitted, as in proto3.
    pub(crate) fn uint(&mut self, tag: u32, value: u64) {
        if value != 0 {
            self.number(tag, value);
        }
    }

    /// Writes a string; an empty one is omitted.
    pub(crate) fn text(&mut self, tag: u32, text: &str) {
        if !text.is_empty() {
            self.raw_text(tag, text);
        }
    }

    /// Writes a packed list; an empty one is omitted.
    pub(crate) fn list(&mut self, tag: u32, values: &[u64]) {
        if !values.is_empty() {
            // A packed list is preceded by its size, so the lengths are summed before it is
            // written.
            self.block(
                tag,
                values.iter().map(|value| encoded_len_varint(*value)).sum(),
            );
            values.iter().for_each(|value| self.put_varint(*value));
        }
    }

    /// Writes an `IOInfo`: values, shapes and types; omitted if all are empty.
    pub(crate) fn texts(&mut self, tag: u32, texts: [&str; 3]) {
        let length = texts
            .iter()
            .filter(|text| !text.is_empty())
            .map(|text| text_len(io_info::VALUES, text))
            .sum();
        // An empty message means the same as none, but takes two bytes per node.
        if length > 0 {
            self.block(tag, length);
            for (tag, text) in IO_INFO_TAGS.into_iter().zip(texts) {
                self.text(tag, text);
            }
        }
    }

    /// Writes an attribute of type `int64`.
    #[inline(always)]
    pub(crate) fn attr_int(&mut self, name: &str, value: i64) {
        self.attr_number(name, attribute::INT64_VAL, value.cast_unsigned());
    }

    /// Writes an attribute of type `uint64`.
    #[inline(always)]
    pub(crate) fn attr_uint(&mut self, name: &str, value: u64) {
        self.attr_number(name, attribute::UINT64_VAL, value);
    }

    /// Writes an attribute of type `int32`.
    pub(crate) fn attr_int32(&mut self, name: &str, value: i32) {
        self.attr_number(name, attribute::INT32_VAL, i64::from(value).cast_unsigned());
    }

    /// Writes an attribute of type `bool`.
    #[inline(always)]
    pub(crate) fn attr_bool(&mut self, name: &str, value: bool) {
        self.attr_number(name, attribute::BOOL_VAL, u64::from(value));
    }

    /// Writes an attribute of type `double`.
    pub(crate) fn attr_double(&mut self, name: &str, value: f64) {
        let bytes = value.to_le_bytes();
        self.begin_attr(name, key_len(attribute::DOUBLE_VAL) + bytes.len());
        let key = attribute::DOUBLE_VAL << 3 | WireType::SixtyFourBit as u32;
        self.put_varint(u64::from(key));
        self.bytes.extend_from_slice(&bytes);
    }

    /// Writes an attribute of type `string`, even an empty one.
    #[inline(always)]
    pub(crate) fn attr_text(&mut self, name: &str, text: &str) {
        // Empty text is written, because an attribute without a value reads as one of a different
        // type.
        self.begin_attr(name, text_len(attribute::STRING_VAL, text));
        self.raw_text(attribute::STRING_VAL, text);
    }

    /// Writes an attribute of type `uint32_list`.
    pub(crate) fn attr_list(&mut self, name: &str, values: &[u32; 3]) {
        let values = values.map(u64::from);
        let inner = values.iter().map(|value| encoded_len_varint(*value)).sum();
        let list_bytes = block_len(list::VALUES, inner);
        self.begin_attr(name, block_len(attribute::UINT32_LIST, list_bytes));
        self.block(attribute::UINT32_LIST, list_bytes);
        self.list(list::VALUES, &values);
    }

    /// Writes an attribute of type `string_list`.
    pub(crate) fn attr_texts(&mut self, name: &str, texts: &[&str]) {
        let lengths = texts.iter().map(|text| text_len(list::VALUES, text));
        let list_bytes: usize = lengths.sum();
        self.begin_attr(name, block_len(attribute::STRING_LIST, list_bytes));
        self.block(attribute::STRING_LIST, list_bytes);
        for text in texts {
            self.raw_text(list::VALUES, text);
        }
    }

    /// Writes durations in nanoseconds as an attribute of type `int64_list`.
    pub(crate) fn attr_durations(&mut self, name: &str, values: &[DurationNs]) {
        let values: Vec<i64> = values.iter().map(|value| value.0).collect();
        self.attr_ints(name, &values);
    }

    /// Writes an attribute of type `int64_list`.
    pub(crate) fn attr_ints(&mut self, name: &str, values: &[i64]) {
        let lengths = values
            .iter()
            .map(|value| encoded_len_varint(value.cast_unsigned()));
        let inner = lengths.sum();
        let list_bytes = block_len(list::VALUES, inner);
        self.begin_attr(name, block_len(attribute::INT64_LIST, list_bytes));
        self.block(attribute::INT64_LIST, list_bytes);
        self.block(list::VALUES, inner);
        for value in values {
            self.put_varint(value.cast_unsigned());
        }
    }

    #[inline(always)]
    fn attr_number(&mut self, name: &str, tag: u32, value: u64) {
        self.begin_attr(name, key_len(tag) + encoded_len_varint(value));
        self.number(tag, value);
    }

    #[inline(always)]
    fn begin_attr(&mut self, name: &str, value_len: usize) {
        self.block(self.attr, text_len(attribute::NAME, name) + value_len);
        self.block(attribute::NAME, name.len());
        self.bytes.extend_from_slice(name.as_bytes());
    }

    /// Writes key and length of a field that is followed by `length` bytes.
    #[inline(always)]
    fn block(&mut self, tag: u32, length: usize) {
        self.put_varint(u64::from(tag << 3 | WireType::LengthDelimited as u32));
        self.put_varint(length as u64);
    }

    /// Writes key and value of a number.
    #[inline(always)]
    fn number(&mut self, tag: u32, value: u64) {
        self.put_varint(u64::from(tag << 3 | WireType::Varint as u32));
        self.put_varint(value);
    }

    /// Writes a varint. Nearly all keys and lengths take one byte.
    #[inline(always)]
    fn put_varint(&mut self, value: u64) {
        // The branch stays here and the loop is called, so that the usual case is inlined.
        if value < 0x80 {
            self.bytes.push(value as u8);
        } else {
            self.long_varint(value);
        }
    }

    fn long_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    #[inline]
    fn raw_text(&mut self, tag: u32, text: &str) {
        self.block(tag, text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

#[inline(always)]
fn text_len(tag: u32, text: &str) -> usize {
    block_len(tag, text.len())
}

#[inline(always)]
fn block_len(tag: u32, length: usize) -> usize {
    key_len(tag) + encoded_len_varint(length as u64) + length
}
