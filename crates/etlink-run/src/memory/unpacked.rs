//! How large a file is unpacked, told without unpacking it.

use crate::storage::{self, StoredKind};
use std::io::Read;
use std::path::Path;

/// How many times smaller gzip makes traces: 8 to 32 measured, this is in the middle of it. The
/// estimate where a file does not tell its size: a bound would refuse what fits.
const PACKED_USUAL: u64 = 16;
/// More than zstd -19 makes of any trace measured (49).
const PACKED_MOST: u64 = 50;
/// More than this deflate cannot do.
const DEFLATE_MOST: u64 = 1032;
/// Where gzip's count of bytes begins anew.
const WRAP: u64 = 1 << 32;

/// Unpacked size of a file as its ends tell it, bytes; `None` for what is no file.
pub(crate) fn unpacked_size(path: &Path) -> Option<u64> {
    // pipes are not to be opened twice
    let data = storage::file_data(path).ok()?;
    if data.kind != StoredKind::File {
        return None;
    }
    let stored = data.bytes;
    let mut head = vec![];
    let file = storage::open(path).ok()?;
    file.content.take(18).read_to_end(&mut head).ok()?;
    Some(match head[..] {
        [0x1f, 0x8b, ..] => {
            let mut trailer = [0; 4];
            if storage::read_end(path, &mut trailer).is_err() {
                // a web server need not give out a part of a file
                return Some(usual_size(stored));
            }
            of_gzip(stored, u32::from_le_bytes(trailer))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => of_zstd(stored, &head),
        // a skippable frame, which tells nothing of the next
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => usual_size(stored),
        _ => stored,
    })
}

/// The trailer has the size modulo 2^32, of the last member alone where there are several (BGZF: of
/// an empty one). Of the sizes that fit it and that gzip can make of a trace, this is the one that
/// it usually makes.
fn of_gzip(stored: u64, trailer: u32) -> u64 {
    let (told, usual) = (u64::from(trailer), usual_size(stored));
    // the size modulo 4 GiB leaves one unknown, the number of wraps: the usual ratio settles it
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
        // gzip never makes a file much larger, so that half is a safe lower bound
        (stored / 2..=stored.saturating_mul(most)).contains(&size)
    });
    // by ratio: twice as much is as far off as half
    let distance = |size: &u64| (*size as f64 / usual as f64).ln().abs();
    possible
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))
        .unwrap_or(usual)
}

/// The size of the first frame, where its header tells it; there may be more frames.
fn of_zstd(stored: u64, head: &[u8]) -> u64 {
    match zstd::zstd_safe::get_frame_content_size(head) {
        // a first frame that is smaller than the file is not all of it
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
