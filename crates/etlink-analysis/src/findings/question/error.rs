//! Errors of invalid or unanswerable questions.

use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::advice;
use std::borrow::Cow;
use std::fmt;

/// Error of an invalid or unanswerable question.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum QuestionError {
    /// There is no question of this name.
    Unknown(String),
    /// The value of the question is invalid.
    BadValue {
        /// Name of the question.
        question: String,
        /// Description of a valid value.
        expected: Cow<'static, str>,
    },
    /// The trace lacks the necessary data.
    NoAnswer(String),
    /// The input lacks the necessary data, but another input has it.
    OtherInput {
        /// Reason why the input does not suffice.
        why: Cow<'static, str>,
        /// Advice on the input to use instead.
        remedy: Cow<'static, str>,
    },
}

impl QuestionError {
    /// Returns advice for the user, if there is any.
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
                write!(f, "unknown question {name:?}; questions: {QUESTIONS}")
            }
            QuestionError::BadValue { question, expected } => {
                write!(f, "{question:?}: expected {expected}")
            }
            QuestionError::NoAnswer(why) => write!(f, "no answer for this trace: {why}"),
            QuestionError::OtherInput { why, .. } => {
                let advice = advice(self.remedy());
                write!(f, "no answer for this trace: {why}{advice}")
            }
        }
    }
}

impl std::error::Error for QuestionError {}

/// List of all questions, as they are typed.
pub const QUESTIONS: &str = "graphs, fuse=REGEX, no-input-wait, no-sync, overlap-comm, ranks=N, \
    bandwidth=GROUP:X, device=NAME, batch=N, seq=N, width=N, layers=N, straggler=RANK";
