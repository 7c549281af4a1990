//! Results of the detectors for the trace of a rank.

use crate::UtilizationWindow;
use crate::findings::kind::CauseKind;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{GlobalRank, NodeIdx};
use etlink_replay::GraphEdits;
use serde::Serialize;
use std::collections::BTreeMap;

/// A possible cause of lost time, with the changes of nodes that remove it.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct CauseCandidate {
    /// Kind of the cause.
    pub kind: CauseKind,
    /// Op, kernel, or group within the kind; empty if the kind says everything.
    pub subject: String,
    /// Changes to the graph that remove the cause.
    pub edits: GraphEdits,
    /// Alternative changes. Each alternative misses part of what remains, so the smaller gain
    /// counts.
    pub other_edits: Option<GraphEdits>,
    /// Evidence from the trace.
    pub evidence: CauseEvidence,
}

/// Evidence of a cause in a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CauseEvidence {
    /// Number of occurrences.
    pub count: u64,
    /// Total duration in ns; not the gain from removing the cause.
    pub time_ns: i64,
    /// Median duration of the occurrences in ns, or the mean for launched kernels; 0 if they have
    /// no duration.
    pub typical_ns: i64,
    /// Reference value for comparison, in ns or as a share; the kind defines its meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<f64>,
    /// Index of the call among those of its name; `None` for the first call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
    /// Capacity of the queue in launches, if a full queue blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
    /// Mean size of the messages in bytes, for communication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_bytes: Option<u64>,
    /// Rank with the longest total duration, if the trace reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<GlobalRank>,
    /// Start of the longest occurrence on that rank, in ns since the origin of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<i64>,
    /// End of that occurrence, in ns since the origin of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<i64>,
    /// Start of that occurrence, in ns since the first event of the trace, as timelines show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_first_ns: Option<i64>,
    /// Op that contains most of the time, if its name differs from the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// Number of other ops, calls, or copies with this cause; the subject is the longest.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_subjects: u64,
    /// Time without concurrent device computation, in ns, for communication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_ns: Option<i64>,
    /// Communication that the host waits for during most of the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication: Option<String>,
    /// Line of Python that causes most of the time, if the trace has stacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Number of lines of Python that contribute.
    #[serde(skip_serializing_if = "is_zero")]
    pub python_lines: u64,
    /// True if the trace has no call that waits for a device, so that host work may be a wait.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_wait: bool,
    /// True if worker processes of the data loader set the pace, so that only they have a gain until
    /// they deliver faster.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub loader_sets_pace: bool,
    /// True if recording slowed the host down and the times contain this overhead.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub host_slowed: bool,
    /// True if the trace has stacks that could name the line.
    #[serde(skip)]
    pub has_stacks: bool,
    /// Part of the time caused by that line, in ns.
    #[serde(skip)]
    pub python_ns: i64,
    /// Share of the longest occurrence that is spent in `within`, if less than half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_share: Option<f64>,
    /// Share of a kernel's time that it takes at the peak rates of its device; `None` if its work or
    /// the peaks are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roof_share: Option<f64>,
    /// Time in calls without later calls to compare with, in ns.
    #[serde(skip)]
    pub whole_ns: i64,
    /// Time before the first launch of the thread, in ns.
    #[serde(skip)]
    pub before_launches_ns: i64,
    /// Time after the last launch of the thread, in ns.
    #[serde(skip)]
    pub after_launches_ns: i64,
}

/// Platform of a program on devices, which decides the wording of remedies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum ProgramKind {
    /// PyTorch.
    #[default]
    Torch,
    /// CUDA without PyTorch, or a platform that the trace does not name.
    Cuda,
    /// HIP without PyTorch.
    Hip,
}

/// Reference time of the gains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct RankWindow {
    /// Kind of window: the steps, or everything that the process recorded.
    pub kind: UtilizationWindow,
    /// Number of steps in the window.
    pub steps: u64,
    /// Length in ns, without work from before the recording and without unknown time.
    pub length_ns: i64,
    /// Time in which too many device rows are lost for any findings, in ns.
    pub unknown_ns: i64,
    /// True if too many device rows are lost for findings in any part of the window.
    pub is_unknown: bool,
    /// True if the trace has an op, a runtime call, or a device row.
    pub has_work: bool,
    /// True if there is any device work.
    pub has_device: bool,
    /// True if there is device work, but no host call that waits for it.
    pub lacks_waits: bool,
    /// Duration of the steps on the host, in ns; 0 if there are none.
    pub host_ns: i64,
    /// Part of `host_ns` in which no op and no runtime call runs, in ns.
    pub between_ops_ns: i64,
    /// True if stacks were recorded.
    pub has_stacks: bool,
    /// Time in which work runs on the device, in ns.
    pub busy_ns: i64,
    /// Time in which the device computes or copies, in ns; communication is excluded, since it may
    /// be waiting.
    pub compute_or_copy_ns: i64,
    /// Time in which the device computes, in ns; copies may run at the same time.
    pub computation_ns: i64,
    /// Time from before the recording in the surrounding stretch, in ns; not part of `length_ns`.
    pub before_ns: i64,
    /// Time in which the device communicates and does not compute, in ns; without a device, time in
    /// which the host communicates.
    pub exposed_communication_ns: i64,
}

