//! Steps of one rank, and the step in which each communication was launched.
//!
//! Steps come from the first of these sources that a trace has: ranges marked by the user; the
//! `ProfilerStep#N` ranges; iterations of an inference engine ([`inference`]); the time from the
//! end of one `Optimizer.step#…` to the end of the next, for the optimizer with most of them; user
//! annotations that differ only by a number at the end (`step 7`), if they follow each other and
//! contain most of the work ([`numbered`]). An op belongs to the last step that began before it, by
//! record function ids if the trace has them: PyTorch 2.5 with stacks writes `ProfilerStep`s
//! displaced in time. Device work belongs to the step of the op that launched it, whenever it runs.
//!
//! Only whole steps count. Work before the end of the first `Optimizer.step#…` may be the program's
//! set-up or the rest of a step, and the recording truncates work after the last one: both belong
//! to no step, here and for all users of this module.

mod inference;
mod lengths;
mod numbered;
mod separate;

pub use lengths::StepExclusion;
pub use separate::SeparateRanges;

use crate::{LinkedTrace, NoLaunch};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{
    CommIdx, DeviceTrace, DurationNs, MarkedStep, NodeIdx, OpIdx, PROFILER_STEP, RfId, SlicedStep,
    StepIdx, StepWork, ThreadIdx, TimeNs, UnixNs,
};
use inference::{InferenceEngine, step_work};
use numbered::numbered_steps;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A step at an edge that is shorter than each other one divided by this is truncated.
const STUB_PART: i64 = 10;

/// A step of a rank, by the rank's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
pub struct StepSpan {
    /// Name, equal on all ranks of the step: `ProfilerStep#7`, or [`OPTIMIZER_STEP`] with the
    /// number of the `Optimizer.step#…` that ends it, counted from 0 in the recording.
    pub name: String,
    /// Start on the host.
    pub start_ns: UnixNs,
    /// End on the host.
    pub end_ns: UnixNs,
    /// Begin of the step's length: the end of the previous step's, or `start_ns`.
    pub begin_ns: UnixNs,
    /// End of the step's length: of the host's range and the device work launched in it, whichever
    /// is later.
    pub done_ns: UnixNs,
    /// Reason why the step does not count; `None` for most steps.
    pub excluded: Option<StepExclusion>,
    /// Work stated in its name.
    pub work: StepWork,
}

impl StepSpan {
    /// Creates a step without device work.
    pub fn on_host(name: String, (start_ns, end_ns): (UnixNs, UnixNs)) -> StepSpan {
        StepSpan {
            name,
            start_ns,
            end_ns,
            begin_ns: start_ns,
            done_ns: end_ns,
            ..StepSpan::default()
        }
    }

    /// Length of the step, ns.
    pub fn length_ns(&self) -> i64 {
        self.done_ns.since(self.begin_ns)
    }
}

/// Steps of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct RankSteps {
    /// Steps, sorted by time.
    pub all: Vec<StepSpan>,
    /// Step of each communication of the rank; [`StepIdx::NONE`] if it was launched outside whole
    /// steps, or if the trace has no steps.
    pub by_comm: Vec<StepIdx>,
}

/// A range that is a step, or ends one.
#[derive(Clone, Copy, Debug)]
struct Range {
    op: OpIdx,
    /// Record function id of the op.
    id: RfId,
    start: TimeNs,
    end: TimeNs,
    /// Number that distinguishes it from the others; `None` if its whole name does.
    number: Option<i64>,
}

/// Ranges that define the steps of a trace.
#[derive(Debug)]
pub(crate) struct StepRanges {
    /// Part of the names before the number.
    name: String,
    way: Way,
    ranges: Vec<Range>,
    /// Work stated in each range's name.
    works: Vec<StepWork>,
    /// Name of each range's step; empty if unknown.
    names: Vec<String>,
    /// True if sorted by record function ids, not by times.
    by_id: bool,
    /// True if the program may do other work between steps.
    is_separate: bool,
}

/// Relation between ranges and steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Each range is a step.
    Is,
    /// Each range ends a step.
    Ends,
}

