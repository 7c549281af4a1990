//! Opens pages in a headless browser, as users do.
//!
//! `tests/browser` has the tests; here is what they need: Chromium (Debian's, installed where it is
//! not there and may be), Playwright's driver from npm, pages of recorded and drawn traces, and
//! what `etlink analyze` and `etlink ranks` say of the same traces.

use super::{drawn, install, ran, root};
use crate::binary;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs `tests/browser`.
pub fn run() -> Result<()> {
    let (root, browser) = (root()?, browser()?);
    let (tests, folder) = (root.join("tests/browser"), root.join("target/browser"));
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    install(&tests)?;
    let etlink = binary::etlink()?;
    let mut pages = drawn::traces(&folder.join("traces"))?;
    pages.push((
        "recorded".to_owned(),
        root.join("testdata/pairs/tpdp4-2.15.0"),
    ));
    let written = folder.join("traces/written");
    ran(Command::new(&etlink)
        .args(["merge", "--overwrite", "-o"])
        .arg(&written)
        .arg(folder.join("traces/devices"))
        .stdout(std::process::Stdio::null()))?;
    pages.push(("written".to_owned(), written));
    for (name, traces) in &pages {
        page(&etlink, &folder, name, traces)?;
    }
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter", "spec"])
        .arg(tests.join("page.test.mjs"))
        .env("BROWSER", browser)
        .env("PAGES", &folder);
    ran(&mut node)
}

/// `NAME.html`, and what the other commands say, as `NAME.COMMAND.json`.
fn page(etlink: &Path, folder: &Path, name: &str, traces: &Path) -> Result<()> {
    let page = folder.join(format!("{name}.html"));
    ran(Command::new(etlink)
        .args(["report", "--overwrite", "-o"])
        .arg(page)
        .arg(traces))?;
    // ranks are compared by their traces
    let ranks = [("ranks", &["ranks"][..])]
        .into_iter()
        .filter(|_| traces.is_dir() && name != "written");
    let analyses = [
        ("analyze", &["analyze"][..]),
        ("memory", &["analyze", "--table", "memory_timeline"]),
    ];
    for (command, arguments) in analyses.into_iter().chain(ranks) {
        let mut said = Command::new(etlink);
        let output = said.args(arguments).arg("--json").arg(traces).output()?;
        if !output.status.success() {
            bail!(
                "{said:?}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let path = folder.join(format!("{name}.{command}.json"));
        std::fs::write(&path, output.stdout).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The installed browser.
fn browser() -> Result<PathBuf> {
    if let Some(found) = find() {
        return Ok(found);
    }
    println!("installing chromium");
    let apt = |arguments: &[&str]| {
        Command::new("apt-get")
            .args(arguments)
            .args(["-qq", "-y"])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status()
    };
    let installed = apt(&["update"])
        .and_then(|_| apt(&["install", "--no-install-recommends", "chromium"]))
        .is_ok_and(|status| status.success());
    match find().filter(|_| installed) {
        Some(found) => Ok(found),
        None => bail!(
            "there is no chromium, and apt-get could not install it: install Chromium and put it on PATH"
        ),
    }
}

fn find() -> Option<PathBuf> {
    let folders = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.iter().find_map(|name| {
        folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    })
}
