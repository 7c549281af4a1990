//! Slices of traces: a range of steps or of time.

use crate::text::SyntaxError;
use etlink_link::ranks::RankSteps;
use etlink_model::{
    DeviceTrace, Diagnostic, DurationNs, KeptTime, SlicedStep, TimeNs, UnixNs, diagnostic,
};

/// Part of each trace to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceSlice {
    /// Inclusive range of step numbers.
    Steps {
        /// First step.
        first: i64,
        /// Last step.
        last: i64,
    },
    /// Range of time since the beginning of the run.
    Time {
        /// Beginning of the run, by the clock of the trace; `None` for the beginning of the trace.
        begin: Option<UnixNs>,
        /// Beginning of the range.
        from: DurationNs,
        /// End of the range; `None` for the end of the trace.
        until: Option<DurationNs>,
    },
}

const NO_STEPS: SyntaxError = SyntaxError("give one or two step numbers, such as 3 or 3-5");
const NO_TIME: SyntaxError = SyntaxError(
    "give a range of times with units, such as 1.5s..2s, 200ms.. or ..5s (s, ms, us, ns)",
);
const BACKWARDS: SyntaxError = SyntaxError("the end is not after the start");

impl TraceSlice {
    /// Parses step numbers: `3` or `3-5`.
    ///
    /// # Errors
    /// Fails if the text has another form.
    pub fn parse_steps(text: &str) -> Result<TraceSlice, SyntaxError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| NO_STEPS);
        let (first, last) = (i64::from(number(first)?), i64::from(number(last)?));
        if first <= last {
            Ok(TraceSlice::Steps { first, last })
        } else {
            Err(BACKWARDS)
        }
    }

    /// Parses times since the beginning of the run: `1.5s..2s`, `200ms..`, `..5s`.
    ///
    /// # Errors
    /// Fails if the text has another form.
    pub fn parse_time(text: &str) -> Result<TraceSlice, SyntaxError> {
        let (from, until) = text.split_once("..").ok_or(NO_TIME)?;
        let end = |text: &str| match text.trim() {
            "" => Ok(None),
            time => parse_time(time).map(Some),
        };
        let (from, until) = (end(from)?, end(until)?);
        if from.is_none() && until.is_none() {
            return Err(NO_TIME);
        }
        let from = from.unwrap_or_default();
        if until.is_none_or(|until| from < until) {
            Ok(TraceSlice::Time {
                begin: None,
                from,
                until,
            })
        } else {
            Err(BACKWARDS)
        }
    }

    /// Locates the slice in a trace. For an empty slice, `Err` describes the trace's content.
    pub(crate) fn choose(
        self,
        device: &DeviceTrace,
        window: (TimeNs, TimeNs),
    ) -> Result<ChosenSlice, String> {
        let all = RankSteps::numbered(device);
        match self {
            TraceSlice::Steps { first, last } => choose_steps(all, first, last),
            TraceSlice::Time { begin, from, until } => {
                let begin = begin.map_or(window.0, |begin| device.header.trace_time(begin));
                let time = KeptTime {
                    from: begin + from,
                    until: until.map_or(TimeNs(i64::MAX), |until| begin + until),
                };
                choose_time(all, window, time).ok_or_else(|| {
                    let late = seconds(window.0 - begin);
                    let extent = extent(window.1 - window.0);
                    if window.0 == begin {
                        extent
                    } else {
                        format!("{extent}, from {late} after the begin of the run on")
                    }
                })
            }
        }
    }

    /// Returns the slice for a trace of a run that began at `run_begin`, by the clock of the trace.
    pub(crate) fn since(self, run_begin: Option<UnixNs>) -> TraceSlice {
        match self {
            TraceSlice::Time { from, until, .. } => TraceSlice::Time {
                begin: run_begin,
                from,
                until,
            },
            steps @ TraceSlice::Steps { .. } => steps,
        }
    }
}

/// A located slice of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenSlice {
    pub(crate) time: KeptTime,
    /// Complete steps in the slice.
    pub(crate) steps: Vec<SlicedStep>,
    /// Note on the slice.
    pub(crate) note: Diagnostic,
}

/// Note on every slice.
const BEFORE: &str = "device work launched earlier counts as launched before the recording";

fn choose_steps(all: Vec<SlicedStep>, first: i64, last: i64) -> Result<ChosenSlice, String> {
    let whole = named_steps(&all).ok_or("the trace has no steps")?;
    let is_chosen = |step: &SlicedStep| first <= step.number && step.number <= last;
    let steps: Vec<SlicedStep> = all.into_iter().filter(is_chosen).collect();
    let from = steps.iter().map(|step| step.start).min();
    let until = steps.iter().map(|step| step.end).max();
    let (Some(from), Some(until), Some(named)) = (from, until, named_steps(&steps)) else {
        return Err(format!("the trace has {whole}"));
    };
    let is_read = if steps.len() == 1 {
        "is read"
    } else {
        "are read"
    };
    Ok(ChosenSlice {
        time: KeptTime { from, until },
        note: diagnostic!(
            SliceRead,
            "only {named} {is_read}, out of {whole} in the trace; {BEFORE}"
        ),
        steps,
    })
}

