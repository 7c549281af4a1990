//! Runs the recipes that record PyTorch, and links what they made.

use crate::binary;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that `test` records with, and the cases: one process, two ranks.
const TEST: [&str; 5] = ["--torch", "2.15.0", "--case", "mlp", "ddp2"];

/// Records into `out`, a folder relative to the repository.
pub fn record(out: &str, options: &[String]) -> Result<()> {
    let script = "crates/etlink-dev/recipes/record.py";
    run(Command::new("python3")
        .arg(script)
        .args(["--out", out])
        .args(options))
}

/// Records small runs and links them: every op has to be matched by its id, and the files checked.
pub fn test() -> Result<()> {
    let recorded = root().join("target/recorded");
    let linked = root().join("target/recorded-linked");
    for folder in [&recorded, &linked] {
        if folder.exists() {
            std::fs::remove_dir_all(folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
    }
    record("target/recorded", &TEST.map(String::from))?;
    let etlink = binary::etlink()?;
    run(Command::new(&etlink)
        .arg("merge")
        .arg(&recorded)
        .arg("-o")
        .arg(&linked)
        .arg("--strict"))?;
    run(Command::new(&etlink).arg("check").arg(&linked))?;
    println!("3 passed, 0 failed");
    Ok(())
}

/// Records programs with `etlink record` as users do.
pub fn test_torch(options: &[String]) -> Result<()> {
    with_etlink("test_torch.py", options)?;
    with_etlink("test_safety.py", options)
}

/// Measures steps under `etlink record`.
pub fn overhead(options: &[String]) -> Result<()> {
    with_etlink("overhead.py", options)
}

/// Runs a recipe that runs the command.
fn with_etlink(recipe: &str, options: &[String]) -> Result<()> {
    let etlink = binary::etlink()?;
    run(Command::new("python3")
        .arg(format!("crates/etlink-dev/recipes/{recipe}"))
        .arg("--etlink")
        .arg(etlink)
        .args(options))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}
