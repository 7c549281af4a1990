//! Dumps of the flight recorder: which files they are, and of which rank's traces.

use super::candidate::{TraceCandidate, open_noting};
use crate::FileError;
use crate::flight::read_dump;
use crate::input::InputKind;
use crate::progress::Progress;
use crate::run_files::{FlightFile, FlightFolder, RunFiles, file_name};
use std::collections::BTreeMap;
use std::path::Path;

/// Whether a file that is not called JSON is a dump: `nccl_trace_rank_0`, or any other name without
/// an ending (`TORCH_FR_DUMP_TEMP_FILE` sets what comes before the rank), or `.pkl`.
pub(super) fn is_dump(path: &Path, unreadable: &mut Vec<FileError>) -> bool {
    let name = file_name(path).to_lowercase();
    let plain = name
        .strip_suffix(".gz")
        .or(name.strip_suffix(".zst"))
        .unwrap_or(&name);
    let may_be = !plain.contains('.') || plain.ends_with(".pkl") || plain.ends_with(".pickle");
    // a folder can have any other file without an ending: only the content tells
    may_be
        && open_noting(path, unreadable)
            .is_some_and(|input| input.kind == InputKind::FlightRecorder)
}

/// Takes the dumps out of the candidates of a folder. By rank, then by name.
pub(super) fn take_dumps(candidates: &mut Vec<TraceCandidate>) -> Vec<FlightFile> {
    let (dumps, others): (Vec<_>, Vec<_>) = std::mem::take(candidates)
        .into_iter()
        .partition(|candidate| candidate.kind == InputKind::FlightRecorder);
    *candidates = others;
    let files = dumps.into_iter().map(|candidate| FlightFile {
        // names are a prefix of the user's and the rank
        rank: candidate.rank.or_else(|| last_number(&candidate.stem)),
        path: candidate.path,
    });
    let mut files: Vec<FlightFile> = files.collect();
    files.sort();
    files
}

/// The number that a name ends in: 3 of `nccl_trace_rank_3` and `flight_recorder_3.pickle`.
fn last_number(stem: &str) -> Option<i64> {
    let plain = stem.strip_suffix(".pickle").or(stem.strip_suffix(".pkl"));
    let stem = plain.unwrap_or(stem);
    let digits = stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    stem[digits..].parse().ok()
}

/// Gives the ranks of a run the dumps that are named by them.
pub(super) fn pair_dumps(run: &mut RunFiles, dumps: &[FlightFile]) {
    let mut by_rank: BTreeMap<i64, Vec<&FlightFile>> = BTreeMap::new();
    for dump in dumps {
        match dump.rank {
            Some(rank) => by_rank.entry(rank).or_default().push(dump),
            None => run.unused.push(format!(
                "{} is a dump of the flight recorder whose name tells no rank: not used",
                file_name(&dump.path)
            )),
        }
    }
    for (rank, own) in by_rank {
        let mut of_rank = run.ranks.iter_mut();
        let Some(files) = of_rank.find(|files| files.rank == Some(rank)) else {
            continue;
        };
        // one recorder can be dumped as pickle and as JSON: both say the same
        let used = own.iter().find(|dump| can_be_read(dump, own.len()));
        // where none can be read, the first says why when the rank is linked
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
                run.notes.push(format!(
                    "{name} is a dump of rank {rank} that cannot be read: not used"
                ));
                continue;
            }
            let note = format!("{name} is of rank {rank} like {first}, which is used");
            run.unused.push(note);
        }
    }
}

/// Whether one of so many dumps of a rank can be read. The only one is read when its rank is.
fn can_be_read(dump: &FlightFile, count: usize) -> bool {
    count == 1 || read_dump(&dump.path, &Progress::hidden()).is_ok()
}

/// Dumps in a folder of their own are of the only run that there is.
pub(super) fn pair_folder(runs: &mut [RunFiles], dumps: &mut Vec<FlightFolder>) {
    match (&mut *runs, &mut dumps[..]) {
        ([run], [folder]) => {
            run.notes.push(format!(
                "the dumps of the flight recorder in {} are taken for those of this run",
                folder.folder.display()
            ));
            pair_dumps(run, &folder.dumps);
            dumps.clear();
        }
        ([], _) => {}
        ([first, ..], folders) => {
            for folder in folders {
                first.unused.push(format!(
                    "{} has dumps of the flight recorder beside no traces: not used; move them \
                     beside the traces of their run",
                    folder.folder.display()
                ));
            }
        }
    }
}
