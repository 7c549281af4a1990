//! Files of a packed folder: `run.zip`, `run.tar`, `run.tar.gz`. An archive is read as the folder
//! that was packed, and its files as paths below it (`run.zip/rank0/kineto_trace_0.json.gz`).
//!
//! The files are unpacked once per process, to a single temporary file that has no name: it goes
//! with the process, however that ends.

use super::{
    FileData, FolderEntry, OpenFile, StoredKind, is_url, open_stored, stored_data, trimmed,
};
use flate2::read::MultiGzDecoder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How the files of an archive are packed.
#[derive(Clone, Copy)]
enum Packing {
    Zip,
    Tar,
    TarGzip,
    TarZstd,
}

/// Endings of archives' names.
const ENDINGS: [(&str, Packing); 6] = [
    (".zip", Packing::Zip),
    (".tar", Packing::Tar),
    (".tar.gz", Packing::TarGzip),
    (".tgz", Packing::TarGzip),
    (".tar.zst", Packing::TarZstd),
    (".tzst", Packing::TarZstd),
];

/// Archives that this process has unpacked, by path.
static UNPACKED: Mutex<BTreeMap<PathBuf, Arc<Archive>>> = Mutex::new(BTreeMap::new());

/// An unpacked archive.
struct Archive {
    /// State of the archive when it was unpacked.
    state: FileData,
    /// Content of all files, one after the other.
    content: Mutex<File>,
    files: BTreeMap<PathBuf, Extent>,
    folders: BTreeSet<PathBuf>,
}

/// Place of a file in the content of its archive, bytes.
#[derive(Clone, Copy)]
struct Extent {
    begin: u64,
    end: u64,
}

/// A path at or below an archive.
pub(super) struct ArchivePath {
    archive: Arc<Archive>,
    /// Path of the file or folder in the archive; empty for the archive itself.
    member: PathBuf,
}

/// Returns an archive's name without its ending; `None` if the name is none of an archive.
pub(crate) fn packed_name(name: &str) -> Option<&str> {
    packing_of(name).map(|(stem, _)| stem)
}

fn packing_of(name: &str) -> Option<(&str, Packing)> {
    ENDINGS.iter().find_map(|(ending, packing)| {
        let at = name.len().checked_sub(ending.len())?;
        let (stem, last) = name.split_at_checked(at)?;
        let is_one = !stem.is_empty() && last.eq_ignore_ascii_case(ending);
        is_one.then_some((stem, *packing))
    })
}

/// Returns the packing and the state of an archive; `None` if the path is none.
fn archive_at(path: &Path) -> Option<(Packing, FileData)> {
    let (_, packing) = packing_of(path.file_name()?.to_str()?)?;
    // a path with a slash at its end is one of a folder
    let state = stored_data(&trimmed(path)).ok()?;
    (state.kind == StoredKind::File).then_some((packing, state))
}

/// Returns true for an archive, also one that cannot be unpacked.
pub(crate) fn is_archive(path: &Path) -> bool {
    archive_at(path).is_some()
}

/// Returns the archive at or above a path, and the path in it; `None` if there is none. Unpacks an
/// archive that is asked for the first time or has changed.
///
/// # Errors
/// Fails if the archive cannot be read or unpacked.
pub(super) fn find(path: &Path) -> io::Result<Option<ArchivePath>> {
    for folder in path.ancestors() {
        let Some((packing, state)) = archive_at(folder) else {
            continue;
        };
        let member = path.strip_prefix(folder).unwrap_or(Path::new(""));
        return Ok(Some(ArchivePath {
            archive: unpacked(folder, state, packing)?,
            member: member.to_owned(),
        }));
    }
    Ok(None)
}

fn unpacked(path: &Path, state: FileData, packing: Packing) -> io::Result<Arc<Archive>> {
    let mut all = UNPACKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(archive) = all.get(path)
        && archive.state == state
    {
        return Ok(archive.clone());
    }
    let archive = Archive::unpack(path, state, packing).map_err(|error| {
        let text = format!("this archive cannot be unpacked: {error}");
        io::Error::new(error.kind(), text)
    })?;
    let archive = Arc::new(archive);
    all.insert(path.to_owned(), archive.clone());
    Ok(archive)
}

