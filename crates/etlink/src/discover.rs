//! Which files of a folder are the traces of which rank.
//!
//! Names in use: `torch_et_<r>`, `pytorch_et_<r>`, `host_<r>`, `kineto_trace_<r>`, `kineto_<r>`,
//! `device_<r>`, `rank<r>_trace`, `rank-<r>`, `*.pt.trace`, with `.json`, `.gz`, `.zst`. What a name
//! does not tell is read from the file's beginning: its kind, and the rank in `distributedInfo`; then from the manifest that
//! `etlink record` wrote.

use crate::input;
use crate::listed::{Listed, Told};
use crate::progress::Progress;
use anyhow::{Context, Result};
use etlink_chakra::read::FileKind;
use etlink_json::{Scanner, scan_fields};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The traces of one rank, as far as they are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Rank, if any name or file tells.
    pub rank: Option<i64>,
    /// What names the output: the rank, or the file's own name where ranks do not tell files apart.
    pub label: String,
    pub host: Option<PathBuf>,
    pub device: Option<PathBuf>,
    /// What the manifest of the recording says of it.
    pub told: Told,
}

/// The traces of one folder.
#[derive(Clone, Debug)]
pub struct Run {
    /// The folder, relative to where the search began.
    pub folder: PathBuf,
    /// By rank, then by name.
    pub ranks: Vec<Found>,
    /// What the user should know about names and ranks.
    pub notes: Vec<String>,
}

/// Finds the runs in `root` and its subfolders, in order of their paths.
pub fn discover(root: &Path) -> Result<Vec<Run>> {
    let mut folders = vec![PathBuf::new()];
    let mut runs = vec![];
    while let Some(folder) = folders.pop() {
        let place = root.join(&folder);
        let entries = std::fs::read_dir(&place).with_context(|| format!("cannot read folder {}", place.display()))?;
        let mut files = vec![];
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read folder {}", place.display()))?;
            let path = entry.path();
            // links to folders are not followed: they can go in circles
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(folder.join(entry.file_name()));
            } else if path.is_file() && is_json(&path) {
                files.push(path);
            }
        }
        files.sort();
        let (files, twins) = without_twins(files);
        let mut run = sort_out(&place, folder, files);
        run.notes.extend(twins);
        unique_labels(&mut run.ranks);
        if !run.ranks.is_empty() {
            runs.push(run);
        }
    }
    runs.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(runs)
}

/// A file that lies there plain and packed is one file (`gunzip -k`): the plain one.
fn without_twins(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<String>) {
    let plain: Vec<PathBuf> = files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "json")).cloned().collect();
    let is_twin = |file: &PathBuf| plain.contains(&file.with_extension("")) && !plain.contains(file);
    let (twins, files): (Vec<_>, Vec<_>) = files.into_iter().partition(is_twin);
    let note = |twin: &PathBuf| format!("{} is there unpacked too: it is left out", twin.display());
    (files, twins.iter().map(note).collect())
}

/// No two outputs bear one name: a label that occurs again gets a number.
fn unique_labels(ranks: &mut [Found]) {
    let mut used = BTreeSet::new();
    for found in ranks {
        let label = found.label.clone();
        let mut number = 1;
        while !used.insert(found.label.clone()) {
            number += 1;
            found.label = format!("{label}-{number}");
        }
    }
}

fn is_json(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    [".json", ".json.gz", ".json.zst"].iter().any(|ending| name.ends_with(ending))
}

/// A file with what is known of it.
struct Candidate {
    path: PathBuf,
    stem: String,
    kind: FileKind,
    rank: Option<i64>,
    /// Number of ranks that the file tells at its beginning.
    world_size: Option<i64>,
    /// The name has more in it than kind and rank (`kineto_trace_0.run1`).
    variant: bool,
}

