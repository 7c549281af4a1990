//! What a page takes: values are packed one by one and measured, and drawn with less detail until
//! they fit.

use super::timeline::Timeline;
use base64::engine::{Engine, general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use serde::Serialize;
use std::io::{self, BufWriter};

/// Fewer ranges than this are not tried.
const LEAST: usize = 64;

/// A timeline as it stands in the page.
#[derive(Clone, Debug)]
pub struct PackedTimeline {
    /// Ranges that are drawn.
    pub ranges: usize,
    pub(super) text: String,
}

impl PackedTimeline {
    /// Draws with `most` ranges at most, and with fewer until it takes no more than `bytes`. `draw`
    /// is asked a few times at most.
    ///
    /// # Errors
    /// None that memory has.
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
            // Text grows about with the ranges, so the next try is close.
            let fits = (timeline.drawn() as u128 * bytes as u128 / text.len() as u128) as usize;
            // A tenth less, as names and tracks do not shrink with the ranges. At most half, so
            // that few tries do.
            most = (fits - fits / 10).min(most / 2).max(LEAST);
        }
    }

    /// The first of several steps as [`PackedTimeline::new`] has it, and of the others as many as
    /// there is room for. `draw` is given a step's place and how many ranges it may have.
    ///
    /// # Errors
    /// None that memory has.
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
            // A timeline drawn with less than this shows nothing, however short its step is.
            if ranges < LEAST {
                break;
            }
            let timeline = draw(step, ranges);
            let text = pack_json(&timeline)?;
            // Another step is there to compare with the first: one with less detail would differ
            // where the steps do not.
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

/// JSON, gzip, base64.
pub(super) fn pack_json(value: &impl Serialize) -> io::Result<String> {
    // packing many small pieces takes five times as long as packing few large ones
    let mut packed =
        BufWriter::with_capacity(1 << 20, GzEncoder::new(vec![], Compression::default()));
    serde_json::to_writer(&mut packed, value)?;
    // Base64 has no `<`: nothing in it can end the script element that it stands in.
    Ok(STANDARD.encode(packed.into_inner()?.finish()?))
}
