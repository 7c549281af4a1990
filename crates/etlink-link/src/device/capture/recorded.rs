//! What a capture-time trace has: launches between the begin and the end of captures, and their
//! ops.

use super::{CaptureReport, NONE, begins_capture, launches_graph};
use crate::device::launch;
use crate::error::Error;
use crate::host::nest::{self, Nesting};
use etlink_model::{CallIdx, DeviceTrace, HostIdx, NameId, Names, OpIdx, ThreadIdx, TrackLabel};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A copy, whatever its kernel is named.
pub(super) const COPY: u32 = u32::MAX - 2;
/// A memset.
pub(super) const SET: u32 = u32::MAX - 3;
/// A launch that does not say of what.
const UNNAMED: u32 = u32::MAX - 4;

/// What a kernel's name stands for: copies and memsets of ROCm run as kernels of its own.
pub(super) fn token(kernel: &str, name: Option<NameId>) -> u32 {
    match kernel {
        _ if kernel.starts_with("__amd_rocclr_copyBuffer") => COPY,
        _ if kernel.starts_with("__amd_rocclr_fillBuffer") => SET,
        _ => name.map_or(NONE, |name| name.0),
    }
}

/// Launches that were captured, capture by capture, each in order of time.
#[derive(Debug, Default)]
pub(super) struct RecordedCaptures {
    /// What is launched: number of the kernel's name, or one of those above.
    pub(super) tokens: Vec<u32>,
    /// Row of `ops`, or `u32::MAX`.
    pub(super) op: Vec<u32>,
    /// The captures that can be used.
    pub(super) captures: Vec<Range<usize>>,
    /// Name, shapes, types and scope of each different op.
    pub(super) ops: Vec<[NameId; 4]>,
    pub(super) report: CaptureReport,
}

/// A capture that has begun.
struct OpenCapture {
    thread: ThreadIdx,
    capture: u32,
}

/// What a call's name means here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Begin,
    End,
    Launch(u32),
    Other,
}

impl RecordedCaptures {
    /// Finds the captures of a trace. Names of ops go into `names`. O(n log n).
    pub(super) fn new(device: &DeviceTrace, names: &mut Names) -> Result<RecordedCaptures, Error> {
        let nesting = nest::nest(device);
        // A call that a device row answers was executed: it went to a stream that is not being
        // captured.
        let (launches, _) =
            launch::launches(device, &nesting, &vec![HostIdx::NONE; device.ops.len()]);
        let mut executed = vec![false; device.calls.len()];
        launches
            .row_call
            .iter()
            .filter_map(|call| call.get())
            .for_each(|call| executed[call.index()] = true);
        let mut sweep = CaptureSweep {
            device,
            executed,
            ..CaptureSweep::over(device)
        };
        (0..device.calls.len()).for_each(|call| sweep.call(call));
        let mut recorded = RecordedCaptures {
            report: CaptureReport {
                unfinished: sweep.unfinished(),
                ..CaptureReport::default()
            },
            ..RecordedCaptures::default()
        };
        let mut known = FxHashMap::default();
        let found = sweep.finished();
        for capture in found.chunk_by(|a, b| a.0 == b.0) {
            let first = recorded.tokens.len();
            recorded.report.captures += 1;
            recorded.report.launches += capture.len() as u64;
            // One launch without a name leaves a gap that every later row could slip into.
            if capture.iter().any(|launch| launch.2 == UNNAMED) {
                recorded.report.unnamed += 1;
                continue;
            }
            for &(_, call, token) in capture {
                let op = describe(device, &nesting, CallIdx(call))
                    .map(|op| op.map(|name| names.intern(device.names.get(name))));
                let number = op.map_or(NONE, |op| {
                    *known
                        .entry(op)
                        .or_insert_with(|| push(&mut recorded.ops, op))
                });
                recorded.tokens.push(token);
                recorded.op.push(number);
            }
            recorded.captures.push(first..recorded.tokens.len());
        }
        if recorded.captures.is_empty() {
            return Err(no_capture(device, &recorded.report, &sweep));
        }
        Ok(recorded)
    }
}

fn push<T>(list: &mut Vec<T>, value: T) -> u32 {
    list.push(value);
    list.len() as u32 - 1
}

/// Name, shapes, types and scope of the innermost op around a call; annotations are scopes.
fn describe(device: &DeviceTrace, nesting: &Nesting, call: CallIdx) -> Option<[NameId; 4]> {
    let ops = &device.ops;
    let innermost = nesting.call_op[call.index()].get();
    let around = |op: &OpIdx| nesting.op_parent[op.index()].get();
    let chain = std::iter::successors(innermost, around).map(OpIdx::index);
    let op = chain.clone().find(|op| !ops.annotation[*op])?;
    let scope = chain.clone().find(|op| ops.annotation[*op]);
    let scope = scope.map_or(NameId::EMPTY, |op| ops.name[op]);
    Some([ops.name[op], ops.shapes[op], ops.types[op], scope])
}

/// The sweep over the calls of all threads, in order of time.
struct CaptureSweep<'d> {
    device: &'d DeviceTrace,
    /// Calls that a device row answers: not captured.
    executed: Vec<bool>,
    /// Per name, what calls of it do, once it is known.
    meaning: Vec<Option<Meaning>>,
    open: Vec<OpenCapture>,
    /// Per capture, whether it has ended.
    ended: Vec<bool>,
    /// Ends without a begin.
    stray: u64,
    /// Capture, call and token of each launch.
    found: Vec<(u32, u32, u32)>,
}

