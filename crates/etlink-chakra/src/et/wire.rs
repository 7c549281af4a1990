//! One message, appended field by field to memory that is used again.
//!
//! A Chakra trace has a message per node and some fifteen attributes in each. Building the
//! generated structs costs an allocation per string; here lengths are computed and bytes
//! appended. prost does the encoding itself, so there is one implementation of varints.

use prost::encoding::{WireType, bool, encode_varint, encoded_len_varint, int32, int64, key_len, uint32, uint64};

/// Field numbers of `AttributeProto`.
mod attribute {
    pub(super) const NAME: u32 = 1;
    pub(super) const INT32: u32 = 7;
    pub(super) const INT64: u32 = 9;
    pub(super) const UINT32_LIST: u32 = 12;
    pub(super) const UINT64: u32 = 13;
    pub(super) const BOOL: u32 = 27;
    pub(super) const STRING: u32 = 29;
}

/// Field number of `values` in the list messages.
const LIST_VALUES: u32 = 1;

/// A message under construction.
#[derive(Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
    /// Field number of the attributes.
    attr: u32,
}

impl Message {
    /// An empty message whose attributes have this field number.
    pub(crate) fn new(attr: u32) -> Self {
        Message { bytes: vec![], attr }
    }

    /// Forgets all fields, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The encoded fields.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A number; 0 is not written, as proto3 has it.
    pub(crate) fn uint(&mut self, tag: u32, value: u64) {
        if value != 0 {
            self.number(tag, value);
        }
    }

    /// A string; the empty one is not written.
    pub(crate) fn text(&mut self, tag: u32, text: &str) {
        if !text.is_empty() {
            self.raw_text(tag, text);
        }
    }

    /// A packed list.
    pub(crate) fn list(&mut self, tag: u32, values: &[u64]) {
        uint64::encode_packed(tag, values, &mut self.bytes);
    }

    /// A message of three strings with the tags 1 to 3; not written when all are empty.
    pub(crate) fn texts(&mut self, tag: u32, texts: [&str; 3]) {
        let numbered = || (1u32..).zip(texts).filter(|(_, text)| !text.is_empty());
        let length = numbered().map(|(tag, text)| text_len(tag, text)).sum();
        if length > 0 {
            self.begin(tag, length);
            numbered().for_each(|(tag, text)| self.raw_text(tag, text));
        }
    }

    /// Attribute of type `int64`.
    pub(crate) fn attr_int(&mut self, name: &str, value: i64) {
        self.begin_attr(name, int64::encoded_len(attribute::INT64, &value));
        self.number(attribute::INT64, value.cast_unsigned());
    }

    /// Attribute of type `uint64`.
    pub(crate) fn attr_uint(&mut self, name: &str, value: u64) {
        self.begin_attr(name, uint64::encoded_len(attribute::UINT64, &value));
        self.number(attribute::UINT64, value);
    }

    /// Attribute of type `int32`.
    pub(crate) fn attr_int32(&mut self, name: &str, value: i32) {
        self.begin_attr(name, int32::encoded_len(attribute::INT32, &value));
        int32::encode(attribute::INT32, &value, &mut self.bytes);
    }

    /// Attribute of type `bool`.
    pub(crate) fn attr_bool(&mut self, name: &str, value: bool) {
        self.begin_attr(name, bool::encoded_len(attribute::BOOL, &value));
        self.number(attribute::BOOL, u64::from(value));
    }

    /// Attribute of type `string`, also when it is empty.
    pub(crate) fn attr_text(&mut self, name: &str, text: &str) {
        self.begin_attr(name, text_len(attribute::STRING, text));
        self.raw_text(attribute::STRING, text);
    }

    /// Attribute of type `uint32_list`.
    pub(crate) fn attr_list(&mut self, name: &str, values: &[u32]) {
        let inner = uint32::encoded_len_packed(LIST_VALUES, values);
        self.begin_attr(name, block_len(attribute::UINT32_LIST, inner));
        self.begin(attribute::UINT32_LIST, inner);
        uint32::encode_packed(LIST_VALUES, values, &mut self.bytes);
    }

    fn begin_attr(&mut self, name: &str, value_len: usize) {
        self.begin(self.attr, text_len(attribute::NAME, name) + value_len);
        self.raw_text(attribute::NAME, name);
    }

    /// Key and length of a field that `length` bytes follow.
    fn begin(&mut self, tag: u32, length: usize) {
        self.varint(u64::from(tag << 3 | WireType::LengthDelimited as u32));
        self.varint(length as u64);
    }

    /// Key and value of a number.
    fn number(&mut self, tag: u32, value: u64) {
        self.varint(u64::from(tag << 3 | WireType::Varint as u32));
        self.varint(value);
    }

    /// Nearly all keys and lengths take one byte.
    fn varint(&mut self, value: u64) {
        if value < 0x80 {
            self.bytes.push(value as u8);
        } else {
            encode_varint(value, &mut self.bytes);
        }
    }

    fn raw_text(&mut self, tag: u32, text: &str) {
        self.begin(tag, text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

fn text_len(tag: u32, text: &str) -> usize {
    block_len(tag, text.len())
}

fn block_len(tag: u32, length: usize) -> usize {
    key_len(tag) + encoded_len_varint(length as u64) + length
}
