//! Developer commands: `cargo dev …`. Never published; may touch files and run programs.
#![allow(unreachable_pub, reason = "a program has no outside")]
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr, reason = "a tool for people at a terminal")]

mod fuzz;
mod recording;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "cargo dev", about = "Developer commands of etlink")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record testdata/pairs anew with real PyTorch from PyPI (python3.11, g++, 6 GB of disk per version)
    RecordTestdata {
        /// Options of crates/etlink-dev/recipes/record.py, such as --torch 2.15.0 --case mlp
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Test: throw damaged recordings at readers, linker, writers and checker
    Fuzz {
        /// How long
        #[arg(long, default_value_t = 30)]
        seconds: u64,
        /// Number of the first round
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Test: record small runs with the newest PyTorch into target/ and link them
    TestRecording,
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::RecordTestdata { options } => recording::record("testdata/pairs", &options),
        Command::Fuzz { seconds, seed } => fuzz::run(seconds, seed),
        Command::TestRecording => recording::test(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo dev: {error:#}");
            ExitCode::FAILURE
        }
    }
}
