//! Folder of a run that is generated instead of recorded. Replaces an earlier run of the same name
//! as a whole, and leaves foreign files alone.

use crate::error::RunError;
use crate::merge::{EarlierFiles, MergeOptions};
use crate::output::FileSet;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Destination and form of a generated run.
pub(crate) struct MadeRun<'p> {
    /// Folder of the run, which is created.
    pub(crate) folder: &'p Path,
    /// Prefix of the ranks' files.
    pub(crate) name: &'p str,
    /// Form of the files, as in `merge`: only ranks, or also the files of a simulation.
    pub(crate) options: MergeOptions,
}

impl MadeRun<'_> {
    /// Calls `fill` to write the files, and puts all of them in place, or none.
    ///
    /// # Errors
    /// Returns the errors of `fill`. Fails if the folder cannot be written, or a foreign file would
    /// be removed.
    pub(crate) fn write<T>(
        &self,
        fill: impl FnOnce(&FileSet) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        write_set(self.folder, self.options.overwrite, |files| {
            let earlier = self.earlier_files()?;
            let value = fill(files)?;
            let stale = earlier.into_iter().filter(|name| !files.has(name));
            Ok((value, stale.collect()))
        })
    }

    /// Returns the names of files from an earlier run of this name.
    fn earlier_files(&self) -> Result<Vec<String>, RunError> {
        let options = &self.options;
        if !options.overwrite {
            return Ok(vec![]);
        }
        // ranks alone have no list of groups: an existing list stays
        let is_alone = options.simulator.is_none();
        let none = BTreeSet::new();
        let earlier = EarlierFiles::find(options, self.folder, self.name, &none, is_alone)?;
        let mut names = earlier.ranks;
        names.extend(earlier.not_joined);
        if !is_alone {
            names.extend(earlier.groups);
            names.extend(earlier.simulator);
        }
        Ok(names)
    }
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
