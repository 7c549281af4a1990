//! Distinguishes ranks from repeated recordings of one rank, by the recording process and time.
//!
//! Names do not distinguish a rank's second recording from another rank's. The process does: a rank
//! is one process, so two simultaneous recordings by different processes are two ranks.

use crate::Progress;
use crate::input;
use crate::rank_rule::RankRule;
use crate::text::{file_name, first_ranks};
use etlink_model::{Diagnostic, diagnostic};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::axes::{AXES, ends_in_axis, places};
use super::candidate::{Inside, TraceCandidate, natural_key};
use super::recorder::{Recorder, integer, nanoseconds, text_after};
use super::recordings::are_runs_by_name;

/// Number of bytes at the end of a file that are examined.
const TAIL: usize = 64 << 10;

/// Returns the start of the last events in a file, Unix time, ns. Reads the whole file.
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

/// Maximum difference between the starts of one run's recordings, ns: profilers are started by
/// hand, and clocks differ.
pub(super) const RUNS_APART_NS: i64 = 60_000_000_000;

/// Least number taken for a time or an id instead of a rank.
const FIRST_TIME: i64 = 1_000_000_000;

/// A device trace whose rank is inferred by comparison with others.
pub(super) struct Recording {
    /// Name of the trace, with the names of differing folders in front.
    pub(super) name: String,
    /// Folder that holds the traces of its node; `None` for traces of one folder.
    pub(super) node: Option<String>,
    pub(super) path: PathBuf,
    /// Rank after a word in the name, which may be local to the machine.
    pub(super) named: Option<i64>,
    pub(super) inside: Inside,
}

/// One rank per recording.
type Ranks = Vec<i64>;

/// Result of inferring the ranks of recordings.
pub(super) enum RankReading {
    /// Only one assignment fits.
    Settled(Ranks, RankRule),
    /// Two assignments fit equally well.
    Split([Ranks; 2]),
    /// No assignment is certain.
    Unknown,
}

/// Corrects the ranks of device traces that were recorded simultaneously and claim the same rank,
/// have no rank in their names, or have places along several axes. Such traces are not consecutive
/// recordings. If their ranks are ambiguous, adds a note with both interpretations. Returns false if
/// simultaneous traces of one rank are left, which are no cycles.
pub(super) fn separate_processes(
    candidates: &mut [TraceCandidate],
    notes: &mut Vec<Diagnostic>,
) -> bool {
    let devices: Vec<usize> = (0..candidates.len())
        .filter(|at| is_device(&candidates[*at]))
        .collect();
    if devices.len() < 2 {
        return true;
    }
    let recordings: Vec<Recording> = devices
        .iter()
        .map(|at| Recording::of(&candidates[*at]))
        .collect();
    let is_unnamed = devices.iter().all(|at| candidates[*at].rank.is_none());
    let own: Vec<Option<i64>> = devices.iter().map(|at| candidates[*at].rank).collect();
    let clash = first_clash(&recordings, &own);
    let what = match clash {
        Some((one, two)) => format!(
            "{} and {} both have rank {} in their names, but two processes recorded them at the same \
             time",
            file_name(&recordings[one].path),
            file_name(&recordings[two].path),
            own[one].unwrap_or_default(),
        ),
        None if is_unnamed && are_concurrent(&recordings) => format!(
            "{} processes recorded traces at the same time, without ranks in the file names",
            devices.len()
        ),
        None if has_several_axes(&recordings) => {
            "file names have positions along several axes".to_owned()
        }
        None => return true,
    };
    match read_ranks(&recordings) {
        RankReading::Settled(ranks, rule) => {
            let is_news = ranks
                .iter()
                .zip(&own)
                .any(|(rank, own)| Some(*rank) != *own);
            if is_news {
                notes.push(diagnostic!(
                    RanksInferred,
                    "{what}: read as one run, with ranks from {}",
                    rule.describe()
                ));
            }
            for (at, rank) in devices.iter().zip(ranks) {
                candidates[*at].rank = Some(rank);
                candidates[*at].told_by = rule.clone();
            }
        }
        RankReading::Split([one, two]) => {
            let unclear = diagnostic!(
                RankUnclear,
                "{what}: they are ranks {} or ranks {} of one run",
                first_ranks(&one),
                first_ranks(&two)
            );
            notes.push(unclear.advise("put the global rank in each name (`rank0`, `rank1`)"));
            for at in devices {
                candidates[at].rank = None;
                candidates[at].told_by = RankRule::UNKNOWN;
            }
        }
        RankReading::Unknown if clash.is_some() => {
            let world = World::of(&recordings);
            if are_runs_by_name(candidates, world.map(|world| world.size())) {
                notes.push(diagnostic!(
                    RanksInferred,
                    "{what}: read as separate runs, since their names differ alike"
                ));
                return true;
            }
            let unclear = diagnostic!(
                RankUnclear,
                "{what}: they are from two ranks of one run, or from two runs"
            );
            let remedy = "if they are from one run, put the global rank in each name (`rank0`, \
                          `rank1`); if not, put each run in its own folder";
            notes.push(unclear.advise(remedy));
            return false;
        }
        RankReading::Unknown => {}
    }
    true
}

