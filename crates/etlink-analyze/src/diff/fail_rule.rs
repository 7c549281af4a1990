//! Rules by which a comparison fails, for CI.
//!
//! ```text
//! rule   = what (">" | "<") number unit
//! what   = "step" | "device" | "host" | "waiting" | "utilization"
//!        | "class" LABEL | "op" NAME | "kernel" NAME
//! unit   = "%" | "ns" | "us" | "ms" | "s"
//! ```
//! A rule compares the change from the first run to the second: `step > 5%` holds where a step
//! takes more than 5 % longer, `utilization < -3%` where devices are busy for 3 points less of the
//! time. `step` holds only where the change is more than chance, by Welch's test. Where ranks lack
//! steps, and none or one is left that all of a run have, nobody knows whether it holds.

use super::{ChangeVerdict, PartChange, RunDiff, RunSide};
use crate::rules::RowClass;
use std::str::FromStr;

/// Why a text is no rule, or a rule says nothing of two runs.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FailRuleError {
    /// Not of the form of a rule.
    #[error(
        "{0:?} is no rule: a rule is what changed, > or <, and how much, such as `step > 5%` or \
         `class gemm > 2ms`"
    )]
    NotARule(String),
    /// An unknown figure.
    #[error(
        "there is no figure {0:?}: figures are step, device, host, waiting, utilization, class \
         LABEL, op NAME and kernel NAME"
    )]
    NoFigure(String),
    /// No amount.
    #[error("{0:?} is no amount: an amount is a number with %, ns, us, ms or s, such as 5% or 2ms")]
    NoAmount(String),
    /// A time of a share.
    #[error("utilization changes by points: give an amount in %")]
    PointsOnly,
    /// The runs lack it.
    #[error("--fail-if {rule}: neither run has {what}")]
    NotInRuns {
        /// The rule.
        rule: String,
        /// What is missing.
        what: String,
    },
    /// Ranks lack steps, and what is left does not tell.
    #[error("--fail-if {rule}: not known: {left} all ranks of the run {run}: {lacking}")]
    StepNotKnown {
        /// The rule.
        rule: String,
        /// `before` or `after`.
        run: &'static str,
        /// Which steps are left.
        left: &'static str,
        /// The first step that is not, and the ranks that lack it.
        lacking: String,
    },
}

/// What a rule looks at.
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
    /// In hundredths of what was before.
    Percent(f64),
    /// In ns.
    Time(f64),
}

/// One rule.
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
        // names of kernels have such signs too, and an amount has none
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
    /// Whether it holds between two runs.
    ///
    /// # Errors
    /// Neither run has what it is about.
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
                if step.verdict == ChangeVerdict::WithinSpread {
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
            // from nothing to something is more than any share, and nothing stays nothing
            FailAmount::Percent(_) if times[0] == 0 && cost == 0.0 => self.compare(0.0),
            FailAmount::Percent(_) => self.compare(100.0 * cost / times[0] as f64),
        })
    }

    /// Refuses step times of a run whose ranks lack so many steps that nothing can be compared: of
    /// one that is left nobody knows by how much steps vary.
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

/// Both times of all parts of a name.
fn find_part(parts: &[PartChange], name: &str) -> Option<[i64; 2]> {
    let named = parts.iter().filter(|part| part.name == name);
    named.map(|part| part.times_ns).reduce(add_times)
}
