//! Steps that somebody marked: which ranges they are, and what they say of their work.

use crate::{OpIdx, RfId, ThreadIdx, TimeNs};
use serde::{Deserialize, Serialize};

/// What the name of a step says of it: of inference, what was run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepWork {
    /// `prefill`, `decode`, `mixed`, or the word that the user's pattern caught.
    pub phase: Option<String>,
    /// Requests.
    pub batch: Option<u64>,
    /// Tokens that go through the model.
    pub tokens: Option<u64>,
}

/// A range that the user takes for a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkedStep {
    /// The annotation or op.
    pub op: OpIdx,
    /// What its name says.
    pub work: StepWork,
}

/// A step of the whole trace that a slice of it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicedStep {
    /// Name that it has in the whole trace.
    pub name: String,
    /// Number: the one in its name, else its place among all steps, from 0.
    pub number: i64,
    /// Thread of its range; [`ThreadIdx::NONE`] where it is no range.
    pub thread: ThreadIdx,
    /// Record function id of its range.
    pub id: RfId,
    /// When it began.
    pub start: TimeNs,
    /// When it ended.
    pub end: TimeNs,
    /// What its name says.
    pub work: StepWork,
}
