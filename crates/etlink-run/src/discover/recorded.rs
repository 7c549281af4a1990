//! Which files are ranks, and which are recordings of one rank, by who recorded them and when.
//!
//! Names do not tell a rank's second recording from another rank's. The process does: a rank is one
//! process, and what two processes recorded at the same time is of two ranks.

use crate::Progress;
use crate::input;
use crate::rank_rule::RankRule;
use crate::storage;
use crate::text::file_name;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use super::candidate::TraceCandidate;
use super::recorder::{integer, nanoseconds, text_after};

/// How many bytes of a file's end are looked at.
const TAIL: usize = 64 << 10;

/// When the last events of a file begin, Unix time, ns. Reads all of it.
fn last_time(path: &Path, base_ns: i64) -> Option<i64> {
    let mut content = input::open(path, &Progress::hidden()).ok()?.content;
    let (mut tail, mut piece) = (Vec::<u8>::new(), vec![0; TAIL]);
    loop {
        let read = content.read(&mut piece).ok()?;
        if read == 0 {
            break;
        }
        tail.extend_from_slice(&piece[..read]);
        tail.drain(..tail.len().saturating_sub(2 * TAIL));
    }
    let times = memchr::memmem::find_iter(&tail, b"\"ts\"");
    let times = times.filter_map(|at| text_after(&tail[at..], b"\"ts\"").and_then(nanoseconds));
    Some(base_ns.saturating_add(times.max()?))
}

/// Sizes of what a model is split by, from the innermost: ranks that follow each other share a
/// tensor-parallel group. Megatron-LM, vLLM and SGLang agree on tensor-parallel groups, and differ in
/// what comes next.
const AXES: [&str; 6] = ["tp", "cp", "ep", "dp", "pp", "dcp"];

/// vLLM counts pipeline stages inside of each data-parallel engine, and so does SGLang.
const AXES_OF_ENGINES: [&str; 6] = ["tp", "pp", "dp", "cp", "ep", "dcp"];

/// A rank's places along axes: `TP-1-PP-0`, `dp0_pp1_tp0`.
fn places(stem: &str) -> BTreeMap<&'static str, i64> {
    let lower = stem.to_lowercase();
    let mut found = BTreeMap::new();
    for axis in AXES {
        for (at, _) in lower.match_indices(axis) {
            if lower[..at].ends_with(|c: char| c.is_ascii_alphanumeric()) {
                continue;
            }
            let rest = lower[at + axis.len()..].trim_start_matches(['-', '_']);
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if let Ok(place) = rest[..digits].parse() {
                found.insert(axis, place);
            }
        }
    }
    found
}

/// Gives traces that claim one rank, and were recorded at one time by several processes, the ranks
/// that they are of: they are no recordings one after the other. Where nothing says which ranks, a
/// note names both readings.
pub(super) fn separate_processes(candidates: &mut [TraceCandidate], notes: &mut Vec<String>) {
    let Some((one, two)) = first_clash(candidates, |at| candidates[at].rank) else {
        return;
    };
    let which = {
        let [one, two] = [one, two].map(|at| &candidates[at]);
        format!(
            "{} and {} are both of rank {} by their names, and two processes recorded them at the same \
             time",
            file_name(&one.path),
            file_name(&two.path),
            one.rank.unwrap_or_default(),
        )
    };
    let settled = stated_ranks(candidates).or_else(|| ranks_of_places(candidates));
    let Some((ranks, rule)) = settled else {
        notes.push(format!(
            "{which}: they are of two runs, or of two ranks of one. They are taken for two runs; if they \
             are of one, say the global rank in each name (`rank0`, `rank1`)"
        ));
        return;
    };
    notes.push(format!(
        "{which}: they are two ranks, by {}, and not two recordings of one",
        rule.describe()
    ));
    for (at, rank) in ranks {
        candidates[at].rank = Some(rank);
        candidates[at].told_by = rule.clone();
    }
}

fn is_device(candidate: &TraceCandidate) -> bool {
    candidate.kind.is_device_trace() && candidate.process.is_none()
}

