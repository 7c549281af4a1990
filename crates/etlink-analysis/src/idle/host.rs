//! Activity of a host thread in a time span: innermost op, annotation or runtime call.

use etlink_link::{LinkedTrace, ThreadWork};
use etlink_model::{CallIdx, NameId, OpIdx, ThreadIdx, TimeNs};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::ops::Range;

/// Maximum number of parents visited per span: deeper nesting is not followed.
const MOST_PARENTS: usize = 1_000;
/// Maximum length of a chain of threads that hand work to each other.
const MOST_GIVERS: usize = 4;
/// A span with more ranges than this per name of its thread is looked up by name. A look-up of a
/// name costs two searches, a range one step.
const RANGES_PER_NAME: usize = 8;

/// An op or a runtime call of a thread.
#[derive(Clone, Copy, Debug)]
enum HostRange {
    Op(OpIdx),
    Call(CallIdx),
}

/// Ranges of host threads, collected on first use.
pub(super) struct HostThreads<'t> {
    trace: &'t LinkedTrace,
    threads: OnceCell<Vec<HostThread>>,
    work: OnceCell<ThreadWork>,
}

/// Ranges of one thread.
#[derive(Clone, Debug, Default)]
struct HostThread {
    /// Ranges by start, outer ones before those inside.
    ranges: Vec<HostRange>,
    /// Index by name, built when a span has very many ranges.
    by_name: OnceCell<NameTimes>,
}

/// Spans in which a name was the innermost range of a thread, by name.
#[derive(Clone, Debug, Default)]
struct NameTimes {
    /// Spans per name, in order of first appearance.
    stretches: IndexMap<Option<NameId>, NameStretches, FxBuildHasher>,
}

#[derive(Clone, Debug, Default)]
struct NameStretches {
    /// Start of each span, and the total length of the spans before it, ns.
    starts: Vec<(i64, i64)>,
    total: i64,
}

impl HostThreads<'_> {
    pub(super) fn new(trace: &LinkedTrace) -> HostThreads<'_> {
        HostThreads {
            trace,
            threads: OnceCell::new(),
            work: OnceCell::new(),
        }
    }

    /// Calls `add` with each activity that kept `thread` from a launch at `to`, and its duration
    /// since `from`, ns: the thread's innermost ranges, without a name for work that the trace does
    /// not show. Before the thread received the work, the activity is that of the thread that
    /// handed it over. Time in which a thread idles is left out.
    pub(super) fn add_work(
        &self,
        thread: ThreadIdx,
        (from, to): (i64, i64),
        mut add: impl FnMut(Option<NameId>, i64),
    ) {
        let work = self.work.get_or_init(|| ThreadWork::of_trace(self.trace));
        let (mut thread, mut to) = (thread, to);
        for _ in 0..MOST_GIVERS {
            let given = work.last_handed(thread, TimeNs(to));
            let given = given.filter(|given| !work.is_program(thread) && to <= given.end.0);
            let Some(given) = given else { break };
            let begun = given.start.0.clamp(from, to);
            self.add_activity(thread, (begun, to), &mut add);
            (thread, to) = (given.producer, begun);
        }
        // Nobody waits for a thread that received no work: time without a range is no work.
        let is_program = work.is_program(thread);
        self.add_activity(thread, (from, to), |name, ns| {
            if is_program || name.is_some() {
                add(name, ns);
            }
        });
    }

    /// Calls `add` with each name and the time for which it was the innermost range of `thread`
    /// from `from` to `to`, ns; without a name for time in which the trace shows none. O(log ranges
    /// + ranges inside), or O(names · log ranges) if there are many ranges.
    fn add_activity(
        &self,
        thread: ThreadIdx,
        (from, to): (i64, i64),
        mut add: impl FnMut(Option<NameId>, i64),
    ) {
        let trace = self.trace;
        let threads = self.threads.get_or_init(|| host_threads(trace));
        let Some(thread) = threads.get(thread.index()) else {
            return;
        };
        let inside = thread.ranges_inside(trace, (from, to));
        // Gaps of many devices cover the same ranges: walking along them for each device would take
        // devices times ranges.
        if inside.len() > RANGES_PER_NAME {
            let make = || NameTimes::from_ranges(trace, &thread.ranges);
            let by_name = thread.by_name.get_or_init(make);
            if inside.len() > RANGES_PER_NAME * by_name.stretches.len() {
                by_name.add_activity((from, to), add);
                return;
            }
        }
        thread.walk(trace, (from, to), inside, &mut add);
    }
}

