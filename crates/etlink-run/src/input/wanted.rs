//! Kinds of traces that callers want, and the error of another kind.

use crate::error::RunError;
use crate::input::{InputKind, foreign};
use etlink_model::Failure;

/// Kind of file that an option or command wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedTrace {
    /// A host trace.
    Host,
    /// A device trace.
    Device,
    /// A device trace recorded while graphs were captured.
    Capture,
    /// A device trace for the profiler's table.
    Table,
    /// A device trace or a written graph.
    Times,
}

impl WantedTrace {
    /// Creates the error of a file of another kind.
    pub fn refuse(self, name: &str, kind: InputKind) -> RunError {
        if kind == InputKind::MemorySnapshot {
            let name = name.to_owned();
            return RunError::MemorySnapshot { name };
        }
        let is = kind.describe();
        let problem = if kind.is_foreign() {
            format!("{name} is {is}")
        } else {
            format!("{name} is {is}, but {}", self.need())
        };
        let remedy = match kind {
            InputKind::NsysReport => format!(
                "export it with `nsys export --type sqlite {name}`, and give the .sqlite file"
            ),
            kind => foreign::remedy(kind).to_owned(),
        };
        Failure::new(problem).of(name).advise(remedy).into()
    }

    fn need(self) -> &'static str {
        match self {
            WantedTrace::Host => "--host needs a PyTorch execution trace",
            WantedTrace::Device => "a device trace (Kineto) is needed",
            WantedTrace::Capture => {
                "--capture needs the Kineto trace recorded during graph capture"
            }
            WantedTrace::Table => "the table needs the times in a Kineto trace",
            WantedTrace::Times => "a Kineto trace or a Chakra trace (.et) is needed",
        }
    }
}
