//! What is told of a run.

use crate::candidate::{CauseEvidence, ProgramKind, RankCauses};
use crate::kind::CauseKind;
use etlink_analyze::UtilizationWindow;
use etlink_model::{GlobalRank, NodeIdx};
use serde::Serialize;
use std::borrow::Cow;

/// A rank's part of a graph.
#[derive(Clone, Debug)]
pub struct RankPart {
    /// The number that its first node has in the graph.
    pub first: NodeIdx,
    /// What was found in its trace.
    pub causes: RankCauses,
}

/// A cause of lost time, with what the run would gain without it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunFinding {
    /// What kind of cause.
    pub kind: CauseKind,
    /// Which of its kind: an op, a kernel, a group; empty where the kind says all.
    pub subject: String,
    /// The ranks whose traces show it; empty where the rank is not known.
    pub ranks: Vec<GlobalRank>,
    /// The trace shows signs of it, and not the cause itself; or the gain is none without the waits
    /// that the trace does not state.
    pub inferred: bool,
    /// What the window takes less in a replay without it, ns.
    pub gain_ns: i64,
    /// Of the window.
    pub gain_share: f64,
    /// What the trace shows.
    pub evidence: CauseEvidence,
    /// What helps.
    pub remedy: Cow<'static, str>,
    /// All of that in one sentence.
    pub sentence: String,
}

/// Communication that takes much of a run, and what the run would gain without it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommunicationShare {
    /// The kind and group that lasts longest.
    pub subject: String,
    /// How much of the communication that of this kind and group is.
    pub subject_share: f64,
    /// How long communication is exposed, summed over ranks, ns; without a device in how much of the
    /// windows it goes on.
    pub time_ns: i64,
    /// Whether anything in the traces waits for it.
    pub is_awaited: bool,
    /// The windows of all ranks, ns.
    pub windows_ns: i64,
    /// What the window takes less in a replay in which none of it takes time, ns.
    pub gain_ns: i64,
    /// Of the window.
    pub gain_share: f64,
    /// All of that in one sentence, with the reason why the gain is no larger.
    pub sentence: String,
}

/// What the run would gain without any of its findings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JointGain {
    /// What the window takes less in a replay without all of them, ns.
    pub gain_ns: i64,
    /// Of the window.
    pub gain_share: f64,
    /// The sum of their gains, ns: more where findings overlap.
    pub sum_ns: i64,
    /// All of that in one sentence.
    pub sentence: String,
}

/// What a run would gain most from.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunFindings {
    /// What the window is of.
    pub window: UtilizationWindow,
    /// How many steps it has.
    pub steps: u64,
    /// The time that gains are of, ns.
    pub window_ns: i64,
    /// In how much of it the device of the busiest rank neither computes nor copies, ns.
    pub idle_ns: i64,
    /// In how much of the windows of all ranks so many device rows were lost that nothing can be
    /// said, ns.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown_ns: i64,
    /// Whether that is so of the whole window of a rank: without findings there is no verdict then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_unknown: bool,
    /// Whether a rank has an op, a runtime call or a device row.
    #[serde(skip)]
    pub has_work: bool,
    /// Whether there is device work at all.
    pub has_device: bool,
    /// Whether a device of a rank computes.
    #[serde(skip)]
    pub computes: bool,
    /// In which part of the steps of all ranks no op and no runtime call runs on the host.
    #[serde(skip)]
    pub between_ops_share: f64,
    /// Whether stacks were recorded, which show what runs there.
    #[serde(skip)]
    pub has_stacks: bool,
    /// Ranks that were looked at together.
    pub ranks: u64,
    /// By what the program runs on devices.
    #[serde(skip)]
    pub program: ProgramKind,
    /// Communication that takes much of the time, of which no finding is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication: Option<CommunicationShare>,
    /// A kernel that takes much of all kernels' time, of which no finding is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<RunFinding>,
    /// Of a run without findings, what is said instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
    /// Of a run without findings, what lasts long and gains little all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_cause: Option<String>,
    /// The largest gains first; empty where nothing stands out.
    pub findings: Vec<RunFinding>,
    /// The gain without all of these at once, where they are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<JointGain>,
}

impl RunFindings {
    /// All that is said of the run, in order: each finding, or why there is none, then what goes for
    /// all of it.
    pub fn sentences(&self) -> Vec<String> {
        let findings = self.findings.iter().map(|one| &one.sentence);
        let together = self.together.as_ref().map(|joint| &joint.sentence);
        let kernel = self.kernel.as_ref().map(|one| &one.sentence);
        let communication = self.communication.as_ref().map(|share| &share.sentence);
        let others = self.nothing.iter().chain(together).chain(kernel);
        findings
            .chain(others)
            .chain(communication)
            .cloned()
            .collect()
    }
}

fn is_zero(ns: &i64) -> bool {
    *ns == 0
}