impl HostThread {
    /// Returns the ranges that begin in a span.
    fn ranges_inside(&self, trace: &LinkedTrace, (from, to): (i64, i64)) -> Range<usize> {
        let starts_before = |time| {
            self.ranges
                .partition_point(|range| range.span(trace).0 < time)
        };
        starts_before(from)..starts_before(to)
    }

    /// Like [`HostThreads::add_activity`], by walking along the ranges `inside`.
    fn walk(
        &self,
        trace: &LinkedTrace,
        (from, to): (i64, i64),
        inside: Range<usize>,
        add: &mut impl FnMut(Option<NameId>, i64),
    ) {
        let before = inside.start.checked_sub(1);
        let mut walk = Walk {
            trace,
            now: from,
            current: before.map(|last| self.ranges[last]),
        };
        walk.pass(&self.ranges[inside], add);
        walk.advance(to, add);
    }
}

impl NameTimes {
    /// Indexes the ranges by name. O(ranges).
    fn from_ranges(trace: &LinkedTrace, ranges: &[HostRange]) -> NameTimes {
        let mut times = NameTimes::default();
        let Some(first) = ranges.first() else {
            return times;
        };
        let mut now = first.span(trace).0;
        let mut walk = Walk {
            trace,
            now,
            current: None,
        };
        let mut push = |name, length| {
            let stretches = times
                .stretches
                .entry(name)
                .or_insert_with(NameStretches::default);
            stretches.starts.push((now, stretches.total));
            stretches.total = stretches.total.saturating_add(length);
            now = now.saturating_add(length);
        };
        walk.pass(ranges, &mut push);
        let last = ranges.iter().map(|range| range.span(trace).1).max();
        walk.advance(last.unwrap_or(0), &mut push);
        times
    }

    fn add_activity(&self, (from, to): (i64, i64), mut add: impl FnMut(Option<NameId>, i64)) {
        let mut rest = to.saturating_sub(from);
        for (name, stretches) in &self.stretches {
            let length = stretches.time_until(to) - stretches.time_until(from);
            if length > 0 && name.is_some() {
                add(*name, length);
                rest = rest.saturating_sub(length);
            }
        }
        // also the time before the first and after the last range of the thread
        if rest > 0 {
            add(None, rest);
        }
    }
}

impl NameStretches {
    /// Total length of the spans until `time`, ns.
    fn time_until(&self, time: i64) -> i64 {
        let begun = self.starts.partition_point(|(start, _)| *start < time);
        let Some((start, before)) = begun.checked_sub(1).map(|last| self.starts[last]) else {
            return 0;
        };
        let all = self.starts.get(begun).map_or(self.total, |next| next.1);
        before.saturating_add(time.saturating_sub(start).min(all.saturating_sub(before)))
    }
}

/// Collects the ranges of all threads in one pass over ops and calls: there may be thousands of
/// threads.
fn host_threads(trace: &LinkedTrace) -> Vec<HostThread> {
    let (ops, calls) = (&trace.device.ops, &trace.device.calls);
    let mut threads = vec![HostThread::default(); trace.device.threads.len()];
    for (op, thread) in ops.thread.iter().enumerate() {
        if let Some(thread) = threads.get_mut(thread.index()) {
            thread.ranges.push(HostRange::Op(OpIdx::new(op)));
        }
    }
    for (call, thread) in calls.thread.iter().enumerate() {
        if let Some(thread) = threads.get_mut(thread.index()) {
            thread.ranges.push(HostRange::Call(CallIdx::new(call)));
        }
    }
    for thread in &mut threads {
        thread.ranges.sort_by_key(|range| {
            let (start, end) = range.span(trace);
            (start, Reverse(end))
        });
    }
    threads
}

