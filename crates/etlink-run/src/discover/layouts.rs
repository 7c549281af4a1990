//! Combines folders that are parts of one run.
//!
//! ```text
//! job/chakra/rank-0.json.gz         host traces alone        ┐ one run, `job`:
//! job/torch_profile/rank-0.json.gz  device traces alone      ┘ Megatron-LM, NeMo
//!
//! job/rank-0/trace.json.gz          one rank each, named     ┐ one run, `job`:
//! job/rank-1/trace.json.gz          by the folder            ┘ OLMo and others
//!
//! job/node0/etlink.json, …          the same job in the      ┐ one run, `job`: `etlink record`
//! job/node1/etlink.json, …          manifests                ┘ on each node
//!
//! job/node0/rank0.json, …           other ranks of one world ┐ one run, `job`
//! job/node1/rank8.json, …           at the same time         ┘
//!
//! job/rank0/step_100.json, …        recordings of each rank  ┐ a run for each recording:
//! job/rank1/step_100.json, …        in its own folder        ┘ `job/step_100`
//! ```
//! The folders of a run may be at any depth (`node0/gpu1`, `dp_0/tp_1`): the deepest are combined
//! first, and what they make is compared again in the folder above. Any other folder with traces is
//! a separate run. Combined folders are noted, with the rule.

use super::candidate::Inside;
use super::recorded::{RankReading, Recording, World, are_concurrent, read_ranks};
use crate::manifest::describe_parts;
use crate::rank_rule::{FolderLayout, RankRule};
use crate::run_files::{RankFiles, RunFiles};
use crate::text::{file_name, first_ranks};
use etlink_model::{Diagnostic, DiagnosticCode, diagnostic};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Combines runs whose folders are parts of one. `root`: folder of the search. Takes and returns
/// runs in order of their folders. O(ranks log ranks) per level of folders.
pub(super) fn join_folders(root: &Path, runs: Vec<RunFiles>) -> Vec<RunFiles> {
    let runs = join_nodes(runs);
    let mut joiner = FolderJoiner {
        root,
        notes: BTreeMap::new(),
    };
    let mut joined = joiner.join_below(Path::new(""), runs);
    for run in &mut joined {
        let notes = joiner.notes.remove(&run.folder).unwrap_or_default();
        run.diagnostics.splice(0..0, notes);
    }
    joined.sort_by(|a, b| a.folder.cmp(&b.folder));
    joined
}

/// Combines the folders below a folder, the deepest first.
struct FolderJoiner<'r> {
    /// Folder of the search.
    root: &'r Path,
    /// Notes on how folders were combined or why not, by the folder of the run.
    notes: BTreeMap<PathBuf, Vec<Diagnostic>>,
}

impl FolderJoiner<'_> {
    fn join_below(&mut self, parent: &Path, runs: Vec<RunFiles>) -> Vec<RunFiles> {
        let (own, below): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run.folder == parent);
        let mut by_child: BTreeMap<PathBuf, Vec<RunFiles>> = BTreeMap::new();
        for run in below {
            let child = parent.join(split_folder(parent, &run.folder).0);
            by_child.entry(child).or_default().push(run);
        }
        let are_several = by_child.len() > 1;
        let mut found = vec![];
        for (child, runs) in by_child {
            found.extend(match runs.len() {
                1 => runs,
                _ => self.join_below(&child, runs),
            });
        }
        // A folder with its own traces is already a run.
        if !own.is_empty() || !are_several {
            return [own, found].concat();
        }
        let (siblings, deeper): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|run| run.folder.parent() == Some(parent));
        let siblings = join_sides(parent, siblings);
        let siblings = self.join_ranks(parent, siblings);
        self.join_recorded(parent, [siblings, deeper].concat())
    }

    /// Combines runs into one, with a note on the rule. Notes on how its parts were combined no
    /// longer hold.
    fn join(
        &mut self,
        folder: &Path,
        layout: FolderLayout,
        note: Diagnostic,
        parts: Vec<RunFiles>,
    ) -> RunFiles {
        for part in &parts {
            self.notes.remove(&part.folder);
        }
        self.notes.insert(folder.to_owned(), vec![note]);
        as_one_run(folder, layout, parts)
    }
}

