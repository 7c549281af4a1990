//! How a result is packed.

use flate2::{Compression, write::GzEncoder};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The level of zstd: level 3 is its own default.
const ZSTD_LEVEL: i32 = 3;

/// Packed bytes are handed on in blocks of this size: encoders give out a few kilobytes at a time,
/// each of them a call of the system.
const BLOCK_BYTES: usize = 1 << 20;

/// What a gzip file of [`Packing::write`] begins with: deflate, no name, no time, packed fast, on
/// any system. The program gzip writes a name, a time or the system.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// The same of zstd: its magic number and a header that states a checksum and no length. The program
/// zstd states the length of a file.
const ZSTD_HEAD: [u8; 5] = [0x28, 0xb5, 0x2f, 0xfd, 0x04];

/// How a result is packed. Simulators read plain files alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Packing {
    /// Not at all.
    #[default]
    Plain,
    /// gzip.
    Gzip,
    /// zstd, which packs a `.et` smaller and quicker.
    Zstd,
}

impl Packing {
    /// What names of files end in.
    pub fn ending(self) -> &'static str {
        match self {
            Packing::Plain => "",
            Packing::Gzip => ".gz",
            Packing::Zstd => ".zst",
        }
    }

    /// What a name in lower case says, and the name without it. Of all results only a `.et` is
    /// packed by zstd: what else reads the others unpacks gzip alone.
    pub(crate) fn of_name(name: &str) -> (Packing, &str) {
        if let Some(plain) = name.strip_suffix(".gz") {
            return (Packing::Gzip, plain);
        }
        match name.strip_suffix(".zst") {
            Some(plain) if plain.ends_with(".et") => (Packing::Zstd, plain),
            _ => (Packing::Plain, name),
        }
    }

    /// Has `fill` write the content, packed into `sink`.
    pub(super) fn write<T>(
        self,
        mut sink: &mut (dyn Write + Send),
        fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<T>,
    ) -> io::Result<T> {
        match self {
            Packing::Plain => fill(&mut sink),
            Packing::Gzip => {
                // the fastest level: traces repeat themselves, and packing is what writing waits for
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

    /// Whether a file that begins with `head` is packed as [`Packing::write`] packs. A copy that
    /// somebody has packed begins otherwise.
    pub(crate) fn is_own(head: &[u8]) -> bool {
        head.starts_with(&GZIP_HEAD) || head.starts_with(&ZSTD_HEAD)
    }
}

/// What the name of a file says of its packing.
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
