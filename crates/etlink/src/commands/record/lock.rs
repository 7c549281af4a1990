//! Locks that are released when their process ends. On file systems without such locks everything
//! works unlocked.

use super::files::named;
use anyhow::Result;
use etlink_run::output::{is_same_file, is_without_locks};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// A lock on a file, held until dropped.
pub struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the open file")] File);

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// Waits for the lock file in `folder`; creates it if missing. The previous holder may have removed
/// both; then both are created again.
pub fn exclusive(folder: &Path, name: &str) -> io::Result<Lock> {
    let path = folder.join(name);
    loop {
        fs::create_dir_all(folder)?;
        let file = match open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let is_locked = match file.lock() {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_without_locks(&error) => false,
            Err(error) => return Err(error),
        };
        // the previous holder may have removed the file: then nobody else sees our lock
        if !is_locked || is_same_file(&file, &path) {
            return Ok(Lock(file));
        }
    }
}

/// Tries to take the lock exclusively; `None` if another process holds it.
pub fn try_exclusive(path: &Path) -> Result<Option<Lock>> {
    named(attempt(path, File::try_lock), "lock", path)
}

/// Takes the lock shared.
pub fn shared(path: &Path) -> Result<Lock> {
    // cannot fail: whoever tries to lock it exclusively holds the other lock meanwhile
    let lock = attempt(path, File::try_lock_shared)
        .and_then(|lock| lock.ok_or_else(|| io::ErrorKind::WouldBlock.into()));
    named(lock, "lock", path)
}

fn attempt(
    path: &Path,
    lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
) -> io::Result<Option<Lock>> {
    let file = open(path)?;
    match lock(&file) {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) if is_without_locks(&error) => Ok(Some(Lock(file))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
