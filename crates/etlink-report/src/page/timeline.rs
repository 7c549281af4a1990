//! One timeline as columns: of a recorded rank, of a written graph, or of all ranks together.

use super::drawn_collective::DrawnCollective;
use super::path_columns::PathColumns;
use super::ranges::{DrawnRange, NONE, fit_ranges};
use super::strings::StringTable;
use super::tracks::TimelineTrack;
use super::wait_columns::WaitColumns;
use super::window::TimelineWindow;
use etlink_model::TimeNs;
use serde::Serialize;

/// A window: ranges with their waits, and the part of the critical path in the window. Ranges are
/// ordered by track and start. Times are ns from the window's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// Label of the rank.
    pub(super) label: String,
    /// Number of the rank among the compared ranks.
    pub(super) rank: Option<i64>,
    /// Name of the step.
    pub(super) step: Option<String>,
    /// Duration of the step on the host, in ns.
    pub(super) step_ns: Option<i64>,
    /// Length of the window, in ns.
    pub(super) window_ns: i64,
    /// Start of the window in ns since the trace's origin.
    pub(super) origin_ns: i64,
    /// Start of the window by the common clock, in ns from the start of the timeline of all ranks;
    /// `None` without a common clock.
    pub(super) common_ns: Option<i64>,
    /// Remark on the window.
    pub(super) note: String,
    /// Number of ranges in the window.
    pub(super) ranges: u64,
    /// Length in ns below which ranges are merged; 0 if all are drawn.
    pub(super) together_ns: i64,
    pub(super) tracks: Vec<TimelineTrack>,
    pub(super) strings: Vec<String>,
    pub(super) depth: Vec<u32>,
    /// Starts as differences to the previous start on the track, or to the window's start.
    pub(super) start: Vec<i64>,
    pub(super) duration: Vec<i64>,
    pub(super) name: Vec<u32>,
    /// Kind of range, an index into [`KINDS`].
    pub(super) kind: Vec<u8>,
    /// Number of merged ranges.
    pub(super) count: Vec<u32>,
    /// Self time of an op in ns; 0 for others.
    pub(super) own: Vec<i64>,
    /// Text with one fact per line.
    pub(super) about: Vec<u32>,
    /// Name of the op that a call or row belongs to.
    pub(super) owner: Vec<u32>,
    /// `correlation`; -1 = none.
    pub(super) correlation: Vec<i64>,
    /// One plus the place of the op that a call or row belongs to; 0 = none. Stored as differences
    /// to the previous entry.
    pub(super) op: Vec<i64>,
    pub(super) deps: WaitColumns,
    pub(super) path: PathColumns,
    pub(super) met: MatchedRanges,
    /// Collectives and messages of the ranks, only in the timeline of all ranks.
    pub(super) joints: Option<Vec<DrawnCollective>>,
}

/// Ranges that are a rank's side of a collective or message, with its place among the joints of the
/// timeline of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct MatchedRanges {
    pub(super) range: Vec<u32>,
    pub(super) joint: Vec<u32>,
}

/// Kinds of ranges by number. Device rows keep the class that they have in all tables.
// The first four are in the order of `RowClass`, which is cast to its number.
pub(super) const KINDS: [&str; 7] = [
    "computation",
    "communication",
    "memory",
    "other",
    "op",
    "annotation",
    "call",
];

/// Source of the ranges in a timeline.
pub(super) trait TimelineSource {
    /// Returns the track with this number.
    fn track_at(&self, number: u32) -> TimelineTrack;
    /// Returns the kind of a range, an index into [`KINDS`].
    fn range_kind(&self, id: usize) -> u8;
    /// Returns the tooltip of a range that is not merged with others.
    fn range_tooltip(&self, id: usize, strings: &mut StringTable) -> Tooltip;
}

/// Tooltip of a range; texts are entries of the timeline's strings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tooltip {
    pub(super) name: u32,
    pub(super) own: i64,
    pub(super) about: u32,
    pub(super) owner: u32,
    pub(super) correlation: Option<i64>,
}

impl Timeline {
    /// Draws `all` ranges of a window as at most `most` ranges. Also returns the place of each of
    /// `count` ranges, or [`NONE`].
    pub(super) fn draw_ranges(
        window: TimelineWindow,
        mut all: Vec<DrawnRange>,
        (count, most): (usize, usize),
        kept: &dyn Fn(usize) -> bool,
        source: &dyn TimelineSource,
        strings: &mut StringTable,
    ) -> (Timeline, Vec<u32>) {
        // Counted before merging: the page states how many ranges a drawing represents.
        let ranges = all.len() as u64;
        let together_ns = fit_ranges(&mut all, most, kept);
        let mut place = vec![NONE; count];
        all.iter()
            .zip(0..)
            .for_each(|(range, at)| place[range.id] = at);
        let mut timeline = Timeline::new(window, ranges, together_ns);
        timeline.add_columns(source, &all, strings);
        (timeline, place)
    }

    fn new(window: TimelineWindow, ranges: u64, together_ns: i64) -> Timeline {
        let (step, step_ns) = window.step.map_or((None, None), |(name, duration)| {
            (Some(name), Some(duration.0))
        });
        Timeline {
            step,
            step_ns,
            window_ns: (window.end - window.start).0,
            origin_ns: window.start.0,
            note: window.note,
            ranges,
            together_ns,
            ..Timeline::default()
        }
    }

    /// Returns the number of drawn ranges.
    pub fn drawn(&self) -> usize {
        self.start.len()
    }

    /// Returns the timeline with a rank's label.
    #[must_use]
    pub fn labelled(self, label: &str) -> Timeline {
        Timeline {
            label: label.to_owned(),
            ..self
        }
    }

    /// Sets the op of each drawn range; `op_of` returns its place.
    pub(super) fn set_ops(&mut self, op_of: impl Fn(usize) -> Option<u32>) {
        let mut before = 0;
        // Rows of a stream roughly follow the order of their ops: differences compress well.
        for at in 0..self.drawn() {
            let op = op_of(at).map_or(0, |op| i64::from(op) + 1);
            self.op.push(op - before);
            before = op;
        }
    }

    fn add_columns(
        &mut self,
        source: &dyn TimelineSource,
        drawn: &[DrawnRange],
        strings: &mut StringTable,
    ) {
        for on_track in drawn.chunk_by(|a, b| a.track == b.track) {
            let Some(first) = on_track.first() else {
                continue;
            };
            self.tracks.push(TimelineTrack {
                ranges: on_track.len() as u32,
                ..source.track_at(first.track)
            });
            // Starts are written as differences: small numbers compress to a fraction.
            let mut before = TimeNs(self.origin_ns);
            for range in on_track {
                self.depth.push(range.depth);
                self.start.push(range.start.since(before));
                before = range.start;
                self.duration.push((range.end - range.start).0);
                self.count.push(range.count);
                self.kind.push(source.range_kind(range.id));
                // Merged ranges have no name in common.
                let said = if range.count > 1 {
                    Tooltip::default()
                } else {
                    source.range_tooltip(range.id, strings)
                };
                self.name.push(said.name);
                self.own.push(said.own);
                self.about.push(said.about);
                self.owner.push(said.owner);
                self.correlation.push(said.correlation.unwrap_or(-1));
            }
        }
    }
}
