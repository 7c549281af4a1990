//! One rank's timeline of one window, as columns.

use super::about::about;
use super::deps::{self, Deps};
use super::ranges::{Drawn, Ids, NONE, Of, fit, within};
use super::strings::Strings;
use super::tracks::{Track, track};
use etlink_analyze::Rows;
use etlink_link::{LinkedTrace, NodeKind};
use etlink_model::{DurationNs, TimeNs};
use etlink_replay::{Graph, Run};
use serde::Serialize;

/// What is shown of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its first instant.
    pub start: TimeNs,
    /// Its end.
    pub end: TimeNs,
    /// The step's name and how long it took on the host; none of a trace without steps.
    pub step: Option<(String, DurationNs)>,
    /// Why it is not all, if it is not a step.
    pub note: String,
}

/// A rank's window: ranges with all that they waited for, and the part of the critical path that lies in it. Ranges stand by track and
/// start. Times are ns from the window's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// The rank's.
    pub(super) label: String,
    /// The step.
    pub(super) step: Option<String>,
    /// How long the step took on the host, ns.
    pub(super) step_ns: Option<i64>,
    /// How long the window is, ns.
    pub(super) window_ns: i64,
    /// Its start, ns since the origin of the trace.
    pub(super) origin_ns: i64,
    /// What to know of it.
    pub(super) note: String,
    /// Ranges in the window.
    pub(super) ranges: u64,
    /// Those shorter than this are drawn together, ns; 0: all are drawn.
    pub(super) together_ns: i64,
    pub(super) tracks: Vec<Track>,
    pub(super) strings: Vec<String>,
    pub(super) depth: Vec<u32>,
    /// Each after the start before it on its track, the first after the window's.
    pub(super) start: Vec<i64>,
    pub(super) duration: Vec<i64>,
    pub(super) name: Vec<u32>,
    /// [`KINDS`].
    pub(super) kind: Vec<u8>,
    /// How many ranges.
    pub(super) count: Vec<u32>,
    /// Of an op: time in which it ran itself, ns, else 0.
    pub(super) own: Vec<i64>,
    /// Text with a fact per line.
    pub(super) about: Vec<u32>,
    /// Name of the op that a call or row belongs to.
    pub(super) owner: Vec<u32>,
    /// `correlation`, -1: none.
    pub(super) correlation: Vec<i64>,
    pub(super) deps: Deps,
    pub(super) path: Path,
}

/// What a range is, by number. Device rows have the class that they have in all tables.
pub(super) const KINDS: [&str; 7] = ["computation", "communication", "memory", "other", "op", "annotation", "call"];

/// The critical path in the window, as columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Path {
    /// The range, by its place among the drawn; -1: none.
    range: Vec<i64>,
    name: Vec<u32>,
    start: Vec<i64>,
    duration: Vec<i64>,
    /// Before its start, ns.
    delay: Vec<i64>,
    cause: Vec<u32>,
    delay_cause: Vec<u32>,
    via: Vec<u32>,
}

/// Draws a window with `most` ranges at most. Names take 40 times `most` characters, then they are cut. O(n log n).
pub fn timeline(rows: &Rows<'_>, graph: &Graph, run: &Run, window: Window, most: usize) -> Timeline {
    let trace = rows.trace;
    let ids = Ids::new(trace);
    let path: Vec<etlink_replay::Step> = etlink_replay::critical_path(graph, run)
        .into_iter()
        .filter(|step| run.start[step.node as usize] < window.end && run.end(step.node as usize) > window.start)
        .collect();
    // a gap is time of the program itself, not of the annotation around it
    let of_path = |step: &etlink_replay::Step| {
        let node = trace.nodes.get(step.node as usize);
        ids.of_node(&node).filter(|_| node.kind != NodeKind::HostGap)
    };
    let mut on_path: Vec<usize> = path.iter().filter_map(of_path).collect();
    on_path.sort_unstable();
    let mut drawn = within(trace, ids, (window.start, window.end));
    let ranges = drawn.len() as u64;
    let together_ns = fit(&mut drawn, most, &|id| on_path.binary_search(&id).is_ok());
    let mut place = vec![NONE; ids.count];
    drawn.iter().zip(0..).for_each(|(range, at)| place[range.id] = at);
    let mut strings = Strings::new(most.saturating_mul(40));
    let mut timeline = Timeline::new(window, ranges, together_ns);
    timeline.columns(rows, ids, &drawn, &mut strings);
    let of = deps::Of { trace, graph, run, ids };
    timeline.deps = deps::deps(of, &place, TimeNs(timeline.origin_ns), &mut strings);
    for step in &path {
        let range = of_path(step).and_then(|id| place.get(id).copied()).filter(|at| *at != NONE);
        timeline.step_of_path(trace, graph, run, step, range, &mut strings);
    }
    timeline.strings = strings.into_all();
    timeline
}