fn sort_out(place: &Path, folder: PathBuf, files: Vec<PathBuf>) -> Run {
    let mut run = Run { folder, ranks: vec![], notes: vec![] };
    let listed = if files.is_empty() { Ok(None) } else { Listed::of(place) };
    let listed = listed.unwrap_or_else(|why| {
        run.notes.push(why);
        None
    });
    let mut candidates: Vec<Candidate> = files.into_iter().map(look_at).collect();
    if let Some(listed) = &listed {
        candidates.iter_mut().for_each(|candidate| candidate.ask(listed, &mut run.notes));
    }
    let world_size = candidates.iter().find_map(|candidate| candidate.world_size);
    let mut by_rank: BTreeMap<i64, [Vec<Candidate>; 2]> = BTreeMap::new();
    let mut loose: Vec<Candidate> = vec![];
    for candidate in candidates {
        let side = match candidate.kind {
            FileKind::HostTrace => 0,
            FileKind::KinetoTrace => 1,
            _ => continue,
        };
        match candidate.rank {
            Some(rank) => by_rank.entry(rank).or_default()[side].push(candidate),
            None => loose.push(candidate),
        }
    }
    for (rank, [hosts, devices]) in by_rank {
        let host = pick(rank, "host", hosts, &mut loose, &mut run.notes);
        let device = pick(rank, "device", devices, &mut loose, &mut run.notes);
        if host.is_some() || device.is_some() {
            run.ranks.push(Found { rank: Some(rank), label: rank.to_string(), host, device, ..Found::default() });
        }
    }
    adopt(&mut run, loose);
    if let Some(listed) = listed.filter(|_| !run.ranks.is_empty()) {
        run.notes.extend(listed.tell(&mut run.ranks, world_size));
    }
    run
}

impl Candidate {
    /// Takes the rank that the manifest says where nothing else does; tells where they differ.
    fn ask(&mut self, listed: &Listed, notes: &mut Vec<String>) {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(told) = listed.rank_of(&name) else { return };
        match self.rank {
            Some(own) if own != told => notes.push(format!("{name} is of rank {own}, the manifest of the recording says {told}: its own counts")),
            Some(_) => {}
            None => self.rank = Some(told),
        }
    }
}

/// The one file of a rank and kind; the others become files of their own name.
fn pick(rank: i64, kind: &str, mut all: Vec<Candidate>, loose: &mut Vec<Candidate>, notes: &mut Vec<String>) -> Option<PathBuf> {
    if all.len() > 1 && all.iter().filter(|candidate| !candidate.variant).count() == 1 {
        let (variants, exact): (Vec<_>, Vec<_>) = all.into_iter().partition(|candidate| candidate.variant);
        loose.extend(variants);
        all = exact;
    }
    if all.len() > 1 {
        let names: Vec<_> = all.iter().map(|candidate| candidate.stem.as_str()).collect();
        notes.push(format!("{} {kind} traces are of rank {rank} ({}): each is taken by itself", all.len(), names.join(", ")));
        loose.append(&mut all);
    }
    all.pop().map(|candidate| candidate.path)
}

/// Files that no rank has: a single host and device trace belong together, others stand alone.
fn adopt(run: &mut Run, loose: Vec<Candidate>) {
    let (hosts, devices): (Vec<_>, Vec<_>) = loose.into_iter().partition(|candidate| candidate.kind == FileKind::HostTrace);
    let lonely = |found: &&mut Found| found.host.is_none() || found.device.is_none();
    let single = |all: &[Candidate]| all.len() == 1;
    let alone = run.ranks.is_empty();
    let waiting: Vec<&mut Found> = run.ranks.iter_mut().filter(lonely).collect();
    match (<[&mut Found; 1]>::try_from(waiting), single(&hosts), single(&devices)) {
        (Ok([found]), true, false) if found.host.is_none() && devices.is_empty() => found.host = Some(hosts[0].path.clone()),
        (Ok([found]), false, true) if found.device.is_none() && hosts.is_empty() => found.device = Some(devices[0].path.clone()),
        (Err(_), true, true) => run.ranks.push(Found {
            rank: hosts[0].rank.or(devices[0].rank),
            label: if alone { hosts[0].rank.or(devices[0].rank).unwrap_or(0).to_string() } else { devices[0].stem.clone() },
            host: Some(hosts[0].path.clone()),
            device: Some(devices[0].path.clone()),
            ..Found::default()
        }),
        _ => {
            let by_itself = |candidate: Candidate| {
                let is_host = candidate.kind == FileKind::HostTrace;
                let path = Some(candidate.path);
                let (host, device) = if is_host { (path, None) } else { (None, path) };
                Found { rank: candidate.rank, label: candidate.stem, host, device, ..Found::default() }
            };
            run.ranks.extend(hosts.into_iter().chain(devices).map(by_itself));
        }
    }
}

