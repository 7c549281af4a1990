//! Benchmarks whole processes: etlink against `gzip -dc`, and against the tools that it replaces.
//!
//! ```text
//! recordings -> inputs (repeated 1, 4, 16 times, packed) -> tools, in turns -> medians, ratios
//! ```
//! Only ratios within one run are meaningful: tools alternate, so that a busy moment affects all of
//! them. Inputs and outputs are in `target/bench`.

mod inputs;
pub mod measure;
mod ranks;
mod table;
mod tools;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use inputs::BenchInput;
use measure::ProcessUsage;
use std::path::{Path, PathBuf};
use std::process::Command;
use tools::BenchTool;

/// Tools to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PeerTool {
    /// `gzip -dc` of the same files, always measured
    Gzip,
    /// `chakra_trace_link` and `chakra_converter`, by --chakra-link and --chakra-convert
    Chakra,
    /// HolisticTraceAnalysis from PyPI, loading the device trace
    Hta,
}

/// `cargo dev bench`.
#[derive(Debug, Args)]
pub struct BenchOptions {
    /// Tools to compare with
    #[arg(long, value_enum, value_delimiter = ',')]
    against: Vec<PeerTool>,
    /// Folder with more traces: folders with host and device trace of a rank, or device traces
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Measure only inputs with one of these texts in their name
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Numbers of repetitions of each recording
    #[arg(long, value_delimiter = ',', default_value = "1,4,16")]
    sizes: Vec<u32>,
    /// Leave out inputs above this size, MB unpacked
    #[arg(long, default_value_t = 400)]
    max_mb: u64,
    /// Leave out recordings of --traces below this size, MB unpacked
    #[arg(long, default_value_t = 5)]
    min_mb: u64,
    /// Runs of each tool
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Runs of tools that take minutes
    #[arg(long, default_value_t = 1)]
    peer_runs: usize,
    /// Command that links; HOST DEVICE OUT.json are appended, with unpacked traces
    #[arg(long, value_name = "CMD")]
    chakra_link: Option<String>,
    /// Command that converts; IN.json OUT are appended
    #[arg(long, value_name = "CMD")]
    chakra_convert: Option<String>,
    /// Leave out the figures for many ranks and for startup
    #[arg(long)]
    no_ranks: bool,
    /// Program of etlink to measure [default: a release build of this checkout]
    #[arg(long, value_name = "FILE")]
    etlink: Option<PathBuf>,
}

/// Makes the inputs, runs the tools, prints the tables.
pub fn run_benchmarks(options: &BenchOptions) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let folder = root.join("target/bench");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make folder {}", folder.display()))?;
    let etlink = match &options.etlink {
        Some(etlink) => etlink
            .canonicalize()
            .with_context(|| format!("no {}", etlink.display()))?,
        None => build_release(&root)?,
    };
    println!("{}", table::machine_name());
    let recorded = inputs::find_recordings(&root, options.traces.as_deref(), options.min_mb)?;
    let recorded: Vec<_> = recorded
        .into_iter()
        .filter(|found| is_wanted(options, &found.name))
        .collect();
    if recorded.is_empty() {
        bail!("no traces to measure with");
    }
    let hta = options
        .against
        .contains(&PeerTool::Hta)
        .then(|| tools::hta_python(&folder))
        .flatten();
    let plain = options.against.contains(&PeerTool::Chakra);
    for found in &recorded {
        for input in inputs::make_inputs(found, &options.sizes, options.max_mb, &folder, plain)? {
            let tools = tools::tools_for(&input, &etlink, options, hta.as_deref(), &folder);
            compare_tools(&input, &tools, options)?;
        }
    }
    if !options.no_ranks {
        ranks::bench_ranks(&root, &recorded, &etlink, &folder, options.runs)?;
    }
    Ok(())
}

fn is_wanted(options: &BenchOptions, name: &str) -> bool {
    options.only.is_empty() || options.only.iter().any(|part| name.contains(part))
}

/// Runs the tools alternately and prints their medians.
fn compare_tools(input: &BenchInput, tools: &[BenchTool], options: &BenchOptions) -> Result<()> {
    let mut usages: Vec<Vec<ProcessUsage>> = vec![vec![]; tools.len()];
    // Rounds outside, tools inside: other load on the machine then affects all tools alike.
    for turn in 0..options.runs.max(1) {
        for (tool, usages) in tools.iter().zip(&mut usages) {
            if turn
                < if tool.slow {
                    options.peer_runs.max(1)
                } else {
                    usize::MAX
                }
            {
                if let Some(output) = tool.output.as_ref().filter(|output| output.exists()) {
                    std::fs::remove_file(output)
                        .with_context(|| format!("cannot remove {}", output.display()))?;
                }
                usages.push(measure::measure_command(&tool.command)?);
            }
        }
    }
    print!("{}", table::result_table(input, tools, &usages));
    Ok(())
}

/// Builds etlink as distributed to users, and returns its path.
pub fn build_release(root: &Path) -> Result<PathBuf> {
    let build = [
        "build",
        "--profile",
        "dist",
        "--package",
        "etlink",
        "--features",
        "full",
        "--message-format",
        "json-render-diagnostics",
    ];
    let output = Command::new(env!("CARGO"))
        .args(build)
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("etlink does not build");
    }
    // cargo reports the program's path, since user settings may move it out of target/.
    let messages = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok());
    let path = messages
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back();
    path.context("cargo does not say where etlink is")
}
