//! Tests `etlink.ray` on a real cluster: Ray with two workers on this machine.

use crate::object_store::SERVER;
use crate::support::{repository_root, run_command};
use crate::wheel::install_into;
use anyhow::{Context, Result};
use etlink_dev::generate::ranks::{ScenarioSettings, write_run};

// Pinned, so that a failure of the suite is due to our change and not Ray's.
const PACKAGES: [&str; 4] = ["ray==2.60.0", "pytest==9.2.0", "psutil==7.2.2", SERVER];

/// 64 ranks on different clocks.
const SCENARIO: ScenarioSettings = ScenarioSettings {
    ranks: 64,
    skew_ns: 5_000_000,
    drift_ppb: 0,
    jitter_ns: 20_000,
    late: None,
    seed: 1,
};

/// Repetitions of the recorded window per trace.
const WINDOWS: u32 = 2;

/// Installs Ray and the wheel, generates the traces of 64 ranks, and runs the tests.
pub fn test_ray() -> Result<()> {
    let root = repository_root()?;
    let folder = root.join("target/ray");
    let traces = folder.join("traces");
    // recreated, because an earlier version may have made different ones
    if traces.is_dir() {
        std::fs::remove_dir_all(&traces).with_context(|| traces.display().to_string())?;
    }
    let recorded = root.join("testdata/pairs/ddp2-2.15.0");
    write_run(
        &recorded.join("torch_et_0.json.gz"),
        &recorded.join("kineto_trace_0.json.gz"),
        WINDOWS,
        &SCENARIO,
        &traces,
    )?;
    let env = install_into(folder.join("env"), &PACKAGES)?;
    let mut pytest = env.module("pytest");
    pytest
        // the server of the object store logs a line per request
        .args([
            "-q",
            "--show-capture=no",
            "-p",
            "no:cacheprovider",
            "tests/ray",
        ])
        .current_dir(&root)
        .env("ETLINK_RAY_TRACES", &traces)
        // the same server as in the tests of object stores
        .env("PYTHONPATH", root.join("tests/object_store"))
        // usage reports would leave the machine
        .env("RAY_USAGE_STATS_ENABLED", "0");
    run_command(&mut pytest)
}
