//! The version that `etlink --version` prints: that of the crate and, in a git checkout, the
//! commit.

use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let named = match git(&["rev-parse", "--short=10", "HEAD"]) {
        Some(commit) => format!("{version} ({commit})"),
        // built from a package, which has no git folder
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=ETLINK_VERSION={named}");
    // HEAD itself names a branch; its log changes with every commit and checkout
    if let Some(log) = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ]) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// What git prints; nothing where it is missing or fails.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}