/// Returns the first folder below `parent` on the way to `folder`, and the rest of the way.
fn split_folder(parent: &Path, folder: &Path) -> (PathBuf, PathBuf) {
    let way = folder.strip_prefix(parent).unwrap_or(folder);
    let mut parts = way.components();
    let first = parts.next().map(|first| PathBuf::from(first.as_os_str()));
    (first.unwrap_or_default(), parts.as_path().to_owned())
}

/// Combines neighbouring folders with manifests of one job, in which each node recorded its ranks
/// into its own folder. Cycles of the same name are combined.
fn join_nodes(runs: Vec<RunFiles>) -> Vec<RunFiles> {
    let taken: BTreeSet<PathBuf> = runs.iter().map(|run| run.folder.clone()).collect();
    let mut by_place: BTreeMap<(PathBuf, String), Vec<RunFiles>> = BTreeMap::new();
    let mut joined = vec![];
    for run in runs {
        match job_place(&run) {
            Some((place, job)) if !taken.contains(&place) => {
                by_place.entry((place, job)).or_default().push(run);
            }
            _ => joined.push(run),
        }
    }
    // two jobs in one folder would be two runs with the same name
    let mut jobs: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (place, _) in by_place.keys() {
        *jobs.entry(place.clone()).or_default() += 1;
    }
    for ((place, job), nodes) in by_place {
        let is_only = jobs.get(&place) == Some(&1);
        joined.extend(if is_only && are_distinct(&nodes) {
            vec![join_job(place, &job, nodes)]
        } else {
            nodes
        });
    }
    joined.sort_by(|a, b| a.folder.cmp(&b.folder));
    joined
}

/// Returns the folder of a run combined with the runs of other nodes, and its job.
fn job_place(run: &RunFiles) -> Option<(PathBuf, String)> {
    let part = run.part.as_ref()?;
    let own = if part.within.as_os_str().is_empty() {
        Some(run.folder.as_path())
    } else {
        run.folder.parent()
    };
    let parent = own.and_then(Path::parent)?;
    Some((parent.join(&part.within), part.job.clone()))
}

/// Returns true if there are several runs, and no rank is in two of them: a job that was recorded
/// twice is two runs.
fn are_distinct(nodes: &[RunFiles]) -> bool {
    let all: Vec<i64> = nodes.iter().flat_map(ranks_of).collect();
    let distinct: BTreeSet<i64> = all.iter().copied().collect();
    let count: usize = nodes.iter().map(|run| run.ranks.len()).sum();
    nodes.len() > 1 && distinct.len() == count
}

fn join_job(place: PathBuf, job: &str, nodes: Vec<RunFiles>) -> RunFiles {
    let names: Vec<String> = nodes
        .iter()
        .take(3)
        .map(|node| node.folder.display().to_string())
        .collect();
    let more = if nodes.len() > names.len() {
        ", …"
    } else {
        ""
    };
    let note = diagnostic!(
        FoldersJoined,
        "{} folders ({}{more}) belong to job `{job}` by their manifests: read as one run",
        nodes.len(),
        names.join(", ")
    );
    let parts: Vec<_> = nodes.iter().filter_map(|node| node.part.clone()).collect();
    let mut run = as_one_run(&place, FolderLayout::Nodes, nodes);
    run.diagnostics.insert(0, note);
    run.ranks.sort_by_key(|rank| rank.rank);
    let apart = describe_parts(&parts, &mut run.ranks);
    // notes of a single manifest about its own ranks already exist
    if !DiagnosticCode::IterationsApart.is_in(&run.diagnostics)
        && let Some(note) = apart
    {
        run.diagnostics.push(note);
    }
    run
}

/// Kind of a folder's traces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FolderSide {
    Hosts,
    Devices,
    Other,
}

