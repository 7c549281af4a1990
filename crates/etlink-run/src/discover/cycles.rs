//! Several recordings of a run in one folder, as written with `schedule(repeat=2)`.
//!
//! ```text
//! torch_et_0.json               the host trace spans all cycles
//! kineto_trace_0.cycle1.json  ┐ names of a rank that differ in numbers alone:
//! kineto_trace_0.cycle2.json  ┘ each number is a cycle
//!
//! 17.5-TP-0-EXTEND.trace.json ┐ names of a rank that differ in words, which other ranks have too:
//! 17.5-TP-0-DECODE.trace.json ┘ each word is a recording
//! ```
//! Numbers shared by ranks determine the files of one cycle. Times differ between ranks: then the
//! first recordings of all ranks are one cycle, the second ones the next, and so on.

use super::candidate::TraceCandidate;
use crate::storage;
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

/// Least number taken for a time: seconds since 1970, or smaller units.
const FIRST_TIME: u128 = 1_000_000_000;

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
    /// Note on the cycles and the rule that found them.
    pub(super) note: String,
}

/// Returns the cycles in their order; `None` if names do not distinguish them. O(files log files).
pub(super) fn split_cycles(ranks: &RankCandidates) -> Option<FolderCycles> {
    let mut devices = vec![];
    let mut several_hosts = vec![];
    for (rank, [own_hosts, own_devices]) in ranks {
        devices.extend(named_traces(*rank, own_devices)?);
        if own_hosts.len() > 1 {
            several_hosts.extend(named_traces(*rank, own_hosts)?);
        }
    }
    let recordings = recordings(devices)?;
    if recordings.len() < 2 {
        return None;
    }
    // One observer writes a single host trace over all cycles; several are named like device
    // traces.
    let host_recordings = if several_hosts.is_empty() {
        vec![]
    } else {
        recordings_of_hosts(several_hosts, &recordings)?
    };
    let mut cycles: Vec<Cycle> = vec![];
    for recording in &recordings {
        let own_hosts = host_recordings
            .iter()
            .find(|hosts| hosts.name == recording.name);
        let mut cycle = Cycle {
            name: recording.name.clone(),
            ranks: RankCandidates::new(),
        };
        for (rank, [hosts, devices]) in ranks {
            let device = recording.traces.get(rank);
            // a note lists the ranks that a cycle lacks
            if device.is_none() && !devices.is_empty() {
                continue;
            }
            let hosts = match hosts.len() {
                0 | 1 => hosts.clone(),
                _ => {
                    let own = own_hosts.and_then(|hosts| hosts.traces.get(rank));
                    own.cloned().into_iter().collect()
                }
            };
            let device = device.cloned().into_iter().collect();
            cycle.ranks.insert(*rank, [hosts, device]);
        }
        cycles.push(cycle);
    }
    let note = describe(ranks, &recordings);
    Some(FolderCycles { cycles, note })
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

/// A trace of a rank, with its name split.
struct NamedTrace {
    rank: i64,
    parts: NameParts,
    trace: TraceCandidate,
}

/// Traces of one recording, at most one per rank.
struct Recording {
    name: String,
    /// Words in the names that identify the recording; empty if there are none.
    words: String,
    /// True if a counting word precedes its number.
    is_counted: bool,
    /// True if only the order of the numbers in the names assigns the ranks' files to it.
    by_order: bool,
    traces: BTreeMap<i64, TraceCandidate>,
}

/// Returns the names of a rank's traces; `None` if these are not several recordings.
fn named_traces(rank: i64, traces: &[TraceCandidate]) -> Option<Vec<NamedTrace>> {
    // The exact name `kineto_trace_0.json` has precedence over `kineto_trace_0.run1.json`.
    let exact = traces.iter().filter(|trace| !trace.variant);
    if traces.len() > 1 && exact.count() == 1 {
        return None;
    }
    // Traces of two recorders are one run.
    let are_alike = traces.windows(2).all(|pair| pair[0].kind == pair[1].kind);
    // Files that state different ranks or sizes are one recording, with local ranks in their names.
    let ranks: BTreeSet<Option<i64>> = traces.iter().map(|one| one.inside.rank).collect();
    let worlds: BTreeSet<Option<i64>> = traces.iter().map(|one| one.inside.world_size).collect();
    if !are_alike || ranks.len() > 1 || worlds.len() > 1 {
        return None;
    }
    let named = traces.iter().map(|trace| NamedTrace {
        rank,
        parts: NameParts::of(&trace.stem),
        trace: trace.clone(),
    });
    Some(named.collect())
}

/// Sorts traces into recordings, by words in their names and then by numbers.
fn recordings(traces: Vec<NamedTrace>) -> Option<Vec<Recording>> {
    let mut recordings = vec![];
    for (words, own) in split_by_words(traces)? {
        recordings.extend(split_by_numbers(words, own)?);
    }
    let names: BTreeSet<&str> = recordings.iter().map(|one| one.name.as_str()).collect();
    (names.len() == recordings.len()).then_some(recordings)
}

/// Sorts host traces into recordings with the same names as the device recordings; `None` if they
/// do not match.
fn recordings_of_hosts(hosts: Vec<NamedTrace>, devices: &[Recording]) -> Option<Vec<Recording>> {
    let mut hosts = recordings(hosts)?;
    let names: BTreeSet<&str> = hosts.iter().map(|one| one.name.as_str()).collect();
    if devices.iter().all(|one| names.contains(one.name.as_str())) {
        return Some(hosts);
    }
    // numbers without a counting word only have an order
    let are_explained = hosts
        .iter()
        .any(|one| !one.words.is_empty() || one.is_counted);
    if are_explained || hosts.len() != devices.len() {
        return None;
    }
    for (host, device) in hosts.iter_mut().zip(devices) {
        host.name.clone_from(&device.name);
    }
    Some(hosts)
}

/// Groups traces by the words in their names. A group is named by the words that the others lack.
/// Returns a single group without words if all names of each rank have the same words.
fn split_by_words(traces: Vec<NamedTrace>) -> Option<Vec<(String, Vec<NamedTrace>)>> {
    let mut texts_of: BTreeMap<i64, BTreeSet<Vec<String>>> = BTreeMap::new();
    let mut ranks_of: BTreeMap<Vec<String>, BTreeSet<i64>> = BTreeMap::new();
    for trace in &traces {
        let texts = trace.parts.texts();
        let own = texts_of.entry(trace.rank).or_default();
        own.insert(texts.clone());
        ranks_of.entry(texts).or_default().insert(trace.rank);
    }
    // Names of ranks may begin with the host name.
    if texts_of.values().all(|texts| texts.len() == 1) {
        return Some(vec![(String::new(), traces)]);
    }
    // Different names of one rank's files may mean anything, and so may names of only a kind and a
    // rank. Words that several ranks share are intentional.
    let are_shared = ranks_of.values().all(|ranks| ranks.len() > 1);
    if !are_shared || traces.iter().any(|trace| !trace.trace.variant) {
        return None;
    }
    let mut shared: Option<BTreeSet<String>> = None;
    for texts in ranks_of.keys() {
        let own: BTreeSet<String> = texts.iter().flat_map(|text| words(text)).collect();
        shared = Some(match shared {
            None => own,
            Some(shared) => shared.intersection(&own).cloned().collect(),
        });
    }
    let shared = shared.unwrap_or_default();
    let mut groups: BTreeMap<String, (Vec<String>, Vec<NamedTrace>)> = BTreeMap::new();
    for trace in traces {
        let texts = trace.parts.texts();
        let own = texts.iter().flat_map(|text| words(text));
        let own: Vec<String> = own.filter(|word| !shared.contains(word)).collect();
        let group = groups.entry(own.join("-"));
        let group = group.or_insert_with(|| (texts.clone(), vec![]));
        // the same words between different characters are ambiguous
        if group.0 != texts {
            return None;
        }
        group.1.push(trace);
    }
    if groups.contains_key("") {
        return None;
    }
    let groups = groups.into_iter().map(|(words, (_, own))| (words, own));
    Some(groups.collect())
}

/// Splits traces whose names have the same words by their numbers.
fn split_by_numbers(words: String, traces: Vec<NamedTrace>) -> Option<Vec<Recording>> {
    let mut by_rank: BTreeMap<i64, Vec<&NamedTrace>> = BTreeMap::new();
    for trace in &traces {
        by_rank.entry(trace.rank).or_default().push(trace);
    }
    let columns = telling_columns(&traces, &by_rank);
    let Some(first) = columns.first() else {
        return Some(vec![only_recording(words, by_rank)?]);
    };
    // the fewest numbers that distinguish the traces of each rank: another may be a process id
    let count = (1..=columns.len()).find(|count| are_distinct(&by_rank, &columns[..*count]))?;
    let columns = &columns[..count];
    let keys: Vec<BTreeSet<Vec<u128>>> =
        by_rank.values().map(|own| keys_of(own, columns)).collect();
    let all: BTreeSet<Vec<u128>> = keys.iter().flatten().cloned().collect();
    let are_same = keys.iter().all(|own| *own == all);
    let are_shared = all.len() < keys.iter().map(BTreeSet::len).sum::<usize>();
    // Two ranks may begin at the same time by chance.
    let by_number = first.word.is_some() || are_same || (are_shared && !first.is_time);
    let have_as_many = keys.windows(2).all(|pair| pair[0].len() == pair[1].len());
    if !by_number && !have_as_many {
        return None;
    }
    let mut found: BTreeMap<Vec<u128>, BTreeMap<i64, TraceCandidate>> = BTreeMap::new();
    for (rank, mut own) in by_rank {
        own.sort_by_cached_key(|trace| key_of(trace, columns));
        for (place, trace) in own.into_iter().enumerate() {
            let key = if by_number {
                key_of(trace, columns)
            } else {
                vec![place as u128]
            };
            let recording = found.entry(key).or_default();
            recording.insert(rank, trace.trace.clone());
        }
    }
    let mut recordings = vec![];
    for (place, (key, traces)) in (1..).zip(found) {
        let number = match (&first.word, &key[..]) {
            (Some(word), [number]) => format!("{word}{number}"),
            _ => format!("{CYCLE}{place}"),
        };
        recordings.push(Recording {
            name: if words.is_empty() {
                number
            } else {
                format!("{words}-{number}")
            },
            words: words.clone(),
            is_counted: first.word.is_some(),
            by_order: !by_number,
            traces,
        });
    }
    Some(recordings)
}

/// Returns the only recording of traces that no number distinguishes; `None` if a rank has several.
fn only_recording(words: String, by_rank: BTreeMap<i64, Vec<&NamedTrace>>) -> Option<Recording> {
    let mut traces = BTreeMap::new();
    for (rank, own) in by_rank {
        let [only] = own[..] else { return None };
        traces.insert(rank, only.trace.clone());
    }
    Some(Recording {
        name: if words.is_empty() {
            CYCLE.to_owned()
        } else {
            words.clone()
        },
        words,
        is_counted: false,
        by_order: false,
        traces,
    })
}

/// A position in all names with a number that may distinguish recordings.
struct NumberColumn {
    /// Count of numbers after it.
    from_end: usize,
    /// Counting word before it, if any.
    word: Option<&'static str>,
    /// True if its numbers are times.
    is_time: bool,
}

/// Returns the positions whose numbers differ between traces of a rank, the most certain first:
/// those with a counting word, then times, then the last. Names begin with the process id, which
/// says nothing about time.
fn telling_columns(
    traces: &[NamedTrace],
    by_rank: &BTreeMap<i64, Vec<&NamedTrace>>,
) -> Vec<NumberColumn> {
    let counts = traces.iter().map(|trace| trace.parts.numbers.len());
    let all: Vec<&NamedTrace> = traces.iter().collect();
    let mut columns = vec![];
    for from_end in 0..counts.min().unwrap_or(0) {
        let mut ranks = by_rank.values();
        let word = counting_word(traces, from_end);
        // after a counting word, a number also distinguishes ranks with one trace each
        let varies = ranks.any(|own| numbers_at(own, from_end).len() > 1)
            || (word.is_some() && numbers_at(&all, from_end).len() > 1);
        if varies {
            let numbers = numbers_at(&all, from_end);
            columns.push(NumberColumn {
                from_end,
                word,
                is_time: numbers.first().is_some_and(|least| *least >= FIRST_TIME),
            });
        }
    }
    columns.sort_by_key(|column| (column.word.is_none(), !column.is_time, column.from_end));
    columns
}

/// Returns the numbers at one position of names.
fn numbers_at(traces: &[&NamedTrace], from_end: usize) -> BTreeSet<u128> {
    let traces = traces.iter();
    traces
        .map(|trace| trace.parts.number_at(from_end).1)
        .collect()
}

/// Returns the counting word before a number, if it is the same in all names.
fn counting_word(traces: &[NamedTrace], from_end: usize) -> Option<&'static str> {
    let mut found = None;
    for trace in traces {
        let (text, _) = trace.parts.number_at(from_end);
        let last = words(text).last().unwrap_or_default().to_lowercase();
        let word = COUNTING_WORDS.into_iter().find(|word| *word == last)?;
        if found.is_some_and(|found| found != word) {
            return None;
        }
        found = Some(word);
    }
    found
}

