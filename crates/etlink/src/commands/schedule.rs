//! `etlink schedule`: prints the action of each step of a program.

use crate::Outcome;
use crate::args::ScheduleArgs;
use crate::envelope::{JsonReport, print_json_report};
use crate::notes;
use anyhow::Result;
use etlink_model::{Diagnostic, diagnostic};
use etlink_run::output::StdoutError;
use etlink_schedule::{Action, Arguments, Schedule};
use serde::{Serialize, Serializer};
#[cfg(feature = "schema")]
use std::borrow::Cow;
use std::io::{BufWriter, StdoutLock, Write};

pub fn run(args: &ScheduleArgs) -> Result<Outcome> {
    let schedule = Schedule::new(Arguments {
        wait: args.wait,
        warmup: args.warmup,
        active: args.active,
        repeat: args.repeat.unwrap_or(0),
        skip_first: args.skip_first,
        skip_first_wait: args.skip_first_wait,
    })?;
    notes::print(&schedule_notes(&schedule, args.steps));
    if args.print.json {
        print_json_report(&ScheduleReport {
            actions: Actions {
                schedule,
                steps: args.steps,
            },
        })?;
    } else {
        let mut out = BufWriter::new(std::io::stdout().lock());
        write_table(&schedule, args.steps, &mut out)
            .and_then(|()| out.flush())
            .map_err(StdoutError)?;
    }
    Ok(Outcome::Done)
}

/// Returns notes on problems that a user can fix before the program runs.
fn schedule_notes(schedule: &Schedule, steps: u64) -> Vec<Diagnostic> {
    let warning = schedule.warning().into_iter();
    let warning = warning.map(|warning| diagnostic!(ScheduleIncomplete, "{warning}"));
    let mut notes: Vec<Diagnostic> = warning.collect();
    // at least one step: clap rejects 0
    let last = steps - 1;
    match (schedule.first_recorded(), schedule.action(last)) {
        (Some(first), _) if first > last => notes.push(diagnostic!(
            ScheduleIncomplete,
            "none of these steps is recorded; the first would be step {first}"
        )),
        (None, _) => notes.push(diagnostic!(
            ScheduleIncomplete,
            "none of these steps is recorded"
        )),
        // torch.profiler's action_map: ending in WARMUP starts and stops, and calls no handler
        (_, Action::Warmup) => notes.push(diagnostic!(
            ScheduleIncomplete,
            "the program ends during warmup: the last cycle leaves no trace"
        )),
        // the same map: ending in RECORD stops and hands over the partial trace
        (_, Action::Record) => {
            let whole = schedule
                .next_change(last)
                .and_then(|save| save.checked_add(1));
            let whole = whole.map_or(String::new(), |whole| {
                format!("; it would be complete after {whole} steps")
            });
            notes.push(diagnostic!(
                ScheduleIncomplete,
                "the program ends while recording: the last trace is saved with fewer steps{whole}"
            ));
        }
        _ => {}
    }
    notes
}

/// Writes a line per stretch of equal actions.
fn write_table(
    schedule: &Schedule,
    steps: u64,
    out: &mut BufWriter<StdoutLock<'_>>,
) -> std::io::Result<()> {
    for (range, action) in schedule.stretches(steps) {
        let last = range.end - 1;
        // a stretch of one step is not a range
        match range.start {
            start if start == last => writeln!(out, "  {action:<15}  step {last}")?,
            start => writeln!(out, "  {action:<15}  steps {start}-{last}")?,
        }
    }
    Ok(())
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct ScheduleReport {
    /// Action of each step.
    actions: Actions,
}

impl JsonReport for ScheduleReport {
    const SCHEMA: &'static str = "etlink.schedule";
}

/// Actions of the first steps, computed while being written: there can be millions.
struct Actions {
    schedule: Schedule,
    steps: u64,
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Actions {
    fn schema_name() -> Cow<'static, str> {
        "Actions".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<Action>::json_schema(generator)
    }
}

impl Serialize for Actions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..self.steps).map(|step| self.schedule.action(step)))
    }
}
