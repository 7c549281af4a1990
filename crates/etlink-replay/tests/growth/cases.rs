//! Inputs that are as large as others and odd in one way: thousands of threads, of streams, of names, …
//!
//! What reading, linking and replaying them takes must grow with the number of events alone.

use etlink_host::HostReadOptions;
use etlink_link::ranks::{
    CommExtent, Communication, GroupIdentity, Peers, RankSummary, align_clocks, collective_skews,
    join_ranks, step_stragglers, wait_causes,
};
use etlink_link::{LinkOptions, link};
use etlink_model::{CollectiveKind, DeviceTrace, HostNode, HostTrace};
use etlink_replay::{ReplaySettings, critical_path, graph_from_trace, replay_figures, run_graph};
use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// In which way an input is odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oddity {
    /// Two threads, two streams, twenty names: what the others are compared with.
    Ordinary,
    /// Each fiftieth event begins a new thread.
    Threads,
    /// The same with a host trace that has no ids, so that threads are paired by their names.
    PairedThreads,
    /// Work of the autograd engine on many threads, without sequence numbers.
    EngineThreads,
    /// Each fiftieth event begins a new process.
    Processes,
    /// Each fiftieth event begins a new stream.
    Streams,
    /// Each fiftieth event begins a new device.
    Devices,
    /// Each fiftieth event is of a new process group.
    Groups,
    /// Workers of Gloo, of a new group with each fiftieth event.
    GlooGroups,
    /// Many ranks with few communications each.
    Ranks,
    /// Each event has a name of its own.
    Names,
    /// Each op lies in the one before.
    Depth,
    /// Each launch is followed by a synchronisation of the device, which has many streams.
    Syncs,
    /// All events begin and end at one time.
    EqualTimes,
}

impl Oddity {
    /// All of them, the ordinary one first.
    pub(crate) const ALL: [Oddity; 14] = [
        Oddity::Ordinary,
        Oddity::Threads,
        Oddity::PairedThreads,
        Oddity::EngineThreads,
        Oddity::Processes,
        Oddity::Streams,
        Oddity::Devices,
        Oddity::Groups,
        Oddity::GlooGroups,
        Oddity::Ranks,
        Oddity::Names,
        Oddity::Depth,
        Oddity::Syncs,
        Oddity::EqualTimes,
    ];
}

/// An input of one kind, made before time is taken.
#[derive(Debug)]
pub(crate) struct Case {
    device: Vec<u8>,
    host: Option<HostTrace>,
    ranks: Vec<RankSummary>,
}

impl Case {
    /// An input of about so many events.
    pub(crate) fn new(oddity: Oddity, events: usize) -> Case {
        let ranks = match oddity {
            Oddity::Ranks => summaries(events),
            _ => vec![],
        };
        Case {
            device: match oddity {
                Oddity::Ranks => vec![],
                _ => device_trace(oddity, events),
            },
            host: (oddity == Oddity::PairedThreads).then(|| host_trace(events)),
            ranks,
        }
    }

    /// Reads, links and replays it, or joins the ranks. How long that took.
    pub(crate) fn measure(&self) -> Duration {
        let (host, ranks) = (self.host.clone(), &self.ranks);
        let begun = Instant::now();
        if ranks.is_empty() {
            self.link_and_replay(host);
        } else {
            let join = join_ranks(ranks);
            let clocks = align_clocks(ranks, &join);
            black_box(collective_skews(ranks, &join, &clocks));
            black_box(step_stragglers(ranks, &join, &clocks));
            black_box(wait_causes(ranks, &join, &clocks));
        }
        begun.elapsed()
    }

    fn link_and_replay(&self, host: Option<HostTrace>) {
        let options = etlink_kineto::KinetoReadOptions::default();
        let device: DeviceTrace =
            etlink_kineto::read(&self.device[..], options).expect("a device trace");
        let trace = link(host, device, LinkOptions::default()).expect("links");
        let graph = graph_from_trace(&trace).expect("a graph");
        let run = run_graph(&graph, &trace, &ReplaySettings::default());
        black_box(replay_figures(&graph, &trace, &run));
        black_box(critical_path(&graph, &run));
        black_box(RankSummary::from_trace(&trace, 0));
    }
}

/// The shortest of several measurements: what else the machine does only ever adds.
pub(crate) fn shortest(case: &Case, times: usize) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..times {
        shortest = shortest.min(case.measure());
    }
    shortest
}

/// One op, one call in it and one kernel of each step.
const EVENTS_OF_STEP: usize = 3;
/// From the begin of a step to that of the next, us.
const STEP_US: usize = 10;
/// A new thread, stream, group, … comes with each so many steps.
const STEPS_OF_EACH: usize = 17;

