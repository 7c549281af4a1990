//! Texts for figures and names in messages and notes.

pub use etlink_model::time_text as time;
use etlink_model::{Anomalies, Severity};
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

/// Returns a number with its noun: `1 step`, `2 steps`.
pub fn count(number: impl Into<u64>, what: &str) -> String {
    let number = number.into();
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns the damage of a trace in one line; `None` if there is none.
pub fn damage(anomalies: &Anomalies) -> Option<String> {
    let damage = anomalies.diagnostics(Severity::Damage);
    let damage: Vec<String> = damage.map(|one| one.message).collect();
    (!damage.is_empty()).then(|| format!("damage: {}", damage.join("; ")))
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
