//! Files made of pieces that are written and compressed in parallel.
//!
//! A gzip file of several members would also work, but Perfetto takes 32 MB of memory per member.
//! Pieces of raw deflate that end on a byte boundary can be concatenated to one member, as in
//! `pigz`.

use super::set::SetPlace;
use super::{OutputPlace, Packing, Target};
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::interrupt::Changes;
use etlink_model::Failure;
use flate2::{Compress, Compression, Crc, FlushCompress};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use tempfile::TempPath;

/// First bytes of a gzip file: deflate, no name, no time, fast level, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// Empty last block of deflate.
const LAST: [u8; 2] = [3, 0];
/// Size of blocks that are passed on, bytes.
const BLOCK: usize = 1 << 16;

/// Part of a file that is still to be joined. Its own file is removed on drop.
pub struct Piece {
    path: TempPath,
    /// Stored size, bytes.
    pub bytes: u64,
    /// Checksum of the uncompressed content.
    sum: Crc,
}

impl Drop for Piece {
    fn drop(&mut self) {
        Changes::begin().remove_unfinished(&self.path);
    }
}

impl Target {
    /// Writes a piece for [`Target::join`], in the same folder as the target.
    ///
    /// # Errors
    /// Fails if the target is a pipe or a device, or the piece cannot be written.
    pub fn piece<T>(
        &self,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<T>,
    ) -> Result<(T, Piece), RunError> {
        let beside = FileAction::WriteBeside;
        let (file, path) = {
            // otherwise a file could appear after a signal handler has cleared the folder
            let mut changes = Changes::begin();
            let mut name = tempfile::Builder::new();
            let piece = name
                .prefix(".etlink-piece-")
                .tempfile_in(self.piece_folder()?);
            let piece = piece.with_path(beside, &self.path)?;
            changes.add_unfinished(piece.path());
            piece.into_parts()
        };
        let mut piece = Piece {
            path,
            bytes: 0,
            sum: Crc::new(),
        };
        let mut packed = self.packed(file);
        let value = fill(&mut packed).with_path(beside, &self.path)?;
        (piece.bytes, piece.sum) = packed.finish().with_path(beside, &self.path)?;
        Ok((value, piece))
    }

    /// Returns the folder of pieces: the target's work folder, or a temporary one for an object,
    /// because stores are not read back.
    fn piece_folder(&self) -> Result<PathBuf, RunError> {
        match &self.place {
            OutputPlace::File { work, .. } => Ok(work.path().to_owned()),
            OutputPlace::Member { set, .. } => match &set.place {
                SetPlace::Disk(work) => Ok(work.path().to_owned()),
                SetPlace::Objects(_) => Ok(std::env::temp_dir()),
            },
            OutputPlace::Object => Ok(std::env::temp_dir()),
            OutputPlace::Stdout | OutputPlace::Stream(_) => {
                let path = self.path.display();
                Err(Failure::new(format!("cannot write next to {path}")).into())
            }
        }
    }

    /// Concatenates pieces into the file, and removes each one after copying. Returns the stored
    /// size, bytes.
    ///
    /// # Errors
    /// Fails like [`Target::write`].
    pub fn join(
        &self,
        begin: &[u8],
        pieces: Vec<Piece>,
        between: &[u8],
        end: &[u8],
    ) -> Result<u64, RunError> {
        let plain = Target {
            packing: Packing::Plain,
            ..self.clone()
        };
        let ((), stored) = plain.write(|out| {
            let mut sum = Crc::new();
            out.write_all(if self.is_gzip() { &HEADER } else { &[] })?;
            self.put(begin, out, &mut sum)?;
            for (at, piece) in pieces.into_iter().enumerate() {
                self.put(if at > 0 { between } else { &[] }, out, &mut sum)?;
                io::copy(&mut File::open(&piece.path)?, out)?;
                // combines the checksums, so that no byte is read again
                sum.combine(&piece.sum);
            }
            self.put(end, out, &mut sum)?;
            if self.is_gzip() {
                out.write_all(&LAST)?;
                out.write_all(&[sum.sum().to_le_bytes(), sum.amount().to_le_bytes()].concat())?;
            }
            Ok(())
        })?;
        Ok(stored)
    }

