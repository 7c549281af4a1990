//! Checks the crates' packages as `cargo publish` would upload them.

use crate::support::{repository_root, run_command};
use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates with `publish = false`.
const PRIVATE: [&str; 3] = ["etlink-dev", "etlink-python", "etlink-testing"];

/// Packages each published crate, and compiles the packages' contents: a file outside its crate
/// would be missing.
///
/// `cargo package` can compile packages itself, but each with all dependencies anew: with twenty
/// interdependent crates this takes a quarter of an hour. Here they are compiled together, once.
pub fn check_packages() -> Result<()> {
    let root = repository_root()?;
    let folder = root.join("target/package");
    if folder.is_dir() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    make_packages(&root)?;
    let unpacked = folder.join("unpacked");
    let names = unpack_packages(&folder, &unpacked)?;
    write_workspace(&root, &unpacked, &names)?;
    let mut check = Command::new(env!("CARGO"));
    check
        .args(["check", "--quiet", "--workspace", "--locked"])
        // the packages' dependencies were checked with the workspace, so they are not rebuilt
        .env("CARGO_TARGET_DIR", root.join("target"))
        .current_dir(&unpacked);
    run_command(&mut check)?;
    println!("{} packages", names.len());
    Ok(())
}

fn make_packages(root: &Path) -> Result<()> {
    let mut package = Command::new(env!("CARGO"));
    package
        .args([
            "package",
            "--workspace",
            "--locked",
            "--quiet",
            "--no-verify",
        ])
        // packages the working tree, committed or not
        .arg("--allow-dirty")
        .current_dir(root);
    for name in PRIVATE {
        package.args(["--exclude", name]);
    }
    run_command(&mut package)
}

/// Unpacks all packages of a folder. Returns the names of the folders, including versions.
fn unpack_packages(folder: &Path, unpacked: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(unpacked)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != "crate")
        {
            continue;
        }
        let file = File::open(&path)?;
        let mut archive = tar::Archive::new(GzDecoder::new(file));
        // Files in packages share one old time, which would make cargo consider earlier build
        // results up to date.
        archive.set_preserve_mtime(false);
        archive
            .unpack(unpacked)
            .with_context(|| path.display().to_string())?;
        let name = path.file_stem().context("a package without a name")?;
        names.push(name.to_string_lossy().into_owned());
    }
    if names.is_empty() {
        bail!("cargo made no package in {}", folder.display());
    }
    names.sort();
    Ok(names)
}

/// Writes a workspace in which the packages find each other, since no registry has them yet.
fn write_workspace(root: &Path, unpacked: &Path, names: &[String]) -> Result<()> {
    let version = concat!("-", env!("CARGO_PKG_VERSION"));
    let mut text = String::from("[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n");
    text.push_str("[patch.crates-io]\n");
    for folder in names {
        let name = folder.strip_suffix(version).unwrap_or(folder);
        writeln!(text, "{name} = {{ path = \"{folder}\" }}")?;
    }
    fs::write(unpacked.join("Cargo.toml"), text)?;
    // Keeps the tested versions. Without `--locked` cargo would look for newer ones; entries of
    // other crates are dropped.
    fs::copy(root.join("Cargo.lock"), unpacked.join("Cargo.lock"))?;
    let mut trim = Command::new(env!("CARGO"));
    trim.args(["metadata", "--format-version", "1"])
        .current_dir(unpacked)
        .stdout(std::process::Stdio::null());
    run_command(&mut trim)
}
