//! Every call by which outputs change the file system. Tests make the n-th of a kind fail, see
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
    /// Of a folder.
    MakeFolder,
    /// Of a file, or an existing one is opened to be written.
    Create,
    /// Of a work folder.
    Lock,
    /// Of a block into a file.
    Write,
    /// Of a file or a folder to the disk.
    Sync,
    /// Of a finished file to its place.
    Rename,
    /// Of a file or a folder.
    Remove,
}

#[cfg(not(feature = "faults"))]
#[inline(always)]
fn attempt(_: DiskCall, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(feature = "faults")]
use faults::attempt;

/// A file that is being written.
pub(super) struct DiskFile {
    file: File,
    #[cfg(feature = "faults")]
    path: std::path::PathBuf,
}

impl DiskFile {
    /// Creates a file, or empties what is there.
    pub(super) fn create(path: &Path) -> io::Result<DiskFile> {
        DiskFile::open(
            path,
            File::options().write(true).create(true).truncate(true),
        )
    }

    /// Opens what is there as it is: a pipe, a device.
    pub(super) fn open_existing(path: &Path) -> io::Result<DiskFile> {
        let is_file = fs::metadata(path)?.is_file();
        // a file behind `/dev/fd/3` keeps what it has; a device has no end to write at
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

/// Fails where it is there.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    attempt(DiskCall::MakeFolder, path)?;
    fs::create_dir(path)
}

/// With those it lies in.
pub(super) fn make_folders(path: &Path) -> io::Result<()> {
    // no call, so that a fault is one of a folder that is really made
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

/// Replaces what is there.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    attempt(DiskCall::Rename, to)?;
    fs::rename(from, to)
}

/// Fails where `to` is there.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    attempt(DiskCall::Rename, to)?;
    // `rename` replaces in silence; this is the one call that refuses without a moment in between
    let from = tempfile::TempPath::try_from_path(from)?;
    from.persist_noclobber(to).map_err(|failed| {
        let mut from = failed.path;
        // who called decides what becomes of it
        from.disable_cleanup(true);
        failed.error
    })
}

/// Of no harm where it is gone.
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
        // some file systems of networks and user space have none
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

/// There is no such call.
#[cfg(not(unix))]
pub(super) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// One that is empty.
pub(super) fn remove_folder(path: &Path) -> io::Result<()> {
    attempt(DiskCall::Remove, path)?;
    fs::remove_dir(path)
}

/// With all that is in it.
pub(super) fn remove_folders(path: &Path) -> io::Result<()> {
    attempt(DiskCall::Remove, path)?;
    fs::remove_dir_all(path)
}
