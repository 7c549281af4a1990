//! Facts about a file before it is read, from its name, its beginning, and the manifest.

use super::axes::{ends_in_axis, places};
use super::recorder::Recorder;
use crate::Progress;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext, FileError};
use crate::input::database::database_processes;
use crate::input::{self, InputFile, InputKind};
use crate::manifest::RunManifest;
use crate::rank_rule::RankRule;
use crate::text::{file_name, plain_name};
use etlink_json::JsonScanner;
use etlink_model::{Diagnostic, diagnostic};
use std::collections::BTreeSet;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file with the facts known about it.
#[derive(Clone)]
pub(super) struct TraceCandidate {
    pub(super) path: PathBuf,
    pub(super) stem: String,
    pub(super) kind: InputKind,
    /// Process in the file, if it has several.
    pub(super) process: Option<i64>,
    /// True if only the order of processes determines the rank.
    pub(super) by_order: bool,
    pub(super) rank: Option<i64>,
    /// Rule that determined the rank.
    pub(super) told_by: RankRule,
    /// Facts from the beginning of the file.
    pub(super) inside: Inside,
    /// True if the content is unknown, so that the kind is derived from the name.
    pub(super) is_unread: bool,
    /// True if the name contains more than kind and rank (`kineto_trace_0.run1`).
    pub(super) variant: bool,
}

/// Facts that a trace states about itself: `distributedInfo`, and its first events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inside {
    pub(super) rank: Option<i64>,
    pub(super) world_size: Option<i64>,
    /// Recorder of the trace.
    pub(super) recorder: Recorder,
}

impl Inside {
    /// Reads the facts of a file that may be a trace; `None` if it cannot be read.
    pub(super) fn of_file(path: &Path) -> Option<Inside> {
        look_inside(path).ok().map(|(_, inside)| inside)
    }
}

impl TraceCandidate {
    /// Returns the place of the trace: the file, and the process in it.
    pub(super) fn place(&self) -> (PathBuf, Option<i64>) {
        (self.path.clone(), self.process)
    }

    /// Takes the rank from the manifest if there is no other. Adds a note if they contradict.
    pub(super) fn ask_manifest(&mut self, listed: &RunManifest, notes: &mut Vec<Diagnostic>) {
        let name = file_name(&self.path);
        let Some(told) = listed.rank_of(&name) else {
            return;
        };
        match self.rank {
            // a local rank in the name is no contradiction if the trace agrees with the manifest
            Some(own) if own != told && self.inside.rank != Some(told) => notes.push(diagnostic!(
                RankUnclear,
                "{name} is from rank {own}, but the recording's manifest says {told}: rank {own} is used"
            )),
            Some(_) => {}
            None => {
                self.rank = Some(told);
                self.told_by = RankRule::MANIFEST;
            }
        }
    }
}

/// Examines a file. A file of several recorded processes is one trace per process. Adds notes on
/// the source of their ranks.
pub(super) fn look_at(
    path: PathBuf,
    notes: &mut Vec<Diagnostic>,
    unreadable: &mut Vec<FileError>,
) -> Vec<TraceCandidate> {
    let whole = look_at_file(path.clone(), unreadable);
    // a kind derived from the name does not mean a readable database
    if !whole.kind.has_processes() || whole.is_unread {
        return vec![whole];
    }
    let processes = database_processes(&path).unwrap_or_else(|error| {
        unreadable.push(error);
        vec![]
    });
    if let [only] = &processes[..] {
        let inside = Inside {
            rank: only.rank,
            world_size: only.world_size,
            ..Inside::default()
        };
        return vec![TraceCandidate {
            rank: whole.rank.or(inside.rank),
            told_by: match (whole.rank, inside.rank) {
                (None, Some(_)) => RankRule::of_processes(only.told_by.unwrap_or("the report")),
                _ => whole.told_by,
            },
            inside,
            ..whole
        }];
    }
    let Some(first) = processes.first() else {
        return vec![whole];
    };
    notes.push(diagnostic!(
        RanksInferred,
        "{} has {} processes with device work, each taken as a rank, by {}",
        file_name(&path),
        processes.len(),
        first.told_by.unwrap_or("no known rule")
    ));
    let told_by = RankRule::of_processes(first.told_by.unwrap_or("the report"));
    let mut all = vec![];
    for process in processes {
        let inside = Inside {
            rank: process.rank,
            world_size: process.world_size,
            ..Inside::default()
        };
        all.push(TraceCandidate {
            process: Some(process.process),
            by_order: process.by_order,
            rank: inside.rank,
            told_by: told_by.clone(),
            inside,
            ..whole.clone()
        });
    }
    all
}

