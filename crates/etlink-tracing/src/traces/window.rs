//! Reconstructs a window from its buffers: ranges on threads, with parents and ids. Both recorders
//! write from it.
//!
//! Spans are looked up by the thread that made them. A span id may be reused, but only by that
//! thread, so there the latest span with the id is meant. Any other thread looks for the latest
//! span made before. O(n log n).

use super::facts::{SpanFacts, SpanRole, named};
use crate::spans::{Collector, EntryKind, FieldValue, RecordedThread, WindowSnapshot, entries};
use rustc_hash::FxHashMap;
use std::ops::Range;
use tracing::Metadata;

/// Thread, and range in its words.
type WordRange = (usize, Range<usize>);

/// Definition of a span or event.
#[derive(Debug)]
struct SpanDefinition {
    callsite: Option<&'static Metadata<'static>>,
    /// Fields set at creation.
    fields: WordRange,
    later: Vec<WordRange>,
    facts: SpanFacts,
}

/// One execution of a span on a thread, or an event or a step.
#[derive(Clone, Debug)]
pub(crate) struct SpanRun {
    definition: usize,
    /// Row of [`SpanWindow::threads`].
    pub(crate) thread: usize,
    /// Start in Unix nanoseconds; the range is half-open.
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// False if the span still ran when the window closed; `end` is then the window's end.
    pub(crate) finished: bool,
    /// Row of the op or annotation around this run on its thread.
    pub(crate) parent: Option<usize>,
    /// Row of the forward op of this backward op.
    pub(crate) forward: Option<usize>,
    /// `Record function id` of ops and annotations; 0 for others.
    pub(crate) rf_id: u64,
}

/// A recorded window, by start time; runs with equal start keep the order in which they began.
pub(crate) struct SpanWindow {
    pub(crate) threads: Vec<RecordedThread>,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) ran: Vec<SpanRun>,
    words: Vec<Vec<u64>>,
    definitions: Vec<SpanDefinition>,
}

fn words_at<'w>(words: &'w [Vec<u64>], (thread, range): &WordRange) -> &'w [u64] {
    &words[*thread][range.clone()]
}

impl SpanWindow {
    /// Reads a window; `next_id` is the first free `Record function id`.
    pub(crate) fn read(
        collector: &Collector,
        mut snapshot: WindowSnapshot,
        next_id: u64,
    ) -> SpanWindow {
        // Threads register in any order; sorting by their number makes the output deterministic.
        snapshot.buffers.sort_by_key(|buffer| buffer.thread.tid);
        let clock = &collector.clock;
        let (start, end) = (clock.unix(snapshot.start), clock.unix(snapshot.end));
        let mut window = SpanWindow {
            threads: vec![],
            start,
            end,
            ran: vec![],
            words: vec![],
            definitions: vec![],
        };
        for buffer in snapshot.buffers {
            window.threads.push(buffer.thread.clone());
            window.words.push(buffer.words(collector.pool()));
        }
        let mut reader = WindowReader {
            callsites: collector.callsites(),
            made: vec![],
            unix: &|time| clock.unix(time),
        };
        // All spans are defined before any thread is replayed: a span may run on another thread.
        reader.define(&mut window);
        (0..window.threads.len()).for_each(|thread| reader.replay(&mut window, thread));
        window.order();
        // Ids follow start times, as in `RecordFunction`.
        window.number(next_id);
        window
    }

    pub(crate) fn facts(&self, ran: &SpanRun) -> &SpanFacts {
        &self.definitions[ran.definition].facts
    }

    /// Returns all fields of the span; a repeated field appears repeatedly.
    pub(crate) fn fields(&self, ran: &SpanRun) -> impl Iterator<Item = (&'static str, FieldValue)> {
        let definition = &self.definitions[ran.definition];
        let places = std::iter::once(&definition.fields).chain(&definition.later);
        places
            .filter_map(move |place| {
                Some(named(definition.callsite?, words_at(&self.words, place)))
            })
            .flatten()
    }

