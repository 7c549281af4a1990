//! Work after the program has ended: writes the manifest from the reports of the processes,
//! compresses traces, and removes the work folder unless processes are still running.

use super::earlier::Earlier;
use super::files;
use super::folder::Output;
use super::hook_folder::HookFolder;
use super::host_clock::OffsetInterval;
use super::launchers::FolderTask;
use super::lock;
use super::task::JobTask;
use super::{pack, script, summary};
use crate::args::RecordArgs;
use anyhow::{Context, Result};
use etlink_torch::{
    ENDED, Ended, HostClock, LEFT, MARKER, Manifest, Process, Settings, Task, masked_command,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A recorded program that has ended.
pub struct EndedRecording<'a> {
    pub args: &'a RecordArgs,
    pub settings: Settings,
    /// Offset of this machine's clock, measured before the program started.
    pub clock: Option<OffsetInterval>,
    pub task: Option<JobTask>,
    pub ended: Ended,
}

/// Result of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// True if every rank that should have traces has them.
    pub is_whole: bool,
    /// True if `--link` was given, there are traces, and no other launcher adds more.
    pub is_to_be_linked: bool,
}

impl EndedRecording<'_> {
    /// Collects the reports, writes the manifest, and prints notes and the summary.
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn finish(&self, output: &mut Output, hook: HookFolder) -> Result<Finished> {
        // before locking: processes that end from now on take the lock and write the manifest
        // themselves
        let has_alive = has_processes(hook.path());
        // held until the manifest is written: launchers of one job read it, add their ranks, and
        // write it again
        let _lock = output.lock()?;
        // others may have joined this launcher even if it found no job itself
        let task = output.task(self.task.as_ref());
        let (mut processes, mut notes) = output.processes()?;
        let clock = self.clock(output.work());
        for process in &mut processes {
            process.clock.clone_from(&clock);
        }
        if processes.is_empty() {
            let failed = left_notes(hook.path(), ".import");
            notes.extend(
                failed
                    .into_iter()
                    .map(|(pid, error)| format!("process {pid}: cannot import torch: {error}")),
            );
        }
        let spare = left_notes(hook.path(), ".note");
        for (pid, note) in spare {
            add_note(&mut processes, pid, note);
        }
        let is_alive = |pid: u32| has_alive && is_running(pid) && !has_left(hook.path(), pid);
        let alive_pids: BTreeSet<u32> = processes
            .iter()
            .map(|process| process.pid)
            .filter(|pid| is_alive(*pid))
            .collect();
        // a running process may be writing a trace: only traces of ended processes are compressed
        // and linked
        let (running, mut ended): (Vec<Process>, Vec<Process>) = processes
            .into_iter()
            .partition(|process| alive_pids.contains(&process.pid));
        if self.settings.options.gzip {
            notes.extend(pack::pack(&output.path, &mut ended));
        }
        if let Some(folder) = &self.settings.tensorboard
            && let Err(error) = pack::show(&output.path, folder, &ended)
        {
            notes.push(format!("{error:#}"));
        }
        notes.extend(running.iter().map(|process| {
            format!(
                "process {} is still running: its recording is added to the manifest when it ends",
                process.pid
            )
        }));
        let mut lost = output.lost()?;
        // an unfinished trace of a live process is not lost: it is being written
        lost.retain(|pid| !alive_pids.contains(pid));
        let has_hooked = hook.path().join(MARKER).exists();
        ended.extend(running);
        let manifest = self.manifest(ended, has_hooked, &lost, (output, task.as_ref()))?;
        // report this error later: the manifest of new traces is written whatever happens to the
        // old ones
        let earlier = output.settle();
        let is_alone = output.leave(has_alive)?;
        let tasks = task.as_ref().map_or(0, |task| task.tasks);
        let is_last = is_alone && manifest.tasks.len() >= tasks;
        let mut manifest = manifest.with_missing(is_last);
        if !has_hooked {
            notes.extend(script::note(&self.args.command));
        }
        if self.args.link && manifest.recorded() > 0 && !is_last && tasks > 1 {
            notes.push(format!(
                "{} of {tasks} launchers of this job have ended: the last one links if all record into \
                 this folder",
                manifest.tasks.len()
            ));
        }
        notes.append(&mut manifest.notes);
        manifest.notes = notes;
        match earlier {
            Ok(Earlier::Stays) if manifest.recorded() == 0 => {
                let path = output.path.display();
                manifest
                    .notes
                    .push(format!("the earlier recording in {path} is unchanged"));
            }
            // the manifest in the folder may belong to the earlier recording
            Err(_) if manifest.recorded() == 0 => {}
            _ => output.write(&manifest)?,
        }
        // otherwise the next launcher settles the earlier recording and removes the reports
        if earlier.is_ok() {
            output.close(is_alone, &alive_pids)?;
        }
        summary::print_summary(&manifest, &self.args.output);
        if has_alive {
            hook.keep();
        }
        earlier.context("cannot restore the earlier recording")?;
        Ok(Finished {
            is_whole: manifest.is_complete(),
            is_to_be_linked: self.args.link && manifest.recorded() > 0 && is_last,
        })
    }

    /// Returns the offset of this machine's clock from the file system's, measured before and after
    /// the program.
    fn clock(&self, work: &Path) -> Option<HostClock> {
        let (earlier, later) = (self.clock, OffsetInterval::measure(work));
        let both = earlier.zip(later);
        let interval = both.map(|(earlier, later)| earlier.with(later));
        let interval = interval.or(earlier).or(later)?;
        Some(interval.clock())
    }

    fn manifest(
        &self,
        processes: Vec<Process>,
        has_hooked: bool,
        lost: &BTreeSet<u32>,
        (output, task): (&Output, Option<&FolderTask>),
    ) -> Result<Manifest> {
        let mut manifest = empty_manifest(self.args, &self.settings, self.ended);
        manifest.job = task.map(|task| task.job.clone());
        let manifest = manifest.with(processes, has_hooked, lost);
        // the folder's manifest has other tasks of this job, or processes of this launcher that ended
        // after the launcher began to finish; the first task to end finds none
        let mut others = output.begun_manifest()?.unwrap_or_default();
        if manifest.job.is_none() || others.job != manifest.job {
            others.tasks.clear();
            let launcher = &self.settings.launcher;
            let ranks = &mut others.ranks;
            ranks.retain(|rank| rank.process.launcher == *launcher);
        }
        let own = task.map(|task| Task {
            task: task.task,
            attempt: task.attempt,
            ended: self.ended,
            notes: vec![],
        });
        Ok(manifest.joined(others, own))
    }
}

