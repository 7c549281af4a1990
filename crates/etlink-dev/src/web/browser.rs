//! Prepares a headless browser: Chromium (Debian's, installed if it is missing and permitted).

use crate::support::run_command;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

/// Returns the path of the browser; installs it if it is missing.
pub fn chromium_path() -> Result<PathBuf> {
    // Two suites may run in parallel: the second waits until the first has finished installing.
    let lock = std::env::temp_dir().join("etlink-chromium.lock");
    let lock = File::create(&lock).with_context(|| lock.display().to_string())?;
    lock.lock().context("the lock of the installation")?;
    if let Some(found) = installed_browser() {
        return Ok(found);
    }
    println!("installing chromium");
    let installed = run_apt_get(&["update"])
        .and_then(|()| run_apt_get(&["install", "--no-install-recommends", "chromium"]));
    match installed_browser() {
        Some(found) if installed.is_ok() => Ok(found),
        _ => bail!(
            "there is no chromium, and apt-get could not install it: install Chromium and put it \
             on PATH"
        ),
    }
}

fn run_apt_get(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(arguments).args(["-qq", "-y"]);
    // otherwise a package with a question would wait for an answer
    run_command(command.env("DEBIAN_FRONTEND", "noninteractive"))
}

fn installed_browser() -> Option<PathBuf> {
    let folders = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    // Debian, Ubuntu and Google have different names for the same browser.
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.iter().find_map(|name| {
        folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    })
}
