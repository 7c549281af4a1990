//! Assigns the files of a folder to ranks.
//!
//! Known names: `torch_et_<r>`, `pytorch_et_<r>`, `host_<r>`, `kineto_trace_<r>`, `kineto_<r>`,
//! `device_<r>`, `rank<r>_trace`, `rank-<r>`, `*.pt.trace`, with `.json`, `.gz`, `.zst`. Names
//! determine which files belong together. Facts missing in a name are read from the beginning of
//! the file (its kind, and the rank in `distributedInfo`), and then from the manifest of `etlink
//! record`. If names and traces state different ranks, the traces have precedence if they are
//! consistent (local ranks in names). Otherwise the names do (copies of one rank's trace). The
//! recording process and time of a file distinguish two ranks from two recordings of one rank
//! (`recorded`).

mod axes;
mod candidate;
mod copies;
mod dumps;
mod layouts;
mod logs;
mod measured;
mod recorded;
mod recorder;
mod recordings;
mod twins;
mod unexported;

pub use crate::run_files::{
    FlightFile, FlightFolder, ManifestEntry, RankFiles, RunFiles, unreadable_file,
};

use crate::captures::{CAPTURE_FOLDER, CaptureFiles};
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext, FileError};
use crate::input::{InputKind, is_nsys_report, is_nsys_table};
use crate::manifest::{RunManifest, unlisted};
use crate::measurements::MeasurementFile;
use crate::output::is_work_folder;
use crate::rank_rule::RankRule;
use crate::storage;
use crate::text;
use crate::text::{file_name, has_ending};
pub(crate) use candidate::rank_in_name;
use candidate::{Inside, TraceCandidate, look_at, number_by_order, open_noting};
use copies::leave_out_copies;
use dumps::DumpNames;
use etlink_model::{Diagnostic, diagnostic};
use layouts::{join_folders, rank_of_folder};
pub use logs::ignored_note;
use measured::{StrayMeasurements, give_metrics};
use recorded::{RUNS_APART_NS, separate_processes};
use recordings::{RankCandidates, split_cycles};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
pub(crate) use twins::without_packed_twins;
use unexported::{Unexported, note_reports};

/// Finds the runs in `root` and its subfolders, in order of their paths. Unreadable subfolders and
/// files become notes.
///
/// # Errors
/// Fails if `root` cannot be read, or files in it are being replaced.
pub fn discover(root: &Path) -> Result<Vec<RunFiles>, RunError> {
    let mut found = search_folders(root)?;
    note_unreadable(&mut found.runs, &found.unreadable);
    Ok(found.runs)
}

/// Returns the folder that contains a cycle's traces, for a path that is not a folder but has the
/// name of a cycle in one: `job/cycle2`, `job/DECODE`.
pub fn cycle_folder(path: &Path) -> Option<&Path> {
    let name = path.file_name()?.to_str()?;
    let parent = match path.parent()? {
        here if here.as_os_str().is_empty() => Path::new("."),
        parent => parent,
    };
    let is_cycle = !storage::exists(path)
        && storage::is_folder(parent)
        && recordings::may_name_cycle(name, parent);
    is_cycle.then_some(parent)
}

/// Returns true if a file is a device trace that states its rank.
pub fn states_rank(path: &Path) -> bool {
    Inside::of_file(path).is_some_and(|inside| inside.rank.is_some())
}

/// Returns the errors of unreadable subfolders of `root` that may contain traces, and of unreadable
/// files that may be traces.
///
/// # Errors
/// Fails like [`discover`].
pub fn unreadable_paths(root: &Path) -> Result<Vec<FileError>, RunError> {
    Ok(search_folders(root)?.unreadable)
}

/// Adds notes on unreadable subfolders and files to the first run.
pub fn note_unreadable(runs: &mut [RunFiles], unreadable: &[FileError]) {
    // unreadable files belong to no run, so the first run has the notes, once
    let Some(first) = runs.first_mut() else {
        return;
    };
    first
        .diagnostics
        .extend(unreadable.iter().map(unreadable_file));
}

