//! Random programs with known truth: threads that launch, record, wait and synchronise, run by a
//! small model of a device. The linked graph must order the kernels exactly as the program does.

use crate::support::{checked, device};
use etlink_link::{LinkOptions, LinkedTrace, NodeKind};
use etlink_model::NodeIdx;
use etlink_testing::{DeviceQueue, ThreadRef, TraceBuilder};
use proptest::prelude::*;

const STREAMS: usize = 3;
const EVENTS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Launch { stream: usize, work: i64 },
    Record { stream: usize, event: usize },
    StreamWait { stream: usize, event: usize },
    StreamSync { stream: usize },
    EventSync { event: usize },
    DeviceSync,
    Work { time: i64 },
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let (stream, event) = (0..STREAMS, 0..EVENTS);
    let step = prop_oneof![
        6 => (stream.clone(), 1i64..90_000)
            .prop_map(|(stream, work)| Step::Launch { stream, work }),
        2 => (stream.clone(), event.clone())
            .prop_map(|(stream, event)| Step::Record { stream, event }),
        2 => (stream.clone(), event.clone())
            .prop_map(|(stream, event)| Step::StreamWait { stream, event }),
        1 => stream.prop_map(|stream| Step::StreamSync { stream }),
        1 => event.prop_map(|event| Step::EventSync { event }),
        1 => Just(Step::DeviceSync),
        1 => (1i64..30_000).prop_map(|time| Step::Work { time }),
    ];
    (0usize..2, step)
}

/// A recorded event: call, stream, and the stream's last kernel.
#[derive(Clone, Copy)]
struct Recorded {
    call: i64,
    stream: usize,
    kernel: Option<usize>,
}

/// Model of the device, with the true order of its kernels.
#[derive(Default)]
struct Model {
    draw: TraceBuilder,
    threads: Vec<ThreadRef>,
    /// Time of each thread, and the kernels that it has waited for.
    now: [i64; 2],
    waited: [Vec<usize>; 2],
    begun: i64,
    /// End of each kernel, and the kernels it must come after.
    ends: Vec<i64>,
    after: Vec<Vec<usize>>,
    last: [Option<usize>; STREAMS],
    /// Kernels that the next one of each stream must come after, due to a wait.
    pending: [Vec<usize>; STREAMS],
    events: [Option<Recorded>; EVENTS],
}

fn queue(stream: usize) -> DeviceQueue {
    DeviceQueue::stream(7 + stream as i64)
}

impl Model {
    fn run(steps: &[(usize, Step)]) -> Model {
        let mut model = Model::default();
        model.threads = (0..2).map(|_| model.draw.thread()).collect();
        for &(thread, step) in steps {
            model.step(thread, step);
        }
        model
    }

    /// Begins a call of `length` after all others have begun, and returns its start.
    fn begin(&mut self, thread: usize) -> i64 {
        self.begun = self.now[thread].max(self.begun + 1_000);
        self.begun
    }

    fn call(&mut self, thread: usize, name: &str, start: i64, end: i64) -> i64 {
        let id = self.draw.next_correlation();
        self.draw.call(self.threads[thread], name, (start, end), id);
        self.now[thread] = end;
        id
    }

    fn step(&mut self, thread: usize, step: Step) {
        match step {
            Step::Work { time } => self.now[thread] += time,
            Step::Launch { stream, work } => self.launch(thread, stream, work),
            Step::Record { stream, event } => {
                let start = self.begin(thread);
                let call = self.call(thread, "cudaEventRecord", start, start + 500);
                self.events[event] = Some(Recorded {
                    call,
                    stream,
                    kernel: self.last[stream],
                });
            }
            Step::StreamWait { stream, event } => {
                let Some(recorded) = self.events[event] else {
                    return;
                };
                let start = self.begin(thread);
                let id = self.call(thread, "cudaStreamWaitEvent", start, start + 500);
                let waits = Some((queue(recorded.stream).stream, recorded.call));
                self.draw.sync(
                    "Stream Wait Event",
                    queue(stream),
                    (start, start + 500),
                    id,
                    waits,
                );
                self.pending[stream].extend(recorded.kernel);
            }
            Step::StreamSync { stream } => self.sync(
                thread,
                "cudaStreamSynchronize",
                "Stream Sync",
                queue(stream),
                None,
                self.last[stream],
            ),
            Step::DeviceSync => {
                let last = self.last;
                self.sync(
                    thread,
                    "cudaDeviceSynchronize",
                    "Context Sync",
                    DeviceQueue::stream(-1),
                    None,
                    last.into_iter().flatten(),
                );
            }
            Step::EventSync { event } => {
                let Some(recorded) = self.events[event] else {
                    return;
                };
                let waits = Some((queue(recorded.stream).stream, recorded.call));
                self.sync(
                    thread,
                    "cudaEventSynchronize",
                    "Event Sync",
                    DeviceQueue::stream(-1),
                    waits,
                    recorded.kernel,
                );
            }
        }
    }

