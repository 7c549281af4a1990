//! Builds the wheel, installs it into separate environments, and tests it there.

use crate::support::{repository_root, run_command, uv_install, uv_path};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;

// Pinned, so that a failure of the suite is due to our change alone.
const BUILDER: &str = "maturin==1.16.0";
const TEST_PACKAGES: [&str; 11] = [
    "pytest==9.2.0",
    "mypy==2.4.1",
    "altair==6.3.0",
    "plotly==7.1.0",
    "nbclient==0.11.0",
    "ipykernel==7.4.0",
    "duckdb==2.0.0",
    "polars==2.1.0",
    "pandas==3.1.1",
    "pyarrow==26.0.1",
    "tqdm==4.70.1",
];

/// Maximum size of a wheel, bytes.
const MOST_BYTES: u64 = 15_000_000;

#[derive(Debug, Args)]
pub struct WheelOptions {
    /// Build the optimized wheel for users, instead of one with debug checks
    #[arg(long)]
    release: bool,
    /// Build the wheel without tests
    #[arg(long)]
    no_tests: bool,
    /// Arguments of pytest
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pytest: Vec<String>,
}

/// Builds the wheel and tests it in a Python with its readers, and in an empty one.
pub fn test_wheel(options: &WheelOptions) -> Result<()> {
    let root = repository_root()?;
    let folder = root.join("target/wheel");
    // environments are kept, because installing the readers takes longer than the tests
    let tests = VirtualEnv::make(
        folder.join("tests"),
        &[&[BUILDER], &TEST_PACKAGES[..]].concat(),
    )?;
    let empty = VirtualEnv::make(folder.join("empty"), &[])?;
    let wheel = build_wheel(&root, &folder.join("dist"), &tests, options.release)?;
    let bytes = std::fs::metadata(&wheel)?.len();
    println!("{}: {bytes} bytes", wheel.display());
    if options.release && bytes > MOST_BYTES {
        bail!("the wheel has more than {MOST_BYTES} bytes");
    }
    if options.no_tests {
        return Ok(());
    }
    for env in [&tests, &empty] {
        env.install_wheel(&wheel)?;
    }
    check_types(&root, &tests)?;
    let mut pytest = tests.module("pytest");
    pytest
        .args(["-q", "-p", "no:cacheprovider"])
        .arg("tests/python")
        .args(&options.pytest)
        .current_dir(&root)
        .env("ETLINK_EMPTY_PYTHON", empty.python());
    run_command(&mut pytest)
}

/// Builds the wheel, with the settings of the workspace's tests unless it is a release.
fn build_wheel(root: &Path, out: &Path, tools: &VirtualEnv, release: bool) -> Result<PathBuf> {
    // a leftover of an earlier version would be found next to the new one
    if out.is_dir() {
        std::fs::remove_dir_all(out).with_context(|| out.display().to_string())?;
    }
    let mut build = Command::new(tools.program("maturin"));
    build
        .args(["build", "--quiet", "--locked", "--profile"])
        .arg(if release { "dist" } else { "dev" })
        .arg("--out")
        .arg(out)
        .current_dir(root);
    run_command(&mut build)?;
    let mut wheels = std::fs::read_dir(out).with_context(|| out.display().to_string())?;
    let wheel = wheels.next().context("maturin left no wheel")?;
    Ok(wheel?.path())
}

/// Checks the package's types from a user's view, and the stubs against the extension.
fn check_types(root: &Path, tests: &VirtualEnv) -> Result<()> {
    let mut mypy = tests.module("mypy");
    mypy.args(["--strict", "--no-error-summary", "-p", "etlink"]);
    // not in the repository's root, where mypy would find the sources instead of the installed
    // package
    run_command(mypy.current_dir(root.join("target/wheel")))?;
    let mut stubtest = tests.module("mypy.stubtest");
    let allowlist = root.join("tests/python/stubtest-allowlist.txt");
    stubtest.args(["etlink", "--allowlist"]).arg(allowlist);
    run_command(stubtest.current_dir(root.join("target/wheel")))
}

/// Installs a debug wheel into an environment with further packages.
pub(crate) fn install_into(folder: PathBuf, packages: &[&str]) -> Result<VirtualEnv> {
    let root = repository_root()?;
    // next to the environment, because concurrent suites build their own
    let wheels = folder.with_file_name("wheels");
    let env = VirtualEnv::make(folder, &[&[BUILDER], packages].concat())?;
    let wheel = build_wheel(&root, &wheels, &env, false)?;
    env.install_wheel(&wheel)?;
    Ok(env)
}

/// A Python virtual environment.
pub(crate) struct VirtualEnv {
    folder: PathBuf,
}

impl VirtualEnv {
    /// Creates the environment with these packages, unless it exists with the same ones.
    pub(crate) fn make(folder: PathBuf, packages: &[&str]) -> Result<VirtualEnv> {
        let env = VirtualEnv { folder };
        let marker = env.folder.join("etlink-ready");
        let wanted = packages.join("\n");
        // the marker is written last, so that an interrupted environment is recreated
        if std::fs::read_to_string(&marker).is_ok_and(|found| found == wanted) {
            return Ok(env);
        }
        println!("making {}", env.folder.display());
        let mut venv = Command::new(uv_path()?);
        venv.args(["--quiet", "venv", "--clear", "--python", "python3"])
            .arg(&env.folder);
        run_command(&mut venv)?;
        if !packages.is_empty() {
            run_command(uv_install(&env.python())?.args(packages))?;
        }
        std::fs::write(&marker, wanted).with_context(|| marker.display().to_string())?;
        Ok(env)
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.program("python")
    }

    pub(crate) fn module(&self, name: &str) -> Command {
        let mut command = Command::new(self.python());
        command.args(["-m", name]);
        command
    }

    fn install_wheel(&self, wheel: &Path) -> Result<()> {
        let mut install = uv_install(&self.python())?;
        // another build has the same version; the wheel needs no packages, and so no index
        install.args(["--reinstall", "--no-index"]).arg(wheel);
        run_command(&mut install)
    }
}
