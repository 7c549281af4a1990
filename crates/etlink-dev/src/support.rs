//! What several commands need: the repository, programs that are run, packages, trace files.

use anyhow::{Context, Result, bail};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's folder.
pub fn repository_root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize()
        .with_context(|| format!("no folder {}", root.display()))
}

/// Runs a program that prints for itself.
pub fn run_command(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

/// Names a built `etlink`, so that a suite does not build its own.
const ETLINK: &str = "ETLINK";

/// The path of `etlink`: what the variable `ETLINK` names, else a debug build made now.
///
/// `.ci/run` sets the variable. `cargo test --workspace` has built the command by then, with the
/// features of the whole workspace; a build of one package has others and compiles anew.
pub fn etlink_path() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(ETLINK) {
        let named = Path::new(&named);
        // Recipes run in other folders, where a relative path would lead elsewhere.
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
    // cargo puts the programs of one profile into one folder
    let name = format!("etlink{}", std::env::consts::EXE_SUFFIX);
    let etlink = std::env::current_exe()?.with_file_name(name);
    if !etlink.is_file() {
        bail!("{} was not built", etlink.display());
    }
    Ok(etlink)
}

/// Builds a program of crates.io into `target/tools`, unless it is there; where it is.
///
/// `name` has the version: `cargo-deny@0.20.2`.
pub fn install_tool(name: &str) -> Result<PathBuf> {
    let tools = repository_root()?.join("target/tools");
    std::fs::create_dir_all(&tools)?;
    // by the name that rustup has too: a package may ask for another toolchain, which the rest is not built with
    let mut install = Command::new("cargo");
    // a debug build is quicker to make, and such a program works for a second all the same
    install
        .args(["install", "--quiet", "--locked", "--debug", name, "--root"])
        .arg(&tools)
        // settings of the workspace's folder are not for it
        .current_dir(&tools);
    run_command(&mut install)?;
    let program = name.split_once('@').map_or(name, |(program, _)| program);
    Ok(tools.join("bin").join(program))
}

/// Installs packages of PyPI in a tenth of pip's time.
const UV: &str = "uv==0.13.8";

/// Names a `uv` that is there, for recipes too.
pub const UV_VARIABLE: &str = "UV";

/// Returns the path of `uv`: what the variable `UV` names, else one in `target/tools`, installed by
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
    // another suite that runs at the same time may have been quicker
    if std::fs::rename(new.path(), &place).is_err() && !program.is_file() {
        bail!("cannot move uv to {}", place.display());
    }
    Ok(program)
}

/// Makes a call of `uv pip install` for a Python, or for a folder that a Python will read.
pub fn uv_install(python: &Path) -> Result<Command> {
    let mut install = Command::new(uv_path()?);
    install.args(["--quiet", "pip", "install", "--python"]);
    install.arg(python);
    Ok(install)
}

/// Installs packages of PyPI into `folder`, with what they need or without.
pub fn install_from_pypi(packages: &[&str], folder: &Path, with_needs: bool) -> Result<()> {
    println!(
        "installing {} into {}",
        packages.join(", "),
        folder.display()
    );
    // Versions for the Python that will run the recipe. The folder of their own leaves your Python
    // as it is.
    let mut install = uv_install(Path::new("python3"))?;
    if !with_needs {
        install.arg("--no-deps");
    }
    run_command(install.arg("--target").arg(folder).args(packages))
}

/// The text of a file, plain or gzip, whatever its name says.
pub fn read_trace_text(path: &Path) -> Result<Vec<u8>> {
    let mut text = std::fs::read(path).with_context(|| path.display().to_string())?;
    // Every member of gzip begins so (RFC 1952). bgzip and `cat` make files of several members.
    if text.starts_with(&[0x1f, 0x8b]) {
        let packed = std::mem::take(&mut text);
        flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut text)?;
    }
    Ok(text)
}
