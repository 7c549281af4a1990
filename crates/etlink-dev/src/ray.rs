//! Tests `etlink.ray` on a real cluster: Ray with two workers on this machine.

use crate::object_store::SERVER;
use crate::suites::write_ranks;
use crate::support::{repository_root, run_command};
use crate::wheel::install_into;
use anyhow::Result;

// Pinned, so that a failure of the suite is due to our change and not Ray's.
const PACKAGES: [&str; 4] = ["ray==2.60.0", "pytest==9.2.0", "psutil==7.2.2", SERVER];

/// Ranks, on different clocks, and repetitions of the recorded window in each trace.
const TRACES: (u32, u32) = (64, 2);

/// Installs Ray and the wheel, generates the traces of 64 ranks, and runs the tests.
pub fn test_ray() -> Result<()> {
    let root = repository_root()?;
    let folder = root.join("target/ray");
    let traces = folder.join("traces");
    write_ranks(TRACES.0, TRACES.1, &traces)?;
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
