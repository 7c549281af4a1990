//! Python files that the launcher puts in front of all others on `PYTHONPATH`.

use std::env::JoinPathsError;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Pairs each file of the package with its path in the hook's folder. The package has a private name
/// there, so that it and an `etlink_torch` of the program's own cannot be mistaken for each other.
macro_rules! hook_files {
    ($($name:literal),* $(,)?) => {
        [
            ("sitecustomize.py", include_str!("../python/sitecustomize.py")),
            $((
                concat!("_etlink_hook/", $name),
                include_str!(concat!("../python/etlink_torch/", $name)),
            ),)*
        ]
    };
}

/// Files of the hook: path in its folder, text.
pub const HOOK: [(&str, &str); 42] = hook_files![
    "__init__.py",
    "armed.py",
    "at_end.py",
    "descriptors.py",
    "files.py",
    "flight_recorder.py",
    "forks.py",
    "graph_nodes.py",
    "guard.py",
    "hook.py",
    "host_cut.py",
    "known.py",
    "lightning_hooks.py",
    "locks.py",
    "manifest.py",
    "masking.py",
    "memory_snapshot.py",
    "observer_file.py",
    "own_profiler.py",
    "phases.py",
    "process.py",
    "report.py",
    "restarts.py",
    "session.py",
    "signals.py",
    "step_ranges.py",
    "steps/__init__.py",
    "steps/annotation.py",
    "steps/calls.py",
    "steps/forward.py",
    "steps/function.py",
    "steps/optimizer.py",
    "steps/patches.py",
    "steps/schedule.py",
    "timing.py",
    "trigger_signal.py",
    "wait_events.py",
    "waits.py",
    "watch.py",
    "window.py",
    "workers.py",
];

/// File that appears in the hook's folder once a Python process has found the hook. Each such
/// process holds a shared lock on it for its lifetime.
pub const MARKER: &str = "python";

/// File in the hook's folder that marks the launcher as ended: processes that outlive it write the
/// manifest themselves.
pub const ENDED: &str = "ended";

/// Suffix of files in the hook's folder, after a process id, by which a process declares that it
/// adds nothing more, though it may still run.
pub const LEFT: &str = ".left";

/// Returns the value of `PYTHONPATH` with `hook` prepended to its previous value.
///
/// # Errors
/// The folder's name contains the character that separates the entries.
pub fn python_path(hook: &Path, before: Option<&OsStr>) -> Result<OsString, JoinPathsError> {
    // An empty entry of `PYTHONPATH` means the current folder, which nobody asked for.
    let before = before.filter(|before| !before.is_empty());
    let others = before.into_iter().flat_map(std::env::split_paths);
    std::env::join_paths(std::iter::once(PathBuf::from(hook)).chain(others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_has_the_version_of_the_crate() {
        let [package, project] = [HOOK[1].1, include_str!("../python/pyproject.toml")];
        assert!(package.contains(concat!("__version__ = \"", env!("CARGO_PKG_VERSION"), "\"")));
        assert!(project.contains(concat!("version = \"", env!("CARGO_PKG_VERSION"), "\"")));
    }

    #[test]
    fn the_hook_comes_first_and_an_empty_variable_adds_no_entry() {
        let path = |before: Option<&str>| {
            python_path(Path::new("hook"), before.map(OsStr::new)).expect("joins")
        };
        let joined = std::env::join_paths(["hook", "a", "b"]).expect("joins");
        let before = std::env::join_paths(["a", "b"]).expect("joins");
        assert_eq!(path(before.to_str()), joined);
        assert_eq!([path(None), path(Some(""))], ["hook", "hook"]);
    }
}
