//! Actions of the recorders in a step, and warnings about their order.

use serde::Serialize;
use std::fmt;

/// Action of the recorders during a step (`torch.profiler.ProfilerAction`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Action {
    /// The recorders are off.
    #[default]
    None,
    /// The recorders are prepared, so that their start-up cost is not in the trace.
    Warmup,
    /// The recorders record.
    Record,
    /// The recorders record, and the trace is saved when the step ends.
    RecordAndSave,
}

impl Action {
    /// Returns the name in PyTorch: `RECORD_AND_SAVE`.
    pub const fn name(self) -> &'static str {
        match self {
            Action::None => "NONE",
            Action::Warmup => "WARMUP",
            Action::Record => "RECORD",
            Action::RecordAndSave => "RECORD_AND_SAVE",
        }
    }

    /// Returns true if the step is in a trace.
    pub const fn records(self) -> bool {
        matches!(self, Action::Record | Action::RecordAndSave)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` respects the width of a format; `write_str` would ignore it.
        f.pad(self.name())
    }
}

/// PyTorch's warnings about schedules, in its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// The schedule has no warmup.
    #[error("Profiler won't be using warmup, this can skew profiler results")]
    NoWarmup,
    /// Prepared, but not recorded: the trace is empty and is dropped.
    #[error("Incorrect schedule: WARMUP followed by NONE")]
    WarmupThenNone,
    /// The recording is dropped.
    #[error("Incorrect schedule: RECORD followed by NONE")]
    RecordThenNone,
    /// The recording is dropped, and the next one is not prepared.
    #[error("Incorrect schedule: RECORD followed by WARMUP")]
    RecordThenWarmup,
}
