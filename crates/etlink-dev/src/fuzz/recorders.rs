//! Fuzzes the formats of other recorders: damaged files cause no panic.

use super::corpus::{read_unpacked, sorted_entries};
use anyhow::{Result, ensure};
use etlink_formats::rocm::{read_rocpd, read_rocprof_json, rocpd_processes};
use etlink_formats::sqlite::set_safe_limits;
use etlink_formats::xla::{XlaReadOptions, read_space, read_trace_json};
use etlink_link::LinkOptions;
use etlink_model::{DeviceTrace, KeepEvents};
use rusqlite::{Connection, MAIN_DB};
use std::path::Path;

/// Reads the recordings in testdata, by their form.
pub(super) fn read_recordings() -> Result<Vec<(String, Vec<u8>)>> {
    let mut recordings = vec![];
    for entry in sorted_entries(Path::new("testdata/recorders"))? {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((_, form)) = name.split_once('.')
            && let Some(form) = form.strip_suffix(".gz")
        {
            recordings.push((form.to_owned(), read_unpacked(&entry.path())?));
        }
    }
    Ok(recordings)
}

/// Reads a recording of testdata with damage.
pub(super) fn check_recorders(
    recordings: &[(String, Vec<u8>)],
    random: &mut fastrand::Rng,
) -> Result<()> {
    let (form, whole) = &recordings[random.usize(..recordings.len())];
    for bytes in damaged_files(whole, random) {
        match form.as_str() {
            "rocprof.json" => drop(read_rocprof_json(&bytes[..]).map(link_alone)),
            "rocpd.db" => read_database(&bytes)?,
            "xplane.pb" => drop(read_space(&bytes[..], options(1)).map(link_alone)),
            _ => {
                let rows = |threads| {
                    let read = read_trace_json(&bytes[..], options(threads));
                    read.ok().map(|trace| trace.rows.len())
                };
                ensure!(rows(1) == rows(3), "1 and 3 threads give different rows");
                drop(read_trace_json(&bytes[..], options(1)).map(link_alone));
            }
        }
    }
    Ok(())
}

fn options(threads: usize) -> XlaReadOptions {
    XlaReadOptions {
        threads,
        keep: KeepEvents::Auxiliary,
    }
}

/// Reads a rocpd database; one whose pages are no database is rejected as a whole.
fn read_database(bytes: &[u8]) -> Result<()> {
    let mut damaged = Connection::open_in_memory()?;
    let opened = damaged.deserialize_read_exact(MAIN_DB, bytes, bytes.len(), true);
    if opened.is_ok() && set_safe_limits(&mut damaged).is_ok() {
        rocpd_processes(&damaged).ok();
        read_rocpd(&damaged, None).map(link_alone).ok();
    }
    Ok(())
}

/// Links a device trace; a rejection is acceptable.
fn link_alone(device: DeviceTrace) {
    drop(etlink_link::link(None, device, LinkOptions::default()));
}

/// Returns the file truncated, and with some bytes changed.
pub(super) fn damaged_files(bytes: &[u8], random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
    let mut damaged = vec![bytes[..random.usize(..=bytes.len())].to_vec()];
    for _ in 0..4 {
        let mut changed = bytes.to_vec();
        for _ in 0..random.usize(1..8) {
            let place = random.usize(..changed.len());
            changed[place] = random.u8(..);
        }
        damaged.push(changed);
    }
    damaged
}
