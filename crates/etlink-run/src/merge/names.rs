//! Names of ranks' files.
//!
//! Simulators and etlink take `<name>.<rank>.et` for a rank of a run. A rank that is not joined
//! with the others is written to `<name>.<rank>.not_joined.et`, which none of them takes for a
//! rank.

use super::MergeOptions;
use crate::graphs::prefix_and_rank;
use crate::output::Packing;
use std::path::Path;

/// Word before the ending of a file whose rank is not joined with the others.
const NOT_JOINED: &str = ".not_joined";

/// Endings of ranks' files.
const ENDINGS: [&str; 5] = [".et", ".et.gz", ".et.zst", ".json", ".json.gz"];

/// Returns the file name of a rank from its label; `name` is the prefix of the run's files.
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
    // the label of an unknown rank is a file name, which no reader takes for a rank
    if is_joined || prefix_and_rank(Path::new(&joined)).is_none() {
        joined
    } else {
        format!("{name}.{label}{NOT_JOINED}{ending}")
    }
}

/// Returns the file name without the word for unjoined ranks; `None` if it has no such word.
pub(super) fn joined_name(file: &str) -> Option<String> {
    let (stem, ending) = split(file)?;
    let stem = stem.strip_suffix(NOT_JOINED)?;
    let joined = format!("{stem}{ending}");
    prefix_and_rank(Path::new(&joined)).map(|_| joined)
}

/// Returns the other possible name of a rank's file: the unjoined one for a joined rank, or the
/// reverse.
pub(super) fn other_name(file: &str) -> Option<String> {
    if let Some(joined) = joined_name(file) {
        return Some(joined);
    }
    let (stem, ending) = split(file)?;
    prefix_and_rank(Path::new(file)).map(|_| format!("{stem}{NOT_JOINED}{ending}"))
}

/// Returns all possible names of a rank's file, including this one: packed or not, joined or not.
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
            // an existing word, followed by a number that a reader would take for a rank
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
