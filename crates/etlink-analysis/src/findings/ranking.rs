//! Replays the run without each cause, and ranks causes by the gain.

use crate::findings::awaited::is_awaited;
use crate::findings::candidate::{CauseCandidate, CauseEvidence, ProgramKind, RankWindow};
use crate::findings::detect::names::stays_on_devices;
use crate::findings::evidence;
use crate::findings::finding::{CommunicationShare, JointGain, RankPart, RunFinding, RunFindings};
use crate::findings::kind::CauseKind;
use crate::findings::kinds::HOST_WORK_AT_LINE;
use crate::findings::limits::{
    EXPLAINS, LEAST_GAIN, LEAST_KERNEL_GAIN, LONG_CAUSE, MOST_FINDINGS, MOST_OF_A_KIND,
    MUCH_COMMUNICATION, SAME_TIME, SMALL_MESSAGE,
};
use crate::findings::overlap::CauseNodes;
use crate::findings::ranks::rank_candidates;
use crate::findings::sentence;
use crate::findings::text::sum_ns;
use crate::findings::title;
use etlink_link::ranks::RunSteps;
use etlink_model::{CollectiveKind, GlobalRank, NodeIdx};
use etlink_replay::{EditableGraph, GraphEdits, HostLead, ReplayGraph, ReplayRun};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Remedy for small messages.
const SMALL_MESSAGE_REMEDY: &str =
    "start it earlier to overlap it with computation, or combine many small messages";

/// Remedy for small messages of collectives that DDP and FSDP put into buckets.
const SMALL_BUCKET_REMEDY: &str = "start it earlier to overlap it with computation, or combine many small \
    messages (larger buckets)";

/// Remedy for copies that stay on devices.
const DEVICE_COPIES_REMEDY: &str =
    "write results where they are needed to avoid copies, or overlap copies with computation";

/// Part of the name of `DataLoader`'s range if `num_workers` is 0.
const LOADER_WITHOUT_WORKERS: &str = "_SingleProcessDataLoaderIter";

/// Remedy for a `DataLoader` without workers, which fetches nothing ahead.
const WITHOUT_WORKERS_REMEDY: &str =
    "set `num_workers` of the `DataLoader` above 0 to load in other processes";

/// Remedy for barriers, the only communication known to have no bytes.
const BARRIER_REMEDY: &str = "remove the barrier, or let fewer ranks join it: it moves no data";

/// A cause, merged over all ranks that have it.
#[derive(Default)]
struct MergedCause {
    candidate: CauseCandidate,
    ranks: Vec<GlobalRank>,
    /// Maximum total duration on a rank, in ns.
    longest_ns: i64,
}

/// A cause with the gain from its replay.
struct Replayed {
    candidate: CauseCandidate,
    ranks: Vec<GlobalRank>,
    nodes: CauseNodes,
    gain_ns: i64,
}

/// Replays of a run without causes.
struct Replays<'r> {
    graph: &'r ReplayGraph,
    parts: &'r [RankPart],
    editable: EditableGraph<'r>,
    /// All ranks' windows in the unchanged replay.
    plain: WindowTimes,
    /// Reference time of shares, in ns.
    whole_ns: i64,
    /// Part of `whole_ns` in which no work runs on the busiest rank's device, in ns.
    idle_ns: i64,
    /// Part of `whole_ns` in which the device that computes and copies most does so, in ns.
    compute_or_copy_ns: i64,
    /// Part of `whole_ns` in which no device computes on the rank that computes most, in ns.
    free_ns: i64,
    /// True if a trace has device work, but no host call that waits for it.
    lacks_waits: bool,
}

