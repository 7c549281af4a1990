//! A second way into Python, for scripts that overwrite PYTHONPATH: programs with Python's names,
//! first on PATH, that restore the hook's folder and start the real program.
//!
//! The real program is looked up when the name is started, not when the recording begins: `conda
//! activate` in the script may change PATH in between, after our folder.

use super::files::{self, named};
use anyhow::Result;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Launchers that are Python programs: their first line names their Python, so a wrapper called
/// `python` is not used.
const LAUNCHERS: [&str; 3] = ["torchrun", "accelerate", "deepspeed"];

/// Writes the wrappers into a folder of the hook's, and returns `path` with that folder first.
/// Returns `path` unchanged if it has no such program or wrappers cannot be started.
pub fn path_with_wrappers(hook: &Path, path: &OsStr) -> Result<OsString> {
    let names = python_programs(path);
    let folder = hook.join("bin");
    // A path that is not valid UTF-8 cannot be written into a script correctly.
    if names.is_empty() || hook.to_str().is_none() {
        return Ok(path.to_owned());
    }
    named(fs::create_dir_all(&folder), "create", &folder)?;
    if !can_start_scripts(&folder) {
        return Ok(path.to_owned());
    }
    for name in names {
        let wrapper = folder.join(&name);
        named(write_wrapper(&wrapper, hook, &name), "write", &wrapper)?;
    }
    let others = std::env::split_paths(path);
    Ok(std::env::join_paths(std::iter::once(folder).chain(others))?)
}

/// Returns the names of programs on PATH that start Python.
fn python_programs(path: &OsStr) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in std::env::split_paths(path) {
        // Entries that are not folders are common, and no shell complains about them.
        for entry in files::entries(&folder).unwrap_or_default() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if starts_python(&name) && is_executable(&entry.path()) {
                names.insert(name.into_owned());
            }
        }
    }
    names
}

/// Returns true for `python`, `python3`, `python3.12`, or a launcher.
fn starts_python(name: &str) -> bool {
    let is_version = |rest: &str| rest.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    LAUNCHERS.contains(&name) || name.strip_prefix("python").is_some_and(is_version)
}

/// Returns true if programs in this folder can be started. Many clusters mount the temporary folder
/// without that right; wrappers there would end the script as it starts Python.
fn can_start_scripts(folder: &Path) -> bool {
    let probe = folder.join("etlink-probe");
    let written = fs::write(&probe, b"#!/bin/sh\nexit 0\n").and_then(|()| make_executable(&probe));
    let started = written.and_then(|()| start_probe(&probe));
    started.is_ok_and(|status| status.success())
}

/// Starts a program that was just written. If another thread starts a process at that moment, its
/// child holds the file open until it executes another program, and the system reports the file as
/// busy.
fn start_probe(probe: &Path) -> std::io::Result<ExitStatus> {
    let mut tries = 0;
    loop {
        match Command::new(probe).status() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && tries < MOST_TRIES => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            started => return started,
        }
    }
}

/// Most retries of a busy program, one millisecond apart.
const MOST_TRIES: u32 = 1_000;

fn write_wrapper(wrapper: &Path, hook: &Path, name: &str) -> std::io::Result<()> {
    let hook = quoted(hook);
    // Only POSIX shell builtins: PATH may have no folder with other programs. Only entries after
    // our folder are searched: with nested recordings there are two such folders, whose wrappers
    // would start each other forever. Python finds its virtual environment by the full name passed
    // to `exec`.
    let text = format!(
        "#!/bin/sh\n\
        # By etlink record: the script overwrites PYTHONPATH, which etlink needs to load its hook.\n\
        hook={hook}\n\
        case \":$PYTHONPATH:\" in\n\
        *\":$hook:\"*) ;;\n\
        *) PYTHONPATH=\"$hook${{PYTHONPATH:+:$PYTHONPATH}}\" && export PYTHONPATH ;;\n\
        esac\n\
        folders=\"$PATH:\"\n\
        # what comes behind our own folder, unless that is not on PATH any more\n\
        case \":$folders\" in\n\
        *\":$hook/bin:\"*) folders=\":$folders\" && folders=\"${{folders#*\":$hook/bin:\"}}\" ;;\n\
        esac\n\
        while [ -n \"$folders\" ]; do\n\
        folder=\"${{folders%%:*}}\"\n\
        folders=\"${{folders#*:}}\"\n\
        # an empty entry of PATH is the current folder\n\
        program=\"${{folder:-.}}/{name}\"\n\
        if [ -f \"$program\" ] && [ -x \"$program\" ]; then exec \"$program\" \"$@\"; fi\n\
        done\n\
        echo \"{name}: not found\" >&2\n\
        exit 127\n"
    );
    fs::write(wrapper, text.as_bytes())?;
    make_executable(wrapper)
}

