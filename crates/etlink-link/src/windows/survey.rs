//! What is known of a rank before its first window is linked.

use super::error::WindowError;
use crate::device::capture::rows_of_graph_launches;
use crate::device::clocks::{self, DeviceClock};
use crate::device::launch::{self, Launches};
use crate::device::waits::{self, Waits};
use crate::graph::draft::Draft;
use crate::graph::kinds::NoLaunch;
use crate::host::Handoff;
use crate::host::nest::{self, Nesting};
use crate::host::pending::gloo_ranges;
use crate::host::recorded_waits::RecordedWait;
use crate::host::scope::is_scope;
use crate::notes::{self, DeviceOps};
use crate::options::LinkOptions;
use crate::passive_threads::awaited_despite_cut;
use crate::ranks::{RankSummary, StepRanges, has_one_group};
use crate::report::{LinkReport, TimeWindow};
use crate::{describe, overlap_name};
use etlink_model::{
    AnomalyKind, CollectiveKind, DeviceTrace, DurationNs, HostIdx, HostTrace, ListedNode, OpIdx,
    ThreadIdx, TimeNs, WantedNodes, WantedOps,
};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

/// How a rank is cut.
#[derive(Clone, Copy, Debug)]
pub struct SurveyOptions<'o> {
    /// How it is linked.
    pub link: LinkOptions,
    /// So many windows it has at least, if there are seams for that.
    pub windows: usize,
    /// Where it can be cut.
    pub seams: Seams,
    /// And where it cannot.
    pub not_at: &'o [TimeNs],
    /// A window has the ops of so much time around it at least: more than times are rounded by.
    pub margin: DurationNs,
}

impl Default for SurveyOptions<'_> {
    fn default() -> Self {
        SurveyOptions {
            link: LinkOptions::default(),
            windows: 1,
            seams: Seams::Steps,
            not_at: &[],
            margin: DurationNs(1_000_000),
        }
    }
}

/// Where a rank can be cut. Any instant does at which nothing but waits goes over from what is
/// before to what is behind, and each cut is proven when it is linked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seams {
    /// Where a step begins.
    #[default]
    Steps,
    /// Where any op begins that no other op is around.
    Ops,
}

/// What is known of a rank as a whole, and its windows.
#[derive(Debug)]
pub struct Survey {
    /// What is to be linked, in order of time.
    pub windows: Vec<LinkWindow>,
    /// What can be said before ops and host nodes are matched.
    pub report: LinkReport,
    /// Its communication records name no more than one group.
    pub one_group: bool,
    /// How many CPU ops the largest window has.
    pub largest: usize,
    /// What is known of it for a join with other ranks, without its communications.
    pub(super) summary: RankSummary,
    pub(super) steps: StepRanges,
    /// In how many ranges Gloo communicates.
    pub(super) gloo_ranges: u64,
    /// Ids of the host trace's ops, of its process groups, and of its roots.
    pub(super) host_ids: Vec<u64>,
    pub(super) group_ids: Vec<u64>,
    pub(super) root_ids: Vec<u64>,
    pub(super) device_ops: DeviceOps,
    pub(super) has_damage: bool,
    pub(super) window: (TimeNs, TimeNs),
    pub(super) threads: usize,
    /// Threads that are awaited, whatever windows show.
    pub(super) awaited: BTreeSet<ThreadIdx>,
    pub(super) calls: usize,
    pub(super) handoffs: Vec<Handoff>,
    pub(super) recorded: Vec<RecordedWait>,
    pub(super) launches: Launches,
    pub(super) waits: Waits,
    pub(super) clocks: Vec<DeviceClock>,
}

/// A part of a rank's time.
#[derive(Clone, Debug)]
pub struct LinkWindow {
    /// From when to when its nodes begin.
    pub from: TimeNs,
    /// Its end, and the begin of the next.
    pub until: TimeNs,
    /// From here on it has the nodes of the window before, and so has the next window of this one.
    pub(super) overlap: TimeNs,
    pub(super) next_overlap: TimeNs,
    /// The ops to read.
    pub ops: WantedOps,
    /// Ids of the host nodes that are its own.
    pub(super) ids: Range<u64>,
}

