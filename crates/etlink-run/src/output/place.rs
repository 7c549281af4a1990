//! Resolves paths to write: follows links, and never replaces open files or non-files.

use crate::storage::is_url;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Number of links followed, as in Linux.
const MAX_LINKS: usize = 40;

/// Destination of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathKind {
    /// The standard output of this process.
    Stdout,
    /// A pipe, a device, or a file that is already open: written in place.
    Stream(PathBuf),
    /// A file, existing or to be created; without links.
    File(PathBuf),
    /// An object of a store, named by a URL.
    Object,
}

impl PathKind {
    /// Follows the links of `path`. Opening a path that cannot be resolved will fail.
    pub(super) fn find(path: &Path) -> PathKind {
        if path == Path::new("-") {
            return PathKind::Stdout;
        }
        if is_url(path) {
            return PathKind::Object;
        }
        let mut path = path.to_owned();
        // circular links end here; opening the path then reports the error
        for _ in 0..MAX_LINKS {
            if let Some(number) = open_descriptor(&path) {
                return match number {
                    Some(1) => PathKind::Stdout,
                    _ => PathKind::Stream(path),
                };
            }
            let Ok(link) = fs::read_link(&path) else {
                break;
            };
            path = match path.parent() {
                Some(folder) => folder.join(link),
                None => link,
            };
        }
        let is_special = |data: fs::Metadata| !data.is_file() && !data.is_dir();
        if fs::metadata(&path).is_ok_and(is_special) {
            PathKind::Stream(path)
        } else {
            PathKind::File(path)
        }
    }
}

/// Detects paths of open files; returns the descriptor if it is one of this process.
fn open_descriptor(path: &Path) -> Option<Option<u32>> {
    let parts: Vec<&str> = path
        .components()
        .map(|part| match part {
            Component::RootDir => "/",
            part => part.as_os_str().to_str().unwrap_or(""),
        })
        .collect();
    match parts[..] {
        ["/", "dev", "stdin"] => Some(Some(0)),
        ["/", "dev", "stdout"] => Some(Some(1)),
        ["/", "dev", "stderr"] => Some(Some(2)),
        ["/", "dev", "fd", number] | ["/", "proc", "self" | "thread-self", "fd", number] => {
            Some(number.parse().ok())
        }
        // open in another process, which would not see a replaced file
        ["/", "proc", _, "fd", _] => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_known_by_their_paths() {
        for (path, place) in [
            ("-", PathKind::Stdout),
            ("/dev/stdout", PathKind::Stdout),
            ("/dev/fd/1", PathKind::Stdout),
            ("/proc/self/fd/1", PathKind::Stdout),
            ("/dev/fd/3", PathKind::Stream("/dev/fd/3".into())),
            ("/proc/1/fd/1", PathKind::Stream("/proc/1/fd/1".into())),
            ("dev/stdout", PathKind::File("dev/stdout".into())),
            ("no/such/x.et", PathKind::File("no/such/x.et".into())),
            ("s3://bucket/x.et", PathKind::Object),
        ] {
            assert_eq!(PathKind::find(Path::new(path)), place, "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_to_where_they_lead() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("far")).expect("a folder");
        symlink("far/x.et", path("near.et")).expect("a link");
        symlink("near.et", path("nearer.et")).expect("a link");
        symlink("/dev/stdout", path("out.et")).expect("a link");
        symlink("/dev/null", path("null.et")).expect("a link");
        symlink("circle.et", path("circle.et")).expect("a link");
        // for a missing and for an existing file
        for _ in 0..2 {
            let end = PathKind::File(path("far/x.et"));
            assert_eq!(PathKind::find(&path("nearer.et")), end);
            fs::write(path("far/x.et"), "").expect("a file");
        }
        assert_eq!(PathKind::find(&path("out.et")), PathKind::Stdout);
        assert_eq!(
            PathKind::find(&path("null.et")),
            PathKind::Stream("/dev/null".into())
        );
        assert_eq!(
            PathKind::find(&path("circle.et")),
            PathKind::File(path("circle.et"))
        );
    }
}