fn look_at(path: PathBuf) -> Candidate {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let packed = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    let stem = packed.strip_suffix(".json").unwrap_or(packed).to_owned();
    let (rank, variant) = rank_in_name(&stem);
    let (mut kind, inner, world_size) = look_inside(&path).unwrap_or_default();
    // a file that is named like a trace of a rank shall be missed when it is none
    if kind == FileKind::Unknown && rank.is_some() {
        kind = kind_of_name(&stem);
    }
    Candidate { path, kind, rank: rank.or(inner), world_size, variant, stem }
}

/// The kind by name alone.
fn kind_of_name(stem: &str) -> FileKind {
    let stem = stem.to_lowercase();
    if ["torch_et", "host"].iter().any(|part| stem.contains(part)) {
        FileKind::HostTrace
    } else if ["kineto", "device", "trace"].iter().any(|part| stem.contains(part)) {
        FileKind::KinetoTrace
    } else {
        FileKind::Unknown
    }
}

/// The rank that a name tells, and whether it has more after it.
///
/// TensorBoard's default names begin with the host's name and the process id
/// (`gpuhost_4711.1690….pt.trace`): in such a name only the word `rank` tells a rank.
fn rank_in_name(stem: &str) -> (Option<i64>, bool) {
    let lower = stem.to_lowercase();
    let marks = ["rank_", "rank-", "rank", "pytorch_et_", "torch_et_", "kineto_trace_", "kineto_", "device_", "host_"];
    for mark in &marks[..if lower.ends_with(".pt.trace") { 3 } else { marks.len() }] {
        for (at, _) in lower.rmatch_indices(mark) {
            let rest = &lower[at + mark.len()..];
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let begins_word = !lower[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            if let (true, Ok(rank)) = (begins_word, rest[..digits].parse()) {
                return (Some(rank), !matches!(&rest[digits..], "" | "_trace" | ".pt.trace"));
            }
        }
    }
    (None, false)
}

/// Kind, rank and number of ranks from a file's beginning.
fn look_inside(path: &Path) -> Result<(FileKind, Option<i64>, Option<i64>)> {
    let input = input::open(path, 1, &Progress::hidden())?;
    let kind = input.kind;
    let mut head = vec![];
    if kind == FileKind::KinetoTrace {
        input.content.take(64 << 10).read_to_end(&mut head)?;
    }
    let (mut rank, mut world_size) = (None, None);
    scan_fields(&head, |key, value| {
        if key == b"distributedInfo" {
            let mut info = Scanner::new(value.raw());
            if info.enter().is_ok() {
                while let Ok(Some(key)) = info.key() {
                    let Ok(value) = info.value() else { break };
                    match key {
                        b"rank" => rank = value.int(),
                        b"world_size" => world_size = value.int(),
                        _ => {}
                    }
                }
            }
        }
    });
    Ok((kind, rank, world_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_in_names() {
        for (stem, rank) in [
            ("torch_et_3", (Some(3), false)),
            ("pytorch_et_12", (Some(12), false)),
            ("kineto_trace_0", (Some(0), false)),
            ("kineto_7", (Some(7), false)),
            ("host_1", (Some(1), false)),
            ("device_2", (Some(2), false)),
            ("rank5_trace", (Some(5), false)),
            ("rank-6", (Some(6), false)),
            ("rank0.1795225129198415391.pt.trace", (Some(0), true)),
            ("kineto_trace_0.run1", (Some(0), true)),
            ("h100-bert-small", (None, false)),
            ("worker.pt.trace", (None, false)),
            ("localhost_12345.1690.pt.trace", (None, false)),
            ("host_12345.1690.pt.trace", (None, false)),
            ("myhost_3", (None, false)),
            ("run2-rank-7", (Some(7), false)),
            ("host_3_rank_1", (Some(1), false)),
            ("lowrank16_rank0", (Some(0), false)),
        ] {
            assert_eq!(rank_in_name(stem), rank, "{stem}");
        }
    }
}
