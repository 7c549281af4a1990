//! The private folder with the hook's files, and the folders that commands have left which were
//! killed.
//!
//! Who needs a folder holds a lock in it, which dies with its process, in whatever container that
//! is: each Python process one on `python`, and the command one on `launcher`. All programs that the
//! command starts inherit the latter, so that a script may start its first Python long after the
//! command was killed.
//!
//! The lock of the command comes before all files of the hook. So a folder without the lock and without
//! the last of these files is one that a command began to make, and was killed.

use super::disk;
use anyhow::{Context, Result};
use etlink_torch::{HOOK, MARKER};
use std::fs::File;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

pub const PREFIX: &str = "etlink-hook-";
/// The machine that the command runs on; locked from the moment at which it has this name.
const LAUNCHER: &str = "launcher";
/// A recording begins at once, also where thousands of folders are left.
const MOST_REMOVED: usize = 100;
/// No command takes so long to make a folder.
const MAKING: Duration = Duration::from_secs(600);

/// A private folder with the hook, gone when this is dropped.
pub struct HookFolder {
    folder: TempDir,
    /// Programs that are started have it open too.
    _lock: Option<File>,
}

impl HookFolder {
    pub fn new() -> Result<HookFolder> {
        let mut builder = tempfile::Builder::new();
        // launchers of a whole cluster write into one folder, each under this name
        builder.prefix(PREFIX).rand_bytes(12);
        let folder = disk::attempt(&std::env::temp_dir()).and_then(|()| builder.tempdir());
        let folder = folder.context("cannot make a temporary folder; TMPDIR names where")?;
        // a folder that has all files and no lock is never removed by others
        let lock = hold(folder.path()).ok();
        // the hook travels in the binary: nothing has to be installed into the program's Python
        for (name, text) in HOOK {
            let path = folder.path().join(name);
            let written = path
                .parent()
                .map_or(Ok(()), disk::make_folders)
                .and_then(|()| disk::write(&path, text.as_bytes()));
            written.with_context(|| format!("cannot write {}", path.display()))?;
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

    /// It stays while processes run that may load from it; the last of them removes it.
    pub fn keep(self) {
        let _path = self.folder.keep();
    }
}

/// Locks the folder for this process and all that it starts.
fn hold(folder: &Path) -> std::io::Result<File> {
    let (unnamed, name) = (folder.join("launcher.new"), folder.join(LAUNCHER));
    disk::write(&unnamed, machine().as_bytes())?;
    let file = disk::open(&unnamed)?;
    file.lock_shared()?;
    inherit(&file)?;
    disk::rename(&unnamed, &name)?;
    Ok(file)
}

/// Has programs that are started keep the lock.
#[cfg(unix)]
fn inherit(file: &File) -> std::io::Result<()> {
    use nix::fcntl::{FcntlArg, fcntl};
    // Scripts give low numbers to files of their own. Nobody closes this one here: it is open for as
    // long as the process lives.
    fcntl(file, FcntlArg::F_DUPFD(100))?;
    Ok(())
}

#[cfg(not(unix))]
fn inherit(_: &File) -> std::io::Result<()> {
    Ok(())
}

/// What tells this machine from others, which may share the folder and not its locks.
fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Removes folders that nobody holds; what cannot be removed is left to the next command.
fn remove_abandoned(own: &Path) {
    let Some(parent) = own.parent() else { return };
    let Ok(entries) = disk::entries(parent) else {
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
        // both are held until it is gone
        let locks = [LAUNCHER, MARKER].map(|name| lock_alone(&folder.join(name)));
        let is_abandoned = match &locks {
            [Lock::Had(_), Lock::Had(_) | Lock::Absent] => is_of_machine(&folder),
            [Lock::Absent, Lock::Absent] => is_half_made(&folder, own),
            _ => false,
        };
        if is_abandoned && is_own(&folder) {
            removed += 1;
            drop(disk::remove_folder(&folder));
        }
    }
}

/// What became of an attempt to have a lock alone.
enum Lock {
    Had(#[allow(dead_code, reason = "the lock is held by its file")] File),
    /// There is no such file.
    Absent,
    /// Another process has it, or nobody knows.
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

/// Whether whoever began to make the folder never came to its end. `own` was made just now, by the same
/// clock.
fn is_half_made(folder: &Path, own: &Path) -> bool {
    let [.., (last, _)] = HOOK;
    let modified = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let age = modified(own)
        .zip(modified(folder))
        .and_then(|(now, then)| now.duration_since(then).ok());
    !folder.join(last).exists() && age.is_some_and(|age| age > MAKING)
}

/// Whether it is a folder of this user.
#[cfg(unix)]
fn is_own(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    // not of what a link leads to
    let found = std::fs::symlink_metadata(folder);
    let user = nix::unistd::geteuid().as_raw();
    found.is_ok_and(|found| found.is_dir() && found.uid() == user)
}

#[cfg(not(unix))]
fn is_own(folder: &Path) -> bool {
    folder.is_dir()
}
