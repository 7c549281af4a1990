//! Folder of a run that is generated instead of recorded. Replaces an earlier run of the same name
//! as a whole, and leaves foreign files alone.

use crate::error::RunError;
use crate::merge::{EarlierFiles, MergeOptions};
use crate::output::FileSet;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Calls `fill` to write the files of the run `name` into `folder`, which is created, and puts all of
/// them in place, or none. `options` state their form, as in `merge`: only ranks, or also the files of
/// a simulation.
///
/// # Errors
/// Returns the errors of `fill`. Fails if the folder cannot be written, or a foreign file would be
/// removed.
pub(crate) fn write_made_run<T>(
    folder: &Path,
    name: &str,
    options: &MergeOptions,
    fill: impl FnOnce(&FileSet) -> Result<T, RunError>,
) -> Result<T, RunError> {
    write_set(folder, options.overwrite, |files| {
        let mut stale = vec![];
        if options.overwrite {
            // ranks alone have no list of groups: an existing list stays
            let is_alone = options.simulator.is_none();
            let none = BTreeSet::new();
            let earlier = EarlierFiles::find(options, folder, name, &none, is_alone)?;
            stale.extend(earlier.ranks);
            stale.extend(earlier.not_joined);
            if !is_alone {
                stale.extend(earlier.groups);
                stale.extend(earlier.simulator);
            }
        }
        let value = fill(files)?;
        stale.retain(|name| !files.has(name));
        Ok((value, stale))
    })
}

/// Calls `fill` to write files into `folder`, and puts them in place. `fill` also returns the names
/// of earlier files to remove. If it fails, removes a folder created for the set.
///
/// # Errors
/// Returns the errors of `fill`. Fails if the folder cannot be written.
pub(crate) fn write_set<T>(
    folder: &Path,
    overwrite: bool,
    fill: impl FnOnce(&FileSet) -> Result<(T, Vec<String>), RunError>,
) -> Result<T, RunError> {
    let files = FileSet::new(folder, overwrite)?;
    let made: Vec<PathBuf> = files.made_folders().to_vec();
    let written = fill(&files).and_then(|(value, stale)| {
        files.replace(stale)?;
        Ok(value)
    });
    // its work folder is inside them
    drop(files);
    if written.is_err() {
        for folder in made {
            // fails for folders with files: removes only the empty ones
            drop(std::fs::remove_dir(folder));
        }
    }
    written
}
