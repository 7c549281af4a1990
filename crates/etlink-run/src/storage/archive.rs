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
use std::ffi::OsString;
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

/// Archives that this process has unpacked, the oldest first. Each takes space on a disk.
static UNPACKED: Mutex<Vec<(PathBuf, Arc<Archive>)>> = Mutex::new(vec![]);

/// Number of kept archives that nothing reads: two runs can be compared.
const KEPT: usize = 2;

/// Unpacked bytes up to which no archive is refused. A small one that unpacks to more is damaged, or
/// made to fill disks.
const MOST_UNPACKED: u64 = 1 << 30;
/// Ratio of the unpacked to the stored size up to which no archive is refused: four times the
/// highest that zstd -19 reached for a measured trace (49).
const MOST_RATIO: u64 = 200;
/// Maximum number of folders around a file.
const MOST_DEPTH: usize = 100;

/// An unpacked archive.
struct Archive {
    /// State of the archive when it was unpacked.
    state: FileData,
    /// Content of all files, one after the other.
    content: Mutex<File>,
    /// Files, or the reasons that they cannot be unpacked.
    files: BTreeMap<PathBuf, Result<Extent, Arc<str>>>,
    /// Names in each folder. The key of the archive itself is empty.
    folders: BTreeMap<PathBuf, BTreeSet<OsString>>,
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

/// Returns the path of the file that the system has: of the archive, for a path in one.
pub(crate) fn stored_path(path: &Path) -> PathBuf {
    let mut above = path.ancestors();
    let archive = above.find(|folder| archive_at(folder).is_some());
    trimmed(archive.unwrap_or(path))
}

/// Returns true if a path has the name of an archive.
pub(crate) fn is_archive_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| packing_of(name).is_some())
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
    let known = all.iter().find(|(known, _)| known == path);
    if let Some((_, archive)) = known.filter(|(_, archive)| archive.state == state) {
        return Ok(archive.clone());
    }
    all.retain(|(known, _)| known != path);
    let archive = Archive::unpack(path, state, packing).map_err(|error| {
        let text = format!(
            "this archive cannot be unpacked: {error}; was it downloaded completely? `tar` or \
             `unzip` may save a part of it"
        );
        io::Error::new(error.kind(), text)
    })?;
    let archive = Arc::new(archive);
    let is_idle = |(_, archive): &(PathBuf, Arc<Archive>)| Arc::strong_count(archive) == 1;
    while all.iter().filter(|one| is_idle(one)).count() >= KEPT
        && let Some(oldest) = all.iter().position(is_idle)
    {
        all.remove(oldest);
    }
    all.push((path.to_owned(), archive.clone()));
    Ok(archive)
}

impl Archive {
    fn unpack(path: &Path, state: FileData, packing: Packing) -> io::Result<Archive> {
        let mut archive = Archive {
            state,
            content: Mutex::new(tempfile::tempfile()?),
            files: BTreeMap::new(),
            folders: BTreeMap::from([(PathBuf::new(), BTreeSet::new())]),
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
            let raw = zip.by_index_raw(index)?;
            let name = PathBuf::from(&*raw.name()?);
            let is_file = raw.is_file();
            drop(raw);
            if !is_file {
                continue;
            }
            // one of an unknown packing or with a password, among others that can be read
            let added = match zip.by_index(index) {
                Ok(mut file) => self.append(&mut file),
                Err(error) => Err(error.into()),
            };
            match added {
                Err(error) if is_of_archive(&error) => return Err(error),
                Ok(extent) => self.insert(&name, Ok(extent))?,
                Err(error) => self.insert(&name, Err(error.to_string().into()))?,
            }
        }
        Ok(())
    }