/// A Kineto trace.
fn device_trace(oddity: Oddity, events: usize) -> Vec<u8> {
    let steps = (events / EVENTS_OF_STEP).max(1);
    let mut text = String::with_capacity(events * 220);
    text.push_str(r#"{"schemaVersion": 1, "deviceProperties": [], "traceEvents": ["#);
    for step in 0..steps {
        let each = step % (steps / STEPS_OF_EACH).max(1);
        let (mut thread, mut stream, mut process, mut device) = (step % 2, step % 2, 0, 0);
        let mut name = format!("aten::op{}", step % 20);
        let (mut begin, mut length) = (step * STEP_US, 6);
        let mut args = format!(r#""External id": {step}"#);
        match oddity {
            Oddity::Threads | Oddity::PairedThreads => thread = each,
            Oddity::EngineThreads => {
                thread = each;
                name = "autograd::engine::evaluate_function: MmBackward0".to_owned();
            }
            Oddity::Processes => process = each,
            Oddity::Streams | Oddity::Syncs => stream = each,
            Oddity::Devices => device = each,
            Oddity::Groups | Oddity::GlooGroups => {
                name = "record_param_comms".to_owned();
                let number = step / (steps / STEPS_OF_EACH).max(1);
                let _ = write!(
                    args,
                    r#", "Collective name": "allreduce", "Process Group Name": "{each}", "Seq": {number}"#
                );
                args.push_str(
                    r#", "In msg nelems": 8, "Out msg nelems": 8, "Group size": 2, "dtype": "Float""#,
                );
            }
            Oddity::Names => name = format!("aten::op{step}"),
            Oddity::Depth => (begin, length) = (step, 4 * steps - 2 * step),
            Oddity::EqualTimes => begin = 0,
            Oddity::Ordinary | Oddity::Ranks => {}
        }
        let (pid, tid) = (1_000 + process, 5_000 + 100_000 * process + thread);
        push_event(
            &mut text,
            "cpu_op",
            &name,
            (pid, tid),
            (begin, length),
            &args,
        );
        if oddity == Oddity::GlooGroups {
            let worker = (pid, 1_000_000 + each);
            push_event(
                &mut text,
                "user_annotation",
                "gloo:all_reduce",
                worker,
                (begin + 1, 3),
                "",
            );
            continue;
        }
        let call = match oddity {
            Oddity::Depth => (begin, 0),
            Oddity::EqualTimes => (begin, length),
            _ => (begin + 1, 2),
        };
        let correlation = format!(r#""correlation": {}"#, step + 1);
        push_event(
            &mut text,
            "cuda_runtime",
            "cudaLaunchKernel",
            (pid, tid),
            call,
            &correlation,
        );
        let args =
            format!(r#""device": {device}, "context": 1, "stream": {stream}, {correlation}"#);
        let row = (begin + if oddity == Oddity::EqualTimes { 0 } else { 3 }, 2);
        push_event(&mut text, "kernel", "gemm", (device, stream), row, &args);
        if oddity == Oddity::Syncs {
            push_event(
                &mut text,
                "cuda_runtime",
                "cudaDeviceSynchronize",
                (pid, tid),
                (begin + 6, 3),
                "",
            );
        }
    }
    text.push_str("]}");
    text.into_bytes()
}

/// Process and thread, or device and stream.
type Place = (usize, usize);
/// Begin and length, us.
type Span = (usize, usize);

fn push_event(text: &mut String, category: &str, name: &str, place: Place, span: Span, args: &str) {
    let comma = if text.ends_with('[') { "" } else { ",\n" };
    let (pid, tid) = place;
    let (begin, length) = span;
    let _ = write!(
        text,
        r#"{comma}{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid}, "#
    );
    let _ = write!(
        text,
        r#""ts": {begin}.000, "dur": {length}.000, "args": {{{args}}}}}"#
    );
}

/// The host trace of [`Oddity::PairedThreads`]: the same names on as many threads.
fn host_trace(events: usize) -> HostTrace {
    let options = HostReadOptions::default();
    let empty = br#"{"schema": "1.1.1-chakra.0.0.4", "pid": 1000, "nodes": [], "finish_ts": 2}"#;
    let mut host = etlink_host::read(&empty[..], options).expect("a host trace");
    let steps = (events / EVENTS_OF_STEP).max(1);
    for step in 0..steps {
        let name = host.names.intern(&format!("aten::op{}", step % 20));
        host.nodes.push(HostNode {
            name,
            id: step as u64 + 2,
            tid: (step % (steps / STEPS_OF_EACH).max(1)) as u32 + 1,
            collective: u32::MAX,
            ..HostNode::default()
        });
    }
    host
}

/// Ranks with a hundred communications each, in groups of all and of eight.
fn summaries(events: usize) -> Vec<RankSummary> {
    const COMMS: usize = 100;
    let world = (events / COMMS).max(2) as u64;
    let all = GroupIdentity::Ranks((0..world).collect());
    let mut summaries = vec![];
    for rank in 0..world {
        let first = rank / 8 * 8;
        let neighbours = GroupIdentity::Ranks((first..(first + 8).min(world)).collect());
        let mut summary = RankSummary {
            rank: rank as i64,
            world_size: Some(world as i64),
            groups: vec![all.clone(), neighbours],
            ..RankSummary::default()
        };
        let dtype = summary.names.intern("Float");
        for at in 0..COMMS {
            let span = (1_000 * at as i64 + rank as i64 % 7, 1_000 * at as i64 + 500);
            // few are of all ranks: each of these is as large as the world
            let group = u32::from(at % 20 != 0);
            summary.communications.push(Communication {
                node: at as u32,
                peers: Peers::Group(group),
                kind: CollectiveKind::AllReduce,
                dtype,
                in_bytes: 1024,
                bytes: 1024,
                seq: None,
                start_ns: span.0,
                end_ns: span.1,
                on_device: true,
                extent: CommExtent::from_node(at as u32, span),
            });
        }
        summaries.push(summary);
    }
    summaries
}
