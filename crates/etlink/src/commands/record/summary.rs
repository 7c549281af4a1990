//! Summary that `record` prints at the end.

use crate::notes;
use etlink_run::manifest::MANIFEST;
use etlink_torch::{Cycle, Manifest, NOTHING, Process, StepTimes, steps_counted};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Smallest slowdown of recorded steps worth reporting, as a factor.
const WORTH_SAYING: f64 = 1.2;

/// Shortest pause of the program worth reporting, in ns.
const STOOD_STILL_NS: i64 = 500_000_000;

/// Most step ranges listed; beyond that, only the first and last step are named.
const MOST_RANGES: usize = 4;

/// Prints the notes and a summary of the recording.
pub fn print_summary(manifest: &Manifest, output: &Path) {
    if notes::are_wanted() {
        for note in &manifest.notes {
            notes::print_message(format_args!("note: {note}"));
        }
    }
    if manifest.is_idle() {
        notes::print_message(
            "nothing was recorded: the program was armed, but no recording was requested",
        );
        return;
    }
    if manifest.recorded() == 0 {
        // a note with this text also names the cause
        if !manifest.notes.iter().any(|note| note.contains(NOTHING)) {
            notes::print_message(format_args!("{NOTHING}: see the notes above"));
        }
        return;
    }
    notes::print_message(recorded(manifest, output));
    if let Some(cost) = cost(manifest) {
        notes::print_message(cost);
    }
    if let Some(saving) = saving(manifest) {
        notes::print_message(saving);
    }
}

fn recorded(manifest: &Manifest, output: &Path) -> String {
    let processes: Vec<&Process> = manifest
        .ranks
        .iter()
        .map(|rank| &rank.process)
        .filter(|process| !process.cycles.is_empty())
        .collect();
    let cycles = || processes.iter().flat_map(|process| &process.cycles);
    // the maximum: a rank that died early has fewer cycles
    let each = processes.iter().map(|process| process.cycles.len()).max();
    let each = each.unwrap_or(0);
    let is_asked = manifest.armed.is_some() && !cycles().any(|cycle| cycle.own_profiler);
    let times = if each > 1 && !is_asked {
        format!(" in {each} cycles")
    } else {
        String::new()
    };
    let plural = if processes.len() == 1 { "" } else { "s" };
    let phases: BTreeMap<&str, (u64, u64)> = cycles().fold(BTreeMap::new(), |mut phases, cycle| {
        if let Some(phase) = &cycle.phase {
            let (first, last) = phases.entry(phase).or_insert((cycle.first_step, 0));
            *first = cycle.first_step.min(*first);
            *last = cycle.last_step.max(*last);
        }
        phases
    });
    let steps = if is_asked && each > 1 {
        // few steps may be hours apart
        let most = processes.iter().map(|process| recorded_steps(process));
        let most = most.max().unwrap_or(0);
        let first = cycles().map(Cycle::first_recorded).min().unwrap_or(0);
        let last = cycles().map(|cycle| cycle.last_step).max().unwrap_or(0);
        format!("{each} recordings, {most} steps between step {first} and {last}")
    } else if phases.is_empty() {
        match step_ranges(&processes) {
            Some(steps) => format!("{steps}{times}"),
            None => format!("{each} cycles"),
        }
    } else {
        let of_phase = |(phase, (first, last))| format!("{phase} {first}-{last}");
        let phases: Vec<String> = phases.into_iter().map(of_phase).collect();
        format!("steps of phases: {}{times}", phases.join(", "))
    };
    format!(
        "recorded {} rank{plural}, {steps}{}: {}",
        processes.len(),
        counted(&manifest.step_on, &processes),
        output.join(MANIFEST).display()
    )
}

