//! Writes the `args` of an event.

use etlink_json::write as json;
use std::io;

/// Writer of the arguments of one event.
pub struct EventArguments<'o> {
    out: &'o mut Vec<u8>,
    /// Text between two lines of arguments.
    line_break: &'static str,
    /// Text before the next argument.
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

    /// Starts a new line with the next argument, in layouts that have lines of arguments.
    pub fn break_line(&mut self) {
        if !self.separator.is_empty() {
            self.separator = self.line_break;
        }
    }

    /// Writes `External id`, the op that the event belongs to. CPU ops have no space after it.
    pub(super) fn external_id(&mut self, id: i64, is_op: bool) -> io::Result<()> {
        self.number("External id", id)?;
        self.separator = if is_op { "," } else { self.line_break };
        Ok(())
    }

    /// Writes a number or any other value that serde represents as a single JSON value.
    ///
    /// # Errors
    /// Fails if the value cannot be represented in JSON.
    pub fn number(&mut self, key: &str, value: impl serde::Serialize) -> io::Result<()> {
        self.key(key)?;
        json::number(self.out, value)
    }

    /// Writes a string.
    ///
    /// # Errors
    /// Never fails in memory.
    pub fn text(&mut self, key: &str, value: &str) -> io::Result<()> {
        self.key(key)?;
        json::text(self.out, value)
    }

    /// Writes JSON text unchanged, such as a list of shapes.
    ///
    /// # Errors
    /// Never fails in memory.
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
