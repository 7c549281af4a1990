//! Writes the attributes of a node: `[{"name": …, "type": …, "value": …}, …]`.

use super::json;
use etlink_link::CollectiveRef;
use serde::Serialize;
use std::io;

/// Writer of the list; `chakra_converter` turns each attribute into a member of its node.
pub(crate) struct AttrWriter<'o> {
    out: &'o mut Vec<u8>,
    any: bool,
}

impl<'o> AttrWriter<'o> {
    pub(crate) fn begin(out: &'o mut Vec<u8>) -> Self {
        out.extend_from_slice(b"\"attrs\": [");
        AttrWriter { out, any: false }
    }

    pub(crate) fn end(self) {
        self.out.push(b']');
    }

    #[inline]
    fn name(&mut self, name: &str, kind: &str) {
        self.comma();
        // Names and types are literals of this crate, which need no escapes.
        for part in [
            "{\"name\": \"",
            name,
            "\", \"type\": \"",
            kind,
            "\", \"value\": ",
        ] {
            self.out.extend_from_slice(part.as_bytes());
        }
    }

    fn comma(&mut self) {
        // The attributes of a node are few, and any of them may be omitted.
        if std::mem::replace(&mut self.any, true) {
            self.out.extend_from_slice(b", ");
        }
    }

    fn number(&mut self, name: &str, kind: &str, value: impl Serialize) -> io::Result<()> {
        self.name(name, kind);
        json::number(self.out, value)?;
        self.out.push(b'}');
        Ok(())
    }

    pub(crate) fn uint(&mut self, name: &str, value: u64) -> io::Result<()> {
        self.number(name, "uint64", value)
    }

    pub(crate) fn int(&mut self, name: &str, value: i64) -> io::Result<()> {
        self.number(name, "int64", value)
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.name(name, "string");
        json::text(self.out, value)?;
        self.out.push(b'}');
        Ok(())
    }

    /// Writes a string unless it is empty.
    pub(crate) fn some_text(&mut self, name: &str, value: &str) -> io::Result<()> {
        if value.is_empty() {
            Ok(())
        } else {
            self.text(name, value)
        }
    }

    /// Writes attributes that are already JSON.
    pub(crate) fn raw(&mut self, objects: &str) {
        if !objects.trim().is_empty() {
            self.comma();
            self.out.extend_from_slice(objects.trim().as_bytes());
        }
    }

    /// Writes the attributes of `record_param_comms` in schema 1.1.0, under its names.
    pub(crate) fn collective(&mut self, of: &CollectiveRef<'_>) -> io::Result<()> {
        let CollectiveRef { record, names } = of;
        self.some_text("collective_name", names.get(record.name))?;
        self.some_text("dtype", names.get(record.dtype))?;
        self.uint("in_msg_nelems", record.in_elements)?;
        self.uint("out_msg_nelems", record.out_elements)?;
        self.some_text("in_split_size", names.get(record.in_split))?;
        self.some_text("out_split_size", names.get(record.out_split))?;
        for (name, rank) in [
            ("global_rank_start", record.rank_start),
            ("global_rank_stride", record.rank_stride),
        ] {
            if let Ok(rank) = u64::try_from(rank) {
                self.uint(name, rank)?;
            }
        }
        self.some_text("pg_name", names.get(record.group_name))?;
        self.some_text("pg_desc", names.get(record.group_desc))?;
        self.uint("pg_size", record.group_size)?;
        self.number("is_asynchronized_op", "bool", record.asynchronous)
    }
}
