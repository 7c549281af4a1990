//! Files on a disk, in an archive, in an object store or on a web server.
//!
//! All code that reads or lists files uses this module, so that it supports all of these places. A
//! URL as a path keeps its text (`s3://bucket/key`), and is joined and split like any path.

mod archive;
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

pub(crate) use archive::{is_archive, is_archive_name, packed_name, stored_path};
pub use url::{is_url, path_without_secrets, without_secrets};
pub(crate) use url::{is_web_url, shown_path};

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileData {
    /// Kind of file.
    pub kind: StoredKind,
    /// Stored size, bytes; 0 if unknown.
    pub bytes: u64,
    /// Time of the last change, if known.
    pub changed: Option<SystemTime>,
    /// Hash of the tag by which a store identifies the content, if it states one.
    pub tag: Option<u64>,
}

/// Kind of a path's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A file, or an object.
    File,
    /// A folder, or a prefix of objects' names that ends before a slash.
    Folder,
    /// A pipe or a device.
    Other,
}

/// A file opened at its beginning.
pub struct OpenFile {
    /// Metadata of the file.
    pub data: FileData,
    /// Stored content.
    pub content: Box<dyn Read + Send>,
}

/// Entry of a folder.
#[derive(Clone, Debug)]
pub struct FolderEntry {
    /// Path of the entry.
    pub path: PathBuf,
    /// True for folders. Links to folders are excluded, because they may form cycles.
    pub is_folder: bool,
    /// Metadata of an object from the store's listing.
    object: Option<FileData>,
}

impl FolderEntry {
    /// Returns the name of the entry in the folder.
    pub fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Returns true for files, for links to a file or to nothing, and for entries that the system
    /// cannot inspect. Returns false for pipes and for links to `/proc`, which would block a reader.
    pub fn may_be_file(&self) -> bool {
        if self.object.is_some() || self.is_folder || is_url(&self.path) {
            return self.object.is_some();
        }
        match std::fs::metadata(&self.path) {
            // files of /proc have no length
            Ok(data) => {
                let is_of_proc =
                    || (self.path.canonicalize()).is_ok_and(|at| at.starts_with("/proc"));
                data.is_file() && (data.len() > 0 || !is_of_proc())
            }
            // opening it reports the reason
            Err(error) if error.kind() != ErrorKind::NotFound => true,
            // a dangling link is a missing trace; otherwise the entry was removed after listing
            Err(_) => self.path.is_symlink(),
        }
    }

    /// Returns the metadata of the entry; for an object, from the store's listing.
    ///
    /// # Errors
    /// Fails if the entry has been removed or cannot be inspected.
    pub fn data(&self) -> io::Result<FileData> {
        match self.object {
            Some(object) => Ok(object),
            // an archive in a folder is a file
            None => stored_data(&self.path),
        }
    }
}

/// Returns the metadata of a file.
///
/// # Errors
/// Fails if the file does not exist or cannot be inspected.
pub fn file_data(path: &Path) -> io::Result<FileData> {
    match archive::find(path)? {
        Some(packed) => packed.data(),
        None => stored_data(path),
    }
}

/// Returns the metadata of a file; an archive is a file, too.
fn stored_data(path: &Path) -> io::Result<FileData> {
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
    // pipes and devices have length 0, which would look like an empty file
    FileData {
        kind,
        bytes: data.len(),
        changed: data.modified().ok(),
        tag: None,
    }
}

/// Returns true if a file exists at this path; false if it cannot be inspected.
pub fn is_file(path: &Path) -> bool {
    file_data(path).is_ok_and(|data| data.kind == StoredKind::File)
}

/// Returns true if a folder exists at this path; false if it cannot be inspected.
pub fn is_folder(path: &Path) -> bool {
    file_data(path).is_ok_and(|data| data.kind == StoredKind::Folder)
}

/// Returns true if anything exists at this path; false if it cannot be inspected.
pub fn exists(path: &Path) -> bool {
    file_data(path).is_ok()
}

/// Opens a file; an archive as it is stored. For a URL, a few blocks are fetched ahead of the
/// reader.
///
/// # Errors
/// Fails if the file does not exist or cannot be read. A folder on a disk fails at the first read.
pub fn open(path: &Path) -> io::Result<OpenFile> {
    match archive::find(path)? {
        Some(packed) if !packed.is_archive() => packed.open(),
        _ => open_stored(path),
    }
}

