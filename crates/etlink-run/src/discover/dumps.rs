//! Flight recorder dumps: finds them among the files, and assigns them to ranks.

use super::candidate::{TraceCandidate, open_noting};
use crate::FileError;
use crate::flight::read_dump;
use crate::input::InputKind;
use crate::progress::Progress;
use crate::run_files::{FlightFile, FlightFolder, RunFiles};
use crate::text::{file_name, plain_name};
use etlink_model::diagnostic;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Default prefixes of dumps' names: from PyTorch without `TORCH_FR_DUMP_TEMP_FILE`, and from
/// `etlink record`.
const USUAL_PREFIXES: [&str; 3] = [
    "nccl_trace_rank_",
    "comm_lib_trace_rank_",
    "flight_recorder_",
];

/// Dumps of a folder without the ending of JSON: `nccl_trace_rank_0`, any other name without an
/// ending (`TORCH_FR_DUMP_TEMP_FILE` sets the part before the rank), or `.pkl`.
#[derive(Default)]
pub(super) struct DumpNames {
    /// Files that begin like dumps.
    dumps: Vec<PathBuf>,
    /// Files that may be dumps according to their names only.
    others: Vec<PathBuf>,
}

impl DumpNames {
    /// Examines a file; returns false if its name belongs to another kind.
    pub(super) fn add(&mut self, path: &Path, unreadable: &mut Vec<FileError>) -> bool {
        let name = file_name(path).to_lowercase();
        let plain = plain_name(&name);
        let may_be = !plain.contains('.') || plain.ends_with(".pkl") || plain.ends_with(".pickle");
        if !may_be {
            return false;
        }
        // a folder may contain any files without an ending: only the content distinguishes dumps
        match open_noting(path, unreadable).map(|input| input.kind) {
            Some(InputKind::FlightRecorder) => self.dumps.push(path.to_owned()),
            // the content of an empty or unreadable file is unknown
            Some(InputKind::Unknown) | None => self.others.push(path.to_owned()),
            Some(_) => {}
        }
        true
    }

    /// Returns the dumps, and the files with the same names except for the rank, so that an empty
    /// or truncated dump is reported.
    pub(super) fn into_files(self) -> Vec<PathBuf> {
        let stem = |path: &Path| plain_stem(&file_name(path)).to_owned();
        let stems: Vec<String> = self.dumps.iter().map(|path| stem(path)).collect();
        let prefixes = known_prefixes(stems.iter().map(String::as_str));
        let namesakes = self.others.into_iter();
        let namesakes = namesakes.filter(|path| is_named_like(&stem(path), &prefixes));
        let mut files = self.dumps;
        files.extend(namesakes);
        files
    }
}

/// Returns the prefixes of dumps' names, before the rank.
fn known_prefixes<'t>(stems: impl Iterator<Item = &'t str>) -> BTreeSet<String> {
    let own = stems.map(|stem| split_number(stem).0.to_owned());
    let own = own.filter(|prefix| !prefix.is_empty());
    own.chain(USUAL_PREFIXES.map(str::to_owned)).collect()
}

/// Returns true if a name consists of one of these prefixes and a rank.
fn is_named_like(stem: &str, prefixes: &BTreeSet<String>) -> bool {
    let (prefix, number) = split_number(stem);
    !number.is_empty() && prefixes.contains(prefix)
}

/// Takes the dumps out of the candidates of a folder, sorted by rank, then by name.
pub(super) fn take_dumps(candidates: &mut Vec<TraceCandidate>) -> Vec<FlightFile> {
    let is_whole = |candidate: &&TraceCandidate| candidate.kind == InputKind::FlightRecorder;
    let whole = candidates.iter().filter(is_whole);
    let prefixes = known_prefixes(whole.map(|dump| plain_stem(&dump.stem)));
    let (dumps, others): (Vec<_>, Vec<_>) =
        std::mem::take(candidates)
            .into_iter()
            .partition(|candidate| {
                let is_cut = candidate.kind == InputKind::Unknown
                    && is_named_like(plain_stem(&candidate.stem), &prefixes);
                is_cut || is_whole(&candidate)
            });
    *candidates = others;
    let files = dumps.into_iter().map(|candidate| FlightFile {
        // names consist of the user's prefix and the rank
        rank: candidate.rank.or_else(|| last_number(&candidate.stem)),
        path: candidate.path,
    });
    let mut files: Vec<FlightFile> = files.collect();
    files.sort();
    files
}

