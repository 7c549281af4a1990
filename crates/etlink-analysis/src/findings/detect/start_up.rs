//! Detects one-time work of a process: contexts, libraries, kernel modules, compilation.

use crate::findings::candidate::{CauseCandidate, CauseEvidence};
use crate::findings::detect::names::{
    is_allocator_call, is_communication_op, is_compile_range, is_synchronisation,
};
use crate::findings::kind::CauseKind;
use crate::findings::start_up::{FirstCall, StartUp};
use crate::findings::text::sum_ns;
use crate::findings::view::RankView;
use crate::{median_ns, python_line};
use etlink_link::NodeKind;
use etlink_model::{CallIdx, OpIdx, RowKind};
use etlink_replay::GraphEdits;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Minimum ratio of a first call to the median of later calls of its name at which it did extra
/// work.
const FIRST_FACTOR: i64 = 10;

/// Most consecutive calls of a name that can belong to the start: autotuning and libraries take
/// several, and `torch.compile` recompiles for dynamic shapes.
const MOST_FIRST: usize = 3;

/// Minimum share of a call at which a part counts as its main part.
const HALF: f64 = 0.5;

/// Fewest later calls from which a usual time can be derived.
const LEAST_LATER: usize = 3;

/// Shortest first call considered, in ns: shorter ones are noise.
const LEAST_FIRST_NS: i64 = 1_000_000;

/// Minimum duration of a first runtime call that creates the device's context, in ns.
// The driver creates it lazily: https://docs.nvidia.com/cuda/cuda-c-programming-guide,
// Initialization.
const LEAST_CONTEXT_NS: i64 = 20_000_000;

/// Minimum ratio of the first step's allocations to the usual ones at which it fills the
/// allocator's cache.
const MORE_ALLOCATION: i64 = 2;

/// Marks the outermost ops that mostly wait in a copy for earlier work of its stream: that lasts as long
/// as the work does. O(rows).
fn copies_wait(view: &RankView<'_>, outermost: &[OpIdx]) -> Vec<bool> {
    let trace = view.trace;
    let rows = &trace.device.rows;
    let mut waits = vec![false; outermost.len()];
    // begin of the launch call, and end, of the last row of each stream
    let mut last = vec![None; trace.device.queues.len()];
    for row in 0..rows.len() {
        let Some(call) = trace.row_call[row].get() else {
            continue;
        };
        let span = view.call_span(call);
        let before = last[rows.queue[row].index()].replace((span.start, rows.start[row].0));
        let Some((launched, started)) = before else {
            continue;
        };
        let op = trace.call_op[call.index()].get();
        let outer = op.and_then(|op| outermost[op.index()].get());
        if let (RowKind::Memcpy, Some(outer)) = (rows.kind[row], outer) {
            let of_op = view.op_span(outer);
            let waited = started.min(span.end).saturating_sub(span.start);
            let is_main = waited as f64 > HALF * of_op.end.saturating_sub(of_op.start) as f64;
            waits[outer.index()] |= launched < span.start && is_main;
        }
    }
    waits
}

/// Returns the calls that belong to the start of the process. O(ops + calls) on first use.
pub(crate) fn start_up<'v, 't>(view: &'v RankView<'t>) -> &'v StartUp<'t> {
    view.first_calls.get_or_init(|| StartUp::new(view))
}

