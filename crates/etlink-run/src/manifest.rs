//! Data about traces from the manifest of their recording (`etlink.json`).
//!
//! The manifest is next to the traces, or one folder above the traces of a cycle. Traces have
//! precedence: the manifest fills gaps, and contradictions are reported.

use crate::file_kind::{is_absence, may_be_file};
use crate::run_files::{JobPart, ManifestEntry, RankFiles};
use crate::storage;
use crate::text::first_ranks;
use etlink_model::{Diagnostic, DurationNs, diagnostic};
use etlink_torch::{ApartCycles, Cycle, ManifestContents, Rank, apart_cycles};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the manifest.
pub const MANIFEST: &str = "etlink.json";

/// Ending of drafts of the manifest, in the work folder of a recording.
pub const DRAFT: &str = ".manifest";

/// Work folder of a recording, in the folder of its traces.
pub const WORK: &str = ".etlink";

/// File in the work folder that is locked by recording launchers and processes.
pub const RUNNING: &str = "running";

/// Tolerance for start times of a machine, ns: two clock readings that differ by less are of one
/// machine.
const SAME_MACHINE_NS: i64 = 1_000_000;

/// Returns the median length of a rank's steps that were not recorded.
fn plain_step(rank: &Rank) -> Option<DurationNs> {
    let times = rank.process.step_times?;
    let step = i64::try_from(times.plain_ns).ok()?;
    (step > 0).then_some(DurationNs(step))
}

/// Manifest for a folder of traces.
pub struct RunManifest {
    /// Path of the manifest.
    path: PathBuf,
    recorded: ManifestContents,
    /// Folder of the traces, relative to the manifest: a cycle's folder, or empty.
    within: PathBuf,
    /// Rank of each listed file in the folder.
    files: BTreeMap<String, i64>,
    /// First and last recorded step, by rank.
    steps: BTreeMap<i64, (u64, u64)>,
    /// Ranks whose host trace covers other steps than their device trace.
    interleaved: BTreeSet<i64>,
}

/// Returns a note on traces without a manifest, if a recorder's work folder is next to them.
pub fn unlisted(folder: &Path) -> Option<Diagnostic> {
    let (work, manifest) = (folder.join(WORK), folder.join(MANIFEST));
    if manifest.exists() {
        return None;
    }
    let mut names = std::fs::read_dir(&work).ok()?.flatten();
    names.find(|entry| entry.file_name().to_string_lossy().ends_with(DRAFT))?;
    // without a trailing slash
    let name = folder.components().collect::<PathBuf>();
    let name = name.display();
    let is_held =
        std::fs::File::open(work.join(RUNNING)).is_ok_and(|running| running.try_lock().is_err());
    Some(if is_held {
        diagnostic!(
            Recording,
            "{name} is still being recorded: results cover the files so far; {MANIFEST} is written at the end"
        )
    } else {
        diagnostic!(
            ManifestUnreadable,
            "{name} has no {MANIFEST}: `etlink record` was killed before it wrote the manifest. The traces are used \
             as they are"
        )
        .advise(format!(
            "`etlink record --recover -o {name}` writes a manifest of the remaining files"
        ))
    })
}

impl ManifestEntry {
    /// Returns the data of the manifest next to a device trace; empty if there is none.
    pub fn of_trace(device: &Path) -> ManifestEntry {
        let folder = if storage::is_file(device) {
            device.parent()
        } else {
            None
        };
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        let listed = folder.and_then(|folder| {
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            // errors of a manifest are reported when a folder is opened
            RunManifest::of(folder).ok().flatten()
        });
        let Some((listed, rank)) = listed.and_then(|listed| {
            let rank = listed.rank_of(&name)?;
            Some((listed, rank))
        }) else {
            return ManifestEntry::default();
        };
        ManifestEntry {
            is_interleaved: listed.interleaved.contains(&rank),
            cost: listed.cost(),
            plain_step: listed.plain_step(rank),
            ..ManifestEntry::default()
        }
    }
}

