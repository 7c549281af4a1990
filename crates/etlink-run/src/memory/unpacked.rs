//! Estimates the unpacked size of a file without unpacking it.

use crate::input::database::MAGIC;
use crate::storage::{self, FileEnds, StoredKind};
use std::path::Path;

/// Usual ratio of gzip for traces: in the middle of the measured 8 to 32. The estimate for files
/// that do not state their size, because an upper bound would refuse files that fit.
const PACKED_USUAL: u64 = 16;
/// Ratio above the highest that zstd -19 reached for any measured trace (49).
const PACKED_MOST: u64 = 50;
/// Maximum ratio of deflate.
const DEFLATE_MOST: u64 = 1032;
/// Modulus of the size in gzip's trailer.
const WRAP: u64 = 1 << 32;

/// Bytes that state the size of a zstd frame, or that the file is a database.
const HEAD_BYTES: u64 = 18;

/// Estimated size of a file.
#[derive(Clone, Copy)]
pub(crate) struct FileSize {
    pub(crate) unpacked: u64,
    /// True if the file begins like an SQLite database.
    pub(crate) is_database: bool,
}

/// Estimates the unpacked size of a file; `None` if it is not a regular file.
pub(crate) fn unpacked_size(path: &Path) -> Option<u64> {
    file_size(path).map(|size| size.unpacked)
}

/// Estimates the size of a file from its first and last bytes; `None` if it is not a regular file.
pub(crate) fn file_size(path: &Path) -> Option<FileSize> {
    // pipes must not be opened twice
    let data = storage::file_data(path).ok()?;
    if data.kind != StoredKind::File {
        return None;
    }
    let ends = storage::read_ends(path, HEAD_BYTES).ok()?;
    Some(FileSize {
        unpacked: size_by_ends(data.bytes, &ends),
        is_database: ends.head.starts_with(MAGIC),
    })
}

fn size_by_ends(stored: u64, ends: &FileEnds) -> u64 {
    match (&ends.head[..], ends.gzip_trailer) {
        (_, Some(trailer)) => of_gzip(stored, u32::from_le_bytes(trailer)),
        ([0x28, 0xb5, 0x2f, 0xfd, ..], _) => of_zstd(stored, &ends.head),
        // gzip without a trailer, or a skippable frame, which says nothing about the next
        ([0x1f, 0x8b, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..], _) => usual_size(stored),
        _ => stored,
    }
}

/// Estimates the size from the trailer, which is the size of the last member modulo 2^32 (BGZF: of
/// an empty one). Among the sizes that fit the trailer and that gzip can produce for a trace,
/// returns the one closest to the usual ratio.
fn of_gzip(stored: u64, trailer: u32) -> u64 {
    let (told, usual) = (u64::from(trailer), usual_size(stored));
    // the trailer leaves the number of wraps unknown: the usual ratio determines it
    let wraps = usual.saturating_sub(told) / WRAP;
    let sizes = [0, wraps, wraps + 1]
        .into_iter()
        .map(|wraps| told.saturating_add(wraps.saturating_mul(WRAP)));
    let possible = sizes.filter(|&size| {
        let most = if size == told {
            DEFLATE_MOST
        } else {
            PACKED_MOST
        };
        // gzip never enlarges a file much, so half is a safe lower bound
        (stored / 2..=stored.saturating_mul(most)).contains(&size)
    });
    // by ratio: twice the size is as far off as half
    let distance = |size: &u64| (*size as f64 / usual as f64).ln().abs();
    possible
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))
        .unwrap_or(usual)
}

/// Returns the size of the first frame if its header states it; more frames may follow.
fn of_zstd(stored: u64, head: &[u8]) -> u64 {
    match zstd::zstd_safe::get_frame_content_size(head) {
        // a first frame that is smaller than the file is not the whole content
        Ok(Some(size)) if size >= stored => size,
        _ => usual_size(stored),
    }
}

fn usual_size(stored: u64) -> u64 {
    stored.saturating_mul(PACKED_USUAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    #[test]
    fn gzip_by_its_trailer() {
        for (stored, unpacked) in [
            (MB, 20 * MB),
            (20, 0),
            (30, 40),
            (100 * MB, 1_700 * MB),
            (200 * MB, 4_500 * MB),
            (300 * MB, 5_000 * MB),
            (2_000 * MB, 30_000 * MB),
        ] {
            let told = of_gzip(stored, (unpacked % (1 << 32)) as u32);
            assert!(
                told == unpacked || unpacked == 0,
                "{stored} bytes: {told}, is {unpacked}"
            );
        }
    }

    #[test]
    fn trailers_that_cannot_be_true_tell_nothing() {
        for trailer in [0, 1, u32::MAX] {
            assert_eq!(of_gzip(MB, trailer), 16 * MB, "{trailer}");
        }
        assert!(of_gzip(u64::MAX, 7) > 0);
    }
}