fn is_device(candidate: &TraceCandidate) -> bool {
    candidate.kind.is_device_trace() && candidate.process.is_none()
}

impl Recording {
    fn of(candidate: &TraceCandidate) -> Recording {
        Recording {
            name: candidate.stem.clone(),
            node: None,
            path: candidate.path.clone(),
            named: candidate.rank,
            inside: candidate.inside.clone(),
        }
    }

    fn recorder(&self) -> &Recorder {
        &self.inside.recorder
    }

    /// Returns the numbers in the name, except times.
    fn numbers(&self) -> Vec<i64> {
        let parts = self.name.split(|c: char| !c.is_ascii_digit());
        let numbers = parts.filter_map(|digits| digits.parse().ok());
        numbers.filter(|number| *number < FIRST_TIME).collect()
    }

    /// Returns the number of the machine in the name of a trace that does not state its rank:
    /// `node0_rank1`, `host-1_gpu0`.
    fn named_node(&self) -> Option<i64> {
        const WORDS: [&str; 5] = ["node", "host", "machine", "server", "worker"];
        let is_stated = self.inside.rank.is_some() || self.node.is_some();
        let lower = self.name.to_lowercase();
        let mut words = WORDS.into_iter().flat_map(|word| {
            let places = lower.match_indices(word);
            places.map(|(at, word)| lower[at + word.len()..].trim_start_matches(['-', '_']))
        });
        let number = words.find_map(|rest| {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            rest[..digits].parse().ok()
        });
        if is_stated { None } else { number }
    }
}

/// Returns the end of a recording, Unix time, ns. Reads its file.
fn end_of(recording: &Recording) -> Option<i64> {
    last_time(&recording.path, recording.recorder().base_ns)
}

/// Returns the first two recordings of one rank that two processes made simultaneously.
fn first_clash(recordings: &[Recording], ranks: &[Option<i64>]) -> Option<(usize, usize)> {
    let mut by_rank: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (at, rank) in ranks.iter().enumerate() {
        if let Some(rank) = rank
            && recordings[at].recorder().start_ns.is_some()
        {
            by_rank.entry(*rank).or_default().push(at);
        }
    }
    for mut own in by_rank.into_values() {
        own.sort_by_key(|at| (recordings[*at].recorder().start_ns, *at));
        // a process makes one recording at a time, so overlapping ones are neighbours
        for pair in own.windows(2) {
            let (first, second) = (&recordings[pair[0]], &recordings[pair[1]]);
            if first.recorder().is_other_process(second.recorder())
                && end_of(first) > second.recorder().start_ns
            {
                return Some((pair[0], pair[1]));
            }
        }
    }
    None
}