impl<'t> StartUp<'t> {
    /// Finds the calls of the start. O(ops + calls).
    pub(crate) fn new(view: &RankView<'t>) -> StartUp<'t> {
        let outermost = outermost_ops(view);
        let mut start_up = StartUp {
            calls: vec![],
            ops: vec![],
            repeats_ns: first_repeat(view),
        };
        let first_ops = start_up.add_ops(view, &outermost);
        start_up.ops = outermost
            .iter()
            .map(|op| op.get().is_some_and(|op| first_ops[op.index()]))
            .collect();
        start_up.add_calls(view);
        start_up
            .calls
            .retain(|first| (view.host_span.0..view.host_span.1).contains(&first.span.start));
        start_up
    }

    /// Adds ops whose first calls took far longer than later ones, and ranges of the compiler.
    fn add_ops(&mut self, view: &RankView<'t>, outermost: &[OpIdx]) -> Vec<bool> {
        let mut is_first = vec![false; outermost.len()];
        let mut by_name: FxHashMap<&str, Vec<OpIdx>> = FxHashMap::default();
        let mut names = vec![];
        let context = context_op(view, outermost);
        let waits = copies_wait(view, outermost);
        for (op, outer) in (0..).map(OpIdx).zip(outermost) {
            let name = view.op_name(op);
            // Input and collectives wait for others, at any time.
            let is_wait = view.is_input_op(op) || is_communication_op(name) || waits[op.index()];
            if *outer != op || is_wait {
                continue;
            }
            let of_name = by_name.entry(name).or_default();
            if of_name.is_empty() {
                names.push(name);
            }
            of_name.push(op);
        }
        for name in names {
            let ops = &by_name[name];
            let spans = ops.iter().map(|op| view.op_span(*op));
            let mut times: Vec<i64> = spans
                .map(|span| span.end.saturating_sub(span.start))
                .collect();
            let is_known = times.len() >= MOST_FIRST + LEAST_LATER;
            let most_first = if is_known { MOST_FIRST } else { 1 };
            let later = times
                .get_mut(most_first..)
                .filter(|later| !later.is_empty());
            let usual_ns = later.map(median_ns);
            let mut starts = true;
            let compiles = is_compile_range(name);
            // Without a device, a long first op may just as well be a page fault or another
            // program.
            if !compiles && !view.window.has_device {
                continue;
            }
            for (op, place) in ops.iter().zip(0..) {
                let span = view.op_span(*op);
                let first = FirstCall {
                    name,
                    span,
                    place,
                    usual_ns: if !compiles { usual_ns } else { None },
                };
                // A call of usual duration ends the start.
                starts &= place < most_first
                    && usual_ns.is_some_and(|usual| is_first_call(&first, usual));
                if starts || compiles || context == Some(*op) {
                    is_first[op.index()] = true;
                    self.calls.push(first);
                }
            }
        }
        is_first
    }

    /// Adds first calls outside of ops, and calls to the allocator before anything repeats.
    fn add_calls(&mut self, view: &RankView<'t>) {
        let calls = &view.trace.device.calls;
        let mut by_name: BTreeMap<&str, Vec<CallIdx>> = BTreeMap::new();
        for call in (0..calls.len()).map(CallIdx::new) {
            let name = view.call_name(call);
            let op = view.trace.call_op[call.index()].get();
            if op.is_some_and(|op| self.has_op(op)) {
                continue;
            }
            let start = calls.start[call.index()].0;
            if is_allocator_call(name) {
                if self.has_allocation(start) {
                    self.calls.push(FirstCall {
                        name,
                        span: view.call_span(call),
                        place: 0,
                        usual_ns: None,
                    });
                }
            } else if op.is_none() {
                by_name.entry(name).or_default().push(call);
            }
        }
        for (name, of_name) in by_name {
            let Some((first, later)) = of_name.split_first() else {
                continue;
            };
            let mut later: Vec<i64> = later
                .iter()
                .map(|call| calls.duration[call.index()].0)
                .collect();
            if later.is_empty() {
                continue;
            }
            let usual = median_ns(&mut later);
            let first = FirstCall {
                name,
                span: view.call_span(*first),
                place: 0,
                usual_ns: Some(usual),
            };
            // A wait lasts as long as the device works: a long first wait shows nothing.
            if !is_synchronisation(name) && is_first_call(&first, usual) {
                self.calls.push(first);
            }
        }
    }
}

fn is_first_call(first: &FirstCall<'_>, usual_ns: i64) -> bool {
    let took = first.took_ns();
    took >= LEAST_FIRST_NS && took >= usual_ns.saturating_mul(FIRST_FACTOR)
}

/// Returns, for each op, the outermost op around it that is not an annotation, or the op itself.
/// The compiler's ranges are annotations, but count as ops.
fn outermost_ops(view: &RankView<'_>) -> Vec<OpIdx> {
    let annotations = &view.trace.device.ops.annotation;
    let mut outermost: Vec<OpIdx> = Vec::with_capacity(view.trace.op_parent.len());
    for (op, parent) in (0..).map(OpIdx).zip(&view.trace.op_parent) {
        // Ops are in order of their starts, so parents come before their children.
        let around = outermost.get(parent.index()).copied();
        let around = around.unwrap_or(OpIdx::NONE);
        let is_op = !annotations[op.index()] || is_compile_range(view.op_name(op));
        outermost.push(match around.get() {
            None if is_op => op,
            _ => around,
        });
    }
    outermost
}

/// Returns the outermost op around the first runtime call, if that call creates the device's
/// context.
fn context_op(view: &RankView<'_>, outermost: &[OpIdx]) -> Option<OpIdx> {
    let calls = &view.trace.device.calls;
    let first = (0..calls.len()).min_by_key(|call| calls.start[*call])?;
    let op = view.trace.call_op[first].get()?;
    let is_long = calls.duration[first].0 >= LEAST_CONTEXT_NS;
    if is_long {
        outermost[op.index()].get()
    } else {
        None
    }
}

/// Returns the time from which allocator calls belong to a repeating program, in ns.
fn first_repeat(view: &RankView<'_>) -> i64 {
    let steps = &view.analysis.steps;
    let (Some(first), second) = (steps.first(), steps.get(1)) else {
        return i64::MAX;
    };
    let Some(second) = second else {
        // The profiler numbers steps from 0: a higher number means that earlier steps ran
        // unrecorded.
        let number = view.profiler_step_number(&first.name);
        return match number {
            Some(1..) => i64::MIN,
            _ => i64::MAX,
        };
    };
    let calls = &view.trace.device.calls;
    let mut of_step = vec![0i64; steps.len()];
    for call in (0..calls.len()).map(CallIdx::new) {
        let start = calls.start[call.index()].0;
        let begun = steps.partition_point(|step| step.start_ns <= start);
        if let Some(step) = begun.checked_sub(1)
            && is_allocator_call(view.call_name(call))
        {
            let took = calls.duration[call.index()].0;
            of_step[step] = of_step[step].saturating_add(took);
        }
    }
    let usual = median_ns(&mut of_step[1..]);
    // Allocations that every step makes do not belong to the start.
    if of_step[0] > usual.saturating_mul(MORE_ALLOCATION) {
        second.start_ns
    } else {
        i64::MIN
    }
}

/// Makes one cause of all one-time work of the process.
pub(crate) fn first_calls(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let calls = &start_up(view).calls;
    let Some(longest) = calls.iter().max_by_key(|first| first.excess_ns()) else {
        return vec![];
    };
    let time_ns = sum_ns(calls.iter().map(FirstCall::excess_ns));
    if !view.matters(time_ns) {
        return vec![];
    }
    let mut edits = GraphEdits::default();
    for first in calls {
        let usual = first.usual_ns.unwrap_or(0);
        let factor = usual as f64 / first.took_ns().max(1) as f64;
        for node in view.nodes_in(first.span) {
            edits.scaled.push((*node, factor));
            view.free_node(*node, &mut edits);
        }
    }
    free_streams(view, calls, &mut edits);
    let (within, within_share) = longest_part(view, longest).unzip();
    let within_share = within_share.filter(|share| *share < HALF);
    let whole = calls.iter().filter(|first| first.usual_ns.is_none());
    let evidence = CauseEvidence {
        count: calls.len() as u64,
        time_ns,
        typical_ns: longest.took_ns(),
        compared: longest.usual_ns.map(|usual| usual as f64),
        place: Some(longest.place as u64 + 1).filter(|place| *place > 1),
        start_ns: Some(longest.span.start),
        end_ns: Some(longest.span.end),
        within,
        within_share,
        whole_ns: sum_ns(whole.map(FirstCall::took_ns)),
        python: python_line(view.trace, longest.span.thread, longest.span.start),
        ..CauseEvidence::default()
    };
    vec![view.candidate(CauseKind::FirstCall, longest.name, edits, evidence)]
}

/// Frees the first row of each stream if it was launched during the start. The trace shows it
/// waiting for something before the recording, but it waits for the start.
fn free_streams(view: &RankView<'_>, calls: &[FirstCall<'_>], edits: &mut GraphEdits) {
    let Some(begin) = calls.iter().map(|first| first.span.start).min() else {
        return;
    };
    let trace = view.trace;
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        if !node.on_device || node.kind != NodeKind::Boundary {
            continue;
        }
        let call = trace.row_call.get(node.source as usize);
        let call = call.and_then(|call| call.get());
        if call.is_some_and(|call| view.call_span(call).start >= begin) {
            edits.removed.push(index);
        }
    }
}

/// Returns the longest part of a first call, and its share of the call.
fn longest_part(view: &RankView<'_>, first: &FirstCall<'_>) -> Option<(String, f64)> {
    let mut by_name: BTreeMap<&str, i64> = BTreeMap::new();
    for node in view.nodes_in(first.span) {
        let slice = view.trace.nodes.get(*node);
        let sum = by_name.entry(view.trace.name(&slice)).or_default();
        *sum = sum.saturating_add(slice.duration.0);
    }
    let (name, ns) = by_name.iter().max_by_key(|(_, ns)| **ns)?;
    let share = *ns as f64 / first.took_ns().max(1) as f64;
    (*name != first.name).then(|| ((*name).to_owned(), share))
}
