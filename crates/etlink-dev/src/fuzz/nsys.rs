//! Fuzzes exports of Nsight Systems: damaged databases cause no panic.

use super::corpus::{read_unpacked, sorted_entries};
use super::recorders::damaged_files;
use anyhow::Result;
use etlink_formats::nsys::{NsysReadOptions, read};
use etlink_formats::sqlite::{SqliteTables, set_safe_limits};
use etlink_link::LinkOptions;
use etlink_model::KeepEvents;
use rusqlite::Connection;
use rusqlite::types::Value;
use std::path::Path;

/// Number of cells changed per copy.
const CELLS: usize = 24;

/// Reads an export of testdata after changes to it.
pub(super) fn check_exports(exports: &[Vec<u8>], random: &mut fastrand::Rng) -> Result<()> {
    let image = &exports[random.usize(..exports.len())];
    for bytes in damaged_files(image, random) {
        read_damaged(&bytes, &mut |_| Ok(()))?;
        read_damaged(image, &mut |copy| change_cells(copy, random))?;
    }
    Ok(())
}

/// Reads the exports in testdata.
pub(super) fn read_exports() -> Result<Vec<Vec<u8>>> {
    let mut exports = vec![];
    for entry in sorted_entries(Path::new("testdata/nsys"))? {
        if entry.path().to_string_lossy().ends_with(".sqlite.gz") {
            exports.push(read_unpacked(&entry.path())?);
        }
    }
    Ok(exports)
}

fn everything() -> NsysReadOptions {
    NsysReadOptions {
        process: None,
        keep: KeepEvents::Everything,
    }
}

/// Reads a database image after a change to it; errors are rejections.
fn read_damaged(image: &[u8], change: &mut dyn FnMut(&Connection) -> Result<()>) -> Result<()> {
    let mut copy = Connection::open_in_memory()?;
    // SQLite rejects some images as a whole
    if copy
        .deserialize_read_exact("main", image, image.len(), false)
        .is_err()
    {
        return Ok(());
    }
    change(&copy)?;
    if set_safe_limits(&mut copy).is_err() {
        return Ok(());
    }
    let Ok(trace) = read(&copy, everything()) else {
        return Ok(());
    };
    drop(etlink_link::link(None, trace, LinkOptions::default()));
    Ok(())
}

/// Sets cells to values of other types, to NULL, or to numbers at the limits of their range.
fn change_cells(copy: &Connection, random: &mut fastrand::Rng) -> Result<()> {
    let tables = SqliteTables::probe(copy)?;
    let tables: Vec<_> = tables.iter().collect();
    for _ in 0..CELLS {
        let table = tables[random.usize(..tables.len())];
        let column = &table.columns[random.usize(..table.columns.len())];
        let value = match random.u8(..7) {
            0 => Value::Null,
            1 => Value::Integer(i64::MIN),
            2 => Value::Integer(i64::MAX),
            3 => Value::Integer(i64::from(random.i32(..))),
            4 => Value::Real(f64::NAN),
            5 => Value::Text("\u{0}1e9, seq = 99999999999999999999".to_owned()),
            _ => Value::Blob(vec![0xff; 9]),
        };
        let update = format!(
            "UPDATE \"{}\" SET \"{column}\" = ?1 WHERE rowid % 7 = ?2",
            table.name
        );
        // Keys and NOT NULL columns reject some values.
        drop(copy.execute(&update, (value, random.u8(..7))));
    }
    Ok(())
}
