//! Findings of a run.

use crate::UtilizationWindow;
use crate::findings::candidate::{CauseEvidence, ProgramKind, RankCauses};
use crate::findings::kind::CauseKind;
use etlink_model::{GlobalRank, NodeIdx};
use serde::Serialize;
use std::borrow::Cow;

/// A rank's part of a graph.
#[derive(Clone, Debug)]
pub struct RankPart {
    /// Index of the rank's first node in the graph.
    pub first: NodeIdx,
    /// Causes found in the rank's trace.
    pub causes: RankCauses,
}

/// A cause of lost time, with the gain of the run without it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunFinding {
    /// Kind of the cause.
    pub kind: CauseKind,
    /// Op, kernel, or group within the kind; empty if the kind says everything.
    pub subject: String,
    /// Ranks whose traces show the cause; empty if the rank is unknown.
    pub ranks: Vec<GlobalRank>,
    /// True if the trace only shows signs of the cause, or if there is no gain without waits that
    /// the trace does not state.
    pub inferred: bool,
    /// Reduction of the window's length in a replay without the cause, in ns.
    pub gain_ns: i64,
    /// Gain as a share of the window.
    pub gain_share: f64,
    /// Name of the cause, without its gain.
    pub cause: String,
    /// Figures of the cause in the trace.
    pub figures: CauseEvidence,
    /// Name of the cause, its gain, and the time that the gain is a part of.
    pub title: String,
    /// Description of the cause and its place.
    pub evidence: String,
    /// Advice on removing the cause.
    pub remedy: Cow<'static, str>,
}

/// Communication that takes much of a run, with the gain of the run without it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommunicationShare {
    /// Kind and group that take longest.
    pub subject: String,
    /// Share of that kind and group in all communication.
    pub subject_share: f64,
    /// Exposed communication time, summed over ranks, in ns; without a device, time of
    /// communication in the windows.
    pub time_ns: i64,
    /// True if anything in the traces waits for the communication.
    pub is_awaited: bool,
    /// Total length of the ranks' windows, in ns.
    pub windows_ns: i64,
    /// Reduction of the window's length in a replay in which communication takes no time, in ns.
    pub gain_ns: i64,
    /// Gain as a share of the window.
    pub gain_share: f64,
    /// The result as one sentence, with the reason why the gain is not larger.
    pub sentence: String,
}

/// Gain of the run without any of its findings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JointGain {
    /// Reduction of the window's length in a replay without all findings, in ns.
    pub gain_ns: i64,
    /// Gain as a share of the window.
    pub gain_share: f64,
    /// Sum of the individual gains, in ns; larger if findings overlap.
    pub sum_ns: i64,
    /// The result as one sentence.
    pub sentence: String,
}

/// Largest possible gains of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunFindings {
    /// Kind of the window.
    pub window: UtilizationWindow,
    /// Number of steps in the window.
    pub steps: u64,
    /// Reference time of the gains, in ns.
    pub window_ns: i64,
    /// Time in which no work runs on the busiest rank's device, in ns.
    pub idle_ns: i64,
    /// Time in which the device that computes and copies most does so, in ns.
    pub compute_or_copy_ns: i64,
    /// Time in all ranks' windows in which too many device rows are lost for any findings, in ns.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown_ns: i64,
    /// True if too many rows are lost in the whole window of a rank: no findings then means no
    /// verdict.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_unknown: bool,
    /// True if a rank has an op, a runtime call, or a device row.
    #[serde(skip)]
    pub has_work: bool,
    /// True if there is any device work.
    pub has_device: bool,
    /// True if a device of a rank computes.
    #[serde(skip)]
    pub computes: bool,
    /// Share of all ranks' steps in which no op and no runtime call runs on the host.
    #[serde(skip)]
    pub between_ops_share: f64,
    /// True if stacks were recorded, which show the work between ops.
    #[serde(skip)]
    pub has_stacks: bool,
    /// Number of ranks analyzed together.
    pub ranks: u64,
    /// Platform of the program on devices.
    #[serde(skip)]
    pub program: ProgramKind,
    /// Communication that takes much time but is not among the findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication: Option<CommunicationShare>,
    /// Kernel that takes much of all kernel time but is not among the findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<RunFinding>,
    /// Sentence on the rank that the others waited for most, if they waited for long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub straggler: Option<String>,
    /// Sentence printed instead of findings, if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
    /// For a run without findings: a long cause whose removal gains little.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_cause: Option<String>,
    /// Findings by decreasing gain; empty if nothing stands out.
    pub findings: Vec<RunFinding>,
    /// Gain without all findings at once, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<JointGain>,
}

impl RunFinding {
    /// Returns the finding in three lines: title, evidence, and remedy.
    pub fn text(&self) -> String {
        format!(
            "{}\n   {}\n   -> {}",
            self.title, self.evidence, self.remedy
        )
    }
}

impl RunFindings {
    /// Returns the text of each finding, then the remarks on the whole run.
    pub fn texts(&self) -> Vec<String> {
        let findings = self.findings.iter().map(RunFinding::text);
        findings.chain(self.remarks()).collect()
    }

    /// Returns what there is to say on the whole run: the reason why there are no findings, the joint
    /// gain, and what takes much time without being a finding.
    pub fn remarks(&self) -> Vec<String> {
        let together = self.together.as_ref().map(|joint| joint.sentence.clone());
        let kernel = self.kernel.as_ref().map(RunFinding::text);
        let communication = self.communication.as_ref();
        let communication = communication.map(|share| share.sentence.clone());
        let straggler = self.straggler.clone();
        let nothing = self.nothing.clone();
        let remarks = [nothing, together, kernel, communication, straggler];
        remarks.into_iter().flatten().collect()
    }
}

fn is_zero(ns: &i64) -> bool {
    *ns == 0
}
