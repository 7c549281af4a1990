//! Separates the recordings of a run in one folder, as written with `schedule(repeat=2)`.
//!
//! ```text
//! rank 0   [=======]        [=======]        [=======]
//! rank 1    [=======]        [=======]                     3 cycles; the last lacks rank 1
//! ```
//! A process records once at a time, and the ranks of a run record at nearly the same time. So the
//! times of recordings assign them to cycles. Names do if they are equal apart from the rank
//! (`kineto_trace_0.cycle1.json`, `kineto_trace_1.cycle1.json`), or by their order in traces that
//! state no time. Names also give the name of a cycle: `cycle1`, `step100`, `DECODE`.

use super::candidate::{TraceCandidate, natural_key, rank_in_name};
use crate::storage;
use etlink_model::{Diagnostic, diagnostic};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Prefix of a cycle's name, before its number, if the names have no counting word.
const CYCLE: &str = "cycle";

/// Words before a number that counts recordings.
const COUNTING_WORDS: [&str; 7] = [
    CYCLE,
    "epoch",
    "iter",
    "iteration",
    "repeat",
    "round",
    "step",
];

/// Host and device traces of each rank.
pub(super) type RankCandidates = BTreeMap<i64, [Vec<TraceCandidate>; 2]>;

/// The ranks of one cycle, and the cycle's name.
pub(super) struct Cycle {
    pub(super) name: String,
    pub(super) ranks: RankCandidates,
}

/// Cycles of a folder.
pub(super) struct FolderCycles {
    pub(super) cycles: Vec<Cycle>,
    /// Note on the cycles.
    pub(super) note: Diagnostic,
}

/// Device traces of one recording, by rank.
type Recording<'t> = BTreeMap<i64, &'t TraceCandidate>;

/// Returns the cycles in their order; `None` if no rank has several, or if nothing assigns them.
/// O(files log files).
pub(super) fn split_cycles(ranks: &RankCandidates) -> Option<FolderCycles> {
    let of_ranks = ranks.values().map(|[_, own]| own);
    let of_ranks: Vec<_> = of_ranks.filter(|own| !own.is_empty()).collect();
    let devices = ranks.iter();
    let devices = devices.flat_map(|(rank, [_, own])| own.iter().map(|trace| (*rank, trace)));
    let devices: Vec<_> = devices.collect();
    let by_name = by_name(&devices);
    let are_whole = by_name.iter().all(|one| one.len() == of_ranks.len());
    let are_named = are_whole && of_ranks.len() > 1;
    let mut several = of_ranks.iter().filter(|own| own.len() > 1).peekable();
    if several.peek().is_none() || !several.all(|own| may_be_recordings(own, are_named)) {
        return None;
    }
    let recordings = match by_time(&devices) {
        _ if are_whole => by_name,
        Some(recordings) => recordings,
        None if by_name.iter().any(|one| one.len() > 1) => by_name,
        None => by_order(ranks)?,
    };
    let names = name_recordings(&recordings);
    let (mut cycles, mut lacks) = (vec![], vec![]);
    for (place, (recording, name)) in recordings.iter().zip(names).enumerate() {
        let mut own = RankCandidates::new();
        for (rank, [hosts, devices]) in ranks {
            let device = recording.get(rank).copied();
            if device.is_none() && !devices.is_empty() {
                lacks.push(format!("{name} has no trace of rank {rank}"));
                continue;
            }
            // one observer writes a single host trace over all cycles
            let host = match &hosts[..] {
                [] => None,
                [only] => Some(only).filter(|host| !is_other_process(host, device)),
                _ => host_of(hosts, device, (place, recordings.len())),
            };
            let of_rank = [host.cloned(), device.cloned()];
            own.insert(*rank, of_rank.map(|trace| trace.into_iter().collect()));
        }
        cycles.push(Cycle { name, ranks: own });
    }
    let names: Vec<&str> = cycles.iter().map(|cycle| cycle.name.as_str()).collect();
    let about = format!("{} recordings of the ranks", cycles.len());
    let mut note = format!("{about} ({}), each a run", names.join(", "));
    if !lacks.is_empty() {
        note += &format!("; {}", lacks.join("; "));
    }
    let note = diagnostic!(CyclesSplit, "{note}");
    Some(FolderCycles { cycles, note })
}