impl RankSteps {
    /// Determines the steps of `trace`, and the steps of its communications, given by their nodes.
    /// O(ops + n log steps).
    pub fn new(trace: &LinkedTrace, communications: impl Iterator<Item = NodeIdx>) -> RankSteps {
        let found = StepRanges::of_trace(&trace.device);
        let all = lengths::with_lengths(&found, trace);
        let by_comm = if all.is_empty() {
            communications.map(|_| StepIdx::NONE).collect()
        } else {
            communications
                .map(|node| found.step_at(trace, node))
                .collect()
        };
        RankSteps { all, by_comm }
    }

    /// Returns the steps of a trace, in order, with their lengths. O(ops + rows log rows).
    pub fn of_trace(trace: &LinkedTrace) -> Vec<StepSpan> {
        lengths::with_lengths(&StepRanges::of_trace(&trace.device), trace)
    }

    /// Returns the step of each device row: the one in which it was launched. `steps` are those of
    /// the trace. O(rows log rows).
    pub fn of_rows(trace: &LinkedTrace, steps: &[StepSpan]) -> Vec<StepIdx> {
        lengths::steps_of_rows(trace, steps)
    }

    /// Returns the numbered steps of a device trace, for a slice of it. O(ops).
    pub fn numbered(device: &DeviceTrace) -> Vec<SlicedStep> {
        let found = StepRanges::of_trace(device);
        let spans = found.step_spans(device);
        let mut steps = vec![];
        for ((place, span), range) in (0..).zip(spans).zip(&found.ranges) {
            let number = match found.way {
                Way::Is => range.number.unwrap_or(place),
                // the first range only ends an incomplete step
                Way::Ends => place + 1,
            };
            let op = if found.way == Way::Is {
                range.op.get()
            } else {
                None
            };
            steps.push(SlicedStep {
                name: span.name,
                number,
                thread: op.map_or(ThreadIdx::NONE, |op| device.ops.thread[op.index()]),
                id: op.map_or(RfId::default(), |op| device.ops.rf_id[op.index()]),
                start: device.header.trace_time(span.start_ns),
                end: device.header.trace_time(span.end_ns),
                work: span.work,
                is_separate: found.is_separate,
            });
        }
        steps
    }

    /// Returns the steps of a device trace alone, in order, without their device work. O(ops).
    pub fn all_of(device: &DeviceTrace) -> Vec<StepSpan> {
        StepRanges::of_trace(device).step_spans(device)
    }

    /// Returns the first and the last step if they are truncated: shorter than a tenth of any
    /// other. Never inference steps: a decode can be that much shorter than a prefill. O(steps).
    pub fn stubs(steps: &[StepSpan]) -> Vec<StepIdx> {
        // Of two steps, neither can be judged as odd.
        if steps.len() < 3 || steps.iter().any(|step| step.work.phase.is_some()) {
            return vec![];
        }
        let length = |step: &StepSpan| step.end_ns.since(step.start_ns);
        // Compared with all others, not with most: next to a first step that warms up, every other
        // step is short.
        let is_stub = |edge: &usize| {
            let others = steps.iter().enumerate().filter(|(place, _)| place != edge);
            let least = others.map(|(_, step)| length(step)).min().unwrap_or(0);
            length(&steps[*edge]).saturating_mul(STUB_PART) < least
        };
        let edges = [0, steps.len() - 1].into_iter();
        edges.filter(is_stub).map(StepIdx::new).collect()
    }

    /// Returns the threads with the ranges of steps. O(ops).
    pub fn threads_of(device: &DeviceTrace) -> BTreeSet<ThreadIdx> {
        if let Some(sliced) = &device.sliced_steps {
            let threads = sliced.iter().map(|step| step.thread);
            return threads
                .filter(|thread| *thread != ThreadIdx::NONE)
                .collect();
        }
        let ranges = StepRanges::of_trace(device).ranges;
        let threads = ranges.iter();
        let threads = threads.map(|range| device.ops.thread[range.op.index()]);
        threads.collect()
    }

