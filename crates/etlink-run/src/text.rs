//! Texts for figures and names in messages and notes.

use etlink_model::{Anomalies, AnomalyKind, Severity, counted_text};
use indexmap::IndexMap;
use std::error::Error;
use std::path::Path;

/// Error of a text in a wrong form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SyntaxError(pub &'static str);

/// Returns an error and its sources in one line, `outer: inner`.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    // like anyhow's `{:#}`, so that the library and the command print the same
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns a time in a suitable unit.
pub fn time(ns: i64) -> String {
    match ns.unsigned_abs() {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.3} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.3} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

/// Returns a number with its noun: `1 step`, `2 steps`.
pub fn count(number: impl Into<u64>, what: &str) -> String {
    let number = number.into();
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns the damage of a trace in one line; `None` if there is none.
pub fn damage(anomalies: &Anomalies) -> Option<String> {
    damage_of(anomalies, |_| true)
}

/// Returns the damage of a trace's device rows in one line, which is printed before all figures.
pub fn row_damage(anomalies: &Anomalies) -> Option<String> {
    damage_of(anomalies, AnomalyKind::is_of_rows)
}

fn damage_of(anomalies: &Anomalies, is_wanted: fn(AnomalyKind) -> bool) -> Option<String> {
    let mut damaged: Vec<String> = vec![];
    for (kind, anomaly) in anomalies.iter() {
        if kind.severity() != Severity::Damage || !is_wanted(kind) {
            continue;
        }
        let mut facts = vec![match anomaly.of {
            0 => anomaly.count.to_string(),
            of => format!("{} of {of}", anomaly.count),
        }];
        if anomaly.device_ns > 0 {
            let share = anomaly.device_ns as f64 / anomaly.of_device_ns.max(1) as f64;
            let [part, whole] = [anomaly.device_ns, anomaly.of_device_ns]
                .map(|ns| time(i64::try_from(ns).unwrap_or(i64::MAX)));
            facts.push(format!(
                "{part} of {whole} of device time, {:.1} %",
                100.0 * share
            ));
        }
        facts.extend(anomaly.first.iter().map(|first| format!("first: {first}")));
        damaged.push(format!("{} ({})", kind.describe(), facts.join(", ")));
    }
    (!damaged.is_empty()).then(|| format!("damage: {}", damaged.join("; ")))
}

/// Returns harmless irregularities of a trace, one line per kind.
pub fn infos(anomalies: &Anomalies) -> Vec<String> {
    let mut infos = vec![];
    for (kind, anomaly) in anomalies.iter() {
        if kind.severity() == Severity::Info {
            infos.push(counted_text(anomaly.count, kind.describe()));
        }
    }
    infos
}

/// Returns the name of a rank from its label: a number, or a file name.
pub fn rank(label: &str) -> String {
    // a file name needs no further word
    if label.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("rank {label}")
    } else {
        label.to_owned()
    }
}

/// Returns the first few ranks of a list.
pub fn first_ranks<R: ToString>(ranks: &[R]) -> String {
    // as many as fit in a line; JSON has all of them
    let first: Vec<String> = ranks.iter().take(8).map(R::to_string).collect();
    let more = if ranks.len() > 8 { ", …" } else { "" };
    first.join(", ") + more
}

/// Returns consecutive ranks as first and last; of other ranks, the first few.
fn rank_list(names: &[String]) -> String {
    let numbers: Option<Vec<i64>> = names
        .iter()
        .map(|name| name.strip_prefix("rank ")?.parse().ok())
        .collect();
    // `rank 0 … rank 511` is only used for ranks without a gap
    let follow =
        numbers.is_some_and(|numbers| numbers.is_sorted_by(|a, b| a.checked_add(1) == Some(*b)));
    match names {
        [first, _, .., last] if follow => format!("{first} … {last}"),
        [a, b, c, _, ..] => format!("{a}, {b}, {c}, …"),
        few => few.join(", "),
    }
}

/// Returns notes preceded by the names of their subjects; merges equal notes about several.
pub fn same_notes<'n>(notes: impl Iterator<Item = (String, &'n str)>) -> Vec<String> {
    // by first appearance: in the order of ranks, and the same in each run
    let mut by_note: IndexMap<&str, Vec<String>> = IndexMap::new();
    for (name, note) in notes {
        let is_number = name.parse::<u64>().is_ok();
        let name = if is_number {
            format!("rank {name}")
        } else {
            name
        };
        by_note.entry(note).or_default().push(name);
    }
    let mut merged = vec![];
    for (note, names) in by_note {
        merged.push(match &names[..] {
            [name] if name.is_empty() => note.to_owned(),
            [name] => format!("{name}: {note}"),
            several => format!("{} traces ({}): {note}", several.len(), rank_list(several)),
        });
    }
    merged
}

/// Returns a file name without the ending of its compression.
pub(crate) fn plain_name(name: &str) -> &str {
    let plain = name.strip_suffix(".gz").or(name.strip_suffix(".zst"));
    plain.unwrap_or(name)
}

/// Returns true if a file name has one of these endings, in any case, also before the ending of its
/// compression.
pub(crate) fn has_ending(path: &Path, endings: &[&str]) -> bool {
    // copies from other systems end in .JSON
    let name = file_name(path).to_lowercase();
    let plain = plain_name(&name);
    endings.iter().any(|ending| plain.ends_with(ending))
}

/// Returns the file name of a path; empty if it has none.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
