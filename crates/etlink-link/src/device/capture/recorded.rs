//! Captures recorded in a capture-time trace: launches between the start and the end of captures,
//! with their ops.

use super::{CaptureReport, NONE, begins_capture, launches_graph};
use crate::device::launch;
use crate::error::Error;
use crate::host::nest::{self, Nesting};
use etlink_model::{CallIdx, DeviceTrace, HostIdx, NameId, Names, OpIdx, ThreadIdx, TrackLabel};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Token of a copy, whatever the name of its kernel.
pub(super) const COPY: u32 = u32::MAX - 2;
/// Token of a memset.
pub(super) const SET: u32 = u32::MAX - 3;

/// Returns the token of a copy or memset that ROCm runs as a kernel of this name.
pub(super) fn transfer_token(kernel: &str) -> Option<u32> {
    match kernel {
        _ if kernel.starts_with("__amd_rocclr_copyBuffer") => Some(COPY),
        _ if kernel.starts_with("__amd_rocclr_fillBuffer") => Some(SET),
        _ => None,
    }
}

/// Kernel that a captured call launches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LaunchedKernel {
    /// A copy or memset, or a kernel without a name.
    Token(u32),
    /// Name in the capture trace.
    Named(NameId),
}

impl LaunchedKernel {
    const UNNAMED: LaunchedKernel = LaunchedKernel::Token(u32::MAX - 4);
}

/// Captured launches, by capture, sorted by time within each.
#[derive(Debug, Default)]
pub(super) struct RecordedCaptures {
    /// Kernel of each launch: number of its name, or one of the tokens above.
    pub(super) tokens: Vec<u32>,
    /// Row of `ops` for each launch, or `u32::MAX`.
    pub(super) op: Vec<u32>,
    /// Op of the trace around each launch, or `u32::MAX`: kernels of one call have the same.
    pub(super) call: Vec<u32>,
    /// Launches of each usable capture.
    pub(super) captures: Vec<Range<usize>>,
    /// Texts of each distinct op: name, shapes, types, scope, strides, values.
    pub(super) ops: Vec<[NameId; 6]>,
    /// Number of each distinct op.
    known: FxHashMap<[NameId; 6], u32>,
    /// Number of ops in all traces.
    calls: u32,
    pub(super) report: CaptureReport,
}

/// A capture that has begun.
struct OpenCapture {
    thread: ThreadIdx,
    capture: u32,
}

/// Meaning of a call's name for captures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Begin,
    End,
    Launch(LaunchedKernel),
    Other,
}

impl RecordedCaptures {
    /// Adds the captures of a trace, and its names of ops and kernels to `names`. O(n log n).
    pub(super) fn add(&mut self, device: &DeviceTrace, names: &mut Names) -> Result<(), Error> {
        let nesting = nest::nest(device);
        // A call with a device row was executed: it went to a stream that is not being captured.
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
        let mut report = CaptureReport {
            unfinished: sweep.unfinished(),
            ..CaptureReport::default()
        };
        let usable = self.captures.len();
        // ops of several traces have different numbers
        let first_call = self.calls;
        self.calls += device.ops.len() as u32;
        let found = sweep.finished();
        for capture in found.chunk_by(|a, b| a.0 == b.0) {
            let first = self.tokens.len();
            report.captures += 1;
            report.launches += capture.len() as u64;
            // A single launch without a name leaves a gap that any later row could fill.
            if capture
                .iter()
                .any(|launch| launch.2 == LaunchedKernel::UNNAMED)
            {
                report.unnamed += 1;
                continue;
            }
            for &(_, call, kernel) in capture {
                let described = describe(device, &nesting, CallIdx(call));
                let texts =
                    described.map(|(_, op)| op.map(|name| names.intern(device.names.get(name))));
                let number = texts.map_or(NONE, |op| {
                    *self
                        .known
                        .entry(op)
                        .or_insert_with(|| push(&mut self.ops, op))
                });
                self.tokens.push(match kernel {
                    LaunchedKernel::Token(token) => token,
                    LaunchedKernel::Named(name) => names.intern(device.names.get(name)).0,
                });
                self.op.push(number);
                self.call
                    .push(described.map_or(NONE, |(op, _)| first_call + op));
            }
            self.captures.push(first..self.tokens.len());
        }
        if self.captures.len() == usable {
            return Err(no_capture(device, &report, &sweep));
        }
        self.report.captures += report.captures;
        self.report.launches += report.launches;
        self.report.unnamed += report.unnamed;
        self.report.unfinished += report.unfinished;
        Ok(())
    }
}