impl Survey {
    /// Whether the host trace has an op or a process group of this id. O(log n).
    pub(super) fn has_op(&self, id: u64) -> bool {
        let lists = [&self.host_ids, &self.group_ids];
        lists.iter().any(|ids| ids.binary_search(&id).is_ok())
    }

    /// Whether the host trace has a node of this id. O(log n).
    pub(super) fn has_node(&self, id: u64) -> bool {
        self.has_op(id) || self.root_ids.binary_search(&id).is_ok()
    }

    /// Whether a device trace of which a part of the ops was read has the calls, rows and threads that
    /// were surveyed.
    pub(super) fn is_of(&self, device: &DeviceTrace) -> bool {
        device.rows.len() == self.launches.row_call.len()
            && device.calls.len() == self.calls
            && device.threads.len() == self.threads
    }
}

impl LinkWindow {
    /// Whether what begins then is its own.
    pub(super) fn has(&self, start: TimeNs) -> bool {
        self.from <= start && start < self.until
    }

    /// The host nodes to read, beside the ops that were read.
    pub fn nodes_of(&self, device: &DeviceTrace) -> WantedNodes {
        let ids = device.ops.rf_id.iter().filter_map(|id| id.get());
        let mut rf_ids: Vec<u64> = ids.map(|id| id.0).collect();
        rf_ids.sort_unstable();
        WantedNodes {
            ids: self.ids.clone(),
            rf_ids,
            only_ids: false,
        }
    }
}

/// Looks through a whole device trace, and through the ids of the host trace's nodes.
///
/// # Errors
/// It cannot be linked window by window.
pub fn survey(
    device: &mut DeviceTrace,
    host: Option<&HostTrace>,
    options: SurveyOptions<'_>,
) -> Result<Survey, WindowError> {
    let window = device.window().ok_or(WindowError::Empty)?;
    check(device, host)?;
    let mut report = LinkReport {
        window: TimeWindow {
            start_ns: window.0.0,
            end_ns: window.1.0,
        },
        ..LinkReport::default()
    };
    describe(host, device, options.link, &mut report).map_err(|_| WindowError::Empty)?;
    let mut nesting = nest::nest(device);
    if !nesting.carried_out.is_empty() {
        return Err(WindowError::HostCollectives);
    }
    let unmatched = vec![HostIdx::NONE; device.ops.len()];
    let (mut launches, unlaunched) = launch::launches(device, &nesting, &unmatched);
    let on_devices = launches.collective.contains(&true);
    if !on_devices && (has_collectives(device, host) || gloo_ranges(device).next().is_some()) {
        return Err(WindowError::HostCollectives);
    }
    let mut anomalies = std::mem::take(&mut report.anomalies);
    let first_overlap = nesting.first_overlap.map(|op| overlap_name(device, op));
    anomalies.add(AnomalyKind::PartialOverlap, nesting.overlaps, first_overlap);
    anomalies.merge(unlaunched);
    report.device_clocks = clocks::device_clocks(device, &launches);
    let unshifted = launches.no_launch.clone();
    let recorded_times = clocks::shift_rows(device, &mut launches, &report.device_clocks);
    let waits = waits::waits(device, &launches, &nesting.call_op, &mut anomalies);
    // only windows have slices: those of the whole trace take much of the memory of this
    nesting.draft = Draft::default();
    nesting.call_slot = vec![];
    nesting.op_exclusive = vec![];
    report.anomalies = anomalies;
    let has_damage = host.is_some_and(|host| notes::about_parts(host, device, &mut report));
    notes::about_device(host, device, &mut report.notes);
    notes::about_clocks(&mut report);
    count_device(device, host, &launches, &mut report);
    let windows = windows(device, host, &launches, &nesting, options)?;
    clocks::restore_rows(device, recorded_times);
    launches.no_launch = unshifted;
    launches.row_op = vec![];
    let steps = StepRanges::of_trace(device);
    let mut summary = RankSummary::without_communications(device, &report);
    summary.steps.all = steps.step_spans(device);
    Ok(Survey {
        summary,
        steps,
        gloo_ranges: gloo_ranges(device).count() as u64,
        largest: largest(device, &windows),
        windows,
        host_ids: host.map_or(vec![], |host| listed_ids(&host.listed)),
        group_ids: host.map_or(vec![], |host| listed_ids(&host.listed_groups)),
        root_ids: host.map_or(vec![], |host| listed_ids(&host.listed_roots)),
        device_ops: DeviceOps::of(device),
        has_damage,
        one_group: has_one_group(device, host),
        clocks: report.device_clocks.clone(),
        report,
        window,
        threads: device.threads.len(),
        awaited: awaited_despite_cut(device),
        calls: device.calls.len(),
        handoffs: nesting.handoffs,
        recorded: nesting.recorded,
        launches,
        waits,
    })
}

