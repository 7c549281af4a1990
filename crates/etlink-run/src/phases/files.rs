//! Files that phases exchange, one per shard: a line with the kind and version, then the content.

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

/// zstd level: summaries of traces are repetitive; higher levels take longer and gain little.
const ZSTD_LEVEL: i32 = 3;

/// Limit on the unpacked size of a valid file; summaries take some 40 bytes per communication.
const MAX_UNPACKED_BYTES: u64 = 2 << 30;

/// Files of one kind in a folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardFiles<'f> {
    pub(crate) folder: &'f Path,
    /// Prefix of the file names.
    pub(crate) stem: &'static str,
    /// Version of the files, increased whenever their content changes.
    pub(crate) version: u32,
}

impl ShardFiles<'_> {
    /// Returns the first line of each file.
    fn head(&self) -> String {
        format!("etlink {} {}\n", self.stem, self.version)
    }

    /// Returns the path of a shard's file, such as `summaries.3-of-64`.
    pub(crate) fn path(&self, shard: Shard) -> PathBuf {
        self.folder.join(self.name(shard))
    }

    fn name(&self, shard: Shard) -> String {
        let (index, count) = (shard.index(), shard.count());
        format!("{}.{index}-of-{count}", self.stem)
    }

    /// Returns the shard of a file name; `None` if it is another file.
    fn shard_of(&self, name: &str) -> Option<Shard> {
        let rest = name.strip_prefix(self.stem)?.strip_prefix('.')?;
        let (index, count) = rest.split_once("-of-")?;
        let shard = Shard::new(index.parse().ok()?, count.parse().ok()?).ok()?;
        // numbers with leading zeros are never written
        (self.name(shard) == name).then_some(shard)
    }

    /// Returns the shards with files in the folder, in order; none if the folder does not exist.
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
        // the order of a listing is arbitrary
        shards.sort_unstable();
        Ok(shards)
    }

    /// Returns the shards with files in the folder, which must be all shards of a single total
    /// number.
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

    /// Writes a file with the content that `fill` writes. An earlier file is replaced atomically.
    pub(crate) fn write_with(
        &self,
        shard: Shard,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<PathBuf, OutputError> {
        let path = self.path(shard);
        storage::make_folders(self.folder).with_path(FileAction::MakeFolder, self.folder)?;
        // the format is irrelevant: a target is used to replace the file atomically
        let target = Target::new(&path, Some(OutputFormat::EtPlus), true)?;
        target.write(|out| {
            out.write_all(self.head().as_bytes())?;
            fill(out)
        })?;
        Ok(path)
    }

    /// Writes a value in [postcard](https://postcard.jamesmunns.com/wire-format), compressed by
    /// zstd with a checksum.
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

    /// Removes a shard's file.
    pub(crate) fn remove(&self, shard: Shard) -> Result<(), OutputError> {
        let path = self.path(shard);
        storage::remove(&path).with_path(FileAction::Remove, &path)?;
        Ok(())
    }

    /// Opens a shard's file, positioned after its first line.
    pub(crate) fn open(&self, shard: Shard) -> Result<StoredShard, PhaseError> {
        let path = self.path(shard);
        // reading a pipe would block
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

    /// Reads a value written by [`ShardFiles::write`].
    pub(crate) fn read<T: DeserializeOwned>(&self, shard: Shard) -> Result<T, PhaseError> {
        let bytes = self.read_packed(shard)?;
        postcard::from_bytes(&bytes).map_err(|_| PhaseError::Damaged {
            path: self.path(shard),
        })
    }

    /// Reads the [packed](pack) content after a file's first line.
    pub(crate) fn read_packed(&self, shard: Shard) -> Result<Vec<u8>, PhaseError> {
        let StoredShard { path, mut content } = self.open(shard)?;
        let mut packed = vec![];
        if let Err(error) = content.read_to_end(&mut packed) {
            return Err(PhaseError::unreadable(&path, error));
        }
        unpack(&packed).ok_or(PhaseError::Damaged { path })
    }
}

/// A shard's file, read from its beginning.
pub(crate) struct StoredShard {
    path: PathBuf,
    content: BufReader<Box<dyn Read + Send>>,
}

impl StoredShard {
    /// Reads and unpacks the next piece.
    pub(crate) fn next_piece(&mut self) -> Result<Vec<u8>, PhaseError> {
        let piece = self.read_piece();
        let unreadable = |error| PhaseError::unreadable(&self.path, error);
        let piece = piece.map_err(unreadable)?;
        piece
            .and_then(|packed| unpack(&packed))
            .ok_or_else(|| self.damaged())
    }

    /// Creates the error for a truncated or modified file.
    pub(crate) fn damaged(&self) -> PhaseError {
        PhaseError::Damaged {
            path: self.path.clone(),
        }
    }

    /// Reads a packed piece; `None` if the file ends before the piece does.
    fn read_piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let (mut length, mut packed) = ([0; 8], vec![]);
        match self.content.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let length = u64::from_le_bytes(length);
        // a damaged length allocates no memory: only existing bytes are read
        let mut piece = self.content.by_ref().take(length);
        piece.read_to_end(&mut packed)?;
        Ok((packed.len() as u64 == length).then_some(packed))
    }
}

/// Writes a [packed](pack) piece, preceded by its length.
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

/// Unpacks bytes; `None` if they are damaged.
fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    let unpacker = zstd::Decoder::new(packed).ok()?;
    let mut limited = unpacker.take(MAX_UNPACKED_BYTES);
    limited.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
