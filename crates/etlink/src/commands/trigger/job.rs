//! The work folder of an armed job: its processes, and the file that requests a recording. The
//! hook's `watch.py` defines the protocol.

use crate::args::TriggerArgs;
use anyhow::{Context, Result, bail};
use etlink_run::manifest::WORK;
use etlink_torch::{ArmedStatus, END, PLAN, REQUEST};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const STATUS: &str = ".armed";
/// Requester named for a request file that does not name one.
const A_FILE: &str = "a file";
/// Name of this command as a requester.
pub const OWN: &str = "etlink trigger";

/// A job whose processes wait for requests to record.
pub struct ArmedJob {
    /// Folder of the traces.
    pub folder: PathBuf,
    work: PathBuf,
}

/// A process of the job.
#[derive(Clone, Debug)]
pub struct ArmedPeer {
    /// Launcher and process id.
    pub key: String,
    /// Status that the process reports.
    pub status: ArmedStatus,
    /// True if the process is running, by the lock that is released when it ends.
    pub is_alive: bool,
}

impl ArmedPeer {
    /// Returns true if the process can record.
    pub fn is_waited_for(&self) -> bool {
        self.is_alive && !self.status.ended && !self.status.excluded
    }

    /// Returns true if the process was killed or crashed.
    pub fn is_dead(&self) -> bool {
        !self.is_alive && !self.status.ended && !self.status.excluded
    }
}

/// A request, pending in the work folder.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub struct RecordingRequest {
    pub id: String,
    /// Requester.
    pub by: String,
    // Only written: the ranks judge what a request asks for.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

/// Fields used here from the report of a process to the command that started it.
#[derive(Deserialize)]
struct ProcessReport {
    pid: Option<u32>,
    /// Requests so far; only present for an armed process.
    asked: Option<IgnoredAny>,
}

/// The recording that the ranks agreed on.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct PlannedRecording {
    pub id: String,
    /// Requester.
    pub by: String,
    pub first: u64,
    /// True if the request was withdrawn before.
    pub withdrawn: bool,
}

impl ArmedJob {
    pub fn open(folder: PathBuf) -> Result<ArmedJob> {
        let work = folder.join(WORK);
        if !work.is_dir() {
            bail!(
                "no running job records into {}; start one with `etlink record --armed`, \
                 or call `etlink_torch.arm` in the program",
                folder.display()
            );
        }
        Ok(ArmedJob { folder, work })
    }

    /// Returns true if the job is still running: its last process removes the work folder.
    pub fn is_there(&self) -> bool {
        self.work.is_dir()
    }