    /// Returns the highest `Record function id`, if there is any.
    pub(crate) fn last_id(&self) -> Option<u64> {
        self.ran
            .iter()
            .map(|ran| ran.rf_id)
            .max()
            .filter(|id| *id > 0)
    }

    /// Sorts the runs by start time.
    fn order(&mut self) {
        let mut order: Vec<usize> = (0..self.ran.len()).collect();
        // The sort is stable: runs with equal start keep their order, parents before children.
        order.sort_by_key(|row| self.ran[*row].start);
        let mut place = vec![0; order.len()];
        order
            .iter()
            .enumerate()
            .for_each(|(at, row)| place[*row] = at);
        let moved = |row: &usize| SpanRun {
            parent: self.ran[*row].parent.map(|parent| place[parent]),
            ..self.ran[*row].clone()
        };
        self.ran = order.iter().map(moved).collect();
    }

    /// Assigns ids, and links each backward op to the latest earlier op with the same sequence
    /// number.
    fn number(&mut self, mut id: u64) {
        let mut forward: FxHashMap<i64, usize> = FxHashMap::default();
        for row in 0..self.ran.len() {
            let facts = &self.definitions[self.ran[row].definition].facts;
            let (is_op, seq, backward) = (facts.role.is_op(), facts.seq, facts.backward);
            if !is_op {
                continue;
            }
            self.ran[row].rf_id = id;
            id += 1;
            match seq {
                Some(seq) if backward => self.ran[row].forward = forward.get(&seq).copied(),
                // Nested ops share a number in PyTorch; the innermost is the backward op's partner.
                Some(seq) => drop(forward.insert(seq, row)),
                None => {}
            }
        }
    }
}

struct WindowReader<'a> {
    callsites: Vec<&'static Metadata<'static>>,
    /// Span id, lower bound of the creation time, and definition of each span. Sorted.
    made: Vec<(u64, u64, usize)>,
    unix: &'a dyn Fn(u64) -> i64,
}

impl WindowReader<'_> {
    /// Defines all spans and events, in the order of threads and buffers.
    fn define(&mut self, window: &mut SpanWindow) {
        let mut told = vec![];
        for thread in 0..window.words.len() {
            let words = &window.words[thread];
            let mut now = 0;
            for (kind, place) in entries(words) {
                let (first, second) = (
                    words[place.start],
                    words.get(place.start + 1).copied().unwrap_or(0),
                );
                match kind {
                    EntryKind::Span => {
                        self.made.push((first, now, window.definitions.len()));
                        window
                            .definitions
                            .push(self.definition(second, (thread, place.start + 2..place.end)));
                    }
                    EntryKind::Event => window
                        .definitions
                        .push(self.definition(first, (thread, place.start + 2..place.end))),
                    EntryKind::Fields => {
                        told.push((first, now, (thread, place.start + 1..place.end)))
                    }
                    EntryKind::StepOpen => window.definitions.push(SpanDefinition {
                        facts: SpanFacts::step(first),
                        ..self.definition(u64::MAX, (thread, 0..0))
                    }),
                    // Creating a span has no time of its own in the buffer; the last time before
                    // bounds it from below.
                    EntryKind::Enter | EntryKind::Exit => now = second,
                    EntryKind::StepClose => now = first,
                }
            }
        }
        self.made.sort_unstable();
        for (span, time, place) in told {
            // Fields may arrive from another thread than the span's, so they are joined after all
            // spans are known.
            if let Some(definition) = self.made_before(span, time) {
                window.definitions[definition].later.push(place);
            }
        }
        for definition in &mut window.definitions {
            if let Some(callsite) = definition.callsite {
                definition.facts = SpanFacts::of(
                    callsite,
                    std::iter::once(&definition.fields)
                        .chain(&definition.later)
                        .map(|place| words_at(&window.words, place)),
                );
            }
        }
    }

    fn definition(&self, callsite: u64, fields: WordRange) -> SpanDefinition {
        let callsite = usize::try_from(callsite)
            .ok()
            .and_then(|at| self.callsites.get(at))
            .copied();
        SpanDefinition {
            callsite,
            fields,
            later: vec![],
            facts: SpanFacts::default(),
        }
    }

    /// Returns the latest span with this id that may have been created by `time`.
    fn made_before(&self, span: u64, time: u64) -> Option<usize> {
        let after = self
            .made
            .partition_point(|made| (made.0, made.1) <= (span, time));
        let (id, _, definition) = *self.made.get(after.checked_sub(1)?)?;
        (id == span).then_some(definition)
    }

    /// Reconstructs the runs of a thread.
    fn replay(&self, window: &mut SpanWindow, thread: usize) {
        let mut track = ThreadTrack {
            thread,
            open: vec![],
            end: window.end,
        };
        let mut own: FxHashMap<u64, usize> = FxHashMap::default();
        let mut next = window
            .definitions
            .partition_point(|definition| definition.fields.0 < thread);
        let words = std::mem::take(&mut window.words[thread]);
        for (kind, place) in entries(&words) {
            let (first, second) = (
                words[place.start],
                words.get(place.start + 1).copied().unwrap_or(0),
            );
            match kind {
                EntryKind::Span => {
                    own.insert(key(first), next);
                    next += 1;
                }
                EntryKind::Enter => {
                    if let Some(definition) = own
                        .get(&key(first))
                        .copied()
                        .or_else(|| self.made_before(first, second))
                    {
                        track.enter(window, Some(first), definition, (self.unix)(second));
                    }
                }
                EntryKind::Exit => track.exit(window, Some(first), (self.unix)(second)),
                EntryKind::StepOpen => {
                    track.enter(window, None, next, (self.unix)(second));
                    next += 1;
                }
                EntryKind::StepClose => track.exit(window, None, (self.unix)(first)),
                EntryKind::Event => {
                    track.happen(window, next, (self.unix)(second));
                    next += 1;
                }
                EntryKind::Fields => {}
            }
        }
        window.words[thread] = words;
    }
}

