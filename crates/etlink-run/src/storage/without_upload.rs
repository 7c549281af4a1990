//! Replacements in a build without the feature `s3`, which writes no objects.

use std::io::{self, Write};
use std::path::Path;

pub(crate) enum ObjectWriter {}

pub(crate) enum UploadedObject {}

/// Completion of an upload in progress.
pub(crate) enum PendingCommit {}

impl PendingCommit {
    pub(crate) fn wait(&self) -> io::Result<()> {
        match *self {}
    }
}

pub(crate) fn check_writable(_: &Path) -> io::Result<()> {
    super::objects::refuse()
}

impl ObjectWriter {
    pub(crate) fn new(_: &Path) -> io::Result<ObjectWriter> {
        super::objects::refuse()
    }

    pub(crate) fn finish(self) -> io::Result<UploadedObject> {
        match self {}
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match *self {}
    }
}

impl UploadedObject {
    pub(crate) fn begin_commit(self, _: bool) -> io::Result<PendingCommit> {
        match self {}
    }
}
