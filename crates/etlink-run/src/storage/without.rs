//! Replacements in a build without the feature `s3`, which reads no URLs.

use super::{FileData, FolderEntry, OpenFile};
use crate::missing_feature;
use std::io;
use std::path::Path;

pub(super) fn refuse<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        missing_feature("a URL", "s3"),
    ))
}

pub(super) fn file_data(_: &Path) -> io::Result<FileData> {
    refuse()
}

pub(super) fn open(_: &Path) -> io::Result<OpenFile> {
    refuse()
}

pub(super) fn read_end(_: &Path, _: &mut [u8]) -> io::Result<()> {
    refuse()
}

pub(super) fn list(_: &Path) -> io::Result<Vec<FolderEntry>> {
    refuse()
}

pub(super) fn remove(_: &Path) -> io::Result<()> {
    refuse()
}