impl RunManifest {
    /// Returns the manifest for the traces in `folder`, if it exists, or the reason that it cannot
    /// be used.
    pub fn of(folder: &Path) -> Result<Option<RunManifest>, String> {
        // from a web server, only the requested file is read
        if storage::is_web_url(folder) {
            return Ok(None);
        }
        // the name of `.` is empty, and a cycle's files are listed by the name of its folder
        let folder = &folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        // the folder itself first: a cycle may have been copied with its own manifest
        let places = std::iter::once(folder.as_path()).chain(folder.parent());
        let paths = places.map(|place| place.join(MANIFEST));
        let mut found = paths.filter(|path| may_be_file(path)).map(|path| {
            let read = storage::read(&path);
            (path, read)
        });
        // the system may only report a missing file when it is opened
        let is_there = |(_, read): &(PathBuf, io::Result<Vec<u8>>)| match read {
            Ok(_) => true,
            Err(error) => !is_absence(error),
        };
        let Some((path, read)) = found.find(is_there) else {
            return Ok(None);
        };
        let unused = |error: &dyn Display| format!("{} is not used: {error}", path.display());
        let bytes = read.map_err(|error| unused(&error))?;
        let recorded = ManifestContents::read(&bytes)
            .map_err(|error| unused(&format!("not a manifest of a recording: {error}")))?;
        let within = path
            .parent()
            .filter(|parent| *parent != folder)
            .and(folder.file_name())
            .map(PathBuf::from)
            .unwrap_or_default();
        let (mut files, mut steps) = (BTreeMap::new(), BTreeMap::new());
        let mut interleaved = BTreeSet::new();
        for (rank, cycle) in cycles(&recorded) {
            for name in [&cycle.host_trace, &cycle.device_trace] {
                let path = Path::new(name);
                if path.parent() == Some(&within)
                    && let Some(file) = path.file_name()
                {
                    files.insert(file.to_string_lossy().into_owned(), rank);
                    steps.insert(rank, (cycle.first_step, cycle.last_step));
                    interleaved.extend(cycle.host_steps.map(|_| rank));
                }
            }
        }
        // a manifest above that does not list the folder belongs to other traces
        let is_of_it = within.as_os_str().is_empty() || !files.is_empty();
        Ok(is_of_it.then_some(RunManifest {
            path,
            recorded,
            within,
            files,
            steps,
            interleaved,
        }))
    }

    /// Returns the listed ranks.
    fn listed_ranks(&self) -> BTreeMap<i64, &Rank> {
        let mut ranks: BTreeMap<i64, &Rank> = BTreeMap::new();
        for rank in &self.recorded.ranks {
            // helper processes of the program are listed without a rank
            let Some(number) = rank.process.rank.map(i64::from) else {
                continue;
            };
            // a rank that a launcher restarted is listed twice: the one with traces counts
            if ranks
                .get(&number)
                .is_none_or(|known| known.process.cycles.is_empty())
            {
                ranks.insert(number, rank);
            }
        }
        ranks
    }

    /// Returns the listed rank of a file in the folder.
    pub fn rank_of(&self, name: &str) -> Option<i64> {
        self.files.get(name).copied()
    }

    /// Adds the manifest's data to each rank. Returns notes for the user.
    pub fn describe_ranks(
        &self,
        found: &mut [RankFiles],
        world_size: Option<i64>,
    ) -> Vec<Diagnostic> {
        let ranks = self.listed_ranks();
        let mut machines: Vec<(&str, i64)> = vec![];
        let cost = self.cost();
        for found in found.iter_mut() {
            let Some(rank) = found.rank.and_then(|rank| ranks.get(&rank)) else {
                continue;
            };
            found.manifest = ManifestEntry {
                world_size: rank.process.world.map(i64::from),
                machine: machine_name(rank, &mut machines),
                is_interleaved: found
                    .rank
                    .is_some_and(|rank| self.interleaved.contains(&rank)),
                cost: cost.clone(),
                plain_step: plain_step(rank),
            };
        }
        let name = self.path.display();
        let here: BTreeSet<i64> = found
            .iter()
            // a host trace alone cannot be linked, so its rank counts as missing
            .filter(|found| found.device.is_some())
            .filter_map(|found| found.rank)
            .collect();
        // by reason: a job that fails may lose hundreds of ranks, which share one line
        let mut missing: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for (rank, listed) in ranks.iter().filter(|(rank, _)| !here.contains(rank)) {
            missing
                .entry(self.missing_reason(listed))
                .or_default()
                .push(*rank);
        }
        let missing = missing.iter().map(|(why, gone)| {
            diagnostic!(
                ManifestDiffers,
                "{name} lists {} ranks, but rank {} has no trace here: {why}",
                ranks.len(),
                first_ranks(gone)
            )
        });
        let mut notes: Vec<Diagnostic> = missing.collect();
        let strange: Vec<i64> = here
            .into_iter()
            .filter(|rank| !ranks.contains_key(rank))
            .collect();
        if !strange.is_empty() {
            notes.push(diagnostic!(
ManifestDiffers,                "{name} does not list rank {}, which has a trace here: the trace may be from another recording",
                first_ranks(&strange)
            ));
        }
        notes.extend(self.other_steps(&name));
        notes.extend(self.other_clocks(&name));
        let said = ranks
            .values()
            .find_map(|rank| rank.process.world)
            .map(i64::from);
        if let (Some(said), Some(own)) = (said, world_size)
            && said != own
        {
            notes.push(diagnostic!(
                ManifestDiffers,
                "{name} states {said} ranks, but the traces state {own}: the traces are used"
            ));
        }
        notes
    }

