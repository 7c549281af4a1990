//! Several recordings of a run in one folder, as `schedule(repeat=2)` writes them.
//!
//! ```text
//! torch_et_0.json               the host trace spans all cycles
//! kineto_trace_0.cycle1.json  ┐ names of a rank that differ in numbers alone:
//! kineto_trace_0.cycle2.json  ┘ each number is a cycle
//!
//! 17.5-TP-0-EXTEND.trace.json ┐ names of a rank that differ in words, which other ranks have too:
//! 17.5-TP-0-DECODE.trace.json ┘ each word is a recording
//! ```
//! Numbers that ranks share tell which files are of one cycle. Times differ by rank: there the first
//! of each rank are one cycle, the second of each rank, and so on.

use super::candidate::TraceCandidate;
use crate::storage;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What the name of a cycle begins with, where no word in the names does; its number follows.
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

/// Numbers from here on are times: seconds since 1970, or smaller units.
const FIRST_TIME: u128 = 1_000_000_000;

/// Host and device traces of each rank.
pub(super) type RankCandidates = BTreeMap<i64, [Vec<TraceCandidate>; 2]>;

/// The ranks of one cycle, and what the cycle is called.
pub(super) struct Cycle {
    pub(super) name: String,
    pub(super) ranks: RankCandidates,
}

/// The cycles of a folder.
pub(super) struct FolderCycles {
    pub(super) cycles: Vec<Cycle>,
    /// What there is, and by which rule.
    pub(super) note: String,
}

/// The cycles in their order; none where names do not tell them apart. O(files log files).
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
    // One observer writes one host trace, over all cycles; several have names like the device traces.
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
            // a note says which ranks a cycle lacks
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

/// Whether files of a folder are of a cycle that is called so.
pub(super) fn may_name_cycle(name: &str, folder: &Path) -> bool {
    let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if word.len() < name.len() && COUNTING_WORDS.contains(&word) {
        return true;
    }
    // A word in the names, perhaps with more behind it. Names of files are none.
    let mut bytes = name.bytes();
    let first = name.split('-').next().unwrap_or(name);
    !first.is_empty()
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && storage::list(folder).is_ok_and(|entries| {
            let mut files = entries.iter().filter(|entry| !entry.is_folder);
            files.any(|file| words(&file.name().to_string_lossy()).any(|other| other == first))
        })
}

/// A trace of a rank, with its name cut up.
struct NamedTrace {
    rank: i64,
    parts: NameParts,
    trace: TraceCandidate,
}

/// The traces that are of one recording: at most one of each rank.
struct Recording {
    name: String,
    /// Which words in the names tell it; empty for none.
    words: String,
    /// What in the names tells it apart from the others with these words.
    told_by: CycleRule,
    traces: BTreeMap<i64, TraceCandidate>,
}

/// By what files of several ranks are known to be of one cycle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CycleRule {
    /// There is one alone.
    Alone,
    /// The same number in their names, behind a word that explains it.
    CountingWord,
    /// The same number in their names.
    Number,
    /// Their place in the order of the numbers in their names.
    Order,
}

/// The names of a rank's traces; none where these are not several recordings of it.
fn named_traces(rank: i64, traces: &[TraceCandidate]) -> Option<Vec<NamedTrace>> {
    // `kineto_trace_0.json` beside `kineto_trace_0.run1.json` is the rank's own.
    let exact = traces.iter().filter(|trace| !trace.variant);
    if traces.len() > 1 && exact.count() == 1 {
        return None;
    }
    // Two recorders of one run are no two runs.
    let are_alike = traces.windows(2).all(|pair| pair[0].kind == pair[1].kind);
    // Files that say different ranks or sizes are of one recording: their names have local ranks.
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

/// Sorts traces by recordings, by words in their names and then by numbers.
fn recordings(traces: Vec<NamedTrace>) -> Option<Vec<Recording>> {
    let mut recordings = vec![];
    for (words, own) in split_by_words(traces)? {
        recordings.extend(split_by_numbers(words, own)?);
    }
    let names: BTreeSet<&str> = recordings.iter().map(|one| one.name.as_str()).collect();
    (names.len() == recordings.len()).then_some(recordings)
}

/// Host traces by recordings, with the names that those of the device traces have; none where they
/// do not fit these.
fn recordings_of_hosts(hosts: Vec<NamedTrace>, devices: &[Recording]) -> Option<Vec<Recording>> {
    let mut hosts = recordings(hosts)?;
    let names: BTreeSet<&str> = hosts.iter().map(|one| one.name.as_str()).collect();
    if devices.iter().all(|one| names.contains(one.name.as_str())) {
        return Some(hosts);
    }
    // numbers that nothing explains have an order alone
    let are_explained = hosts
        .iter()
        .any(|one| !one.words.is_empty() || one.told_by == CycleRule::CountingWord);
    if are_explained || hosts.len() != devices.len() {
        return None;
    }
    for (host, device) in hosts.iter_mut().zip(devices) {
        host.name.clone_from(&device.name);
    }
    Some(hosts)
}

/// Groups of traces whose names have the same words, each called by those that the others lack. One
/// group without such words where all names of each rank have the same.
fn split_by_words(traces: Vec<NamedTrace>) -> Option<Vec<(String, Vec<NamedTrace>)>> {
    let mut texts_of: BTreeMap<i64, BTreeSet<Vec<String>>> = BTreeMap::new();
    let mut ranks_of: BTreeMap<Vec<String>, BTreeSet<i64>> = BTreeMap::new();
    for trace in &traces {
        let texts = trace.parts.texts();
        let own = texts_of.entry(trace.rank).or_default();
        own.insert(texts.clone());
        ranks_of.entry(texts).or_default().insert(trace.rank);
    }
    // Names of ranks may begin with the host's.
    if texts_of.values().all(|texts| texts.len() == 1) {
        return Some(vec![(String::new(), traces)]);
    }
    // Files of one rank that are called differently can be anything, and so can names of a kind and a
    // rank alone; what ranks share is meant so.
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
        // the same words between other signs: nobody knows what is meant
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

/// Traces whose names have the same words, by their numbers.
fn split_by_numbers(words: String, traces: Vec<NamedTrace>) -> Option<Vec<Recording>> {
    let mut by_rank: BTreeMap<i64, Vec<&NamedTrace>> = BTreeMap::new();
    for trace in &traces {
        by_rank.entry(trace.rank).or_default().push(trace);
    }
    let columns = telling_columns(&traces, &by_rank);
    let Some(first) = columns.first() else {
        return Some(vec![only_recording(words, by_rank)?]);
    };
    // as few numbers as tell the traces of each rank apart: another may be a process id
    let count = (1..=columns.len()).find(|count| are_distinct(&by_rank, &columns[..*count]))?;
    let columns = &columns[..count];
    let keys: Vec<BTreeSet<Vec<u128>>> =
        by_rank.values().map(|own| keys_of(own, columns)).collect();
    let all: BTreeSet<Vec<u128>> = keys.iter().flatten().cloned().collect();
    let are_same = keys.iter().all(|own| *own == all);
    let are_shared = all.len() < keys.iter().map(BTreeSet::len).sum::<usize>();
    // Two ranks can have begun at the same time by chance.
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
    let told_by = match (by_number, first.word) {
        (false, _) => CycleRule::Order,
        (true, Some(_)) => CycleRule::CountingWord,
        (true, None) => CycleRule::Number,
    };
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
            told_by,
            traces,
        });
    }
    Some(recordings)
}

