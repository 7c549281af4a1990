//! Waits until each rank has made the requested recording, reported why it did not, or died.

use super::job::{ArmedJob, ArmedPeer};
use super::patience::Patience;
use super::withdraw::{Withdrawal, withdraw};
use super::{TriggeredRank, TriggeredRecording, open_job};
use crate::notes;
use anyhow::Result;
use etlink_model::diagnostic;
use etlink_run::manifest::MANIFEST;
use etlink_torch::{AskedRecording, ManifestContents};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(50);
/// Time for an ended process to write the manifest, and for a live one to remove the request.
const ENDING: Duration = Duration::from_secs(20);
/// Time between the removal of a request and the report of its result.
const SETTLING: Duration = Duration::from_secs(2);

/// State of a process's recording.
enum Progress {
    Recorded(AskedRecording),
    Failed(String),
    Waiting,
}

/// The known processes of the job, as last seen.
struct Waiting<'a> {
    job: &'a ArmedJob,
    request: &'a str,
    peers: BTreeMap<String, ArmedPeer>,
    /// Keys of processes that could record at the time of the request.
    asked: BTreeSet<String>,
    planned: Option<u64>,
    /// Time since which processes are gone without a result.
    gone: Option<Instant>,
    /// Time since which the request and its plan are gone.
    withdrawn: Option<Instant>,
    /// True if the last process of the job has ended.
    is_over: bool,
}