/// Returns the number at the end of a name: 3 in `nccl_trace_rank_3` and
/// `flight_recorder_3.pickle`.
fn last_number(stem: &str) -> Option<i64> {
    split_number(plain_stem(stem)).1.parse().ok()
}

/// Returns a name without the endings of compressions and pickles.
fn plain_stem(name: &str) -> &str {
    let name = plain_name(name);
    let pickle = name.strip_suffix(".pickle").or(name.strip_suffix(".pkl"));
    pickle.unwrap_or(name)
}

/// Splits a name before the digits at its end.
fn split_number(stem: &str) -> (&str, &str) {
    stem.split_at(stem.trim_end_matches(|c: char| c.is_ascii_digit()).len())
}

/// Assigns dumps to the ranks of a run, by the ranks in their names.
pub(super) fn pair_dumps(run: &mut RunFiles, dumps: &[FlightFile]) {
    let mut by_rank: BTreeMap<i64, Vec<&FlightFile>> = BTreeMap::new();
    for dump in dumps {
        match dump.rank {
            Some(rank) => by_rank.entry(rank).or_default().push(dump),
            None => {
                let unnamed = diagnostic!(
                    DumpNotUsed,
                    "{} is a flight recorder dump without a rank in its name: not used",
                    file_name(&dump.path)
                );
                let remedy = "rename it, for example to nccl_trace_rank_0";
                run.diagnostics.push(unnamed.advise(remedy));
            }
        }
    }
    for (rank, own) in by_rank {
        let mut of_rank = run.ranks.iter_mut();
        let Some(files) = of_rank.find(|files| files.rank == Some(rank)) else {
            continue;
        };
        // a recorder may be dumped as pickle and as JSON, with the same content
        let used = own.iter().find(|dump| can_be_read(dump, own.len()));
        // if none is readable, linking the rank reports the error of the first
        let Some(used) = used.or(own.first()) else {
            continue;
        };
        files.flight = Some(used.path.clone());
        for (place, other) in own.iter().enumerate() {
            let (name, first) = (file_name(&other.path), file_name(&used.path));
            if other.path == used.path {
                continue;
            }
            if own.iter().position(|dump| dump.path == used.path) > Some(place) {
                run.diagnostics.push(diagnostic!(
                    DumpNotUsed,
                    "{name} is an unreadable dump of rank {rank}: not used"
                ));
                continue;
            }
            let note = diagnostic!(
                DumpNotUsed,
                "{name} is a second dump of rank {rank}: {first} is used"
            );
            run.unused.push(note);
        }
    }
}

/// Returns true if a dump can be read, or is the only one of its rank, which is read with the rank.
fn can_be_read(dump: &FlightFile, count: usize) -> bool {
    count == 1 || read_dump(&dump.path, &Progress::hidden()).is_ok()
}

/// Combines the folders of a job's nodes, each with the dumps of its own ranks. Such folders share
/// no rank, and their groups contain each other's ranks.
pub(super) fn join_node_folders(folders: Vec<FlightFolder>) -> Vec<FlightFolder> {
    let mut jobs: Vec<Vec<DumpNode>> = vec![];
    let is_one = folders.len() < 2;
    for folder in folders {
        let node = match is_one {
            // the only folder: its dumps need not be read
            true => DumpNode::unread(folder),
            false => DumpNode::read(folder),
        };
        let job = jobs
            .iter_mut()
            .find(|job| job.iter().all(|other| other.is_of_job_with(&node)));
        match job {
            Some(job) => job.push(node),
            None => jobs.push(vec![node]),
        }
    }
    let mut joined = vec![];
    for job in jobs {
        let mut nodes: Vec<FlightFolder> = job.into_iter().map(|node| node.folder).collect();
        match nodes.len() {
            1 => joined.append(&mut nodes),
            _ => joined.push(one_folder(nodes)),
        }
    }
    joined.sort_by(|a, b| a.folder.cmp(&b.folder));
    joined
}