/// The first two device traces of one rank that two processes recorded at the same time.
fn first_clash(
    candidates: &[TraceCandidate],
    rank_of: impl Fn(usize) -> Option<i64>,
) -> Option<(usize, usize)> {
    let mut by_rank: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (at, candidate) in candidates.iter().enumerate() {
        if is_device(candidate)
            && let Some(rank) = rank_of(at)
        {
            by_rank.entry(rank).or_default().push(at);
        }
    }
    for mut own in by_rank.into_values() {
        let recorder = |at: usize| &candidates[at].inside.recorder;
        own.retain(|at| recorder(*at).start_ns.is_some());
        own.sort_by_key(|at| (recorder(*at).start_ns, *at));
        // of those that follow each other in time, overlapping ones are neighbours
        for pair in own.windows(2) {
            let (first, second) = (recorder(pair[0]), recorder(pair[1]));
            if !first.is_other_process(second) {
                continue;
            }
            let end = last_time(&candidates[pair[0]].path, first.base_ns);
            if end > second.start_ns {
                return Some((pair[0], pair[1]));
            }
        }
    }
    None
}

/// A rank for each of the candidates, by place, and what says it.
type SettledRanks = (Vec<(usize, i64)>, RankRule);

/// The ranks that the traces state, if each states another.
fn stated_ranks(candidates: &[TraceCandidate]) -> Option<SettledRanks> {
    let devices = || {
        candidates
            .iter()
            .enumerate()
            .filter(|(_, one)| is_device(one))
    };
    let ranks = devices().map(|(at, one)| Some((at, one.inside.rank?)));
    let ranks: Vec<(usize, i64)> = ranks.collect::<Option<_>>()?;
    let distinct: BTreeSet<i64> = ranks.iter().map(|(_, rank)| *rank).collect();
    (distinct.len() == ranks.len()).then_some((ranks, RankRule::Content(None)))
}

/// The ranks that places along axes give, once sizes are known: the places fill a grid, of as many
/// ranks as the traces say the run has, and each is in the groups that its collectives name.
fn ranks_of_places(candidates: &[TraceCandidate]) -> Option<SettledRanks> {
    let devices: Vec<usize> = (0..candidates.len())
        .filter(|at| is_device(&candidates[*at]))
        .collect();
    let all: BTreeMap<usize, BTreeMap<&str, i64>> = devices
        .iter()
        .map(|at| (*at, places(&candidates[*at].stem)))
        .collect();
    let orders = if devices
        .iter()
        .any(|at| is_engine_name(&candidates[*at].stem))
    {
        [AXES_OF_ENGINES, AXES]
    } else {
        [AXES, AXES_OF_ENGINES]
    };
    for order in orders {
        let Some(ranks) = mixed_radix(&all, &order) else {
            continue;
        };
        let world = ranks.values().max()? + 1;
        let fits = |(at, rank): (&usize, &i64)| {
            let inside = &candidates[*at].inside;
            let mut groups = inside.recorder.groups.iter();
            inside.world_size.is_none_or(|stated| stated == world)
                && groups
                    .all(|group| group.contains(rank) && group.iter().all(|other| *other < world))
        };
        let distinct: BTreeSet<i64> = ranks.values().copied().collect();
        let is_grid = distinct.len() as i64 == world && ranks.iter().all(fits);
        if is_grid && first_clash(candidates, |at| ranks.get(&at).copied()).is_none() {
            let names = "the places in their names (TP, PP, DP, …)";
            return Some((ranks.into_iter().collect(), RankRule::Name(names.into())));
        }
    }
    None
}