/// Quotes a path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

/// Returns true if a shell that searches PATH would run this file.
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let metadata = path.metadata();
    metadata.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Locks out other tests that write and start programs: a shell does not retry as
    /// [`start_probe`] does.
    fn alone() -> MutexGuard<'static, ()> {
        static STARTS: Mutex<()> = Mutex::new(());
        STARTS.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

    #[test]
    fn what_a_shell_would_not_start_is_passed_by() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        for folder in &folders {
            std::fs::write(folder.path().join("python3"), "").expect("writes");
        }
        make_executable(&folders[1].path().join("python3")).expect("executable");
        let path = std::env::join_paths(folders.iter().map(tempfile::TempDir::path));
        let path = path.expect("joins");
        assert_eq!(python_programs(&path), BTreeSet::from(["python3".into()]));
        let first = OsStr::new(folders[0].path());
        assert_eq!(python_programs(first), BTreeSet::new());
    }

    /// Starts `python3` with this PATH. Returns its output and exit code.
    fn run_python(path: &OsStr) -> (String, Option<i32>) {
        let output = Command::new("/bin/sh")
            .args(["-c", "python3 'a b'"])
            .env("PATH", path)
            .env("PYTHONPATH", "mine")
            .output()
            .expect("runs a shell");
        let text = String::from_utf8(output.stdout).expect("text");
        (text, output.status.code())
    }

    /// Writes a program `python3`, which prints `name`, into a new folder.
    fn python_named(name: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("python3");
        let text = format!("#!/bin/sh\necho \"{name} $1 $PYTHONPATH\"\n");
        std::fs::write(&program, text).expect("writes");
        make_executable(&program).expect("executable");
        folder
    }

    #[test]
    fn a_name_means_what_it_means_when_it_is_started() {
        let _alone = alone();
        let hook = tempfile::tempdir().expect("a folder");
        let (base, activated) = (python_named("base"), python_named("activated"));
        let path = path_with_wrappers(hook.path(), base.path().as_os_str()).expect("writes");
        let shown = hook.path().display();
        let said = run_python(&path);
        assert_eq!(said, (format!("base a b {shown}:mine\n"), Some(0)));
        // `conda activate` replaces the old environment by the new one
        let ours = hook.path().join("bin");
        let changed = std::env::join_paths([&ours, activated.path(), base.path()]);
        let said = run_python(&changed.expect("joins"));
        assert_eq!(said, (format!("activated a b {shown}:mine\n"), Some(0)));
        // and `conda deactivate` may leave none
        assert_eq!(run_python(ours.as_os_str()), (String::new(), Some(127)));
    }

    #[test]
    fn entries_that_are_relative_mean_what_they_mean_to_the_script() {
        let _alone = alone();
        let hook = tempfile::tempdir().expect("a folder");
        let base = python_named("base");
        let path = path_with_wrappers(hook.path(), base.path().as_os_str()).expect("writes");
        let place = python_named("here");
        let output = Command::new("/bin/sh")
            .args(["-c", "PATH=${PATH%%:*}::/nowhere python3"])
            .env("PATH", path)
            .env("PYTHONPATH", "mine")
            .current_dir(place.path())
            .output()
            .expect("runs a shell");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.starts_with("here "), "{text}");
    }

    #[test]
    fn two_recordings_in_each_other_end() {
        let _alone = alone();
        let hooks = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let base = python_named("base");
        let outer = path_with_wrappers(hooks[0].path(), base.path().as_os_str()).expect("writes");
        let inner = path_with_wrappers(hooks[1].path(), &outer).expect("writes");
        let (said, code) = run_python(&inner);
        assert!(said.starts_with("base a b "), "{said}");
        assert_eq!(code, Some(0));
    }
}
