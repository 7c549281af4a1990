//! Steps marked by the user: their ranges, and the work that their names state.

use crate::{OpIdx, RfId, ThreadIdx, TimeNs};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;

/// Beginning of the names of the steps that PyTorch's profiler marks (`torch/profiler/profiler.py`); the
/// number of the step follows.
pub const PROFILER_STEP: &str = "ProfilerStep#";

/// Work stated in the name of a step, usually of inference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
pub struct StepWork {
    /// `prefill`, `decode`, `mixed`, or the word captured by the user's pattern.
    pub phase: Option<String>,
    /// Number of requests.
    pub batch: Option<u64>,
    /// Number of tokens that pass through the model.
    pub tokens: Option<u64>,
}

/// A range that the user marked as a step.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct MarkedStep {
    /// Annotation or op of the range.
    pub op: OpIdx,
    /// Work stated in the name.
    pub work: StepWork,
}

/// A step of the whole trace contained in a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicedStep {
    /// Name of the step in the whole trace.
    pub name: String,
    /// Number in the step's name, else its index among all steps, from 0.
    pub number: i64,
    /// Thread of the step's range; [`ThreadIdx::NONE`] if the step is not a range.
    pub thread: ThreadIdx,
    /// Record function id of the step's range.
    pub id: RfId,
    /// Start of the step.
    pub start: TimeNs,
    /// End of the step.
    pub end: TimeNs,
    /// Work stated in the name.
    pub work: StepWork,
    /// True if the program may do other work between steps.
    pub is_separate: bool,
}
