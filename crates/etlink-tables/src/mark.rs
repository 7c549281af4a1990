//! Recognizes Parquet files written by etlink.

use crate::MARK;
use memchr::memmem;
use std::io::{self, Read, Seek, SeekFrom};

/// Length of the end of a Parquet file: size of the footer, and `PAR1`.
const END_BYTES: i64 = 8;

/// Returns true if etlink wrote a Parquet file: its footer contains [`MARK`]. False for other
/// files.
pub fn has_mark(file: impl Read + Seek) -> bool {
    read_footer(file).is_ok_and(|footer| memmem::find(&footer, MARK.as_bytes()).is_some())
}

fn read_footer(mut file: impl Read + Seek) -> io::Result<Vec<u8>> {
    // the mark is in the footer: the last kilobytes of a file of gigabytes suffice
    file.seek(SeekFrom::End(-END_BYTES))?;
    let mut end = [0; END_BYTES as usize];
    file.read_exact(&mut end)?;
    let [a, b, c, d, magic @ ..] = end;
    let bytes = u32::from_le_bytes([a, b, c, d]);
    if &magic != b"PAR1" {
        return Err(io::ErrorKind::InvalidData.into());
    }
    file.seek(SeekFrom::End(-END_BYTES - i64::from(bytes)))?;
    let mut footer = vec![];
    file.take(u64::from(bytes)).read_to_end(&mut footer)?;
    Ok(footer)
}
