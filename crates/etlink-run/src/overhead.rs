//! Removal of the overhead of recording from the times of a host.

use crate::error::RunError;
use crate::run_files::ManifestEntry;
use crate::slice::parse_time;
use crate::text::SyntaxError;
use etlink_link::ranks::RankSteps;
use etlink_link::{LinkedTrace, RecordingOverhead};
use etlink_model::{
    DeviceTrace, Diagnostic, DurationNs, HostTrace, Setting, command_only, diagnostic,
};
use etlink_replay::{mean_step, recording_cost, without_overhead};
use std::str::FromStr;

/// Treatment of the overhead of recording in the times of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overhead {
    /// Times are given as recorded.
    #[default]
    Keep,
    /// Removed if recording slowed the host down much, and neither another rank that is read nor a
    /// process that loads input can set its pace.
    IfSlowed,
    /// Removed: by the manifest's times of steps that were not recorded, else by ops that do no work.
    Remove,
    /// Removed so that a step takes its known time without recording.
    Step(DurationNs),
}

const NO_OVERHEAD: SyntaxError = SyntaxError(
    "give keep, remove, or the time of a step without recording, such as 25.9ms (s, ms, us, ns)",
);

impl FromStr for Overhead {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Overhead, SyntaxError> {
        match text {
            "keep" => return Ok(Overhead::Keep),
            "remove" => return Ok(Overhead::Remove),
            _ => {}
        }
        match parse_time(text) {
            Ok(step) if step.0 > 0 => Ok(Overhead::Step(step)),
            _ => Err(NO_OVERHEAD),
        }
    }
}

/// Cost of recording per op from which it distorts times, ns. Kineto costs 1 to 3 us per op and the
/// execution trace observer 14 us more, while the mean op takes 4 to 6 us.
const MUCH_PER_OP: DurationNs = DurationNs(8_000);

/// Ratio of recorded to other step times from which recording slowed the host down much. The
/// profiler alone slows host-bound steps down by 1.05 to 1.5 times; the execution trace observer, by
/// 6 to 11 times.
pub(crate) const SLOW: f64 = 1.5;

/// Returns the cost of recording per op if it distorts the times of a host next to devices, which are
/// faster than recorded hosts.
fn slowed_by(manifest: &ManifestEntry, device: &DeviceTrace) -> Option<DurationNs> {
    if device.rows.is_empty() || manifest.is_interleaved {
        return None;
    }
    recording_cost(device).filter(|cost| *cost >= MUCH_PER_OP)
}

/// Part of the name of `DataLoader`'s range if worker processes load the input.
const LOADER_WITH_WORKERS: &str = "_MultiProcessingDataLoaderIter.__next__";

/// Share of the time in which a loop fetches input above which those who load it set the pace.
const MUCH_INPUT: f64 = 0.1;

/// Returns true if the rank communicates with others.
fn has_other_ranks(manifest: &ManifestEntry, device: &DeviceTrace) -> bool {
    let size = manifest.world_size.or(device.header.world_size);
    size.map_or(!device.collectives.is_empty(), |size| size > 1)
}

/// Returns true if processes that load the input set the pace, whose time recording the host does not
/// tell. A faster host would wait longer for these.
fn waits_for_input(device: &DeviceTrace) -> bool {
    let ops = &device.ops;
    let is_fetch = |op: &usize| {
        device
            .names
            .get(ops.name[*op])
            .contains(LOADER_WITH_WORKERS)
    };
    let fetches: Vec<usize> = (0..ops.len()).filter(is_fetch).collect();
    // The first fetch may have to wait for workers that have just begun.
    let [first, later @ ..] = &fetches[..] else {
        return false;
    };
    let end = |op: usize| ops.start[op] + ops.duration[op];
    let waited = later.iter().map(|op| ops.duration[*op].0);
    let passed = later.last().map_or(0, |last| end(*last).since(end(*first)));
    waited.fold(0, i64::saturating_add) as f64 > MUCH_INPUT * passed as f64
}

