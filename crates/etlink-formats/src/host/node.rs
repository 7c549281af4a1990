//! One element of `nodes`, as borrowed text.

use etlink_json::{JsonScanner, JsonValue};

/// List texts of `values`, `shapes`, `types` and `strides`; empty if absent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArgumentLists<'a> {
    pub(crate) values: &'a [u8],
    pub(crate) shapes: &'a [u8],
    pub(crate) types: &'a [u8],
    pub(crate) strides: &'a [u8],
}

macro_rules! attributes {
    ($(#[$doc:meta])* struct $Name:ident { $($field:ident = $key:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct $Name<'a> { $(pub(crate) $field: Option<JsonValue<'a>>,)* }

        impl<'a> $Name<'a> {
            /// Stores `value` if `name` is one of the fields; returns true if so.
            #[inline]
            pub(crate) fn set(&mut self, name: &[u8], value: JsonValue<'a>) -> bool {
                match name {
                    $($key => self.$field = Some(value),)*
                    _ => return false,
                }
                true
            }
        }
    };
}

attributes! {
    /// Fields of every node: attributes since 1.0.2, keys of the node before.
    struct NodeAttrs {
        rf_id = b"rf_id",
        fw_parent = b"fw_parent",
        seq_id = b"seq_id",
        scope = b"scope",
        tid = b"tid",
        fw_tid = b"fw_tid",
        op_schema = b"op_schema",
        kernel_backend = b"kernel_backend",
        kernel_file = b"kernel_file",
        tensor_range = b"tensor_range",
    }
}

attributes! {
    /// Attributes of `record_param_comms` since 1.1.0 (`getCommsNodeAttrs`). Each may be absent.
    struct CommNodeAttrs {
        collective_name = b"collective_name",
        dtype = b"dtype",
        in_elements = b"in_msg_nelems",
        out_elements = b"out_msg_nelems",
        in_split = b"in_split_size",
        out_split = b"out_split_size",
        rank_start = b"global_rank_start",
        rank_stride = b"global_rank_stride",
        pg_name = b"pg_name",
        pg_desc = b"pg_desc",
        pg_size = b"pg_size",
        asynchronous = b"is_asynchronized_op",
    }
}

/// An attribute that is in neither table above.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtraAttr<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) kind: Option<JsonValue<'a>>,
    pub(crate) value: Option<JsonValue<'a>>,
}

/// Fields of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeFields<'a> {
    pub(crate) id: Option<u64>,
    pub(crate) name: &'a [u8],
    pub(crate) parent: u64,
    pub(crate) inputs: ArgumentLists<'a>,
    pub(crate) outputs: ArgumentLists<'a>,
    pub(crate) attrs: NodeAttrs<'a>,
    /// Communication attributes; `None` if there are none.
    pub(crate) comm: Option<CommNodeAttrs<'a>>,
    pub(crate) unknown: Vec<ExtraAttr<'a>>,
}

/// Reads a parent id. For a dependency list of an ET+, its first integer is the parent.
pub(crate) fn parent_id(value: JsonValue<'_>) -> u64 {
    let JsonValue::Nested(list) = value else {
        return value.uint().unwrap_or(0);
    };
    let mut scanner = JsonScanner::new(list);
    if scanner.eat(b'[') {
        while let Ok(Some(item)) = scanner.item() {
            if let Some(id) = item.uint() {
                return id;
            }
        }
    }
    0
}

/// Returns a list's text; empty for any other value.
pub(crate) fn list_text(value: JsonValue<'_>) -> &[u8] {
    match value {
        JsonValue::Nested(text) if text.starts_with(b"[") => text,
        _ => b"",
    }
}
