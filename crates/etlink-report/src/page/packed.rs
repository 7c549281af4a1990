//! What a page takes: values are packed one by one and measured, and drawn with less detail until they fit.

use super::timeline::Timeline;
use base64::engine::{Engine, general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use serde::Serialize;
use std::io::{self, BufWriter};

/// Fewer ranges than this are not tried.
const LEAST: usize = 64;

/// A timeline as it stands in the page.
#[derive(Clone, Debug)]
pub struct Packed {
    /// Ranges that are drawn.
    pub ranges: usize,
    pub(super) text: String,
}

impl Packed {
    /// Draws with `most` ranges at most, and with fewer until it takes no more than `bytes`. `draw` is asked a few times at most.
    ///
    /// # Errors
    /// None that memory has.
    pub fn new(most: usize, bytes: usize, draw: impl Fn(usize) -> Timeline) -> io::Result<Packed> {
        let mut most = most;
        loop {
            let timeline = draw(most);
            let text = pack(&timeline)?;
            if text.len() <= bytes || most <= LEAST {
                return Ok(Packed {
                    ranges: timeline.drawn(),
                    text,
                });
            }
            let fits = (timeline.drawn() as u128 * bytes as u128 / text.len() as u128) as usize;
            most = (fits - fits / 10).min(most / 2).max(LEAST);
        }
    }
}

/// JSON, gzip, base64.
pub(super) fn pack(value: &impl Serialize) -> io::Result<String> {
    // packing many small pieces takes five times as long as packing few large ones
    let mut packed =
        BufWriter::with_capacity(1 << 20, GzEncoder::new(vec![], Compression::default()));
    serde_json::to_writer(&mut packed, value)?;
    Ok(STANDARD.encode(packed.into_inner()?.finish()?))
}