/// Returns true if the recordings are from different processes, and began at about the same time.
pub(super) fn are_concurrent(recordings: &[Recording]) -> bool {
    let starts: Option<Vec<i64>> = recordings
        .iter()
        .map(|one| one.recorder().start_ns)
        .collect();
    let Some(starts) = starts else { return false };
    let Some((last, first)) = starts.iter().max().zip(starts.iter().min()) else {
        return false;
    };
    if last - first > RUNS_APART_NS {
        return false;
    }
    let hosts: BTreeSet<_> = recordings.iter().map(|one| &one.recorder().host).collect();
    let processes: BTreeSet<_> = recordings
        .iter()
        .filter_map(|one| Some((&one.recorder().host, one.recorder().process?)))
        .collect();
    let are_distinct = processes.len() == recordings.len();
    let is_known = World::of(recordings).is_some_and(|world| world.is_known());
    // a known world shows that the processes belong together, and clocks of machines differ
    if are_distinct && (is_known || hosts.len() > 1) {
        return true;
    }
    let mut order: Vec<&Recording> = recordings.iter().collect();
    order.sort_by_key(|one| one.recorder().start_ns);
    // Containers on several machines may have equal process ids, and copies begin at the same time.
    let mut last_end = None;
    (are_distinct || is_known)
        && order.windows(2).all(|pair| {
            let (one, two) = (pair[0].recorder(), pair[1].recorder());
            let is_copy = one.start_ns == two.start_ns && !one.is_other_process(two);
            last_end = last_end.max(end_of(pair[0]));
            !is_copy && last_end > two.start_ns
        })
}

/// Number of ranks, as far as the traces state it.
pub(super) struct World {
    /// Number stated by all traces that state one.
    stated: Option<i64>,
    /// Lower bound from the groups that collectives name.
    named: i64,
}

impl World {
    /// Returns the world of recordings; `None` if traces state two sizes: they are of two runs.
    pub(super) fn of(recordings: &[Recording]) -> Option<World> {
        let stated = recordings.iter().filter_map(|one| one.inside.world_size);
        let stated: BTreeSet<i64> = stated.collect();
        let named = recordings
            .iter()
            .filter_map(|one| one.recorder().largest_group());
        (stated.len() < 2).then_some(World {
            stated: stated.first().copied(),
            named: named.max().unwrap_or(0),
        })
    }

    pub(super) fn is_known(&self) -> bool {
        self.size() > 0
    }

    /// Returns the number of ranks; 0 if unknown.
    fn size(&self) -> i64 {
        self.stated.unwrap_or(self.named)
    }

    /// Returns true if the recordings may have these ranks: all are within the world, and in the
    /// groups that their collectives name. If the world is unknown, all ranks from 0 on must exist.
    fn fits(&self, recordings: &[Recording], ranks: &[i64]) -> bool {
        let distinct: BTreeSet<i64> = ranks.iter().copied().collect();
        let is_whole = |world: i64| distinct.iter().copied().eq(0..world);
        let count = distinct.len() as i64;
        let is_within = |world: i64| distinct.iter().all(|rank| (0..world).contains(rank));
        let are_several = distinct.len() < ranks.len();
        let is_within = match self.stated {
            Some(stated) if are_several => is_whole(stated),
            Some(stated) => is_within(stated),
            // the groups of the first few collectives may be parts of the world
            None => count >= self.named && is_whole(count) || !are_several && is_within(self.named),
        };
        let are_in_groups = recordings.iter().zip(ranks).all(|(one, rank)| {
            let mut groups = one.recorder().groups.iter();
            groups.all(|group| group.contains(rank))
        });
        let ranks: Vec<Option<i64>> = ranks.iter().copied().map(Some).collect();
        // a copy is not a later recording
        let recordings_of = recordings.iter().zip(&ranks);
        let starts = recordings_of.map(|(one, rank)| (rank, one.recorder().start_ns));
        let are_copies = starts.collect::<BTreeSet<_>>().len() < ranks.len();
        is_within
            && are_in_groups
            && !are_copies
            && (distinct.len() == ranks.len() || first_clash(recordings, &ranks).is_none())
    }
}

