//! The `etlink` that suites run.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names a built `etlink`, so that a suite does not build its own.
const VARIABLE: &str = "ETLINK";

/// The path of `etlink`: what the variable `ETLINK` names, else a debug build made now.
///
/// `.ci/run` sets the variable. `cargo test --workspace` has built the command by then, with the
/// features of the whole workspace; a build of one package has others and compiles anew.
pub fn etlink() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        let named = Path::new(&named);
        return named
            .canonicalize()
            .with_context(|| format!("{VARIABLE} names {}", named.display()));
    }
    let build = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "etlink"])
        .status()
        .context("cannot run cargo")?;
    let file_name = format!("etlink{}", std::env::consts::EXE_SUFFIX);
    let etlink = std::env::current_exe()?.with_file_name(file_name);
    if !build.success() || !etlink.is_file() {
        bail!("{} was not built", etlink.display());
    }
    Ok(etlink)
}
