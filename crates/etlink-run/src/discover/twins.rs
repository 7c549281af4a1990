//! Drops one of each pair of files that exist both plain and compressed (`gunzip -k`).

use crate::memory::unpacked_size;
use crate::storage;
use etlink_model::{Diagnostic, diagnostic};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Bytes at the end of a text that contain its last character; line ends may follow.
const END_BYTES: u64 = 16;

/// Keeps one file of each pair, and returns notes on the others. Keeps the plain one, unless it is
/// a dangling link, or truncated and smaller than the compressed content.
pub(crate) fn without_packed_twins(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<Diagnostic>) {
    let is_packed = |file: &Path| {
        let ending = file.extension();
        ending.is_some_and(|ending| ending == "gz" || ending == "zst")
    };
    let plain: BTreeSet<&PathBuf> = files.iter().filter(|file| !is_packed(file)).collect();
    let twins = files.iter().filter(|file| is_packed(file));
    let twins = twins.filter(|file| plain.contains(&file.with_extension("")));
    let (mut left_out, mut notes) = (BTreeSet::new(), vec![]);
    for packed in twins {
        let plain = packed.with_extension("");
        if left_out.contains(&plain) {
            // compressed in two ways: the first one is read
            notes.push(diagnostic!(
                FileLeftOut,
                "{} is left out: the folder has another compressed copy",
                packed.display()
            ));
            left_out.insert(packed.clone());
        } else if !storage::exists(&plain) {
            notes.push(diagnostic!(
                FileLeftOut,
                "{} is a broken link: reading {} instead",
                plain.display(),
                packed.display()
            ));
            left_out.insert(plain);
        } else if is_cut_twin(&plain, packed) {
            notes.push(diagnostic!(
                FileLeftOut,
                "{} is truncated: reading {} instead, which has more data",
                plain.display(),
                packed.display()
            ));
            left_out.insert(plain);
        } else {
            notes.push(diagnostic!(
                FileLeftOut,
                "{} is left out: the folder has an uncompressed copy",
                packed.display()
            ));
            left_out.insert(packed.clone());
        }
    }
    let files = files.iter().filter(|file| !left_out.contains(*file));
    (files.cloned().collect(), notes)
}

/// Returns true if a plain trace is truncated, and its compressed twin contains more. Only reads
/// the ends of both.
fn is_cut_twin(plain: &Path, packed: &Path) -> bool {
    // other kinds of files have no fixed last character
    let is_json = plain.extension().is_some_and(|ending| ending == "json");
    if !is_json {
        return false;
    }
    let Some(bytes) = storage::file_data(plain).ok() else {
        return false;
    };
    // the size of a truncated compressed file is an estimate, and a complete plain file is as good
    !has_end(plain, bytes.bytes) && unpacked_size(packed).is_some_and(|size| size > bytes.bytes)
}

/// Returns true if a file of `bytes` bytes ends like JSON, or if its end cannot be read.
fn has_end(path: &Path, bytes: u64) -> bool {
    let mut end = vec![0; bytes.min(END_BYTES) as usize];
    if storage::read_end(path, &mut end).is_err() {
        return true;
    }
    let last = end.iter().rfind(|byte| !byte.is_ascii_whitespace());
    last.is_some_and(|last| matches!(last, b'}' | b']'))
}