impl<'r> Replays<'r> {
    fn new(graph: &'r ReplayGraph, parts: &'r [RankPart], steps: &RunSteps) -> Replays<'r> {
        let editable = EditableGraph::new(graph);
        let plain = WindowTimes::new(editable.plain_run(), parts);
        let windows = || parts.iter().map(|part| part.causes.window);
        // The graph includes time from before the recording. For a single rank, shares exclude that
        // time. Ranks begin at different times: for several ranks, shares include it, and devices
        // are busy then.
        let is_one = parts.len() == 1;
        let before = |window: RankWindow| if is_one { 0 } else { window.before_ns };
        let most = |ns: fn(RankWindow) -> i64| {
            let all = windows().map(|window| ns(window).saturating_add(before(window)));
            all.max().unwrap_or(0)
        };
        let whole_ns = match parts {
            [one] => one.causes.window.length_ns,
            _ => steps.window_ns().unwrap_or(plain.length_ns),
        };
        Replays {
            idle_ns: whole_ns.saturating_sub(most(|window| window.busy_ns)),
            compute_or_copy_ns: most(|window| window.compute_or_copy_ns).min(whole_ns),
            free_ns: whole_ns.saturating_sub(most(|window| window.computation_ns)),
            lacks_waits: windows().any(|window| window.lacks_waits),
            graph,
            parts,
            editable,
            plain,
            whole_ns,
        }
    }

    fn share(&self, ns: i64) -> f64 {
        ns as f64 / self.whole_ns.max(1) as f64
    }

    /// Returns the reduction of the window's length without a cause, in ns.
    fn gain_ns(&self, candidate: &CauseCandidate) -> i64 {
        let edited_ns = edited_length(&self.editable, &self.plain, candidate, self.parts);
        let mut gain_ns = self.plain.length_ns.saturating_sub(edited_ns);
        if self.lacks_waits && candidate.kind == CauseKind::SmallKernels {
            // A host that waits for nothing is always late: only launches for which a device waits
            // count.
            gain_ns = gain_ns.min(candidate.evidence.time_ns);
        }
        self.most_gain(candidate.changes_device(self.graph), gain_ns)
    }

    /// Limits a gain to the time without computation. Streams share the device: sequential kernels
    /// must not count as able to overlap, because the trace does not show it. Copies can overlap
    /// with kernels.
    fn most_gain(&self, changes_device: bool, gain_ns: i64) -> i64 {
        let most_ns = if changes_device {
            self.whole_ns
        } else {
            self.free_ns
        };
        gain_ns.min(most_ns)
    }

    /// Returns true if the gain vanishes without inferred waits.
    fn is_gain_inferred(&self, stated: &EditableGraph<'_>, candidate: &CauseCandidate) -> bool {
        let plain = WindowTimes::new(stated.plain_run(), self.parts);
        let edited_ns = edited_length(stated, &plain, candidate, self.parts);
        let gain_ns = plain.length_ns.saturating_sub(edited_ns);
        self.share(gain_ns) < LEAST_GAIN
    }
}

/// Ranks the causes by gain. `graph` is the graph of the only rank, or of all ranks together, and
/// `steps` are the steps of several ranks. O(candidates · (nodes + edges)).
pub fn run_findings(
    graph: &ReplayGraph,
    mut parts: Vec<RankPart>,
    steps: &RunSteps,
) -> RunFindings {
    // With thousands of ranks, the candidates are as large as the graph: avoid copies.
    let merged = merge_candidates(&mut parts);
    let parts = &parts[..];
    let replays = Replays::new(graph, parts, steps);
    let mut found = RunFindings::of_windows(parts, &replays, steps);
    let least_ns = ((LEAST_GAIN * replays.whole_ns as f64) as i64).max(1);
    let mut replayed = vec![];
    let mut longest = RunFinding::default();
    let mut kernel: Option<Replayed> = None;
    let communication = all_communication(&merged);
    let compared = rank_candidates(graph, parts, replays.whole_ns);
    let compared = compared.into_iter().map(|candidate| (candidate, vec![]));
    for (candidate, ranks) in merged.into_iter().chain(compared) {
        if candidate.evidence.time_ns > longest.figures.time_ns {
            longest = plain_finding(&candidate, &ranks, found.program);
        }
        let is_kernel = candidate.kind == CauseKind::DominantKernel;
        if cannot_matter(&candidate, least_ns) {
            continue;
        }
        let gain_ns = replays.gain_ns(&candidate);
        let one = Replayed {
            nodes: CauseNodes::new(&candidate, graph, &replays.editable),
            candidate,
            ranks,
            gain_ns,
        };
        if gain_ns >= least_ns {
            replayed.push(one);
        } else if is_kernel
            && replays.share(gain_ns) >= LEAST_KERNEL_GAIN
            && kernel
                .as_ref()
                .is_none_or(|most| one.candidate.evidence.time_ns > most.candidate.evidence.time_ns)
        {
            kernel = Some(one);
        }
    }
    let mut kept = distinct_causes(replayed);
    put_loader_first(&mut kept);
    kept.truncate(MOST_FINDINGS);
    if kept.len() > 1 {
        found.together = Some(joint_gain(&replays, &kept, &found));
    }
    let stated = (!kept.is_empty()).then(|| EditableGraph::without_inferred(graph));
    for one in kept {
        let is_inferred = stated
            .as_ref()
            .is_some_and(|stated| replays.is_gain_inferred(stated, &one.candidate));
        let finding = finding_of(one, is_inferred, &found);
        found.findings.push(finding);
    }
    if let Some(kernel) = kernel {
        let named = finding_of(kernel, false, &found);
        let is_told = |one: &RunFinding| one.subject == named.subject;
        found.kernel = (!found.findings.iter().any(is_told)).then_some(named);
    }
    let is_long = replays.share(longest.figures.time_ns) >= LONG_CAUSE;
    if found.findings.is_empty() && is_long {
        found.longest_cause = Some(title::named_cause(&longest, &found));
    }
    let is_told = |one: &RunFinding| one.kind == CauseKind::ExposedCommunication;
    if !found.findings.iter().any(is_told) {
        found.communication = untold_communication(&replays, &communication, &found);
    }
    // Otherwise the longest cause would repeat this.
    if found.communication.is_some() && longest.kind == CauseKind::ExposedCommunication {
        found.longest_cause = None;
    }
    if found.findings.is_empty() && found.ranks > 0 {
        found.nothing = Some(sentence::nothing_sentence(&found));
    }
    found
}