    /// Explains which iterations of an inference engine are not steps; `None` if all are. O(ops).
    pub fn excluded_note(device: &DeviceTrace) -> Option<String> {
        let ops = &device.ops;
        let mut engines = vec![];
        for op in (0..ops.name.len()).filter(|op| ops.annotation[*op]) {
            let name = device.names.get(ops.name[op]);
            // the profiler's own steps take precedence, and iterations only describe their work
            if name.starts_with(PROFILER_STEP) {
                return None;
            }
            let op = OpIdx(op as u32);
            engines.extend(step_work(name).map(|(engine, _)| (engine, op)));
        }
        let iterations = engine_iterations(device, &engines);
        iterations.note(device, "inference engine iterations")
    }

    /// Returns the step of a communication.
    pub fn get(&self, communication: CommIdx) -> Option<&StepSpan> {
        let step = self.by_comm.get(communication.index())?;
        self.all.get(step.get()?.index())
    }
}

impl StepRanges {
    pub(crate) fn of_trace(device: &DeviceTrace) -> StepRanges {
        if let Some(sliced) = &device.sliced_steps {
            return StepRanges::of_slice(sliced);
        }
        if let Some(marked) = &device.marked_steps {
            let ranges = marked.iter().map(|step| op_range(device, step.op, None));
            let works = marked.iter().map(|step| marked_work(device, step));
            return StepRanges::ordered("", Way::Is, ranges.collect(), works.collect());
        }
        let named = NamedRanges::of_trace(device);
        let inference = named.inference_steps(device);
        // The profiler's own steps are explicitly requested by the user, whatever else exists.
        if let Some(ranges) = named.numbered.get(PROFILER_STEP) {
            let works = works_inside(device, ranges, &inference);
            return StepRanges::ordered(PROFILER_STEP, Way::Is, ranges.clone(), works);
        }
        if !inference.is_empty() {
            let works = inference
                .iter()
                .map(|range| range_work(device, range))
                .collect();
            return StepRanges::ordered("", Way::Is, inference, works);
        }
        let (name, way, ranges) = named.inferred_steps(device);
        let works = vec![StepWork::default(); ranges.len()];
        StepRanges::ordered(name, way, ranges, works)
    }

    /// Restores the steps known from the whole trace.
    fn of_slice(steps: &[SlicedStep]) -> StepRanges {
        let range = |step: &SlicedStep| Range {
            op: OpIdx::NONE,
            id: step.id,
            start: step.start,
            end: step.end,
            number: Some(step.number),
        };
        StepRanges {
            name: String::new(),
            way: Way::Is,
            ranges: steps.iter().map(range).collect(),
            works: steps.iter().map(|step| step.work.clone()).collect(),
            names: steps.iter().map(|step| step.name.clone()).collect(),
            by_id: steps.iter().all(|step| step.id.get().is_some()),
            is_separate: steps.iter().any(|step| step.is_separate),
        }
    }

    fn ordered(name: &str, way: Way, ranges: Vec<Range>, works: Vec<StepWork>) -> StepRanges {
        debug_assert_eq!(ranges.len(), works.len(), "each range has its work");
        // Ids grow with the program, and displaced ranges keep theirs.
        let by_id = way == Way::Is && ranges.iter().all(|range| range.id.get().is_some());
        let mut both: Vec<(Range, StepWork)> = ranges.into_iter().zip(works).collect();
        both.sort_by_key(|(range, _)| (by_id.then_some(range.id), range.start, range.op));
        let (ranges, works): (Vec<Range>, _) = both.into_iter().unzip();
        StepRanges {
            // A number at the end says that steps follow each other.
            is_separate: way == Way::Is && ranges.iter().any(|range| range.number.is_none()),
            name: name.to_owned(),
            way,
            ranges,
            works,
            names: vec![],
            by_id,
        }
    }

    /// Returns the whole steps, in order.
    pub(crate) fn step_spans(&self, device: &DeviceTrace) -> Vec<StepSpan> {
        if self.way == Way::Ends {
            return self.spans_between(device);
        }
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let mut steps = vec![];
        for (place, (range, work)) in self.ranges.iter().zip(&self.works).enumerate() {
            let name = match range.number {
                _ if !self.names.is_empty() => self.names[place].clone(),
                Some(number) => format!("{}{number}", self.name),
                None => op_name(device, range.op).to_owned(),
            };
            let span = [range.start, range.end].map(|time| device.header.unix_time(time));
            steps.push(StepSpan {
                work: work.clone(),
                ..StepSpan::on_host(unique_name(name, &mut seen), span.into())
            });
        }
        steps
    }

