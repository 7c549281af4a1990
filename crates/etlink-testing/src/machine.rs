//! Simulates a host thread and a device that wait for each other.
//!
//! A row starts after its launch, the previous row on its stream and all events its stream waits
//! for, each with a latency of its own. A blocked call returns once the awaited work has ended and
//! the thread has woken.

use crate::{DeviceQueue, ThreadRef, TraceBuilder};
use std::collections::BTreeMap;

/// Latencies in nanoseconds, similar to an A100's.
const LAUNCH: i64 = 6_000;
const STREAM: i64 = 1_000;
const EVENT: i64 = 2_000;
const WAKE: i64 = 4_000;
/// Durations of calls that do not wait, in nanoseconds.
const LAUNCH_CALL: i64 = 4_000;
const SHORT_CALL: i64 = 1_000;
/// Polling interval of a loop, in nanoseconds.
const POLL: i64 = 4_500;

/// Legacy default stream: it waits for all others and they wait for it, if
/// [`MachineOptions::legacy`] is set.
const LEGACY: i64 = 7;

/// An action of the thread. Times are in microseconds.
#[derive(Clone, Debug)]
pub enum MachineInstruction {
    /// Work of the host outside ops.
    Host(i64),
    /// An op and the instructions inside.
    Op(&'static str, Vec<MachineInstruction>),
    /// A step, `ProfilerStep#N`, and the instructions inside.
    Step(u32, Vec<MachineInstruction>),
    /// Launches a kernel.
    Launch {
        /// Stream of the kernel.
        stream: i64,
        /// Name of the kernel.
        kernel: &'static str,
        /// Duration in microseconds.
        us: i64,
    },
    /// `cudaEventRecord`
    Record {
        /// Number of the event, which can be reused.
        event: u32,
        /// Stream on which the event is recorded.
        stream: i64,
    },
    /// `cudaStreamWaitEvent`
    StreamWait {
        /// Stream that waits.
        stream: i64,
        /// Event that is waited for.
        event: u32,
    },
    /// `cudaStreamSynchronize`
    StreamSync(i64),
    /// `cudaEventSynchronize`
    EventSync(u32),
    /// `cudaDeviceSynchronize`
    DeviceSync,
    /// `while not event.query()`
    Poll(u32),
    /// Launches a graph, given its rows: stream, kernel, microseconds, and the rows of the graph to
    /// wait for.
    Graph(Vec<(i64, &'static str, i64, Vec<usize>)>),
}

/// Contents of a `cuda_sync` row: its kind, its stream, and the record it waits for.
type SyncRow<'n> = (&'n str, i64, Option<(i64, i64)>);

/// Behaviour of the machine that programs do not determine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineOptions {
    /// Maximum number of launches queued per stream; `None` for no limit.
    pub depth: Option<usize>,
    /// Maximum number of queue slots that work without rows takes now and then.
    pub depth_varies: usize,
    /// True if stream 7 is the legacy default stream, which all others block on.
    pub legacy: bool,
    /// True if Kineto writes `cuda_sync` rows.
    pub sync_rows: bool,
    /// Lead of the device's clock at the beginning, in nanoseconds.
    pub device_ahead: i64,
    /// Growth of that lead per second, in nanoseconds.
    pub device_drift: i64,
    /// Time that a profiler takes before the start of each op, in nanoseconds.
    pub cost_before_op: i64,
    /// Time that a profiler takes at the end of each op, in nanoseconds.
    pub cost_at_end: i64,
}

impl MachineOptions {
    /// Converts a time to the device's clock.
    fn by_device(self, now: i64) -> i64 {
        now + self.device_ahead + now * self.device_drift / 1_000_000_000
    }
}

/// Difference between the first run and the second.
#[derive(Clone, Copy, Debug)]
pub enum MachineChange {
    /// No difference.
    None,
    /// Multiplies the duration of kernels with this name by the factor.
    Kernel(&'static str, f64),
    /// Multiplies the duration of all kernels by the factor.
    Kernels(f64),
    /// Multiplies the duration of the kernel with this launch number by the factor.
    OneKernel(usize, f64),
    /// Multiplies the duration of host work by the factor.
    Host(f64),
}

impl MachineChange {
    /// Returns the change as rules for the replay.
    pub fn rules(self) -> Vec<String> {
        match self {
            MachineChange::None => vec![],
            MachineChange::Kernel(name, factor) => vec![format!("{name}={factor}")],
            MachineChange::Kernels(factor) => vec![format!("kind=device {factor}")],
            MachineChange::Host(factor) => vec![format!("kind=host {factor}")],
            // No rule names a single node.
            MachineChange::OneKernel(..) => vec![],
        }
    }