    fn is_gzip(&self) -> bool {
        self.packing == Packing::Gzip
    }

    fn put(&self, bytes: &[u8], out: &mut (dyn Write + Send), sum: &mut Crc) -> io::Result<()> {
        let mut packed = self.packed(out);
        packed.write_all(bytes)?;
        sum.combine(&packed.finish()?.1);
        Ok(())
    }

    fn packed<W: Write>(&self, sink: W) -> Packed<W> {
        // raw deflate: the file has a single header and trailer, which `join` writes
        let pack = self
            .is_gzip()
            .then(|| Compress::new(Compression::fast(), false));
        Packed {
            sink,
            pack,
            sum: Crc::new(),
            block: Vec::with_capacity(BLOCK),
            bytes: 0,
        }
    }
}

/// Writer that compresses, unless the file is to be plain.
struct Packed<W> {
    sink: W,
    pack: Option<Compress>,
    sum: Crc,
    block: Vec<u8>,
    bytes: u64,
}

impl<W: Write> Packed<W> {
    /// Ends on a byte boundary. Returns the stored size, and the checksum of the content.
    fn finish(mut self) -> io::Result<(u64, Crc)> {
        // an empty piece would still add a block of deflate
        if self.sum.amount() > 0 {
            self.pack(&[], FlushCompress::Sync)?;
        }
        self.sink.flush()?;
        Ok((self.bytes, self.sum))
    }

    fn pack(&mut self, mut bytes: &[u8], flush: FlushCompress) -> io::Result<()> {
        let Some(pack) = &mut self.pack else {
            self.bytes += bytes.len() as u64;
            return self.sink.write_all(bytes);
        };
        loop {
            let before = pack.total_in();
            self.block.clear();
            pack.compress_vec(bytes, &mut self.block, flush)?;
            bytes = bytes
                .get((pack.total_in() - before) as usize..)
                .unwrap_or_default();
            self.sink.write_all(&self.block)?;
            self.bytes += self.block.len() as u64;
            // if the buffer was not filled, the encoder holds nothing back
            if bytes.is_empty() && self.block.len() < self.block.capacity() {
                return Ok(());
            }
        }
    }
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sum.update(bytes);
        self.pack(bytes, FlushCompress::None)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::OutputFormat;
    use std::io::Read;

    #[test]
    fn pieces_are_one_file() {
        let folder = tempfile::tempdir().expect("a folder");
        // more than a block, little, nothing, and incompressible content
        let texts = [
            vec![b'a'; 300_000],
            b"short".to_vec(),
            vec![],
            (0..200_000u32)
                .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
                .collect(),
        ];
        for name in ["x.trace.json.gz", "x.trace.json"] {
            let path = folder.path().join(name);
            let target = Target::new(&path, Some(OutputFormat::Chrome), false).expect("a target");
            let pieces: Vec<Piece> = texts
                .iter()
                .map(|text| target.piece(|out| out.write_all(text)).expect("writes").1)
                .collect();
            let stored = target.join(b"[", pieces, b",", b"]").expect("joins");
            let file = std::fs::read(&path).expect("is there");
            assert_eq!(file.len() as u64, stored);
            let mut whole = vec![];
            if name.ends_with(".gz") {
                // a single member with a valid checksum
                flate2::bufread::GzDecoder::new(&file[..])
                    .read_to_end(&mut whole)
                    .expect("unpacks");
            } else {
                whole = file;
            }
            let want = [b"[", &texts.join(&b","[..])[..], b"]"].concat();
            assert!(
                whole == want,
                "{name}: {} bytes, not {}",
                whole.len(),
                want.len()
            );
        }
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("lists").count(),
            2,
            "the pieces are gone"
        );
    }
}
