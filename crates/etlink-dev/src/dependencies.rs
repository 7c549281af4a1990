//! What the dependencies may be: `deny.toml`, held by cargo-deny.

use crate::support::{repository_root, run_command};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

// Pinned: a later one may know further rules.
const CARGO_DENY: &str = "cargo-deny@0.20.2";

/// Builds cargo-deny into `target/tools` unless it is there, and runs it.
pub fn check_dependencies() -> Result<()> {
    let root = repository_root()?;
    let tools = root.join("target/tools");
    let mut install = Command::new(env!("CARGO"));
    // a debug build is quicker to make, and the check takes a second all the same
    install
        .args([
            "install", "--quiet", "--locked", "--debug", CARGO_DENY, "--root",
        ])
        .arg(&tools)
        // settings of the workspace's folder are not for it
        .current_dir(tools_folder(&tools)?);
    run_command(&mut install)?;
    let program = tools.join("bin/cargo-deny");
    run_command(deny(&program, &root).args(["check", "licenses", "bans", "sources"]))?;
    // The list of vulnerabilities is a git repository, which not every machine may reach.
    let fetched = deny(&program, &root).args(["fetch", "db"]).output()?;
    if !fetched.status.success() {
        println!("vulnerabilities: not checked, their list cannot be reached");
        return Ok(());
    }
    run_command(deny(&program, &root).args(["check", "advisories"]))
}

/// The folder, made if it is not there.
fn tools_folder(tools: &Path) -> Result<&Path> {
    std::fs::create_dir_all(tools)?;
    Ok(tools)
}

fn deny(program: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root);
    command
}
