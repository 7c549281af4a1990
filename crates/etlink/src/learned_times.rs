//! Files with times of ops on devices.

use crate::kernel_rules::file_text;
use anyhow::{Context, Result};
use etlink_analysis::predict::LearnedTimes;
use std::path::Path;

/// Reads a file of learned times.
///
/// # Errors
/// The file cannot be read, or is no such file.
pub fn read_learned(path: &Path) -> Result<LearnedTimes> {
    let text = file_text(path)?;
    LearnedTimes::from_text(&text).with_context(|| path.display().to_string())
}
