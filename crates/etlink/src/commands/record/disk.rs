//! All file system calls that `record` itself makes. Tests make the n-th call fail as on a full
//! disk (`ETLINK_RECORD_FAULT=3`), or kill `record` there (`ETLINK_RECORD_KILL=3`).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

#[cfg(feature = "faults")]
pub fn attempt(path: &Path) -> io::Result<()> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let number = CALLS.fetch_add(1, Ordering::SeqCst) + 1;
    if number_in("ETLINK_RECORD_KILL") == Some(number) {
        eprintln!("injected: {}", path.display());
        // no destructor runs and nothing is cleaned up, as after SIGKILL
        std::process::abort();
    }
    if number_in("ETLINK_RECORD_FAULT") != Some(number) {
        return Ok(());
    }
    // tells the test that the run got as far as this call
    eprintln!("injected: {}", path.display());
    Err(io::Error::from_raw_os_error(nix::libc::ENOSPC))
}

#[cfg(feature = "faults")]
fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[cfg(not(feature = "faults"))]
#[inline(always)]
pub fn attempt(_: &Path) -> io::Result<()> {
    Ok(())
}

pub fn make_folders(path: &Path) -> io::Result<()> {
    attempt(path)?;
    fs::create_dir_all(path)
}

pub fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    attempt(path)?;
    path.canonicalize()
}

pub fn open(path: &Path) -> io::Result<File> {
    attempt(path)?;
    File::open(path)
}

pub fn create(path: &Path) -> io::Result<File> {
    attempt(path)?;
    File::create(path)
}

pub fn sync(file: &File, path: &Path) -> io::Result<()> {
    attempt(path)?;
    file.sync_all()
}

pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    attempt(path)?;
    fs::read(path)
}

/// Reads a file; `None` if it does not exist.
pub fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    attempt(path)?;
    fs::write(path, bytes)
}

pub fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    attempt(folder)?;
    fs::read_dir(folder)?.collect()
}

pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    attempt(to)?;
    fs::rename(from, to)
}

pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    attempt(to)?;
    fs::copy(from, to).map(|_| ())
}

pub fn link(from: &Path, to: &Path) -> io::Result<()> {
    attempt(to)?;
    fs::hard_link(from, to)
}

pub fn remove(path: &Path) -> io::Result<()> {
    attempt(path)?;
    fs::remove_file(path)
}

pub fn remove_empty_folder(path: &Path) -> io::Result<()> {
    attempt(path)?;
    fs::remove_dir(path)
}

pub fn remove_folder(path: &Path) -> io::Result<()> {
    attempt(path)?;
    fs::remove_dir_all(path)
}
