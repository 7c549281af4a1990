//! The op tree and the exclusive slices of each host thread.
//!
//! Kineto's ranges nest by time on one OS thread. One sweep over a thread's ranges in order
//! of start gives each op its parent, each call its innermost op, and cuts the thread's time
//! into slices: at any instant the range that began last runs. Slices and gaps together are
//! the time from the thread's first start to its last end, to the nanosecond, also where
//! ranges overlap without nesting (asynchronous ranges).
//!
//! O(n log n) for the order, O(n) for the sweep.

use etlink_model::{DeviceTrace, DurationNs, OpIdx, TimeNs};
use rayon::prelude::*;

/// A child may end this much after its parent and still be its child: traces with whole
/// microseconds round both ends.
const ROUNDING_NS: i64 = 1_000;
/// How far up an op that no range on top of the stack encloses looks for its parent.
const MAX_CLIMB: usize = 64;

/// Who runs in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Row of the CPU ops.
    Op(u32),
    /// Row of the runtime calls.
    Call(u32),
    /// No range is open.
    Gap,
}

/// A piece of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) owner: Owner,
    pub(crate) start: TimeNs,
    pub(crate) end: TimeNs,
}

/// What the sweeps found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nesting {
    pub(crate) op_parent: Vec<OpIdx>,
    pub(crate) op_exclusive: Vec<DurationNs>,
    pub(crate) call_op: Vec<OpIdx>,
    /// Per thread, its slices in order of time.
    pub(crate) threads: Vec<Vec<Slice>>,
    /// Ranges that overlap another without nesting in it, and one of them.
    pub(crate) overlaps: u64,
    pub(crate) first_overlap: Option<OpIdx>,
}

/// Sweeps all threads.
pub(crate) fn nest(device: &DeviceTrace) -> Nesting {
    let mut ranges: Vec<Vec<Owner>> = vec![vec![]; device.threads.len()];
    for (op, thread) in device.ops.thread.iter().enumerate() {
        ranges[thread.index()].push(Owner::Op(op as u32));
    }
    for (call, thread) in device.calls.thread.iter().enumerate() {
        ranges[thread.index()].push(Owner::Call(call as u32));
    }
    let swept: Vec<Sweep> = ranges.into_par_iter().map(|ranges| Sweep::run(device, ranges)).collect();
    let mut nesting = Nesting {
        op_parent: vec![OpIdx::NONE; device.ops.len()],
        op_exclusive: vec![DurationNs::default(); device.ops.len()],
        call_op: vec![OpIdx::NONE; device.calls.len()],
        ..Nesting::default()
    };
    for sweep in swept {
        for (range, parent) in sweep.parents {
            match range {
                Owner::Op(op) => nesting.op_parent[op as usize] = parent,
                Owner::Call(call) => nesting.call_op[call as usize] = parent,
                Owner::Gap => {}
            }
        }
        for slice in &sweep.slices {
            if let Owner::Op(op) = slice.owner {
                nesting.op_exclusive[op as usize] += slice.end - slice.start;
            }
        }
        nesting.overlaps += sweep.overlaps;
        nesting.first_overlap = nesting.first_overlap.or(sweep.first_overlap);
        nesting.threads.push(sweep.slices);
    }
    nesting
}

/// A range that has begun and not ended.
#[derive(Clone, Copy)]
struct Open {
    range: Owner,
    end: TimeNs,
    /// The innermost op here: the range itself or the one below.
    op: OpIdx,
    /// Whether a slice of it has been made.
    sliced: bool,
}

/// The sweep over one thread.
#[derive(Default)]
struct Sweep {
    stack: Vec<Open>,
    now: TimeNs,
    slices: Vec<Slice>,
    parents: Vec<(Owner, OpIdx)>,
    overlaps: u64,
    first_overlap: Option<OpIdx>,
}

impl Sweep {
    fn run(device: &DeviceTrace, mut ranges: Vec<Owner>) -> Sweep {
        let span = |range: &Owner| match *range {
            Owner::Op(op) => (device.ops.start[op as usize], device.ops.duration[op as usize]),
            Owner::Call(call) => (device.calls.start[call as usize], device.calls.duration[call as usize]),
            Owner::Gap => (TimeNs::default(), DurationNs::default()),
        };
        // stable: ops come before calls, and each kind is in order already
        ranges.sort_by_key(|range| (span(range).0, std::cmp::Reverse(span(range).1)));
        let mut sweep = Sweep::default();
        for (index, range) in ranges.iter().enumerate() {
            let (start, duration) = span(range);
            if index == 0 {
                sweep.now = start;
            }
            sweep.advance(start);
            sweep.open(*range, start + duration);
        }
        while let Some(top) = sweep.stack.last() {
            sweep.advance(top.end.max(sweep.now));
        }
        sweep
    }

    /// Moves to `until`, closing what ends on the way.
    fn advance(&mut self, until: TimeNs) {
        while let Some(&top) = self.stack.last().filter(|top| top.end <= until) {
            if top.end > self.now || !top.sliced {
                self.slice(top.range, top.end);
            }
            self.stack.pop();
        }
        if until > self.now {
            let owner = match self.stack.last_mut() {
                Some(top) => {
                    top.sliced = true;
                    top.range
                }
                None => Owner::Gap,
            };
            self.slice(owner, until);
        }
    }

