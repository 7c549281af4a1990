//! Opens pages in a headless browser, as users do.
//!
//! `tests/browser` contains the tests; this module prepares what they need: Chromium (Debian's,
//! installed if it is missing and permitted), Playwright's driver from npm, pages of recorded and
//! generated traces, and the output of `etlink analyze` and `etlink ranks` for the same traces.

use super::install_packages;
use crate::drawn;
use crate::support::{etlink_path, repository_root, run_command};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs `tests/browser`.
pub fn test_page() -> Result<()> {
    let (root, browser) = (repository_root()?, chromium_path()?);
    let (tests, folder) = (root.join("tests/browser"), root.join("target/browser"));
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    install_packages(&tests)?;
    let etlink = etlink_path()?;
    let mut pages = drawn::draw_traces(&folder.join("traces"))?;
    pages.push((
        "recorded".to_owned(),
        root.join("testdata/pairs/tpdp4-2.15.0"),
    ));
    // Written graphs have a page too, from nothing but `.et` files.
    let written = folder.join("traces/written");
    run_command(
        Command::new(&etlink)
            .args(["merge", "--overwrite", "-o"])
            .arg(&written)
            .arg(folder.join("traces/devices"))
            // Its report would mix with the results of the tests.
            .stdout(std::process::Stdio::null()),
    )?;
    pages.push(("written".to_owned(), written));
    for (name, traces) in &pages {
        write_page(&etlink, &folder, name, traces)?;
    }
    write_compared_page(&etlink, &folder, &root.join("testdata/pairs"))?;
    write_simulated_page(&etlink, &folder, &root.join("testdata"))?;
    let mut node = Command::new("node");
    // Older versions of Node print TAP if there is no terminal.
    node.args(["--test", "--test-reporter", "spec"])
        .arg(tests.join("page.test.mjs"))
        .env("BROWSER", browser)
        .env("PAGES", &folder);
    run_command(&mut node)
}

/// Writes `NAME.html`, and the output of other commands as `NAME.COMMAND.json`.
fn write_page(etlink: &Path, folder: &Path, name: &str, traces: &Path) -> Result<()> {
    let page = folder.join(format!("{name}.html"));
    run_command(
        Command::new(etlink)
            .args(["report", "--overwrite", "-o"])
            .arg(page)
            .arg(traces),
    )?;
    let mut analyses = vec![
        ("analyze", &["analyze"][..]),
        ("memory", &["analyze", "--table", "memory_timeline"]),
    ];
    // a written graph has slices of ops, which form no tree
    if name != "written" {
        analyses.push(("tree", &["top", "--tree"]));
        analyses.push(("frames", &["top", "--tree", "--python"]));
        // ranks are compared by their traces, and the findings of a folder cover all ranks
        if traces.is_dir() {
            analyses.push(("ranks", &["ranks"]));
            analyses.push(("findings", &["findings"]));
        }
    }
    for (command, arguments) in analyses {
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

/// Writes `compared.html` for two runs, and `compared.diff.json`.
fn write_compared_page(etlink: &Path, folder: &Path, pairs: &Path) -> Result<()> {
    let runs = ["transformer-2.3.1", "transformer-2.15.0"].map(|run| pairs.join(run));
    let page = folder.join("compared.html");
    run_command(
        Command::new(etlink)
            .args(["report", "--overwrite", "-o"])
            .arg(page)
            .args(&runs),
    )?;
    let diff = Command::new(etlink)
        .args(["diff", "--json"])
        .args(&runs)
        .output()?;
    let path = folder.join("compared.diff.json");
    std::fs::write(&path, diff.stdout).with_context(|| path.display().to_string())
}

/// Writes `simulated.html` for a run with a simulation, and `simulated.compared.json`.
fn write_simulated_page(etlink: &Path, folder: &Path, testdata: &Path) -> Result<()> {
    let traces = testdata.join("pairs/tpdp4-2.15.0");
    let log = testdata.join("simulated/tpdp4-2.15.0/log.log");
    let graphs = folder.join("traces/simulated");
    let mut merge = Command::new(etlink);
    merge.args([
        "-q",
        "merge",
        "--overwrite",
        "--for",
        "astra-sim",
        "--comm-only",
    ]);
    merge.arg(&traces).arg("-o").arg(&graphs);
    run_command(merge.stdout(std::process::Stdio::null()))?;
    let page = folder.join("simulated.html");
    let mut report = Command::new(etlink);
    report.args(["report", "--overwrite", "-o"]).arg(page);
    report.arg(&traces).arg("--simulated").arg(&log);
    run_command(report.arg("--graphs").arg(&graphs))?;
    let mut simulated = Command::new(etlink);
    simulated.args(["simulated", "--json"]).arg(log);
    simulated.arg("--against").arg(traces);
    let said = simulated.arg("--graphs").arg(graphs).output()?;
    let path = folder.join("simulated.compared.json");
    std::fs::write(&path, said.stdout).with_context(|| path.display().to_string())
}

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