fn key_of(trace: &NamedTrace, columns: &[NumberColumn]) -> Vec<u128> {
    let numbers = columns.iter();
    numbers
        .map(|column| trace.parts.number_at(column.from_end).1)
        .collect()
}

fn keys_of(traces: &[&NamedTrace], columns: &[NumberColumn]) -> BTreeSet<Vec<u128>> {
    let traces = traces.iter();
    traces.map(|trace| key_of(trace, columns)).collect()
}

/// Returns true if the numbers distinguish the traces of each rank.
fn are_distinct(by_rank: &BTreeMap<i64, Vec<&NamedTrace>>, columns: &[NumberColumn]) -> bool {
    let mut ranks = by_rank.values();
    ranks.all(|own| keys_of(own, columns).len() == own.len())
}

/// Returns a note on the recordings of a folder.
fn describe(ranks: &RankCandidates, recordings: &[Recording]) -> String {
    let mut words: Vec<&str> = recordings.iter().map(|one| one.words.as_str()).collect();
    words.dedup();
    let with_devices = ranks.iter().filter(|(_, [_, devices])| !devices.is_empty());
    let counts: BTreeSet<usize> = with_devices
        .clone()
        .map(|(_, [_, devices])| devices.len())
        .collect();
    let who = match counts.first() {
        Some(count) if counts.len() == 1 && *count > 1 => {
            format!("each rank has {count} device traces, and their names")
        }
        _ => "names of device traces".to_owned(),
    };
    let by_order = recordings.iter().any(|one| one.by_order);
    let mut note = match (&words[..], by_order) {
        ([""], true) => format!(
            "{who} differ only in numbers: {} cycles in the order of these numbers, each a run",
            recordings.len()
        ),
        ([""], false) => format!(
            "{who} differ only in numbers: {} cycles, each a run",
            recordings.len()
        ),
        _ => format!(
            "{who} differ in words ({}): {} runs",
            words.join(", "),
            recordings.len()
        ),
    };
    let mut lacks = vec![];
    for recording in recordings {
        let missing: Vec<String> = with_devices
            .clone()
            .filter(|(rank, _)| !recording.traces.contains_key(rank))
            .map(|(rank, _)| rank.to_string())
            .collect();
        if !missing.is_empty() {
            let whose = match missing.len() {
                1 => "trace of rank",
                _ => "traces of ranks",
            };
            lacks.push(format!(
                "{} has no {whose} {}",
                recording.name,
                missing.join(", ")
            ));
        }
    }
    if !lacks.is_empty() {
        note += &format!("; {}", lacks.join("; "));
    }
    note
}

