//! A rank that is larger than memory: linked window by window, with the graph of the whole.
//!
//! ```text
//! survey   all events of the device trace -> launches, waits, handoffs, clocks; where to cut
//! window   ops and host nodes of one window, all calls and rows -> its nodes, numbered on
//! ```
//! What says who waits for whom is found once, of the whole device trace. So a seam cuts no wait and
//! no launch. What takes most memory is read window by window: ops with their host nodes, and the
//! slices that they become. A window has the ops around it too, as far back as calls go whose rows
//! run in it, so that its slices are those of the whole trace.
//!
//! Each window compares the nodes that it has in common with the one before, and each edge has to
//! lead from a node whose number is known. Where one does not, there is no seam: an error, never
//! another graph.

mod anomalies;
mod error;
mod numbers;
mod summary;
mod survey;

pub use error::WindowError;
pub use numbers::WindowNodes;
pub use summary::WindowSummary;
pub use survey::{LinkWindow, Seams, Survey, SurveyOptions, survey};

use crate::device::{clocks, launch};
use crate::graph::build::{self, BetweenThreads, Cut, CutGraph, FollowedPlaces, LateReader};
use crate::graph::kinds::MatchRule;
use crate::host::nest::{self, Nesting};
use crate::host::scope::is_scope;
use crate::host::tensors::{self, HostTid, TensorUsers};
use crate::matching::compare::is_of_other_rank;
use crate::matching::{Matching, matching_by_id};
use crate::notes;
use crate::options::LinkOptions;
use crate::report::LinkReport;
use crate::trace::LinkedTrace;
use anomalies::{DroppedUsers, count_orphans, other_names, window_differences};
use etlink_model::{Anomalies, DeviceTrace, HostIdx, HostTrace, NodeIdx, OpIdx, ThreadIdx, TimeNs};
use numbers::Numbers;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Links the windows of a rank, one after the other.
pub struct WindowLinker<'s> {
    survey: &'s Survey,
    options: LinkOptions,
    users: TensorUsers,
    /// Per node of `users`, what a reader of it has to have followed: see `CutGraph::written`.
    written: Vec<TimeNs>,
    /// What threads have followed in the windows so far.
    followed: FollowedPlaces,
    /// The thread of the device trace that a thread of the host trace is; `None`: it is several.
    thread_of: FxHashMap<HostTid, Option<ThreadIdx>>,
    numbers: Numbers,
    dropped: DroppedUsers,
    next: usize,
}

/// One window, linked.
pub struct LinkedWindow {
    /// Its graph, and that of what is around it.
    pub trace: LinkedTrace,
    /// Which of the nodes are its own, and their numbers in the whole graph.
    pub nodes: WindowNodes,
    /// [`Survey::one_group`].
    pub one_group: bool,
    /// [`Survey::awaited`].
    awaited: BTreeSet<ThreadIdx>,
    /// What was wrong in it, beside what the survey has counted.
    anomalies: Anomalies,
    /// Its ids that both traces have, under different names.
    same_id_other_name: u64,
    /// It has host nodes that may be their own ancestors.
    has_later_parents: bool,
}

impl LinkedWindow {
    /// Threads for which a thread or a queue waits in the window: see
    /// [`LinkedTrace::passive_threads`].
    pub fn awaited_threads(&self) -> Vec<bool> {
        let own = self.nodes.own.clone().map(NodeIdx::new);
        let edges = own.flat_map(|node| self.trace.edges.deps(node).iter());
        let mut awaited = self.trace.awaited_threads(edges);
        for thread in &self.awaited {
            awaited[thread.index()] = true;
        }
        awaited
    }
}

