//! Why a question is none, or has no answer.

use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::advice;
use std::borrow::Cow;
use std::fmt;

/// Why a question is none, or has no answer.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum QuestionError {
    /// There is no such question.
    Unknown(String),
    /// What stands behind its name is wrong.
    BadValue {
        /// The question.
        question: String,
        /// What was expected.
        expected: Cow<'static, str>,
    },
    /// The trace does not say what is needed.
    NoAnswer(String),
    /// What was given does not say what is needed, and something else does.
    OtherInput {
        /// What is wrong with it.
        why: Cow<'static, str>,
        /// What to give instead.
        remedy: Cow<'static, str>,
    },
}

impl QuestionError {
    /// What the user can do.
    pub fn remedy(&self) -> Option<String> {
        match self {
            QuestionError::OtherInput { remedy, .. } => Some(remedy.clone().into_owned()),
            _ => None,
        }
    }
}

impl fmt::Display for QuestionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuestionError::Unknown(name) => {
                write!(
                    f,
                    "there is no question {name:?}; questions are {QUESTIONS}"
                )
            }
            QuestionError::BadValue { question, expected } => {
                write!(f, "{question:?}: {expected} was expected")
            }
            QuestionError::NoAnswer(why) => write!(f, "no answer on this trace: {why}"),
            QuestionError::OtherInput { why, .. } => {
                let advice = advice(self.remedy());
                write!(f, "no answer on this trace: {why}{advice}")
            }
        }
    }
}

impl std::error::Error for QuestionError {}

/// All of them, as people write them.
pub const QUESTIONS: &str = "graphs, fuse=REGEX, no-input-wait, no-sync, overlap-comm, ranks=N, \
    bandwidth=GROUP:X, device=NAME, straggler=RANK";