    fn launch(&mut self, thread: usize, stream: usize, work: i64) {
        let call = self.begin(thread);
        let mut after = self.waited[thread].clone();
        after.extend(self.last[stream]);
        after.append(&mut self.pending[stream]);
        let ready = after
            .iter()
            .map(|kernel| self.ends[*kernel] + 1_000)
            .max()
            .unwrap_or(0);
        let start = ready.max(call + 6_000);
        self.draw.launch(
            self.threads[thread],
            (call, call + 4_000),
            queue(stream),
            &self.ends.len().to_string(),
            (start, start + work),
        );
        self.now[thread] = call + 4_000;
        self.last[stream] = Some(self.ends.len());
        self.ends.push(start + work);
        self.after.push(after);
    }

    fn sync(
        &mut self,
        thread: usize,
        name: &str,
        kind: &str,
        at: DeviceQueue,
        waits: Option<(i64, i64)>,
        kernels: impl IntoIterator<Item = usize>,
    ) {
        let start = self.begin(thread);
        let kernels: Vec<usize> = kernels.into_iter().collect();
        let ended = kernels
            .iter()
            .map(|kernel| self.ends[*kernel])
            .max()
            .unwrap_or(0);
        let id = self.call(thread, name, start, (ended + 2_000).max(start + 1_000));
        self.draw
            .sync(kind, at, (start, self.now[thread]), id, waits);
        self.waited[thread].extend(kernels);
    }

    /// Marks, per kernel, all kernels that must come before it.
    fn truth(&self) -> Vec<Vec<bool>> {
        let mut all: Vec<Vec<bool>> = vec![];
        for after in &self.after {
            let mut before = vec![false; self.ends.len()];
            for &kernel in after {
                before[kernel] = true;
                before
                    .iter_mut()
                    .zip(&all[kernel])
                    .for_each(|(to, from)| *to |= from);
            }
            all.push(before);
        }
        all
    }
}

/// Marks, per kernel in launch order, all kernels that it waits for in the graph.
fn linked(trace: &LinkedTrace) -> Vec<Vec<bool>> {
    let kernels = trace.device.rows.len();
    let mut all: Vec<Vec<bool>> = vec![];
    let mut found = vec![vec![]; kernels];
    for at in trace.nodes.indices() {
        let mut before = vec![false; kernels];
        for edge in trace.edges.deps(at).iter() {
            before
                .iter_mut()
                .zip(&all[edge.from.index()])
                .for_each(|(to, from)| *to |= from);
            if let Some(kernel) = kernel(trace, edge.from) {
                before[kernel] = true;
            }
        }
        if let Some(kernel) = kernel(trace, at) {
            found[kernel] = before.clone();
        }
        all.push(before);
    }
    found
}

/// Kernel of a node, by its name, which is its number.
fn kernel(trace: &LinkedTrace, node: NodeIdx) -> Option<usize> {
    let node = trace.nodes.get(node);
    (node.kind == NodeKind::DeviceOp)
        .then(|| trace.name(&node).parse().ok())
        .flatten()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(600)
    })]

    #[test]
    fn kernels_are_ordered_as_the_program_orders_them(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let model = Model::run(&steps);
        prop_assume!(!model.ends.is_empty());
        let trace = checked(
            etlink_link::link(None, device(&model.draw), LinkOptions::default()).expect("links"),
        );
        prop_assert_eq!(linked(&trace), model.truth());
        prop_assert!(
            !trace.report.nodes.contains_key(&NodeKind::UnexplainedWait),
            "everything \
             has a cause"
        );
    }
}
