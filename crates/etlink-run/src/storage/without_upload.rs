//! Replacements in a build without the feature `s3`, which writes no objects.

use std::io::{self, Write};
use std::path::Path;

/// A writer, an uploaded object or a completion in progress: there are none.
pub(crate) enum NoObject {}

pub(crate) use NoObject as ObjectWriter;
pub(crate) use NoObject as UploadedObject;

pub(crate) fn check_writable(_: &Path) -> io::Result<()> {
    super::objects::refuse()
}

impl NoObject {
    pub(crate) fn new(_: &Path) -> io::Result<NoObject> {
        super::objects::refuse()
    }

    pub(crate) fn finish(self) -> io::Result<NoObject> {
        match self {}
    }

    pub(crate) fn begin_commit(self, _: bool) -> io::Result<NoObject> {
        match self {}
    }

    pub(crate) fn wait(&self) -> io::Result<()> {
        match *self {}
    }
}

impl Write for NoObject {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match *self {}
    }
}