/// Returns a span id for hashing. The registry counts in the upper bits, for which `rustc_hash`
/// alone yields few different hashes.
fn key(span: u64) -> u64 {
    span.rotate_left(16)
}

/// State of a thread during replay.
struct ThreadTrack {
    thread: usize,
    /// Open spans and their runs, outermost first; a step has no span.
    open: Vec<(Option<u64>, usize)>,
    end: i64,
}

impl ThreadTrack {
    fn enter(&mut self, window: &mut SpanWindow, span: Option<u64>, definition: usize, start: i64) {
        // Calls nest in ops but are not nodes of the execution trace, so they are skipped as
        // parents.
        let mut around = self.open.iter().rev().map(|(_, row)| *row);
        let parent = around.find(|row| window.facts(&window.ran[*row]).role.is_op());
        self.open.push((span, window.ran.len()));
        let (thread, end) = (self.thread, self.end);
        window.ran.push(SpanRun {
            definition,
            thread,
            start,
            end,
            finished: false,
            parent,
            forward: None,
            rf_id: 0,
        });
    }

    /// Closes a span, usually the innermost. Does nothing for a span not entered in this window.
    fn exit(&mut self, window: &mut SpanWindow, span: Option<u64>, end: i64) {
        // Guards may be dropped in any order, so the span need not be the innermost.
        if let Some(at) = self.open.iter().rposition(|(open, _)| *open == span) {
            let (_, row) = self.open.remove(at);
            (window.ran[row].end, window.ran[row].finished) = (end, true);
        }
    }

    /// Adds a device row with the times that the device reported. A row that ended before the
    /// window belongs to another one.
    fn happen(&mut self, window: &mut SpanWindow, definition: usize, now: i64) {
        let facts = &window.definitions[definition].facts;
        let end = facts.end_ns.unwrap_or(now);
        // Programs may report an end before the start; such a row gets duration 0.
        let start = facts.start_ns.unwrap_or(end).min(end);
        if facts.role == SpanRole::Row && end >= window.start {
            let thread = self.thread;
            window.ran.push(SpanRun {
                definition,
                thread,
                start,
                end,
                finished: true,
                parent: None,
                forward: None,
                rf_id: 0,
            });
        }
    }
}
