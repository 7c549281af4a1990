//! Helpers of several commands: the repository, external programs, packages, trace files.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the repository's folder.
pub fn repository_root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize()
        .with_context(|| format!("no folder {}", root.display()))
}

/// Runs a program that prints its own output.
pub fn run_command(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

/// Environment variable that names a built `etlink`, so that a suite does not build its own.
const ETLINK: &str = "ETLINK";

/// Returns the path of `etlink`: from the variable `ETLINK`, otherwise a new debug build.
///
/// `.ci/run` sets the variable. `cargo test --workspace` has built the command by then, with the
/// workspace's features; building a single package has other features and compiles anew.
pub fn etlink_path() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(ETLINK) {
        let named = Path::new(&named);
        // Recipes run in other folders, where a relative path would be wrong.
        return named
            .canonicalize()
            .with_context(|| format!("{ETLINK} names {}", named.display()));
    }
    let mut build = Command::new(env!("CARGO"));
    run_command(build.args([
        "build",
        "--quiet",
        "--package",
        "etlink",
        "--features",
        "full",
    ]))?;
    // cargo puts the programs of a profile into one folder
    let name = format!("etlink{}", std::env::consts::EXE_SUFFIX);
    let etlink = std::env::current_exe()?.with_file_name(name);
    if !etlink.is_file() {
        bail!("{} was not built", etlink.display());
    }
    Ok(etlink)
}

/// Builds a program from crates.io into `target/tools`, unless it is there; returns its path.
///
/// `name` includes the version: `cargo-deny@0.20.2`.
pub fn install_tool(name: &str) -> Result<PathBuf> {
    let tools = repository_root()?.join("target/tools");
    std::fs::create_dir_all(&tools)?;
    // not by its path: rustup's `cargo` picks the toolchain that the package requests
    let mut install = Command::new("cargo");
    // a debug build is faster to make, and such a program runs only for a second
    install
        .args(["install", "--quiet", "--locked", "--debug", name, "--root"])
        .arg(&tools)
        // the workspace's settings do not apply to it
        .current_dir(&tools);
    run_command(&mut install)?;
    let program = name.split_once('@').map_or(name, |(program, _)| program);
    Ok(tools.join("bin").join(program))
}

/// Installer of PyPI packages, in a tenth of pip's time.
const UV: &str = "uv==0.13.8";

/// Environment variable that names an existing `uv`, also for recipes.
pub const UV_VARIABLE: &str = "UV";

/// Returns the path of `uv`: from the variable `UV`, otherwise one in `target/tools`, installed by
/// pip unless it is there.
pub fn uv_path() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(UV_VARIABLE) {
        return Ok(named.into());
    }
    let tools = repository_root()?.join("target/tools");
    std::fs::create_dir_all(&tools)?;
    let place = tools.join(UV);
    let program = place.join("bin/uv");
    if program.is_file() {
        return Ok(program);
    }
    let new = tempfile::tempdir_in(&tools)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--target"])
        .arg(new.path())
        .args(["--disable-pip-version-check", "--root-user-action=ignore"])
        .arg(UV);
    run_command(&mut pip)?;
    // another suite running at the same time may have been faster
    if std::fs::rename(new.path(), &place).is_err() && !program.is_file() {
        bail!("cannot move uv to {}", place.display());
    }
    Ok(program)
}

/// Returns a `uv pip install` command for a Python, or for a folder that a Python will read.
pub fn uv_install(python: &Path) -> Result<Command> {
    let mut install = Command::new(uv_path()?);
    install.args(["--quiet", "pip", "install", "--python"]);
    install.arg(python);
    Ok(install)
}

/// Installs packages of PyPI into `folder`, with or without their dependencies.
pub fn install_from_pypi(packages: &[&str], folder: &Path, with_needs: bool) -> Result<()> {
    println!(
        "installing {} into {}",
        packages.join(", "),
        folder.display()
    );
    // Versions for the Python that will run the recipe. A separate folder leaves your Python
    // unchanged.
    let mut install = uv_install(Path::new("python3"))?;
    if !with_needs {
        install.arg("--no-deps");
    }
    run_command(install.arg("--target").arg(folder).args(packages))
}
