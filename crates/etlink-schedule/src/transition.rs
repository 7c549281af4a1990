//! Transitions between the actions of two steps: the ordered calls to the recorders.
//!
//! The table is `action_map` of `torch.profiler.profile`. A session starts with the transition from
//! [`Action::None`] to the action of step 0, and ends with [`Action::exit`] of the last step. With
//! PyTorch's own schedules three pairs never occur; they have a warning.

use crate::{Action, Warning};

/// Call to a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecorderCall {
    /// Prepares for recording: `prepare_trace`. Drops the recording of the previous cycle.
    Prepare,
    /// Starts recording: `start_trace`.
    Start,
    /// Stops recording: `stop_trace`.
    Stop,
    /// Saves the recording since `Start`: `on_trace_ready`.
    Save,
}

/// Recorder calls between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Calls in order.
    pub calls: &'static [RecorderCall],
    /// Warning that PyTorch prints before the calls; `None` if it prints none.
    pub warning: Option<Warning>,
}

impl Action {
    /// Returns the transition from a step with this action to a step with the action `next`.
    pub const fn then(self, next: Action) -> Transition {
        use Action::{None as Off, Record, RecordAndSave, Warmup};
        use RecorderCall::{Prepare, Save, Start, Stop};
        match (self, next) {
            (Off, Off) | (Warmup, Warmup) | (Record, Record | RecordAndSave) => {
                quiet_transition(&[])
            }
            (Off, Warmup) => quiet_transition(&[Prepare]),
            (Off, Record | RecordAndSave) => quiet_transition(&[Prepare, Start]),
            (Warmup, Record | RecordAndSave) => quiet_transition(&[Start]),
            // `action_map` starts the prepared profiler only to stop it, so recorders receive both
            // calls.
            (Warmup, Off) => warned_transition(&[Start, Stop], Warning::WarmupThenNone),
            // Nothing is saved here: only RECORD_AND_SAVE calls `on_trace_ready`.
            (Record, Off) => warned_transition(&[Stop], Warning::RecordThenNone),
            (Record, Warmup) => warned_transition(&[Stop], Warning::RecordThenWarmup),
            (RecordAndSave, Off) => quiet_transition(&[Stop, Save]),
            (RecordAndSave, Warmup) => quiet_transition(&[Stop, Save, Prepare]),
            (RecordAndSave, Record | RecordAndSave) => {
                quiet_transition(&[Stop, Save, Prepare, Start])
            }
        }
    }

    /// Returns the transition from a step with this action to the end of the session, also if the
    /// program fails: the recording so far is saved, a warmup leaves nothing.
    pub const fn exit(self) -> Transition {
        match self {
            Action::None => quiet_transition(&[]),
            Action::Warmup => quiet_transition(&[RecorderCall::Start, RecorderCall::Stop]),
            Action::Record | Action::RecordAndSave => {
                quiet_transition(&[RecorderCall::Stop, RecorderCall::Save])
            }
        }
    }
}

const fn quiet_transition(calls: &'static [RecorderCall]) -> Transition {
    Transition {
        calls,
        warning: None,
    }
}

const fn warned_transition(calls: &'static [RecorderCall], warning: Warning) -> Transition {
    Transition {
        calls,
        warning: Some(warning),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIONS: [Action; 4] = [
        Action::None,
        Action::Warmup,
        Action::Record,
        Action::RecordAndSave,
    ];

    /// `p` prepare, `S` start, `T` stop, `H` save (on_trace_ready), `!` a warning; last column:
    /// exit.
    #[test]
    fn the_table_of_the_source() {
        let table = ACTIONS.map(|from| {
            let row = ACTIONS.map(|to| letters(from.then(to)));
            format!("{from}: {} | {}", row.join(", "), letters(from.exit()))
        });
        let expected = [
            "NONE: -, p, pS, pS | -",
            "WARMUP: !ST, -, S, S | ST",
            "RECORD: !T, !T, -, - | TH",
            "RECORD_AND_SAVE: TH, THp, THpS, THpS | TH",
        ];
        assert_eq!(table, expected);
    }

    fn letters(transition: Transition) -> String {
        let warned = transition.warning.map(|_| '!');
        let letter = |call: &RecorderCall| match call {
            RecorderCall::Prepare => 'p',
            RecorderCall::Start => 'S',
            RecorderCall::Stop => 'T',
            RecorderCall::Save => 'H',
        };
        let letters: String = warned
            .into_iter()
            .chain(transition.calls.iter().map(letter))
            .collect();
        if letters.is_empty() {
            "-".to_owned()
        } else {
            letters
        }
    }
}
