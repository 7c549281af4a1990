//! What a window's buffers say: ranges on threads, with their parents and ids. Both recorders write
//! from it.
//!
//! A span is looked for where it was made. Its id may come again later, but only on the thread that
//! made it, so on that thread the latest span with the id is meant; a thread that was given the
//! span looks for the latest one that was made before. O(n log n).

use super::facts::{SpanFacts, SpanRole, named};
use crate::spans::{Collector, EntryKind, FieldValue, RecordedThread, WindowSnapshot, entries};
use rustc_hash::FxHashMap;
use std::ops::Range;
use tracing::Metadata;

/// Where words are: thread, and place in its words.
type WordRange = (usize, Range<usize>);

/// A span or event as it was made.
#[derive(Debug)]
struct SpanDefinition {
    callsite: Option<&'static Metadata<'static>>,
    /// Its fields, and those that were recorded later.
    fields: WordRange,
    later: Vec<WordRange>,
    facts: SpanFacts,
}

/// One time that a span ran on a thread; an event or a step.
#[derive(Clone, Debug)]
pub(crate) struct SpanRun {
    definition: usize,
    /// Row of [`SpanWindow::threads`].
    pub(crate) thread: usize,
    /// Unix time, nanoseconds; half-open.
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// It still ran when the window closed, which is its end then.
    pub(crate) finished: bool,
    /// The op or annotation around it on its thread.
    pub(crate) parent: Option<usize>,
    /// The op whose backward it is.
    pub(crate) forward: Option<usize>,
    /// `Record function id` of ops and annotations, else 0.
    pub(crate) rf_id: u64,
}

/// A window, in the order of start times; what starts at one time is in the order in which it
/// began.
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
    /// `next_id` is the first free `Record function id`.
    pub(crate) fn read(
        collector: &Collector,
        mut snapshot: WindowSnapshot,
        next_id: u64,
    ) -> SpanWindow {
        // Threads register in any order; their numbers in the process make the output the same.
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
        // All spans are known before any thread is replayed: a span may run where it was not made.
        reader.define(&mut window);
        (0..window.threads.len()).for_each(|thread| reader.replay(&mut window, thread));
        window.order();
        // Ids follow start times, as `RecordFunction` counts them.
        window.number(next_id);
        window
    }

    pub(crate) fn facts(&self, ran: &SpanRun) -> &SpanFacts {
        &self.definitions[ran.definition].facts
    }

    /// All its fields; one that was recorded again comes again.
    pub(crate) fn fields(&self, ran: &SpanRun) -> impl Iterator<Item = (&'static str, FieldValue)> {
        let definition = &self.definitions[ran.definition];
        let places = std::iter::once(&definition.fields).chain(&definition.later);
        places
            .filter_map(move |place| {
                Some(named(definition.callsite?, words_at(&self.words, place)))
            })
            .flatten()
    }

    /// One past the last `Record function id`, if there is any.
    pub(crate) fn last_id(&self) -> Option<u64> {
        self.ran
            .iter()
            .map(|ran| ran.rf_id)
            .max()
            .filter(|id| *id > 0)
    }

    /// By start time.
    fn order(&mut self) {
        let mut order: Vec<usize> = (0..self.ran.len()).collect();
        // The sort is stable: what begins at one instant keeps its order, parents before children.
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

    /// Ids, and which op each backward op belongs to: the last one with its number that began
    /// before.
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
                // Nested ops share a number in PyTorch, and
                // the innermost is the backward op's partner.
                Some(seq) => drop(forward.insert(seq, row)),
                None => {}
            }
        }
    }
}

struct WindowReader<'a> {
    callsites: Vec<&'static Metadata<'static>>,
    /// Each span: id, a time before which it was not made, definition. Sorted.
    made: Vec<(u64, u64, usize)>,
    unix: &'a dyn Fn(u64) -> i64,
}

impl WindowReader<'_> {
    /// Finds all spans and events and what they say, in the order of threads and buffers.
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
                    // Making a span has no time of its own in the buffer;
                    // the last time before it bounds it from below.
                    EntryKind::Enter | EntryKind::Exit => now = second,
                    EntryKind::StepClose => now = first,
                }
            }
        }
        self.made.sort_unstable();
        for (span, time, place) in told {
            // Fields may arrive from another thread than the
            // span's, so they are joined after all are known.
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

    /// The latest span with this id that may have been made by then.
    fn made_before(&self, span: u64, time: u64) -> Option<usize> {
        let after = self
            .made
            .partition_point(|made| (made.0, made.1) <= (span, time));
        let (id, _, definition) = *self.made.get(after.checked_sub(1)?)?;
        (id == span).then_some(definition)
    }

    /// What ran on a thread.
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

/// A span's id to be hashed. The registry counts in the upper bits, of which `rustc_hash` alone
/// makes few different hashes.
fn key(span: u64) -> u64 {
    span.rotate_left(16)
}

/// A thread as time goes on.
struct ThreadTrack {
    thread: usize,
    /// Span and what runs, outermost first; a step has no span.
    open: Vec<(Option<u64>, usize)>,
    end: i64,
}

impl ThreadTrack {
    fn enter(&mut self, window: &mut SpanWindow, span: Option<u64>, definition: usize, start: i64) {
        // Calls nest in ops but are no nodes of the
        // execution trace, so they are skipped as parents.
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

    /// Usually of what was entered last; of a span that was not entered in this window, nothing.
    fn exit(&mut self, window: &mut SpanWindow, span: Option<u64>, end: i64) {
        // Guards may drop in any order, so the span need not be the innermost.
        if let Some(at) = self.open.iter().rposition(|(open, _)| *open == span) {
            let (_, row) = self.open.remove(at);
            (window.ran[row].end, window.ran[row].finished) = (end, true);
        }
    }

    /// A device row whose times the device reported. One from before the window belongs to another.
    fn happen(&mut self, window: &mut SpanWindow, definition: usize, now: i64) {
        let facts = &window.definitions[definition].facts;
        let end = facts.end_ns.unwrap_or(now);
        // Programs may report an end before the start; such a row gets no length.
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