/// Files found in a folder and its subfolders.
pub(crate) struct FoundFiles {
    /// Runs, by folder.
    pub(crate) runs: Vec<RunFiles>,
    /// Dumps of the flight recorder that are not next to traces, by folder.
    pub(crate) dumps: Vec<FlightFolder>,
    /// Logs of NCCL's inspector.
    pub(crate) logs: Vec<PathBuf>,
    /// Errors of unreadable subfolders, and of unreadable files that may be traces.
    pub(crate) unreadable: Vec<FileError>,
    /// Unreadable recordings of Nsight Systems; the first run has notes on them.
    pub(crate) unexported: Unexported,
}

/// Returns true if a folder is a file system's `lost+found`, which only root may read.
pub(crate) fn is_lost_and_found(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == "lost+found")
}

/// Finds the runs in `root` and its subfolders, and everything unreadable.
pub(crate) fn search_folders(root: &Path) -> Result<FoundFiles, RunError> {
    let mut folders = vec![PathBuf::new()];
    let mut runs = vec![];
    let mut unreadable = vec![];
    let (mut all_dumps, mut logs) = (vec![], vec![]);
    let mut unexported = Unexported::default();
    let mut strays = StrayMeasurements::default();
    // a list instead of recursion: the depth of folders is unlimited
    while let Some(folder) = folders.pop() {
        let place = root.join(&folder);
        let entries = match storage::list(&place).with_path(FileAction::ReadFolder, &place) {
            Ok(entries) => entries,
            Err(_) if is_lost_and_found(&folder) => continue,
            // a subfolder may belong to another user, but the root was requested
            Err(error) if !folder.as_os_str().is_empty() => {
                unreadable.push(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let (mut files, mut written, mut packed) = (vec![], vec![], vec![]);
        let mut captures = CaptureFiles::default();
        let mut has_tables = false;
        let mut dumps = DumpNames::default();
        for entry in entries {
            let path = entry.path.clone();
            if entry.name() == CAPTURE_FOLDER && storage::is_folder(&path) {
                match CaptureFiles::of_folder(&path) {
                    Ok(files) => captures = files,
                    Err(error) => unreadable.push(error),
                }
            // skips links to folders, which may form cycles
            } else if entry.is_folder {
                if !is_work_folder(&path)? {
                    folders.push(folder.join(entry.name()));
                }
            } else if entry.name().as_encoded_bytes().starts_with(b"._") {
                // what macOS keeps beside a file on other systems and in archives
            } else if !entry.may_be_file() {
                // a pipe without a writer would block forever
            } else if is_trace_name(&path) || is_measured(&path) {
                files.push(path);
            } else if dumps.add(&path, &mut unreadable) {
                // the dumps among these are determined once all names are known
            } else if path.extension().is_some_and(|ending| ending == "et") {
                written.push(file_name(&path));
            } else if is_nsys_table(&path) {
                has_tables = true;
            } else if logs::is_log(&path) {
                logs.push(path);
            } else if storage::is_archive_name(&path) {
                packed.push(file_name(&path));
            }
        }
        files.extend(dumps.into_files());
        files.sort();
        let (files, twins) = without_twins(files);
        let reports = files.iter().filter(|file| is_nsys_report(file));
        let reports: Vec<PathBuf> = reports.cloned().collect();
        let sorted = sort_out(&place, folder.clone(), files, true, &mut unreadable);
        let is_empty = sorted.has_no_ranks();
        logs.extend_from_slice(&sorted.logs);
        if is_empty {
            strays.add(&sorted);
        }
        let (mut found, dumps) = (sorted.runs, sorted.dumps);
        // next to other traces, their run has notes on the reports
        if is_empty {
            unexported.reports.extend(reports);
        }
        if has_tables {
            unexported.tables.insert(place);
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
            run.diagnostics
                .extend(twins.into_iter().chain(passed_by(written)));
            run.diagnostics.extend(packed_note(packed));
        }
        for mut run in found {
            for rank in run.ranks.iter_mut().filter(|rank| rank.device.is_some()) {
                rank.captures.clone_from(&captures);
                let stated = |path: &Path| Some(rank_in_name(&file_name(path))?.0);
                let is_of_other = |path: &Path| {
                    stated(path).is_some_and(|of| rank.rank.is_some_and(|rank| rank != of))
                };
                rank.captures.paths.retain(|path| !is_of_other(path));
            }
            unique_labels(&mut run.ranks);
            if !run.ranks.is_empty() {
                runs.push(run);
            }
        }
    }
    // the order of a listing is arbitrary, and outputs must not depend on it
    runs.sort_by(|a, b| a.folder.cmp(&b.folder));
    all_dumps.sort_by(|a: &FlightFolder, b| a.folder.cmp(&b.folder));
    let mut all_dumps = dumps::join_node_folders(all_dumps);
    let mut runs = join_folders(root, runs);
    dumps::pair_folder(&mut runs, &mut all_dumps);
    let logs = logs::pair_logs(&mut runs, logs);
    strays.give(&mut runs);
    if !runs.is_empty() {
        std::mem::take(&mut unexported).note(&mut runs);
    }
    Ok(FoundFiles {
        runs,
        dumps: all_dumps,
        logs,
        unreadable,
        unexported,
    })
}

/// Assigns explicitly given traces to ranks. An unreadable one becomes a note.
///
/// # Errors
/// Fails if no trace is left because one cannot be read.
pub fn sort_out_files(mut files: Vec<PathBuf>) -> Result<Vec<RunFiles>, RunError> {
    files.sort();
    let (files, twins) = without_twins(files);
    let place = files.first().and_then(|file| file.parent());
    let place = place.unwrap_or(Path::new("")).to_owned();
    // Explicitly named files are meant to be one run.
    let mut unreadable = vec![];
    let mut runs = sort_out(&place, PathBuf::new(), files, false, &mut unreadable).runs;
    if let Some(run) = runs.first_mut() {
        run.diagnostics.extend(twins);
    }
    for run in &mut runs {
        unique_labels(&mut run.ranks);
        // folders contain all kinds of files, but an explicitly named file must not be ignored
        // silently
        run.diagnostics.append(&mut run.unused);
    }
    runs.retain(|run| !run.ranks.is_empty());
    match unreadable.into_iter().next() {
        Some(error) if runs.is_empty() => return Err(error.into()),
        Some(error) => note_unreadable(&mut runs, &[error]),
        None => {}
    }
    Ok(runs)
}

/// Drops duplicate files: compressed copies, and traces generated from a profile.
fn without_twins(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<Diagnostic>) {
    let (files, mut notes) = without_packed_twins(files);
    let (files, drawn) = without_drawn_profiles(files);
    notes.extend(drawn);
    (files, notes)
}

/// Drops trace JSON that XLA's profiler generates next to each profile (`<host>.xplane.pb`,
/// `<host>.trace.json.gz`, `perfetto_trace.json.gz`): the profile contains more.
fn without_drawn_profiles(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<Diagnostic>) {
    let mut drawn = BTreeSet::new();
    for file in &files {
        let name = file_name(file);
        // an empty or truncated profile does not replace the generated trace
        if let Some(host) = name.strip_suffix(PROFILE_ENDING)
            && is_profile(file)
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
        diagnostic!(
            FileLeftOut,
            "ignoring {name}: generated from the .xplane.pb next to it"
        )
    };
    (files, twins.iter().map(note).collect())
}

/// Returns true if a file begins like an XLA profile.
fn is_profile(path: &Path) -> bool {
    open_noting(path, &mut vec![]).is_some_and(|input| input.kind == InputKind::XlaSpace)
}

/// Returns a note on archives that are ignored next to traces.
fn packed_note(mut packed: Vec<String>) -> Option<Diagnostic> {
    packed.sort();
    let first = packed.first()?;
    let others = match packed.len() {
        1 => String::new(),
        more => format!(" and {} more archives", more - 1),
    };
    let ignored = diagnostic!(
        FileIgnored,
        "ignoring {first}{others}: archives in a folder are not opened"
    );
    Some(ignored.advise("give the archive itself, or unpack it"))
}

/// Returns a note on written graphs that are ignored next to traces.
fn passed_by(mut written: Vec<String>) -> Option<Diagnostic> {
    written.sort();
    let first = written.first()?;
    Some(match written.len() {
        1 => diagnostic!(
            FileIgnored,
            "ignoring {first}: the folder also contains recordings"
        ),
        more => diagnostic!(
            FileIgnored,
            "ignoring {first} and {} more .et files: the folder also contains recordings",
            more - 1
        ),
    })
}

/// Makes labels unique by appending numbers, so that no two outputs have the same name.
fn unique_labels(ranks: &mut [RankFiles]) {
    let mut used = BTreeSet::new();
    for found in ranks {
        let label = found.label.clone();
        let mut number = 1;
        // in a loop, because `x-2` may be the name of another file
        while !used.insert(found.label.clone()) {
            number += 1;
            found.label = format!("{label}-{number}");
        }
    }
}

/// Endings of traces' names, before the ending of a compression. The content determines the kind of
/// a file.
// rocprofv3 always gives its databases this ending, regardless of the chosen name.
const TRACE_ENDINGS: [&str; 4] = [".json", ".sqlite", "_results.db", PROFILE_ENDING];

/// Ending of XLA profiles' names.
const PROFILE_ENDING: &str = ".xplane.pb";

fn is_trace_name(path: &Path) -> bool {
    has_ending(path, &TRACE_ENDINGS) || is_nsys_report(path)
}

/// Place of a device trace: its file, and the process in it.
type DevicePlace = (PathBuf, Option<i64>);

/// Returns true if a file is named like a measurement: a table, workload card or lines of JSON.
fn is_measured(path: &Path) -> bool {
    let name = file_name(path).to_lowercase();
    let mut unpacked = [".jsonl", ".yaml", ".yml"].iter();
    has_ending(path, &[".csv"]) || unpacked.any(|ending| name.ends_with(ending))
}

/// Facts about the traces of a folder that are known before pairing.
struct FolderFacts {
    /// Manifest of the recording.
    listed: Option<RunManifest>,
    /// Number of ranks in the run, as stated by the traces.
    world_size: Option<i64>,
    /// Facts from the beginning of each trace.
    inside: BTreeMap<DevicePlace, Inside>,
}

/// The files of a folder, assigned to runs.
struct SortedFolder {
    /// Runs of the folder: one, or one per cycle of its recording if cycles are requested. A run
    /// without ranks only has notes.
    runs: Vec<RunFiles>,
    /// Dumps of the flight recorder.
    dumps: Vec<FlightFile>,
    /// Metrics of kernels that are not next to traces.
    metrics: Vec<TraceCandidate>,
    /// Logs of NCCL's inspector with the names of traces or measurements.
    logs: Vec<PathBuf>,
}

impl SortedFolder {
    fn has_no_ranks(&self) -> bool {
        self.runs.iter().all(|run| run.ranks.is_empty())
    }
}

/// Assigns the files of a folder to runs and ranks.
fn sort_out(
    place: &Path,
    folder: PathBuf,
    files: Vec<PathBuf>,
    wants_cycles: bool,
    unreadable: &mut Vec<FileError>,
) -> SortedFolder {
    let mut run = RunFiles::empty(folder);
    // a folder without traces must not use the manifest of its parent
    let listed = if files.is_empty() {
        Ok(None)
    } else {
        RunManifest::of(place)
    };
    let listed = listed.unwrap_or_else(|why| {
        run.diagnostics
            .push(diagnostic!(ManifestUnreadable, "{why}"));
        None
    });
    if listed.is_none() && !files.is_empty() {
        run.diagnostics.extend(unlisted(place));
    }
    let mut candidates: Vec<TraceCandidate> = vec![];
    for file in files {
        candidates.extend(look_at(file, &mut run.diagnostics, unreadable));
    }
    number_by_order(&mut candidates, &mut run.diagnostics);
    note_reports(&candidates, &mut run.diagnostics);
    candidates.retain(|candidate| {
        // next to its source traces, it would be a second trace of the rank
        let is_view = candidate.kind == InputKind::Timeline;
        if is_view {
            run.diagnostics.push(diagnostic!(
                FileLeftOut,
                "{} is left out: it is a view that etlink wrote, not a recording",
                file_name(&candidate.path)
            ));
        }
        !is_view
    });
    let dumps = dumps::take_dumps(&mut candidates);
    if let Some(listed) = &listed {
        candidates
            .iter_mut()
            .for_each(|candidate| candidate.ask_manifest(listed, &mut run.diagnostics));
    }
    leave_out_copies(&mut candidates, &mut run.diagnostics);
    let may_be_cycles = separate_processes(&mut candidates, &mut run.diagnostics);
    if wants_cycles {
        give_folder_rank(place, &mut candidates);
    }
    // only for a note: the join determines which traces are of one run
    let world_size = candidates
        .iter()
        .find_map(|candidate| candidate.inside.world_size);
    let inside: BTreeMap<DevicePlace, Inside> = candidates
        .iter()
        .map(|candidate| (candidate.place(), candidate.inside.clone()))
        .collect();
    let mut by_rank = RankCandidates::new();
    let mut loose: Vec<TraceCandidate> = vec![];
    let (mut metrics, mut logs) = (vec![], vec![]);
    let mut unknown = vec![];
    for candidate in candidates {
        let side = match candidate.kind {
            InputKind::HostTrace => 0,
            kind if kind.is_device_trace() => 1,
            InputKind::KernelMetrics => {
                metrics.push(candidate);
                continue;
            }
            InputKind::NcclInspector => {
                logs.push(candidate.path);
                continue;
            }
            kind if kind.is_measurement() => {
                run.measurements.push(MeasurementFile {
                    path: candidate.path,
                    kind,
                });
                continue;
            }
            // Such folders also contain other tables and settings, which are no traces.
            InputKind::Unknown if is_measured(&candidate.path) => continue,
            InputKind::Unknown => {
                unknown.push(file_name(&candidate.path));
                continue;
            }
            kind => {
                let (name, what) = (file_name(&candidate.path), kind.describe());
                run.unused
                    .push(diagnostic!(FileIgnored, "{name} is {what}: not used"));
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
        // A subfolder of that name would be another run with the same name.
        let cycles = split.cycles.iter();
        let mut names = cycles.map(|cycle| place.join(&cycle.name));
        wants_cycles
            && may_be_cycles
            && loose.is_empty()
            && !names.any(|name| storage::exists(&name))
    });
    let Some(split) = split else {
        fill_run(&mut run, by_rank, loose, facts.listed.as_ref(), &facts);
        let lacking = lacking_devices(&run);
        note_unknown(unknown, &mut run, lacking);
        if !run.ranks.is_empty() {
            give_metrics(&mut run, std::mem::take(&mut metrics));
        }
        dumps::pair_dumps(&mut run, &dumps);
        return SortedFolder {
            runs: vec![run],
            dumps,
            metrics,
            logs,
        };
    };
    run.diagnostics.push(split.note);
    let mut runs = vec![];
    for cycle in split.cycles {
        let mut own = if runs.is_empty() {
            run.clone()
        } else {
            RunFiles::empty(PathBuf::new())
        };
        own.folder = run.folder.join(&cycle.name);
        // The manifest lists one device trace per rank.
        fill_run(&mut own, cycle.ranks, vec![], None, &facts);
        dumps::pair_dumps(&mut own, &dumps);
        runs.push(own);
    }
    let lacking = lacking_in_cycles(&runs);
    if let Some(first) = runs.first_mut() {
        note_unknown(unknown, first, lacking);
        for file in metrics {
            let name = file_name(&file.path);
            let unused = diagnostic!(
                MeasurementNotUsed,
                "{name} has kernel metrics, but the folder has several cycles: not used"
            );
            let remedy = "give the file with the trace of one cycle";
            first.diagnostics.push(unused.advise(remedy));
        }
    }
    SortedFolder {
        runs,
        dumps,
        metrics: vec![],
        logs,
    }
}

/// Gives several device traces whose names and contents state no rank the rank in the name of their
/// folder: these are recordings of one rank. A single trace keeps none, as `rank-8` may name the
/// size of an adapter, until other folders are known.
fn give_folder_rank(place: &Path, candidates: &mut [TraceCandidate]) {
    let Some(rank) = rank_of_folder(place) else {
        return;
    };
    let is_device = |candidate: &&mut TraceCandidate| candidate.kind.is_device_trace();
    let mut devices: Vec<_> = candidates.iter_mut().filter(is_device).collect();
    if devices.len() > 1 && devices.iter().all(|device| device.rank.is_none()) {
        for device in &mut devices {
            device.rank = Some(rank);
            device.told_by = RankRule::FOLDER;
        }
    }
}

/// Adds notes on files of unknown kind, such as those with a damaged beginning, to a run.
/// `lacking`: missing traces that a damaged file may be.
fn note_unknown(unknown: Vec<String>, run: &mut RunFiles, lacking: Option<String>) {
    let what = InputKind::Unknown.describe();
    // such folders also contain settings and scripts
    let is_named_so = |name: &str| name.contains("trace") || name.contains("kineto");
    let (traces, others): (Vec<String>, Vec<String>) = unknown
        .into_iter()
        .partition(|name| lacking.is_some() && is_named_so(name));
    let unused = others
        .iter()
        .map(|name| diagnostic!(FileIgnored, "{name} is {what}: not used"));
    run.unused.extend(unused);
    let (Some(first), Some(lacking)) = (traces.first(), lacking) else {
        return;
    };
    run.diagnostics.push(match traces.len() {
        1 => diagnostic!(
            FileUnknown,
            "{first} is {what}: it may be damaged, and {lacking}"
        ),
        several => diagnostic!(
            FileUnknown,
            "{several} files, such as {first}, are {what}: one may be damaged, and {lacking}"
        ),
    });
}

/// Describes the missing traces of a run, which damaged files may be; `None` if it has all.
fn lacking_devices(run: &RunFiles) -> Option<String> {
    let lacks_device = |rank: &&RankFiles| rank.host.is_some() && rank.device.is_none();
    let lacking = run.ranks.iter().filter(lacks_device);
    let lacking: Vec<&String> = lacking.map(|rank| &rank.label).collect();
    let names = text::first_ranks(&lacking);
    match lacking.len() {
        0 => None,
        1 => Some(format!("the device trace that rank {names} lacks")),
        _ => Some(format!("a device trace that one of ranks {names} lacks")),
    }
}

/// Describes the missing traces of the cycles in one folder; `None` if they have all.
fn lacking_in_cycles(cycles: &[RunFiles]) -> Option<String> {
    let ranks = |run: &RunFiles| -> BTreeSet<Option<i64>> {
        run.ranks.iter().map(|found| found.rank).collect()
    };
    let mut pairs = cycles.windows(2);
    let are_unequal = pairs.any(|pair| ranks(&pair[0]) != ranks(&pair[1]));
    // a rank without any device trace lacks it in the first cycle as well
    let of_first = cycles.first().and_then(lacking_devices);
    of_first.or(are_unequal.then(|| "a trace that one of the cycles lacks".to_owned()))
}

/// Pairs the traces of each rank.
fn fill_run(
    run: &mut RunFiles,
    by_rank: RankCandidates,
    mut loose: Vec<TraceCandidate>,
    listed: Option<&RunManifest>,
    facts: &FolderFacts,
) {
    let usual_ns = usual_start(&by_rank);
    for (rank, [hosts, mut devices]) in by_rank {
        let host = pick_file(rank, "host", hosts, &mut loose, &mut run.diagnostics);
        let has_devices = !devices.is_empty();
        leave_out_earlier(rank, &mut devices, usual_ns, &mut run.diagnostics);
        let device = pick_file(rank, "device", devices, &mut loose, &mut run.diagnostics);
        // both may be loose, if several files claim the rank
        if host.is_some() || device.is_some() {
            let known = device.as_ref().or(host.as_ref());
            run.ranks.push(RankFiles {
                rank: Some(rank),
                told_by: known.map_or(RankRule::UNKNOWN, |known| known.told_by.clone()),
                label: rank.to_string(),
                host: host.map(|host| host.path),
                is_device_unsure: has_devices && device.is_none(),
                process: device.as_ref().and_then(|device| device.process),
                device: device.map(|device| device.path),
                ..RankFiles::default()
            });
        }
    }
    let swapped = pair_by_process(&mut run.ranks, &facts.inside);
    run.diagnostics.extend(swapped);
    let conflict = settle_ranks(&mut run.ranks, &facts.inside);
    run.diagnostics.extend(conflict);
    adopt_loose(run, loose);
    if !run.ranks.is_empty()
        && let Some(listed) = listed
    {
        run.diagnostics
            .extend(listed.describe_ranks(&mut run.ranks, facts.world_size));
        let apart = listed.apart_note(&run.ranks);
        run.part = listed.job_part(&run.ranks);
        run.diagnostics.extend(apart);
    }
}

/// Returns the median start of the device traces that alone claim their rank, Unix time, ns.
fn usual_start(by_rank: &RankCandidates) -> Option<i64> {
    let devices = by_rank.values().map(|[_, devices]| &devices[..]);
    let starts = devices.filter_map(|devices| match devices {
        [only] => only.inside.recorder.start_ns,
        _ => None,
    });
    let mut starts: Vec<i64> = starts.collect();
    starts.sort_unstable();
    starts.get(starts.len() / 2).copied()
}

/// Leaves out traces of another time than the other ranks', if only one of several that claim a rank is
/// left then.
fn leave_out_earlier(
    rank: i64,
    devices: &mut Vec<TraceCandidate>,
    usual_ns: Option<i64>,
    notes: &mut Vec<Diagnostic>,
) {
    let is_far = |one: &TraceCandidate| {
        let start_ns = one.inside.recorder.start_ns;
        let apart = start_ns
            .zip(usual_ns)
            .map(|(own, usual)| own.abs_diff(usual));
        apart.is_some_and(|apart| apart > RUNS_APART_NS.unsigned_abs())
    };
    let far = devices.iter().filter(|one| is_far(one)).count();
    if devices.len() < 2 || far + 1 != devices.len() {
        return;
    }
    for one in devices.extract_if(.., |one| is_far(one)) {
        notes.push(diagnostic!(
            FileLeftOut,
            "{} is left out: it claims rank {rank}, but was recorded at another time than the other ranks",
            file_name(&one.path)
        ));
    }
}

/// Picks the only file of a rank and kind; the others become files with their own names. Kineto's
/// traces have precedence, because they include the ops, and then the exact name
/// `kineto_trace_0.json` over `kineto_trace_0.run1.json`.
fn pick_file(
    rank: i64,
    kind: &str,
    mut all: Vec<TraceCandidate>,
    loose: &mut Vec<TraceCandidate>,
    notes: &mut Vec<Diagnostic>,
) -> Option<TraceCandidate> {
    let names = |all: &[TraceCandidate]| -> String {
        let names: Vec<String> = all.iter().map(|one| file_name(&one.path)).collect();
        names.join(", ")
    };
    let is_kineto = |one: &TraceCandidate| one.kind == InputKind::KinetoTrace;
    if all.iter().any(is_kineto) && !all.iter().all(is_kineto) {
        let others: Vec<_> = all.extract_if(.., |one| !is_kineto(one)).collect();
        notes.push(diagnostic!(
            FileIgnored,
            "rank {rank} has a Kineto trace, so traces of other recorders ({}) are left out",
            names(&others)
        ));
    }
    if all.iter().filter(|one| !one.variant).count() == 1 {
        loose.extend(all.extract_if(.., |one| one.variant));
    }
    if all.len() > 1 {
        let claimed = diagnostic!(
            RankUnclear,
            "{} {kind} traces claim rank {rank} ({}): none is joined with the other ranks",
            all.len(),
            names(&all)
        );
        let remedy = "keep one of them, put their ranks in their names, or put each run in its own \
                      folder";
        notes.push(claimed.advise(remedy));
        loose.append(&mut all);
    }
    all.pop()
}

/// Moves device traces that were paired with another process' host trace to the host trace of their
/// own process. Returns a note.
fn pair_by_process(
    ranks: &mut [RankFiles],
    inside: &BTreeMap<DevicePlace, Inside>,
) -> Option<Diagnostic> {
    let process_of = |path: &Option<PathBuf>| {
        let place = (path.clone()?, None);
        inside.get(&place)?.recorder.process
    };
    let mut with_device: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    let mut with_host: BTreeMap<i64, usize> = BTreeMap::new();
    for (at, found) in ranks.iter().enumerate() {
        let (host, device) = (process_of(&found.host), process_of(&found.device));
        if let Some((host, device)) = host.zip(device) {
            with_device.entry(device).or_default().push(at);
            *with_host.entry(host).or_default() += 1;
        }
    }
    let mut moves: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, found) in ranks.iter().enumerate() {
        let Some(host) = process_of(&found.host) else {
            continue;
        };
        if let Some([from]) = with_device.get(&host).map(Vec::as_slice)
            && *from != at
            && with_host.get(&host) == Some(&1)
        {
            moves.insert(at, *from);
        }
    }
    let taken: BTreeSet<usize> = moves.values().copied().collect();
    let (to, from) = moves.first_key_value()?;
    if !taken.iter().eq(moves.keys()) {
        return None;
    }
    let name = |path: &Option<PathBuf>| path.as_deref().map(file_name).unwrap_or_default();
    let note = diagnostic!(
        RanksInferred,
        "{} device traces belong to other host traces than their names state ({} is from the process \
         of {}): each is paired with the host trace of its process",
        moves.len(),
        name(&ranks[*from].device),
        name(&ranks[*to].host)
    );
    let devices: Vec<Option<PathBuf>> = ranks.iter().map(|found| found.device.clone()).collect();
    for (to, from) in moves {
        ranks[to].device.clone_from(&devices[from]);
    }
    Some(note)
}

/// Resolves contradictions between the ranks in names and traces. Takes the ranks of the traces if
/// these are of one run and distinct, and otherwise the ranks of the names. Returns a note.
fn settle_ranks(
    ranks: &mut [RankFiles],
    inside: &BTreeMap<DevicePlace, Inside>,
) -> Option<Diagnostic> {
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
        "traces that report a different rank than their file names: {} of {} ({first} is from rank {}",
        others.len(),
        ranks.len(),
        first_own.unwrap_or(0)
    );
    let worlds: BTreeSet<i64> = ranks
        .iter()
        .filter_map(|found| said(found).world_size)
        .collect();
    // traces that state two sizes are of two runs, so none of their ranks is used
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
    // two traces of one rank are copies, which only their names distinguish
    if distinct.len() < ranks.len() {
        return Some(diagnostic!(
            RankUnclear,
            "{which}), but the reported ranks are inconsistent: the names are used"
        ));
    }
    for (found, own) in ranks.iter_mut().zip(own) {
        if found.rank != own {
            found.told_by = RankRule::CONTENT;
        }
        (found.rank, found.label) = (own, own.map_or(String::new(), |rank| rank.to_string()));
    }
    ranks.sort_by_key(|found| found.rank);
    Some(diagnostic!(
        RanksInferred,
        "{which}): the reported ranks are consistent and are used"
    ))
}

/// Assigns files without a rank: pairs a single host and device trace, and leaves others alone.
fn adopt_loose(run: &mut RunFiles, loose: Vec<TraceCandidate>) {
    let (hosts, devices): (Vec<_>, Vec<_>) = loose
        .into_iter()
        .partition(|candidate| candidate.kind == InputKind::HostTrace);
    let lonely = |found: &&mut RankFiles| found.host.is_none() || found.device.is_none();
    // with one file of each kind, the pair is certain; with more, it would be a guess
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
        // the only rank that lacks a part gets the only remaining file
        (Ok([found]), true, false) if found.host.is_none() && devices.is_empty() => {
            found.host = Some(hosts[0].path.clone());
            found.told_by = RankRule::ONLY_LEFT;
        }
        (Ok([found]), false, true) if found.device.is_none() && hosts.is_empty() => {
            (found.device, found.process) = (Some(devices[0].path.clone()), devices[0].process);
            found.told_by = RankRule::ONLY_LEFT;
        }
        // no rank, or several, lack a part: these two files are a separate pair
        (Err(_), true, true) => run.ranks.push(RankFiles {
            rank: hosts[0].rank.or(devices[0].rank),
            told_by: RankRule::ONLY_PAIR,
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
