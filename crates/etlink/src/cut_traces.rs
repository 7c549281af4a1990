//! What figures lack whose device traces are cut.

use etlink_link::ranks::rank_list;
use etlink_model::GlobalRank;

/// What is not counted, of one trace and of several.
#[derive(Clone, Copy)]
pub(crate) struct NotCounted {
    one: &'static str,
    several: &'static str,
}

/// Of how ranks waited for each other.
pub(crate) const NO_WAITS: NotCounted = NotCounted {
    one: "waits after its end are not counted",
    several: "waits after their ends are not counted",
};

/// Of anything else.
pub(crate) const NOTHING_LATER: NotCounted = NotCounted {
    one: "what came after its end is not counted",
    several: "what came after their ends is not counted",
};

/// A line that names the device traces that are cut, by the labels of their ranks; nothing where none
/// is. Of a single trace you know which one is meant.
pub(crate) fn cut_line(labels: &[&str], is_only_trace: bool, what: NotCounted) -> String {
    let NotCounted { one, several } = what;
    match labels {
        [] => String::new(),
        [_] if is_only_trace => format!("the device trace is cut: {one}\n"),
        [_] => format!("the device trace of {} is cut: {one}\n", names(labels)),
        _ => format!(
            "the device traces of {} are cut: {several}\n",
            names(labels)
        ),
    }
}

/// Ranks by their numbers, files by their names.
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
        let line = |labels: &[&str], is_only| cut_line(labels, is_only, NOTHING_LATER);
        assert_eq!(line(&[], true), "");
        assert!(line(&["0"], true).starts_with("the device trace is cut: what came"));
        assert!(line(&["3"], false).starts_with("the device trace of rank 3 is cut: "));
        assert!(line(&["0", "3"], false).starts_with("the device traces of ranks 0, 3 are cut: "));
        assert!(line(&["a.json"], false).starts_with("the device trace of a.json is cut: "));
    }
}