/// Dumps of a folder, and the ranks that they state.
struct DumpNode {
    folder: FlightFolder,
    /// Ranks in the names of the dumps.
    ranks: BTreeSet<i64>,
    /// Members of the groups that a dump lists; empty if none can be read.
    members: BTreeSet<i64>,
}

impl DumpNode {
    fn unread(folder: FlightFolder) -> DumpNode {
        let ranks = folder.dumps.iter().filter_map(|dump| dump.rank).collect();
        DumpNode {
            folder,
            ranks,
            members: BTreeSet::new(),
        }
    }

    fn read(folder: FlightFolder) -> DumpNode {
        let mut node = DumpNode::unread(folder);
        for dump in &node.folder.dumps {
            let Ok(read) = read_dump(&dump.path, &Progress::hidden()) else {
                continue;
            };
            let members = read.groups.iter().flat_map(|group| &group.ranks);
            node.members = members
                .filter_map(|rank| i64::try_from(*rank).ok())
                .collect();
            if !node.members.is_empty() {
                break;
            }
        }
        node
    }

    /// Returns true if the groups of each node contain the ranks of the other. A node without
    /// groups may belong to a job whose groups contain its ranks.
    fn is_of_job_with(&self, other: &DumpNode) -> bool {
        let knows = |one: &DumpNode, other: &DumpNode| {
            one.members.is_empty() || one.members.is_superset(&other.ranks)
        };
        let is_known = !self.members.is_empty() || !other.members.is_empty();
        let has_ranks = !self.ranks.is_empty() && !other.ranks.is_empty();
        has_ranks
            && is_known
            && self.ranks.is_disjoint(&other.ranks)
            && knows(self, other)
            && knows(other, self)
    }
}

/// Returns the innermost folder that contains all of these folders.
fn common_folder(folders: &[FlightFolder]) -> PathBuf {
    let mut common = match folders.first() {
        Some(first) => first.folder.clone(),
        None => PathBuf::new(),
    };
    while !folders.iter().all(|node| node.folder.starts_with(&common)) {
        if !common.pop() {
            break;
        }
    }
    common
}

fn one_folder(mut nodes: Vec<FlightFolder>) -> FlightFolder {
    // by rank, so that node10 follows node9
    nodes.sort_by_key(|node| node.dumps.iter().filter_map(|dump| dump.rank).min());
    let mut joined = FlightFolder {
        folder: common_folder(&nodes),
        ..FlightFolder::default()
    };
    for node in nodes {
        joined.nodes.push(node.folder);
        joined.dumps.extend(node.dumps);
    }
    joined.dumps.sort();
    joined
}

/// Assigns dumps in a separate folder to the only run.
pub(super) fn pair_folder(runs: &mut [RunFiles], dumps: &mut Vec<FlightFolder>) {
    match (&mut *runs, &mut dumps[..]) {
        ([run], [folder]) => {
            let place = match (folder.folder.as_os_str().is_empty(), &folder.nodes[..]) {
                (_, [_, ..]) => format!("in {}", folder.node_names()),
                (true, []) => "next to the run's folder".to_owned(),
                (false, []) => format!("in {}", folder.folder.display()),
            };
            run.diagnostics.push(diagnostic!(
                DumpsUsed,
                "the flight recorder dumps {place} are used for this run"
            ));
            pair_dumps(run, &folder.dumps);
            dumps.clear();
        }
        ([], _) => {}
        ([first, ..], folders) => {
            for folder in folders {
                let apart = diagnostic!(
                    DumpNotUsed,
                    "{} has flight recorder dumps but no traces: not used",
                    folder.folder.display()
                );
                let remedy = "move the dumps next to the traces of their run";
                first.diagnostics.push(apart.advise(remedy));
            }
        }
    }
}
