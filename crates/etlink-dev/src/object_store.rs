//! Tests URLs against an S3 server on this machine: moto, from PyPI.

use crate::suites::write_ranks;
use crate::support::{etlink_path, repository_root, run_command};
use crate::wheel::VirtualEnv;
use anyhow::Result;

/// The server; pinned, so that a failure of the suite is due to our change and not the server's.
pub(crate) const SERVER: &str = "moto[server]==5.2.5";
const PACKAGES: [&str; 2] = [SERVER, "pytest==9.2.0"];

/// Ranks and repetitions of the small run; the large run has files that are uploaded in parts.
const SMALL: (u32, u32) = (8, 1);
const LARGE: (u32, u32) = (2, 70);

/// Generates the traces, and runs the tests.
pub fn test_object_store() -> Result<()> {
    let root = repository_root()?;
    let folder = root.join("target/object-store");
    let traces = folder.join("traces");
    for (name, (ranks, windows)) in [("small", SMALL), ("large", LARGE)] {
        write_ranks(ranks, windows, &traces.join(name))?;
    }
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