fn side_of(run: &RunFiles) -> FolderSide {
    // Two files of one rank are ambiguous.
    if ranks_of(run).len() < run.ranks.len() {
        return FolderSide::Other;
    }
    let are = |is: fn(&RankFiles) -> bool| run.ranks.iter().all(is);
    if are(|rank| rank.rank.is_some() && rank.host.is_some() && rank.device.is_none()) {
        FolderSide::Hosts
    } else if are(|rank| rank.rank.is_some() && rank.device.is_some() && rank.host.is_none()) {
        FolderSide::Devices
    } else {
        FolderSide::Other
    }
}

fn ranks_of(run: &RunFiles) -> BTreeSet<i64> {
    run.ranks.iter().filter_map(|rank| rank.rank).collect()
}

/// Combines a folder of host traces with a folder of device traces of the same ranks. With several
/// such pairs, their assignment is ambiguous, which becomes a note of the host traces.
fn join_sides(parent: &Path, mut siblings: Vec<RunFiles>) -> Vec<RunFiles> {
    let places = |side: FolderSide| -> Vec<usize> {
        let all = siblings.iter().enumerate();
        let own = all.filter(|(_, run)| side_of(run) == side);
        own.map(|(place, _)| place).collect()
    };
    let (hosts, devices) = (places(FolderSide::Hosts), places(FolderSide::Devices));
    let [host] = &hosts[..] else {
        note_unsure_sides(parent, &mut siblings, &hosts, &devices);
        return siblings;
    };
    let host_ranks = ranks_of(&siblings[*host]);
    let same = devices.iter().copied();
    let same: Vec<usize> = same
        .filter(|device| ranks_of(&siblings[*device]) == host_ranks)
        .collect();
    let device = match (&same[..], &devices[..]) {
        ([device], _) => device,
        // A rank may have lost one of its traces.
        ([], [device]) if !ranks_of(&siblings[*device]).is_disjoint(&host_ranks) => device,
        ([], _) => {
            note_unsure_sides(parent, &mut siblings, &hosts, &devices);
            return siblings;
        }
        (_, _) => {
            note_unsure_sides(parent, &mut siblings, &hosts, &same);
            return siblings;
        }
    };
    // The later one first, so that the index of the other stays valid.
    let later = siblings.remove(*host.max(device));
    let earlier = siblings.remove(*host.min(device));
    let (host_run, device_run) = if host < device {
        (earlier, later)
    } else {
        (later, earlier)
    };
    let note = diagnostic!(
        FoldersJoined,
        "host traces in {} and device traces in {} have the same ranks: read as one run",
        file_name(&host_run.folder),
        file_name(&device_run.folder)
    );
    let mut run = as_one_run(parent, FolderLayout::Sides, vec![device_run, host_run]);
    run.diagnostics.insert(0, note);
    let (devices, hosts): (Vec<_>, Vec<_>) = run
        .ranks
        .into_iter()
        .partition(|rank| rank.device.is_some());
    let mut hosts: BTreeMap<Option<i64>, RankFiles> =
        hosts.into_iter().map(|host| (host.rank, host)).collect();
    run.ranks = devices;
    for rank in &mut run.ranks {
        if let Some(host) = hosts.remove(&rank.rank) {
            rank.host = host.host;
            rank.metrics = rank.metrics.take().or(host.metrics);
            rank.flight = rank.flight.take().or(host.flight);
        }
    }
    run.ranks.extend(hosts.into_values());
    run.ranks.sort_by_key(|rank| rank.rank);
    siblings.push(run);
    siblings
}

