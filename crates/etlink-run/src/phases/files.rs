//! The files that phases hand to each other, one for each shard: a line that says what and which
//! version, then what the phase has for the next.

use super::error::PhaseError;
use super::shard::Shard;
use crate::file_error::{FileAction, FileContext};
use crate::file_kind::may_be_file;
use crate::output::{OutputError, OutputFormat, Target};
use crate::storage;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Summaries of traces repeat themselves; higher levels take longer and win little.
const ZSTD_LEVEL: i32 = 3;

/// What is larger unpacked is no file of ours: summaries take some 40 bytes for each communication.
const MAX_UNPACKED_BYTES: u64 = 2 << 30;

/// Files of one kind in a folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardFiles<'f> {
    pub(crate) folder: &'f Path,
    /// What their names begin with.
    pub(crate) stem: &'static str,
    /// Counted up whenever what is in the files changes.
    pub(crate) version: u32,
}

impl ShardFiles<'_> {
    /// The first line of each.
    fn head(&self) -> String {
        format!("etlink {} {}\n", self.stem, self.version)
    }

    /// `summaries.3-of-64`.
    pub(crate) fn path(&self, shard: Shard) -> PathBuf {
        self.folder.join(self.name(shard))
    }

    fn name(&self, shard: Shard) -> String {
        let (index, count) = (shard.index(), shard.count());
        format!("{}.{index}-of-{count}", self.stem)
    }

    /// The shard that the file of this name is of; `None` if it is another file.
    fn shard_of(&self, name: &str) -> Option<Shard> {
        let rest = name.strip_prefix(self.stem)?.strip_prefix('.')?;
        let (index, count) = rest.split_once("-of-")?;
        let shard = Shard::new(index.parse().ok()?, count.parse().ok()?).ok()?;
        // a number with zeros before it is nobody's name
        (self.name(shard) == name).then_some(shard)
    }

    /// The shards whose files lie in the folder, in order; none where there is no folder.
    pub(crate) fn shards(&self) -> Result<Vec<Shard>, PhaseError> {
        let entries = match storage::list(self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(PhaseError::unreadable(self.folder, error)),
        };
        let mut shards = vec![];
        for entry in entries {
            let name = entry.name();
            shards.extend(name.to_str().and_then(|name| self.shard_of(name)));
        }
        // folders are listed in any order
        shards.sort_unstable();
        Ok(shards)
    }

    /// The shards that were summarized: all of one number of them.
    pub(crate) fn all_shards(&self) -> Result<Vec<Shard>, PhaseError> {
        let found = self.shards()?;
        let Some(first) = found.first() else {
            return Err(PhaseError::NoSummaries {
                folder: self.folder.to_owned(),
            });
        };
        let other = found.iter().find(|shard| shard.count() != first.count());
        if let Some(other) = other {
            return Err(PhaseError::SeveralCounts {
                folder: self.folder.to_owned(),
                one: first.count(),
                other: other.count(),
            });
        }
        let all: Vec<Shard> = first.siblings().collect();
        let missing = all.iter().filter(|shard| !found.contains(shard));
        let missing: Vec<u32> = missing.map(|shard| shard.index()).collect();
        if !missing.is_empty() {
            let count = first.count();
            return Err(PhaseError::MissingShards { missing, count });
        }
        Ok(all)
    }

    /// Writes what `fill` writes; an earlier file is replaced as a whole.
    pub(crate) fn write_with(
        &self,
        shard: Shard,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<PathBuf, OutputError> {
        let path = self.path(shard);
        storage::make_folders(self.folder).with_path(FileAction::MakeFolder, self.folder)?;
        // the format says nothing here: a target is what replaces a file as a whole
        let target = Target::new(&path, Some(OutputFormat::EtPlus), true)?;
        target.write(|out| {
            out.write_all(self.head().as_bytes())?;
            fill(out)
        })?;
        Ok(path)
    }

    /// Writes a value: [postcard](https://postcard.jamesmunns.com/wire-format) packed by zstd with
    /// a checksum.
    pub(crate) fn write<T: Serialize>(
        &self,
        shard: Shard,
        content: &T,
    ) -> Result<PathBuf, OutputError> {
        self.write_with(shard, |out| {
            let bytes = postcard::to_stdvec(content).map_err(io::Error::other)?;
            out.write_all(&pack(&bytes)?)
        })
    }

    /// Removes it.
    pub(crate) fn remove(&self, shard: Shard) -> Result<(), OutputError> {
        let path = self.path(shard);
        storage::remove(&path).with_path(FileAction::Remove, &path)?;
        Ok(())
    }

    /// Opens it behind its first line.
    pub(crate) fn open(&self, shard: Shard) -> Result<StoredShard, PhaseError> {
        let path = self.path(shard);
        // a pipe would be waited for
        if !may_be_file(&path) {
            return Err(PhaseError::NoFile { path });
        }
        let opened = storage::open(&path);
        let opened = opened.map_err(|error| PhaseError::unreadable(&path, error))?;
        let mut content = BufReader::new(opened.content);
        let head = self.head();
        let mut first = vec![];
        let mut line = content.by_ref().take(head.len() as u64);
        line.read_until(b'\n', &mut first)
            .map_err(|error| PhaseError::unreadable(&path, error))?;
        if first != head.as_bytes() {
            return Err(PhaseError::OtherVersion { path });
        }
        Ok(StoredShard { path, content })
    }

    /// Reads the value that [`ShardFiles::write`] wrote.
    pub(crate) fn read<T: DeserializeOwned>(&self, shard: Shard) -> Result<T, PhaseError> {
        let bytes = self.read_packed(shard)?;
        postcard::from_bytes(&bytes).map_err(|_| PhaseError::Damaged {
            path: self.path(shard),
        })
    }

    /// Reads what is [packed](pack) behind its first line.
    pub(crate) fn read_packed(&self, shard: Shard) -> Result<Vec<u8>, PhaseError> {
        let StoredShard { path, mut content } = self.open(shard)?;
        let mut packed = vec![];
        if let Err(error) = content.read_to_end(&mut packed) {
            return Err(PhaseError::unreadable(&path, error));
        }
        unpack(&packed).ok_or(PhaseError::Damaged { path })
    }
}