    /// Returns the times between the ends of consecutive ranges.
    fn spans_between(&self, device: &DeviceTrace) -> Vec<StepSpan> {
        let mut steps = vec![];
        for (number, pair) in (1..).zip(self.ranges.windows(2)) {
            let [before, last] = pair else { continue };
            let span = [before.end, last.end].map(|time| device.header.unix_time(time));
            let name = format!("{}{number}", self.name);
            steps.push(StepSpan::on_host(name, span.into()));
        }
        steps
    }

    /// Returns the step in which a node was launched; none for launches before the recording.
    fn step_at(&self, trace: &LinkedTrace, node: NodeIdx) -> StepIdx {
        let ops = &trace.device.ops;
        let node = trace.nodes.get(node);
        let op = trace.op_of(&node);
        let row = trace.row_of(&node);
        let no_launch = row.map(|row| trace.row_no_launch[row.index()]);
        if no_launch == Some(NoLaunch::BeforeWindow) {
            return StepIdx::NONE;
        }
        let start = op.map_or(node.start, |op| ops.start[op.index()]);
        let own = op.and_then(|op| ops.rf_id[op.index()].get());
        let own = if self.by_id { own } else { None };
        let ranges = &self.ranges;
        let begun = match (self.way, own) {
            (Way::Ends, _) => {
                let ended = ranges.partition_point(|range| range.end <= start);
                // the recording truncates work after the last optimizer step
                if ended < ranges.len() { ended } else { 0 }
            }
            (Way::Is, Some(own)) => ranges.partition_point(|range| range.id <= own),
            (Way::Is, None) => ranges.partition_point(|range| range.start <= start),
        };
        let Some(place) = begun.checked_sub(1) else {
            return StepIdx::NONE;
        };
        // a slice may end in a step that is not whole
        let is_sliced = !self.names.is_empty();
        if is_sliced && begun == ranges.len() && start >= ranges[place].end {
            return StepIdx::NONE;
        }
        StepIdx::new(place)
    }
}

/// Appends a number to repeated names: PyTorch 2.1 and 2.2 write a number twice at the start, and
/// inference engines name a step by its batch.
fn unique_name(name: String, seen: &mut BTreeMap<String, u32>) -> String {
    match seen.get_mut(&name) {
        Some(times) => {
            *times += 1;
            format!("{name} ({times})")
        }
        None => {
            seen.insert(name.clone(), 1);
            name
        }
    }
}

/// Describes the definition of steps, given the name of one; `None` for `ProfilerStep#N`, which is
/// self-explanatory.
pub fn step_definition(name: &str) -> Option<String> {
    if name.starts_with(PROFILER_STEP) {
        return None;
    }
    if name.starts_with(OPTIMIZER_STEP) {
        return Some("from the end of one `Optimizer.step` to the end of the next".to_owned());
    }
    Some(match split(name) {
        Some((range, _)) => format!("a range `{range}N`"),
        None => format!("a range such as `{name}`"),
    })
}

fn op_name(device: &DeviceTrace, op: OpIdx) -> &str {
    device.names.get(device.ops.name[op.index()])
}

fn op_range(device: &DeviceTrace, op: OpIdx, number: Option<i64>) -> Range {
    let start = device.ops.start[op.index()];
    Range {
        op,
        id: device.ops.rf_id[op.index()],
        start,
        end: start + device.ops.duration[op.index()],
        number,
    }
}

/// Returns the work captured by the user's pattern, or by the engine's names if the pattern
/// captures nothing.
fn marked_work(device: &DeviceTrace, step: &MarkedStep) -> StepWork {
    if step.work != StepWork::default() {
        return step.work.clone();
    }
    let work = step_work(op_name(device, step.op));
    work.map(|(_, work)| work).unwrap_or_default()
}

fn range_work(device: &DeviceTrace, range: &Range) -> StepWork {
    let work = step_work(op_name(device, range.op));
    work.map(|(_, work)| work).unwrap_or_default()
}

