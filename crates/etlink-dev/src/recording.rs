//! Runs the recipes that record PyTorch, and links their recordings.

use crate::support::{UV_VARIABLE, etlink_path, repository_root, run_command, uv_path};
use anyhow::{Context, Result};
use std::process::Command;

/// Version and cases of the test recording: one process, two ranks.
const TEST: [&str; 5] = ["--torch", "2.15.0", "--case", "mlp", "ddp2"];

/// Records into `out`, a folder relative to the repository.
pub fn record_traces(out: &str, options: &[String]) -> Result<()> {
    let mut python = recipe_command("record.py")?;
    run_command(python.args(["--out", out]).args(options))
}

/// Records small runs and links them: every op must be matched by its id, and the files are
/// checked.
pub fn test_recording() -> Result<()> {
    let root = repository_root()?;
    let recorded = root.join("target/recorded");
    let linked = root.join("target/recorded-linked");
    // Files of an earlier run would be linked as further ranks.
    for folder in [&recorded, &linked] {
        if folder.exists() {
            std::fs::remove_dir_all(folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
    }
    record_traces("target/recorded", &TEST.map(String::from))?;
    let etlink = etlink_path()?;
    let mut merge = Command::new(&etlink);
    merge.arg("merge").arg(&recorded);
    merge.arg("-o").arg(&linked).arg("--strict");
    run_command(&mut merge)?;
    run_command(Command::new(&etlink).arg("check").arg(&linked))?;
    // Same format as the other suites: recording, linking and checking are one test each.
    println!("3 passed, 0 failed");
    Ok(())
}

/// Records programs with `etlink record`, as users do.
pub fn test_torch(options: &[String]) -> Result<()> {
    run_with_etlink("suites.py", options)
}

/// Measures the duration of steps under `etlink record`.
pub fn measure_overhead(options: &[String]) -> Result<()> {
    run_with_etlink("overhead.py", options)
}

/// Runs a recipe that uses the command.
fn run_with_etlink(recipe: &str, options: &[String]) -> Result<()> {
    let etlink = etlink_path()?;
    let mut python = recipe_command(recipe)?;
    run_command(python.arg("--etlink").arg(etlink).args(options))
}

/// Returns a Python command for a recipe, in the repository, where recipes look for their
/// environments.
fn recipe_command(recipe: &str) -> Result<Command> {
    let mut python = Command::new("python3");
    python.arg(format!("crates/etlink-dev/recipes/{recipe}"));
    python.env(UV_VARIABLE, uv_path()?);
    python.current_dir(repository_root()?);
    Ok(python)
}