/// A file of a shard that is read from its beginning.
pub(crate) struct StoredShard {
    path: PathBuf,
    content: BufReader<Box<dyn Read + Send>>,
}

impl StoredShard {
    /// The next of its pieces, unpacked.
    pub(crate) fn next_piece(&mut self) -> Result<Vec<u8>, PhaseError> {
        let piece = self.read_piece();
        let unreadable = |error| PhaseError::unreadable(&self.path, error);
        let piece = piece.map_err(unreadable)?;
        piece
            .and_then(|packed| unpack(&packed))
            .ok_or_else(|| self.damaged())
    }

    /// It is cut or changed.
    pub(crate) fn damaged(&self) -> PhaseError {
        PhaseError::Damaged {
            path: self.path.clone(),
        }
    }

    /// `None` where the file ends before the piece does.
    fn read_piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let (mut length, mut packed) = ([0; 8], vec![]);
        match self.content.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let length = u64::from_le_bytes(length);
        // a length of a damaged file takes no memory: only what is there is read
        let mut piece = self.content.by_ref().take(length);
        piece.read_to_end(&mut packed)?;
        Ok((packed.len() as u64 == length).then_some(packed))
    }
}

/// Writes a piece that is [packed](pack), behind its length.
pub(crate) fn write_piece(out: &mut dyn Write, packed: &[u8]) -> io::Result<()> {
    out.write_all(&(packed.len() as u64).to_le_bytes())?;
    out.write_all(packed)
}

/// Packs bytes by zstd with a checksum.
pub(crate) fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = zstd::Encoder::new(vec![], ZSTD_LEVEL)?;
    packer.include_checksum(true)?;
    packer.write_all(bytes)?;
    packer.finish()
}

/// What is packed; `None` where it is damaged.
fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    let unpacker = zstd::Decoder::new(packed).ok()?;
    let mut limited = unpacker.take(MAX_UNPACKED_BYTES);
    limited.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
