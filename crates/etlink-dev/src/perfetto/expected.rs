//! Expected contents of a Perfetto trace, derived from the linked trace rather than the writer.

use super::reader::PerfettoContent;
use anyhow::{Result, ensure};
use etlink_link::ranks::{RankClock, WaitCause};
use etlink_link::{Edge, EdgeKind, LinkedTrace, Node, NodeKind};
use etlink_model::{DurationNs, HostThread, NameId, NodeIdx, TimeNs};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

const PATH: &str = "critical path";

/// Process, thread, name, start, duration.
type Range = (String, String, String, i64, i64);
/// Process, name, start and duration of the range at an arrow's end.
type End = (String, String, i64, i64);
/// Category, name, start and duration of an event outside the graph.
type ExtraRange = (String, String, i64, i64);
/// Kind, from, to.
type Arrow = (String, End, End);

#[derive(Debug, Default)]
pub struct ExpectedContent {
    ranges: Vec<Range>,
    extra: Vec<ExtraRange>,
    arrows: Vec<Arrow>,
    /// Number of steps and their total time, by process.
    paths: BTreeMap<String, (usize, i64)>,
    /// Arrows between ranks by number: kind, from, to.
    between: BTreeMap<u32, (&'static str, Option<End>, Option<End>)>,
}

/// A trace with its position in the file.
pub struct ShownRank<'a> {
    pub trace: &'a LinkedTrace,
    /// Prefix of the names of its processes.
    pub prefix: String,
    /// Clock of the rank relative to the file's.
    pub clock: RankClock,
    /// Instant shown as 0, ns since the Unix epoch by the file's clock.
    pub origin_ns: i64,
    pub releases: &'a [WaitCause],
}

