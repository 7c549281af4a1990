//! What an earlier run left in the folder of a run.

use super::{MergeOptions, simulator};
use crate::file_error::{FileAction, FileContext};
use crate::graphs::prefix_and_rank;
use crate::output::{OutputError, OutputFormat};
use crate::{Progress, input};
use etlink_chakra::astra::file;
use memchr::memmem;
use std::io::Read;
use std::path::Path;

/// Both formats say within this who wrote them.
const HEAD_BYTES: u64 = 4096;

/// Names of the files that go when a run replaces an earlier one as a whole.
#[derive(Debug, Default)]
pub(super) struct EarlierFiles {
    /// One for each rank, or the one of all.
    pub(super) ranks: Vec<String>,
    /// The list of process groups.
    pub(super) groups: Option<String>,
    /// What only a simulator reads.
    pub(super) simulator: Vec<String>,
}

impl EarlierFiles {
    /// Looks for them; `name` is what files of ranks begin with, `timeline` the file of all ranks.
    ///
    /// # Errors
    /// If a file is named like one of a rank, but is not ours.
    pub(super) fn find(
        options: &MergeOptions,
        folder: &Path,
        name: &str,
        timeline: Option<&str>,
    ) -> Result<EarlierFiles, OutputError> {
        let mut earlier = EarlierFiles::default();
        for entry in std::fs::read_dir(folder).with_path(FileAction::ReadFolder, folder)? {
            let path = entry.with_path(FileAction::ReadFolder, folder)?.path();
            let file_name = path.file_name().and_then(|name| name.to_str());
            let Some(file_name) = file_name.filter(|_| path.is_file()) else {
                continue;
            };
            if timeline == Some(file_name) {
                earlier.ranks.push(file_name.to_owned());
            // other formats have no list of groups: one that lies there is of somebody else
            } else if options.is_et() && file_name == file::GROUPS {
                earlier.groups = Some(file_name.to_owned());
            } else if is_of_rank(options, &path, file_name, name) {
                // traces of that name may lie there, and nobody takes them for ranks of this set
                if !options.is_et() && !is_ours(&path) {
                    continue;
                }
                if !is_ours(&path) {
                    return Err(OutputError::NotOurs { path });
                }
                earlier.ranks.push(file_name.to_owned());
            }
        }
        // folders are listed in any order, and a message names the first
        earlier.ranks.sort();
        if options.is_et() {
            earlier.simulator = simulator::earlier_files(folder)?;
        }
        Ok(earlier)
    }
}

fn is_of_rank(options: &MergeOptions, path: &Path, file_name: &str, name: &str) -> bool {
    match options.format {
        OutputFormat::Chakra => {
            // what is written here is never packed: a packed file is somebody's copy
            path.extension().is_some_and(|ending| ending == "et")
                && prefix_and_rank(path).is_some_and(|(prefix, _)| prefix.ends_with(name))
        }
        OutputFormat::EtPlus => file_name
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".json.gz")),
        OutputFormat::Chrome | OutputFormat::Perfetto => false,
    }
}

/// Whether etlink wrote a graph: `.et` says it in its first message, merged JSON before its nodes.
fn is_ours(path: &Path) -> bool {
    let Ok(input) = input::open(path, 1, &Progress::hidden()) else {
        return false;
    };
    let mut head = vec![];
    // what is cut says it too
    drop(input.content.take(HEAD_BYTES).read_to_end(&mut head));
    // two marks: `etlink ` alone may be a name in anybody's trace
    let has = |mark: &str| memmem::find(&head, mark.as_bytes()).is_some();
    has("etlink ") && (has("writer") || has("linked_by"))
}
