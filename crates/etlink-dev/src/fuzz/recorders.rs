//! Fuzzes the formats of other recorders: the same work reads back as the same rows, and damaged
//! files cause no panic.

use anyhow::{Context, Result, ensure};
use etlink_formats::rocm::{read_rocpd, read_rocprof_json, rocpd_processes};
use etlink_formats::sqlite::set_safe_limits;
use etlink_formats::xla::{XlaReadOptions, read_space, read_trace_json};
use etlink_link::LinkOptions;
use etlink_model::{DeviceTrace, KeepEvents, TimeNs};
use etlink_testing::{rocprof_json, write_rocpd, xla_json, xla_space};
use rusqlite::{Connection, MAIN_DB};

/// Writes and reads both formats, whole and damaged.
pub(super) fn check_recorders(device: &DeviceTrace, threads: usize) -> Result<()> {
    let space = xla_space(device);
    let json = xla_json(device);
    let options = XlaReadOptions {
        threads,
        keep: KeepEvents::Auxiliary,
    };
    // Times near the maximum overflow as picoseconds, and names may be invalid in JSON.
    if has_usual_times(device) {
        let read = read_space(&space[..], options).context("an own profile cannot be read")?;
        compare_rows(device, &read)?;
    }
    let rocm = rocprof_json(device);
    for bytes in damaged_files(&rocm).iter().chain([&rocm]) {
        read_rocprof_json(&bytes[..]).map(link_alone).ok();
    }
    check_database(device)?;
    for bytes in damaged_files(&space) {
        read_space(&bytes[..], options).map(link_alone).ok();
    }
    for bytes in damaged_files(&json).iter().chain([&json]) {
        read_trace_json(&bytes[..], options).map(link_alone).ok();
    }
    Ok(())
}

/// Checks a rocpd database, and copies with damaged pages.
fn check_database(device: &DeviceTrace) -> Result<()> {
    let mut connection = Connection::open_in_memory()?;
    write_rocpd(device, "_0197a", &connection).context("a database cannot be written")?;
    let read = read_rocpd(&connection, None).context("an own database cannot be read")?;
    drop(etlink_link::link(None, read, LinkOptions::default()));
    let whole = connection.serialize(MAIN_DB)?.to_vec();
    for bytes in damaged_files(&whole) {
        let mut damaged = Connection::open_in_memory()?;
        let opened = damaged.deserialize_read_exact(MAIN_DB, &bytes[..], bytes.len(), true);
        // A file that is no longer a database is rejected as a whole.
        if opened.is_err() || set_safe_limits(&mut damaged).is_err() {
            continue;
        }
        rocpd_processes(&damaged).ok();
        read_rocpd(&damaged, None).map(link_alone).ok();
    }
    Ok(())
}

/// Links a device trace; a rejection is acceptable.
fn link_alone(device: DeviceTrace) {
    drop(etlink_link::link(None, device, LinkOptions::default()));
}

/// Returns true if all rows are within some years of the origin.
fn has_usual_times(device: &DeviceTrace) -> bool {
    let limit = 1 << 53;
    let is_usual = |time: &TimeNs| time.0.abs() < limit;
    let ends = device.rows.start.iter().zip(&device.rows.duration);
    let ops = device.ops.start.iter().chain(&device.calls.start);
    ops.chain(&device.rows.start).all(is_usual) && ends.map(|(s, d)| *s + *d).all(|e| is_usual(&e))
}

/// Compares the rows of both traces by time and name.
fn compare_rows(one: &DeviceTrace, two: &DeviceTrace) -> Result<()> {
    let all = |trace: &DeviceTrace| -> Vec<(i64, i64, String)> {
        let rows = 0..trace.rows.len();
        let mut all: Vec<_> = rows
            .map(|row| trace.rows.row(row))
            .map(|row| {
                let name = trace.names.get(row.name).to_owned();
                (row.start.0, row.duration.0, name)
            })
            .collect();
        all.sort();
        all
    };
    ensure!(
        all(one) == all(two),
        "rows come back as others from a profile of XLA"
    );
    Ok(())
}

/// Returns the file truncated, and with some bytes changed, at places that depend only on the file.
fn damaged_files(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(bytes.len() as u64);
    let mut damaged = vec![bytes[..random.usize(..=bytes.len())].to_vec()];
    for _ in 0..4 {
        let mut changed = bytes.to_vec();
        for _ in 0..random.usize(1..8) {
            if !changed.is_empty() {
                let place = random.usize(..changed.len());
                changed[place] = random.u8(..);
            }
        }
        damaged.push(changed);
    }
    damaged
}
