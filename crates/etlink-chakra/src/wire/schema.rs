//! Field numbers of `schema/et_def.proto`, for reading and writing.
//!
//! A test compares them with the schema itself.

/// Message `GlobalMetadata`.
pub(crate) mod metadata {
    pub(crate) const VERSION: u32 = 1;
    pub(crate) const ATTR: u32 = 2;
}

/// Message `Node`.
pub(crate) mod node {
    pub(crate) const ID: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    pub(crate) const TYPE: u32 = 3;
    pub(crate) const CTRL_DEPS: u32 = 4;
    pub(crate) const DATA_DEPS: u32 = 5;
    pub(crate) const START_TIME_MICROS: u32 = 6;
    pub(crate) const DURATION_MICROS: u32 = 7;
    pub(crate) const INPUTS: u32 = 8;
    pub(crate) const OUTPUTS: u32 = 9;
    pub(crate) const ATTR: u32 = 10;
}

/// Message `IOInfo`, the contents of `inputs` and `outputs`.
pub(crate) mod io_info {
    pub(crate) const VALUES: u32 = 1;
    pub(crate) const SHAPES: u32 = 2;
    pub(crate) const TYPES: u32 = 3;
}

/// Message `AttributeProto`. Lists have even numbers, from `double_list` to `bytes_list`.
pub(crate) mod attribute {
    pub(crate) const NAME: u32 = 1;
    pub(crate) const DOUBLE_VAL: u32 = 3;
    pub(crate) const DOUBLE_LIST: u32 = 4;
    pub(crate) const FLOAT_VAL: u32 = 5;
    pub(crate) const INT32_VAL: u32 = 7;
    pub(crate) const INT64_VAL: u32 = 9;
    pub(crate) const INT64_LIST: u32 = 10;
    pub(crate) const UINT32_VAL: u32 = 11;
    pub(crate) const UINT32_LIST: u32 = 12;
    pub(crate) const UINT64_VAL: u32 = 13;
    pub(crate) const SINT32_VAL: u32 = 15;
    pub(crate) const SINT64_VAL: u32 = 17;
    pub(crate) const FIXED32_VAL: u32 = 19;
    pub(crate) const FIXED64_VAL: u32 = 21;
    pub(crate) const SFIXED32_VAL: u32 = 23;
    pub(crate) const SFIXED64_VAL: u32 = 25;
    pub(crate) const BOOL_VAL: u32 = 27;
    pub(crate) const STRING_VAL: u32 = 29;
    pub(crate) const STRING_LIST: u32 = 30;
    pub(crate) const BYTES_VAL: u32 = 31;
    pub(crate) const BYTES_LIST: u32 = 32;
}

/// The messages `DoubleList` to `BytesList`, which have this one field.
pub(crate) mod list {
    pub(crate) const VALUES: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of a field as stated in the text of the schema.
    fn number_in_schema(message: &str, field: &str) -> u32 {
        let schema = include_str!("../../schema/et_def.proto");
        let start = schema
            .find(&format!("message {message} {{"))
            .expect("the message");
        let body = &schema[start..];
        // The `oneof` of AttributeProto ends before the message does, at an indented brace.
        let end = body.find("\n}").or_else(|| body.find('}'));
        let body = &body[..end.expect("the message ends")];
        let line = body
            .lines()
            .find(|line| line.contains(&format!(" {field} = ")))
            .expect("the field");
        let number = line.rsplit(" = ").next().expect("a number");
        number
            .trim_end_matches(['}', ' ', ';'])
            .parse()
            .expect("a number")
    }

    #[test]
    fn numbers_are_those_of_the_schema() {
        let fields = [
            ("GlobalMetadata", "version", metadata::VERSION),
            ("GlobalMetadata", "attr", metadata::ATTR),
            ("Node", "id", node::ID),
            ("Node", "name", node::NAME),
            ("Node", "type", node::TYPE),
            ("Node", "ctrl_deps", node::CTRL_DEPS),
            ("Node", "data_deps", node::DATA_DEPS),
            ("Node", "start_time_micros", node::START_TIME_MICROS),
            ("Node", "duration_micros", node::DURATION_MICROS),
            ("Node", "inputs", node::INPUTS),
            ("Node", "outputs", node::OUTPUTS),
            ("Node", "attr", node::ATTR),
            ("IOInfo", "values", io_info::VALUES),
            ("IOInfo", "shapes", io_info::SHAPES),
            ("IOInfo", "types", io_info::TYPES),
            ("AttributeProto", "name", attribute::NAME),
            ("AttributeProto", "double_val", attribute::DOUBLE_VAL),
            ("AttributeProto", "double_list", attribute::DOUBLE_LIST),
            ("AttributeProto", "float_val", attribute::FLOAT_VAL),
            ("AttributeProto", "int32_val", attribute::INT32_VAL),
            ("AttributeProto", "int64_val", attribute::INT64_VAL),
            ("AttributeProto", "int64_list", attribute::INT64_LIST),
            ("AttributeProto", "uint32_val", attribute::UINT32_VAL),
            ("AttributeProto", "uint32_list", attribute::UINT32_LIST),
            ("AttributeProto", "uint64_val", attribute::UINT64_VAL),
            ("AttributeProto", "sint32_val", attribute::SINT32_VAL),
            ("AttributeProto", "sint64_val", attribute::SINT64_VAL),
            ("AttributeProto", "fixed32_val", attribute::FIXED32_VAL),
            ("AttributeProto", "fixed64_val", attribute::FIXED64_VAL),
            ("AttributeProto", "sfixed32_val", attribute::SFIXED32_VAL),
            ("AttributeProto", "sfixed64_val", attribute::SFIXED64_VAL),
            ("AttributeProto", "bool_val", attribute::BOOL_VAL),
            ("AttributeProto", "string_val", attribute::STRING_VAL),
            ("AttributeProto", "string_list", attribute::STRING_LIST),
            ("AttributeProto", "bytes_val", attribute::BYTES_VAL),
            ("AttributeProto", "bytes_list", attribute::BYTES_LIST),
            ("Uint32List", "values", list::VALUES),
            ("Int64List", "values", list::VALUES),
            ("StringList", "values", list::VALUES),
        ];
        for (message, field, number) in fields {
            assert_eq!(
                number,
                number_in_schema(message, field),
                "{message}.{field}"
            );
        }
    }
}