fn listed_ids(listed: &[ListedNode]) -> Vec<u64> {
    listed.iter().map(|node| node.id).collect()
}

/// How many ops the largest window has, with those around it.
fn largest(device: &DeviceTrace, windows: &[LinkWindow]) -> usize {
    let ops = &device.ops;
    let is_in = |op: &usize, window: &LinkWindow| window.ops.has(ops.start[*op], ops.duration[*op]);
    let size = |window| (0..ops.len()).filter(|op| is_in(op, window)).count();
    windows.iter().map(size).max().unwrap_or(0)
}

/// Refuses what a part of the trace does not tell.
fn check(device: &DeviceTrace, host: Option<&HostTrace>) -> Result<(), WindowError> {
    if !device.op_producers.is_empty() {
        return Err(WindowError::Producers);
    }
    if !device.counter_ranges.is_empty() {
        return Err(WindowError::Counters);
    }
    let ops = &device.ops;
    let process = |thread: &ThreadIdx| device.threads[thread.index()].pid;
    let mut processes = ops.thread.iter().map(process);
    let first = processes.next();
    if processes.any(|process| Some(process) != first) {
        return Err(WindowError::SeveralProcesses);
    }
    let Some(host) = host else {
        return Ok(());
    };
    if host.anomalies.count(AnomalyKind::DuplicateNodeId) > 0 {
        return Err(WindowError::RepeatedNodes);
    }
    let mut ids: Vec<u64> = vec![];
    ids.extend(ops.rf_id.iter().filter_map(|id| id.get()).map(|id| id.0));
    ids.sort_unstable();
    if ids.is_empty() {
        return Err(WindowError::NotById);
    }
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(WindowError::RepeatedIds);
    }
    Ok(())
}

fn has_collectives(device: &DeviceTrace, host: Option<&HostTrace>) -> bool {
    let device = (&device.collectives, &device.names);
    let host = host.map(|host| (&host.collectives, &host.names));
    let mut tables = [Some(device), host].into_iter().flatten();
    tables.any(|(table, names)| {
        let mut records = table.name.iter();
        records.any(|name| CollectiveKind::from_name(names.get(*name)) != CollectiveKind::Other)
    })
}

fn count_device(
    device: &DeviceTrace,
    host: Option<&HostTrace>,
    launches: &Launches,
    report: &mut LinkReport,
) {
    report.host_ops = host.map_or(0, |host| host.listed.len() as u64);
    report.cpu_ops = device.ops.len() as u64;
    report.device_rows = device.rows.len() as u64;
    for reason in &launches.no_launch {
        match reason {
            NoLaunch::Launched => report.launched += 1,
            reason => *report.no_launch.entry(*reason).or_default() += 1,
        }
    }
    let in_graphs = rows_of_graph_launches(device, &launches.row_call);
    report.graph_rows = in_graphs.len() as u64;
    report.graph_launches = in_graphs.chunk_by(|a, b| a.0 == b.0).count() as u64;
}

