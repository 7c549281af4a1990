//! Selection of the steps and ranks to draw.

use anyhow::{Result, bail};
use etlink_analysis::{RankAnalysis, StepTime};
use etlink_model::{DurationNs, TimeNs};
use etlink_report::page::{ReportRank, TimelineWindow};
use etlink_torch::RankSelection;
use indexmap::{IndexMap, IndexSet};
use std::collections::BTreeSet;

/// Steps drawn for all ranks; empty if traces have no steps, or no common step name.
pub(super) struct DrawnSteps {
    /// Requested or typical step, then the others, the nearest first.
    names: Vec<String>,
}

/// Returns the indices of the ranks to draw: the requested ones, else the first `most`. If there
/// are more, half of them are the ranks that the others waited for longest.
pub(super) fn drawn_places(
    asked: &[String],
    ranks: &[ReportRank],
    most: usize,
    late: impl Fn(&ReportRank) -> i64,
) -> Result<Vec<usize>> {
    if asked.is_empty() {
        let mut places: Vec<usize> = (0..ranks.len()).collect();
        places.sort_by_key(|at| std::cmp::Reverse(late(&ranks[*at])));
        // half by lateness, half in order: punctual ranks are the baseline for comparison
        let first = if ranks.len() > most { most / 2 } else { most };
        places.truncate(most - first);
        let rest = (0..ranks.len())
            .filter(|at| !places.contains(at))
            .take(most - places.len());
        let mut places: Vec<usize> = rest.chain(places.iter().copied()).collect();
        places.sort_unstable();
        return Ok(places);
    }
    let places = asked
        .iter()
        .map(|asked| places_named(asked, ranks))
        .collect::<Result<Vec<_>>>()?;
    let places: Vec<usize> = places
        .concat()
        .into_iter()
        // two ranges may name one rank, which is drawn once
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    if places.len() > most {
        bail!(
            "a page has at most {most} timelines, but {} were requested",
            places.len()
        );
    }
    Ok(places)
}

/// Returns the indices of the ranks with this label or in this range.
fn places_named(asked: &str, ranks: &[ReportRank]) -> Result<Vec<usize>> {
    let range: Option<RankSelection> = asked.parse().ok();
    let is_in = |label: &str| {
        range
            .as_ref()
            .is_some_and(|range| label.parse().is_ok_and(|rank| range.has(rank)))
    };
    let places = |is: &dyn Fn(&str) -> bool| {
        (0..)
            .zip(ranks)
            .filter(|(_, rank)| is(&rank.label))
            .map(|(at, _)| at)
            .collect::<Vec<usize>>()
    };
    // a file may be named like a range of ranks
    let exact = places(&|label| label == asked);
    let found = if exact.is_empty() {
        places(&is_in)
    } else {
        exact
    };
    if found.is_empty() {
        bail!(
            "no trace of rank {asked}; ranks: {}",
            list_names(ranks.iter().map(|rank| rank.label.as_str()))
        );
    }
    Ok(found)
}

impl DrawnSteps {
    /// Chooses the step of this number or name, else the one with the median length, summed over
    /// these ranks (the shorter of two medians).
    pub(super) fn choose_step(asked: Option<&str>, ranks: &[&ReportRank]) -> Result<DrawnSteps> {
        let Some(first) = ranks.first() else {
            return Ok(DrawnSteps { names: vec![] });
        };
        let lengths: Vec<IndexMap<&str, i64>> = ranks
            .iter()
            .map(|rank| step_lengths(&rank.analysis))
            .collect();
        let length = |name: &str| {
            lengths
                .iter()
                .try_fold(0i64, |sum, of| Some(sum.saturating_add(*of.get(name)?)))
        };
        let names = first.analysis.steps.iter().map(|step| step.name.as_str());
        // If several steps have one name, the first is drawn.
        let names: IndexSet<&str> = names.collect();
        let common: Vec<(i64, &str)> = names
            .into_iter()
            .filter_map(|name| Some((length(name)?, name)))
            .collect();
        if let Some(asked) = asked {
            let is_asked = |name: &str| {
                name == asked
                    || name
                        .strip_suffix(asked)
                        // 5 is ProfilerStep#5, and not the end of ProfilerStep#15
                        .is_some_and(|head| head.ends_with(|c: char| !c.is_ascii_digit()))
            };
            return match common.iter().position(|(_, name)| is_asked(name)) {
                Some(at) => Ok(DrawnSteps::around(at, &common)),
                None if common.is_empty() => {
                    bail!("no step {asked}: the traces have no steps")
                }
                None => bail!(
                    "no step {asked}; steps: {}",
                    list_names(common.iter().map(|(_, name)| *name))
                ),
            };
        }
        let mut by_length: Vec<usize> = (0..common.len()).collect();
        by_length.sort_unstable_by_key(|at| common[*at]);
        // the first step warms up caches and the last is often truncated: neither is typical
        let median = by_length.get(common.len().saturating_sub(1) / 2).copied();
        Ok(DrawnSteps::around(median.unwrap_or(0), &common))
    }