impl Timeline {
    fn new(window: Window, ranges: u64, together_ns: i64) -> Timeline {
        let (step, step_ns) = window.step.map_or((None, None), |(name, duration)| (Some(name), Some(duration.0)));
        Timeline {
            label: String::new(),
            step,
            step_ns,
            window_ns: (window.end - window.start).0,
            origin_ns: window.start.0,
            note: window.note,
            ranges,
            together_ns,
            tracks: vec![],
            strings: vec![],
            depth: vec![],
            start: vec![],
            duration: vec![],
            name: vec![],
            kind: vec![],
            count: vec![],
            own: vec![],
            about: vec![],
            owner: vec![],
            correlation: vec![],
            deps: Deps::default(),
            path: Path::default(),
        }
    }

    /// How many ranges are drawn.
    pub fn drawn(&self) -> usize {
        self.start.len()
    }

    /// The same under a rank's name.
    #[must_use]
    pub fn labelled(self, label: &str) -> Timeline {
        Timeline { label: label.to_owned(), ..self }
    }

    fn columns(&mut self, rows: &Rows<'_>, ids: Ids, drawn: &[Drawn], strings: &mut Strings) {
        let trace = rows.trace;
        for on_track in drawn.chunk_by(|a, b| a.track == b.track) {
            let Some(first) = on_track.first() else { continue };
            self.tracks.push(track(&trace.device, first.track, on_track.len() as u32));
            let mut before = TimeNs(self.origin_ns);
            for range in on_track {
                self.depth.push(range.depth);
                self.start.push(range.start.since(before));
                before = range.start;
                self.duration.push((range.end - range.start).0);
                self.count.push(range.count);
                self.range(rows, ids.get(range.id), range.count > 1, strings);
            }
        }
    }

    fn range(&mut self, rows: &Rows<'_>, of: Of, several: bool, strings: &mut Strings) {
        let (trace, device) = (rows.trace, &rows.trace.device);
        let (name, kind, owner, own, correlation) = match of {
            Of::Op(at) => {
                let kind = if trace.op_collective(etlink_model::OpIdx(at as u32)).is_some() { 1 } else { 4 + u8::from(device.ops.annotation[at]) };
                (device.ops.name[at], kind, None, trace.op_exclusive[at].0, None)
            }
            Of::Call(at) => (device.calls.name[at], 6, trace.call_op[at].get(), 0, device.calls.correlation[at].get()),
            Of::Row(at) => (device.rows.name[at], rows.class[at] as u8, trace.row_op[at].get(), 0, device.rows.correlation[at].get()),
        };
        self.kind.push(kind);
        if several {
            self.name.push(0);
            self.own.push(0);
            self.about.push(0);
            self.owner.push(0);
            self.correlation.push(-1);
            return;
        }
        self.name.push(strings.add(device.names.get(name)));
        self.own.push(own);
        self.about.push(strings.add(&about(trace, of)));
        self.owner.push(owner.map_or(0, |op| strings.add(device.names.get(device.ops.name[op.index()]))));
        self.correlation.push(correlation.map_or(-1, |correlation| correlation.0));
    }

    fn step_of_path(&mut self, trace: &LinkedTrace, graph: &Graph, run: &Run, step: &etlink_replay::Step, range: Option<u32>, strings: &mut Strings) {
        let node = step.node as usize;
        let [cause, delay_cause] = step.causes(graph).map(etlink_replay::Cause::name);
        let path = &mut self.path;
        path.range.push(range.map_or(-1, i64::from));
        path.name.push(strings.add(trace.name(&trace.nodes.get(node))));
        path.start.push(run.start[node].since(TimeNs(self.origin_ns)));
        path.duration.push(run.duration[node].0);
        path.delay.push(step.latency_ns);
        path.cause.push(strings.add(cause));
        path.delay_cause.push(strings.add(delay_cause));
        path.via.push(strings.add(step.via.name()));
    }
}
