//! Tests the order of tracks in Perfetto's user interface, which differs from the engine's tables.
//! `tests/browser/perfetto.test.mjs` opens a timeline there and reads its list of tracks.

use super::{PerfettoTools, drawn, run_silently};
use crate::support::{repository_root, run_command};
use crate::web::{chromium_path, install_packages};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the test, and leaves a picture in `target/perfetto`.
pub(super) fn test_interface(tools: &PerfettoTools) -> Result<()> {
    let run = drawn::draw_many_ranks(&tools.folder)?;
    let output = tools.folder.join("drawn_ranks_timeline");
    run_silently(
        Command::new(&tools.etlink)
            .args(["merge", "--overwrite", "--format", "perfetto", "-o"])
            .arg(&output)
            .arg(&run),
    )?;
    let tests = test_folder(&tools.folder)?;
    let interface = tools.reader.interface_path();
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter", "spec"])
        .arg(tests.join("perfetto.test.mjs"))
        .env("BROWSER", chromium_path()?)
        .env("INTERFACE", interface.context("the engine has no folder")?)
        .env("TIMELINE", output.join("timeline.pftrace.gz"))
        .env("PICTURE", tools.folder.join("interface.png"));
    run_command(&mut node)
}

/// Copies the test with its packages, because `cargo dev browser` may install them next to the
/// original at the same time.
fn test_folder(folder: &Path) -> Result<PathBuf> {
    let (from, to) = (
        repository_root()?.join("tests/browser"),
        folder.join("browser"),
    );
    std::fs::create_dir_all(&to).with_context(|| to.display().to_string())?;
    for name in ["package.json", "package-lock.json", "perfetto.test.mjs"] {
        std::fs::copy(from.join(name), to.join(name)).with_context(|| name.to_owned())?;
    }
    install_packages(&to)?;
    Ok(to)
}