    /// Returns a step, then the others by their distance from it, later ones first.
    fn around(first: usize, all: &[(i64, &str)]) -> DrawnSteps {
        let mut places: Vec<usize> = (0..all.len()).collect();
        places.sort_by_key(|at| (at.abs_diff(first), *at < first));
        let names = places.into_iter().map(|at| all[at].1.to_owned());
        DrawnSteps {
            names: names.collect(),
        }
    }

    /// Returns the name of the first step.
    pub(super) fn name(&self) -> Option<String> {
        self.names.first().cloned()
    }

    /// Returns the name of the step at an index.
    pub(super) fn name_at(&self, at: usize) -> Option<&str> {
        self.names.get(at).map(String::as_str)
    }

    /// Returns the number of drawings; without steps there is one.
    pub(super) fn count(&self) -> usize {
        self.names.len().max(1)
    }

    /// Returns the window to draw for a rank and the step at an index, with `most` ranges. `whole`:
    /// from the first start to the last end; `starts`: starts of all ranges.
    pub(super) fn drawn_window(
        &self,
        at: usize,
        analysis: &RankAnalysis,
        most: usize,
        whole: (TimeNs, TimeNs),
        starts: impl FnOnce() -> Vec<TimeNs>,
    ) -> TimelineWindow {
        match self.name_at(at).and_then(|name| find_step(analysis, name)) {
            Some(step) => of_step(step),
            None => without_step(whole, starts(), most),
        }
    }
}

/// Returns the length of each step by name; the first counts if several have one name.
fn step_lengths(analysis: &RankAnalysis) -> IndexMap<&str, i64> {
    let mut lengths = IndexMap::with_capacity(analysis.steps.len());
    for step in &analysis.steps {
        lengths.entry(step.name.as_str()).or_insert(step.length_ns);
    }
    lengths
}

fn find_step<'a>(analysis: &'a RankAnalysis, name: &str) -> Option<&'a StepTime> {
    analysis.steps.iter().find(|step| step.name == name)
}

/// Returns the window from a step's start to the last end of its device work, at most twice the
/// step's length.
fn of_step(step: &StepTime) -> TimelineWindow {
    let start = step.start_ns;
    let end = start.saturating_add(step.duration_ns);
    let device_end = if step.rows > 0 {
        step.device_start_ns.saturating_add(step.device_window_ns)
    } else {
        end
    };
    // if the device lags by more than a step, the rest is omitted to stay legible
    let end = device_end.clamp(end, end.saturating_add(step.duration_ns));
    TimelineWindow {
        start: TimeNs(start),
        end: TimeNs(end),
        step: Some((step.name.clone(), DurationNs(step.length_ns))),
        note: String::new(),
    }
}

/// Returns the whole window, or one in the middle with as many ranges as can be drawn.
fn without_step(
    (start, end): (TimeNs, TimeNs),
    mut starts: Vec<TimeNs>,
    most: usize,
) -> TimelineWindow {
    if starts.len() <= most {
        return TimelineWindow {
            start,
            end,
            step: None,
            note: "The trace has no steps; this is the whole trace".to_owned(),
        };
    }
    starts.sort_unstable();
    // leave room for ranges that began earlier and reach into the window
    let most = most - most / 10;
    let first = (starts.len() - most) / 2;
    let (from, to) = (
        starts[first],
        starts.get(first + most).copied().unwrap_or(end),
    );
    let all = starts.len();
    let share = (to - from).0 as f64 / (end - start).0.max(1) as f64 * 100.0;
    TimelineWindow {
        start: from,
        end: to,
        step: None,
        note: format!(
            "The trace has no steps and {all} ranges; this is {share:.1} % of its time, from the \
            middle"
        ),
    }
}

fn list_names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = all.collect();
    // a run may have thousands of steps, and the message is one line
    let more = if all.len() > 20 {
        format!(", … ({} in total)", all.len())
    } else {
        String::new()
    };
    all.iter().take(20).copied().collect::<Vec<_>>().join(", ") + &more
}