/// Gives traces of which neither name nor content says the rank the ranks that their last numbers
/// say, or else their devices: if several processes recorded them at about the same time, each has
/// another number, and no trace has a rank.
pub(super) fn number_unnamed(candidates: &mut [TraceCandidate], notes: &mut Vec<String>) {
    let devices: Vec<usize> = (0..candidates.len())
        .filter(|at| is_device(&candidates[*at]))
        .collect();
    let recorder = |at: &usize| &candidates[*at].inside.recorder;
    let is_unnamed = devices.iter().all(|at| candidates[*at].rank.is_none());
    let processes: BTreeSet<_> = devices
        .iter()
        .filter_map(|at| Some((&recorder(at).host, recorder(at).process?)))
        .collect();
    let starts: Option<Vec<i64>> = devices.iter().map(|at| recorder(at).start_ns).collect();
    let Some(starts) = starts.filter(|starts| is_unnamed && starts.len() > 1) else {
        return;
    };
    let spread = starts.iter().max().zip(starts.iter().min());
    let is_one_time = spread.is_some_and(|(last, first)| last - first <= RUNS_APART_NS);
    if processes.len() < devices.len() || !is_one_time {
        return;
    }
    let is_full = |ranks: &BTreeMap<usize, i64>| {
        let distinct: BTreeSet<i64> = ranks.values().copied().collect();
        ranks.len() == devices.len()
            && distinct.into_iter().eq(0..devices.len() as i64)
            && ranks
                .iter()
                .all(|(at, rank)| recorder(at).groups.iter().all(|group| group.contains(rank)))
    };
    let by_name = devices
        .iter()
        .filter_map(|at| Some((*at, last_number(&candidates[*at].stem)?)));
    let by_name: BTreeMap<usize, i64> = by_name.collect();
    let (ranks, rule) = if is_full(&by_name) {
        (by_name, "the last number in each name")
    } else {
        let hosts: BTreeSet<_> = devices.iter().map(|at| &recorder(at).host).collect();
        let by_device = devices
            .iter()
            .filter_map(|at| Some((*at, first_device(&candidates[*at].path)?)));
        let by_device: BTreeMap<usize, i64> = by_device.collect();
        if hosts.len() > 1 || !is_full(&by_device) {
            return;
        }
        (by_device, "the device that each uses")
    };
    notes.push(format!(
        "{} processes recorded traces at the same time, whose names say no rank: one run, with the ranks \
         of {rule}",
        devices.len()
    ));
    for (at, rank) in ranks {
        candidates[at].rank = Some(rank);
        candidates[at].told_by = RankRule::Name(rule.into());
    }
}

/// Recordings of one run begin within this of each other: profilers are started by hand, and clocks
/// differ.
pub(super) const RUNS_APART_NS: i64 = 60_000_000_000;

/// The number that ends a name: `profile_3`, `train-r03`. A time is none.
fn last_number(stem: &str) -> Option<i64> {
    let name = stem
        .trim_end_matches(".pt.trace")
        .trim_end_matches(".trace");
    let text = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name[text.len()..].parse().ok()
}

/// The device of the first device row. Reads as far as that is.
fn first_device(path: &Path) -> Option<i64> {
    const KEY: &[u8] = b"\"device\"";
    let mut content = input::open(path, &Progress::hidden()).ok()?.content;
    let (mut text, mut piece) = (Vec::<u8>::new(), vec![0; TAIL]);
    loop {
        let read = content.read(&mut piece).ok()?;
        if read == 0 {
            return None;
        }
        text.extend_from_slice(&piece[..read]);
        let found = memchr::memmem::find(&text, KEY).and_then(|at| text_after(&text[at..], KEY));
        if let Some(device) = found.and_then(integer) {
            return Some(device);
        }
        text.drain(..text.len().saturating_sub(KEY.len() + 32));
    }
}

/// Leaves the rank open of traces that are byte for byte one, and claim different ranks: a copy under
/// another name says nothing of that rank. Of traces that name their machine, `select_run` tells.
pub(super) fn refuse_copies(candidates: &mut [TraceCandidate], notes: &mut Vec<String>) {
    let mut alike: BTreeMap<(Option<i64>, Option<i64>, u64), Vec<usize>> = BTreeMap::new();
    for (at, candidate) in candidates
        .iter()
        .enumerate()
        .filter(|(_, one)| is_device(one))
    {
        let recorder = &candidate.inside.recorder;
        let size = storage::file_data(&candidate.path).map(|data| data.bytes);
        if let (Some(start), None, Ok(size)) = (recorder.start_ns, &recorder.host, size) {
            alike
                .entry((recorder.process, Some(start), size))
                .or_default()
                .push(at);
        }
    }
    // Where all are alike nothing is a copy of anything: they were generated.
    let devices = candidates.iter().filter(|one| is_device(one)).count();
    let some = alike.values().filter(|own| own.len() < devices);
    for pair in some.flat_map(|own| own.windows(2)) {
        let [one, two] = [pair[0], pair[1]].map(|at| &candidates[at]);
        if one.rank == two.rank || !are_same_bytes(&one.path, &two.path) {
            continue;
        }
        notes.push(format!(
            "{} and {} have the same content under two names: one is a copy of the other, and neither \
             is taken for a rank. Keep the one whose rank you know",
            file_name(&one.path),
            file_name(&two.path)
        ));
        for at in pair {
            candidates[*at].rank = None;
            candidates[*at].told_by = RankRule::Unknown;
        }
    }
}