    fn add_tar(&mut self, stored: impl Read) -> io::Result<()> {
        let mut tar = tar::Archive::new(stored);
        let mut links = vec![];
        for entry in tar.entries()? {
            let mut entry = entry?;
            let name = entry.path()?.into_owned();
            let kind = entry.header().entry_type();
            if let Some(target) = entry.link_name()? {
                let folder = match kind {
                    tar::EntryType::Symlink => name.parent().map(Path::to_owned),
                    _ => None,
                };
                let target = folder.unwrap_or_default().join(target);
                links.push((name, target));
            } else if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
                let extent = self.append(&mut entry)?;
                self.insert(&name, Ok(extent))?;
            }
        }
        // A second name of a file is a link. One to a folder, or out of the archive, has no content.
        for (name, target) in links {
            if let Some(file) = self.files.get(&inner_path(&target)).cloned() {
                self.insert(&name, file)?;
            }
        }
        Ok(())
    }

    /// Appends the content of a file.
    fn append(&mut self, file: &mut impl Read) -> io::Result<Extent> {
        let most = MOST_UNPACKED.max(self.state.bytes.saturating_mul(MOST_RATIO));
        let content = self.content.get_mut();
        let content = content.unwrap_or_else(PoisonError::into_inner);
        let begin = content.seek(SeekFrom::End(0))?;
        let left = most.saturating_sub(begin);
        let bytes = io::copy(&mut file.take(left + 1), content)?;
        if bytes > left {
            let text = format!("it unpacks to more than {most} bytes; unpack it yourself");
            return Err(io::Error::new(ErrorKind::FileTooLarge, text));
        }
        let end = begin + bytes;
        Ok(Extent { begin, end })
    }

    /// Adds a file under its name; of two with one name, the last one counts.
    fn insert(&mut self, name: &Path, file: Result<Extent, Arc<str>>) -> io::Result<()> {
        let inside = inner_path(name);
        if inside.as_os_str().is_empty() || self.folders.contains_key(&inside) {
            return Ok(());
        }
        let mut below = &*inside;
        let mut depth = 0;
        while let (Some(folder), Some(name)) = (below.parent(), below.file_name()) {
            depth += 1;
            if depth > MOST_DEPTH {
                let text = format!("a file has more than {MOST_DEPTH} folders around it");
                return Err(io::Error::new(ErrorKind::FileTooLarge, text));
            }
            let is_known = self.folders.contains_key(folder);
            let names = self.folders.entry(folder.to_owned()).or_default();
            names.insert(name.to_owned());
            // a name is a file or a folder
            self.files.remove(folder);
            if is_known {
                break;
            }
            below = folder;
        }
        self.files.insert(inside, file);
        Ok(())
    }

    fn data_of(&self, member: &Path) -> Option<FileData> {
        let (kind, bytes) = match self.files.get(member) {
            Some(Ok(extent)) => (StoredKind::File, extent.end - extent.begin),
            // not 0, which would look like an empty file
            Some(Err(_)) => (StoredKind::File, 1),
            None if self.folders.contains_key(member) => (StoredKind::Folder, 0),
            None => return None,
        };
        Some(FileData {
            kind,
            bytes,
            ..self.state
        })
    }
}

/// Returns true for an error that concerns all files of an archive: a full disk, or the limits.
fn is_of_archive(error: &io::Error) -> bool {
    error.raw_os_error().is_some() || error.kind() == ErrorKind::FileTooLarge
}

/// Returns the path of a file in its archive, without what leads out of it, as `tar` unpacks it.
fn inner_path(name: &Path) -> PathBuf {
    let mut inside = PathBuf::new();
    for component in name.components() {
        match component {
            Component::Normal(part) => inside.push(part),
            Component::ParentDir => {
                inside.pop();
            }
            Component::CurDir | Component::Prefix(_) | Component::RootDir => {}
        }
    }
    inside
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
        let rest = match self.archive.files.get(&self.member) {
            Some(Ok(extent)) => *extent,
            Some(Err(reason)) => return Err(unreadable(reason)),
            None => Extent { begin: 0, end: 0 },
        };
        let archive = self.archive.clone();
        let content = Box::new(MemberReader { archive, rest });
        Ok(OpenFile { data, content })
    }

    /// Reads the last bytes of the file.
    pub(super) fn read_end(&self, last: &mut [u8]) -> io::Result<()> {
        let archive = self.archive.clone();
        let Some(Ok(extent)) = archive.files.get(&self.member).cloned() else {
            return Err(ErrorKind::NotFound.into());
        };
        let begin = extent.end.saturating_sub(last.len() as u64);
        let begin = begin.max(extent.begin);
        let rest = Extent { begin, ..extent };
        MemberReader { archive, rest }.read_exact(last)
    }

    /// Lists the folder; `folder` is its path.
    pub(super) fn list(&self, folder: &Path) -> io::Result<Vec<FolderEntry>> {
        let Some(names) = self.archive.folders.get(&self.member) else {
            self.data()?;
            return Err(ErrorKind::NotADirectory.into());
        };
        let entry = |name: &OsString| {
            let data = self.archive.data_of(&self.member.join(name));
            let object = data.filter(|data| data.kind == StoredKind::File);
            FolderEntry {
                path: folder.join(name),
                is_folder: object.is_none(),
                object,
            }
        };
        Ok(names.iter().map(entry).collect())
    }
}

fn unreadable(reason: &str) -> io::Error {
    let text = format!("{reason}; unpack the archive with another tool");
    io::Error::new(ErrorKind::InvalidData, text)
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