/// Adds a note to the first folder of host traces: the folders of device traces that may belong to
/// it, and a remedy.
fn note_unsure_sides(parent: &Path, siblings: &mut [RunFiles], hosts: &[usize], devices: &[usize]) {
    let share_ranks = |one: usize, other: usize| {
        !ranks_of(&siblings[one]).is_disjoint(&ranks_of(&siblings[other]))
    };
    let hosts = hosts.iter().copied();
    let hosts = hosts.filter(|host| devices.iter().any(|device| share_ranks(*host, *device)));
    let hosts: Vec<usize> = hosts.collect();
    let devices = devices.iter().copied();
    let devices = devices.filter(|device| hosts.iter().any(|host| share_ranks(*host, *device)));
    let devices: Vec<usize> = devices.collect();
    let Some(first) = hosts.first().copied() else {
        return;
    };
    if hosts.len() < 2 && devices.len() < 2 {
        return;
    }
    let mut choices = vec![];
    for places in [&hosts, &devices] {
        // folders of different ranks are parts of one run, like the folders of nodes
        let rivals = places.iter().copied().filter(|one| {
            let mut others = places.iter().filter(|other| *other != one);
            others.any(|other| share_ranks(*one, *other))
        });
        let rivals: Vec<usize> = rivals.collect();
        if !rivals.is_empty() {
            choices.push(format!(
                "one of {}",
                name_folders(parent, siblings, &rivals)
            ));
        }
    }
    let (problem, remedy) = if choices.is_empty() {
        let remedy = "put all host traces into one folder, and all device traces into another";
        ("a run has one folder of each kind", remedy.to_owned())
    } else {
        (
            "it is unclear which belong together, so each folder is read as a run",
            format!("keep only {}", choices.join(" and ")),
        )
    };
    let note = diagnostic!(
        FoldersUnclear,
        "folders of host traces ({}) and of device traces ({}) share ranks, but {problem}",
        name_folders(parent, siblings, &hosts),
        name_folders(parent, siblings, &devices),
    );
    siblings[first].diagnostics.push(note.advise(remedy));
    for host in hosts {
        for rank in &mut siblings[host].ranks {
            rank.is_device_unsure = true;
        }
    }
}

/// Returns the names of the first few folders below `parent`.
fn name_folders(parent: &Path, runs: &[RunFiles], places: &[usize]) -> String {
    const NAMED: usize = 4;
    let names = places.iter().take(NAMED).map(|place| {
        let folder = &runs[*place].folder;
        let name = folder.strip_prefix(parent).unwrap_or(folder);
        name.display().to_string()
    });
    let names: Vec<String> = names.collect();
    let more = match places.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", names.join(", "))
}

