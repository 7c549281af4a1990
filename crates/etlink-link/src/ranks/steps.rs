//! The steps of one rank, and in which of them each communication was launched.
//!
//! Steps are the `ProfilerStep#N` ranges; else what `Optimizer.step#…` ranges end, of several
//! optimizers the one with most; else the user annotations that differ by a number at their end
//! alone (`step 7`), of several such the ones that cover most. An op belongs to the last step that
//! began before it did, by record function ids where the trace has them: PyTorch 2.5 with stacks
//! writes `ProfilerStep`s displaced in time. What a device runs belongs to the step of the op that
//! launched it, whenever it runs.

use crate::LinkedTrace;
use etlink_model::{CommIdx, DeviceTrace, DurationNs, NodeIdx, OpIdx, StepIdx, TimeNs, UnixNs};
use std::collections::BTreeMap;

/// A step of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSpan {
    /// The same on all ranks that do it: `ProfilerStep#7`; optimizer steps are counted from 0 in
    /// the window.
    pub name: String,
    /// When it began, by this rank's clock.
    pub start_ns: UnixNs,
    /// When it ended.
    pub end_ns: UnixNs,
}

/// The steps of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankSteps {
    /// In order of time.
    pub all: Vec<StepSpan>,
    /// Per communication of the rank, its step; [`StepIdx::NONE`] if it was launched before the
    /// first one, or in a trace without steps.
    pub by_comm: Vec<StepIdx>,
}

/// A range that is a step, or ends one.
#[derive(Clone, Copy, Debug)]
struct Range {
    op: OpIdx,
    start: TimeNs,
    end: TimeNs,
    number: i64,
}

/// How the ranges of a trace tell steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A range is a step.
    Is,
    /// A range ends a step.
    Ends,
}

impl RankSteps {
    /// The steps of `trace`, and those of its communications, which are at these nodes. O(ops + n
    /// log steps).
    pub fn new(trace: &LinkedTrace, communications: impl Iterator<Item = NodeIdx>) -> RankSteps {
        let (name, way, ranges, by_id) = ordered(&trace.device);
        let all = named(&trace.device, &name, way, &ranges);
        let cuts = Cuts {
            trace,
            way,
            ranges: &ranges,
            by_id,
        };
        let by_comm = if all.is_empty() {
            communications.map(|_| StepIdx::NONE).collect()
        } else {
            communications.map(|node| cuts.step_at(node)).collect()
        };
        RankSteps { all, by_comm }
    }

    /// The steps of a device trace alone, in order. O(ops).
    pub fn all_of(device: &DeviceTrace) -> Vec<StepSpan> {
        let (name, way, ranges, _) = ordered(device);
        named(device, &name, way, &ranges)
    }

    /// The step of a communication.
    pub fn get(&self, communication: CommIdx) -> Option<&StepSpan> {
        let step = self.by_comm.get(communication.index())?;
        self.all.get(step.get()?.index())
    }
}

/// As [`found`], in order, and whether that is by record function ids.
fn ordered(device: &DeviceTrace) -> (String, Way, Vec<Range>, bool) {
    let (name, way, mut ranges) = found(device);
    let id = |range: &Range| device.ops.rf_id[range.op.index()];
    // Ids grow with the program, and displaced ranges keep theirs.
    let by_id = way == Way::Is && ranges.iter().all(|range| id(range).get().is_some());
    ranges.sort_by_key(|range| (by_id.then(|| id(range)), range.start, range.op));
    (name, way, ranges, by_id)
}