    /// A slice from now to `end`; empty when that is past.
    fn slice(&mut self, owner: Owner, end: TimeNs) {
        let end = end.max(self.now);
        self.slices.push(Slice { owner, start: self.now, end });
        self.now = end;
    }

    fn open(&mut self, range: Owner, end: TimeNs) {
        // a range whose first child begins with it still has a first slice, of no length
        if let Some(top) = self.stack.last_mut().filter(|top| !top.sliced) {
            top.sliced = true;
            let owner = top.range;
            self.slice(owner, self.now);
        }
        let parent = self.enclosing(end);
        if let (Owner::Op(op), Some(top)) = (range, self.stack.last())
            && top.end.0.saturating_add(ROUNDING_NS) < end.0
        {
            self.overlaps += 1;
            self.first_overlap = self.first_overlap.or(Some(OpIdx(op)));
        }
        self.parents.push((range, parent));
        let op = match range {
            Owner::Op(op) => OpIdx(op),
            _ => parent,
        };
        self.stack.push(Open { range, end, op, sliced: false });
    }

    /// The innermost op whose range holds one that begins now and ends at `end`.
    fn enclosing(&self, end: TimeNs) -> OpIdx {
        let around = |open: &&Open| open.end.0.saturating_add(ROUNDING_NS) >= end.0;
        self.stack.iter().rev().take(MAX_CLIMB).find(around).map_or(OpIdx::NONE, |open| open.op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_model::{CpuOp, RuntimeCall, ThreadIdx};

    /// Ops (`Some`) and calls (`None`) of thread 0 as (start, end).
    fn nest_of(ops: &[(i64, i64)], calls: &[(i64, i64)]) -> Nesting {
        let mut device = DeviceTrace {
            threads: vec![etlink_model::Thread { pid: etlink_model::Label::Int(1), tid: etlink_model::Label::Int(1) }],
            ..DeviceTrace::default()
        };
        for &(start, end) in ops {
            device.ops.push(CpuOp { thread: ThreadIdx(0), start: TimeNs(start), duration: DurationNs(end - start), ..CpuOp::default() });
        }
        for &(start, end) in calls {
            device.calls.push(RuntimeCall {
                thread: ThreadIdx(0),
                start: TimeNs(start),
                duration: DurationNs(end - start),
                ..RuntimeCall::default()
            });
        }
        nest(&device)
    }

    fn drawn(nesting: &Nesting) -> String {
        let draw = |slice: &Slice| match slice.owner {
            Owner::Op(op) => format!("{}{}-{}", (b'a' + op as u8) as char, slice.start.0, slice.end.0),
            Owner::Call(call) => format!("{}{}-{}", (b'X' + call as u8) as char, slice.start.0, slice.end.0),
            Owner::Gap => format!("_{}-{}", slice.start.0, slice.end.0),
        };
        nesting.threads[0].iter().map(draw).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn slices_of_nested_ops() {
        // a -----------------------      d ---
        //    b -------   c ---
        //      X --
        let nesting = nest_of(&[(0, 100_000), (10_000, 50_000), (60_000, 80_000), (110_000, 120_000)], &[(20_000, 30_000)]);
        assert_eq!(
            drawn(&nesting),
            "a0-10000 b10000-20000 X20000-30000 b30000-50000 a50000-60000 c60000-80000 a80000-100000 _100000-110000 d110000-120000"
        );
        assert_eq!(nesting.op_parent, [OpIdx::NONE, OpIdx(0), OpIdx(0), OpIdx::NONE]);
        assert_eq!(nesting.call_op, [OpIdx(1)]);
        assert_eq!(nesting.op_exclusive[0], DurationNs(40_000));
    }

    #[test]
    fn every_op_has_a_slice() {
        // a and b begin and end together; c has no length
        let nesting = nest_of(&[(0, 9), (0, 9), (9, 9)], &[]);
        assert_eq!(drawn(&nesting), "a0-0 b0-9 c9-9");
    }

    #[test]
    fn overlap_without_nesting_loses_no_time() {
        let nesting = nest_of(&[(0, 10_000), (5_000, 20_000), (15_000, 18_000)], &[]);
        assert_eq!(drawn(&nesting), "a0-5000 b5000-15000 c15000-18000 b18000-20000");
        assert_eq!(nesting.overlaps, 1);
        assert_eq!(nesting.op_parent, [OpIdx::NONE, OpIdx::NONE, OpIdx(1)]);
    }

    #[test]
    fn slices_and_gaps_are_the_wall_time() {
        let mut random = 12345u64;
        let mut next = |limit: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((random >> 33) % limit) as i64
        };
        for _ in 0..200 {
            let mut ops: Vec<(i64, i64)> = (0..next(40) + 1).map(|_| next(50_000)).map(|s| (s, s)).collect();
            ops.iter_mut().for_each(|op| op.1 += next(9_000));
            ops.sort_by_key(|op| (op.0, -op.1));
            let nesting = nest_of(&ops, &[]);
            let slices = &nesting.threads[0];
            assert!(slices.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!(slices[0].start.0, ops[0].0);
            assert_eq!(slices[slices.len() - 1].end.0, ops.iter().map(|op| op.1).max().expect("some"));
            for op in 0..ops.len() {
                assert!(slices.iter().any(|slice| slice.owner == Owner::Op(op as u32)));
            }
        }
    }
}
