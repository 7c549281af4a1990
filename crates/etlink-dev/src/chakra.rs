//! Reads `.et` files like other tools: with protobuf's own reader and Chakra's schema.
//!
//! `--dep-latencies` adds attributes that other tools ignore. Without these, each message must
//! equal the output of `merge` without the option, so that simulators behave the same. The output
//! of `--attrs minimal` must be the part of each message that simulators read.

use crate::support::{etlink_path, install_from_pypi, repository_root};
use crate::tables::draw_rank;
use anyhow::{Context, Result, bail, ensure};
use etlink_testing::HostSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Recorded runs to read in addition to the generated one.
const RECORDED: [&str; 3] = ["ddp2-2.15.0", "pipeline4-2.15.0", "transformer-2.15.0"];
// Pinned, so that a failure of the suite is due to our change and not the reader's.
const PACKAGES: [&str; 2] = ["protobuf==7.36.2", "grpcio-tools==1.85.1"];
/// Attributes that the option adds.
const ADDED: [&str; 3] = ["ctrl_latency_ns", "data_latency_ns", "slack_ns"];

/// `cargo dev chakra`.
#[derive(Debug, clap::Args)]
pub struct ChakraReaderOptions {
    /// Chakra's own `et_def.proto`, used instead of the one in schemas/
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
}

/// Output of the recipe.
#[derive(Debug, Deserialize)]
struct Comparison {
    files: usize,
    nodes: u64,
    added: BTreeMap<String, u64>,
    /// Number of texts in the first message that nodes reference.
    texts: u64,
    /// Sizes of the plain and of the minimal files.
    bytes: [u64; 2],
}

/// Writes generated and recorded runs with and without the options, and compares them.
pub fn compare_readers(options: &ChakraReaderOptions) -> Result<()> {
    let root = repository_root()?;
    let folder = root.join("target/chakra");
    let own_schema = root.join("schemas/chakra/et_def.proto");
    let schema = options.schema.as_ref().unwrap_or(&own_schema);
    let packages = install_reader(&folder)?;
    let mut runs = vec![("drawn", draw_run(&folder.join("drawn"))?)];
    let recorded = RECORDED.map(|name| (name, root.join("testdata/pairs").join(name)));
    runs.extend(recorded);
    let mut added: BTreeMap<String, u64> = BTreeMap::new();
    let mut texts = 0;
    for (name, traces) in &runs {
        let written = folder.join("written").join(name);
        let plain = merge_run(traces, &written.join("plain"), &[])?;
        let with = merge_run(traces, &written.join("with"), &["--dep-latencies"])?;
        let recipe = root.join("crates/etlink-dev/recipes/chakra.py");
        let minimal = merge_run(traces, &written.join("minimal"), &["--attrs", "minimal"])?;
        let compared = run_recipe(&packages, &recipe, [schema, &plain, &with, &minimal])?;
        let bytes = compared
            .bytes
            .map(|bytes| bytes.div_ceil(compared.nodes.max(1)));
        println!(
            "{name}: {} files, {} nodes: the same but for what --dep-latencies adds, and for what \
            simulators do not read; {} bytes a node, minimal {}",
            compared.files, compared.nodes, bytes[0], bytes[1]
        );
        texts += compared.texts;
        for (attribute, count) in compared.added {
            *added.entry(attribute).or_default() += count;
        }
    }
    for attribute in ADDED {
        let count = added.get(attribute).copied().unwrap_or_default();
        ensure!(count > 0, "no node has {attribute}: nothing was compared");
    }
    ensure!(texts > 0, "no node names a text of the first message");
    Ok(())
}

/// Installs the reader, unless an earlier run has.
fn install_reader(folder: &Path) -> Result<PathBuf> {
    let packages = folder.join(PACKAGES.join("+"));
    if !packages.join("grpc_tools").is_dir() {
        install_from_pypi(&PACKAGES, &packages, true)?;
    }
    Ok(packages)
}

/// Generates a run of two ranks with devices.
fn draw_run(traces: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(traces).with_context(|| traces.display().to_string())?;
    for rank in 0..2 {
        let draw = draw_rank(rank);
        let (host, device) = (draw.host(HostSchema::V1_1_1), draw.kineto());
        std::fs::write(traces.join(format!("torch_et_{rank}.json")), host)?;
        std::fs::write(traces.join(format!("kineto_trace_{rank}.json")), device)?;
    }
    Ok(traces.to_owned())
}

fn merge_run(traces: &Path, out: &Path, options: &[&str]) -> Result<PathBuf> {
    let mut merge = Command::new(etlink_path()?);
    merge.args(["-q", "merge", "--overwrite"]).arg(traces);
    let ran = merge.args(options).arg("-o").arg(out).output()?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "{merge:?}: {}", said.trim());
    Ok(out.to_owned())
}

fn run_recipe(packages: &Path, recipe: &Path, paths: [&PathBuf; 4]) -> Result<Comparison> {
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", packages).arg(recipe).args(paths);
    let ran = python.output()?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        bail!("the reader failed: {}", said.trim());
    }
    serde_json::from_slice(&ran.stdout).context("reading what the recipe printed")
}
