//! A second way into Python, for scripts that set PYTHONPATH anew: programs of these names, first
//! on PATH, that put the hook's folder back and start what the name means without us.

use super::disk;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Launchers that are Python programs themselves: they name their Python in their first line, so
/// that one called `python` would not be asked.
const LAUNCHERS: [&str; 3] = ["torchrun", "accelerate", "deepspeed"];

/// Writes the programs into a folder of the hook's, and gives the value of PATH that has it first.
/// `path` is what PATH is. Where no such program is on it, or none of ours could be started, it
/// stays as it is.
pub fn path_with_wrappers(hook: &Path, path: &OsStr) -> Result<OsString> {
    let programs = python_programs(path);
    let folder = hook.join("bin");
    // A name that is no text could be written into a script only wrong.
    if programs.is_empty() || hook.to_str().is_none() {
        return Ok(path.to_owned());
    }
    disk::make_folders(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    if !can_start_scripts(&folder) {
        return Ok(path.to_owned());
    }
    for (name, program) in programs {
        let wrapper = folder.join(name);
        write_wrapper(&wrapper, hook, &program)
            .with_context(|| format!("cannot write {}", wrapper.display()))?;
    }
    let others = std::env::split_paths(path);
    Ok(std::env::join_paths(std::iter::once(folder).chain(others))?)
}

/// The programs that start Python, by name: the first of each on PATH, as a shell finds them.
fn python_programs(path: &OsStr) -> BTreeMap<String, PathBuf> {
    let mut programs = BTreeMap::new();
    // A relative entry means another folder once the script has changed into one.
    for folder in std::env::split_paths(path).filter(|folder| folder.is_absolute()) {
        // Entries that are no folders are usual, and no shell complains of them.
        for entry in disk::entries(&folder).unwrap_or_default() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let program = entry.path();
            let is_usable = program.to_str().is_some() && is_executable(&program);
            if starts_python(&name) && is_usable {
                programs.entry(name.into_owned()).or_insert(program);
            }
        }
    }
    programs
}

/// `python`, `python3`, `python3.12` or a launcher.
fn starts_python(name: &str) -> bool {
    let is_version = |rest: &str| rest.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    LAUNCHERS.contains(&name) || name.strip_prefix("python").is_some_and(is_version)
}

/// Whether programs in this folder start. Many clusters mount the folder for temporary files
/// without that right, and the script would end where it starts Python.
fn can_start_scripts(folder: &Path) -> bool {
    let probe = folder.join("etlink-probe");
    let written =
        disk::write(&probe, b"#!/bin/sh\nexit 0\n").and_then(|()| make_executable(&probe));
    let started = written.and_then(|()| Command::new(&probe).status());
    started.is_ok_and(|status| status.success())
}

fn write_wrapper(wrapper: &Path, hook: &Path, program: &Path) -> std::io::Result<()> {
    let (hook, program) = (quoted(hook), quoted(program));
    // `exec` by the full name, which is what Python finds its virtual environment by.
    let text = format!(
        "#!/bin/sh\n\
        # Of etlink record: the script sets PYTHONPATH anew, which is how the hook comes into Python.\n\
        hook={hook}\n\
        case \":$PYTHONPATH:\" in\n\
        *\":$hook:\"*) ;;\n\
        *) PYTHONPATH=\"$hook${{PYTHONPATH:+:$PYTHONPATH}}\" && export PYTHONPATH ;;\n\
        esac\n\
        exec {program} \"$@\"\n"
    );
    disk::write(wrapper, text.as_bytes())?;
    make_executable(wrapper)
}

/// As one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

/// As a shell that looks through PATH asks.
#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let metadata = path.metadata();
    metadata.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Elsewhere no shell runs these scripts.
#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_starts_python_is_known_by_its_name() {
        for name in ["python", "python3", "python3.12", "torchrun", "deepspeed"] {
            assert!(starts_python(name), "{name}");
        }
        for name in ["python3-config", "pythonw", "ipython", "torch", "pip"] {
            assert!(!starts_python(name), "{name}");
        }
        assert!(!is_executable(Path::new("/")));
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }

    #[cfg(unix)]
    #[test]
    fn what_a_shell_would_not_start_is_passed_by() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        for folder in &folders {
            std::fs::write(folder.path().join("python3"), "").expect("writes");
        }
        make_executable(&folders[1].path().join("python3")).expect("executable");
        let path = std::env::join_paths(folders.iter().map(tempfile::TempDir::path));
        let programs = python_programs(&path.expect("joins"));
        let found: Vec<_> = programs.values().collect();
        assert_eq!(found, [&folders[1].path().join("python3")]);
    }
}
