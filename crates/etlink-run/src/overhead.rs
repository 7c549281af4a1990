//! Removal of the overhead of recording from the times of a host.

use crate::run_files::ManifestEntry;
use crate::slice::{SliceSyntax, parse_time};
use etlink_link::LinkedTrace;
use etlink_model::{DurationNs, command_only};
use etlink_replay::{RecordingOverhead, recording_cost};
use std::str::FromStr;

/// How the overhead of recording is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverheadRemoval {
    /// From the manifest's times of steps that were not recorded, else from ops that do no work.
    Auto,
    /// From the length of a step without recording.
    Step(DurationNs),
}

/// Error of a text that is neither `auto` nor the length of a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give the time of a step without recording, such as 25.9ms (s, ms, us, ns), or auto")]
pub struct OverheadSyntax;

impl FromStr for OverheadRemoval {
    type Err = OverheadSyntax;

    fn from_str(text: &str) -> Result<OverheadRemoval, OverheadSyntax> {
        if text == "auto" {
            return Ok(OverheadRemoval::Auto);
        }
        match parse_time(text) {
            Ok(step) if step.0 > 0 => Ok(OverheadRemoval::Step(step)),
            Ok(_) | Err(SliceSyntax::Time | SliceSyntax::Steps | SliceSyntax::Backwards) => {
                Err(OverheadSyntax)
            }
        }
    }
}

impl OverheadRemoval {
    /// Returns the length of a step without recording, if it is known.
    pub(crate) fn known_step(self, manifest: &ManifestEntry) -> Option<DurationNs> {
        match self {
            OverheadRemoval::Auto => manifest.plain_step,
            OverheadRemoval::Step(step) => Some(step),
        }
    }
}

/// Cost of recording per op from which a note says that it distorts times, ns. Kineto costs 1 to 3
/// us per op and the execution trace observer 14 us more, while the mean op takes 4 to 6 us.
const MUCH_PER_OP: DurationNs = DurationNs(8_000);

/// Returns a note on a host that recording slowed down much, next to devices that are faster than
/// recorded hosts.
pub(crate) fn slow_host_note(trace: &LinkedTrace) -> Option<String> {
    if trace.device.rows.is_empty() || trace.is_interleaved {
        return None;
    }
    let cost = recording_cost(trace).filter(|cost| *cost >= MUCH_PER_OP)?;
    let remedy = command_only(
        "; findings, analyze and replay correct for this with --remove-overhead, and etlink record \
         --interleave avoids most of it"
            .to_owned(),
    );
    Some(format!(
        "recording slowed the host down, by an estimated {:.0} us per op, so that devices look idler \
         than they are{remedy}",
        cost.0 as f64 / 1e3
    ))
}

/// Describes the overhead that was removed.
pub(crate) fn overhead_note(overhead: &RecordingOverhead) -> String {
    let ms = |time: DurationNs| format!("{:.3} ms", time.0 as f64 / 1e6);
    let cost = format!("{:.1} us per op", overhead.per_op.0 as f64 / 1e3);
    let is_longer = |step: DurationNs, other: DurationNs| step.0 > other.0 + other.0 / 50;
    let steps = overhead.recorded_step.zip(overhead.step);
    let change = match steps {
        Some((recorded, step)) if is_longer(recorded, step) => {
            format!(": steps take {} (recorded: {})", ms(step), ms(recorded))
        }
        Some((_, step)) => format!("; steps take {} with and without it", ms(step)),
        None => String::new(),
    };
    match (overhead.known_step, overhead.step) {
        (Some(known), _) if overhead.per_op.0 == 0 => format!(
            "no overhead of recording is removed: recorded steps take no longer than {}",
            ms(known)
        ),
        (Some(known), Some(step)) if is_longer(step, known) => format!(
            "removed {cost} of overhead of recording{change}, longer than the known {}: devices or \
             other ranks set the pace",
            ms(known)
        ),
        (Some(known), _) => {
            let recorded = overhead.recorded_step.map(ms).unwrap_or_default();
            format!(
                "removed {cost} of overhead of recording, so that steps take their known time of {} \
                 (recorded: {recorded})",
                ms(known)
            )
        }
        (None, _) => format!(
            "removed an estimated {cost} of overhead of recording{change}; where the host sets the \
             pace, steps may still be too long"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_a_unit_and_a_length() {
        let step = |ns| Ok(OverheadRemoval::Step(DurationNs(ns)));
        assert_eq!("25.9ms".parse(), step(25_900_000));
        assert_eq!("auto".parse(), Ok(OverheadRemoval::Auto));
        for text in ["", "25.9", "0ms", "-3ms", "fast"] {
            assert_eq!(
                text.parse::<OverheadRemoval>(),
                Err(OverheadSyntax),
                "{text}"
            );
        }
    }
}