fn open_stored(path: &Path) -> io::Result<OpenFile> {
    if is_url(path) {
        return objects::open(path);
    }
    let file = File::open(path)?;
    Ok(OpenFile {
        data: disk_data(&file.metadata()?),
        content: Box::new(file),
    })
}

/// Reads a whole small file.
///
/// # Errors
/// Fails like [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    if file.data.kind == StoredKind::Folder {
        return Err(ErrorKind::IsADirectory.into());
    }
    let mut bytes = vec![];
    file.content.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole small file as text.
///
/// # Errors
/// Fails like [`open`], or if the file is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Returns true if the system can open a path: it is neither a URL nor in an archive.
pub(crate) fn is_on_disk(path: &Path) -> bool {
    let is_packed = || archive::find(path).is_ok_and(|found| found.is_some());
    !is_url(path) && !is_packed()
}

/// Opens a file for random access. A file that is not on a disk is copied to a temporary file,
/// which is removed when closed.
///
/// # Errors
/// Fails like [`open`], or if the copy cannot be written.
pub fn open_to_seek(path: &Path) -> io::Result<File> {
    if is_on_disk(path) {
        return File::open(path);
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut open(path)?.content, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

/// Returns a folder without trailing slashes.
pub(crate) fn trimmed(folder: &Path) -> PathBuf {
    match folder.to_str() {
        // the components of the path would have a single slash after the scheme
        Some(url) if is_url(folder) => {
            let shorter = Path::new(url.trim_end_matches('/'));
            // a URL without a bucket keeps the slashes after the scheme, so that it is refused
            let is_whole = is_url(shorter);
            (if is_whole { shorter } else { folder }).to_owned()
        }
        _ => folder.components().collect(),
    }
}

/// Reads the last bytes of a file into `last`.
///
/// # Errors
/// Fails like [`open`], or if the file is shorter.
pub(crate) fn read_end(path: &Path, last: &mut [u8]) -> io::Result<()> {
    if is_url(path) {
        return objects::read_end(path, last);
    }
    if let Some(packed) = archive::find(path)? {
        return packed.read_end(last);
    }
    read_file_end(&mut File::open(path)?, last)
}

/// First bytes of a file, and the last four if it is gzip, which state its unpacked size.
pub(crate) struct FileEnds {
    pub(crate) head: Vec<u8>,
    pub(crate) gzip_trailer: Option<[u8; 4]>,
}

/// Reads the first `head_bytes` bytes of a file, and the trailer of a gzip file. A file on a disk is
/// opened once.
///
/// # Errors
/// Fails like [`open`]; a trailer that cannot be read is `None`.
pub(crate) fn read_ends(path: &Path, head_bytes: u64) -> io::Result<FileEnds> {
    let (mut head, mut trailer) = (vec![], [0; 4]);
    let is_gzip = |head: &[u8]| head.starts_with(&[0x1f, 0x8b]);
    let has_trailer = if is_on_disk(path) {
        let mut file = File::open(path)?;
        file.by_ref().take(head_bytes).read_to_end(&mut head)?;
        is_gzip(&head) && read_file_end(&mut file, &mut trailer).is_ok()
    } else {
        let file = open(path)?;
        file.content.take(head_bytes).read_to_end(&mut head)?;
        // a web server may not support ranges
        is_gzip(&head) && read_end(path, &mut trailer).is_ok()
    };
    Ok(FileEnds {
        head,
        gzip_trailer: has_trailer.then_some(trailer),
    })
}

fn read_file_end(file: &mut File, last: &mut [u8]) -> io::Result<()> {
    // no file exceeds the range of an offset
    file.seek(SeekFrom::End(-(last.len() as i64)))?;
    file.read_exact(last)
}

/// Lists a folder, in arbitrary order. In an object store, lists the names below the folder up to
/// the next slash.
///
/// # Errors
/// Fails if the folder cannot be listed.
pub fn list(folder: &Path) -> io::Result<Vec<FolderEntry>> {
    if let Some(packed) = archive::find(folder)? {
        return packed.list(folder);
    }
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

/// Creates an entry of an object store; `object` is `None` for folders.
#[cfg(feature = "s3")]
fn object_entry(folder: &Path, name: &str, object: Option<FileData>) -> FolderEntry {
    FolderEntry {
        path: folder.join(name),
        is_folder: object.is_none(),
        object,
    }
}

/// Removes a file.
///
/// # Errors
/// Fails if the file cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    if is_url(path) {
        return objects::remove(path);
    }
    std::fs::remove_file(path)
}