impl RunFindings {
    /// Makes the findings of a run from its ranks' windows, before the search for causes.
    fn of_windows(parts: &[RankPart], replays: &Replays<'_>, steps: &RunSteps) -> RunFindings {
        let windows = || parts.iter().map(|part| part.causes.window);
        // Ranks of one run have the same program and steps: use the first.
        let first = windows().next().unwrap_or_default();
        let program = parts.first().map(|part| part.causes.program);
        let between_ops_ns = sum_ns(windows().map(|window| window.between_ops_ns));
        let host_ns = sum_ns(windows().map(|window| window.host_ns));
        let unknown_ns = sum_ns(windows().map(|window| window.unknown_ns));
        RunFindings {
            between_ops_share: between_ops_ns as f64 / host_ns.max(1) as f64,
            has_stacks: first.has_stacks,
            window: first.kind,
            steps: match (parts.len(), steps.counted().count()) {
                (0 | 1, _) | (_, 0) => first.steps,
                (_, counted) => counted as u64,
            },
            window_ns: replays.whole_ns,
            idle_ns: replays.idle_ns,
            compute_or_copy_ns: replays.compute_or_copy_ns,
            unknown_ns,
            is_unknown: windows().any(|window| window.is_unknown),
            has_work: windows().any(|window| window.has_work),
            has_device: windows().any(|window| window.has_device),
            computes: windows().any(|window| window.computation_ns > 0),
            ranks: parts.len() as u64,
            program: program.unwrap_or_default(),
            ..RunFindings::default()
        }
    }
}

/// Returns the length of all ranks' windows without a cause, in ns; the maximum over alternative
/// changes.
fn edited_length(
    editable: &EditableGraph<'_>,
    plain: &WindowTimes,
    candidate: &CauseCandidate,
    parts: &[RankPart],
) -> i64 {
    let ways = std::iter::once(&candidate.edits).chain(&candidate.other_edits);
    let changed = ways.map(|edits| WindowTimes::new(&editable.run_edited(edits), parts));
    let lengths = changed.map(|changed| plain.changed_ns(&changed));
    lengths.max().unwrap_or(0)
}

/// Returns the gain without all causes.
fn joint_gain(replays: &Replays<'_>, kept: &[Replayed], found: &RunFindings) -> JointGain {
    let all = all_causes(kept);
    let mut changes = kept.iter().map(|one| &one.candidate);
    let changes_device = changes.any(|one| one.changes_device(replays.graph));
    let edited_ns = edited_length(&replays.editable, &replays.plain, &all, replays.parts);
    let gain_ns = replays.plain.length_ns.saturating_sub(edited_ns);
    let gain_ns = replays.most_gain(changes_device, gain_ns);
    let mut joint = JointGain {
        gain_ns,
        gain_share: replays.share(gain_ns),
        sum_ns: sum_ns(kept.iter().map(|one| one.gain_ns)),
        sentence: String::new(),
    };
    joint.sentence = sentence::joint_sentence(&joint, kept.len(), found);
    joint
}

