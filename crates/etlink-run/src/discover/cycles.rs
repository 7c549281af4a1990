//! Several recordings of a run in one folder, as `schedule(repeat=2)` writes them.
//!
//! ```text
//! torch_et_0.json               the host trace spans all cycles
//! kineto_trace_0.cycle1.json  ┐ names of a rank that differ in numbers alone:
//! kineto_trace_0.cycle2.json  ┘ the first of each rank, the second of each rank, …
//! ```

use super::candidate::TraceCandidate;
use std::collections::{BTreeMap, BTreeSet};

/// What the name of a cycle begins with; its number follows.
pub(super) const CYCLE: &str = "cycle";

/// Host and device traces of each rank.
pub(super) type RankCandidates = BTreeMap<i64, [Vec<TraceCandidate>; 2]>;

/// The ranks of one cycle, and what the cycle is called.
pub(super) struct Cycle {
    pub(super) name: String,
    pub(super) ranks: RankCandidates,
}

/// The cycles in their order; none where the ranks do not all have as many device traces, more than
/// one, with names that differ in numbers alone. O(files log files).
pub(super) fn split_cycles(ranks: &RankCandidates) -> Option<Vec<Cycle>> {
    let with_devices = ranks.values().filter(|[_, devices]| !devices.is_empty());
    let mut counts = with_devices.map(|[_, devices]| devices.len());
    let count = counts.next().filter(|count| *count > 1)?;
    if counts.any(|other| other != count) {
        return None;
    }
    let mut cycles: Vec<Cycle> = (1..=count)
        .map(|number| Cycle {
            name: format!("{CYCLE}{number}"),
            ranks: RankCandidates::new(),
        })
        .collect();
    for (rank, [hosts, devices]) in ranks {
        let devices = in_order(devices)?;
        let hosts = match hosts.len() {
            0 | 1 => None,
            own if own == count => Some(in_order(hosts)?),
            _ => return None,
        };
        for (place, cycle) in cycles.iter_mut().enumerate() {
            // One observer writes one host trace, over all cycles.
            let host = match &hosts {
                Some(hosts) => vec![hosts[place].clone()],
                None => ranks[rank][0].clone(),
            };
            let device: Vec<TraceCandidate> = devices.get(place).cloned().into_iter().collect();
            cycle.ranks.insert(*rank, [host, device]);
        }
    }
    Some(cycles)
}

/// By the numbers in their names; none where the rest of the names differs, or no number does.
fn in_order(candidates: &[TraceCandidate]) -> Option<Vec<TraceCandidate>> {
    // `kineto_trace_0.json` beside `kineto_trace_0.run1.json` is the rank's own.
    let exact = candidates.iter().filter(|candidate| !candidate.variant);
    if candidates.len() > 1 && exact.count() == 1 {
        return None;
    }
    let mut keyed: Vec<(NameParts, &TraceCandidate)> = candidates
        .iter()
        .map(|candidate| (name_parts(&candidate.stem), candidate))
        .collect();
    let texts = keyed.first().map(|(parts, _)| parts.texts.clone());
    // Files that say different ranks or sizes are of one recording: their names have local ranks.
    let ranks: BTreeSet<Option<i64>> = candidates.iter().map(|one| one.inside.rank).collect();
    let worlds: BTreeSet<Option<i64>> =
        candidates.iter().map(|one| one.inside.world_size).collect();
    if ranks.len() > 1 || worlds.len() > 1 {
        return None;
    }
    let are_alike = keyed
        .iter()
        .all(|(parts, _)| Some(&parts.texts) == texts.as_ref());
    if !are_alike {
        return None;
    }
    // The last number first: names begin with the process id, which says nothing of time.
    keyed.sort_by(|(one, _), (other, _)| one.numbers.iter().rev().cmp(other.numbers.iter().rev()));
    let is_twice = keyed.windows(2).any(|pair| match pair {
        [(one, _), (next, _)] => one.numbers == next.numbers,
        _ => false,
    });
    if is_twice {
        return None;
    }
    Some(
        keyed
            .into_iter()
            .map(|(_, candidate)| candidate.clone())
            .collect(),
    )
}

/// A name, cut where digits begin and end.
#[derive(Default)]
struct NameParts {
    texts: Vec<String>,
    numbers: Vec<u128>,
}

fn name_parts(stem: &str) -> NameParts {
    let mut parts = NameParts::default();
    let mut rest = stem;
    while !rest.is_empty() {
        let text_end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (text, behind) = rest.split_at(text_end);
        parts.texts.push(text.to_owned());
        let digits_end = behind
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(behind.len());
        let (digits, behind) = behind.split_at(digits_end);
        // longer numbers than any clock has are text
        match digits.parse() {
            Ok(number) => parts.numbers.push(number),
            Err(_) if digits.is_empty() => {}
            Err(_) => parts.texts.push(digits.to_owned()),
        }
        rest = behind;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_at_numbers() {
        let parts = name_parts("node1_42.1795.pt.trace");
        assert_eq!(parts.texts, ["node", "_", ".", ".pt.trace"]);
        assert_eq!(parts.numbers, [1, 42, 1795]);
        // the tenth comes after the ninth
        assert!(
            name_parts("kineto_trace_0.cycle9").numbers
                < name_parts("kineto_trace_0.cycle10").numbers
        );
    }
}
