//! Finds the folder of a job named by one of its processes.
//!
//! The processes of a recorded job, and the command that started it, keep files of its work folder
//! open as long as they live. So the kernel knows the folder, whoever armed the job.

use anyhow::{Result, bail};
use etlink_run::manifest::WORK;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Returns `job` if it is a folder, else the folder of the process with this id.
pub fn folder_of(job: &str) -> Result<PathBuf> {
    let path = Path::new(job);
    if path.is_dir() {
        return Ok(path.to_owned());
    }
    let Ok(pid) = job.parse::<u32>() else {
        bail!(
            "{job} is neither a folder nor a process id; for a job on another machine, give \
             HOST:DIR"
        );
    };
    folder_of_process(pid)
}

fn folder_of_process(pid: u32) -> Result<PathBuf> {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        bail!("this system does not list the files of process {pid}; give the job's folder");
    }
    if !processes.join(pid.to_string()).exists() {
        bail!("process {pid} does not exist on this machine");
    }
    let own = open_work_folder(pid);
    if let Err(error) = &own
        && error.kind() == ErrorKind::PermissionDenied
    {
        bail!("process {pid} belongs to another user; give the job's folder");
    }
    // the processes between `etlink record` and a rank, such as torchrun, have no such file open
    let mut next = Some(pid);
    while let Some(pid) = next {
        if let Ok(Some(folder)) = open_work_folder(pid) {
            return Ok(folder);
        }
        next = parent(pid);
    }
    bail!(
        "process {pid} is not recorded by etlink; give a rank, `etlink record` or one of its \
         child processes, or the job's folder"
    );
}

/// Returns the job's folder if the process has a file of its work folder open.
fn open_work_folder(pid: u32) -> std::io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        // the process may have just closed it
        let Ok(target) = fs::read_link(entry?.path()) else {
            continue;
        };
        let work = target.parent().filter(|work| work.ends_with(WORK));
        if let Some(folder) = work.and_then(Path::parent)
            && target.exists()
        {
            return Ok(Some(folder.to_owned()));
        }
    }
    Ok(None)
}

/// Returns the parent of a process; `None` if the process has ended.
fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}
