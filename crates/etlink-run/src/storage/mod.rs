//! Where files lie: on a disk, or, named by a URL, in an object store or on a web server.
//!
//! What reads and lists files goes through here, and so takes both. A path that is a URL keeps its
//! text (`s3://bucket/key`): it is joined and cut like any path.

#[cfg(feature = "s3")]
mod client;
#[cfg(feature = "s3")]
mod credentials;
#[cfg(feature = "s3")]
mod error;
#[cfg_attr(not(feature = "s3"), path = "without.rs")]
mod objects;
#[cfg(feature = "s3")]
mod range_reader;
#[cfg(feature = "s3")]
mod tasks;
#[cfg(all(test, feature = "s3"))]
mod tests;
#[cfg_attr(not(feature = "s3"), path = "without_upload.rs")]
pub(crate) mod upload;
#[cfg_attr(not(feature = "s3"), path = "without_uploads.rs")]
pub(crate) mod uploads;
#[cfg_attr(
    not(feature = "s3"),
    allow(dead_code, reason = "a URL is refused before it is taken apart")
)]
mod url;
#[cfg(feature = "s3")]
mod web_file;

pub use url::{is_url, path_without_secrets, without_secrets};
pub(crate) use url::{is_web_url, shown_path};

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileData {
    /// What it is.
    pub kind: StoredKind,
    /// Its size as stored, bytes; 0 where there is none to tell.
    pub bytes: u64,
    /// When it was changed the last time, if that is known.
    pub changed: Option<SystemTime>,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A file, or an object.
    File,
    /// A folder, or what the names of objects have before a stroke.
    Folder,
    /// A pipe or a device.
    Other,
}

/// A file that is read from its beginning.
pub struct OpenFile {
    /// What it is.
    pub data: FileData,
    /// Its stored content.
    pub content: Box<dyn Read + Send>,
}

/// What a folder has.
#[derive(Clone, Debug)]
pub struct FolderEntry {
    /// Where it lies.
    pub path: PathBuf,
    /// Links to folders are none: they can go in circles.
    pub is_folder: bool,
    /// What a store says of an object when it lists it.
    object: Option<FileData>,
}

impl FolderEntry {
    /// Its name in the folder.
    pub fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Whether it is a file, or a link to one or to nothing, or the system does not say what it is; no
    /// pipe, which would be waited for.
    pub fn may_be_file(&self) -> bool {
        if self.object.is_some() || self.is_folder || is_url(&self.path) {
            return self.object.is_some();
        }
        match std::fs::metadata(&self.path) {
            Ok(data) => data.is_file(),
            // who opens it is told why
            Err(error) if error.kind() != ErrorKind::NotFound => true,
            // a link to nothing is a trace that is missed; else it went since it was listed
            Err(_) => self.path.is_symlink(),
        }
    }

    /// What is known of it: of an object what its store said when it was listed.
    ///
    /// # Errors
    /// It is gone, or cannot be asked for.
    pub fn data(&self) -> io::Result<FileData> {
        match self.object {
            Some(object) => Ok(object),
            None => file_data(&self.path),
        }
    }
}

/// What is known of a file.
///
/// # Errors
/// There is none, or it cannot be asked for.
pub fn file_data(path: &Path) -> io::Result<FileData> {
    if is_url(path) {
        return objects::file_data(path);
    }
    Ok(disk_data(&std::fs::metadata(path)?))
}

fn disk_data(data: &std::fs::Metadata) -> FileData {
    let kind = match () {
        () if data.is_dir() => StoredKind::Folder,
        () if data.is_file() => StoredKind::File,
        () => StoredKind::Other,
    };
    // pipes and devices have the length 0, which would be taken for an empty file
    FileData {
        kind,
        bytes: data.len(),
        changed: data.modified().ok(),
    }
}

/// Whether there is a file of this name; no where that cannot be asked.
pub fn is_file(path: &Path) -> bool {
    file_data(path).is_ok_and(|data| data.kind == StoredKind::File)
}

