//! Builds the entries of a dump from its values.

use crate::flight_recorder::dump::{FlightDump, FlightEntry, FlightGroup, FlightState};
use crate::flight_recorder::{MAX_BAD_ENTRIES, no_entries};
use crate::pickle::{ValueIdx, ValueTree};
use etlink_model::{AnomalyKind, CollectiveKind, Failure, NameId, Names, UnixNs};

/// Extracts the known parts of a dump; ignores unknown keys, which new versions add.
pub(crate) fn dump_from_tree(
    tree: &ValueTree<'_>,
    bytes: u64,
    source_error: Option<String>,
) -> Result<FlightDump, Failure> {
    let mut dump = FlightDump {
        bytes,
        ..FlightDump::default()
    };
    let root = tree.root.ok_or_else(|| no_entries(bytes))?;
    let mut entries = None;
    for (key, value) in tree.pairs(root) {
        match &*key {
            "version" => dump.version = tree.text(value).into_owned(),
            "pg_config" => dump.groups = groups(tree, value),
            "pg_status" => {
                for (group, status) in tree.pairs(value) {
                    if let (Ok(group), Some(last)) = (group.parse(), last_completed(tree, status)) {
                        dump.completed.insert(group, last);
                    }
                }
            }
            "entries" => entries = Some(value),
            _ => {}
        }
    }
    let mut is_ended = tree.is_cut;
    match entries {
        Some(list) => {
            let items = tree.items(list);
            for (place, &item) in items.iter().enumerate() {
                // truncation inside the last entry is reported separately
                let is_cut_here = tree.is_cut && place + 1 == items.len();
                match entry(tree, item, &mut dump.names) {
                    Some(entry) => dump.entries.push(entry),
                    None if is_cut_here => {}
                    None => {
                        let at = || format!("entry {place}");
                        dump.anomalies.note(AnomalyKind::NamelessEntry, at);
                    }
                }
                let damaged = dump.anomalies.count(AnomalyKind::NamelessEntry);
                let is_other = damaged >= MAX_BAD_ENTRIES;
                if tree.is_exhausted() || is_other {
                    is_ended = true;
                    break;
                }
            }
        }
        // a dump that ends before its entries is still recognizable
        None if tree.is_cut && !dump.version.is_empty() => {}
        None => return Err(no_entries(bytes)),
    }
    if is_ended || tree.is_exhausted() {
        let last = dump.entries.len();
        dump.anomalies
            .note(AnomalyKind::Truncated, || format!("after {last} entries"));
    }
    if let Some(error) = source_error {
        dump.anomalies.note(AnomalyKind::SourceEnded, || error);
    }
    // The ring buffer is dumped from its oldest entry, but a dump merged by other programs may be
    // unordered.
    dump.entries.sort_by_key(|entry| entry.record);
    Ok(dump)
}

fn groups(tree: &ValueTree<'_>, list: ValueIdx) -> Vec<FlightGroup> {
    let mut groups = vec![];
    for (name, described) in tree.pairs(list) {
        let mut group = FlightGroup {
            name: name.into_owned(),
            ..FlightGroup::default()
        };
        for (key, value) in tree.pairs(described) {
            match &*key {
                "desc" => group.desc = tree.text(value).into_owned(),
                // the list as text, never truncated; some versions write a list
                "ranks" => group.ranks = ranks(tree, value),
                _ => {}
            }
        }
        groups.push(group);
    }
    groups
}

fn ranks(tree: &ValueTree<'_>, value: ValueIdx) -> Vec<u64> {
    let text = tree.text(value);
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    let parsed: Result<Vec<u64>, _> = inner.split(',').map(|rank| rank.trim().parse()).collect();
    let listed = tree.items(value).iter();
    let listed = listed.map(|rank| tree.int(*rank).and_then(|rank| u64::try_from(rank).ok()));
    let listed: Option<Vec<u64>> = listed.collect();
    parsed.ok().or(listed).unwrap_or_default()
}

fn last_completed(tree: &ValueTree<'_>, status: ValueIdx) -> Option<i64> {
    let mut numbers = tree.pairs(status);
    let (_, value) = numbers.find(|(key, _)| key == "last_completed_collective")?;
    tree.int(value)
}