/// Cuts the time of a trace.
fn windows(
    device: &DeviceTrace,
    host: Option<&HostTrace>,
    launches: &Launches,
    nesting: &Nesting,
    options: SurveyOptions<'_>,
) -> Result<Vec<LinkWindow>, WindowError> {
    let ids = IdsByTime::new(device, host);
    let seams = seams(device, nesting, &ids, options)?;
    let mut ends: Vec<TimeNs> = vec![TimeNs(i64::MIN)];
    ends.extend(&seams);
    ends.push(TimeNs(i64::MAX));
    let mut windows: Vec<LinkWindow> = vec![];
    for pair in ends.windows(2) {
        let (from, until) = (pair[0], pair[1]);
        let around = around(device, launches, from..until, options.margin);
        let overlap = match windows.is_empty() {
            true => from,
            false => around.from.shifted(options.margin.0 / 2),
        };
        windows.push(LinkWindow {
            from,
            until,
            overlap,
            next_overlap: until,
            ops: WantedOps {
                also: nearest(device, &around),
                ..around
            },
            ids: ids.first_from(from)..ids.first_from(until),
        });
    }
    for at in 1..windows.len() {
        // Of the window before that there is nothing to compare with.
        let begin = windows[at - 1].from;
        windows[at].overlap = windows[at].overlap.max(begin);
        windows[at - 1].next_overlap = windows[at].overlap;
    }
    Ok(windows)
}

/// The time whose ops a window needs.
fn around(
    device: &DeviceTrace,
    launches: &Launches,
    window: Range<TimeNs>,
    margin: DurationNs,
) -> WantedOps {
    let (mut from, mut until) = (window.start, window.end);
    for (row, call) in launches.row_call.iter().enumerate() {
        let Some(call) = call.get() else { continue };
        let called = device.calls.start[call.index()];
        let start = device.rows.start[row];
        if start.0 >= window.start.0.saturating_sub(margin.0) {
            from = from.min(called);
        }
        if start.0 < window.end.0.saturating_add(margin.0) {
            until = until.max(called);
        }
    }
    WantedOps {
        from: TimeNs(from.0.saturating_sub(margin.0)),
        until: TimeNs(until.0.saturating_add(margin.0)),
        also: vec![],
    }
}

