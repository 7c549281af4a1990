//! Calls with which outputs change the file system.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Opens an existing pipe, device or file without truncating it.
pub(super) fn open_existing(path: &Path) -> io::Result<File> {
    let is_file = fs::metadata(path)?.is_file();
    // a file opened as `/dev/fd/3` keeps its content; devices cannot be appended to
    File::options().write(true).append(is_file).open(path)
}

/// Renames a finished file to its place. Without `overwrite`, fails if a file is there.
pub(super) fn put(from: &Path, to: &Path, overwrite: bool) -> io::Result<()> {
    if overwrite {
        return fs::rename(from, to);
    }
    // `rename` replaces silently; this is the only call that refuses atomically
    let from = tempfile::TempPath::try_from_path(from)?;
    from.persist_noclobber(to).map_err(|failed| {
        let mut from = failed.path;
        // the caller decides what happens to the file
        from.disable_cleanup(true);
        failed.error
    })
}

/// Removes a file; succeeds if it does not exist.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Waits until the names in a folder are on the disk.
#[cfg(unix)]
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // some network and user-space file systems do not support it
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Does nothing: the system has no such call.
#[cfg(not(unix))]
pub(super) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