    fn kernel(self, name: &str, number: usize, duration: i64) -> i64 {
        match self {
            MachineChange::OneKernel(other, factor) if other == number => scaled(duration, factor),
            MachineChange::Kernel(other, factor) if other == name => scaled(duration, factor),
            MachineChange::Kernels(factor) => scaled(duration, factor),
            _ => duration,
        }
    }

    fn host(self, duration: i64) -> i64 {
        match self {
            MachineChange::Host(factor) => scaled(duration, factor),
            _ => duration,
        }
    }
}

fn scaled(duration: i64, factor: f64) -> i64 {
    (duration as f64 * factor).round() as i64
}

/// A simulated run.
#[derive(Debug)]
pub struct Machine {
    /// Trace that a profiler would have recorded.
    pub trace: TraceBuilder,
    /// Nanoseconds from the first start to the last end.
    pub makespan: i64,
    thread: ThreadRef,
    /// Number of kernels launched outside graphs.
    launched: usize,
    options: MachineOptions,
    change: MachineChange,
    now: i64,
    /// Start and end of each row, per stream.
    rows: BTreeMap<i64, Vec<(i64, i64)>>,
    /// Ends of the events that the next row waits for, per stream.
    pending: BTreeMap<i64, Vec<i64>>,
    /// End, stream and correlation of the record, per event.
    events: BTreeMap<u32, (i64, i64, i64)>,
}

impl Machine {
    /// Runs a program with these options and this change.
    pub fn run(
        program: &[MachineInstruction],
        options: MachineOptions,
        change: MachineChange,
    ) -> Machine {
        let mut trace = TraceBuilder::default();
        let thread = trace.thread();
        let mut machine = Machine {
            trace,
            makespan: 0,
            thread,
            launched: 0,
            options,
            change,
            now: 0,
            rows: BTreeMap::new(),
            pending: BTreeMap::new(),
            events: BTreeMap::new(),
        };
        machine.run_all(program);
        let ends = machine.rows.values().flatten().map(|(_, end)| *end);
        machine.makespan = ends.max().unwrap_or(0).max(machine.now);
        machine
    }

    fn run_all(&mut self, program: &[MachineInstruction]) {
        for instruction in program {
            self.run_one(instruction);
        }
    }

    fn run_one(&mut self, instruction: &MachineInstruction) {
        match instruction {
            MachineInstruction::Host(us) => self.now += self.change.host(us * 1_000),
            MachineInstruction::Op(name, body) => {
                self.now += self.options.cost_before_op;
                let begun = self.now;
                self.run_all(body);
                self.now += self.options.cost_at_end;
                self.trace.op(self.thread, name, begun, self.now);
            }
            MachineInstruction::Step(number, body) => {
                let begun = self.now;
                self.run_all(body);
                let name = format!("ProfilerStep#{number}");
                self.trace.annotation(self.thread, &name, begun, self.now);
            }
            MachineInstruction::Launch { stream, kernel, us } => {
                self.launch(*stream, kernel, us * 1_000)
            }
            MachineInstruction::Record { event, stream } => self.record(*event, *stream),
            MachineInstruction::StreamWait { stream, event } => self.stream_wait(*stream, *event),
            MachineInstruction::StreamSync(stream) => {
                let end = self.stream_end(*stream);
                self.block(
                    "cudaStreamSynchronize",
                    end,
                    Some(("Stream Sync", *stream, None)),
                );
            }
            MachineInstruction::EventSync(event) => {
                let (end, stream, record) = self.events[event];
                let sync = ("Event Sync", stream, Some((stream, record)));
                self.block("cudaEventSynchronize", end, Some(sync));
            }
            MachineInstruction::DeviceSync => {
                let streams = self.rows.keys().copied().collect::<Vec<_>>();
                let ends = streams.iter().map(|stream| self.stream_end(*stream));
                let end = ends.max().unwrap_or(0);
                self.block("cudaDeviceSynchronize", end, None);
            }
            MachineInstruction::Poll(event) => self.poll(self.events[event].0),
            MachineInstruction::Graph(rows) => self.launch_graph(rows),
        }
    }

    /// Draws a call from `begun` until now and returns its correlation.
    fn call(&mut self, name: &str, begun: i64) -> i64 {
        let correlation = self.trace.next_correlation();
        self.trace
            .call(self.thread, name, (begun, self.now), correlation);
        correlation
    }

    fn stream_end(&self, stream: i64) -> i64 {
        let last = self.rows.get(&stream).and_then(|rows| rows.last());
        last.map_or(0, |(_, end)| *end)
    }

