//! The folder of a recording, and the work folder `.etlink` in it, to which running processes
//! report.
//!
//! ```text
//! lock            held while files of both folders are moved or the manifest is written
//! running         shared by all launchers and processes that use the work folder
//! job             the launchers, and the job that they are tasks of
//! L.manifest      draft of launcher L's manifest from before the program starts, see `left_list`
//! L.123.json      report of process 123 of launcher L; also .steps, .host.json, .device.json
//! rank_0          the process that records rank 0
//! old.json, …     see `earlier`
//! ```

use super::earlier::{self, Earlier};
use super::files::{self, named, names};
use super::launchers::{FolderTask, Launchers};
use super::left_list;
use super::lock::{self, Lock};
use super::task::JobTask;
use crate::notes;
use anyhow::{Context, Result, bail};
use etlink_model::diagnostic;
use etlink_run::manifest::{MANIFEST, RUNNING, WORK};
use etlink_run::storage::is_url;
use etlink_torch::{Manifest, ManifestContents, Process};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const JOB: &str = "job";

/// A recording's folder, as one launcher uses it.
pub struct Output {
    /// Absolute path: the program may run in another directory.
    pub path: PathBuf,
    folder: MadeFolder,
    work: PathBuf,
    /// Name of this launcher, and prefix of its files.
    launcher: String,
    /// Shared lock on the work folder; `None` while testing if anyone else needs the folder.
    running: Option<Lock>,
}

impl Output {
    /// Creates the folder. Checks that it is writable, that nobody else records into it, and that
    /// it holds no other recording. `launcher` must be unique among all launchers.
    pub fn new(
        path: &Path,
        overwrite: bool,
        launcher: &str,
        task: Option<&JobTask>,
    ) -> Result<Output> {
        if is_url(path) {
            bail!(
                "{}: recordings need a folder on this machine; give one, and copy the recording when it is \
                 done",
                path.display()
            );
        }
        // before locking, because the lock is in this folder
        let folder = MadeFolder::make(path)?;
        let path = folder.path.clone();
        let work = path.join(WORK);
        let _lock = lock::exclusive(&work, LOCK).with_context(|| {
            format!(
                "cannot write in folder {}; choose another with -o",
                path.display()
            )
        })?;
        let mut output = Output {
            path,
            folder,
            work,
            launcher: launcher.to_owned(),
            running: None,
        };
        let running = output.work.join(RUNNING);
        // only the kernel knows if a launcher is alive: a file with its process id would outlive it
        let alone = lock::try_exclusive(&running)?;
        let accepted = if alone.is_some() {
            output.begin(overwrite, task)
        } else {
            output.join(overwrite, task)
        };
        if let Err(refused) = accepted {
            if alone.is_some() {
                output.remove_work();
                output.folder.remove_unused();
            }
            return Err(refused);
        }
        // nobody can come between: the other lock is held
        drop(alone);
        output.running = Some(lock::shared(&running)?);
        Ok(output)
    }

    /// Begins a recording as the first launcher, after settling the leftovers of a killed one.
    fn begin(&self, overwrite: bool, task: Option<&JobTask>) -> Result<()> {
        self.put_in_order()?;
        let begun = self.begun(task)?;
        let is_again = self.is_again(task, begun.as_ref(), overwrite)?;
        let begun = if !is_again { begun } else { None };
        let files = if begun.is_some() {
            vec![]
        } else {
            earlier::recorded(&self.path)?
        };
        if !overwrite && let Some(first) = files.first() {
            bail!(
                "{} already exists; choose another folder, or use --overwrite to replace the \
                recording",
                self.path.join(first).display()
            );
        }
        // traces do not show who requested them; the manifest is always the recorder's
        let has_manifest = files.iter().any(|file| file == MANIFEST);
        if has_manifest && self.manifest()?.is_none() {
            bail!(
                "{} has the name of a recording's manifest, but etlink did not write it, and \
                --overwrite does not remove it; move it away",
                self.path.join(MANIFEST).display()
            );
        }
        // a manifest without traces only explains why there are none
        if files.iter().any(|file| file != MANIFEST) {
            earlier::list(&self.work, &files)?;
        } else if has_manifest && is_again {
            // otherwise the tasks of this run would join that manifest
            files::remove_if_there(&self.path.join(MANIFEST))?;
        }
        let recorded = numbers(begun.as_ref());
        Launchers::first(&self.launcher, task, &recorded).write(&self.work.join(JOB))
    }