/// Returns the words of a text: sequences of letters and digits.
fn words(text: &str) -> impl Iterator<Item = String> {
    let all = text.split(|c: char| !c.is_alphanumeric());
    all.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// A name, split where digits begin and end.
#[derive(Default)]
struct NameParts {
    /// Numbers, each with the text before it.
    numbers: Vec<(String, u128)>,
    /// Text after the last number.
    tail: String,
}

impl NameParts {
    fn of(stem: &str) -> NameParts {
        let mut parts = NameParts::default();
        let mut rest = stem;
        let mut text = String::new();
        while !rest.is_empty() {
            let text_end = rest.find(|c: char| c.is_ascii_digit());
            let (before, behind) = rest.split_at(text_end.unwrap_or(rest.len()));
            let digits_end = behind.find(|c: char| !c.is_ascii_digit());
            let (digits, behind) = behind.split_at(digits_end.unwrap_or(behind.len()));
            text += before;
            // digits that exceed any clock are text
            match digits.parse() {
                Ok(number) => parts.numbers.push((std::mem::take(&mut text), number)),
                Err(_) => text += digits,
            }
            rest = behind;
        }
        parts.tail = text;
        parts
    }

    /// Returns a number, given the count of numbers after it, with the text before it.
    fn number_at(&self, from_end: usize) -> (&str, u128) {
        let place = self.numbers.len().checked_sub(from_end + 1);
        let found = place.and_then(|place| self.numbers.get(place));
        found.map_or(("", 0), |(text, number)| (text.as_str(), *number))
    }

    /// Returns the texts between the numbers.
    fn texts(&self) -> Vec<String> {
        let texts = self.numbers.iter().map(|(text, _)| text.clone());
        texts.chain([self.tail.clone()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::InputKind;
    use std::path::PathBuf;

    /// Returns device traces of ranks with these names.
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
                is_view: false,
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
    fn names_are_cut_at_numbers() {
        let parts = NameParts::of("node1_42.1795.pt.trace");
        assert_eq!(parts.texts(), ["node", "_", ".", ".pt.trace"]);
        let numbers: Vec<u128> = parts.numbers.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, [1, 42, 1795]);
        assert_eq!(parts.number_at(1), ("_", 42));
        let long = "9".repeat(50);
        let parts = NameParts::of(&format!("a{long}-3"));
        assert_eq!(parts.number_at(0), (format!("a{long}-").as_str(), 3));
    }

    #[test]
    fn cycles_are_told_by_their_number_not_by_their_place() {
        assert_eq!(
            split(&[
                (0, "k_0.cycle1"),
                (0, "k_0.cycle2"),
                (1, "k_1.cycle2"),
                (1, "k_1.cycle3")
            ]),
            [
                "cycle1 0:k_0.cycle1",
                "cycle2 0:k_0.cycle2 1:k_1.cycle2",
                "cycle3 1:k_1.cycle3"
            ]
        );
        // the tenth comes after the ninth
        assert_eq!(
            split(&[(0, "k_0.cycle10"), (0, "k_0.cycle9"), (1, "k_1.cycle9")]),
            ["cycle9 0:k_0.cycle9 1:k_1.cycle9", "cycle10 0:k_0.cycle10"]
        );
        // also if each rank has one
        assert_eq!(
            split(&[(0, "k_0.step_100"), (1, "k_1.step_200")]),
            ["step100 0:k_0.step_100", "step200 1:k_1.step_200"]
        );
        assert_eq!(split(&[(0, "k_0.cycle1"), (1, "k_1.cycle1")]), [""; 0]);
    }

    #[test]
    fn times_are_told_by_their_place() {
        let names = [
            (0, "node_67.1795225129510000000"),
            (0, "node_68.1795225139510000000"),
            (1, "node_68.1795225129511000000"),
            (1, "node_67.1795225139511000000"),
        ];
        assert_eq!(
            split(&names),
            [
                "cycle1 0:node_67.1795225129510000000 1:node_68.1795225129511000000",
                "cycle2 0:node_68.1795225139510000000 1:node_67.1795225139511000000"
            ]
        );
        // if a rank lacks one, its order is ambiguous
        assert_eq!(split(&names[..3]), [""; 0]);
        // a time that two ranks share by chance has no meaning
        assert_eq!(
            split(&[
                (0, "a_1.1795225129"),
                (0, "a_1.1795225139"),
                (1, "b_2.1795225129"),
                (1, "b_2.1795225138")
            ]),
            [
                "cycle1 0:a_1.1795225129 1:b_2.1795225129",
                "cycle2 0:a_1.1795225139 1:b_2.1795225138"
            ]
        );
        // seconds before their decimals
        assert_eq!(
            split(&[(0, "1795225130.2-TP-0"), (0, "1795225129.51-TP-0")]),
            ["cycle1 0:1795225129.51-TP-0", "cycle2 0:1795225130.2-TP-0"]
        );
    }

    #[test]
    fn words_that_ranks_share_tell_recordings() {
        let names = [
            (0, "17.5-TP-0-EP-0-EXTEND.trace"),
            (0, "17.5-TP-0-EP-0-DECODE.trace"),
            (1, "17.5-TP-1-EP-0-EXTEND.trace"),
            (1, "17.5-TP-1-EP-0-DECODE.trace"),
        ];
        let expected = [
            "DECODE 0:17.5-TP-0-EP-0-DECODE.trace 1:17.5-TP-1-EP-0-DECODE.trace",
            "EXTEND 0:17.5-TP-0-EP-0-EXTEND.trace 1:17.5-TP-1-EP-0-EXTEND.trace",
        ];
        assert_eq!(split(&names), expected);
        // one rank's files may mean anything
        assert_eq!(split(&names[..2]), [""; 0]);
        assert_eq!(split(&names[..3]), [""; 0]);
        // two profiles of both stages
        let mut twice = names.to_vec();
        let later: Vec<String> = names
            .iter()
            .map(|(_, name)| name.replace("17.5", "18.5"))
            .collect();
        for ((rank, _), name) in names.iter().zip(&later) {
            twice.push((*rank, name.as_str()));
        }
        let cycles = split(&twice);
        assert_eq!(cycles.len(), 4, "{cycles:?}");
        assert_eq!(
            cycles[1],
            "DECODE-cycle2 0:18.5-TP-0-EP-0-DECODE.trace 1:18.5-TP-1-EP-0-DECODE.trace"
        );
    }

    #[test]
    fn names_of_kind_and_rank_alone_are_no_recordings() {
        let mut ranks = folder(&[(0, "a_0"), (0, "b_0"), (1, "a_1"), (1, "b_1")]);
        for [_, devices] in ranks.values_mut() {
            devices.iter_mut().for_each(|trace| trace.variant = false);
        }
        assert!(split_cycles(&ranks).is_none());
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
