//! What the dependencies may be: `deny.toml`, held by cargo-deny.

use crate::support::{install_tool, repository_root, run_command};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

// Pinned: a later one may know further rules.
const CARGO_DENY: &str = "cargo-deny@0.20.2";

/// Builds cargo-deny into `target/tools` unless it is there, and runs it.
pub fn check_dependencies() -> Result<()> {
    let root = repository_root()?;
    let program = install_tool(CARGO_DENY)?;
    run_command(deny(&program, &root).args(["check", "licenses", "bans", "sources"]))?;
    // The list of vulnerabilities is a git repository, which not every machine may reach.
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