/// Of each thread the op that ended last before this time, and the one that begins first after it.
fn nearest(device: &DeviceTrace, around: &WantedOps) -> Vec<(TimeNs, DurationNs)> {
    let ops = &device.ops;
    let threads = device.threads.len();
    let mut before: Vec<Option<(TimeNs, OpIdx)>> = vec![None; threads];
    let mut behind: Vec<Option<(TimeNs, Reverse<DurationNs>, OpIdx)>> = vec![None; threads];
    for op in 0..ops.len() {
        let (start, duration, thread) = (ops.start[op], ops.duration[op], ops.thread[op].index());
        let index = OpIdx::new(op);
        if start + duration < around.from {
            before[thread] = before[thread].max(Some((start + duration, index)));
        } else if start > around.until {
            let found = (start, Reverse(duration), index);
            let known = behind[thread].get_or_insert(found);
            *known = found.min(*known);
        }
    }
    let before = before.into_iter().flatten().map(|(_, op)| op);
    let behind = behind.into_iter().flatten().map(|(.., op)| op);
    let mut found: Vec<(TimeNs, DurationNs)> = vec![];
    for op in before.chain(behind) {
        found.push((ops.start[op.index()], ops.duration[op.index()]));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Where windows begin that have about the same number of ops.
fn seams(
    device: &DeviceTrace,
    nesting: &Nesting,
    ids: &IdsByTime,
    options: SurveyOptions<'_>,
) -> Result<Vec<TimeNs>, WindowError> {
    let ops = &device.ops;
    let mut places = match options.seams {
        Seams::Steps => step_begins(device),
        Seams::Ops => outer_begins(device, nesting),
    };
    places.retain(|op| {
        let start = ops.start[*op];
        // Ops that begin together are in one window.
        *op > 0 && ops.start[*op - 1] < start && ids.is_cut_at(start)
    });
    places.retain(|op| !options.not_at.contains(&ops.start[*op]));
    let most = ops.len().div_ceil(options.windows.max(1));
    let (mut seams, mut begun): (Vec<TimeNs>, usize) = (vec![], 0);
    for (place, op) in places.iter().enumerate() {
        // Ops are in order of time.
        let next = places.get(place + 1).copied().unwrap_or(ops.len());
        if next - begun > most {
            seams.push(ops.start[*op]);
            begun = *op;
        }
    }
    match seams.is_empty() {
        true => Err(WindowError::NoSteps),
        false => Ok(seams),
    }
}

fn step_begins(device: &DeviceTrace) -> Vec<usize> {
    let ops = &device.ops;
    let is_step = |op: &usize| {
        ops.annotation[*op] && device.names.get(ops.name[*op]).starts_with("ProfilerStep#")
    };
    (0..ops.len()).filter(is_step).collect()
}

/// The ops that only scopes are around, on the thread that has most ops.
fn outer_begins(device: &DeviceTrace, nesting: &Nesting) -> Vec<usize> {
    let ops = &device.ops;
    let mut counts = vec![0u64; device.threads.len()];
    for thread in &ops.thread {
        counts[thread.index()] += 1;
    }
    let most = counts.iter().max().copied();
    let busiest = counts.iter().position(|count| Some(*count) == most);
    // Parents come before their children.
    let mut is_inner = vec![false; ops.len()];
    let mut begins = vec![];
    for op in 0..ops.len() {
        if let Some(parent) = nesting.op_parent[op].get() {
            is_inner[op] = is_inner[parent.index()] || !is_scope(device, parent);
        }
        if !is_inner[op] && Some(ops.thread[op].index()) == busiest {
            begins.push(op);
        }
    }
    begins
}

/// Ids of host nodes by the time of their ops.
struct IdsByTime {
    starts: Vec<TimeNs>,
    /// The greatest id of the nodes up to each, and the least from each on.
    greatest: Vec<u64>,
    least: Vec<u64>,
}

impl IdsByTime {
    fn new(device: &DeviceTrace, host: Option<&HostTrace>) -> IdsByTime {
        let mut by_rf: Vec<(u64, u64)> = vec![];
        for node in host.iter().flat_map(|host| &host.listed) {
            by_rf.push((node.rf_id, node.id));
        }
        by_rf.sort_unstable();
        let mut ids = IdsByTime {
            starts: vec![],
            greatest: vec![],
            least: vec![],
        };
        for op in 0..device.ops.len() {
            let Some(rf_id) = device.ops.rf_id[op].get() else {
                continue;
            };
            let place = by_rf.partition_point(|(other, _)| *other < rf_id.0);
            if let Some((found, id)) = by_rf.get(place)
                && *found == rf_id.0
            {
                ids.starts.push(device.ops.start[op]);
                ids.greatest.push(*id);
            }
        }
        ids.least = ids.greatest.clone();
        for at in 1..ids.greatest.len() {
            ids.greatest[at] = ids.greatest[at].max(ids.greatest[at - 1]);
        }
        for at in (1..ids.least.len()).rev() {
            ids.least[at - 1] = ids.least[at - 1].min(ids.least[at]);
        }
        ids
    }

    /// The least id of the ops from a time on.
    fn first_from(&self, time: TimeNs) -> u64 {
        if time == TimeNs(i64::MIN) {
            return 0;
        }
        let at = self.starts.partition_point(|start| *start < time);
        self.least.get(at).copied().unwrap_or(u64::MAX)
    }

    /// Whether all ids of the ops before a time are below those from then on.
    fn is_cut_at(&self, time: TimeNs) -> bool {
        let at = self.starts.partition_point(|start| *start < time);
        let before = at.checked_sub(1).map(|before| self.greatest[before]);
        before.is_none_or(|before| before < self.first_from(time))
    }
}
