//! Compression of results.

use flate2::{Compression, write::GzEncoder};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// zstd level; 3 is its default.
const ZSTD_LEVEL: i32 = 3;

/// Size of blocks of compressed output. Encoders return a few kilobytes at a time, and
/// each would be a system call.
const BLOCK_BYTES: usize = 1 << 20;

/// First bytes of a gzip file from [`Packing::write`]: deflate, no name, no time, fast level,
/// unknown system. The program gzip writes a name, a time or the system.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// First bytes of a zstd file from [`Packing::write`]: its magic number, and a header with a
/// checksum and without a length. The program zstd writes the length of a file.
const ZSTD_HEAD: [u8; 5] = [0x28, 0xb5, 0x2f, 0xfd, 0x04];

/// Compression of a result. Simulators only read plain files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Packing {
    /// No compression.
    #[default]
    Plain,
    /// gzip.
    Gzip,
    /// zstd, which compresses a `.et` better and faster.
    Zstd,
}

impl Packing {
    /// Returns the ending of file names.
    pub fn ending(self) -> &'static str {
        match self {
            Packing::Plain => "",
            Packing::Gzip => ".gz",
            Packing::Zstd => ".zst",
        }
    }

    /// Returns the compression that a lower-case name states, and the name without its ending. Only
    /// `.et` files may use zstd: readers of other results only support gzip.
    pub(crate) fn of_name(name: &str) -> (Packing, &str) {
        if let Some(plain) = name.strip_suffix(".gz") {
            return (Packing::Gzip, plain);
        }
        match name.strip_suffix(".zst") {
            Some(plain) if plain.ends_with(".et") => (Packing::Zstd, plain),
            _ => (Packing::Plain, name),
        }
    }

    /// Calls `fill` to write the content, compressed into `sink`.
    pub(super) fn write<T>(
        self,
        mut sink: &mut (dyn Write + Send),
        fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<T>,
    ) -> io::Result<T> {
        match self {
            Packing::Plain => fill(&mut sink),
            Packing::Gzip => {
                // the fastest level: traces are repetitive, and compression limits the speed of
                // writing
                let sink = BufWriter::with_capacity(BLOCK_BYTES, sink);
                let mut packed = GzEncoder::new(sink, Compression::fast());
                let value = fill(&mut packed)?;
                packed.finish()?.flush()?;
                Ok(value)
            }
            Packing::Zstd => {
                let sink = BufWriter::with_capacity(BLOCK_BYTES, sink);
                let mut packed = zstd::Encoder::new(sink, ZSTD_LEVEL)?;
                packed.include_checksum(true)?;
                let value = fill(&mut packed)?;
                packed.finish()?.flush()?;
                Ok(value)
            }
        }
    }

    /// Returns true if a file that begins with `head` was compressed by [`Packing::write`]. A copy
    /// compressed by a user begins differently.
    pub(crate) fn is_own(head: &[u8]) -> bool {
        head.starts_with(&GZIP_HEAD) || head.starts_with(&ZSTD_HEAD)
    }
}

/// Returns the compression that the name of a file states.
pub(super) fn packing_of(path: &Path) -> Packing {
    let name = path.file_name().unwrap_or_default();
    Packing::of_name(&name.to_string_lossy().to_lowercase()).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_how_a_result_is_packed() {
        for (name, packing, plain) in [
            ("x.et", Packing::Plain, "x.et"),
            ("x.et.gz", Packing::Gzip, "x.et"),
            ("x.et.zst", Packing::Zstd, "x.et"),
            ("x.json.gz", Packing::Gzip, "x.json"),
            ("x.json.zst", Packing::Plain, "x.json.zst"),
        ] {
            assert_eq!(Packing::of_name(name), (packing, plain), "{name}");
        }
    }

    fn packed(packing: Packing, parts: &[&[u8]]) -> Vec<u8> {
        let mut out = vec![];
        let filled = packing.write(&mut out, |sink| {
            parts.iter().try_for_each(|part| sink.write_all(part))
        });
        filled.expect("packs");
        out
    }

    #[test]
    fn bytes_do_not_depend_on_how_they_come() {
        let text: Vec<u8> = (0..400_000u32)
            .flat_map(|n| (n / 7).to_le_bytes())
            .collect();
        for packing in [Packing::Gzip, Packing::Zstd] {
            let whole = packed(packing, &[&text]);
            assert!(Packing::is_own(&whole), "{packing:?}");
            let pieces: Vec<&[u8]> = text.chunks(300_000).collect();
            assert_eq!(packed(packing, &pieces), packed(packing, &pieces));
            let mut unpacked = vec![];
            match packing {
                Packing::Gzip => {
                    let mut reader = flate2::read::GzDecoder::new(&whole[..]);
                    io::Read::read_to_end(&mut reader, &mut unpacked).expect("unpacks");
                }
                _ => unpacked = zstd::decode_all(&whole[..]).expect("unpacks"),
            }
            assert_eq!(unpacked, text);
        }
        assert_eq!(packed(Packing::Plain, &[&text]), text);
        assert!(!Packing::is_own(
            &zstd::bulk::compress(&text, 3).expect("packs")
        ));
    }
}
