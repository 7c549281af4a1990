//! The version that `etlink --version` prints: that of the crate and the commit that it was built
//! from, if a git checkout or the published package tells it. Also a hash of the source.

#![allow(
    clippy::disallowed_methods,
    reason = "a build script reads what it builds from"
)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let named = match packaged_commit().or_else(commit_of_checkout) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=ETLINK_VERSION={named}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=ETLINK_SOURCES={:016x}", hash_sources());
    // The tests start an unoptimised command some thousand times: at a fixed address it starts in two
    // thirds of the time, because nothing of it has to be relocated.
    let is_set = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_linux = is_set("CARGO_CFG_TARGET_OS", "linux") && is_set("CARGO_CFG_TARGET_ENV", "gnu");
    if is_linux && is_set("OPT_LEVEL", "0") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

/// Crates that have no part in what commands make of a trace.
const OTHER_CRATES: [&str; 3] = ["etlink-dev", "etlink-python", "etlink-testing"];

/// A hash of the source of all crates, by which cached results of another build are told apart; of
/// this crate alone if it was published.
fn hash_sources() -> u64 {
    let mut hasher = DefaultHasher::new();
    let is_sibling = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("etlink") && !OTHER_CRATES.contains(&name))
    };
    let mut crates = entries_of(Path::new(".."));
    crates.retain(is_sibling);
    if !crates.iter().any(|path| path.ends_with("etlink")) {
        crates = vec![PathBuf::from(".")];
    }
    let mut folders: Vec<PathBuf> = crates.iter().map(|path| path.join("src")).collect();
    for folder in &folders {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    while let Some(folder) = folders.pop() {
        for path in entries_of(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else {
                path.hash(&mut hasher);
                std::fs::read(&path).unwrap_or_default().hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

/// The entries of a folder, in order; none if it cannot be read.
fn entries_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// How many digits of a commit are shown, as `git log --oneline` shows some.
const SHOWN_DIGITS: usize = 10;

/// The commit of which `cargo package` has made this package: it leaves a file that says so.
fn packaged_commit() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, after) = text.split_once("\"sha1\": \"")?;
    after.get(..SHOWN_DIGITS).map(str::to_owned)
}

fn commit_of_checkout() -> Option<String> {
    // A copy of the crate may lie in the repository of another project, whose commits say nothing.
    if git(&["rev-parse", "--show-prefix"])? != "crates/etlink/" {
        return None;
    }
    // HEAD itself names a branch; its log changes with every commit and checkout
    let log = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", &format!("--short={SHOWN_DIGITS}"), "HEAD"])
}

/// What git prints; nothing where it is missing or fails.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}
