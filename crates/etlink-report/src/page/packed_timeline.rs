//! Packs timelines for a page: each is measured, and drawn with less detail until it fits.

use super::timeline::Timeline;
use base64::engine::{Engine, general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use serde::Serialize;
use std::io::{self, BufWriter};

/// Smallest number of ranges that is tried.
const LEAST: usize = 64;

/// A packed timeline, as it appears in the page.
#[derive(Clone, Debug)]
pub struct PackedTimeline {
    /// Number of drawn ranges.
    pub ranges: usize,
    pub(super) text: String,
}

impl PackedTimeline {
    /// Draws with at most `most` ranges, and with fewer until the text fits in `bytes`. Calls
    /// `draw` a few times at most.
    ///
    /// # Errors
    /// None in practice: writing to memory does not fail.
    pub fn new(
        most: usize,
        bytes: usize,
        draw: impl Fn(usize) -> Timeline,
    ) -> io::Result<PackedTimeline> {
        let mut most = most;
        loop {
            let timeline = draw(most);
            let text = pack_json(&timeline)?;
            if text.len() <= bytes || most <= LEAST {
                return Ok(PackedTimeline {
                    ranges: timeline.drawn(),
                    text,
                });
            }
            // The text grows roughly with the ranges, so the next try is close.
            let fits = (timeline.drawn() as u128 * bytes as u128 / text.len() as u128) as usize;
            // A tenth less, because names and tracks do not shrink with the ranges. At most half,
            // so that few tries suffice.
            most = (fits - fits / 10).min(most / 2).max(LEAST);
        }
    }

    /// Packs the first of several steps like [`PackedTimeline::new`], and as many other steps as
    /// fit. Calls `draw` with a step's place and its largest number of ranges.
    ///
    /// # Errors
    /// None in practice: writing to memory does not fail.
    pub fn steps(
        most: usize,
        bytes: usize,
        steps: usize,
        draw: impl Fn(usize, usize) -> Timeline,
    ) -> io::Result<Vec<PackedTimeline>> {
        let first = PackedTimeline::new(most, bytes, |most| draw(0, most))?;
        let mut ranges = most.saturating_sub(first.ranges);
        let mut room = bytes.saturating_sub(first.text.len());
        let mut all = vec![first];
        for step in 1..steps {
            // A timeline with fewer ranges shows nothing, however short its step is.
            if ranges < LEAST {
                break;
            }
            let timeline = draw(step, ranges);
            let text = pack_json(&timeline)?;
            // Other steps are compared with the first: a step with less detail would show false
            // differences.
            if timeline.together_ns > 0 || text.len() > room {
                break;
            }
            ranges -= timeline.drawn().min(ranges);
            room -= text.len();
            all.push(PackedTimeline {
                ranges: timeline.drawn(),
                text,
            });
        }
        Ok(all)
    }
}

/// Encodes a value as JSON, gzip, base64.
pub(super) fn pack_json(value: &impl Serialize) -> io::Result<String> {
    // packing many small pieces takes five times as long as packing few large ones
    let mut packed =
        BufWriter::with_capacity(1 << 20, GzEncoder::new(vec![], Compression::default()));
    serde_json::to_writer(&mut packed, value)?;
    // Base64 has no `<`, so the text cannot end the script element around it.
    Ok(STANDARD.encode(packed.into_inner()?.finish()?))
}
