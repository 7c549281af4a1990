//! Arguments of a schedule, as typed.

use serde::Serialize;
use std::fmt;

/// Arguments of `torch.profiler.schedule`, with its names. All are in steps except `repeat` and
/// `skip_first_wait`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ScheduleSettings"))]
pub struct Arguments {
    /// Steps before the first cycle, once; at least 0.
    pub skip_first: i64,
    /// Idle steps at the start of each cycle; at least 0.
    pub wait: i64,
    /// Steps during which the recorders are prepared; at least 0.
    pub warmup: i64,
    /// Steps to record; at least 1.
    pub active: i64,
    /// Cycles; 0 repeats until the program ends.
    pub repeat: i64,
    /// Nonzero if the first cycle has no idle steps. Supported since PyTorch 2.6.
    pub skip_first_wait: i64,
}

/// Arguments that have a lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// `wait`.
    Wait,
    /// `warmup`.
    Warmup,
    /// `active`.
    Active,
    /// `repeat`.
    Repeat,
    /// `skip_first`.
    SkipFirst,
}

impl Argument {
    /// Returns the name in PyTorch: `skip_first`.
    pub const fn name(self) -> &'static str {
        match self {
            Argument::Wait => "wait",
            Argument::Warmup => "warmup",
            Argument::Active => "active",
            Argument::Repeat => "repeat",
            Argument::SkipFirst => "skip_first",
        }
    }

    const fn lower_bound(self) -> i64 {
        matches!(self, Argument::Active) as i64
    }
}

/// An argument below its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentFault {
    /// Argument that is too small.
    pub argument: Argument,
    /// Value it was given.
    pub got: i64,
    /// Smallest allowed value.
    pub least: i64,
}

impl fmt::Display for ArgumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {}, needs to be at least {}",
            self.argument.name(),
            self.got,
            self.least
        )
    }
}

/// All arguments that PyTorch rejects; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid schedule: {}", list_faults(.0))]
pub struct InvalidArguments(pub Vec<ArgumentFault>);

fn list_faults(faults: &[ArgumentFault]) -> String {
    let faults: Vec<String> = faults.iter().map(ArgumentFault::to_string).collect();
    faults.join("; ")
}

impl Arguments {
    /// Returns all arguments below their bounds, in PyTorch's order. `skip_first_wait` has no
    /// bound.
    pub(crate) fn faults(&self) -> Vec<ArgumentFault> {
        // The order follows the assertion in `torch.profiler.schedule`.
        let bounded = [
            (Argument::Wait, self.wait),
            (Argument::Warmup, self.warmup),
            (Argument::Active, self.active),
            (Argument::Repeat, self.repeat),
            (Argument::SkipFirst, self.skip_first),
        ];
        let faults = bounded.map(|(argument, got)| ArgumentFault {
            argument,
            got,
            least: argument.lower_bound(),
        });
        faults
            .into_iter()
            .filter(|fault| fault.got < fault.least)
            .collect()
    }
}
