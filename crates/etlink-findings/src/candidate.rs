//! What detectors find in the trace of a rank.

use crate::kind::CauseKind;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_analyze::UtilizationWindow;
use etlink_model::{GlobalRank, NodeIdx};
use etlink_replay::GraphEdits;
use serde::Serialize;
use std::collections::BTreeMap;

/// A cause that may have cost time, and the nodes that it is made of.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct CauseCandidate {
    /// What kind of cause.
    pub kind: CauseKind,
    /// Which of its kind: an op, a kernel, a group; empty where the kind says all.
    pub subject: String,
    /// How the graph is without it.
    pub edits: GraphEdits,
    /// Another way to take it out: each misses a part of what stays, so the lesser gain counts.
    pub other_edits: Option<GraphEdits>,
    /// What the trace shows.
    pub evidence: CauseEvidence,
}

/// What a trace shows of a cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CauseEvidence {
    /// How often it occurs.
    pub count: u64,
    /// How long it lasts in all, ns; not what is gained without it.
    pub time_ns: i64,
    /// The median of its occurrences, of kernels that are launched the mean, ns; 0 where they have
    /// no length.
    pub typical_ns: i64,
    /// What that is compared with, ns or a share; its meaning is the kind's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<f64>,
    /// Which call of its name it is, where that is not the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
    /// How many launches the queue holds, where that is what blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
    /// The mean size of its messages, where it communicates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_bytes: Option<u64>,
    /// The rank on which it lasts longest, where the trace says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<GlobalRank>,
    /// Start of its longest occurrence there, ns since the origin of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<i64>,
    /// End of that occurrence, ns since the origin of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<i64>,
    /// Start of that occurrence since the first event of that trace, as timelines show it, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_first_ns: Option<i64>,
    /// The op in which most of it is, where that is another name than the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// Other ops, calls or copies of the same cause; the subject is the one that lasts longest.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_subjects: u64,
    /// How long it runs while the device does not compute, ns, where it communicates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_ns: Option<i64>,
    /// The communication that the host waits for in most of that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication: Option<String>,
    /// The line of Python that most of it comes from, where the trace has stacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// From how many lines of Python it comes.
    #[serde(skip_serializing_if = "is_zero")]
    pub python_lines: u64,
    /// The trace has no call that waits for a device, so that work of the host may be a wait.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_wait: bool,
    /// Whether the trace has stacks that could name the line.
    #[serde(skip)]
    pub has_stacks: bool,
    /// How much of it comes from that line, ns.
    #[serde(skip)]
    pub python_ns: i64,
    /// How much of its longest occurrence is in `within`, where it has a part of less than half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_share: Option<f64>,
    /// How much of the time is of calls of which no later ones tell what is usual, ns.
    #[serde(skip)]
    pub whole_ns: i64,
    /// How much of it is before the first launch of its thread, ns.
    #[serde(skip)]
    pub before_launches_ns: i64,
    /// How much of it is behind the last launch of its thread, ns.
    #[serde(skip)]
    pub after_launches_ns: i64,
}

/// By what a program runs on devices: whose words help it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum ProgramKind {
    /// PyTorch.
    #[default]
    Torch,
    /// CUDA without PyTorch, or something that the trace does not name.
    Cuda,
    /// HIP without PyTorch.
    Hip,
}

/// The time that gains are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct RankWindow {
    /// Steps, or all that the process recorded.
    pub kind: UtilizationWindow,
    /// How many steps it has.
    pub steps: u64,
    /// Its length without what came before the recording and what is unknown, ns.
    pub length_ns: i64,
    /// In how much of it so many device rows were lost that nothing can be said, ns.
    pub unknown_ns: i64,
    /// Whether so many device rows were lost that nothing can be said of any of it.
    pub is_unknown: bool,
    /// Whether the trace has an op, a runtime call or a device row.
    pub has_work: bool,
    /// Whether there is device work at all.
    pub has_device: bool,
    /// Whether there is device work, and no call of the host that waits for it.
    pub lacks_waits: bool,
    /// How long its steps take on the host, ns; nothing where there are none.
    pub host_ns: i64,
    /// In how much of that no op and no runtime call runs, ns.
    pub between_ops_ns: i64,
    /// Whether stacks were recorded.
    pub has_stacks: bool,
    /// In how much of it the device computes or copies, ns; communication can be waiting.
    pub busy_ns: i64,
    /// In how much of it the device computes, ns: copies can run beside that.
    pub computation_ns: i64,
    /// How much of the stretch it is part of came before the recording, ns; no part of its length.
    pub before_ns: i64,
    /// In how much of it the device communicates and does not compute, ns; without a device in how
    /// much of it the host communicates.
    pub exposed_communication_ns: i64,
}

/// The nodes that a window begins and ends with: on each thread and stream the first and the last
/// that lie inside. Which of them is the very last can differ in a changed run.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct WindowEnds {
    /// Of each thread and stream the first.
    pub firsts: Vec<NodeIdx>,
    /// Of each thread and stream the last.
    pub lasts: Vec<NodeIdx>,
}

/// Work of one name on a rank: what ranks are compared by.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct RankWork {
    /// Its nodes, in order of time.
    pub nodes: Vec<NodeIdx>,
    /// Their time, ns.
    pub time_ns: i64,
    /// How long the longest of them takes, ns.
    pub longest_ns: i64,
    /// When that one begins, ns since the origin of the trace.
    pub longest_start_ns: i64,
}

/// All that is kept of a rank.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct RankCauses {
    /// Global rank, if the trace says it.
    pub rank: Option<GlobalRank>,
    /// When its first event begins, ns since the origin of the trace.
    pub first_ns: i64,
    /// By what its program runs on devices.
    pub program: ProgramKind,
    /// The time that gains are of.
    pub window: RankWindow,
    /// Where that begins and ends in the graph.
    pub window_ends: WindowEnds,
    /// What was found.
    pub candidates: Vec<CauseCandidate>,
    /// Work by name; a name of the host and one of the device are two. True: on the device.
    pub work: BTreeMap<(bool, String), RankWork>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl CauseEvidence {
    /// Says on which rank it is longest, whose first event begins at `first_ns`.
    pub(crate) fn set_rank(&mut self, rank: Option<GlobalRank>, first_ns: i64) {
        let since_first = |start: i64| start.saturating_sub(first_ns);
        self.rank = rank;
        self.since_first_ns = self.start_ns.map(since_first);
    }

    /// Says which stretch of its trace it is longest in.
    pub(crate) fn set_span(&mut self, start_ns: i64, end_ns: i64) {
        (self.start_ns, self.end_ns) = (Some(start_ns), Some(end_ns));
    }
}

impl RankWork {
    /// Start and end of its longest node, ns since the origin of the trace.
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
    /// Adds what another rank shows of the same cause; `is_longest`: it lasts longer there than on
    /// those before.
    pub(crate) fn add_evidence(&mut self, other: &CauseEvidence, is_longest: bool) {
        let sum = &mut self.evidence;
        // The longest of all ranks tells most of where to look.
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
            if !self.kind.sums_compared() {
                sum.compared = other.compared;
            }
        }
        // Sums over ranks: the sentence says over how many.
        sum.may_wait |= other.may_wait;
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
