//! The `args` of an event.

use etlink_json::write as json;
use std::io;

/// Collects the arguments of one event as text.
pub struct EventArguments<'o> {
    out: &'o mut Vec<u8>,
    /// What stands between two lines of arguments.
    line_break: &'static str,
    /// What stands before the next argument.
    separator: &'static str,
}

impl<'o> EventArguments<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>, line_break: &'static str) -> Self {
        EventArguments {
            out,
            line_break,
            separator: "",
        }
    }

    /// The next argument begins a line, where the layout has lines of arguments.
    pub fn break_line(&mut self) {
        if !self.separator.is_empty() {
            self.separator = self.line_break;
        }
    }

    /// `External id`, the op that the event belongs to. CPU ops have no space behind it.
    pub(super) fn external_id(&mut self, id: i64, is_op: bool) -> io::Result<()> {
        self.number("External id", id)?;
        self.separator = if is_op { "," } else { self.line_break };
        Ok(())
    }

    /// A number, or whatever else serde makes one JSON value of.
    ///
    /// # Errors
    /// The value cannot be JSON.
    pub fn number(&mut self, key: &str, value: impl serde::Serialize) -> io::Result<()> {
        self.key(key)?;
        json::number(self.out, value)
    }

    /// A string.
    ///
    /// # Errors
    /// None that memory has.
    pub fn text(&mut self, key: &str, value: &str) -> io::Result<()> {
        self.key(key)?;
        json::text(self.out, value)
    }

    /// JSON text as it is: a list of shapes.
    ///
    /// # Errors
    /// None that memory has.
    pub fn raw(&mut self, key: &str, value: &str) -> io::Result<()> {
        self.key(key)?;
        self.out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn key(&mut self, key: &str) -> io::Result<()> {
        self.out.extend_from_slice(self.separator.as_bytes());
        self.separator = ", ";
        json::text(self.out, key)?;
        self.out.extend_from_slice(b": ");
        Ok(())
    }
}