    /// Settles the leftovers of a killed launcher.
    fn put_in_order(&self) -> Result<()> {
        earlier::settle(&self.path, &self.work)?;
        self.list_left()?;
        self.remove_reports("")
    }

    /// Writes the manifest of a launcher that was killed before writing it, if its traces are here.
    fn list_left(&self) -> Result<()> {
        for launcher in left_list::launchers(&self.work)? {
            if self.path.join(MANIFEST).exists() {
                return Ok(());
            }
            let (processes, _) = self.processes_of(&launcher)?;
            let list = left_list::manifest(&self.path, &self.work, &launcher, processes)?;
            if let Some(list) = list {
                self.write_text(&(serde_json::to_string_pretty(&list)? + "\n"))?;
                notes::print([&diagnostic!(
                    Recording,
                    "wrote {} from the files of an earlier launcher",
                    self.path.join(MANIFEST).display()
                )]);
            }
        }
        Ok(())
    }

    /// Joins a recording as a further launcher: only tasks of one job share a folder.
    fn join(&self, overwrite: bool, task: Option<&JobTask>) -> Result<()> {
        let path = self.work.join(JOB);
        let mut launchers = Launchers::read(&path)?;
        // a recording that is about to be replaced is not part of this job
        let begun = if earlier::is_replacing(&self.work) {
            None
        } else {
            self.begun(task)?
        };
        let recorded = numbers(begun.as_ref());
        if launchers.join(&self.launcher, task, &recorded).is_none() {
            bail!(
                "another recording is being written to {}; choose another folder with -o, or wait \
                until it ends",
                self.path.display()
            );
        }
        self.is_again(task, begun.as_ref(), overwrite)?;
        launchers.write(&path)
    }

    /// Returns the manifest in the folder if other tasks of this job began it.
    fn begun(&self, task: Option<&JobTask>) -> Result<Option<ManifestContents>> {
        let Some(task) = task else { return Ok(None) };
        let earlier = self.manifest()?;
        Ok(earlier.filter(|earlier| earlier.job.as_ref() == Some(&task.job)))
    }

    /// Returns true if this task has already recorded, for example because a script records two
    /// programs into one folder or a command is repeated. Refuses this unless `overwrite` is set.
    fn is_again(
        &self,
        task: Option<&JobTask>,
        begun: Option<&ManifestContents>,
        overwrite: bool,
    ) -> Result<bool> {
        let (Some(task), Some(begun)) = (task, begun) else {
            return Ok(false);
        };
        let is_again = task.has_recorded(&begun.tasks);
        if is_again && !overwrite {
            let who = match task.number {
                Some(number) => format!("task {number} of this job"),
                None => "this job".to_owned(),
            };
            bail!(
                "{who} has already recorded into {}; choose another folder, or use --overwrite to \
                replace its traces",
                self.path.display()
            );
        }
        Ok(is_again)
    }

    /// Returns this launcher's place in the job that records into the folder, as known so far.
    pub fn task(&self, task: Option<&JobTask>) -> Option<FolderTask> {
        match Launchers::read(&self.work.join(JOB)) {
            Ok(launchers) => launchers.task(&self.launcher, task),
            // the program may have removed the folder: fall back to what was known before
            Err(_) => task.map(FolderTask::alone),
        }
    }

    /// Returns the work folder, to which processes report.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Waits until the files of the folder may be changed.
    pub fn lock(&self) -> Result<Lock> {
        named(lock::exclusive(&self.work, LOCK), "lock", &self.work)
    }

    /// Returns the reports of this launcher's processes, by process id, and notes about unreadable
    /// reports.
    pub fn processes(&self) -> Result<(Vec<Process>, Vec<String>)> {
        self.processes_of(&self.launcher)
    }

    fn processes_of(&self, launcher: &str) -> Result<(Vec<Process>, Vec<String>)> {
        let (mut processes, mut notes) = (vec![], vec![]);
        for pid in self.pids(launcher, ".json")? {
            match self.process(launcher, pid) {
                Ok(process) => processes.push(process),
                Err(error) => notes.push(format!("process {pid}: {error:#}")),
            }
        }
        Ok((processes, notes))
    }

