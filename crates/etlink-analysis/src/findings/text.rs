//! Names and figures in sentences.

/// Formats a time with three digits, in the unit that fits it.
pub(crate) fn time_text(ns: i64) -> String {
    let (value, unit) = match ns.unsigned_abs() {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = match value.abs() {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

/// Formats a share in percent.
pub(crate) fn percent_text(share: f64) -> String {
    debug_assert!(share <= 1.0 + 1e-9, "{share} of a whole");
    let percent = 100.0 * share;
    match percent.abs() {
        small if small < 9.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// Formats a count of something, with a plural if needed.
pub(crate) fn count_text(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Maximum length of a name in a sentence: kernel names can fill screens.
const MOST_LETTERS: usize = 60;

/// Shortens a name for a sentence, without control characters.
pub(crate) fn short_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    // The return type and the parameters of a demangled name do not help to identify it.
    let plain = plain.strip_prefix("void ").unwrap_or(&plain);
    if plain.chars().count() <= MOST_LETTERS {
        return plain.to_owned();
    }
    let head: String = plain.chars().take(MOST_LETTERS - 1).collect();
    head + "…"
}

/// Returns the sum of times, saturating for damaged traces.
pub(crate) fn sum_ns(values: impl IntoIterator<Item = i64>) -> i64 {
    values.into_iter().fold(0, i64::saturating_add)
}

/// Returns the mean; 0 for an empty list.
pub(crate) fn mean_ns(values: &[i64]) -> i64 {
    let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
    let mean = sum / values.len().max(1) as i128;
    i64::try_from(mean).unwrap_or(i64::MAX)
}