/// Reports communication that takes much time but gains too little for a finding.
fn untold_communication(
    replays: &Replays<'_>,
    communication: &CauseCandidate,
    found: &RunFindings,
) -> Option<CommunicationShare> {
    let (graph, parts) = (replays.graph, replays.parts);
    let mut share = communication_share(communication, parts)?;
    share.gain_ns = replays.gain_ns(communication).max(0);
    share.gain_share = replays.share(share.gain_ns);
    share.is_awaited = is_awaited(graph, &communication.edits);
    // The meeting point of ranks belongs to no rank.
    let ranks_meet = graph.indices().any(|node| graph.rank(node).is_none());
    // In this replay the host waits for nothing, so it does not show that nothing would end
    // earlier.
    let is_unknown =
        replays.lacks_waits && !(ranks_meet && parts.len() > 1) && share.gain_share < LEAST_GAIN;
    share.sentence = if is_unknown {
        sentence::unknown_gain_sentence(&share, found)
    } else {
        sentence::communication_sentence(&share, found, ranks_meet)
    };
    Some(share)
}

/// Merges several causes into one, including their alternative changes.
fn all_causes(kept: &[Replayed]) -> CauseCandidate {
    let mut all = CauseCandidate::default();
    let mut other_edits = GraphEdits::default();
    for Replayed { candidate, .. } in kept {
        let edits = &candidate.edits;
        all.edits.extend_shifted(edits, NodeIdx(0));
        let other = candidate.other_edits.as_ref().unwrap_or(edits);
        other_edits.extend_shifted(other, NodeIdx(0));
    }
    let has_others = kept.iter().any(|one| one.candidate.other_edits.is_some());
    all.other_edits = has_others.then_some(other_edits);
    all
}

/// Merges all kinds and groups of communication into one cause, named after the longest, whose time
/// becomes the typical time.
fn all_communication(merged: &[(CauseCandidate, Vec<GlobalRank>)]) -> CauseCandidate {
    let mut all = CauseCandidate {
        kind: CauseKind::ExposedCommunication,
        ..CauseCandidate::default()
    };
    let mut longest_ns = 0;
    for (one, _) in merged {
        if one.kind != all.kind {
            continue;
        }
        all.edits.extend_shifted(&one.edits, NodeIdx(0));
        if let Some(other) = &one.other_edits {
            let other_edits = all.other_edits.get_or_insert_default();
            other_edits.extend_shifted(other, NodeIdx(0));
        }
        let time_ns = one.evidence.time_ns;
        all.evidence.time_ns = all.evidence.time_ns.saturating_add(time_ns);
        if time_ns > longest_ns {
            longest_ns = time_ns;
            all.subject.clone_from(&one.subject);
            all.evidence.typical_ns = time_ns;
        }
    }
    all
}

/// Returns the share of communication in the windows; `None` if it is small.
fn communication_share(all: &CauseCandidate, parts: &[RankPart]) -> Option<CommunicationShare> {
    let windows = parts.iter().map(|part| part.causes.window);
    let windows_ns = sum_ns(windows.clone().map(|window| window.length_ns));
    let time_ns = sum_ns(windows.map(|window| window.exposed_communication_ns));
    let is_much = windows_ns > 0 && time_ns as f64 >= MUCH_COMMUNICATION * windows_ns as f64;
    is_much.then(|| CommunicationShare {
        subject: all.subject.clone(),
        subject_share: all.evidence.typical_ns as f64 / all.evidence.time_ns.max(1) as f64,
        time_ns,
        windows_ns,
        ..CommunicationShare::default()
    })
}

/// Returns true if a cause is too short to gain anything worth a sentence, so that no replay is
/// needed.
fn cannot_matter(candidate: &CauseCandidate, least_ns: i64) -> bool {
    // After a wait, the device restarts and waits in turn, which takes longer than the host's wait.
    let is_wait = matches!(
        candidate.kind,
        CauseKind::ScalarRead
            | CauseKind::DynamicShape
            | CauseKind::PageableCopy
            | CauseKind::ExplicitSync
            | CauseKind::UnrecordedSync
    );
    !is_wait && candidate.evidence.time_ns < least_ns
}