/// Returns true if the names of device traces that differ in more than their ranks make separate
/// runs: of `world` ranks each, or of several ranks if the size of the world is unknown (0).
/// `None`: the traces state different sizes.
pub(super) fn are_runs_by_name(candidates: &[TraceCandidate], world: Option<i64>) -> bool {
    let devices = candidates.iter().filter(|one| one.kind.is_device_trace());
    let devices = devices.filter_map(|one| Some((one.rank?, one)));
    let runs = by_name(&devices.collect::<Vec<_>>());
    runs.len() > 1
        && runs.iter().all(|run| match world {
            Some(0) => run.len() > 1,
            Some(world) => run.len() as i64 == world,
            None => true,
        })
}

/// Returns true if a rank's traces may be several recordings. An exact name, such as
/// `kineto_trace_0`, is of another kind of trace than names with other words, unless each of these
/// names has all ranks (`are_named`). Two recorders make one run, and traces that state different
/// ranks or sizes have local ranks in their names.
fn may_be_recordings(traces: &[TraceCandidate], are_named: bool) -> bool {
    let about = |one: &TraceCandidate| (one.kind, one.inside.rank, one.inside.world_size);
    let mut pairs = traces.windows(2);
    let are_alike = pairs.all(|pair| about(&pair[0]) == about(&pair[1]));
    let exact = traces.iter().filter(|one| !one.variant).count();
    let names: BTreeSet<Vec<String>> = traces
        .iter()
        .map(|one| words(&one.stem).collect())
        .collect();
    are_alike && (are_named || exact == 0 || exact > 1 && names.len() == 1)
}

/// Assigns recordings by names that are equal apart from the rank.
fn by_name<'t>(devices: &[(i64, &'t TraceCandidate)]) -> Vec<Recording<'t>> {
    let mut found: BTreeMap<_, Recording> = BTreeMap::new();
    for (rank, trace) in devices {
        let stem = &trace.stem;
        let own = rank_in_name(stem).filter(|(named, _)| named == rank);
        let rest = own.map_or(stem.clone(), |(_, at)| {
            format!("{}#{}", &stem[..at.start], &stem[at.end..])
        });
        let recording = found.entry(natural_key(&rest)).or_default();
        recording.insert(*rank, trace);
    }
    found.into_values().collect()
}

/// Assigns recordings by their starts: those of one cycle are closer together than half of the
/// shortest time between two recordings of a rank.
fn by_time<'t>(devices: &[(i64, &'t TraceCandidate)]) -> Option<Vec<Recording<'t>>> {
    let mut starts = vec![];
    for (rank, trace) in devices {
        starts.push((trace.inside.recorder.start_ns?, *rank, *trace));
    }
    starts.sort_by_key(|(start, rank, _)| (*start, *rank));
    let (mut last, mut period) = (BTreeMap::new(), i64::MAX);
    for (start, rank, _) in &starts {
        if let Some(before) = last.insert(*rank, *start) {
            period = period.min(start - before);
        }
    }
    let mut found: Vec<(i64, Recording)> = vec![];
    for (start, rank, trace) in starts {
        match found.last_mut() {
            Some((first, recording))
                if start - *first < period / 2 && !recording.contains_key(&rank) =>
            {
                recording.insert(rank, trace);
            }
            _ => found.push((start, BTreeMap::from([(rank, trace)]))),
        }
    }
    Some(found.into_iter().map(|(_, recording)| recording).collect())
}

/// Assigns recordings by the order of their names, if each rank has equally many.
fn by_order(ranks: &RankCandidates) -> Option<Vec<Recording<'_>>> {
    let mut found: Vec<Recording> = vec![];
    for (rank, [_, own]) in ranks {
        for (place, trace) in in_order(own).into_iter().enumerate() {
            match found.get_mut(place) {
                Some(recording) => recording.insert(*rank, trace),
                None => {
                    found.push(BTreeMap::from([(*rank, trace)]));
                    None
                }
            };
        }
    }
    let with_devices = ranks.values().filter(|[_, own]| !own.is_empty()).count();
    let are_whole = found.iter().all(|one| one.len() == with_devices);
    are_whole.then_some(found)
}