    /// Returns the median length of a rank's steps that were not recorded.
    fn plain_step(&self, rank: i64) -> Option<DurationNs> {
        plain_step(self.listed_ranks().get(&rank)?)
    }

    /// Returns a note on the overhead of recording if it is large, with a remedy.
    fn cost(&self) -> Option<Diagnostic> {
        let slowdown = self.recorded.slowdown()?.slowdown();
        let slowdown = slowdown.filter(|slowdown| *slowdown > crate::overhead::SLOW)?;
        let remedy = if self.interleaved.is_empty() && self.is_scheduled() {
            "etlink record --interleave avoids most of it"
        } else {
            ""
        };
        let cost = diagnostic!(
            RecordingOverhead,
            "recorded steps took {slowdown:.1} x the time of other steps: recording slowed them \
             down, or they do more work"
        );
        Some(cost.advise(remedy))
    }

    /// Returns true if the steps follow --wait, --warmup and --active, which --interleave requires.
    fn is_scheduled(&self) -> bool {
        let is_asked = |rank: &Rank| !rank.process.asked.is_empty();
        let is_other = |cycle: &Cycle| cycle.own_profiler || cycle.phase.is_some();
        !self.recorded.ranks.iter().any(is_asked)
            && !cycles(&self.recorded).any(|(_, cycle)| is_other(cycle))
    }

    /// Returns a note on ranks that recorded other iterations than the first rank.
    pub fn apart_note(&self, found: &[RankFiles]) -> Option<Diagnostic> {
        apart_note(&self.path.display(), &self.ranks_here(found))
    }

    /// Returns the listed ranks that have files here, with the cycles of this folder.
    fn ranks_here(&self, found: &[RankFiles]) -> Vec<Rank> {
        let here: BTreeSet<i64> = found.iter().filter_map(|found| found.rank).collect();
        let mut ranks = vec![];
        for rank in &self.recorded.ranks {
            let mut rank = rank.clone();
            let cycles = &mut rank.process.cycles;
            cycles.retain(|cycle| Path::new(&cycle.host_trace).parent() == Some(&self.within));
            let number = rank.process.rank.map(i64::from);
            ranks.extend(number.filter(|number| here.contains(number)).map(|_| rank));
        }
        ranks
    }

    /// Returns the folder's part of a job that several launchers recorded; `None` for other
    /// recordings.
    pub fn job_part(&self, found: &[RankFiles]) -> Option<JobPart> {
        Some(JobPart {
            job: self.recorded.job.clone()?,
            within: self.within.clone(),
            ranks: self.ranks_here(found),
        })
    }

    /// Returns a note if ranks recorded different steps.
    fn other_steps(&self, name: &dyn Display) -> Option<Diagnostic> {
        let (first, of_first) = self.steps.first_key_value()?;
        let (other, of_other) = self.steps.iter().find(|(_, steps)| *steps != of_first)?;
        let said = |(first, last): &(u64, u64)| format!("{first} to {last}");
        Some(diagnostic!(
            ManifestDiffers,
            "{name} states different steps: {} for rank {first}, {} for rank {other}",
            said(of_first),
            said(of_other)
        ))
    }

    /// Returns a note if a machine's clock certainly differs from the first machine's clock.
    fn other_clocks(&self, name: &dyn Display) -> Option<Diagnostic> {
        let processes = self.recorded.ranks.iter().map(|rank| &rank.process);
        let mut clocks =
            processes.filter_map(|process| Some((&process.host, process.clock.as_ref()?)));
        let (first, of_first) = clocks.next()?;
        // keeps the clock with the largest difference
        let apart = clocks.map(|(host, clock)| {
            let distance = of_first.offset_ns.saturating_sub(clock.offset_ns);
            let uncertainty = of_first.uncertainty_ns.saturating_add(clock.uncertainty_ns);
            (host, distance, uncertainty)
        });
        let sure = apart.filter(|(host, distance, uncertainty)| {
            *host != first && distance.saturating_abs() > *uncertainty
        });
        let (host, distance, uncertainty) =
            sure.max_by_key(|(_, distance, _)| distance.saturating_abs())?;
        Some(diagnostic!(
            ManifestDiffers,
            "{name} states that the clock of {host} is {} s {} the clock of {first}, within {} s",
            seconds(distance.saturating_abs()),
            if distance > 0 { "ahead of" } else { "behind" },
            seconds(uncertainty)
        ))
    }

