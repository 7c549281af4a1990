//! What happens in a step, and what is odd about it.

use serde::Serialize;
use std::fmt;

/// What the recorders do during a step (`torch.profiler.ProfilerAction`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Action {
    /// They are off.
    #[default]
    None,
    /// They are prepared, so that what recording costs at first is not in the trace.
    Warmup,
    /// They record.
    Record,
    /// They record, and the trace is saved when the step ends.
    RecordAndSave,
}

impl Action {
    /// The name in PyTorch: `RECORD_AND_SAVE`.
    pub const fn name(self) -> &'static str {
        match self {
            Action::None => "NONE",
            Action::Warmup => "WARMUP",
            Action::Record => "RECORD",
            Action::RecordAndSave => "RECORD_AND_SAVE",
        }
    }

    /// Whether the step is in a trace.
    pub const fn records(self) -> bool {
        matches!(self, Action::Record | Action::RecordAndSave)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` keeps the width that a table asks for; `write_str` would ignore it.
        f.pad(self.name())
    }
}

/// What PyTorch warns of, in its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// The schedule has no warmup.
    #[error("Profiler won't be using warmup, this can skew profiler results")]
    NoWarmup,
    /// Prepared, but not recorded: the trace is empty and dropped.
    #[error("Incorrect schedule: WARMUP followed by NONE")]
    WarmupThenNone,
    /// What was recorded is dropped.
    #[error("Incorrect schedule: RECORD followed by NONE")]
    RecordThenNone,
    /// What was recorded is dropped, and the next recording is not prepared.
    #[error("Incorrect schedule: RECORD followed by WARMUP")]
    RecordThenWarmup,
}
