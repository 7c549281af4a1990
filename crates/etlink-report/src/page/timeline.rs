//! One timeline as columns: of a recorded rank, of a written graph, of what all ranks do together.

use super::drawn_collective::DrawnCollective;
use super::path_columns::PathColumns;
use super::ranges::{DrawnRange, NONE, fit_ranges};
use super::strings::StringTable;
use super::tracks::TimelineTrack;
use super::wait_columns::WaitColumns;
use super::window::TimelineWindow;
use etlink_model::TimeNs;
use serde::Serialize;

/// A window: ranges with all that they waited for, and the part of the critical path that lies in
/// it. Ranges stand by track and start. Times are ns from the window's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// The rank's.
    pub(super) label: String,
    /// Its number among ranks that were compared.
    pub(super) rank: Option<i64>,
    /// The step.
    pub(super) step: Option<String>,
    /// How long the step took on the host, ns.
    pub(super) step_ns: Option<i64>,
    /// How long the window is, ns.
    pub(super) window_ns: i64,
    /// Its start, ns since the origin of the trace.
    pub(super) origin_ns: i64,
    /// The same by the clock that all ranks have in common, ns from the start of what is drawn of
    /// all; none where there is no such clock.
    pub(super) common_ns: Option<i64>,
    /// What to know of it.
    pub(super) note: String,
    /// Ranges in the window.
    pub(super) ranges: u64,
    /// Those shorter than this are drawn together, ns; 0: all are drawn.
    pub(super) together_ns: i64,
    pub(super) tracks: Vec<TimelineTrack>,
    pub(super) strings: Vec<String>,
    pub(super) depth: Vec<u32>,
    /// Each after the start before it on its track, the first after the window's.
    pub(super) start: Vec<i64>,
    pub(super) duration: Vec<i64>,
    pub(super) name: Vec<u32>,
    /// [`KINDS`].
    pub(super) kind: Vec<u8>,
    /// How many ranges.
    pub(super) count: Vec<u32>,
    /// Of an op: time in which it ran itself, ns, else 0.
    pub(super) own: Vec<i64>,
    /// Text with a fact per line.
    pub(super) about: Vec<u32>,
    /// Name of the op that a call or row belongs to.
    pub(super) owner: Vec<u32>,
    /// `correlation`, -1: none.
    pub(super) correlation: Vec<i64>,
    /// The op that a call or row belongs to, by its place among the drawn ranges and 1 more; 0:
    /// none. Each less the one before it.
    pub(super) op: Vec<i64>,
    pub(super) deps: WaitColumns,
    pub(super) path: PathColumns,
    pub(super) met: MatchedRanges,
    /// What the ranks did together: of the timeline of all ranks alone.
    pub(super) joints: Option<Vec<DrawnCollective>>,
}

/// The ranges that are a rank's side of a collective or message, and which: places among the joints
/// of the timeline of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct MatchedRanges {
    pub(super) range: Vec<u32>,
    pub(super) joint: Vec<u32>,
}

/// What a range is, by number. Device rows have the class that they have in all tables.
// The first four stand in the order of `RowClass`, which is cast to its number.
pub(super) const KINDS: [&str; 7] = [
    "computation",
    "communication",
    "memory",
    "other",
    "op",
    "annotation",
    "call",
];

/// What ranges are.
pub(super) trait TimelineSource {
    /// The track of a number.
    fn track_at(&self, number: u32) -> TimelineTrack;
    /// By number, [`KINDS`].
    fn range_kind(&self, id: usize) -> u8;
    /// What is said of a range that is drawn by itself.
    fn range_tooltip(&self, id: usize, strings: &mut StringTable) -> Tooltip;
}

/// What is said of a range; texts are entries of the timeline's strings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tooltip {
    pub(super) name: u32,
    pub(super) own: i64,
    pub(super) about: u32,
    pub(super) owner: u32,
    pub(super) correlation: Option<i64>,
}

impl Timeline {
    /// Draws `all` of a window with `most` ranges at most. Returns the place of each of `count`
    /// ranges too, or [`NONE`].
    pub(super) fn draw_ranges(
        window: TimelineWindow,
        mut all: Vec<DrawnRange>,
        (count, most): (usize, usize),
        kept: &dyn Fn(usize) -> bool,
        source: &dyn TimelineSource,
        strings: &mut StringTable,
    ) -> (Timeline, Vec<u32>) {
        // Counted before some are joined: the page says how many a drawing stands for.
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

    /// How many ranges are drawn.
    pub fn drawn(&self) -> usize {
        self.start.len()
    }

    /// The same under a rank's name.
    #[must_use]
    pub fn labelled(self, label: &str) -> Timeline {
        Timeline {
            label: label.to_owned(),
            ..self
        }
    }

    /// Says which op each drawn range belongs to; `op_of` gives its place.
    pub(super) fn set_ops(&mut self, op_of: impl Fn(usize) -> Option<u32>) {
        let mut before = 0;
        // Rows of a stream come about in the order of their ops: differences compress well.
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
                // Joined ranges have no name in common.
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
