//! Axes along which a model is split, in names of files and folders.

use std::collections::BTreeMap;

/// Axes along which a model is split, from the innermost: consecutive ranks share a tensor-parallel
/// group. Megatron-LM, vLLM and SGLang agree on tensor-parallel groups, but not on the next axes.
pub(super) const AXES: [&str; 6] = ["tp", "cp", "ep", "dp", "pp", "dcp"];

/// Returns a rank's places along axes: `TP-1-PP-0`, `dp0_pp1_tp0`, `tp_rank_01_pp_rank_000`. The
/// numbers of Megatron-LM's `mp_rank_01_000_002` are those of TP, PP and EP.
pub(super) fn places(name: &str) -> BTreeMap<&'static str, i64> {
    let lower = name.to_lowercase();
    let mut found = BTreeMap::new();
    for axis in AXES {
        for (at, _) in lower.match_indices(axis) {
            if lower[..at].ends_with(|c: char| c.is_ascii_alphanumeric()) {
                continue;
            }
            let rest = lower[at + axis.len()..].trim_start_matches(SEPARATORS);
            let rest = rest.trim_start_matches("rank");
            if let Some((place, _)) = leading_number(rest.trim_start_matches(SEPARATORS)) {
                found.insert(axis, place);
            }
        }
    }
    let mut rest = lower.find("mp_rank").map_or("", |at| &lower[at + 7..]);
    for axis in ["tp", "pp", "ep"] {
        let Some((place, behind)) = rest.strip_prefix('_').and_then(leading_number) else {
            break;
        };
        found.insert(axis, place);
        rest = behind;
    }
    found
}

/// Characters between the name of an axis and its number.
const SEPARATORS: [char; 4] = ['-', '_', '[', '='];

/// Splits off the digits at the beginning of a text.
fn leading_number(text: &str) -> Option<(i64, &str)> {
    let behind = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = text[..text.len() - behind.len()].parse().ok()?;
    Some((number, behind))
}

/// Returns true if a text ends in the name of an axis, so that a following `rank` is the place
/// along it: `tp_`, `mp_`.
pub(super) fn ends_in_axis(text: &str) -> bool {
    let mut words = text.rsplit(|c: char| !c.is_ascii_alphanumeric());
    let last = words.find(|word| !word.is_empty());
    last.is_some_and(|last| last == "mp" || AXES.contains(&last))
}
