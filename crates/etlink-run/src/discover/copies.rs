//! Leaves out copies of traces under another name.
//!
//! A process makes one recording at a time, so traces of one process with the same start, to the
//! nanosecond, are one recording, however they are named. Traces that do not state their process or
//! start are copies if they have the same content.

use super::candidate::{TraceCandidate, natural_key};
use crate::Progress;
use crate::input::{self, InputKind};
use crate::rank_rule::RankRule;
use crate::text::file_name;
use etlink_model::{Diagnostic, diagnostic};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

/// Number of bytes that are compared at a time.
const PIECE: usize = 64 << 10;

/// Drops copies of a rank's trace. Removes the rank of traces that are copies of each other, but
/// claim different ranks: the correct one is unknown. Traces that name their machine are then left
/// to `select_run`. Adds a note on each copy.
pub(super) fn leave_out_copies(candidates: &mut Vec<TraceCandidate>, notes: &mut Vec<Diagnostic>) {
    let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, one) in candidates.iter().enumerate() {
        let recorder = &one.inside.recorder;
        let is_host = one.kind == InputKind::HostTrace;
        if one.process.is_none() && (is_host || one.kind.is_device_trace()) {
            let from = (&recorder.host, recorder.process, recorder.start_ns);
            // only the content shows copies among traces without a start
            let rank = match recorder.start_ns {
                Some(_) => None,
                None => one.rank,
            };
            alike.entry((is_host, from, rank)).or_default().push(at);
        }
    }
    let devices = candidates.iter().filter(|one| one.kind.is_device_trace());
    let devices = devices.count();
    let (mut dropped, mut unsure) = (BTreeSet::new(), BTreeSet::new());
    for ((_, (host, process, start), _), mut own) in alike {
        // the name without additions, such as `(1)`, is the original's
        own.sort_by_cached_key(|at| (candidates[*at].variant, natural_key(&candidates[*at].stem)));
        let is_one = process.is_some() && start.is_some();
        let are_all = own.len() == devices;
        let mut kept = own[0];
        for at in own.into_iter().skip(1) {
            let (one, other) = (&candidates[kept], &candidates[at]);
            let is_same_rank = one.rank == other.rank;
            // without a start, only traces of one rank are compared
            if start.is_none() && (!is_same_rank || one.rank.is_none()) {
                continue;
            }
            let is_dropped = is_same_rank || other.rank.is_none();
            // if all traces are equal, they were generated
            if !is_dropped && (host.is_some() || are_all) {
                continue;
            }
            let order = compare_contents(&one.path, &other.path);
            let (name, copy) = (file_name(&one.path), file_name(&other.path));
            match (is_dropped, order) {
                (true, Some(Ordering::Less)) => {
                    notes.push(diagnostic!(
                        FileLeftOut,
                        "{name} is left out: it is a truncated copy of {copy}"
                    ));
                    dropped.insert(kept);
                    kept = at;
                }
                (true, order)
                    if is_one && is_same_rank && one.rank.is_some() || order.is_some() =>
                {
                    notes.push(diagnostic!(
                        FileLeftOut,
                        "{copy} is left out: it is a copy of {name}"
                    ));
                    dropped.insert(at);
                }
                (false, Some(_)) => {
                    let alike = diagnostic!(
                        RankUnclear,
                        "{name} and {copy} have the same content, so one is a copy of the other, and \
                         neither is assigned a rank"
                    );
                    notes.push(alike.advise("keep the file whose rank is correct"));
                    unsure.extend([kept, at]);
                }
                _ => {}
            }
        }
    }
    for at in unsure {
        candidates[at].rank = None;
        candidates[at].told_by = RankRule::UNKNOWN;
    }
    let mut place = 0..;
    candidates.retain(|_| place.next().is_some_and(|at| !dropped.contains(&at)));
}

/// Compares the lengths of two contents of which one is the beginning of the other; `None` if they
/// differ.
fn compare_contents(one: &Path, two: &Path) -> Option<Ordering> {
    let open = |path| input::open(path, &Progress::hidden()).map(|input| input.content);
    let (mut one, mut two) = (open(one).ok()?, open(two).ok()?);
    let (mut first, mut second) = (vec![0; PIECE], vec![0; PIECE]);
    loop {
        let (read, other) = (fill(&mut one, &mut first), fill(&mut two, &mut second));
        let common = read.min(other);
        if first[..common] != second[..common] {
            return None;
        }
        if read < PIECE || other < PIECE {
            return Some(read.cmp(&other));
        }
    }
}

/// Reads until the buffer is full, or the content ends or is damaged.
fn fill(content: &mut impl Read, buffer: &mut [u8]) -> usize {
    let mut filled = 0;
    while let Ok(read @ 1..) = content.read(&mut buffer[filled..]) {
        filled += read;
    }
    filled
}
