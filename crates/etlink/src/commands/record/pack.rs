//! Work on complete traces after the program: compression, and a copy for TensorBoard.

use super::files::named;
use anyhow::Result;
use etlink_torch::Process;
use flate2::Compression;
use flate2::write::GzEncoder;
use rayon::prelude::*;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Compresses and renames the traces of all ended processes. Returns notes about traces that stay
/// uncompressed.
pub fn pack(folder: &Path, processes: &mut [Process]) -> Vec<String> {
    let cycles = processes.iter_mut().flat_map(|process| &mut process.cycles);
    let names: Vec<&mut String> = cycles
        .flat_map(|cycle| [&mut cycle.host_trace, &mut cycle.device_trace])
        .filter(|name| !name.ends_with(".gz"))
        .collect();
    // compression is slower than the disk: one file per task in rayon's pool
    let failures = names
        .into_par_iter()
        .filter_map(|name| match pack_file(&folder.join(&*name)) {
            Ok(()) => {
                name.push_str(".gz");
                None
            }
            Err(error) => Some(format!("{name} is not compressed: {error}")),
        });
    failures.collect()
}

/// Replaces a file by its compressed form: one of them is always complete.
fn pack_file(path: &Path) -> io::Result<()> {
    let packed = with_ending(path, ".gz");
    let temporary = with_ending(path, ".gz.new");
    let written = write_packed(path, &temporary).and_then(|()| fs::rename(&temporary, &packed));
    if written.is_err() {
        // a partial file is useless, and may not even exist
        drop(fs::remove_file(&temporary));
        return written;
    }
    let removed = fs::remove_file(path);
    if removed.is_err() {
        // one trace under two names would count as two
        drop(fs::remove_file(&packed));
    }
    removed
}

fn write_packed(plain: &Path, packed: &Path) -> io::Result<()> {
    let mut encoder = GzEncoder::new(fs::File::create(packed)?, Compression::default());
    io::copy(&mut fs::File::open(plain)?, &mut encoder)?;
    // the plain file is removed next, so the compressed one has to be on the disk first
    encoder.finish()?.sync_all()
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Puts the device traces into TensorBoard's folder, under names that its plugin expects: worker,
/// span (the time), ending.
pub fn show(folder: &Path, tensorboard: &Path, processes: &[Process]) -> Result<()> {
    for process in processes {
        // a helper process has no rank, and the plugin counts each file as a worker
        let Some(rank) = process.rank else { continue };
        for cycle in &process.cycles {
            let is_packed = cycle.device_trace.ends_with(".gz");
            let ending = if is_packed { ".gz" } else { "" };
            let name = format!(
                "{}_rank{rank}.{}.pt.trace.json{ending}",
                process.host, cycle.clock.unix_ns
            );
            let (trace, target) = (folder.join(&cycle.device_trace), tensorboard.join(name));
            named(link_or_copy(&trace, &target), "write", &target)?;
        }
    }
    Ok(())
}

fn link_or_copy(source: &Path, target: &Path) -> io::Result<()> {
    // avoid copying gigabytes if both folders are on one file system
    if fs::hard_link(source, target).is_ok() {
        return Ok(());
    }
    // the plugin lists the folder while we write, and ignores names with this ending
    let temporary = with_ending(target, ".new");
    let copied = fs::copy(source, &temporary).and_then(|_| fs::rename(&temporary, target));
    if copied.is_err() {
        drop(fs::remove_file(&temporary));
    }
    copied
}
