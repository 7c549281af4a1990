//! The version that `etlink --version` prints: that of the crate and the commit that it was built
//! from, if a git checkout or the published package tells it.

#![allow(
    clippy::disallowed_methods,
    reason = "a build script reads what it builds from"
)]

use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let named = match packaged_commit().or_else(commit_of_checkout) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=ETLINK_VERSION={named}");
    println!("cargo::rerun-if-changed=build.rs");
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
