//! Input of a conversion. Standard input is read once, so the bytes for format detection are kept.

use super::format::{GraphFormat, NODES};
use crate::file_error::{FileAction, FileContext};
use crate::file_kind::may_be_file;
use crate::{RunError, input};
use etlink_chakra::read::SNIFF_BYTES;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

/// Input of a conversion.
pub(super) struct GraphInput {
    pub(super) path: PathBuf,
    /// Content to read instead of the path: standard input from its beginning, or a replacement.
    begun: Option<Box<dyn Read + Send>>,
}

impl GraphInput {
    pub(super) fn new(path: PathBuf) -> GraphInput {
        GraphInput { path, begun: None }
    }

    pub(super) fn is_stdin(&self) -> bool {
        self.path == Path::new("-")
    }

    /// Detects the format from the content; `None` if it cannot be converted.
    ///
    /// # Errors
    /// Fails if the input cannot be read.
    pub(super) fn find_format(&mut self) -> Result<Option<GraphFormat>, RunError> {
        if may_be_file(&self.path.join(NODES)) {
            return Ok(Some(GraphFormat::Parquet));
        }
        let mut source = self.open()?;
        let mut head = vec![];
        let wanted = SNIFF_BYTES as u64;
        let read = source.by_ref().take(wanted).read_to_end(&mut head);
        read.with_path(FileAction::Read, &self.path)?;
        let format = GraphFormat::from_head(&head);
        if self.is_stdin() {
            self.begun = Some(Box::new(Cursor::new(head).chain(source)));
        }
        Ok(format)
    }

    /// Replaces the content by the result of another conversion.
    pub(super) fn replace(&mut self, bytes: Vec<u8>) {
        self.begun = Some(Box::new(Cursor::new(bytes)));
    }

    /// Opens the input at its beginning. Standard input and a replacement can only be opened once.
    ///
    /// # Errors
    /// Fails if the input cannot be opened.
    pub(super) fn open(&mut self) -> Result<Box<dyn Read + Send>, RunError> {
        match self.begun.take() {
            Some(begun) => Ok(begun),
            None => Ok(input::open_any(&self.path)?),
        }
    }
}
