//! Uses toolchains other than the default: the oldest supported Rust, and nightly's sanitizers.
//! Both require rustup.

use crate::support::{repository_root, run_command};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use std::process::Command;

/// Compiles the whole workspace with the version in `rust-version`.
pub fn check_oldest_rust() -> Result<()> {
    let promised = env!("CARGO_PKG_RUST_VERSION");
    // a toolchain installed as 1.89.0 is not found as 1.89
    let toolchain = format!("{promised}.0");
    run_command(Command::new("rustup").args([
        "toolchain",
        "install",
        "--profile",
        "minimal",
        "--no-self-update",
        &toolchain,
    ]))?;
    let mut check = cargo_of(&toolchain)?;
    check.args(["check", "--workspace", "--all-features", "--locked"]);
    run_command(check.env("CARGO_TARGET_DIR", "target/oldest-rust"))?;
    println!("the workspace compiles with Rust {toolchain}");
    Ok(())
}

/// `cargo dev sanitize`.
#[derive(Debug, Args)]
pub struct SanitizeOptions {
    /// Sanitizer; `thread` needs nightly's component rust-src
    #[arg(long, value_name = "NAME", default_value = "address")]
    sanitizer: Sanitizer,
    /// Crates to test [default: those with C code, third-party unsafe code, or threads]
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sanitizer {
    Address,
    Thread,
}

/// Crates to test: SQLite is C; simd-json, memchr and the inflaters use unsafe code; the scanner
/// and the linker use several threads.
const SANITIZED: [&str; 3] = ["etlink-json", "etlink-formats", "etlink-chakra"];

/// Runs the tests of crates under a sanitizer.
pub fn test_sanitized(options: &SanitizeOptions) -> Result<()> {
    let mut test = cargo_of("nightly")?;
    test.args(["test", "--lib", "--tests", "--locked", "--all-features"]);
    // with an explicit target, build scripts and macros are not instrumented
    test.args(["--target", &host_target()?]);
    let flags = match options.sanitizer {
        Sanitizer::Address => "-Zsanitizer=address",
        Sanitizer::Thread => {
            // the standard library must be instrumented too, or its locks are invisible
            test.arg("-Zbuild-std");
            "-Zsanitizer=thread"
        }
    };
    if options.crates.is_empty() {
        test.args(SANITIZED.iter().flat_map(|name| ["-p", name]));
    } else {
        test.args(options.crates.iter().flat_map(|name| ["-p", name.as_str()]));
    }
    test.env("RUSTFLAGS", flags);
    // memory held until the program's end is not a relevant leak
    test.env("ASAN_OPTIONS", "detect_leaks=0");
    run_command(test.env("CARGO_TARGET_DIR", "target/sanitize"))
}

/// Returns a toolchain's cargo, in the repository.
fn cargo_of(toolchain: &str) -> Result<Command> {
    let mut command = Command::new("rustup");
    command.args(["run", toolchain, "cargo"]);
    command.current_dir(repository_root()?);
    // set by the cargo that runs this program, for its own toolchain
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.env_remove("RUSTC").env_remove("RUSTDOC");
    Ok(command)
}

/// Returns nightly's default target.
fn host_target() -> Result<String> {
    let output = Command::new("rustup")
        .args(["run", "nightly", "rustc", "-vV"])
        .output()
        .context("cannot run rustup")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("there is no toolchain nightly: rustup toolchain install nightly")?;
    Ok(host.to_owned())
}