/// Links traces by `link`, and removes the overhead of recording as `asked`. `is_alone`: no other rank
/// of the run is read, whose host would have to be as much faster.
///
/// # Errors
/// Fails if the traces cannot be linked.
pub(crate) fn link_without_overhead(
    (asked, is_alone): (Overhead, bool),
    manifest: &ManifestEntry,
    (host, device): (Option<HostTrace>, DeviceTrace),
    link: impl Fn(Option<HostTrace>, DeviceTrace) -> Result<LinkedTrace, RunError>,
) -> Result<LinkedTrace, RunError> {
    let slowed = slowed_by(manifest, &device);
    let plain = manifest.plain_step;
    let others = has_other_ranks(manifest, &device);
    let (is_tried, known) = match asked {
        Overhead::Keep => (false, None),
        Overhead::IfSlowed => {
            let may_be_slowed = slowed.is_some() || plain.is_some();
            let is_own_pace = is_alone || !others;
            (
                may_be_slowed && is_own_pace && !waits_for_input(&device),
                plain,
            )
        }
        Overhead::Remove => (true, plain),
        Overhead::Step(step) => (true, Some(step)),
    };
    let overhead = slowed.map(|per_op_ns| RecordingOverhead {
        per_op_ns,
        ..RecordingOverhead::default()
    });
    if !is_tried {
        let mut trace = link(host, device)?;
        let note = overhead.as_ref().map(overhead_note);
        trace
            .report
            .diagnostics
            .extend(manifest.cost.clone().or(note));
        trace.report.overhead = overhead;
        return Ok(trace);
    }
    let mut recorded = link(host.clone(), device)?;
    let (device, mut overhead) = match without_overhead(&recorded, known) {
        Ok(removed) => removed,
        Err(reason) => {
            let note = diagnostic!(
                RecordingOverhead,
                "times are as recorded, with the overhead of recording: {reason}"
            );
            recorded.report.diagnostics.extend(manifest.cost.clone());
            recorded.report.diagnostics.push(note);
            recorded.report.overhead = overhead;
            return Ok(recorded);
        }
    };
    let steps = overhead.recorded_step_ns.zip(known);
    let is_slow = steps.is_none_or(|(step, known)| step.0 as f64 > SLOW * known.0 as f64);
    if asked == Overhead::IfSlowed && !is_slow {
        return Ok(recorded);
    }
    if overhead.per_op_ns == DurationNs::ZERO {
        recorded.report.diagnostics.push(diagnostic!(
            RecordingOverhead,
            "times are as recorded: recorded steps are no longer than those without recording"
        ));
        return Ok(recorded);
    }
    drop(recorded);
    let mut trace = link(host, device)?;
    overhead.step_ns = mean_step(&RankSteps::of_trace(&trace));
    trace.report.overhead = Some(overhead);
    trace.report.diagnostics.push(overhead_note(&overhead));
    if others {
        trace.report.diagnostics.push(diagnostic!(
            RecordingOverhead,
            "durations of communication are as recorded: they include waits for other ranks, which recording slowed down too"
        ));
    }
    Ok(trace)
}

/// Describes the overhead of a recording, and how to get other times.
pub fn overhead_note(overhead: &RecordingOverhead) -> Diagnostic {
    let cost_us = overhead.per_op_ns.0 as f64 / 1e3;
    let cost = format!("recording slowed the host by about {cost_us:.1} us per op");
    if !overhead.is_removed {
        let interleave = command_only("; etlink record --interleave avoids most of it".to_owned());
        let slowed = diagnostic!(
            RecordingOverhead,
            "{cost}, so that devices look idler than they are: times are as recorded"
        );
        return slowed.advise(format!(
            "{} gives an estimate without it{interleave}",
            Setting::RemoveOverhead
        ));
    }
    let steps = [
        ("steps take", overhead.step_ns),
        ("recorded", overhead.recorded_step_ns),
        ("known", overhead.known_step_ns),
    ];
    let steps = steps.iter().filter_map(|(name, step)| {
        let step_ms = step.as_ref()?.0 as f64 / 1e6;
        Some(format!("{name} {step_ms:.3} ms"))
    });
    diagnostic!(
        RecordingOverhead,
        "{cost}; times of the host are given without it ({})",
        steps.collect::<Vec<_>>().join(", ")
    )
    .advise(format!("{} gives them as recorded", Setting::KeepOverhead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_a_unit_and_a_length() {
        let step = |ns| Ok(Overhead::Step(DurationNs(ns)));
        assert_eq!("25.9ms".parse(), step(25_900_000));
        assert_eq!("keep".parse(), Ok(Overhead::Keep));
        assert_eq!("remove".parse(), Ok(Overhead::Remove));
        for text in ["", "25.9", "0ms", "-3ms", "fast"] {
            assert_eq!(text.parse::<Overhead>(), Err(NO_OVERHEAD), "{text}");
        }
    }
}