    /// Returns the reason that a rank has no traces in the folder.
    fn missing_reason(&self, rank: &Rank) -> String {
        let process = &rank.process;
        let listed = process
            .rank
            .is_some_and(|rank| self.files.values().any(|listed| *listed == i64::from(rank)));
        // from the most to the least certain reason: a rank may have several
        if listed {
            "the listed files are missing".to_owned()
        } else if rank.lost {
            format!(
                "it died in or after step {} during recording",
                process.steps
            )
        } else if !process.notes.is_empty() {
            process.notes.join("; ")
        } else if process.excluded {
            "it was excluded from recording".to_owned()
        } else if process.cycles.is_empty() {
            format!("none of its {} steps was recorded", process.steps)
        } else {
            "it was recorded only in other cycles".to_owned()
        }
    }
}

/// Assigns machines across all parts of a job, because each manifest numbers its own. Returns a
/// note on ranks that recorded other iterations than the first rank.
pub fn describe_parts(parts: &[JobPart], found: &mut [RankFiles]) -> Option<Diagnostic> {
    let ranks: Vec<Rank> = parts.iter().flat_map(|part| part.ranks.clone()).collect();
    let mut known: Vec<(&str, i64)> = vec![];
    let mut machines = BTreeMap::new();
    for rank in &ranks {
        if let (Some(number), Some(name)) = (rank.process.rank, machine_name(rank, &mut known)) {
            machines.insert(i64::from(number), name);
        }
    }
    for files in found {
        files.manifest.machine = files.rank.and_then(|rank| machines.remove(&rank));
    }
    apart_note(&"the manifests of the job", &ranks)
}

/// Returns a note on ranks whose cycles are more than a step apart.
fn apart_note(name: &dyn Display, ranks: &[Rank]) -> Option<Diagnostic> {
    let apart = apart_cycles(ranks);
    let furthest = apart
        .iter()
        .max_by_key(|cycles| cycles.later_ns.unsigned_abs())?;
    let numbers: BTreeSet<u32> = apart
        .iter()
        .map(|cycles: &ApartCycles| cycles.rank)
        .collect();
    let others = match numbers.len() - 1 {
        0 => String::new(),
        1 => "; so did 1 other rank".to_owned(),
        more => format!("; so did {more} other ranks"),
    };
    Some(diagnostic!(
        IterationsApart,
        "by {name}, rank {} recorded {}, more than a step apart{others}. If ranks wait for each \
         other, their traces are from different iterations, and figures on their waits are wrong",
        furthest.rank,
        furthest.distance()
    ))
}

fn seconds(ns: i64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}

/// Returns the cycles of all ranks.
fn cycles(recorded: &ManifestContents) -> impl Iterator<Item = (i64, &Cycle)> {
    let processes = recorded.ranks.iter().map(|rank| &rank.process);
    processes.flat_map(|process| {
        let rank = process.rank.map(i64::from);
        let cycles = process.cycles.iter();
        cycles.filter_map(move |cycle| Some((rank?, cycle)))
    })
}

/// Returns a name for the machine of a rank, from its host name and start time.
fn machine_name<'r>(rank: &'r Rank, known: &mut Vec<(&'r str, i64)>) -> Option<String> {
    // any cycle suffices: machines start further apart than the duration of a recording
    let clock = rank.process.cycles.last()?.clock;
    // monotonic clocks count from the start of the machine, so their origin identifies the machine
    let (host, started) = (
        rank.process.host.as_str(),
        clock.unix_ns.checked_sub(clock.monotonic_ns)?,
    );
    // the recorder could not read these: all machines would look the same
    if host.is_empty() || clock.unix_ns == 0 {
        return None;
    }
    let same = |(name, other): &(&str, i64)| {
        *name == host && started.abs_diff(*other) < SAME_MACHINE_NS as u64
    };
    let place = known.iter().position(same).unwrap_or_else(|| {
        known.push((host, started));
        known.len() - 1
    });
    Some(format!("{host} {place}"))
}