/// The recording of traces whose numbers tell none; `None` where a rank has several.
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
        told_by: CycleRule::Alone,
        traces,
    })
}

/// A number at one place of all names, by which recordings can be told apart.
struct NumberColumn {
    /// How many numbers come behind it.
    from_end: usize,
    /// The word before it that says that it counts recordings.
    word: Option<&'static str>,
    /// Its numbers are times.
    is_time: bool,
}

/// The numbers that differ between traces of a rank, the surest first: those that a word explains, then
/// times, then the last (names begin with the process id, which says nothing of time).
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
        // a number that is explained tells also ranks with one trace apart
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

/// The numbers at one place of names.
fn numbers_at(traces: &[&NamedTrace], from_end: usize) -> BTreeSet<u128> {
    let traces = traces.iter();
    traces
        .map(|trace| trace.parts.number_at(from_end).1)
        .collect()
}

/// The word that stands before a number in all names.
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

/// Whether the numbers tell the traces of each rank apart.
fn are_distinct(by_rank: &BTreeMap<i64, Vec<&NamedTrace>>, columns: &[NumberColumn]) -> bool {
    let mut ranks = by_rank.values();
    ranks.all(|own| keys_of(own, columns).len() == own.len())
}

/// What to say of the recordings of a folder.
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
            format!("each rank has {count} device traces, whose names")
        }
        _ => "names of device traces".to_owned(),
    };
    let by_order = recordings.iter().any(|one| one.told_by == CycleRule::Order);
    let mut note = match (&words[..], by_order) {
        ([""], true) => format!(
            "{who} differ in numbers alone: {} cycles, each a run, by the order of these numbers",
            recordings.len()
        ),
        ([""], false) => format!(
            "{who} differ in numbers alone: {} cycles, each a run",
            recordings.len()
        ),
        _ => format!(
            "{who} say what they are of ({}): {} runs",
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

/// The words of a text: letters and digits.
fn words(text: &str) -> impl Iterator<Item = String> {
    let all = text.split(|c: char| !c.is_alphanumeric());
    all.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// A name, cut where digits begin and end.
#[derive(Default)]
struct NameParts {
    /// Numbers, each with the text before it.
    numbers: Vec<(String, u128)>,
    /// The text behind the last.
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
            // longer numbers than any clock has are text
            match digits.parse() {
                Ok(number) => parts.numbers.push((std::mem::take(&mut text), number)),
                Err(_) => text += digits,
            }
            rest = behind;
        }
        parts.tail = text;
        parts
    }

    /// A number, by how many come behind it, with the text before it.
    fn number_at(&self, from_end: usize) -> (&str, u128) {
        let place = self.numbers.len().checked_sub(from_end + 1);
        let found = place.and_then(|place| self.numbers.get(place));
        found.map_or(("", 0), |(text, number)| (text.as_str(), *number))
    }

    /// All that is no number.
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

    /// Device traces of ranks, by their names.
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

    /// Each cycle with its ranks and their files.
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
        // also where each rank has one
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
        // of a rank that lacks one nobody knows which
        assert_eq!(split(&names[..3]), [""; 0]);
        // one that two ranks share by chance says nothing
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
        // one rank's files can be anything
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
