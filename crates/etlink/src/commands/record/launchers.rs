//! Launchers that record into one folder: the file `job` in the work folder.

use super::files;
use super::task::JobTask;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Launchers that came since the work folder was created, including those that have ended.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Launchers {
    /// Job that the launchers are tasks of; empty for a single launcher.
    pub job: String,
    /// True if the name identifies the job: no concurrent job shares it, and this job has no other
    /// name.
    is_sure: bool,
    launchers: Vec<Launcher>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Launcher {
    name: String,
    task: u32,
    attempt: u32,
    machine: String,
}

/// Place of a launcher in the job that records into the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderTask {
    pub job: String,
    pub task: u32,
    pub attempt: u32,
    /// Minimum number of launchers of the job.
    pub tasks: usize,
}

impl FolderTask {
    /// Returns what the launcher knows without the others.
    pub fn alone(task: &JobTask) -> FolderTask {
        FolderTask {
            job: task.job.clone(),
            task: task.number.unwrap_or_default(),
            attempt: task.attempt,
            tasks: task.tasks as usize,
        }
    }
}

impl Launchers {
    pub fn read(path: &Path) -> Result<Launchers> {
        let bytes = files::read(path)?;
        let read = etlink_json::from_slice(&bytes);
        read.with_context(|| format!("{} is not a list of launchers", path.display()))
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let new = path.with_extension("new");
        let text = serde_json::to_string(self)?;
        // a launcher that is killed here must not leave half of the list to the others
        let written = fs::write(&new, text.as_bytes()).and_then(|()| fs::rename(&new, path));
        files::named(written, "write", path)
    }

    /// Makes a list of the first launcher. `recorded`: tasks of its job that the folder's manifest
    /// lists.
    pub fn first(name: &str, task: Option<&JobTask>, recorded: &[u32]) -> Launchers {
        let mut launchers = Launchers {
            job: task.map_or_else(String::new, |task| task.job.clone()),
            is_sure: task.is_some_and(|task| task.is_sure),
            launchers: vec![],
        };
        launchers.add(name, task, recorded);
        launchers
    }

    /// Adds a launcher; `None` if it does not belong to this job.
    pub fn join(&mut self, name: &str, task: Option<&JobTask>, recorded: &[u32]) -> Option<()> {
        let is_same = task.is_some_and(|task| task.job == self.job);
        if !is_same && !self.are_nodes(task) {
            return None;
        }
        if self.job.is_empty() {
            let first = self.launchers.first()?;
            self.job = format!("launcher {}", first.name);
        }
        let task = if is_same { task } else { None };
        self.add(name, task, recorded);
        Some(())
    }

    /// Returns true if this launcher runs on a different machine from all others, and no certain
    /// name says that it belongs to another job. Such launchers are taken for nodes of one job: if
    /// one were refused, the programs of the others would wait for it forever.
    fn are_nodes(&self, task: Option<&JobTask>) -> bool {
        let own = machine();
        let is_sure = self.is_sure || task.is_some_and(|task| task.is_sure);
        let mut launchers = self.launchers.iter();
        !is_sure && launchers.all(|launcher| launcher.machine != own)
    }

    fn add(&mut self, name: &str, task: Option<&JobTask>, recorded: &[u32]) {
        let attempt = task.map_or(0, |task| task.attempt);
        let is_taken = |number: u32| {
            let mut launchers = self.launchers.iter();
            launchers.any(|launcher| (launcher.task, launcher.attempt) == (number, attempt))
        };
        let own = task.and_then(|task| task.number);
        let number = own.filter(|number| !is_taken(*number));
        // launchers without a number of their own are numbered in order of arrival
        let mut free = (0..).filter(|number| !is_taken(*number) && !recorded.contains(number));
        let number = number.or_else(|| free.next()).unwrap_or_default();
        self.launchers.push(Launcher {
            name: name.to_owned(),
            task: number,
            attempt,
            machine: machine(),
        });
    }

    /// Returns the place of the launcher with this name in the job; `None` if it is alone.
    pub fn task(&self, name: &str, task: Option<&JobTask>) -> Option<FolderTask> {
        if self.job.is_empty() {
            return None;
        }
        let mut launchers = self.launchers.iter();
        let own = launchers.find(|launcher| launcher.name == name)?;
        Some(FolderTask {
            job: self.job.clone(),
            task: own.task,
            attempt: own.attempt,
            tasks: task
                .map_or(0, |task| task.tasks as usize)
                .max(self.launchers.len()),
        })
    }
}

/// Returns an id of this machine, or of the container on it.
fn machine() -> String {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    ["hostname", "random/boot_id"]
        .map(|name| read(name).unwrap_or_default().trim().to_owned())
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(job: &str, number: Option<u32>, is_sure: bool) -> JobTask {
        JobTask {
            job: job.to_owned(),
            number,
            tasks: 2,
            most: 2,
            attempt: 0,
            is_sure,
        }
    }

    fn numbers(launchers: &Launchers) -> Vec<u32> {
        let all = launchers.launchers.iter();
        all.map(|launcher| launcher.task).collect()
    }

    #[test]
    fn nodes_of_one_command_are_numbered_as_they_come() {
        let node = task("torchrun x", None, false);
        let mut launchers = Launchers::first("a", Some(&node), &[]);
        assert!(launchers.join("b", Some(&node), &[]).is_some());
        // another launcher has ended, and is in the manifest
        assert!(launchers.join("c", Some(&node), &[2]).is_some());
        assert_eq!(numbers(&launchers), [0, 1, 3]);
        let named = launchers.task("b", Some(&node)).expect("is there");
        assert_eq!((named.task, named.tasks), (1, 3));
    }

    #[test]
    fn another_job_on_this_machine_is_refused_and_on_another_machine_joined() {
        for (first, second) in [
            (None, None),
            (Some(task("torchrun x", Some(0), false)), None),
            (None, Some(task("torchrun x", Some(0), false))),
            (
                Some(task("torchrun localhost:1", Some(0), false)),
                Some(task("torchrun node0:1", Some(1), false)),
            ),
        ] {
            let mut launchers = Launchers::first("a", first.as_ref(), &[]);
            assert!(launchers.join("b", second.as_ref(), &[]).is_none());
            launchers.launchers[0].machine = "elsewhere".to_owned();
            assert!(launchers.join("b", second.as_ref(), &[]).is_some());
            assert!(!launchers.job.is_empty());
            assert_eq!(numbers(&launchers), [0, 1]);
        }
    }

    #[test]
    fn jobs_that_are_known_surely_are_never_joined_with_others() {
        let (one, other) = (
            task("slurm 1.0", Some(0), true),
            task("slurm 2.0", Some(0), true),
        );
        let mut launchers = Launchers::first("a", Some(&one), &[]);
        launchers.launchers[0].machine = "elsewhere".to_owned();
        assert!(launchers.join("b", Some(&other), &[]).is_none());
        assert!(launchers.join("b", None, &[]).is_none());
    }
}