fn push<T>(list: &mut Vec<T>, value: T) -> u32 {
    list.push(value);
    list.len() as u32 - 1
}

/// Returns the innermost op around a call, and its texts; annotations are scopes.
fn describe(device: &DeviceTrace, nesting: &Nesting, call: CallIdx) -> Option<(u32, [NameId; 6])> {
    let ops = &device.ops;
    let innermost = nesting.call_op[call.index()].get();
    let around = |op: &OpIdx| nesting.op_parent[op.index()].get();
    let chain = std::iter::successors(innermost, around).map(OpIdx::index);
    let op = chain.clone().find(|op| !ops.annotation[*op])?;
    let scope = chain.clone().find(|op| ops.annotation[*op]);
    let scope = scope.map_or(NameId::EMPTY, |op| ops.name[op]);
    let texts = [
        ops.name[op],
        ops.shapes[op],
        ops.types[op],
        scope,
        ops.strides[op],
        ops.values[op],
    ];
    Some((op as u32, texts))
}

/// Sweep over the calls of all threads, in order of time.
struct CaptureSweep<'d> {
    device: &'d DeviceTrace,
    /// Calls with a device row: not captured.
    executed: Vec<bool>,
    /// Meaning of each name, once known.
    meaning: Vec<Option<Meaning>>,
    open: Vec<OpenCapture>,
    /// True if the capture has ended, per capture.
    ended: Vec<bool>,
    /// Number of ends without a start.
    stray: u64,
    /// Capture, call and kernel of each launch.
    found: Vec<(u32, u32, LaunchedKernel)>,
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
                // the thread's open capture was abandoned
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
            Meaning::Launch(kernel) if !self.executed[call] => {
                if let Some(capture) = self.capture_of(thread) {
                    self.found.push((capture, call as u32, kernel));
                }
            }
            Meaning::Launch(_) | Meaning::Other => {}
        }
    }

    /// Returns the capture that a launch of `thread` enters: its own, else the only open one of its
    /// process.
    fn capture_of(&self, thread: ThreadIdx) -> Option<u32> {
        // Autograd's threads launch to the stream that the main thread captures, so their launches
        // enter its capture.
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
            let kernel = calls.kernel[call];
            let transfer = transfer_token(names.get(kernel)).map(LaunchedKernel::Token);
            return Meaning::Launch(transfer.unwrap_or(LaunchedKernel::Named(kernel)));
        }
        let name = calls.name[call];
        *self.meaning[name.index()].get_or_insert_with(|| meaning(names.get(name)))
    }

    /// Lists the launches of ended captures, by capture.
    fn finished(&self) -> Vec<(u32, u32, LaunchedKernel)> {
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

/// Returns the meaning of a call by its name alone: `cudaStreamBeginCapture`,
/// `hipStreamEndCapture`, `cuLaunchKernelEx`, …
fn meaning(name: &str) -> Meaning {
    match name {
        _ if begins_capture(name) => Meaning::Begin,
        _ if name.contains("StreamEndCapture") => Meaning::End,
        _ if name.contains("Memcpy") => Meaning::Launch(LaunchedKernel::Token(COPY)),
        _ if name.contains("Memset") => Meaning::Launch(LaunchedKernel::Token(SET)),
        _ if name.contains("Launch") && name.contains("Kernel") => {
            Meaning::Launch(LaunchedKernel::UNNAMED)
        }
        _ => Meaning::Other,
    }
}

/// Explains why no capture is usable.
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
    // The order matters: on CUDA, unnamed launches are the cause, whatever else is truncated.
    if report.unnamed > 0 {
        let first = sweep
            .found
            .iter()
            .find(|launch| launch.2 == LaunchedKernel::UNNAMED)
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
