//! Fuzzes exports of Nsight Systems: written exports read back as the same rows, and damaged
//! databases cause no panic.

use anyhow::{Context, Result, ensure};
use etlink_formats::nsys::{NsysReadOptions, NsysSchema, read, write};
use etlink_formats::sqlite::{SqliteTables, set_safe_limits};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{AnomalyKind, DeviceTrace, KeepEvents, RowKind};
use rusqlite::Connection;
use rusqlite::types::Value;

/// Number of damaged copies per export, for each kind of damage.
const COPIES: usize = 3;

/// Number of cells changed per copy.
const CELLS: usize = 24;

/// Writes an export, reads it back, and reads damaged copies. Returns a description of each result.
pub(super) fn check_exports(trace: &LinkedTrace) -> Result<Vec<u8>> {
    let device = &trace.device;
    let mut said = vec![];
    for schema in NsysSchema::ALL {
        let mut export = Connection::open_in_memory()?;
        write(device, &export, schema).context("a trace cannot be exported")?;
        let again = read(&export, everything()).context("an own export cannot be read")?;
        // Rows of the year 2116, which damaged numbers produce, are dropped.
        if again.anomalies.count(AnomalyKind::TimeOutOfRange) == 0 {
            compare_counts(device, &again)?;
        }
        let image = export.serialize("main")?.to_vec();
        // Places depend only on the file, so that all threads damage the same ones.
        let mut random = fastrand::Rng::with_seed(image.len() as u64);
        for _ in 0..COPIES {
            said.push(read_damaged(
                &flipped(&image, &mut random),
                &mut |_| Ok(()),
            )?);
            let mut change = |copy: &Connection| change_cells(copy, &mut random);
            said.push(read_damaged(&image, &mut change)?);
        }
    }
    Ok(format!("{said:?}").into_bytes())
}

fn everything() -> NsysReadOptions {
    NsysReadOptions {
        process: None,
        keep: KeepEvents::Everything,
    }
}

/// Compares row counts. Graph nodes that are not work have no table in the export.
fn compare_counts(one: &DeviceTrace, two: &DeviceTrace) -> Result<()> {
    let kinds = one.rows.kind.iter();
    let work = kinds.filter(|kind| **kind != RowKind::GraphNode).count();
    let counts = |trace: &DeviceTrace, rows: usize| {
        [trace.ops.len(), trace.calls.len(), rows, trace.syncs.len()]
    };
    let (written, read) = (counts(one, work), counts(two, two.rows.len()));
    ensure!(
        written == read,
        "{written:?} rows were exported, {read:?} read"
    );
    Ok(())
}

/// Reads a database image after a change to it. Returns the number of rows; errors are rejections.
fn read_damaged(
    image: &[u8],
    change: &mut dyn FnMut(&Connection) -> Result<()>,
) -> Result<Option<usize>> {
    let mut copy = Connection::open_in_memory()?;
    // SQLite rejects some images as a whole
    if copy
        .deserialize_read_exact("main", image, image.len(), false)
        .is_err()
    {
        return Ok(None);
    }
    change(&copy)?;
    if set_safe_limits(&mut copy).is_err() {
        return Ok(None);
    }
    let Ok(trace) = read(&copy, everything()) else {
        return Ok(None);
    };
    let rows = trace.rows.len();
    drop(etlink_link::link(None, trace, LinkOptions::default()));
    Ok(Some(rows))
}

/// Changes a few bytes, or truncates the image.
fn flipped(image: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut damaged = image.to_vec();
    for _ in 0..random.usize(1..40) {
        // After the header, without which it is not a database.
        let place = random.usize(100.min(damaged.len() - 1)..damaged.len());
        damaged[place] = random.u8(..);
    }
    if random.u8(..4) == 0 {
        damaged.truncate(random.usize(512..=damaged.len().max(512)));
    }
    damaged
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