/// Numbers the ranks that only the order of processes determines, across all such files: the second
/// machine's ranks follow the first's, in the order of the numbers in the file names. Adds a note
/// with that order. Skips ranks that other recordings with processes state themselves.
pub(super) fn number_by_order(candidates: &mut [TraceCandidate], notes: &mut Vec<Diagnostic>) {
    let told = candidates
        .iter()
        .filter(|candidate| candidate.kind.has_processes() && !candidate.by_order);
    let taken: BTreeSet<i64> = told.filter_map(|candidate| candidate.rank).collect();
    let free = (0..).filter(|rank| !taken.contains(rank));
    let ordered = candidates.iter_mut().filter(|candidate| candidate.by_order);
    let mut ordered: Vec<&mut TraceCandidate> = ordered.collect();
    // stable: processes of a file keep their order
    ordered.sort_by_cached_key(|candidate| natural_key(&candidate.path.to_string_lossy()));
    let mut files: Vec<String> = vec![];
    for (rank, candidate) in free.zip(ordered) {
        candidate.rank = Some(rank);
        candidate.inside.rank = Some(rank);
        let name = file_name(&candidate.path);
        if files.last() != Some(&name) {
            files.push(name);
        }
    }
    if files.len() > 1 {
        const MOST: usize = 16;
        let more = files.len().saturating_sub(MOST);
        files.truncate(MOST);
        if more > 0 {
            files.push(format!("and {more} more"));
        }
        notes.push(diagnostic!(
            RanksInferred,
            "processes are numbered as ranks across the files in this order: {}",
            files.join(", ")
        ));
    }
}

/// Returns a key that sorts names by the numbers in them, `node2` before `node10`: texts, each with
/// the number of following digits, and these digits.
pub(super) fn natural_key(name: &str) -> Vec<(String, usize, String)> {
    let mut parts = vec![];
    let mut rest = name;
    while !rest.is_empty() {
        let digits_at = rest.find(|c: char| c.is_ascii_digit());
        let (text, behind) = rest.split_at(digits_at.unwrap_or(rest.len()));
        let number = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = behind[..behind.len() - number.len()].trim_start_matches('0');
        parts.push((text.to_owned(), digits.len(), digits.to_owned()));
        rest = number;
    }
    parts
}

fn look_at_file(path: PathBuf, unreadable: &mut Vec<FileError>) -> TraceCandidate {
    let name = file_name(&path);
    let packed = plain_name(&name);
    let endings = [
        ".json",
        ".xplane.pb",
        ".sqlite",
        ".db",
        ".nsys-rep",
        ".qdrep",
    ];
    let stem = endings
        .iter()
        .find_map(|ending| packed.strip_suffix(ending))
        .unwrap_or(packed)
        .to_owned();
    let named = rank_in_name(&stem);
    let rank = named.as_ref().map(|(rank, _)| *rank);
    let endings = ["", "]", "_trace", ".trace", ".pt.trace"];
    let variant = named.is_some_and(|(_, at)| !endings.contains(&&stem[at.end..]));
    let (looked, failure) = match look_inside(&path) {
        Ok(looked) => (looked, None),
        Err(error) => (Default::default(), error.into_failed_call()),
    };
    let (mut kind, mut inside) = looked;
    let recorder = &mut inside.recorder;
    if recorder.host.is_none() {
        recorder.host = host_in_name(&stem, recorder.process);
    }
    // a file named like a rank's trace must be reported if it is not one, but such folders contain
    // all kinds of tables, settings and databases
    let is_unread = kind == InputKind::Unknown;
    if is_unread {
        kind = kind_of_name(packed, &stem, rank.is_some());
    }
    // files whose kind the name states are read later, which reports the error
    if kind == InputKind::Unknown {
        unreadable.extend(failure);
    }
    TraceCandidate {
        path,
        kind,
        process: None,
        by_order: false,
        is_unread,
        told_by: match (rank, inside.rank) {
            (Some(_), _) => RankRule::of_name(&stem),
            (None, Some(_)) => RankRule::of_content(&stem),
            (None, None) => RankRule::UNKNOWN,
        },
        rank: rank.or(inside.rank),
        inside,
        variant,
        stem,
    }
}