/// Whether there is a folder of this name; no where that cannot be asked.
pub fn is_folder(path: &Path) -> bool {
    file_data(path).is_ok_and(|data| data.kind == StoredKind::Folder)
}

/// Whether there is anything of this name; no where that cannot be asked.
pub fn exists(path: &Path) -> bool {
    file_data(path).is_ok()
}

/// Opens a file. Of one behind a URL a few blocks are fetched ahead of who reads.
///
/// # Errors
/// There is none, or it cannot be read. A folder of a disk fails at the first read.
pub fn open(path: &Path) -> io::Result<OpenFile> {
    if is_url(path) {
        return objects::open(path);
    }
    let file = File::open(path)?;
    Ok(OpenFile {
        data: disk_data(&file.metadata()?),
        content: Box::new(file),
    })
}

/// A whole file, which is small.
///
/// # Errors
/// As those of [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    if is_url(path) {
        return objects::read(path);
    }
    std::fs::read(path)
}

/// A whole file, which is small, as text.
///
/// # Errors
/// As those of [`open`]; or it is no text.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Opens a file that is read at any place. Of one behind a URL that is a copy, which goes when it is
/// closed.
///
/// # Errors
/// As those of [`open`]; or the copy cannot be written.
pub fn open_to_seek(path: &Path) -> io::Result<File> {
    if !is_url(path) {
        return File::open(path);
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut open(path)?.content, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

/// A folder without a stroke at its end.
pub(crate) fn trimmed(folder: &Path) -> PathBuf {
    match folder.to_str() {
        // the parts of a path would have one stroke behind the scheme
        Some(url) if is_url(folder) => {
            let shorter = Path::new(url.trim_end_matches('/'));
            // of a URL without a bucket the strokes behind the scheme stay, so that it is refused
            let is_whole = is_url(shorter);
            (if is_whole { shorter } else { folder }).to_owned()
        }
        _ => folder.components().collect(),
    }
}

/// The last bytes of a file, as many as `last` takes.
///
/// # Errors
/// As those of [`open`]; or the file is shorter.
pub(crate) fn read_end(path: &Path, last: &mut [u8]) -> io::Result<()> {
    if is_url(path) {
        return objects::read_end(path, last);
    }
    let mut file = File::open(path)?;
    // no file is longer than an offset can say
    file.seek(SeekFrom::End(-(last.len() as i64)))?;
    file.read_exact(last)
}

/// What a folder has, in any order; of an object store what is below the folder up to the next
/// stroke.
///
/// # Errors
/// It cannot be listed.
pub fn list(folder: &Path) -> io::Result<Vec<FolderEntry>> {
    if is_url(folder) {
        return objects::list(folder);
    }
    let mut entries = vec![];
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        entries.push(FolderEntry {
            path: entry.path(),
            is_folder: entry.file_type().is_ok_and(|kind| kind.is_dir()),
            object: None,
        });
    }
    Ok(entries)
}

/// An entry of an object store; `object`: none of a folder.
#[cfg(feature = "s3")]
fn object_entry(folder: &Path, name: &str, object: Option<FileData>) -> FolderEntry {
    FolderEntry {
        path: folder.join(name),
        is_folder: object.is_none(),
        object,
    }
}

/// Makes a folder with those that it lies in. An object store has none to make.
///
/// # Errors
/// It cannot be made.
pub fn make_folders(folder: &Path) -> io::Result<()> {
    if is_url(folder) {
        return Ok(());
    }
    std::fs::create_dir_all(folder)
}

/// Removes a folder that has nothing in it. An object store has none to remove.
///
/// # Errors
/// Something is in it, or it cannot be removed.
pub fn remove_empty_folder(folder: &Path) -> io::Result<()> {
    if is_url(folder) {
        return Ok(());
    }
    std::fs::remove_dir(folder)
}

/// Removes a file.
///
/// # Errors
/// It cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    if is_url(path) {
        return objects::remove(path);
    }
    std::fs::remove_file(path)
}
