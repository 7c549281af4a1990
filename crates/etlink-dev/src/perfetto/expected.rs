//! What Perfetto has to find, taken from the linked trace and not from the writer.

use super::reader::Found;
use anyhow::{Context, Result, ensure};
use etlink_link::{Edge, EdgeKind, LinkedTrace, Node, NodeKind};
use etlink_model::{DurationNs, NameId, Thread, TimeNs};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

const PATH: &str = "critical path";

/// Process, thread, name, start, duration.
type Range = (String, String, String, i64, i64);
/// Kind; name, start and duration of both ranges.
type Arrow = (String, (String, i64, i64), (String, i64, i64));

#[derive(Debug)]
pub struct Expected {
    ranges: Vec<Range>,
    arrows: Vec<Arrow>,
    path_ns: i64,
    steps: usize,
}

impl Expected {
    /// `output` says where its times begin.
    pub fn new(trace: &LinkedTrace, output: &Path) -> Result<Expected> {
        let origin = origin(output)?;
        let graph = etlink_replay::graph_of(trace)?;
        let run = etlink_replay::run(&graph, trace, &etlink_replay::Settings::default());
        let path = etlink_replay::critical_path(&graph, &run);
        let (begin, _) = run.window();
        let path_ns = path.last().map_or(0, |step| run.end(step.node as usize).0 - begin.0);
        let (arrows, pieces) = arrows(trace, origin);
        let (mut ranges, mut arrows) = (ranges(trace, &pieces, origin), arrows);
        ranges.sort_unstable();
        arrows.sort_unstable();
        Ok(Expected { ranges, arrows, path_ns, steps: path.len() })
    }

    /// Compares, and gives the figures in words.
    pub fn compare(&self, found: Found) -> Result<String> {
        ensure!(found.stats.is_empty(), "trace_processor counts {:?}", found.stats);
        ensure!(found.slices.len() == found.all_slices, "{} of {} slices are on threads", found.slices.len(), found.all_slices);
        ensure!(found.flows.len() == found.all_flows, "{} of {} flows have both ends", found.flows.len(), found.all_flows);
        let (mut ranges, mut steps, mut tracks) = (vec![], vec![], BTreeSet::new());
        for (process, thread, tid, pid, name, start, duration, category) in found.slices {
            let (process, thread) = (process.unwrap_or_default(), thread.unwrap_or_default());
            if process == PATH {
                steps.push((start, duration, category));
            } else {
                let whole = without_number(&thread).to_owned();
                tracks.insert((pid, tid));
                ranges.push((process, whole, name, start, duration));
            }
        }
        same("slices", ranges, &self.ranges)?;
        self.steps(steps, found.critical_path_args)?;
        let flows = found.flows.into_iter().map(|(name, category, a, a_start, a_dur, b, b_start, b_dur)| {
            ensure!(name == category, "flow {name:?} has category {category:?}");
            Ok((name.unwrap_or_default(), (a, a_start, a_dur), (b, b_start, b_dur)))
        });
        same("flows", flows.collect::<Result<_>>()?, &self.arrows)?;
        let mut kinds = BTreeMap::<&str, u64>::new();
        self.arrows.iter().for_each(|(kind, ..)| *kinds.entry(kind).or_default() += 1);
        let counts = (self.ranges.len(), tracks.len(), kinds, self.steps, self.path_ns);
        Ok(format!("{} slices on {} tracks, flows {:?}, critical path of {} steps and {} ns", counts.0, counts.1, counts.2, counts.3, counts.4))
    }

    /// Steps and delays follow each other without gaps, and last as long as the run.
    fn steps(&self, mut found: Vec<(i64, i64, String)>, with_cause: usize) -> Result<()> {
        let steps = found.iter().filter(|(_, _, category)| category == "step").count();
        ensure!(steps == self.steps && with_cause == steps, "{steps} steps, {with_cause} of them with a cause, but {} are linked", self.steps);
        let total: i64 = found.iter().map(|(_, duration, _)| duration).sum();
        ensure!(total == self.path_ns, "the critical path takes {total} ns, not {} ns", self.path_ns);
        found.sort_unstable();
        for pair in found.windows(2) {
            let end = pair[0].0 + pair[0].1;
            ensure!(end == pair[1].0, "a step ends at {end} ns, the next begins at {} ns", pair[1].0);
        }
        Ok(())
    }
}

/// Both as sorted lists; says the first that differs.
fn same<T: Ord + Debug>(what: &str, mut found: Vec<T>, expected: &[T]) -> Result<()> {
    found.sort_unstable();
    let differs = found.iter().zip(expected).find(|(found, expected)| found != expected);
    ensure!(found.len() == expected.len(), "{} {what}, but {} are linked; first difference {differs:?}", found.len(), expected.len());
    ensure!(differs.is_none(), "{what} differ: found and linked {differs:?}");
    Ok(())
}

/// The instant that the file writes as 0.
fn origin(output: &Path) -> Result<i64> {
    let mut head = String::new();
    BufReader::new(File::open(output)?).read_line(&mut head)?;
    let head = head.trim_end().strip_suffix(", \"traceEvents\": [").context("the head of the file")?;
    let head: Value = serde_json::from_str(&format!("{head}}}"))?;
    Ok(head["otherData"]["origin_ns"].as_str().context("origin_ns")?.parse()?)
}

/// `stream 7 (2)` is `stream 7`; `thread 1 (python)` stays.
fn without_number(name: &str) -> &str {
    let number = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
    number.filter(|(_, number)| number.parse::<u32>().is_ok()).map_or(name, |(name, _)| name)
}