/// Reads an entry; `None` for a value that is not a dict, or that has neither name nor time.
fn entry(tree: &ValueTree<'_>, item: ValueIdx, names: &mut Names) -> Option<FlightEntry> {
    let mut entry = FlightEntry {
        record: -1,
        group_id: -1,
        group_name: NameId::EMPTY,
        group_desc: NameId::EMPTY,
        number: -1,
        message_number: -1,
        is_message: false,
        name: NameId::EMPTY,
        kind: CollectiveKind::Other,
        peer: -1,
        created: UnixNs(0),
        in_sizes: NameId::EMPTY,
        out_sizes: NameId::EMPTY,
        in_elements: 0,
        out_elements: 0,
        dtype: NameId::EMPTY,
        state: FlightState::Scheduled,
        is_retired: false,
        timeout_ms: 0,
        place: NameId::EMPTY,
    };
    let mut out_dtype = NameId::EMPTY;
    for (key, value) in tree.pairs(item) {
        let int = || tree.int(value).unwrap_or(-1);
        match &*key {
            "record_id" => entry.record = int(),
            "pg_id" => entry.group_id = int(),
            "process_group" => {
                let mut parts = tree.items(value).iter().map(|part| tree.text(*part));
                entry.group_name = names.intern(&parts.next().unwrap_or_default());
                entry.group_desc = names.intern(&parts.next().unwrap_or_default());
            }
            // version 1 has a single number for both
            "collective_seq_id" | "seq_id" => entry.number = int(),
            "p2p_seq_id" => entry.message_number = int(),
            "is_p2p" => entry.is_message = tree.boolean(value).unwrap_or(false),
            "profiling_name" => entry.name = names.intern(&tree.text(value)),
            "time_created_ns" => entry.created = UnixNs(int()),
            "input_sizes" => (entry.in_sizes, entry.in_elements) = sizes(tree, value, names),
            "output_sizes" => (entry.out_sizes, entry.out_elements) = sizes(tree, value, names),
            "input_dtypes" => entry.dtype = first_text(tree, value, names),
            "output_dtypes" => out_dtype = first_text(tree, value, names),
            "state" => {
                entry.state = match &*tree.text(value) {
                    "completed" => FlightState::Completed,
                    "started" => FlightState::Started,
                    _ => FlightState::Scheduled,
                }
            }
            "retired" => entry.is_retired = tree.boolean(value).unwrap_or(false),
            "timeout_ms" => entry.timeout_ms = tree.number(value).map_or(0, |ms| ms as i64),
            "frames" => entry.place = names.intern(&calling_place(tree, value)),
            _ => {}
        }
    }
    // receives have no inputs
    entry.dtype = match entry.dtype {
        NameId::EMPTY => out_dtype,
        dtype => dtype,
    };
    let name = names.get(entry.name);
    (entry.kind, entry.peer) = kind_and_peer(name);
    let is_known = !name.is_empty() && entry.created.0 > 0;
    is_known.then_some(entry)
}

/// Parses `nccl:send 0->1`, `nccl:recv 1<-0`, `gloo:all_reduce`; sender and receiver are indices in
/// the group (`ProcessGroupNCCL.cpp`).
fn kind_and_peer(name: &str) -> (CollectiveKind, i64) {
    // library names may contain colons, op names do not (`Op` of PyTorch's `fr_trace`)
    let op = name.rsplit(':').next().unwrap_or(name);
    let (op, sides) = op.split_once(' ').unwrap_or((op, ""));
    let kind = CollectiveKind::from_name(op);
    let other = sides.split(['>', '<', '-']).rfind(|side| !side.is_empty());
    let peer = other.and_then(|side| side.trim().parse().ok());
    (kind, peer.unwrap_or(-1))
}

/// Returns list text and the number of elements of all tensors.
fn sizes(tree: &ValueTree<'_>, list: ValueIdx, names: &mut Names) -> (NameId, u64) {
    let (mut text, mut all) = (String::from("["), 0u64);
    for (place, &tensor) in tree.items(list).iter().enumerate() {
        text.push_str(if place == 0 { "[" } else { ", [" });
        let mut elements = 1u64;
        for (place, &dim) in tree.items(tensor).iter().enumerate() {
            let dim = tree.int(dim).unwrap_or(0);
            let comma = if place == 0 { "" } else { ", " };
            text.push_str(&format!("{comma}{dim}"));
            elements = elements.saturating_mul(u64::try_from(dim).unwrap_or(0));
        }
        text.push(']');
        all = all.saturating_add(elements);
    }
    text.push(']');
    (names.intern(&text), all)
}

fn first_text(tree: &ValueTree<'_>, list: ValueIdx, names: &mut Names) -> NameId {
    let first = tree.items(list).first();
    first.map_or(NameId::EMPTY, |first| names.intern(&tree.text(*first)))
}

/// Returns the innermost frame outside PyTorch, such as `train.py:31 step`; otherwise the innermost
/// frame.
fn calling_place(tree: &ValueTree<'_>, frames: ValueIdx) -> String {
    // frames to examine: deeper stacks belong to the program, and their innermost frames suffice
    const FRAMES: usize = 40;
    let mut innermost = String::new();
    for &frame in tree.items(frames).iter().take(FRAMES) {
        let (mut name, mut file, mut line) = (String::new(), String::new(), -1);
        for (key, value) in tree.pairs(frame) {
            match &*key {
                "name" => name = tree.text(value).into_owned(),
                "filename" => file = tree.text(value).into_owned(),
                "line" => line = tree.int(value).unwrap_or(-1),
                _ => {}
            }
        }
        let short = file.rsplit(['/', '\\']).next().unwrap_or(&file);
        let place = format!("{short}:{line} {name}");
        // Dumps may contain bare file names, so these two are recognized by name.
        let is_torch = file.contains("torch/distributed/")
            || matches!(short, "distributed_c10d.py" | "c10d_logger.py");
        if !is_torch {
            return place;
        }
        if innermost.is_empty() {
            innermost = place;
        }
    }
    innermost
}
