//! What the walk over a trace hands to the writer of a format.

use super::arrows::ArrowEnd;
use super::recorded::RecordedValue;
use etlink_link::ranks::RankClock;
use etlink_model::{CommonNs, DurationNs, TimeNs, UnixNs};
use serde::Serialize;
use std::fmt::{Display, Write as _};
use std::io;

/// A thread of a process, as Perfetto numbers them. No two threads of a file have one number, and
/// no two processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TrackId {
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// A process.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrackProcess<'n> {
    pub(super) pid: u32,
    /// The rank, in a file of several.
    pub(super) rank: Option<&'n str>,
    pub(super) name: &'n str,
    /// Where it stands among the others.
    pub(super) place: u32,
    /// What else is said of it.
    pub(super) label: Option<&'n str>,
}

/// A range on a track.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrackRange<'n> {
    pub(super) track: TrackId,
    pub(super) name: &'n str,
    pub(super) category: &'n str,
    pub(super) start: TimeNs,
    pub(super) duration: DurationNs,
    /// It is an instant, which has no duration.
    pub(super) is_instant: bool,
}

/// A counter of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterTrack<'n> {
    pub(super) pid: u32,
    /// That of no other counter of the process; its place among them.
    pub(super) number: u32,
    pub(super) name: &'n str,
    pub(super) unit: CounterUnit,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CounterUnit {
    Count,
    Bytes,
    /// As its name says.
    Other,
}

/// A value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CounterValue {
    Whole(i64),
    Measured(f64),
}

/// What makes times of a trace those of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileTimes {
    /// Of the trace against the file's.
    pub(super) clock: RankClock,
    /// What the trace's times are since, by its own clock.
    pub(super) base_ns: UnixNs,
    /// The instant that is 0, by the file's clock.
    pub(super) origin_ns: CommonNs,
}

impl FileTimes {
    /// Of a trace by itself, where `origin` is 0.
    pub(super) fn since_origin(origin: TimeNs) -> FileTimes {
        FileTimes {
            clock: RankClock::default(),
            // Trace time is file time, but for the origin: no clock has to be consulted.
            base_ns: UnixNs(0),
            origin_ns: CommonNs(origin.0),
        }
    }

    /// Ns from the origin. Later is not earlier.
    pub(super) fn file_ns(&self, at: TimeNs) -> i64 {
        let common = self.clock.aligned(self.base_ns.shifted(at.0));
        common.since(self.origin_ns)
    }
}

/// Value of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FactValue<'v> {
    Int(i64),
    Uint(u64),
    Bool(bool),
    Text(&'v str),
}

macro_rules! value {
    ($($from:ty => $kind:ident),*) => {
        $(impl From<$from> for FactValue<'_> {
            fn from(value: $from) -> Self {
                FactValue::$kind(value.into())
            }
        })*
    };
}

value!(i64 => Int, i32 => Int, u64 => Uint, u32 => Uint, bool => Bool);

/// Writes a format. Processes and threads are made known before ranges are on them. The ranges of a
/// track come by start, the longer first, but for what is inside another: that may come later.
pub(super) trait TimelineSink {
    /// Names what all processes that follow are of: a rank, or the trace.
    fn name_rank(&mut self, name: &str, place: u32) -> io::Result<()>;
    /// Names a process.
    fn name_process(&mut self, process: TrackProcess<'_>) -> io::Result<()>;
    /// Names a thread. `recorded` says how the recording names it, where it does.
    fn name_thread(&mut self, track: TrackId, name: &str, recorded: Option<&str>)
    -> io::Result<()>;
    /// Makes a counter of a process known.
    fn name_counter(&mut self, counter: CounterTrack<'_>) -> io::Result<()>;
    /// The value of a counter from an instant on.
    fn put_counter(
        &mut self,
        counter: CounterTrack<'_>,
        at: TimeNs,
        value: CounterValue,
    ) -> io::Result<()>;
    /// Begins a range; its arguments follow, then [`TimelineSink::end_range`].
    fn begin_range(&mut self, range: TrackRange<'_>) -> io::Result<()>;
    /// An argument of the range.
    fn add_argument(&mut self, key: &'static str, value: FactValue<'_>) -> io::Result<()>;
    /// Begins a group of arguments that the recording has; they follow, then
    /// [`TimelineSink::end_group`].
    fn begin_group(&mut self, key: &'static str) -> io::Result<()>;
    /// An argument of the group.
    fn add_recorded(&mut self, key: &str, value: RecordedValue<'_>) -> io::Result<()>;
    /// Ends the group.
    fn end_group(&mut self) -> io::Result<()>;
    /// Ends the range, at which these arrows begin or end.
    fn end_range(&mut self, arrows: &[ArrowEnd]) -> io::Result<()>;
    /// Hands on what is left.
    fn write_rest(&mut self) -> io::Result<()>;
}

/// A sink and what of a range is said in which way. What the trace does not say is left out.
pub(super) struct FactWriter<'s> {
    pub(super) sink: &'s mut dyn TimelineSink,
    /// Used again for each text that has to be made.
    text: String,
}

impl<'s> FactWriter<'s> {
    pub(super) fn new(sink: &'s mut dyn TimelineSink) -> FactWriter<'s> {
        FactWriter {
            sink,
            text: String::new(),
        }
    }

    /// A number or flag, if there is one.
    pub(super) fn add_number(
        &mut self,
        key: &'static str,
        value: Option<impl Into<FactValue<'static>>>,
    ) -> io::Result<()> {
        value.map_or(Ok(()), |value| self.sink.add_argument(key, value.into()))
    }

    /// A text, unless it is empty.
    pub(super) fn add_text(&mut self, key: &'static str, value: &str) -> io::Result<()> {
        if value.is_empty() {
            Ok(())
        } else {
            self.sink.add_argument(key, FactValue::Text(value))
        }
    }

    /// The word for a value of an enumeration.
    pub(super) fn add_word(
        &mut self,
        key: &'static str,
        value: Option<impl Serialize>,
    ) -> io::Result<()> {
        let Some(value) = value else { return Ok(()) };
        self.add_text(
            key,
            serde_variant::to_variant_name(&value).map_err(io::Error::other)?,
        )
    }

    /// What can be shown.
    pub(super) fn add_shown(&mut self, key: &'static str, value: impl Display) -> io::Result<()> {
        self.text.clear();
        write!(self.text, "{value}").map_err(io::Error::other)?;
        if self.text.is_empty() {
            Ok(())
        } else {
            self.sink.add_argument(key, FactValue::Text(&self.text))
        }
    }
}
