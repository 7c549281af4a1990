//! The ranks from `.et` files.

use super::Fleet;
use crate::progress::Progress;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// The `.et` files of a folder that has no traces, with their ranks.
pub(super) fn find(_dir: &Path) -> Result<Option<Vec<(i64, PathBuf)>>> {
    Ok(None)
}

/// Reads them.
pub(super) fn read(dir: &Path, _files: &[(i64, PathBuf)], _progress: &Progress) -> Result<Fleet> {
    bail!("{}", dir.display())
}
