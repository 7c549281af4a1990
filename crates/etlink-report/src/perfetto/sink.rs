//! Interface between the traversal of a trace and the writers of formats.

use super::arrows::ArrowEnd;
use super::recorded::ArgumentValue;
use etlink_link::ranks::RankClock;
use etlink_model::{CommonNs, DurationNs, TimeNs, UnixNs};
use serde::Serialize;
use std::fmt::{Display, Write as _};
use std::io;

/// A thread and its process, as numbered by Perfetto. Thread numbers and process numbers are unique
/// in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TrackId {
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// A process in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrackProcess<'n> {
    pub(super) pid: u32,
    /// Name of the rank, in a file of several ranks.
    pub(super) rank: Option<&'n str>,
    pub(super) name: &'n str,
    /// Position among the other processes.
    pub(super) place: u32,
    /// Additional label of the process.
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
    /// True if the range is an instant without duration.
    pub(super) is_instant: bool,
}

/// A counter of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterTrack<'n> {
    pub(super) pid: u32,
    /// Unique number and position among the process's counters.
    pub(super) number: u32,
    pub(super) name: &'n str,
    pub(super) unit: CounterUnit,
}

/// Unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CounterUnit {
    Count,
    Bytes,
    /// Any other unit, named by the counter.
    Other,
}

/// A value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CounterValue {
    Whole(i64),
    Measured(f64),
}

/// Converts times of a trace to times of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileTimes {
    /// Clock of the trace relative to the file's.
    pub(super) clock: RankClock,
    /// Origin of the trace's times, by the trace's clock.
    pub(super) base_ns: UnixNs,
    /// Instant of file time 0, by the file's clock.
    pub(super) origin_ns: CommonNs,
}

impl FileTimes {
    /// Creates the conversion for a single trace, with `origin` as time 0.
    pub(super) fn since_origin(origin: TimeNs) -> FileTimes {
        FileTimes {
            clock: RankClock::default(),
            // Trace time equals file time except for the origin: no clock is needed.
            base_ns: UnixNs(0),
            origin_ns: CommonNs(origin.0),
        }
    }

    /// Converts a time to ns from the origin. Preserves order.
    pub(super) fn file_ns(&self, at: TimeNs) -> i64 {
        let common = self.clock.aligned(self.base_ns.shifted(at.0));
        common.since(self.origin_ns)
    }
}

/// Writer of a format. Processes and threads are named before their ranges. The ranges of a track
/// arrive by start, the longer first, except nested ones, which may arrive later.
pub(super) trait TimelineSink {
    /// Names the owner of all following processes: a rank, or the trace.
    fn name_rank(&mut self, name: &str, place: u32) -> io::Result<()>;
    /// Names a process.
    fn name_process(&mut self, process: TrackProcess<'_>) -> io::Result<()>;
    /// Names a thread. `recorded` is its name in the recording, if any.
    fn name_thread(&mut self, track: TrackId, name: &str, recorded: Option<&str>)
    -> io::Result<()>;
    /// Declares a counter of a process.
    fn name_counter(&mut self, counter: CounterTrack<'_>) -> io::Result<()>;
    /// Sets the value of a counter from an instant on.
    fn put_counter(
        &mut self,
        counter: CounterTrack<'_>,
        at: TimeNs,
        value: CounterValue,
    ) -> io::Result<()>;
    /// Begins a range; its arguments follow, then [`TimelineSink::end_range`].
    fn begin_range(&mut self, range: TrackRange<'_>) -> io::Result<()>;
    /// Adds an argument to the range.
    fn add_argument(&mut self, key: &'static str, value: ArgumentValue<'_>) -> io::Result<()>;
    /// Begins a group of recorded arguments; they follow, then [`TimelineSink::end_group`].
    fn begin_group(&mut self, key: &'static str) -> io::Result<()>;
    /// Adds an argument to the group.
    fn add_recorded(&mut self, key: &str, value: ArgumentValue<'_>) -> io::Result<()>;
    /// Ends the group.
    fn end_group(&mut self) -> io::Result<()>;
    /// Ends the range; `arrows` begin or end at the range.
    fn end_range(&mut self, arrows: &[ArrowEnd]) -> io::Result<()>;
    /// Writes the remaining output.
    fn write_rest(&mut self) -> io::Result<()>;
}

/// Adds arguments to a range through a sink; absent values are left out.
pub(super) struct FactWriter<'s> {
    pub(super) sink: &'s mut dyn TimelineSink,
    /// Buffer for formatted texts.
    text: String,
}

impl<'s> FactWriter<'s> {
    pub(super) fn new(sink: &'s mut dyn TimelineSink) -> FactWriter<'s> {
        FactWriter {
            sink,
            text: String::new(),
        }
    }

    /// Adds a number or flag, if there is one.
    pub(super) fn add_number(
        &mut self,
        key: &'static str,
        value: Option<impl Into<ArgumentValue<'static>>>,
    ) -> io::Result<()> {
        value.map_or(Ok(()), |value| self.sink.add_argument(key, value.into()))
    }

    /// Adds a text, unless it is empty.
    pub(super) fn add_text(&mut self, key: &'static str, value: &str) -> io::Result<()> {
        if value.is_empty() {
            Ok(())
        } else {
            self.sink
                .add_argument(key, ArgumentValue::Text(value.into()))
        }
    }

    /// Adds an enumeration value by its serialized name.
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

    /// Adds a displayable value, unless its text is empty.
    pub(super) fn add_shown(&mut self, key: &'static str, value: impl Display) -> io::Result<()> {
        self.text.clear();
        write!(self.text, "{value}").map_err(io::Error::other)?;
        if self.text.is_empty() {
            Ok(())
        } else {
            self.sink
                .add_argument(key, ArgumentValue::Text((&self.text).into()))
        }
    }
}