impl<'s> WindowLinker<'s> {
    /// From the first window on.
    pub fn new(survey: &'s Survey, options: LinkOptions) -> WindowLinker<'s> {
        WindowLinker {
            survey,
            options,
            users: TensorUsers::new(options.tensor_deps),
            written: vec![],
            followed: FollowedPlaces::default(),
            thread_of: FxHashMap::default(),
            numbers: Numbers::new(survey),
            dropped: DroppedUsers::default(),
            next: 0,
        }
    }

    /// Links the next window, of which the traces have what [`LinkWindow`] says.
    ///
    /// # Errors
    /// There is no seam before it or behind it.
    pub fn link(
        &mut self,
        mut host: Option<HostTrace>,
        mut device: DeviceTrace,
    ) -> Result<LinkedWindow, WindowError> {
        let window = &self.survey.windows[self.next];
        self.next += 1;
        // by the survey's numbers of these its columns are read
        if !self.survey.is_of(&device) {
            return Err(WindowError::Changed);
        }
        device.whole_window = Some(self.survey.window);
        let mut anomalies = Anomalies::default();
        let matching = match &host {
            Some(host) => matching_by_id(host, &device, &mut anomalies)
                .filter(|found| found.same_id_other_name * 20 < found.count())
                .ok_or(WindowError::NotById)?,
            None => Matching::none(0, device.ops.len()),
        };
        if let Some(host) = &host
            && is_of_other_rank(host, &device, self.options)
        {
            return Err(WindowError::OtherRank);
        }
        let WindowTensors {
            pairs,
            readers,
            writers,
        } = self.tensor_pairs(window, host.as_ref(), (&device, &matching), &mut anomalies)?;
        // needed no more, and large
        host.iter_mut().for_each(|host| host.tensors = None);
        let survey = self.survey;
        let nesting = nest::nest_between(&device, survey.handoffs.clone(), survey.recorded.clone());
        let mut has_later_parents = false;
        let mut same_id_other_name = 0;
        if let Some(host) = &host {
            let pair = (host, &device, &matching);
            anomalies.merge(window_differences(survey, window, pair, &nesting.op_parent));
            has_later_parents = count_orphans(survey, window, host, &mut anomalies);
            same_id_other_name = other_names(window, pair);
        }
        let row_op = launch::row_owners(&device, &nesting, &matching.op_host, &survey.launches);
        let mut launches = survey.launches.clone();
        launches.row_op = row_op;
        let recorded_times = clocks::shift_rows(&mut device, &mut launches, &survey.clocks);
        let Nesting {
            op_parent,
            op_exclusive,
            call_op,
            call_slot,
            draft,
            handoffs,
            recorded,
            release_slot,
            ..
        } = nesting;
        let mut trace = LinkedTrace {
            host,
            device,
            op_host: matching.op_host,
            op_rule: matching.op_rule,
            op_parent,
            op_exclusive,
            call_op,
            report: survey.report.clone(),
            ..LinkedTrace::default()
        };
        let communicates = build::host_collectives(&trace.device, &launches, |op| {
            trace.op_collective(op).map(|found| found.kind())
        });
        if communicates.contains(&true) {
            return Err(WindowError::HostCollectives);
        }
        let between = BetweenThreads {
            handoffs: &handoffs,
            recorded: &recorded,
            release_slot: &release_slot,
            tensors: &pairs,
        };
        let cut = Cut {
            times: [
                window.overlap,
                window.from,
                window.next_overlap,
                window.until,
            ],
            wanted: (window.from, window.until),
            readers: &readers,
            writers: &writers,
            followed: &self.followed,
        };
        let CutGraph {
            nodes,
            edges,
            before,
            late_readers,
            written,
            followed,
        } = build::build_cut(
            &trace.device,
            draft,
            call_slot,
            &launches,
            (&survey.waits, between),
            &[],
            Some(cut),
            &mut anomalies,
        );
        if late_readers > 0 {
            return Err(WindowError::TensorOverSeam);
        }
        self.written.extend(written);
        for (threads, place) in followed {
            let latest = self.followed.entry(threads).or_insert(place);
            *latest = place.max(*latest);
        }
        (trace.nodes, trace.edges) = (nodes, edges);
        clocks::restore_rows(&mut trace.device, recorded_times);
        trace.row_call = launches.row_call;
        trace.row_op = launches.row_op;
        trace.row_no_launch = launches.no_launch;
        let nodes = self.numbers.number(&trace, before, window)?;
        Ok(LinkedWindow {
            trace,
            nodes,
            one_group: survey.one_group,
            awaited: survey.awaited.clone(),
            anomalies,
            same_id_other_name,
            has_later_parents,
        })
    }

    /// How many nodes the windows so far have.
    ///
    /// # Errors
    /// All windows are linked, and a row is in none.
    pub fn finish(self) -> Result<(), WindowError> {
        self.numbers.check_all()
    }

    /// Who reads and writes tensors in a window.
    fn tensor_pairs(
        &mut self,
        window: &LinkWindow,
        host: Option<&HostTrace>,
        (device, matching): (&DeviceTrace, &Matching),
        anomalies: &mut Anomalies,
    ) -> Result<WindowTensors, WindowError> {
        let Some(host) = host.filter(|host| host.tensors.is_some()) else {
            return Ok(WindowTensors::default());
        };
        for (op, node) in matching.op_host.iter().enumerate() {
            let Some(node) = node.get() else { continue };
            let thread = Some(device.ops.thread[op]);
            let tid = HostTid(host.nodes.tid[node.index()]);
            let known = self.thread_of.entry(tid).or_insert(thread);
            *known = known.filter(|known| Some(*known) == thread);
        }
        let rows: Vec<HostIdx> = (0..host.nodes.len())
            .map(HostIdx::new)
            .filter(|row| window.ids.contains(&host.nodes.id[row.index()]))
            .collect();
        let base = self.users.len();
        let users = self.users.add_nodes(host, rows.iter().copied());
        self.dropped.note(&self.users, (host, &rows), anomalies);
        let (mut inside, mut over) = (vec![], vec![]);
        for (reader, writer) in users {
            let reader = rows[reader.index() - base];
            match writer.index().checked_sub(base) {
                Some(writer) => inside.push((reader, rows[writer])),
                None => over.push((reader, writer)),
            }
        }
        if !over.is_empty() && runs_over(window, device, matching) {
            return Err(WindowError::TensorOverSeam);
        }
        let pairs = tensors::between_ops(inside, &matching.op_host);
        let mut readers = vec![];
        for (reader, writer) in over {
            let op = matching.host_op[reader.index()];
            let Some(op) = op.get() else { continue };
            let thread = self.thread_of.get(&self.users.thread(writer)).copied();
            match thread.flatten() {
                Some(thread) => readers.push(LateReader {
                    op,
                    writer: thread,
                    written: self.written[writer.index()],
                }),
                None => return Err(WindowError::TensorOverSeam),
            }
        }
        let writers = rows.iter().map(|row| matching.host_op[row.index()]);
        Ok(WindowTensors {
            pairs,
            readers,
            writers: writers.collect(),
        })
    }
}

/// Who reads and writes tensors in a window.
#[derive(Default)]
struct WindowTensors {
    /// Ops of two threads: one that reads, and one that wrote what it reads.
    pairs: Vec<(OpIdx, OpIdx)>,
    /// Ops that read what was written before the window.
    readers: Vec<LateReader>,
    /// Per host node of the window, its op.
    writers: Vec<OpIdx>,
}

/// Whether an op that can have written a tensor runs on from the window before: when it has, its end
/// would say.
fn runs_over(window: &LinkWindow, device: &DeviceTrace, matching: &Matching) -> bool {
    let ops = &device.ops;
    (0..ops.len()).any(|op| {
        let (start, end) = (ops.start[op], ops.start[op] + ops.duration[op]);
        let is_over = start < window.from && window.from < end;
        is_over && matching.op_host[op] != HostIdx::NONE && !is_scope(device, OpIdx::new(op))
    })
}

/// Counts what the windows have.
pub struct WindowCounts {
    report: LinkReport,
    /// Ids of host nodes that are matched.
    matched: Vec<u64>,
    has_later_parents: bool,
}

impl WindowCounts {
    /// Before the first window.
    pub fn new(survey: &Survey) -> WindowCounts {
        WindowCounts {
            report: survey.report.clone(),
            matched: vec![],
            has_later_parents: false,
        }
    }

