//! Rules for kernels, which `analyze` and `report` read from a file.

use anyhow::{Context, Result};
use etlink_analysis::KernelRules;
use etlink_run::storage;
use std::path::Path;

/// Kernel rules, and the text of those read from a file.
pub struct ReadRules {
    pub rules: KernelRules,
    pub text: String,
}

/// Reads the rules of a file, followed by the built-in ones.
pub fn read_rules(path: Option<&Path>) -> Result<ReadRules> {
    let Some(path) = path else {
        return Ok(ReadRules {
            rules: KernelRules::built_in()?,
            text: String::new(),
        });
    };
    let text = file_text(path)?;
    let rules = KernelRules::with(&text).with_context(|| path.display().to_string())?;
    Ok(ReadRules { rules, text })
}

/// Reads a text file that an option names.
pub fn file_text(path: &Path) -> Result<String> {
    // not read_to_string, whose error does not show where invalid UTF-8 begins
    let bytes = storage::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    String::from_utf8(bytes).map_err(|error| {
        anyhow::anyhow!(
            "{}: byte {} is not UTF-8; save it as UTF-8 text",
            path.display(),
            error.utf8_error().valid_up_to()
        )
    })
}
