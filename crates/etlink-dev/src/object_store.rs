//! Tests URLs against an S3 server on this machine: moto, from PyPI.

use crate::support::{etlink_path, repository_root, run_command};
use crate::wheel::VirtualEnv;
use anyhow::{Context, Result};
use etlink_dev::generate::ranks::{ScenarioSettings, write_run};
use std::path::Path;

/// The server; pinned, so that a failure of the suite is due to our change and not the server's.
pub(crate) const SERVER: &str = "moto[server]==5.2.5";
const PACKAGES: [&str; 2] = [SERVER, "pytest==9.2.0"];

/// Ranks and repetitions of the small run; the large run has files that are uploaded in parts.
const SMALL: (usize, u32) = (8, 1);
const LARGE: (usize, u32) = (2, 70);

/// Generates the traces, and runs the tests.
pub fn test_object_store() -> Result<()> {
    let root = repository_root()?;
    let folder = root.join("target/object-store");
    let traces = folder.join("traces");
    // recreated, because an earlier version may have made different ones
    if traces.is_dir() {
        std::fs::remove_dir_all(&traces).with_context(|| traces.display().to_string())?;
    }
    write_ranks(&root, SMALL, &traces.join("small"))?;
    write_ranks(&root, LARGE, &traces.join("large"))?;
    let env = VirtualEnv::make(folder.join("env"), &PACKAGES)?;
    let mut pytest = env.module("pytest");
    pytest
        .arg("tests/object_store")
        // the server logs a line per request
        .args(["-q", "--show-capture=no", "-p", "no:cacheprovider"])
        .current_dir(&root)
        .env("ETLINK", etlink_path()?)
        .env("ETLINK_TRACES", &traces);
    run_command(&mut pytest)
}

fn write_ranks(root: &Path, (ranks, windows): (usize, u32), folder: &Path) -> Result<()> {
    let scenario = ScenarioSettings {
        ranks,
        skew_ns: 5_000_000,
        drift_ppb: 0,
        jitter_ns: 20_000,
        late: None,
        seed: 1,
    };
    let recorded = root.join("testdata/pairs/ddp2-2.15.0");
    write_run(
        &recorded.join("torch_et_0.json.gz"),
        &recorded.join("kineto_trace_0.json.gz"),
        windows,
        &scenario,
        folder,
    )?;
    Ok(())
}
