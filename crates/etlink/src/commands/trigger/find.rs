//! The folder of a job that was named by one of its processes.
//!
//! The processes of a recorded job, and the command that started it, have files of its work folder
//! open for as long as they live. So the kernel knows the folder, whoever armed the job.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const WORK: &str = ".etlink";

/// The folder itself, or that of the process with this number.
pub fn folder_of(job: &str) -> Result<PathBuf> {
    let path = Path::new(job);
    if path.is_dir() {
        return Ok(path.to_owned());
    }
    let Ok(pid) = job.parse::<u32>() else {
        bail!(
            "{job} is neither a folder nor the number of a process; a job on another machine is \
             reached by a folder that both share"
        );
    };
    folder_of_process(pid)
}

fn folder_of_process(pid: u32) -> Result<PathBuf> {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        bail!("this system does not tell the files of process {pid}: name the job's folder");
    }
    if !processes.join(pid.to_string()).exists() {
        bail!("there is no process {pid} on this machine");
    }
    let own = open_work_folder(pid);
    if let Err(error) = &own
        && error.kind() == ErrorKind::PermissionDenied
    {
        bail!("process {pid} is somebody else's: name the job's folder");
    }
    let children = children()?;
    // the shell or launcher that the job was started with
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(pid) = family.get(next).copied() {
        if let Ok(Some(folder)) = open_work_folder(pid) {
            return Ok(folder);
        }
        family.extend(children.get(&pid).into_iter().flatten());
        next += 1;
    }
    bail!("neither process {pid} nor what it has started is recorded by etlink")
}

/// The job's folder, if a process has a file of its work folder open.
fn open_work_folder(pid: u32) -> std::io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        // it may be closed in this moment
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

/// The processes that each process has started.
fn children() -> Result<BTreeMap<u32, Vec<u32>>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").context("cannot list the processes")? {
        let entry = entry.context("cannot list the processes")?;
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // it may have ended in this moment
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let parent = status
            .lines()
            .find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    Ok(children)
}
