//! Builds a release archive: `etlink-VERSION-TARGET.tar.gz`, with its checksum in a separate file.
//!
//! ```text
//! etlink-0.1.0-x86_64-unknown-linux-musl/
//!   etlink                       the command, built with the profile `dist`
//!   README.md  CHANGELOG.md  LICENSE
//!   man/man1/etlink.1 …          one page for each subcommand
//!   completions/                 one script for each shell
//! ```
//! cargo-binstall finds the command by this name and path: `package.metadata.binstall` of the crate
//! `etlink`.

use crate::support::{repository_root, run_command};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use clap_complete::Shell;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Documents that accompany every copy of the command.
const DOCUMENTS: [&str; 3] = ["README.md", "CHANGELOG.md", "LICENSE"];

#[derive(Debug, Args)]
pub struct DistOptions {
    /// Platform to build for, installed by `rustup target add` [default: this one]
    #[arg(long)]
    target: Option<String>,
    /// Existing build of the command for this platform, to pack instead
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    command: Option<PathBuf>,
    /// Output folder for the archive
    #[arg(long, value_name = "DIR", default_value = "target/dist-archives")]
    out: PathBuf,
}

/// Builds the command, packs it with its documents, then unpacks the archive and tries it.
pub fn make_archive(options: &DistOptions) -> Result<()> {
    let root = repository_root()?;
    let host = host_target()?;
    let target = options.target.as_deref().unwrap_or(&host);
    let command = match &options.command {
        Some(command) => command.clone(),
        None => build_command(&root, target)?,
    };
    let name = format!("etlink-{}-{target}", env!("CARGO_PKG_VERSION"));
    let out = root.join(&options.out);
    let folder = out.join(&name);
    fill_folder(&root, &command, &folder)?;
    let archive = out.join(format!("{name}.tar.gz"));
    pack_folder(&folder, &name, &archive)?;
    write_sum(&archive)?;
    if target == host {
        try_archive(&archive, &name)?;
    }
    println!("{}", archive.display());
    Ok(())
}

/// Returns the compiler's own platform, as named by `rustc -vV`.
fn host_target() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output();
    let text = String::from_utf8(output.context("cannot run rustc")?.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

fn build_command(root: &Path, target: &str) -> Result<PathBuf> {
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--locked", "--profile", "dist"])
        .args(["--package", "etlink", "--features", "full"])
        .args(["--target", target])
        .current_dir(root);
    run_command(&mut build)?;
    let suffix = if target.contains("windows") {
        ".exe"
    } else {
        ""
    };
    let folder = root.join("target").join(target).join("dist");
    Ok(folder.join(format!("etlink{suffix}")))
}

/// Recreates the folder, so that leftovers of an earlier version are not packed.
fn fill_folder(root: &Path, command: &Path, folder: &Path) -> Result<()> {
    if folder.is_dir() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let file_name = command
        .file_name()
        .with_context(|| format!("{} is no file", command.display()))?;
    copy_file(command, &folder.join(file_name))?;
    for document in DOCUMENTS {
        copy_file(&root.join(document), &folder.join(document))?;
    }
    write_manual(&folder.join("man/man1"))?;
    write_completions(&folder.join("completions"))
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    Ok(())
}

fn write_manual(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(etlink::command_line(), folder)?;
    Ok(())
}

fn write_completions(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut etlink::command_line(), "etlink", folder)?;
    }
    Ok(())
}

/// Packs a folder reproducibly: the same files give the same bytes, whoever packs them and when.
fn pack_folder(folder: &Path, name: &str, archive: &Path) -> Result<()> {
    let file = File::create(archive).with_context(|| archive.display().to_string())?;
    let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::best()));
    for path in files_below(folder)? {
        let inside = Path::new(name).join(path.strip_prefix(folder)?);
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        let is_command =
            path.file_stem().is_some_and(|stem| stem == "etlink") && path.parent() == Some(folder);
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(if is_command { 0o755 } else { 0o644 });
        header.set_mtime(0);
        tar.append_data(&mut header, inside, &bytes[..])?;
    }
    tar.into_inner()?.finish()?.sync_all()?;
    Ok(())
}

/// Lists all files below a folder, by name.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Writes a file for `sha256sum --check`.
fn write_sum(archive: &Path) -> Result<()> {
    let mut hash = Sha256::new();
    hash.update(fs::read(archive)?);
    let digits: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let name = archive
        .file_name()
        .context("an archive without a name")?
        .to_string_lossy();
    let sum = archive.with_file_name(format!("{name}.sha256"));
    fs::write(sum, format!("{digits}  {name}\n"))?;
    Ok(())
}

/// Unpacks the archive elsewhere, as a user would, and checks that the command runs and each
/// subcommand has its page.
fn try_archive(archive: &Path, name: &str) -> Result<()> {
    let place = tempfile::tempdir()?;
    let file = File::open(archive)?;
    tar::Archive::new(flate2::read::GzDecoder::new(file)).unpack(place.path())?;
    let folder = place.path().join(name);
    let command = folder.join(format!("etlink{}", std::env::consts::EXE_SUFFIX));
    let output = Command::new(&command).arg("--version").output()?;
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let wanted = format!("etlink {}", env!("CARGO_PKG_VERSION"));
    if !output.status.success() || !version.starts_with(&wanted) {
        bail!(
            "{} --version: {version:?}, {}",
            command.display(),
            output.status
        );
    }
    for subcommand in etlink::command_line().get_subcommands() {
        let page = format!("man/man1/etlink-{}.1", subcommand.get_name());
        let mut text = String::new();
        File::open(folder.join(&page))
            .and_then(|mut file| file.read_to_string(&mut text))
            .with_context(|| page.clone())?;
        if !text.contains(".SH OPTIONS") {
            bail!("{page} has no options");
        }
    }
    Ok(())
}
