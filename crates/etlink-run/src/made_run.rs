//! The folder of a run that is made and not recorded: an earlier run of its name is replaced as a
//! whole, and files of somebody else are not touched.

use crate::error::RunError;
use crate::merge::{EarlierFiles, MergeOptions};
use crate::output::{FileSet, OutputError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where a run goes, and what of it.
pub(crate) struct MadeRun<'p> {
    /// Its folder, which is made.
    pub(crate) folder: &'p Path,
    /// What its ranks' files begin with.
    pub(crate) name: &'p str,
    /// What is written, as `merge` would write it: files of ranks alone, or with those of a
    /// simulator.
    pub(crate) options: MergeOptions,
}

impl MadeRun<'_> {
    /// Has `fill` write the files and puts them in place: all of them, or none.
    ///
    /// # Errors
    /// Those of `fill`, or the folder cannot be written, or a file would go that is not ours.
    pub(crate) fn write<T, E: From<RunError>>(
        &self,
        fill: impl FnOnce(&FileSet) -> Result<T, E>,
    ) -> Result<T, E> {
        write_set(self.folder, self.options.overwrite, |files| {
            let earlier = self.earlier_files().map_err(RunError::from)?;
            let value = fill(files)?;
            let stale = earlier.into_iter().filter(|name| !files.has(name));
            Ok((value, stale.collect()))
        })
    }

    /// Names of the files that an earlier run of this name left.
    fn earlier_files(&self) -> Result<Vec<String>, OutputError> {
        let options = &self.options;
        if !options.overwrite {
            return Ok(vec![]);
        }
        // files of ranks alone come without a list of groups: one that lies there stays
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

/// Has `fill` write files into `folder`, and puts them in place. It gives the names of earlier files
/// that go. A folder that was made for a set that failed is removed.
///
/// # Errors
/// Those of `fill`, or the folder cannot be written.
pub(crate) fn write_set<T, E: From<RunError>>(
    folder: &Path,
    overwrite: bool,
    fill: impl FnOnce(&FileSet) -> Result<(T, Vec<String>), E>,
) -> Result<T, E> {
    let files = FileSet::new(folder, overwrite).map_err(RunError::from)?;
    let made: Vec<PathBuf> = files.made_folders().to_vec();
    let written = fill(&files).and_then(|(value, stale)| {
        files.replace(stale).map_err(RunError::from)?;
        Ok(value)
    });
    // its work folder lies in them
    drop(files);
    if written.is_err() {
        for folder in made {
            // fails of a folder that has files: only an empty one goes
            drop(std::fs::remove_dir(folder));
        }
    }
    written
}