/// Returns the work of each step. vLLM calls `step` of its profiler before each iteration: a
/// `ProfilerStep` of a schedule then contains one annotation of the engine, which describes its
/// work.
fn works_inside(device: &DeviceTrace, steps: &[Range], inference: &[Range]) -> Vec<StepWork> {
    let work = |step: &Range| {
        let first = inference.partition_point(|range| range.start < step.start);
        let inside = inference.get(first)?;
        (inside.start < step.end).then(|| range_work(device, inside))
    };
    let works = steps.iter().map(|step| work(step).unwrap_or_default());
    works.collect()
}

/// Prefix of the names of steps that optimizers end, before the number.
pub const OPTIMIZER_STEP: &str = "optimizer step ";

/// Annotations whose names can define steps.
struct NamedRanges<'d> {
    /// Ranges by the part of their names before a number at the end.
    numbered: BTreeMap<&'d str, Vec<Range>>,
    /// Steps of optimizers, by name.
    optimizers: BTreeMap<&'d str, Vec<Range>>,
    /// Ranges of inference engines around their iterations, by start.
    engines: Vec<(InferenceEngine, OpIdx)>,
}

impl<'d> NamedRanges<'d> {
    fn of_trace(device: &'d DeviceTrace) -> NamedRanges<'d> {
        let mut named = NamedRanges {
            numbered: BTreeMap::new(),
            optimizers: BTreeMap::new(),
            engines: vec![],
        };
        let ops = &device.ops;
        for op in (0..ops.name.len()).filter(|op| ops.annotation[*op]) {
            let name = device.names.get(ops.name[op]);
            let range = |number| op_range(device, OpIdx(op as u32), number);
            // PyTorch wraps `step` of each optimizer in such a range
            // (`Optimizer.profile_hook_step`), even without a schedule.
            if name.starts_with("Optimizer.step#") {
                let steps = named.optimizers.entry(name).or_default();
                steps.push(range(None));
            } else if let Some((engine, _)) = step_work(name) {
                named.engines.push((engine, OpIdx(op as u32)));
            } else if let Some((name, number)) = split(name) {
                let ranges = named.numbered.entry(name).or_default();
                ranges.push(range(Some(number)));
            }
        }
        named
    }

    /// Returns the iterations of the engine with the most informative annotations, by start; of
    /// nested ones, the outermost.
    fn inference_steps(&self, device: &DeviceTrace) -> Vec<Range> {
        let iterations = engine_iterations(device, &self.engines).ops.into_iter();
        iterations.map(|op| op_range(device, op, None)).collect()
    }

    /// Infers the steps if nothing states them: their name, the relation of ranges to steps, and
    /// the ranges.
    fn inferred_steps(self, device: &DeviceTrace) -> (&'d str, Way, Vec<Range>) {
        // of equals, the first by name, so that all ranks choose the same
        let most =
            self.optimizers.into_values().reduce(
                |most, next| {
                    if next.len() > most.len() { next } else { most }
                },
            );
        if let Some(ends) = most {
            return (OPTIMIZER_STEP, Way::Ends, ends);
        }
        let steps = numbered_steps(device, self.numbered);
        let (name, ranges) = steps.unwrap_or_default();
        (name, Way::Is, ranges)
    }
}

/// Returns the iterations of the engine with the most informative annotations.
fn engine_iterations(device: &DeviceTrace, engines: &[(InferenceEngine, OpIdx)]) -> SeparateRanges {
    let Some(engine) = engines.iter().map(|(engine, _)| *engine).min() else {
        return SeparateRanges::default();
    };
    debug_assert!(device.ops.start.is_sorted(), "ops are in order of time");
    let own = engines.iter().filter(|(own, _)| *own == engine);
    SeparateRanges::choose(device, own.map(|(_, op)| *op))
}

fn covered_time(ranges: &[Range]) -> DurationNs {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Splits `ProfilerStep#7` into `ProfilerStep#` and 7.
fn split(name: &str) -> Option<(&str, i64)> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (name, number) = name.split_at_checked(name.len() - digits)?;
    if name.is_empty() {
        None
    } else {
        Some((name, number.parse().ok()?))
    }
}