/// Returns a manifest that describes how a program is recorded, without any results.
pub fn empty_manifest(args: &RecordArgs, settings: &Settings, ended: Ended) -> Manifest {
    Manifest {
        etlink: env!("CARGO_PKG_VERSION").to_owned(),
        command: masked_command(&super::words(args)),
        ended,
        job: None,
        tasks: vec![],
        schedule: settings.schedule,
        armed: settings.armed.clone(),
        phases: settings.phases.clone(),
        own_profiler: settings.own_profiler,
        step_on: settings.step_on.clone(),
        asked_ranks: settings.ranks.clone(),
        options: settings.options,
        ranks: vec![],
        missing: vec![],
        notes: vec![],
    }
}

/// Returns true if Python processes of the program are still running, which their lock shows.
/// Processes that end from now on see that the launcher has ended, and write the manifest
/// themselves.
fn has_processes(hook: &Path) -> bool {
    let marker = hook.join(MARKER);
    if !marker.exists() {
        return false;
    }
    // write this file, then check the lock: whoever ends last sees the other's files
    drop(fs::write(hook.join(ENDED), b""));
    // if unknown, assume that they are running: their recordings must not be removed
    !matches!(lock::try_exclusive(&marker), Ok(Some(_)))
}

/// Returns true if a running process has recorded all it will and leaves the manifest to this
/// command. Removes the process's file: the missing file tells the process that the command has
/// seen it.
fn has_left(hook: &Path, pid: u32) -> bool {
    fs::remove_file(hook.join(format!("{pid}{LEFT}"))).is_ok()
}

fn is_running(pid: u32) -> bool {
    use nix::errno::Errno;
    use nix::sys::signal::kill;
    use nix::unistd::Pid;
    let pid = i32::try_from(pid).map(Pid::from_raw);
    // EPERM: the process exists but belongs to another user
    pid.is_ok_and(|pid| !matches!(kill(pid, None), Err(Errno::ESRCH)))
}

/// Returns notes of processes that wrote no report, or could not, by process id. Trailing blanks
/// are removed.
fn left_notes(hook: &Path, ending: &str) -> Vec<(u32, String)> {
    let Ok(entries) = files::entries(hook) else {
        return vec![];
    };
    let mut notes: Vec<(u32, String)> = entries
        .iter()
        .filter_map(|entry| {
            let path = entry.path();
            let pid = path.file_name()?.to_str()?.strip_suffix(ending)?.parse();
            let bytes = fs::read(&path).ok()?;
            let text = String::from_utf8_lossy(&bytes).trim().to_owned();
            (!text.is_empty()).then_some((pid.ok()?, text))
        })
        .collect();
    notes.sort();
    notes
}

fn add_note(processes: &mut Vec<Process>, pid: u32, note: String) {
    match processes.iter_mut().find(|process| process.pid == pid) {
        // the process wrote its report after all, with this note
        Some(process) if process.notes.contains(&note) => {}
        Some(process) => process.notes.push(note),
        None => processes.push(Process {
            pid,
            notes: vec![note],
            ..Process::default()
        }),
    }
}