/// What steps are called, how ranges tell them, and these.
fn found(device: &DeviceTrace) -> (String, Way, Vec<Range>) {
    let mut numbered: BTreeMap<&str, Vec<Range>> = BTreeMap::new();
    let mut optimizers: BTreeMap<&str, Vec<Range>> = BTreeMap::new();
    let ops = &device.ops;
    for op in (0..ops.name.len()).filter(|op| ops.annotation[*op]) {
        let (start, end) = (ops.start[op], ops.start[op] + ops.duration[op]);
        let range = |number| Range {
            op: OpIdx(op as u32),
            start,
            end,
            number,
        };
        let name = device.names.get(ops.name[op]);
        // PyTorch wraps `step` of each optimizer in such a range (`Optimizer.profile_hook_step`),
        // also without a schedule.
        if name.starts_with("Optimizer.step#") {
            let steps = optimizers.entry(name).or_default();
            steps.push(range(steps.len() as i64));
        } else if let Some((name, number)) = split(name) {
            numbered.entry(name).or_default().push(range(number));
        }
    }
    const PROFILER: &str = "ProfilerStep#";
    // The profiler's own steps are what the user has asked for, whatever else is numbered.
    if let Some(ranges) = numbered.remove(PROFILER) {
        return (PROFILER.to_owned(), Way::Is, ranges);
    }
    // of equals the first by name, here and below, so that all ranks choose the same
    if let Some((_, ends)) = optimizers.into_iter().reduce(|most, next| {
        if next.1.len() > most.1.len() {
            next
        } else {
            most
        }
    }) {
        return ("optimizer step ".to_owned(), Way::Ends, ends);
    }
    let several = numbered
        .into_iter()
        .filter(|(_, ranges)| ranges.iter().any(|range| range.number != ranges[0].number));
    // summed once for each name: the one with most may have a million ranges
    let covered = several.map(|(name, ranges)| (covered_time(&ranges), name, ranges));
    let most = covered.reduce(|most, next| if next.0 > most.0 { next } else { most });
    most.map_or((String::new(), Way::Is, vec![]), |(_, name, ranges)| {
        (name.to_owned(), Way::Is, ranges)
    })
}

fn covered_time(ranges: &[Range]) -> DurationNs {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// `ProfilerStep#7` as `ProfilerStep#` and 7.
fn split(name: &str) -> Option<(&str, i64)> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (name, number) = name.split_at_checked(name.len() - digits)?;
    if name.is_empty() {
        None
    } else {
        Some((name, number.parse().ok()?))
    }
}

fn named(device: &DeviceTrace, name: &str, way: Way, ranges: &[Range]) -> Vec<StepSpan> {
    let (begin, end) = if way == Way::Ends {
        device.window().unwrap_or_default()
    } else {
        Default::default()
    };
    let mut seen: BTreeMap<i64, u32> = BTreeMap::new();
    let mut from = device.header.unix_time(begin);
    let mut steps = vec![];
    for range in ranges {
        let again = seen.entry(range.number).or_default();
        *again += 1;
        // PyTorch 2.1 and 2.2 write a number twice at the start
        let twice = if *again > 1 {
            format!(" ({again})")
        } else {
            String::new()
        };
        let start_ns = if way == Way::Ends {
            from
        } else {
            device.header.unix_time(range.start)
        };
        from = device.header.unix_time(range.end);
        steps.push(StepSpan {
            name: format!("{name}{}{twice}", range.number),
            start_ns,
            end_ns: from,
        });
    }
    if way == Way::Ends {
        let number = ranges.len();
        steps.push(StepSpan {
            name: format!("{name}{number}"),
            start_ns: from,
            end_ns: device.header.unix_time(end).max(from),
        });
    }
    steps
}

/// Where steps begin.
struct Cuts<'t> {
    trace: &'t LinkedTrace,
    way: Way,
    ranges: &'t [Range],
    /// By record function ids, not by times.
    by_id: bool,
}

impl Cuts<'_> {
    /// The step in which a node was launched.
    fn step_at(&self, node: NodeIdx) -> StepIdx {
        let ops = &self.trace.device.ops;
        let node = self.trace.nodes.get(node);
        let op = self.trace.op_of(&node);
        let start = op.map_or(node.start, |op| ops.start[op.index()]);
        let id = |op: OpIdx| ops.rf_id[op.index()];
        let own = op.and_then(|op| id(op).get()).filter(|_| self.by_id);
        let begun = match (self.way, own) {
            // What follows the last optimizer step begins another step, which the window cuts.
            (Way::Ends, _) => self.ranges.partition_point(|range| range.end <= start) + 1,
            (Way::Is, Some(own)) => self.ranges.partition_point(|range| id(range.op) <= own),
            (Way::Is, None) => self.ranges.partition_point(|range| range.start <= start),
        };
        begun.checked_sub(1).map_or(StepIdx::NONE, StepIdx::new)
    }
}