/// Sorts traces by the numbers in their names.
fn in_order(traces: &[TraceCandidate]) -> Vec<&TraceCandidate> {
    let mut order: Vec<&TraceCandidate> = traces.iter().collect();
    order.sort_by_cached_key(|trace| natural_key(&trace.stem));
    order
}

/// Returns true if two processes are known to have recorded a host trace and a device trace.
fn is_other_process(host: &TraceCandidate, device: Option<&TraceCandidate>) -> bool {
    let process = host.inside.recorder.process;
    let other = device.and_then(|device| device.inside.recorder.process);
    process.zip(other).is_some_and(|(own, other)| own != other)
}

/// Returns the host trace of a cycle: that of the device trace's process, with its number in the
/// name, or at its place among equally many.
fn host_of<'t>(
    hosts: &'t [TraceCandidate],
    device: Option<&TraceCandidate>,
    (place, count): (usize, usize),
) -> Option<&'t TraceCandidate> {
    let device = device?;
    let process = device.inside.recorder.process;
    let own = in_order(hosts).into_iter();
    let own = own.filter(|host| host.inside.recorder.process == process || process.is_none());
    let own: Vec<&TraceCandidate> = own.collect();
    let number = counted(&device.stem);
    let mut named = own.iter().filter(|host| counted(&host.stem) == number);
    match (&own[..], number.and(named.next())) {
        ([only], _) => Some(only),
        (_, Some(named)) => Some(named),
        (own, None) if own.len() == count => Some(own[place]),
        (_, None) => None,
    }
}

/// Names recordings by the words that the others lack, and the number after a counting word, or
/// their place.
fn name_recordings(recordings: &[Recording]) -> Vec<String> {
    let all = recordings.iter().flat_map(BTreeMap::values);
    let everywhere = common(all.map(|trace| words(&trace.stem).collect()));
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut parts = vec![];
    for recording in recordings {
        let stems = || recording.values().map(|trace| trace.stem.as_str());
        let shared = common(stems().map(|stem| words(stem).collect()));
        let own = stems().next().into_iter().flat_map(words);
        let own = own.filter(|word| shared.contains(word) && !everywhere.contains(word));
        let own = own.filter(|word| !COUNTING_WORDS.contains(&word.to_lowercase().as_str()));
        let own = own.collect::<Vec<String>>().join("-");
        let mut numbers: BTreeSet<_> = stems().map(counted).collect();
        let number = numbers.pop_first().flatten();
        let number = if numbers.is_empty() { number } else { None };
        let place = places.entry(own.clone()).or_default();
        *place += 1;
        parts.push((own, number, *place));
    }
    let name = |(own, number, place): &(String, Option<(&str, u128)>, usize)| match number {
        Some((word, number)) if own.is_empty() => format!("{word}{number}"),
        Some((word, number)) => format!("{own}-{word}{number}"),
        None if own.is_empty() => format!("{CYCLE}{place}"),
        None if places.get(own) == Some(&1) => own.clone(),
        None => format!("{own}-{CYCLE}{place}"),
    };
    let names: Vec<String> = parts.iter().map(name).collect();
    if names.iter().collect::<BTreeSet<_>>().len() == names.len() {
        return names;
    }
    let places = 1..=recordings.len();
    places.map(|place| format!("{CYCLE}{place}")).collect()
}

fn common(mut all: impl Iterator<Item = BTreeSet<String>>) -> BTreeSet<String> {
    let first = all.next().unwrap_or_default();
    all.fold(first, |common, own| &common & &own)
}