/// Infers the ranks of simultaneous recordings from the most certain source that fits.
pub(super) fn read_ranks(recordings: &[Recording]) -> RankReading {
    let Some(world) = World::of(recordings) else {
        return RankReading::Unknown;
    };
    let fits = |ranks: &Ranks| world.fits(recordings, ranks);
    let settled = |ranks: Option<Ranks>, rule: RankRule| {
        ranks
            .filter(fits)
            .map(|ranks| RankReading::Settled(ranks, rule))
    };
    let stated: Option<Ranks> = recordings.iter().map(|one| one.inside.rank).collect();
    if let Some(found) = settled(stated, RankRule::CONTENT) {
        return found;
    }
    let named: Option<Ranks> = recordings.iter().map(|one| one.named).collect();
    let named = named.filter(|ranks| ranks.iter().collect::<BTreeSet<_>>().len() == ranks.len());
    if !has_several_axes(recordings)
        && let Some(found) = settled(named, RankRule::of("`rank` in the name"))
    {
        return found;
    }
    let orders = if recordings.iter().any(|one| is_engine_name(&one.name)) {
        [AXES_OF_ENGINES, AXES]
    } else {
        [AXES, AXES_OF_ENGINES]
    };
    let by_axes = orders.map(|order| ranks_of_axes(recordings, &order, world.size()));
    let axes = RankRule::of("the positions in their names (TP, PP, DP, …)");
    let by_nodes = ranks_of_nodes(recordings, &world);
    let [first, second] = by_axes;
    for (readings, rule) in [
        (first, &axes),
        (second, &axes),
        (by_nodes, &RankRule::NODES),
    ] {
        let fitting: BTreeSet<Ranks> = readings.into_iter().filter(fits).collect();
        let mut fitting = fitting.into_iter();
        match (fitting.next(), fitting.next()) {
            (Some(one), Some(two)) => return RankReading::Split([one, two]),
            (Some(only), None) => return RankReading::Settled(only, rule.clone()),
            (None, _) => {}
        }
    }
    // two traces with the same rank in their names may be of two runs
    if !world.is_known() && recordings.iter().any(|one| one.named.is_some()) {
        return RankReading::Unknown;
    }
    let by_number = ranks_of_numbers(recordings)
        .into_iter()
        .find(|ranks| fits(ranks));
    let rule = RankRule::of("the number that differs in their names");
    if let Some(found) = settled(by_number, rule) {
        return found;
    }
    let hosts: BTreeSet<_> = recordings.iter().map(|one| &one.recorder().host).collect();
    let by_device = if hosts.len() > 1 {
        None
    } else {
        recordings
            .iter()
            .map(|one| first_device(&one.path))
            .collect()
    };
    let rule = RankRule::of("the device that each uses");
    let by_device = by_device.filter(|ranks: &Ranks| {
        ranks
            .iter()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .eq(0..ranks.len() as i64)
    });
    settled(by_device, rule).unwrap_or(RankReading::Unknown)
}

/// Axes whose sizes make up the world unless one is within another.
const GRID: [&str; 3] = ["tp", "pp", "dp"];

/// Axes of vLLM and SGLang, which count pipeline stages within each data-parallel engine.
const AXES_OF_ENGINES: [&str; 6] = ["tp", "pp", "dp", "cp", "ep", "dcp"];

/// Returns true if names are of vLLM or SGLang. Their stages are within data-parallel engines, so
/// names that list DP between TP and PP are of other programs.
fn is_engine_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    let at = |axis: &str| lower.find(axis);
    let is_dp_inner = at("tp") < at("dp") && at("dp") < at("pp") && at("tp").is_some();
    let is_engine = lower.contains("tp-") || lower.contains("_tp") && lower.contains("rank");
    is_engine && !is_dp_inner
}

