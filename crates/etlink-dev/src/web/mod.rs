//! Formats, lints and builds the page's script from its sources with node, and tests the page in a
//! browser.

mod browser;

pub use browser::chromium_path;

use crate::support::{repository_root, run_command};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Files that are built and committed.
const BUILT: [&str; 2] = ["page.js", "page.css"];

/// Builds the script and style sheet; with `check`, into a separate folder, for comparison with the
/// committed ones.
pub fn build_page(check: bool) -> Result<()> {
    let web = repository_root()?.join("crates/etlink-report/web");
    install_packages(&web)?;
    if check {
        // Quick checks first.
        npm_script(&web, "format:check")?;
        npm_script(&web, "lint")?;
    }
    let out = if check {
        repository_root()?.join("target/web")
    } else {
        web.join("dist")
    };
    let mut build = Command::new("npm");
    build
        .args([
            "run",
            "--silent",
            "build",
            "--",
            "--logLevel",
            "warn",
            // Vite empties a folder outside its own only with this option.
            "--emptyOutDir",
            "--outDir",
        ])
        .arg(&out);
    run_command(build.current_dir(&web))?;
    let compared: &[&str] = if check { &BUILT } else { &[] };
    for name in compared {
        let [fresh, committed] = [&out, &web.join("dist")].map(|folder| folder.join(name));
        if read_built(&fresh)? != read_built(&committed)? {
            bail!(
                "{} is not what its sources make: run `cargo dev web` and commit it",
                committed.display()
            );
        }
    }
    println!(
        "{}",
        if check {
            "web/dist is what its sources make"
        } else {
            "web/dist is built"
        }
    );
    Ok(())
}

fn read_built(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}

/// Installs the packages in a folder's package-lock.json.
pub fn install_packages(folder: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    // `ci` installs exactly the lock file's versions, or fails; `install` would rewrite the file.
    npm.args(["ci", "--no-audit", "--no-fund", "--loglevel", "error"])
        .current_dir(folder);
    run_command(&mut npm)
}

/// Runs a script in a folder's package.json.
fn npm_script(folder: &Path, name: &str) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args(["run", "--silent", name]).current_dir(folder);
    run_command(&mut npm).with_context(|| format!("`npm run {name}` in {}", folder.display()))
}