impl<'d> CaptureSweep<'d> {
    fn over(device: &'d DeviceTrace) -> Self {
        let meaning = vec![None; device.names.count()];
        CaptureSweep {
            device,
            executed: vec![],
            meaning,
            open: vec![],
            ended: vec![],
            stray: 0,
            found: vec![],
        }
    }

    fn call(&mut self, call: usize) {
        let thread = self.device.calls.thread[call];
        match self.meaning(call) {
            Meaning::Begin => {
                // a capture that its thread has open was given up
                self.open.retain(|open| open.thread != thread);
                self.open.push(OpenCapture {
                    thread,
                    capture: self.ended.len() as u32,
                });
                self.ended.push(false);
            }
            Meaning::End => match self.open.iter().position(|open| open.thread == thread) {
                Some(at) => self.ended[self.open.remove(at).capture as usize] = true,
                None => self.stray += 1,
            },
            Meaning::Launch(token) if !self.executed[call] => {
                if let Some(capture) = self.capture_of(thread) {
                    self.found.push((capture, call as u32, token));
                }
            }
            Meaning::Launch(_) | Meaning::Other => {}
        }
    }

    /// The capture that a launch of `thread` goes into: its own, else the only one that its process
    /// has open.
    fn capture_of(&self, thread: ThreadIdx) -> Option<u32> {
        // Autograd's threads launch to the stream that the main thread captures, so that their
        // launches enter its capture.
        let own = self.open.iter().find(|open| open.thread == thread);
        let mut near = self
            .open
            .iter()
            .filter(|open| self.process_of(open.thread) == self.process_of(thread));
        let only = match (near.next(), near.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        };
        own.or(only).map(|open| open.capture)
    }

    fn process_of(&self, thread: ThreadIdx) -> TrackLabel {
        self.device.threads[thread.index()].pid
    }

    fn meaning(&mut self, call: usize) -> Meaning {
        let (names, calls) = (&self.device.names, &self.device.calls);
        // ROCm names the kernel at the launch call (roctracer's `kernel` argument). CUPTI does not.
        if calls.kernel[call] != NameId::EMPTY {
            return Meaning::Launch(token(
                names.get(calls.kernel[call]),
                Some(calls.kernel[call]),
            ));
        }
        let name = calls.name[call];
        *self.meaning[name.index()].get_or_insert_with(|| meaning(names.get(name)))
    }

    /// Launches of captures that were ended, capture by capture.
    fn finished(&self) -> Vec<(u32, u32, u32)> {
        let mut found: Vec<_> = self
            .found
            .iter()
            .copied()
            .filter(|launch| self.ended[launch.0 as usize])
            .collect();
        found.sort();
        found
    }

    fn unfinished(&self) -> u64 {
        self.ended.iter().filter(|ended| !**ended).count() as u64 + self.stray
    }
}

/// What a call does, by its name alone: `cudaStreamBeginCapture`, `hipStreamEndCapture`,
/// `cuLaunchKernelEx`, …
fn meaning(name: &str) -> Meaning {
    match name {
        _ if begins_capture(name) => Meaning::Begin,
        _ if name.contains("StreamEndCapture") => Meaning::End,
        _ if name.contains("Memcpy") => Meaning::Launch(COPY),
        _ if name.contains("Memset") => Meaning::Launch(SET),
        _ if name.contains("Launch") && name.contains("Kernel") => Meaning::Launch(UNNAMED),
        _ => Meaning::Other,
    }
}

/// Why nothing can be used.
fn no_capture(device: &DeviceTrace, report: &CaptureReport, sweep: &CaptureSweep<'_>) -> Error {
    let at = |wanted: fn(&Meaning) -> bool| {
        let call = (0..device.calls.len()).find(|&call| {
            sweep.meaning[device.calls.name[call].index()]
                .as_ref()
                .is_some_and(wanted)
        })?;
        Some(format!(
            "{} at {} ns",
            device.names.get(device.calls.name[call]),
            device.calls.start[call].0
        ))
    };
    // The order matters: launches without names are the cause on CUDA, whatever else is cut.
    if report.unnamed > 0 {
        let first = sweep
            .found
            .iter()
            .find(|launch| launch.2 == UNNAMED)
            .map_or(0, |launch| launch.1 as usize);
        let (name, start) = (
            device.names.get(device.calls.name[first]),
            device.calls.start[first].0,
        );
        return Error::UnnamedCapture {
            captures: report.captures,
            first: format!("{name} at {start} ns"),
        };
    }
    if report.unfinished > 0 {
        let first =
            at(|meaning| matches!(meaning, Meaning::Begin | Meaning::End)).unwrap_or_default();
        return Error::CutCapture {
            captures: report.unfinished,
            first,
        };
    }
    if let Some(first) = at(|meaning| *meaning == Meaning::Begin) {
        return Error::EmptyCapture { first };
    }
    let replays = device
        .calls
        .name
        .iter()
        .filter(|name| launches_graph(device.names.get(**name)))
        .count();
    Error::NoCapture {
        calls: device.calls.len(),
        replays,
    }
}
