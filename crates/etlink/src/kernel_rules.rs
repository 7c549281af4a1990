//! Rules for kernels, which `analyze` and `report` read from a file.

use anyhow::{Context, Result};
use etlink_analyze::KernelRules;
use etlink_run::storage;
use std::path::Path;

/// The built-in rules, after those of a file.
pub fn read_rules(path: Option<&Path>) -> Result<KernelRules> {
    let Some(path) = path else {
        return Ok(KernelRules::built_in()?);
    };
    // not read_to_string, whose error does not say where the text ends to be UTF-8
    let bytes = storage::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        anyhow::anyhow!(
            "{}: byte {} is no UTF-8; save the rules as UTF-8 text",
            path.display(),
            error.utf8_error().valid_up_to()
        )
    })?;
    KernelRules::with(&text).with_context(|| path.display().to_string())
}
