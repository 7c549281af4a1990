//! Locks that are released when their process ends. On systems without such locks (Windows, some
//! network file systems) everything works unlocked.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// A lock on a file, held until dropped.
pub struct Lock {
    #[cfg(unix)]
    flock: Option<nix::fcntl::Flock<File>>,
    #[cfg(not(unix))]
    flock: (),
}

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
        // the previous holder may have removed the file: then nobody else sees our lock
        let lock = system::wait(file)?;
        if system::is_current(&lock, &path) {
            return Ok(lock);
        }
    }
}

/// Tries to take the lock exclusively; `None` if another process holds it.
pub fn try_exclusive(path: &Path) -> io::Result<Option<Lock>> {
    system::attempt(open(path)?)
}

/// Takes the lock shared.
pub fn shared(path: &Path) -> io::Result<Lock> {
    system::share(open(path)?)
}

#[cfg(unix)]
mod system {
    use super::Lock;
    use nix::errno::Errno;
    use nix::fcntl::{Flock, FlockArg};
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    pub fn wait(file: File) -> io::Result<Lock> {
        lock(file, FlockArg::LockExclusive).map_err(io::Error::from)
    }

    pub fn share(file: File) -> io::Result<Lock> {
        // cannot fail: whoever tries to lock it exclusively holds the other lock meanwhile
        lock(file, FlockArg::LockSharedNonblock).map_err(io::Error::from)
    }

    pub fn attempt(file: File) -> io::Result<Option<Lock>> {
        match lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(lock)),
            Err(Errno::EWOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn lock(mut file: File, how: FlockArg) -> Result<Lock, Errno> {
        loop {
            match Flock::lock(file, how) {
                Ok(lock) => return Ok(Lock { flock: Some(lock) }),
                Err((again, Errno::EINTR)) => file = again,
                // the file system does not support locks
                Err((_, Errno::ENOLCK | Errno::ENOSYS | Errno::EOPNOTSUPP)) => {
                    return Ok(Lock { flock: None });
                }
                Err((_, error)) => return Err(error),
            }
        }
    }

    /// Returns true if the locked file is still the one at `path`.
    pub fn is_current(lock: &Lock, path: &Path) -> bool {
        let Some(file) = lock.flock.as_deref() else {
            return true;
        };
        match (file.metadata(), std::fs::metadata(path)) {
            (Ok(own), Ok(named)) => (own.dev(), own.ino()) == (named.dev(), named.ino()),
            _ => false,
        }
    }
}

#[cfg(not(unix))]
mod system {
    use super::Lock;
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub fn wait(_: File) -> io::Result<Lock> {
        Ok(Lock { flock: () })
    }

    pub fn share(_: File) -> io::Result<Lock> {
        Ok(Lock { flock: () })
    }

    pub fn attempt(_: File) -> io::Result<Option<Lock>> {
        Ok(Some(Lock { flock: () }))
    }

    pub fn is_current(_: &Lock, _: &Path) -> bool {
        true
    }
}
