//! Runs the command in a temporary folder, and shows everything when a test fails.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// Returns true if `ETLINK_EVERY_CALL` requests tests in which each call fails in turn, which take
/// minutes.
pub fn every_call_fails() -> bool {
    std::env::var_os("ETLINK_EVERY_CALL").is_some()
}

/// Numbers of the calls to fail in turn: the first ones, then every sixteenth, without end.
pub fn failing_numbers() -> impl Iterator<Item = u32> {
    const FIRST: u32 = 12;
    let step = if every_call_fails() { 1 } else { 16 };
    (1..=FIRST).chain((FIRST + step..).step_by(step as usize))
}

/// Returns the library of `failing_calls.c`, compiled once for all tests.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn failing_calls() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let library = folder.join("failing_calls.so");
        // another test program may be loading the existing one
        let made = tempfile::NamedTempFile::new_in(folder).expect("makes file");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/failing_calls.c");
        let status = Command::new("cc")
            .args([
                "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o",
            ])
            .args([made.path(), &source])
            .status();
        assert!(status.expect("there is a C compiler").success());
        made.persist(&library).expect("puts in place");
        library
    })
}

/// A folder for running `etlink`, deleted after the test.
pub struct Tool {
    folder: tempfile::TempDir,
}

/// Result of a run.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    shown: String,
}

impl Tool {
    pub fn new() -> Tool {
        Tool {
            folder: tempfile::tempdir().expect("a folder for the test"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in the folder.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("has a folder")).expect("makes folder");
        std::fs::write(&path, content).expect("writes file");
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns the names in the folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("lists folder");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    /// Returns all files below a folder, by their paths in it.
    pub fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let mut entries = self.entries(folder);
        entries.retain(|name, _| !name.ends_with('/'));
        entries
    }

    /// Returns all files and folders below a folder. Paths of folders end in `/`.
    pub fn entries(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let (root, mut files) = (self.path(folder), BTreeMap::new());
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("lists folder") {
                let path = entry.expect("entry").path();
                let name = path.strip_prefix(&root).expect("is below").display();
                if path.is_dir() {
                    files.insert(format!("{name}/"), vec![]);
                    folders.push(path);
                } else {
                    let content = std::fs::read(&path).expect("reads file");
                    files.insert(name.to_string(), content);
                }
            }
        }
        files
    }

    /// Recreates `folder` with exactly these files.
    pub fn put_files(&self, folder: &str, files: &BTreeMap<String, Vec<u8>>) {
        drop(std::fs::remove_dir_all(self.path(folder)));
        std::fs::create_dir_all(self.path(folder)).expect("makes folder");
        for (name, content) in files {
            self.file(&format!("{folder}/{name}"), content);
        }
    }

    /// Starts `etlink` with its output discarded.
    pub fn start(&self, line: &str) -> Child {
        // under nohup a test run would inherit an ignored SIGHUP; `env` becomes the command
        let mut command = Command::new("env");
        command
            .args(["--default-signal", env!("CARGO_BIN_EXE_etlink")])
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().expect("starts")
    }