fn ranges(trace: &LinkedTrace, pieces: &BTreeSet<u32>, origin: i64) -> Vec<Range> {
    let device = &trace.device;
    let range = |(process, thread): (String, String), name: NameId, start: TimeNs, duration: DurationNs| {
        (process, thread, device.names.get(name).to_owned(), start.0 - origin, duration.0)
    };
    let on_thread = |at: usize| {
        let thread = device.threads[at];
        let process = device.process_names.iter().find(|(pid, _)| *pid == thread.pid).map(|(_, name)| device.names.get(*name).to_owned());
        (process.unwrap_or_else(|| format!("process {}", device.label(thread.pid))), without_number(&thread_name(trace, thread)).to_owned())
    };
    let on_queue = |at: usize| {
        let queue = device.queues[at];
        let contexts = device.queues.iter().filter(|other| (other.device, other.stream) == (queue.device, queue.stream)).count();
        let context = if contexts > 1 { format!(" of context {}", queue.context) } else { String::new() };
        (format!("device {}", queue.device), format!("stream {}{context}", queue.stream))
    };
    let (ops, calls, rows) = (&device.ops, &device.calls, &device.rows);
    let mut all: Vec<Range> = vec![];
    all.extend((0..ops.len()).map(|at| range(on_thread(ops.thread[at].index()), ops.name[at], ops.start[at], ops.duration[at])));
    all.extend((0..calls.len()).map(|at| range(on_thread(calls.thread[at].index()), calls.name[at], calls.start[at], calls.duration[at])));
    all.extend((0..rows.len()).map(|at| range(on_queue(rows.queue[at].index()), rows.name[at], rows.start[at], rows.duration[at])));
    let piece = |node: &u32| {
        let node = trace.nodes.get(*node as usize);
        let (process, thread) = on_thread(node.resource as usize);
        (process, thread, piece_name(trace, &node), node.start.0 - origin, node.duration.0)
    };
    all.extend(pieces.iter().map(piece));
    all
}

fn thread_name(trace: &LinkedTrace, thread: Thread) -> String {
    let device = &trace.device;
    let said = device.thread_names.iter().find(|(of, _)| *of == thread);
    said.map_or_else(|| format!("thread {}", device.label(thread.tid)), |(_, name)| device.names.get(*name).trim().to_owned())
}

/// Each edge but those of order and data, from the call where a call launches; and the pieces of calls and ops
/// that arrows end at because they do not end at the start of the whole.
fn arrows(trace: &LinkedTrace, origin: i64) -> (Vec<Arrow>, BTreeSet<u32>) {
    let mut pieces = BTreeSet::new();
    let order = [EdgeKind::ProgramOrder, EdgeKind::StreamOrder, EdgeKind::Tensor];
    let edges = trace.edges.iter().filter(|edge| !order.contains(&edge.kind));
    let mut arrow = |edge: Edge| {
        let to = place(trace, edge.to);
        let call = match to {
            (Table::Rows, row) if edge.kind == EdgeKind::Launch => trace.row_call[row].get(),
            _ => None,
        };
        let from = call.map_or_else(|| place(trace, edge.from), |call| (Table::Calls, call.index()));
        let mut of_node = |node: u32| {
            pieces.insert(node);
            let piece = trace.nodes.get(node as usize);
            (piece_name(trace, &piece), piece.start.0 - origin, piece.duration.0)
        };
        let is_whole = |place: (Table, usize), node: u32| {
            let piece = trace.nodes.get(node as usize);
            place.1 != NOTHING && (piece.on_device || piece.start.0 - origin <= end(trace, place, origin).1)
        };
        let whole = from.1 != NOTHING && edge.kind != EdgeKind::Handoff || is_whole(from, edge.from);
        let from = if whole { end(trace, from, origin) } else { of_node(edge.from) };
        let to = if is_whole(to, edge.to) { end(trace, to, origin) } else { of_node(edge.to) };
        (word(edge.kind), from, to)
    };
    let arrows = edges.map(&mut arrow).collect();
    (arrows, pieces)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Ops,
    Calls,
    Rows,
}

/// What a gap or boundary that no op encloses is a piece of.
const NOTHING: usize = u32::MAX as usize;

fn piece_name(trace: &LinkedTrace, node: &Node) -> String {
    if node.source as usize == NOTHING { trace.name(node).to_owned() } else { "goes on".to_owned() }
}

/// What a node is a piece of, or delays.
fn place(trace: &LinkedTrace, node: u32) -> (Table, usize) {
    let node = trace.nodes.get(node as usize);
    let table = match node.kind {
        NodeKind::Runtime => Table::Calls,
        _ if node.on_device => Table::Rows,
        _ => Table::Ops,
    };
    (table, node.source as usize)
}

fn end(trace: &LinkedTrace, (table, at): (Table, usize), origin: i64) -> (String, i64, i64) {
    let device = &trace.device;
    let (name, start, duration) = match table {
        Table::Ops => (device.ops.name[at], device.ops.start[at], device.ops.duration[at]),
        Table::Calls => (device.calls.name[at], device.calls.start[at], device.calls.duration[at]),
        Table::Rows => (device.rows.name[at], device.rows.start[at], device.rows.duration[at]),
    };
    (device.names.get(name).to_owned(), start.0 - origin, duration.0)
}

fn word(kind: EdgeKind) -> String {
    serde_json::to_value(kind).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}
