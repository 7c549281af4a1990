//! Lengths of a rank's steps, and the steps that count.
//!
//! ```text
//! ranges on the host   |==1==|===2===|==3==|
//! device work             ==1==|=====2=====|====3=|
//!                      |-- 1 --|---- 2 ----|-- 3 -|      lengths
//! ```
//! A step ends when its range and the device work launched in it have ended, whichever is later. It
//! begins when the previous step ends: a host that runs ahead of its device does not make steps
//! shorter, and time between ranges, as for loading data, belongs to the step after it. At the start
//! of a recording, devices carry out the iteration before it: the first step begins when they have
//! ended that. So lengths add up to the time from the first step's begin to the last one's end. Ranges of inference
//! engines and those that the user marked do not follow each other: such a step begins no earlier
//! than its own range.
//!
//! Device work belongs to the step in which its launch call began, on any thread; of nested steps,
//! to the innermost. What an inference engine launches after the range of an iteration, before the
//! next one (sampling), is part of the iteration.

use super::{RankSteps, StepRanges, StepSpan};
use crate::earlier_work::earlier_work_end;
use crate::{LinkedTrace, NoLaunch};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{DeviceTrace, RowIdx, StepIdx, TableIdx, TimeNs};
use serde::Serialize;
use std::cmp::Reverse;

/// Reason a step is left out of all means, medians, spreads and per-step figures.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepExclusion {
    /// The step launched nothing on a device, while other steps did.
    #[default]
    NoDeviceRows,
    /// First or last step, less than a tenth as long as any other: truncated by the recording.
    /// Never applies to inference steps: a decode can be that much shorter than a prefill.
    Stub,
    /// The recorder lost all device rows of the step.
    LostRows,
    /// First step, counted shorter than its host worked and than each other step: at its start,
    /// devices still carried out the iteration before it.
    BehindEarlierWork,
}

impl StepExclusion {
    /// Phrase to follow the name of the step in a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            StepExclusion::NoDeviceRows => "launched no device work",
            StepExclusion::Stub => "is truncated",
            StepExclusion::LostRows => "lost its device rows",
            StepExclusion::BehindEarlierWork => "begins behind earlier work of devices",
        }
    }
}

/// Returns the steps of a trace, in the order of their ranges, with lengths and exclusions.
pub(super) fn with_lengths(ranges: &StepRanges, trace: &LinkedTrace) -> Vec<StepSpan> {
    let mut steps = ranges.step_spans(&trace.device);
    if steps.is_empty() {
        return steps;
    }
    let mut has_rows = vec![false; steps.len()];
    let rows = &trace.device.rows;
    for (row, step) in steps_of_rows(trace, &steps).into_iter().enumerate() {
        let Some(step) = step.get() else { continue };
        has_rows[step.index()] = true;
        let end = rows.start[row] + rows.duration[row];
        let end = trace.host_time(RowIdx::from_index(row), end);
        let step = &mut steps[step.index()];
        step.done_ns = step.done_ns.max(trace.device.header.unix_time(end));
    }
    let stubs = RankSteps::stubs(&steps);
    let any_rows = has_rows.contains(&true);
    for (place, has_rows) in has_rows.into_iter().enumerate() {
        steps[place].excluded = if !has_rows && has_lost_rows(trace, &steps[place]) {
            Some(StepExclusion::LostRows)
        } else if stubs.contains(&StepIdx::new(place)) {
            Some(StepExclusion::Stub)
        } else {
            (any_rows && !has_rows).then_some(StepExclusion::NoDeviceRows)
        };
    }
    let order = by_start(&steps);
    let header = &trace.device.header;
    let start = header.trace_time(steps[order[0]].start_ns);
    let begin = header.unix_time(earlier_work_end(trace, start));
    let mut until = begin.min(steps[order[0]].done_ns);
    for place in order {
        let step = &mut steps[place];
        let own = ranges.is_separate.then_some(step.start_ns);
        step.begin_ns = own.map_or(until, |own| own.max(until));
        step.done_ns = step.done_ns.max(step.begin_ns);
        until = step.done_ns;
    }
    exclude_short(&mut steps);
    steps
}