/// Returns the steps of all cycles, such as `steps 3-4, 8-9`; `None` if step numbers are ambiguous,
/// as with several profilers of the program that each count from 0.
fn step_ranges(processes: &[&Process]) -> Option<String> {
    let mut ranges = BTreeSet::new();
    for process in processes {
        let mut own = BTreeSet::new();
        for cycle in &process.cycles {
            own.insert((cycle.first_recorded(), cycle.last_step));
        }
        let mut next = own.iter().skip(1);
        let is_twice = own.iter().any(|(_, last)| {
            let next = next.next();
            next.is_some_and(|(first, _)| first <= last)
        });
        if is_twice || own.len() < process.cycles.len() {
            return None;
        }
        ranges.extend(own);
    }
    let mut joined: Vec<(u64, u64)> = vec![];
    for (first, last) in ranges {
        match joined.last_mut() {
            // ranks may have recorded other steps than the first rank
            Some((_, end)) if first <= *end => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    if joined.len() > MOST_RANGES {
        let (first, last) = (joined.first()?.0, joined.last()?.1);
        return Some(format!("steps between {first} and {last}"));
    }
    let named = |(first, last): &(u64, u64)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    let plural = if matches!(&joined[..], [(first, last)] if first == last) {
        ""
    } else {
        "s"
    };
    let joined: Vec<String> = joined.iter().map(named).collect();
    Some(format!("step{plural} {}", joined.join(", ")))
}

fn recorded_steps(process: &Process) -> u64 {
    let steps = |cycle: &Cycle| (cycle.last_step + 1).saturating_sub(cycle.first_recorded());
    process.cycles.iter().map(steps).sum()
}

/// Names the unit counted as a step: the class of an optimizer or a model, or a function.
fn counted(step_on: &str, processes: &[&Process]) -> String {
    let counted = processes
        .iter()
        .filter_map(|process| process.counted.as_deref());
    // ranks of a pipeline may have models of several classes
    let names: BTreeSet<&str> = counted.collect();
    let cycles = || processes.iter().flat_map(|process| &process.cycles);
    let is_own = cycles().any(|cycle| cycle.own_profiler);
    if is_own && cycles().all(|cycle| cycle.own_profiler) {
        return " (of the program's own profiler)".to_owned();
    }
    if names.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = names.into_iter().collect();
    let others = if is_own {
        ", and of the program's own profiler"
    } else {
        ""
    };
    format!(" ({}{others})", steps_counted(step_on, &names.join(", ")))
}

/// Reports the slowdown of recorded steps, which affects the times in the traces.
fn cost(manifest: &Manifest) -> Option<String> {
    cost_text(manifest.slowdown()?)
}

/// Formats the slowdown. Steps may differ anyway, so recording need not be the cause.
fn cost_text(times: StepTimes) -> Option<String> {
    // anything less is within the normal variation of steps
    let slowdown = times.slowdown().filter(|times| *times >= WORTH_SAYING)?;
    Some(format!(
        "recorded steps took {slowdown:.1} x as long as other steps ({} instead of {}): recording \
         slowed them down, or they do more work",
        milliseconds(times.recorded_ns),
        milliseconds(times.plain_ns)
    ))
}

/// Reports the longest time the program was paused while its traces were written, over all cycles.
fn saving(manifest: &Manifest) -> Option<String> {
    let cycles = manifest.ranks.iter().flat_map(|rank| {
        let name = rank.process.rank;
        rank.process.cycles.iter().map(move |cycle| (name, cycle))
    });
    let saved = cycles.filter_map(|(rank, cycle)| Some((saving_ns(cycle)?, rank, cycle)));
    let (ns, rank, cycle) = saved.max_by_key(|(ns, ..)| *ns)?;
    if ns < STOOD_STILL_NS {
        return None;
    }
    let rank = rank.map_or(String::new(), |rank| format!(" of rank {rank}"));
    Some(format!(
        "writing the traces paused the program for up to {:.1} s (at the end of step {}{rank}), which the traces do not include",
        ns as f64 / 1e9,
        cycle.last_step
    ))
}

/// Returns the time from the end of the last recorded step until the traces had their names; `None`
/// for cycles of the program's own profiler, whose end only the program knows.
fn saving_ns(cycle: &Cycle) -> Option<i64> {
    if cycle.own_profiler {
        return None;
    }
    let end = cycle.end?;
    Some(cycle.clock.monotonic_ns - end.monotonic_ns)
}

fn milliseconds(ns: u64) -> String {
    format!("{:.2} ms", ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_torch::Clock;

    fn process(cycles: &[(u64, u64)]) -> Process {
        let cycles = cycles.iter().map(|(first_step, last_step)| Cycle {
            first_step: *first_step,
            last_step: *last_step,
            ..Cycle::default()
        });
        Process {
            cycles: cycles.collect(),
            ..Process::default()
        }
    }

    #[test]
    fn a_program_that_stood_still_for_long_is_told() {
        let mut slow = process(&[(3, 4)]);
        slow.rank = Some(1);
        let clock = |seconds: i64| Clock {
            unix_ns: 0,
            monotonic_ns: seconds * 1_000_000_000,
        };
        slow.cycles[0].end = Some(clock(7));
        slow.cycles[0].clock = clock(9);
        assert_eq!(saving_ns(&slow.cycles[0]), Some(2_000_000_000));
        slow.cycles[0].own_profiler = true;
        assert_eq!(saving_ns(&slow.cycles[0]), None);
    }

    #[test]
    fn longer_steps_are_not_all_laid_to_the_recording() {
        let times = StepTimes {
            plain_ns: 25_610_000,
            recorded_ns: 310_850_000,
            ..StepTimes::default()
        };
        assert_eq!(
            cost_text(times).as_deref(),
            Some(
                "recorded steps took 12.1 x as long as other steps (310.85 ms instead of 25.61 ms): \
                 recording slowed them down, or they do more work"
            )
        );
    }

    #[test]
    fn steps_between_cycles_are_not_said_to_be_recorded() {
        for (cycles, expected) in [
            (&[(3, 4)][..], Some("steps 3-4")),
            (&[(7, 7)], Some("step 7")),
            (&[(1, 1), (5, 6)], Some("steps 1, 5-6")),
            (
                &[(0, 0), (2, 2), (4, 4), (6, 6), (8, 9)],
                Some("steps between 0 and 9"),
            ),
            // two profilers of the program: each counts its steps from 0
            (&[(0, 0), (0, 0)], None),
            (&[(0, 3), (2, 5)], None),
        ] {
            let process = process(cycles);
            assert_eq!(step_ranges(&[&process]).as_deref(), expected);
        }
        // a rank that died early has fewer
        let (one, other) = (process(&[(3, 4), (8, 9)]), process(&[(3, 4)]));
        let ranges = step_ranges(&[&one, &other]);
        assert_eq!(ranges.as_deref(), Some("steps 3-4, 8-9"));
    }
}
