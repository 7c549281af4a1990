//! The private folder with the hook's files, and cleanup of the folders of killed commands.
//!
//! Every user of a folder holds a lock in it, which is released when its process ends, in any
//! container: each Python process a lock on `python`, and the command one on `launcher`. All
//! programs that the command starts inherit the command's lock, so that a script may start its
//! first Python long after the command was killed.
//!
//! The command's lock is created before any file of the hook. So a folder without that lock and
//! without the hook's last file was left by a command that was killed while creating it.

use super::files;
use anyhow::{Context, Result};
use etlink_torch::{HOOK, MARKER};
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

pub const PREFIX: &str = "etlink-hook-";
/// File with the id of the command's machine; locked before it gets this name.
const LAUNCHER: &str = "launcher";
/// Most folders removed per recording: a recording starts promptly even if thousands are left.
const MOST_REMOVED: usize = 100;
/// Longest time that a command takes to create a folder.
const MAKING: Duration = Duration::from_secs(600);

/// Private folder with the hook; removed on drop.
pub struct HookFolder {
    folder: TempDir,
    /// Lock of the command, inherited by the programs that it starts.
    _lock: Option<File>,
}

impl HookFolder {
    pub fn new() -> Result<HookFolder> {
        let mut builder = tempfile::Builder::new();
        // launchers of a whole cluster write into one folder, each under this name
        builder.prefix(PREFIX).rand_bytes(12);
        let folder = builder.tempdir();
        let folder =
            folder.context("cannot create a temporary folder; choose another place with TMPDIR")?;
        // other commands never remove a folder that has all files but no lock
        let lock = hold(folder.path()).ok();
        // the hook is embedded in the binary: nothing needs to be installed into the program's
        // Python
        for (name, text) in HOOK {
            let path = folder.path().join(name);
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            files::named(made, "write", &path)?;
            files::write(&path, text.as_bytes())?;
        }
        remove_abandoned(folder.path());
        Ok(HookFolder {
            folder,
            _lock: lock,
        })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder for running processes that may load from it; the last of them removes it.
    pub fn keep(self) {
        let _path = self.folder.keep();
    }
}

/// Locks the folder for this process and all programs that it starts.
fn hold(folder: &Path) -> std::io::Result<File> {
    let (unnamed, name) = (folder.join("launcher.new"), folder.join(LAUNCHER));
    fs::write(&unnamed, machine().as_bytes())?;
    let file = fs::File::open(&unnamed)?;
    file.lock_shared()?;
    inherit(&file)?;
    fs::rename(&unnamed, &name)?;
    Ok(file)
}

/// Makes started programs inherit the lock.
fn inherit(file: &File) -> std::io::Result<()> {
    use nix::fcntl::{FcntlArg, fcntl};
    // Scripts use low file descriptors themselves. This descriptor is never closed here: it stays
    // open as long as the process lives.
    fcntl(file, FcntlArg::F_DUPFD(100))?;
    Ok(())
}

/// Returns an id of this machine: machines may share the folder without sharing locks.
fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Removes folders that nobody holds; the next command retries those that cannot be removed.
fn remove_abandoned(own: &Path) {
    let Some(parent) = own.parent() else { return };
    let Ok(entries) = files::entries(parent) else {
        return;
    };
    let folders = entries.iter().filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(PREFIX) && entry.path() != own
    });
    let mut removed = 0;
    for folder in folders.map(|entry| entry.path()) {
        if removed == MOST_REMOVED {
            return;
        }
        // both locks are held until the folder is gone
        let locks = [LAUNCHER, MARKER].map(|name| lock_alone(&folder.join(name)));
        let is_abandoned = match &locks {
            [Lock::Had(_), Lock::Had(_) | Lock::Absent] => is_of_machine(&folder),
            [Lock::Absent, Lock::Absent] => is_half_made(&folder, own),
            _ => false,
        };
        if is_abandoned && is_own(&folder) {
            removed += 1;
            drop(fs::remove_dir_all(&folder));
        }
    }
}

/// Result of trying to take an exclusive lock.
enum Lock {
    Had(#[allow(dead_code, reason = "the lock is held by its file")] File),
    /// The lock file does not exist.
    Absent,
    /// Another process holds the lock, or the state is unknown.
    Held,
}

fn lock_alone(path: &Path) -> Lock {
    match File::open(path) {
        Ok(file) if file.try_lock().is_ok() => Lock::Had(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Lock::Absent,
        _ => Lock::Held,
    }
}

fn is_of_machine(folder: &Path) -> bool {
    let written = std::fs::read_to_string(folder.join(LAUNCHER));
    written.is_ok_and(|written| written == machine())
}

/// Returns true if the command that began to create the folder never finished. The folder `own` was
/// just created and gives the current time by the same clock.
fn is_half_made(folder: &Path, own: &Path) -> bool {
    let [.., (last, _)] = HOOK;
    let modified = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let age = modified(own)
        .zip(modified(folder))
        .and_then(|(now, then)| now.duration_since(then).ok());
    !folder.join(last).exists() && age.is_some_and(|age| age > MAKING)
}

/// Returns true if the folder belongs to this user.
fn is_own(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    // not the target of a link
    let found = std::fs::symlink_metadata(folder);
    let user = nix::unistd::geteuid().as_raw();
    found.is_ok_and(|found| found.is_dir() && found.uid() == user)
}