/// Length of the host's range, and of other steps, relative to a step's counted length, above which
/// the step is counted short.
const CLEARLY_LONGER: f64 = 1.05;

/// Excludes a first step that begins behind earlier work, and is shorter for it: than its own host's
/// range, and than each other step. If devices set the pace, its length is right. O(steps).
fn exclude_short(steps: &mut [StepSpan]) {
    let Some((first, others)) = steps.split_first_mut() else {
        return;
    };
    let on_host = first.end_ns.since(first.start_ns) as f64;
    let longer = CLEARLY_LONGER * first.length_ns() as f64;
    let counted = others.iter().filter(|step| step.excluded.is_none());
    let shortest = counted.map(StepSpan::length_ns).min();
    let is_short = first.begin_ns > first.start_ns
        && on_host > longer
        && shortest.is_some_and(|shortest| shortest as f64 > longer);
    if is_short && first.excluded.is_none() {
        first.excluded = Some(StepExclusion::BehindEarlierWork);
    }
}

/// Returns the indices of the steps by start, outer ones before those nested in them.
fn by_start(steps: &[StepSpan]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|step| (steps[*step].start_ns, Reverse(steps[*step].end_ns)));
    order
}

/// Returns true if the recorder lost so many rows in a step that the devices' state is unknown.
fn has_lost_rows(trace: &LinkedTrace, step: &StepSpan) -> bool {
    let header = &trace.device.header;
    let (start, end) = (
        header.trace_time(step.start_ns),
        header.trace_time(step.end_ns),
    );
    let window = trace.report.window;
    let sanity = trace.device.row_sanity.iter();
    let mut unknown = sanity.flat_map(|sanity| &sanity.unknown);
    unknown.any(|(from, until)| {
        let from = from.0.max(window.start_ns).max(start.0);
        from < until.0.min(window.end_ns).min(end.0)
    })
}

/// Returns the step in which each row was launched; none for launches outside the steps or before
/// the recording.
pub(super) fn steps_of_rows(trace: &LinkedTrace, steps: &[StepSpan]) -> Vec<StepIdx> {
    let mut of_rows = vec![StepIdx::NONE; trace.device.rows.len()];
    if steps.is_empty() {
        return of_rows;
    }
    let order = by_start(steps);
    let mut open: Vec<usize> = vec![];
    let mut next = 0;
    // Launches and steps are both sorted by time: one pass with a stack of open steps is enough.
    for (launched, row) in launched_rows(trace) {
        let launched = trace.device.header.unix_time(launched);
        let begun = order.partition_point(|step| steps[*step].start_ns <= launched);
        open.extend(&order[next..begun]);
        next = begun;
        // steps that have ended may be above others that have not
        while open
            .pop_if(|step| steps[*step].end_ns <= launched)
            .is_some()
        {}
        let last = order[..begun].last();
        let last = last.filter(|step| steps[**step].work.phase.is_some());
        if let Some(step) = open.last().or(last) {
            of_rows[row] = StepIdx::new(*step);
        }
    }
    of_rows
}

/// Lists rows with their launch times, sorted by these.
fn launched_rows(trace: &LinkedTrace) -> Vec<(TimeNs, usize)> {
    let device: &DeviceTrace = &trace.device;
    let rows = 0..device.rows.len();
    let launched = rows.filter(|row| trace.row_no_launch[*row] == NoLaunch::Launched);
    let called = launched.filter_map(|row| {
        let call = trace.row_call[row].get()?;
        Some((device.calls.start[call.index()], row))
    });
    let mut all: Vec<(TimeNs, usize)> = called.collect();
    all.sort_unstable();
    all
}