    /// Returns the processes that left an unfinished trace.
    pub fn lost(&self) -> Result<BTreeSet<u32>> {
        self.pids(&self.launcher, ".host.json")
    }

    /// Returns the manifest of this recording as far as others have written it.
    pub fn begun_manifest(&self) -> Result<Option<ManifestContents>> {
        if earlier::is_replacing(&self.work) {
            return Ok(None);
        }
        self.manifest()
    }

    /// Returns the manifest in the folder; `None` if there is none or the file is not a manifest.
    ///
    /// # Errors
    /// The file exists but cannot be read: a new manifest would lose the recordings of other
    /// launchers.
    pub fn manifest(&self) -> Result<Option<ManifestContents>> {
        let bytes = files::read_if_there(&self.path.join(MANIFEST))?;
        Ok(bytes.and_then(|bytes| ManifestContents::read(&bytes).ok()))
    }

    /// Replaces the manifest atomically: either the old or the new one always exists.
    pub fn write(&self, manifest: &Manifest) -> Result<()> {
        self.write_text(&(serde_json::to_string_pretty(manifest)? + "\n"))
    }

    fn write_text(&self, text: &str) -> Result<()> {
        let target = self.path.join(MANIFEST);
        let write = || -> std::io::Result<()> {
            // in the work folder, which is on the same file system: renaming is atomic there
            let mut temporary = new_file().tempfile_in(&self.work)?;
            std::io::Write::write_all(&mut temporary, text.as_bytes())?;
            temporary.as_file().sync_all()?;
            temporary.persist(&target)?;
            Ok(())
        };
        named(write(), "write", &target)
    }

    /// Restores the state before the recording, because nothing was started.
    pub fn give_up(&mut self) -> Result<()> {
        let _lock = self.lock()?;
        self.settle()?;
        let is_last = self.leave(false)?;
        self.close(is_last, &BTreeSet::new())?;
        self.folder.remove_unused();
        Ok(())
    }

    /// Settles the earlier recording: removed or put back.
    pub fn settle(&self) -> Result<Earlier> {
        earlier::settle(&self.path, &self.work)
    }

    /// Returns true if no other launcher needs the work folder any more. `has_alive`: processes of
    /// this launcher still do.
    pub fn leave(&mut self, has_alive: bool) -> Result<bool> {
        self.running = None;
        let running = lock::try_exclusive(&self.work.join(RUNNING))?;
        Ok(running.is_some() || has_alive)
    }

    /// Removes the reports of this launcher's processes; the last user also removes the work
    /// folder. `alive`: processes that are still running.
    pub fn close(&self, is_last: bool, alive: &BTreeSet<u32>) -> Result<()> {
        left_list::remove_draft(&self.work, &self.launcher);
        for pid in self.pids_of_files()?.difference(alive) {
            self.remove_reports(&format!("{}.{pid}.", self.launcher))?;
        }
        if is_last && alive.is_empty() {
            self.remove_work();
        }
        Ok(())
    }

    /// Removes the work folder; the next launcher cleans up anything that cannot be removed.
    fn remove_work(&self) {
        // An earlier recording that could not be put back: these are the only copies. The list
        // alone is no reason to keep the folder, since none of its files is moved.
        if matches!(earlier::has_files_aside(&self.work), Ok(false)) {
            drop(fs::remove_dir_all(&self.work));
        }
    }

    /// Removes reports and unfinished traces whose names begin with `prefix`.
    fn remove_reports(&self, prefix: &str) -> Result<()> {
        // other launchers have these open, and a new file of this name would be a different lock
        let kept = [LOCK, RUNNING, JOB];
        for name in names(&self.work)? {
            let is_kept = kept.contains(&name.as_str()) || name.starts_with("old.");
            if name.starts_with(prefix) && !is_kept && !name.ends_with(".old") {
                // another process may have just removed it
                drop(fs::remove_file(self.work.join(name)));
            }
        }
        Ok(())
    }

    fn process(&self, launcher: &str, pid: u32) -> Result<Process> {
        let report = self.report(launcher, pid, "json");
        let bytes = files::read(&report)?;
        // a process that made no step writes none
        let steps = files::read_if_there(&self.report(launcher, pid, "steps"))?.unwrap_or_default();
        Process::read(&bytes, &steps)
            .with_context(|| format!("{} is not a report of a process", report.display()))
    }

