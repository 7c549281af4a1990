//! Reads logs of NCCL's inspector plugin (`plugins/profiler/inspector` of NCCL 2.28 and newer, and
//! RCCL's version): one JSON object per line, for each collective or message of each communicator.
//!
//! ```text
//! {"header": {id, rank, n_ranks, nnodes}, "metadata": {hostname, pid, dump_timestamp_us, …},
//!  "coll_perf": {coll, coll_sn, coll_msg_size_bytes, coll_exec_time_us, …}}
//! ```
//! Source: `inspector_json.cc`. Other lines are counted, not rejected.
//!
//! ```
//! let line = br#"{"header":{"id":"0x7f","rank":2,"n_ranks":8,"nnodes":1},
//!   "coll_perf":{"coll":"AllReduce","coll_sn":7,"coll_msg_size_bytes":4096,"coll_exec_time_us":61}}"#;
//! let line = line.iter().filter(|byte| **byte != b'\n').copied().collect::<Vec<u8>>();
//! let log = etlink_formats::nccl_inspector::read(&line[..])?;
//! assert_eq!(log.calls.duration[0].0, 61_000);
//! assert_eq!(log.communicators[0].ranks, 8);
//! # Ok::<(), etlink_model::Failure>(())
//! ```

mod line;
mod log;
mod pairing;

#[cfg(test)]
mod tests;

pub use log::{InspectorCalls, InspectorCommunicator, InspectorLog, TimingSource};
pub use pairing::{InspectorMatches, add_collectives};

use etlink_model::{AnomalyKind, Failure};
use std::io::{BufRead, BufReader, ErrorKind, Read};

/// Maximum length of a line. Verbose lines have 200 bytes for each of 64 channels.
const MAX_LINE_BYTES: u64 = 1 << 20;

fn stopped(offset: u64, source: std::io::Error) -> Failure {
    Failure::new(format!("reading stopped at byte {offset}: {source}")).because(source)
}

/// Returns true if a file with this head is an inspector log.
pub fn is_inspector_log(head: &[u8]) -> bool {
    let has = |key: &[u8]| memchr::memmem::find(head, key).is_some();
    let is_object = head.trim_ascii_start().first() == Some(&b'{');
    let is_call = has(b"\"coll_perf\"") || has(b"\"p2p_perf\"");
    is_object && is_call && has(b"\"header\"") && has(b"\"n_ranks\"")
}

/// Reads a log line by line. O(bytes); memory of the calls.
///
/// # Errors
/// The source fails, or no line is from the inspector. Damaged lines are counted in
/// [`InspectorLog::anomalies`].
pub fn read(source: impl Read) -> Result<InspectorLog, Failure> {
    let mut source = BufReader::new(source);
    let mut reader = line::LineReader::default();
    let (mut text, mut offset, mut lines) = (vec![], 0u64, 0u64);
    loop {
        text.clear();
        let read = source
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut text);
        let bytes = match read {
            Ok(0) => break,
            Ok(bytes) => bytes as u64,
            // data that a damaged archive yields before its end is valid
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidData | ErrorKind::UnexpectedEof
                ) =>
            {
                let anomalies = &mut reader.log.anomalies;
                anomalies.note(AnomalyKind::SourceEnded, || error.to_string());
                break;
            }
            Err(source) => return Err(stopped(offset, source)),
        };
        lines += 1;
        let is_whole = text.ends_with(b"\n");
        let is_too_long = !is_whole && bytes == MAX_LINE_BYTES;
        if is_too_long {
            skip_line(&mut source).map_err(|source| stopped(offset, source))?;
        }
        let is_read = !is_too_long && reader.read_line(&text);
        let is_blank = text.trim_ascii().is_empty();
        if !is_read && !is_blank {
            // the process may end while it writes a line
            let kind = if is_whole || is_too_long {
                AnomalyKind::Skipped
            } else {
                AnomalyKind::Truncated
            };
            let at = offset;
            reader.log.anomalies.note(kind, || format!("byte {at}"));
        }
        offset += bytes;
    }
    reader.log.bytes = offset;
    if reader.log.calls.is_empty() {
        let problem = format!("none of the {lines} lines is from the NCCL inspector");
        return Err(Failure::new(problem).advise(
            "give the JSON output of the plugin (NCCL_INSPECTOR_ENABLE=1 without \
             NCCL_INSPECTOR_PROM_DUMP)",
        ));
    }
    Ok(reader.log)
}

/// Skips to the end of a line that is too long to keep.
fn skip_line(source: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = source.fill_buf()?;
        let length = buffer.len();
        match memchr::memchr(b'\n', buffer) {
            Some(end) => {
                source.consume(end + 1);
                return Ok(());
            }
            None if length == 0 => return Ok(()),
            None => source.consume(length),
        }
    }
}