impl CauseCandidate {
    /// Returns true if the cause is work of a device, or work that a device waits for.
    fn changes_device(&self, graph: &ReplayGraph) -> bool {
        let edits = &self.edits;
        let scaled = edits.scaled.iter().map(|(node, _)| node);
        let freed = edits.freed.iter().map(|(node, _)| node);
        let mut nodes = edits.removed.iter().chain(scaled).chain(freed);
        // A full queue holds back work that its stream would run at once.
        let is_about_streams = self.kind == CauseKind::QueueFull;
        is_about_streams || nodes.any(|node| node.index() < graph.len() && graph.on_device(*node))
    }
}

/// Length of the window of all ranks in a replay, and the leads of the hosts that are ahead.
struct WindowTimes {
    length_ns: i64,
    leads: Vec<HostLead>,
}

impl WindowTimes {
    /// Measures the window: from the first start to the last end of its nodes in any rank.
    fn new(run: &ReplayRun, parts: &[RankPart]) -> WindowTimes {
        let (mut all_first, mut all_last, mut leads) = (None, None, vec![]);
        for part in parts {
            let number = |node: &NodeIdx| NodeIdx(part.first.0.saturating_add(node.0));
            let start = |node: &NodeIdx| run.start.get(number(node).index()).copied();
            let end = |node: &NodeIdx| start(node).map(|_| run.end(number(node)));
            let window = &part.causes.window_ends;
            let first = window.firsts.iter().filter_map(start).min();
            let last = window.lasts.iter().filter_map(end).max();
            all_first = [all_first, first].into_iter().flatten().min();
            all_last = all_last.max(last);
            let host = window.host.as_ref();
            let host = host.and_then(|(first, last)| start(first).zip(end(last)));
            if let (Some((host_begin, host_end)), Some(first), Some(last)) = (host, first, last) {
                leads.push(HostLead {
                    begin_ns: first.since(host_begin),
                    end_ns: last.since(host_end),
                });
            }
        }
        let bounds = all_last.zip(all_first);
        WindowTimes {
            length_ns: bounds.map_or(0, |(last, first)| last.since(first)),
            leads,
        }
    }

    /// Returns the length of the window in a changed run, as of steps in a long run.
    fn changed_ns(&self, changed: &WindowTimes) -> i64 {
        let lengths = (self.length_ns, changed.length_ns);
        let leads = self.leads.iter().zip(&changed.leads);
        let used = leads.map(|(plain, changed)| plain.used_ns(*changed, lengths.0, lengths.1));
        lengths.1.saturating_add(used.max().unwrap_or(0))
    }
}

/// Merges the same cause of several ranks into one, which is removed on all of them. Takes the
/// candidates out of their parts.
fn merge_candidates(parts: &mut [RankPart]) -> Vec<(CauseCandidate, Vec<GlobalRank>)> {
    let mut merged: BTreeMap<(CauseKind, String), MergedCause> = BTreeMap::new();
    for part in parts {
        for own in std::mem::take(&mut part.causes.candidates) {
            let merged = merged.entry((own.kind, own.subject.clone())).or_default();
            merged.add(own, part.first);
            let ranks = &mut merged.ranks;
            // one rank may have two causes of one name, as on two devices
            if ranks.last() != part.causes.rank.as_ref() {
                ranks.extend(part.causes.rank);
            }
        }
    }
    longest_of_each_kind(merged.into_values().collect())
}

impl MergedCause {
    /// Adds the cause of a rank whose first node has this index.
    fn add(&mut self, own: CauseCandidate, first: NodeIdx) {
        // The same op on each rank is a single place to fix in the program.
        let time_ns = own.evidence.time_ns;
        let is_longest = time_ns > self.longest_ns;
        let one = &mut self.candidate;
        one.kind = own.kind;
        one.add_evidence(&own.evidence, is_longest);
        self.longest_ns = self.longest_ns.max(time_ns);
        if first == NodeIdx(0) && one.edits.is_empty() && one.other_edits.is_none() {
            // The indices already refer to the graph, as for each single trace.
            one.edits = own.edits;
            one.other_edits = own.other_edits;
        } else {
            one.edits.extend_shifted(&own.edits, first);
            if let Some(other) = &own.other_edits {
                let all = one.other_edits.get_or_insert_default();
                all.extend_shifted(other, first);
            }
        }
        one.subject = own.subject;
    }
}