    fn report(&self, launcher: &str, pid: u32, ending: &str) -> PathBuf {
        self.work.join(format!("{launcher}.{pid}.{ending}"))
    }

    fn pids(&self, launcher: &str, ending: &str) -> Result<BTreeSet<u32>> {
        let prefix = format!("{launcher}.");
        let names = names(&self.work)?;
        let pids = names.iter().filter_map(|name| {
            let rest = name.strip_prefix(&prefix)?;
            rest.strip_suffix(ending)?.parse().ok()
        });
        Ok(pids.collect())
    }

    /// Returns the processes that have any file of this launcher.
    fn pids_of_files(&self) -> Result<BTreeSet<u32>> {
        let prefix = format!("{}.", self.launcher);
        let names = names(&self.work)?;
        let pids = names.iter().filter_map(|name| {
            let (pid, _) = name.strip_prefix(&prefix)?.split_once('.')?;
            pid.parse().ok()
        });
        Ok(pids.collect())
    }
}

/// Recovers the recording of a killed launcher, and does nothing else.
///
/// # Errors
/// The folder has no recording, or one is being made.
pub fn recover(path: &Path) -> Result<()> {
    let path = std::path::absolute(path)?;
    let work = path.join(WORK);
    let manifest = path.join(MANIFEST);
    if !work.is_dir() {
        return if manifest.is_file() {
            notes::print([&diagnostic!(
                Recording,
                "{} exists: nothing to recover",
                manifest.display()
            )]);
            Ok(())
        } else {
            bail!("{} has no unfinished recording", path.display())
        };
    }
    let output = Output {
        folder: MadeFolder::make(&path)?,
        work,
        launcher: String::new(),
        running: None,
        path,
    };
    let lock = lock::exclusive(&output.work, LOCK);
    let _lock = named(lock, "write in folder", &output.path)?;
    let alone = lock::try_exclusive(&output.work.join(RUNNING))?;
    if alone.is_none() {
        bail!(
            "{} is being recorded, or a process of the job is still running; wait until it ends",
            output.path.display()
        );
    }
    output.put_in_order()?;
    if !manifest.is_file() {
        notes::print([&diagnostic!(
            Recording,
            "nothing was recorded into {}: the folder has no traces",
            output.path.display()
        )]);
    }
    output.remove_work();
    Ok(())
}

/// Returns the task numbers that a manifest lists.
fn numbers(manifest: Option<&ManifestContents>) -> Vec<u32> {
    let tasks = manifest.into_iter().flat_map(|manifest| &manifest.tasks);
    tasks.map(|task| task.task).collect()
}

/// Returns a builder of temporary files with default permissions, subject to umask.
fn new_file() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.permissions(fs::Permissions::from_mode(0o666));
    builder
}

/// A recording's folder, with the parents created for it.
pub struct MadeFolder {
    /// Absolute path: the program may change its directory before the hook writes.
    pub path: PathBuf,
    /// Folders created for `path`, innermost first, including the folder itself.
    new: Vec<PathBuf>,
}

impl MadeFolder {
    /// Creates the folder if it does not exist.
    pub fn make(path: &Path) -> Result<MadeFolder> {
        let above = path
            .ancestors()
            .filter(|folder| !folder.as_os_str().is_empty());
        let new = above.take_while(|folder| !folder.exists());
        let mut folder = MadeFolder {
            path: path.to_owned(),
            new: new.map(Path::to_owned).collect(),
        };
        let absolute = folder.absolute(path);
        folder.path = absolute.inspect_err(|_| folder.remove_unused())?;
        Ok(folder)
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        let name = path.display();
        named(fs::create_dir_all(path), "create folder", path)?;
        let found = named(fs::canonicalize(path), "find folder", path)?;
        // the settings are passed to the program as JSON
        if found.to_str().is_none() {
            bail!("{name}: the path of the folder is not UTF-8; choose another folder");
        }
        Ok(found)
    }

    /// Removes the created folders that are still empty, because nothing was started.
    pub fn remove_unused(&self) {
        for folder in &self.new {
            // another launcher may use the folder by now: then neither it nor its parents are empty
            if fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }
}