    /// Returns all processes that have reported a status, by rank.
    pub fn peers(&self) -> Result<Vec<ArmedPeer>> {
        let mut peers = vec![];
        let entries = match fs::read_dir(&self.work) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
            entries => {
                entries.with_context(|| format!("cannot read folder {}", self.work.display()))?
            }
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(key) = name.to_str().and_then(|name| name.strip_suffix(STATUS)) else {
                continue;
            };
            // a process that is ending may have just removed it
            let Ok(text) = fs::read(entry.path()) else {
                continue;
            };
            let status = ArmedStatus::read(&text)
                .with_context(|| format!("cannot read {}", entry.path().display()))?;
            peers.push(ArmedPeer {
                key: key.to_owned(),
                status,
                is_alive: is_locked(&self.work.join(format!("{key}.alive"))),
            });
        }
        peers.sort_by_key(|peer| (peer.status.rank, peer.key.clone()));
        Ok(peers)
    }

    /// Explains why no process has reported a status yet.
    pub fn why_nobody(&self) -> &'static str {
        if !self.is_there() {
            return "the job has ended";
        }
        if self.reports().is_empty() {
            return "none of its processes has imported PyTorch yet; try again, or wait with \
                    --timeout";
        }
        if !self.may_be_armed() {
            return "it was started without --armed; start it again with --armed, or call \
                    `etlink_torch.arm`";
        }
        "none of its processes has made a step yet; try again, or wait with --timeout. If it is already \
         training, the function in --step-on is never called"
    }

    /// Returns true if a process is armed, or none has reported yet.
    pub fn may_be_armed(&self) -> bool {
        let reports = self.reports();
        reports.is_empty() || reports.iter().any(|report| report.asked.is_some())
    }

    /// Returns the readable reports of the job's processes.
    fn reports(&self) -> Vec<ProcessReport> {
        let entries = fs::read_dir(&self.work).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths
            .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
            .filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok())
            .filter(|report: &ProcessReport| report.pid.is_some())
            .collect()
    }

    /// Requests a recording. Returns the id of the request.
    pub fn ask(&self, args: &TriggerArgs) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let id = format!(
            "{}.{}",
            std::process::id(),
            now.unwrap_or_default().as_nanos()
        );
        let request = RecordingRequest {
            id,
            by: OWN.to_owned(),
            steps: args.steps,
            seconds: args.duration.map(|duration| duration.as_secs_f64()),
        };
        let file = self.temporary(&serde_json::to_vec(&request)?)?;
        match create_from(file.path(), &self.work.join(REQUEST)) {
            Ok(()) => Ok(request.id),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
                "another recording of this job is in progress{}; wait until it ends, or {}",
                self.age_of_request(),
                match self.plan() {
                    Some(_) => "end it with --stop",
                    None => "cancel it with --cancel",
                }
            ),
            Err(error) => Err(error).with_context(|| self.cannot_write()),
        }
    }

    /// Ends a requested recording that the ranks agreed on, at the same step on all ranks.
    pub fn end(&self, request: &str) -> Result<()> {
        let content = serde_json::to_vec(&json!({ "id": request }))?;
        let path = self.work.join(END);
        let file = self.temporary(&content)?;
        // replaces at most the file of an earlier recording
        let written = file.persist(&path).map_err(|error| error.error);
        written.map(drop).with_context(|| self.cannot_write())
    }

    /// Writes a file into the work folder under a name that the protocol does not use.
    pub fn temporary(&self, content: &[u8]) -> Result<tempfile::NamedTempFile> {
        let write = || -> std::io::Result<tempfile::NamedTempFile> {
            let mut file = tempfile::Builder::new()
                .prefix(".trigger-")
                .tempfile_in(&self.work)?;
            readable_by_all(file.as_file())?;
            file.write_all(content)?;
            file.as_file().sync_all()?;
            Ok(file)
        };
        write().with_context(|| self.cannot_write())
    }

    pub fn cannot_write(&self) -> String {
        format!(
            "cannot write in {}; check the free disk space, and run as the user of the job",
            self.work.display()
        )
    }

    /// Returns the pending request. Like the ranks, accepts an empty file.
    pub fn request(&self) -> Result<Option<RecordingRequest>> {
        let path = self.work.join(REQUEST);
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let mut text = vec![];
        file.read_to_end(&mut text)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let mut request: RecordingRequest = serde_json::from_slice(&text).unwrap_or_default();
        if request.by.is_empty() {
            A_FILE.clone_into(&mut request.by);
        }
        if request.id.is_empty() {
            // a file that is touched again during the recording keeps its id, as it does for the
            // ranks
            let planned = self
                .plan()
                .filter(|plan| plan.by == A_FILE && !plan.withdrawn);
            request.id = match planned {
                Some(plan) => plan.id,
                None => id_of_file(&file)?,
            };
        }
        Ok(Some(request))
    }

    pub fn age_of_request(&self) -> String {
        let plan = self.plan();
        // the file may have been touched since
        let planned = plan.as_ref().and_then(|plan| asked_at(&plan.id));
        let touched = || fs::metadata(self.work.join(REQUEST)).and_then(|found| found.modified());
        let asked = planned.or_else(|| touched().ok());
        let age = asked.and_then(|asked| asked.elapsed().ok());
        let age = age.map_or_else(String::new, |age| {
            format!(", requested {} s ago", age.as_secs())
        });
        let first = plan.map_or_else(String::new, |plan| format!(", from step {} on", plan.first));
        age + &first
    }

    /// Returns true if the request is still pending.
    pub fn is_asked(&self, request: &str) -> bool {
        matches!(self.request(), Ok(Some(pending)) if pending.id == request)
    }

    /// Returns the first step of the recording, once the ranks have agreed on it.
    pub fn planned(&self, request: &str) -> Option<u64> {
        let plan = self.plan()?;
        (plan.id == request && !plan.withdrawn).then_some(plan.first)
    }

    pub fn plan(&self) -> Option<PlannedRecording> {
        let text = fs::read(self.work.join(PLAN)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub fn plan_path(&self) -> PathBuf {
        self.work.join(PLAN)
    }

    /// Removes a withdrawn request: the processes forget it when the file is gone.
    pub fn forget(&self, request: &str) {
        // the request first: without the withdrawn plan, the ranks would make a plan for it
        if self.is_asked(request) {
            drop(fs::remove_file(self.work.join(REQUEST)));
        }
        if self.plan().is_some_and(|plan| plan.id == request) {
            drop(fs::remove_file(self.plan_path()));
        }
    }

    /// Returns the number of steps that a process had made about 100 ms ago.
    pub fn steps_made(&self, peer: &ArmedPeer) -> Option<u64> {
        let path = self.work.join(format!("{}.steps", peer.key));
        fs::read_to_string(path).ok()?.trim().parse().ok()
    }
}

/// Gives a complete file a second name, unless that name exists.
///
/// # Errors
/// `AlreadyExists`: the name exists.
pub fn create_from(source: &Path, path: &Path) -> std::io::Result<()> {
    match fs::hard_link(source, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // a file system without links: readers may briefly see an empty file
            let content = fs::read(source)?;
            let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
            file.write_all(&content).inspect_err(|_| {
                // an empty file would count as a request
                drop(fs::remove_file(path));
            })
        }
        linked => linked,
    }
}

/// Returns the id of a request without one, as the hook's `Watcher.read` forms it.
fn id_of_file(file: &File) -> Result<String> {
    use std::os::unix::fs::MetadataExt;
    let found = file.metadata()?;
    let modified = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    Ok(format!("{}.{modified}", found.ino()))
}

/// Returns the time of a request: each request's id ends with it.
fn asked_at(request: &str) -> Option<SystemTime> {
    let ns = request.rsplit('.').next()?.parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::from_nanos(ns))
}

/// Returns true if the process that created a file is still running.
fn is_locked(path: &Path) -> bool {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;
    let Ok(file) = File::open(path) else {
        return false;
    };
    let mut lock = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    match fcntl(&file, FcntlArg::F_GETLK(&mut lock)) {
        Ok(_) => lock.l_type != libc::F_UNLCK as libc::c_short,
        // without locks, assume that every process is alive
        Err(_) => true,
    }
}

/// Makes a temporary file readable by all: the job may run as another user.
fn readable_by_all(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn where_there_are_no_links_a_file_is_written_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new");
        // no file system has links to files of another one
        let source = Path::new("/proc/self/comm");
        let content = fs::read(source).expect("it is this process's own");
        create_from(source, &path).expect("there is none of that name");
        assert_eq!(fs::read(&path).expect("it is written"), content);
        let again = create_from(source, &path).map_err(|error| error.kind());
        assert_eq!(again, Err(ErrorKind::AlreadyExists));
    }
}