/// Keeps the longest causes per kind. Group names differ between ranks: without a limit, ranks
/// times names would be replayed.
fn longest_of_each_kind(mut all: Vec<MergedCause>) -> Vec<(CauseCandidate, Vec<GlobalRank>)> {
    // A stable sort: ties keep the order of their names.
    all.sort_by_key(|one| {
        let candidate = &one.candidate;
        (candidate.kind, Reverse(candidate.evidence.time_ns))
    });
    let mut kept = vec![];
    for same in all.chunk_by_mut(|one, next| one.candidate.kind == next.candidate.kind) {
        for one in same.iter_mut().take(MOST_OF_A_KIND) {
            let one = std::mem::take(one);
            kept.push((one.candidate, one.ranks));
        }
    }
    kept
}

/// Sorts causes by decreasing gain, and drops those that cover the same time as another.
fn distinct_causes(mut replayed: Vec<Replayed>) -> Vec<Replayed> {
    // A stable sort: ties keep the order of kinds and names.
    replayed.sort_by_key(|one| Reverse(one.gain_ns));
    let explained: Vec<bool> = replayed
        .iter()
        .map(|one| one.candidate.kind.is_general() && is_explained(one, &replayed))
        .collect();
    let mut kept: Vec<Replayed> = vec![];
    for (one, is_explained) in replayed.into_iter().zip(explained) {
        let is_told = kept.iter().any(|other| {
            !has_own_remedy(&one, other) && one.nodes.share_in(&other.nodes) > SAME_TIME
        });
        if !is_explained && !is_told {
            kept.push(one);
        }
    }
    kept
}

/// Puts a loader that sets the pace before all other causes: without those, the host would only wait
/// longer for it.
fn put_loader_first(kept: &mut [Replayed]) {
    let is_pace = |one: &Replayed| one.candidate.evidence.loader_sets_pace;
    if kept.iter().any(is_pace) {
        // A stable sort: the others keep their order.
        kept.sort_by_key(|one| !is_pace(one));
        for one in kept {
            one.candidate.evidence.loader_sets_pace = true;
        }
    }
}

/// Returns true if a cause is fixed in another way than the larger cause that covers its time: that
/// the host waits for a copy, unlike the copy itself; that kernels are launched one by one, unlike
/// their number.
fn has_own_remedy(one: &Replayed, other: &Replayed) -> bool {
    matches!(
        (one.candidate.kind, other.candidate.kind),
        (CauseKind::PageableCopy, CauseKind::ExposedCopies)
            | (CauseKind::SmallKernels, CauseKind::FusibleChain)
    )
}

/// Returns true if a more specific cause gains nearly as much from the same time.
fn is_explained(general: &Replayed, all: &[Replayed]) -> bool {
    all.iter().any(|other| {
        !other.candidate.kind.is_general()
            && !has_own_remedy(general, other)
            && other.gain_ns as f64 >= EXPLAINS * general.gain_ns as f64
            && other.nodes.share_in(&general.nodes) > SAME_TIME
    })
}

/// Makes a finding. `is_inferred`: the gain vanishes without inferred waits.
fn finding_of(one: Replayed, is_inferred: bool, found: &RunFindings) -> RunFinding {
    let gain_ns = one.gain_ns;
    let plain = plain_finding(&one.candidate, &one.ranks, found.program);
    let mut finding = RunFinding {
        gain_ns,
        gain_share: gain_ns as f64 / found.window_ns.max(1) as f64,
        inferred: plain.inferred || is_inferred,
        ..plain
    };
    let has_others = finding.subject.ends_with(" ranks");
    if finding.kind == CauseKind::ExposedCommunication && found.ranks < 2 && has_others {
        let rest = &finding.remedy;
        let remedy = format!("pass the folder of all ranks to tell transfers from waits; {rest}");
        finding.remedy = remedy.into();
    }
    finding.title = title::finding_title(&finding, found);
    finding.evidence = evidence::evidence_text(&finding, found);
    finding
}