impl FolderJoiner<'_> {
    /// Combines folders of one rank each whose names state it: `rank-0`, `rank-1`. Others stay runs.
    fn join_ranks(&mut self, parent: &Path, siblings: Vec<RunFiles>) -> Vec<RunFiles> {
        let (parts, others): (Vec<RunFiles>, Vec<RunFiles>) = siblings
            .into_iter()
            .partition(|run| folder_rank(run).is_some());
        let ranks: BTreeSet<i64> = parts.iter().filter_map(folder_rank).collect();
        let are_distinct = ranks.len() == parts.len();
        // `rank-8` and `rank-16` may be sizes of an adapter, so the traces must state their ranks.
        let are_all = ranks.iter().copied().eq(0..parts.len() as i64);
        let are_stated = parts
            .iter()
            .all(|run| run.ranks.iter().all(|files| files.rank.is_some()));
        if parts.len() < 2 || !are_distinct || !(are_all || are_stated) {
            return [parts, others].concat();
        }
        let note = diagnostic!(
            FoldersJoined,
            "{} folders ({}, …) have one rank each and are named after it: read as one run",
            parts.len(),
            file_name(&parts[0].folder)
        );
        let of_folders: Vec<Option<i64>> = parts.iter().map(folder_rank).collect();
        let mut run = self.join(parent, FolderLayout::Ranks, note, parts);
        for (files, rank) in run.ranks.iter_mut().zip(of_folders) {
            (files.rank, files.told_by) = (rank, RankRule::FOLDER);
            files.label = rank.map_or(files.label.clone(), |rank| rank.to_string());
        }
        run.ranks.sort_by_key(|rank| rank.rank);
        [vec![run], others].concat()
    }

    /// Combines folders whose traces were recorded simultaneously by different processes, and whose
    /// contents or names make them the ranks of one run: one node or one rank per folder. If two
    /// interpretations are possible, adds a note on both to the first folder.
    fn join_recorded(&mut self, parent: &Path, runs: Vec<RunFiles>) -> Vec<RunFiles> {
        let runs = match self.join_alike(parent, parent, runs) {
            Ok(run) => return vec![run],
            Err(runs) => runs,
        };
        // other runs may be next to them
        let mut taken: BTreeSet<PathBuf> = runs.iter().map(|run| run.folder.clone()).collect();
        let mut by_words: BTreeMap<String, Vec<RunFiles>> = BTreeMap::new();
        for run in runs {
            let words = words_of(&split_folder(parent, &run.folder).0);
            by_words.entry(words).or_default().push(run);
        }
        let is_one = by_words.len() == 1;
        let mut joined = vec![];
        for own in by_words.into_values() {
            let is_own = own.iter().any(|run| run.folder == parent);
            let own = if is_one || taken.contains(parent) && !is_own {
                Err(own)
            } else {
                self.join_alike(parent, parent, own)
            };
            match own {
                Ok(run) => {
                    taken.insert(run.folder.clone());
                    joined.push(run);
                }
                Err(own) => joined.extend(self.join_recordings(parent, own, &mut taken)),
            }
        }
        joined
    }

    /// Combines the ranks of each recording if every rank or node has several in its folder:
    /// `rank0/cycle1`, `rank1/cycle1`. No two runs get the same folder: those in `taken` are used.
    fn join_recordings(
        &mut self,
        parent: &Path,
        runs: Vec<RunFiles>,
        taken: &mut BTreeSet<PathBuf>,
    ) -> Vec<RunFiles> {
        let mut by_recording: BTreeMap<PathBuf, Vec<RunFiles>> = BTreeMap::new();
        for run in runs {
            let recording = split_folder(parent, &run.folder).1;
            by_recording.entry(recording).or_default().push(run);
        }
        let are_several = by_recording.len() > 1;
        let last_names: BTreeSet<String> = by_recording.keys().map(|way| file_name(way)).collect();
        let are_named_by_last = last_names.len() == by_recording.len();
        let mut joined = vec![];
        for (recording, own) in by_recording {
            let folder = if are_named_by_last {
                parent.join(file_name(&recording))
            } else {
                parent.join(&recording)
            };
            if are_several && !recording.as_os_str().is_empty() && !taken.contains(&folder) {
                match self.join_alike(parent, &folder, own) {
                    Ok(run) => {
                        taken.insert(folder);
                        joined.push(run);
                    }
                    Err(own) => joined.extend(own),
                }
            } else {
                joined.extend(own);
            }
        }
        joined
    }

    /// Returns runs below `parent` as the run of `folder`, or unchanged if they are several.
    fn join_alike(
        &mut self,
        parent: &Path,
        folder: &Path,
        runs: Vec<RunFiles>,
    ) -> Result<RunFiles, Vec<RunFiles>> {
        // a job is combined by its manifests
        if runs.len() < 2 || runs.iter().any(|run| run.part.is_some()) {
            return Err(runs);
        }
        let Some(recordings) = self.recordings(parent, &runs) else {
            return Err(runs);
        };
        let first_folders = runs.iter().map(|run| split_folder(parent, &run.folder).0);
        let words: BTreeSet<String> = first_folders.map(|first| words_of(&first)).collect();
        let is_known = World::of(&recordings).is_some_and(|world| world.is_known());
        if !(is_known || words.len() == 1) || !are_concurrent(&recordings) {
            return Err(runs);
        }
        let places: Vec<usize> = (0..runs.len()).collect();
        let names = name_folders(parent, &runs, &places);
        let readings = match read_ranks(&recordings) {
            RankReading::Settled(ranks, rule) => {
                let note = diagnostic!(
                    FoldersJoined,
                    "folders {names} have different ranks of one world and were recorded at the same \
                     time: read as one run, with ranks from {}",
                    rule.describe()
                );
                let layout = if runs.iter().all(|run| run.ranks.len() == 1) {
                    FolderLayout::Ranks
                } else {
                    FolderLayout::Nodes
                };
                let mut run = self.join(folder, layout, note, runs);
                for (files, rank) in run.ranks.iter_mut().zip(ranks) {
                    if files.rank != Some(rank) {
                        files.told_by = rule.clone();
                        (files.rank, files.label) = (Some(rank), rank.to_string());
                    }
                }
                run.ranks.sort_by_key(|files| files.rank);
                return Ok(run);
            }
            RankReading::Split([one, two]) => format!(
                "ranks {} or ranks {} of one run",
                first_ranks(&one),
                first_ranks(&two)
            ),
            // a world that is too small for all folders means several runs
            RankReading::Unknown if !is_known => "nodes of one run, or separate runs".to_owned(),
            RankReading::Unknown => return Err(runs),
        };
        let note = diagnostic!(
            FoldersUnclear,
            "folders {names} were recorded at the same time by different processes: {readings}. Each \
             folder is read as a run"
        );
        let remedy = "if they are one run, put the global rank in each name (`rank0`, `rank1`)";
        let note = note.advise(remedy);
        let first = runs[0].folder.clone();
        self.notes.entry(first).or_default().push(note);
        Err(runs)
    }

    /// Returns the device traces of runs below `parent`, in the order of their ranks. Returns `None`
    /// if a rank has no device trace, or for cycles, whose traces are in one folder.
    fn recordings(&self, parent: &Path, runs: &[RunFiles]) -> Option<Vec<Recording>> {
        let top = self.root.join(parent);
        let mut found = vec![];
        let mut places = BTreeSet::new();
        for run in runs {
            let first = run.ranks.first()?.device.as_ref()?;
            if !places.insert(first.parent()) {
                return None;
            }
            let in_folder = if run.ranks.len() == 1 {
                rank_of_folder(&run.folder)
            } else {
                None
            };
            for rank in &run.ranks {
                let path = rank.device.clone()?;
                found.push(Recording {
                    name: path
                        .strip_prefix(&top)
                        .unwrap_or(&path)
                        .display()
                        .to_string(),
                    node: Some(run.folder.display().to_string()),
                    named: rank.rank.or(in_folder),
                    inside: Inside::of_file(&path)?,
                    path,
                });
            }
        }
        Some(found)
    }
}

