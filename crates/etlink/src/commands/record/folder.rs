//! The folder of a recording: the traces, the manifest, and what processes report while they run.

use anyhow::{Context, Result, bail};
use etlink_run::manifest::MANIFEST;
use etlink_torch::{Manifest, Process};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The folder of a recording.
pub struct Output {
    /// Absolute: the program may work elsewhere.
    pub path: PathBuf,
    work: tempfile::TempDir,
    /// Files of an earlier recording, and where they are until the program runs.
    old: Vec<(PathBuf, PathBuf)>,
}

impl Output {
    /// Makes the folder and sees that it can be written and has no other recording.
    pub fn new(path: &Path, force: bool) -> Result<Output> {
        let path = made(path)?;
        let old = recorded(&path)?;
        if let Some(first) = old.first().filter(|_| !force) {
            bail!(
                "{} is there already; choose another folder, or use --force to replace the recording",
                first.display()
            );
        }
        let work = tempfile::Builder::new()
            .prefix(".etlink-")
            .tempdir_in(&path);
        let work = work.with_context(|| {
            format!(
                "cannot write in folder {}; -o names another",
                path.display()
            )
        })?;
        let old: Vec<_> = old
            .into_iter()
            .enumerate()
            .map(|(at, file)| (file, work.path().join(format!("{at}.old"))))
            .collect();
        for (file, aside) in &old {
            std::fs::rename(file, aside)
                .with_context(|| format!("cannot replace {}", file.display()))?;
        }
        Ok(Output { path, work, old })
    }

    /// Puts an earlier recording back: there is no new one.
    pub fn restore(&self) {
        for (file, aside) in &self.old {
            // the reason why there is no new one is what the user has to hear
            drop(std::fs::rename(aside, file));
        }
    }

    /// Where processes report.
    pub fn work(&self) -> &Path {
        self.work.path()
    }

    /// What they reported, by process id.
    pub fn processes(&self) -> Result<Vec<Process>> {
        let reports = self.pids(".json")?;
        reports.iter().map(|pid| self.process(*pid)).collect()
    }

    /// Processes that left an unfinished trace.
    pub fn lost(&self) -> Result<BTreeSet<u32>> {
        self.pids(".host.json")
    }

    /// Writes the manifest.
    pub fn write(&self, manifest: &Manifest) -> Result<()> {
        let (temporary, target) = (self.work().join(MANIFEST), self.path.join(MANIFEST));
        let text = serde_json::to_string_pretty(manifest)? + "\n";
        let written =
            std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, &target));
        written.with_context(|| format!("cannot write {}", target.display()))
    }

    fn process(&self, pid: u32) -> Result<Process> {
        let report = self.work().join(format!("{pid}.json"));
        let bytes =
            std::fs::read(&report).with_context(|| format!("cannot read {}", report.display()))?;
        let steps = std::fs::read(self.work().join(format!("{pid}.steps"))).unwrap_or_default();
        Process::read(&bytes, &steps)
            .with_context(|| format!("{} is no report of a process", report.display()))
    }

    fn pids(&self, ending: &str) -> Result<BTreeSet<u32>> {
        let names = names(self.work())?;
        Ok(names
            .iter()
            .filter_map(|name| name.strip_suffix(ending)?.parse().ok())
            .collect())
    }
}

/// Makes a folder, and tells its absolute path.
pub fn made(path: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(path)
        .with_context(|| format!("cannot make folder {}", path.display()))?;
    path.canonicalize()
        .with_context(|| format!("cannot find folder {}", path.display()))
}

/// The files of an earlier recording, sorted.
fn recorded(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    let entries = names(folder)?;
    let cycles = entries
        .iter()
        .filter(|name| is_numbered(name, "cycle_", ""));
    for place in std::iter::once(folder.to_owned())
        .chain(cycles.map(|name| folder.join(name)))
        .filter(|place| place.is_dir())
    {
        found.extend(
            names(&place)?
                .iter()
                .filter(|name| is_recorded(name))
                .map(|name| place.join(name)),
        );
    }
    found.sort();
    Ok(found)
}

fn is_recorded(name: &str) -> bool {
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    name == MANIFEST
        || is_numbered(plain, "torch_et_", ".json")
        || is_numbered(plain, "kineto_trace_", ".json")
}

fn is_numbered(name: &str, prefix: &str, suffix: &str) -> bool {
    let number = name
        .strip_prefix(prefix)
        .and_then(|name| name.strip_suffix(suffix));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Names in a folder that are text.
fn names(folder: &Path) -> Result<Vec<String>> {
    let read = || -> std::io::Result<Vec<String>> {
        let entries = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
        Ok(entries
            .iter()
            .filter_map(|entry| OsStr::to_str(&entry.file_name()).map(str::to_owned))
            .collect())
    };
    read().with_context(|| format!("cannot read folder {}", folder.display()))
}
