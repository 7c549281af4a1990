//! Checks the dependencies against `deny.toml` with cargo-deny.

use crate::support::{install_tool, repository_root, run_command};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

// Pinned, because a later version may have new rules.
const CARGO_DENY: &str = "cargo-deny@0.20.2";

/// Builds cargo-deny into `target/tools`, unless it is there, and runs it.
pub fn check_dependencies() -> Result<()> {
    let root = repository_root()?;
    let program = install_tool(CARGO_DENY)?;
    run_command(deny(&program, &root).args(["check", "licenses", "bans", "sources"]))?;
    // The list of vulnerabilities is a git repository, which may be unreachable.
    let fetched = deny(&program, &root).args(["fetch", "db"]).output()?;
    if !fetched.status.success() {
        println!("vulnerabilities: not checked, their list cannot be reached");
        return Ok(());
    }
    run_command(deny(&program, &root).args(["check", "advisories"]))
}

fn deny(program: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root);
    command
}