/// First and last nodes of a window on each thread and stream. A changed run may end with another
/// of the last nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct WindowEnds {
    /// First node of each thread and stream.
    pub firsts: Vec<NodeIdx>,
    /// Last node of each thread and stream.
    pub lasts: Vec<NodeIdx>,
    /// First and last node of the thread of the steps, if the host is ahead of its devices when the
    /// first of several steps begins.
    pub host: Option<(NodeIdx, NodeIdx)>,
}

/// Work of one name on a rank, for comparison between ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct RankWork {
    /// Nodes of the work, in order of time.
    pub nodes: Vec<NodeIdx>,
    /// Total time of the nodes, in ns.
    pub time_ns: i64,
    /// Duration of the longest node, in ns.
    pub longest_ns: i64,
    /// Start of the longest node, in ns since the origin of the trace.
    pub longest_start_ns: i64,
}

/// Data kept per rank.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct RankCauses {
    /// Global rank, if the trace reports it.
    pub rank: Option<GlobalRank>,
    /// Start of the first event, in ns since the origin of the trace.
    pub first_ns: i64,
    /// Platform of the program on devices.
    pub program: ProgramKind,
    /// Reference time of the gains.
    pub window: RankWindow,
    /// Start and end of the window in the graph.
    pub window_ends: WindowEnds,
    /// Causes found.
    pub candidates: Vec<CauseCandidate>,
    /// Work by name and place; true: on the device. A name on both host and device has two entries.
    pub work: BTreeMap<(bool, String), RankWork>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl CauseEvidence {
    /// Sets the rank with the longest total duration; its first event begins at `first_ns`.
    pub(crate) fn set_rank(&mut self, rank: Option<GlobalRank>, first_ns: i64) {
        let since_first = |start: i64| start.saturating_sub(first_ns);
        self.rank = rank;
        self.since_first_ns = self.start_ns.map(since_first);
    }

    /// Sets the span of the longest occurrence.
    pub(crate) fn set_span(&mut self, start_ns: i64, end_ns: i64) {
        (self.start_ns, self.end_ns) = (Some(start_ns), Some(end_ns));
    }
}

impl RankWork {
    /// Returns the start and end of the longest node, in ns since the origin of the trace.
    pub(crate) fn longest_span(&self) -> (i64, i64) {
        let start = self.longest_start_ns;
        (start, start.saturating_add(self.longest_ns))
    }

    pub(crate) fn add_node(&mut self, node: NodeIdx, start_ns: i64, length_ns: i64) {
        self.nodes.push(node);
        self.time_ns = self.time_ns.saturating_add(length_ns);
        if length_ns > self.longest_ns {
            (self.longest_ns, self.longest_start_ns) = (length_ns, start_ns);
        }
    }
}

impl CauseCandidate {
    /// Adds another rank's evidence of this cause; `is_longest`: it lasts longer on that rank than
    /// on all previous ones.
    pub(crate) fn add_evidence(&mut self, other: &CauseEvidence, is_longest: bool) {
        let sum = &mut self.evidence;
        // The longest rank shows best where to look.
        if is_longest {
            sum.rank = other.rank;
            sum.start_ns = other.start_ns;
            sum.end_ns = other.end_ns;
            sum.since_first_ns = other.since_first_ns;
            sum.message_bytes = other.message_bytes;
            sum.within.clone_from(&other.within);
            sum.within_share = other.within_share;
            sum.communication.clone_from(&other.communication);
            sum.python.clone_from(&other.python);
            sum.has_stacks = other.has_stacks;
            (sum.python_lines, sum.python_ns) = (other.python_lines, other.python_ns);
            sum.typical_ns = other.typical_ns;
            sum.depth = other.depth;
            sum.place = other.place;
            sum.roof_share = other.roof_share;
            if !self.kind.sums_compared() {
                sum.compared = other.compared;
            }
        }
        // Sums over ranks: the sentence names the number of ranks.
        sum.may_wait |= other.may_wait;
        sum.loader_sets_pace |= other.loader_sets_pace;
        sum.host_slowed |= other.host_slowed;
        sum.other_subjects = sum.other_subjects.max(other.other_subjects);
        let exposed = [sum.exposed_ns, other.exposed_ns].into_iter().flatten();
        sum.exposed_ns = exposed.reduce(i64::saturating_add);
        sum.count += other.count;
        let add = |sum: &mut i64, ns: i64| *sum = sum.saturating_add(ns);
        add(&mut sum.time_ns, other.time_ns);
        add(&mut sum.whole_ns, other.whole_ns);
        add(&mut sum.before_launches_ns, other.before_launches_ns);
        add(&mut sum.after_launches_ns, other.after_launches_ns);
        if self.kind.sums_compared() {
            let both = [sum.compared, other.compared];
            sum.compared = both.into_iter().flatten().reduce(|one, more| one + more);
        }
    }
}
