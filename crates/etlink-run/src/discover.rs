//! Which files of a folder are the traces of which rank.
//!
//! Names in use: `torch_et_<r>`, `pytorch_et_<r>`, `host_<r>`, `kineto_trace_<r>`, `kineto_<r>`,
//! `device_<r>`, `rank<r>_trace`, `rank-<r>`, `*.pt.trace`, with `.json`, `.gz`, `.zst`. Names tell
//! which files belong together. What a name does not tell is read from the file's beginning: its
//! kind, and the rank in `distributedInfo`; then from the manifest that `etlink record` wrote.
//! Where names and traces say different ranks, the traces count if they fit together (local ranks
//! in names), else the names (copies of one rank's trace). Which process recorded a file, and when,
//! decides between two ranks and two recordings of one (`recorded`).

mod candidate;
mod cycles;
mod dumps;
mod layouts;
mod measured;
mod recorded;
mod recorder;
mod twins;
mod unexported;

pub use crate::run_files::{
    FlightFile, FlightFolder, ManifestEntry, RankFiles, RunFiles, is_of_no_run,
};

use crate::error::RunError;
use crate::file_error::{FileAction, FileContext, FileError};
use crate::input::{InputKind, is_nsys_report, is_nsys_table};
use crate::manifest::{RunManifest, unlisted};
use crate::measurements::MeasurementFile;
use crate::output::is_work_folder;
use crate::rank_rule::RankRule;
use crate::run_files::unreadable_note;
use crate::storage;
use crate::text;
use crate::text::file_name;
use candidate::{Inside, TraceCandidate, look_at, number_by_order, open_noting};
use cycles::{RankCandidates, split_cycles};
use dumps::DumpNames;
use layouts::join_folders;
use measured::{StrayMeasurements, give_metrics};
use recorded::{refuse_copies, separate_processes};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use twins::without_packed_twins;
use unexported::{Unexported, note_reports};

/// Finds the runs in `root` and its subfolders, in order of their paths. A subfolder or a file that
/// cannot be read is noted.
///
/// # Errors
/// `root` cannot be read, or files in it are being replaced.
pub fn discover(root: &Path) -> Result<Vec<RunFiles>, RunError> {
    let mut found = search_folders(root)?;
    note_unreadable(&mut found.runs, &found.unreadable);
    Ok(found.runs)
}

/// The folder that a cycle's traces lie in, for a path that is no folder but is named like a cycle
/// of one: `job/cycle2`, `job/DECODE`.
pub fn cycle_folder(path: &Path) -> Option<&Path> {
    let name = path.file_name()?.to_str()?;
    let parent = match path.parent()? {
        here if here.as_os_str().is_empty() => Path::new("."),
        parent => parent,
    };
    let is_cycle = !storage::exists(path)
        && storage::is_folder(parent)
        && cycles::may_name_cycle(name, parent);
    is_cycle.then_some(parent)
}

/// Whether a file is a device trace that states its rank.
pub fn states_rank(path: &Path) -> bool {
    Inside::of_file(path).is_some_and(|inside| inside.rank.is_some())
}

/// Why subfolders of `root`, in which there may be traces, and files that may be some cannot be read.
///
/// # Errors
/// As those of [`discover`].
pub fn unreadable_paths(root: &Path) -> Result<Vec<FileError>, RunError> {
    Ok(search_folders(root)?.unreadable)
}

/// Has the first run say which subfolders and files cannot be read.
pub fn note_unreadable(runs: &mut [RunFiles], unreadable: &[FileError]) {
    // what cannot be read belongs to no run: the first one says it, once
    let Some(first) = runs.first_mut() else {
        return;
    };
    first.has_unreadable |= !unreadable.is_empty();
    first.notes.extend(unreadable.iter().map(unreadable_note));
}