/// Returns true if names without the word `rank` differ in places along at least two axes.
fn has_several_axes(recordings: &[Recording]) -> bool {
    let all: Vec<_> = recordings.iter().map(|one| places(&one.name)).collect();
    let varies = |axis: &str| {
        let places: BTreeSet<_> = all.iter().map(|own| own.get(axis)).collect();
        places.len() > 1
    };
    let has_word = |one: &Recording| {
        let lower = one.name.to_lowercase();
        let mut words = lower.match_indices("rank");
        words.any(|(at, _)| !ends_in_axis(&lower[..at]))
    };
    !recordings.iter().any(has_word) && AXES.into_iter().filter(|axis| varies(axis)).count() > 1
}

/// Returns the possible ranks from places along axes in this order. Uses the axis sizes that the
/// places show, or a larger size of one axis if those do not make up the world.
fn ranks_of_axes(recordings: &[Recording], order: &[&'static str], world: i64) -> Vec<Ranks> {
    let all: Vec<_> = recordings.iter().map(|one| places(&one.name)).collect();
    let is_everywhere = |axis: &&str| all.iter().all(|own| own.contains_key(axis));
    let mut axes: Vec<&str> = order.iter().copied().filter(is_everywhere).collect();
    let sizes = axes.iter().filter(|axis| GRID.contains(axis));
    let sizes = sizes.map(|axis| all.iter().map(|own| own[axis] + 1).max().unwrap_or(1));
    // if only a few ranks of a grid are present, a single axis may distinguish them
    let is_grid = sizes.product::<i64>() == world;
    if is_grid {
        axes.retain(|axis| GRID.contains(axis));
    }
    let Some((ranks, shown)) = mixed_radix(&all, &axes, None, is_grid) else {
        return vec![];
    };
    let factor = world / shown;
    if factor < 2 || world % shown != 0 {
        return vec![ranks];
    }
    let larger = axes
        .iter()
        .filter_map(|axis| mixed_radix(&all, &axes, Some((axis, factor)), false));
    let larger: BTreeSet<Ranks> = larger.map(|(ranks, _)| ranks).collect();
    larger.into_iter().collect()
}

/// Numbers places, from the innermost axis outwards. Also returns the number of places. Skips axes
/// that distinguish no further places: axes of experts and contexts may be within others. `larger`:
/// an axis with more places than are present, and the factor. `is_grid`: no axis is within another.
fn mixed_radix(
    all: &[BTreeMap<&'static str, i64>],
    axes: &[&str],
    larger: Option<(&str, i64)>,
    is_grid: bool,
) -> Option<(Ranks, i64)> {
    let mut ranks = vec![0; all.len()];
    let (mut stride, mut known, mut has_larger) = (1, 1, larger.is_none());
    for axis in axes {
        let own: Vec<i64> = all
            .iter()
            .filter_map(|own| own.get(axis).copied())
            .collect();
        let with = ranks
            .iter()
            .zip(&own)
            .map(|(rank, place)| rank + stride * place);
        let with: Ranks = with.collect();
        let distinct = with.iter().collect::<BTreeSet<_>>().len();
        let size = own.iter().max()? + 1;
        let factor = match larger {
            Some((name, factor)) if name == *axis => factor,
            _ => 1,
        };
        // an axis that distinguishes no further files is within the previous axes
        if distinct > known || factor > 1 && size == 1 || is_grid {
            (ranks, known) = (with, distinct);
            stride *= size * factor;
            has_larger |= factor > 1;
        }
    }
    (has_larger && (known > 1 || larger.is_some())).then_some((ranks, stride))
}

/// Returns the possible ranks from local ranks in the names, for consecutive nodes. A node is a
/// machine, or a folder or the node in the name if traces name no machine. Nodes are ordered by
/// their names, or else by the groups that their collectives name.
fn ranks_of_nodes(recordings: &[Recording], world: &World) -> Vec<Ranks> {
    let last_number = |one: &Recording| one.named_node().and(one.numbers().last().copied());
    let locals = recordings.iter();
    let locals: Option<Ranks> = locals
        .map(|one| one.named.or_else(|| last_number(one)))
        .collect();
    let Some(locals) = locals else {
        return vec![];
    };
    if !world.is_known() {
        return vec![];
    }
    let hosts: BTreeSet<_> = recordings.iter().map(|one| &one.recorder().host).collect();
    let by_host = hosts.len() > 1 && hosts.iter().all(|host| host.is_some());
    let node = |one: &Recording| match &one.recorder().host {
        Some(host) if by_host => host.clone(),
        _ => match (&one.node, one.named_node()) {
            (Some(folder), _) => folder.to_owned(),
            (None, node) => node.map_or(String::new(), |node| node.to_string()),
        },
    };
    let mut nodes: BTreeMap<String, (String, i64)> = BTreeMap::new();
    for one in recordings {
        let first = one
            .recorder()
            .groups
            .iter()
            .filter_map(|group| group.first());
        let first = first.max().copied().unwrap_or(0);
        let name = one.node.clone().unwrap_or_else(|| node(one));
        nodes.entry(node(one)).or_insert((name, first));
    }
    if nodes.len() < 2 {
        return vec![];
    }
    let count = nodes.len() as i64;
    let local_size = locals.iter().max().map_or(1, |most| most + 1);
    let mut by_name: Vec<&String> = nodes.keys().collect();
    by_name.sort_by_cached_key(|key| natural_key(&nodes[*key].0));
    let mut by_group = by_name.clone();
    by_group.sort_by_key(|key| nodes[*key].1);
    let mut found = vec![];
    for order in [by_name, by_group] {
        for size in [world.size() / count, local_size] {
            let numbered = recordings.iter().zip(&locals).map(|(one, local)| {
                let own = node(one);
                let place = order.iter().position(|name| **name == own).unwrap_or(0);
                place as i64 * size + local
            });
            let ranks: Ranks = numbered.collect();
            let are_distinct = ranks.iter().collect::<BTreeSet<_>>().len() == ranks.len();
            if size >= local_size && are_distinct {
                found.push(ranks);
            }
        }
    }
    found
}

/// Returns the possible ranks from numbers that differ between all names, the last numbers first.
/// Returns none if some recordings, but not all, are of one process: their numbers count recordings.
fn ranks_of_numbers(recordings: &[Recording]) -> Vec<Ranks> {
    let recorders = recordings.iter().map(Recording::recorder);
    let processes: BTreeSet<_> = recorders.map(|one| (&one.host, one.process)).collect();
    if processes.len() > 1 && processes.len() < recordings.len() {
        return vec![];
    }
    let mut all: Vec<Ranks> = recordings.iter().map(Recording::numbers).collect();
    let process = |one: &Recording| one.recorder().process;
    let mut named = recordings.iter().zip(&all);
    // in containers, the id of all processes may be 1
    if named.all(|(one, own)| process(one).is_some_and(|id| own.contains(&id))) {
        for (one, own) in recordings.iter().zip(&mut all) {
            own.retain(|number| Some(*number) != process(one));
        }
    }
    let most = all.iter().map(Vec::len).min().unwrap_or(0);
    let from_end =
        (0..most).map(|place| all.iter().map(|own| own[own.len() - 1 - place]).collect());
    let from_begin = (0..most).map(|place| all.iter().map(|own| own[place]).collect());
    let mut columns: Vec<Ranks> = from_end.chain(from_begin).collect();
    columns.retain(|ranks| ranks.iter().collect::<BTreeSet<_>>().len() == ranks.len());
    columns
}

/// Returns the device of the first device row. Reads the file up to that row.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_give_ranks_by_sizes() {
        let ranks = |stems: &[&str], order: &[&'static str]| {
            let recordings = stems.iter().map(|stem| Recording {
                name: (*stem).to_owned(),
                node: None,
                path: PathBuf::new(),
                named: None,
                inside: Inside::default(),
            });
            let recordings: Vec<Recording> = recordings.collect();
            ranks_of_axes(&recordings, order, 0).into_iter().next()
        };
        let sglang = ["1-TP-0-PP-0", "1-TP-0-PP-1", "1-TP-1-PP-0", "1-TP-1-PP-1"];
        assert_eq!(ranks(&sglang, &AXES_OF_ENGINES), Some(vec![0, 2, 1, 3]));
        // experts are within tensor-parallel groups
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
