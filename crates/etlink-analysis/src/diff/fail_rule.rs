//! Rules by which a comparison fails, for CI.
//!
//! ```text
//! rule   = figure (">" | "<") number unit
//! figure = "step" | "device" | "host" | "waiting" | "utilization"
//!        | "class" LABEL | "op" NAME | "kernel" NAME
//! unit   = "%" | "ns" | "us" | "ms" | "s"
//! ```
//! A rule compares the change from the first run to the second: `step > 5%` holds if a step takes
//! more than 5 % longer, `utilization < -3%` if devices are busy for 3 points less of the time.
//! `step` holds only if the change is more than chance, by Welch's test. If ranks lack steps, and
//! at most one step is left that all ranks of a run have, the result is unknown.

use super::{ChangeVerdict, PartChange, RunDiff, RunSide};
use crate::rules::RowClass;
use std::str::FromStr;

/// Reason for which a text is no rule, or a rule cannot be applied to two runs.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FailRuleError {
    /// The text does not have the form of a rule.
    #[error(
        "{0:?} is not a rule; a rule has a figure, > or <, and an amount, such as `step > 5%` or \
         `class gemm > 2ms`"
    )]
    NotARule(String),
    /// The figure is unknown.
    #[error(
        "unknown figure {0:?}; figures: step, device, host, waiting, utilization, class \
         LABEL, op NAME and kernel NAME"
    )]
    NoFigure(String),
    /// The amount cannot be parsed.
    #[error("{0:?} is not an amount; use a number with %, ns, us, ms or s, such as 5% or 2ms")]
    NoAmount(String),
    /// The amount for a share is a time.
    #[error("utilization changes by points; use an amount in %")]
    PointsOnly,
    /// Neither run has the figure.
    #[error("--fail-if {rule}: neither run has {what}")]
    NotInRuns {
        /// Text of the rule.
        rule: String,
        /// Name of the missing figure.
        what: String,
    },
    /// Ranks lack steps, and the remaining ones are too few to compare.
    #[error("--fail-if {rule}: unknown, because {left} all ranks of the run {run}: {lacking}")]
    StepNotKnown {
        /// Text of the rule.
        rule: String,
        /// `before` or `after`.
        run: &'static str,
        /// Number of remaining steps, in words.
        left: &'static str,
        /// First missing step, and the ranks that lack it.
        lacking: String,
    },
}

