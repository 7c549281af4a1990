//! Steps that somebody marked: which ranges they are, and what they say of their work.

use crate::OpIdx;
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