impl Archive {
    fn unpack(path: &Path, state: FileData, packing: Packing) -> io::Result<Archive> {
        let mut archive = Archive {
            state,
            content: Mutex::new(tempfile::tempfile()?),
            files: BTreeMap::new(),
            folders: BTreeSet::from([PathBuf::new()]),
        };
        let path = &trimmed(path);
        let stored = open_stored(path)?.content;
        match packing {
            Packing::Zip => archive.add_zip(path, stored)?,
            Packing::Tar => archive.add_tar(stored)?,
            Packing::TarGzip => archive.add_tar(MultiGzDecoder::new(stored))?,
            Packing::TarZstd => archive.add_tar(zstd::Decoder::new(stored)?)?,
        }
        Ok(archive)
    }

    fn add_zip(&mut self, path: &Path, mut stored: impl Read) -> io::Result<()> {
        // the list of files is at the end
        let file = if is_url(path) {
            let mut copy = tempfile::tempfile()?;
            io::copy(&mut stored, &mut copy)?;
            copy
        } else {
            File::open(path)?
        };
        let mut zip = zip::ZipArchive::new(io::BufReader::new(file))?;
        for index in 0..zip.len() {
            let mut file = zip.by_index(index)?;
            if let Some(name) = file.enclosed_name()
                && file.is_file()
            {
                self.add(&name, &mut file)?;
            }
        }
        Ok(())
    }

    fn add_tar(&mut self, stored: impl Read) -> io::Result<()> {
        let mut tar = tar::Archive::new(stored);
        for entry in tar.entries()? {
            let mut entry = entry?;
            let name = entry.path()?.into_owned();
            if entry.header().entry_type().is_file() {
                self.add(&name, &mut entry)?;
            }
        }
        Ok(())
    }

    /// Adds a file. One whose name leaves the archive is no file of a packed folder.
    fn add(&mut self, name: &Path, file: &mut impl Read) -> io::Result<()> {
        let mut inside = PathBuf::new();
        for component in name.components() {
            match component {
                Component::Normal(part) => inside.push(part),
                Component::CurDir => {}
                Component::Prefix(_) | Component::RootDir | Component::ParentDir => return Ok(()),
            }
        }
        let content = self
            .content
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let begin = content.seek(SeekFrom::End(0))?;
        let bytes = io::copy(file, content)?;
        let above = inside.ancestors().skip(1).map(Path::to_owned);
        self.folders.extend(above);
        let end = begin + bytes;
        self.files.insert(inside, Extent { begin, end });
        Ok(())
    }

    fn data_of(&self, member: &Path) -> Option<FileData> {
        let (kind, bytes) = match self.files.get(member) {
            Some(extent) => (StoredKind::File, extent.end - extent.begin),
            None if self.folders.contains(member) => (StoredKind::Folder, 0),
            None => return None,
        };
        Some(FileData {
            kind,
            bytes,
            ..self.state
        })
    }
}

impl ArchivePath {
    /// Returns true for the archive itself.
    pub(super) fn is_archive(&self) -> bool {
        self.member.as_os_str().is_empty()
    }

    /// Returns the metadata of the file or folder. The archive itself is a folder.
    pub(super) fn data(&self) -> io::Result<FileData> {
        let data = self.archive.data_of(&self.member);
        data.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Opens the file.
    pub(super) fn open(&self) -> io::Result<OpenFile> {
        let data = self.data()?;
        let nothing = Extent { begin: 0, end: 0 };
        let extent = self.archive.files.get(&self.member).copied();
        Ok(OpenFile {
            data,
            content: Box::new(MemberReader {
                archive: self.archive.clone(),
                rest: extent.unwrap_or(nothing),
            }),
        })
    }

    /// Lists the folder; `folder` is its path.
    pub(super) fn list(&self, folder: &Path) -> io::Result<Vec<FolderEntry>> {
        if self.data()?.kind != StoredKind::Folder {
            return Err(ErrorKind::NotADirectory.into());
        }
        let archive = &self.archive;
        let inside = archive.files.keys().chain(&archive.folders);
        let entries = inside.filter(|path| path.parent() == Some(&*self.member));
        Ok(entries
            .map(|path| {
                let data = archive.data_of(path);
                let object = data.filter(|data| data.kind == StoredKind::File);
                FolderEntry {
                    path: folder.join(path.file_name().unwrap_or_default()),
                    is_folder: object.is_none(),
                    object,
                }
            })
            .collect())
    }
}

/// Reads a file of an archive.
struct MemberReader {
    archive: Arc<Archive>,
    rest: Extent,
}

impl Read for MemberReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let content = &self.archive.content;
        let mut content = content.lock().unwrap_or_else(PoisonError::into_inner);
        content.seek(SeekFrom::Start(self.rest.begin))?;
        let read = content
            .by_ref()
            .take(self.rest.end - self.rest.begin)
            .read(buffer)?;
        self.rest.begin += read as u64;
        Ok(read)
    }
}