/// Figure that a rule compares.
#[derive(Clone, Debug, PartialEq)]
enum FailFigure {
    Step,
    Device,
    Host,
    Waiting,
    Utilization,
    Class(String),
    Op(String),
    Kernel(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum FailAmount {
    /// Percent of the first run's figure.
    Percent(f64),
    /// Time in ns.
    Time(f64),
}

/// A rule, such as `step > 5%`.
#[derive(Clone, Debug, PartialEq)]
pub struct FailRule {
    text: String,
    figure: FailFigure,
    is_more: bool,
    amount: FailAmount,
}

impl FromStr for FailRule {
    type Err = FailRuleError;

    fn from_str(text: &str) -> Result<FailRule, FailRuleError> {
        // kernel names contain such signs too, an amount does not
        let at = text.rfind(['>', '<']);
        let at = at.ok_or_else(|| FailRuleError::NotARule(text.to_owned()))?;
        let (what, amount) = (text[..at].trim(), text[at + 1..].trim());
        let (word, name) = what.split_once(char::is_whitespace).unwrap_or((what, ""));
        let name = name.trim();
        let figure = match (word, name) {
            ("", _) => return Err(FailRuleError::NotARule(text.to_owned())),
            ("step", "") => FailFigure::Step,
            ("device", "") => FailFigure::Device,
            ("host", "") => FailFigure::Host,
            ("waiting", "") => FailFigure::Waiting,
            ("utilization", "") => FailFigure::Utilization,
            ("class", label) if !label.is_empty() => FailFigure::Class(label.to_owned()),
            ("op", name) if !name.is_empty() => FailFigure::Op(name.to_owned()),
            ("kernel", name) if !name.is_empty() => FailFigure::Kernel(name.to_owned()),
            _ => return Err(FailRuleError::NoFigure(what.to_owned())),
        };
        let amount =
            FailAmount::parse(amount).ok_or_else(|| FailRuleError::NoAmount(amount.to_owned()))?;
        if figure == FailFigure::Utilization && matches!(amount, FailAmount::Time(_)) {
            return Err(FailRuleError::PointsOnly);
        }
        Ok(FailRule {
            text: text.trim().to_owned(),
            figure,
            is_more: text.as_bytes()[at] == b'>',
            amount,
        })
    }
}

impl FailAmount {
    fn parse(text: &str) -> Option<FailAmount> {
        let end = text.find(|letter: char| letter == '%' || letter.is_ascii_alphabetic())?;
        let number: f64 = text[..end].trim().parse().ok()?;
        let amount = match text[end..].trim() {
            "%" => FailAmount::Percent(number),
            "ns" => FailAmount::Time(number),
            "us" => FailAmount::Time(number * 1e3),
            "ms" => FailAmount::Time(number * 1e6),
            "s" => FailAmount::Time(number * 1e9),
            _ => return None,
        };
        number.is_finite().then_some(amount)
    }
}

impl std::fmt::Display for FailRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl FailRule {
    /// True if the rule holds between two runs.
    ///
    /// # Errors
    /// Fails if neither run has the figure, or if too few steps are on all ranks.
    pub fn holds(&self, diff: &RunDiff) -> Result<bool, FailRuleError> {
        let [before, after] = &diff.runs;
        let missing = |what: &str| FailRuleError::NotInRuns {
            rule: self.text.clone(),
            what: what.to_owned(),
        };
        let times = match &self.figure {
            FailFigure::Step => {
                self.refuse_lacking(diff)?;
                let step = diff.step.as_ref().ok_or_else(|| missing("steps"))?;
                use ChangeVerdict::{Unchanged, WithinSpread};
                if matches!(step.verdict, Unchanged | WithinSpread) {
                    return Ok(false);
                }
                step.times_ns
            }
            FailFigure::Device => [before.device_ns, after.device_ns],
            FailFigure::Host => [before.self_host_ns, after.self_host_ns],
            FailFigure::Waiting => sum_times(&diff.waiting),
            FailFigure::Utilization => {
                let shares = diff.utilization.ok_or_else(|| missing("device work"))?;
                return Ok(self.compare(100.0 * (shares[1] - shares[0])));
            }
            FailFigure::Class(label) => {
                let is_named = |part: &&PartChange| {
                    let class = part.class.map_or("", RowClass::name);
                    part.name == *label || class == label
                };
                let named = diff.classes.iter().filter(is_named);
                let times = named.map(|part| part.times_ns).reduce(add_times);
                times.ok_or_else(|| missing(&format!("a class {label}")))?
            }
            FailFigure::Op(name) => {
                let part = find_part(&diff.ops, name);
                part.ok_or_else(|| missing(&format!("an op {name} that launches device work")))?
            }
            FailFigure::Kernel(name) => {
                let is_named = |row: &&super::RowChange| {
                    row.on_device
                        && !row.is_annotation
                        && (row.name == *name || row.short_name.as_deref() == Some(name.as_str()))
                };
                let rows = diff.changes.iter().filter(is_named);
                let rows: Vec<[i64; 2]> = rows.map(|row| row.times_ns).collect();
                if rows.is_empty() {
                    return Err(missing(&format!("a kernel {name}")));
                }
                rows.into_iter().fold([0, 0], add_times)
            }
        };
        let cost = times[1].saturating_sub(times[0]) as f64;
        Ok(match self.amount {
            FailAmount::Time(_) => self.compare(cost),
            // a change from nothing to something exceeds any share, and nothing stays nothing
            FailAmount::Percent(_) if times[0] == 0 && cost == 0.0 => self.compare(0.0),
            FailAmount::Percent(_) => self.compare(100.0 * cost / times[0] as f64),
        })
    }

    /// Rejects step times of a run whose ranks lack so many steps that nothing can be compared. A
    /// single step does not show by how much steps vary.
    fn refuse_lacking(&self, diff: &RunDiff) -> Result<(), FailRuleError> {
        let error = |run: &RunSide, name: &'static str| {
            let left = match run.common_steps {
                0 => "no step is on",
                1 => "only one step is on",
                _ => return None,
            };
            let lacking = run.incomplete_steps.first()?;
            Some(FailRuleError::StepNotKnown {
                rule: self.text.clone(),
                run: name,
                left,
                lacking: lacking.to_string(),
            })
        };
        let [before, after] = &diff.runs;
        let error = error(before, "before").or_else(|| error(after, "after"));
        error.map_or(Ok(()), Err)
    }

    fn compare(&self, change: f64) -> bool {
        let (FailAmount::Percent(limit) | FailAmount::Time(limit)) = self.amount;
        if self.is_more {
            change > limit
        } else {
            change < limit
        }
    }
}

fn add_times(sum: [i64; 2], times: [i64; 2]) -> [i64; 2] {
    [0, 1].map(|side| sum[side].saturating_add(times[side]))
}

fn sum_times(parts: &[PartChange]) -> [i64; 2] {
    parts
        .iter()
        .map(|part| part.times_ns)
        .fold([0, 0], add_times)
}

/// Sums the times of all parts of a name in both runs.
fn find_part(parts: &[PartChange], name: &str) -> Option<[i64; 2]> {
    let named = parts.iter().filter(|part| part.name == name);
    named.map(|part| part.times_ns).reduce(add_times)
}
