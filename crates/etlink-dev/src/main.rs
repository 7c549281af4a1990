//! Developer commands: `cargo dev …`. Never published; may touch files and run programs.
#![allow(unreachable_pub, reason = "a program has no outside")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for people at a terminal"
)]

mod dependencies;
mod dist;
mod drawn;
mod feeder;
mod fuzz;
mod hta;
mod object_store;
mod packages;
mod ray;
mod recording;
mod suites;
mod support;
mod toolchains;
mod web;
mod wheel;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(
    name = "cargo dev",
    about = "Developer commands of etlink; CONTRIBUTING.md lists those that a change has to pass"
)]
struct DevArgs {
    #[command(subcommand)]
    command: DevCommand,
}

#[derive(Debug, Subcommand)]
enum DevCommand {
    /// Record testdata/pairs again with PyTorch from PyPI (python3.11, g++, 2 GB of disk per version)
    RecordTestdata(suites::RecipeOptions),
    /// Test: run readers, linker, writers, checker and all figures on damaged recordings
    Fuzz(fuzz::FuzzOptions),
    /// Test: compile the workspace with its `rust-version` (rustup, a toolchain index)
    OldestRust,
    /// Test: run crates with C code, third-party unsafe code or threads under a sanitiser (rustup
    /// with nightly)
    Sanitize(toolchains::SanitizeOptions),
    /// Measure processes of etlink against gzip and other tools; see BENCHMARKS.md
    Bench(suites::RecipeOptions),
    /// Generate traces of many ranks from one CPU recording, with different clocks and a late rank
    /// (python3)
    Ranks(suites::RecipeOptions),
    /// Measure predictions of recorded programs before and after a change (a Python with PyTorch,
    /// as `cargo dev test-torch` installs it)
    #[command(name = "whatif-programs")]
    WhatIfPrograms(suites::RecipeOptions),
    /// Test: compare the Python class `etlink.hta.TraceAnalysis` with HTA's, on traces and in HTA's
    /// own tests (python3 with pip, a package index)
    Hta(hta::HtaSuiteOptions),
    /// Test: load Perfetto traces with Perfetto's own trace_processor (node, python3 with pip, a
    /// package index)
    Perfetto(suites::RecipeOptions),
    /// Test: read the Parquet files of `etlink analyze` with DuckDB, Polars and pandas (python3
    /// with pip, a package index)
    Tables,
    /// Test: read `.et` files with protobuf's own reader, with and without `--dep-latencies`
    /// (python3 with pip, a package index)
    Chakra(suites::RecipeOptions),
    /// Test: read output of `etlink convert` with protobuf's JSON, networkx and Graphviz, installed
    /// if missing (python3 with pip, a package index)
    Converted(suites::RecipeOptions),
    /// Test: simulate recordings with your build of ASTRA-sim, and compare with the measured times;
    /// see BENCHMARKS.md
    AstraSim(suites::RecipeOptions),
    /// Test: compare the utilization in `etlink analyze` with a script that reads the raw JSON, and
    /// refuse damage that changes figures (python3)
    Utilization(suites::RecipeOptions),
    /// Build the script of the report's page (node, npm, a package index)
    Web {
        /// Check that the committed script is up to date, formatted and linted
        #[arg(long)]
        check: bool,
    },
    /// Test: open reports in headless Chromium (node, npm, a package index; installs Debian's
    /// chromium if missing)
    Browser,
    /// Test: build the Python wheel, install it into an empty environment, and run the Python tests
    /// (python3 with pip, a package index)
    Wheel(wheel::WheelOptions),
    /// Test: use URLs of a local S3 server that rejects some requests, and kill runs (python3 with
    /// pip, a package index)
    ObjectStore,
    /// Test: run `etlink.ray` on a local cluster of two workers (python3 with pip, a package index)
    Ray,
    /// Test: compare the C header of `etlink-feeder` with its source, and the issue order in C with
    /// Rust and Chakra's own feeder (a C compiler; builds cbindgen: a package index)
    Feeder(feeder::FeederOptions),
    /// Test: check licences, duplicates, sources and known vulnerabilities of dependencies with
    /// cargo-deny, which is built first (a package index)
    Deny,
    /// Test: make the packages to publish, and compile each from its package
    Packages,
    /// Build the release archive (command, manual pages, completions) and its SHA-256 sum; unpack
    /// it and try it
    Dist(dist::DistOptions),
    /// Test: record small runs with the newest PyTorch into target/, and link them
    TestRecording,
    /// Test: run `etlink record` on unchanged PyTorch programs (python3.11, a package index, 6 GB
    /// of disk in target/)
    TestTorch(suites::RecipeOptions),
    /// Measure the cost of `etlink record` per step, against torch.profiler with both recorders; see
    /// BENCHMARKS.md
    Overhead(suites::RecipeOptions),
}

fn main() -> ExitCode {
    let done = match DevArgs::parse().command {
        DevCommand::RecordTestdata(options) => {
            recording::record_traces("testdata/pairs", &options.options)
        }
        DevCommand::Bench(options) => suites::run_benchmarks(&options),
        DevCommand::Fuzz(options) => fuzz::run_fuzzer(&options),
        DevCommand::OldestRust => toolchains::check_oldest_rust(),
        DevCommand::Sanitize(options) => toolchains::test_sanitized(&options),
        DevCommand::Ranks(options) => suites::generate_ranks(&options),
        DevCommand::WhatIfPrograms(options) => suites::test_predictions(&options),
        DevCommand::Hta(options) => hta::compare_classes(&options),
        DevCommand::Perfetto(options) => suites::test_perfetto(&options),
        DevCommand::Tables => suites::test_tables(),
        DevCommand::Chakra(options) => suites::test_chakra(&options),
        DevCommand::Converted(options) => suites::test_converted(&options),
        DevCommand::AstraSim(options) => suites::compare_simulations(&options),
        DevCommand::Utilization(options) => suites::compare_utilization(&options),
        DevCommand::Web { check } => web::build_page(check),
        DevCommand::Browser => suites::test_page(),
        DevCommand::Wheel(options) => wheel::test_wheel(&options),
        DevCommand::ObjectStore => object_store::test_object_store(),
        DevCommand::Ray => ray::test_ray(),
        DevCommand::Feeder(options) => feeder::test_feeder(&options),
        DevCommand::Deny => dependencies::check_dependencies(),
        DevCommand::Packages => packages::check_packages(),
        DevCommand::Dist(options) => dist::make_archive(&options),
        DevCommand::TestRecording => recording::test_recording(),
        DevCommand::TestTorch(options) => recording::test_torch(&options.options),
        DevCommand::Overhead(options) => recording::measure_overhead(&options.options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // `{:#}` prints the whole chain of causes on one line.
            eprintln!("cargo dev: {error:#}");
            ExitCode::FAILURE
        }
    }
}
