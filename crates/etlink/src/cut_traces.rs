//! Notes on figures from device traces that are truncated or have invalid rows.

use etlink_link::ranks::rank_list;
use etlink_model::{Diagnostic, DiagnosticCode, GlobalRank, Severity, diagnostic};

/// Returns a line that names the truncated device traces by the labels of their ranks; empty if
/// there are none. A single trace is not named.
///
/// Kineto writes events by thread and kind, not by time: the missing part can be from any time of
/// the recording.
pub(crate) fn cut_line(labels: &[&str], is_only_trace: bool) -> String {
    let what = match labels {
        [] => return String::new(),
        [_] if is_only_trace => "the device trace".to_owned(),
        [_] => format!("the device trace of {}", names(labels)),
        _ => format!("each device trace of {}", names(labels)),
    };
    format!("{what} is truncated: the missing part, which may be from any time, is not counted\n")
}

/// Returns a line per kind of damage to device rows, from the diagnostics of ranks; printed before
/// all figures. A single trace is not named.
pub(crate) fn row_damage_lines<'d>(
    told: impl Iterator<Item = &'d Diagnostic>,
    is_only_trace: bool,
) -> String {
    let of_rows = told.filter(|one| match one.code {
        DiagnosticCode::Anomaly(kind) => one.severity == Severity::Damage && kind.is_of_rows(),
        _ => false,
    });
    let of_rows = of_rows.cloned().map(|one| one.named_if(!is_only_trace));
    let lines = Diagnostic::merge(of_rows).into_iter();
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns the fact that findings ignore ranks with truncated device traces, given by their labels.
pub(crate) fn findings_note(left_out: &[&str]) -> Option<Diagnostic> {
    (!left_out.is_empty()).then(|| {
        diagnostic!(
            FindingsIncomplete,
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
                "each device trace of ranks 0, 3 is truncated: ",
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
