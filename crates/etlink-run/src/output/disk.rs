//! Calls with which outputs change the file system. Tests make the n-th call of a kind fail, see
//! [`faults`].

#[cfg(feature = "faults")]
#[path = "faults.rs"]
mod faults;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::Path;

/// A kind of call.
#[cfg_attr(
    not(feature = "faults"),
    allow(dead_code, reason = "only a fault asks for each of them")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskCall {
    /// Creating a folder.
    MakeFolder,
    /// Creating a file, or opening an existing one for writing.
    Create,
    /// Locking a work folder.
    Lock,
    /// Writing a block to a file.
    Write,
    /// Syncing a file or a folder to the disk.
    Sync,
    /// Renaming a finished file to its place.
    Rename,
    /// Removing a file or a folder.
    Remove,
}

#[cfg(not(feature = "faults"))]
#[inline(always)]
fn attempt(_: DiskCall, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(feature = "faults")]
use faults::attempt;

/// An open file for writing.
pub(super) struct DiskFile {
    file: File,
    #[cfg(feature = "faults")]
    path: std::path::PathBuf,
}

impl DiskFile {
    /// Creates a file, or truncates an existing one.
    pub(super) fn create(path: &Path) -> io::Result<DiskFile> {
        DiskFile::open(
            path,
            File::options().write(true).create(true).truncate(true),
        )
    }

    /// Opens an existing pipe, device or file without truncating it.
    pub(super) fn open_existing(path: &Path) -> io::Result<DiskFile> {
        let is_file = fs::metadata(path)?.is_file();
        // a file opened as `/dev/fd/3` keeps its content; devices cannot be appended to
        let mut how = File::options();
        how.write(true).append(is_file);
        DiskFile::open(path, &how)
    }

    fn open(path: &Path, how: &fs::OpenOptions) -> io::Result<DiskFile> {
        attempt(DiskCall::Create, path)?;
        Ok(DiskFile {
            file: how.open(path)?,
            #[cfg(feature = "faults")]
            path: path.to_owned(),
        })
    }

    /// Waits until the content is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        #[cfg(feature = "faults")]
        attempt(DiskCall::Sync, &self.path)?;
        self.file.sync_all()
    }
}

impl Write for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "faults")]
        let bytes = faults::attempt_write(&self.path, &mut self.file, bytes)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Creates a folder; fails if it exists.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    attempt(DiskCall::MakeFolder, path)?;
    fs::create_dir(path)
}

/// Creates a folder and its parents; succeeds if it exists.
pub(super) fn make_folders(path: &Path) -> io::Result<()> {
    // makes no call, so that a fault applies to a folder that is really created
    if path.is_dir() {
        return Ok(());
    }
    attempt(DiskCall::MakeFolder, path)?;
    fs::create_dir_all(path)
}

/// Locks a file until it is closed or the process ends.
pub(super) fn lock(file: &File, path: &Path) -> Result<(), TryLockError> {
    attempt(DiskCall::Lock, path).map_err(TryLockError::Error)?;
    file.try_lock()
}

/// Renames a finished file to its place. Without `overwrite`, fails if a file is there.
pub(super) fn put(from: &Path, to: &Path, overwrite: bool) -> io::Result<()> {
    attempt(DiskCall::Rename, to)?;
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
    attempt(DiskCall::Remove, path)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Waits until the names in a folder are on the disk.
#[cfg(unix)]
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    attempt(DiskCall::Sync, folder)?;
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

/// Removes an empty folder.
pub(super) fn remove_folder(path: &Path) -> io::Result<()> {
    attempt(DiskCall::Remove, path)?;
    fs::remove_dir(path)
}

/// Removes a folder with its content.
pub(super) fn remove_folders(path: &Path) -> io::Result<()> {
    attempt(DiskCall::Remove, path)?;
    fs::remove_dir_all(path)
}
