//! Python files that the launcher puts in front of all others on `PYTHONPATH`.

use std::env::JoinPathsError;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Files of the hook: path in its folder, text. The package has a private name there, so that it
/// and an `etlink_torch` of the program's own cannot be mistaken for each other.
pub const HOOK: [(&str, &str); 42] = [
    (
        "sitecustomize.py",
        include_str!("../python/sitecustomize.py"),
    ),
    (
        "_etlink_hook/__init__.py",
        include_str!("../python/etlink_torch/__init__.py"),
    ),
    (
        "_etlink_hook/armed.py",
        include_str!("../python/etlink_torch/armed.py"),
    ),
    (
        "_etlink_hook/at_end.py",
        include_str!("../python/etlink_torch/at_end.py"),
    ),
    (
        "_etlink_hook/descriptors.py",
        include_str!("../python/etlink_torch/descriptors.py"),
    ),
    (
        "_etlink_hook/files.py",
        include_str!("../python/etlink_torch/files.py"),
    ),
    (
        "_etlink_hook/flight_recorder.py",
        include_str!("../python/etlink_torch/flight_recorder.py"),
    ),
    (
        "_etlink_hook/forks.py",
        include_str!("../python/etlink_torch/forks.py"),
    ),
    (
        "_etlink_hook/graph_nodes.py",
        include_str!("../python/etlink_torch/graph_nodes.py"),
    ),
    (
        "_etlink_hook/guard.py",
        include_str!("../python/etlink_torch/guard.py"),
    ),
    (
        "_etlink_hook/hook.py",
        include_str!("../python/etlink_torch/hook.py"),
    ),
    (
        "_etlink_hook/host_cut.py",
        include_str!("../python/etlink_torch/host_cut.py"),
    ),
    (
        "_etlink_hook/known.py",
        include_str!("../python/etlink_torch/known.py"),
    ),
    (
        "_etlink_hook/lightning_hooks.py",
        include_str!("../python/etlink_torch/lightning_hooks.py"),
    ),
    (
        "_etlink_hook/locks.py",
        include_str!("../python/etlink_torch/locks.py"),
    ),
    (
        "_etlink_hook/manifest.py",
        include_str!("../python/etlink_torch/manifest.py"),
    ),
    (
        "_etlink_hook/masking.py",
        include_str!("../python/etlink_torch/masking.py"),
    ),
    (
        "_etlink_hook/memory_snapshot.py",
        include_str!("../python/etlink_torch/memory_snapshot.py"),
    ),
    (
        "_etlink_hook/observer_file.py",
        include_str!("../python/etlink_torch/observer_file.py"),
    ),
    (
        "_etlink_hook/own_profiler.py",
        include_str!("../python/etlink_torch/own_profiler.py"),
    ),
    (
        "_etlink_hook/phases.py",
        include_str!("../python/etlink_torch/phases.py"),
    ),
    (
        "_etlink_hook/process.py",
        include_str!("../python/etlink_torch/process.py"),
    ),
    (
        "_etlink_hook/report.py",
        include_str!("../python/etlink_torch/report.py"),
    ),
    (
        "_etlink_hook/restarts.py",
        include_str!("../python/etlink_torch/restarts.py"),
    ),
    (
        "_etlink_hook/session.py",
        include_str!("../python/etlink_torch/session.py"),
    ),
    (
        "_etlink_hook/signals.py",
        include_str!("../python/etlink_torch/signals.py"),
    ),
    (
        "_etlink_hook/step_ranges.py",
        include_str!("../python/etlink_torch/step_ranges.py"),
    ),
    (
        "_etlink_hook/steps/__init__.py",
        include_str!("../python/etlink_torch/steps/__init__.py"),
    ),
    (
        "_etlink_hook/steps/annotation.py",
        include_str!("../python/etlink_torch/steps/annotation.py"),
    ),
    (
        "_etlink_hook/steps/calls.py",
        include_str!("../python/etlink_torch/steps/calls.py"),
    ),
    (
        "_etlink_hook/steps/forward.py",
        include_str!("../python/etlink_torch/steps/forward.py"),
    ),
    (
        "_etlink_hook/steps/function.py",
        include_str!("../python/etlink_torch/steps/function.py"),
    ),
    (
        "_etlink_hook/steps/optimizer.py",
        include_str!("../python/etlink_torch/steps/optimizer.py"),
    ),
    (
        "_etlink_hook/steps/patches.py",
        include_str!("../python/etlink_torch/steps/patches.py"),
    ),
    (
        "_etlink_hook/steps/schedule.py",
        include_str!("../python/etlink_torch/steps/schedule.py"),
    ),
    (
        "_etlink_hook/timing.py",
        include_str!("../python/etlink_torch/timing.py"),
    ),
    (
        "_etlink_hook/trigger_signal.py",
        include_str!("../python/etlink_torch/trigger_signal.py"),
    ),
    (
        "_etlink_hook/wait_events.py",
        include_str!("../python/etlink_torch/wait_events.py"),
    ),
    (
        "_etlink_hook/waits.py",
        include_str!("../python/etlink_torch/waits.py"),
    ),
    (
        "_etlink_hook/watch.py",
        include_str!("../python/etlink_torch/watch.py"),
    ),
    (
        "_etlink_hook/window.py",
        include_str!("../python/etlink_torch/window.py"),
    ),
    (
        "_etlink_hook/workers.py",
        include_str!("../python/etlink_torch/workers.py"),
    ),
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
