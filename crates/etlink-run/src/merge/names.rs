//! What the files of ranks are called.
//!
//! `<name>.<rank>.et` is what simulators and etlink itself take for a rank of a run. So a rank that
//! is not joined with the others has a word in the name of its file, `<name>.<rank>.not_joined.et`,
//! which makes it no rank of the run for any of them.

use super::MergeOptions;
use crate::graphs::prefix_and_rank;
use crate::output::Packing;
use std::path::Path;

/// Stands before the ending of a file whose rank is not joined with the others.
const NOT_JOINED: &str = ".not_joined";

/// How names of ranks' files end.
const ENDINGS: [&str; 5] = [".et", ".et.gz", ".et.zst", ".json", ".json.gz"];

/// The file of a rank by its label; `name` is what the files of its run begin with.
pub(super) fn rank_file_name(
    name: &str,
    label: &str,
    options: &MergeOptions,
    is_joined: bool,
) -> String {
    let ending = if options.is_et() {
        format!(".et{}", options.packing.ending())
    } else {
        ".json.gz".to_owned()
    };
    let joined = format!("{name}.{label}{ending}");
    // the label of a rank that nothing tells is the name of a file, which nobody takes for a rank
    if is_joined || prefix_and_rank(Path::new(&joined)).is_none() {
        joined
    } else {
        format!("{name}.{label}{NOT_JOINED}{ending}")
    }
}

/// The name that a file would have if its rank was joined; `None` of one that has no such word.
pub(super) fn joined_name(file: &str) -> Option<String> {
    let (stem, ending) = split(file)?;
    let stem = stem.strip_suffix(NOT_JOINED)?;
    let joined = format!("{stem}{ending}");
    prefix_and_rank(Path::new(&joined)).map(|_| joined)
}

/// The other name that the file of a rank can have: of one that is joined, and of one that is not.
pub(super) fn other_name(file: &str) -> Option<String> {
    if let Some(joined) = joined_name(file) {
        return Some(joined);
    }
    let (stem, ending) = split(file)?;
    prefix_and_rank(Path::new(file)).map(|_| format!("{stem}{NOT_JOINED}{ending}"))
}

/// All names that the file of a rank can have, this one among them: packed or not, joined or not.
pub(super) fn all_names(file: &str) -> Vec<String> {
    let packings = [Packing::Plain, Packing::Gzip, Packing::Zstd];
    let (_, plain) = Packing::of_name(file);
    let names = std::iter::once(plain.to_owned()).chain(other_name(plain));
    let packed = |name: String| packings.map(|packing| format!("{name}{}", packing.ending()));
    names.flat_map(packed).collect()
}

fn split(file: &str) -> Option<(&str, &str)> {
    ENDINGS
        .into_iter()
        .find_map(|ending| Some((file.strip_suffix(ending)?, ending)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::OutputFormat;

    #[test]
    fn a_rank_that_is_not_joined_has_a_name_that_nobody_takes_for_one() {
        let merged = MergeOptions {
            format: OutputFormat::EtPlus,
            ..MergeOptions::default()
        };
        let packed = MergeOptions {
            packing: Packing::Zstd,
            ..MergeOptions::default()
        };
        for (options, label, joined, not_joined) in [
            (
                MergeOptions::default(),
                "2",
                "run.2.et",
                "run.2.not_joined.et",
            ),
            (packed, "2", "run.2.et.zst", "run.2.not_joined.et.zst"),
            (merged, "2", "run.2.json.gz", "run.2.not_joined.json.gz"),
            // a word already, and a number that a reader would take for a rank
            (
                MergeOptions::default(),
                "device_1",
                "run.device_1.et",
                "run.device_1.et",
            ),
            (
                MergeOptions::default(),
                "kt.1",
                "run.kt.1.et",
                "run.kt.1.not_joined.et",
            ),
        ] {
            assert_eq!(rank_file_name("run", label, &options, true), joined);
            assert_eq!(rank_file_name("run", label, &options, false), not_joined);
            assert!(
                prefix_and_rank(Path::new(not_joined)).is_none(),
                "{not_joined}"
            );
            if joined != not_joined {
                assert_eq!(joined_name(not_joined).as_deref(), Some(joined));
                assert_eq!(other_name(joined).as_deref(), Some(not_joined));
                assert_eq!(other_name(not_joined).as_deref(), Some(joined));
                let names = all_names(not_joined);
                assert!(names.iter().any(|name| name == joined), "{names:?}");
                assert_eq!(names.len(), all_names(joined).len());
            }
            assert_eq!(joined_name(joined), None);
        }
        for other in ["README.md", "run.not_joined.et", "run.x.not_joined.et"] {
            assert_eq!(joined_name(other), None, "{other}");
        }
    }
}