/// Returns true if DDP or FSDP put such a communication into buckets, by its name.
fn has_buckets(subject: &str) -> bool {
    let bucketed = [
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllGather,
    ];
    let kind = subject.split(' ').next();
    bucketed.iter().any(|known| kind == Some(known.name()))
}

/// Returns the remedy for host work; advises recording stacks only if the trace has none.
fn host_work_remedy(evidence: &CauseEvidence) -> &'static str {
    if evidence.has_stacks {
        HOST_WORK_AT_LINE
    } else {
        CauseKind::HostWork.rule().map_or("", |rule| rule.remedy)
    }
}

/// Makes a finding without its gain.
fn plain_finding(
    candidate: &CauseCandidate,
    ranks: &[GlobalRank],
    program: ProgramKind,
) -> RunFinding {
    let rule = candidate.kind.rule();
    // The time of a small message does not depend on its bytes.
    let bytes = candidate.evidence.message_bytes;
    let is_small = bytes.is_some_and(|bytes| bytes < SMALL_MESSAGE);
    let other = rule.and_then(|rule| rule.other_remedy);
    let other = if program != ProgramKind::Torch {
        other
    } else {
        None
    };
    let remedy = match candidate.kind {
        _ if bytes == Some(0) => BARRIER_REMEDY,
        _ if is_small && has_buckets(&candidate.subject) => SMALL_BUCKET_REMEDY,
        _ if is_small => SMALL_MESSAGE_REMEDY,
        CauseKind::ExposedCopies if stays_on_devices(&candidate.subject) => DEVICE_COPIES_REMEDY,
        CauseKind::InputPipeline if candidate.subject.contains(LOADER_WITHOUT_WORKERS) => {
            WITHOUT_WORKERS_REMEDY
        }
        // With a known line of Python, advice on naming ranges is unnecessary.
        CauseKind::HostWork if other.is_none() || candidate.evidence.python.is_some() => {
            host_work_remedy(&candidate.evidence)
        }
        _ => other.unwrap_or(rule.map_or("", |rule| rule.remedy)),
    };
    let mut finding = RunFinding {
        kind: candidate.kind,
        subject: candidate.subject.clone(),
        ranks: ranks.to_vec(),
        inferred: rule.is_some_and(|rule| rule.inferred),
        figures: candidate.evidence.clone(),
        remedy: program.in_its_words(remedy),
        ..RunFinding::default()
    };
    finding.cause = title::cause_name(&finding);
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_buckets_are_advised_where_there_are_buckets() {
        let remedy = |subject: &str, bytes| {
            let mut candidate = CauseCandidate {
                kind: CauseKind::ExposedCommunication,
                subject: subject.to_owned(),
                ..CauseCandidate::default()
            };
            candidate.evidence.message_bytes = Some(bytes);
            plain_finding(&candidate, &[], ProgramKind::Torch).remedy
        };
        for subject in [
            "all_reduce of data, 2 ranks",
            "reduce_scatter of ranks 0, 1",
            "all_gather",
        ] {
            assert!(remedy(subject, 8).contains("larger buckets"), "{subject}");
        }
        for subject in ["send of pp, 2 ranks", "recv", "all_to_all of ep, 8 ranks"] {
            let told = remedy(subject, 8);
            assert!(told.contains("many small messages"), "{subject}: {told}");
            assert!(!told.contains("buckets"), "{subject}: {told}");
        }
        assert!(!remedy("all_reduce of data, 2 ranks", SMALL_MESSAGE).contains("buckets"));
    }

    #[test]
    fn a_loader_without_workers_is_given_some() {
        let remedy = |iterator: &str| {
            let candidate = CauseCandidate {
                kind: CauseKind::InputPipeline,
                subject: format!("enumerate(DataLoader)#_{iterator}DataLoaderIter.__next__"),
                ..CauseCandidate::default()
            };
            plain_finding(&candidate, &[], ProgramKind::Torch).remedy
        };
        let single = remedy("SingleProcess");
        assert!(single.contains("`num_workers`"), "{single}");
        assert!(!single.contains("prefetch_factor"), "{single}");
        assert!(remedy("MultiProcessing").contains("prefetch_factor"));
    }
}