impl<'a> ShownRank<'a> {
    /// Shows a trace on its own.
    pub fn alone(trace: &'a LinkedTrace) -> Result<ShownRank<'a>> {
        let run = etlink_replay::run_graph(
            &etlink_replay::graph_from_trace(trace)?,
            trace,
            &etlink_replay::ReplaySettings::default(),
        );
        let begins = [
            (!trace.nodes.is_empty()).then(|| run.window().0),
            trace.device.first_start_of_all(),
        ];
        let origin = begins.into_iter().flatten().min().unwrap_or_default().0;
        let origin_ns = trace.device.header.base_ns.0 + origin;
        Ok(ShownRank {
            trace,
            prefix: String::new(),
            clock: RankClock::default(),
            origin_ns,
            releases: &[],
        })
    }

    /// Returns start and duration in the file.
    fn span(&self, start: TimeNs, duration: DurationNs) -> (i64, i64) {
        let at = |time: TimeNs| {
            self.clock
                .aligned(self.trace.device.header.unix_time(time))
                .0
                - self.origin_ns
        };
        (at(start), at(start + duration) - at(start))
    }
}

impl ExpectedContent {
    /// Collects the expected contents for these traces.
    pub fn new(all: &[ShownRank<'_>]) -> Result<ExpectedContent> {
        let mut expected = ExpectedContent::default();
        all.iter().try_for_each(|shown| expected.add(shown))?;
        let across = std::mem::take(&mut expected.between).into_values();
        expected
            .arrows
            .extend(across.filter_map(|(kind, from, to)| Some((kind.to_owned(), from?, to?))));
        expected.ranges.sort_unstable();
        expected.extra.sort_unstable();
        Ok(expected)
    }

    fn add(&mut self, shown: &ShownRank<'_>) -> Result<()> {
        let graph = etlink_replay::graph_from_trace(shown.trace)?;
        let run = etlink_replay::run_graph(
            &graph,
            shown.trace,
            &etlink_replay::ReplaySettings::default(),
        );
        // Only the number and total time of the path's steps are compared; the steps have their own
        // tests.
        let path = etlink_replay::critical_path(&graph, &run);
        let begin = run.window().0;
        let path_ns = path
            .last()
            .map_or(0, |step| shown.span(begin, run.end(step.node) - begin).1);
        self.paths
            .insert(format!("{}{PATH}", shown.prefix), (path.len(), path_ns));
        let mut pieces = add_arrows(shown, &mut self.arrows);
        pieces.extend(
            shown
                .releases
                .iter()
                .filter(|release| piece_end(shown, release).is_some())
                .map(|release| release.node),
        );
        add_ranges(shown, &pieces, &mut self.ranges);
        add_extra(shown, &mut self.extra);
        for release in shown.releases {
            let end = self.release(shown, release);
            let kind = if release.message {
                "message"
            } else {
                "last_arrival"
            };
            let arrow = self
                .between
                .entry(release.number)
                .or_insert((kind, None, None));
            *(if release.waits {
                &mut arrow.2
            } else {
                &mut arrow.1
            }) = Some(end);
        }
        Ok(())
    }

    /// Adds the range of a rank that waited: within its node, from the arrival of the last rank.
    fn release(&mut self, shown: &ShownRank<'_>, release: &WaitCause) -> End {
        let whole = range_end(shown, table_place(shown.trace, release.node));
        let at = shown.clock.aligned(release.at_ns).0 - shown.origin_ns;
        let node = shown.trace.nodes.get(release.node);
        if !release.waits || at <= shown.span(node.start, node.duration).0 {
            return piece_end(shown, release).unwrap_or(whole);
        }
        let (process, thread) = if node.on_device {
            on_queue(shown, node.track.index())
        } else {
            on_thread(shown, node.track.index())
        };
        let name = "transfer".to_owned();
        self.ranges.push((
            process.clone(),
            thread,
            name.clone(),
            at,
            whole.2 + whole.3 - at,
        ));
        (process, name, at, whole.2 + whole.3 - at)
    }

    /// Compares the contents, and describes the figures. Arrows in Perfetto's own format have no
    /// `kinds`.
    pub fn compare(&self, found: PerfettoContent, kinds: bool) -> Result<String> {
        ensure!(
            found.stats.is_empty(),
            "trace_processor counts {:?}",
            found.stats
        );
        ensure!(
            // A slice outside all threads was imported, but nobody would find it.
            found.slices.len() == found.all_slices,
            "{} of {} slices are on threads",
            found.slices.len(),
            found.all_slices
        );
        ensure!(
            found.flows.len() == found.all_flows,
            "{} of {} flows have both ends",
            found.flows.len(),
            found.all_flows
        );
        let (mut ranges, mut paths, mut tracks) =
            (vec![], BTreeMap::<String, Vec<_>>::new(), BTreeSet::new());
        let mut extra = vec![];
        for (process, thread, tid, pid, name, start, duration, category) in found.slices {
            let category = category.unwrap_or_default();
            if is_extra(&category) {
                extra.push((category, name, start, duration));
                continue;
            }
            let (process, thread) = (process.unwrap_or_default(), thread.unwrap_or_default());
            if process.ends_with(PATH) {
                paths
                    .entry(process)
                    .or_default()
                    .push((start, duration, category));
            } else {
                // Overlapping ranges are on extra tracks; here they count as on their thread.
                let whole = without_number(&thread).to_owned();
                tracks.insert((pid, tid));
                ranges.push((process, whole, name, start, duration));
            }
        }
        same("slices", ranges, &self.ranges)?;
        same("other events", extra, &self.extra)?;
        let (steps, path_ns) = self
            .paths
            .values()
            .fold((0, 0), |sums, (steps, ns)| (sums.0 + steps, sums.1 + ns));
        ensure!(
            found.critical_path_args == steps,
            "{} steps have a cause, but {steps} are linked",
            found.critical_path_args
        );
        for (process, (steps, ns)) in &self.paths {
            critical_path(paths.remove(process).unwrap_or_default(), *steps, *ns)?;
        }
        let flows = found.flows.into_iter().map(|(name, category, from, to)| {
            ensure!(name == category, "flow {name:?} has category {category:?}");
            Ok((name.unwrap_or_default(), from, to))
        });
        let mut arrows = self.arrows.clone();
        if !kinds {
            // Perfetto's own format has no field for the kind.
            arrows.iter_mut().for_each(|arrow| arrow.0.clear());
        }
        arrows.sort_unstable();
        same("flows", flows.collect::<Result<_>>()?, &arrows)?;
        let mut kinds = BTreeMap::<&str, u64>::new();
        self.arrows
            .iter()
            .for_each(|(kind, ..)| *kinds.entry(kind).or_default() += 1);
        let (slices, tracks, others) = (self.ranges.len(), tracks.len(), self.extra.len());
        Ok(format!(
            "{slices} slices on {tracks} tracks, {others} other events, flows {kinds:?}, critical path of {steps} steps \
             and {path_ns} ns"
        ))
    }
}

/// Checks that steps and delays follow each other without gaps, and add up to the run's duration.
fn critical_path(mut found: Vec<(i64, i64, String)>, steps: usize, path_ns: i64) -> Result<()> {
    let of = found
        .iter()
        .filter(|(_, _, category)| category == "step")
        .count();
    ensure!(of == steps, "{of} steps, but {steps} are linked");
    let total: i64 = found.iter().map(|(_, duration, _)| duration).sum();
    ensure!(
        total == path_ns,
        "the critical path takes {total} ns, not {path_ns} ns"
    );
    found.sort_unstable();
    for pair in found.windows(2) {
        let end = pair[0].0 + pair[0].1;
        ensure!(
            end == pair[1].0,
            "a step ends at {end} ns, the next begins at {} ns",
            pair[1].0
        );
    }
    Ok(())
}

/// Compares both as sorted lists; the error names the first difference.
fn same<T: Ord + Debug>(what: &str, mut found: Vec<T>, expected: &[T]) -> Result<()> {
    found.sort_unstable();
    let differs = found
        .iter()
        .zip(expected)
        .find(|(found, expected)| found != expected);
    ensure!(
        found.len() == expected.len(),
        "{} {what}, but {} are linked; first difference {differs:?}",
        found.len(),
        expected.len()
    );
    ensure!(
        differs.is_none(),
        "{what} differ: found and linked {differs:?}"
    );
    Ok(())
}

/// Removes the number of an extra track: `stream 7 (2)` becomes `stream 7`; `thread 1 (python)`
/// stays.
fn without_number(name: &str) -> &str {
    let number = name
        .strip_suffix(')')
        .and_then(|name| name.rsplit_once(" ("));
    number
        .filter(|(_, number)| number.parse::<u32>().is_ok())
        .map_or(name, |(name, _)| name)
}

/// Returns process and thread of an event, ignoring extra tracks.
fn on_thread(shown: &ShownRank<'_>, at: usize) -> (String, String) {
    let device = &shown.trace.device;
    let thread = device.threads[at];
    let process = device
        .process_names
        .get(&thread.pid)
        .map(|name| device.names.get(*name).to_owned());
    let process = process.unwrap_or_else(|| format!("process {}", device.label(thread.pid)));
    (
        format!("{}{process}", shown.prefix),
        without_number(&thread_name(shown.trace, thread)).to_owned(),
    )
}

/// Returns process and stream of an event, ignoring extra tracks.
fn on_queue(shown: &ShownRank<'_>, at: usize) -> (String, String) {
    let device = &shown.trace.device;
    let queue = device.queues[at];
    let contexts = device
        .queues
        .iter()
        .filter(|other| (other.device, other.stream) == (queue.device, queue.stream))
        .count();
    let context = if contexts > 1 {
        format!(" of context {}", queue.context)
    } else {
        String::new()
    };
    (
        format!("{}device {}", shown.prefix, queue.device),
        format!("stream {}{context}", queue.stream),
    )
}

fn add_ranges(shown: &ShownRank<'_>, pieces: &BTreeSet<NodeIdx>, all: &mut Vec<Range>) {
    let (trace, device) = (shown.trace, &shown.trace.device);
    let range =
        |(process, thread): (String, String), name: NameId, start: TimeNs, duration: DurationNs| {
            let (start, duration) = shown.span(start, duration);
            (
                process,
                thread,
                device.names.get(name).to_owned(),
                start,
                duration,
            )
        };
    let (ops, calls, rows) = (&device.ops, &device.calls, &device.rows);
    let (thread, queue) = (
        |at: usize| on_thread(shown, at),
        |at: usize| on_queue(shown, at),
    );
    all.extend((0..ops.len()).map(|at| {
        range(
            thread(ops.thread[at].index()),
            ops.name[at],
            ops.start[at],
            ops.duration[at],
        )
    }));
    all.extend((0..calls.len()).map(|at| {
        range(
            thread(calls.thread[at].index()),
            calls.name[at],
            calls.start[at],
            calls.duration[at],
        )
    }));
    all.extend((0..rows.len()).map(|at| {
        range(
            queue(rows.queue[at].index()),
            rows.name[at],
            rows.start[at],
            rows.duration[at],
        )
    }));
    for node in pieces {
        let node = trace.nodes.get(*node);
        let (process, thread) = on_thread(shown, node.track.index());
        let (start, duration) = shown.span(node.start, node.duration);
        all.push((process, thread, piece_name(trace, &node), start, duration));
    }
}

/// Returns true if a category is neither the graph's nor drawn by etlink itself.
fn is_extra(category: &str) -> bool {
    !matches!(category, "node" | "transfer" | "step" | "delay")
        && !etlink_kineto::is_graph_event(&format!("X {category}"))
}

/// Adds events outside the graph, by name and time; their tracks have their own tests.
fn add_extra(shown: &ShownRank<'_>, all: &mut Vec<ExtraRange>) {
    let device = &shown.trace.device;
    let Some(details) = &device.details else {
        return;
    };
    let mut add = |category: NameId, name: NameId, start: TimeNs, duration: DurationNs| {
        let (start, duration) = shown.span(start, duration);
        let [category, name] = [category, name].map(|id| device.names.get(id).to_owned());
        all.push((category, name, start, duration));
    };
    for row in 0..device.syncs.len() {
        let sync = device.syncs.row(row);
        let category = details.syncs.category[row];
        add(category, sync.name, sync.start, sync.duration);
    }
    for row in 0..device.auxiliary.len() {
        let event = device.auxiliary.row(row);
        let category = details.auxiliary.category[row];
        add(category, event.name, event.start, event.duration);
    }
    for row in 0..device.memory.len() {
        let event = device.memory.row(row);
        let category = details.memory.category[row];
        add(category, event.name, event.time, DurationNs(0));
    }
    for row in 0..details.others.len() {
        let event = details.others.row(row);
        let category = details.other_details.category[row];
        add(category, event.name, event.start, event.duration);
    }
}

fn thread_name(trace: &LinkedTrace, thread: HostThread) -> String {
    let device = &trace.device;
    device.thread_names.get(&thread).map_or_else(
        || format!("thread {}", device.label(thread.tid)),
        |name| device.names.get(*name).trim().to_owned(),
    )
}

/// Adds all edges except order and data, starting at the call if a call launches. Returns the
/// pieces of calls and ops at which arrows end because they do not end at the start of the whole.
fn add_arrows(shown: &ShownRank<'_>, all: &mut Vec<Arrow>) -> BTreeSet<NodeIdx> {
    let (trace, mut pieces) = (shown.trace, BTreeSet::new());
    // Mirrors `is_drawn` on purpose: calling it would compare the writer with itself.
    let order = [
        EdgeKind::ProgramOrder,
        EdgeKind::StreamOrder,
        EdgeKind::Tensor,
    ];
    let edges = trace
        .edges
        .iter()
        .filter(|edge| !order.contains(&edge.kind));
    let mut arrow = |edge: Edge| {
        let to = table_place(trace, edge.to);
        let call = match to {
            (RowTable::Rows, row) if edge.kind == EdgeKind::Launch => trace.row_call[row].get(),
            _ => None,
        };
        let from = call.map_or_else(
            || table_place(trace, edge.from),
            |call| (RowTable::Calls, call.index()),
        );
        let mut of_node = |node: NodeIdx| {
            pieces.insert(node);
            let piece = trace.nodes.get(node);
            let (start, duration) = shown.span(piece.start, piece.duration);
            (
                on_thread(shown, piece.track.index()).0,
                piece_name(trace, &piece),
                start,
                duration,
            )
        };
        let is_whole = |place: (RowTable, usize), node: NodeIdx| {
            let piece = trace.nodes.get(node);
            place.1 != NOTHING
                && (piece.on_device
                    || shown.span(piece.start, piece.duration).0 <= range_end(shown, place).2)
        };
        let whole =
            from.1 != NOTHING && edge.kind != EdgeKind::Handoff || is_whole(from, edge.from);
        let from = if whole {
            range_end(shown, from)
        } else {
            of_node(edge.from)
        };
        let to = if is_whole(to, edge.to) {
            range_end(shown, to)
        } else {
            of_node(edge.to)
        };
        (edge_word(edge.kind), from, to)
    };
    all.extend(edges.map(&mut arrow));
    pieces
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowTable {
    Ops,
    Calls,
    Rows,
}

/// Source of a gap or boundary that no op encloses.
const NOTHING: usize = u32::MAX as usize;

/// Returns the end of an arrow between ranks if it is not at the start of a whole op.
fn piece_end(shown: &ShownRank<'_>, release: &WaitCause) -> Option<End> {
    let node = shown.trace.nodes.get(release.node);
    let (start, duration) = shown.span(node.start, node.duration);
    let inside = release.waits && shown.clock.aligned(release.at_ns).0 - shown.origin_ns > start;
    // Rows on a device are never split, so only host ranges have pieces.
    let is_piece = !inside
        && !node.on_device
        && start > range_end(shown, table_place(shown.trace, release.node)).2;
    is_piece.then(|| {
        (
            on_thread(shown, node.track.index()).0,
            piece_name(shown.trace, &node),
            start,
            duration,
        )
    })
}

fn piece_name(trace: &LinkedTrace, node: &Node) -> String {
    if node.source as usize == NOTHING {
        trace.name(node).to_owned()
    } else {
        "goes on".to_owned()
    }
}

/// Returns table and row of the event that a node is part of, or delays.
fn table_place(trace: &LinkedTrace, node: NodeIdx) -> (RowTable, usize) {
    let node = trace.nodes.get(node);
    let table = match node.kind {
        NodeKind::Runtime => RowTable::Calls,
        _ if node.on_device => RowTable::Rows,
        _ => RowTable::Ops,
    };
    (table, node.source as usize)
}

fn range_end(shown: &ShownRank<'_>, (table, at): (RowTable, usize)) -> End {
    let device = &shown.trace.device;
    let (ops, calls, rows) = (&device.ops, &device.calls, &device.rows);
    let (process, name, start, duration) = match table {
        RowTable::Ops => (
            on_thread(shown, ops.thread[at].index()).0,
            ops.name[at],
            ops.start[at],
            ops.duration[at],
        ),
        RowTable::Calls => (
            on_thread(shown, calls.thread[at].index()).0,
            calls.name[at],
            calls.start[at],
            calls.duration[at],
        ),
        RowTable::Rows => (
            on_queue(shown, rows.queue[at].index()).0,
            rows.name[at],
            rows.start[at],
            rows.duration[at],
        ),
    };
    let (start, duration) = shown.span(start, duration);
    (process, device.names.get(name).to_owned(), start, duration)
}

fn edge_word(kind: EdgeKind) -> String {
    serde_json::to_value(kind)
        .ok()
        .and_then(|word| Some(word.as_str()?.to_owned()))
        .unwrap_or_default()
}