fn are_same_bytes(one: &Path, two: &Path) -> bool {
    let open = |path| input::open(path, &Progress::hidden()).map(|input| input.content);
    let (Ok(mut one), Ok(mut two)) = (open(one), open(two)) else {
        return false;
    };
    let (mut first, mut second) = (vec![0; TAIL], vec![0; TAIL]);
    loop {
        let (Some(read), Some(other)) = (fill(&mut one, &mut first), fill(&mut two, &mut second))
        else {
            return false;
        };
        if first[..read] != second[..other] {
            return false;
        }
        if read == 0 {
            return true;
        }
    }
}

/// Reads until a buffer is full or the content ends.
fn fill(content: &mut impl Read, buffer: &mut [u8]) -> Option<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match content.read(&mut buffer[filled..]).ok()? {
            0 => break,
            read => filled += read,
        }
    }
    Some(filled)
}

fn is_engine_name(stem: &str) -> bool {
    let lower = stem.to_lowercase();
    lower.contains("-tp-") || lower.contains("_tp") && lower.contains("rank")
}

/// Numbers places from the innermost axis on. Axes that no place is needed for are left out: those
/// of experts and contexts can be within others.
fn mixed_radix(
    all: &BTreeMap<usize, BTreeMap<&str, i64>>,
    order: &[&str],
) -> Option<BTreeMap<usize, i64>> {
    let mut ranks: BTreeMap<usize, i64> = all.keys().map(|at| (*at, 0)).collect();
    let mut stride = 1;
    let mut known = 1;
    for axis in order {
        let places: Option<Vec<i64>> = all.values().map(|own| own.get(axis).copied()).collect();
        let Some(most) = places.and_then(|places| places.into_iter().max()) else {
            continue;
        };
        let with: BTreeMap<usize, i64> = ranks
            .iter()
            .map(|(at, rank)| (*at, rank + stride * all[at].get(axis).copied().unwrap_or(0)))
            .collect();
        let distinct: BTreeSet<i64> = with.values().copied().collect();
        // an axis that tells no more files apart is inside of those before it
        if distinct.len() > known {
            (ranks, known) = (with, distinct.len());
            stride *= most + 1;
        }
    }
    (known > 1).then_some(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_give_ranks_by_sizes() {
        let ranks = |stems: &[&str], order: &[&str]| {
            let all = stems.iter().enumerate();
            let all = all.map(|(at, stem)| (at, places(stem))).collect();
            mixed_radix(&all, order).map(|ranks| ranks.into_values().collect::<Vec<_>>())
        };
        let sglang = ["1-TP-0-PP-0", "1-TP-0-PP-1", "1-TP-1-PP-0", "1-TP-1-PP-1"];
        assert_eq!(ranks(&sglang, &AXES_OF_ENGINES), Some(vec![0, 2, 1, 3]));
        // experts are inside of tensor-parallel groups
        let experts = ["1-TP-0-EP-0", "1-TP-1-EP-0", "1-TP-2-EP-1", "1-TP-3-EP-1"];
        assert_eq!(ranks(&experts, &AXES_OF_ENGINES), Some(vec![0, 1, 2, 3]));
        let vllm = [
            "dp0_pp0_tp0_rank0",
            "dp1_pp0_tp0_rank0",
            "dp0_pp1_tp0_rank1",
            "dp1_pp1_tp0_rank1",
        ];
        assert_eq!(ranks(&vllm, &AXES_OF_ENGINES), Some(vec![0, 2, 1, 3]));
        let megatron = ["tp0_pp0_dp0", "tp0_pp0_dp1", "tp0_pp1_dp0", "tp0_pp1_dp1"];
        assert_eq!(ranks(&megatron, &AXES), Some(vec![0, 1, 2, 3]));
        assert_eq!(ranks(&["rank0", "rank1"], &AXES), None);
    }
}