/// Derives the kind from the name, for a file that is empty, truncated or damaged.
fn kind_of_name(packed: &str, stem: &str, has_rank: bool) -> InputKind {
    let (name, stem) = (packed.to_lowercase(), stem.to_lowercase());
    // no other program uses this ending
    if name.ends_with(".xplane.pb") {
        return InputKind::XlaSpace;
    }
    // rocprofv3 puts the process id before it; other programs use this ending too
    let before = name.strip_suffix("_results.db").unwrap_or_default();
    if before.ends_with(|c: char| c.is_ascii_digit()) {
        return InputKind::RocpdSqlite;
    }
    if has_rank && name.ends_with(".sqlite") && stem.contains("nsys") {
        return InputKind::NsysSqlite;
    }
    if !has_rank || !name.ends_with(".json") {
        return InputKind::Unknown;
    }
    if ["torch_et", "host"].iter().any(|part| stem.contains(part)) {
        InputKind::HostTrace
    } else if ["kineto", "device", "trace"]
        .iter()
        .any(|part| stem.contains(part))
    {
        InputKind::KinetoTrace
    } else {
        InputKind::Unknown
    }
}

/// Returns the rank in a name, and the place of its digits.
///
/// TensorBoard's default names begin with the host name and the process id
/// (`gpuhost_4711.1690….pt.trace`): in such a name, only the word `rank` precedes a rank. A name
/// with places along several axes (`tp_rank_00_pp_rank_001`) has no rank.
pub(crate) fn rank_in_name(stem: &str) -> Option<(i64, Range<usize>)> {
    let lower = stem.to_ascii_lowercase();
    let marks = [
        "rank[",
        "rank_",
        "rank-",
        "rank",
        "pytorch_et_",
        "torch_et_",
        "kineto_trace_",
        "kineto_",
        "device_",
        "host_",
        "nsys_",
        // SGLang: `<time>-TP-<rank>.trace`
        "tp-",
    ];
    let has_axes = places(&lower).len() > 1;
    for mark in &marks[..if lower.ends_with(".pt.trace") {
        4
    } else {
        marks.len()
    }] {
        // the last one: names begin with the job name, which may contain a mark (`lowrank16_rank0`)
        for (at, _) in lower.rmatch_indices(mark) {
            let start = at + mark.len();
            let rest = &lower[start..];
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let begins_word = !lower[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            let is_place = has_axes && mark.starts_with("rank") && ends_in_axis(&lower[..at]);
            if let (true, false, Ok(rank)) = (begins_word, is_place, rest[..digits].parse()) {
                return Some((rank, start..start + digits));
            }
        }
    }
    None
}

/// Returns the host in a default name of TensorBoard's handler: `gpuhost_4711.1690….pt.trace`.
fn host_in_name(stem: &str, process: Option<i64>) -> Option<String> {
    let worker = stem.strip_suffix(".pt.trace")?.rsplit_once('.')?.0;
    let (host, number) = worker.rsplit_once('_')?;
    (number.parse().ok() == process && process.is_some()).then(|| host.to_owned())
}

/// Opens a file that may be a trace; notes the error if the system refuses it.
pub(super) fn open_noting(path: &Path, unreadable: &mut Vec<FileError>) -> Option<InputFile> {
    match input::open(path, &Progress::hidden()) {
        Ok(input) => Some(input),
        Err(error) => {
            unreadable.extend(error.into_failed_call());
            None
        }
    }
}

/// Returns the host, if stated, and the process that recorded a device trace.
pub(super) fn recording_process(path: &Path) -> Option<(Option<String>, i64)> {
    let recorder = Inside::of_file(path)?.recorder;
    Some((recorder.host, recorder.process?))
}

/// Reads the kind, the rank and the number of ranks from the beginning of a file.
fn look_inside(path: &Path) -> Result<(InputKind, Inside), RunError> {
    let input = input::open(path, &Progress::hidden())?;
    let kind = input.kind;
    let mut head = vec![];
    let beginning = match kind {
        InputKind::KinetoTrace => 64 << 10,
        InputKind::HostTrace => 512,
        _ => 0,
    };
    let read = input.content.take(beginning).read_to_end(&mut head);
    read.with_path(FileAction::Read, path)?;
    let recorder = if kind == InputKind::HostTrace {
        Recorder::of_host_trace(&head)
    } else {
        Recorder::of_head(&head)
    };
    let inside = Inside {
        recorder,
        ..distributed_info(&head)
    };
    Ok((kind, inside))
}

/// Reads `"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2, "pg_config": [...`
/// from the beginning of a file, which may end within it.
fn distributed_info(head: &[u8]) -> Inside {
    const KEY: &[u8] = b"\"distributedInfo\"";
    let mut inside = Inside::default();
    let Some(at) = memchr::memmem::find(head, KEY) else {
        return inside;
    };
    let mut info = JsonScanner::new(&head[at + KEY.len()..]);
    if !info.eat(b':') || info.enter().is_err() {
        return inside;
    }
    while let Ok(Some(key)) = info.key() {
        // the beginning ends within it: the values until then are valid
        let Ok(value) = info.value() else { break };
        match key {
            b"rank" => inside.rank = value.int(),
            b"world_size" => inside.world_size = value.int(),
            _ => {}
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_ends_in_a_long_list_of_groups_tells_the_rank() {
        let head = [
            r#"{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 17, "#,
            r#""world_size": 512, "pg_config": [{"ranks": [0, 1, 2"#,
        ]
        .concat();
        assert_eq!(
            distributed_info(head.as_bytes()),
            Inside {
                rank: Some(17),
                world_size: Some(512),
                ..Inside::default()
            }
        );
        assert_eq!(
            distributed_info(br#"{"schemaVersion": 1, "traceEvents": ["#),
            Inside::default()
        );
    }

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        let mut names = ["a10.x", "a2.x", "b1", "a02-3", "a2-10", "a"];
        names.sort_by_cached_key(|name| natural_key(name));
        assert_eq!(names, ["a", "a02-3", "a2-10", "a2.x", "a10.x", "b1"]);
    }

    #[test]
    fn ranks_in_names() {
        for (stem, rank) in [
            ("torch_et_3", Some(3)),
            ("pytorch_et_12", Some(12)),
            ("kineto_trace_0", Some(0)),
            ("kineto_7", Some(7)),
            ("host_1", Some(1)),
            ("device_2", Some(2)),
            ("rank5_trace", Some(5)),
            ("rank-6", Some(6)),
            ("rank0.1795225129198415391.pt.trace", Some(0)),
            ("kineto_trace_0.run1", Some(0)),
            ("h100-bert-small", None),
            ("worker.pt.trace", None),
            ("localhost_12345.1690.pt.trace", None),
            ("host_12345.1690.pt.trace", None),
            ("myhost_3", None),
            ("run2-rank-7", Some(7)),
            ("host_3_rank_1", Some(1)),
            ("lowrank16_rank0", Some(0)),
            ("1795225129.51-TP-3.trace", Some(3)),
            ("http-3", None),
            ("trace_rank[3]", Some(3)),
            ("mp_rank_03", Some(3)),
            ("mp_rank_00_001", None),
            ("tp_rank_00_pp_rank_001", None),
            ("dp0_pp1_tp0_rank3.17", Some(3)),
        ] {
            let found = rank_in_name(stem).map(|(rank, _)| rank);
            assert_eq!(found, rank, "{stem}");
        }
    }
}