/// Returns the words of a text: sequences of letters.
fn words(text: &str) -> impl Iterator<Item = String> {
    let all = text.split(|c: char| !c.is_alphabetic());
    all.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// Returns the last counting word in a name that precedes a number, and the number.
fn counted(stem: &str) -> Option<(&'static str, u128)> {
    let lower = stem.to_lowercase();
    let parts: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let joined = parts.iter().enumerate().rev();
    joined.into_iter().find_map(|(at, part)| {
        let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
        let word = COUNTING_WORDS.into_iter().find(|known| *known == word)?;
        let digits = match &part[word.len()..] {
            "" => parts.get(at + 1)?,
            digits => digits,
        };
        Some((word, digits.parse().ok()?))
    })
}

/// Returns true if a cycle of a folder's files may have this name.
pub(super) fn may_name_cycle(name: &str, folder: &Path) -> bool {
    let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
    // the subfolders of ranks may have that name: `rank0/iteration_10`
    if word.len() < name.len() && COUNTING_WORDS.contains(&word.trim_end_matches(['_', '-'])) {
        return true;
    }
    // A word in the names, possibly followed by more. File names are excluded.
    let mut bytes = name.bytes();
    let first = name.split('-').next().unwrap_or(name);
    !first.is_empty()
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && storage::list(folder).is_ok_and(|entries| {
            let mut files = entries.iter().filter(|entry| !entry.is_folder);
            files.any(|file| words(&file.name().to_string_lossy()).any(|other| other == first))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::InputKind;
    use std::path::PathBuf;

    /// Returns device traces of ranks with these names, which state no times.
    fn folder(names: &[(i64, &str)]) -> RankCandidates {
        let mut ranks = RankCandidates::new();
        for (rank, stem) in names {
            let [_, devices] = ranks.entry(*rank).or_default();
            devices.push(TraceCandidate {
                path: PathBuf::from(format!("{stem}.json")),
                stem: (*stem).to_owned(),
                kind: InputKind::KinetoTrace,
                process: None,
                by_order: false,
                rank: Some(*rank),
                told_by: Default::default(),
                inside: Default::default(),
                is_unread: false,
                variant: true,
            });
        }
        ranks
    }

    /// Returns each cycle with its ranks and their files.
    fn split(names: &[(i64, &str)]) -> Vec<String> {
        let mut lines = vec![];
        let found = split_cycles(&folder(names));
        for cycle in found.map(|found| found.cycles).unwrap_or_default() {
            let mut line = cycle.name;
            for (rank, [_, devices]) in &cycle.ranks {
                line += &format!(" {rank}:{}", devices[0].stem);
            }
            lines.push(line);
        }
        lines
    }

    #[test]
    fn traces_without_times_are_assigned_by_names() {
        let names = [
            (0, "rank0.cycle10"),
            (0, "rank0.cycle9"),
            (1, "rank1.cycle9"),
        ];
        let expected = [
            "cycle9 0:rank0.cycle9 1:rank1.cycle9",
            "cycle10 0:rank0.cycle10",
        ];
        assert_eq!(split(&names), expected);
        // times in names only have an order, which is unclear if a rank lacks one
        let names = [
            (0, "a_67.1795"),
            (0, "a_68.1805"),
            (1, "b_68.1806"),
            (1, "b_67.1796"),
        ];
        let expected = [
            "cycle1 0:a_67.1795 1:b_67.1796",
            "cycle2 0:a_68.1805 1:b_68.1806",
        ];
        assert_eq!(split(&names), expected);
        assert_eq!(split(&names[..3]), [""; 0]);
        assert_eq!(split(&[(0, "rank0.cycle1"), (1, "rank1.cycle1")]), [""; 0]);
    }

    #[test]
    fn recordings_are_called_by_what_the_others_lack() {
        let mut names = vec![];
        for time in ["17.5", "18.5"] {
            for rank in [0, 1] {
                for stage in ["EXTEND", "DECODE"] {
                    names.push((rank, format!("{time}-TP-{rank}-EP-0-{stage}.trace")));
                }
            }
        }
        let names: Vec<(i64, &str)> = names.iter().map(|(rank, name)| (*rank, &**name)).collect();
        let called = |names| -> Vec<String> {
            let lines = split(names).into_iter();
            lines
                .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
                .collect()
        };
        assert_eq!(called(&names[..4]), ["DECODE", "EXTEND"]);
        let twice = [
            "DECODE-cycle1",
            "EXTEND-cycle1",
            "DECODE-cycle2",
            "EXTEND-cycle2",
        ];
        assert_eq!(called(&names), twice);
        assert_eq!(
            called(&[(0, "rank0_step_100.x"), (0, "rank0_step_200.x")]),
            ["step100", "step200"]
        );
    }

    #[test]
    fn two_recorders_of_a_rank_are_no_cycles() {
        let mut ranks = folder(&[(0, "a_0.x"), (0, "b_0.x"), (1, "a_1.x"), (1, "b_1.x")]);
        assert!(split_cycles(&ranks).is_some());
        for [_, devices] in ranks.values_mut() {
            devices[1].kind = InputKind::NsysSqlite;
        }
        assert!(split_cycles(&ranks).is_none());
    }
}