/// Returns a folder's name without digits.
fn words_of(folder: &Path) -> String {
    file_name(folder).replace(|c: char| c.is_ascii_digit(), "")
}

/// Combines folders into one run, with their ranks in sequence.
fn as_one_run(folder: &Path, layout: FolderLayout, parts: Vec<RunFiles>) -> RunFiles {
    let mut run = RunFiles::empty(folder.to_owned());
    run.layout = Some(layout);
    for part in parts {
        run.ranks.extend(part.ranks);
        run.diagnostics.extend(part.diagnostics);
        run.unused.extend(part.unused);
        run.measurements.extend(part.measurements);
    }
    run
}

/// Returns the rank in the name of a folder with one rank; `None` if the trace states another rank.
fn folder_rank(run: &RunFiles) -> Option<i64> {
    let [files] = &run.ranks[..] else {
        return None;
    };
    rank_of_folder(&run.folder).filter(|named| files.rank.is_none_or(|own| own == *named))
}

/// Returns the rank that a folder is named by: `rank0`, `rank-0`, `rank[0]`.
pub(super) fn rank_of_folder(folder: &Path) -> Option<i64> {
    let name = file_name(folder).to_lowercase();
    let number = name
        .strip_prefix("rank")?
        .trim_start_matches(['-', '_', '[', '=']);
    let number = number.trim_end_matches(']');
    number.parse::<i64>().ok().filter(|named| *named >= 0)
}