impl HostRange {
    fn span(self, trace: &LinkedTrace) -> (i64, i64) {
        let (start, duration) = match self {
            HostRange::Op(op) => {
                let ops = &trace.device.ops;
                (ops.start[op.index()], ops.duration[op.index()])
            }
            HostRange::Call(call) => {
                let calls = &trace.device.calls;
                (calls.start[call.index()], calls.duration[call.index()])
            }
        };
        (start.0, (start + duration).0)
    }

    fn name(self, trace: &LinkedTrace) -> NameId {
        match self {
            HostRange::Op(op) => trace.device.ops.name[op.index()],
            HostRange::Call(call) => trace.device.calls.name[call.index()],
        }
    }

    /// Returns the op around the range.
    fn parent(self, trace: &LinkedTrace) -> Option<HostRange> {
        let parent = match self {
            HostRange::Op(op) => trace.op_parent[op.index()],
            HostRange::Call(call) => trace.call_op[call.index()],
        };
        parent.get().map(HostRange::Op)
    }
}

/// Walks along the time of a thread.
struct Walk<'t> {
    trace: &'t LinkedTrace,
    now: i64,
    /// The range that began last, or an outer one if that has ended.
    current: Option<HostRange>,
}

impl Walk<'_> {
    /// Advances to the start of the last of `ranges`.
    fn pass(&mut self, ranges: &[HostRange], add: &mut impl FnMut(Option<NameId>, i64)) {
        for range in ranges {
            self.advance(range.span(self.trace).0, add);
            self.current = Some(*range);
        }
    }

    fn advance(&mut self, until: i64, add: &mut impl FnMut(Option<NameId>, i64)) {
        let mut parents = 0;
        while self.now < until {
            let Some(range) = self.current else {
                add(None, until.saturating_sub(self.now));
                self.now = until;
                return;
            };
            let end = range.span(self.trace).1;
            if end > self.now {
                let end = end.min(until);
                add(Some(range.name(self.trace)), end - self.now);
                self.now = end;
            } else {
                parents += 1;
                self.current = if parents <= MOST_PARENTS {
                    range.parent(self.trace)
                } else {
                    None
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_link::LinkOptions;
    use etlink_testing::Oddity;
    use std::collections::BTreeMap;

    #[test]
    fn times_by_name_are_those_of_a_walk() {
        let mut names = 0;
        for oddity in [Oddity::Ordinary, Oddity::Annotations, Oddity::Depth] {
            let text = oddity.draw_rank(300, 0).device;
            let device =
                etlink_formats::kineto::read(&text[..], Default::default()).expect("a trace");
            let trace = etlink_link::link(None, device, LinkOptions::default()).expect("links");
            for thread in host_threads(&trace) {
                let by_name = NameTimes::from_ranges(&trace, &thread.ranges);
                for from in (0..1_000_000).step_by(45_500) {
                    for length in [1, 700, 33_333, 450_000] {
                        let span = (from, from + length);
                        let inside = thread.ranges_inside(&trace, span);
                        let mut walked: BTreeMap<Option<NameId>, i64> = BTreeMap::new();
                        thread.walk(&trace, span, inside, &mut |name, ns| {
                            *walked.entry(name).or_default() += ns;
                        });
                        let mut summed = BTreeMap::new();
                        by_name.add_activity(span, |name, ns| {
                            assert!(summed.insert(name, ns).is_none(), "a name once");
                        });
                        assert_eq!(summed, walked, "{} {span:?}", oddity.name());
                        names += summed.keys().flatten().count();
                    }
                }
            }
        }
        assert!(names > 1_000, "{names} names in all stretches");
    }
}