/// Names steps by their numbers; `None` if there are none.
fn named_steps(steps: &[SlicedStep]) -> Option<String> {
    let numbers = || steps.iter().map(|step| step.number);
    let (least, most) = (numbers().min()?, numbers().max()?);
    Some(if least == most {
        format!("step {least}")
    } else {
        format!("steps {least} to {most}")
    })
}

fn choose_time(
    all: Vec<SlicedStep>,
    window: (TimeNs, TimeNs),
    asked: KeptTime,
) -> Option<ChosenSlice> {
    let (begin, end) = window;
    if asked.from >= end || asked.until <= begin {
        return None;
    }
    let time = KeptTime {
        from: asked.from.max(begin),
        // the last event of the trace is included
        until: asked.until.min(end.shifted(1)),
    };
    let is_whole = |step: &SlicedStep| time.from <= step.start && step.end <= time.until;
    let steps = all.into_iter().filter(is_whole).collect();
    let (from, until) = (
        seconds(time.from - begin),
        seconds(time.until.min(end) - begin),
    );
    let length = seconds(end - begin);
    Some(ChosenSlice {
        time,
        steps,
        note: diagnostic!(
            SliceRead,
            "only {from} to {until} of the trace of {length} is read; {BEFORE}"
        ),
    })
}

impl ChosenSlice {
    /// Cuts the slice out of the trace, or out of the part that was read for it.
    pub(crate) fn cut(self, device: &mut DeviceTrace) {
        device.cut(self.time);
        // their ops have moved, and `sliced_steps` replaces them
        device.marked_steps = None;
        device.sliced_steps = Some(self.steps);
    }
}

/// Writes the option as it was given, for messages.
impl std::fmt::Display for TraceSlice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TraceSlice::Steps { first, last } if first == last => {
                write!(f, "--steps {first}")
            }
            TraceSlice::Steps { first, last } => write!(f, "--steps {first}-{last}"),
            TraceSlice::Time { from, until, .. } => {
                let until = until.map_or(String::new(), |until| format!("{}s", decimal(until)));
                write!(f, "--time {}s..{until}", decimal(*from))
            }
        }
    }
}

/// Describes the length of a trace, for the error of an empty slice.
pub(crate) fn extent(length: DurationNs) -> String {
    format!("the trace lasts {}", seconds(length))
}

fn seconds(time: DurationNs) -> String {
    format!("{:.3} s", time.0 as f64 / 1e9)
}

/// Returns a time in seconds with all significant digits.
fn decimal(time: DurationNs) -> String {
    let text = format!("{}.{:09}", time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Parses a time such as `1.5s` to exact ns.
pub(crate) fn parse_time(text: &str) -> Result<DurationNs, SyntaxError> {
    // longest unit first: `ms` ends in `s`
    const UNITS: [(&str, u32); 4] = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
    let unit = UNITS.into_iter().find_map(|(unit, digits)| {
        let number = text.strip_suffix(unit)?;
        Some((number.trim_end(), digits))
    });
    let (number, digits) = unit.ok_or(NO_TIME)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > digits as usize {
        return Err(NO_TIME);
    }
    let padded = format!("{whole}{part:0<width$}", width = digits as usize);
    let ns = padded.parse().map_err(|_| NO_TIME)?;
    Ok(DurationNs(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_times_are_read_exactly() {
        let steps = |first, last| Ok(TraceSlice::Steps { first, last });
        assert_eq!(TraceSlice::parse_steps("3-5"), steps(3, 5));
        assert_eq!(TraceSlice::parse_steps("0"), steps(0, 0));
        assert_eq!(TraceSlice::parse_steps("5-3"), Err(BACKWARDS));
        for text in ["", "-", "3-", "a", "3,5", "3-5-7", "-3"] {
            assert_eq!(TraceSlice::parse_steps(text), Err(NO_STEPS), "{text}");
        }
        let time = |from, until: Option<i64>| {
            Ok(TraceSlice::Time {
                begin: None,
                from: DurationNs(from),
                until: until.map(DurationNs),
            })
        };
        assert_eq!(
            TraceSlice::parse_time("1.5s..2s"),
            time(1_500_000_000, Some(2_000_000_000))
        );
        assert_eq!(TraceSlice::parse_time("200ms.."), time(200_000_000, None));
        assert_eq!(TraceSlice::parse_time("..5us"), time(0, Some(5_000)));
        assert_eq!(TraceSlice::parse_time("0.1us..3 ns"), Err(BACKWARDS));
        for text in [
            "..",
            "1s",
            "1..2",
            "1.5ns..",
            "-1s..",
            "1s..2s..3s",
            "1e3s..",
            "99999999999s..",
        ] {
            assert_eq!(TraceSlice::parse_time(text), Err(NO_TIME), "{text}");
        }
    }
}
