//! Attributes of messages by name, and their values.

use crate::proto::AttributeProto;
use crate::proto::attribute_proto::Value;

impl AttributeProto {
    /// Creates an attribute without documentation.
    pub fn new(name: &str, value: Value) -> AttributeProto {
        AttributeProto {
            name: name.to_owned(),
            doc_string: String::new(),
            value: Some(value),
        }
    }

    /// Returns the value of the first attribute of this name.
    pub fn find<'a>(attributes: &'a [AttributeProto], name: &str) -> Option<&'a Value> {
        let found = attributes.iter().find(|attribute| attribute.name == name);
        found?.value.as_ref()
    }

    /// Sets the value of the first attribute of this name, or appends one.
    pub fn set(attributes: &mut Vec<AttributeProto>, name: &str, value: Value) {
        match attributes.iter_mut().find(|known| known.name == name) {
            Some(known) => known.value = Some(value),
            None => attributes.push(AttributeProto::new(name, value)),
        }
    }
}

impl Value {
    /// Returns a number of any whole type, or a flag as 0 or 1; `None` for other values, and for
    /// numbers beyond 63 bits.
    pub fn whole_number(&self) -> Option<i64> {
        match self {
            Value::Int32Val(number) | Value::Sint32Val(number) | Value::Sfixed32Val(number) => {
                Some(i64::from(*number))
            }
            Value::Int64Val(number) | Value::Sint64Val(number) | Value::Sfixed64Val(number) => {
                Some(*number)
            }
            Value::Uint32Val(number) | Value::Fixed32Val(number) => Some(i64::from(*number)),
            Value::Uint64Val(number) | Value::Fixed64Val(number) => i64::try_from(*number).ok(),
            Value::BoolVal(flag) => Some(i64::from(*flag)),
            _ => None,
        }
    }
}