    /// Adds the next window.
    pub fn add(&mut self, linked: &LinkedWindow, window: &LinkWindow) {
        let (trace, report) = (&linked.trace, &mut self.report);
        report.anomalies.merge(linked.anomalies.clone());
        report.unmatched.same_id_other_name += linked.same_id_other_name;
        self.has_later_parents |= linked.has_later_parents;
        let is_own = |start: TimeNs| window.has(start);
        for node in linked.nodes.own.clone() {
            *report.nodes.entry(trace.nodes.kind[node]).or_default() += 1;
            for edge in trace.edges.deps(NodeIdx::new(node)).iter() {
                *report.edges.entry(edge.kind).or_default() += 1;
            }
        }
        for (op, rule) in trace.op_rule.iter().enumerate() {
            if !is_own(trace.device.ops.start[op]) || *rule == MatchRule::None {
                continue;
            }
            *report.matched.entry(*rule).or_default() += 1;
            if let Some((host, node)) = trace.host.as_ref().zip(trace.op_host[op].get()) {
                self.matched.push(host.nodes.id[node.index()]);
            }
        }
        for (op, start) in trace.row_op.iter().zip(&trace.device.rows.start) {
            report.owned_by_op += u64::from(op.get().is_some() && is_own(*start));
        }
    }

    /// The report of all windows.
    pub fn finish(self, survey: &Survey) -> LinkReport {
        let WindowCounts {
            mut report,
            mut matched,
            has_later_parents,
        } = self;
        report.nodes.sort_unstable_keys();
        report.edges.sort_unstable_keys();
        matched.sort_unstable();
        let count = matched.len() as u64;
        let place = |id: Option<&u64>| {
            let id = id?;
            Some(survey.host_ids.partition_point(|other| other < id) as u64)
        };
        let (first, last) = (place(matched.first()), place(matched.last()));
        let among = first.zip(last).map_or(0, |(first, last)| last + 1 - first);
        if report.host_schema.is_some() {
            report.unmatched.host_outside_window = report.host_ops - among;
            report.unmatched.host_not_in_device = among - count.min(among);
            report.unmatched.device_not_in_host = report.cpu_ops - count;
            if !survey.has_damage {
                let ops = survey.device_ops;
                let note = notes::difference(report.host_ops, ops, count, false);
                report.notes.extend(note);
            }
        }
        let windows = survey.windows.len();
        // a part does not show how a chain of parents goes on in another
        let uncounted = match has_later_parents {
            true => {
                "; host nodes that are their own ancestors are counted as ops with another parent, if at all"
            }
            false => "",
        };
        report
            .notes
            .push(format!("linked in {windows} parts, for memory{uncounted}"));
        report
    }
}