    /// Runs `etlink` while a change in `out` fails, see `failing_calls.c`.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub fn run_with_fault(&self, line: &str, fault: &str) -> Ran {
        // leftovers of a killed process are deleted with the test's own folder
        let temporary = self.path(".tmp");
        std::fs::create_dir_all(&temporary).expect("makes folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_etlink"));
        command
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .env("TMPDIR", temporary)
            .envs(self.fault("out", fault))
            .stdin(Stdio::null());
        Ran::new(
            &format!("{line} with {fault}"),
            command.output().expect("runs"),
        )
    }

    /// Returns the variables with which a change in a folder fails.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub fn fault(&self, folder: &str, fault: &str) -> [(&'static str, String); 3] {
        let root = self.folder.path().canonicalize().expect("is there");
        [
            ("LD_PRELOAD", failing_calls().display().to_string()),
            ("FAIL_CHANGE", fault.to_owned()),
            ("FAIL_CHANGE_BELOW", root.join(folder).display().to_string()),
        ]
    }

    /// Starts `etlink` until it stops at a file system call; `None` if it made fewer calls.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub fn start_until(&self, line: &str, fault: &str) -> Option<Child> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etlink"));
        command
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .envs(self.fault("out", fault))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("starts");
        let status = format!("/proc/{}/status", child.id());
        while child.try_wait().expect("is ours").is_none() {
            let status = std::fs::read_to_string(&status).expect("is there");
            if status.contains("State:\tT") {
                return Some(child);
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        None
    }

    /// Runs `etlink` with words separated by blanks; `{pairs}` stands for the recorded pairs.
    pub fn run(&self, line: &str) -> Ran {
        self.run_with(line, &[])
    }

    /// Runs a shell line in the folder; `$ETLINK` is the program.
    pub fn shell(&self, line: &str) -> Ran {
        let line = line.replace("{pairs}", &pairs().display().to_string());
        let mut command = Command::new("sh");
        command
            .args(["-c", &line])
            .current_dir(self.folder.path())
            .env("ETLINK", env!("CARGO_BIN_EXE_etlink"))
            .env_remove("COLUMNS");
        Ran::new(&line, command.output().expect("runs"))
    }

    /// Runs `etlink` with additional environment variables.
    pub fn run_in(&self, line: &str, variables: &[(&str, &str)]) -> Ran {
        let output = self
            .command(line)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output();
        Ran::new(&format!("{variables:?} {line}"), output.expect("runs"))
    }

    /// Runs `etlink` with words that may contain blanks.
    pub fn run_words(&self, words: &[String]) -> Ran {
        let mut command = self.command("");
        let output = command.args(words).stdin(Stdio::null()).output();
        Ran::new(&words.join(" "), output.expect("runs"))
    }

    fn command(&self, line: &str) -> Command {
        let words = line
            .split_whitespace()
            .map(|word| word.replace("{pairs}", &pairs().display().to_string()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_etlink"));
        // the developer's terminal width must not affect a test
        command
            .args(words)
            .current_dir(self.folder.path())
            .env_remove("ETLINK_CACHE")
            .env_remove("COLUMNS");
        command
    }

    pub fn run_with(&self, line: &str, stdin: &[u8]) -> Ran {
        let mut child = self
            .command(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut pipe = child.stdin.take().expect("piped");
        let stdin = stdin.to_vec();
        let feeding =
            std::thread::spawn(move || drop(std::io::Write::write_all(&mut pipe, &stdin)));
        let output = child.wait_with_output().expect("ends");
        feeding.join().expect("fed");
        Ran::new(line, output)
    }
}

/// Returns the first plural noun after the number 1, such as `1 nodes`. In `rank 1 waits`, the number is
/// part of a name.
fn plural_of_one(text: &str) -> Option<&str> {
    static PLURAL: OnceLock<regex::Regex> = OnceLock::new();
    let plural = PLURAL.get_or_init(|| {
        let nouns = "nodes|waits|ranks|steps|calls|ops|rows|launches|edges|traces|kernels|files|threads|\
                     streams|devices|collectives|others|lines|copies|events|messages|groups|deps|\
                     entries|findings|faults|errors|slices|recordings|runs|folders|processes";
        let name = "(?:[a-z]+#?|[0-9]+[,.…]| and|-)";
        regex::Regex::new(&format!("({name} ?)?\\b1 (?:{nouns})\\b")).expect("a pattern")
    });
    let names = [
        "rank", "ranks", "step", "thread", "stream", "device", "node", "group", "number", "of",
    ];
    plural.captures_iter(text).find_map(|found| {
        let before = found.get(1).map_or("", |before| before.as_str()).trim();
        let is_name =
            names.contains(&before) || before.ends_with(|last: char| !last.is_alphabetic());
        let is_name = is_name && !before.is_empty() || before == "and";
        (!is_name).then(|| found.get(0).map_or("", |all| all.as_str()))
    })
}

#[test]
fn plurals_of_one_are_noticed() {
    for text in [
        "1 nodes",
        "has 1 waits",
        "(1 ranks)",
        "whether 1 waits without delay",
    ] {
        assert!(plural_of_one(text).is_some(), "{text}");
    }
    for text in [
        "1 node",
        "11 nodes",
        "rank 1 waits",
        "ranks 0, 1 waits",
        "0.1 steps",
        "1  nodes",
    ] {
        assert_eq!(plural_of_one(text), None, "{text}");
    }
}

impl Ran {
    fn new(line: &str, output: Output) -> Ran {
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code().unwrap_or(-1);
        let shown =
            format!("$ etlink {line}\n-- exit {code}\n-- stdout\n{stdout}\n-- stderr\n{stderr}");
        assert!(!stderr.contains("panicked"), "{shown}");
        let plural = plural_of_one(&stdout).or_else(|| plural_of_one(&stderr));
        assert!(plural.is_none(), "{plural:?} in\n{shown}");
        Ran {
            code,
            stdout,
            stderr,
            shown,
        }
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "{}", self.shown);
        self
    }

    /// Asserts that standard output contains `part`.
    #[track_caller]
    pub fn says(self, part: &str) -> Ran {
        assert!(self.stdout.contains(part), "no {part:?} in\n{}", self.shown);
        self
    }

    #[track_caller]
    /// Asserts that no output contains `part`.
    pub fn lacks(self, part: &str) -> Ran {
        let said = self.stdout.contains(part) || self.stderr.contains(part);
        assert!(!said, "{part:?} in\n{}", self.shown());
        self
    }

    /// Asserts that a line of standard error contains `part`, and none of standard output does.
    pub fn notes(self, part: &str) -> Ran {
        let has_part = |text: &str| text.lines().any(|line| line.contains(part));
        assert!(has_part(&self.stderr), "no {part:?} in\n{}", self.shown);
        assert!(!has_part(&self.stdout), "{part:?} in\n{}", self.shown);
        self
    }

    /// Asserts that the error is a single line with all `parts`, apart from notes.
    #[track_caller]
    pub fn complains(self, parts: &[&str]) -> Ran {
        let is_error = |line: &&str| !line.starts_with("note: ");
        let errors = self.stderr.lines().filter(is_error).count();
        assert_eq!(errors, 1, "{}", self.shown);
        for part in parts {
            assert!(self.stderr.contains(part), "no {part:?} in\n{}", self.shown);
        }
        self
    }

    /// Returns the run as text, for messages.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Parses the report from standard output, and validates it against its schema.
    #[track_caller]
    pub fn json(&self) -> Value {
        let report = self.other_json();
        if let Err(error) = crate::schema::check_report(&report) {
            panic!("{error}\n{}", self.shown.lines().next().unwrap_or_default());
        }
        report
    }

    /// Parses JSON that is not a report: a graph, or SARIF.
    #[track_caller]
    pub fn other_json(&self) -> Value {
        let parsed = serde_json::from_str(&self.stdout);
        parsed.unwrap_or_else(|error| panic!("{error}\n{}", self.shown))
    }

    /// Returns the reports of all runs.
    #[track_caller]
    pub fn runs(&self) -> Value {
        self.json()["runs"].take()
    }

    /// Returns the report of the only run.
    #[track_caller]
    pub fn only_run(&self) -> Value {
        self.only("runs")
    }

    /// Returns the reports of all files.
    #[track_caller]
    pub fn files(&self) -> Value {
        self.json()["files"].take()
    }

    /// Returns the report of the only file.
    #[track_caller]
    pub fn only_file(&self) -> Value {
        self.only("files")
    }

    #[track_caller]
    fn only(&self, list: &str) -> Value {
        let mut json = self.json();
        let reports = json[list].as_array_mut();
        let reports = reports.unwrap_or_else(|| panic!("no {list} in\n{}", self.shown));
        assert_eq!(reports.len(), 1, "{}", self.shown);
        reports.remove(0)
    }
}

/// Returns the folder of the recorded pairs.
pub fn pairs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/pairs")
        .canonicalize()
        .expect("testdata is there")
}

/// Returns the uncompressed contents of a recorded gzip file.
pub fn unpacked(name: &str) -> Vec<u8> {
    let file = std::fs::File::open(pairs().join(name)).expect("recorded file");
    let mut text = vec![];
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(file), &mut text)
        .expect("unpacks");
    text
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, bytes).expect("packs");
    packed.finish().expect("packs")
}

/// Compresses like `bgzip`: small members that state their size, and an empty one.
pub fn bgzip(bytes: &[u8]) -> Vec<u8> {
    let block = |bytes: &[u8]| {
        let mut packed = flate2::GzBuilder::new()
            .extra(*b"BC\x02\0\0\0")
            .write(vec![], flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, bytes).expect("packs");
        let mut packed = packed.finish().expect("packs");
        let size = packed.len() as u16 - 1;
        packed[16..18].copy_from_slice(&size.to_le_bytes());
        packed
    };
    bytes
        .chunks(65_280)
        .chain([&b""[..]])
        .flat_map(block)
        .collect()
}
