//! Traces of several ranks that share a text except for the rank's number and the origin of its
//! times. The text is compressed once, in pieces, and each rank's file is assembled on reading:
//!
//! ```text
//! header of gzip | text, deflated | rank, as it is | text, deflated | ... | sum and length
//! ```
//! This way, a run of thousands of ranks of realistic size is read from a few compressed texts in
//! memory.

use super::RankTemplate;
use super::scenario::RunScenario;
use super::text::{RankWords, TraceTemplate, base_time};
use anyhow::{Context, Result};
use flate2::{Compress, Compression, Crc, FlushCompress};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

/// Marks a gap, because valid JSON cannot contain this byte; the next byte tells the kind of gap.
const OPEN: u8 = 1;
const OPEN_RANK: &str = "\u{1}R";
const OPEN_BASE_TIME: &str = "\u{1}B";

/// Magic number, deflate, no flags, no time, no level, unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// An empty stored block, marked as the last one.
const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];

/// Value that differs per rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnValue {
    Rank,
    BaseTime,
}

/// Text shared by ranks, deflated up to a whole byte.
#[derive(Debug)]
struct SharedPiece {
    deflated: Vec<u8>,
    crc: Crc,
    bytes: u64,
    /// Value after the piece; `None` after the last one.
    then: Option<OwnValue>,
}

/// A compressed trace with gaps.
#[derive(Debug)]
pub struct PackedTrace {
    pieces: Vec<SharedPiece>,
    base_time: i64,
}

impl RankTemplate {
    /// Compresses the host trace of a rank, with a gap for its number.
    ///
    /// # Errors
    /// Compression fails.
    pub fn packed_host(&self, scenario: &RunScenario, rank: usize) -> Result<PackedTrace> {
        PackedTrace::new(&self.host, scenario, rank)
    }

    /// Compresses the device trace of a rank, with gaps for its number and the origin of its times.
    ///
    /// # Errors
    /// Compression fails, or the trace does not state the origin of its times.
    pub fn packed_device(&self, scenario: &RunScenario, rank: usize) -> Result<PackedTrace> {
        base_time(&self.device.text).context("its times count from nothing that it states")?;
        PackedTrace::new(&self.device, scenario, rank)
    }
}

impl PackedTrace {
    fn new(template: &TraceTemplate, scenario: &RunScenario, rank: usize) -> Result<PackedTrace> {
        let words = RankWords {
            rank: OPEN_RANK,
            base_time: Some(OPEN_BASE_TIME),
        };
        let mut text = vec![];
        template.write_with(scenario, rank, words, &mut text)?;
        let mut pieces = vec![];
        let mut from = 0;
        for at in memchr::memchr_iter(OPEN, &text) {
            let own = match text.get(at + 1) {
                Some(b'R') => OwnValue::Rank,
                _ => OwnValue::BaseTime,
            };
            pieces.push(SharedPiece::new(&text[from..at], Some(own))?);
            from = at + OPEN_RANK.len();
        }
        pieces.push(SharedPiece::new(&text[from..], None)?);
        Ok(PackedTrace {
            pieces,
            base_time: base_time(&template.text).unwrap_or_default(),
        })
    }
}

impl SharedPiece {
    fn new(text: &[u8], then: Option<OwnValue>) -> Result<SharedPiece> {
        let mut crc = Crc::new();
        crc.update(text);
        let mut deflate = Compress::new(Compression::default(), false);
        let mut deflated = Vec::with_capacity(text.len() / 8 + 64);
        loop {
            let read = usize::try_from(deflate.total_in())?;
            let had = deflated.len();
            deflate.compress_vec(&text[read..], &mut deflated, FlushCompress::Sync)?;
            // Everything is flushed once the output has room left.
            if deflated.len() < deflated.capacity() {
                break;
            }
            deflated.reserve(had.max(64));
        }
        deflated.shrink_to_fit();
        Ok(SharedPiece {
            deflated,
            crc,
            bytes: text.len() as u64,
            then,
        })
    }
}

/// File of a rank: shared text with the rank's own values.
#[derive(Clone, Debug)]
pub struct SharedObject {
    trace: Arc<PackedTrace>,
    rank: String,
    base_time: String,
    /// Length of the compressed file, bytes.
    pub bytes: u64,
    /// Length of the uncompressed text, bytes.
    pub unpacked: u64,
    trailer: Vec<u8>,
}

impl SharedObject {
    /// Creates the file of a rank with a clock that is `ahead_ns` ahead.
    pub fn new(trace: &Arc<PackedTrace>, rank: usize, ahead_ns: i64) -> SharedObject {
        let base_time = trace.base_time.saturating_add(ahead_ns);
        let mut object = SharedObject {
            trace: Arc::clone(trace),
            rank: rank.to_string(),
            base_time: base_time.to_string(),
            bytes: 0,
            unpacked: 0,
            trailer: vec![],
        };
        let mut sum = Crc::new();
        for piece in &trace.pieces {
            sum.combine(&piece.crc);
            object.unpacked += piece.bytes;
            if let Some(own) = piece.then {
                let text = object.own_text(own);
                sum.update(text.as_bytes());
                object.unpacked += text.len() as u64;
            }
        }
        object.trailer.extend_from_slice(&LAST_BLOCK);
        object.trailer.extend_from_slice(&sum.sum().to_le_bytes());
        // The format stores the length modulo 2^32.
        object
            .trailer
            .extend_from_slice(&(object.unpacked as u32).to_le_bytes());
        object.bytes = object.parts(|_| Ok(())).unwrap_or_default();
        object
    }

    fn own_text(&self, own: OwnValue) -> &str {
        match own {
            OwnValue::Rank => &self.rank,
            OwnValue::BaseTime => &self.base_time,
        }
    }

    /// Calls `take` for each part of the file, in order. Returns the total length.
    fn parts(&self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
        let mut bytes = 0;
        let mut counted = |part: &[u8]| {
            bytes += part.len() as u64;
            take(part)
        };
        counted(&GZIP_HEADER)?;
        for piece in &self.trace.pieces {
            counted(&piece.deflated)?;
            if let Some(own) = piece.then {
                counted(&stored_block(self.own_text(own)))?;
            }
        }
        counted(&self.trailer)?;
        Ok(bytes)
    }

    /// Writes a range of the file.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn write_range(&self, range: Range<u64>, out: &mut dyn Write) -> io::Result<()> {
        let mut at = 0;
        self.parts(|part| {
            let length = part.len() as u64;
            let from = range.start.clamp(at, at + length) - at;
            let to = range.end.clamp(at, at + length) - at;
            at += length;
            if from < to {
                out.write_all(&part[from as usize..to as usize])?;
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// Builds an uncompressed deflate block.
fn stored_block(text: &str) -> Vec<u8> {
    let length = text.len() as u16;
    let mut block = vec![0];
    block.extend_from_slice(&length.to_le_bytes());
    block.extend_from_slice(&(!length).to_le_bytes());
    block.extend_from_slice(text.as_bytes());
    block
}
