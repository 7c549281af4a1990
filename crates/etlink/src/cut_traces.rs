//! Notes on figures from device traces that are truncated or have invalid rows.

use crate::table::{rank, row_damage, same_notes};
use etlink_link::ranks::rank_list;
use etlink_model::{Anomalies, GlobalRank};

/// Returns a line that names the truncated device traces by the labels of their ranks; empty if
/// there are none. A single trace is not named.
///
/// Kineto writes events by thread and kind, not by time: the missing part can be from any time of
/// the recording.
pub(crate) fn cut_line(labels: &[&str], is_only_trace: bool) -> String {
    let (one, several) = (
        "the missing part, which may be from any time, is not counted",
        "the missing parts, which may be from any time, are not counted",
    );
    match labels {
        [] => String::new(),
        [_] if is_only_trace => format!("the device trace is truncated: {one}\n"),
        [_] => format!(
            "the device trace of {} is truncated: {one}\n",
            names(labels)
        ),
        _ => format!(
            "the device traces of {} are truncated: {several}\n",
            names(labels)
        ),
    }
}

/// Returns a line per kind of damage to the device rows of ranks, given with their labels; printed
/// before all figures. A single trace is not named.
pub(crate) fn row_damage_lines<'r>(
    ranks: impl Iterator<Item = (&'r str, &'r Anomalies)>,
    is_only_trace: bool,
) -> String {
    let mut damages: Vec<(String, String)> = vec![];
    for (label, anomalies) in ranks {
        let name = if is_only_trace {
            String::new()
        } else {
            rank(label)
        };
        damages.extend(row_damage(anomalies).map(|damage| (name, damage)));
    }
    let named = damages.iter();
    let lines = same_notes(named.map(|(name, damage)| (name.clone(), damage.as_str())));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns a note on findings that ignore ranks with truncated device traces, given by their
/// labels.
pub(crate) fn findings_note(left_out: &[&str]) -> Option<String> {
    (!left_out.is_empty()).then(|| {
        format!(
            "gains exclude {}: unrecorded work cannot change, and the other ranks would wait \
             for it",
            names(left_out)
        )
    })
}

/// Lists ranks by their numbers, or files by their names.
fn names(labels: &[&str]) -> String {
    let ranks: Result<Vec<GlobalRank>, _> = labels
        .iter()
        .map(|label| label.parse().map(GlobalRank))
        .collect();
    match ranks {
        Ok(ranks) => rank_list("rank", &ranks),
        Err(_) => labels.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_files_are_named() {
        assert_eq!(cut_line(&[], true), "");
        for (labels, is_only, begin) in [
            (&["0"][..], true, "the device trace is truncated: the"),
            (&["3"], false, "the device trace of rank 3 is truncated: "),
            (
                &["0", "3"],
                false,
                "the device traces of ranks 0, 3 are truncated: ",
            ),
            (
                &["a.json"],
                false,
                "the device trace of a.json is truncated: ",
            ),
        ] {
            assert!(cut_line(labels, is_only).starts_with(begin), "{begin}");
        }
    }
}