    /// Returns the earliest start of a stream's next row, ignoring its launch.
    fn stream_ready(&mut self, stream: i64) -> i64 {
        let mut ready = 0;
        for (other, rows) in &self.rows {
            let blocks = self.options.legacy && (stream == LEGACY || *other == LEGACY);
            if *other == stream || blocks {
                ready = ready.max(rows.last().map_or(0, |(_, end)| end + STREAM));
            }
        }
        let waits = self.pending.remove(&stream).unwrap_or_default();
        ready.max(waits.iter().map(|end| end + EVENT).max().unwrap_or(0))
    }

    fn launch(&mut self, stream: i64, kernel: &str, duration: i64) {
        let begun = self.now;
        let rows = self.rows.entry(stream).or_default();
        let fewer = 7 * self.launched % (self.options.depth_varies + 1);
        let depth = self.options.depth.map(|depth| depth.saturating_sub(fewer));
        let head = depth.and_then(|depth| rows.len().checked_sub(depth));
        // A full queue accepts no launch before one of its rows starts.
        let accepted = head.map_or(begun, |head| begun.max(rows[head].0));
        let start = self.stream_ready(stream).max(accepted + LAUNCH);
        let end = start + self.change.kernel(kernel, self.launched, duration);
        self.launched += 1;
        self.rows.entry(stream).or_default().push((start, end));
        self.now = accepted + self.change.host(LAUNCH_CALL);
        let correlation = self.call("cudaLaunchKernel", begun);
        self.trace.kernel(
            DeviceQueue::stream(stream),
            kernel,
            (self.options.by_device(start), self.options.by_device(end)),
            correlation,
        );
    }

    fn launch_graph(&mut self, rows: &[(i64, &'static str, i64, Vec<usize>)]) {
        let begun = self.now;
        self.now += self.change.host(5 * LAUNCH_CALL);
        let main = rows[0].0;
        let ready = self.stream_ready(main).max(begun + LAUNCH);
        let mut spans: Vec<(i64, i64)> = vec![];
        let mut named = vec![];
        for (stream, kernel, us, after) in rows {
            let waited = after.iter().map(|row| spans[*row].1 + STREAM).max();
            let start = waited.unwrap_or(ready);
            let end = start + self.change.kernel(kernel, self.launched, us * 1_000);
            spans.push((start, end));
            let [start, end] = [start, end].map(|now| self.options.by_device(now));
            named.push((DeviceQueue::stream(*stream), *kernel, start, end));
        }
        self.trace
            .graph_launch_of(self.thread, (begun, self.now), &named);
        let (first, last) = (spans[0].0, spans.iter().map(|span| span.1).max());
        // The next launch on this stream waits for the whole graph.
        let whole = (first, last.unwrap_or(first));
        self.rows.entry(main).or_default().push(whole);
    }

    fn record(&mut self, event: u32, stream: i64) {
        let begun = self.now;
        self.now += self.change.host(SHORT_CALL);
        let correlation = self.call("cudaEventRecord", begun);
        let end = self.stream_end(stream);
        self.events.insert(event, (end, stream, correlation));
    }

    fn stream_wait(&mut self, stream: i64, event: u32) {
        let begun = self.now;
        self.now += self.change.host(SHORT_CALL);
        let correlation = self.call("cudaStreamWaitEvent", begun);
        let (end, recorded, record) = self.events[&event];
        self.pending.entry(stream).or_default().push(end);
        if self.options.sync_rows {
            self.trace.sync(
                "Stream Wait Event",
                DeviceQueue::stream(stream),
                (begun, self.now),
                correlation,
                Some((recorded, record)),
            );
        }
    }

    fn block(&mut self, name: &str, end: i64, sync: Option<SyncRow<'_>>) {
        let begun = self.now;
        let least = begun + self.change.host(2 * SHORT_CALL);
        // A blocking call spins (`cudaDeviceScheduleAuto`), so returning is work of the host.
        self.now = least.max(end + self.change.host(WAKE));
        let correlation = self.call(name, begun);
        if self.options.sync_rows
            && let Some((kind, stream, wait)) = sync
        {
            let queue = DeviceQueue::stream(stream);
            self.trace
                .sync(kind, queue, (begun, self.now), correlation, wait);
        }
    }

    fn poll(&mut self, end: i64) {
        loop {
            let begun = self.now;
            self.now += self.change.host(POLL / 3);
            self.call("cudaEventQuery", begun);
            if self.now >= end {
                return;
            }
            self.now += self.change.host(POLL - POLL / 3);
        }
    }
}