/// Opens a job; waits for its folder if that does not exist yet.
pub fn for_job(name: &str, patience: &Patience) -> Result<ArmedJob> {
    let is_process = name.parse::<u32>().is_ok();
    let mut is_awaited = false;
    loop {
        let opened = open_job(name);
        // a folder that has just appeared is not complete at once
        let may_come = is_awaited || (!is_process && !Path::new(name).exists());
        if opened.is_ok() || patience.is_over() || !may_come {
            return opened;
        }
        if !is_awaited {
            notes::print([&diagnostic!(
                Waiting,
                "{name} does not exist yet; waiting for the job"
            )]);
            is_awaited = true;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns the processes of a job that may have made no step yet: waits for the first step of one
/// process, which itself waits for the other ranks. Returns an empty list on timeout.
pub fn first_steps(job: &ArmedJob, patience: &Patience) -> Result<Vec<ArmedPeer>> {
    let mut is_told = false;
    loop {
        let peers = job.peers()?;
        let is_over = patience.is_over() || !job.is_there();
        if is_over || !peers.is_empty() || !job.may_be_armed() {
            return Ok(peers);
        }
        if !is_told {
            notes::print([&diagnostic!(
                Waiting,
                "no process of the job has made a step yet; waiting for the first step"
            )]);
            is_told = true;
        }
        std::thread::sleep(PAUSE);
    }
}

pub fn wait(
    job: &ArmedJob,
    request: &str,
    peers: Vec<ArmedPeer>,
    patience: &Patience,
) -> Result<TriggeredRecording> {
    let could_record = peers.iter().filter(|peer| peer.is_waited_for());
    let asked = could_record.map(|peer| peer.key.clone()).collect();
    let known = peers.into_iter().map(|peer| (peer.key.clone(), peer));
    let mut waiting = Waiting {
        job,
        request,
        peers: known.collect(),
        asked,
        planned: None,
        gone: None,
        withdrawn: None,
        is_over: false,
    };
    let mut done_since = None;
    loop {
        waiting.look()?;
        if waiting.is_done() {
            let done = *done_since.get_or_insert_with(Instant::now);
            if waiting.is_put_away() || done.elapsed() > ENDING {
                return Ok(waiting.result());
            }
        }
        if waiting.is_withdrawn() {
            return Ok(waiting.result());
        }
        if patience.is_over() {
            if waiting.planned.is_none()
                && let Withdrawal::TooLate(first) = withdraw(job, request)?
            {
                waiting.planned = Some(first);
            }
            return Ok(waiting.result());
        }
        std::thread::sleep(PAUSE);
    }
}

impl Waiting<'_> {
    fn look(&mut self) -> Result<()> {
        // check before reading anything: the manifest is written before the folder is removed
        self.is_over = !self.job.is_there();
        let seen = self.job.peers()?;
        let here: BTreeSet<String> = seen.iter().map(|peer| peer.key.clone()).collect();
        for peer in seen {
            self.peers.insert(peer.key.clone(), peer);
        }
        // processes that ended normally remove their status
        for peer in self.peers.values_mut() {
            if !here.contains(&peer.key) {
                peer.is_alive = false;
                peer.status.ended = true;
            }
        }
        let planned = self.job.planned(self.request);
        if let (None, Some(first)) = (self.planned, planned) {
            notes::print([&diagnostic!(Waiting, "recording starts at step {first}")]);
            self.planned = planned;
        }
        if planned.is_some() || self.is_over || self.job.is_asked(self.request) {
            self.withdrawn = None;
        } else {
            self.withdrawn.get_or_insert_with(Instant::now);
        }
        self.read_manifest();
        Ok(())
    }

    /// Reads the results that ended processes left in the manifest.
    fn read_manifest(&mut self) {
        let is_asked = |peer: &&mut ArmedPeer| {
            peer.status.ended && peer.status.outcome(self.request).is_none()
        };
        let mut left = self.peers.values_mut().filter(is_asked).peekable();
        if left.peek().is_none() {
            self.gone = None;
            return;
        }
        self.gone.get_or_insert_with(Instant::now);
        let path = self.job.folder.join(MANIFEST);
        let manifest = std::fs::read(path).ok();
        let manifest = manifest.and_then(|text| ManifestContents::read(&text).ok());
        let ranks = manifest.map(|manifest| manifest.ranks).unwrap_or_default();
        for peer in left {
            let same = |process: &&etlink_torch::Process| {
                format!("{}.{}", process.launcher, process.pid) == peer.key
            };
            let processes = ranks.iter().map(|rank| &rank.process);
            if let Some(process) = processes.clone().find(same) {
                peer.status.asked.clone_from(&process.asked);
            }
        }
    }

    fn is_done(&self) -> bool {
        // the manifest is written shortly after the process has ended
        let has_waited = self.gone.is_some_and(|gone| gone.elapsed() > ENDING);
        self.counted().all(|peer| match self.progress(peer) {
            Progress::Waiting => false,
            Progress::Failed(_) => {
                !peer.status.ended || has_waited || self.is_told(peer) || self.is_over
            }
            Progress::Recorded(_) => true,
        })
    }

    /// Returns true if the next request may be made: the lowest rank removes the finished request.
    fn is_put_away(&self) -> bool {
        let is_alive = self.peers.values().any(ArmedPeer::is_waited_for);
        !is_alive || !self.job.is_asked(self.request)
    }

    /// Returns true if another command has withdrawn the request.
    fn is_withdrawn(&self) -> bool {
        // A plan made while the request was withdrawn is removed, too: nobody records it.
        let settling = if self.planned.is_none() {
            SETTLING
        } else {
            ENDING
        };
        self.withdrawn
            .is_some_and(|since| since.elapsed() > settling)
            && !self.peers.values().any(|peer| self.is_told(peer))
    }

    fn is_told(&self, peer: &ArmedPeer) -> bool {
        peer.status.outcome(self.request).is_some()
    }

    /// Returns the processes that count in the result: those that could record at the time of the
    /// request, and dead ones without a successor.
    fn counted(&self) -> impl Iterator<Item = &ArmedPeer> {
        let live: BTreeSet<Option<u32>> = self
            .peers
            .values()
            .filter(|peer| peer.is_waited_for())
            .map(|peer| peer.status.rank)
            .collect();
        self.peers.values().filter(move |peer| {
            let has_spoken = self.is_told(peer) || self.has_answered(peer);
            let is_succeeded = live.contains(&peer.status.rank);
            // a process that ended before it saw the request reported nothing
            let is_missed = peer.is_dead() || self.asked.contains(&peer.key);
            peer.is_waited_for() || has_spoken || (is_missed && !is_succeeded)
        })
    }

    fn has_answered(&self, peer: &ArmedPeer) -> bool {
        let answer = peer.status.answer.as_ref();
        answer.is_some_and(|(request, _, _)| request == self.request)
    }

    fn progress(&self, peer: &ArmedPeer) -> Progress {
        if let Some(asked) = peer.status.outcome(self.request) {
            return match &asked.why {
                Some(why) => Progress::Failed(why.clone()),
                None => Progress::Recorded(asked.clone()),
            };
        }
        if peer.is_dead() {
            return Progress::Failed("the process has died".to_owned());
        }
        if peer.status.ended {
            return Progress::Failed("the process ended before the recording".to_owned());
        }
        Progress::Waiting
    }

    fn result(&self) -> TriggeredRecording {
        let mut recording = None;
        let mut ranks: Vec<TriggeredRank> = vec![];
        for peer in self.counted() {
            let mut rank = TriggeredRank {
                rank: peer.status.rank,
                pid: Some(peer.status.pid),
                host: Some(peer.status.host.clone()),
                ..TriggeredRank::default()
            };
            match self.progress(peer) {
                Progress::Recorded(asked) => {
                    rank.first_step = Some(asked.first_step);
                    rank.last_step = asked.last_step;
                    let folder = asked.folder.map(|folder| self.job.folder.join(folder));
                    recording = recording.or(folder);
                }
                Progress::Failed(why) => rank.why = Some(why),
                Progress::Waiting => {
                    rank.is_recording = self.is_recording(peer);
                    rank.why = Some(self.where_it_stands(peer));
                }
            }
            ranks.push(rank);
        }
        ranks.extend(self.missing());
        ranks.sort_by_key(|rank| (rank.rank, rank.pid));
        TriggeredRecording {
            folder: self.job.folder.clone(),
            recording,
            ranks,
        }
    }

    /// Returns true if the process has started to record and has not finished.
    fn is_recording(&self, peer: &ArmedPeer) -> bool {
        let made = self.job.steps_made(peer).unwrap_or_default();
        self.planned.is_some_and(|first| made >= first)
    }

    fn where_it_stands(&self, peer: &ArmedPeer) -> String {
        let made = self.job.steps_made(peer).unwrap_or_default();
        match self.planned {
            _ if self.is_withdrawn() => "another command has withdrawn the request".to_owned(),
            Some(first) if made >= first => {
                format!("since step {first}; the command did not wait for the end")
            }
            Some(first) => format!(
                "it has made {made} steps and records from step {first} on; the command did not wait \
                 for it"
            ),
            None if self.has_answered(peer) => {
                "it waited for other ranks; the request is withdrawn".to_owned()
            }
            None => format!(
                "it has made {made} steps, but none since the request; the request is withdrawn"
            ),
        }
    }

    /// Returns the ranks of the known machines whose processes have made no step.
    fn missing(&self) -> Vec<TriggeredRank> {
        let known: BTreeSet<u32> = self
            .peers
            .values()
            .filter_map(|peer| peer.status.rank)
            .collect();
        let mut expected = BTreeSet::new();
        for status in self.peers.values().map(|peer| &peer.status) {
            let (Some(rank), Some(world)) = (status.rank, status.world) else {
                continue;
            };
            let on_machine = status.local_world.unwrap_or(world).clamp(1, world.max(1));
            let first = rank / on_machine * on_machine;
            expected.extend(first..world.min(first + on_machine));
        }
        let missing = expected.difference(&known);
        missing
            .map(|rank| TriggeredRank {
                rank: Some(*rank),
                why: Some("none of its processes has made a step".to_owned()),
                ..TriggeredRank::default()
            })
            .collect()
    }
}