/// What a folder and its subfolders have.
pub(crate) struct FoundFiles {
    /// The runs, by folder.
    pub(crate) runs: Vec<RunFiles>,
    /// Dumps of the flight recorder that lie beside no traces, by folder.
    pub(crate) dumps: Vec<FlightFolder>,
    /// Why subfolders, and files that may be traces, cannot be read.
    pub(crate) unreadable: Vec<FileError>,
    /// Recordings of Nsight Systems that cannot be read; the first run notes them.
    pub(crate) unexported: Unexported,
}

/// Whether a folder is the one that file systems make for what they find again, which only root may
/// read.
pub(crate) fn is_lost_and_found(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == "lost+found")
}

/// The runs, and what cannot be read.
pub(crate) fn search_folders(root: &Path) -> Result<FoundFiles, RunError> {
    let mut folders = vec![PathBuf::new()];
    let mut runs = vec![];
    let mut unreadable = vec![];
    let mut all_dumps = vec![];
    let mut unexported = Unexported::default();
    let mut strays = StrayMeasurements::default();
    // a list, not recursion: nobody bounds how deep folders lie
    while let Some(folder) = folders.pop() {
        let place = root.join(&folder);
        let entries = match storage::list(&place).with_path(FileAction::ReadFolder, &place) {
            Ok(entries) => entries,
            Err(_) if is_lost_and_found(&folder) => continue,
            // a subfolder may be somebody else's; the root is what was asked for
            Err(error) if !folder.as_os_str().is_empty() => {
                unreadable.push(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let (mut files, mut written) = (vec![], vec![]);
        let mut has_tables = false;
        let mut dumps = DumpNames::default();
        for entry in entries {
            let path = entry.path.clone();
            // links to folders are not followed: they can go in circles
            if entry.is_folder {
                if !is_work_folder(&path)? {
                    folders.push(folder.join(entry.name()));
                }
            } else if !entry.may_be_file() {
                // a pipe without a writer would be waited for forever
            } else if is_trace_name(&path)
                || is_measured(&path)
                || is_recorded_perfetto(&path, &mut unreadable)
            {
                files.push(path);
            } else if dumps.add(&path, &mut unreadable) {
                // which of these are dumps is settled when all names are known
            } else if path.extension().is_some_and(|ending| ending == "et") {
                written.push(file_name(&path));
            } else if is_nsys_table(&path) {
                has_tables = true;
            }
        }
        files.extend(dumps.into_files());
        files.sort();
        let (files, twins) = without_twins(files);
        let reports = files.iter().filter(|file| is_nsys_report(file));
        let reports: Vec<PathBuf> = reports.cloned().collect();
        let sorted = sort_out(&place, folder.clone(), files, true, &mut unreadable);
        let is_empty = sorted.has_no_ranks();
        if is_empty {
            strays.add(&sorted);
        }
        let (mut found, dumps) = (sorted.runs, sorted.dumps);
        // where there are other traces, their run names the reports
        if is_empty {
            unexported.add_reports(reports);
        }
        if has_tables {
            unexported.add_tables(&place);
        }
        if !dumps.is_empty() && is_empty {
            let nodes = vec![];
            all_dumps.push(FlightFolder {
                folder,
                dumps,
                nodes,
            });
        }
        if let Some(run) = found.first_mut() {
            run.notes
                .extend(twins.into_iter().chain(passed_by(written)));
        }
        for mut run in found {
            unique_labels(&mut run.ranks);
            if !run.ranks.is_empty() {
                runs.push(run);
            }
        }
    }
    // the system lists folders in any order, and outputs must not depend on that
    runs.sort_by(|a, b| a.folder.cmp(&b.folder));
    all_dumps.sort_by(|a: &FlightFolder, b| a.folder.cmp(&b.folder));
    let mut all_dumps = dumps::join_node_folders(all_dumps);
    let mut runs = join_folders(runs);
    dumps::pair_folder(&mut runs, &mut all_dumps);
    strays.give(&mut runs);
    if !runs.is_empty() {
        std::mem::take(&mut unexported).note(&mut runs);
    }
    Ok(FoundFiles {
        runs,
        dumps: all_dumps,
        unreadable,
        unexported,
    })
}

/// Sorts out traces that are given one by one. One that cannot be read is noted.
///
/// # Errors
/// None is left because one cannot be read.
pub fn sort_out_files(mut files: Vec<PathBuf>) -> Result<Vec<RunFiles>, RunError> {
    files.sort();
    let (files, twins) = without_twins(files);
    let place = files.first().and_then(|file| file.parent());
    let place = place.unwrap_or(Path::new("")).to_owned();
    // Who names files means them to be one run.
    let mut unreadable = vec![];
    let mut runs = sort_out(&place, PathBuf::new(), files, false, &mut unreadable).runs;
    if let Some(run) = runs.first_mut() {
        run.notes.extend(twins);
    }
    for run in &mut runs {
        unique_labels(&mut run.ranks);
        // in a folder anything may lie; who names a file wants to know that it is not used
        run.notes.append(&mut run.unused);
    }
    runs.retain(|run| !run.ranks.is_empty());
    match unreadable.into_iter().next() {
        Some(error) if runs.is_empty() => return Err(error.into()),
        Some(error) => note_unreadable(&mut runs, &[error]),
        None => {}
    }
    Ok(runs)
}

/// Files of which none is the same as another.
fn without_twins(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<String>) {
    let (files, mut notes) = without_packed_twins(files);
    let (files, drawn) = without_drawn_profiles(files);
    notes.extend(drawn);
    (files, notes)
}

/// XLA's profiler draws trace JSON of each profile beside it (`<host>.xplane.pb`,
/// `<host>.trace.json.gz`, `perfetto_trace.json.gz`): the profile says more.
fn without_drawn_profiles(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<String>) {
    let mut drawn = BTreeSet::new();
    for file in &files {
        let name = file_name(file);
        // an empty or cut one cannot stand for what was drawn of it
        let host = name.strip_suffix(PROFILE_ENDING);
        if is_profile(file)
            && let Some(host) = host
        {
            for ending in ["json", "json.gz"] {
                drawn.insert(file.with_file_name(format!("{host}.trace.{ending}")));
                drawn.insert(file.with_file_name(format!("perfetto_trace.{ending}")));
            }
        }
    }
    let (twins, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| drawn.contains(file));
    let note = |twin: &PathBuf| {
        let name = twin.display();
        format!("{name} is drawn of the profile beside it (.xplane.pb): it is left out")
    };
    (files, twins.iter().map(note).collect())
}

/// Whether a file begins as a profile of XLA does.
fn is_profile(path: &Path) -> bool {
    open_noting(path, &mut vec![]).is_some_and(|input| input.kind == InputKind::XlaSpace)
}

/// Written graphs beside traces.
fn passed_by(mut written: Vec<String>) -> Option<String> {
    written.sort();
    let first = written.first()?;
    Some(match written.len() {
        1 => format!("{first} is not read: recordings lie beside it"),
        more => format!(
            "{first} and {} more .et files are not read: recordings lie beside them",
            more - 1
        ),
    })
}

/// No two outputs bear one name: a label that occurs again gets a number.
fn unique_labels(ranks: &mut [RankFiles]) {
    let mut used = BTreeSet::new();
    for found in ranks {
        let label = found.label.clone();
        let mut number = 1;
        // in a loop: `x-2` may be the name of another file
        while !used.insert(found.label.clone()) {
            number += 1;
            found.label = format!("{label}-{number}");
        }
    }
}

/// How names of traces end, packed or not. What a file is, its content says.
// rocprofv3 ends the names of its databases so, whatever they are called.
const TRACE_ENDINGS: [&str; 4] = [".json", ".sqlite", "_results.db", PROFILE_ENDING];

/// How names of XLA's profiles end.
const PROFILE_ENDING: &str = ".xplane.pb";

fn is_trace_name(path: &Path) -> bool {
    // in small letters: copies from other systems end in .JSON
    let name = file_name(path).to_lowercase();
    let plain = name.strip_suffix(".gz").or(name.strip_suffix(".zst"));
    let plain = plain.unwrap_or(&name);
    TRACE_ENDINGS.iter().any(|ending| plain.ends_with(ending)) || is_nsys_report(path)
}

/// A device trace: its file, and which of the processes in it.
type DevicePlace = (PathBuf, Option<i64>);

/// Whether a file is named as what is measured beside traces: tables, workload cards, lines of JSON.
fn is_measured(path: &Path) -> bool {
    let name = file_name(path).to_lowercase();
    [".csv", ".csv.gz", ".csv.zst", ".jsonl", ".yaml", ".yml"]
        .iter()
        .any(|ending| name.ends_with(ending))
}

/// Whether a file is a recording of PyTorch in Perfetto's format. The others that end so are views of
/// recordings, which lie beside them.
fn is_recorded_perfetto(path: &Path, unreadable: &mut Vec<FileError>) -> bool {
    let name = file_name(path).to_lowercase();
    let may_be = [".pftrace", ".pftrace.gz", ".pftrace.zst"]
        .iter()
        .any(|ending| name.ends_with(ending));
    may_be
        && open_noting(path, unreadable)
            .is_some_and(|input| input.kind == InputKind::KinetoTrace && !input.is_read_back)
}

/// What is settled of the traces of a folder before they are put together.
struct FolderFacts {
    /// The manifest of the recording.
    listed: Option<RunManifest>,
    /// How many ranks the traces say the run has.
    world_size: Option<i64>,
    /// What each trace says of itself.
    inside: BTreeMap<DevicePlace, Inside>,
}

/// What is in a folder, sorted out.
struct SortedFolder {
    /// The runs: one, or one for each cycle of its recording where these are wanted. A run without
    /// ranks has notes alone.
    runs: Vec<RunFiles>,
    /// Dumps of the flight recorder.
    dumps: Vec<FlightFile>,
    /// Metrics of kernels that lie beside no traces.
    metrics: Vec<TraceCandidate>,
}

impl SortedFolder {
    fn has_no_ranks(&self) -> bool {
        self.runs.iter().all(|run| run.ranks.is_empty())
    }
}

/// Sorts out the files of a folder.
fn sort_out(
    place: &Path,
    folder: PathBuf,
    files: Vec<PathBuf>,
    wants_cycles: bool,
    unreadable: &mut Vec<FileError>,
) -> SortedFolder {
    let mut run = RunFiles::empty(folder);
    // a folder without traces must not take the manifest of the one above it for its own
    let listed = if files.is_empty() {
        Ok(None)
    } else {
        RunManifest::of(place)
    };
    let listed = listed.unwrap_or_else(|why| {
        run.notes.push(why);
        None
    });
    if listed.is_none() && !files.is_empty() {
        run.notes.extend(unlisted(place));
    }
    let mut candidates: Vec<TraceCandidate> = vec![];
    for file in files {
        candidates.extend(look_at(file, &mut run.notes, unreadable));
    }
    number_by_order(&mut candidates, &mut run.notes);
    note_reports(&candidates, &mut run.notes);
    candidates.retain(|candidate| {
        if candidate.is_view {
            run.notes.push(format!(
                "{} is a view that etlink wrote, not a recording: it is left out",
                file_name(&candidate.path)
            ));
        }
        !candidate.is_view
    });
    let dumps = dumps::take_dumps(&mut candidates);
    if let Some(listed) = &listed {
        candidates
            .iter_mut()
            .for_each(|candidate| candidate.ask_manifest(listed, &mut run.notes));
    }
    refuse_copies(&mut candidates, &mut run.notes);
    separate_processes(&mut candidates, &mut run.notes);
    // for a note alone: which traces are of one run is settled when they are joined
    let world_size = candidates
        .iter()
        .find_map(|candidate| candidate.inside.world_size);
    let inside: BTreeMap<DevicePlace, Inside> = candidates
        .iter()
        .map(|candidate| (candidate.place(), candidate.inside.clone()))
        .collect();
    let mut by_rank = RankCandidates::new();
    let mut loose: Vec<TraceCandidate> = vec![];
    let mut metrics: Vec<TraceCandidate> = vec![];
    let mut others = OtherFiles::default();
    for candidate in candidates {
        let side = match candidate.kind {
            InputKind::HostTrace => 0,
            kind if kind.is_device_trace() => 1,
            InputKind::KernelMetrics => {
                metrics.push(candidate);
                continue;
            }
            kind if kind.is_measurement() => {
                run.measurements.push(MeasurementFile {
                    path: candidate.path,
                    kind,
                });
                continue;
            }
            // Other tables and settings lie in such folders, and nobody takes them for traces.
            InputKind::Unknown if is_measured(&candidate.path) => continue,
            InputKind::Unknown => {
                others.unknown.push(file_name(&candidate.path));
                continue;
            }
            InputKind::EtPlus => {
                others.merged.push(file_name(&candidate.path));
                continue;
            }
            kind => {
                let (name, what) = (file_name(&candidate.path), kind.describe());
                run.unused.push(format!("{name} is {what}: not used"));
                continue;
            }
        };
        match candidate.rank {
            Some(rank) => by_rank.entry(rank).or_default()[side].push(candidate),
            None => loose.push(candidate),
        }
    }
    let facts = FolderFacts {
        listed,
        world_size,
        inside,
    };
    let split = split_cycles(&by_rank).filter(|split| {
        // A subfolder of that name would be another run of it.
        let cycles = split.cycles.iter();
        let mut names = cycles.map(|cycle| place.join(&cycle.name));
        wants_cycles && loose.is_empty() && !names.any(|name| storage::exists(&name))
    });
    let Some(split) = split else {
        fill_run(&mut run, by_rank, loose, facts.listed.as_ref(), &facts);
        let lacking = LackingTraces::of_run(&run);
        others.note(&mut run, lacking);
        if !run.ranks.is_empty() {
            give_metrics(&mut run, std::mem::take(&mut metrics));
        }
        dumps::pair_dumps(&mut run, &dumps);
        return SortedFolder {
            runs: vec![run],
            dumps,
            metrics,
        };
    };
    run.notes.push(split.note);
    let mut runs = vec![];
    for cycle in split.cycles {
        let mut own = if runs.is_empty() {
            run.clone()
        } else {
            RunFiles::empty(PathBuf::new())
        };
        own.folder = run.folder.join(&cycle.name);
        // The manifest knows one device trace of each rank.
        fill_run(&mut own, cycle.ranks, vec![], None, &facts);
        dumps::pair_dumps(&mut own, &dumps);
        runs.push(own);
    }
    let lacking = LackingTraces::of_cycles(&runs);
    if let Some(first) = runs.first_mut() {
        others.note(first, lacking);
        for file in metrics {
            let name = file_name(&file.path);
            first.notes.push(format!(
                "{name} has metrics of kernels, and there are several cycles: not used; give them with \
                 the trace of one of them"
            ));
        }
    }
    SortedFolder {
        runs,
        dumps,
        metrics: vec![],
    }
}

/// Names of files that are no recordings, and lie where recordings do.
#[derive(Default)]
struct OtherFiles {
    /// Of no kind that is known, as files are whose begin is damaged.
    unknown: Vec<String>,
    /// Merged JSON.
    merged: Vec<String>,
}

impl OtherFiles {
    /// Has a run say what lies beside it. `lacking`: what a damaged file may be.
    fn note(self, run: &mut RunFiles, lacking: Option<LackingTraces>) {
        Self::note_unknown(self.unknown, run, lacking);
        Self::note_merged(&self.merged, run);
    }

    fn note_unknown(unknown: Vec<String>, run: &mut RunFiles, lacking: Option<LackingTraces>) {
        let what = InputKind::Unknown.describe();
        // settings and scripts lie in such folders as well
        let is_named_so = |name: &str| name.contains("trace") || name.contains("kineto");
        let (traces, others): (Vec<String>, Vec<String>) = unknown
            .into_iter()
            .partition(|name| lacking.is_some() && is_named_so(name));
        let unused = others
            .iter()
            .map(|name| format!("{name} is {what}: not used"));
        run.unused.extend(unused);
        let (Some(first), Some(lacking)) = (traces.first(), lacking) else {
            return;
        };
        let lacking = lacking.describe(traces.len());
        run.notes.push(match traces.len() {
            1 => format!("{first} is {what}: it may be damaged, and {lacking}"),
            several => format!(
                "{several} files, such as {first}, are {what}: they may be damaged, and {lacking}"
            ),
        });
    }

    fn note_merged(merged: &[String], run: &mut RunFiles) {
        let Some(first) = merged.first() else {
            return;
        };
        if run.ranks.is_empty() {
            let what = InputKind::EtPlus.describe();
            let unused = merged
                .iter()
                .map(|name| format!("{name} is {what}: not used"));
            run.unused.extend(unused);
            return;
        }
        run.notes.push(match merged.len() {
            1 => format!(
                "{first} is merged JSON (ET+): not read, as recordings lie beside it; to read it, give \
                 it a folder of its own"
            ),
            several => format!(
                "{several} files, such as {first}, are merged JSON (ET+): not read, as recordings lie \
                 beside them; to read them, give them a folder of their own"
            ),
        });
    }
}

/// Traces that are not there, and that damaged files may be.
enum LackingTraces {
    /// The device traces of these ranks, which have a host trace alone.
    Devices(Vec<String>),
    /// A cycle has no trace of a rank of which another one has.
    OfCycles,
}

impl LackingTraces {
    /// `None` where all are there.
    fn of_run(run: &RunFiles) -> Option<LackingTraces> {
        let lacks_device = |rank: &&RankFiles| rank.host.is_some() && rank.device.is_none();
        let lacking = run.ranks.iter().filter(lacks_device);
        let lacking: Vec<String> = lacking.map(|rank| rank.label.clone()).collect();
        (!lacking.is_empty()).then_some(LackingTraces::Devices(lacking))
    }

    /// The same of the cycles of one folder.
    fn of_cycles(cycles: &[RunFiles]) -> Option<LackingTraces> {
        let ranks = |run: &RunFiles| -> BTreeSet<Option<i64>> {
            run.ranks.iter().map(|found| found.rank).collect()
        };
        let mut pairs = cycles.windows(2);
        let are_unequal = pairs.any(|pair| ranks(&pair[0]) != ranks(&pair[1]));
        // a rank of which no cycle has a device trace lacks it in the first one as well
        let of_first = cycles.first().and_then(LackingTraces::of_run);
        of_first.or(are_unequal.then_some(LackingTraces::OfCycles))
    }

    /// What so many files may be.
    fn describe(&self, files: usize) -> String {
        match (self, files) {
            (LackingTraces::OfCycles, 1) => "a trace that one of the cycles lacks".to_owned(),
            (LackingTraces::OfCycles, _) => "traces that some of the cycles lack".to_owned(),
            (LackingTraces::Devices(ranks), files) => {
                let names = text::first_ranks(ranks);
                match (ranks.len(), files) {
                    (1, 1) => format!("the device trace that rank {names} lacks"),
                    (1, _) => format!("one of them the device trace that rank {names} lacks"),
                    (_, 1) => format!("one of the device traces that ranks {names} lack"),
                    _ => format!("device traces that ranks {names} lack"),
                }
            }
        }
    }
}

/// Pairs the traces of each rank.
fn fill_run(
    run: &mut RunFiles,
    by_rank: RankCandidates,
    mut loose: Vec<TraceCandidate>,
    listed: Option<&RunManifest>,
    facts: &FolderFacts,
) {
    for (rank, [hosts, devices]) in by_rank {
        let host = pick_file(rank, "host", hosts, &mut loose, &mut run.notes);
        let has_devices = !devices.is_empty();
        let device = pick_file(rank, "device", devices, &mut loose, &mut run.notes);
        // both can be loose by now, where several files claim the rank
        if host.is_some() || device.is_some() {
            let known = device.as_ref().or(host.as_ref());
            run.ranks.push(RankFiles {
                rank: Some(rank),
                told_by: known.map_or(RankRule::Unknown, |known| known.told_by.clone()),
                label: rank.to_string(),
                host: host.map(|host| host.path),
                is_device_unsure: has_devices && device.is_none(),
                process: device.as_ref().and_then(|device| device.process),
                device: device.map(|device| device.path),
                ..RankFiles::default()
            });
        }
    }
    let conflict = settle_ranks(&mut run.ranks, &facts.inside);
    run.notes.extend(conflict);
    adopt_loose(run, loose);
    if !run.ranks.is_empty()
        && let Some(listed) = listed
    {
        run.notes
            .extend(listed.describe_ranks(&mut run.ranks, facts.world_size));
        let apart = listed.apart_note(&run.ranks);
        run.are_apart = apart.is_some();
        run.part = listed.job_part(&run.ranks);
        run.notes.extend(apart);
    }
}

/// The one file of a rank and kind; the others become files of their own name.
fn pick_file(
    rank: i64,
    kind: &str,
    mut all: Vec<TraceCandidate>,
    loose: &mut Vec<TraceCandidate>,
    notes: &mut Vec<String>,
) -> Option<TraceCandidate> {
    // `kineto_trace_0.json` beside `kineto_trace_0.run1.json`: the exact name is the rank's
    if all.len() > 1 && all.iter().filter(|candidate| !candidate.variant).count() == 1 {
        let (variants, exact): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|candidate| candidate.variant);
        loose.extend(variants);
        all = exact;
    }
    prefer_kineto(rank, &mut all, notes);
    if all.len() > 1 {
        let names: Vec<String> = all
            .iter()
            .map(|candidate| file_name(&candidate.path))
            .collect();
        notes.push(format!(
            "{} {kind} traces are of rank {rank} ({}): none is joined with the other ranks; leave \
            one of them in the folder, or say in their names which ranks they are of; two runs need a \
            folder each",
            all.len(),
            names.join(", ")
        ));
        loose.append(&mut all);
    }
    all.pop()
}

/// A rank that two recorders have recorded has the trace that says more: Kineto's knows the ops.
fn prefer_kineto(rank: i64, all: &mut Vec<TraceCandidate>, notes: &mut Vec<String>) {
    let is_kineto = |candidate: &TraceCandidate| candidate.kind == InputKind::KinetoTrace;
    let kineto = all.iter().filter(|candidate| is_kineto(candidate)).count();
    if kineto == 0 || kineto == all.len() {
        return;
    }
    let others = all.iter().filter(|candidate| !is_kineto(candidate));
    let names: Vec<String> = others.map(|other| file_name(&other.path)).collect();
    notes.push(format!(
        "rank {rank} has a Kineto trace, and one of another recorder ({}), which is left out",
        names.join(", ")
    ));
    all.retain(is_kineto);
}

/// Where names and traces say different ranks: takes those of the traces if these are of one run
/// and each of another rank, else those of the names. Gives what to say of it.
fn settle_ranks(ranks: &mut [RankFiles], inside: &BTreeMap<DevicePlace, Inside>) -> Option<String> {
    let said = |found: &RankFiles| {
        found
            .device
            .as_ref()
            .and_then(|device| inside.get(&(device.clone(), found.process)))
            .cloned()
            .unwrap_or_default()
    };
    let own: Vec<Option<i64>> = ranks
        .iter()
        .map(|found| said(found).rank.or(found.rank))
        .collect();
    let others: Vec<(&RankFiles, Option<i64>)> = ranks
        .iter()
        .zip(own.iter().copied())
        .filter(|(found, own)| found.rank != *own)
        .collect();
    let (first, first_own) = others.first()?;
    let first = first.device.as_deref().map(file_name).unwrap_or_default();
    let which = format!(
        "{} of {} traces say another rank than their names ({first} is of rank {}",
        others.len(),
        ranks.len(),
        first_own.unwrap_or(0)
    );
    let worlds: BTreeSet<i64> = ranks
        .iter()
        .filter_map(|found| said(found).world_size)
        .collect();
    // traces that state two sizes are of two runs: then none of their ranks is believed
    let world = if worlds.len() < 2 {
        worlds.first().copied().unwrap_or(i64::MAX)
    } else {
        0
    };
    let distinct: BTreeSet<i64> = own
        .iter()
        .copied()
        .flatten()
        .filter(|rank| (0..world).contains(rank))
        .collect();
    // two traces of one rank are a copy, and only the names tell the copies apart
    if distinct.len() < ranks.len() {
        return Some(format!(
            "{which}), and what they say does not fit together: the names count"
        ));
    }
    for (found, own) in ranks.iter_mut().zip(own) {
        if found.rank != own {
            found.told_by = RankRule::Content(None);
        }
        (found.rank, found.label) = (own, own.map_or(String::new(), |rank| rank.to_string()));
    }
    ranks.sort_by_key(|found| found.rank);
    Some(format!("{which}): the traces count, which fit together"))
}

/// Files that no rank has: a single host and device trace belong together, others stand alone.
fn adopt_loose(run: &mut RunFiles, loose: Vec<TraceCandidate>) {
    let (hosts, devices): (Vec<_>, Vec<_>) = loose
        .into_iter()
        .partition(|candidate| candidate.kind == InputKind::HostTrace);
    let lonely = |found: &&mut RankFiles| found.host.is_none() || found.device.is_none();
    // with one of each kind there is only one way to pair them; with more every way is a guess
    let (one_host, one_device) = (hosts.len() == 1, devices.len() == 1);
    let alone = run.ranks.is_empty();
    let paired = run.ranks.iter().filter(|found| found.device.is_some());
    let claimed: BTreeSet<i64> = paired
        .filter_map(|found| found.rank)
        .chain(devices.iter().filter_map(|device| device.rank))
        .collect();
    let waiting: Vec<&mut RankFiles> = run.ranks.iter_mut().filter(lonely).collect();
    match (
        <[&mut RankFiles; 1]>::try_from(waiting),
        one_host,
        one_device,
    ) {
        // the one rank that lacks a part gets the only file that is left
        (Ok([found]), true, false) if found.host.is_none() && devices.is_empty() => {
            found.host = Some(hosts[0].path.clone());
            found.told_by = RankRule::OnlyLeft;
        }
        (Ok([found]), false, true) if found.device.is_none() && hosts.is_empty() => {
            (found.device, found.process) = (Some(devices[0].path.clone()), devices[0].process);
            found.told_by = RankRule::OnlyLeft;
        }
        // no rank, or several, lack a part: these two are a pair of their own
        (Err(_), true, true) => run.ranks.push(RankFiles {
            rank: hosts[0].rank.or(devices[0].rank),
            told_by: RankRule::OnlyPair,
            label: if alone {
                hosts[0].rank.or(devices[0].rank).unwrap_or(0).to_string()
            } else {
                devices[0].stem.clone()
            },
            host: Some(hosts[0].path.clone()),
            device: Some(devices[0].path.clone()),
            process: devices[0].process,
            ..RankFiles::default()
        }),
        _ => {
            let by_itself = |candidate: TraceCandidate| {
                let is_host = candidate.kind == InputKind::HostTrace;
                let path = Some(candidate.path);
                let (host, device) = if is_host { (path, None) } else { (None, path) };
                RankFiles {
                    is_device_unsure: candidate.rank.is_some_and(|rank| claimed.contains(&rank)),
                    rank: candidate.rank,
                    told_by: candidate.told_by,
                    label: candidate.stem,
                    host,
                    device,
                    process: candidate.process,
                    ..RankFiles::default()
                }
            };
            run.ranks
                .extend(hosts.into_iter().chain(devices).map(by_itself));
        }
    }
}
